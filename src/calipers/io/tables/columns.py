# SPDX-License-Identifier: Apache-2.0
"""Declare the columns of a table, and find them: by the user's choice, else by their known names.

Every kind of table declares its columns once, as a `ColumnSpec` each: objects, and tables that
describe images, here; alarms, ratings, bags and sizes beside their readers. `find_columns` looks
them up, whatever their case, and makes the one message for a column that is missing. `find_layout`
adds what only tables of objects have: the columns of a box and the format that their names imply.
Readers of tables call them; a `FileTable` and the user's choices come in, names of columns go out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calipers.arrays import F64, Flags
from calipers.data.rules import Role
from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.io.reader import Problem
from calipers.io.tables.box_spellings import (
    CORNERS,
    are_points,
    bare_name,
    box_part,
    box_parts,
    is_numbered_on,
)
from calipers.io.tables.table import FileTable, empty, flags, numbers, texts

NAMELESS_HINT = "name it: columns={{'{0}': ...}}, --columns {0}=NAME"
NUMBER = re.compile(r"\s*[-+]?[0-9]+([.,][0-9]+)?\s*")

# Columns that always describe the image, never the object.
IMAGE_LEVEL = ("patient", "centre")
SIZES = ("width", "height", "depth")
SPACINGS = ("spacing_x", "spacing_y", "spacing_z")

# (box format, names in the order of the format); the 3D variant of a layout stands before its 2D
# one.
BOX_LAYOUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xyxy", ("x0", "y0", "z0", "x1", "y1", "z1")),
    ("xyxy", ("x0", "y0", "x1", "y1")),
    ("xyxy", ("xmin", "ymin", "zmin", "xmax", "ymax", "zmax")),
    ("xyxy", ("xmin", "ymin", "xmax", "ymax")),
    ("xyxy", ("x_min", "y_min", "z_min", "x_max", "y_max", "z_max")),
    ("xyxy", ("x_min", "y_min", "x_max", "y_max")),
    ("xyxy", ("x1", "y1", "z1", "x2", "y2", "z2")),
    ("xyxy", ("x1", "y1", "x2", "y2")),
    ("xywh", ("x", "y", "z", "w", "h", "d")),
    ("xywh", ("x", "y", "w", "h")),
    ("cxcywh", ("cx", "cy", "cz", "w", "h", "d")),
    ("cxcywh", ("cx", "cy", "w", "h")),
    # MATLAB writes a variable with four columns so.
    ("xywh", ("bbox_1", "bbox_2", "bbox_3", "bbox_4")),
)
PARTS = "bbox_"  # of a box whose names do not say which number is what
# Corners that may stand with sides where the other corner is missing: xmin, ymin, width, height.
LOW_CORNERS = (("x0", "y0"), ("xmin", "ymin"), ("x_min", "y_min"), ("x1", "y1"))
# What a coordinate of another corner may be called: x0, x_2, xmax, y-end, x right.
COORDINATE = re.compile(
    r"\s*([xy][\W_]*(\d|m|end|b|r|c|t|l|$)|(left|top|right|bottom|links|oben|rechts|unten)$)",
    re.IGNORECASE,
)
# Other names of w, h and d. They are sides of the image beside corners, or beside w and h.
SIDES = {"w": "width", "h": "height", "d": "depth"}
SIDES_IN_GERMAN = {"width": ("breite",), "height": ("höhe", "hoehe"), "depth": ("tiefe",)}
# Words for the corners.
WORDS = {
    "x0": ("left", "links"),
    "y0": ("top", "oben"),
    "x1": ("right", "rechts"),
    "y1": ("bottom", "unten"),
}
DEPTHS = {"z0", "z1", "z2", "zmin", "zmax", "cz", "d"}
IMAGEJ = ("BX", "BY", "Width", "Height")
ORIGINS = (("x", "y"), ("cx", "cy"))  # to which they belong
BOX_NAMES = {name for _, names in BOX_LAYOUTS for name in names}
BOX_WORDS = BOX_NAMES.union(*WORDS.values())


@dataclass(frozen=True)
class ColumnSpec:
    """One column of a kind of table."""

    name: str  # what messages and options call it
    aliases: tuple[str, ...]  # the names under which it is found, in lower case; the first one wins
    required: bool = False
    kind: Literal["text", "number", "flag"] = "text"
    role: Role | None = None  # the only role of objects that has it
    blank: bool = True  # whether a cell may be empty
    rule: str = "type"  # that a wrong cell breaks
    hint: str = ""

    def find(self, table: FileTable, choice: str | None = None) -> str | None:
        """Return the column that the user chose, which has to exist, else the one of a known name.

        Of columns that differ in case only, the first counts. None if there is none, unless it is
        required.
        """
        if choice is not None:
            return existing_column(table, self.name, choice)
        column = self.among(lower_names(table.names))
        if column is None and self.required:
            raise self.missing(table)
        return column

    def among(self, columns: Mapping[str, str]) -> str | None:
        """Return the column of a known name, of columns by their name in lower case.

        Names of texts and scores are also found with blanks, dots or dashes, as spreadsheets and R
        write them, or without any sign: ``Image Index``, ``Image.Index`` and ``imageIndex`` are one
        name.
        """
        for alias in self.aliases:
            if alias in columns:
                return columns[alias]
        if self.kind != "text" and self.role != "predictions":
            return None
        joined: dict[str, str] = {}
        for name, column in columns.items():
            joined.setdefault(_joined(name), column)
        for alias in self.aliases:
            if _joined(alias) in joined:
                return joined[_joined(alias)]
        return None

    def require(self, table: FileTable, choice: str | None = None) -> str:
        """Return the column, or raise."""
        column = self.find(table, choice)
        if column is None:
            raise self.missing(table)
        return column

    def missing(self, table: FileTable) -> InputError:
        """Return the error of a table without this column."""
        names = f"accepted names: {', '.join(self.aliases)}"
        hint = f"{self.hint}; {names}" if self.hint else names
        # Numbers are no names of columns: the first row is one of data.
        if any(NUMBER.fullmatch(name) for name in table.names):
            hint = f"is the header missing? else {hint}"
        return missing_column(table, f"a column {self.name!r}", hint)

    def read(
        self, table: FileTable, column: str, mask: Flags | None = None
    ) -> tuple[Any, dict[int, Problem]]:
        """Return the cells of a column by its kind, and those that are wrong.

        Numbers outside ``mask`` are not read. An empty cell is NaN, no or an empty text where it is
        allowed.
        """
        values: Any = None
        bad: dict[int, Problem] = {}
        expected = "a value in every row"
        if self.kind == "number":
            values, bad = numbers(table, column, mask)
            expected = "a number"
        elif self.kind == "flag":
            values, bad = flags(table, column, self.rule)
            expected = "0 or 1"
        else:
            values = texts(table, column)
        if not self.blank:
            for row in np.flatnonzero(empty(table.columns[column])).tolist():
                bad[row] = table.problem(row, column, self.rule, expected, "", self.hint)
        return values, bad


def _joined(name: str) -> str:
    return re.sub(r"[\s._-]+", "", name)


Declaration = Mapping[str, ColumnSpec]


def lower_names(names: Sequence[str]) -> dict[str, str]:
    """Return the columns by their name in lower case; of two, the first counts."""
    # Backwards, so that the first of two columns stays in the dictionary.
    return {name.lower(): name for name in reversed(names)}


def declare(*columns: ColumnSpec) -> dict[str, ColumnSpec]:
    """Return a declaration: the columns of a kind of table by name."""
    return {column.name: column for column in columns}


# Names of images that count where none of the others is there.
FURTHER_IMAGES = (
    "img",
    "img_id",
    "img_name",
    "img_path",
    "image_file",
    "image_uid",
    "sop_instance_uid",
    "file",
    "file_path",
    "path",
)
CLASS_NUMBERS = ("class_id", "category_id", "label_id")  # columns of numbers in place of names

# The columns of a table with a row per object.
OBJECTS = declare(
    ColumnSpec(
        "image",
        (
            "image",
            "image_id",
            "imageid",
            "file_name",
            "filename",
            "image_name",
            "image_path",
            "image_index",
            "image_filename",
            "bild",
            "bildname",
            "dateiname",
            *FURTHER_IMAGES,
        ),
        required=True,
        hint=NAMELESS_HINT.format("image"),
    ),
    ColumnSpec(
        "class",
        (
            "class",
            "class_name",
            "label",
            "category",
            "category_name",
            "finding_label",
            "klasse",
            "klassenname",
            "class_label",
            "label_name",
            "object_class",
            "finding",
            "finding_name",
            "befund",
            "classe",
            "cls",
            *CLASS_NUMBERS,
        ),
        hint=NAMELESS_HINT.format("class"),
    ),
    ColumnSpec(
        "score",
        (
            "score",
            "confidence",
            "conf",
            "probability",
            "konfidenz",
            "wahrscheinlichkeit",
            "confidence_score",
            "detection_score",
            "prediction_score",
            "pred_score",
            "class_score",
            "box_score",
            "scores",
            "prob",
            "confiance",
        ),
        kind="number",
        role="predictions",
    ),
    ColumnSpec("model", ("model",), role="predictions"),
    ColumnSpec("ignore", ("ignore",), kind="flag", role="references", rule="ignore-flag"),
    ColumnSpec("crowd", ("crowd", "iscrowd"), kind="flag", role="references", rule="crowd-flag"),
    ColumnSpec("area", ("area",), kind="number", role="references"),
    ColumnSpec("width", ("width", "image_width"), kind="number", role="references"),
    ColumnSpec("height", ("height", "image_height"), kind="number", role="references"),
    ColumnSpec("depth", ("depth", "image_depth"), kind="number", role="references"),
    ColumnSpec("spacing", ("spacing",), kind="number", role="references"),
    ColumnSpec("spacing_x", ("spacing_x",), kind="number", role="references"),
    ColumnSpec("spacing_y", ("spacing_y",), kind="number", role="references"),
    ColumnSpec("spacing_z", ("spacing_z",), kind="number", role="references"),
    ColumnSpec("patient", ("patient", "patient_id", "patientid"), role="references"),
    ColumnSpec("centre", ("centre", "center", "centre_id", "center_id"), role="references"),
    ColumnSpec("reader", ("reader", "rad_id", "annotator", "reader_id"), role="references"),
)

# A table with a row per image.
IMAGES = declare(
    ColumnSpec(
        "image",
        ("image", "image_id", "imageid", "id", "file_name", "filename", *FURTHER_IMAGES),
        required=True,
    ),
    *(OBJECTS[name] for name in (*SIZES, "spacing", *SPACINGS, *IMAGE_LEVEL)),
)

BOXES = declare(
    *(ColumnSpec(name, (name, *WORDS.get(name, ())), kind="number") for name in sorted(BOX_NAMES))
)


@dataclass(frozen=True)
class Layout:
    """The columns of a table by their meaning."""

    columns: Mapping[str, str]  # canonical name -> column of the file
    box: tuple[str, ...]  # the columns of the box, in the order of the format
    box_format: str
    others: tuple[str, ...]  # columns that are only carried along

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return len(self.box) // 2


def columns_for_role(
    names: Sequence[str], choices: Mapping[str, str], role: Role
) -> dict[str, str]:
    """Return the user's choice of columns without those of the other role that a table lacks.

    One choice serves two files: references have no score, predictions no flags.
    """
    columns = {}
    for word, column in choices.items():
        name = spelled(word, OBJECTS)
        is_ours = name not in OBJECTS or OBJECTS[name].role in (None, role)
        if is_ours or column in names:
            columns[name] = column
    return columns


def find_columns(
    table: FileTable,
    declaration: Declaration,
    choices: Mapping[str, str | None] | None = None,
    *,
    shared: bool = True,
) -> dict[str, str]:
    """Return name -> column of the file, for those that the table has.

    Parameters
    ----------
    choices
        The columns that the user chose, by name; None where nothing was chosen.
    shared
        Whether a column that was chosen for one name may also be found for another one.
    """
    chosen_columns = {}
    for name, column in (choices or {}).items():
        name = spelled(name, declaration)
        if name not in declaration:
            raise UsageError(f"no column is called {name!r}; {did_you_mean(name, declaration)}")
        if column is not None:
            chosen_columns[name] = existing_column(table, name, column)
    free = table.names
    if not shared:
        # A column that was chosen as the class is not found as the image as well.
        free = tuple(name for name in free if name not in chosen_columns.values())
    lower = lower_names(free)
    columns = dict(chosen_columns)
    for name, spec in declaration.items():
        if name not in columns:
            column = spec.among(lower)
            if column is not None:
                columns[name] = column
            elif spec.required:
                raise spec.missing(table)
    return columns


def with_images(
    table: FileTable, choices: Mapping[str, str], ids: Collection[Any]
) -> Mapping[str, str]:
    """Return the choices with the column of images of a table that has none under a known name: the
    only one whose cells are all ids of the references, as ``patientId`` beside a list by patients.

    Numbers may count anything, so they tell nothing.
    """
    specs = {**OBJECTS, **BOXES}
    image = specs.pop("image")
    if "image" in choices or image.among(lower_names(table.names)) is not None:
        return choices
    own_columns = []
    for name in table.names:
        lower = lower_names([name])
        is_other = any(spec.among(lower) for spec in specs.values() if spec.name not in IMAGE_LEVEL)
        cells = set() if is_other or name in choices.values() else set(texts(table, name))
        if cells and all(cell in ids and not NUMBER.fullmatch(cell) for cell in cells):
            own_columns.append(name)
    if len(own_columns) != 1:
        return choices
    table.notes.append(f"column {own_columns[0]!r} is read as 'image': its cells are their ids")
    return {**choices, "image": own_columns[0]}


def find_layout(table: FileTable, choices: Mapping[str, str], box_format: str | None) -> Layout:
    """Return the layout of a table of objects, or raise for a column that is missing."""
    names, file = table.names, table.file
    known_columns = find_columns(table, {**OBJECTS, **BOXES}, choices, shared=False)
    known_columns = _with_bounds(known_columns, choices, table)
    columns = _with_sides(_with_corner(known_columns, table), table)
    if not _whole(columns):
        columns = _spelled_columns(known_columns, table)
    implied, box = _box_layout(columns, names, file)
    chosen_columns = {spelled(column, names) for column in choices.values()}
    if not {columns[name] for name in box} <= chosen_columns:
        _check_one_box(columns, box, table)
    columns = _without_sides(columns, box, implied, table)
    names_in_use = {columns[name] for name in (*OBJECTS, *box) if name in columns}
    return Layout(
        columns=columns,
        box=tuple(columns[name] for name in box),
        box_format=_checked_box_format(implied, box, box_format, file),
        others=tuple(name for name in names if name and name not in names_in_use),
    )


def _whole(columns: Collection[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the layouts of boxes of which all columns are there."""
    return [layout for layout in BOX_LAYOUTS if set(layout[1]) <= set(columns)]


