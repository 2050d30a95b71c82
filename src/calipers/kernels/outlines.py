# SPDX-License-Identifier: Apache-2.0
"""Outlines of masks: closed rings along the edges of pixels, with corners only where the direction
changes.

A corner of a pixel is a corner of the outline if an odd number of the four pixels around it is set,
and twice if only the two across are. In every row of corners the first and second, the third and
fourth and so on are joined by an edge; likewise in every column. Walking rows and columns by turns
closes the rings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


def rings(mask: Flags) -> tuple[I64, I64]:
    """Return the outlines of the pixels that are set.

    Parameters
    ----------
    mask
        (h, w).

    Returns
    -------
    points
        (m, 2) corners x, y, from 0 to w and 0 to h; every ring starts at its first corner from
        above, then from the left, and first goes right. Outer rings run clockwise on a screen,
        holes likewise.
    offsets
        (n_rings + 1,) corners of each ring; at least four. No pixel set gives no ring.

    Notes
    -----
    Two pixels that touch at a corner only are outlined as two: rings may touch, they never cross.
    """
    x, y, falling = _corners(mask)
    along_row = _partners(np.lexsort((x, y)))
    along_column = _partners(np.lexsort((falling, y, x)))
    order, offsets = _walk_rings(along_row.tolist(), along_column.tolist())
    return np.stack([x, y], axis=1)[order].reshape(-1, 2), offsets


def _corners(mask: Flags) -> tuple[I64, I64, I64]:
    """Return x, y of every corner by rows, double ones twice, and the order of the two of a double
    one in its column.

    Of a double corner the first of the two ends an edge from the left, the second begins one to the
    right. Where the pixels above left and below right are set, the first also ends the edge from
    above; else it begins the one below.
    """
    padded = np.pad(mask, 1)
    a, b, c, d = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
    across = (a == d) & (b == c) & (a != b)
    count = (a ^ b ^ c ^ d).astype(np.int64) + 2 * across
    place = np.repeat(np.arange(count.size), count.ravel())
    second = np.zeros(len(place), np.int64)
    second[1:] = place[1:] == place[:-1]
    rising = (across & b).ravel()[place]  # above right and below left are set
    y, x = np.divmod(place, count.shape[1])
    return x, y, np.where(rising, 1 - second, second)


def _partners(order: I64) -> I64:
    """Return the corner at the other end of an edge, given the corners in the order of their rows
    or columns.
    """
    partner = np.empty(len(order), np.int64)
    partner[order[0::2]] = order[1::2]
    partner[order[1::2]] = order[0::2]
    return partner


def _walk_rings(along_row: list[int], along_column: list[int]) -> tuple[I64, I64]:
    """Return the corners ring by ring, and where each ring starts."""
    visited = [False] * len(along_row)
    order: list[int] = []
    offsets = [0]
    for first in range(len(along_row)):
        if visited[first]:
            continue
        corner = first
        while not visited[corner]:
            other = along_row[corner]
            visited[corner] = visited[other] = True
            order += (corner, other)
            corner = along_column[other]
        offsets.append(len(order))
    return np.array(order, np.int64), np.array(offsets, np.int64)
