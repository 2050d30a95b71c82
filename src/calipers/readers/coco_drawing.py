# SPDX-License-Identifier: Apache-2.0
"""Segmentations of some records to runs down columns: sorted by kind, checked, drawn all at once."""

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


class SegmentRuns(NamedTuple):
    """Runs down the columns of the rows that are sound, in ascending order of rows."""

    rows: I64
    columns: Runs
    size: I64
    n_crossed: int
    n_unknown: int


def columns_of(segments: Segments, image_sizes: F64, faults: Faults) -> SegmentRuns:
    """Return the runs of all sound segmentations; the others are entered as faults.

    ``known`` are the (n_images, 2) sizes of the images; what is unknown is filled from run lengths.
    """
    for row, odd in segments.odd:
        faults.add(odd.rule, odd.expected, np.array([row]), [odd.value], odd.hint or IGNORE)
    lengths = [*segments.text, *segments.numbers]
    sized = sized_rows(
        [row for row, _ in lengths],
        [one.size for _, one in lengths],
        segments.image,
        image_sizes,
        faults,
    )
    parts = [
        from_text([(row, one) for row, one in segments.text if row in sized], sized, faults),
        from_numbers([(row, one) for row, one in segments.numbers if row in sized], sized, faults),
    ]
    drawn, n_crossed, n_unknown = from_polygons(
        segments.polygon, segments.image, image_sizes, faults
    )
    parts.append(drawn)
    rows = np.concatenate([part[0] for part in parts])
    order = np.argsort(rows)
    joint = ragged.concat_offsets([part[1][0] for part in parts])
    runs, offsets = ragged.take_rows(joint, order)
    start, length = (np.concatenate([part[1][k] for part in parts])[runs] for k in (1, 2))
    size = np.concatenate([part[2] for part in parts])[order]
    return SegmentRuns(rows[order], (offsets, start, length), size, n_crossed, n_unknown)