def _with_bounds(
    columns: Mapping[str, str], choices: Mapping[str, str], table: FileTable
) -> dict[str, str]:
    """Return the columns with the corner of a table of ImageJ as x and y.

    It writes the centroid as ``X Y`` and the bounding rectangle as ``BX BY Width Height``.
    """
    lower = lower_names(table.names)
    if not {"bx", "by"} <= set(lower) or {spelled(word, BOXES) for word in choices} & set(BOXES):
        return dict(columns)
    if set(IMAGEJ) <= set(table.names) and not {"w", "h"} & set(columns):
        table.notes.append(f"{', '.join(IMAGEJ)}: read as the boxes, as ImageJ writes them")
        return {**columns, "x": IMAGEJ[0], "y": IMAGEJ[1]}
    if {"x", "y"} <= set(columns):
        raise _unclear_box(table.names, table.file)
    return dict(columns)


def _spelled_columns(known_columns: Mapping[str, str], table: FileTable) -> dict[str, str]:
    """Return the columns with those of the one box that further names make, as far as they do.

    Where names with different words for a box, or with one and without, are parts of boxes, nobody
    knows which of them is meant.
    """
    # Names that are known stay what they are: others may be the rest of a box.
    known_parts = {name: known_columns[name] for name in BOXES if name in known_columns}
    free = [name for name in table.names if name not in known_columns.values()]
    boxes = box_parts(free, known_parts)
    if set(boxes.get("", ())) == {"z"} and len(boxes) > 1:
        del boxes[""]  # the number of a slice
    if len(boxes) != 1:
        return dict(known_columns)
    [(word, parts)] = boxes.items()
    of_objects = {name: known_columns[name] for name in known_columns if name not in BOXES}
    columns = _with_corner({**of_objects, **parts}, table, word)
    if not word:
        columns = _with_sides(columns, table)
    whole = _whole(columns)
    are_deep = any(len(box) == 6 for _, box in whole)
    has_depth = any(part in DEPTHS for part in parts if part not in known_columns)
    # A centre and a corner beside sides may both be the place of the box.
    is_double = any(kind == "cxcywh" for kind, _ in whole) and any(
        {x, y} <= set(columns) for x, y in LOW_CORNERS
    )
    if (has_depth and not are_deep) or is_double:
        return dict(known_columns)
    return columns


