# SPDX-License-Identifier: Apache-2.0
"""Several stability analyses in one table: data sets, pooling operators, ways of training.

In come `StabilityResult` by key; out goes a `StabilityTable` with mean and standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.errors import UsageError
from calipers.results.estimate import number
from calipers.stability.result import StabilityResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure

COLUMNS = ("APJ", "Spearman", "AUC", "DICE")
OVER = {"APJ": "bags", "Spearman": "bags", "AUC": "models", "DICE": "models"}
SCHEMA = "calipers.stability-table/1"


@dataclass(frozen=True, slots=True)
class Cell:
    """Mean and standard deviation (ddof 0) of a measure, over what, and how many of them."""

    metric: str
    mean: float
    sd: float
    over: str  # "bags" or "models"
    n: int

    def __str__(self) -> str:
        return "-" if self.mean != self.mean else f"{self.mean:.2f} ± {self.sd:.2f}"

    def as_dict(self) -> dict[str, Any]:
        """Return the cell for JSON."""
        return {"mean": number(self.mean), "sd": number(self.sd), "over": self.over, "n": self.n}


@dataclass(frozen=True)
class StabilityTable:
    """Analyses by key: stability as mean and SD over bags, bag AUC and DICE as mean and SD over
    models.
    """

    keys: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]  # as keys by COLUMNS

    def __getitem__(self, place: tuple[tuple[str, ...] | str, str]) -> Cell:
        """Return a cell: ``table[("X-Ray", "NOR"), "APJ"]``."""
        key, metric = place
        row = (key,) if isinstance(key, str) else tuple(key)
        if row not in self.keys or metric not in COLUMNS:
            raise UsageError(
                f"no cell {place!r}; rows: {list(self.keys)}, columns: {', '.join(COLUMNS)}"
            )
        return self.cells[self.keys.index(row)][COLUMNS.index(metric)]

    def __str__(self) -> str:
        lines = [[*([""] * len(self.keys[0])), *COLUMNS]]
        for key, row in zip(self.keys, self.cells):
            lines.append([*key, *map(str, row)])
        widths = [max(map(len, column)) for column in zip(*lines)]
        padded = []
        for line in lines:
            words = [word.ljust(width) for word, width in zip(line, widths)]
            padded.append("  ".join(words).rstrip())
        return "\n".join(padded)

    def as_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        rows = []
        for key, row in zip(self.keys, self.cells):
            cells = {cell.metric: cell.as_dict() for cell in row}
            rows.append({"key": list(key), **cells})
        return {"schema": SCHEMA, "columns": list(COLUMNS), "sd_ddof": 0, "rows": rows}

    def figure(self, measure: str = "AUC", score: str = "APJ") -> Figure:
        """Return stability against bag AUC or DICE, a point per key with standard deviations, as
        data.
        """
        from calipers.plots.stability_table import figure

        return figure(self, measure, score)

    def plot(self, measure: str = "AUC", score: str = "APJ", ax: Axes | None = None) -> Axes:
        """Draw the figure with matplotlib (extra ``mpl``) and return its axes."""
        from calipers.plots.mpl import draw

        return draw(self.figure(measure, score), ax)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per key and measure as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        rows = []
        for key, cells in zip(self.keys, self.cells):
            name = " / ".join(key)
            for cell in cells:
                rows.append({"key": name, "metric": cell.metric, **cell.as_dict()})
        return frame(rows)


def stability_table(results: Mapping[str | Sequence[str], StabilityResult]) -> StabilityTable:
    """Return several analyses as one table.

    Parameters
    ----------
    results
        By a name, or by a tuple of names such as ``("X-Ray", "NOR")``: data set and pooling
        operator.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> maps = np.random.default_rng(0).random((3, 8, 16))
    >>> table = stability_table({("made up", "max"): cal.stability(maps, ci=False)})
    >>> print(table[("made up", "max"), "DICE"], table[("made up", "max"), "APJ"].n)
    - 8
    """
    keys = tuple(_key(key) for key in results)
    if len(set(map(len, keys))) != 1:
        raise UsageError("a table needs at least one result, and keys of one length")
    cells = []
    for result in results.values():
        cells.append(tuple(_cell(result, name) for name in COLUMNS))
    return StabilityTable(keys, tuple(cells))


def _key(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(map(str, key))


def _cell(result: StabilityResult, name: str) -> Cell:
    if OVER[name] == "bags":
        n_defined = int((~np.isnan(result.per_bag(name))).sum())
        return Cell(name, result[name].value, result.sd(name), "bags", n_defined)
    localized = result.localized
    if not localized.has(name):
        return Cell(name, float("nan"), float("nan"), "models", 0)
    return Cell(name, localized.mean(name), localized.sd(name), "models", len(result.models))
