# SPDX-License-Identifier: Apache-2.0
"""Turn the run lengths of COCO records into runs down columns, all records of a piece at once.

`calipers.readers.coco_drawing` calls it; broken sizes, texts and counts are entered as faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import coco_rle, ragged
from calipers.kernels.run_order import Runs
from calipers.readers.coco_faults import IGNORE, MOST_PIXELS, Faults
from calipers.readers.coco_segments import RunLengths

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Part = tuple[I64, Runs, I64]  # rows, runs down columns, sizes

KIND_HINT = (
    "COCO has compressed text, or a list of whole numbers; "
    "pairs of start and length are another kind"
)
LENGTH_HINT = (
    "counts go down the columns, outside and inside by turns, from the first pixel to the last"
)
SWAPPED = "size is [height, width]; these look like [width, height]"


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
    at = np.array(rows, np.int64)
    size = np.array(sizes, np.int64).reshape(-1, 2)[:, ::-1]
    large = size[:, 0].astype(np.float64) * size[:, 1] > MOST_PIXELS
    unknown = np.flatnonzero(np.isnan(image_sizes[image[at]]).any(axis=1) & ~large)
    images, first = np.unique(image[at[unknown]], return_index=True)
    image_sizes[images] = size[unknown[first]]
    image_size = image_sizes[image[at]]
    other = np.asarray(((image_size != size) & np.isfinite(image_size)).any(axis=1))
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
