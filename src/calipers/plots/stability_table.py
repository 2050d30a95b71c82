# SPDX-License-Identifier: Apache-2.0
"""Several stability analyses in one figure: stability against bag AUC or DICE, a point per data set
and operator.
"""

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
    """Return a point per key; of keys with several parts the first is the series, the others name
    the point.
    """
    for name, names in ((measure, MEASURES), (score, STABILITY)):
        if name not in names:
            raise UsageError(f"no {name!r} here; {did_you_mean(name, names)}")
    series: dict[str, list[tuple[str, Cell, Cell]]] = {}
    for key, row in zip(table.keys, table.cells):
        first, rest = (key[0], " / ".join(key[1:])) if len(key) > 1 else ("", key[0])
        series.setdefault(first, []).append(
            (rest, row[COLUMNS.index(score)], row[COLUMNS.index(measure)])
        )
    dots = tuple(_dots(name, points, slot) for slot, (name, points) in enumerate(series.items()))
    x, y = (np.concatenate([getattr(one, side) for one in dots]) for side in ("x", "y"))
    note = (
        f"A point is an analysis. Bars are standard deviations (ddof 0), no intervals: of {score} over images, of "
        f"{WORDS[measure]} over models."
    )
    return Scatter(_title(x, y, measure, score), Axis(score), Axis(WORDS[measure]), dots, note=note)


def _dots(name: str, points: list[tuple[str, Cell, Cell]], slot: int) -> Dots:
    names, stable, right = zip(*points)
    x, y = (np.array([cell.mean for cell in cells]) for cells in (stable, right))
    across, up = (np.array([cell.sd for cell in cells]) for cells in (stable, right))
    return Dots(
        short_name(name),
        x,
        y,
        x - across,
        x + across,
        y - up,
        y + up,
        tuple(map(short_name, names)),
        slot,
    )


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
