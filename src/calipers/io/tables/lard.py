# SPDX-License-Identifier: Apache-2.0
"""The format ``lard``: the list of the LARD data set, a row per runway with its four corners.

The format is that of Ducoffe et al. (2023), "LARD - Landing Approach Runway Detection": a table, in
the original separated by semicolons, with the columns ``image``, ``height``, ``width``, ``x_A y_A``
to ``x_D y_D`` in pixels, and facts about the image such as ``airport``, ``runway``, ``scenario`` or
``weather``.

`calipers.io.read` calls `LardReader` for references. A table of boxes is made from the corners and
read as every other one (`references_from`); messages are then brought back to the cells of the
file, and the quadrilaterals become masks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calipers.arrays import F64, Flags
from calipers.data.rules import Finding, Source
from calipers.errors import InputError
from calipers.io.coco.masks import MaskColumns
from calipers.io.reader import ObjectPart, Options, Problem, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.columns import OBJECTS
from calipers.io.tables.delimited import header_names, read_delimited
from calipers.io.tables.objects import references_from
from calipers.io.tables.table import Cells, FileTable, empty, numbers

CLASS = "runway"
# In lower case, as names are compared.
CORNERS = ("x_a", "y_a", "x_b", "y_b", "x_c", "y_c", "x_d", "y_d")
BOX = ("x0", "y0", "x1", "y1")
CLASS_COLUMN = "class"
AT_ONCE = 256  # runways that are drawn together, so that their runs take little memory


@dataclass(frozen=True)
class _Quadrilaterals:
    """The corners of every row, and what is wrong with them."""

    corners: F64  # (n, 4, 2) x, y in the order of the file; NaN where there are none
    vacant: Flags  # (n,) rows without any corner: an image without a runway
    problems: dict[int, Problem]  # by row, the first of each


class LardReader(Reader):
    """The list of runways of LARD.

    Notes
    -----
    The box is ``min x, min y, max x, max y`` of the corners; nothing is added or clipped, so a
    corner more than a pixel outside of its image breaks the rule ``outside``. Without a column of
    classes all objects are of the class ``runway``. A row without corners is an image without a
    runway. Several rows of an image are several runways.

    The corners may come in any order: LARD sorts them by row, which does not follow the outline.
    They are joined in the order of their angles around their mean, which is the outline of every
    convex quadrilateral. Masks are drawn as polygons of COCO are. With ``masks="auto"`` they are
    used if all runways have one; a note says why if not.
    """

    name = "lard"
    preset = "lard"
    roles = ("references",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a header line that names an image and four corners."""
        names = header_names(file.head)
        if not set(CORNERS) <= names or not names & set(OBJECTS["image"].aliases):
            return None
        reason = "its header has the four corners of the LARD list of runways"
        return Sniffed(self.name, "references", reason)

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read boxes around the corners, and the quadrilaterals as masks."""
        table = read_delimited(file)
        quadrilaterals = _quadrilaterals(table)
        # The options of a call serve both files; those for the predictions would be refused here.
        options = _of_this_file(options, table)
        references = references_from(_box_table(table, quadrilaterals, options), options)
        part = _with_locations(references.part, table, quadrilaterals.problems)
        lines = part.delivery.place
        assert lines is not None, "a table knows the line of every row"
        corners = quadrilaterals.corners[np.searchsorted(table.lines, lines)]
        if options.masks != "ignore" and len(corners):
            part = _with_masks(
                part, MaskColumns("required", references.images.size, file.size), corners, options
            )
        part = replace(part, notes=[*part.notes, *_notes(quadrilaterals)])
        return replace(references, classes=references.classes or (CLASS,), part=part, format="lard")


def _of_this_file(options: Options, table: FileTable) -> Options:
    """Return the options without those for the predictions: box format and columns not here."""
    columns = {}
    for name, column in options.columns.items():
        if name == "image" or column in table.names:
            columns[name] = column
    return replace(options, box_format=None, columns=columns)


def _quadrilaterals(table: FileTable) -> _Quadrilaterals:
    lower = {name.lower(): name for name in table.names}
    missing = [name for name in CORNERS if name not in lower]
    if missing:
        raise InputError(
            "the columns x_A y_A x_B y_B x_C y_C x_D y_D of LARD",
            rule="missing-column",
            file=table.file,
            location="1",
            value=list(table.names),
            hint=f"{len(missing)} are not there; for a table of boxes pass --format csv",
        )
    names = [lower[name] for name in CORNERS]
    values = np.full((len(table), len(names)), np.nan)
    holes = np.zeros((len(table), len(names)), np.bool_)
    problems: dict[int, Problem] = {}
    for k, name in enumerate(names):
        cells = table.columns[name]
        holes[:, k] = empty(cells)
        values[:, k], bad = numbers(table, name)
        for row in np.flatnonzero(~np.isfinite(values[:, k]) & ~holes[:, k]).tolist():
            if row not in bad:
                bad[row] = table.problem(row, name, "non-finite", "a finite number", cells[row])
        # The first problem of a row stays: columns to the left come first.
        problems = {**bad, **problems}
    # All eight cells empty is a statement (no runway); a part of them is a mistake.
    vacant = np.asarray(holes.all(axis=1))
    for row in np.flatnonzero(holes.any(axis=1) & ~vacant).tolist():
        if row not in problems:
            name = names[int(holes[row].argmax())]
            expected = "four corners of two numbers"
            hint = "an image without a runway has no corner at all"
            problems[row] = table.problem(row, name, "box-shape", expected, "", hint)
    return _Quadrilaterals(values.reshape(-1, 4, 2), vacant, problems)


def _box_table(table: FileTable, quadrilaterals: _Quadrilaterals, options: Options) -> FileTable:
    """Return the table with boxes in place of the corners, and a class for every runway.

    A broken row keeps its image and loses its box: it becomes a problem, which `_with_locations`
    replaces by the real one.
    """
    columns: dict[str, Cells] = {}
    for name, cells in table.columns.items():
        if name.lower() not in CORNERS:
            columns[name] = cells
    sound = ~quadrilaterals.vacant
    sound[list(quadrilaterals.problems)] = False
    corners = quadrilaterals.corners
    boxes = np.hstack([corners.min(axis=1), corners.max(axis=1)])
    for name, values in zip(BOX, boxes.T):
        # As text with all digits, because the cells of delimited text are text; reading gives them
        # back.
        texts = list(map(repr, values.tolist()))
        for row in np.flatnonzero(~sound).tolist():
            texts[row] = ""
        columns[name] = texts
    names = {name.lower() for name in columns}
    if "class" not in options.columns and not names & set(OBJECTS["class"].aliases):
        classes = np.where(quadrilaterals.vacant, "", CLASS)
        columns[CLASS_COLUMN] = classes.tolist()
    return replace(table, columns=columns)


def _with_locations(part: ObjectPart, table: FileTable, problems: dict[int, Problem]) -> ObjectPart:
    """Return the part with messages that name cells of the file, not of the table that was made
    from it.
    """
    first = next(name for name in table.names if name.lower() == CORNERS[0])
    lines = {int(table.lines[row]): problem for row, problem in problems.items()}
    all_problems: list[Problem] = []
    for problem in part.problems:
        line = int(problem.location.split(":")[0])
        if line not in lines:
            all_problems.append(problem)
        # A broken row makes a problem for each of its empty cells; it is named once.
        elif lines[line] not in all_problems:
            all_problems.append(lines[line])

    def locate(line: int, field: str) -> str:
        return table.locate(line, first if field in ("bbox", "segmentation") else field)

    return replace(part, problems=all_problems, source=Source(table.file, locate, table.text))


def _with_masks(
    part: ObjectPart, drawing: MaskColumns, corners: F64, options: Options
) -> ObjectPart:
    """Return the part with the quadrilaterals as masks, or with the reasons why not."""
    outlines = [[ring] for ring in outlines_of(corners).reshape(len(corners), -1).tolist()]
    image = np.asarray(part.delivery.image, np.int64)
    # Whether all can be drawn is known only at the end, so the masks are made in pieces before.
    for start in range(0, len(corners), AT_ONCE):
        piece = slice(start, start + AT_ONCE)
        drawing.add(outlines[piece], image[piece], np.zeros(len(corners[piece]), np.bool_))
    findings = drawing.findings()
    if not findings:
        return replace(part, delivery=replace(part.delivery, masks=drawing.masks()))
    if options.masks == "required":
        return replace(part, findings=[*part.findings, *findings])
    return replace(part, notes=[*part.notes, _undrawn_note(findings, len(corners))])


def outlines_of(corners: F64) -> F64:
    """Return the (n, 4, 2) corners in the order of their angles around their mean.

    Corners that coincide with the mean come in the order of the file.
    """
    # Angles around the mean follow the outline of a convex shape; rows of the file do not.
    away = corners - corners.mean(axis=1, keepdims=True)
    order = np.argsort(np.arctan2(away[..., 1], away[..., 0]), axis=1, kind="stable")
    return np.take_along_axis(corners, order[..., None], axis=1)


def _undrawn_note(findings: list[Finding], n: int) -> str:
    rows = np.unique(np.concatenate([finding.rows for finding in findings]))
    rules = ", ".join(dict.fromkeys(finding.rule for finding in findings))
    return f"{len(rows)} of {n} quadrilaterals cannot be drawn ({rules}), so only boxes are used"


def _notes(quadrilaterals: _Quadrilaterals) -> list[str]:
    n = int(quadrilaterals.vacant.sum())
    return [f"{n} rows have no corners: images without a runway"] if n else []
