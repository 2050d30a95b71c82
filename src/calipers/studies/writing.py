# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a study: page, JSON document, figures and tables.

Called by ``calipers study -o DIR``. Files are staged and moved at the end, so that a failure leaves
no incomplete folder.
"""

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
    folder = check_folder(folder, force=force, inputs=inputs)
    earlier_files: list[str] = []
    if folder.is_dir():
        names = [file.name for file in folder.iterdir()]
        earlier_files = list(filter(OURS.fullmatch, names))
    with staged_folder(folder, owned=earlier_files) as stage:
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
    # A quick run is not for citing, so it needs no print figures.
    pdf = find_spec("matplotlib") is not None and not result.quick
    for figure in result.figures:
        step(figure.heading.lower())
        write_atomically(stage / f"{figure.name}.csv", as_csv(figure.table()))
        for name, panel in figure.parts():
            markup = svg(panel, width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"{name}.svg", markup + "\n")
            if pdf:
                from calipers.plots.mpl import save

                save(panel, stage / f"{name}.pdf", width_mm=PDF_WIDTH)


def _document(result: StudyResult, command: Sequence[str], names: Sequence[str]) -> str:
    record = {
        "command": list(command),
        "environment": environment(),
        "files": list(names),
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps(result.as_dict() | record, allow_nan=False) + "\n"


def claims_table(result: StudyResult) -> Table:
    """Return the claims as a table."""
    columns = ("claim", "text", "where", "verdict", "evidence", "note")
    rows = tuple((c.name, c.text, c.where, c.verdict, c.evidence, c.note) for c in result.claims)
    return Table(columns, rows)


def as_csv(table: Table) -> str:
    """Return a table as delimited text."""
    # zip(*rows) gives nothing for a table without rows, whose header must still be written.
    by_column = list(zip(*table.rows)) or [()] * len(table.columns)
    return delimited(dict(zip(table.columns, by_column)))
