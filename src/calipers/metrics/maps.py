# SPDX-License-Identifier: Apache-2.0
"""Metrics on maps: average precision, AUROC, AUPRO, Dice and IoU of voxels, soft IoU of instances.

- `MapSettings`, the table ``[maps]`` of a protocol: how maps become objects, slices and batches.
- `Measure`: a quantity at a level with its options. One measure is one column of `Maps.sums`;
  `calipers.maps` measures it when a map is read.
- `PooledVoxels`: the voxels of all images together, counted by score, under many weightings.
- The metrics. At the level of the data set all voxels are ranked together, and weights multiply the
  voxels of an image. At the level of samples, slices and batches a value is the weighted mean over
  those that have one; a sample or slice without a positive voxel has none, and is counted. The
  evidence is `calipers.data.maps.Maps`.
- Curves over all voxels as families of numbers, so that every point gets its interval like any
  other metric. They are drawn, not listed in protocols; a bin of scores is one operating point.
- `calipers.metrics.soft_iou` has the soft IoU of instances.

Formulas and ties: `kernels.voxels` for voxels in bins, `kernels.voxel_ranking` for all scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_fields
from calipers.arrays import F64, I64, BlockCache
from calipers.data.cohort import Cohort
from calipers.data.maps import Histograms, Maps
from calipers.errors import UsageError, did_you_mean
from calipers.kernels import ragged, voxel_ranking, voxels
from calipers.kernels.resampling import digits, exact_product, joined, products
from calipers.metrics.base import Facts, MetricPlan, check_number, check_options

# Words of `MapSettings`.
AXES = ("x", "y", "z")
CONNECTIVITIES = ("full", "edges", "faces")
SCORES = ("max", "mean")
BEST_DICE, FPR = "best-dice", "fpr:"
LEVELS = ("dataset", "sample", "slice", "batch")
BEST = "best"
VARIANTS = ("tversky", "jaccard", "printed")
EMPTY = ("strict", "graded")
RATE = 0.05  # of false voxels, where none is named
COARSE = 3  # shift of the bins of replicates: 8,192 of them
MOST_DENSE = 400_000_000  # bytes; larger tables stay sparse
SLACK = 1e-9  # of a voxel: a recall of 0.07 of 100 voxels is 7 of them


@names_fields
@dataclass(frozen=True, slots=True)
class MapSettings:
    """The choices behind every number on maps.

    Predicted objects are connected components of the voxels whose score is at least the threshold:
    a number; or ``"fpr:0.05"``, the lowest score at which at most that share of the voxels outside
    of references is called; or ``"best-dice"``, the score of the largest pooled Dice on a
    ``tuning`` group of samples such as ``"split=tune"``, which is then left out of the evaluation.
    """

    threshold: float | str = 0.5
    tuning: str | None = None
    connectivity: str = "full"  # full: 8 or 26 neighbours; faces: 4 or 6; edges: 18
    least: int = 1  # voxels; smaller predicted objects are left out, and counted
    score: str = "max"  # of a predicted object: of its voxels the largest score, or their mean
    slices: str = "z"  # slices are cut across this axis
    batch: int = 8  # samples

    def __post_init__(self) -> None:
        choices = {"connectivity": CONNECTIVITIES, "score": SCORES, "slices": AXES}
        for name, words in choices.items():
            value = getattr(self, name)
            if value not in words:
                raise UsageError(f"maps: {name} is one of {', '.join(words)}, not {value!r}")
        for name in ("least", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"maps: {name} is a whole number of at least 1, not {value!r}")
        self._check_threshold()
        if self.tuning is not None and (
            "=" not in self.tuning or not all(self.tuning.partition("=")[::2])
        ):
            raise UsageError(
                f"maps: tuning names a group of samples, such as split=tune, not {self.tuning!r}"
            )

    def _check_threshold(self) -> None:
        threshold = self.threshold
        if threshold == BEST_DICE:
            if self.tuning is None:
                raise UsageError(
                    "maps: the best threshold must be chosen on other samples than it is judged "
                    "on; name them, such as tuning = 'split=tune'"
                )
        elif isinstance(threshold, str):
            if self.rate is None or not 0 < self.rate < 1:
                raise UsageError(
                    f"maps: threshold is a number, 'fpr:0.05' or 'best-dice', not {threshold!r}"
                )
        elif isinstance(threshold, bool) or not 0 < threshold <= 1:
            raise UsageError(f"maps: threshold is a score above 0 and at most 1, not {threshold!r}")

    @property
    def rate(self) -> float | None:
        """The rate of false voxels of ``"fpr:0.05"``."""
        return rate_of(self.threshold)

    @property
    def is_rule(self) -> bool:
        """Whether the threshold is a rule on the maps, which are then read twice."""
        return isinstance(self.threshold, str)

    def as_dict(self) -> dict[str, Any]:
        """Return the table for TOML and JSON; what is not set is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> MapSettings:
        """Return the settings of a table; an unknown key is an error that names the nearest one."""
        keys = list(cls.__dataclass_fields__)
        for key in table:
            if key not in keys:
                raise UsageError(f"maps has no {key!r}; {did_you_mean(key, keys)}")
        return cls(**table)


