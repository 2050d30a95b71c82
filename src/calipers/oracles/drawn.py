# SPDX-License-Identifier: Apache-2.0
"""Boxes as centres and sides, so that corruptions can change place and shape separately.

`corrupt` turns a table into `CentredBoxes`, corrupts them and turns them into predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels import ragged
from calipers.tables import Cohort, Objects, Predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class CentredBoxes:
    """Boxes of many images, in any order."""

    image: I64  # (n,)
    label: I64  # (n,)
    centre: F64  # (n, d)
    side: F64  # (n, d) above 0

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, rows: I64 | Flags) -> CentredBoxes:
        """Return some of the boxes."""
        return CentredBoxes(self.image[rows], self.label[rows], self.centre[rows], self.side[rows])

    def concat(self, other: CentredBoxes) -> CentredBoxes:
        """Return these boxes and others."""
        return CentredBoxes(
            np.concatenate([self.image, other.image]),
            np.concatenate([self.label, other.label]),
            np.concatenate([self.centre, other.centre]),
            np.concatenate([self.side, other.side]),
        )

    def present(self, n_images: int, n_classes: int) -> Flags:
        """Return (n_images, n_classes): whether an image has a box of a class."""
        table = np.zeros((n_images, n_classes), np.bool_)
        table[self.image, self.label] = True
        return table


def boxes_from(table: Objects, selection: Flags | None = None) -> CentredBoxes:
    """Return the boxes of a table, or those of a selection of its objects."""
    rows = np.arange(len(table)) if selection is None else np.flatnonzero(selection)
    d = table.dimensions
    low, high = table.boxes[rows, :d], table.boxes[rows, d:]
    return CentredBoxes(
        table.image[rows], table.label[rows].astype(np.int64), 0.5 * (low + high), high - low
    )


def as_predictions(boxes: CentredBoxes, n_images: int) -> Predictions:
    """Return the boxes as the predictions of a model; every score is 1."""
    order = np.argsort(boxes.image, kind="stable")
    by_image = boxes.rows(order)
    corners = np.concatenate(
        [by_image.centre - 0.5 * by_image.side, by_image.centre + 0.5 * by_image.side], axis=1
    )
    extent = np.prod(by_image.side, axis=1)
    return Predictions(
        offsets=ragged.from_owner(by_image.image, n_images),
        boxes=corners,
        extent=extent,
        label=by_image.label.astype(np.int32),
        place=np.arange(len(by_image)),
        facts={},
        area=extent,
        score=np.ones(len(by_image)),
        scored=True,
    )


def place_boxes(
    cells: tuple[I64, I64], share: float, cohort: Cohort, random: np.random.Generator
) -> CentredBoxes:
    """Return one box for every (image, class), of a share of the sides of its image, anywhere
    inside of it.
    """
    image, label = cells
    no_size = np.flatnonzero(np.isnan(cohort.images.size).any(axis=1))
    if len(no_size):
        name = cohort.images.ids[no_size[0]]
        raise UsageError(
            f"boxes at random places need the size of every image; image {name!r} has none"
        )
    size = cohort.images.size[image]
    side = share * size
    low = random.random(size.shape) * (size - side)
    return CentredBoxes(image, label, low + 0.5 * side, side)


def move_boxes(boxes: CentredBoxes, centre: F64) -> CentredBoxes:
    """Return the boxes at other places."""
    return replace(boxes, centre=centre)


def reshape_boxes(boxes: CentredBoxes, side: F64) -> CentredBoxes:
    """Return the boxes with other sides about the same centres."""
    return replace(boxes, side=side)
