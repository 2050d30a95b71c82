"""Boxes of heat maps, one pixel at a time, from SPEC section 6. Maps are nested lists,
``[z][y][x]`` or ``[y][x]``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

Place = tuple[int, ...]
Grid = dict[Place, float]


def as_grid(values: Any) -> Grid:
    """A map as place (z, y, x or y, x) -> value."""
    return {
        place: float(values[place])
        for place in itertools.product(*(range(n) for n in values.shape))
    }


def shape_of(grid: Grid) -> Place:
    return tuple(max(place[axis] for place in grid) + 1 for axis in range(len(next(iter(grid)))))


def resampled(grid: Grid, shape: Sequence[int]) -> Grid:
    """Linear interpolation with outer edges aligned: the mean of the 2^d old pixels around a new
    centre.
    """
    old = shape_of(grid)
    found = {}
    for place in itertools.product(*(range(n) for n in shape)):
        around = []
        for k, m, n in zip(place, old, shape):
            at = min(max((k + 0.5) * m / n - 0.5, 0.0), m - 1.0)
            low = math.floor(at)
            around.append([(low, 1.0 - (at - low)), (min(low + 1, m - 1), at - low)])
        found[place] = math.fsum(
            math.prod(share for _, share in corner) * grid[tuple(k for k, _ in corner)]
            for corner in itertools.product(*around)
        )
    return found


def components(places: set[Place], reach: int) -> list[list[Place]]:
    """Connected sets, in the order of their first places; neighbours differ by 1 along at most
    ``reach`` axes.
    """
    left, found = set(places), []
    while left:
        waiting, part = [min(left)], []
        left.discard(waiting[0])
        while waiting:
            place = waiting.pop()
            part.append(place)
            for step in itertools.product((-1, 0, 1), repeat=len(place)):
                other = tuple(a + b for a, b in zip(place, step))
                if sum(map(abs, step)) <= reach and other in left:
                    left.discard(other)
                    waiting.append(other)
        found.append(part)
    return sorted(found, key=min)


def box(part: list[Place]) -> list[float]:
    """x0 y0 [z0] x1 y1 [z1], half-open."""
    axes = list(zip(*part))[::-1]
    return [float(min(axis)) for axis in axes] + [float(max(axis) + 1) for axis in axes]


def boxes(
    maps: Sequence[Grid],
    shape: Sequence[int],
    thresholds: Sequence[float],
    scale: str,
    reach: int,
    score: str,
) -> list[tuple[int, float, list[float], float]]:
    """(class, threshold, box, score) of one image."""
    grids = [resampled(grid, shape) for grid in maps]
    pool = [value for grid in grids for value in grid.values()]
    found = []
    for label, grid in enumerate(grids):
        own = list(grid.values())
        if min(own) == max(own):
            continue
        within = pool if scale == "image" else own
        low, high = min(within), max(within)
        for threshold in thresholds:
            level = {
                k: v if scale == "none" else (v - low) / (high - low) * 255.0
                for k, v in grid.items()
            }
            chosen = {place for place, value in level.items() if value >= threshold}
            for part in components(chosen, reach):
                values = [grid[place] for place in part]
                found.append(
                    (
                        label,
                        threshold,
                        box(part),
                        max(values) if score == "max" else math.fsum(values) / len(values),
                    )
                )
    return found
