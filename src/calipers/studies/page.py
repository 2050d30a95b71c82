# SPDX-License-Identifier: Apache-2.0
"""The page of a study: claims first, then figures, tables, methods, and how to get the same numbers
again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from calipers.kernels.route import native
from calipers.plots.figures import Figure, Overlay, Table
from calipers.plots.svg import svg
from calipers.report.answer import answer_page
from calipers.report.markup import data_table, details, paragraph, text
from calipers.results.provenance import environment
from calipers.studies.framework import VERDICTS, Claim, StudyFigure, StudyResult, StudyTable

PANEL_WIDTHS = {
    1: 560,
    2: 480,
    3: 380,
}  # by how many stand in a row; text has the same size in all of them
NARROW = 290
MOST_ROWS = 250  # of a table on the page; the files have all
MARKS = dict(zip(VERDICTS, ("held", "in-part", "not", "untested")))
QUICK = (
    "This is a quick run on coarse grids and little data: it shows how the study works, and is "
    "not for citing."
)


def study_page(result: StudyResult, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    figures = "\n".join(_figure(figure) for figure in result.figures)
    parts = [
        ("figures", "Figures", figures),
        ("tables", "Tables", "\n".join(_table(table) for table in result.tables)),
        ("methods", "Methods", _methods(result)),
        ("reproduce", "How to reproduce", _reproduce(result, command)),
    ]
    return answer_page(
        result.title,
        _opening(result),
        _claims(result),
        parts,
        first="Claims",
        skip="Skip to the claims",
        styles=("study.css",),
    )


def _opening(result: StudyResult) -> str:
    return f"An independent run of the experiments of: {result.citation} {result.source}"


def _claims(result: StudyResult) -> str:
    """Return what held and what did not, with the numbers."""
    rows = "\n".join(map(_claim, result.claims))
    head = "".join(
        f'<th scope="col">{words}</th>'
        for words in ("What the paper says", "Verdict", "What the numbers say")
    )
    table = (
        '<table class="claims"><caption>Every claim of the experiments, in the order of the paper, judged by the '
        "numbers of this "
        f"run</caption><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
    )
    said = [paragraph(QUICK, "note")] if result.quick else []
    said += [paragraph(warning, "note") for warning in result.warnings]
    heading = '<h2 id="content-title">The claims</h2>'
    return (
        f'<section id="content" aria-labelledby="content-title" tabindex="-1">{heading}'
        f'<p class="verdict">{text(result.summary())}</p>{"".join(said)}{table}</section>'
    )


def _claim(claim: Claim) -> str:
    note = f"<small>{text(claim.note)}</small>" if claim.note else ""
    return (
        f'<tr class="{MARKS[claim.verdict]}" id="claim-{claim.name}">'
        f'<th scope="row" class="claim">{text(claim.text)}<small>{text(claim.where)}</small></th>'
        f'<td class="said">{text(claim.verdict)}</td><td>{text(claim.evidence)}{note}</td></tr>'
    )


def _figure(figure: StudyFigure) -> str:
    """Return one figure: its finding, its panels, its caption, its numbers on demand."""
    rows = "\n".join(_row(row, figure.name) for row in figure.layout())
    name, file = f"{figure.name}-numbers", f"{figure.name}.csv"
    numbers = data_table(
        figure.table(), name, f"Numbers of {figure.heading}", MOST_ROWS, all_in=file
    )
    return (
        f'<div class="study-figure" id="{figure.name}">\n<h3>{text(f"{figure.heading}. {figure.title}")}</h3>\n'
        f"{rows}\n{paragraph(figure.caption, 'note')}\n"
        f"{details(f'Numbers of {figure.heading}', numbers)}\n</div>"
    )


def _row(panels: Sequence[tuple[str, Figure]], whole: str) -> str:
    """Return panels of the figure ``whole`` beside each other, as far as the window is wide enough."""
    width = PANEL_WIDTHS.get(len(panels), NARROW)
    inner = "\n".join(_panel(name, panel, width, alone=name == whole) for name, panel in panels)
    return f'<div class="panels-{min(len(panels), 4)}">{inner}</div>'


def _panel(name: str, panel: Figure, width: int, *, alone: bool) -> str:
    drawn = svg(panel, width=width, name=name)
    inner = f'<div class="shot">{drawn}</div>' if isinstance(panel, Overlay) else drawn
    below = paragraph(panel.note, "note") if panel.note.strip() else ""
    mark = "" if alone else f' id="{name}"'  # then it is that of the figure
    return (
        "<figure "
        f'class="plot"{mark}><figcaption>{text(panel.title)}</figcaption>\n{inner}\n{below}</figure>'
    )


def _table(table: StudyTable) -> str:
    shown = data_table(table.table, table.name, table.title, MOST_ROWS, all_in=f"{table.name}.csv")
    return f"{shown}\n{paragraph(table.note, 'note')}"


def _methods(result: StudyResult) -> str:
    cited = "".join(f"<li>{text(entry)}</li>" for entry in (result.citation, *result.references))
    settings = Table(
        ("setting", "value"), tuple((name, _said(value)) for name, value in result.settings.items())
    )
    return "\n".join(
        [
            *(paragraph(words) for words in result.methods),
            f'<ol class="citations">{cited}</ol>',
            details(
                "Settings", data_table(settings, "table-settings", "Everything that was chosen")
            ),
        ]
    )


def _said(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reproduce(result: StudyResult, command: Sequence[str]) -> str:
    from calipers import __version__

    facts = {
        "calipers": __version__,
        "kernels": "numpy" if native() is None else "native",
        **{name: str(value) for name, value in environment().items()},
        "seed": str(result.seed),
    }
    parts = [
        f"<pre>{text(shlex.join(command))}</pre>" if command else "",
        paragraph("The same seed, data and version give the same numbers, to the last bit."),
        data_table(Table(("what", "value"), tuple(facts.items())), "table-run", "The run"),
    ]
    if result.inputs:
        rows = tuple((str(e["file"]), int(e["bytes"]), str(e["sha256"])) for e in result.inputs)
        parts.append(
            data_table(
                Table(("file", "bytes", "sha256"), rows), "table-inputs", "Files that were read"
            )
        )
    return "\n".join(part for part in parts if part)
