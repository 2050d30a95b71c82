# SPDX-License-Identifier: Apache-2.0
"""Outcomes of requirements in the terminal: each requirement in words, then a line per row."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from calipers.cli.messages import one_line
from calipers.results.requirements import SHARE_OF_UNITS, Outcome

STYLES = {"met": "green", "not met": "bold red", "not shown": "bold yellow"}
LONGEST = max(map(len, STYLES))
WIDEST = 40  # a longer name pushes its own line only


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print the outcomes, requirement by requirement; those that are not met with the reason."""
    console = Console(file=sys.stdout, highlight=False)
    cells = {id(outcome): _cells(outcome) for outcome in outcomes}
    widths = [min(max(map(cell_len, column)), WIDEST) for column in zip(*cells.values())]

    def line(text: str) -> None:
        # Lines are never cut: a missing name or number would mislead.
        console.print(text, soft_wrap=True)

    for _, group in groupby(outcomes, key=lambda outcome: outcome.requirement.id):
        together = list(group)
        requirement = together[0].requirement
        line(
            f"[bold]{_markup_safe(requirement.id)}[/]  "
            f"{_markup_safe(requirement.text or str(requirement))}"
        )
        if requirement.text:
            line(f"  {_markup_safe(str(requirement))}")
        for outcome in together:
            verdict = f"[{STYLES[outcome.verdict]}]{outcome.verdict:<{LONGEST}}[/]"
            padded = [
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(cells[id(outcome)], widths)
            ]
            line(f"  {verdict}  {escape('  '.join(padded)).rstrip()}")
            if outcome.verdict != "met":
                line(f"  {'':{LONGEST}}  {_markup_safe(outcome.why)}")
        console.print()


def _cells(outcome: Outcome) -> tuple[str, str, str]:
    """Return the row that was judged, its estimate, and the numbers behind it."""
    row = outcome.row
    if row is None:
        return one_line(outcome.place), "-", ""
    numbers = (
        f"n = {row['n_units']} ({row['unit']}), {row['n_images']} images, {row['n_references']} "
        f"references"
    )
    return one_line(outcome.place), _estimate_text(row), one_line(numbers)


def _estimate_text(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "undefined"
    of_metric = (
        row["low"] is not None and row["high"] is not None and row["method"] != SHARE_OF_UNITS
    )
    interval = f" [{row['low']:.3f}, {row['high']:.3f}]" if of_metric else ""
    return f"{row['value']:.3f}{interval}"


def _markup_safe(text: str) -> str:
    return escape(one_line(text))
