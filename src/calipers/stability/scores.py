# SPDX-License-Identifier: Apache-2.0
"""The scores of a stability analysis: what each means, its value on every bag, and its estimates.

In come `BagPairs`; out go rows of estimates. `calipers.stability.analyse.stability` calls
`stability_rows` and `localization`.

- `SCORES` has meaning, limits and best value of every score. The value of an analysis is the
  weighted mean over bags (`BagMean`, a metric for `calipers.statistics.estimates`); bags without a
  value are skipped.
- `stability_rows` returns every score at the main threshold, under the other convention for
  undefined pairs, and over the sweep of thresholds.
- `localization` compares every model with the reference, because stable is not correct. Over the
  annotated positive bags, with n11 the positive instances of the reference that a model calls
  positive: ``DICE`` is 2 n11 / (called + reference); ``Jaccard`` is n11 / (called + reference -
  n11); ``accuracy`` is whether the Jaccard index is at least 0.1. Each per bag, then the mean over
  bags; never undefined, because such a bag has a positive instance.
- ``AUC`` is the area under the ROC curve of all bags (`Cases`), positive and negative; equal scores
  count half. Undefined if there is only one kind.

The row of all models is the mean over models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_methods
from calipers.arrays import F64, I64, Flags, joined
from calipers.data.bags import Bags
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.roc import CaseRanks
from calipers.metrics.base import Facts, Metric
from calipers.results.estimate import Estimate, Row
from calipers.stability.bag_scores import Pooling
from calipers.stability.evidence import (
    AGREEMENT,
    ALL_MODELS,
    BINARY,
    CONTINUOUS,
    BagPairs,
    StabilityPlan,
    per_bag,
)
from calipers.statistics.estimates import Progress, estimates
from calipers.statistics.weights import Units

ROUNDING = 1e-12

INF = math.inf

CALLED = ("called-by-all", "called-by-some")
NAMES = (*BINARY, *CALLED, *CONTINUOUS)
AT_THRESHOLD = (*BINARY, *CALLED)  # these change with the threshold

KENDALL = ("Kendall-b", "Kendall-a")
# the group of rows in which maps that call everything alike count as 1
IDENTICAL = {"undefined": "one"}

MEASURES = ("DICE", "Jaccard", "accuracy")
AUC = "AUC"
LEAST_JACCARD = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """Meaning, limits and best value of a score."""

    meaning: str  # for those who know the literature
    bounds: tuple[float, float] = (0.0, 1.0)  # they set the scale of intervals
    best: float | None = 1.0  # of a bag on which all models agree; None: more is not better
    reason: str = "single_category"  # why no bag has a value: one of results.REASONS
    plain: str = ""  # the meaning for readers who have never heard of the score


SCORES: Mapping[str, Score] = {
    "PJ": Score("Jaccard index of the positive instances of two models", reason="no_positives"),
    "PO": Score(
        "overlap of the positive instances, relative to the smaller set", reason="no_positives"
    ),
    "APO": Score("PO, corrected for chance", (-INF, 1.0), reason="no_positives"),
    "HAPJ": Score("PJ less the overlap that cannot be avoided"),
    "APJ": Score(
        "PJ, corrected for chance: adjusted positive Jaccard",
        (-1 / 3, 1.0),
        plain=(
            "overlap (Jaccard) of what two models mark, corrected for chance: 1 for the same "
            "places, 0 as by chance"
        ),
    ),
    "AJ": Score(
        "Cohen's kappa of two models; APJ = AJ / (2 - AJ)",
        (-1.0, 1.0),
        plain="Cohen's kappa of two models: the same information as APJ on another scale",
    ),
    "TAR": Score(
        "share of instances that two models call alike",
        plain="share of places on which two models agree, marked or not",
    ),
    "PAR": Score(
        "agreement on positive instances (Dice of two models)",
        reason="no_positives",
        plain="agreement of two models on marked places (their Dice)",
    ),
    "NAR": Score(
        "agreement on negative instances", plain="agreement of two models on unmarked places"
    ),
    "PABAK": Score("2 TAR - 1: kappa without prevalence and bias", (-1.0, 1.0)),
    "AC1": Score(
        "Gwet's AC1: chance that does not grow with prevalence",
        (-1.0, 1.0),
        plain="the same, corrected for chance in a way that stays high if almost nothing is marked",
    ),
    "PAR-NAR": Score("positive less negative agreement", (-1.0, 1.0), None),
    "prevalence-index": Score(
        "(n11 - n00) / N: near -1 if nearly all is negative", (-1.0, 1.0), None
    ),
    "bias-index": Score(
        "|n10 - n01| / N: how much more often one of two models calls positive", best=None
    ),
    "positive_share": Score("share of instances that two models both call positive", best=None),
    "called-by-all": Score(
        "of instances that any model calls positive, those that all do",
        reason="no_positives",
        plain="of the places that any model marks, the share that all of them mark",
    ),
    "called-by-some": Score(
        "share of instances that some but not all models call positive",
        best=0.0,
        plain="of all places, the share that some but not all models mark",
    ),
    "Pearson": Score(
        "correlation of the values of two maps",
        (-1.0, 1.0),
        reason="constant_input",
        plain="correlation of the scores of two maps, without a threshold",
    ),
    "Spearman": Score(
        "correlation of the ranks of two maps",
        (-1.0, 1.0),
        reason="constant_input",
        plain="correlation of the ranks of two maps, without a threshold",
    ),
    "Kendall-b": Score(
        "Kendall's tau-b: pairs of instances in one order, ties left out",
        (-1.0, 1.0),
        reason="constant_input",
    ),
    "Kendall-a": Score(
        "Kendall's tau-a: pairs of instances in one order, of all pairs",
        (-1.0, 1.0),
        reason="constant_input",
    ),
}


def stability_rows(
    evidence: BagPairs,
    plan: StabilityPlan,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Return the rows of all models together: scores, the second summary of undefined pairs, the
    sweep. Threads share the replicates.
    """
    names, here = names_of(plan), evidence.at(plan.threshold)
    # All requests together: every group of them shares one pass over the replicates.
    requests = [ScoreRequest(name, here, plan.undefined) for name in names]
    for name in names:
        if conventional(name):
            requests.append(ScoreRequest(name, here, "one", tuple(IDENTICAL.items())))
    for threshold in plan.sweep:
        index, group = evidence.at(threshold), (("threshold", group_text(threshold)),)
        for name in names:
            if name in AT_THRESHOLD:
                requests.append(ScoreRequest(name, index, plan.undefined, group))
    groups = list(cases(evidence, plan.references, requests))
    by_request: dict[ScoreRequest, Estimate] = {}
    score_cases = [case for _, case in groups]
    tables = estimates(score_cases, plan.units, plan.certainty, progress, workers)
    for (members, _), table in zip(groups, tables):
        by_request.update(zip(members, table[0]))
    rows = []
    for request in requests:
        name, group_of = request.name, dict(request.group) or None
        rows.append(Row(ALL_MODELS, name, metric_id(name), None, group_of, by_request[request]))
    return rows


