# SPDX-License-Identifier: Apache-2.0
"""Collect COCO records as columns: ids become indices, numbers go into arrays.

`calipers.io.coco.document` adds the records piece by piece, so that they never are in memory all at
once, and takes a `Delivery` and the findings at the end. Typed records come by `add`, records that
compiled code has scanned by `add_scanned`; both fill the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.data.objects import from_corners, to_corners
from calipers.data.rules import Delivery, Finding, Role
from calipers.errors import did_you_mean
from calipers.io.coco.masks import MaskColumns
from calipers.io.coco.records import (
    FLAG_RULES,
    FLAG_VALUES,
    CocoRecord,
    MaskedAnnotation,
    MaskedResult,
    id_problem,
)
from calipers.io.reader import Key
from calipers.kernels.route import RECORD_KEYS, RecordColumns

SHOWN_NAMES = 20
ODD = 2  # a flag that is neither 0 nor 1
TABLE_ROOM = 1 << 16  # entries that a table of ids may have at any rate


class ObjectColumns:
    """Collects the objects of one file, piece by piece.

    Parameters
    ----------
    images, classes
        Id as the file types it -> index.
    names
        Category id -> name, for messages.
    as_text
        Compare ids as text.
    box_format
        Of the boxes, also of those that are made from masks.
    masks
        Collects the masks; None: only boxes are read.
    obey_ignore
        Whether ``"ignore": 1`` is obeyed, which pycocotools overwrites by ``iscrowd``.
    """

    def __init__(
        self,
        role: Role,
        images: Mapping[Key, int],
        classes: Mapping[Key, int],
        *,
        names: Mapping[Key, str] | None = None,
        known_names: Sequence[str] = (),
        as_text: bool = False,
        dimensions: int = 2,
        box_format: str = "xywh",
        masks: MaskColumns | None = None,
        obey_ignore: bool = True,
    ) -> None:
        self.role, self.as_text, self.dimensions = role, as_text, dimensions
        self.obey_ignore = obey_ignore
        self.box_format, self.masks = box_format, masks
        self.index = {"image_id": images, "category_id": classes}
        self.names, self.known_names = names or {}, known_names
        self.columns: dict[str, NDArray[Any]] = {}  # filled up to n, with room to spare
        self.expected = 0
        self.lookups: dict[str, Callable[[I64], I64]] = {}
        self.ids: list[I64 | list[Key | None]] = []  # of every piece
        self.mask_areas: list[tuple[I64, F64]] = []  # of records without a box
        self.strange: dict[str, list[tuple[int, Key]]] = {"image_id": [], "category_id": []}
        self.odd_flags: dict[str, list[tuple[int, object]]] = {"iscrowd": [], "ignore": []}
        self.n = 0
        self.n_scored = 0

    def add(self, records: Sequence[CocoRecord], places: I64) -> None:
        """Add some records; ``places`` are their numbers in the file."""
        n = len(records)
        image = self._codes("image_id", [record.image_id for record in records])
        label = self._codes("category_id", [record.category_id for record in records])
        self._keep_codes(image, label)
        self._add_boxes(records, image)
        self._keep_places(places)
        if self.role == "predictions":
            self._keep("score", np.array([record.score for record in records], np.float64))
        else:
            self._add_details(records)
        self.n += n

    @property
    def can_scan(self) -> bool:
        """Whether plain records can go from text to columns: boxes of images, ids as typed."""
        return self.dimensions == 2 and not self.as_text

    @property
    def required_keys(self) -> int:
        """The keys that a plain record must have, as bits."""
        keys = ["image_id", "category_id", "bbox"]
        if self.role == "predictions":
            keys.append("score")
        return sum(RECORD_KEYS[key] for key in keys)

    def add_scanned(self, records: RecordColumns, first: int) -> None:
        """Add plain records that are columns already, from number ``first`` of the file on."""
        n = len(records.keys)
        image = self._codes_of_numbers("image_id", records.image)
        self._keep_codes(image, self._codes_of_numbers("category_id", records.category))
        self._keep("boxes", records.box)
        self._keep_places(np.arange(first, first + n))
        # A scanned record has no segmentation; the collector of masks must count it all the same.
        if self.masks is not None:
            self.masks.skip(n)
        if self.role == "predictions":
            self._keep("score", records.score)
        else:
            self._keep_details(records)
        self.n += n

    def _keep_details(self, records: RecordColumns) -> None:
        """Keep what only references have: ids, areas and flags."""

        def has(key: str) -> NDArray[np.bool_]:
            return (records.keys & RECORD_KEYS[key]) > 0

        self.n_scored += int(has("score").sum())
        has_id = has("id")
        if has_id.all():
            self.ids.append(records.id)
        else:
            ids: list[Key | None] = records.id.tolist()
            for row in np.flatnonzero(~has_id).tolist():
                ids[row] = None
            self.ids.append(ids)
        self._keep("area", np.where(has("area"), records.area, np.nan))
        self._keep("crowd", records.crowd.view(np.int8))
        self._keep("ignore", records.ignore.view(np.int8))

    def _codes_of_numbers(self, field: str, keys: I64) -> I64:
        """Return the indices of ids that are whole numbers, -1 for those that nothing has."""
        codes = self._lookup(field)(keys)
        for row in np.flatnonzero(codes < 0).tolist():
            self.strange[field].append((self.n + row, int(keys[row])))
        return codes

    def _lookup(self, field: str) -> Callable[[I64], I64]:
        """Return the function from whole numbers to indices, which is made once."""
        if field not in self.lookups:
            self.lookups[field] = _number_lookup(self.index[field])
        return self.lookups[field]

    def delivery(self) -> Delivery:
        """Return the columns."""
        empty: dict[str, Any] = {
            "image": np.zeros(0, np.int32),
            "label": np.zeros(0, np.int32),
            "boxes": np.zeros((0, 2 * self.dimensions)),
            "place": None,
        }
        if self.role == "predictions":
            empty["score"] = np.zeros(0)
        columns_so_far: dict[str, Any] = {
            name: column[: self.n] for name, column in self.columns.items()
        }
        columns = {**empty, **columns_so_far}
        if self.role == "predictions":
            columns["area"] = self._areas(columns["image"], columns["boxes"])
        elif not self.obey_ignore and "ignore" in columns:
            columns["ignore"] = np.zeros_like(columns["ignore"])
        masks = None if self.masks is None else self.masks.masks()
        return Delivery(box_format=self.box_format, masks=masks, **columns)

    def ignore_notes(self) -> list[str]:
        """Say what became of ``"ignore": 1``, where pycocotools would do something else."""
        if "ignore" not in self.columns:
            return []
        ignore, crowd = self.columns["ignore"][: self.n], self.columns["crowd"][: self.n]
        n = int(((ignore == 1) & (crowd == 0)).sum())
        if not n:
            return []
        words = "is not obeyed, as in pycocotools"
        if self.obey_ignore:
            words = "is obeyed; pycocotools overwrites it by iscrowd (so does --coco-ignore off)"
        return [f'"ignore": 1 of {n} annotations {words}']

    def findings(self) -> list[Finding]:
        """Return the broken rules of ids, flags and masks.

        Rows are those of the delivery before any record is set aside.
        """
        findings = [*self._strange_ids(), *self._repeated_ids()]
        for name, rule in FLAG_RULES.items():
            rows, flags = _columns_of(self.odd_flags[name])
            if len(rows):
                findings.append(Finding(rule, name, FLAG_VALUES, rows, flags))
        if self.masks is not None:
            findings += self.masks.findings()
        return findings

    def expect(self, n: int, size: int, total: int) -> None:
        """Make room for ``total`` bytes of records, if the first ``n`` of them take ``size`` bytes.

        Pages that are never touched cost no memory; joining many pieces would.
        """
        if not self.expected:
            # Estimated from the first piece; a wrong guess costs a copy in `_keep`, nothing else.
            self.expected = int(1.02 * n * total / max(size, 1)) + 1  # with 2 % to spare

    def _add_boxes(self, records: Sequence[Any], image: I64) -> None:
        """Take the boxes, and the masks if there are any.

        A record without a box gets the box around its mask.
        """
        n, width = len(records), 2 * self.dimensions
        boxes = [record.bbox for record in records]
        has_masks = n > 0 and isinstance(records[0], MaskedAnnotation | MaskedResult)
        boxless = np.zeros(n, np.bool_)
        if has_masks:
            boxless = np.array([box is UNSET or box is None for box in boxes], np.bool_)
            for row in np.flatnonzero(boxless).tolist():
                boxes[row] = (np.nan,) * width
        column = np.fromiter(chain.from_iterable(boxes), np.float64, n * width).reshape(n, width)
        if self.masks is not None and not has_masks:
            self.masks.skip(n)
        elif self.masks is not None:
            masks = self.masks.add([record.segmentation for record in records], image, boxless)
            rows = np.flatnonzero(boxless)
            if len(rows):
                corners = masks[rows].boxes()
                # In the format of the file, because the rules convert all boxes together later.
                column[rows] = from_corners(corners, self.box_format, self.masks.size[image[rows]])
                self.mask_areas.append((self.n + rows, masks.voxels[rows].astype(np.float64)))
        self._keep("boxes", column)

    def _areas(self, image: I64, boxes: F64) -> F64 | None:
        """Return the areas of predictions: of the mask where it gave the box, else of the box.

        None if there are no masks at all.
        """
        if self.masks is None or not (self.mask_areas or self.masks.has_masks):
            return None
        _, area = to_corners(boxes, self.box_format, self.masks.size[image])
        for rows, pixels in self.mask_areas:
            area[rows] = pixels
        return area

    def _keep_codes(self, image: I64, label: I64) -> None:
        """Keep images and classes in half the room: there are fewer than 2^31 of either."""
        self._keep("image", image.astype(np.int32))
        self._keep("label", label.astype(np.int32))

    def _keep_places(self, places: I64) -> None:
        """Keep the numbers of records, from the first one on that is not the number of its row."""
        if "place" not in self.columns:
            if np.array_equal(places, np.arange(self.n, self.n + len(places))):
                return
            self.columns["place"] = np.arange(self.n)
        self._keep("place", places)

    def _keep(self, name: str, part: NDArray[Any]) -> None:
        stop = self.n + len(part)
        column = self.columns.get(name)
        if column is None or stop > len(column):
            # Half as much again, so that many pieces cost few copies.
            room = np.empty(
                (max(self.expected, stop, self.n * 3 // 2), *part.shape[1:]), part.dtype
            )
            if column is not None:
                room[: self.n] = column[: self.n]
            self.columns[name] = column = room
        column[self.n : stop] = part

    def _add_details(self, records: Sequence[Any]) -> None:
        """Take what only references have: ids, areas and flags."""
        n = len(records)
        self.n_scored += n - [record.score for record in records].count(UNSET)
        areas: list[float] = []
        ids: list[Key | None] = []
        for record in records:
            ids.append(None if record.id is UNSET else record.id)
            areas.append(np.nan if record.area is UNSET or record.area is None else record.area)
        self.ids.append(ids)
        self._keep("area", np.array(areas, np.float64))
        for name, column_name in (("iscrowd", "crowd"), ("ignore", "ignore")):
            flags = [getattr(record, name) for record in records]
            column = _flag_column(flags)
            for row in np.flatnonzero(column == ODD).tolist():
                self.odd_flags[name].append((self.n + row, flags[row]))
            self._keep(column_name, column)

    def _codes(self, field: str, keys: Sequence[Key]) -> I64:
        index = self.index[field]
        keys_as_typed = map(str, keys) if self.as_text else keys
        codes = np.fromiter(map(index.get, keys_as_typed, repeat(-1)), np.int64, len(keys))
        for row in np.flatnonzero(codes < 0).tolist():
            self.strange[field].append((self.n + row, keys[row]))
        return codes

    def _strange_ids(self) -> list[Finding]:
        """Return the ids that belong to no image or category, by field and rule."""
        findings = []
        for field, entries in self.strange.items():
            by_rule: dict[str, list[tuple[int, Key]]] = {}
            for row, key in entries:
                by_rule.setdefault(self._rule(field, key), []).append((row, key))
            for rule, group in by_rule.items():
                rows, keys = _columns_of(group)
                problem = id_problem(keys[0])
                if problem:
                    # No id at all: what it might belong to is no question.
                    findings.append(Finding(rule, field, problem[1], rows, keys))
                    continue
                values = [self._name(key) for key in keys]
                hint = self._hint(field, rule, values)
                findings.append(Finding(rule, field, self._expected(field), rows, values, hint))
        return findings

    def _name(self, key: Key) -> object:
        """Return the name of a category for messages, else its id."""
        return self.names.get(str(key) if self.as_text else key, key)

    def _rule(self, field: str, key: Key) -> str:
        problem = id_problem(key)
        if problem:
            return problem[0]
        # The same id in the other type: the mistake is the type, not the image.
        other = str(key) if isinstance(key, int) else _as_whole(key)
        if other in self.index[field] and not self.as_text:
            return "id-type"
        if self.role == "references":
            return "dangling"
        return "unknown-image" if field == "image_id" else "unknown-category"

    def _expected(self, field: str) -> str:
        noun = "an image" if field == "image_id" else "a category"
        if self.role == "predictions":
            return f"{noun} of the references"
        return f"{noun} that is listed"

    def _hint(self, field: str, rule: str, values: Sequence[object]) -> str:
        if rule == "id-type":
            return '1 and "1" are different ids; to compare all ids as text pass --ids-as-strings'
        if field == "image_id":
            if self.role == "predictions":
                return (
                    "every predicted image must be in the references, "
                    "if need be without annotations"
                )
            return "is an image missing from the list?"
        if isinstance(values[0], str):
            return did_you_mean(values[0], [*self.known_names[:SHOWN_NAMES]])
        return "known: " + ", ".join(list(map(str, self.index[field]))[:SHOWN_NAMES])

    def _repeated_ids(self) -> list[Finding]:
        """Return the annotations whose id is taken, or that have no id that can be used."""
        if _all_differ(self.ids):
            return []
        findings = []
        ids: list[Key | None] = []
        for part in self.ids:
            ids += part if isinstance(part, list) else part.tolist()
        earlier_ids: set[Key] = set()
        broken: dict[tuple[str, str], list[int]] = {}
        for row, key in enumerate(ids):
            if key is None:
                continue
            problem = id_problem(key)
            if problem is None and key in earlier_ids:
                problem = "dup-annotation", "unique annotation ids"
            if problem:
                broken.setdefault(problem, []).append(row)
            earlier_ids.add(key)
        for (rule, expected), rows in sorted(broken.items()):
            values = [ids[row] for row in rows]
            findings.append(Finding(rule, "id", expected, np.array(rows), values))
        return findings


def _all_differ(parts: Sequence[I64 | list[Key | None]]) -> bool:
    """Return whether all ids were scanned, so that they are in range, and differ."""
    numbers = [part for part in parts if not isinstance(part, list)]
    if len(numbers) < len(parts):
        return False
    ids = np.sort(np.concatenate([np.zeros(0, np.int64), *numbers]))
    return not bool((ids[1:] == ids[:-1]).any())


def _number_lookup(index: Mapping[Key, int]) -> Callable[[I64], I64]:
    """Return a function from whole numbers to their codes, -1 for unknown ones."""
    if set(map(type, index)) != {int}:
        index = {key: code for key, code in index.items() if isinstance(key, int)}
    numbers = np.fromiter(index, np.int64, len(index))
    codes = np.fromiter(index.values(), np.int64, len(index))
    order = np.argsort(numbers)
    numbers, codes = numbers[order], codes[order]
    if not len(numbers):
        return lambda ids: np.full(len(ids), -1)
    lowest, span = int(numbers[0]), int(numbers[-1]) - int(numbers[0]) + 1
    if span > TABLE_ROOM + 4 * len(numbers):

        def search(ids: I64) -> I64:
            # An id beyond the last would point behind the array; the comparison then refuses it.
            place = np.minimum(np.searchsorted(numbers, ids), len(numbers) - 1)
            return np.where(numbers[place] == ids, codes[place], -1)

        return search
    # Ids that lie close together are looked up in a table with an entry for every number.
    table = np.full(span + 1, -1, np.int64)
    table[numbers - lowest] = codes

    def look_up(ids: I64) -> I64:
        # Without a sign, ids below the lowest are far above the highest. The last entry of the
        # table is -1: all ids outside of it end there.
        place = (ids - lowest).view(np.uint64)
        return table[np.minimum(place, np.uint64(span)).view(np.int64)]

    return look_up


def _columns_of(entries: Sequence[tuple[int, Any]]) -> tuple[I64, list[Any]]:
    """Return the rows and the values of (row, value) pairs."""
    rows = np.array([row for row, _ in entries], np.int64)
    return rows, [value for _, value in entries]


def _flag_column(flags: list[Any]) -> NDArray[np.int8]:
    """Return 0 and 1 as they are (missing is 0), anything else as ODD, which is refused later."""
    distinct = set(flags)
    # Most files have no flags at all.
    if distinct <= {UNSET, 0}:
        return np.zeros(len(flags), np.int8)
    codes = dict.fromkeys(distinct, ODD)
    for flag in distinct:
        if flag is UNSET:
            codes[flag] = 0
        elif flag in (0, 1):
            codes[flag] = int(flag)
    return np.array([codes[flag] for flag in flags], np.int8)


def _as_whole(text: str) -> int | None:
    """Return the whole number that a text of moderate length writes, else None."""
    if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20:
        return int(text)
    return None
