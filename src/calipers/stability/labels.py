# SPDX-License-Identifier: Apache-2.0
"""Read the labels of bags: positive or not, groups such as patient and centre, boxes or masks.

`calipers.stability.read` calls `read_labels` with a table, a folder of masks or an array and gets
`Labels` in the order of the bags. Every bag needs a label, and every label a bag. Which instances a
box makes positive is decided elsewhere (`calipers.stability.grid`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from calipers.arrays import F64, Column, Flags
from calipers.data.look_alikes import hint_on_names
from calipers.data.objects import to_corners
from calipers.errors import InputError
from calipers.io.archives import is_archive
from calipers.io.reader import text_column
from calipers.io.tables.columns import (
    BOX_LAYOUTS,
    BOXES,
    IMAGE_LEVEL,
    OBJECTS,
    ColumnSpec,
    declare,
    find_columns,
)
from calipers.io.tables.table import FileTable, open_table, strict_numbers, texts
from calipers.io.volumes.pairing import list_samples
from calipers.io.volumes.samples import check_pair
from calipers.io.volumes.values import as_labels
from calipers.io.volumes.volume import Volume
from calipers.stability.files import BAG, open_file, open_one

CORNERS = 4
RULE = "labels-differ"
LABEL = ColumnSpec(
    "label",
    ("label", "positive", "bag_label"),
    kind="flag",
    blank=False,
    rule=RULE,
    hint="write 1 for a bag with a finding, else 0",
)
# Boxes are in pixels of the image: its size tells which instances they cover.
SIDES = tuple(
    replace(OBJECTS[name], required=True, hint="boxes need the size of their image")
    for name in ("width", "height")
)


@dataclass(frozen=True)
class Labels:
    """The labels of the bags, in their order."""

    flags: Flags | None = None  # (n_bags,) positive or not, of a table or an array
    groups: Mapping[str, Column] = field(default_factory=dict)
    boxes: BagBoxes | None = None
    masks: tuple[Volume, ...] | None = None  # read when they are asked for
    notes: tuple[str, ...] = ()

    @cached_property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags are positive; all masks are read once for that."""
        if self.masks is None:
            return self.flags
        return np.array([self.mask(i).any() for i in range(len(self.masks))], np.bool_)

    def mask(self, i: int) -> Flags:
        """Return the mask of a bag, as one row."""
        assert self.masks is not None  # the callers ask only then
        volume = self.masks[i]
        return np.asarray(as_labels(volume.read(), "nonzero", file=volume.file).ravel() == 1)


@dataclass(frozen=True)
class BagBoxes:
    """Boxes of bags in pixels of their images; a bag not in `of` is positive, but has no box."""

    of: Mapping[str, F64]  # bag -> (n, 4) corners x0 y0 x1 y1; (0, 4): the bag is negative
    sizes: Mapping[str, tuple[float, float]]  # bag -> width, height of its image
    columns: tuple[str, ...] = ()  # of the table

    def without_unknown(self, positive: Flags, bags: Sequence[str], file: str) -> BagBoxes:
        """Return the boxes without the positive bags that have none: their place is unknown."""
        boxes: dict[str, F64] = {}
        for bag, is_positive in zip(bags, positive.tolist()):
            own = self.of[bag]
            # A box in a negative bag is a contradiction, and nobody knows which of the two is
            # right.
            if len(own) and not is_positive:
                raise InputError(
                    "no box in a bag of label 0",
                    rule="labels-differ",
                    file=file,
                    location=f"bag {bag!r}",
                    value=f"{len(own)} boxes",
                    hint="label the bag 1, or leave the cells of its box empty",
                )
            if len(own) or not is_positive:
                boxes[bag] = own
        sizes = {bag: size for bag, size in self.sizes.items() if bag in boxes}
        return replace(self, of=boxes, sizes=sizes)


def read_labels(source: Path, bags: Mapping[str, Volume], pattern: str | None = None) -> Labels:
    """Read labels of bags.

    Parameters
    ----------
    source
        A table with a row per bag (or per box), a folder of masks of the shape of the maps, or a
        ``.npy`` array of 0 and 1 in the order of the bags.
    bags
        The maps of one model by bag, in the order of the bags.
    """
    if source.is_dir() or is_archive(source):
        return _masks(source, bags, pattern)
    if source.name.lower().endswith(".npy"):
        return _vector(source, list(bags))
    table = open_table(source)
    rows = _rows_of_bags(table, list(bags))
    boxes = read_boxes(table, rows, list(bags))
    positive = _bag_flags(table, rows, boxes, list(bags))
    if boxes is not None:
        boxes = boxes.without_unknown(positive, list(bags), table.file)
    groups, notes = _groups(table, rows, boxes)
    return Labels(positive, groups, boxes, notes=(*table.notes, *notes))


