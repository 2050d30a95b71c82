# SPDX-License-Identifier: Apache-2.0
"""Criteria for points: where a prediction says that something is, and what is there.

The place of an object is its point where the table has points, else the centre of its box.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.criteria.contract import Criterion, PairTable
from calipers.criteria.masks import reference_masks
from calipers.kernels import overlap
from calipers.kernels.pairs import gather
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


def _distance(pairs: PairTable) -> F64:
    return -overlap.distance(pairs.reference_points, pairs.prediction_points)


def _distance_mm(pairs: PairTable) -> F64:
    spacing = pairs.per_image(pairs.cohort.images.spacing, "spacing")
    return -overlap.distance(pairs.reference_points, pairs.prediction_points, spacing)


def _distance_relative(pairs: PairTable) -> F64:
    unit = 1.0 / overlap.sides(pairs.reference_boxes)
    return -overlap.distance(pairs.reference_points, pairs.prediction_points, unit)


def _nearness(pairs: PairTable, is_inside: Flags) -> F64:
    """Return 1 / (1 + distance of the places) where the predicted place is inside of the reference,
    else 0.

    The value only orders the candidates: of several references that contain the point, the nearest
    comes first.
    """
    distance = overlap.distance(pairs.reference_points, pairs.prediction_points)
    return np.where(is_inside, 1.0 / (1.0 + distance), 0.0)


def _point_in_box(pairs: PairTable) -> F64:
    return _nearness(pairs, overlap.contains(pairs.reference_boxes, pairs.prediction_points))


def _point_in_mask(pairs: PairTable) -> F64:
    return _nearness(pairs, _inside(pairs, reference_masks(pairs.cohort, "point-in-mask")))


def _point_in_hull(pairs: PairTable) -> F64:
    return _nearness(pairs, _inside(pairs, reference_masks(pairs.cohort, "point-in-hull").hulls()))


def _inside(pairs: PairTable, masks: Masks) -> Flags:
    """Return whether the voxel of a predicted place belongs to the mask of the reference."""
    points = pairs.prediction_points
    flags = overlap.contains(gather(masks.boxes(), pairs.reference), points)
    near = np.flatnonzero(flags)  # few of all pairs
    flags[near] = masks.contains(pairs.reference[near], points[:, near].T)
    return flags


CENTRE_DISTANCE = Criterion("centre-distance", _distance, none=-np.inf, distance=True)
CENTRE_DISTANCE_MM = Criterion("centre-distance-mm", _distance_mm, none=-np.inf, distance=True)
CENTRE_DISTANCE_RELATIVE = Criterion(
    "centre-distance-relative", _distance_relative, none=-np.inf, distance=True
)
POINT_IN_BOX = Criterion("point-in-box", _point_in_box, yes_no=True)
POINT_IN_MASK = Criterion("point-in-mask", _point_in_mask, yes_no=True)
POINT_IN_HULL = Criterion("point-in-hull", _point_in_hull, yes_no=True)
