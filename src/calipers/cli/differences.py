# SPDX-License-Identifier: Apache-2.0
"""Differences and a ranking as tables in the terminal, and the sentences that go with them."""

from __future__ import annotations

import math
import sys

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from calipers.cli.messages import one_line
from calipers.cli.tables import UNLIMITED
from calipers.comparing import Comparison
from calipers.results.difference import Difference
from calipers.results.ranking import Place, Ranking
from calipers.statistics.weights import plural
from calipers.statistics.wording import p_value

MOST_SENTENCES = 12
LONGEST = 40  # characters of a name
SHOWN = {"a_better": "{a} better", "b_better": "{b} better", "no_difference_shown": "not shown", "undefined": "no test"}


def print_comparison(comparison: Comparison) -> None:
    """Print the differences, what they say in words, and the ranking."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
    console.print(_differences(comparison))
    told = comparison.rows[:MOST_SENTENCES]
    for row in told:
        console.print(Padding(Text(one_line(row.sentence)), (0, 0, 0, 1)))
    if len(comparison.rows) > len(told):
        console.print(f" ... and {len(comparison.rows) - len(told)} more sentences, see --json")
    if comparison.ranking is not None:
        console.print(_ranking(comparison.ranking))
        console.print(Padding(Text(one_line(comparison.ranking.sentence())), (0, 0, 0, 1)))


def _differences(c: Comparison) -> Table:
    corrected = {"holm": "p (Holm)", "bh": "p (BH)", "none": "p"}[c.correction]
    percent = f"{100 * c.evaluation.protocol.level:g} % interval"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("metric", "a", "b"):
        table.add_column(name, overflow="fold")
    for name in ("a is", "b is", "a - b", percent, corrected):
        table.add_column(name, justify="right")
    table.add_column("difference", overflow="fold")
    table.add_column(_name(plural(c.units.name)), justify="right", style="dim")
    for row in c.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Difference) -> list[str]:
    e, where = row.estimate, row.metric if row.label is None else f"{row.metric} of {row.label}"
    interval = str(e.reason).replace("_", " ") if math.isnan(e.low) else f"{_signed(e.low)} to {_signed(e.high)}"
    p = "" if math.isnan(row.p) else p_value(row.p_adjusted).removeprefix("p ").removeprefix("= ")
    values = [_number(row.value_a), _number(row.value_b), _signed(e.value)]
    verdict = SHOWN[row.verdict].format(a=_name(row.model_a), b=_name(row.model_b))
    return [_name(where), _name(row.model_a), _name(row.model_b), *values, interval, p, verdict, str(e.n_units)]


def _ranking(ranking: Ranking) -> Table:
    where = ranking.metric if ranking.label is None else f"{ranking.metric} of {ranking.label}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("rank", "model"):
        table.add_column(name, overflow="fold")
    for name in (_name(where), f"{100 * ranking.level:g} % of ranks"):
        table.add_column(name, justify="right", overflow="fold")
    for rank in range(1, len(ranking.places) + 1):
        table.add_column(f"is {rank}.", justify="right", style="dim")
    for place in ranking.places:
        table.add_row(*_place(place))
    return table


def _place(place: Place) -> list[str]:
    known = not math.isnan(place.low)
    between = f"{place.low:.0f} to {place.high:.0f}" if known else ""
    shares = [f"{share:.0%}" if known else "" for share in place.shares]
    return [str(place.rank), _name(place.model), _number(place.value), between, *shares]


def _name(text: str) -> str:
    return escape(one_line(text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.3f}"
