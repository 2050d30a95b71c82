# SPDX-License-Identifier: Apache-2.0
"""Which rings of corners cross themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.kernels.polygons import following_corners

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_PAIRS = 1 << 22  # pairs of edges that are tried for one ring
BATCH = 1 << 20
SLACK = 1e-3  # more than the rounding of a key


def self_crossing(rings: I64, corners: F64) -> tuple[Flags, Flags]:
    """Return which rings cross themselves, and which have too many pairs of edges to tell.

    Parameters
    ----------
    rings
        (r + 1,) corners of each ring.
    corners
        (m, 2) x, y, finite.

    Notes
    -----
    A ring crosses itself if two of its edges cross at a point inside of both: edges that only
    touch, at a corner or along a line, do not cross. Only edges whose spans on the x axis overlap
    are tried.
    """
    n = len(rings) - 1
    crossed, unknown = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    if not len(corners):
        return crossed, unknown
    edge, ring, count = _candidates(rings, corners)
    unknown = np.bincount(ring, count, n) > MOST_PAIRS
    count[unknown[ring]] = 0
    following = following_corners(rings)
    for begin, end in ragged.batches(count, BATCH):
        position = np.arange(begin, end)
        first = np.repeat(position, count[begin:end])
        second = ragged.spans(position + 1, count[begin:end])
        hit = _cross(corners, following, edge[first], edge[second])
        crossed[ring[first[hit]]] = True
    return crossed, unknown


def _candidates(rings: I64, corners: F64) -> tuple[I64, I64, I64]:
    """Return the edges of each ring by their left ends, their rings, and how many that follow begin
    before they end.
    """
    here, there = corners[:, 0], corners[following_corners(rings), 0]
    low, high = np.minimum(here, there), np.maximum(here, there)
    ring = ragged.owners(rings)
    room = float(high.max() - low.min()) + 1.0
    key = ring * room + (low - low.min())
    order = np.argsort(key, kind="stable")
    reach = ring * room + (high - low.min()) + SLACK
    stop = np.searchsorted(key[order], reach[order], side="right")
    stop = np.minimum(stop, rings[ring[order] + 1])
    return order, ring[order], np.maximum(stop - np.arange(len(order)) - 1, 0)


def _cross(corners: F64, following: I64, first: I64, second: I64) -> Flags:
    a, b, c, d = (
        corners[first],
        corners[following[first]],
        corners[second],
        corners[following[second]],
    )
    apart = _side(a, b, c) * _side(a, b, d) < 0
    return np.asarray(apart & (_side(c, d, a) * _side(c, d, b) < 0))


def _side(a: F64, b: F64, c: F64) -> F64:
    """Return on which side of the line from a to b a point c lies, as a sign."""
    return np.sign(
        (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    )
