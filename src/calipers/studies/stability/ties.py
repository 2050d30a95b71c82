# SPDX-License-Identifier: Apache-2.0
"""Rank correlations of maps that are zero almost everywhere.

The choice of the variant (tau-a or tau-b, with or without midranks) then matters more than the
model does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import pairwise
from calipers.stability.pooling import pool_maps
from calipers.synthetic.anatomy import stream

F64 = NDArray[np.float64]

SIDE = 16
CUT = 0.5  # cells below this show nothing
SLIGHT = 0.2  # of the range is noise that every model has of its own


@dataclass(frozen=True)
class Ties:
    """One pair of maps under every variant of rank correlation, without and with ties."""

    zeros: float  # share of cells that are 0 in both
    formula: dict[
        str, float
    ]  # "with ties" / "without ties" -> 1 - 6 sum d^2 / (N (N^2 - 1)), with midranks
    spearman: dict[str, float]
    tau_a: dict[str, float]
    tau_b: dict[str, float]


def ties(seed: int) -> Ties:
    """Return the variants for two maps, a spot on a background: unchanged, and with all faint cells
    set to 0.
    """
    random = stream(seed, "ties")
    across = np.arange(SIDE) - (SIDE - 1) / 2
    away = np.hypot(across[:, None], across[None]).ravel()
    # Two models see the same spot, each with noise of its own.
    maps = (1 - SLIGHT) * np.exp(-((away / 4.0) ** 2)) + SLIGHT * random.random((2, SIDE * SIDE))
    kinds = {"without ties": maps, "with ties": np.where(maps >= CUT, maps, 0.0)}
    both = {name: pairwise.kendall(values) for name, values in kinds.items()}
    return Ties(
        float((kinds["with ties"] == 0).all(axis=0).mean()),
        {name: printed_spearman(values) for name, values in kinds.items()},
        {name: float(pairwise.spearman(values)[0]) for name, values in kinds.items()},
        {name: float(taus[1][0]) for name, taus in both.items()},
        {name: float(taus[0][0]) for name, taus in both.items()},
    )


def printed_spearman(values: F64) -> float:
    """Return 1 - 6 sum d^2 / (N (N^2 - 1)) of two maps, as table I prints it; d are differences of
    midranks.
    """
    n = values.shape[1]
    difference = np.diff(pairwise.midranks(values), axis=0)[0]
    return float(1 - 6 * (difference**2).sum() / (n * (n**2 - 1)))


@dataclass(frozen=True, slots=True)
class RankShifts:
    """Rank correlations under exchanged ranks, and with a map that is half of the other."""

    few_large: tuple[
        float, float
    ]  # Spearman, tau-b: one cell in 16 changes places with one far away
    many_small: tuple[float, float]  # all cells change places near by; as much displacement in all
    halved: tuple[float, float]  # the second map is half of the first


def rank_shifts(n: int = 256) -> RankShifts:
    """Return few large and many small exchanges with the same sum of rank differences, and a halved
    map.

    Neighbours in many small exchanges are 8 ranks apart (n / 2 exchanges), those of few large ones
    n / 2 ranks apart (8 exchanges): the sum of |d| is 8 n in both.
    """
    ranks = np.arange(n, dtype=np.float64)
    small = ranks.reshape(-1, 2, 8)[:, ::-1].ravel()
    large, cells = ranks.copy(), np.arange(0, n // 2, 16)
    large[cells], large[cells + n // 2] = cells + n // 2, cells

    def both(other: F64) -> tuple[float, float]:
        pair = np.stack([ranks, other]) / n
        return float(pairwise.spearman(pair)[0]), float(pairwise.kendall(pair)[0][0])

    return RankShifts(both(large), both(small), both(ranks / 2))


@dataclass(frozen=True, slots=True)
class SoftMaximum:
    """The largest distance of LSE-r from the mean and its mean distance from the maximum, over
    simulated maps.
    """

    r: float
    from_mean: float
    from_max: float


def soft_maximum(r: float, seed: int, n: int = 400) -> SoftMaximum:
    """Return the distances of LSE-r, (1/r) log mean exp(r p), over maps with few, some and many
    high values.
    """
    random = stream(seed, "pooling")
    first, second = random.uniform(0.1, 3.0, (2, n, 1))
    maps = random.beta(first, second, (n, 256))
    soft = np.log(np.exp(r * maps).mean(axis=1)) / r
    # The same pooling functions as in the stability analysis.
    highest, mean, _, _ = pool_maps(maps)
    return SoftMaximum(r, float(np.abs(soft - mean).max()), float(np.abs(soft - highest).mean()))
