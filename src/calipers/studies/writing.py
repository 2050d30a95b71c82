# SPDX-License-Identifier: Apache-2.0
"""The folder of a study: page, document, figures and tables, all of them or none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from calipers.plots.figures import Table
from calipers.plots.svg import svg
from calipers.results.delimited import delimited
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.results.provenance import environment
from calipers.studies.framework import StudyResult
from calipers.studies.page import study_page

PAGE, DOCUMENT, CLAIMS = "study.html", "study.json", "claims.csv"
OURS = re.compile(r"(study\.(html|json)|claims\.csv|(figure|table)-[a-z0-9-]+\.(svg|pdf|csv))")
SVG_WIDTH = 560
PDF_WIDTH = 85.0  # mm: a column of most journals
Step = Callable[[str], None]


def write_study(
    result: StudyResult,
    folder: str | Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    step: Step = lambda name: None,
) -> list[Path]:
    """Write a study into a new or empty folder and return the files; the page is the first.

    Parameters
    ----------
    force
        Allow a folder that holds something; files of an earlier study in it are replaced or
        removed, others stay.
    command
        What was called, for the page and the document.
    step
        Called with what is being written; with "" at the end.

    Notes
    -----
    PDF needs matplotlib (extra ``mpl``); without it, and for quick runs, figures are SVG only.
    """
    folder = check_folder(
        folder, force=force, inputs=tuple(str(entry["file"]) for entry in result.inputs)
    )
    old = (
        [file.name for file in folder.iterdir() if OURS.fullmatch(file.name)]
        if folder.is_dir()
        else []
    )
    with staged_folder(folder, owned=old) as stage:
        _write_figures(result, stage, step)
        for table in result.tables:
            write_atomically(stage / f"{table.name}.csv", as_csv(table.table))
        write_atomically(stage / CLAIMS, as_csv(claims_table(result)))
        step("page")
        write_atomically(stage / PAGE, study_page(result, command))
        names = sorted([DOCUMENT, *(file.name for file in stage.iterdir())])
        write_atomically(stage / DOCUMENT, _document(result, command, names))
    step("")
    return [folder / name for name in sorted(names, key=lambda name: name != PAGE)]


def _write_figures(result: StudyResult, stage: Path, step: Step) -> None:
    pdf = find_spec("matplotlib") is not None and not result.quick
    for figure in result.figures:
        step(figure.heading.lower())
        write_atomically(stage / f"{figure.name}.csv", as_csv(figure.table()))
        for name, panel in figure.parts():
            write_atomically(
                stage / f"{name}.svg",
                svg(panel, width=SVG_WIDTH, name=name, standalone=True) + "\n",
            )
            if pdf:
                from calipers.plots.mpl import save

                save(panel, stage / f"{name}.pdf", width_mm=PDF_WIDTH)


def _document(result: StudyResult, command: Sequence[str], names: Sequence[str]) -> str:
    made = {
        "command": list(command),
        "environment": environment(),
        "files": list(names),
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps(result.as_dict() | made, allow_nan=False) + "\n"


def claims_table(result: StudyResult) -> Table:
    """Return the claims as a table."""
    columns = ("claim", "text", "where", "verdict", "evidence", "note")
    rows = tuple((c.name, c.text, c.where, c.verdict, c.evidence, c.note) for c in result.claims)
    return Table(columns, rows)


def as_csv(table: Table) -> str:
    """Return a table as delimited text."""
    by_column = list(zip(*table.rows)) or [()] * len(table.columns)
    return delimited(dict(zip(table.columns, by_column)))