def _check_one_box(columns: Mapping[str, str], box: Sequence[str], table: FileTable) -> None:
    """Raise unless the columns of a box are all of it, and not the first ones of a longer list."""
    first = columns[box[0]]
    if box[0].startswith(PARTS) and is_numbered_on(table.names, first):
        raise InputError(
            "four numbers of a box, 1 to 4, behind one name",
            rule="box-columns",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="other counts are boxes in 3D, turned boxes or boxes with a score: rename the "
            "columns, or name them with columns={'x0': ...} (--columns x0=NAME)",
        )
    if "x1" in box and are_points(table.names, first):
        raise InputError(
            "boxes with sides parallel to the axes",
            rule="box-columns",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="boxes of four points may be turned, which is not read: give the boxes around "
            "them, xmin ymin xmax ymax, from the lowest and highest x and y of the points",
        )


def _with_corner(columns: Mapping[str, str], table: FileTable, word: str = "") -> dict[str, str]:
    """Return the columns with x and y if they are called as a corner, and no other one is there.

    Names with another word for the box before them are of another box.
    """
    for x, y in LOW_CORNERS:
        if not {x, y} <= set(columns) or {"x", "y", "cx", "cy"} & set(columns):
            continue
        # x1 y1 is the second corner where a part of x0 y0 is there; and what looks like a part of
        # another corner may be one under a name that is not known: width is then of the image.
        others = set(table.names) - {columns[x], columns[y]}
        if any(COORDINATE.match(name) or _is_corner(name, word) for name in others):
            continue
        rest = {name: column for name, column in columns.items() if name not in (x, y)}
        return {**rest, "x": columns[x], "y": columns[y]}
    return dict(columns)


