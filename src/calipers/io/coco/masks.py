# SPDX-License-Identifier: Apache-2.0
"""The segmentations of COCO files: polygons and run lengths become runs down columns, or faults.

`MaskColumns` collects those of one file, piece by piece; `calipers.io.coco.columns` and the reader
of LARD call it. `segmentation_of` gives a value its typed form: `Polygons`, `RunLengths`, or `Odd`
for a value that is neither. `columns_of` sorts a piece by kind (polygons, run lengths as text or as
numbers), checks each kind and draws all of them at once. Broken sizes, texts, counts and outlines
are entered as `Faults`, because it is only known at the end which of them matter: masks are used
if every record has one, else only the boxes that they give.

COCO counts pixels down the columns, outside and inside by turns, from the first pixel to the last;
polygons are drawn as pycocotools does. Masks of Calipers run along rows, so the runs are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.masks import Masks, no_masks
from calipers.data.rules import Finding
from calipers.kernels import coco_rle, ragged, runs
from calipers.kernels import shapes as polygons
from calipers.kernels.runs import Runs
from calipers.kernels.shapes import self_crossing

# Far above the pixels of any picture, far below an overflow of 64 bits.
LARGEST_COUNT = 1 << 40

Count = Annotated[int, msgspec.Meta(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]

Polygons = list[list[float]]  # rings of x, y, x, y, ...

MOST_PIXELS = 250_000_000  # of one image
IGNORE = "pass --masks ignore to evaluate the boxes only"

Part = tuple[I64, Runs, I64]  # rows, runs down columns, sizes
KIND_HINT = (
    "COCO has compressed text, or a list of whole numbers; "
    "pairs of start and length are another kind"
)
LENGTH_HINT = (
    "counts run down the columns, alternately outside and inside, from the first pixel to the last"
)
SWAPPED = "size is [height, width]; these look like [width, height]"

LARGEST_COORDINATE = 1e6
# Limits on what one object may cost: a few bytes of polygon can cross millions of columns.
MOST_CORNERS = 1_000_000  # of one object
MOST_CROSSINGS = 1 << 23  # of one object: two make a run
CROSSINGS_AT_ONCE = 1 << 20  # drawing takes a hundred bytes for each
FEWEST_NUMBERS = 6

MOST_RUNS = 1 << 22  # of one mask
MAX_BYTES = 8 << 30  # of all runs of a file
FREE_BYTES = 1 << 25  # below this the size of the file does not matter
MAX_RATIO = 200
RUN_BYTES = 16
NO_RUNS = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class RunLengths(msgspec.Struct, gc=False):
    """Run lengths as text (compressed) or as numbers."""

    size: list[Count]  # height, width: two numbers, or a fault
    counts: str | list[Count]


@dataclass(frozen=True)
class Odd:
    """A value that is no segmentation at all: which rule it breaks, and how."""

    rule: str
    expected: str
    value: object
    hint: str = ""


Segmentation = RunLengths | Polygons | Odd | None | UnsetType


def segmentation_of(value: Any) -> Segmentation:
    """Return the typed form of any JSON value; nothing (null, an empty list) is None."""
    if value is UNSET or value is None or value == []:
        return None
    if isinstance(value, dict):
        return _run_lengths(value)
    if not isinstance(value, list):
        return Odd("polygon", "a list of polygons, or an object with size and counts", value)
    if not all(isinstance(ring, list) for ring in value):
        hint = "a polygon stands in a list of its own: [[x, y, x, y, ...]]"
        return Odd("polygon", "a list of lists of coordinates", value, hint)
    rings = []
    for ring in value:
        for number in ring:
            if not _is_number(number):
                return Odd("polygon", "coordinates that are numbers", number)
        rings.append(list(map(float, ring)))
    return rings


@dataclass
class Faults:
    """Broken rules by row, until it is known which of them matter."""

    entries: dict[tuple[str, str, str, bool], list[tuple[int, Any]]] = field(default_factory=dict)

    def add(
        self,
        rule: str,
        expected: str,
        rows: I64,
        values: Sequence[Any] | NDArray[Any],
        hint: str = IGNORE,
        *,
        whole_file: bool = False,
    ) -> None:
        """Enter rows that break a rule."""
        if not len(rows):
            return
        entries = self.entries.setdefault((rule, expected, hint, whole_file), [])
        for row, value in zip(rows.tolist(), values):
            if isinstance(value, np.generic | np.ndarray):
                value = value.tolist()
            entries.append((row, value))

    @property
    def fatal(self) -> bool:
        """Whether one of them makes the file unusable."""
        return any(whole_file for _, _, _, whole_file in self.entries)

    def extend(self, other: Faults, first: int) -> None:
        """Add the faults of a piece whose records begin with number ``first``."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend((first + row, value) for row, value in entries)

    def only(self, rows: I64) -> Faults:
        """Return the faults of some rows, and those of the whole file."""
        wanted_rows = set(rows.tolist())
        faults = Faults()
        for key, entries in self.entries.items():
            whole_file = key[3]
            selection = [entry for entry in entries if whole_file or entry[0] in wanted_rows]
            if selection:
                faults.entries[key] = selection
        return faults

    def findings(self) -> list[Finding]:
        """Return the broken rules."""
        findings = []
        for (rule, expected, hint, whole_file), entries in self.entries.items():
            rows = np.array([row for row, _ in entries], np.int64)
            values = [value for _, value in entries]
            findings.append(Finding(rule, "segmentation", expected, rows, values, hint, whole_file))
        return findings


