# SPDX-License-Identifier: Apache-2.0
"""Several stability analyses in one figure: stability against AUC or DICE, a point for each."""

from __future__ import annotations

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.plots.figures import F64, Axis, Dots, Scatter
from calipers.plots.words import short_name
from calipers.stability.comparison import COLUMNS, Cell, StabilityTable
from calipers.stability.correlation import correlation

STABILITY, MEASURES = ("APJ", "Spearman"), ("AUC", "DICE")
WORDS = {"AUC": "bag AUC", "DICE": "DICE"}


def figure(table: StabilityTable, measure: str = "AUC", score: str = "APJ") -> Scatter:
    """Return a point per key.

    If keys have several parts, the first is the series and the others name the point.
    """
    for name, names in ((measure, MEASURES), (score, STABILITY)):
        if name not in names:
            raise UsageError(f"no {name!r} here; {did_you_mean(name, names)}")
    series: dict[str, list[tuple[str, Cell, Cell]]] = {}
    for key, row in zip(table.keys, table.cells):
        first, rest = (key[0], " / ".join(key[1:])) if len(key) > 1 else ("", key[0])
        point = (rest, row[COLUMNS.index(score)], row[COLUMNS.index(measure)])
        series.setdefault(first, []).append(point)
    dots = tuple(_dots(name, points, slot) for slot, (name, points) in enumerate(series.items()))
    x, y = np.concatenate([one.x for one in dots]), np.concatenate([one.y for one in dots])
    note = (
        "A point is an analysis. Bars are standard deviations (ddof 0), not intervals: "
        f"of {score} over images, of {WORDS[measure]} over models."
    )
    return Scatter(_title(x, y, measure, score), Axis(score), Axis(WORDS[measure]), dots, note=note)


def _dots(name: str, points: list[tuple[str, Cell, Cell]], slot: int) -> Dots:
    names = tuple(short_name(point) for point, _, _ in points)
    x, x_sd = np.array([(cell.mean, cell.sd) for _, cell, _ in points]).T
    y, y_sd = np.array([(cell.mean, cell.sd) for _, _, cell in points]).T
    return Dots(short_name(name), x, y, x - x_sd, x + x_sd, y - y_sd, y + y_sd, names, slot)


def _title(x: F64, y: F64, measure: str, score: str) -> str:
    both = np.isfinite(x) & np.isfinite(y)
    together = correlation(x, y)
    if not both.any():
        return f"No analysis has both {score} and {WORDS[measure]}"
    span = f"{score} from {x[both].min():.2f} to {x[both].max():.2f}"
    other = f"{WORDS[measure]} from {y[both].min():.2f} to {y[both].max():.2f}"
    correlation_text = (
        f"; rank correlation {together:.2f}, n = {both.sum()}" if together == together else ""
    )
    return f"{span}, {other}{correlation_text}"