def _is_corner(name: str, word: str) -> bool:
    """Return whether a name is that of a corner or centre, with this word for the box before it."""
    return bare_name(name)[0] == word and box_part(name) in CORNERS


def _with_sides(columns: Mapping[str, str], table: FileTable) -> dict[str, str]:
    """Return the columns with the sides of boxes that are called ``width`` and ``height``.

    One size in all rows, in which all of the places lie, is that of the images, and the places are
    points: such a table stays without boxes.
    """
    lower = lower_names(table.names)
    sides = {}
    for name, side in SIDES.items():
        word = _side_among(side, lower)
        if word is not None:
            sides[name] = lower[word]
    origin = next((names for names in ORIGINS if set(names) <= set(columns)), ())
    if not origin or not {"w", "h"} <= set(sides) or {"w", "h"} & set(columns):
        return dict(columns)
    (x, _), (y, _) = numbers(table, columns[origin[0]]), numbers(table, columns[origin[1]])
    (w, _), (h, _) = numbers(table, sides["w"]), numbers(table, sides["h"])
    # Rows without a box have none of the four.
    filled = np.isfinite(x) & np.isfinite(y)
    sizes = np.unique(np.stack([w[filled], h[filled]], axis=1), axis=0)
    is_inside = bool(((x <= w) & (y <= h))[filled].all())
    if len(sizes) == 1 and filled.sum() > 1 and is_inside:
        return dict(columns)
    rest = {name: column for name, column in columns.items() if column not in sides.values()}
    # The size of the image may stand beside them.
    for name in SIDES.values():
        image_side = OBJECTS[name].aliases[1]
        if image_side in lower:
            rest[name] = lower[image_side]
    return {**rest, **sides}