def check_score(name: str) -> None:
    """Raise for a score that does not exist."""
    if name not in SCORES:
        raise UsageError(f"no stability score {name!r}; {did_you_mean(name, NAMES)}")


def metric_id(name: str) -> str:
    """Return the id of the definition of a score; its version changes whenever values change."""
    return f"stability.{name}@1"


def called_values(counts: I64, name: str) -> F64:
    """Return (B,) shares of counts (B, K + 1) of instances by the number of models that call them;
    NaN for 0/0.
    """
    n, by_any, by_all = counts.sum(axis=1), counts[:, 1:].sum(axis=1), counts[:, -1]
    part, whole = (by_all, by_any) if name == "called-by-all" else (by_any - by_all, n)
    return np.asarray(np.divide(part, whole, out=np.full(len(n), np.nan), where=whole > 0))


def bag_values(evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip") -> F64:
    """Return (B,): a number of every bag; NaN where it has none."""
    check_score(name)
    if name in CALLED:
        return called_values(evidence.calls[:, threshold_index], name)
    return per_bag(evidence, name, threshold_index, undefined)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One number to estimate: a score at a threshold under a rule for undefined pairs, for which
    group of rows.
    """

    name: str
    threshold_index: int
    undefined: str
    group: tuple[tuple[str, str], ...] = ()


def cases(
    evidence: BagPairs, positive: I64, requests: Sequence[ScoreRequest]
) -> Iterator[tuple[list[ScoreRequest], Any]]:
    """Yield the numbers that share their bounds, and their (metric, evidence) for
    `statistics.estimates`.

    Behind a number stand the positive bags (``positive``, (B,) 0 or 1) and the maps of all models.
    """
    # Bounds and best value belong to a metric, so that scores which share them form one metric.
    kinds: dict[tuple[tuple[float, float], float | None], list[ScoreRequest]] = {}
    for one in requests:
        kinds.setdefault((SCORES[one.name].bounds, SCORES[one.name].best), []).append(one)
    maps = np.full(evidence.n_images, evidence.n_models, np.int64)
    for (bounds, best), members in kinds.items():
        values = [
            bag_values(evidence, one.name, one.threshold_index, one.undefined) for one in members
        ]
        names = [one.name for one in members]
        reasons = [SCORES[name].reason for name in names]
        metric = BagMean(names, [metric_id(name) for name in names], bounds, best, reasons)
        table = np.stack(values, axis=1)
        yield members, (cast("Metric[Any]", metric), BagValues.of(table, positive, maps))


def conventional(name: str) -> bool:
    """Return whether the value of a score depends on the rule for undefined pairs."""
    return name in AGREEMENT and name not in ("TAR", "PABAK", "AC1")  # these are always defined


class BagMean:
    """The weighted mean over bags of every number; bags without a value are skipped.

    Parameters
    ----------
    names, ids
        Of the M numbers.
    bounds
        Of all of them.
    best
        The value of a bag on which nothing is wrong; None where more is not better.
    reasons
        Why a number is undefined on every bag, one of `results.REASONS` each.
    graded
        Whether the values of bags lie anywhere between the bounds, or are 0 or 1.
    """

    def __init__(
        self,
        names: Sequence[str],
        ids: Sequence[str],
        bounds: tuple[float, float],
        best: float | None,
        reasons: Sequence[str],
        *,
        graded: bool = True,
    ) -> None:
        self.best, self.why = best, tuple(reasons)
        self.facts = Facts(
            id="stability@1",
            names=tuple(names),
            ids=tuple(ids),
            bounds=bounds,
            # The places of a bag are no trials of their own: the next bag is another one.
            trials="own",
            graded=frozenset(names) if graded else frozenset(),
            higher_is_better=best is not None,
            per_class=False,
        )

    def value(self, evidence: BagValues, weights: NDArray[Any]) -> F64:
        """Return (R, 1, M) for weights (R, B)."""
        w = weights.astype(np.float64)
        table, holes = evidence.tables
        # Two products of matrices for all replicates at once; holes are counted apart, because most
        # scores have none.
        total, number = w @ table, np.tile(w.sum(axis=1)[:, None], table.shape[1])
        if holes.any():
            missing = np.isnan(evidence.values[:, holes]).astype(np.float64)
            number[:, holes] -= w @ missing  # whole numbers: exact
        mean = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
        return np.asarray(mean[:, None, :])

    def reasons(self, evidence: BagValues) -> Mapping[tuple[int, int], str]:
        """Return why numbers are undefined on every bag."""
        if not evidence.n_images:
            return {(0, k): "no_objects" for k in range(len(self.why))}
        return {(0, k): why for k, why in enumerate(self.why)}

    def counts(self, evidence: BagValues, weights: I64) -> I64:
        """Return (1, M, 3): bags, and the references and predictions of those that have a value."""
        w, is_defined = np.asarray(weights, np.int64), ~np.isnan(evidence.values)
        # All bags that were used; references and predictions only of those that have a value.
        images = np.full(evidence.values.shape[1], w.sum())
        references = w @ np.where(is_defined, evidence.references, 0)
        predictions = w @ np.where(is_defined, evidence.predictions, 0)
        return np.stack([images, references, predictions], axis=1)[None].astype(np.int64)

    def trials(self, evidence: BagValues) -> I64:
        """Return (1, M): bags with a value."""
        return np.asarray((~np.isnan(evidence.values)).sum(axis=0)[None], np.int64)

    def support(self, evidence: BagValues, unit: I64, n_units: int) -> I64:
        """Return (1, M, 3): units with a value, twice, and those with a bag that is not at its
        best.
        """
        is_defined = ~np.isnan(evidence.values)
        best = np.nan if self.best is None else self.best
        # Without a best value the distance is NaN, so that every bag counts as short of it.
        short = is_defined & ~(np.abs(evidence.values - best) <= ROUNDING)
        n_defined = units_with(is_defined, unit, n_units)
        n_short = units_with(short, unit, n_units)
        return np.stack([n_defined, n_defined, n_short], axis=1)[None]


@dataclass(frozen=True)
class BagValues:
    """Evidence: M numbers of every bag (NaN where undefined) with their numbers of references and
    predictions.
    """

    values: F64  # (B, M)
    references: I64  # (B, M)
    predictions: I64  # (B, M)

    @classmethod
    def of(cls, values: F64, references: I64, predictions: I64) -> BagValues:
        """Return the evidence; ``references`` and ``predictions`` are (B,), the same for all M
        numbers, or (B, M).
        """
        tables = []
        for counts in (references, predictions):
            column = counts[:, None] if counts.ndim == 1 else counts
            tables.append(np.broadcast_to(column, values.shape))
        return cls(values, *tables)

    @property
    def n_images(self) -> int:
        """Number of bags."""
        return len(self.values)

    @cached_property
    def tables(self) -> tuple[F64, NDArray[np.bool_]]:
        """(B, M) values with 0 for NaN, and (M,) which numbers are undefined on some bag: the same
        for all weights.
        """
        missing = np.isnan(self.values)
        return np.where(missing, 0.0, self.values), np.asarray(missing.any(axis=0))

    def take(self, images: I64) -> BagValues:
        """Return the evidence of some bags."""
        return BagValues(self.values[images], self.references[images], self.predictions[images])

    @classmethod
    def concat(cls, parts: Sequence[BagValues]) -> BagValues:
        """Return the evidence of all bags of several parts."""
        return cls(
            joined(parts, "values"),
            joined(parts, "references"),
            joined(parts, "predictions"),
        )


def units_with(marked: NDArray[np.bool_], unit: I64, n_units: int) -> I64:
    """Return (M,): units with a marked bag, for (B, M) marks."""
    has_mark = np.zeros((n_units, marked.shape[1]), np.bool_)
    bag, column = np.nonzero(marked)
    has_mark[unit[bag], column] = True
    return np.asarray(has_mark.sum(axis=0), np.int64)


@names_methods
@dataclass(frozen=True)
class Localization:
    """The models against the reference."""

    models: tuple[str, ...]
    places: I64  # (A,) which of the used bags are annotated and positive
    ids: tuple[str, ...]  # of these
    values: Mapping[str, F64]  # measure -> (A, K)
    rows: tuple[Row, ...]
    least_jaccard: float
    pooling: str  # how bag scores were made of maps; "given" if they came with the bags
    missing: Mapping[str, str]  # measure -> why it is not there: one of results.REASONS

    def get(self, metric: str, model: str = ALL_MODELS) -> Estimate:
        """Return the estimate of one model, or of the mean over models."""
        for row in self.rows:
            if (row.metric, row.model) == (metric, model):
                return row.estimate
        if metric in self.missing:
            raise UsageError(f"there is no {metric}: {self.missing[metric].replace('_', ' ')}")
        metrics = dict.fromkeys(row.metric for row in self.rows)
        if metric not in metrics:
            raise UsageError(f"no {metric!r} of {model!r}; {did_you_mean(metric, metrics)}")
        raise UsageError(f"no {metric!r} of {model!r}; {did_you_mean(model, self.models)}")

    @property
    def pooling_words(self) -> str:
        """What was taken of each map as the score of its bag, for sentences."""
        return Pooling.of(self.pooling).words

    def has(self, metric: str) -> bool:
        """Return whether the result has a measure."""
        return any(row.metric == metric for row in self.rows)

    def of_models(self, metric: str) -> F64:
        """Return (K,): the values of the models."""
        return np.array([self.get(metric, model).value for model in self.models])

    def mean(self, metric: str) -> float:
        """Return the mean over models."""
        return float(self.of_models(metric).mean())

    def sd(self, metric: str, ddof: int = 0) -> float:
        """Return the standard deviation over models; ``ddof`` 0 as the published tables have it."""
        if len(self.models) <= ddof:
            return float("nan")
        return float(self.of_models(metric).std(ddof=ddof))

    def per_bag(self, metric: str = "DICE", ddof: int = 0) -> tuple[F64, F64]:
        """Return (A,) means and (A,) standard deviations over models, of every annotated positive
        bag.
        """
        if metric not in self.values:
            raise UsageError(f"no {metric!r} per bag; {did_you_mean(metric, MEASURES)}")
        return self.values[metric].mean(axis=1), self.values[metric].std(axis=1, ddof=ddof)


def localization(
    evidence: BagPairs,
    plan: StabilityPlan,
    cases: Cases,
    pooling: str | None = None,
    least_jaccard: float = LEAST_JACCARD,
) -> Localization:
    """Compare every model with the reference; intervals resample bags or patients."""
    pooling = plan.pooling if pooling is None else cases.check_pooling(pooling)
    if not 0 <= least_jaccard <= 1:
        raise UsageError(f"the least Jaccard index lies in [0, 1], got {least_jaccard:g}")
    # -1 is not annotated and 0 has nothing to find: neither has a DICE.
    places = np.flatnonzero(evidence.truth > 0)
    here = evidence.take(places)
    values = measures(here, here.at(plan.threshold), least_jaccard)
    missing: dict[str, str] = {}
    if len(places):
        rows = _measure_rows(here, values, plan, places)
    else:
        rows, missing = [], dict.fromkeys(MEASURES, "no_references")
    if cases.two_kinds:
        rows += _auc_rows(cases, plan, pooling)
    else:
        missing[AUC] = "no_references" if cases.positive is None else "single_category"
    return Localization(
        models=plan.models,
        places=places,
        ids=tuple(plan.ids[i] for i in places),
        values=values,
        rows=tuple(rows),
        least_jaccard=least_jaccard,
        pooling=pooling if cases.bag_scores is None else "given",
        missing=missing,
    )


def measures(evidence: BagPairs, threshold_index: int, least_jaccard: float) -> dict[str, F64]:
    """Return every measure (A, K) of annotated bags with a positive instance."""
    hit = evidence.hits[:, threshold_index].astype(np.float64)
    total = evidence.ones[:, threshold_index] + evidence.truth[:, None].astype(np.float64)
    jaccard = hit / (total - hit)
    # A threshold of 0 is strict: a bag without any overlap is not localised.
    correct = jaccard >= least_jaccard if least_jaccard > 0 else jaccard > 0
    return {"DICE": 2 * hit / total, "Jaccard": jaccard, "accuracy": correct.astype(np.float64)}


def _measure_rows(
    here: BagPairs, values: Mapping[str, F64], plan: StabilityPlan, places: I64
) -> list[Row]:
    ones = here.ones[:, here.at(plan.threshold)]
    n_called = np.concatenate([ones, ones.sum(axis=1, keepdims=True)], axis=1)
    names = (*plan.models, ALL_MODELS)
    cases: list[tuple[Metric[Any], BagValues]] = []
    for name in MEASURES:
        # The mean over models is resampled with them, as a further column.
        table = np.concatenate([values[name], values[name].mean(axis=1, keepdims=True)], axis=1)
        reasons = ["no_references"] * len(names)
        metric = BagMean(
            names,
            [_measure_id(name)] * len(names),
            (0.0, 1.0),
            1.0,
            reasons,
            graded=name != "accuracy",
        )
        cases.append((cast("Metric[Any]", metric), BagValues.of(table, here.truth, n_called)))
    rows = []
    for name, estimates_of in zip(
        MEASURES, estimates(cases, plan.units.take(places), plan.certainty)
    ):
        rows += _rows_of_models(name, names, estimates_of[0])
    return rows


def _auc_rows(cases: Cases, plan: StabilityPlan, pooling: str) -> list[Row]:
    assert cases.positive is not None
    evidence = CaseScores(cases.scores(pooling), cases.positive)
    names = (*plan.models, ALL_MODELS)
    metric = cast("Metric[Any]", BagAuroc(names, evidence))
    return _rows_of_models(
        AUC, names, estimates([(metric, evidence)], cases.units, plan.certainty)[0][0]
    )


def _rows_of_models(metric: str, names: tuple[str, ...], values: list[Estimate]) -> list[Row]:
    rows = []
    for name, estimate in zip(names, values):
        rows.append(Row(name, metric, _measure_id(metric), None, None, estimate))
    return rows


def _measure_id(metric: str) -> str:
    return f"stability.{metric}@1"


@dataclass(frozen=True)
class Cases:
    """All bags of an analysis as cases; ``positive`` is None if there are no labels."""

    positive: Flags | None  # (n_bags,)
    bag_scores: F64 | None  # (n_bags, K) scores that came with the bags
    poolings: tuple[str, ...]
    pooled_scores: F64  # (n_bags, n_poolings, K) NaN where a bag was not read
    units: Units

    @classmethod
    def of(cls, source: Bags, poolings: tuple[str, ...], pooled_scores: F64, units: Units) -> Cases:
        """Return the cases of a source and the pooled scores of its maps."""
        positive, bag_scores = None, None
        if source.positive is not None:
            positive = np.asarray(source.positive, np.bool_)
        if source.bag_scores is not None:
            bag_scores = np.asarray(source.bag_scores, np.float64).T
        return cls(positive, bag_scores, poolings, pooled_scores, units)

    def check_pooling(self, pooling: str) -> str:
        """Return a pooling as users write it, if the maps were pooled by it."""
        name = str(Pooling.of(pooling))
        if name not in self.poolings:
            raise UsageError(
                f"the maps were pooled by {', '.join(self.poolings)}, and their values are not "
                f"kept: repeat the analysis with pooling={name!r}"
            )
        return name

    def scores(self, pooling: str) -> F64:
        """Return (n_bags, K): the scores that came with the bags, else those of a pooling."""
        name = self.check_pooling(pooling)
        if self.bag_scores is not None:
            return self.bag_scores
        return self.pooled_scores[:, self.poolings.index(name)]

    @property
    def two_kinds(self) -> bool:
        """Whether there are positive and negative bags to tell apart."""
        return self.positive is not None and bool(self.positive.any() and not self.positive.all())


@dataclass(frozen=True)
class CaseScores:
    """Evidence of the bag AUC: (B, K) scores and (B,) kinds."""

    scores: F64
    positive: Flags

    @property
    def n_images(self) -> int:
        """Number of bags."""
        return len(self.positive)

    def take(self, images: I64) -> CaseScores:
        """Return the evidence of some bags."""
        return CaseScores(self.scores[images], self.positive[images])

    @classmethod
    def concat(cls, parts: Sequence[CaseScores]) -> CaseScores:
        """Return the evidence of all bags of several parts."""
        return cls(joined(parts, "scores"), joined(parts, "positive"))


class BagAuroc:
    """The area under the ROC curve of whole bags, of every model and their mean; equal scores count
    half.

    Undefined without a positive or without a negative bag.
    """

    def __init__(self, names: Sequence[str], evidence: CaseScores) -> None:
        self.facts = Facts(
            id="stability.AUC@1",
            names=tuple(names),
            per_class=False,
            swap=False,
            trials="own",
            graded=frozenset(names),
        )
        # The order of bags does not depend on weights: ranked once for all replicates.
        self._ranks = [
            CaseRanks.of(score, evidence.positive, -np.inf) for score in evidence.scores.T
        ]

    def value(self, evidence: CaseScores, weights: NDArray[Any]) -> F64:
        """Return (R, 1, K + 1) for weights (R, B) of the bags that were ranked; the last is the
        mean over models.
        """
        areas = np.stack([ranks.area(weights) for ranks in self._ranks], axis=1)
        return np.concatenate([areas, areas.mean(axis=1, keepdims=True)], axis=1)[:, None, :]

    def reasons(self, evidence: CaseScores) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: bags of one kind only."""
        why = "single_category" if evidence.positive.any() else "no_positives"
        return {(0, k): why for k in range(len(self.facts.names))}

    def counts(self, evidence: CaseScores, weights: I64) -> I64:
        """Return (1, K + 1, 3): bags, positive ones, scores."""
        w = np.asarray(weights, np.int64)
        n, n_models = int(w.sum()), evidence.scores.shape[1]
        n_positive = int(w @ evidence.positive)
        rows = [[n, n_positive, n]] * n_models + [[n, n_positive, n * n_models]]
        return np.array([rows], np.int64)

    def trials(self, evidence: CaseScores) -> I64:
        """Return (1, K + 1): bags of the rarer kind."""
        n_rarer = min(int(evidence.positive.sum()), int((~evidence.positive).sum()))
        return np.full((1, len(self.facts.names)), n_rarer, np.int64)

    def support(self, evidence: CaseScores, unit: I64, n_units: int) -> I64:
        """Return (1, K + 1, 3): the rarer kind of units, twice, and units with a bag in a wrong
        order, of which no more than these are counted.
        """
        positive, score = evidence.positive[:, None], evidence.scores
        # A bag is in a wrong order if it does not score strictly on its side of the other kind:
        # compare with the highest score of a negative and the lowest of a positive bag.
        highest = np.where(positive, -np.inf, score).max(axis=0, initial=-np.inf)
        lowest = np.where(positive, score, np.inf).min(axis=0, initial=np.inf)
        wrong = np.where(positive, score <= highest, score >= lowest)
        wrong = np.concatenate([wrong, wrong.any(axis=1, keepdims=True)], axis=1)
        rarer = np.minimum(
            units_with(positive, unit, n_units), units_with(~positive, unit, n_units)
        )
        n_wrong = units_with(wrong, unit, n_units)
        n_rarer = np.broadcast_to(rarer, n_wrong.shape)
        return np.stack([n_rarer, n_rarer, np.minimum(n_wrong, n_rarer)], axis=1)[None]


def group_text(value: float | str) -> str:
    """Return a value as groups of rows have it: numbers with all digits, no trailing ``.0``."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def names_of(plan: StabilityPlan) -> tuple[str, ...]:
    """Return the scores that an analysis has."""
    return tuple(name for name in NAMES if plan.kendall or name not in KENDALL)
