# SPDX-License-Identifier: Apache-2.0
"""Segmentations of some records to runs down columns: sorted by kind, checked, drawn all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import coco_rle, polygons, ragged
from calipers.kernels.run_order import Runs
from calipers.kernels.self_crossing import self_crossing
from calipers.readers.coco_segments import Odd, Polygons, RunLengths, Segmentation
from calipers.tables.delivery import Finding

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_PIXELS = 250_000_000  # of one image
LARGEST_COORDINATE = 1e6
MOST_CORNERS = 1_000_000  # of one object
MOST_CROSSINGS = 1 << 24  # of one object: what drawing it costs
FEWEST_NUMBERS = 6

KIND_HINT = (
    "compressed text of COCO, or a list of whole numbers; pairs of start and length are another kind of run lengths"
)
LENGTH_HINT = "counts go down the columns, outside and inside by turns, from the first pixel to the last"
SWAPPED = "size is [height, width]; these look like [width, height]"
IGNORE = "pass --masks ignore to evaluate the boxes only"


@dataclass
class Faults:
    """Broken rules by row, until it is known which of them matter."""

    entries: dict[tuple[str, str, str, bool], list[tuple[int, Any]]] = field(default_factory=dict)

    def add(
        self, rule: str, expected: str, rows: I64, values: Sequence[Any] | NDArray[Any], hint: str = IGNORE, *,
        whole_file: bool = False,
    ) -> None:  # fmt: skip
        """Enter rows that break a rule."""
        if len(rows):
            told = [value.tolist() if isinstance(value, np.generic | np.ndarray) else value for value in values]
            entries = self.entries.setdefault((rule, expected, hint, whole_file), [])
            entries += zip(rows.tolist(), told)

    @property
    def fatal(self) -> bool:
        """Whether one of them makes the file unusable."""
        return any(whole_file for _, _, _, whole_file in self.entries)

    def extend(self, other: Faults, first: int) -> None:
        """Take over the faults of a piece whose records begin with number ``first``."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend((first + row, value) for row, value in entries)

    def only(self, rows: I64) -> Faults:
        """Return the faults of some rows, and those of the whole file."""
        kept = set(rows.tolist())
        found = {
            key: [entry for entry in entries if key[3] or entry[0] in kept] for key, entries in self.entries.items()
        }
        return Faults({key: entries for key, entries in found.items() if entries})

    def findings(self) -> list[Finding]:
        """Return the broken rules."""
        return [
            Finding(
                rule,
                "segmentation",
                expected,
                np.array([row for row, _ in entries], np.int64),
                [value for _, value in entries],
                hint,
                whole_file,
            )
            for (rule, expected, hint, whole_file), entries in self.entries.items()
        ]


@dataclass(frozen=True)
class Segments:
    """The segmentations of n records by their kind, with the rows they are of."""

    n: int
    image: I64  # (n,)
    polygon: list[tuple[int, Polygons]]
    text: list[tuple[int, RunLengths]]
    numbers: list[tuple[int, RunLengths]]
    odd: list[tuple[int, Odd]]

    @classmethod
    def sort(cls, given: Sequence[Segmentation], rows: I64, image: I64) -> Segments:
        """Sort those of some rows."""
        found = cls(len(given), image, [], [], [], [])
        for row in rows.tolist():
            one = given[row]
            if isinstance(one, RunLengths):
                (found.text if isinstance(one.counts, str) else found.numbers).append((row, one))
            elif isinstance(one, list):
                found.polygon.append((row, one))
            elif isinstance(one, Odd):
                found.odd.append((row, one))
        return found


class Drawn(NamedTuple):
    """Runs down the columns of the rows that are sound, in ascending order of rows."""

    rows: I64
    columns: Runs
    size: I64
    n_crossed: int
    n_unknown: int


def columns_of(segments: Segments, known: F64, faults: Faults) -> Drawn:
    """Return the runs of all sound segmentations; the others are entered as faults.

    ``known`` are the (n_images, 2) sizes of the images; what is unknown is filled from run lengths.
    """
    for row, odd in segments.odd:
        faults.add(odd.rule, odd.expected, np.array([row]), [odd.value], odd.hint or IGNORE)
    lengths = [*segments.text, *segments.numbers]
    sized = _sized([row for row, _ in lengths], [one.size for _, one in lengths], segments.image, known, faults)
    parts = [
        _from_text([(row, one) for row, one in segments.text if row in sized], sized, faults),
        _from_numbers([(row, one) for row, one in segments.numbers if row in sized], sized, faults),
    ]
    drawn, n_crossed, n_unknown = _from_polygons(segments, known, faults)
    parts.append(drawn)
    rows = np.concatenate([part[0] for part in parts])
    order = np.argsort(rows)
    joint = ragged.concat_offsets([part[1][0] for part in parts])
    runs, offsets = ragged.take_rows(joint, order)
    start, length = (np.concatenate([part[1][k] for part in parts])[runs] for k in (1, 2))
    size = np.concatenate([part[2] for part in parts])[order]
    return Drawn(rows[order], (offsets, start, length), size, n_crossed, n_unknown)


