# SPDX-License-Identifier: Apache-2.0
"""What the command line prints: errors, tables, notes, and the progress of long work.

Errors come in as exceptions and tables as `show.table.Table`; commands print them with these
functions only. Every text from the data passes through `one_line` or `printable`, so that no name
can control the terminal. Tables go to stdout; notes, warnings and progress to stderr.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from calipers.errors import CalipersError, InputError, InputProblems
from calipers.show.table import BEST, WORDS, CellText, Kind, Table, notes_of, same_kind
from calipers.show.words import short_name


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
    """Return the message of an error; of many problems a count and examples of every kind."""
    if isinstance(error, InputProblems):
        return _problems_text(error)
    if isinstance(error, InputError):
        hint = f"\n  hint: {one_line(error.hint)}" if error.hint else ""
        return _place(error) + hint
    return one_line(str(error))


def _problems_text(error: InputProblems) -> str:
    lines = list(map(one_line, error.lines()))
    if error.of_records:
        lines.append("  --lenient sets broken records aside; calipers doctor counts them by rule")
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


UNLIMITED = 400  # columns of a file or a pipe
READABLE = 100  # columns there; a wider table of several series gets a line for each


def stdout_console() -> Console:
    """Return the console for tables; a file or a pipe has no width, so that no name is cut
    there.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(file=sys.stdout, highlight=False, width=width)


def print_tables(tables: Sequence[Table], console: Console | None = None) -> None:
    """Print tables one below the other, then the notes of all of them, each once."""
    clear_progress()
    console = console or stdout_console()
    for table in tables:
        if table.title:
            console.print(Text(one_line(table.title), style="bold"), soft_wrap=True)
        console.print(_fitting(table.with_distinct_names(), console))
    notes = notes_of(tables)
    if not console.is_terminal:  # a file has no bold letters
        notes = tuple(note for note in notes if note != BEST)
    print_lines(notes, console)


def print_lines(lines: Sequence[str], console: Console | None = None) -> None:
    """Print sentences, each in a line of its own; a terminal breaks them between words."""
    console = console or stdout_console()
    for line in lines:
        console.print(Text(one_line(line)), soft_wrap=not console.is_terminal)


def name_of(text: str) -> str:
    """Return a name as a cell: short, and without control characters."""
    return escape(one_line(short_name(text)))


@dataclass(frozen=True, slots=True)
class TerminalSheet:
    """A table as the terminal shows it, with what its columns hold."""

    table: RichTable
    kinds: tuple[Kind, ...]


def _fitting(table: Table, console: Console) -> RichTable:
    """Return the first form of the table that fits: as it is; with a line per series instead of a
    column; with words wrapped; with intervals below their values; or with a line per cell.
    """
    limit = console.width if console.is_terminal else READABLE
    is_series = bool(table.series) and len(_value_columns(table)) > 1
    forms = [_wide, _long] if is_series else [_wide]
    for form in forms:
        sheet = form(table)
        if _room(sheet.table, limit) >= sum(longest for longest, _ in _widths(sheet)):
            return sheet.table
    if not console.is_terminal:  # a file scrolls sideways
        return sheet.table
    for form in forms:
        for sheet in (form(table), _narrow(form(table)), _narrow(form(table, stacked=True))):
            if _wrapped(sheet, limit):
                return sheet.table
    return _records(table)


def _value_columns(table: Table) -> list[int]:
    kinds = table.column_kinds()
    return [k for k, kind in enumerate(kinds) if kind not in (*WORDS, "count")]


def _narrow(sheet: TerminalSheet) -> TerminalSheet:
    """Return the sheet with less space between its columns."""
    sheet.table.padding = (0, 1, 0, 0)
    return sheet


def _room(table: RichTable, limit: int) -> int:
    """Return how many characters of a line are left for cells, besides edges and gaps."""
    gap = 1 + table.padding[1] + table.padding[3]
    return limit - 2 - gap * (len(table.columns) - 1)


