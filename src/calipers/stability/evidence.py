# SPDX-License-Identifier: Apache-2.0
"""The evidence of map stability, `BagPairs`: counts and correlations of every pair of models.

In come bags and what is asked of them, a `BagQuestions`; `gather` reads every bag once and returns
its `BagPairs` and its pooled scores. Every score of a pair of models on a bag is a function of
these numbers (`pair_scores`), so that other thresholds, other conventions, leaving out a model and
resampling bags never read a map again. `calipers.stability.analyse.stability` makes a
`StabilityPlan`, the settings of an analysis and the bags it uses, and calls `gather`.

The work on a bag is an item of `calipers.engine.ordered_map`: it runs on threads, on processes or
on a cluster, goes on after an interruption, and can be done in parts.

`calipers.stability.bag_scores` says how the instances of a bag are pooled into its score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.arrays import F64, I64, Flags, joined_columns
from calipers.data.bags import Bag, Bags, check_bag
from calipers.engine.leniency import STRICT, Leniency, SetAside
from calipers.errors import UsageError, did_you_mean, one_of, whole
from calipers.kernels import agreement, ranks
from calipers.kernels.agreement import SCORES
from calipers.kernels.ranks import pair_index
from calipers.kernels.route import MOST_THREADS
from calipers.stability.bag_scores import Pooling, pool_maps
from calipers.statistics.estimates import Certainty
from calipers.statistics.weights import Units

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store

AGREEMENT = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ", "TAR", "PAR", "NAR", "PABAK", "AC1")
# These describe the calls of two models; a higher value is not better.
MARGINAL = ("PAR-NAR", "prevalence-index", "bias-index", "positive_share")
BINARY = (*AGREEMENT, *MARGINAL)
CONTINUOUS = ("Pearson", "Spearman", "Kendall-b", "Kendall-a")
SCORE_NAMES = (*BINARY, *CONTINUOUS)

UNDEFINED = ("skip", "agree", "one")

Progress = Callable[[int, int], None]

AHEAD = 4  # bags per worker that are read before they are needed
# A threshold of 0 is strict (else everything would be positive): at least the next number above 0.
LEAST_ABOVE_0 = np.nextafter(0.0, 1.0)

# the fields of BagPairs from n to truth, of one bag
BagCounts = tuple[int, I64, I64, I64, F64, I64, int]

ALL_MODELS = "all models"


@dataclass(frozen=True)
class BagPairs:
    """Evidence of the stability of K models on B bags: P = K (K - 1) / 2 pairs, T thresholds.

    ``calls[b, t, k]`` counts the instances of bag b that exactly k models call positive at
    threshold t.
    """

    n_models: int
    thresholds: F64  # (T,) ascending
    n: I64  # (B,) instances
    ones: I64  # (B, T, K) called positive
    common: I64  # (B, T, P) called positive by both
    calls: I64  # (B, T, K + 1)
    correlations: F64  # (B, 4, P) as CONTINUOUS; NaN = undefined or not asked for
    # the reference; -1 = bag not annotated
    hits: I64  # (B, T, K) positive instances of the reference that are called positive
    truth: I64  # (B,) positive instances of the reference
    bag_scores: F64  # (B, K) NaN = unknown

    @property
    def n_images(self) -> int:
        """Number of bags: they are the images of this evidence."""
        return len(self.n)

    @property
    def n_pairs(self) -> int:
        """Number of unordered pairs of models."""
        return self.n_models * (self.n_models - 1) // 2

    def take(self, images: I64) -> BagPairs:
        """Return the evidence of some bags."""
        per_bag: dict[str, Any] = {name: getattr(self, name)[images] for name in PER_BAG}
        return replace(self, **per_bag)

    @classmethod
    def concat(cls, parts: Sequence[BagPairs]) -> BagPairs:
        """Return the evidence of all bags of several parts with the same models and thresholds."""
        return replace(parts[0], **joined_columns(parts, PER_BAG))

    def at(self, threshold: float) -> int:
        """Return the index of a threshold of the analysis."""
        indices = np.flatnonzero(self.thresholds == threshold)
        if not len(indices):
            thresholds = ", ".join(f"{t:g}" for t in self.thresholds)
            raise UsageError(
                f"the threshold {threshold:g} is not part of the analysis; there are: {thresholds}"
            )
        return int(indices[0])

    def without_model(self, model: int) -> Flags:
        """Return (P,) which pairs remain if a model is left out."""
        first, second = pair_index(self.n_models)
        return np.asarray((first != model) & (second != model))


PER_BAG = tuple(
    field.name for field in fields(BagPairs) if field.name not in ("n_models", "thresholds")
)


@dataclass(frozen=True)
class StabilityPlan:
    """The settings of an analysis; ``ids``, ``positive`` and ``units`` are of the bags that are
    used.
    """

    models: tuple[str, ...]
    ids: tuple[str, ...]
    n_bags: int  # used or not
    positive: Flags | None
    threshold: float
    sweep: tuple[float, ...]
    undefined: str
    bags: str
    kendall: bool
    pooling: str  # of maps into scores of bags, where there are no others
    units: Units
    certainty: Certainty
    notes: tuple[str, ...]

    @property
    def references(self) -> I64:
        """(B,) 1 for bags that are known to be positive."""
        if self.positive is None:
            return np.zeros(len(self.ids), np.int64)
        return self.positive.astype(np.int64)

    def settings(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            "threshold": self.threshold,
            "thresholds": list(self.sweep),
            "undefined": self.undefined,
            "bags": self.bags,
            "kendall": self.kendall,
            "pooling": self.pooling,
            "level": self.certainty.level,
            "replicates": self.certainty.replicates,
            "seed": self.certainty.seed,
            "unit": self.units.name,
            "n_units": self.units.number,
        }


@dataclass(frozen=True)
class BagQuestions:
    """What is asked of every bag, and of which bags."""

    thresholds: F64  # (T,) ascending
    selection: Flags  # (n_bags,) whose pairs of models are compared
    pool: Flags  # (n_bags,) whose maps are pooled, for the bag AUC
    poolings: tuple[Pooling, ...] = ()
    kendall: bool = True

    @property
    def places(self) -> I64:
        """The bags that have to be read."""
        return np.flatnonzero(self.selection | self.pool)

    def document(self) -> dict[str, Any]:
        """Return the questions for JSON; which bags are asked is not part of it."""
        return {
            "thresholds": self.thresholds.tolist(),
            "poolings": [str(pooling) for pooling in self.poolings],
            "kendall": self.kendall,
        }


@dataclass(frozen=True)
class BagEvidence:
    """The evidence of the selected bags, and the pooled scores of the bags that were pooled."""

    pairs: BagPairs
    pooled_scores: F64  # (n_bags, n_poolings, K); NaN for bags that were not pooled
    # The place of every bag that was set aside, and why; what stands above is without them.
    aside: Mapping[int, SetAside] = field(default_factory=dict)


def gather(
    bags: Bags,
    questions: BagQuestions,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    leniency: Leniency = STRICT,
    progress: Progress | None = None,
) -> BagEvidence:
    """Return the evidence of the selected bags, and the pooled scores of those that are pooled."""
    places = questions.places
    shape = (len(bags), len(questions.poolings), len(bags.models))
    pooled_scores = np.full(shape, np.nan)
    rows: list[BagCounts] = []
    aside: dict[int, SetAside] = {}
    how: dict[str, Any] = {"jobs": jobs, "executor": executor, "store": store}
    results = count_bags(bags, questions, **how, leniency=leniency)
    for n_done, (place, result) in enumerate(zip(places.tolist(), results), start=1):
        if isinstance(result, SetAside):
            aside[place] = result
        else:
            counts, pooled_scores[place] = result
            if counts is not None:
                rows.append(counts)
        if progress is not None:
            progress(n_done, len(places))
    leniency.check(list(aside.values()), len(places), "images")
    is_there = np.ones(len(bags), np.bool_)
    is_there[list(aside)] = False
    pairs = _pairs_of_rows(bags, questions.thresholds, questions.selection & is_there, rows)
    return BagEvidence(pairs, pooled_scores[is_there], aside)


def count_bags(
    bags: Bags,
    questions: BagQuestions,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    leniency: Leniency = STRICT,
) -> Iterator[tuple[BagCounts | None, F64] | SetAside]:
    """Yield the counts and pooled scores of the bags that are asked for, in their order; of a part
    only its own.
    """
    check_jobs(jobs)
    return leniency.in_order(
        BagCounter(bags.models, questions, leniency),
        _tasks(bags, questions, apart=executor is not None),
        lambda k: f"bag {bags.ids[questions.places[k]]!r}",
        what="a bag that can be read",
        workers=jobs,
        executor=executor,
        # A few bags per worker: enough to keep workers busy, few enough for the memory.
        ahead=AHEAD * jobs,
        store=store,
    )


def _tasks(bags: Bags, questions: BagQuestions, *, apart: bool) -> Iterator[BagTask]:
    """Yield a task per bag; ``apart`` makes tasks that hold no bag but their own."""
    alone = getattr(bags, "alone", None)
    if apart and alone is None:
        raise UsageError(
            f"bags of the class {type(bags).__name__} have no method alone(i), which gives workers "
            "in other processes a bag of their own: use threads (jobs), without an executor"
        )
    for i in questions.places.tolist():
        is_selected, is_pooled = bool(questions.selection[i]), bool(questions.pool[i])
        if alone is not None and apart:
            yield BagTask(alone(i), 0, is_selected, is_pooled)
        else:
            yield BagTask(bags, i, is_selected, is_pooled)


def collect(
    bags: Bags,
    thresholds: F64,
    kendall: bool = True,
    jobs: int = 1,
    progress: Progress | None = None,
) -> BagPairs:
    """Return the evidence of all bags.

    Parameters
    ----------
    thresholds
        (T,); an instance is called positive at or above one, above it if it is 0.
    kendall
        False leaves out Kendall's tau, the slowest score.
    jobs
        Number of threads; the result does not depend on it.
    progress
        Called with (bags done, bags in all).
    """
    every = np.ones(len(bags), np.bool_)
    questions = BagQuestions(thresholds, every, ~every, kendall=kendall)
    return gather(bags, questions, jobs=jobs, progress=progress).pairs


@dataclass(frozen=True, slots=True)
class BagTask:
    """One bag: where it is read from, and what it is needed for."""

    bags: Bags
    place: int
    is_selected: bool
    is_pooled: bool


class BagCounter:
    """Reads one bag, counts what `BagPairs` needs, and pools its maps."""

    def __init__(
        self, models: Sequence[str], questions: BagQuestions, leniency: Leniency = STRICT
    ) -> None:
        self.leniency = leniency
        levels = questions.thresholds
        self.models = tuple(models)
        self.thresholds = np.where(levels > 0, levels, LEAST_ABOVE_0)
        self.poolings, self.kendall = questions.poolings, questions.kendall
        self.reading = Lock()  # sources need not be safe for several readers

    def __getstate__(self) -> dict[str, Any]:
        # A lock belongs to its process; a worker in another one reads its own bags.
        return {name: value for name, value in vars(self).items() if name != "reading"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.reading = Lock()

    def __call__(self, task: BagTask) -> tuple[BagCounts | None, F64] | SetAside:
        """Return the counts of a bag (None if it is not selected) and its pooled scores (NaN if it
        is not pooled); or why it cannot be read.
        """
        return self.leniency.attempt(
            lambda: self._counted(task), lambda: f"bag {task.bags.ids[task.place]!r}"
        )

    def _counted(self, task: BagTask) -> tuple[BagCounts | None, F64]:
        with self.reading:
            bag = task.bags[task.place]
        check_bag(bag.values, bag.id, self.models)
        counts = self._counts(bag) if task.is_selected else None
        if task.is_pooled:
            return counts, pool_maps(bag.values, self.poolings)
        return counts, np.full((len(self.poolings), len(bag.values)), np.nan)

    def _counts(self, bag: Bag) -> BagCounts:
        values = bag.values
        ones, common, calls = ranks.joint_counts(values, self.thresholds)
        # -1 says that a bag was not annotated, 0 that nothing is there to find.
        hits, truth = np.full_like(ones, -1), -1
        if bag.instances is not None:
            hits = ranks.hits(values, bag.instances, self.thresholds)
            truth = int(bag.instances.sum())
        return values.shape[1], ones, common, calls, self._correlations(values), hits, truth

    def _correlations(self, values: F64) -> F64:
        if self.kendall:
            return ranks.correlations(values)
        pearson, spearman = ranks.pearson(values), ranks.spearman(values)
        kendall = np.full_like(pearson, np.nan)
        return np.stack([pearson, spearman, kendall, kendall])


def _pairs_of_rows(
    bags: Bags, thresholds: F64, selection: Flags, rows: list[BagCounts]
) -> BagPairs:
    k, t = len(bags.models), len(thresholds)
    p = k * (k - 1) // 2
    # in the order of BagCounts; without any bag the columns still need their shapes
    shapes = {"n": (), "ones": (t, k), "common": (t, p), "calls": (t, k + 1)}
    shapes |= {"correlations": (4, p), "hits": (t, k), "truth": ()}
    columns: dict[str, Any] = {}
    for c, (name, shape) in enumerate(shapes.items()):
        kind = np.float64 if name == "correlations" else np.int64
        columns[name] = np.array([row[c] for row in rows], kind).reshape(len(rows), *shape)
    scores = np.full((len(rows), k), np.nan)
    if bags.bag_scores is not None:
        scores = np.asarray(bags.bag_scores, np.float64).T[selection]
    return BagPairs(n_models=k, thresholds=thresholds, bag_scores=scores, **columns)


def pair_counts(evidence: BagPairs, threshold_index: int) -> agreement.ContingencyCounts:
    """Return the 2x2 tables of every bag and pair: four (B, P) arrays."""
    first, second = pair_index(evidence.n_models)
    # As floats, so that no product of counts overflows.
    ones = evidence.ones[:, threshold_index].astype(np.float64)
    n11 = evidence.common[:, threshold_index].astype(np.float64)
    n10, n01 = ones[:, first] - n11, ones[:, second] - n11
    return agreement.ContingencyCounts(n11, n10, n01, evidence.n[:, None] - n11 - n10 - n01)


def pair_scores(
    evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip"
) -> F64:
    """Return (B, P): one score of every bag and pair of models; NaN where it is undefined.

    Parameters
    ----------
    undefined
        What a score of agreement (``AGREEMENT``) is where it is 0/0 because both maps are
        all-positive or both are all-negative: ``skip`` leaves it undefined, ``agree`` says 1 for
        all-positive and 0 for all-negative, ``one`` says 1 for both. Correlations of constant maps
        stay undefined.

    Notes
    -----
    A pair of models has no first one, so ``bias-index`` is |n10 - n01| / N here.
    """
    check_name(name)
    check_undefined(undefined)
    if name in CONTINUOUS:
        return evidence.correlations[:, CONTINUOUS.index(name)]
    counts = pair_counts(evidence, threshold_index)
    scores = SCORES[name](*counts)
    if name == "bias-index":
        scores = np.abs(scores)
    if undefined == "skip" or name not in AGREEMENT:
        return scores
    n = evidence.n[:, None]
    # Only 0/0 of maps that call everything alike is replaced.
    missing = np.isnan(scores)
    of_nothing = 1.0 if undefined == "one" else 0.0
    scores = np.where(missing & (counts.n11 == n), 1.0, scores)
    return np.where(missing & (counts.n00 == n), of_nothing, scores)


def bag_means(scores: F64) -> F64:
    """Return (B,): the mean over the defined pairs of every bag; NaN where no pair is defined."""
    is_defined = ~np.isnan(scores)
    number = is_defined.sum(axis=1)
    # Not `nanmean`, which warns where nothing is defined.
    total = np.where(is_defined, scores, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, number, out=np.full(len(scores), np.nan), where=number > 0))


def per_bag(evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip") -> F64:
    """Return (B,): the mean of a score over the pairs of models, bag by bag."""
    return bag_means(pair_scores(evidence, name, threshold_index, undefined))


def check_name(name: str) -> None:
    """Raise for a score that does not exist."""
    if name not in SCORE_NAMES:
        raise UsageError(f"no stability score {name!r}; {did_you_mean(name, SCORE_NAMES)}")


def check_undefined(undefined: str) -> None:
    """Raise for a rule that does not exist."""
    one_of("rule for undefined pairs", undefined, UNDEFINED)


def check_jobs(jobs: Any) -> None:
    """Raise unless a number of threads is a whole number from 1 on; with NaN a pool would wait for
    ever.
    """
    whole("jobs", jobs, 1, MOST_THREADS)
