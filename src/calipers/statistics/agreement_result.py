# SPDX-License-Identifier: Apache-2.0
"""The result of `calipers.agreement`: rows of estimates, comparisons of criteria, and what must be
known of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calipers.errors import UsageError, did_you_mean
from calipers.results import Estimate, Row
from calipers.results.document import RowsDocument
from calipers.statistics.criterion_pairs import CriterionDifference
from calipers.statistics.decisions import Decision
from calipers.statistics.estimate_words import as_share
from calipers.statistics.weights import plural
from calipers.tables.ratings import Ratings

SCHEMA = "calipers.agreement/1"
FAULTLESS = "too few errors for an interval; {span} % of such {units} are without error"
HEADLINE = 0.5  # the threshold of a criterion that is put into words, if it was looked at


@dataclass(frozen=True)
class Agreement(RowsDocument):
    """What `calipers.agreement` returns."""

    ratings: Ratings
    decisions: tuple[Decision, ...]
    rows: tuple[Row, ...]
    comparisons: tuple[CriterionDifference, ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...]

    def get(self, metric: str, **group: str | float) -> Estimate:
        """Return one estimate.

        Parameters
        ----------
        metric
            Such as ``"sensitivity"``, ``"AUROC"`` or, among raters, ``"Fleiss"``.
        group
            ``criterion``, ``threshold``, ``rater``; as much of it as is needed to mean one row.
        """
        named = [row for row in self.rows if row.metric == metric]
        if not named:
            known = dict.fromkeys(row.metric for row in self.rows)
            raise UsageError(f"no metric {metric!r} in this result; {did_you_mean(metric, known)}")
        wanted = {
            name: f"{value:g}" if isinstance(value, int | float) else value
            for name, value in group.items()
        }
        found = [row for row in named if wanted.items() <= dict(row.group or {}).items()]
        if "rater" not in wanted and any("rater" not in (row.group or {}) for row in found):
            found = [row for row in found if "rater" not in (row.group or {})]
        if len(found) != 1:
            groups = "; ".join(str(dict(row.group or {})) for row in (found or named)[:4])
            raise UsageError(
                f"{len(found)} rows of {metric!r} with {group}; say which, such as {groups}"
            )
        return found[0].estimate

    def headlines(self) -> list[Decision]:
        """Return one decision per criterion that has any: the one at 0.5 if it was looked at, else
        the first.
        """
        found = []
        for criterion in self.ratings.criteria:
            own = [decision for decision in self.decisions if decision.criterion == criterion]
            found += (
                [next((decision for decision in own if decision.threshold == HEADLINE), own[0])]
                if own
                else []
            )
        return found

    def sentences(self) -> list[str]:
        """Return in words what every criterion at its headline threshold does to useful and not
        useful predictions.
        """
        return [self._sentence(decision) for decision in self.headlines()]

    def _sentence(self, decision: Decision) -> str:
        accepted = self.get("sensitivity", **decision.group)
        rejected = self.get("specificity", **decision.group)
        what = "ratings that say" if self.ratings.repeated else "predictions rated"
        first = (
            f"Of {accepted.n_predictions} {what} useful, {decision} accepts {_percent(accepted)}"
        )
        second = f"of {rejected.n_predictions} {what} not useful it rejects {_percent(rejected)}"
        return f"{first}; {second}."

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.agreement/1``."""
        from calipers import __version__

        ratings = self.ratings
        useful = None if ratings.useful is None else int(ratings.useful.sum())
        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "settings": self.settings,
            "ratings": {
                "ratings": len(ratings),
                "useful": useful,
                "not_useful": None if useful is None else len(ratings) - useful,
                "items": len(ratings.item),
                "raters": None if ratings.rater is None else len(ratings.rater),
                "images": None if ratings.image is None else len(ratings.image),
                "categories": list(ratings.categories),
                "scale": ratings.scale,
                "criteria": list(ratings.criteria),
                "distances": sorted(ratings.distances),
                "understood": list(ratings.understood),
                "files": [ratings.intake.as_dict()],
            },
            "rows": [row.as_dict() for row in self.rows],
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "sentences": self.sentences(),
            "warnings": list(self.warnings),
        }


def in_words(flags: Sequence[str], unit: str, n_units: int) -> list[str]:
    """Return what the flags of intervals mean."""
    said = {
        "few_units": f"few units behind some values ({n_units} {plural(unit)} in all): their intervals are rough",
        "near_perfect": "where fewer than 5 units show an error, the interval is the Clopper-Pearson bound on the "
        "share of error-free units (clopper-pearson-units, marked * in tables)",
        "identical_units": "an interval of no width means that all units are alike, not that the value is certain",
    }
    return [said[flag] for flag in said if flag in flags]


def _percent(estimate: Estimate) -> str:
    return (
        "nothing that could be counted"
        if estimate.value != estimate.value
        else as_share(estimate, FAULTLESS)
    )