def _widths(sheet: TerminalSheet) -> list[tuple[int, int]]:
    """Return for every column the width of its longest line, and the least it can have: words may
    be put below each other, numbers stay whole.
    """
    widths = []
    for column, kind in zip(sheet.table.columns, sheet.kinds):
        head = Text.from_markup(str(column.header)).plain
        lines = "\n".join(Text.from_markup(str(cell)).plain for cell in column.cells).split("\n")
        pieces = " ".join(lines).split() if kind == "text" else lines
        longest = max(map(cell_len, [head, *lines]))
        widths.append((longest, max(map(cell_len, [*head.split(), *pieces]), default=0)))
    return widths


def _wrapped(sheet: TerminalSheet, limit: int) -> bool:
    """Make the widest columns narrower until the sheet fits, and return whether it does."""
    room = _room(sheet.table, limit)
    pairs = _widths(sheet)
    if sum(least for _, least in pairs) > room:
        return False
    widths = [longest for longest, _ in pairs]
    while sum(widths) > room:
        spare = [k for k, (_, least) in enumerate(pairs) if widths[k] > least]
        widths[max(spare, key=widths.__getitem__)] -= 1
    for column, width in zip(sheet.table.columns, widths):
        column.width = width
        column.no_wrap = False
    return True


def _wide(table: Table, *, stacked: bool = False) -> TerminalSheet:
    """Return the table with its own columns; ``stacked`` puts intervals below values."""
    texts, kinds = table.texts(), table.column_kinds()
    sheet = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = []
    for k, name in enumerate(table.columns):
        column = [line[k] for line in texts]
        _add_column(sheet, name, kinds[k], column)
        columns.append(_aligned(column, kinds[k], stacked=stacked))
    previous = ""
    for r, words in enumerate(zip(*columns)):
        if r == len(table.rows):
            sheet.add_section()
        cells = list(words)
        # Of rows that belong together only the first has the name of all.
        if kinds[:2] == ("name", "name"):
            if cells[0] == previous:
                cells[0] = ""
            elif r:
                sheet.add_section()
            previous = words[0]
        for c in range(len(cells)):
            if (r, c) in table.best:
                cells[c] = f"[bold]{cells[c]}[/bold]"
        sheet.add_row(*cells)
    return TerminalSheet(sheet, _stacked_kinds(kinds) if stacked else kinds)


def _long(table: Table, *, stacked: bool = False) -> TerminalSheet:
    """Return the table with a line per row and series; names and counts are in the first of
    them.
    """
    texts, kinds, values = table.texts(), table.column_kinds(), _value_columns(table)
    names = [k for k, kind in enumerate(kinds) if kind in WORDS]
    counts = [k for k, kind in enumerate(kinds) if kind == "count"]
    sheet = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for k in names:
        _add_column(sheet, table.columns[k], kinds[k], [])
    _add_column(sheet, table.series, "name", [])
    _add_column(sheet, "value", "value", [CellText("", beside="left")])
    for k in counts:
        _add_column(sheet, table.columns[k], "count", [])
    every = []
    for line in texts:
        every += [line[k] for k in values]
    value_cells = iter(_aligned(every, "value", stacked=stacked))
    for r, line in enumerate(texts):
        if r == len(table.rows):
            sheet.add_section()
        for place, k in enumerate(values):
            first, last = [""] * len(names), [""] * len(counts)
            if place == 0:
                first = [_shown(line[c], kinds[c]) for c in names]
                last = [_shown(line[c], "count") for c in counts]
            value = next(value_cells)
            if (r, k) in table.best:
                value = f"[bold]{value}[/bold]"
            sheet.add_row(*first, name_of(table.columns[k]), value, *last)
    name_kinds = tuple(kinds[k] for k in names)
    long_kinds: tuple[Kind, ...] = (*name_kinds, "name", "value", *same_kind("count", len(counts)))
    return TerminalSheet(sheet, _stacked_kinds(long_kinds) if stacked else long_kinds)


