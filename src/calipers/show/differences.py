# SPDX-License-Identifier: Apache-2.0
"""Tables of a comparison and of a ranking.

A `Comparison` or a `Ranking` comes in, `show.table.Table` goes out, with a row per pair of models
or per model. `Comparison.tables`, the command line, the page and the notebook show these.
"""

from __future__ import annotations

import math

from calipers.results.comparison import Comparison, Difference, Ranking
from calipers.show.table import Amount, Cell, Kind, Table, TableRow
from calipers.show.words import count_text, level_text, reason_text

NO_PROBABILITY = (
    "Shares tell how much the order depends on who was drawn; they are no probabilities of being "
    "better, which the tests of the comparison judge."
)
CORRECTED = {"max-t": "p (max-t)", "holm": "p (Holm)", "bh": "p (BH)", "none": "p"}


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
        rows.append((where, *names, *values, _p(row), reason_text(row.verdict)))
    p = CORRECTED[comparison.correction]
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


def _p(row: Difference) -> Cell:
    return "no test" if math.isnan(row.p) else row.p_adjusted


def _notes(comparison: Comparison) -> str:
    manner = "not corrected"
    if comparison.correction != "none":
        tests = count_text("test", comparison.family)
        manner = f"corrected ({comparison.correction}) for {tests}"
    return (
        f"Paired differences, first model minus second, with {level_text(comparison.level)} "
        f"confidence intervals, resampled by {comparison.unit} (n = {comparison.n_units}); p "
        f"values {manner}."
    )


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
            f"Below a rank: the share of {count_text('replicate', n)} with that rank. "
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
        return f"wins in {where}"
    first, _, second = method.partition("-then-")
    return f"{second} rank in {where}" if first == "rank" else f"{first} of {where}"
