# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a study: claims, figures, tables, methods, how to reproduce them.

A `StudyResult` and the command line come in; `StudyResult.report` writes the page and
`StudyResult.save`, which is ``calipers study -o DIR``, the folder. Files are staged and moved at
the end, so that a failure leaves no incomplete folder.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calipers.kernels.route import native
from calipers.results.files import check_folder, environment, staged_folder, write_atomically
from calipers.show.figures import Figure, Overlay
from calipers.show.html import (
    LONGEST_CELL,
    answer_page,
    details,
    paragraph,
    table_block,
    text,
)
from calipers.show.svg.draw import svg
from calipers.show.table import Cell, Table
from calipers.studies.framework import BASES, VERDICTS, Claim, StudyFigure, StudyResult
from calipers.studies.open_choices import choice_text

# Width by the number of panels in a row, in pixels; the text size is the same in all of them.
PANEL_WIDTHS = {1: 560, 2: 480, 3: 380}
NARROW = 290  # more than three panels in a row
MOST_ROWS = 250  # of a table on the page; the CSV files have all rows
MARKS = dict(zip(VERDICTS, ("held", "in-part", "not", "untested")))
QUICK = (
    "This is a quick run with coarse grids and little data. It shows how the study works and is "
    "not for citing."
)

PAGE, DOCUMENT, CLAIMS = "study.html", "study.json", "claims.csv"
# Only files of these names are replaced or removed; whatever else is in the folder stays.
OURS = re.compile(r"(study\.(html|json)|claims\.csv|(figure|table)-[a-z0-9-]+\.(svg|pdf|csv))")
SVG_WIDTH = 560
PDF_WIDTH = 85.0  # mm: a column of most journals
Step = Callable[[str], None]


def write_study(
    result: StudyResult,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    step: Step = lambda name: None,
) -> Path:
    """Write a study into a new or empty folder and return its page.

    Parameters
    ----------
    force
        Allow a folder that is not empty. Files of an earlier study are replaced or removed, other
        files stay.
    command
        The command line, shown on the page and stored in the document.
    step
        Called with the name of the file being written, and with "" at the end.

    Notes
    -----
    PDF needs matplotlib (extra ``mpl``); without it, and for quick runs, figures are SVG only.
    """
    inputs = tuple(str(entry["file"]) for entry in result.inputs)
    check_folder(folder, force=force, inputs=inputs)
    earlier_files: list[str] = []
    if folder.is_dir():
        names = [file.name for file in folder.iterdir()]
        earlier_files = list(filter(OURS.fullmatch, names))
    with staged_folder(folder, owned=earlier_files, force=force) as stage:
        _write_figures(result, stage, step)
        for table in result.appendix:
            write_atomically(stage / f"{table.name}.csv", table.to_csv())
        write_atomically(stage / CLAIMS, claims_table(result).to_csv())
        step("page")
        write_study_page(result, stage / PAGE, command=command)
        names = sorted([DOCUMENT, *(file.name for file in stage.iterdir())])
        write_atomically(stage / DOCUMENT, _document(result, command, names))
    step("")
    return folder / PAGE


def write_study_page(result: StudyResult, path: Path, *, command: Sequence[str] = ()) -> Path:
    """Write the page alone, whole or not at all."""
    write_atomically(path, study_page(result, command))
    return path


