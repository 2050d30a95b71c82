# SPDX-License-Identifier: Apache-2.0
"""The result of `calipers.agreement`: rows of estimates, comparisons of criteria, and warnings."""

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
        candidates = [row for row in self.rows if row.metric == metric]
        if not candidates:
            names = dict.fromkeys(row.metric for row in self.rows)
            raise UsageError(f"no metric {metric!r} in this result; {did_you_mean(metric, names)}")
        labels = {}
        for name, value in group.items():
            labels[name] = f"{value:g}" if isinstance(value, int | float) else value
        rows = [row for row in candidates if labels.items() <= dict(row.group or {}).items()]
        if "rater" not in labels:
            # Without a rater, the row over all raters is meant, if there is one.
            rows = [row for row in rows if "rater" not in (row.group or {})] or rows
        if len(rows) != 1:
            groups = "; ".join(str(dict(row.group or {})) for row in (rows or candidates)[:4])
            raise UsageError(
                f"{len(rows)} rows of {metric!r} match {group}; name one, such as {groups}"
            )
        return rows[0].estimate

    def headlines(self) -> list[Decision]:
        """Return one decision per criterion that has any: the one at 0.5, else the first."""
        headlines = []
        for criterion in self.ratings.criteria:
            own = [decision for decision in self.decisions if decision.criterion == criterion]
            usual = [decision for decision in own if decision.threshold == HEADLINE]
            headlines += (usual or own)[:1]
        return headlines

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
        not_useful = None if useful is None else len(ratings) - useful
        raters = None if ratings.rater is None else len(ratings.rater)
        images = None if ratings.image is None else len(ratings.image)
        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "settings": self.settings,
            "ratings": {
                "ratings": len(ratings),
                "useful": useful,
                "not_useful": not_useful,
                "items": len(ratings.item),
                "raters": raters,
                "images": images,
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
    """Return one sentence for every flag of the intervals."""
    sentences = {
        "few_units": f"few units behind some values ({n_units} {plural(unit)} in all): "
        "their intervals are rough",
        "near_perfect": "where fewer than 5 units show an error, the interval is the "
        "Clopper-Pearson bound on the share of error-free units (clopper-pearson-units, marked * "
        "in tables)",
        "identical_units": "an interval of width 0 means that all units are alike, not that the "
        "value is certain",
    }
    return [sentence for flag, sentence in sentences.items() if flag in flags]


def _percent(estimate: Estimate) -> str:
    if estimate.value != estimate.value:
        return "nothing that could be counted"
    return as_share(estimate, FAULTLESS)