def _stacked_kinds(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Return the kinds with names that may be wrapped, as words are."""
    return tuple("text" if kind == "name" else kind for kind in kinds)


def _records(table: Table) -> RichTable:
    """Return a line for every cell, with the name of its column; a gap ends a row."""
    sheet = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    sheet.add_column(overflow="fold", style="dim")
    sheet.add_column(overflow="fold")
    for line in table.texts():
        for name, kind, cell in zip(table.columns, table.column_kinds(), line):
            if str(cell):
                sheet.add_row(name_of(name), _shown(cell, kind))
        sheet.add_section()
    return sheet


def _add_column(sheet: RichTable, name: str, kind: Kind, cells: Sequence[CellText]) -> None:
    if kind == "name":
        sheet.add_column(name_of(name), no_wrap=True)
    elif kind == "text":
        sheet.add_column(name_of(name), overflow="fold")
    elif kind == "count":
        sheet.add_column(name_of(name), justify="right", style="dim", overflow="fold")
    else:
        # Values with an interval are aligned by `_aligned`, at their points.
        justify: JustifyMethod = "left" if any(cell.beside for cell in cells) else "right"
        sheet.add_column(name_of(name), justify=justify, overflow="fold")


def _aligned(cells: Sequence[CellText], kind: Kind, *, stacked: bool = False) -> list[str]:
    """Return the texts of a column; in front of intervals, the values end at the same place."""
    if kind in WORDS or not any(cell.beside for cell in cells):
        return [_shown(cell, kind) for cell in cells]
    width = max((len(cell.main) for cell in cells if cell.value is not None), default=0)
    texts = []
    for cell in cells:
        padding = "" if cell.value is None else " " * (width - len(cell.main))
        words = _shown(cell, kind)
        if stacked and cell.beside:
            words = _shown(replace(cell, beside=""), kind) + "\n"
            words += _shown(replace(cell, main=""), kind).lstrip()
        texts.append(padding + words)
    return texts


def _shown(cell: CellText, kind: Kind) -> str:
    text = one_line(str(cell))
    return escape(short_name(text) if kind == "name" else text)


PATIENCE = 1.0  # seconds before progress is worth showing
SHOWN = 12
STALE = 1.0  # seconds after which a line that nobody draws again goes on by itself
BEAT = 0.25  # seconds between two looks at it
WIDTH = 76  # columns of a line of progress
BAR = 20  # of them, for the bar


class Narrator:
    """Prints notes and progress, unless it is quiet."""

    # Columns of the line of progress that is on the terminal; all narrators share the terminal.
    line_width: ClassVar[int] = 0

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.began = time.monotonic()
        self.visible = False
        self.live = is_live() and not quiet

    def say(self, text: str, *, is_prose: bool = False) -> None:
        """Print one line; a terminal breaks prose between words, but no command or path."""
        if self.quiet:
            return
        clear_progress()
        line = one_line(text)
        if is_prose and sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 2
            parts = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
            line = "\n  ".join(parts)
        click.echo(line, err=True)

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings, the first dozen of them."""
        for warning in warnings[:SHOWN]:
            self.say(f"note: {warning}", is_prose=True)
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

        It counts to its total once, so the remaining time is that of all the work. A count to
        another total, or from less on, is other work, which goes at its own speed. The first call
        of a count says where it starts: at 0, or where an earlier run stopped.
        """
        began, first, last, count = 0.0, 0, 0, 0

        def progress(name: str, step: int, total: int) -> None:
            nonlocal began, first, last, count
            now = time.monotonic()
            if total != count or step < last:
                began, first, count = now, step, total
            last = step
            if step > first or step == total:
                elapsed = (now - began) * step / max(1, step - first)
                self._show(name, step, total, elapsed)

        return progress

    def doing(self, name: str) -> None:
        """Show the current step on a terminal; "" clears the line."""
        if self.live and (time.monotonic() - self.began >= PATIENCE or not name):
            _draw(f"  page: {name}" if name else "", WIDTH)

    def _show(self, name: str, step: int, total: int, elapsed: float) -> None:
        """Show the progress of a step on a terminal, once the work takes longer than a second."""
        if not self.live or (time.monotonic() - self.began < PATIENCE and not self.visible):
            return
        self.visible = step < total
        width = line_width()
        line = progress_line(name, step, total, elapsed, width) if self.visible else ""
        _draw(line, width, lambda later: progress_line(name, step, total, elapsed + later, width))


def is_live() -> bool:
    """Return whether stderr is a terminal on which lines may be drawn again and again."""
    return sys.stderr.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def line_width() -> int:
    """Return how many columns a line of progress has: one that wraps would stay."""
    return min(WIDTH, shutil.get_terminal_size().columns - 1)


def _draw(line: str, width: int, later: Callable[[float], str] | None = None) -> None:
    """Write a line over that of before; "" clears it, and the next text begins there.

    ``later`` gives the line as it is so many seconds from now, if nobody draws another one.
    """
    with Heartbeat.lock:
        click.echo("\r" + line.ljust(width) + ("" if line else "\r"), err=True, nl=False)
        Narrator.line_width = width if line else 0
        Heartbeat.later = later or (lambda seconds: f"{line} ({duration_text(seconds)})")
        Heartbeat.touched = time.monotonic()


def clear_progress() -> None:
    """Clear the line of progress if there is one: work may stop before its end."""
    if Narrator.line_width:
        _draw("", Narrator.line_width)


class Heartbeat:
    """Keeps the terminal moving while a verb runs, whatever the verb does.

    A thread draws the line of progress again if nobody else did so for a second: the time that is
    left follows the clock. Work that nobody counts, such as sorting, shows the name of the verb and
    the time so far. Whatever is printed meanwhile takes that line away first (`printing`).
    """

    lock: ClassVar[threading.RLock] = threading.RLock()  # of the terminal
    touched: ClassVar[float] = 0.0  # when anything was last written there
    later: ClassVar[Callable[[float], str] | None] = None
    width: ClassVar[int] = 0  # columns of the line of a heart that beats alone

    def __init__(self, name: str, *, quiet: bool) -> None:
        self.name, self.began = name, time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if is_live() and not quiet:
            # A daemon: a verb that fails must not wait for it.
            self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        Heartbeat.touched = self.began
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            with printing():
                pass

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with Heartbeat.lock:
                now = time.monotonic()
                silence = now - Heartbeat.touched
                # Without a line there is nothing that a reader could look at.
                patience = STALE if Narrator.line_width else STALE / 4
                if now - self.began < PATIENCE or silence < patience:
                    continue
                if Narrator.line_width and Heartbeat.later is not None:
                    line, width = Heartbeat.later(silence), Narrator.line_width
                else:
                    Heartbeat.width = width = line_width()
                    line = f"  {self.name}: {duration_text(now - self.began)} so far"
                _write("\r" + line[:width].ljust(width))


@contextmanager
def printing() -> Iterator[None]:
    """Clear the line of a heart that beats alone, and hold it while something else is printed."""
    with Heartbeat.lock:
        width, Heartbeat.width = Heartbeat.width, 0
        if width:
            _write("\r" + " " * width + "\r")
        yield
        Heartbeat.touched = time.monotonic()


def _write(text: str) -> None:
    """Write to stderr past its buffer, which is that of the main thread."""
    with suppress(OSError, ValueError):  # the terminal may be gone
        os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding, "backslashreplace"))


def progress_line(name: str, step: int, total: int, elapsed: float, width: int = WIDTH) -> str:
    """Return a bar, a percentage and the time left; with signs that every terminal has."""
    n_full = BAR * step // total
    bar = "=" * n_full + ">" * (n_full < BAR)
    remaining = duration_text(elapsed / step * (total - step))
    numbers = f"[{bar:<{BAR}}] {step * 100 // total:3d} %, {remaining} left"
    room = width - len(numbers) - 3
    if room < 4:
        return numbers[:width]
    return f"  {short_name(name, room, room // 3)} {numbers}"


def duration_text(seconds: float) -> str:
    """Return ``40 s``, ``3 min`` or ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
