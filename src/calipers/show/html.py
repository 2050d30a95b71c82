# SPDX-License-Identifier: Apache-2.0
"""HTML by hand, with one rule: every text from the data passes through `text`, which escapes it.

Figures, tables and sentences come in, HTML goes out. Attributes are made by this package or escaped
with `text` as well. There are

- the parts of a page: `section`, `paragraph`, `items`, `details`, `figure_block`, `table_block`;
- whole pages: `document` is the shell of each (content security policy, style and script in one
  file), `answer_page` the frame of those that answer one question (multiverse, stability,
  monitors); the page of an evaluation has its own frame in `report.page`;
- results in a notebook: `framed` isolates their style from other cells.
"""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import Any

from calipers.results.estimate import Estimate
from calipers.results.files import environment
from calipers.show.figures import Figure
from calipers.show.svg.draw import stylesheet, svg
from calipers.show.table import BEST, WORDS, CellText, Kind, Table
from calipers.show.words import (
    count_text,
    digits,
    interval_text,
    level_text,
    number_text,
    reason_text,
    short_name,
    without_interval,
)

BIDI = dict.fromkeys(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C], "\ufffd"
)
LONGEST_CELL = 200
LONG_CELL = 30  # characters that may be broken anywhere
MOST_STATIC_ROWS = 60
LONG_NAME = 20  # characters of a name that need not stay in one piece
STAR = "&#9733;"  # behind the best values
FEW_VALUES = 3  # columns of values that fit a narrow screen
SHEET_KINDS = ("value", "whole", "signed")
FIGURE_WIDTH = 460  # at which text stays legible on a phone and is not too large on a desk


def text(value: str) -> str:
    """Return text safe for HTML; characters that are invisible or change the direction of writing
    become a visible sign.
    """
    if not value.isprintable():
        value = "".join(map(_visible, value))
    return escape(value.translate(BIDI))


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
    table = replace(figure.table(), title=caption, name=f"{name}-numbers")
    numbers = table_block(table, all_in=all_in)
    return (
        f'<figure class="plot" id="{name}">\n<figcaption>{text(figure.title)}</figcaption>\n'
        f"{svg(figure, width=FIGURE_WIDTH, name=name)}\n{note}\n"
        f"{details('Numbers of this figure', numbers)}\n</figure>"
    )


def table_block(
    table: Table, most: int = MOST_STATIC_ROWS, *, all_in: str = "evaluation.json"
) -> str:
    """Return a table with its notes, which the page can sort, filter, page through and save as CSV.

    A table without rows is nothing. A table of estimates is a sheet, which shows intervals beside
    values; one of plain numbers is a grid, which shows more digits.

    Parameters
    ----------
    most
        Largest number of rows on the page besides the summary; ``all_in`` is the file that has all
        of them.
    """
    if not table.rows and not table.summary:
        return ""
    # Thousands of static rows would make the page slow; the file that has them is named.
    table = table.first(most, all_in=all_in)
    kinds = table.column_kinds()
    is_sheet = any(kind in SHEET_KINDS for kind in kinds)
    title = table.title
    lines = []
    for k, cells in enumerate(table.texts()):
        mark = ' class="over"' if k >= len(table.rows) else ""
        line = ""
        for c, (cell, kind) in enumerate(zip(cells, kinds)):
            if is_sheet:
                line += _sheet_cell(cell, kind, is_first=c == 0, is_best=(k, c) in table.best)
            else:
                line += _grid_cell(cell, kind)
        lines.append(f"<tr{mark}>{line}</tr>")
    heads = ""
    for c, (name_of_column, kind) in enumerate(zip(table.columns, kinds)):
        # A second column of names is read as words are: from the left.
        shape: Kind = "text" if c and kind == "name" else kind
        heads += _head_cell(name_of_column, shape, is_sheet=is_sheet)
    # The script names the CSV file of a table after its id.
    name = f' id="{table.name}"' if table.name else ""
    body = "\n".join(lines)
    notes = ""
    for note in table.all_notes():
        sign = f"{STAR} " if note == BEST else ""
        notes += f'<p class="note">{sign}{text(note)}</p>'
    block = (
        f'<table class="{_look(table) if is_sheet else "grid"}"{name}>'
        f"<caption>{text(title)}</caption><thead><tr>{heads}</tr></thead>\n"
        f"<tbody>{body}</tbody></table>"
    )
    return scrolling(block, title) + notes