Part = tuple[I64, Runs, I64]  # rows, runs down columns, sizes


def _sized(rows: list[int], given: list[list[int]], image: I64, known: F64, faults: Faults) -> dict[int, list[int]]:
    """Return row -> [width, height] of run lengths whose size is that of their image."""
    at = np.array(rows, np.int64)
    pair = np.array([len(size) == 2 and min(size) > 0 for size in given], np.bool_)
    odd = np.flatnonzero(~pair)
    faults.add("rle-size", "a size of two whole numbers above zero [height, width]", at[odd], [given[k] for k in odd])
    at = at[pair]
    size = np.array([one for one, fits in zip(given, pair) if fits], np.int64).reshape(-1, 2)[:, ::-1]
    large = size[:, 0].astype(np.float64) * size[:, 1] > MOST_PIXELS
    faults.add("too-large", f"at most {MOST_PIXELS} pixels", at[large], size[large][:, ::-1], whole_file=True)
    unknown = np.flatnonzero(np.isnan(known[image[at]]).any(axis=1) & ~large)
    images, first = np.unique(image[at[unknown]], return_index=True)
    known[images] = size[unknown[first]]
    wanted = known[image[at]]
    other = ~large & (wanted != size).any(axis=1)
    swapped = other & (wanted == size[:, ::-1]).all(axis=1)
    for wrong, hint in ((swapped, SWAPPED), (other & ~swapped, IGNORE)):
        said = [f"{h} x {w}, the image has {hk:g} x {wk:g}" for (w, h), (wk, hk) in zip(size[wrong], wanted[wrong])]
        faults.add("rle-size", "the height and width of the image", at[wrong], said, hint)
    sound = ~large & ~other
    return dict(zip(at[sound].tolist(), size[sound].tolist()))


def _from_text(given: list[tuple[int, RunLengths]], sized: dict[int, list[int]], faults: Faults) -> Part:
    rows = np.array([row for row, _ in given], np.int64)
    texts: list[Any] = [one.counts for _, one in given]
    counts = coco_rle.decode_text(ragged.from_counts(np.array(list(map(len, texts)), np.int64)), _characters(texts))
    for fault, expected in (
        (coco_rle.BAD_SIGN, "compressed run lengths, whose characters lie between '0' and 'o'"),
        (coco_rle.UNFINISHED, "compressed run lengths that do not end within a number"),
        (coco_rle.TOO_LONG, "compressed run lengths whose numbers fit a picture"),
    ):
        bad = counts.faults == fault
        faults.add("rle-kind", expected, rows[bad], [texts[k] for k in np.flatnonzero(bad)], KIND_HINT)
    return _filled(rows, counts.offsets, counts.counts, sized, faults, skip=counts.faults != coco_rle.SOUND)


