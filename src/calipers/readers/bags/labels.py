# SPDX-License-Identifier: Apache-2.0
"""Read the labels of bags: positive or not, groups such as patient and centre, boxes or masks.

`reading.read_bags` calls `read_labels` with a table, a folder of masks or an array.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers.bags.arrays import open_one
from calipers.readers.bags.boxes import BagBoxes, read_boxes
from calipers.readers.bags.columns import BAG, LABEL, require_column
from calipers.readers.bags.folders import open_file
from calipers.readers.layout import IMAGE_LEVEL, find_columns
from calipers.readers.parts import text_column
from calipers.readers.plain import read_plain
from calipers.readers.table_columns import column_of
from calipers.readers.tabular import Table, empty, flags, texts
from calipers.readers.volumes.agreement import check_pair
from calipers.readers.volumes.names import list_samples
from calipers.readers.volumes.values import as_labels
from calipers.readers.volumes.volume import Volume
from calipers.tables.bags import Column, Flags

I64 = NDArray[np.int64]
RULE = "labels-differ"


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
    if source.is_dir():
        return _masks(source, bags, pattern)
    if source.name.lower().endswith(".npy"):
        return _vector(source, list(bags))
    table, _ = read_plain(source)
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


def _rows_of_bags(table: Table, bags: Sequence[str]) -> list[list[int]]:
    """Return the rows of every bag."""
    column = require_column(table, BAG, "bag")
    names = [unicodedata.normalize("NFC", name.strip()) for name in texts(table, column)]
    _same_bags(table.file, bags, list(dict.fromkeys(names)), "label")
    index = {bag: i for i, bag in enumerate(bags)}
    rows: list[list[int]] = [[] for _ in bags]
    for row, name in enumerate(names):
        rows[index[name]].append(row)
    return rows


def _bag_flags(
    table: Table, rows: list[list[int]], boxes: BagBoxes | None, bags: Sequence[str]
) -> Flags:
    """Return the label of every bag: from the column of labels, else whether it has a box."""
    column = column_of(table, LABEL)
    if column is None:
        if boxes is None:
            require_column(table, LABEL, "label")
        assert boxes is not None
        return np.array([len(boxes.of[bag]) > 0 for bag in bags], np.bool_)
    hint = "write 1 for a bag with a finding, else 0"
    blank = np.flatnonzero(empty(table.columns[column]))
    if len(blank):
        raise table.problem(int(blank[0]), column, RULE, "0 or 1", "", hint).as_error(table.file)
    values, bad = flags(table, column, RULE)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    positive = np.zeros(len(bags), np.bool_)
    for i, own in enumerate(rows):
        if len(own) > 1 and boxes is None:
            hint = "a bag may have several rows only if every row has a box"
            raise table.problem(
                own[1], column, "dup-bag", "one row per bag", bags[i], hint
            ).as_error(table.file)
        other = next((row for row in own if values[row] != values[own[0]]), None)
        if other is not None:
            expected = f"the label of the other rows of bag {bags[i]!r}"
            raise table.problem(
                other, column, RULE, expected, texts(table, column)[other]
            ).as_error(table.file)
        positive[i] = values[own[0]]
    return positive


def _groups(
    table: Table, rows: list[list[int]], boxes: BagBoxes | None
) -> tuple[dict[str, Column], list[str]]:
    """Return the columns with one value per bag, and notes on those with several."""
    special = {column_of(table, BAG), column_of(table, LABEL)}
    if boxes is not None:
        special |= set(boxes.columns)
    others = [name for name in table.names if name not in special]
    # Aliases of columns of images, such as patient and centre, get their common name.
    titles = {}
    for title, name in find_columns(others, {}, table.file).items():
        if title in IMAGE_LEVEL:
            titles[name] = title
    first = [own[0] for own in rows]
    groups: dict[str, Column] = {}
    notes: list[str] = []
    for name in others:
        cells = texts(table, name)
        if any(cells[row] != cells[own[0]] for own in rows for row in own):
            notes.append(
                f"{table.file}: column {name!r} differs between the rows of a bag and is no group"
            )
            continue
        column = table.columns[name]
        if isinstance(column, list):
            values = text_column([cells[row] for row in first])
        else:
            values = column[np.array(first)]
        groups[titles.get(name, name)] = values
    return groups, notes