@dataclass
class MaskColumns:
    """Collects the masks of one file.

    Parameters
    ----------
    choice
        ``auto``, ``required`` or ``ignore``.
    size
        (n_images, 2) width and height, NaN where unknown: a mask that states its size fills it, in
        a copy.
    file_bytes
        Size of the file: a small file does not become many gigabytes of runs.
    """

    choice: str
    size: F64
    file_bytes: int
    n: int = 0
    present: int = 0
    n_crossed: int = 0
    n_unknown: int = 0
    n_runs: int = 0
    n_crossings: int = 0
    parts: list[Masks] = field(default_factory=list)
    missing: list[I64] = field(default_factory=list)
    boxless: list[I64] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.size = self.size.copy()

    @property
    def has_masks(self) -> bool:
        """Whether the file has masks: all records so far have one, or masks are required."""
        return self.choice == "required" or (self.choice == "auto" and self.present == self.n)

    @property
    def most_runs(self) -> int:
        """How many runs the masks of this file may have: a small file is no gigabyte of runs."""
        return min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * self.file_bytes)) // RUN_BYTES

    def add(self, segmentations: Sequence[Segmentation], image: I64, boxless: Flags) -> Masks:
        """Take the segmentations of some records and return their masks; a fault gives no runs.

        Once it is known that not all records have a mask, only those without a box get one.
        """
        # An empty list, None and UNSET are all no segmentation.
        present = np.array([bool(segmentation) for segmentation in segmentations], np.bool_)
        first, self.n = self.n, self.n + len(segmentations)
        self.present += int(present.sum())
        self.missing.append(first + np.flatnonzero(~present))
        self.boxless.append(first + np.flatnonzero(boxless))
        to_draw = present & (image >= 0)
        # From here on masks are not used: what was drawn so far is dropped, and only boxes are
        # taken.
        if not self.has_masks:
            self.parts.clear()
            to_draw &= boxless
        masks = _without_runs(len(segmentations))
        # Most files have boxes alone.
        if to_draw.any():
            segments = Segments.sort(segmentations, np.flatnonzero(to_draw), image)
            masks = self._draw(segments, first)
        if self.has_masks:
            self.parts.append(masks)
        return masks

    def skip(self, n: int) -> None:
        """Take note of records without segmentations."""
        if self.choice == "required":
            self.missing.append(np.arange(self.n, self.n + n))
            self.parts.append(_without_runs(n))
        self.n += n

    def masks(self) -> Masks | None:
        """Return the masks of all objects, or None if not all have one."""
        if not self.has_masks:
            return None
        parts, self.parts = self.parts, []
        return Masks.concat(parts) if parts else no_masks()

    def findings(self) -> list[Finding]:
        """Return the faults of the masks that are used, or that a box was to be taken from."""
        faults = self.faults
        if not self.has_masks:
            faults = faults.only(_concat_rows(self.boxless))
        findings = faults.findings()
        missing = _concat_rows(self.missing)
        if self.choice == "required" and len(missing):
            hint = "pass --masks auto to evaluate the boxes of this file"
            values = ["no segmentation"] * len(missing)
            findings.append(
                Finding("mask-missing", "segmentation", "a segmentation", missing, values, hint)
            )
        return findings

    def notes(self) -> list[str]:
        """Say which masks are not used, and how many polygons cross themselves."""
        if not self.present:
            return []
        if not self.has_masks:
            rule = "masks are used only if every annotation has one, so only boxes are used"
            return [f"masks present in {self.present} of {self.n} annotations; {rule}"]
        notes = []
        if self.n_crossed:
            rule = "drawn as pycocotools does: what is enclosed twice is outside"
            notes.append(f"polygons cross themselves in {self.n_crossed} annotations; {rule}")
        if self.n_unknown:
            notes.append(
                f"polygons of {self.n_unknown} annotations have too many corners "
                "to tell if they cross themselves"
            )
        return notes

    def _draw(self, segments: Segments, first: int) -> Masks:
        """Return the masks of a piece, one for every record in it."""
        faults = Faults()
        crossings_left = 2 * self.most_runs - self.n_crossings
        drawing = columns_of(segments, self.size, faults, crossings_left)
        self.n_crossings += drawing.n_crossings
        self.n_crossed += drawing.n_crossed
        self.n_unknown += drawing.n_unknown
        # The number of runs along rows is known before they are made, and checked then.
        turn = runs.Turn.of(*drawing.columns, drawing.size[:, ::-1])
        self._check_runs(drawing.rows, turn.counts, faults)
        if faults.fatal:
            offsets, start, length = np.zeros(len(drawing.rows) + 1, np.int64), *NO_RUNS
        else:
            offsets, start, length = turn.runs()
        counts, sizes = np.zeros(segments.n, np.int64), np.ones((segments.n, 2), np.int64)
        counts[drawing.rows], sizes[drawing.rows] = np.diff(offsets), drawing.size
        self.faults.extend(faults, first)
        return Masks(ragged.from_counts(counts), start, length, sizes)

    def _check_runs(self, rows: I64, counts: I64, faults: Faults) -> None:
        """Refuse masks of too many runs before they take room, and those of none."""
        self.n_runs += int(counts.sum())
        most = self.most_runs
        large = counts > (MOST_RUNS if self.n_runs <= most else 0)
        expected = f"masks of at most {MOST_RUNS} runs, and {most} in this file"
        faults.add("too-large", expected, rows[large], counts[large], whole_file=True)
        empty = counts == 0
        faults.add("empty-mask", "a mask with at least one pixel", rows[empty], counts[empty])


