# SPDX-License-Identifier: Apache-2.0
"""The result of comparing models: a row per pair of models, metric and, on request, class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calipers.errors import UsageError, did_you_mean
from calipers.results.difference import Difference
from calipers.results.document import Document
from calipers.results.ranking import Ranking

SCHEMA = "calipers.comparison/1"


@dataclass(frozen=True)
class Comparison(Document):
    """What `Evaluation.compare` returns.

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort(), "overview")
    >>> comparison = ev.compare("overpredicts", "misses-small", metrics=["F1@0.5"])
    >>> comparison.get("F1@0.5").verdict
    'b_better'
    """

    rows: tuple[Difference, ...]
    level: float
    replicates: int
    seed: int
    unit: str
    n_units: int
    generalises_to: str  # in words
    correction: str
    family: int  # number of tests that were corrected together
    protocol: Mapping[str, Any]  # as in JSON
    cohort: Mapping[str, Any]  # counts, as in JSON
    ranking: Ranking | None
    warnings: tuple[str, ...]

    @property
    def untested(self) -> int:
        """How many rows have no p value."""
        return sum(math.isnan(row.p) for row in self.rows)

    def get(
        self, metric: str, *, a: str | None = None, b: str | None = None, label: str | None = None
    ) -> Difference:
        """Return one row; a model may be left out if one pair only is left."""
        rows = (row for row in self.rows if (row.metric, row.label) == (metric, label))
        matches = [row for row in rows if a in (None, row.model_a) and b in (None, row.model_b)]
        if not matches:
            suggestion = did_you_mean(metric, dict.fromkeys(row.metric for row in self.rows))
            raise UsageError(
                f"no row for {metric!r}, class {label}, models {a} and {b}; {suggestion}"
            )
        if len(matches) > 1:
            pairs = "; ".join(f"a={row.model_a!r}, b={row.model_b!r}" for row in matches)
            raise UsageError(
                f"{len(matches)} pairs of models are compared in {metric!r}: say which of {pairs}"
            )
        return matches[0]

    def _repr_html_(self) -> str:
        from calipers.report.small import of_comparison

        return of_comparison(self)

    def __str__(self) -> str:
        return "\n".join(row.sentence for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.comparison/1``."""
        from calipers import __version__

        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "protocol": dict(self.protocol),
            "cohort": dict(self.cohort),
            "settings": {
                "level": self.level,
                "replicates": self.replicates,
                "seed": self.seed,
                "unit": self.unit,
                "n_units": self.n_units,
                "generalises_to": self.generalises_to,
                "correction": self.correction,
                "family": self.family,
                "untested": self.untested,
            },
            "rows": [row.as_dict() for row in self.rows],
            "ranking": None if self.ranking is None else self.ranking.as_dict(),
            "warnings": list(self.warnings),
        }
