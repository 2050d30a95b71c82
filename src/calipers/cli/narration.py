# SPDX-License-Identifier: Apache-2.0
"""What goes to stderr: notes, warnings, and progress on long work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

import click

from calipers.cli.messages import one_line

PATIENCE = 1.0  # seconds before progress is worth showing
SHOWN = 12
WIDTH = 60  # columns of a line of progress


class Narrator:
    """Says what happens, unless it shall be quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.began = time.monotonic()
        self.shown = False
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
        """Return what long work calls with (done, total); it counts to its total once per step.

        The steps are named in their order, and the last name is that of all further ones: how many
        there will be is not known beforehand, so the time that is left is that of the step.
        """
        number, last, began = 0, 0, time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal number, last, began
            number += not 0 < last < done  # it starts again: the next step
            part = number - len(names) + 1
            name = names[min(number, len(names)) - 1] + (f", part {part}" if part > 1 else "")
            self._show(name, done, total, time.monotonic() - began)
            last = done if done < total else 0
            began = began if last else time.monotonic()

        return progress

    def whole(self) -> Callable[[str, int, int], None]:
        """Return what long work calls with (what it does, done, total); it counts to its total
        once.

        The time that is left is that of all of it, whatever it is doing.
        """
        began = time.monotonic()

        def progress(name: str, done: int, total: int) -> None:
            if done:
                self._show(name, done, total, time.monotonic() - began)

        return progress

    def doing(self, name: str) -> None:
        """Show what is being done, on a terminal, until something else is; "" when it is over."""
        if self.live and (time.monotonic() - self.began >= PATIENCE or not name):
            line = f"  page: {name}" if name else ""
            click.echo("\r" + line.ljust(WIDTH) + ("" if name else "\r"), err=True, nl=False)

    def _show(self, name: str, done: int, total: int, elapsed: float) -> None:
        """Show how far a step is, on a terminal, once the whole work takes longer than a second."""
        if not self.live or (time.monotonic() - self.began < PATIENCE and not self.shown):
            return
        self.shown = done < total
        seconds_left = elapsed / done * (total - done)
        line = f"  {name}: {done / total:.0%}, {_duration(seconds_left)} left" if self.shown else ""
        click.echo("\r" + line.ljust(WIDTH) + ("" if self.shown else "\r"), err=True, nl=False)


def _duration(seconds: float) -> str:
    """Return ``40 s``, ``3 min`` or ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
