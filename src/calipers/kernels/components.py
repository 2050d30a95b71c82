# SPDX-License-Identifier: Apache-2.0
"""Connected components of runs: which runs hang together. No array of voxels is ever made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_runs, ragged, route, runs

I64 = NDArray[np.int64]

# Steps along y and z to the rows that are looked at (the others look back), and how far touching
# reaches along x.
NEIGHBOURS: dict[str, dict[int, tuple[tuple[int, int, int], ...]]] = {
    "faces": {2: ((1, 0, 0),), 3: ((1, 0, 0), (0, 1, 0))},
    "edges": {2: ((1, 0, 1),), 3: ((1, 0, 1), (-1, 1, 0), (0, 1, 1), (1, 1, 0))},
    "full": {2: ((1, 0, 1),), 3: ((1, 0, 1), (-1, 1, 1), (0, 1, 1), (1, 1, 1))},
}


def components(
    start: I64, length: I64, size: I64, connectivity: str, value: NDArray[Any] | None = None
) -> I64:
    """Return the component of every run, numbered from 0 in the order of their first voxels.

    Parameters
    ----------
    start, length
        Sorted, disjoint runs of one image.
    size
        (d,) width, height[, depth].
    connectivity
        "full" (8 neighbours in 2D, 26 in 3D), "edges" (8, 18) or "faces" (4, 6).
    value
        (m,) Runs with different values do not touch, as those of a label map.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    native, steps = route.native(), NEIGHBOURS[connectivity][len(size)]
    if native is not None and (value is None or value.dtype.kind in compiled_runs.WHOLE):
        return compiled_runs.components(native, start, length, size, steps, value)
    return _graph_components(start, length, size, steps, value)


def _graph_components(
    start: I64,
    length: I64,
    size: I64,
    steps: tuple[tuple[int, int, int], ...],
    value: NDArray[Any] | None,
) -> I64:
    """Return the components: of a graph whose edges are the pairs of runs that touch."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    met = [_touching(start, length, size, step) for step in steps]
    one, other = (np.concatenate(parts) for parts in zip(*met))
    if value is not None:
        alike = value[one] == value[other]
        one, other = one[alike], other[alike]
    edges = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(start), len(start)))
    n, component = connected_components(edges, directed=False)
    return _in_order(component, n)


def _touching(start: I64, length: I64, size: I64, step: tuple[int, int, int]) -> tuple[I64, I64]:
    """Return the pairs of runs of which the second lies one step further and touches the first."""
    down, deep, reach = step
    place = runs.places(start, size)
    x, row = place[0], place[1] + down
    there = (row >= 0) & (row < size[1])
    move = down * size[0]
    if len(size) == 3:
        there &= place[2] + deep < size[2]
        move += deep * size[0] * size[1]
    mine = np.flatnonzero(there)
    x, begin = x[mine], start[mine] - x[mine] + move
    low = begin + np.maximum(x - reach, 0)
    high = begin + np.minimum(x + length[mine] + reach, size[0])
    first = np.searchsorted(start + length, low, side="right")
    counts = np.searchsorted(start, high) - first
    return np.repeat(mine, counts), ragged.spans(first, counts)


def _in_order(component: NDArray[np.integer], n: int) -> I64:
    """Number the components by their first runs."""
    first = np.empty(n, np.int64)
    # Of several assignments the last one stays.
    first[component[::-1]] = np.arange(len(component))[::-1]
    number = np.empty(n, np.int64)
    number[np.argsort(first)] = np.arange(n)
    return np.asarray(number[component])
