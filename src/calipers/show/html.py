# SPDX-License-Identifier: Apache-2.0
"""HTML by hand, with one rule: every text from the data passes through `text`, which escapes it.

Attributes are made by this package or escaped with `text` as well. All pages use these functions.

The shell of every page: head, content security policy, style and script, all in one file.

The frame of a page that answers one question: the answer, the evidence, and how to reproduce it.

Pages of a multiverse, a stability analysis and monitors are made with it; they pass HTML in and get
the whole page back. The page of an evaluation has its own frame in `page`.

Results in a notebook: small HTML in the style of the page, isolated from other cells.

Frame of a table.
"""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import Any

from calipers.results.comparison import Comparison
from calipers.results.estimate import Estimate
from calipers.results.files import environment
from calipers.show.figures import Cell, Figure, Table
from calipers.show.svg.draw import stylesheet, svg
from calipers.show.words import (
    between,
    count_text,
    reason_word,
    short,
    short_number,
    without_interval,
)

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


def document(
    title: str, body: str, *, skip: str, payload: str = "", styles: tuple[str, ...] = ()
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
    """
    style = "".join(map(_asset, ("page.css", *styles))) + stylesheet()
    script = _asset("page.js")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
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
    return command_line + data_table(Table(("what", "value"), rows), "table-run", "The run")


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
        reason = text(reason_word(e.reason))
        return framed(f'<span class="undefined">undefined: {reason}</span> <small>{behind}</small>')
    beside = between(e.low, e.high) or without_interval(e)
    if not math.isnan(e.low):
        level = f"{100 * e.level:g} % confidence interval"
        behind = f"{level}, resampled by {e.unit} (n = {e.n_units}); {behind}"
    value = f"<strong>{short_number(e.value)}</strong>"
    return framed(f"{value} {text(beside)} <small>{text(behind)}</small>")


def of_comparison(comparison: Comparison) -> str:
    """Return a row per difference, with its interval, test and verdict."""
    names = ("metric", "a", "b", "a − b", "interval", "p", "verdict")
    lines = []
    for d in comparison.rows:
        e = d.estimate
        metric = d.metric if d.label is None else f"{d.metric} of {d.label}"
        p = "" if math.isnan(d.p_adjusted) else f"{d.p_adjusted:.2g}"
        verdict = d.verdict.replace("_", " ")
        difference = short_number(e.value)
        lines.append(
            _row(metric, (d.model_a, d.model_b, difference, between(e.low, e.high), p, verdict))
        )
    manner = "not corrected"
    if comparison.correction != "none":
        tests = count_text("test", comparison.family)
        manner = f"corrected ({comparison.correction}) for {tests}"
    units = f"{comparison.unit} (n = {comparison.n_units})"
    caption = f"Differences, resampled by {units}; p values {manner}."
    return framed(_table(caption, names, lines))


def _row(name: str, values: Sequence[str]) -> str:
    cells = "".join(f"<td>{text(value)}</td>" for value in values)
    return f"<tr><th scope=row>{text(name)}</th>{cells}</tr>"


def _table(caption: str, names: Sequence[str], lines: Sequence[str]) -> str:
    head = "".join(f"<th scope=col>{text(name)}</th>" for name in names)
    return (
        f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def framed(inner: str) -> str:
    """Return the inner part with its style, which applies to nothing else in the notebook."""
    sheet = resources.files("calipers").joinpath("show", "assets", "small.css")
    style = sheet.read_text(encoding="utf-8")
    return f'<style>{style}</style><div class="calipers">{inner}</div>'


LONG = 20  # characters of a name that need not stay in one piece


def frame(
    caption: str,
    head: str,
    lines: Sequence[str],
    *,
    title: str = "",
    label: str = "",
    kind: str = "",
    below: Sequence[str] = (),
) -> str:
    """Return a table that scrolls within itself if it is too wide, with notes below it."""
    body = "\n".join(lines)
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in below)
    table = (
        f'<table class="{kind or "sheet"}"><caption>{title}{text(caption)}</caption>'
        f"<thead>{head}</thead>\n<tbody>{body}</tbody></table>"
    )
    return scrolling(table, label or caption) + notes


def _head(first: str, models: Sequence[str], numbers: Mapping[str, str]) -> str:
    columns = "".join(f"<th scope=col{_long(model)}>{text(short(model))}</th>" for model in models)
    behind = "".join(
        f'<th scope=col class=n><abbr title="{text(name)}">{text(letter)}</abbr></th>'
        for letter, name in numbers.items()
    )
    return f"<tr><th scope=col>{first}</th>{columns}{behind}</tr>"


def _long(name: str) -> str:
    """Return the attributes of a long name: it may break anywhere, and its title has all of it."""
    title = f' title="{text(name)}"' if short(name) != name else ""
    return f" class=long{title}" if len(name) > LONG else ""


def _line(name: str, cells: str, numbers: Sequence[object], kind: str = "") -> str:
    behind = "".join(f"<td class=n>{n}</td>" for n in numbers)
    mark = f" class={kind}" if kind else ""
    return f"<tr{mark}><th scope=row{_long(name)}>{text(short(name))}</th>{cells}{behind}</tr>"
