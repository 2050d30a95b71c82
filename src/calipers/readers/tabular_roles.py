# SPDX-License-Identifier: Apache-2.0
"""Tables of objects, one row each, as references or predictions.

A row without class and box declares an image without objects; a row with nothing but a class
declares a class. Further columns of references describe the image if they are constant on every
image, else the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean
from calipers.readers.layout import (
    IMAGE_LEVEL,
    ONLY_PREDICTIONS,
    ONLY_REFERENCES,
    SIZES,
    SPACINGS,
    Layout,
    asked_of,
    find_layout,
)
from calipers.readers.parts import (
    GROUP_UNIT,
    ImageList,
    Key,
    Known,
    ObjectPart,
    Options,
    Problem,
    ReferenceFile,
    text_column,
)
from calipers.readers.tabular import Table, codes, empty, flags, numbers, texts
from calipers.tables.cohort import UNIT
from calipers.tables.delivery import Delivery, Finding, Source
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
MANY_NAMES, LONG_HINT = 1000, 300


@dataclass(frozen=True)
class _Rows:
    """The rows of a table by kind, and the numbers of those that hold an object."""

    layout: Layout
    image: list[str]
    label: list[str]
    is_object: Flags
    is_class: Flags  # declares a class
    sound: Flags  # objects without problem
    boxes: F64
    problems: dict[int, list[Problem]]


def references_from(table: Table, options: Options) -> ReferenceFile:
    """Read a table as references; images in order of first appearance, classes declared or
    alphabetical.
    """
    options = replace(options, columns=asked_of(table.names, options.columns, ONLY_PREDICTIONS))
    rows = _rows(table, options)
    if "score" in rows.layout.found and not empty(table.columns[rows.layout.found["score"]]).all():
        raise InputError(
            "references, which have no scores",
            rule="wrong-role",
            file=table.file,
            field=rows.layout.found["score"],
            value=list(table.names),
            hint="are references and predictions swapped?",
        )
    listed = np.flatnonzero(
        ~rows.is_class & np.array([bool(name) for name in rows.image], np.bool_)
    )
    image, ids = codes([rows.image[row] for row in listed.tolist()])
    if not ids:
        raise InputError(
            "at least one image", rule="no-images", file=table.file, value="only a header"
        )
    classes = _classes(rows)
    images, facts = _image_columns(table, rows.layout, listed, image, ids)
    place_of: dict[Key, int] = {name: k for k, name in enumerate(ids)}
    label_of: dict[Key, int] = {name: k for k, name in enumerate(classes)}
    flagged = _details(table, rows)
    kept = np.flatnonzero(rows.sound)
    part = _part(table, rows, kept, place_of, label_of)
    details: dict[str, Any] = {name: column[kept] for name, column in flagged.items()}
    facts = {name: column[kept] for name, column in facts.items()}
    notes = [*part.notes, *images.notes]
    part = replace(part, delivery=replace(part.delivery, facts=facts, **details), notes=notes)
    return ReferenceFile(images, classes, None, part, table.format)


def predictions_from(table: Table, known: Known, options: Options) -> dict[str, ObjectPart]:
    """Read a table as predictions: one part per value of its model column, or one part named
    ``""``.
    """
    options = replace(options, columns=asked_of(table.names, options.columns, ONLY_REFERENCES))
    layout = find_layout(table.names, options.columns, options.box_format, table.file)
    if "score" not in layout.found:
        raise InputError(
            "a column 'score'",
            rule="score-missing",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="if it has another name: columns={'score': ...} (--columns score=NAME)",
        )
    if layout.dimensions != known.dimensions:
        raise InputError(
            f"{known.dimensions}D boxes, as in the references",
            rule="box-shape",
            file=table.file,
            value=layout.box,
        )
    if "model" not in layout.found or not len(table):
        return {"": _one_model(table, known, options)}
    model, names = codes(texts(table, layout.found["model"]))
    parts = {}
    for k, name in enumerate(names):
        share = table.rows(np.flatnonzero(model == k))
        # Rows that do not fit the header belong to no known model: the first one accounts for them.
        parts[name] = _one_model(share if k == 0 else replace(share, problems=[]), known, options)
    return parts


def _one_model(table: Table, known: Known, options: Options) -> ObjectPart:
    rows = _rows(table, options)
    column = rows.layout.found["score"]
    score, bad = numbers(table, column, rows.is_object)
    missing = np.flatnonzero(rows.is_object & empty(table.columns[column]))
    for row in missing.tolist():
        bad[row] = table.problem(row, column, "score-missing", "a score")
    _mark(rows, bad)
    kept = np.flatnonzero(rows.sound)
    by_name = rows.layout.found["image"].lower() in ("file_name", "filename") and bool(
        known.file_names
    )
    labels: dict[Key, int] = {name: k for k, name in enumerate(known.classes)}
    part = _part(table, rows, kept, known.file_names if by_name else known.images, labels)
    facts = {name: text_column(_taken(table, name, kept)) for name in rows.layout.others}
    facts = {name: column for name, column in facts.items() if len(column)}
    return replace(part, delivery=replace(part.delivery, score=score[kept], facts=facts))


def _rows(table: Table, options: Options) -> _Rows:
    layout = find_layout(table.names, options.columns, options.box_format, table.file)
    image, label = texts(table, layout.found["image"]), texts(table, layout.found["class"])
    vacant = np.stack([empty(table.columns[name]) for name in layout.box]).reshape(
        len(layout.box), len(table)
    )
    no_box, no_image = np.asarray(vacant.all(axis=0)), empty(image)
    no_class = empty(label)
    is_class = no_image & no_box & ~no_class
    is_object = ~is_class & ~(no_class & no_box)
    problems: dict[int, list[Problem]] = {}

    def note(row: int, column: str, rule: str, expected: str, hint: str = "") -> None:
        problems.setdefault(row, []).append(table.problem(row, column, rule, expected, None, hint))

    for row in np.flatnonzero(no_image & is_object).tolist():
        note(row, layout.found["image"], "missing-id", "an image")
    for row in np.flatnonzero(no_class & is_object).tolist():
        note(row, layout.found["class"], "class-missing", "a class")
    for row in np.flatnonzero(vacant.any(axis=0) & is_object).tolist():
        column = layout.box[int(vacant[:, row].argmax())]
        hint = "an image without objects is a row with neither class nor box" if no_box[row] else ""
        note(row, column, "box-shape", f"{len(layout.box)} numbers", hint)
    boxes = np.empty((len(table), len(layout.box)))
    for k, name in enumerate(layout.box):
        boxes[:, k], bad = numbers(table, name, is_object)
        for row, problem in bad.items():
            problems.setdefault(row, []).append(problem)
    sound = is_object.copy()
    sound[list(problems)] = False
    return _Rows(layout, image, label, is_object, is_class, sound, boxes, problems)


def _part(
    table: Table, rows: _Rows, kept: I64, images: Mapping[Key, int], labels: Mapping[Key, int]
) -> ObjectPart:
    chosen = kept.tolist()
    image = np.array([images.get(rows.image[row], -1) for row in chosen], np.int64)
    label = np.array([labels.get(rows.label[row], -1) for row in chosen], np.int64)
    names = {"bbox": rows.layout.box[0], **rows.layout.found}
    delivery = Delivery(image, label, rows.boxes[kept], rows.layout.box_format, table.lines[kept])
    source = Source(
        table.file, lambda line, field: table.locate(line, names.get(field, field)), table.text
    )
    problems = [
        *table.problems,
        *(problem for row in sorted(rows.problems) for problem in rows.problems[row]),
    ]
    findings = [
        *_unknown(image, [rows.image[row] for row in chosen], "image", "unknown-image", images),
        *_unknown(label, [rows.label[row] for row in chosen], "class", "unknown-category", labels),
    ]
    dropped = len(table.problems) + len(rows.problems)
    return ObjectPart(delivery, source, findings, problems, list(table.notes), dropped)


def _unknown(
    code: I64, names: list[str], field: str, rule: str, known: Mapping[Key, int]
) -> list[Finding]:
    bad = np.flatnonzero(code < 0)
    if not len(bad):
        return []
    values = [names[row] for row in bad.tolist()]
    hint = did_you_mean(values[0], list(map(str, known))[:MANY_NAMES])
    if len(hint) > LONG_HINT:
        hint = f"{len(known)} are known, none of them is like it"
    thing = "an image" if field == "image" else "a class"
    return [Finding(rule, field, f"{thing} of the references", bad, values, hint)]


def _classes(rows: _Rows) -> tuple[str, ...]:
    declared = [name for name, is_class in zip(rows.label, rows.is_class.tolist()) if is_class]
    used = {rows.label[row] for row in np.flatnonzero(rows.sound).tolist()}
    return tuple(dict.fromkeys([*declared, *sorted(used)]))


def _taken(table: Table, name: str, rows: I64) -> list[object]:
    cells = table.columns[name]
    return (
        [cells[row] for row in rows.tolist()]
        if isinstance(cells, list)
        else list(cells[rows].tolist())
    )


def _details(table: Table, rows: _Rows) -> dict[str, Column]:
    """Return area and flags of references; rows in which one is broken are no longer sound."""
    found = rows.layout.found
    details: dict[str, Column] = {}
    bad: dict[int, Problem] = {}
    if "area" in found:
        details["area"], bad = numbers(table, found["area"], rows.is_object)
    for name in ("ignore", "crowd"):
        if name in found:
            details[name], wrong = flags(table, found[name], f"{name}-flag")
            bad |= {
                row: problem
                for row, problem in wrong.items()
                if rows.is_object[row] and row not in bad
            }
    _mark(rows, bad)
    return details


def _mark(rows: _Rows, bad: Mapping[int, Problem]) -> None:
    for row, problem in bad.items():
        rows.problems.setdefault(row, []).append(problem)
        rows.sound[row] = False


def _refuse(table: Table, bad: Mapping[int, Problem]) -> None:
    for problem in bad.values():
        raise problem.as_error(table.file)


def _image_columns(
    table: Table, layout: Layout, listed: I64, image: I64, ids: list[str]
) -> tuple[ImageList, dict[str, Column]]:
    """Return the images with every column that is constant on them, and the other columns as object
    facts.
    """
    first = np.full(len(ids), len(table), np.int64)
    np.minimum.at(first, image, listed)
    groups: dict[str, Column] = {}
    facts: dict[str, Column] = {}
    carried = {name: layout.found[name] for name in IMAGE_LEVEL if name in layout.found}
    for name, column in {**carried, **{other: other for other in layout.others}}.items():
        cells = table.columns[column]
        whole = text_column(cells) if isinstance(cells, list) else cells
        if bool((whole[listed] == whole[first[image]]).all()):
            groups[GROUP_UNIT if name == UNIT else name] = whole[first]
        else:
            facts[name] = whole
    size = _measures(table, layout, SIZES[: layout.dimensions], listed, image, first)
    spacing = _measures(table, layout, SPACINGS[: layout.dimensions], listed, image, first)
    notes = (
        (f"column {UNIT!r} is read as {GROUP_UNIT!r}",)
        if GROUP_UNIT in groups and UNIT in layout.others
        else ()
    )
    return ImageList(ids, size, spacing, groups, notes), facts


def _measures(
    table: Table, layout: Layout, names: tuple[str, ...], listed: I64, image: I64, first: I64
) -> F64:
    """Return sizes or spacings of images; they must be the same on every row of an image."""
    found = np.full((len(first), len(names)), np.nan)
    for k, name in enumerate(names):
        column = layout.found.get(name, layout.found.get("spacing") if "spacing" in name else None)
        if column is None:
            continue
        values, bad = numbers(table, column)
        _refuse(table, bad)
        differs = np.flatnonzero(~_same(values[listed], values[first[image]]))
        wrong = np.flatnonzero(
            ~(np.isnan(values[first]) | ((values[first] > 0) & np.isfinite(values[first])))
        )
        if len(differs):
            row = int(listed[differs[0]])
            _refuse(
                table,
                {
                    row: table.problem(
                        row, column, "size-conflict", "one value per image", values[row]
                    )
                },
            )
        if len(wrong):
            row = int(first[wrong[0]])
            _refuse(
                table,
                {row: table.problem(row, column, "image-size", "a size above zero", values[row])},
            )
        found[:, k] = values[first]
    return found


def _same(first: F64, second: F64) -> Flags:
    return np.asarray((first == second) | (np.isnan(first) & np.isnan(second)))