def rate_of(text: Any) -> float | None:
    """Return 0.05 of ``"fpr:0.05"``, None of anything else."""
    if not isinstance(text, str) or not text.startswith(FPR):
        return None
    try:
        rate = float(text.removeprefix(FPR))
    except ValueError:
        return None
    return rate if math.isfinite(rate) else None


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity of a map at a level."""

    quantity: str
    level: str = "dataset"
    # Dice and IoU: the best of all thresholds, one threshold, or that of a rate of false voxels
    at: float | str = BEST
    limit: float = 0.3  # AUPRO: the rate of false voxels up to which is integrated
    alpha: float = 0.5  # softIoU: the weight of false voxels
    variant: str = "tversky"  # softIoU
    empty: str = "strict"  # softIoU: how samples without objects are scored

    @classmethod
    def of(cls, quantity: str, levels: Sequence[str], plan: MetricPlan) -> Measure:
        """Return the measure that a plan asks for, at one of the levels of its quantity."""
        options: dict[str, Any] = dict(plan.options)
        level = options.get("level", levels[0])
        if level not in levels:
            raise UsageError(
                f"metric {plan.name!r}: level is one of {', '.join(levels)}, not {level!r}"
            )
        for name in ("limit", "alpha"):
            check_number(plan, name, least=0.0)
            if options.get(name, 0) > 1:
                raise UsageError(
                    f"metric {plan.name!r}: {name} lies in [0, 1], got {options[name]!r}"
                )
        if options.get("limit", 1) == 0:
            raise UsageError(f"metric {plan.name!r}: limit is above 0")
        if options.get("variant", VARIANTS[0]) not in VARIANTS:
            raise UsageError(f"metric {plan.name!r}: variant is one of {', '.join(VARIANTS)}")
        if options.get("empty", EMPTY[0]) not in EMPTY:
            raise UsageError(f"metric {plan.name!r}: empty is one of {', '.join(EMPTY)}")
        measure = cls(quantity, **{**options, "level": level})
        measure._check_at(plan)
        return measure

    def _check_at(self, plan: MetricPlan) -> None:
        """A name that claims a threshold has to have it."""
        number = isinstance(self.at, int | float) and not isinstance(self.at, bool)
        if not (number and 0 < float(self.at) <= 1) and self.at != BEST and self.rate is None:
            raise UsageError(
                f"metric {plan.name!r}: at is a score, 'best' or '{FPR}0.05', not {self.at!r}"
            )
        # "Dice@0.5" with another threshold would be read as what its name says.
        _, sign, claim = plan.name.partition("@")
        text = self.at if isinstance(self.at, str) else f"{self.at:g}"
        if sign and claim != text:
            raise UsageError(
                f"metric {plan.name!r} claims {claim}, but its option at is {text}: rename the "
                "metric or set at"
            )

    @property
    def rate(self) -> float | None:
        """The rate of false voxels of ``at = "fpr:0.05"``."""
        return rate_of(self.at)

    @property
    def is_graded(self) -> bool:
        """Whether samples without objects are scored against the mean object of the data set."""
        return self.empty == "graded"

    @property
    def threshold(self) -> float | None:
        """The score from which a voxel is called, where it is a given number."""
        return None if isinstance(self.at, str) else float(self.at)

    @property
    def pooled(self) -> bool:
        """Whether it is made of the scores of all voxels together, not of numbers per image."""
        return self.level == "dataset" and self.threshold is None

    @property
    def ranked_in_batches(self) -> bool:
        """Whether it is made of the scores of all voxels of a batch together."""
        return self.level == "batch" and self.threshold is None

    @property
    def definition(self) -> str:
        """The part of its identifier that tells it from its relatives: ``sample``,
        ``dataset.best``, ``jaccard``.
        """
        if self.quantity == "softIoU":
            return f"{self.variant}.graded" if self.is_graded else self.variant
        if self.quantity not in ("Dice", "IoU"):
            return self.level
        if self.rate is not None:
            return f"{self.level}.fpr"
        return f"{self.level}.{BEST if self.threshold is None else 'threshold'}"

    @property
    def empty_key(self) -> str:
        """Of a graded soft IoU: where the sum of scores of a sample without objects stands (0 with
        objects), and the voxels of all objects.
        """
        return f"{self.key},empty"

    @property
    def key(self) -> str:
        """A name that says everything: equal measures have equal keys."""
        choices = {
            "AUPRO": f"@{self.limit:g}",
            "Dice": f"@{self.at}",
            "IoU": f"@{self.at}",
            "softIoU": f"@{self.variant},{self.alpha:g}{',graded' if self.is_graded else ''}",
        }
        return f"{self.quantity}/{self.level}{choices.get(self.quantity, '')}"


@dataclass(frozen=True)
class PooledVoxels:
    """Voxels by ascending score, (R, B): in references, outside of them, and shares of references;
    (R,) references.
    """

    positives: F64
    negatives: F64
    overlap: F64
    regions: F64
    inexact: NDArray[np.bool_]  # (B,) whether a column holds more than one score
    _cache: dict[float, voxels.PooledFigures] = field(default_factory=dict)

    def figures(self, rate: float = RATE) -> voxels.PooledFigures:
        """Return the values of all metrics on voxels, computed once."""
        if rate not in self._cache:
            self._cache[rate] = voxels.from_histograms(
                self.positives, self.negatives, rate, self.inexact
            )
        return self._cache[rate]


def value_of(voxels: PooledVoxels, measure: Measure) -> F64:
    """Return (R,) a measure of voxels that are counted by score.

    NaN without a positive voxel, and for areas under a curve also without a negative one.
    """
    if measure.quantity == "AUPRO":
        return voxel_ranking.area_to_limit(
            voxels.overlap, voxels.regions, voxels.negatives, measure.limit
        )
    figures = voxels.figures(RATE if measure.rate is None else measure.rate)
    if measure.quantity in ("AP", "AUROC"):
        return figures.ap if measure.quantity == "AP" else figures.auroc
    dice = figures.dice if measure.rate is None else figures.rate_dice
    # IoU from Dice, so that both name the same threshold as their best.
    return dice if measure.quantity == "Dice" else dice / (2.0 - dice)


class Tables:
    """The histograms of some images as matrices, over the bins that occur; products with weights
    pool them.
    """

    def __init__(self, histograms: Histograms) -> None:
        self.used, self._column = np.unique(histograms.bin, return_inverse=True)
        self._histograms = histograms
        self.inexact = histograms.lowest[self.used] < histograms.highest[self.used]

    @cached_property
    def _matrices(self) -> tuple[list[Any], int]:
        """Positives, negatives, and the digits of the overlaps with their exponent; each (n_images,
        n_columns).
        """
        histograms = self._histograms
        # Split into whole numbers: their sums are the same on every processor.
        overlap, exponent = digits(histograms.overlap)
        columns = [histograms.positives, histograms.negatives, *overlap]
        shape = len(histograms.offsets) - 1, len(self.used)
        image = ragged.owners(histograms.offsets)
        # Dense products are several times faster; large cohorts with many scores would not fit.
        if 8 * shape[0] * shape[1] * len(columns) <= MOST_DENSE:
            tables = []
            for values in columns:
                table = np.zeros(shape)
                table[image, self._column] = values
                tables.append(table)
            return tables, exponent
        from scipy.sparse import csr_array

        matrices = []
        for values in columns:
            content = (values.astype(np.float64), self._column, histograms.offsets)
            matrices.append(csr_array(content, shape=shape))
        return matrices, exponent

    def pooled(self, weights: I64, references: I64) -> PooledVoxels:
        """Return the pooled voxels of every replicate. Sums of whole numbers below 2^53 are exact
        in any order.
        """
        tables, exponent = self._matrices
        positives, negatives, *overlap = products(weights, tables)
        return PooledVoxels(
            positives,
            negatives,
            joined(overlap, exponent),
            (weights @ references).astype(np.float64),
            self.inexact,
        )


def pool_voxels(evidence: Maps, weights: I64) -> PooledVoxels:
    """Return the pooled voxels of an evidence; the last block of weights is cached, because all
    metrics need it.

    A single weighting uses all bins. Replicates, which only show how much a value varies, use
    fewer, because the time of each grows with the bins: 128 in every octave of the distance to 0 or
    1.
    """
    cache: dict[str, Any] = evidence.__dict__.setdefault("_pooling", {})
    key = "one" if len(weights) == 1 else "many"
    if key not in cache:
        histograms = evidence.histograms
        cache[key] = Tables(histograms if len(weights) == 1 else histograms.coarsened(COARSE))
    tables: Tables = cache[key]
    blocks: BlockCache = cache.setdefault("blocks", BlockCache())
    return blocks.get(weights, lambda: tables.pooled(weights, evidence.references))


@dataclass(frozen=True)
class MapRecipe:
    """Takes the evidence from the cohort: maps are examined when they are read."""

    measures: tuple[Measure, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """All metrics on maps share one evidence."""
        return ("maps",)

    def merge(self, other: MapRecipe) -> MapRecipe:
        """Return the recipe that serves both."""
        return MapRecipe(tuple(dict.fromkeys((*self.measures, *other.measures))))

    def collect(self, cohort: Cohort, model: str) -> Maps:
        """Return the evidence of a model."""
        if model not in cohort.maps:
            raise UsageError(
                "metrics on voxels need maps: use evaluate_maps or calipers maps instead of "
                "evaluate"
            )
        maps = cohort.maps[model]
        for measure in self.measures:
            # Maps are gone by now: what was not measured when they were read cannot be.
            if not measure.pooled and measure.key not in maps.sums:
                hint = did_you_mean(measure.key, maps.sums)
                raise UsageError(f"{measure.key} was not measured when the maps were read; {hint}")
        return maps


class MapMetric:
    """Base of the metrics on maps."""

    own_matching = True  # thresholds and criteria of the protocol play no part
    defaults: tuple[str, ...] = ()
    own_options: tuple[str, ...] = ("level",)
    levels: tuple[str, ...] = LEVELS  # at which it is defined, the default first
    quantity = ""
    facts: Facts

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, self.own_options, matching=())
        self.measures = tuple(Measure.of(self.quantity, self.levels, plan) for plan in plans)
        self.recipe = MapRecipe(self.measures)
        kind, version = self.facts.id.split("@")
        self.facts = replace(
            self.facts,
            names=tuple(plan.name for plan in plans),
            ids=tuple(f"{kind}.{measure.definition}@{version}" for measure in self.measures),
        )

    def value(self, evidence: Maps, weights: I64) -> F64:
        """Return (R, 1, n_names)."""
        columns = [self._column(evidence, measure, weights) for measure in self.measures]
        return np.stack(columns, axis=1)[:, None, :]

    def _column(self, evidence: Maps, measure: Measure, weights: I64) -> F64:
        if not measure.pooled:
            values = ratio_of_sums(exact_product(weights, evidence.sums[measure.key]))
            if measure.level == "dataset":
                # False voxels alone make a ratio of 0, but there was nothing to find.
                values[weights @ evidence.references == 0] = np.nan
            return values
        # The point value from all scores, where they were kept; replicates use bins.
        if len(weights) == 1 and (weights == 1).all() and measure.key in evidence.exact_values:
            return np.array([evidence.exact_values[measure.key]])
        return value_of(pool_voxels(evidence, weights), measure)

    def reasons(self, evidence: Maps) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no image, nothing to find, or every voxel is to be
        found.
        """
        value = self.value(evidence, np.ones((1, evidence.n_images), np.int64))[0]
        why = "single_category" if evidence.references.any() else "no_references"
        if not evidence.n_images:
            why = "no_objects"
        return {(int(row), int(k)): why for row, k in np.argwhere(np.isnan(value))}

    def counts(self, evidence: Maps, weights: I64) -> I64:
        """Return (1, n_names, 3): images, references and predicted objects."""
        row = [weights.sum(), weights @ evidence.references, weights @ evidence.predictions]
        return np.tile(np.array(row, np.int64), (1, len(self.measures), 1))

    def support(self, evidence: Maps, unit: I64, n_units: int) -> I64:
        """Return (1, n_names, 3): units with a value, that can be in error, that are in error."""
        table = np.zeros((1, len(self.measures), 3), np.int64)
        for k, measure in enumerate(self.measures):
            needed, tried, wrong = self._judged(evidence, measure)
            for entry, flags in enumerate((needed, tried, wrong)):
                table[0, k, entry] = len(np.unique(unit[flags]))
        return table

    def _judged(self, evidence: Maps, measure: Measure) -> tuple[NDArray[np.bool_], ...]:
        """Return three flags per image. Where all voxels are ranked together no image is free of
        error.
        """
        if measure.pooled:
            has = evidence.references > 0
            # Any voxel may stand before or behind any other, of whatever image.
            return has, np.ones_like(has), np.ones_like(has)
        total, number = evidence.sums[measure.key].T
        return number > 0, number > 0, total < number