def _without_runs(n: int) -> Masks:
    return Masks(np.zeros(n + 1, np.int64), *NO_RUNS, np.ones((n, 2), np.int64))


def _concat_rows(parts: list[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])


class SegmentRuns(NamedTuple):
    """Runs down the columns of the rows that are sound, in ascending order of rows."""

    rows: I64
    columns: Runs
    size: I64
    n_crossed: int  # records whose polygons cross themselves
    n_unknown: int  # records whose polygons may do so
    n_crossings: int  # of outlines with columns


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
    def sort(cls, segmentations: Sequence[Segmentation], rows: I64, image: I64) -> Segments:
        """Sort the segmentations of some rows by their kind."""
        segments = cls(len(segmentations), image, [], [], [], [])
        for row in rows.tolist():
            segmentation = segmentations[row]
            if isinstance(segmentation, RunLengths):
                is_text = isinstance(segmentation.counts, str)
                (segments.text if is_text else segments.numbers).append((row, segmentation))
            elif isinstance(segmentation, list):
                segments.polygon.append((row, segmentation))
            elif isinstance(segmentation, Odd):
                segments.odd.append((row, segmentation))
        return segments


def columns_of(
    segments: Segments, image_sizes: F64, faults: Faults, most_crossings: int
) -> SegmentRuns:
    """Return the runs of all sound segmentations; the others are entered as faults.

    ``image_sizes`` is (n_images, 2); unknown sizes are filled in from run lengths. Outlines that
    cross columns more often than ``most_crossings`` times are refused before they are drawn.
    """
    for row, odd in segments.odd:
        faults.add(odd.rule, odd.expected, np.array([row]), [odd.value], odd.hint or IGNORE)
    run_lengths = [*segments.text, *segments.numbers]
    sized = sized_rows(run_lengths, segments.image, image_sizes, faults)
    texts = [entry for entry in segments.text if entry[0] in sized]
    numbers = [entry for entry in segments.numbers if entry[0] in sized]
    parts = []
    if texts:
        parts.append(from_text(texts, sized, faults))
    if numbers:
        parts.append(from_numbers(numbers, sized, faults))
    outlines = from_polygons(segments.polygon, segments.image, image_sizes, faults, most_crossings)
    parts.append((outlines.rows, outlines.columns, outlines.size))
    rows = np.concatenate([part[0] for part in parts])
    # The three kinds were drawn apart: rows are brought back to the order of the file.
    order = np.argsort(rows)
    offsets = ragged.concat_offsets([part[1][0] for part in parts])
    start = np.concatenate([part[1][1] for part in parts])
    length = np.concatenate([part[1][2] for part in parts])
    runs, offsets = ragged.take_rows(offsets, order)
    size = np.concatenate([part[2] for part in parts])[order]
    columns = (offsets, start[runs], length[runs])
    return outlines._replace(rows=rows[order], columns=columns, size=size)


