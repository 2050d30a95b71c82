# SPDX-License-Identifier: Apache-2.0
"""What a metric is: a recipe, a value, and its facts; and the two bases of metrics on matches.

The recipe collects evidence once (expensive); the value is computed from the evidence and the
weights of the images (cheap), again for every bootstrap replicate. `Facts` hold everything else
that anyone knows about a metric: bounds and direction for the statistics, words, meaning and
citations for the report and the documentation. So a new metric is one file and one line in
`calipers.registry`; nothing else names it.

In come the plans of a protocol (`MetricPlan`), all of one kind; `calipers.evaluation` collects the
evidence and `calipers.statistics` asks for values under weights.

`MatchMetric` is the base of all metrics on matches: views from plans, the numbers of images and
objects behind a value, and the reason of an undefined one. `PairedMetric` is that of the metrics on
the similarity of hits to their references: one view each, and weighted sums and medians of
similarities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.assignment import HIT, IGNORED
from calipers.kernels.resampling import MedianTable, SumTable
from calipers.matching.assign import MatchRecipe, PairRecipe
from calipers.matching.criteria import Criterion
from calipers.matching.matches import COUNTED, Matches, View

# The source of two kinds of metrics, on maps and on the instances in them.
REVISITING = "Zimmerer D, Maier-Hein K. Revisiting anomaly localization metrics. 2024."

MATCHING_OPTIONS = (
    "criterion",
    "assignment",
    "thresholds",
    "classes",
    "max_dets",
    "score_cut",
    "ties",
    "strict",
    "duplicates",
    "size",
)
# The limit of predictions for the matching: `Protocol.resolved` adds it, users may not set it.
DERIVED_OPTION = "match_dets"

Sides = tuple[str, ...]  # of "references", "predictions" and "hits"

ROUNDING = 1e-9  # of coordinates: a hit that is nearer than this to perfect is perfect
SUMMARIES = ("mean", "median")


class Evidence(Protocol):
    """The result of the expensive part, image by image."""

    @property
    def n_images(self) -> int:
        """Number of images."""
        ...

    def take(self, images: I64) -> Self:
        """Return the evidence of some images."""
        ...

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the evidence of all images of several parts."""
        ...


E = TypeVar("E", bound=Evidence)
E_co = TypeVar("E_co", bound=Evidence, covariant=True)
E_contra = TypeVar("E_contra", bound=Evidence, contravariant=True)


