# SPDX-License-Identifier: Apache-2.0
"""Boxes on their way through corruptions: centres and sides, so that place and shape change apart."""

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
class Drawn:
    """Boxes of many images, in any order."""

    image: I64  # (n,)
    label: I64  # (n,)
    centre: F64  # (n, d)
    side: F64  # (n, d) above 0

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, rows: I64 | Flags) -> Drawn:
        """Return some of the boxes."""
        return Drawn(self.image[rows], self.label[rows], self.centre[rows], self.side[rows])

    def joined(self, other: Drawn) -> Drawn:
        """Return these boxes and others."""
        pairs = zip(
            (self.image, self.label, self.centre, self.side),
            (other.image, other.label, other.centre, other.side),
        )
        return Drawn(*(np.concatenate(pair) for pair in pairs))

    def present(self, n_images: int, n_classes: int) -> Flags:
        """Return (n_images, n_classes): whether an image has a box of a class."""
        found = np.zeros((n_images, n_classes), np.bool_)
        found[self.image, self.label] = True
        return found


def drawn_from(table: Objects, chosen: Flags | None = None) -> Drawn:
    """Return the boxes of a table, or those of its objects that are chosen."""
    rows = np.arange(len(table)) if chosen is None else np.flatnonzero(chosen)
    d = table.dimensions
    low, high = table.boxes[rows, :d], table.boxes[rows, d:]
    return Drawn(
        table.image[rows], table.label[rows].astype(np.int64), 0.5 * (low + high), high - low
    )


def as_predictions(boxes: Drawn, n_images: int) -> Predictions:
    """Return the boxes as the predictions of a model that is sure of all of them: every score is 1."""
    order = np.argsort(boxes.image, kind="stable")
    found = boxes.rows(order)
    corners = np.concatenate(
        [found.centre - 0.5 * found.side, found.centre + 0.5 * found.side], axis=1
    )
    extent = np.prod(found.side, axis=1)
    return Predictions(
        offsets=ragged.from_owner(found.image, n_images),
        boxes=corners,
        extent=extent,
        label=found.label.astype(np.int32),
        place=np.arange(len(found)),
        facts={},
        area=extent,
        score=np.ones(len(found)),
        scored=True,
    )


def placed_inside(
    cells: tuple[I64, I64], share: float, cohort: Cohort, random: np.random.Generator
) -> Drawn:
    """Return one box for every (image, class), of a share of the sides of its image, anywhere
    inside of it.
    """
    image, label = cells
    unknown = np.flatnonzero(np.isnan(cohort.images.size).any(axis=1))
    if len(unknown):
        name = cohort.images.ids[unknown[0]]
        raise UsageError(
            f"boxes at random places need the size of every image; image {name!r} has none"
        )
    size = cohort.images.size[image]
    side = share * size
    low = random.random(size.shape) * (size - side)
    return Drawn(image, label, low + 0.5 * side, side)


def moved(boxes: Drawn, centre: F64) -> Drawn:
    """Return the boxes at other places."""
    return replace(boxes, centre=centre)


def reshaped(boxes: Drawn, side: F64) -> Drawn:
    """Return the boxes with other sides about the same centres."""
    return replace(boxes, side=side)
