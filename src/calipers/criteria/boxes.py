# SPDX-License-Identifier: Apache-2.0
"""Criteria for boxes, in 2D and 3D. Definitions: SPEC names of the field, formulas in `calipers.kernels.overlap`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.criteria.contract import Criterion, PairTable
from calipers.kernels import overlap
from calipers.kernels.pairs import overlapping

F64 = NDArray[np.float64]


def _iou(pairs: PairTable) -> F64:
    return overlap.iou(pairs.reference_boxes, pairs.prediction_boxes, pairs.reference_extent, pairs.prediction_extent)


def _giou(pairs: PairTable) -> F64:
    return overlap.giou(pairs.reference_boxes, pairs.prediction_boxes, pairs.reference_extent, pairs.prediction_extent)


def _centred_iou(pairs: PairTable) -> F64:
    return overlap.centred_iou(pairs.reference_boxes, pairs.prediction_boxes)


def _complete_iou(pairs: PairTable) -> F64:
    return overlap.complete_iou(
        pairs.reference_boxes, pairs.prediction_boxes, pairs.reference_extent, pairs.prediction_extent
    )


def _iop(pairs: PairTable) -> F64:
    return overlap.intersection(pairs.reference_boxes, pairs.prediction_boxes) / pairs.prediction_extent


def _ior(pairs: PairTable) -> F64:
    return overlap.intersection(pairs.reference_boxes, pairs.prediction_boxes) / pairs.reference_extent


def _distance(pairs: PairTable) -> F64:
    return -overlap.centre_distance(pairs.reference_boxes, pairs.prediction_boxes)


def _distance_mm(pairs: PairTable) -> F64:
    spacing = pairs.per_image(pairs.cohort.images.spacing, "spacing")
    return -overlap.centre_distance(pairs.reference_boxes, pairs.prediction_boxes, spacing)


def _distance_relative(pairs: PairTable) -> F64:
    unit = 1.0 / overlap.sides(pairs.reference_boxes)
    return -overlap.centre_distance(pairs.reference_boxes, pairs.prediction_boxes, unit)


def _hausdorff(pairs: PairTable) -> F64:
    size = pairs.per_image(pairs.cohort.images.size, "size")
    return overlap.hausdorff_similarity(pairs.reference_boxes, pairs.prediction_boxes, size)


def _point_in_box(pairs: PairTable) -> F64:
    """Return 1 / (1 + distance to the centre of the reference) where the predicted centre is inside, else 0.

    The value only orders the candidates: of several references that contain the point, the nearest comes first.
    """
    inside = overlap.contains_centre(pairs.reference_boxes, pairs.prediction_boxes)
    distance = overlap.centre_distance(pairs.reference_boxes, pairs.prediction_boxes)
    return np.where(inside, 1.0 / (1.0 + distance), 0.0)


BOX_IOU = Criterion("box-iou", _iou, crowd=_iop, fused=overlapping)
GIOU = Criterion("giou", _giou, none=-np.inf)
CENTRED_IOU = Criterion("ciou", _centred_iou)
COMPLETE_IOU = Criterion("complete-iou", _complete_iou, none=-np.inf)
IOP = Criterion("iop", _iop)
IOR = Criterion("ior", _ior, crowd=_iop)
HAUSDORFF = Criterion("hausdorff", _hausdorff, none=-np.inf)
CENTRE_DISTANCE = Criterion("centre-distance", _distance, none=-np.inf, distance=True)
CENTRE_DISTANCE_MM = Criterion("centre-distance-mm", _distance_mm, none=-np.inf, distance=True)
CENTRE_DISTANCE_RELATIVE = Criterion("centre-distance-relative", _distance_relative, none=-np.inf, distance=True)
ANY_OVERLAP = Criterion("any-overlap", _iou, yes_no=True, crowd=_iop, fused=overlapping)
POINT_IN_BOX = Criterion("point-in-box", _point_in_box, yes_no=True)
