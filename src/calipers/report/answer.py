# SPDX-License-Identifier: Apache-2.0
"""The frame of a page that answers one question: the answer, the evidence, and how to reproduce it.

Pages of a multiverse, a stability analysis and monitors are made with it; they pass HTML in and get
the whole page back. The page of an evaluation has its own frame in `page`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from calipers.plots.figures import Table
from calipers.report import markup
from calipers.report.markup import data_table, text
from calipers.report.shell import document
from calipers.results.provenance import environment


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
            sections.append(markup.section(name, heading, inner))
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
