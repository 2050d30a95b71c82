# SPDX-License-Identifier: Apache-2.0
"""Prepare lines for drawing: clip them at the edges, split them at gaps, turn them into steps, and
drop points that make no visible difference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calipers.plots.figures import F64
from calipers.plots.svg.scales import HUGE, I64

TOLERANCE = 0.2  # pixels that a left out point may lie off the line
COLUMN = 1.0  # pixels: of all points in such a column, first, lowest, highest and last stay
MANY = 1500  # points of a line that are first thinned by columns


def clip_line(x: F64, y: F64, low: float, high: float, *, step: bool) -> tuple[F64, F64]:
    """Return the line between ``low`` and ``high`` of x, with a point where it crosses an edge.

    The height on the edge is that of the straight line to the next point, or of the step. A curve
    that starts at zero thus reaches the left edge of a logarithmic axis.
    """
    order = np.arange(len(x))
    if step and len(x) and np.any(np.diff(x) < 0):
        order = np.argsort(x, kind="stable")
    x, y = (np.clip(np.where(np.isfinite(v), v, np.nan), -HUGE, HUGE)[order] for v in (x, y))
    if not len(x) or np.any(np.diff(x) < 0):
        # The line runs back and forth, so edges have no single height: drop the points outside.
        return np.where((x < low) | (x > high), np.nan, x), y
    within = (x >= low) & (x <= high)
    parts_x, parts_y = [x[within]], [y[within]]
    before, after = np.flatnonzero(x < low), np.flatnonzero(x > high)
    if len(before) and before[-1] + 1 < len(x):
        parts_x.insert(0, np.array([low]))
        parts_y.insert(0, np.array([_height(x, y, int(before[-1]), low, step)]))
    if len(after) and after[0] > 0:
        parts_x.append(np.array([high]))
        parts_y.append(np.array([_height(x, y, int(after[0]) - 1, high, step)]))
    return np.concatenate(parts_x), np.concatenate(parts_y)


def _height(x: F64, y: F64, k: int, at: float, step: bool) -> float:
    if step:
        return float(y[k])
    share = (at - x[k]) / (x[k + 1] - x[k])
    return float((1 - share) * y[k] + share * y[k + 1])


def pieces(x: F64, y: F64) -> Iterator[tuple[F64, F64]]:
    """Yield the parts of a line between undefined points, if they have two points at least."""
    good = np.isfinite(x) & np.isfinite(y)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2]):
        if stop - start > 1:
            yield x[start:stop], y[start:stop]


def step_line(x: F64, y: F64) -> tuple[F64, F64]:
    """Return a line that holds its height until the next point."""
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def thin_line(x: F64, y: F64) -> tuple[F64, F64]:
    """Return the line without points that change it by less than can be seen."""
    if len(x) > MANY:
        keep = _columns(x, y)
        x, y = x[keep], y[keep]
    keep = _simplify(x, y)
    return x[keep], y[keep]


def _columns(x: F64, y: F64) -> I64:
    column = np.floor(x / COLUMN)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1])
    stops = np.concatenate([starts[1:], [len(x)]])
    indices: set[int] = set()
    for a, b in zip(starts.tolist(), stops.tolist()):
        indices.update((a, b - 1, a + int(y[a:b].argmin()), a + int(y[a:b].argmax())))
    return np.array(sorted(indices), np.int64)


def _simplify(x: F64, y: F64) -> I64:
    """Return the points that stay (Ramer 1972, Douglas and Peucker 1973), without recursion."""
    keep = np.zeros(len(x), bool)
    keep[[0, -1]] = True
    todo = [(0, len(x) - 1)]
    while todo:
        a, b = todo.pop()
        if b - a < 2:
            continue
        dx, dy = x[b] - x[a], y[b] - y[a]
        ux, uy = x[a + 1 : b] - x[a], y[a + 1 : b] - y[a]
        square = dx * dx + dy * dy
        # The distance to the piece, not to the endless line: a point beyond its ends must stay.
        share = (
            np.clip((ux * dx + uy * dy) / square, 0.0, 1.0) if square > 1e-12 else np.zeros(len(ux))
        )
        off = np.hypot(ux - share * dx, uy - share * dy)
        worst = int(off.argmax())
        if off[worst] > TOLERANCE:
            keep[a + 1 + worst] = True
            todo += [(a, a + 1 + worst), (a + 1 + worst, b)]
    return np.flatnonzero(keep)
