# SPDX-License-Identifier: Apache-2.0
"""Find the columns of a table of objects: canonical names, aliases, and the implied box format.

Find a column of a table by the user's choice or by known names, or raise for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.tables.table import Table

ALIASES: dict[str, tuple[str, ...]] = {
    "image": ("image", "image_id", "file_name", "filename"),
    "class": ("class", "class_name", "label", "category", "category_name"),
    "score": ("score", "confidence"),
    "model": ("model",),
    "ignore": ("ignore",),
    "crowd": ("crowd", "iscrowd"),
    "area": ("area",),
    "width": ("width", "image_width"),
    "height": ("height", "image_height"),
    "depth": ("depth", "image_depth"),
    "spacing": ("spacing",),
    "spacing_x": ("spacing_x",),
    "spacing_y": ("spacing_y",),
    "spacing_z": ("spacing_z",),
    "patient": ("patient", "patient_id", "patientid"),
    "centre": ("centre", "center", "centre_id", "center_id"),
}
IMAGE_LEVEL = ("patient", "centre")
SIZES = ("width", "height", "depth")
SPACINGS = ("spacing_x", "spacing_y", "spacing_z")
ONLY_REFERENCES = ("ignore", "crowd", "area", *SIZES, "spacing", *SPACINGS, *IMAGE_LEVEL)
ONLY_PREDICTIONS = ("score", "model")

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
)
BOX_NAMES = {name for _, names in BOX_LAYOUTS for name in names}


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
    names: Sequence[str], choices: Mapping[str, str], others: Sequence[str]
) -> dict[str, str]:
    """Return the user's choice of columns without ``others`` that this table does not have.

    One choice serves two files: references have no score, predictions no flags.
    """
    columns = {}
    for name, column in choices.items():
        if name not in others or column in names:
            columns[name] = column
    return columns


def find_columns(names: Sequence[str], choices: Mapping[str, str], file: str) -> dict[str, str]:
    """Return canonical name -> column, from the user's choice first, then from aliases."""
    for canonical, column in choices.items():
        if canonical not in ALIASES and canonical not in BOX_NAMES:
            suggestion = did_you_mean(canonical, [*ALIASES, *BOX_NAMES])
            raise UsageError(f"no column is called {canonical!r}; {suggestion}")
        if column not in names:
            raise InputError(
                f"the column {column!r} for {canonical!r}",
                rule="missing-column",
                file=file,
                value=list(names),
                hint=did_you_mean(column, names),
            )
    free = {name.lower(): name for name in reversed(names) if name not in choices.values()}
    columns = dict(choices)
    box_aliases = {name: (name,) for name in sorted(BOX_NAMES)}
    for canonical, aliases in {**ALIASES, **box_aliases}.items():
        match = next((alias for alias in aliases if alias in free), None)
        if canonical not in columns and match is not None:
            columns[canonical] = free.pop(match)
    return columns


def find_layout(
    names: Sequence[str], choices: Mapping[str, str], box_format: str | None, file: str
) -> Layout:
    """Return the layout of a table of objects, or raise for a column that is missing."""
    columns = find_columns(names, choices, file)
    for canonical in ("image", "class"):
        if canonical not in columns:
            raise InputError(
                f"a column {canonical!r}",
                rule="missing-column",
                file=file,
                location="1",
                value=list(names),
                hint="is the header missing? else name it: "
                f"columns={{{canonical!r}: ...}}, --columns {canonical}=NAME",
            )
    implied, box = _box_layout(columns, names, file)
    names_in_use = {columns[name] for name in (*ALIASES, *box) if name in columns}
    return Layout(
        columns=columns,
        box=tuple(columns[name] for name in box),
        box_format=_checked_box_format(implied, box, box_format, file),
        others=tuple(name for name in names if name and name not in names_in_use),
    )


def _box_layout(
    columns: Mapping[str, str], names: Sequence[str], file: str
) -> tuple[str, tuple[str, ...]]:
    """Return the one box format of which all columns are there, and their names."""
    whole = [layout for layout in BOX_LAYOUTS if set(layout[1]) <= set(columns)]
    # x1 y1 is the second corner beside x0 y0 and the first one beside x2 y2; 2D is part of 3D.
    largest = []
    for kind, box in whole:
        if not any(set(box) < set(other) for _, other in whole):
            largest.append((kind, box))
    if len(largest) == 1:
        return largest[0]
    raise InputError(
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
    if layout == implied or (box[0] == "x" and layout == "cxcywh"):
        return box_format
    raise InputError(
        f"the box format {implied}, as the columns {' '.join(box)} say",
        rule="box-format",
        file=file,
        value=box_format,
        hint="leave --box-format away, or rename the columns",
    )


def column_of(table: Table, aliases: Sequence[str]) -> str | None:
    """Return the column with the first of these names, whatever its case; None if there is none."""
    lower = {name.lower(): name for name in reversed(table.names)}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def find_column(table: Table, what: str, choice: str | None, aliases: Sequence[str]) -> str | None:
    """Return the column that the user chose, which has to exist, else the one with a known name."""
    if choice is not None:
        return existing_column(table, what, choice)
    return column_of(table, aliases)


def existing_column(table: Table, what: str, name: str) -> str:
    """Return the name of a column that exists, or say which is near."""
    if name in table.names:
        return name
    raise missing_column(table, f"the column {name!r} ({what})", did_you_mean(name, table.names))


def missing_column(table: Table, expected: str, hint: str = "") -> InputError:
    """Return the error of a table without a column, which shows those that it has."""
    return InputError(
        expected,
        rule="missing-column",
        file=table.file,
        location="1",
        value=list(table.names),
        hint=hint,
    )