def ratio_of_sums(sums: F64) -> F64:
    """Return (R,) the first of two columns over the second, NaN where it is 0."""
    quotient: F64 = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=quotient, where=sums[:, 1] > 0)
    return quotient


class VoxelAveragePrecision(MapMetric):
    """The mean precision over the positive voxels, each at its own score; equal scores are one
    operating point.
    """

    quantity = "AP"
    facts = Facts(
        id="voxel-ap@1",
        short={
            "AP/dataset": {},
            "AP/sample": {"level": "sample"},
            "AP/slice": {"level": "slice"},
        },
        per_class=False,
        swap=False,
        word="average precision of voxels",
        meaning=(
            "Of all voxels ranked by score: the precision at every reference voxel, averaged. Over "
            "the data set all voxels are one ranking; each sample or slice has its own, and those "
            "without references have no value. Large references count most."
        ),
        page="explanation/maps.md",
    )


class VoxelAuroc(MapMetric):
    """The chance that a positive voxel scores higher than a negative one, ties counting half."""

    quantity = "AUROC"
    facts = Facts(
        id="voxel-auroc@1",
        short={
            "AUROC/dataset": {},
            "AUROC/sample": {"level": "sample"},
            "AUROC/slice": {"level": "slice"},
        },
        per_class=False,
        swap=False,
        word="AUROC of voxels",
        meaning=(
            "The probability that a reference voxel scores higher than another one. Near 1 for "
            "almost any model if references are small: the easy background counts most."
        ),
        page="explanation/maps.md",
    )


