# SPDX-License-Identifier: Apache-2.0
"""Tables of objects, one row each, as references or predictions; and tables that describe images.

A row without class and box declares an image without objects; a row with nothing but a class
declares a class. Further columns of references describe the image if they are constant on every
image, else the object.

A format whose files are such tables is a `TableReader` (delimited text, parquet, the NIH list): it
opens a `FileTable`, and `references_from` and `predictions_from` make of it what
`calipers.io.assemble` expects. `add_groups` gives images the columns of a table of groups: patient,
centre, sizes, spacings, any; `calipers.io.read` and `Pairing.with_groups` call it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers.arrays import F64, I32, I64, Column, Flags
from calipers.data.cohort import SAME_SPACING, UNIT, FileIntake
from calipers.data.look_alikes import hint_on_names
from calipers.data.rules import Delivery, Finding, Source
from calipers.errors import InputError, did_you_mean
from calipers.io.consensus import READER_FACT, Readings
from calipers.io.reader import (
    GROUP_UNIT,
    ImageList,
    Key,
    ObjectPart,
    Options,
    Problem,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    text_column,
)
from calipers.io.source import InputFile
from calipers.io.tables.columns import (
    BOX_NAMES,
    CLASS_NUMBERS,
    IMAGE_LEVEL,
    IMAGES,
    OBJECTS,
    SIZES,
    SPACINGS,
    Layout,
    are_sides,
    columns_for_role,
    find_columns,
    find_layout,
    with_images,
)
from calipers.io.tables.table import FileTable, codes, empty, numbers, strict_numbers, texts

# A hint compares names letter by letter: among more of them it would be slow, and a longer one is
# no help.
UNLISTED = (
    "the references do not list these images: list them as images without objects if they are to "
    "be evaluated; else --lenient leaves their predictions out"
)
MANY_NAMES, LONG_HINT = 1000, 300
BOX_LIST = "bbox"  # a column with all numbers of a box
SOLE_CLASS = "object"  # of references without a column of classes
# Columns of text that say where an image comes from, never what an object is.
ORIGINS_OF_IMAGES = {"source", "dataset", "split", "subset", "fold", "site", "scanner", "sex"}


class TableReader(Reader):
    """A format whose files are tables with a row per object: `table` opens one, the rest
    follows.
    """

    several_models = True

    @abstractmethod
    def table(self, file: InputFile) -> FileTable:
        """Return the columns of a file."""

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read the rows as references."""
        self._boxes_only(file, options)
        return references_from(with_corners_of_box(self.table(file)), options)

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the rows as predictions; images are looked up by the text of their ids."""
        self._boxes_only(file, options)
        table = with_corners_of_box(self.table(file))
        return predictions_from(table, replace(index, images=index.as_text), options)

    def _boxes_only(self, file: InputFile, options: Options) -> None:
        """Raise if masks are required: tables hold boxes only."""
        if options.masks == "required":
            hint = "masks are read from COCO JSON; pass --masks auto to evaluate the boxes"
            raise InputError(
                "masks",
                rule="mask-missing",
                file=file.file,
                value=f"a table ({self.name})",
                hint=hint,
            )


def with_corners_of_box(table: FileTable) -> FileTable:
    """Return the table with the columns x, y, w and h of a column ``bbox``, whose cells are texts
    such as ``[10, 20, 30, 40]``; others as they are.
    """
    names = {name.lower(): name for name in table.names}
    if BOX_LIST not in names or len(BOX_NAMES & names.keys()) >= 4:
        return table
    # Imported here, because the module of lists builds on this one.
    from calipers.io.lists.listing import derived, split_numbers

    column = names[BOX_LIST]
    cells = [cell.strip().strip("[]()") for cell in texts(table, column)]
    # Numbers are separated by blanks where NumPy wrote them.
    cells = [",".join(cell.replace(",", " ").split()) for cell in cells]
    table = derived(table, {column: cells})
    table = split_numbers(table, column, ("x", "y", "w", "h"), "four numbers: x, y, w, h")
    table.notes.append(f"{column} is read as x, y, w, h, as in COCO")
    return table


def references_from(table: FileTable, options: Options) -> ReferenceFile:
    """Read a table as references.

    Images come in order of first appearance; classes as declared, then in alphabetical order.
    """
    # One choice of columns serves both files of a call.
    names = columns_for_role(table.names, options.columns, "references")
    options = replace(options, columns=names)
    rows = _rows(table, options, _sole_class(table, options))
    columns = rows.layout.columns
    if "score" in columns and not empty(table.columns[columns["score"]]).all():
        raise InputError(
            "references, which have no scores",
            rule="wrong-role",
            file=table.file,
            field=columns["score"],
            value=list(table.names),
            hint="are references and predictions swapped?",
        )
    # The images come from all rows, also from broken ones: dropping a bad box must not drop its
    # image.
    has_image = np.array([bool(name) for name in rows.image], np.bool_)
    image_rows = np.flatnonzero(~rows.is_class & has_image)
    image, ids = codes([rows.image[row] for row in image_rows.tolist()])
    if not ids:
        # Rows that are broken say more than that none is left.
        problems = list(table.problems)
        for row in sorted(rows.problems):
            problems += rows.problems[row]
        table.refuse(problems)
        raise InputError(
            "at least one image", rule="no-images", file=table.file, value="only a header"
        )
    classes = _classes(rows)
    images, facts = _image_columns(table, rows.layout, image_rows, image, ids)
    readings = _readings(table, rows, image_rows, image, len(ids))
    place_of: dict[Key, int] = {name: k for k, name in enumerate(ids)}
    label_of: dict[Key, int] = {name: k for k, name in enumerate(classes)}
    # Before the sound rows are counted, because it may find more that are not.
    details: dict[str, Any] = _details(table, rows)  # may find more rows that are not sound
    sound_rows = np.flatnonzero(rows.sound)
    part = _part(table, rows, sound_rows, place_of, label_of)
    for name, column in details.items():
        details[name] = column[sound_rows]
    facts = {name: column[sound_rows] for name, column in facts.items()}
    delivery = replace(part.delivery, facts=facts, **details)
    part = replace(part, delivery=delivery, notes=[*part.notes, *images.notes])
    return ReferenceFile(images, classes, None, part, table.format, readings)


def predictions_from(
    table: FileTable, index: ReferenceIndex, options: Options
) -> dict[str, ObjectPart]:
    """Read a table as predictions: one part per value of its model column, or one part named
    ``""``.
    """
    options = replace(
        options, columns=columns_for_role(table.names, options.columns, "predictions")
    )
    options = replace(options, columns=with_images(table, options.columns, index.as_text))
    layout = find_layout(table, options.columns, options.box_format)
    if "score" not in layout.columns:
        raise InputError(
            "a column 'score'",
            rule="score-missing",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="if it has another name: columns={'score': ...} (--columns score=NAME)",
        )
    if layout.dimensions != index.dimensions:
        raise InputError(
            f"{index.dimensions}D boxes, as in the references",
            rule="box-shape",
            file=table.file,
            value=layout.box,
        )
    _require_same_sizes(table, layout, index)
    if "model" not in layout.columns or not len(table):
        return {"": _one_model(table, index, options)}
    # Models in the order in which they first appear, as in the file.
    model, names = codes(texts(table, layout.columns["model"]))
    parts = {}
    for k, name in enumerate(names):
        share = table.rows(np.flatnonzero(model == k))
        # Rows that do not fit the header belong to no known model: the first one accounts for them.
        parts[name] = _one_model(share if k == 0 else replace(share, problems=[]), index, options)
    return parts


def _require_same_sizes(table: FileTable, layout: Layout, index: ReferenceIndex) -> None:
    """Raise if predictions state another size of an image: their boxes have another scale."""
    measures = (*SIZES[: layout.dimensions], "spacing", *SPACINGS[: layout.dimensions])
    # Fractions of an image are the same whatever its size.
    if layout.columns.keys().isdisjoint(measures) or "normalised" in layout.box_format:
        return
    names = [name for name in SIZES[: layout.dimensions] if name in layout.columns]
    ids = texts(table, layout.columns["image"])
    images = np.fromiter((index.images.get(image, -1) for image in ids), np.int64, len(ids))
    for name in names:
        column, k = layout.columns[name], SIZES.index(name)
        lengths, _ = numbers(table, column)
        sizes = np.full((len(ids), layout.dimensions), np.nan)
        sizes[:, k] = lengths
        rows = np.flatnonzero(index.other_sizes(images, sizes)[:, k])
        if len(rows) and not _are_sides(table, layout, k, lengths):
            row = int(rows[0])
            place = table.problem(row, column, "size-conflict", "").location
            raise index.size_conflict(int(images[row]), k, lengths[row].item(), table.file, place)
    _require_same_spacing(table, layout, index, images)


def _require_same_spacing(
    table: FileTable, layout: Layout, index: ReferenceIndex, images: I64
) -> None:
    """Raise if predictions state another spacing of an image: its pixels are others."""
    for axis, name in enumerate(SPACINGS[: layout.dimensions]):
        column = layout.columns.get(name, layout.columns.get("spacing"))
        if column is None:
            continue
        spacing, _ = numbers(table, column)
        expected = np.full(len(images), np.nan)  # rows of unknown images have none
        expected[images >= 0] = index.image_list.spacing[images[images >= 0], axis]
        is_known = np.isfinite(expected) & np.isfinite(spacing)
        differs = is_known & ~np.isclose(spacing, expected, rtol=SAME_SPACING, atol=0)
        if differs.any():
            row = int(differs.argmax())
            image = index.image_list.ids[int(images[row])]
            raise InputError(
                f"{expected[row]:g}, the {name} of image {image!r} in the references",
                rule="size-conflict",
                file=table.file,
                location=table.problem(row, column, "size-conflict", "").location,
                field=column,
                value=spacing[row].item(),
                hint="boxes on resampled images have to be scaled back",
            )


def _are_sides(table: FileTable, layout: Layout, k: int, lengths: F64) -> bool:
    """Return whether a column beside corners holds the sides of the boxes, not of the images."""
    if not layout.box_format.startswith("xyxy"):
        return False
    low, _ = numbers(table, layout.box[k])
    high, _ = numbers(table, layout.box[k + layout.dimensions])
    return are_sides(low, high, lengths)


def add_groups(
    images: ImageList, table: FileTable, options: Options
) -> tuple[ImageList, FileIntake]:
    """Give images the columns of a table; sizes and spacings fill in what is unknown.

    Notes
    -----
    Strict reading requires a row for every image. Lenient reading leaves the cells of a missing
    image empty and says so. Rows of images that are not in the cohort are counted in a note.
    """
    columns = find_columns(table, IMAGES)
    image_column = columns.pop("image")
    names = [name for name in table.names if name and name != image_column]
    n_before = len(images.keys)
    if options.all_images:
        images = images.with_further(texts(table, image_column))
    match, n_strange = _match_rows(images, table, image_column)
    notes = [*table.notes, *_missing(images, match, options.lenient)]
    if options.all_images:
        n_further = len(images.keys) - n_before
        notes.append(f"{n_further} images are known from this table only: they have no references")
    if n_strange:
        notes.append(f"{n_strange} rows describe images that are not in the references")
    words = {}
    for word in IMAGE_LEVEL:
        if word in columns:
            name = columns[word]
            words[name] = word
            if word != name:
                notes.append(f"column {name!r} is read as {word!r}")
    lengths = {columns[name] for name in (*SIZES, "spacing", *SPACINGS) if name in columns}
    groups = {}
    for name in names:
        if name not in lengths:
            groups[words.get(name, name)] = _column(match, name)
    _check_same_groups(images, match, groups, words)
    size = _fill_unknown(images.size, match, [columns.get(name) for name in SIZES])
    spacings = [columns.get(name, columns.get("spacing")) for name in SPACINGS]
    spacing = _fill_unknown(images.spacing, match, spacings)
    images = replace(images, size=size, spacing=spacing, groups={**images.groups, **groups})
    return images, table.intake("groups", notes)


def _one_model(table: FileTable, index: ReferenceIndex, options: Options) -> ObjectPart:
    only_class = index.classes[0] if len(index.classes) == 1 else None
    if only_class is not None:
        table = _with_class_of_number(table, options, only_class)
    rows = _rows(table, options, only_class)
    columns = rows.layout.columns
    score, bad = numbers(table, columns["score"], rows.is_object)
    # An empty score reads as NaN, which would rank somewhere without a word.
    missing = np.flatnonzero(rows.is_object & empty(table.columns[columns["score"]]))
    for row in missing.tolist():
        bad[row] = table.problem(row, columns["score"], "score-missing", "a score")
    _mark(rows, bad)
    sound_rows = np.flatnonzero(rows.sound)
    # A column called file_name holds names of files, even where ids look like them.
    images = index.images
    has_names = "file_name" in index.image_list.groups
    if has_names and columns["image"].lower() in ("file_name", "filename"):
        images = index.by_file_name(rows.image, table.file, columns["image"])
    elif has_names and are_file_names(rows.image, index.as_text, index.file_names):
        images = index.file_names
        table.notes.append("images are joined by file_name: the references do not have these ids")
    labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
    part = _part(table, rows, sound_rows, images, labels)
    facts = {}
    if len(sound_rows):
        for name in rows.layout.others:
            facts[name] = text_column(_cells_of(table, name, sound_rows))
    return replace(part, delivery=replace(part.delivery, score=score[sound_rows], facts=facts))


def _with_class_of_number(table: FileTable, options: Options, only_class: str) -> FileTable:
    """Return the table with the only class of the references in place of the only number of a class
    that the predictions have: which number a tool writes for "something" says nothing.
    """
    column = find_layout(table, options.columns, options.box_format).columns.get("class")
    if column is None or column.lower() not in CLASS_NUMBERS:
        return table
    cells = texts(table, column)
    distinct = {cell for cell in cells if cell}
    # Where the references have a number too, another number is another class.
    if len(distinct) != 1 or only_class.isdigit() or not distinct.copy().pop().isdigit():
        return table
    # Imported here, because the module of lists builds on this one.
    from calipers.io.lists.listing import derived

    note = f"{column}: the only number {distinct.pop()} is read as the only class {only_class!r}"
    table.notes.append(note)
    return derived(table, {column: [only_class if cell else "" for cell in cells]})


def are_file_names(
    names: Sequence[str], ids: Mapping[Any, int], file_names: Mapping[Any, int]
) -> bool:
    """Return whether names of images are none of the ids, and all of them names of files."""
    # Mostly the first one tells, without a set of millions.
    if not len(names) or names[0] in ids:
        return False
    distinct = set(names) - {""}
    return bool(distinct) and distinct.isdisjoint(ids) and distinct <= file_names.keys()


@dataclass(frozen=True)
class _ObjectRows:
    """The rows of a table by kind, and the numbers of those that hold an object."""

    layout: Layout
    image: list[str]
    label: list[str]
    is_object: Flags
    is_class: Flags  # declares a class
    sound: Flags  # objects without problem
    boxes: F64
    problems: dict[int, list[Problem]]


def _sole_class(table: FileTable, options: Options) -> str | None:
    """Return the class of references without a column of classes; None if a column of text may
    hold them.
    """
    layout = find_layout(table, options.columns, options.box_format)
    if "class" in layout.columns:
        return None
    for name in layout.others:
        # A class under a name that we do not know must not be lost without a word.
        # The texts of a list of numbers are no classes.
        is_other = name.lower() in {BOX_LIST, *ORIGINS_OF_IMAGES}
        if not is_other and numbers(table, name)[1]:
            return None
    note = f"no column of classes: all objects are of the class {SOLE_CLASS!r}"
    table.notes.append(note)
    return SOLE_CLASS


def _rows(table: FileTable, options: Options, only_class: str | None) -> _ObjectRows:
    layout = find_layout(table, options.columns, options.box_format)
    image = texts(table, layout.columns["image"])
    vacant = np.stack([empty(table.columns[name]) for name in layout.box]).reshape(
        len(layout.box), len(table)
    )
    no_box, no_image = np.asarray(vacant.all(axis=0)), empty(image)
    if "class" in layout.columns:
        label = texts(table, layout.columns["class"])
    elif only_class is not None:
        # A row without a box declares an image.
        label = ["" if is_vacant else only_class for is_vacant in no_box.tolist()]
    else:
        raise OBJECTS["class"].missing(table)
    no_class = empty(label)
    # Class rows first: a row that is one cannot also be an object without an image.
    is_class = no_image & no_box & ~no_class
    is_object = ~is_class & ~(no_class & no_box)
    problems: dict[int, list[Problem]] = {}

    def note(row: int, column: str, rule: str, expected: str, hint: str = "") -> None:
        problems.setdefault(row, []).append(table.problem(row, column, rule, expected, None, hint))

    for row in np.flatnonzero(no_image & is_object).tolist():
        note(row, layout.columns["image"], "missing-id", "an image")
    for row in np.flatnonzero(no_class & is_object).tolist():
        note(row, layout.columns["class"], "class-missing", "a class")
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
    return _ObjectRows(layout, image, label, is_object, is_class, sound, boxes, problems)


def _part(
    table: FileTable,
    rows: _ObjectRows,
    sound_rows: I64,
    images: Mapping[Key, int],
    labels: Mapping[Key, int],
) -> ObjectPart:
    """Return the objects of the sound rows, and all problems of the table."""
    image_names, label_names, boxes = rows.image, rows.label, rows.boxes
    if len(sound_rows) < len(table):
        # Only then: copies of millions of rows would be in memory beside the table.
        image_names = [rows.image[row] for row in sound_rows.tolist()]
        label_names = [rows.label[row] for row in sound_rows.tolist()]
        boxes = rows.boxes[sound_rows]
    n = len(sound_rows)
    image = np.fromiter((images.get(name, -1) for name in image_names), np.int64, n)
    label = np.fromiter((labels.get(name, -1) for name in label_names), np.int64, n)
    lines = table.lines[sound_rows]
    delivery = Delivery(image, label, boxes, rows.layout.box_format, lines)
    names = {"bbox": rows.layout.box[0], **rows.layout.columns}
    # Messages name the column of the file, not our word for it.
    source = Source(
        table.file, lambda line, field: table.locate(line, names.get(field, field)), table.text
    )
    problems = list(table.problems)
    for row in sorted(rows.problems):
        problems += rows.problems[row]
    findings = [
        *unknown_names(image, image_names, "image", "unknown-image", images),
        *unknown_names(label, label_names, "class", "unknown-category", labels),
    ]
    n_dropped = len(table.problems) + len(rows.problems)
    return ObjectPart(delivery, source, findings, problems, list(table.notes), n_dropped)


def unknown_names(
    code: I64 | I32, names: list[str], field: str, rule: str, index: Collection[Key]
) -> list[Finding]:
    """Return the rows whose image or class is not among the references."""
    bad = np.flatnonzero(code < 0)
    if not len(bad):
        return []
    values = [names[row] for row in bad.tolist()]
    # A similar image is that of another patient; a similar class is a misspelt one.
    images = "1 image" if len(index) == 1 else f"{len(index)} images"
    hint = f"name the images as the references do ({images}); calipers doctor compares the names"
    # Where others are known, the names are right: the references do not list these.
    if len(bad) < len(code):
        hint = UNLISTED
    if field == "class":
        hint = did_you_mean(values[0], list(map(str, index))[:MANY_NAMES])
    if len(hint) > LONG_HINT:
        hint = f"none of the {len(index)} known names is similar"
    noun = "an image" if field == "image" else "a class"
    return [Finding(rule, field, f"{noun} of the references", bad, values, hint)]


def _classes(rows: _ObjectRows) -> tuple[str, ...]:
    declared = [name for name, is_class in zip(rows.label, rows.is_class.tolist()) if is_class]
    names = {rows.label[row] for row in np.flatnonzero(rows.sound).tolist()}
    return tuple(dict.fromkeys([*declared, *sorted(names)]))


def _cells_of(table: FileTable, name: str, rows: I64) -> list[Any]:
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        return list(cells[rows].tolist())
    return [*cells] if len(rows) == len(cells) else [cells[row] for row in rows.tolist()]


def _details(table: FileTable, rows: _ObjectRows) -> dict[str, Column]:
    """Return area and flags of references; rows in which one is broken are no longer sound."""
    columns = rows.layout.columns
    details: dict[str, Column] = {}
    bad: dict[int, Problem] = {}
    for name in ("area", "ignore", "crowd"):
        if name in columns:
            details[name], wrong = OBJECTS[name].read(table, columns[name], rows.is_object)
            for row, problem in wrong.items():
                if rows.is_object[row]:
                    bad.setdefault(row, problem)
    _mark(rows, bad)
    return details


def _mark(rows: _ObjectRows, bad: Mapping[int, Problem]) -> None:
    for row, problem in bad.items():
        rows.problems.setdefault(row, []).append(problem)
        rows.sound[row] = False


def _image_columns(
    table: FileTable, layout: Layout, image_rows: I64, image: I64, ids: list[str]
) -> tuple[ImageList, dict[str, Column]]:
    """Return the images with every column that is constant on them, and the others as facts."""
    # The first row of each image; its cell stands for the image if all its rows agree.
    first = np.full(len(ids), len(table), np.int64)
    np.minimum.at(first, image, image_rows)
    groups: dict[str, Column] = {}
    facts: dict[str, Column] = {}
    described = (*IMAGE_LEVEL, READER_FACT)
    columns = {name: layout.columns[name] for name in described if name in layout.columns}
    columns.update(zip(layout.others, layout.others))
    notes: tuple[str, ...] = ()
    for name, column in columns.items():
        cells = table.columns[column]
        if name == READER_FACT:
            cells = texts(table, column)
        values = cells if isinstance(cells, np.ndarray) else text_column(cells)
        differs = np.flatnonzero(~_equal(values[image_rows], values[first[image]]))
        if len(differs) and name in IMAGE_LEVEL:
            row = int(image_rows[differs[0]])
            expected = f"one {name} per image, as in its first row"
            hint = hint_on_names(values[first[image[differs[0]]]], values[row])
            raise table.error(row, column, "group-conflict", expected, values[row], hint)
        if len(differs):
            facts[name] = values
        elif name == UNIT:
            groups[GROUP_UNIT] = values[first]
        else:
            groups[name] = values[first]
    if GROUP_UNIT in groups and UNIT in layout.others:
        notes = (f"column {UNIT!r} is read as {GROUP_UNIT!r}",)
    size = _measures(table, layout, SIZES[: layout.dimensions], image_rows, image, first)
    spacing = _measures(table, layout, SPACINGS[: layout.dimensions], image_rows, image, first)
    return ImageList(ids, size, spacing, groups, notes), facts


def _readings(
    table: FileTable, rows: _ObjectRows, image_rows: I64, image: I64, n_images: int
) -> Readings | None:
    """Return who read which image, from all rows that name both; boxes of nobody among those of
    several readers are no longer sound.
    """
    column = rows.layout.columns.get("reader")
    if column is None:
        return None
    cells = texts(table, column)
    has_reader = ~empty(cells)[image_rows]
    reader, names = codes([cells[row] for row in image_rows[has_reader].tolist()])
    if not names:
        return None
    own_image = image[has_reader]
    # A pair is one number, and its first row comes first.
    _, first = np.unique(own_image * len(names) + reader, return_index=True)
    first = np.sort(first)
    own_image, reader = own_image[first], reader[first]
    is_second = np.ones(len(own_image), np.bool_)
    is_second[np.unique(own_image, return_index=True)[1]] = False
    location = ""
    if is_second.any():
        row = int(image_rows[has_reader][first][is_second.argmax()])
        location = table.locate(int(table.lines[row]), column)
        bad = {}
        for row in np.flatnonzero(rows.is_object & empty(cells)).tolist():
            bad[row] = table.problem(row, column, "reader-missing", "the reader of every box")
        _mark(rows, bad)
    return Readings(column, tuple(names), own_image, reader, n_images, location)


def _measures(
    table: FileTable,
    layout: Layout,
    names: tuple[str, ...],
    image_rows: I64,
    image: I64,
    first: I64,
) -> F64:
    """Return sizes or spacings of images; they must be the same on every row of an image."""
    measures = np.full((len(first), len(names)), np.nan)
    for k, name in enumerate(names):
        column = layout.columns.get(name)
        if column is None and "spacing" in name:
            column = layout.columns.get("spacing")
        if column is None:
            continue
        values = strict_numbers(table, column)
        lengths = values[first]
        differs = np.flatnonzero(~_same(values[image_rows], values[first[image]]))
        wrong = np.flatnonzero(~(np.isnan(lengths) | ((lengths > 0) & np.isfinite(lengths))))
        if len(differs):
            row = int(image_rows[differs[0]])
            expected = "one value per image"
            raise table.error(row, column, "size-conflict", expected, values[row])
        if len(wrong):
            row = int(first[wrong[0]])
            expected = "a size above zero"
            raise table.error(row, column, "image-size", expected, values[row])
        measures[:, k] = lengths
    return measures


def _equal(first: Column, second: Column) -> Flags:
    """Return where cells are equal; empty cells of numbers are."""
    same = np.asarray(first == second)
    if first.dtype.kind == "f":
        same |= np.isnan(first) & np.isnan(second)
    return same


def _same(first: F64, second: F64) -> Flags:
    return np.asarray((first == second) | (np.isnan(first) & np.isnan(second)))


@dataclass(frozen=True)
class _Match:
    table: FileTable
    rows: I64  # (n_images,) row of each image, -1 = none


def _match_rows(images: ImageList, table: FileTable, column: str) -> tuple[_Match, int]:
    index: dict[Key, int] = {name: k for k, name in enumerate(images.ids)}
    file_names: dict[Key, int] = {}
    if "file_name" in images.groups:
        names = list(map(str, images.groups["file_name"].tolist()))
        # A name of two images would name the wrong one.
        if len(set(names)) == len(names):
            file_names = {name: k for k, name in enumerate(names)}
    is_named = column.lower() in ("file_name", "filename")
    if file_names and (is_named or are_file_names(texts(table, column), index, file_names)):
        index = file_names
    rows = np.full(len(images.keys), -1, np.int64)
    strange = 0
    for row, name in enumerate(texts(table, column)):
        k = index.get(name)
        if k is None:
            strange += 1
        elif rows[k] >= 0:
            raise table.error(row, column, "dup-image", "one row per image", name)
        else:
            rows[k] = row
    if strange == len(table):
        hint = did_you_mean(texts(table, column)[0], map(str, list(index)[:10])) if strange else ""
        raise InputError(
            "images of the references",
            rule="unknown-image",
            file=table.file,
            field=column,
            hint=hint,
        )
    return _Match(table, rows), strange


def _missing(images: ImageList, match: _Match, lenient: bool) -> list[str]:
    missing = np.flatnonzero(match.rows < 0)
    if not len(missing):
        return []
    message = f"{len(missing)} of {len(images.keys)} images have no row in the table of groups"
    if lenient:
        return [message + "; their cells are empty"]
    raise InputError(
        "a row for every image",
        rule="missing-group",
        file=match.table.file,
        value=images.ids[missing[0]],
        hint=message,
    )


def _column(match: _Match, name: str) -> Column:
    """Return a column in the order of the images; images without a row have an empty cell."""
    cells = match.table.columns[name]
    if isinstance(cells, np.ndarray) and (match.rows >= 0).all():
        return cells[match.rows]
    # An array of numbers has no empty cell, so a column with holes becomes text.
    cells_as_text = [*texts(match.table, name), ""]  # row -1 is the empty cell
    return text_column([cells_as_text[row] for row in match.rows.tolist()])


def _check_same_groups(
    images: ImageList,
    match: _Match,
    groups: Mapping[str, Column],
    words: Mapping[str, str],
) -> None:
    """Raise if the references state another patient or centre of an image than the table does."""
    for name, word in words.items():
        column = images.groups.get(word)
        if column is None:
            continue
        for k, (own, other) in enumerate(zip(column.tolist(), groups[word].tolist())):
            row = int(match.rows[k])
            if row >= 0 and str(own) not in ("", str(other)):
                expected = f"the {word} that the references state, {own!r}"
                hint = hint_on_names(own, other)
                hint = hint or "remove the column from the table, or from the references"
                raise match.table.error(row, name, "group-conflict", expected, other, hint)


def _fill_unknown(lengths: F64, match: _Match, columns: list[str | None]) -> F64:
    """Fill in unknown sizes from columns; a known size that differs is an error."""
    result = lengths.copy()
    for k, name in enumerate(columns[: lengths.shape[1]]):
        if name is None:
            continue
        table = match.table
        values = strict_numbers(table, name)
        stated_lengths = np.where(match.rows >= 0, values[match.rows], np.nan)
        wrong = np.flatnonzero(
            ~(np.isnan(stated_lengths) | ((stated_lengths > 0) & np.isfinite(stated_lengths)))
        )
        # Two statements about one image that differ: neither is taken silently.
        clash = np.flatnonzero(
            np.isfinite(lengths[:, k])
            & np.isfinite(stated_lengths)
            & (lengths[:, k] != stated_lengths)
        )
        for at, rule, expected in (
            (wrong, "image-size", "a size above zero"),
            (clash, "size-conflict", "the size that the references have"),
        ):
            if len(at):
                row = int(match.rows[at[0]])
                raise table.error(row, name, rule, expected, stated_lengths[at[0]].item())
        result[:, k] = np.where(np.isnan(lengths[:, k]), stated_lengths, lengths[:, k])
    return result
