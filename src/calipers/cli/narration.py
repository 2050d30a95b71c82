# SPDX-License-Identifier: Apache-2.0
"""What is printed on stderr: notes, warnings, and the progress of long work."""

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
    """Prints notes and progress, unless it is quiet."""

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
        """Return a callback for long work, called with (done, total); every step counts to its
        total.

        ``names`` are the steps in order; the last name is used for all further steps. Their number
        is not known in advance, so the remaining time is that of the current step.
        """
        number, last, began = 0, 0, time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal number, last, began
            number += not 0 < last < done  # counting starts again: this is the next step
            part = number - len(names) + 1
            name = names[min(number, len(names)) - 1]
            if part > 1:
                name += f", part {part}"
            self._show(name, done, total, time.monotonic() - began)
            last = done if done < total else 0
            began = began if last else time.monotonic()

        return progress

    def whole(self) -> Callable[[str, int, int], None]:
        """Return a callback for long work, called with (name of the step, done, total).

        It counts to its total once, so the remaining time is that of all the work.
        """
        began = time.monotonic()

        def progress(name: str, done: int, total: int) -> None:
            if done:
                self._show(name, done, total, time.monotonic() - began)

        return progress

    def doing(self, name: str) -> None:
        """Show the current step on a terminal; "" clears the line."""
        if self.live and (time.monotonic() - self.began >= PATIENCE or not name):
            line = f"  page: {name}" if name else ""
            click.echo("\r" + line.ljust(WIDTH) + ("" if name else "\r"), err=True, nl=False)

    def _show(self, name: str, done: int, total: int, elapsed: float) -> None:
        """Show the progress of a step on a terminal, once the work takes longer than a second."""
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
