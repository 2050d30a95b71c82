# SPDX-License-Identifier: Apache-2.0
"""The format ``luna16``: findings and candidates of the LUNA16 challenge, in world millimetres.

Findings have the columns ``seriesuid``, ``coordX``, ``coordY``, ``coordZ`` and ``diameter_mm``,
candidates a ``probability`` instead of the diameter (Setio et al. 2017, "Validation, comparison,
and combination of algorithms for automatic detection of pulmonary nodules in computed tomography
images: the LUNA16 challenge"). References are one such table, or the folder of the evaluation with
``annotations.csv``, ``annotations_excluded.csv`` (irrelevant findings) and ``seriesuids.csv`` (all
scans, of which a third has no nodule).

`calipers.io.read` calls `Luna16Reader`. A finding becomes a cube around its centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from calipers.data.rules import Role
from calipers.errors import InputError
from calipers.io.lists.listing import DerivedTable, ListReader, column_in, derived, names_in
from calipers.io.reader import Options, Problem, ReferenceFile, Sniffed
from calipers.io.source import InputFile, InputFolder
from calipers.io.tables.delimited import header_names, read_delimited, rows_of
from calipers.io.tables.table import FileTable, texts

CLASS = "nodule"
ANNOTATIONS, EXCLUDED, SCANS = "annotations.csv", "annotations_excluded.csv", "seriesuids.csv"
SCAN = "seriesuid"
CENTRE = ("coordx", "coordy", "coordz")
DIAMETER, PROBABILITY = "diameter_mm", "probability"
# The challenge gives irrelevant findings of unknown size, which have -1, a diameter of 10 mm.
UNKNOWN_DIAMETER = "10"
COLUMNS = (SCAN, "coordX", "coordY", "coordZ", DIAMETER, "class", "ignore")
POINT = "0"  # the diameter of a candidate


class Luna16Reader(ListReader):
    """Findings and candidates of LUNA16.

    Notes
    -----
    Boxes are cubes of the diameter in world millimetres, so a pixel of these images is 1 mm, and
    their size is not known. A candidate without ``diameter_mm`` is a point: criteria of distance
    apply, overlaps do not. Irrelevant findings are ignored references. A scan that
    ``seriesuids.csv`` does not list is not evaluated: its findings are refused.
    """

    name = "luna16"
    preset = "luna16"
    inputs = ("file", "folder")
    companions = (EXCLUDED, SCANS)
    box_format = "cxcywh"
    columns: ClassVar[Mapping[str, str]] = {
        "image": SCAN,
        "class": "class",
        "cx": "coordx",
        "cy": "coordy",
        "cz": "coordz",
        "w": DIAMETER,
        "h": DIAMETER,
        "d": DIAMETER,
        "score": PROBABILITY,
        "spacing": "spacing",
        "ignore": "ignore",
    }

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header, or the files of the folder."""
        if isinstance(file, InputFolder):
            if ANNOTATIONS not in file.files:
                return None
            if not {SCAN, *CENTRE} <= header_names(file.open(ANNOTATIONS).head):
                return None
            return Sniffed(self.name, "references", f"it has the {ANNOTATIONS} of LUNA16")
        names = header_names(file.head)
        if not {SCAN, *CENTRE} <= names:
            return None
        role = "predictions" if PROBABILITY in names else "references"
        return Sniffed(self.name, role, "its header is that of a list of LUNA16")

    def table(self, file: InputFile) -> FileTable:
        """Read one table, or those of a folder."""
        if isinstance(file, InputFolder):
            return _folder_table(file, self.name)
        return super().table(file)

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Give every finding its class, and candidates a diameter."""
        cells = [texts(table, column_in(table, name)) for name in (SCAN, *CENTRE)]
        names = names_in(table)
        columns: dict[str, list[str]] = {"spacing": ["1"] * len(table)}
        is_candidate = role == "predictions" or PROBABILITY in names
        if is_candidate and DIAMETER not in names:
            columns[DIAMETER] = [POINT] * len(table)
        else:
            cells.append(texts(table, column_in(table, DIAMETER)))
        # The class of a list of candidates is 0 or 1: whether it is a nodule, not what it claims.
        if is_candidate or "class" not in names:
            column = names.get("class", "class")
            columns[column] = [CLASS if any(row) else "" for row in zip(*cells[1:])]
        return derived(table, columns)

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read the findings of one table, or of a folder."""
        references = super().references(file, options)
        if isinstance(file, InputFolder) and SCANS in file.files:
            return references
        note = f"scans without a finding are not known: give the folder that contains {SCANS}"
        part = replace(references.part, notes=[*references.part.notes, note])
        return replace(references, part=part, omits_empty=True)


