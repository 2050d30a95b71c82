# SPDX-License-Identifier: Apache-2.0
"""Results about several models or groups: comparisons, rankings, and rows by group.

`Evaluation.compare` returns a `Comparison`, with one `Difference` per pair of models, metric and,
on request, class: its interval, its test, and what they say. `Evaluation.rank` returns a `Ranking`
and how stable it is under resampling. `Evaluation.by` adds `GroupedRows`, the rows of a grouping
with a `GroupSummary` of each metric. `Evaluation.summary` returns `ColumnSummary`: the mean over
the groups of one column, such as centres, for every value of the others, such as sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from calipers.arguments import names_methods
from calipers.errors import UsageError, did_you_mean
from calipers.results.document import Document, linked
from calipers.results.estimate import Estimate, Row, number

VERDICTS = ("a_better", "b_better", "no_difference_shown", "undefined")
MARGIN_VERDICTS = (
    "equivalent",
    "a_superior",
    "b_superior",
    "a_not_inferior",
    "b_not_inferior",
    "not_shown",
)


def smallest_p(n_units: int) -> float:
    """Return the smallest two-sided p value that K units can give: all of them favour the same
    model.
    """
    return min(1.0, 2.0 ** (1 - n_units))


@names_methods
@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two models on the same images; the estimate is that of a minus b."""

    metric: str
    metric_id: str
    label: str | None  # the class, None = pooled; written as "class"
    model_a: str
    model_b: str
    value_a: float
    value_b: float
    estimate: Estimate
    p: float
    p_adjusted: float
    p_share: float  # from the share of bootstrap replicates on the other side of 0
    test: str  # bootstrap or permutation
    correction: str
    family: int  # number of tests that were corrected together
    verdict: str  # one of VERDICTS
    margin: float | None
    margin_verdict: str | None  # one of MARGIN_VERDICTS; None without a margin
    trades_undefined: int  # permutations without a value
    sentence: str

    def estimate_for(self, model: str) -> Estimate:
        """Return the difference as seen by one of its models: that model minus the other."""
        e = self.estimate
        if model == self.model_a:
            return e
        return replace(e, value=-e.value, low=-e.high, high=-e.low)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of the JSON contract: keys in a fixed order, NaN as None."""
        e = self.estimate
        return {
            "metric": self.metric,
            "metric_id": self.metric_id,
            "class": self.label,
            "model_a": self.model_a,
            "model_b": self.model_b,
            "value_a": number(self.value_a),
            "value_b": number(self.value_b),
            "difference": number(e.value),
            "low": number(e.low),
            "high": number(e.high),
            "level": e.level,
            "method": e.method,
            "unit": e.unit,
            "n_units": e.n_units,
            "n_images": e.n_images,
            "p": number(self.p),
            "p_adjusted": number(self.p_adjusted),
            "test": self.test,
            "correction": self.correction,
            "family": self.family,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "undefined": e.undefined,
            "reason": e.reason,
            "n_references": e.n_references,
            "n_predictions": e.n_predictions,
            "bias": number(e.bias),
            "percentile_low": number(e.percentile[0]),
            "percentile_high": number(e.percentile[1]),
            "p_share": number(self.p_share),
            "margin": self.margin,
            "margin_verdict": self.margin_verdict,
            "trades_undefined": self.trades_undefined,
            "flags": list(e.flags),
        }


@dataclass(frozen=True, slots=True)
class Place:
    """The rank of a model, and its ranks in the replicates."""

    model: str
    value: float  # what was ranked: the metric, a mean rank, or a number of tests won
    rank: int  # 1 is best; equal values share the better rank
    median: float  # of the ranks in the replicates
    low: float
    high: float
    # of the replicates in which the model had rank 1, 2, ...: the blobs of a blob plot
    shares: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the place for JSON output."""
        return {
            "model": self.model,
            "value": number(self.value),
            "rank": self.rank,
            "median": number(self.median),
            "low": number(self.low),
            "high": number(self.high),
            "shares": [number(share) for share in self.shares],
        }


