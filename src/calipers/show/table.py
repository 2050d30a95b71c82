# SPDX-License-Identifier: Apache-2.0
"""One table for everything that is shown as rows and columns, and its forms as text.

A feature has a function ``tables(result)`` that returns a list of `Table`; command line, page,
notebook and files all show these. A cell is a text, a number, an `Estimate` or None, never a text
that was made from a number: how a number is said is decided here, once, with `show.words`.

====================  ===============================================================
terminal              `show.terminal.print_tables`
page                  `show.html.table_block`
notebook              the table itself, by ``_repr_html_``
CSV                   `Table.to_csv`: all digits, bounds of intervals as own columns
LaTeX                 `Table.to_latex`: needs the package booktabs
Markdown              `Table.to_markdown`
====================  ===============================================================

Examples
--------
>>> from calipers.show.table import Table
>>> table = Table(
...     ("model", "AP", "images"),
...     (("ours", 0.5123, 20), ("theirs", 0.4, 20)),
...     title="Average precision",
...     summary=(("mean", 0.45615, None),),
...     kinds=("name", "value", "count"),
... )
>>> print(table.to_markdown())
**Average precision**
<BLANKLINE>
| model | AP | images |
|:--|--:|--:|
| ours | 0.512 | 20 |
| theirs | 0.400 | 20 |
| *mean* | *0.456* |  |
<BLANKLINE>
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from calipers.arguments import names_methods
from calipers.results.estimate import Estimate
from calipers.show.similar_names import tell_apart
from calipers.show.words import (
    LONGEST_NAME,
    digits,
    interval_text,
    legend,
    marks_of,
    number_text,
    p_number,
    percent_text,
    reason_text,
    same_for_all,
    short_name,
    signed_text,
    undefined,
    whole_text,
    without_interval,
)

# What a column holds:
# name     of a row: on the left, and never broken
# text     words that may be broken
# value    of a metric: three decimals
# whole    a value that counts: no decimals
# signed   a difference: with its sign
# share    in percent
# p        a p value
# tenths   a value in percent, as papers print it: one decimal
# number   of any size: four significant digits
# count    behind the values: n
Kind = Literal[
    "name", "text", "value", "whole", "signed", "share", "p", "tenths", "number", "count"
]

FORMS: Mapping[Kind, Callable[[float], str]] = {
    "value": number_text,
    "whole": whole_text,
    "signed": signed_text,
    "share": percent_text,
    "p": p_number,
    "tenths": lambda value: f"{value:.1f}",
    "number": lambda value: digits(value, 4),
    "count": digits,
}
WORDS = ("name", "text")
NAN = math.nan
BEST = "The best values are highlighted; this is not a statistical test."


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with an interval, a spread or words of its own beside it.

    Without a value it is a range, from ``low`` to ``high``.
    """

    value: float
    beside: str = ""
    low: float = NAN
    high: float = NAN
    spread: float = NAN  # behind ±


Cell = str | float | int | Estimate | Amount | None
TableRow = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class CellText:
    """A cell as it is read: the words, and the numbers that sorting and files use."""

    main: str
    beside: str = ""  # the interval with its marks, or why there is none
    value: float | None = None
    low: float | None = None
    high: float | None = None
    is_undefined: bool = False  # an estimate without a value: `main` says why
    has_interval: bool = False

    def __str__(self) -> str:
        if not self.beside:
            return self.main
        return f"{self.main} {self.beside}" if self.has_interval else f"{self.main} ({self.beside})"