class Aupro(MapMetric):
    """The mean overlap of the references as a function of the rate of false voxels, up to a limit
    [1]_.

    References
    ----------
    .. [1] Bergmann et al., The MVTec anomaly detection dataset, IJCV 2021.
    """

    quantity = "AUPRO"
    own_options = ("level", "limit")
    levels = ("dataset", "sample")
    facts = Facts(
        id="aupro@1",
        short={"AUPRO": {}},
        per_class=False,
        swap=False,
        word="AUPRO",
        meaning=(
            "The mean share of every reference that is called positive, as a function of the share "
            "of other voxels called positive, up to 0.3 of them: all references count the same, "
            "whatever their size."
        ),
        citations=(
            "Bergmann P, et al. The MVTec anomaly detection dataset: a comprehensive real-world "
            "dataset for unsupervised anomaly detection. Int J Comput Vis 2021;129:1038-1059.",
        ),
        page="explanation/maps.md",
    )


class VoxelDice(MapMetric):
    """Twice the common voxels over the sum of both: at the best or a given threshold, or a rate of
    false voxels.
    """

    quantity = "Dice"
    own_options = ("level", "at")
    facts = Facts(
        id="voxel-dice@1",
        short={"Dice": {}, "Dice/sample": {"level": "sample"}},
        synonyms={"DSC": "Dice", "DICE-score": "Dice"},
        claim="at",
        per_class=False,
        swap=False,
        word="Dice of voxels",
        meaning=(
            "Twice the number of reference voxels called positive, over the number of voxels "
            "called positive plus that of reference voxels: at the threshold that is best on these "
            "same images, which is optimistic, or at a given one."
        ),
        page="explanation/maps.md",
    )


