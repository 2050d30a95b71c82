# SPDX-License-Identifier: Apache-2.0
"""Errors on a terminal: one line per problem, every hint once, and no control characters.

Estimates as tables in the terminal: the tables of `evaluate`, and parts that others share.

What is printed on stderr: notes, warnings, and the progress of long work.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.errors import CalipersError, InputError, InputProblems


def printable(text: str) -> str:
    """Return text with control characters escaped, except line breaks: a name must not control the
    terminal.
    """
    return "\n".join(map(one_line, text.split("\n")))


def one_line(text: str) -> str:
    """Return text with control characters and line breaks escaped: a name must not look like a line
    of ours.
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def error_text(error: CalipersError) -> str:
    """Return the message of an error; of many problems the first hundred, and every hint once."""
    if isinstance(error, InputProblems):
        return _problems_text(error)
    if isinstance(error, InputError):
        hint = f"\n  hint: {one_line(error.hint)}" if error.hint else ""
        return _place(error) + hint
    return one_line(str(error))


def _problems_text(error: InputProblems) -> str:
    problems = error.problems[: error.SHOWN]
    lines = [f"{error.total} problems; nothing was evaluated."]
    lines += [f"  {_place(problem)}" for problem in problems]
    if error.total > len(problems):
        lines.append(f"  ... and {error.total - len(problems)} more")
    for hint in dict.fromkeys(problem.hint for problem in problems):
        if hint:
            lines.append(f"  hint: {one_line(hint)}")
    lines.append(
        "  calipers inspect counts the problems by rule; --lenient sets broken records aside"
    )
    return "\n".join(lines)


def _place(error: InputError) -> str:
    return one_line(error.describe().removesuffix(f"\n  hint: {error.hint}"))


def _escaped(c: str) -> str:
    if c.isprintable():
        return c
    code = ord(c)
    if c in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[c]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


UNLIMITED = 400
LONGEST = 40  # characters of a name


def _table(left: Sequence[str], right: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(escape(one_line(name)), no_wrap=True)
    for name in right:
        table.add_column(name_of(name), overflow="fold")
    for name in numbers:
        table.add_column(name_of(name), justify="right", style="dim", overflow="fold")
    return table


def plain_table(left: Sequence[str], right: Sequence[str]) -> Table:
    """Return an empty table: columns of names on the left, columns of numbers on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def stdout_console() -> Console:
    """Return the console for tables; a file or a pipe has no width, so that no name is cut
    there.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(file=sys.stdout, highlight=False, width=width)


def name_of(text: str) -> str:
    """Return a name as a cell: short, and without control characters."""
    return escape(one_line(text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."))


PATIENCE = 1.0  # seconds before progress is worth showing
SHOWN = 12
WIDTH = 60  # columns of a line of progress


class Narrator:
    """Prints notes and progress, unless it is quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.began = time.monotonic()
        self.visible = False
        live = sys.stderr.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"
        self.live = live and not quiet

    def say(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            click.echo(one_line(text), err=True)

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings, the first dozen of them."""
        for warning in warnings[:SHOWN]:
            self.say(f"note: {warning}")
        if len(warnings) > SHOWN:
            self.say(f"note: ... and {len(warnings) - SHOWN} more, see the page or the JSON")

    def steps(self, *names: str) -> Callable[[int, int], None]:
        """Return a callback for long work, called with (step, total); every step counts to its
        total.

        ``names`` are the steps in order; the last name is used for all further steps. Their number
        is not known in advance, so the remaining time is that of the current step.
        """
        number, last, began = 0, 0, time.monotonic()

        def progress(step: int, total: int) -> None:
            nonlocal number, last, began
            number += not 0 < last < step  # counting starts again: this is the next step
            part = number - len(names) + 1
            name = names[min(number, len(names)) - 1]
            if part > 1:
                name += f", part {part}"
            self._show(name, step, total, time.monotonic() - began)
            last = step if step < total else 0
            began = began if last else time.monotonic()

        return progress

    def whole(self) -> Callable[[str, int, int], None]:
        """Return a callback for long work, called with (name of the step, steps done, total).

        It counts to its total once, so the remaining time is that of all the work.
        """
        began = time.monotonic()

        def progress(name: str, step: int, total: int) -> None:
            if step:
                self._show(name, step, total, time.monotonic() - began)

        return progress

    def doing(self, name: str) -> None:
        """Show the current step on a terminal; "" clears the line."""
        if self.live and (time.monotonic() - self.began >= PATIENCE or not name):
            line = f"  page: {name}" if name else ""
            click.echo("\r" + line.ljust(WIDTH) + ("" if name else "\r"), err=True, nl=False)

    def _show(self, name: str, step: int, total: int, elapsed: float) -> None:
        """Show the progress of a step on a terminal, once the work takes longer than a second."""
        if not self.live or (time.monotonic() - self.began < PATIENCE and not self.visible):
            return
        self.visible = step < total
        seconds_left = elapsed / step * (total - step)
        remaining = _duration(seconds_left)
        line = f"  {name}: {step / total:.0%}, {remaining} left" if self.visible else ""
        click.echo("\r" + line.ljust(WIDTH) + ("" if self.visible else "\r"), err=True, nl=False)


def _duration(seconds: float) -> str:
    """Return ``40 s``, ``3 min`` or ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