@dataclass(frozen=True, slots=True)
class Superiority:
    """A one-sided test of one model being better than another."""

    better: str
    worse: str
    p: float
    p_adjusted: float
    significant: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the test for JSON output."""
        return {
            "model_a": self.better,
            "model_b": self.worse,
            "p": number(self.p),
            "p_adjusted": number(self.p_adjusted),
            "significant": self.significant,
        }


@dataclass(frozen=True, slots=True)
class TauSummary:
    """Kendall's tau-b between the ranking and those of the replicates."""

    mean: float
    low: float
    high: float
    undefined: int  # replicates without one: all models tied

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON output."""
        return {
            "mean": number(self.mean),
            "low": number(self.low),
            "high": number(self.high),
            "undefined": self.undefined,
        }


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Ranking(Document):
    """What `Evaluation.rank` returns: models from best to worst. Figure: ``ranking``."""

    ROW: ClassVar[str] = "place"
    FIGURES: ClassVar[str] = "calipers.evaluation.catalogue:RANKING_FIGURES"
    FIRST_FIGURE: ClassVar[str] = "ranking"
    SENTENCE: ClassVar[str] = "calipers.show.comparison_tables:ranking_sentence"

    metric: str
    metric_id: str
    label: str | None  # the class, None = pooled; written as "class"
    method: str
    higher_is_better: bool  # of the metric
    unit: str
    n_units: int
    n_images: int
    n_cases: int  # with a value for every model; 0 for the method "data-set", which has no cases
    left_out: int  # cases that are undefined for all models
    filled: int  # values of single models that were undefined and count as the worst
    level: float
    replicates: int
    undefined: int  # replicates in which a model had no value
    seed: int
    places: tuple[Place, ...]
    tau: TauSummary
    winner_kept: float  # share of replicates with the same models on rank 1
    test: str  # of the significance map
    correction: str
    family: int
    pairs: tuple[Superiority, ...]  # all ordered pairs
    reason: str | None  # why there is nothing about replicates: one of REASONS

    def __getitem__(self, model: str) -> Place:
        for place in self.places:
            if place.model == model:
                return place
        raise KeyError(model)

    @property
    def rows(self) -> tuple[Place, ...]:
        """A row per model, from best to worst."""
        return self.places

    @property
    def models(self) -> tuple[str, ...]:
        """The models from best to worst."""
        return tuple(place.model for place in self.places)

    def sentence(self) -> str:
        """Return in words which model is first and how stable that is.

        Of two equal models, one is first in 80 % or more of the replicates in 41 % of all data
        sets: the sentence says that such a share is not a probability of being better.
        """
        text: str = linked(self.SENTENCE)(self)
        return text

    def _content(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "metric_id": self.metric_id,
            "class": self.label,
            "method": self.method,
            "higher_is_better": self.higher_is_better,
            "unit": self.unit,
            "n_units": self.n_units,
            "n_images": self.n_images,
            "n_cases": self.n_cases,
            "left_out": self.left_out,
            "filled": self.filled,
            "level": self.level,
            "replicates": self.replicates,
            "undefined": self.undefined,
            "seed": self.seed,
            "models": [place.as_dict() for place in self.places],
            "tau": self.tau.as_dict(),
            "winner_kept": number(self.winner_kept),
            "test": self.test,
            "correction": self.correction,
            "family": self.family,
            "pairs": [pair.as_dict() for pair in self.pairs],
            "sentence": self.sentence(),
            "reason": self.reason,
        }


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Document):
    """What `Evaluation.compare` returns. Figure: ``differences``.

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort(), "overview")
    >>> comparison = ev.compare("overpredicts", "misses-small", metrics=["F1@0.5"])
    >>> comparison.get("F1@0.5").verdict
    'b_better'
    """

    SCHEMA = "calipers.comparison/1"
    ROW = "difference"
    FIGURES = "calipers.evaluation.catalogue:COMPARISON_FIGURES"
    FIRST_FIGURE = "differences"
    TABLES = "calipers.show.comparison_tables:tables"

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

    def _series(self) -> list[str]:
        return [*(row.model_a for row in self.rows), *(row.model_b for row in self.rows)]

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

    def of_model(self, model: str) -> Comparison:
        """Return the rows of one model; the family of the correction stays that of all rows."""
        rows = (row for row in self.rows if model in (row.model_a, row.model_b))
        return replace(self, rows=tuple(rows))

    def __str__(self) -> str:
        return "\n".join(row.sentence for row in self.rows)

    def _content(self) -> dict[str, Any]:
        return {
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
            "rows": self._records(),
            "ranking": None if self.ranking is None else self.ranking.as_dict(),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadOverGroups:
    """The values of a metric in groups: unweighted mean, standard deviation (n - 1) and range."""

    n_defined: int  # groups with a value
    mean: float
    sd: float
    lowest: float
    highest: float

    def _spread(self) -> dict[str, Any]:
        return {
            "n_defined": self.n_defined,
            "mean": number(self.mean),
            "sd": number(self.sd),
            "lowest": number(self.lowest),
            "highest": number(self.highest),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary(SpreadOverGroups):
    """A metric of a model over the groups of one ``by``."""

    by: str
    model: str
    metric: str
    label: str | None
    n_groups: int

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return {
            "by": self.by,
            "model": self.model,
            "metric": self.metric,
            "class": self.label,
            "n_groups": self.n_groups,
            **self._spread(),
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

    @property
    def first_column(self) -> str | None:
        """The first column of images, such as centre; None if there are only sizes and classes."""
        # From the rows and not from `by`: names for display may hold commas.
        names = (self.rows[0].group or {}) if self.rows else {}
        return next((name for name in names if name not in ("size", "class")), None)

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


@dataclass(frozen=True, slots=True)
class GroupImages:
    """The images of one group."""

    name: str
    n_images: int
    n_positive: int  # images with at least one counted reference

    @property
    def prevalence(self) -> float:
        """The share of images with a reference."""
        return self.n_positive / self.n_images if self.n_images else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Return the group for JSON."""
        return {
            "name": self.name,
            "n_images": self.n_images,
            "n_positive": self.n_positive,
            "prevalence": number(self.prevalence),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAverage(SpreadOverGroups):
    """A metric of a model over the groups of a column."""

    model: str
    metric: str
    group: Mapping[str, str]  # of the other columns: {"size": "small"}; empty if there are none
    values: tuple[float, ...]  # one per group; NaN where it is undefined

    def as_dict(self) -> dict[str, Any]:
        """Return the average for JSON."""
        return {
            "model": self.model,
            "metric": self.metric,
            "group": dict(self.group),
            "values": [number(value) for value in self.values],
            **self._spread(),
        }


@dataclass(frozen=True, repr=False, eq=False)
class ColumnSummary(Document):
    """What `Evaluation.summary` returns: metrics per group of a column, and their mean over the
    groups.
    """

    SCHEMA: ClassVar[str] = "calipers.summary/1"
    ROW: ClassVar[str] = "average"
    TABLES: ClassVar[str] = "calipers.evaluation.tables:summary_tables"

    over: str  # the column whose groups are averaged: "centre"
    by: str  # the grouping: "centre,size"
    groups: tuple[GroupImages, ...]
    averages: tuple[ColumnAverage, ...]

    @property
    def n_images(self) -> int:
        """The images of all groups."""
        return sum(group.n_images for group in self.groups)

    @property
    def prevalence(self) -> float:
        """The share of all images that have a reference."""
        n_positive = sum(group.n_positive for group in self.groups)
        return n_positive / self.n_images if self.n_images else math.nan

    @property
    def rows(self) -> tuple[ColumnAverage, ...]:
        """A row per model, metric and group of the other columns."""
        return self.averages

    def _content(self) -> dict[str, Any]:
        return {
            "over": self.over,
            "by": self.by,
            "n_images": self.n_images,
            "prevalence": number(self.prevalence),
            "groups": [group.as_dict() for group in self.groups],
            "rows": self._records(),
        }
