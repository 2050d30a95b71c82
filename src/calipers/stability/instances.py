# SPDX-License-Identifier: Apache-2.0
"""From boxes on an image to labels of the instances of a grid, by one of four rules."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import finite, one_of, real, several, shown, whole
from calipers.errors import InputError, UsageError

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

RULES = ("any-overlap", "centre", "rounded", "coverage")
ROUNDING = 1e-12  # a half of a cell may come as 0.49999999999999994
MOST_CELLS = 1 << 16  # along a side
Rule = Literal["any-overlap", "centre", "rounded", "coverage"]


def instance_labels(
    boxes: Any,
    size: tuple[float, float],
    grid: tuple[int, int],
    rule: Rule = "any-overlap",
    coverage: float = 0.5,
) -> Flags:
    """Return (rows, columns): which cells of a grid over an image belong to a box.

    Parameters
    ----------
    boxes
        (n, 4) x0 y0 x1 y1 in pixels, half-open; n may be 0. Parts outside the image are cut off.
    size
        (width, height) of the image in pixels. Cells are width / columns wide and height / rows
        high.
    grid
        (rows, columns).
    rule
        ``any-overlap``: an area of the cell above 0 lies in a box. ``centre``: the centre of the
        cell lies in a box (its lower edges included). ``rounded``: the cells from round(x0) to
        round(x1), both included, in units of cells and with halves to even, and likewise rows;
        indices are kept in the grid. ``coverage``: at least this share of the cell's area lies in
        one box.
    coverage
        Above 0, up to 1.

    Notes
    -----
    A cell is positive if one box makes it so. A box without area inside the image labels nothing,
    under any rule.

    Examples
    --------
    >>> instance_labels([[10, 10, 30, 20]], size=(40, 40), grid=(4, 4)).astype(int).tolist()
    [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    >>> int(instance_labels([[10, 10, 30, 20]], (40, 40), (4, 4), rule="rounded").sum())
    6
    """
    table, (width, height), (rows, columns) = _checked(boxes, size, grid, rule, coverage)
    limits = np.array([width, height, width, height], np.float64)
    clipped = np.clip(table, 0.0, limits)
    visible = clipped[(clipped[:, 2] > clipped[:, 0]) & (clipped[:, 3] > clipped[:, 1])]
    # in units of cells; multiplied first, so that edges on the borders of cells stay whole numbers
    cells = visible * np.array([columns, rows, columns, rows]) / limits
    across = _along(cells[:, 0], cells[:, 2], columns, rule)
    down = _along(cells[:, 1], cells[:, 3], rows, rule)
    shares = down[:, :, None] * across[:, None, :]
    enough = shares >= coverage - ROUNDING if rule == "coverage" else shares > 0
    return np.asarray(enough.any(axis=0))


def _along(start: F64, end: F64, n: int, rule: str) -> F64:
    """Return (n_boxes, n): the part of each cell of one axis that a box covers; 0 or 1 for the
    rules that only decide whether it does.
    """
    at = np.arange(n, dtype=np.float64)
    if rule == "centre":
        has_centre = (start[:, None] <= at + 0.5) & (at + 0.5 < end[:, None])
        return has_centre.astype(np.float64)
    if rule == "rounded":
        first, last = np.clip(np.rint(start), 0, n - 1), np.clip(np.rint(end), 0, n - 1)
        return ((first[:, None] <= at) & (at <= last[:, None])).astype(np.float64)
    overlap = np.minimum(end[:, None], at + 1) - np.maximum(start[:, None], at)
    return np.asarray(np.maximum(overlap, 0.0))


def _checked(
    boxes: Any, size: tuple[float, float], grid: tuple[int, int], rule: str, coverage: float
) -> tuple[F64, tuple[float, float], tuple[int, int]]:
    """Return the arguments as numbers; raise for those that are not valid."""
    one_of("rule", rule, RULES)
    if not 0 < real("coverage", coverage) <= 1:
        raise UsageError(f"coverage lies above 0 and up to 1, got {coverage!r}")
    sides, cells = several("size", size), several("grid", grid)
    if len(sides) != 2 or len(cells) != 2:
        raise UsageError(
            f"size is (width, height) and grid (rows, columns), got {shown(size)} and {shown(grid)}"
        )
    width, height = (finite("a side of the image", side) for side in sides)
    rows, columns = (whole("a side of the grid", side, 1, MOST_CELLS) for side in cells)
    if not (width > 0 and height > 0):
        raise UsageError(f"an image has positive sides, got {shown(size)}")
    try:
        array = np.asarray(boxes)
    except ValueError:
        raise InputError("boxes (n, 4)", rule="box-shape", field="boxes", value=boxes) from None
    if array.size and array.dtype.kind not in "biuf":
        raise InputError("numbers", rule="type", field="boxes", value=boxes)
    table = np.zeros((0, 4)) if array.size == 0 else array.astype(np.float64)
    if table.ndim != 2 or table.shape[1] != 4:
        raise InputError(
            "boxes (n, 4): x0 y0 x1 y1", rule="box-shape", field="boxes", value=table.shape
        )
    if not np.isfinite(table).all():
        raise InputError(
            "finite numbers", rule="non-finite", field="boxes", location=_first(~np.isfinite(table))
        )
    wrong = (table[:, 2] < table[:, 0]) | (table[:, 3] < table[:, 1])
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            "x0 <= x1 and y0 <= y1",
            rule="neg-size",
            location=f"boxes[{k}]",
            value=table[k].tolist(),
        )
    return table, (width, height), (rows, columns)


def _first(wrong: Flags) -> str:
    return f"boxes[{int(np.argwhere(wrong)[0, 0])}]"