@names_methods
@dataclass(frozen=True, slots=True)
class Table:
    """Rows and columns with a title and notes.

    Parameters
    ----------
    columns, rows
        Names of the columns, and a cell for each of them in every row.
    title
        What the table shows, without a full stop.
    notes
        Sentences below it. What marks and missing values mean is added: see `all_notes`.
    summary
        Rows that stay last, however the others are sorted: means, totals.
    name
        Its address on a page and its name as a file, such as ``table-classes``.
    kinds
        What the columns hold; () = as their cells suggest.
    row_kinds
        Rows whose values are of another kind than their column says: row -> kind.
    best
        Places (row, column) of the best values, which are highlighted.
    series
        What the columns of values are, such as "model", if they are the same quantity of several:
        a table that is too wide for a terminal then has a line for each.
    say_why
        Whether cells say why they have no interval; None = unless the reason is the same for all.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    summary: tuple[TableRow, ...] = ()
    name: str = ""
    kinds: tuple[Kind, ...] = ()
    row_kinds: Mapping[int, Kind] = field(default_factory=dict)
    best: frozenset[tuple[int, int]] = frozenset()
    series: str = ""
    say_why: bool | None = None

    def estimates(self) -> list[Estimate]:
        """Return all estimates, row by row."""
        cells = []
        for row in (*self.rows, *self.summary):
            cells += [cell for cell in row if isinstance(cell, Estimate)]
        return cells

    def all_notes(self) -> tuple[str, ...]:
        """Return the notes, what highlights and marks mean, and why values are undefined."""
        return notes_of([self])

    def column_kinds(self) -> tuple[Kind, ...]:
        """Return what the columns hold."""
        if self.kinds:
            return self.kinds
        return tuple(self._kind_of(k) for k in range(len(self.columns)))

    def _kind_of(self, column: int) -> Kind:
        types = {type(row[column]) for row in (*self.rows, *self.summary)}
        # One estimate makes a column of values, one text a column of words, whatever else is there.
        if any(issubclass(kind, Estimate | Amount) for kind in types):
            return "value"
        if any(issubclass(kind, str) for kind in types):
            return "text" if column else "name"
        if any(issubclass(kind, float) for kind in types):
            return "number"
        return "count"

    def texts(self) -> list[list[CellText]]:
        """Return the cells of all rows as they are read, those of the summary last."""
        kinds = self.column_kinds()
        say_why = self.say_why
        if say_why is None:
            say_why = not same_for_all(self.estimates())
        lines = []
        for k, row in enumerate((*self.rows, *self.summary)):
            line = []
            for cell, kind in zip(row, kinds, strict=True):
                if k in self.row_kinds and kind not in (*WORDS, "count"):
                    kind = self.row_kinds[k]
                line.append(cell_text(cell, kind, say_why=say_why))
            lines.append(line)
        return lines

    def first(self, most: int, *, all_in: str) -> Table:
        """Return the first rows and the summary; the title says so, and which file has all."""
        if len(self.rows) <= most:
            return self
        cut = f" (the first {most} of {len(self.rows)} rows; {all_in} has all)"
        n_cut = len(self.rows) - most
        # Rows of the summary move up, and what is known of rows moves with them.
        row_kinds: dict[int, Kind] = {}
        for row, kind in self.row_kinds.items():
            if row < most:
                row_kinds[row] = kind
            elif row >= len(self.rows):
                row_kinds[row - n_cut] = kind
        title = (self.title + cut).strip()
        return replace(self, rows=self.rows[:most], title=title, row_kinds=row_kinds)

    def with_distinct_names(self) -> Table:
        """Return the table with long names shortened where they would look alike otherwise."""
        name_columns = [k for k, kind in enumerate(self.column_kinds()) if kind == "name"]
        names = list(self.columns)
        for row in (*self.rows, *self.summary):
            names += [str(row[k]) for k in name_columns]
        if max(map(len, names), default=0) <= LONGEST_NAME:
            return self
        new_names = tell_apart(names, short_name, LONGEST_NAME)
        new_rows = []
        for row in (*self.rows, *self.summary):
            cells = list(row)
            for k in name_columns:
                cells[k] = new_names.get(str(cells[k]), cells[k])
            new_rows.append(tuple(cells))
        return replace(
            self,
            columns=tuple(new_names.get(name, name) for name in self.columns),
            rows=tuple(new_rows[: len(self.rows)]),
            summary=tuple(new_rows[len(self.rows) :]),
        )

    def with_notes(self, *notes: str) -> Table:
        """Return the table with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def to_csv(self) -> str:
        """Return the table as CSV: floats keep all their digits, undefined values are empty.

        An interval becomes two columns behind its value; why values are undefined becomes a third.
        """
        from calipers.io.tables.table import delimited

        columns: dict[str, Sequence[Any]] = {}
        # A table without rows has a header as well.
        by_column = list(zip(*self.rows, *self.summary)) or [()] * len(self.columns)
        for name, cells in zip(self.columns, by_column):
            columns |= _csv_columns(_free_name(name, columns), cells)
        return delimited(columns)

    def to_markdown(self) -> str:
        """Return the table as Markdown with pipes; the best values are bold."""
        return _markdown(self)

    def to_latex(self, label: str = "") -> str:
        r"""Return the table as LaTeX; it needs ``\usepackage{booktabs}``.

        Parameters
        ----------
        label
            Of the table, for ``\ref``.
        """
        return _latex(self, label)

    def _repr_html_(self) -> str:
        from calipers.show.html import framed, table_block

        return framed(table_block(self))

    def __str__(self) -> str:
        return self.to_markdown()