def sized_rows(
    segmentations: list[tuple[int, RunLengths]], image: I64, image_sizes: F64, faults: Faults
) -> dict[int, list[int]]:
    """Return row -> [width, height] of run lengths whose size is that of their image.

    The first mask of an image without a size fills it in ``image_sizes``.
    """
    rows, sizes = [], []
    for row, segmentation in segmentations:
        if len(segmentation.size) == 2 and min(segmentation.size) > 0:
            rows.append(row)
            sizes.append(segmentation.size)
        else:
            expected = "a size of two whole numbers above zero [height, width]"
            faults.add("rle-size", expected, np.array([row]), [segmentation.size])
    # COCO writes [height, width]; everything here is width, height.
    at = np.array(rows, np.int64)
    size = np.array(sizes, np.int64).reshape(-1, 2)[:, ::-1]
    large = size[:, 0].astype(np.float64) * size[:, 1] > MOST_PIXELS
    # The first mask of an image decides its size, and the later ones are compared with it.
    unknown = np.flatnonzero(np.isnan(image_sizes[image[at]]).any(axis=1) & ~large)
    images, first = np.unique(image[at[unknown]], return_index=True)
    image_sizes[images] = size[unknown[first]]
    image_size = image_sizes[image[at]]
    other = np.asarray(((image_size != size) & np.isfinite(image_size)).any(axis=1))
    # Swapped sides are the usual mistake, and get a hint of their own.
    swapped = other & (image_size == size[:, ::-1]).all(axis=1)
    for wrong, hint in ((swapped, SWAPPED), (other & ~swapped, IGNORE)):
        messages = []
        for (w, h), (image_w, image_h) in zip(size[wrong], image_size[wrong]):
            messages.append(f"{h} x {w}, the image has {image_h:g} x {image_w:g}")
        faults.add("rle-size", "the height and width of the image", at[wrong], messages, hint)
    large &= ~other
    expected = f"at most {MOST_PIXELS} pixels"
    faults.add("too-large", expected, at[large], size[large][:, ::-1], whole_file=True)
    sound = ~large & ~other
    return dict(zip(at[sound].tolist(), size[sound].tolist()))


def from_text(
    segmentations: list[tuple[int, RunLengths]], sized: dict[int, list[int]], faults: Faults
) -> Part:
    """Return the runs of compressed texts that are sound."""
    rows = np.array([row for row, _ in segmentations], np.int64)
    texts: list[Any] = [run_lengths.counts for _, run_lengths in segmentations]
    lengths = np.array(list(map(len, texts)), np.int64)
    counts = coco_rle.decode_text(ragged.from_counts(lengths), _characters(texts))
    for fault, expected in (
        (coco_rle.BAD_SIGN, "compressed run lengths, whose characters lie between '0' and 'o'"),
        (coco_rle.UNFINISHED, "compressed run lengths that do not end within a number"),
        (coco_rle.TOO_LONG, "compressed run lengths whose numbers fit a picture"),
    ):
        bad = np.flatnonzero(counts.faults == fault)
        faults.add("rle-kind", expected, rows[bad], [texts[k] for k in bad], KIND_HINT)
    # Texts that did not decode have been entered; their counts are not judged again.
    broken = counts.faults != coco_rle.SOUND
    return _complete_runs(rows, counts.offsets, counts.counts, sized, faults, skip=broken)


