# SPDX-License-Identifier: Apache-2.0
"""Read every bag once and keep only the counts and correlations of `BagPairs`.

In come bags and thresholds; out go `BagPairs` and pooled bag scores. Called by `stability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import whole
from calipers.kernels import pairwise
from calipers.kernels.route import MOST_THREADS
from calipers.stability.pairs import BagPairs
from calipers.stability.pooling import POOLINGS, pool_maps
from calipers.tables.bag_checks import check_bag
from calipers.tables.bags import Bag, Bags

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Progress = Callable[[int, int], None]

AHEAD = 4  # bags per worker that are read before they are needed
# A threshold of 0 is strict (else everything would be positive): at least the next number above 0.
LEAST_ABOVE_0 = np.nextafter(0.0, 1.0)


@dataclass(frozen=True)
class BagEvidence:
    """The evidence of the selected bags, and the pooled scores of the bags that were pooled."""

    pairs: BagPairs
    pooled_scores: F64  # (n_bags, n_poolings, K); NaN for bags that were not pooled


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
    return gather(
        bags, thresholds, every, ~every, kendall=kendall, jobs=jobs, progress=progress
    ).pairs


def gather(
    bags: Bags,
    thresholds: F64,
    selection: Flags,
    pool: Flags,
    *,
    kendall: bool = True,
    jobs: int = 1,
    progress: Progress | None = None,
) -> BagEvidence:
    """Return the evidence of the ``selection`` of bags, and pooled scores of the ``pool``."""
    check_jobs(jobs)
    counter = BagCounter(
        bags, np.where(thresholds > 0, thresholds, LEAST_ABOVE_0), selection, pool, kendall
    )
    places = np.flatnonzero(selection | pool)
    pooled_scores = np.full((len(bags), len(POOLINGS), len(bags.models)), np.nan)
    rows: list[BagCounts] = []
    for n_done, (counts, scores) in enumerate(_in_order(counter, places, jobs), start=1):
        pooled_scores[places[n_done - 1]] = scores
        if counts is not None:
            rows.append(counts)
        if progress is not None:
            progress(n_done, len(places))
    return BagEvidence(_join(bags, thresholds, selection, rows), pooled_scores)


def check_jobs(jobs: Any) -> None:
    """Raise unless a number of threads is a whole number from 1 on; with NaN a pool would wait for
    ever.
    """
    whole("jobs", jobs, 1, MOST_THREADS)


# the fields of BagPairs from n to truth, of one bag
BagCounts = tuple[int, I64, I64, I64, F64, I64, int]


class BagCounter:
    """Reads one bag, counts what `BagPairs` needs, and pools its maps."""

    def __init__(
        self, bags: Bags, thresholds: F64, selection: Flags, pool: Flags, kendall: bool
    ) -> None:
        self.bags, self.thresholds, self.kendall = bags, thresholds, kendall
        self.selection, self.pool = selection, pool
        self.reading = Lock()  # sources need not be safe for several readers

    def __call__(self, i: int) -> tuple[BagCounts | None, F64]:
        """Return the counts of bag i (None if it is not selected) and its pooled scores (NaN if it
        is not pooled).
        """
        with self.reading:
            bag = self.bags[i]
        check_bag(bag.values, bag.id, self.bags.models)
        counts = self._counts(bag) if self.selection[i] else None
        if self.pool[i]:
            return counts, pool_maps(bag.values)
        return counts, np.full((len(POOLINGS), len(bag.values)), np.nan)

    def _counts(self, bag: Bag) -> BagCounts:
        values = bag.values
        ones, common, calls = pairwise.joint_counts(values, self.thresholds)
        hits, truth = np.full_like(ones, -1), -1
        if bag.instances is not None:
            hits = pairwise.hits(values, bag.instances, self.thresholds)
            truth = int(bag.instances.sum())
        return values.shape[1], ones, common, calls, self._correlations(values), hits, truth

    def _correlations(self, values: F64) -> F64:
        if self.kendall:
            return pairwise.correlations(values)
        pearson, spearman = pairwise.pearson(values), pairwise.spearman(values)
        kendall = np.full_like(pearson, np.nan)
        return np.stack([pearson, spearman, kendall, kendall])


def _in_order(
    counter: BagCounter, places: I64, jobs: int
) -> Iterator[tuple[BagCounts | None, F64]]:
    """Yield the results of the bags in their order, reading only a few bags ahead."""
    if jobs == 1:
        yield from map(counter, places.tolist())
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Future[tuple[BagCounts | None, F64]]] = []
        try:
            for i in places.tolist():
                # a few bags per thread: enough to keep threads busy, few enough for the memory
                waiting.append(pool.submit(counter, i))
                if len(waiting) >= AHEAD * jobs:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:  # after an error the remaining bags are not needed
            for future in waiting:
                future.cancel()


def _join(bags: Bags, thresholds: F64, selection: Flags, rows: list[BagCounts]) -> BagPairs:
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
