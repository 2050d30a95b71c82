# SPDX-License-Identifier: Apache-2.0
"""Criteria for masks, in 2D and 3D: what the shapes of two objects share.

References need masks. Predictions without masks take part with their boxes, whose area is exact: a
box may end inside of a voxel. A crowd is compared as in COCO: the share of the prediction that it
covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.criteria import boxes
from calipers.criteria.contract import Criterion, PairTable
from calipers.errors import UsageError
from calipers.kernels import run_algebra
from calipers.kernels.pairs import overlapping
from calipers.tables import Cohort, Predictions
from calipers.tables.boxes import box_extent
from calipers.tables.masks import Masks, no_masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

BAND = 0.02  # depth of a boundary band in diagonals of the image (Cheng et al., CVPR 2021)


@dataclass(frozen=True)
class MaskOverlap:
    """What pairs of shapes share: (P,) areas, in 3D volumes, in pixels or voxels."""

    common: F64
    reference: F64
    prediction: F64

    def iou(self) -> F64:
        """Return intersection over union."""
        return np.asarray(self.common / (self.reference + self.prediction - self.common))

    def dice(self) -> F64:
        """Return twice the intersection over the sum."""
        return np.asarray(2.0 * self.common / (self.reference + self.prediction))

    def covered(self) -> F64:
        """Return the share of the prediction that lies in the reference."""
        return np.asarray(self.common / self.prediction)


Form = Callable[[Masks], Masks]  # what of a mask is compared


def _whole(masks: Masks) -> Masks:
    return masks


def _band(masks: Masks) -> Masks:
    return masks.boundaries(band_depth(masks.size))


def band_depth(size: NDArray[np.generic]) -> I64:
    """Return how deep a boundary band is in images of a size (n, d): 2 % of the diagonal, rounded,
    at least 1.
    """
    diagonal = np.sqrt(np.sum(np.asarray(size, np.float64) ** 2, axis=1))
    return np.asarray(np.maximum(1, np.rint(BAND * diagonal)), np.int64)


def reference_masks(cohort: Cohort, criterion: str) -> Masks:
    """Return the masks of the references; if there are none the error says what to do."""
    references = cohort.references
    if references.masks is not None:
        return references.masks
    if len(references):
        raise UsageError(
            f"the criterion {criterion!r} needs references with masks; these have boxes only: "
            "give masks with the references, or choose a criterion for boxes such as 'box-iou' "
            "or 'point-in-box'"
        )
    return no_masks(references.dimensions)


def _against_masks(pairs: PairTable, ours: Masks, theirs: Masks) -> MaskOverlap:
    _check_sizes(pairs, ours, theirs)
    one, other = ((masks.offsets, masks.start, masks.length) for masks in (ours, theirs))
    common = run_algebra.common(one, other, pairs.reference, pairs.prediction)
    areas = ours.voxels[pairs.reference], theirs.voxels[pairs.prediction]
    return MaskOverlap(*(voxels.astype(np.float64) for voxels in (common, *areas)))


def _check_sizes(pairs: PairTable, ours: Masks, theirs: Masks) -> None:
    sizes = np.concatenate([ours.size, theirs.size])
    if (sizes == sizes[:1]).all():  # objects are fewer than pairs
        return
    odd = np.flatnonzero((ours.size[pairs.reference] != theirs.size[pairs.prediction]).any(axis=1))
    if len(odd):
        row, column = int(pairs.reference[odd[0]]), int(pairs.prediction[odd[0]])
        name = pairs.cohort.images.ids[int(pairs.cohort.references.image[row])]
        raise UsageError(
            f"masks of image {name!r} differ in size: references {_by(ours.size[row])}, "
            f"predictions {_by(theirs.size[column])} (width x height): masks of one image must "
            "have the same grid"
        )


def _by(size: I64) -> str:
    return " x ".join(str(side) for side in size.tolist())


def _against_boxes(pairs: PairTable, masks: Masks, form: Form) -> MaskOverlap:
    """Compare reference masks with predicted boxes; the band of a box is what shrinking every side
    takes away.
    """
    ours = form(masks)
    reference = ours.voxels[pairs.reference].astype(np.float64)
    corners, extent = pairs.prediction_boxes, pairs.prediction_extent
    common = ours.in_boxes(pairs.reference, corners)
    if form is _band:
        depth = band_depth(masks.size)[pairs.reference]
        half = len(corners) // 2
        inner = np.concatenate([corners[:half] + depth, corners[half:] - depth])
        common = common - ours.in_boxes(pairs.reference, inner)
        extent = extent - np.prod(np.maximum(inner[half:] - inner[:half], 0.0), axis=0)
    return MaskOverlap(common, reference, extent)


@dataclass(frozen=True)
class MaskComparison:
    """What of two masks is compared, and how."""

    name: str  # of the criterion
    form: Form
    measure: Callable[[MaskOverlap], F64]

    def overlap(self, pairs: PairTable) -> MaskOverlap:
        """Return what the shapes of all pairs share; cached, because crowds need it again."""
        if self.name not in pairs.cache:
            ours, theirs = reference_masks(pairs.cohort, self.name), pairs.predictions.masks
            if theirs is None:
                pairs.cache[self.name] = _against_boxes(pairs, ours, self.form)
            else:
                pairs.cache[self.name] = _against_masks(pairs, self.form(ours), self.form(theirs))
        overlap: MaskOverlap = pairs.cache[self.name]
        return overlap

    def similarity(self, pairs: PairTable) -> F64:
        """Return how like the shapes are."""
        return self.measure(self.overlap(pairs))

    def covered(self, pairs: PairTable) -> F64:
        """Return the share of every prediction that its reference covers."""
        return self.overlap(pairs).covered()

    def fused(
        self, cohort: Cohort, predictions: Predictions, n_classes: int
    ) -> tuple[I32, I32, F64]:
        """Compare the pairs whose bounding boxes overlap. Boxes of the masks are used, because the
        boxes of the input may be others.
        """
        references = cohort.references
        reference_boxes = reference_masks(cohort, self.name).boxes()
        predicted_boxes = (
            predictions.boxes if predictions.masks is None else predictions.masks.boxes()
        )
        row, column, _ = overlapping(
            (references.offsets, references.label, reference_boxes, box_extent(reference_boxes)),
            (predictions.offsets, predictions.label, predicted_boxes, box_extent(predicted_boxes)),
            references.crowd,
            n_classes,
        )
        pairs = PairTable(cohort, predictions, row.astype(np.int64), column.astype(np.int64))
        similarity = np.where(references.crowd[row], self.covered(pairs), self.similarity(pairs))
        near = np.flatnonzero(similarity > 0)
        return row[near], column[near], similarity[near]

    def criterion(self) -> Criterion:
        """Return the criterion that compares so."""
        return Criterion(self.name, self.similarity, crowd=self.covered, fused=self.fused)


MASKS = MaskComparison("mask-iou", _whole, MaskOverlap.iou)
MASK_IOU = MASKS.criterion()
DICE = MaskComparison("dice", _whole, MaskOverlap.dice).criterion()
HULL_IOU = MaskComparison("hull-iou", Masks.hulls, MaskOverlap.iou).criterion()
BOUNDARY_IOU = MaskComparison("boundary-iou", _band, MaskOverlap.iou).criterion()


def _any_iou(pairs: PairTable) -> F64:
    return boxes.iou(pairs) if pairs.cohort.references.masks is None else MASKS.similarity(pairs)


def _any_covered(pairs: PairTable) -> F64:
    return boxes.iop(pairs) if pairs.cohort.references.masks is None else MASKS.covered(pairs)


def _any_fused(cohort: Cohort, predictions: Predictions, n_classes: int) -> tuple[I32, I32, F64]:
    fused = boxes.fused_iou if cohort.references.masks is None else MASKS.fused
    return fused(cohort, predictions, n_classes)


ANY_OVERLAP = Criterion("any-overlap", _any_iou, yes_no=True, crowd=_any_covered, fused=_any_fused)
