# SPDX-License-Identifier: Apache-2.0
"""Rows for the stability of repeated trainings: scores of all pairs of K models, bag by bag.

The bars are set for 10 models: 20x, for tau-b at 256 instances. Rows beside these have lower ones:
5x for tau-b of larger maps, and half of the bar with 5 models, where fewer pairs share the work on
a map. Ratios do not depend on the number of bags, so each size has as many as keep the row short,
and the peer scores some pairs of one bag, scaled to all pairs of 1,000 bags; the row says both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import Result, peak_memory, peer_name, take_turns
from benchmarks.rows import ONE_THREAD, row
from benchmarks.voxel_rows import on, same

F64 = NDArray[np.float64]
Score = Callable[[F64], F64]

MODELS = (5, 10, 20)
BAGS = {256: 100, 4096: 10, 65_536: 1}  # instances, and bags of Calipers
PEER_PAIRS = {256: 45, 4096: 20, 65_536: 5}  # pairs that the peer scores, at most
ROUNDS = 5
MEMORY = 400.0  # MB with ten maps of 2^20 instances, which are 80 MB


def bags(n_bags: int, n_models: int, n: int, seed: int = 0) -> F64:
    """Return (bags, models, instances) maps in [0, 1] that have something in common."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_bags, 1, n))
    return np.asarray(1 / (1 + np.exp(-common - rng.normal(size=(n_bags, n_models, n)))))


@row("stability-spearman")
def spearman() -> Iterator[Result]:
    """Spearman's correlation of all pairs, from the maps, against SciPy."""
    from scipy.stats import spearmanr

    from calipers.kernels import ranks

    yield from contest(
        "stability-spearman",
        "Spearman",
        ranks.spearman,
        lambda x, y: spearmanr(x, y)[0],
        "scipy",
        20.0,
    )


@row("stability-kappa")
def kappa() -> Iterator[Result]:
    """Cohen's kappa of all pairs at the threshold .5, from the maps, against scikit-learn."""
    from sklearn.metrics import cohen_kappa_score

    from calipers.kernels import agreement, ranks

    def ours(values: F64) -> F64:
        ones, both, _ = ranks.joint_counts(values, np.array([0.5]))
        first, second = ranks.pair_index(len(values))
        n11 = both[0].astype(np.float64)
        n10, n01 = ones[0, first] - n11, ones[0, second] - n11
        return agreement.cohen_kappa(n11, n10, n01, values.shape[1] - n11 - n10 - n01)

    def peer(x: F64, y: F64) -> float:
        return float(cohen_kappa_score(x >= 0.5, y >= 0.5))

    yield from contest("stability-kappa", "kappa", ours, peer, "scikit-learn", 20.0)


@row("stability-kendall")
def kendall() -> Iterator[Result]:
    """Kendall's tau-b of all pairs, from the maps, against SciPy; the bar is for 256 instances."""
    from scipy.stats import kendalltau

    from calipers.kernels import ranks

    def ours(values: F64) -> F64:
        return ranks.kendall(values)[0]

    yield from contest(
        "stability-kendall",
        "tau-b",
        ours,
        lambda x, y: kendalltau(x, y)[0],
        "scipy",
        20.0,
        large=5.0,
    )


def contest(
    name: str,
    score: str,
    ours: Score,
    peer: Callable[[F64, F64], float],
    package: str,
    bar: float,
    large: float = 20.0,
) -> Iterator[Result]:
    """Compare the native route with pairwise calls of a peer: time per 1,000 bags,
    for all numbers of models.
    """
    for n, n_bags in BAGS.items():
        for n_models in MODELS:
            values = bags(n_bags, n_models, n)
            first, second = np.triu_indices(n_models, 1)
            some = np.arange(len(first))[: PEER_PAIRS[n]]

            def scored(values: F64 = values) -> list[F64]:
                return [ours(bag) for bag in values]

            def paired(
                values: F64 = values, some: Any = some, first: Any = first, second: Any = second
            ) -> list[float]:
                return [peer(values[0, first[p]], values[0, second[p]]) for p in some]

            same(scored()[0][some], paired(), 1e-12)
            times = take_turns({"ours": on("native", scored), "peer": paired}, ROUNDS)
            what = (
                f"{score}, K={n_models}, N={n:,}; per 1,000 bags, of {n_bags} and peer's "
                f"{len(some)} pairs"
            )
            needs = times["peer"] / len(some) * len(first) * 1000
            least = bar if n == min(BAGS) else large
            if n_models < 10:
                least /= 2  # fewer pairs share the work on one map
            used = times["ours"] / n_bags * 1000
            yield Result(name, what, "native", peer_name(package), needs, used, "s", least, ROUNDS)
    yield memory(name, score)


def memory(name: str, score: str) -> Result:
    """Return the peak memory with ten maps of 2^20 instances, the maps and Python included."""
    calls = {
        "Spearman": "pairwise.spearman(values)",
        "kappa": "pairwise.joint_counts(values, np.array([0.5]))",
        "tau-b": "pairwise.kendall(values)",
    }
    code = (
        "import numpy as np\nfrom calipers.kernels import pairwise\n"
        f"values = np.random.default_rng(0).random((10, 1 << 20))\n{calls[score]}\n"
    )
    used = peak_memory(code, **ONE_THREAD)
    limit = f"limit of {MEMORY:.0f} MB"
    return Result(
        name, f"peak, {score}, K=10, N=1,048,576", "native", limit, MEMORY, used, "MB", 1.0, 1
    )
