# SPDX-License-Identifier: Apache-2.0
"""Turn polygons of COCO records into runs down columns: check them, then draw all at once.

`calipers.readers.coco_drawing` calls it; broken polygons are entered as faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import polygons, ragged
from calipers.kernels.self_crossing import self_crossing
from calipers.readers.coco_faults import MOST_PIXELS, Faults
from calipers.readers.coco_run_lengths import Part
from calipers.readers.coco_segments import Polygons

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

LARGEST_COORDINATE = 1e6
MOST_CORNERS = 1_000_000  # of one object
MOST_CROSSINGS = 1 << 24  # of one object: what drawing it costs
FEWEST_NUMBERS = 6


def from_polygons(
    segmentations: Sequence[tuple[int, Polygons]], image: I64, image_sizes: F64, faults: Faults
) -> tuple[Part, int, int]:
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
    costly = polygons.crossing_counts(rings, corners, objects, sides) > MOST_CROSSINGS
    expected = f"an outline that crosses at most {MOST_CROSSINGS} columns"
    n_rings = [len(shapes[k]) for k in np.flatnonzero(costly)]
    faults.add("too-large", expected, rows[costly], n_rings, whole_file=True)
    if costly.any():
        return (rows[:0], (np.zeros(1, np.int64), rows[:0], rows[:0]), sides[:0]), 0, 0
    owner = ragged.owners(objects)
    crossed, unknown = self_crossing(rings, corners)
    columns = polygons.column_runs(rings, corners, objects, sides)
    n_crossed, n_unknown = len(np.unique(owner[crossed])), len(np.unique(owner[unknown]))
    return (rows, columns, sides), n_crossed, n_unknown


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