def _side_among(side: str, names: Collection[str]) -> str | None:
    """Return the name of a side among names in lower case, or its German one."""
    return next((word for word in (side, *SIDES_IN_GERMAN[side]) if word in names), None)


def hold_boxes(names: Collection[str]) -> bool:
    """Return whether names of columns, in lower case, are those of a box."""
    if len(BOX_WORDS.intersection(names)) >= 4:
        return True
    names = set(names).union(*box_parts(names).values())
    if _whole(names):
        return True
    if not all(_side_among(side, names) for side in list(SIDES.values())[:2]):
        return False
    origins = (*ORIGINS, *LOW_CORNERS, *zip(WORDS["x0"], WORDS["y0"]))
    return any(set(origin) <= set(names) for origin in origins)


def _without_sides(
    columns: Mapping[str, str], box: Sequence[str], kind: str, table: FileTable
) -> dict[str, str]:
    """Return the columns without ``width``, ``height`` and ``depth`` that are the sides of boxes
    beside their corners, and not those of images.
    """
    n = len(box) // 2
    sides = [name for name in SIDES.values() if name in columns][:n]
    if kind != "xyxy" or not sides:
        return dict(columns)
    is_away = False
    for k, name in enumerate(SIDES.values()):
        if name not in sides:
            continue
        low, _ = numbers(table, columns[box[k]])
        high, _ = numbers(table, columns[box[k + n]])
        if not are_sides(low, high, numbers(table, columns[name])[0]):
            return dict(columns)
        is_away |= bool((low > 1).any())
    # Boxes that all begin at the border may fill their images.
    if not is_away:
        return dict(columns)
    table.notes.append(f"{', '.join(sides)}: read as sides of the boxes, not of the images")
    return {name: column for name, column in columns.items() if name not in sides}