def study_page(result: StudyResult, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    parts = [
        ("figures", "Figures", "\n".join(map(_figure, result.figures))),
        ("tables", "Tables", _tables(result)),
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
    """Return the section of claims: summary, notes, and one table row per claim."""
    headings = ("What the paper says", "Verdict", "What the numbers say")
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    rows = "\n".join(map(_claim, result.claims))
    caption = "Every claim of the paper about its experiments, judged by the numbers of this run"
    table = (
        f'<table class="claims"><caption>{caption}</caption><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table>"
    )
    notes = [paragraph(warning, "note") for warning in result.warnings]
    if result.rules:
        notes.append(paragraph(_rules_text(result), "note"))
    if result.quick:
        notes.insert(0, paragraph(QUICK, "note"))
    heading = '<h2 id="content-title">The claims</h2>'
    return (
        f'<section id="content" aria-labelledby="content-title" tabindex="-1">{heading}'
        f'<p class="verdict">{text(result.summary())}</p>{"".join(notes)}'
        f"{_counts(result)}{table}</section>"
    )


def _rules_text(result: StudyResult) -> str:
    """Return which files hold the rules, with the beginning of their hashes."""
    files = [f"{entry['file']} (SHA-256 {str(entry['sha256'])[:12]})" for entry in result.rules]
    return f"Claims and the rules that decide on them: {', '.join(files)}."


def _counts(result: StudyResult) -> str:
    """Return the table of verdicts by what they rest on."""
    rows: list[tuple[Cell, ...]] = []
    for basis, words in BASES.items():
        counts = result.counts(basis)
        if sum(counts[verdict] for verdict in VERDICTS[:3]):
            rows.append((words, *(counts[verdict] for verdict in VERDICTS[:3])))
    columns = ("what verdicts rest on", *VERDICTS[:3])
    # One kind alone is what the summary says.
    if len(rows) < 2:
        return ""
    table = Table(columns, tuple(rows), title="Verdicts, counted apart", name="table-verdicts")
    return table_block(table)


def _claim(claim: Claim) -> str:
    note = f"<small>{text(claim.note)}</small>" if claim.note else ""
    if claim.rule:
        note += f'<small class="rule">Rule: {text(claim.rule)}</small>'
    verdict = text(claim.verdict)
    if claim.share is not None:
        verdict += f"<small>{text(claim.share.text)}</small>"
    if claim.basis != "run" and claim.is_tested:
        verdict += f"<small>{text(BASES[claim.basis])}</small>"
    return (
        f'<tr class="{MARKS[claim.verdict]}" id="claim-{claim.name}">'
        f'<th scope="row" class="claim">{text(claim.text)}<small>{text(claim.where)}</small></th>'
        f'<td class="said">{verdict}</td>'
        f'<td><span class="evidence">{text(claim.evidence)}</span>{note}</td></tr>'
    )


def _figure(figure: StudyFigure) -> str:
    """Return one figure: its finding, panels, caption, and its numbers in a closed table."""
    rows = "\n".join(_row(row, figure.name) for row in figure.layout())
    heading = text(f"{figure.heading}. {figure.title}")
    title = f"Numbers of {figure.heading}"
    table = replace(figure.table(), title=title, name=f"{figure.name}-numbers")
    numbers = table_block(table, MOST_ROWS, all_in=f"{figure.name}.csv")
    return (
        f'<div class="study-figure" id="{figure.name}">\n<h3>{heading}</h3>\n'
        f"{rows}\n{paragraph(figure.caption, 'note')}\n{details(title, numbers)}\n</div>"
    )


def _row(panels: Sequence[tuple[str, Figure]], figure_name: str) -> str:
    """Return the panels of one row; a narrow window breaks the row."""
    width = PANEL_WIDTHS.get(len(panels), NARROW)
    parts = []
    for name, panel in panels:
        parts.append(_panel(name, panel, width, is_single=name == figure_name))
    inner = "\n".join(parts)
    return f'<div class="panels-{min(len(panels), 4)}">{inner}</div>'


def _panel(name: str, panel: Figure, width: int, *, is_single: bool) -> str:
    inner = svg(panel, width=width, name=name)
    if isinstance(panel, Overlay):
        inner = f'<div class="shot">{inner}</div>'
    note = paragraph(panel.note, "note") if panel.note.strip() else ""
    # A single panel has the name of its figure, whose element already carries that id.
    mark = "" if is_single else f' id="{name}"'
    caption = f"<figcaption>{text(panel.title)}</figcaption>"
    return f'<figure class="plot"{mark}>{caption}\n{inner}\n{note}</figure>'


def _tables(result: StudyResult) -> str:
    blocks = []
    for table in result.appendix:
        blocks.append(table_block(table, MOST_ROWS, all_in=f"{table.name}.csv"))
    return "\n".join(blocks)


def _methods(result: StudyResult) -> str:
    paragraphs = list(map(paragraph, result.methods))
    citations = "".join(
        f"<li>{text(entry)}</li>" for entry in (result.citation, *result.references)
    )
    markup = [*paragraphs, f'<ol class="citations">{citations}</ol>', _settings(result.settings)]
    return "\n".join(markup)


def _settings(settings: Mapping[str, Any]) -> str:
    """Return all settings, whole: long ones below the table, because its cells are cut."""
    rows: list[tuple[Cell, ...]] = []
    long = []
    for name, words in _setting_texts(settings):
        if len(words) <= LONGEST_CELL and "\n" not in words:
            rows.append((name, words))
        elif "\n" in words:
            long.append(f"{paragraph(f'{name}:', 'note')}<pre>{text(words)}</pre>")
        else:
            long.append(paragraph(f"{name}: {words}", "note"))
    title = "All settings of the run"
    table = Table(("setting", "value"), tuple(rows), title=title, name="table-settings")
    return details("Settings", "\n".join([table_block(table), *long]))


def _setting_texts(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return names and values; those of a group of settings have its name before theirs."""
    entries = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            entries += _setting_texts(value, f"{before}{name}: ")
        else:
            entries.append((f"{before}{name}", _setting_text(value)))
    return entries


def _setting_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_setting_text, value))
    return choice_text(value)


def _reproduce(result: StudyResult, command: Sequence[str]) -> str:
    from calipers import __version__

    facts = {"calipers": __version__, "kernels": "numpy" if native() is None else "native"}
    for name, value in environment().items():
        facts[name] = str(value)
    facts["seed"] = str(result.seed)
    parts = []
    if command:
        parts.append(f"<pre>{text(shlex.join(command))}</pre>")
    parts.append(paragraph("The same seed, data and version give bit-identical numbers."))
    table = Table(("what", "value"), tuple(facts.items()), title="The run", name="table-run")
    parts.append(table_block(table))
    files = (("Rules", "table-rules", result.rules), ("Input files", "table-inputs", result.inputs))
    for title, name, entries in files:
        if entries:
            parts.append(table_block(_files_table(title, name, entries)))
    return "\n".join(parts)


def _files_table(title: str, name: str, entries: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for entry in entries:
        rows.append((str(entry["file"]), int(entry["bytes"]), str(entry["sha256"])))
    return Table(("file", "bytes", "sha256"), tuple(rows), title=title, name=name)


def panels(result: StudyResult) -> dict[str, Callable[[StudyResult], Figure]]:
    """Return every panel of the figures by its name."""
    panels: dict[str, Callable[[StudyResult], Figure]] = {}
    for figure in result.figures:
        for name, panel in figure.parts():
            panels[name] = partial(_panel_of, panel)
    return panels


def _panel_of(panel: Figure, result: StudyResult) -> Figure:
    return panel


def _write_figures(result: StudyResult, stage: Path, step: Step) -> None:
    # A quick run is not for citing, so it needs no print figures.
    pdf = find_spec("matplotlib") is not None and not result.quick
    for figure in result.figures:
        step(figure.heading.lower())
        write_atomically(stage / f"{figure.name}.csv", figure.table().to_csv())
        for name, panel in figure.parts():
            markup = svg(panel, width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"{name}.svg", markup + "\n")
            if pdf:
                from calipers.show.mpl.draw import save

                save(panel, stage / f"{name}.pdf", width_mm=PDF_WIDTH)


def _document(result: StudyResult, command: Sequence[str], names: Sequence[str]) -> str:
    record = {
        "command": list(command),
        "environment": environment(),
        "files": list(names),
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps(result.as_dict() | record, allow_nan=False) + "\n"


def tables(result: StudyResult) -> list[Table]:
    """Return the claims, then the further numbers of the run."""
    return [claims_table(result), *result.appendix]


def claims_table(result: StudyResult) -> Table:
    """Return the claims as a table."""
    columns = ("claim", "text", "where", "verdict", "rests on", "share", "evidence", "note", "rule")
    rows = []
    for claim in result.claims:
        share = "" if claim.share is None else claim.share.text
        head = (claim.name, claim.text, claim.where, claim.verdict, BASES[claim.basis], share)
        rows.append((*head, claim.evidence, claim.note, claim.rule))
    return Table(columns, tuple(rows), title="Claims of the paper", name="claims")