def _look(table: Table) -> str:
    """Return the CSS classes of a sheet: rows of few values fit a narrow screen, with their name
    above them.
    """
    n_values = sum(kind in SHEET_KINDS for kind in table.column_kinds())
    look = "sheet few" if n_values <= FEW_VALUES else "sheet models"
    return f"{look} groups" if table.summary else look


def _head_cell(name: str, kind: Kind, *, is_sheet: bool) -> str:
    mark = ""
    if not is_sheet:
        mark = "" if kind in WORDS else ' class="num"'
        return f'<th scope="col"{mark}>{text(cut(name))}</th>'
    if kind == "count":
        mark = " class=n"
    elif kind == "text":
        mark = " class=words"
    return f"<th scope=col{mark or _long(name)}>{text(short_name(name))}</th>"


def _sheet_cell(cell: CellText, kind: Kind, *, is_first: bool, is_best: bool) -> str:
    if is_first and kind == "text":  # a sentence, which breaks where it has blanks
        return f"<th scope=row>{text(cut(cell.main))}</th>"
    if is_first:
        return f"<th scope=row{_long(cell.main)}>{text(short_name(cell.main))}</th>"
    if kind == "count":
        return f"<td class=n>{text(cell.main)}</td>"
    if cell.is_undefined:
        return f"<td class=undefined>{text(cell.main)}</td>"
    if kind in WORDS:
        mark = '"words long"' if len(cell.main) > LONG_CELL else "words"
        return f"<td class={mark}>{text(cut(cell.main))}</td>"
    words, mark = text(cell.main), ""
    if is_best:
        words += f'<span class=star title="best">{STAR}</span>'
        mark = " class=best"
    small = f"<small>{text(cell.beside)}</small>" if cell.beside else ""
    return f"<td{mark}{_exact(cell)}>{words}{small}</td>"


def _exact(cell: CellText) -> str:
    """Return the numbers behind a cell, for sorting and for the CSV file that the page saves."""
    ends = ""
    if cell.low is not None and cell.high is not None:
        ends = f' data-low="{digits(cell.low)}" data-high="{digits(cell.high)}"'
    value = "" if cell.value is None else digits(cell.value)
    return f' data-v="{value}"{ends}'


def _grid_cell(cell: CellText, kind: Kind) -> str:
    if cell.value is not None or (not cell.main and kind not in WORDS):
        # Sorting reads the number from the text, unless that says more than the number.
        says_more = kind in ("share", "p") or cell.has_interval
        exact = _exact(cell) if says_more and cell.value is not None else ""
        beside = f"<small>{text(cell.beside)}</small>" if cell.has_interval else ""
        return f'<td class="num"{exact}>{text(cell.main)}{beside}</td>'
    mark = ' class="long"' if len(cell.main) > LONG_CELL else ""
    return f"<td{mark}>{text(cut(cell.main))}</td>"


def _long(name: str) -> str:
    """Return the attributes of a long name: it may break anywhere, and its title has all of it."""
    title = f' title="{text(name)}"' if short_name(name) != name else ""
    return f" class=long{title}" if len(name) > LONG_NAME else ""


def scrolling(table: str, label: str) -> str:
    """Return a table that scrolls within itself if it is too wide, also by keyboard."""
    name = text(cut(label, 120) or "table")
    return f'<div class="wide" role="group" tabindex="0" aria-label="{name}">{table}</div>'


def items(entries: Sequence[str]) -> str:
    """Return a list; nothing for no entries."""
    if not entries:
        return ""
    return "<ul>" + "".join(f"<li>{text(entry)}</li>" for entry in entries) + "</ul>"


