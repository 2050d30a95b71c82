# SPDX-License-Identifier: Apache-2.0
"""Differences and a ranking as tables in the terminal, and the sentences that go with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from calipers.cli.messages import one_line
from calipers.cli.tables import stdout_console
from calipers.results.comparison import Comparison
from calipers.results.difference import Difference
from calipers.results.ranking import Place, Ranking
from calipers.statistics.wording import p_value

MOST_SENTENCES = 12
LONGEST = 40  # characters of a name


def print_comparison(comparison: Comparison) -> None:
    """Print the differences pair by pair, what they say in words, and the ranking."""
    console = stdout_console()
    for _, rows in groupby(comparison.rows, key=lambda row: (row.model_a, row.model_b)):
        console.print(_differences(comparison, list(rows)))
    rows_in_words = comparison.rows[:MOST_SENTENCES]
    for row in rows_in_words:
        console.print(Text(one_line(row.sentence)))
    if len(comparison.rows) > len(rows_in_words):
        console.print(
            f"... and {len(comparison.rows) - len(rows_in_words)} more sentences, see --json"
        )
    if comparison.ranking is not None:
        console.print(_ranking(comparison.ranking))
        console.print(Text(one_line(comparison.ranking.sentence())))


def _differences(c: Comparison, rows: Sequence[Difference]) -> Table:
    """Return the table of one pair; a difference is the first model minus the second."""
    corrected = {"holm": "p (Holm)", "bh": "p (BH)", "none": "p"}[c.correction]
    names = (_name(rows[0].model_a), _name(rows[0].model_b))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for name in (*names, "difference", f"{100 * c.level:g} % interval", corrected):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Difference) -> list[str]:
    e = row.estimate
    where = row.metric if row.label is None else f"{row.metric} of {row.label}"
    interval = str(e.reason).replace("_", " ")
    if not math.isnan(e.low):
        interval = f"{_signed(e.low)} to {_signed(e.high)}"
    p = "no test"
    if not math.isnan(row.p):
        p = p_value(row.p_adjusted).removeprefix("p ").removeprefix("= ")
    return [_name(where), _number(row.value_a), _number(row.value_b), _signed(e.value), interval, p]


def _ranking(ranking: Ranking) -> Table:
    where = ranking.metric if ranking.label is None else f"{ranking.metric} of {ranking.label}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("rank", "model"):
        table.add_column(name, overflow="fold")
    for name in (_name(_ranked_by(ranking.method, where)), f"{100 * ranking.level:g} % of ranks"):
        table.add_column(name, justify="right", overflow="fold")
    for rank in range(1, len(ranking.places) + 1):
        table.add_column(f"is {rank}.", justify="right", style="dim")
    for place in ranking.places:
        table.add_row(*_place(place))
    return table


def _ranked_by(method: str, where: str) -> str:
    """Return what the numbers are by which models are ranked."""
    if method == "data-set":
        return where
    if method == "test-then-rank":
        return f"wins in {where}"
    first, _, second = method.partition("-then-")
    return f"{second} rank in {where}" if first == "rank" else f"{first} of {where}"


def _place(place: Place) -> list[str]:
    cells = [str(place.rank), _name(place.model), _number(place.value)]
    if math.isnan(place.low):
        return [*cells, "", *("" for _ in place.shares)]
    shares = [f"{share:.0%}" for share in place.shares]
    return [*cells, f"{place.low:.0f} to {place.high:.0f}", *shares]


def _name(text: str) -> str:
    return escape(one_line(text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.3f}"