class Recipe(Protocol[E_co]):
    """How evidence is collected. Recipes with one key are merged and collected once, for several
    metrics.
    """

    @property
    def key(self) -> tuple[Any, ...]:
        """What two recipes must share to be merged."""
        ...

    def merge(self, other: Self) -> Self:
        """Return the recipe that serves both."""
        ...

    def collect(self, cohort: Cohort, model: str) -> E_co:
        """Do the expensive part for the images of a cohort: no reduction over images."""
        ...


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """One ``[[metric]]`` of a protocol, with the protocol's defaults filled in."""

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that statistics, report and documentation know about a metric.

    A class states what holds for all metrics of its kind; an object adds its names, and what
    depends on its options.
    """

    id: str  # "froc@1": goes to rows and run.json; the version changes whenever values change
    names: tuple[str, ...] = ()
    # one per name, where the names of a family are defined differently: "ap.coco101@1"
    ids: tuple[str, ...] = ()

    # For the statistics.
    bounds: tuple[float, float] = (0.0, 1.0)
    # one per name, where they differ within a family: a gain ends at 1, a count does not
    bounds_of_names: tuple[tuple[float, float], ...] = ()
    # what a share is of: there is no more to learn from than these; "own": see `OwnTrials`
    trials: Literal["images", "references", "predictions", "own"] = "references"
    counts_events: bool = False  # a value without upper bound is a number of events ...
    per_image: bool = True  # ... per image, or in all
    # names of means over thresholds and of graded scores: few units in error do not make their
    # spread unknown
    graded: frozenset[str] = frozenset()
    # names that are biased by more than bootstrap replicates show, and how many times the
    # bootstrap's bias their intervals reach further
    bias_reach: Mapping[str, float] = field(default_factory=dict)
    few_bias_reach: Mapping[str, float] = field(default_factory=dict)  # where errors are few
    mean_bias_reach: Mapping[str, float] = field(default_factory=dict)  # of means over classes
    # names that vary by less than a share of the references; common classes show by how much
    less_than_share: frozenset[str] = frozenset()
    # names that are sums of what errors cost, and what a lone error may cost, in references
    error_costs: Mapping[str, float] = field(default_factory=dict)
    costs_of_images: bool = False  # ... in images instead
    equal_costs: frozenset[str] = frozenset()  # ... of which every error costs the same
    # names that errors with such costs keep below the highest value, instead of above 0
    shortfalls: frozenset[str] = frozenset()
    higher_is_better: bool = True
    costs: frozenset[str] = frozenset()  # names of which less is better, though more of the others
    per_class: bool = True
    proportion: bool = False  # numerator / denominator over independent units: Wilson applies
    swap: bool = True  # exchanging two models' images is a fair null (not for AP: two score scales)
    class_means: frozenset[str] = frozenset()  # names whose pooled value is the mean over classes
    # names whose values move in steps, which the jackknife does not follow
    rough: frozenset[str] = frozenset()

    # For the warnings.
    ranks: bool = False  # predictions are ranked by score, so equal scores matter
    skips_classes: bool = False  # classes without references are left out of the class mean
    knows_ignored: bool = True  # False: ignored references are left out altogether

    # For tables, report and documentation.
    word: str = ""  # in a methods paragraph: "positive predictive value"; else the kind
    meaning: str = ""  # for readers who have never heard of it
    citations: tuple[str, ...] = ()
    matching: str = ""  # a sentence about a matching of its own
    claim: str = "thresholds"  # the option whose values stand behind the @ of a name
    # names by which the metric is asked for without a protocol, such as "F2", and their options
    short: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # what others call these: "recall" -> "sensitivity"; a hint on an unknown name knows it
    synonyms: Mapping[str, str] = field(default_factory=dict)
    # asked for without a threshold, it is the mean over all thresholds of the protocol
    over_thresholds: bool = False
    whole: frozenset[str] = frozenset()  # names whose values are whole numbers
    # units of the names whose values are no shares: "frames", "false alarms per minute"
    units: Mapping[str, str] = field(default_factory=dict)
    page: str = ""  # of the documentation, such as "explanation/froc.md"

    def lower_is_better(self, name: str) -> bool:
        """Return whether less is better of one of the names."""
        return not self.higher_is_better or name in self.costs

    @property
    def share_of_references(self) -> bool:
        """Whether a class is measured against a share of its references; gains are not."""
        return self.trials == "references" and self.bounds == (0.0, 1.0)

    def bounds_of(self, k: int) -> tuple[float, float]:
        """Return between which values the k-th name lies."""
        return self.bounds_of_names[k] if self.bounds_of_names else self.bounds

    def id_of(self, k: int) -> str:
        """Return the id of the k-th name, which does not depend on the others of its family."""
        return self.ids[k] if self.ids else self.id


class Metric(Protocol[E]):
    """A family of numbers computed from one evidence; built from the plans of one kind."""

    facts: Facts  # of the class: without names

    def __init__(self, plans: Sequence[MetricPlan]) -> None: ...

    @property
    def recipe(self) -> Recipe[E]:
        """How the evidence is collected."""
        ...

    def value(self, evidence: E, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names) for weights (R, n_images); entry 0 is pooled; NaN =
        undefined.
        """
        ...

    def reasons(self, evidence: E) -> Mapping[tuple[int, int], str]:
        """Return why point values are NaN: (class row, name) -> one of results.REASONS."""
        ...

    def counts(self, evidence: E, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3) for weights (n_images,): images, references and
        predictions behind it.
        """
        ...

    def support(self, evidence: E, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3) numbers of units, given the unit of every image.

        Units without which there is no value (those with references, for most metrics); units in
        which something could go wrong; units in which something did.
        """
        ...