def are_sides(low: F64, high: F64, lengths: F64) -> bool:
    """Return whether lengths are those of boxes between corners; one may be rounded, or count the
    last pixel.
    """
    return bool((np.abs(high - low - lengths)[np.isfinite(lengths)] <= 1).all())


def _box_layout(
    columns: Mapping[str, str], names: Sequence[str], file: str
) -> tuple[str, tuple[str, ...]]:
    """Return the one box format of which all columns are there, and their names."""
    whole = _whole(columns)
    # x1 y1 is the second corner beside x0 y0 and the first one beside x2 y2; 2D is part of 3D.
    largest = []
    for kind, box in whole:
        if not any(set(box) < set(other) for _, other in whole):
            largest.append((kind, box))
    if len(largest) == 1:
        return largest[0]
    raise _unclear_box(names, file)


def _unclear_box(names: Sequence[str], file: str) -> InputError:
    """Return the error of a table whose columns are no box, or more than one."""
    return InputError(
        "one box: x0 y0 x1 y1, or x y w h, or cx cy w h (3D: with z)",
        rule="box-columns",
        file=file,
        location="1",
        value=list(names),
        hint="rename the columns, or name them with columns={'x0': ...} (--columns x0=NAME)",
    )


def _checked_box_format(
    implied: str, box: tuple[str, ...], box_format: str | None, file: str
) -> str:
    """Return the box format: the names fix the layout, the option may add what names cannot say.

    That is, whether boxes are normalised or inclusive.
    """
    if box_format is None:
        return implied
    layout = box_format.split("-")[0]
    # The names x, y, w, h do not tell a corner from a centre, so the option may.
    if layout == implied or (box[0] == "x" and layout == "cxcywh") or box[0].startswith(PARTS):
        return box_format
    raise InputError(
        f"the box format {implied}, as the columns {' '.join(box)} say",
        rule="box-format",
        file=file,
        value=box_format,
        hint="leave --box-format out, or rename the columns",
    )


def existing_column(table: FileTable, what: str, name: str) -> str:
    """Return the name of a column that exists, or say which is near."""
    if (column := spelled(name, table.names)) in table.names:
        return str(column)
    raise missing_column(table, f"the column {name!r} ({what})", did_you_mean(name, table.names))


def missing_column(table: FileTable, expected: str, hint: str = "") -> InputError:
    """Return the error of a table without a column, which shows those that it has."""
    return InputError(
        expected,
        rule="missing-column",
        file=table.file,
        location="1",
        value=list(table.names),
        hint=hint,
    )
