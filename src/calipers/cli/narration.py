# SPDX-License-Identifier: Apache-2.0
"""What goes to stderr: notes, warnings, and progress on long work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import click

from calipers.cli.messages import one_line

PATIENCE = 1.0  # seconds before progress is worth showing
SHOWN = 12


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

    def progress(self, done: int, total: int) -> None:
        """Show how far the work is, on a terminal, once it takes longer than a second."""
        elapsed = time.monotonic() - self.began
        if not self.live or (elapsed < PATIENCE and not self.shown):
            return
        self.shown = done < total
        left = elapsed / done * (total - done)
        line = f"\r  {done} of {total} blocks, {left:.0f} s left " if done < total else "\r" + " " * 40 + "\r"
        click.echo(line, err=True, nl=False)