def _masks(folder: Path, bags: Mapping[str, Volume], pattern: str | None) -> Labels:
    listing = list_samples(folder, "label masks", pattern)
    _same_bags(str(folder), list(bags), list(listing.files), "mask")
    masks = []
    notes = list(listing.notes)
    for bag, volume in bags.items():
        mask = open_file(listing.files[bag], "labels")
        notes += check_pair(volume, mask)
        masks.append(mask)
    return Labels(masks=tuple(masks), notes=tuple(dict.fromkeys(notes)))


def _vector(path: Path, bags: Sequence[str]) -> Labels:
    """Return the labels of an array, by position."""
    volume = open_one(path)
    if volume.shape != (len(bags),):
        value = " x ".join(map(str, volume.shape))
        hint = "an array of labels is in the order of the bags; a table names them"
        raise InputError(
            f"a label for each of {len(bags)} bags",
            rule=RULE,
            file=str(path),
            value=value,
            hint=hint,
        )
    values = volume.read()
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        at, value = f"[{wrong[0]}]", values[wrong[0]].item()
        raise InputError("labels of 0 and 1", rule=RULE, file=str(path), location=at, value=value)
    return Labels(values == 1)


def _same_bags(file: str, bags: Sequence[str], names: Sequence[str], what: str) -> None:
    """Raise for the first bag without a label, then for the first label without a bag."""
    label_ids, bag_ids = set(names), set(bags)
    absent = [bag for bag in bags if bag not in label_ids]
    strange = [name for name in names if name not in bag_ids]
    counts = (
        f"{len(absent)} of {len(bags)} bags have none, "
        f"{len(strange)} of {len(names)} are for other bags"
    )
    if absent:
        example = f"; the first of them is {strange[0]!r}" if strange else ""
        hint = (
            f"{counts}{example}: ids are compared letter by letter, "
            "so labels and maps must use the same ones"
        )
        raise InputError(
            f"a {what} for every bag",
            rule=RULE,
            file=file,
            location=f"bag {absent[0]!r}",
            hint=hint,
        )
    if strange:
        hint = f"{counts}: leave them out, or add their maps to every model"
        raise InputError(
            "bags that the models have", rule=RULE, file=file, value=strange[0], hint=hint
        )


def _rows_of_bags(table: FileTable, bags: Sequence[str]) -> list[list[int]]:
    """Return the rows of every bag."""
    column = BAG.require(table)
    spellings: dict[str, str] = {}
    names = []
    for row, cell in enumerate(texts(table, column)):
        name = unicodedata.normalize("NFC", cell.strip())
        if spellings.setdefault(name, cell) != cell:
            hint = hint_on_names(spellings[name], cell)
            raise table.error(row, column, "dup-name", "one spelling of every name", cell, hint)
        names.append(name)
    _same_bags(table.file, bags, list(dict.fromkeys(names)), "label")
    index = {bag: i for i, bag in enumerate(bags)}
    rows: list[list[int]] = [[] for _ in bags]
    for row, name in enumerate(names):
        rows[index[name]].append(row)
    return rows


def _bag_flags(
    table: FileTable, rows: list[list[int]], boxes: BagBoxes | None, bags: Sequence[str]
) -> Flags:
    """Return the label of every bag: from the column of labels, else whether it has a box."""
    column = LABEL.find(table)
    if column is None:
        if boxes is None:
            raise LABEL.missing(table)
        # No column of labels: a bag is positive if it has a box.
        return np.array([len(boxes.of[bag]) > 0 for bag in bags], np.bool_)
    values, bad = LABEL.read(table, column)
    table.refuse(bad.values())
    positive = np.zeros(len(bags), np.bool_)
    for i, own in enumerate(rows):
        if len(own) > 1 and boxes is None:
            hint = "a bag may have several rows only if every row has a box"
            raise table.error(own[1], column, "dup-bag", "one row per bag", bags[i], hint)
        other = next((row for row in own if values[row] != values[own[0]]), None)
        if other is not None:
            expected = f"the label of the other rows of bag {bags[i]!r}"
            raise table.error(other, column, RULE, expected, texts(table, column)[other])
        positive[i] = values[own[0]]
    return positive


