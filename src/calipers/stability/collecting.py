# SPDX-License-Identifier: Apache-2.0
"""Going through bags once, one at a time, and keeping only what `BagPairs` needs."""

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
from calipers.stability.pooling import POOLINGS, pooled
from calipers.tables.bag_checks import check_bag
from calipers.tables.bags import Bag, Bags

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Progress = Callable[[int, int], None]

AHEAD = 4  # bags per worker that are read before they are needed
LEAST_ABOVE_0 = np.nextafter(
    0.0, 1.0
)  # a threshold of 0 is strict: at least the smallest number above it


@dataclass(frozen=True)
class Gathered:
    """The evidence of the chosen bags, and what the maps of bags pool to, where that was asked for."""

    pairs: BagPairs
    pooled: F64  # (n_bags, n_poolings, K); NaN where nobody asked


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
        False leaves out Kendall's tau, which costs most.
    jobs
        Threads; the result does not depend on them.
    progress
        Called with the number of bags done and of all of them.
    """
    every = np.ones(len(bags), np.bool_)
    return gather(
        bags, thresholds, every, ~every, kendall=kendall, jobs=jobs, progress=progress
    ).pairs


def gather(
    bags: Bags,
    thresholds: F64,
    chosen: Flags,
    pool: Flags,
    *,
    kendall: bool = True,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Gathered:
    """Return the evidence of the chosen bags, and the pooled maps of those to ``pool``."""
    check_jobs(jobs)
    look = Look(bags, np.where(thresholds > 0, thresholds, LEAST_ABOVE_0), chosen, pool, kendall)
    places = np.flatnonzero(chosen | pool)
    pools = np.full((len(bags), len(POOLINGS), len(bags.models)), np.nan)
    found: list[Counted] = []
    for done, (i, (counted, pooling)) in enumerate(
        zip(places, _in_order(look, places, jobs)), start=1
    ):
        pools[i] = pooling
        found += [counted] if counted is not None else []
        if progress is not None:
            progress(done, len(places))
    return Gathered(_joined(bags, thresholds, chosen, found), pools)


def check_jobs(jobs: Any) -> None:
    """Raise unless a number of threads is a whole number from 1 on; with NaN a pool would wait for
    ever.
    """
    whole("jobs", jobs, 1, MOST_THREADS)


Counted = tuple[
    int, I64, I64, I64, F64, I64, int
]  # as the fields of BagPairs from n to truth, of one bag


class Look:
    """What is done with one bag."""

    def __init__(
        self, bags: Bags, thresholds: F64, chosen: Flags, pool: Flags, kendall: bool
    ) -> None:
        self.bags, self.thresholds, self.chosen, self.pool, self.kendall = (
            bags,
            thresholds,
            chosen,
            pool,
            kendall,
        )
        self.reading = Lock()  # sources need not be safe for several readers

    def __call__(self, i: int) -> tuple[Counted | None, F64]:
        """Return what is counted of a bag if it is chosen, and what its maps pool to if that is
        asked for.
        """
        with self.reading:
            bag = self.bags[i]
        check_bag(bag.values, bag.id, self.bags.models)
        whole = (
            pooled(bag.values)
            if self.pool[i]
            else np.full((len(POOLINGS), len(bag.values)), np.nan)
        )
        return self._counted(bag) if self.chosen[i] else None, whole

    def _counted(self, bag: Bag) -> Counted:
        values = bag.values
        ones, both, called = pairwise.joint_counts(values, self.thresholds)
        hits, truth = np.full_like(ones, -1), -1
        if bag.instances is not None:
            hits, truth = (
                pairwise.hits(values, bag.instances, self.thresholds),
                int(bag.instances.sum()),
            )
        return values.shape[1], ones, both, called, self._correlations(values), hits, truth

    def _correlations(self, values: F64) -> F64:
        if self.kendall:
            return pairwise.correlations(values)
        pearson, spearman = pairwise.pearson(values), pairwise.spearman(values)
        unasked = np.full_like(pearson, np.nan)
        return np.stack([pearson, spearman, unasked, unasked])


def _in_order(look: Look, places: I64, jobs: int) -> Iterator[tuple[Counted | None, F64]]:
    """Yield what is found of the bags in their order, never far ahead of what was asked for."""
    if jobs == 1:
        yield from map(look, places.tolist())
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Future[tuple[Counted | None, F64]]] = []
        try:
            for i in places.tolist():
                waiting.append(pool.submit(look, i))
                if len(waiting) >= AHEAD * jobs:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:  # after an error nobody waits for the rest
            for future in waiting:
                future.cancel()


def _joined(bags: Bags, thresholds: F64, chosen: Flags, found: list[Counted]) -> BagPairs:
    k, t = len(bags.models), len(thresholds)
    p = k * (k - 1) // 2
    shapes = {"n": (), "ones": (t, k), "both": (t, p), "called": (t, k + 1), "correlations": (4, p)}
    shapes |= {"hits": (t, k), "truth": ()}
    columns: dict[str, Any] = {}
    for c, (name, shape) in enumerate(shapes.items()):
        kind = np.float64 if name == "correlations" else np.int64
        columns[name] = np.array([entry[c] for entry in found], kind).reshape(len(found), *shape)
    given = bags.bag_scores
    scores = (
        np.full((len(found), k), np.nan)
        if given is None
        else np.asarray(given, np.float64).T[chosen]
    )
    return BagPairs(n_models=k, thresholds=thresholds, bag_scores=scores, **columns)
