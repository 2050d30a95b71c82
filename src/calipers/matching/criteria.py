# SPDX-License-Identifier: Apache-2.0
"""Criteria: how near a prediction is to a reference, in 2D and 3D, by boxes, masks or points.

A `Criterion` takes a `PairTable`, the candidate pairs of one cohort and model, and returns their
similarity; `matching.assign` calls it. `calipers.registry` lists the criteria by their names in
protocols. One new criterion is one constant here and one line there.

*Boxes*: formulas in `calipers.kernels.boxes`.

*Masks*: what the shapes of two objects share. References need masks. Predictions without masks take
part with their boxes, whose area is exact: a box may end inside of a voxel. A crowd is compared as
in COCO: the share of the prediction that it covers.

*Points*: where a prediction says that something is, and what is there. The place of an object is
its point where the table has points, else the centroid of its mask where it has masks, else the
centre of its box: the same masks have the same places, whether they come as arrays or from maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks, no_masks
from calipers.data.objects import Objects, Predictions, box_extent
from calipers.errors import UsageError
from calipers.kernels import boxes, runs
from calipers.kernels.boxes import gather, overlapping


@dataclass(frozen=True)
class PairTable:
    """Aligned candidate pairs of one cohort and model; columns are gathered when a criterion asks
    for them.
    """

    cohort: Cohort
    predictions: Predictions
    reference: I64  # (P,) rows of the references
    prediction: I64  # (P,) rows of the predictions

    @cached_property
    def reference_boxes(self) -> F64:
        """(2 d, P) corners, low ones first."""
        return gather(self.cohort.references.boxes, self.reference)

    @cached_property
    def prediction_boxes(self) -> F64:
        """(2 d, P) corners, low ones first."""
        return gather(self.predictions.boxes, self.prediction)

    @cached_property
    def reference_points(self) -> F64:
        """(d, P) where the references are; see `_places`."""
        return _places(self.cohort.references, self.reference, self.reference_boxes)

    @cached_property
    def prediction_points(self) -> F64:
        """(d, P) where the predictions are; see `_places`."""
        return _places(self.predictions, self.prediction, self.prediction_boxes)

    @cached_property
    def cache(self) -> dict[str, Any]:
        """What a criterion found out about the pairs and may need again."""
        return {}

    @property
    def reference_extent(self) -> F64:
        """(P,) area or volume."""
        return self.cohort.references.extent[self.reference]

    @property
    def prediction_extent(self) -> F64:
        """(P,) area or volume."""
        return self.predictions.extent[self.prediction]

    def per_image(self, column: F64, what: str) -> F64:
        """Return an image-level (n_images, d) column as (d, P); an unknown value of an image with
        references is an error that says which image.
        """
        has_references = np.diff(self.cohort.references.offsets) > 0
        missing = np.flatnonzero(np.isnan(column).any(axis=1) & has_references)
        if len(missing):
            name = self.cohort.images.ids[missing[0]]
            message = f"this criterion needs the {what} of every image; image {name!r} has none"
            if what == "spacing":
                message += (
                    ": its file states none, or the axes of its grid are not at right angles (a "
                    "tilted gantry, a sheared affine), and needs resampling first"
                )
            raise UsageError(message)
        image = self.cohort.references.image[self.reference]
        return np.ascontiguousarray(column[image].T)


def _places(table: Objects, rows: I64, corners: F64) -> F64:
    """Return the (d, P) places of some objects: their points if the table has points, else the
    centroids of their masks if it has masks, else the centres of their boxes.
    """
    if table.points is not None:
        return gather(table.points, rows)
    if table.masks is not None:
        return gather(table.masks.centroids(), rows)
    return boxes.centres(corners)


# Cohort, predictions, number of classes (0 = they do not matter) -> (reference, prediction,
# similarity) of the pairs that are nearer than `Criterion.none`, sorted by prediction, then
# reference; crowds have their own similarity already.
Fused = Callable[[Cohort, Predictions, int], tuple[I32, I32, F64]]


# Cohort, predictions, limit of a distance -> (n, 2 d) boxes of the references and of the
# predictions: pairs whose boxes do not meet are no candidates.
Reach = Callable[[Cohort, Predictions, float], tuple[F64, F64]]


@dataclass(frozen=True)
class Criterion:
    """A similarity of two places, higher is nearer.

    ``none`` is the similarity of two objects that have nothing to do with each other: pairs at or
    below it are no candidates. A ``distance`` is stored with its sign turned, and its threshold is
    an upper limit. A ``yes_no`` criterion holds or does not: its similarity only orders the
    candidates, and a threshold plays no part.
    """

    name: str
    similarity: Callable[[PairTable], F64]
    none: float = 0.0
    distance: bool = False
    yes_no: bool = False
    crowd: Callable[[PairTable], F64] | None = None  # similarity to a crowd; None = like any other
    # lists the candidates and compares in one go; None = compare all pairs of a cell
    fused: Fused | None = None
    # says where candidates can be, so that not all pairs of a crowded image are compared; None =
    # every two objects are candidates
    reach: Reach | None = None

    def cutoff(self, threshold: float, *, strict: bool = False) -> float:
        """Return the smallest admissible similarity: ``>= threshold``, strict on request and always
        at 0.

        For distances: ``distance <= threshold``, at 0 too.
        """
        if self.yes_no:
            return float(np.nextafter(self.none, np.inf))
        if self.distance:
            # The kernels compare with >=, so a strict limit is the next number above.
            return float(np.nextafter(-threshold, np.inf)) if strict else -threshold
        if strict or threshold == 0:
            return float(np.nextafter(threshold, np.inf))
        return threshold


def iou(pairs: PairTable) -> F64:
    """Return the intersection over union of the boxes."""
    return boxes.iou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def _giou(pairs: PairTable) -> F64:
    return boxes.giou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def _centred_iou(pairs: PairTable) -> F64:
    return boxes.centred_iou(pairs.reference_boxes, pairs.prediction_boxes)


def _complete_iou(pairs: PairTable) -> F64:
    return boxes.complete_iou(
        pairs.reference_boxes,
        pairs.prediction_boxes,
        pairs.reference_extent,
        pairs.prediction_extent,
    )


def iop(pairs: PairTable) -> F64:
    """Return the share of the predicted box that the reference covers; 0 of a box without area."""
    common = boxes.intersection(pairs.reference_boxes, pairs.prediction_boxes)
    extent = pairs.prediction_extent
    return np.divide(common, extent, out=np.zeros_like(common), where=extent > 0)


def _ior(pairs: PairTable) -> F64:
    return (
        boxes.intersection(pairs.reference_boxes, pairs.prediction_boxes) / pairs.reference_extent
    )


def _hausdorff(pairs: PairTable) -> F64:
    size = pairs.per_image(pairs.cohort.images.size, "size")
    return boxes.hausdorff_similarity(pairs.reference_boxes, pairs.prediction_boxes, size)


def fused_iou(cohort: Cohort, predictions: Predictions, n_classes: int) -> tuple[I32, I32, F64]:
    """Return (reference, prediction, IoU) of the boxes that overlap."""
    references = cohort.references
    ours, theirs = (
        (table.offsets, table.label, table.boxes, table.extent)
        for table in (references, predictions)
    )
    return overlapping(ours, theirs, references.crowd, n_classes)


def _boxes_meet(cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
    return cohort.references.boxes, predictions.boxes


# "ciou" is the centred IoU, not the complete one of the literature; giou and the like are defined
# for boxes that do not meet, so every pair is a candidate.
BOX_IOU = Criterion("box-iou", iou, crowd=iop, fused=fused_iou, reach=_boxes_meet)
GIOU = Criterion("giou", _giou, none=-np.inf)
CENTRED_IOU = Criterion("ciou", _centred_iou)
COMPLETE_IOU = Criterion("complete-iou", _complete_iou, none=-np.inf)
IOP = Criterion("iop", iop, reach=_boxes_meet)
IOR = Criterion("ior", _ior, crowd=iop, reach=_boxes_meet)
HAUSDORFF = Criterion("hausdorff", _hausdorff, none=-np.inf)


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
    common = runs.common(one, other, pairs.reference, pairs.prediction)
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
            f"masks of image {name!r} differ in size: references {_size_text(ours.size[row])}, "
            f"predictions {_size_text(theirs.size[column])} (width x height): masks of one image "
            "must have the same grid"
        )


def _size_text(size: I64) -> str:
    return " x ".join(str(side) for side in size.tolist())


def _against_boxes(pairs: PairTable, masks: Masks, form: Form) -> MaskOverlap:
    """Compare reference masks with predicted boxes; the band of a box is what shrinking every side
    takes away.
    """
    ours = form(masks)
    reference = ours.voxels[pairs.reference].astype(np.float64)
    corners, extent = pairs.prediction_boxes, pairs.prediction_extent
    common = ours.in_boxes(pairs.reference, corners)
    # What lies in the outer box but not in the inner one is the band.
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
        reference_boxes, predicted_boxes = self.reach(cohort, predictions, 0.0)
        row, column, _ = overlapping(
            (references.offsets, references.label, reference_boxes, box_extent(reference_boxes)),
            (predictions.offsets, predictions.label, predicted_boxes, box_extent(predicted_boxes)),
            references.crowd,
            n_classes,
        )
        pairs = PairTable(cohort, predictions, row.astype(np.int64), column.astype(np.int64))
        similarity = np.where(references.crowd[row], self.covered(pairs), self.similarity(pairs))
        # Overlapping boxes do not mean overlapping masks.
        near = np.flatnonzero(similarity > 0)
        return row[near], column[near], similarity[near]

    def reach(self, cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
        """Return the boxes around the masks; predictions without masks are boxes."""
        theirs = predictions.boxes if predictions.masks is None else predictions.masks.boxes()
        return reference_masks(cohort, self.name).boxes(), theirs

    def criterion(self) -> Criterion:
        """Return the criterion that compares so."""
        return Criterion(
            self.name, self.similarity, crowd=self.covered, fused=self.fused, reach=self.reach
        )


MASKS = MaskComparison("mask-iou", _whole, MaskOverlap.iou)
MASK_IOU = MASKS.criterion()
DICE = MaskComparison("dice", _whole, MaskOverlap.dice).criterion()
HULL_IOU = MaskComparison("hull-iou", Masks.hulls, MaskOverlap.iou).criterion()
BOUNDARY_IOU = MaskComparison("boundary-iou", _band, MaskOverlap.iou).criterion()


def _any_iou(pairs: PairTable) -> F64:
    return iou(pairs) if pairs.cohort.references.masks is None else MASKS.similarity(pairs)


def _any_covered(pairs: PairTable) -> F64:
    return iop(pairs) if pairs.cohort.references.masks is None else MASKS.covered(pairs)


def _any_fused(cohort: Cohort, predictions: Predictions, n_classes: int) -> tuple[I32, I32, F64]:
    fused = fused_iou if cohort.references.masks is None else MASKS.fused
    return fused(cohort, predictions, n_classes)


def _any_reach(cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
    reach = _boxes_meet if cohort.references.masks is None else MASKS.reach
    return reach(cohort, predictions, limit)


# With masks any common voxel counts, without them any common area of the boxes.
ANY_OVERLAP = Criterion(
    "any-overlap",
    _any_iou,
    yes_no=True,
    crowd=_any_covered,
    fused=_any_fused,
    reach=_any_reach,
)


Unit = Callable[[PairTable], F64 | float]  # what an axis is multiplied by before distances


def _pixels(pairs: PairTable) -> float:
    return 1.0


def _millimetres(pairs: PairTable) -> F64:
    return pairs.per_image(pairs.cohort.images.spacing, "spacing")


def _sides(pairs: PairTable) -> F64:
    return 1.0 / boxes.sides(pairs.reference_boxes)


@dataclass(frozen=True)
class PlaceDistance:
    """The distance of two places in a unit."""

    name: str
    unit: Unit

    def similarity(self, pairs: PairTable) -> F64:
        """Return the distances with their sign turned."""
        unit = self.unit(pairs)
        return -boxes.distance(pairs.reference_points, pairs.prediction_points, unit)

    def reach(self, cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
        """Return boxes of what is nearer than the limit on every axis, and the predicted places."""
        rows = np.arange(len(cohort.references))
        pairs = PairTable(cohort, predictions, rows, rows)
        points = pairs.reference_points
        # A little further than the limit: rounding must not lose a pair.
        half = np.asarray(limit / self.unit(pairs)) * (1 + 1e-9) + 1e-9 * np.abs(points)
        return np.concatenate([points - half, points + half]).T, _predicted_places(predictions)

    def criterion(self) -> Criterion:
        """Return the criterion that compares so."""
        return Criterion(self.name, self.similarity, none=-np.inf, distance=True, reach=self.reach)


def _predicted_places(predictions: Predictions) -> F64:
    """Return the (n, 2 d) places of predictions, as boxes that are points."""
    rows = np.arange(len(predictions))
    points = _places(predictions, rows, gather(predictions.boxes, rows)).T
    return np.concatenate([points, points], axis=1)


def _nearness(pairs: PairTable, is_inside: Flags) -> F64:
    """Return 1 / (1 + distance of the places) where the predicted place is inside of the reference,
    else 0.

    The value only orders the candidates: of several references that contain the point, the nearest
    comes first.
    """
    distance = boxes.distance(pairs.reference_points, pairs.prediction_points)
    return np.where(is_inside, 1.0 / (1.0 + distance), 0.0)


def _point_in_box(pairs: PairTable) -> F64:
    return _nearness(pairs, boxes.contains(pairs.reference_boxes, pairs.prediction_points))


def _point_in_mask(pairs: PairTable) -> F64:
    return _nearness(pairs, _inside(pairs, reference_masks(pairs.cohort, "point-in-mask")))


def _point_in_hull(pairs: PairTable) -> F64:
    return _nearness(pairs, _inside(pairs, reference_masks(pairs.cohort, "point-in-hull").hulls()))


def _inside(pairs: PairTable, masks: Masks) -> Flags:
    """Return whether the voxel of a predicted place belongs to the mask of the reference."""
    points = pairs.prediction_points
    flags = boxes.contains(gather(masks.boxes(), pairs.reference), points)
    near = np.flatnonzero(flags)  # few of all pairs
    flags[near] = masks.contains(pairs.reference[near], points[:, near].T)
    return flags


def _around_boxes(cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
    return cohort.references.boxes, _predicted_places(predictions)


def _around_masks(cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
    return reference_masks(cohort, "point-in-mask").boxes(), _predicted_places(predictions)


def _around_hulls(cohort: Cohort, predictions: Predictions, limit: float) -> tuple[F64, F64]:
    # The hull of a mask has its box.
    return reference_masks(cohort, "point-in-hull").boxes(), _predicted_places(predictions)


CENTRE_DISTANCE = PlaceDistance("centre-distance", _pixels).criterion()
CENTRE_DISTANCE_MM = PlaceDistance("centre-distance-mm", _millimetres).criterion()
CENTRE_DISTANCE_RELATIVE = PlaceDistance("centre-distance-relative", _sides).criterion()
POINT_IN_BOX = Criterion("point-in-box", _point_in_box, yes_no=True, reach=_around_boxes)
POINT_IN_MASK = Criterion("point-in-mask", _point_in_mask, yes_no=True, reach=_around_masks)
POINT_IN_HULL = Criterion("point-in-hull", _point_in_hull, yes_no=True, reach=_around_hulls)
