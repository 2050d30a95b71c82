# SPDX-License-Identifier: Apache-2.0
"""HTML by hand, with one rule: every text from the data passes through `text`, which escapes it.

Attributes are made by this package or escaped with `text` as well. All pages use these functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from calipers.plots.figures import Cell, Figure, Table
from calipers.plots.svg import svg

BIDI = dict.fromkeys(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C], "\ufffd"
)
LONGEST_CELL = 200
LONG_CELL = 30  # characters that may be broken anywhere
MOST_STATIC_ROWS = 60
FIGURE_WIDTH = 460  # at which text stays legible on a phone and is not too large on a desk


def text(value: str) -> str:
    """Return text safe for HTML; characters that are invisible or change the direction of writing
    become a visible sign.
    """
    return escape("".join(map(_visible, value)).translate(BIDI))


def _visible(character: str) -> str:
    return character if character.isprintable() or character == "\n" else "\ufffd"


def cut(value: str, longest: int = LONGEST_CELL) -> str:
    """Return the text, shortened if it is very long."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with its heading; ``name`` is its address in the page."""
    inner = "\n".join(part for part in parts if part)
    heading = f'<h2 id="{name}-title">{text(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">\n{heading}\n{inner}\n</section>'


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph; nothing for no words."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{text(words)}</p>" if words else ""


def details(summary: str, inner: str, *, name: str = "") -> str:
    """Return what is shown on demand."""
    mark = f' id="{name}"' if name else ""
    return f"<details{mark}><summary>{text(summary)}</summary>\n{inner}\n</details>"


def figure_block(figure: Figure, name: str, *, all_in: str = "evaluation.json") -> str:
    """Return a figure with its finding above, its note below, and its numbers on demand."""
    note = f'<p class="note">{text(figure.note)}</p>' if figure.note.strip() else ""
    caption = f"Numbers of this figure: {figure.title}"
    numbers = data_table(figure.table(), f"{name}-numbers", caption, all_in=all_in)
    return (
        f'<figure class="plot" id="{name}">\n<figcaption>{text(figure.title)}</figcaption>\n'
        f"{svg(figure, width=FIGURE_WIDTH, name=name)}\n{note}\n"
        f"{details('Numbers of this figure', numbers)}\n</figure>"
    )


def data_table(
    table: Table,
    name: str,
    caption: str,
    most: int = MOST_STATIC_ROWS,
    *,
    over: int = 0,
    all_in: str = "evaluation.json",
) -> str:
    """Return a plain table of numbers, which the page can sort, filter, page through and save as
    CSV.

    Parameters
    ----------
    most
        Largest number of rows on the page; ``all_in`` is the file that has all of them.
    over
        Number of summary rows at the end, which stay last when the table is sorted.
    """
    rows = table.rows[:most]
    if len(rows) < len(table.rows):
        caption += f" (the first {len(rows)} of {len(table.rows)} rows; {all_in} has all)"
    head = "".join(f'<th scope="col">{text(cut(column))}</th>' for column in table.columns)
    n_body_rows = len(table.rows) - over
    lines = []
    for k, row in enumerate(rows):
        mark = ' class="over"' if k >= n_body_rows else ""
        lines.append(f"<tr{mark}>{''.join(map(_cell, row))}</tr>")
    body = "\n".join(lines)
    return scrolling(
        f'<table class="grid" id="{name}"><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>",
        caption,
    )


def scrolling(table: str, label: str) -> str:
    """Return a table that scrolls within itself if it is too wide, also by keyboard."""
    name = text(cut(label, 120) or "table")
    return f'<div class="wide" role="group" tabindex="0" aria-label="{name}">{table}</div>'


def items(entries: Sequence[str]) -> str:
    """Return a list; nothing for no entries."""
    if not entries:
        return ""
    return "<ul>" + "".join(f"<li>{text(entry)}</li>" for entry in entries) + "</ul>"


def _cell(value: Cell) -> str:
    if value is None:
        return '<td class="num"></td>'
    if isinstance(value, str):
        mark = ' class="long"' if len(value) > LONG_CELL else ""
        return f"<td{mark}>{text(cut(value))}</td>"
    return f'<td class="num">{digits(value, 4)}</td>'


def digits(value: float, n: int = 6) -> str:
    """Return a number with ``n`` digits that count; whole numbers whole."""
    if isinstance(value, int) or (
        math.isfinite(value) and value == int(value) and abs(value) < 1e15
    ):
        return str(int(value))
    return f"{value:.{n}g}"