def _differ(cells: Sequence[str], rows: Sequence[int]) -> bool:
    """Return whether some rows have different cells."""
    return any(cells[row] != cells[rows[0]] for row in rows)


def _groups(
    table: FileTable, rows: list[list[int]], boxes: BagBoxes | None
) -> tuple[dict[str, Column], list[str]]:
    """Return the columns with one value per bag, and notes on those with several."""
    special = {BAG.find(table), LABEL.find(table)}
    if boxes is not None:
        special |= set(boxes.columns)
    others = [name for name in table.names if name not in special]
    # Aliases of columns of images, such as patient and centre, get their common name.
    level = declare(*(OBJECTS[name] for name in IMAGE_LEVEL))
    titles = {name: title for title, name in find_columns(table, level).items()}
    first = [own[0] for own in rows]
    groups: dict[str, Column] = {}
    notes: list[str] = []
    for name in others:
        cells = texts(table, name)
        # A column of boxes, not of bags: it cannot be a group.
        if any(_differ(cells, own) for own in rows):
            notes.append(
                f"{table.file}: column {name!r} differs between the rows of a bag and is not a "
                "group"
            )
            continue
        column = table.columns[name]
        if isinstance(column, np.ndarray):
            values = column[np.array(first)]
        else:
            values = text_column([cells[row] for row in first])
        groups[titles.get(name, name)] = values
    return groups, notes


def read_boxes(table: FileTable, rows: list[list[int]], bags: Sequence[str]) -> BagBoxes | None:
    """Return the boxes of a table, with (0, 4) for bags without; None if it has no columns of
    boxes.
    """
    layout = _box_columns(table)
    if layout is None:
        return None
    kind, columns = layout
    size_columns = [side.require(table) for side in SIDES]
    cells = np.stack([strict_numbers(table, name) for name in columns], axis=1)
    # A row of four empty cells says that its bag has no box; one of some empty cells is refused.
    has_box: Flags = np.asarray(np.isfinite(cells).any(axis=1))
    sizes = np.stack([strict_numbers(table, name) for name in size_columns], axis=1)
    for row in np.flatnonzero(has_box).tolist():
        _check_box_row(table, row, columns, cells, size_columns, sizes)
    corners, _ = to_corners(cells, kind)
    is_empty = has_box & np.any(corners[:, 2:] <= corners[:, :2], axis=1)
    for row in np.flatnonzero(is_empty).tolist():
        value = [float(side) for side in corners[row]]
        raise table.error(row, columns[0], "zero-area", "a second corner beyond the first", value)
    boxes: dict[str, F64] = {}
    bag_sizes: dict[str, tuple[float, float]] = {}
    for bag, own in zip(bags, rows):
        boxes[bag] = corners[[row for row in own if has_box[row]]]
        size = _size(table, own, sizes, size_columns)
        if size is not None:
            bag_sizes[bag] = size
    return BagBoxes(boxes, bag_sizes, (*columns, *size_columns))


def _box_columns(table: FileTable) -> tuple[str, tuple[str, ...]] | None:
    for kind, names in BOX_LAYOUTS:
        columns = [BOXES[name].find(table) for name in names]
        if len(names) == CORNERS and all(columns):
            return kind, tuple(column for column in columns if column is not None)
    return None


def _check_box_row(
    table: FileTable,
    row: int,
    columns: Sequence[str],
    cells: F64,
    size_columns: Sequence[str],
    sizes: F64,
) -> None:
    """Raise for a row whose box or size is not whole."""
    for k in np.flatnonzero(~np.isfinite(cells[row])).tolist():
        raise table.error(
            row, columns[k], "box-shape", "four finite numbers, or four empty cells", cells[row, k]
        )
    for k in np.flatnonzero(~(np.isfinite(sizes[row]) & (sizes[row] > 0))).tolist():
        raise table.error(row, size_columns[k], "image-size", "a size above zero", sizes[row, k])


def _size(
    table: FileTable, own: Sequence[int], sizes: F64, columns: Sequence[str]
) -> tuple[float, float] | None:
    """Return the size of a bag, which all its rows must agree on; None if no row has it."""
    first: tuple[float, float] | None = None
    for row in own:
        if not np.isfinite(sizes[row]).all():
            continue
        size = (float(sizes[row, 0]), float(sizes[row, 1]))
        if first is None:
            first = size
        if size != first:
            raise table.error(row, columns[0], "size-conflict", "one size per image", list(size))
    return first