class OwnTrials(Protocol[E_contra]):
    """A metric whose numbers are shares of different things, or of none of those it counts."""

    def trials(self, evidence: E_contra) -> I64:
        """Return (1 + n_classes, n_names): how many things every number is a share of."""
        ...


class UnitMarks:
    """Which units have something of which class."""

    def __init__(self, n_units: int, n_classes: int) -> None:
        # A row per class: long rows of units are quicker to count than short ones of classes.
        self.marks = np.zeros((n_classes, n_units), np.bool_)

    def add(self, unit: I64, label: NDArray[np.integer]) -> UnitMarks:
        """Mark the units and classes of some objects."""
        self.marks[label, unit] = True
        return self

    def add_places(self, places: I64) -> UnitMarks:
        """Mark units and classes by their place in the table, as `places_of` counts them."""
        self.marks.reshape(-1)[places] = True
        return self

    @staticmethod
    def places_of(unit: I64, label: NDArray[np.integer], n_units: int) -> I64:
        """Return the place of every unit and class in the table of so many units.

        Whoever marks many selections of the same objects makes them once: one index per object is
        three times as quick as two.
        """
        return label.astype(np.int64) * n_units + unit

    def counts(self) -> I64:
        """Return (1 + n_classes,): units with anything, then units with something of each class."""
        with_anything = self.marks.any(axis=0)
        return np.array([np.count_nonzero(row) for row in (with_anything, *self.marks)], np.int64)


@dataclass(frozen=True)
class Output:
    """One named number: the views it averages over and its options."""

    name: str
    views: tuple[View, ...]
    max_dets: int
    options: Mapping[str, Any]


