# SPDX-License-Identifier: Apache-2.0
"""Turn the segmentations of a piece of a file into runs down columns.

They are sorted by kind (polygons, run lengths as text or as numbers), checked, and drawn together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.kernels.run_order import Runs
from calipers.readers.coco_faults import IGNORE, Faults
from calipers.readers.coco_polygons import from_polygons
from calipers.readers.coco_run_lengths import from_numbers, from_text, sized_rows
from calipers.readers.coco_segments import Odd, Polygons, RunLengths, Segmentation

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


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


class SegmentRuns(NamedTuple):
    """Runs down the columns of the rows that are sound, in ascending order of rows."""

    rows: I64
    columns: Runs
    size: I64
    n_crossed: int
    n_unknown: int


def columns_of(segments: Segments, image_sizes: F64, faults: Faults) -> SegmentRuns:
    """Return the runs of all sound segmentations; the others are entered as faults.

    ``image_sizes`` is (n_images, 2); unknown sizes are filled in from run lengths.
    """
    for row, odd in segments.odd:
        faults.add(odd.rule, odd.expected, np.array([row]), [odd.value], odd.hint or IGNORE)
    run_lengths = [*segments.text, *segments.numbers]
    sized = sized_rows(run_lengths, segments.image, image_sizes, faults)
    texts = [entry for entry in segments.text if entry[0] in sized]
    numbers = [entry for entry in segments.numbers if entry[0] in sized]
    parts = [from_text(texts, sized, faults), from_numbers(numbers, sized, faults)]
    outlines, n_crossed, n_unknown = from_polygons(
        segments.polygon, segments.image, image_sizes, faults
    )
    parts.append(outlines)
    rows = np.concatenate([part[0] for part in parts])
    order = np.argsort(rows)
    offsets = ragged.concat_offsets([part[1][0] for part in parts])
    start = np.concatenate([part[1][1] for part in parts])
    length = np.concatenate([part[1][2] for part in parts])
    runs, offsets = ragged.take_rows(offsets, order)
    size = np.concatenate([part[2] for part in parts])[order]
    columns = (offsets, start[runs], length[runs])
    return SegmentRuns(rows[order], columns, size, n_crossed, n_unknown)
