# SPDX-License-Identifier: Apache-2.0
"""Corruptions of classes (Meissen et al. 2023, appendix A): every image by itself, on all declared
classes.
"""

from __future__ import annotations

import numpy as np

from calipers.oracles.boxes import position_noise
from calipers.oracles.drawn import I64, CentredBoxes, Flags, place_boxes
from calipers.tables import Cohort

Random = np.random.Generator
SHARE = 0.25  # of the image: the mean side of the boxes of ChestX-ray8, as the paper has it


def _cells(cohort: Cohort) -> tuple[int, int]:
    return cohort.n_images, len(cohort.classes)


def class_underprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float, noise: float = 0.5
) -> CentredBoxes:
    """Drop all boxes of a class in an image with probability p; what is left is moved by position
    noise.
    """
    dropped = random.random(_cells(cohort)) < p
    return position_noise(
        boxes.rows(~dropped[boxes.image, boxes.label]), cohort, random, sigma=noise
    )


def class_overprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float, share: float = SHARE
) -> CentredBoxes:
    """Give every class that an image does not have, with probability p, one box of a quarter of its
    sides.
    """
    added = (random.random(_cells(cohort)) < p) & ~boxes.present(*_cells(cohort))
    return boxes.concat(place_boxes(_nonzero(added), share, cohort, random))


def class_confusion(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float
) -> CentredBoxes:
    """Select every declared class with probability p, and permute the selected ones; a class may
    keep its name.
    """
    selected = random.random(_cells(cohort)) < p
    plain = np.broadcast_to(np.arange(selected.shape[1], dtype=np.float64), selected.shape)
    # Both orders begin with the selected classes, one by their number and one at random; the others
    # follow alike.
    plain_order = np.argsort(np.where(selected, plain, plain + plain.shape[1]), axis=1)
    random_order = np.argsort(
        np.where(selected, random.random(selected.shape), plain + 1.0), axis=1
    )
    name = np.empty_like(plain_order)
    np.put_along_axis(name, plain_order, random_order, axis=1)
    return CentredBoxes(boxes.image, name[boxes.image, boxes.label], boxes.centre, boxes.side)


def random_boxes(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, size: float = SHARE, p: float = 0.0
) -> CentredBoxes:
    """Keep only which classes an image has, add absent ones with probability p, and place one box
    for each at random.

    ``size`` is the share of the image that a side takes.
    """
    present = boxes.present(*_cells(cohort))
    present |= random.random(_cells(cohort)) < p
    return place_boxes(_nonzero(present), size, cohort, random)


def _nonzero(cells: Flags) -> tuple[I64, I64]:
    image, label = np.nonzero(cells)
    return image, label
