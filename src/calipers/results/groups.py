# SPDX-License-Identifier: Apache-2.0
"""The results of an evaluation by groups: the rows of every grouping, and their summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calipers.results.estimate import Estimate, Row, number


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A metric over the groups of one ``by``: unweighted mean, standard deviation (n - 1) and range
    of their values.
    """

    by: str
    model: str
    metric: str
    label: str | None
    n_groups: int
    n_defined: int  # groups with a value
    mean: float
    sd: float
    lowest: float
    highest: float

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return {
            "by": self.by,
            "model": self.model,
            "metric": self.metric,
            "class": self.label,
            "n_groups": self.n_groups,
            "n_defined": self.n_defined,
            "mean": number(self.mean),
            "sd": number(self.sd),
            "lowest": number(self.lowest),
            "highest": number(self.highest),
        }


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """The rows of one ``by``, and their summaries."""

    by: str
    rows: tuple[Row, ...]
    summaries: tuple[GroupSummary, ...]

    @property
    def title(self) -> str:
        """``by centre, size``; classes have tables of their own."""
        names = self.by.replace(" ", "").split(",")
        return "by " + ", ".join(name for name in names if name != "class")

    def table(
        self, metric: str, label: str | None, models: Sequence[str]
    ) -> dict[str, list[Estimate]]:
        """Return name of the group -> estimates of the models, of one metric and class."""
        cells: dict[str, dict[str, Estimate]] = {}
        for row in self.rows:
            if (row.metric, row.label) == (metric, label):
                group = ", ".join((row.group or {}).values())
                cells.setdefault(group, {})[row.model] = row.estimate
        table = {}
        for group, of_model in cells.items():
            table[group] = [of_model[model] for model in models]
        return table

    def summary(self, metric: str, label: str | None, model: str) -> GroupSummary:
        """Return the summary over the groups, for one metric, class and model."""
        key = metric, label, model
        return next(s for s in self.summaries if (s.metric, s.label, s.model) == key)
