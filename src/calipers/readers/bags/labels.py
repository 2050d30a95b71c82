# SPDX-License-Identifier: Apache-2.0
"""What is known of bags: positive or not, patients and centres, boxes of what is to be found, or
masks of it.
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
    """What is known of the bags, in their order."""

    known: Flags | None = None  # (n_bags,) as a table says it
    groups: Mapping[str, Column] = field(default_factory=dict)
    boxes: BagBoxes | None = None
    masks: tuple[Volume, ...] | None = None  # read when they are asked for
    notes: tuple[str, ...] = ()

    @cached_property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags have something to find; masks are gone through once for that."""
        if self.masks is None:
            return self.known
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
    rows = _matched(table, list(bags))
    boxes = read_boxes(table, rows, list(bags))
    known = _known(table, rows, boxes, list(bags))
    if boxes is not None:
        boxes = boxes.without_unknown(known, list(bags), table.file)
    groups, notes = _groups(table, rows, boxes)
    return Labels(known, groups, boxes, notes=(*table.notes, *notes))


def _masks(folder: Path, bags: Mapping[str, Volume], pattern: str | None) -> Labels:
    found = list_samples(folder, "label masks", pattern)
    _same_bags(str(folder), list(bags), list(found.files), "mask")
    masks = []
    notes = list(found.notes)
    for bag, volume in bags.items():
        mask = open_file(found.files[bag], "labels")
        notes += check_pair(volume, mask)
        masks.append(mask)
    return Labels(masks=tuple(masks), notes=tuple(dict.fromkeys(notes)))


def _vector(path: Path, bags: Sequence[str]) -> Labels:
    """Return the labels of an array, by position."""
    volume = open_one(path)
    if volume.shape != (len(bags),):
        value = " x ".join(map(str, volume.shape))
        hint = "an array of labels stands in the order of the bags; a table names them"
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


def _same_bags(file: str, bags: Sequence[str], named: Sequence[str], what: str) -> None:
    """Raise for the first bag without a label, then for the first label without a bag."""
    have, known = set(named), set(bags)
    lost = [bag for bag in bags if bag not in have]
    strange = (
        [name for name in named if name not in known] if len(have) > len(bags) - len(lost) else []
    )
    listed = f"{len(lost)} of {len(bags)} bags have none, {len(strange)} of {len(named)} are for other bags"
    shown = f"; the first of them is {strange[0]!r}" if strange else ""
    if lost:
        hint = f"{listed}{shown}: ids are compared letter by letter, so labels and maps have to call a bag the same"
        raise InputError(
            f"a {what} for every bag", rule=RULE, file=file, location=f"bag {lost[0]!r}", hint=hint
        )
    if strange:
        hint = f"{listed}: leave them out, or add their maps to every model"
        raise InputError(
            "bags that the models have", rule=RULE, file=file, value=strange[0], hint=hint
        )


def _matched(table: Table, bags: Sequence[str]) -> list[list[int]]:
    """Return the rows of every bag."""
    column = require_column(table, BAG, "bag")
    names = [unicodedata.normalize("NFC", name.strip()) for name in texts(table, column)]
    _same_bags(table.file, bags, list(dict.fromkeys(names)), "label")
    index = {bag: i for i, bag in enumerate(bags)}
    rows: list[list[int]] = [[] for _ in bags]
    for row, name in enumerate(names):
        rows[index[name]].append(row)
    return rows


def _known(
    table: Table, rows: list[list[int]], boxes: BagBoxes | None, bags: Sequence[str]
) -> Flags:
    """Return the label of every bag: of its column, else whether it has a box."""
    column = column_of(table, LABEL)
    if column is None:
        if boxes is None:
            require_column(table, LABEL, "label")
        assert boxes is not None
        return np.array([len(boxes.of[bag]) > 0 for bag in bags], np.bool_)
    hint = "write 1 for a bag that has something to find, else 0"
    blank = np.flatnonzero(empty(table.columns[column]))
    if len(blank):
        raise table.problem(int(blank[0]), column, RULE, "0 or 1", "", hint).as_error(table.file)
    values, bad = flags(table, column, RULE)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    found = np.zeros(len(bags), np.bool_)
    for i, own in enumerate(rows):
        if len(own) > 1 and boxes is None:
            hint = "a bag has several rows only where every row has a box"
            raise table.problem(
                own[1], column, "dup-bag", "one row per bag", bags[i], hint
            ).as_error(table.file)
        other = next((row for row in own if values[row] != values[own[0]]), None)
        if other is not None:
            expected = f"the label of the other rows of bag {bags[i]!r}"
            raise table.problem(
                other, column, RULE, expected, texts(table, column)[other]
            ).as_error(table.file)
        found[i] = values[own[0]]
    return found


def _groups(
    table: Table, rows: list[list[int]], boxes: BagBoxes | None
) -> tuple[dict[str, Column], list[str]]:
    """Return the columns that say one thing of every bag, and notes on those that do not."""
    used = {column_of(table, BAG), column_of(table, LABEL), *(boxes.columns if boxes else ())}
    others = [name for name in table.names if name not in used]
    words = {
        old: new for new, old in find_columns(others, {}, table.file).items() if new in IMAGE_LEVEL
    }
    found: dict[str, Column] = {}
    notes: list[str] = []
    for name in others:
        cells = texts(table, name)
        first = [own[0] for own in rows]
        if any(cells[row] != cells[own[0]] for own in rows for row in own):
            notes.append(
                f"{table.file}: column {name!r} differs between the rows of a bag and is no group"
            )
            continue
        held = table.columns[name]
        column = (
            text_column([cells[row] for row in first])
            if isinstance(held, list)
            else held[np.array(first)]
        )
        found[words.get(name, name)] = column
    return found, notes