class MatchMetric:
    """Base of the metrics whose evidence is `Matches`."""

    facts: Facts
    own_options: tuple[str, ...] = ()
    needed: Sides = ("references",)  # without these there is no value; nothing: it always has one
    # a unit with these can be in error; nothing: every unit can
    tried: Sides = ("references", "predictions")
    # whose fates can be an error; of hits: how far they are off
    judged: Sides = ("references", "predictions")

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, self.own_options, matching=(*MATCHING_OPTIONS, DERIVED_OPTION))
        self.outputs = tuple(_output(plan) for plan in plans)
        # Each view once, in the order of the outputs: the first is the one that pictures show.
        views: dict[View, None] = {}
        for output in self.outputs:
            views |= dict.fromkeys(output.views)
        self.recipe = MatchRecipe(tuple(views))
        self.facts = replace(
            self.facts,
            names=self.names,
            per_class=self.per_class,
            graded=frozenset(output.name for output in self.outputs if len(output.views) > 1),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(output.name for output in self.outputs)

    @property
    def per_class(self) -> bool:
        """Whether there are values per class; not where the matching ignores classes."""
        return all(view.within_class for view in self.recipe.views)

    def counts(self, evidence: Matches, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): images, counted references, counted predictions."""
        table = np.zeros((1 + evidence.n_classes, len(self.outputs), 3), np.int64)
        table[:, :, 0] = weights.sum()
        block = weights[None]  # one object: evidence knows the weights that it has seen last
        for k, output in enumerate(self.outputs):
            # Thresholds change who is a hit, not who is counted, except for predictions on ignored
            # references.
            view = evidence.indices(output.views)[0]
            references, predictions = evidence.totals(block, output.max_dets)
            table[1:, k, 1] = references[0, view, COUNTED]
            table[1:, k, 2] = predictions[0, view, COUNTED]
        table[0, :, 1:] = table[1:, :, 1:].sum(axis=0)
        return table

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values without references (or without any object) are undefined."""
        table = self.counts(evidence, np.ones(evidence.n_images, np.int64))
        why = {}
        for row, name in np.argwhere(self.undefined(table)).tolist():
            why[row, name] = self.reason(int(table[row, name, 1]), int(table[row, name, 2]))
        return why

    def support(self, evidence: Matches, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with what is `needed`, with what is `tried`,
        with an error.
        """
        table = np.zeros((1 + evidence.n_classes, len(self.outputs), 3), np.int64)
        of_references = UnitMarks.places_of(
            unit[evidence.reference_image], evidence.reference_label, n_units
        )
        of_predictions = UnitMarks.places_of(
            unit[evidence.prediction_image], evidence.prediction_label, n_units
        )
        numbers: dict[tuple[Any, ...], list[I64]] = {}
        for k, output in enumerate(self.outputs):
            key = (tuple(evidence.indices(output.views)), output.max_dets, self.sides(output))
            # Outputs that differ only in name, or in what they do with the counts, share this.
            if key not in numbers:
                places = of_references, of_predictions
                numbers[key] = self._units(evidence, *key, places, n_units)
            table[:, k] = np.stack(numbers[key], axis=1)
        return table

    def sides(self, output: Output) -> tuple[Sides, Sides, Sides]:
        """Return whose units are needed, tried and judged for one of the numbers."""
        return self.needed, self.tried, self.judged

    def off(self, evidence: Matches) -> Flags:
        """Return (n_predictions,): which hits are an error because they could be nearer. Most
        metrics do not look.
        """
        return np.zeros(len(evidence.score), np.bool_)

    def _units(
        self,
        evidence: Matches,
        views: tuple[int, ...],
        max_dets: int,
        sides: tuple[Sides, Sides, Sides],
        places: tuple[I64, I64],
        n_units: int,
    ) -> list[I64]:
        """Return the numbers of units per class row: needed, tried, in error.

        ``places`` are those of references and predictions, see `UnitMarks.places_of`.
        """
        of_reference, of_prediction = places
        within, fate = evidence.rank < max_dets, evidence.prediction_fate[views[0]]
        hits = (fate == HIT) & within
        valid = (evidence.reference_fate[views[0]] != IGNORED, (fate != IGNORED) & within, hits)
        missed = _missed_under(evidence, views, max_dets)
        wrong = (
            missed,
            wrong_under(evidence.prediction_fate, views) & within,
            hits & self.off(evidence),
        )

        def units_with(side: Sides, rows: tuple[Flags, Flags, Flags]) -> I64:
            if not side:  # every unit counts
                return np.full(1 + evidence.n_classes, n_units, np.int64)
            marks = UnitMarks(n_units, evidence.n_classes)
            if "references" in side:
                marks.add_places(of_reference[rows[0]])
            for name, flags in (("predictions", rows[1]), ("hits", rows[2])):
                if name in side:
                    marks.add_places(of_prediction[flags])
            return marks.counts()

        return [
            units_with(sides[0], valid),
            units_with(sides[1], valid),
            units_with(sides[2], wrong),
        ]

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return which entries are undefined, from the counts behind them. Most need references."""
        return np.asarray(table[:, :, 1] == 0)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_references"


def _output(plan: MetricPlan) -> Output:
    options = plan.options
    views = []
    for threshold in options["thresholds"]:
        view = View(
            criterion=options["criterion"],
            assignment=options["assignment"],
            threshold=threshold,
            size=tuple(options["size"]),
            max_dets=options["match_dets"],
            within_class=options["classes"] == "within",
            strict=options["strict"],
            score_cut=options["score_cut"],
            duplicates=options["duplicates"],
        )
        views.append(view)
    return Output(plan.name, tuple(views), options["max_dets"], options)


def wrong_under(fate: NDArray[np.int8], views: Sequence[int]) -> NDArray[np.bool_]:
    """Return (n,): who is missed, a duplicate or a false alarm under any of the views."""
    wrong = np.zeros(fate.shape[1], np.bool_)
    for view in views:
        # The codes of fates are ordered: ignored, hit, then everything that went wrong.
        wrong |= fate[view] > HIT
    return wrong


def _missed_under(evidence: Matches, views: Sequence[int], max_dets: int) -> NDArray[np.bool_]:
    """Return (n_references,): who is missed under any of the views, or is of an image and class
    with a cut hit.

    A reference that only a prediction beyond the limit finds is missed; which one it is does not
    matter to its unit.
    """
    wrong = wrong_under(evidence.reference_fate, views)
    if max_dets > evidence.rank.max(initial=-1):  # no prediction is beyond the limit
        return wrong
    n_cells = evidence.n_images * evidence.n_classes
    reference = evidence.reference_image * evidence.n_classes + evidence.reference_label
    prediction = evidence.prediction_image * evidence.n_classes + evidence.prediction_label
    for view in views:
        valid = evidence.reference_fate[view] != IGNORED
        beyond = (evidence.prediction_fate[view] == HIT) & (evidence.rank >= max_dets)
        short = np.bincount(prediction[beyond], minlength=n_cells) > 0
        wrong |= valid & short[reference]
    return wrong


def class_mean(per_class_values: F64) -> F64:
    """Prepend the mean over classes that have a value: (R, C, names) -> (R, 1 + C, names).

    A class that is undefined is left out, as in COCO; the result says how many references stand
    behind it.
    """
    is_defined = ~np.isnan(per_class_values)
    total = np.where(is_defined, per_class_values, 0.0).sum(axis=1, keepdims=True)
    number = is_defined.sum(axis=1, keepdims=True)
    mean = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return np.concatenate([mean, per_class_values], axis=1)


class PairedMetric(MatchMetric):
    """Base of the metrics on the similarities of hits.

    Each has one threshold: partners and similarities are those of one view. The measure is the
    overlap of a hit; a metric on distances says so with ``distance``.
    """

    distance = False

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            _check_one_threshold(output)
            _check_criterion(output, distance=self.distance)
        # `Matches` keeps partners and similarities of its first view only.
        views = {output.views for output in self.outputs}
        if len(views) > 1:
            raise UsageError(f"{', '.join(self.names)}: metrics on pairs share their matching")
        self.recipe = PairRecipe(self.outputs[0].views)

    def measure(self, evidence: Matches) -> F64:
        """Return (n_predictions,): the overlap with the partner, or the distance from it; NaN
        without one.
        """
        # Distances are stored with their sign turned; an overlap may exceed 1 by rounding.
        return -evidence.similarity if self.distance else np.minimum(evidence.similarity, 1.0)

    def off(self, evidence: Matches) -> Flags:
        """Return (n_predictions,): which are not quite where their partner is."""
        with np.errstate(invalid="ignore"):
            measure = self.measure(evidence)
            return np.asarray(measure > ROUNDING if self.distance else measure < 1.0 - ROUNDING)

    def hits(self, evidence: Matches, output: Output) -> I64:
        """Return the rows of the predictions that are hits."""
        return np.flatnonzero(
            (evidence.prediction_fate[0] == HIT) & (evidence.rank < output.max_dets)
        )

    def sums(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, n_classes): the weighted sums of the measure over the hits of every class."""
        key = ("sums of hits", output.max_dets)
        if key not in evidence.kept:
            rows = self.hits(evidence, output)
            image, label = evidence.prediction_image[rows], evidence.prediction_label[rows]
            evidence.kept[key] = SumTable.of(
                self.measure(evidence)[rows], image, label, evidence.n_classes
            )
        table: SumTable = evidence.kept[key]
        return table.sums(weights)

    def hit_medians(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, 1 + n_classes): the weighted medians of the measure over all hits and those of
        every class.
        """
        key = ("medians of hits", output.max_dets)
        if key not in evidence.kept:
            rows = self.hits(evidence, output)
            image, label = evidence.prediction_image[rows], evidence.prediction_label[rows]
            evidence.kept[key] = median_tables(
                self.measure(evidence)[rows], image, label, evidence.n_classes
            )
        return medians(evidence.kept[key], weights)

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: nothing there, one side missing, or nothing hit."""
        weights = np.ones(evidence.n_images, np.int64)
        table, values = self.counts(evidence, weights), self.value(evidence, weights[None])[0]
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            why[row, k] = self.reason(int(table[row, k, 1]), int(table[row, k, 2]))
        return why

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        raise AssertionError("every metric on pairs has a value")

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry; ``no_positives``: no prediction is a hit."""
        if not n_references:
            return "no_references" if n_predictions else "no_objects"
        return "no_positives" if n_predictions else "no_predictions"


def _check_one_threshold(output: Output) -> None:
    if len(output.views) != 1:
        raise UsageError(
            f"metric {output.name!r} ({len(output.views)} thresholds): pairs are matched at one "
            "threshold; give the metric its own threshold"
        )


def _check_criterion(output: Output, *, distance: bool) -> None:
    """Raise unless the criterion measures a distance, or an overlap from 0 to 1."""
    name = output.views[0].criterion
    criterion: Criterion = registry.resolve("criterion", name)
    overlap = not criterion.distance and not criterion.yes_no and criterion.none == 0
    if distance:
        fits, kind = criterion.distance, "a distance, such as centre-distance"
    else:
        fits, kind = overlap, "an overlap from 0 to 1, such as box-iou"
    if not fits:
        raise UsageError(
            f"metric {output.name!r}: needs a criterion that measures {kind}, not {name}"
        )


def median_tables(
    values: F64, image: I64, label: NDArray[np.integer], n_classes: int
) -> list[MedianTable]:
    """Return the tables for the medians of all values, then of those of every class."""
    tables = [MedianTable.of(values, image)]
    for c in range(n_classes):
        rows = np.flatnonzero(label == c)
        tables.append(MedianTable.of(values[rows], image[rows]))
    return tables


def medians(tables: Sequence[MedianTable], weights: I64) -> F64:
    """Return (R, number of tables)."""
    return np.stack([table.medians(weights) for table in tables], axis=1)


def with_pooled(per_class: F64) -> F64:
    """Return (R, 1 + n_classes) sums or counts: those of all classes, then each."""
    return np.concatenate([per_class.sum(axis=1, keepdims=True), per_class], axis=1)


def check_options(
    plan: MetricPlan, own: Sequence[str], *, matching: Sequence[str] = ("score_cut",)
) -> None:
    """Raise for an option that is neither one of the metric's own nor one of ``matching``."""
    from calipers.errors import UsageError, did_you_mean

    options = [*matching, *own]
    for name in plan.options:
        if name in options:
            continue
        metric = f"metric {plan.name!r} ({plan.kind})"
        if name in MATCHING_OPTIONS:
            raise UsageError(
                f"{metric} has its own matching: {name!r} does not apply, only "
                f"{', '.join(matching)}"
            )
        raise UsageError(f"{metric} has no option {name!r}; {did_you_mean(name, options)}")


def check_number(
    plan: MetricPlan, option: str, *, above: float = -float("inf"), least: float = -float("inf")
) -> None:
    """Raise unless an option is absent or a finite number above or at least a limit."""
    from calipers.errors import UsageError

    value = plan.options.get(option)
    if value is None:
        return
    number = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    )
    if not number or not (value > above and value >= least):
        limit = f" above {above:g}" if above > -float("inf") else f" of at least {least:g}"
        raise UsageError(f"metric {plan.name!r}: {option} is a number{limit}, not {value!r}")


def check_choice(output: Output, option: str, choices: Sequence[str]) -> None:
    """Raise unless an option is absent or one of the choices."""
    value = output.options.get(option, choices[0])
    if value not in choices:
        raise UsageError(
            f"metric {output.name!r}: no {option} {value!r}; {did_you_mean(str(value), choices)}"
        )