def same_kind(kind: Kind, n: int) -> tuple[Kind, ...]:
    """Return the kinds of n columns that hold the same."""
    return (kind,) * n


def notes_of(tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the notes of tables that stand together, what highlights and marks in any of them
    mean, and why values are undefined; each once.
    """
    estimates, notes = [], []
    for table in tables:
        estimates += table.estimates()
        notes += [*table.notes, BEST if table.best else ""]
    explanations = [*notes, *legend(estimates), undefined(estimates)]
    return tuple(dict.fromkeys(filter(None, explanations)))


def cell_text(cell: Cell, kind: Kind, *, say_why: bool = True) -> CellText:
    """Return a cell as it is read."""
    if cell is None:
        return CellText("")
    if isinstance(cell, str):
        return CellText(cell)
    form = FORMS.get(kind, number_text)
    if isinstance(cell, Estimate):
        return _of_estimate(cell, form, say_why=say_why)
    if isinstance(cell, Amount):
        return _of_amount(cell, form)
    if math.isnan(cell):
        return CellText("")
    return CellText(form(cell), value=cell)


def _of_estimate(estimate: Estimate, form: Callable[[float], str], *, say_why: bool) -> CellText:
    if math.isnan(estimate.value):
        return CellText(reason_text(estimate.reason), is_undefined=True)
    value = form(estimate.value)
    if math.isnan(estimate.low):
        beside = without_interval(estimate) if say_why else ""
        return CellText(value, beside, estimate.value)
    interval = interval_text(estimate.low, estimate.high, form) + marks_of(estimate)
    return CellText(value, interval, estimate.value, estimate.low, estimate.high, has_interval=True)


def _of_amount(amount: Amount, form: Callable[[float], str]) -> CellText:
    value, low, high = (
        None if math.isnan(v) else v for v in (amount.value, amount.low, amount.high)
    )
    if value is None:
        span = "" if low is None or high is None else f"{form(low)} to {form(high)}"
        return CellText(span, amount.beside, None, low, high)
    beside, has_interval = amount.beside, False
    if not math.isnan(amount.spread):
        beside, has_interval = f"± {form(amount.spread)}", True
    elif not beside and low is not None and high is not None:
        beside, has_interval = interval_text(low, high, form), True
    return CellText(form(value), beside, value, low, high, has_interval=has_interval)


def _csv_columns(name: str, cells: Sequence[Cell]) -> dict[str, list[Any]]:
    """Return a column of the table as columns of the file."""
    values, lows, highs, reasons = [], [], [], []
    for cell in cells:
        low = high = None
        reason = ""
        value: Any = cell
        if isinstance(cell, Estimate | Amount):
            value, low, high = cell.value, cell.low, cell.high
        if isinstance(cell, Estimate) and math.isnan(cell.value):
            reason = reason_text(cell.reason)
        values.append(value)
        lows.append(low)
        highs.append(high)
        reasons.append(reason)
    columns = {name: values}
    if any(low is not None and not math.isnan(low) for low in lows):
        columns |= {f"{name} low": lows, f"{name} high": highs}
    if any(reasons):
        columns[f"{name} undefined because"] = reasons
    return columns


def _free_name(name: str, others: Mapping[str, Any]) -> str:
    """Return a name that no other column has: columns are keys, and none may be lost."""
    free, k = name, 2
    while free in others:
        free, k = f"{name} ({k})", k + 1
    return free


# Markdown and LaTeX: the same walk over the cells, with other signs.

MARKDOWN_SIGNS = re.compile(r"([\\|`*_<>\[\]#])")
LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "⁎": r"$\ast$",
    "∘": r"$\circ$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "‖": r"$\Vert$",
    "◊": r"$\diamond$",
    "△": r"$\triangle$",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
}


def _markdown(table: Table) -> str:
    lines = []
    if table.title:
        lines += [f"**{_markdown_text(table.title)}**", ""]
    lines.append(_pipes(list(map(_markdown_text, table.columns))))
    # Words are aligned to the left, numbers to the right.
    rules = [":--" if kind in WORDS else "--:" for kind in table.column_kinds()]
    lines.append(f"|{'|'.join(rules)}|")
    for k, row in enumerate(table.texts()):
        texts = []
        for c, cell in enumerate(row):
            text = _markdown_text(str(cell))
            if (k, c) in table.best:
                mark = "**"
            elif k >= len(table.rows):  # rows of the summary stand in italics
                mark = "*"
            else:
                mark = ""
            # An empty cell stays empty: marks around nothing would be shown as asterisks.
            texts.append(f"{mark}{text}{mark}" if text else "")
        lines.append(_pipes(texts))
    lines.append("")
    notes = table.all_notes()
    # Two spaces at the end break the line.
    lines += [f"{_markdown_text(note)}  " for note in notes]
    if notes:
        lines.append("")
    return "\n".join(lines)


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(words: str) -> str:
    return MARKDOWN_SIGNS.sub(r"\\\1", visible_line(words))


def _latex(table: Table, label: str) -> str:
    columns = "".join("l" if kind in WORDS else "r" for kind in table.column_kinds())
    lines = [r"\begin{table}", r"\centering"]
    if table.title:
        lines.append(rf"\caption{{{_latex_text(table.title)}}}")
    if label:
        lines.append(rf"\label{{{label}}}")
    heads = " & ".join(map(_latex_text, table.columns))
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rf"{heads} \\", r"\midrule"]
    for k, row in enumerate(table.texts()):
        if k == len(table.rows) and k:
            lines.append(r"\midrule")
        cells = [_latex_text(str(cell)) for cell in row]
        for c in range(len(cells)):
            if (k, c) in table.best:
                cells[c] = rf"\textbf{{{cells[c]}}}"
        # A bracket after \\ would be taken for its argument, so a row never begins with one.
        start = "{}" if cells[0].startswith("[") else ""
        lines.append(rf"{start}{' & '.join(cells)} \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [_latex_text(note) for note in table.all_notes()]
    if notes:
        lines += [r"\par\smallskip\footnotesize", "\\par\n".join(notes)]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_text(words: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in visible_line(words))


def visible_line(words: str) -> str:
    """Return words in one line, with a visible sign for what is invisible."""
    line = ""
    for character in " ".join(words.split()):
        line += character if character.isprintable() else "\ufffd"
    return line


def cohort_html(cohort: Any) -> str:
    """Return a cohort as HTML: references and the predictions of every model, class by class."""
    references = cohort.references
    names = ["class", "references", *(f"predictions of {model}" for model in cohort.models)]
    columns = [references.label[~references.ignore]]
    columns += [predictions.label for predictions in cohort.models.values()]
    rows = []
    for k, label in enumerate(cohort.classes):
        rows.append((label, *(int((column == k).sum()) for column in columns)))
    total: tuple[Cell, ...] = ("all classes", *(len(column) for column in columns))
    groups = ", ".join(cohort.images.groups) or "none"
    n_ignored = int(references.ignore.sum())
    notes = [f"{cohort.n_images} images; groups: {groups}."]
    if n_ignored:
        notes.append(f"{n_ignored} ignored references are not counted here.")
    counts: list[Kind] = ["count"] * len(columns)
    table = Table(
        tuple(names),
        tuple(rows),
        title="Cohort",
        summary=(total,),
        kinds=("name", *counts),
        notes=tuple(notes),
    )
    return table._repr_html_()