@dataclass
class _Rows:
    """Rows of several files, each with its place."""

    columns: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    places: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, place: str, cells: Sequence[str]) -> None:
        """Enter a row; cells beyond those that it has are empty."""
        self.places.append(place)
        for k, column in enumerate(self.columns.values()):
            column.append(cells[k] if k < len(cells) else "")

    def table(self, folder: InputFolder, format: str) -> DerivedTable:
        """Return all rows as one table."""
        return DerivedTable(
            folder.file,
            format,
            dict(self.columns),
            np.arange(len(self.places)),
            by_line=True,
            problems=self.problems,
            notes=self.notes,
            source=folder,
            places=self.places,
        )


def _folder_table(folder: InputFolder, format: str) -> DerivedTable:
    """Return the scans, the findings and the irrelevant findings of a folder as one table."""
    if ANNOTATIONS not in folder.files:
        raise InputError(
            f"a folder with {ANNOTATIONS}", rule="not-found", file=folder.file, value="none"
        )
    rows = _Rows()
    scans: set[str] | None = None
    if SCANS in folder.files:
        scans = _add_scans(rows, folder.open(SCANS))
    for name in (ANNOTATIONS, EXCLUDED):
        if name in folder.files:
            _add_findings(
                rows, replace(read_delimited(folder.open(name)), format=format), name, scans
            )
    if EXCLUDED not in folder.files:
        rows.notes.append(f"there is no {EXCLUDED}: every other finding counts as a false alarm")
    return rows.table(folder, format)


def _add_scans(rows: _Rows, file: InputFile) -> set[str]:
    """Enter a row for every scan of a list without header."""
    scans = set[str]()
    for line, cells in rows_of(file, ","):
        scan = cells[0].strip()
        if len(cells) > 1 or not scan:
            raise InputError(
                "one scan per line",
                rule="ragged",
                file=file.file,
                location=f"{line}:1",
                value=",".join(cells),
            )
        if scan.lower() == SCAN:
            continue
        if scan in scans:
            raise InputError(
                "every scan once",
                rule="dup-image",
                file=file.file,
                location=f"{line}:1",
                value=scan,
            )
        scans.add(scan)
        rows.add(f"{SCANS}:{line}", [scan])
    return scans


def _add_findings(rows: _Rows, table: FileTable, name: str, scans: set[str] | None) -> None:
    """Enter the findings of one file; those of scans that are not listed are problems."""
    cells = [texts(table, column_in(table, column)) for column in (SCAN, *CENTRE, DIAMETER)]
    for problem in table.problems:
        place = f"{name}:{problem.location}"
        rows.problems.append(replace(problem, location=place, origin=place))
    rows.notes += [note for note in table.notes if note not in rows.notes]
    is_excluded = name == EXCLUDED
    for line, row in zip(table.lines.tolist(), zip(*cells)):
        place = f"{name}:{line}"
        finding = [cell.strip() for cell in row]
        if scans is not None and finding[0] not in scans:
            expected = f"a scan of {SCANS}"
            rows.problems.append(
                Problem(
                    "unknown-image",
                    f"{place}:1",
                    SCAN,
                    expected,
                    finding[0],
                    record=",".join(row),
                    origin=place,
                )
            )
            continue
        if is_excluded and finding[4] in ("-1", "-1.0"):
            finding[4] = UNKNOWN_DIAMETER
        label = CLASS if any(finding[1:]) else ""
        flag = str(int(is_excluded)) if label else ""
        rows.add(place, [*finding, label, flag])