class VoxelIou(MapMetric):
    """The common voxels over those of either set: at the best or a given threshold, or a rate of
    false voxels.
    """

    quantity = "IoU"
    own_options = ("level", "at")
    facts = Facts(
        id="voxel-iou@1",
        short={"IoU": {}, "IoU/sample": {"level": "sample"}},
        synonyms={"Jaccard": "IoU"},
        claim="at",
        per_class=False,
        swap=False,
        word="IoU of voxels",
        meaning=(
            "The number of reference voxels called positive, over the number of voxels that are "
            "called positive or belong to references; Dice / (2 - Dice)."
        ),
        page="explanation/maps.md",
    )


class VoxelCurve(MapMetric):
    """Base of curves: one number per place on the x axis."""

    word = ""

    def __init__(self, places: Sequence[float]) -> None:
        self.places = np.array(places, np.float64)
        # Only `pooled` is asked of it.
        self.measures = (Measure("AUROC"),) * len(places)  # all voxels together
        self.recipe = MapRecipe(())
        names = tuple(f"{self.word}@{place:g}" for place in places)
        self.facts = replace(self.facts, names=names)

    def value(self, evidence: Maps, weights: I64) -> F64:
        """Return (R, 1, n_places); NaN without a positive voxel, of rates also without a negative
        one.
        """
        voxels = pool_voxels(evidence, weights)
        # From the highest score down.
        hits = np.cumsum(voxels.positives[:, ::-1], axis=1)
        alarms = np.cumsum(voxels.negatives[:, ::-1], axis=1)
        return np.stack([self._curve(*row) for row in zip(hits, alarms)])[:, None, :]

    def _curve(self, hits: F64, alarms: F64) -> F64:
        """Return (n_places,) from the numbers of voxels of either kind at and above ever lower
        scores.
        """
        raise AssertionError("every curve says how it is made")


