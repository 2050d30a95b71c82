# SPDX-License-Identifier: Apache-2.0
"""Outcomes of requirements as a table in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.cli.messages import one_line
from calipers.results.requirements import Outcome

UNLIMITED = 400
STYLES = {"met": "green", "not met": "bold red", "not shown": "bold yellow"}


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print a row for every outcome, and below them why those are not met that are not."""
    # A file or a pipe has no width: never cut a name there.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("id", "requirement", "demanded", "of", "found", "n", "outcome"):
        table.add_column(name, overflow="fold")
    for outcome in outcomes:
        wanted, style = outcome.requirement, STYLES[outcome.verdict]
        words = (wanted.id, wanted.text, str(wanted), outcome.place, _found(outcome.row), _numbers(outcome.row))
        table.add_row(*map(_plain, words), f"[{style}]{outcome.verdict}[/]")
    console.print(table)
    for outcome in outcomes:
        if outcome.verdict != "met":
            said = f"{outcome.requirement.id} {outcome.verdict}, {outcome.place}: {outcome.why}"
            console.print(_plain(said), soft_wrap=True)


def _found(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "-"
    interval = "" if row["low"] is None or row["high"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{row['value']:.3f}{interval}"


def _numbers(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    units = "" if row["unit"] == "image" else f"{row['n_units']} units ({row['unit']}), "
    return f"{units}{row['n_images']} images, {row['n_references']} references"


def _plain(text: str) -> str:
    return escape(one_line(text))
