# SPDX-License-Identifier: Apache-2.0
"""Criteria for boxes, in 2D and 3D. Definitions: SPEC names of the field, formulas in
`calipers.kernels.overlap`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.criteria.contract import Criterion, PairTable
from calipers.kernels import overlap
from calipers.kernels.pairs import overlapping
from calipers.tables import Cohort, Predictions

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]


def iou(pairs: PairTable) -> F64:
    """Return the intersection over union of the boxes."""
    return overlap.iou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def _giou(pairs: PairTable) -> F64:
    return overlap.giou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def _centred_iou(pairs: PairTable) -> F64:
    return overlap.centred_iou(pairs.reference_boxes, pairs.prediction_boxes)


def _complete_iou(pairs: PairTable) -> F64:
    return overlap.complete_iou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def iop(pairs: PairTable) -> F64:
    """Return the share of the predicted box that the reference covers."""
    return (
        overlap.intersection(pairs.reference_boxes, pairs.prediction_boxes)
        / pairs.prediction_extent
    )


def _ior(pairs: PairTable) -> F64:
    return (
        overlap.intersection(pairs.reference_boxes, pairs.prediction_boxes) / pairs.reference_extent
    )


def _hausdorff(pairs: PairTable) -> F64:
    size = pairs.per_image(pairs.cohort.images.size, "size")
    return overlap.hausdorff_similarity(pairs.reference_boxes, pairs.prediction_boxes, size)


def fused_iou(cohort: Cohort, predictions: Predictions, n_classes: int) -> tuple[I32, I32, F64]:
    """Return (reference, prediction, IoU) of the boxes that overlap."""
    references = cohort.references
    ours, theirs = (
        (table.offsets, table.label, table.boxes, table.extent)
        for table in (references, predictions)
    )
    return overlapping(ours, theirs, references.crowd, n_classes)


BOX_IOU = Criterion("box-iou", iou, crowd=iop, fused=fused_iou)
GIOU = Criterion("giou", _giou, none=-np.inf)
CENTRED_IOU = Criterion("ciou", _centred_iou)
COMPLETE_IOU = Criterion("complete-iou", _complete_iou, none=-np.inf)
IOP = Criterion("iop", iop)
IOR = Criterion("ior", _ior, crowd=iop)
HAUSDORFF = Criterion("hausdorff", _hausdorff, none=-np.inf)