class SensitivityCurve(VoxelCurve):
    """The share of reference voxels that are called, at shares of the other voxels that are called:
    the ROC curve.

    Between two operating points it is a straight line, so that the area below it is the AUROC.
    """

    word = "TPR"
    facts = Facts(id="voxel-roc@1", per_class=False, swap=False)

    def _curve(self, hits: F64, alarms: F64) -> F64:
        if not len(hits) or not hits[-1] or not alarms[-1]:
            return np.full(len(self.places), np.nan)
        rate, share = np.append(0.0, alarms / alarms[-1]), np.append(0.0, hits / hits[-1])
        # of points with the same rate, the one with the highest share
        before = np.searchsorted(rate, self.places, side="right") - 1
        after = np.minimum(before + 1, len(rate) - 1)
        gap = rate[after] - rate[before]
        way = np.divide(self.places - rate[before], gap, out=np.zeros(len(gap)), where=gap > 0)
        return np.asarray(share[before] + way * (share[after] - share[before]))


class VoxelPrecisionCurve(VoxelCurve):
    """The share of called voxels that are of references, at the highest score that reaches a
    recall.
    """

    word = "precision"
    facts = Facts(id="voxel-precision@1", per_class=False, swap=False)

    def _curve(self, hits: F64, alarms: F64) -> F64:
        if not len(hits) or not hits[-1]:
            return np.full(len(self.places), np.nan)
        # Without the slack a recall that is met exactly may be rounded past its voxel.
        first = np.searchsorted(hits, self.places * hits[-1] - SLACK)
        return np.asarray(hits[first] / (hits[first] + alarms[first]))