def document(
    title: str,
    body: str,
    *,
    skip: str,
    payload: str = "",
    styles: tuple[str, ...] = (),
    script: str = "page.js",
) -> str:
    """Return a page as HTML; the policy allows our style and script only.

    Parameters
    ----------
    title
        Of the window; escaped here.
    body
        HTML whose texts are escaped already.
    skip
        Words of the link that leads past the navigation, to the element ``content``.
    payload
        JSON that the script reads, for pages with a table of every row.
    styles
        Names of further style sheets among the assets.
    script
        Name of the script among the assets.
    """
    style = "".join(map(_asset, ("page.css", *styles))) + stylesheet()
    script = _asset(script)
    # Hashes instead of 'unsafe-inline': a script that got in by a name would not run.
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    rows = f'<script type="application/json" id="rows">{payload}</script>\n' if payload else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text('Calipers: ' + title)}</title>\n<style>{style}</style>\n</head>\n"
        f'<body>\n<a class="skip" href="#content">{text(skip)}</a>\n{body}\n'
        f"{rows}<script>{script}</script>\n"
        "</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("calipers").joinpath("show", "assets", name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the hash by which a policy allows an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def answer_page(
    title: str,
    opening: str,
    answer: str,
    parts: Sequence[tuple[str, str, str]],
    *,
    first: str = "The answer",
    skip: str = "Skip to the answer",
    styles: tuple[str, ...] = (),
) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    title, opening
        The question, and the data it was asked about; escaped here.
    answer
        The section ``content`` as HTML.
    parts
        Id, heading and HTML of every further section; those without HTML are left out.
    first
        The name of the answer among the links.
    skip, styles
        As in `document`.
    """
    from calipers import __version__

    links, sections = "", []
    for name, heading, inner in parts:
        if inner:
            links += f'<li><a href="#{name}">{text(heading)}</a></li>'
            sections.append(section(name, heading, inner))
    all_sections = "\n".join(sections)
    body = (
        f'<header><h1>{text(title)}</h1>\n<p class="soft">{text(opening)}</p></header>\n'
        f'<nav aria-label="Sections"><ul><li><a href="#content">{text(first)}</a></li>'
        f"{links}</ul></nav>\n<main>\n{answer}\n{all_sections}\n</main>\n"
        f"<footer>Made with Calipers {text(__version__)}. Not a medical device.</footer>"
    )
    return document(title, body, skip=skip, styles=styles)


def answer_section(verdict: str, inner: str) -> str:
    """Return the section ``content``: a verdict, escaped here, and HTML below it."""
    return (
        '<section id="content" aria-labelledby="content-title" tabindex="-1">'
        '<h2 id="content-title">The answer</h2>'
        f'<p class="verdict">{text(verdict)}</p>{inner}</section>'
    )


def further(sentences: Sequence[str]) -> str:
    """Return sentences as the list below a verdict."""
    entries = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    return f'<ul class="further">{entries}</ul>'


def in_pairs(blocks: Sequence[str]) -> str:
    """Return figures, two in a row where there is room."""
    pairs = []
    for k in range(0, len(blocks), 2):
        pairs.append(f'<div class="pair">{"".join(blocks[k : k + 2])}</div>')
    return "\n".join(pairs)


def reproduce_block(command: Sequence[str], settings: Mapping[str, Any] | None = None) -> str:
    """Return the command, and a table of versions and settings, as HTML."""
    from calipers import __version__

    facts = {"calipers": __version__, **environment(), **(settings or {})}
    rows = tuple((name, str(value)) for name, value in facts.items())
    command_line = f"<pre>{text(shlex.join(command))}</pre>" if command else ""
    table = Table(("what", "value"), rows, title="The run", name="table-run")
    return command_line + table_block(table)


def made_by(command: Sequence[str]) -> dict[str, Any]:
    """Return the command, the environment and the time of a run, for a JSON document."""
    end = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"command": list(command), "environment": environment(), "ended": end}


def as_bytes(content: str) -> bytes:
    """Return text as UTF-8; half a surrogate pair in a name has no bytes and becomes a question
    mark.
    """
    return content.encode("utf-8", "replace")


def of_estimate(e: Estimate) -> str:
    """Return one estimate: value, interval and n."""
    behind = f"n = {count_text('image', e.n_images)}, {count_text('reference', e.n_references)}"
    if math.isnan(e.value):
        reason = text(reason_text(e.reason))
        return framed(f'<span class="undefined">undefined: {reason}</span> <small>{behind}</small>')
    beside = interval_text(e.low, e.high) or without_interval(e)
    if not math.isnan(e.low):
        level = f"{level_text(e.level)} confidence interval"
        behind = f"{level}, resampled by {e.unit} (n = {e.n_units}); {behind}"
    value = f"<strong>{number_text(e.value)}</strong>"
    return framed(f"{value} {text(beside)} <small>{text(behind)}</small>")


def framed(inner: str) -> str:
    """Return the inner part with its style, which applies to nothing else in the notebook."""
    sheet = resources.files("calipers").joinpath("show", "assets", "small.css")
    style = sheet.read_text(encoding="utf-8")
    return f'<style>{style}</style><div class="calipers">{inner}</div>'
