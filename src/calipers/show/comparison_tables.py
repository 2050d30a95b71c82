# SPDX-License-Identifier: Apache-2.0
"""Tables and sentences of a comparison and of a ranking.

A `Comparison` or a `Ranking` comes in, `show.table.Table` goes out, with a row per pair of models
or per model. `Comparison.tables`, the command line, the page and the notebook show these.

`describe` puts one difference into words; `evaluation.compare` and monitors call it. It is written
with care: no difference shown is not equality.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calipers.results.comparison import Comparison, Difference, Ranking, smallest_p
from calipers.show.table import Amount, Cell, Kind, Table, TableRow
from calipers.show.words import (
    count_text,
    interval_in_words,
    intervals_by,
    join,
    level_text,
    number_text,
    p_text,
    percent_text,
    reason_text,
    short_name,
    two_decimals,
)

NO_PROBABILITY = (
    "The shares show how much the order depends on the sample. They are not probabilities of being "
    "better: for that, see the tests of the differences."
)
CORRECTED = {"max-t": "max-t", "holm": "Holm", "bh": "Benjamini-Hochberg"}
P_COLUMNS = {"max-t": "p (max-t)", "holm": "p (Holm)", "bh": "p (BH)", "none": "p"}


def tables(comparison: Comparison) -> list[Table]:
    """Return the differences, and the ranking if there is one."""
    results = [differences_table(comparison)]
    if comparison.ranking is not None:
        results.append(ranking_table(comparison.ranking))
    return results


def differences_table(comparison: Comparison) -> Table:
    """Return a row per difference: both values, the difference, its test and the verdict.

    The columns of values have the names of the models if only two are compared.
    """
    pairs = {(row.model_a, row.model_b) for row in comparison.rows}
    rows: list[TableRow] = []
    for row in comparison.rows:
        where = row.metric if row.label is None else f"{row.metric} of {row.label}"
        names = () if len(pairs) == 1 else (row.model_a, row.model_b)
        values = (row.value_a, row.value_b, row.estimate)
        # Where the columns have the names of the models, the verdict has them too.
        verdict = verdict_text(row) if len(pairs) == 1 else reason_text(row.verdict)
        rows.append((where, *names, *values, _p(row), verdict))
    p = P_COLUMNS[comparison.correction]
    value_kinds: tuple[Kind, ...] = ("value", "value", "signed", "p", "text")
    columns: tuple[str, ...] = ("a", "b", "a − b", p, "verdict")
    kinds: tuple[Kind, ...] = ("name", *value_kinds)
    if len(pairs) == 1:
        a, b = pairs.pop()
        columns = ("metric", a, b, "difference", p, "verdict")
    else:
        columns = ("metric", "model a", "model b", *columns)
        kinds = ("name", "text", "text", *value_kinds)
    return Table(
        columns,
        tuple(rows),
        title="Differences",
        notes=(_notes(comparison),),
        name="table-differences",
        kinds=kinds,
        say_why=True,
    )


def verdict_text(row: Difference) -> str:
    """Return ``ours better``, with the name of the better model, or that no difference is shown."""
    better = {"a_better": row.model_a, "b_better": row.model_b}.get(row.verdict)
    return reason_text(row.verdict) if better is None else f"{short_name(better)} better"


def _p(row: Difference) -> Cell:
    return "no test" if math.isnan(row.p) else row.p_adjusted


def _notes(comparison: Comparison) -> str:
    manner = "; p values are not corrected"
    if comparison.family == 1:
        manner = ""  # a single test needs no correction
    elif comparison.correction != "none":
        tests = f"{comparison.family} tests ({comparison.correction})"
        manner = f"; p values are corrected for {tests}, intervals are not"
    how = intervals_by(comparison.level, comparison.unit, comparison.n_units)
    return f"Paired differences, first model minus second, with {how}{manner}."


def ranking_table(ranking: Ranking) -> Table:
    """Return the models from best to worst, and how often each has which rank in the replicates."""
    where = ranking.metric if ranking.label is None else f"{ranking.metric} of {ranking.label}"
    ranks = [f"rank {k}" for k in range(1, len(ranking.places) + 1)]
    rows: list[TableRow] = []
    for place in ranking.places:
        span = Amount(math.nan, low=place.low, high=place.high)
        shares: list[Cell] = list(place.shares)
        if math.isnan(place.low):
            shares = [None] * len(ranks)
        rows.append((place.rank, place.model, place.value, span, *shares))
    notes: tuple[str, ...] = ()
    if ranking.reason is None:
        n = ranking.replicates - ranking.undefined
        notes = (
            f"Rank 1, 2, ...: share of {count_text('bootstrap replicate', n)} in which the model "
            "has that rank. "
            f"{NO_PROBABILITY}",
        )
    share_kinds: list[Kind] = ["share"] * len(ranks)
    level = level_text(ranking.level)
    return Table(
        ("rank", "model", _ranked_by(ranking.method, where), f"{level} of ranks", *ranks),
        tuple(rows),
        title=f"Ranking by {where}",
        notes=notes,
        name="table-ranking",
        kinds=("count", "name", "value", "whole", *share_kinds),
    )


def _ranked_by(method: str, where: str) -> str:
    """Return what the numbers are by which models are ranked."""
    if method == "data-set":
        return where
    if method == "test-then-rank":
        return f"tests won in {where}"
    first, _, second = method.partition("-then-")
    return f"{second} rank in {where}" if first == "rank" else f"{first} of {where}"


@dataclass(frozen=True, slots=True)
class Manner:
    """How the numbers of a metric are written: in points or plain, and which way is better."""

    points: bool  # as points of 100, for metrics that are shares
    higher_is_better: bool

    @classmethod
    def of(cls, bounds: tuple[float, float], higher_is_better: bool) -> Manner:
        """Return the manner of a metric with these bounds."""
        return cls(math.isfinite(bounds[0]) and math.isfinite(bounds[1]), higher_is_better)

    def amount(self, value: float) -> str:
        """Return a difference as a number, without its unit; what rounds to zero has no sign."""
        return f"{round(100 * value, 1) + 0.0:.1f}" if self.points else f"{value:.3g}"

    def span(self, low: float, high: float) -> str:
        """Return both ends of an interval, without their unit."""
        return f"{self.amount(low)} to {self.amount(high)}"

    def unit(self, value: float) -> str:
        """Return ``points`` or nothing."""
        if not self.points:
            return ""
        return " point" if self.amount(value).lstrip("-") == "1.0" else " points"


def ranking_sentence(ranking: Ranking) -> str:
    """Return in words which model is first and how stable that is."""
    first = [place.model for place in ranking.places if place.rank == 1]
    claim = "is first" if len(first) == 1 else "share rank 1"
    opening = f"{join(first)} {claim} in {ranking.metric}"
    if ranking.label is not None:
        opening += f" of {ranking.label}"
    if ranking.reason is not None:
        return f"{opening}; the stability of this order is unknown ({reason_text(ranking.reason)})."
    replicates = ranking.replicates - ranking.undefined
    words = (
        f"{opening}, and in {percent_text(ranking.winner_kept)} of {replicates} bootstrap "
        "replicates (a share, not a probability of being better)."
    )
    tau = ranking.tau.mean
    if len(ranking.places) > 2 and not math.isnan(tau):
        words += f" Mean Kendall's tau with the orders of the replicates: {two_decimals(tau)}."
    return words


def describe(d: Difference, manner: Manner) -> str:
    """Return one or a few sentences on a difference between two models."""
    where = d.metric if d.label is None else f"{d.metric} of {d.label}"
    if not manner.higher_is_better:
        where += " (lower is better)"
    e = d.estimate
    if math.isnan(e.value):
        values = ((d.model_a, d.value_a), (d.model_b, d.value_b))
        blank = " and ".join(model for model, value in values if math.isnan(value))
        return (
            f"{d.model_a} and {d.model_b} cannot be compared in {where}: "
            f"undefined for {blank} ({reason_text(e.reason)})."
        )
    turned = d.verdict == "b_better"  # the better model comes first, and the numbers follow it
    first, second = (d.model_b, d.model_a) if turned else (d.model_a, d.model_b)
    one, other = (d.value_b, d.value_a) if turned else (d.value_a, d.value_b)
    if d.verdict in ("a_better", "b_better"):
        claim = f"{first} is better than {second} in {where}"
    elif d.verdict == "no_difference_shown":
        claim = f"No difference between {first} and {second} in {where} is shown"
    else:
        claim = f"{first} and {second} in {where}, without a test"
    value = d.estimate_for(first).value
    text = f"{claim}: {number_text(one)} against {number_text(other)}, a difference of "
    text += f"{manner.amount(value)}{manner.unit(value)} ({_evidence(d, manner, first)})."
    return " ".join([text, *_cautions(d), *_margin(d, manner)])


def _evidence(d: Difference, manner: Manner, first: str) -> str:
    """Return interval, p value and number of units of a difference, as seen by its first model."""
    e = d.estimate_for(first)
    units = count_text(e.unit, e.n_units)
    parts = [interval_in_words(e, manner.span)]
    if not math.isnan(d.p):
        parts.append(p_in_words(d))
    parts.append(units)
    return "; ".join(parts)


def p_in_words(d: Difference) -> str:
    """Return the adjusted p value of a difference, and over how many tests it was adjusted."""
    e = d.estimate
    least = smallest_p(e.n_units)
    text = p_text(d.p_adjusted, least=least, units=count_text(e.unit, e.n_units))
    if d.correction in CORRECTED and d.family > 1:
        text += f", {CORRECTED[d.correction]} over {d.family}"
    return text


def _cautions(d: Difference) -> list[str]:
    """Return a sentence if p values cannot be small."""
    e, least = d.estimate, smallest_p(d.estimate.n_units)
    cautions = []
    if not math.isnan(d.p) and least >= 1.0 - e.level:
        still = ", even where the interval excludes 0" if e.low > 0.0 or e.high < 0.0 else ""
        units = count_text(e.unit, e.n_units)
        cautions.append(f"With {units} no p value can be below {least:g}{still}.")
    return cautions


def _margin(d: Difference, manner: Manner) -> list[str]:
    if d.margin is None:
        return []
    within = f"{manner.amount(d.margin)}{manner.unit(d.margin)}"
    if math.isnan(d.estimate.low):
        return [f"Without an interval the margin of {within} cannot be judged."]
    if d.margin_verdict == "equivalent":
        return [f"Equivalent within {within}: the whole interval lies inside."]
    if d.margin_verdict == "not_shown":
        return [f"Neither equivalence nor non-inferiority within {within} is shown."]
    one, other = (
        (d.model_a, d.model_b) if str(d.margin_verdict).startswith("a_") else (d.model_b, d.model_a)
    )
    if str(d.margin_verdict).endswith("superior"):
        return [f"{one} is superior to {other} by more than {within}."]
    return [f"{one} is non-inferior to {other} (margin {within}); equivalence is not shown."]