def _characters(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Return all characters as numbers; what is not ASCII becomes 255, which no run lengths have."""
    joint = "".join(texts)
    if joint.isascii():
        return np.frombuffer(joint.encode("ascii"), np.uint8)
    return np.minimum(np.frombuffer(joint.encode("utf-32-le", "surrogatepass"), np.uint32), 255).astype(np.uint8)


def _from_numbers(given: list[tuple[int, RunLengths]], sized: dict[int, list[int]], faults: Faults) -> Part:
    rows = np.array([row for row, _ in given], np.int64)
    numbers: list[Any] = [one.counts for _, one in given]
    offsets = ragged.from_counts(np.array(list(map(len, numbers)), np.int64))
    counts = np.fromiter(chain.from_iterable(numbers), np.int64, int(offsets[-1]))
    return _filled(rows, offsets, counts, sized, faults, skip=np.zeros(len(rows), np.bool_))


def _filled(
    rows: I64, offsets: I64, counts: I64, sized: dict[int, list[int]], faults: Faults, *, skip: Flags
) -> Part:  # fmt: skip
    """Return the runs of counts that fill their picture."""
    size = np.array([sized[row] for row in rows.tolist()], np.int64).reshape(-1, 2)
    wrong = coco_rle.count_faults(offsets, counts, size)
    total = np.bincount(ragged.owners(offsets), counts, len(rows))
    for fault, expected in (
        (coco_rle.NEGATIVE, "counts that are not negative"),
        (coco_rle.SHORT, "counts that add up to height times width"),
        (coco_rle.LONG, "counts that add up to height times width"),
    ):
        bad = (wrong == fault) & ~skip
        said = [f"{int(sum_)} of {h} x {w} = {h * w}" for sum_, (w, h) in zip(total[bad].tolist(), size[bad].tolist())]
        faults.add("rle-length", expected, rows[bad], said, LENGTH_HINT)
    sound = np.flatnonzero((wrong == coco_rle.SOUND) & ~skip)
    kept, offsets = ragged.take_rows(offsets, sound)
    return rows[sound], coco_rle.column_runs(offsets, counts[kept]), size[sound]


def _from_polygons(segments: Segments, known: F64, faults: Faults) -> tuple[Part, int, int]:
    rows = np.array([row for row, _ in segments.polygon], np.int64)
    size = known[segments.image[rows]]
    whole = np.asarray((size == np.floor(size)).all(axis=1))  # not of NaN
    hint = "give width and height of the image, or pass --masks ignore"
    faults.add("size-unknown", "an image size in whole pixels, to draw a polygon in", rows[~whole], size[~whole], hint)
    large = whole & (size[:, 0] * size[:, 1] > MOST_PIXELS)
    faults.add("too-large", f"at most {MOST_PIXELS} pixels", rows[large], size[large], whole_file=True)
    bad = ~whole | large | _ill_formed(rows, [one for _, one in segments.polygon], whole & ~large, faults)
    rows, size = rows[~bad], size[~bad].astype(np.int64)
    shapes = [one for (_, one), left_out in zip(segments.polygon, bad) if not left_out]
    objects, rings, corners = _flat(shapes)
    costly = polygons.crossing_counts(rings, corners, objects, size) > MOST_CROSSINGS
    said = f"an outline that crosses at most {MOST_CROSSINGS} columns"
    faults.add("too-large", said, rows[costly], [len(shapes[k]) for k in np.flatnonzero(costly)], whole_file=True)
    if costly.any():
        return (rows[:0], (np.zeros(1, np.int64), rows[:0], rows[:0]), size[:0]), 0, 0
    crossed, unknown = (np.unique(ragged.owners(objects)[flags]) for flags in self_crossing(rings, corners))
    columns = polygons.column_runs(rings, corners, objects, size)
    return (rows, columns, size), len(crossed), len(unknown)


def _ill_formed(rows: I64, shapes: list[Polygons], judged: Flags, faults: Faults) -> Flags:
    """Return which polygons have rings of a wrong length, or corners too far away or too many."""
    objects, lengths, numbers = _flat_numbers(shapes)
    owner = ragged.owners(objects)
    odd = np.zeros(len(rows), np.bool_)
    for expected, wrong in (
        ("rings of an even number of coordinates", lengths % 2 != 0),
        (f"rings of at least {FEWEST_NUMBERS} numbers, three corners", lengths < FEWEST_NUMBERS),
    ):
        bad = judged & ~odd & (np.bincount(owner, wrong, len(rows)) > 0)
        shortest = {int(k): int(n) for k, n in zip(owner[wrong][::-1], lengths[wrong][::-1])}
        faults.add("polygon", expected, rows[bad], [f"{shortest[k]} numbers" for k in np.flatnonzero(bad).tolist()])
        odd |= bad
    of_number = np.repeat(owner, lengths)
    far = ~(np.abs(numbers) <= LARGEST_COORDINATE)
    bad = judged & ~odd & (np.bincount(of_number, far, len(rows)) > 0)
    worst = {int(k): float(x) for k, x in zip(of_number[far][::-1], numbers[far][::-1])}
    said = f"coordinates of at most {LARGEST_COORDINATE:g}"
    faults.add("polygon", said, rows[bad], [worst[k] for k in np.flatnonzero(bad).tolist()])
    many = judged & (np.bincount(owner, lengths, len(rows)) > 2 * MOST_CORNERS)
    said = f"at most {MOST_CORNERS} corners"
    faults.add("too-large", said, rows[many], np.bincount(owner, lengths, len(rows))[many] / 2, whole_file=True)
    return odd | bad | many


def _flat_numbers(shapes: list[Polygons]) -> tuple[I64, I64, F64]:
    """Return (rings of each object, numbers of each ring, all numbers)."""
    objects = ragged.from_counts(np.array(list(map(len, shapes)), np.int64))
    lengths = np.fromiter(map(len, chain.from_iterable(shapes)), np.int64, int(objects[-1]))
    numbers = chain.from_iterable(chain.from_iterable(shapes))
    return objects, lengths, np.fromiter(numbers, np.float64, int(lengths.sum()))


def _flat(shapes: list[Polygons]) -> tuple[I64, I64, F64]:
    """Return (rings of each object, corners of each ring, all corners) of well-formed polygons."""
    objects, lengths, numbers = _flat_numbers(shapes)
    return objects, ragged.from_counts(lengths // 2), numbers.reshape(-1, 2)