def _characters(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Return all characters as numbers; all but ASCII becomes 255, which no run lengths have."""
    joint = "".join(texts)
    if joint.isascii():
        return np.frombuffer(joint.encode("ascii"), np.uint8)
    return np.minimum(
        np.frombuffer(joint.encode("utf-32-le", "surrogatepass"), np.uint32), 255
    ).astype(np.uint8)


def from_numbers(
    segmentations: list[tuple[int, RunLengths]], sized: dict[int, list[int]], faults: Faults
) -> Part:
    """Return the runs of lists of counts that are sound."""
    rows = np.array([row for row, _ in segmentations], np.int64)
    numbers: list[Any] = [run_lengths.counts for _, run_lengths in segmentations]
    offsets = ragged.from_counts(np.array(list(map(len, numbers)), np.int64))
    counts = np.fromiter(chain.from_iterable(numbers), np.int64, int(offsets[-1]))
    return _complete_runs(rows, offsets, counts, sized, faults, skip=np.zeros(len(rows), np.bool_))


def _complete_runs(
    rows: I64,
    offsets: I64,
    counts: I64,
    sized: dict[int, list[int]],
    faults: Faults,
    *,
    skip: Flags,
) -> Part:
    """Return the runs of counts that add up to the pixels of their picture."""
    size = np.array([sized[row] for row in rows.tolist()], np.int64).reshape(-1, 2)
    wrong = coco_rle.count_faults(offsets, counts, size)
    total = np.bincount(ragged.owners(offsets), counts, len(rows))
    for fault, expected in (
        (coco_rle.NEGATIVE, "counts that are not negative"),
        (coco_rle.SHORT, "counts that add up to height times width"),
        (coco_rle.LONG, "counts that add up to height times width"),
    ):
        bad = (wrong == fault) & ~skip
        messages = []
        for n, (w, h) in zip(total[bad].tolist(), size[bad].tolist()):
            messages.append(f"{int(n)} of {h} x {w} = {h * w}")
        faults.add("rle-length", expected, rows[bad], messages, LENGTH_HINT)
    sound = np.flatnonzero((wrong == coco_rle.SOUND) & ~skip)
    runs, offsets = ragged.take_rows(offsets, sound)
    return rows[sound], coco_rle.column_runs(offsets, counts[runs]), size[sound]


def from_polygons(
    segmentations: Sequence[tuple[int, Polygons]],
    image: I64,
    image_sizes: F64,
    faults: Faults,
    most_crossings: int,
) -> SegmentRuns:
    """Return the runs of sound polygons, and how many records cross themselves, or may do so."""
    rows = np.array([row for row, _ in segmentations], np.int64)
    shapes = [polygon for _, polygon in segmentations]
    size = image_sizes[image[rows]]
    whole = np.asarray((size == np.floor(size)).all(axis=1))  # false for NaN
    expected = "an image size in whole pixels, to draw a polygon in"
    hint = "give width and height of the image, or pass --masks ignore"
    faults.add("size-unknown", expected, rows[~whole], size[~whole], hint)
    large = whole & (size[:, 0] * size[:, 1] > MOST_PIXELS)
    expected = f"at most {MOST_PIXELS} pixels"
    faults.add("too-large", expected, rows[large], size[large], whole_file=True)
    bad = ~whole | large | _ill_formed(rows, shapes, whole & ~large, faults)
    shapes = [shapes[k] for k in np.flatnonzero(~bad).tolist()]
    rows, sides = rows[~bad], size[~bad].astype(np.int64)
    objects, rings, corners = _flat(shapes)
    counts = polygons.crossing_counts(rings, corners, objects, sides)
    n_crossings = int(counts.sum())
    costly = counts > (MOST_CROSSINGS if n_crossings <= most_crossings else 0)
    expected = (
        f"outlines that cross at most {MOST_CROSSINGS} columns, "
        f"and {max(0, most_crossings)} in the rest of this file"
    )
    faults.add("too-large", expected, rows[costly], counts[costly], whole_file=True)
    # Too large for the whole file: nothing is drawn at all.
    if costly.any():
        nothing = np.zeros(1, np.int64), rows[:0], rows[:0]
        return SegmentRuns(rows[:0], nothing, sides[:0], 0, 0, n_crossings)
    owner = ragged.owners(objects)
    crossed, unknown = self_crossing(rings, corners)
    # An empty part first: without objects there is no other.
    offsets, starts, lengths = [], [rows[:0]], [rows[:0]]
    # Some objects at a time: drawing takes many times the room of the runs.
    for first, last in ragged.batches(counts, CROSSINGS_AT_ONCE):
        of_rings = objects[first : last + 1]
        of_corners = rings[of_rings[0] : of_rings[-1] + 1]
        own_offsets, own_starts, own_lengths = polygons.column_runs(
            of_corners - of_corners[0],
            corners[of_corners[0] : of_corners[-1]],
            of_rings - of_rings[0],
            sides[first:last],
        )
        offsets.append(own_offsets)
        starts.append(own_starts)
        lengths.append(own_lengths)
    columns = ragged.concat_offsets(offsets), np.concatenate(starts), np.concatenate(lengths)
    n_crossed, n_unknown = len(np.unique(owner[crossed])), len(np.unique(owner[unknown]))
    return SegmentRuns(rows, columns, sides, n_crossed, n_unknown, n_crossings)


def _ill_formed(rows: I64, shapes: list[Polygons], candidates: Flags, faults: Faults) -> Flags:
    """Return which polygons have rings of a wrong length, or corners too far away or too many."""
    objects, lengths, numbers = _flat_numbers(shapes)
    owner = ragged.owners(objects)
    odd = np.zeros(len(rows), np.bool_)
    for expected, wrong in (
        ("rings of an even number of coordinates", lengths % 2 != 0),
        (f"rings of at least {FEWEST_NUMBERS} numbers, three corners", lengths < FEWEST_NUMBERS),
    ):
        bad = candidates & ~odd & (np.bincount(owner, wrong, len(rows)) > 0)
        first = _first_by_owner(owner[wrong], lengths[wrong])
        values = [f"{first[k]} numbers" for k in np.flatnonzero(bad).tolist()]
        faults.add("polygon", expected, rows[bad], values)
        odd |= bad
    of_number = np.repeat(owner, lengths)
    far = ~(np.abs(numbers) <= LARGEST_COORDINATE)  # true for NaN
    bad = candidates & ~odd & (np.bincount(of_number, far, len(rows)) > 0)
    first = _first_by_owner(of_number[far], numbers[far])
    expected = f"coordinates of at most {LARGEST_COORDINATE:g}"
    faults.add("polygon", expected, rows[bad], [first[k] for k in np.flatnonzero(bad).tolist()])
    n_numbers = np.bincount(owner, lengths, len(rows))
    many = candidates & (n_numbers > 2 * MOST_CORNERS)
    expected = f"at most {MOST_CORNERS} corners"
    faults.add("too-large", expected, rows[many], n_numbers[many] / 2, whole_file=True)
    return odd | bad | many


def _first_by_owner(owner: I64, values: NDArray[Any]) -> dict[int, Any]:
    """Return object -> the first of its values."""
    # Later entries of a dictionary overwrite earlier ones, so the values go in backwards.
    return dict(zip(owner[::-1].tolist(), values[::-1].tolist()))


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


def _run_lengths(value: dict[str, Any]) -> RunLengths | Odd:
    size, counts = value.get("size"), value.get("counts")
    if not isinstance(size, list) or not all(_is_count(side) for side in size):
        return Odd("rle-size", "a size of two whole numbers [height, width]", size)
    if isinstance(counts, str):
        return RunLengths(size, counts)
    if not isinstance(counts, list) or not all(_is_count(count) for count in counts):
        hint = "COCO has its compressed text, or a list of whole numbers"
        return Odd("rle-kind", "counts as text or as whole numbers", counts, hint)
    return RunLengths(size, counts)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # No NaN, and nothing that overflows; the limit of coordinates is checked later.
    return abs(value) < 1e300


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_COUNT
