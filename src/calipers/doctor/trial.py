# SPDX-License-Identifier: Apache-2.0
"""Try a fix: do predictions meet more references with it than without?

`RawPredictions` are those of one model as they were delivered, before any rule: boxes may be
broken, images and classes unknown; a `Case` has them beside the references. A fix makes another
sample of them. `overlaps` says for every reference how well the best prediction of its class meets
it, and `convincing` compares two such columns reference by reference: a sound model loses by every
change, a poor one wins as often as it loses, and a misread one wins nearly everywhere. So nothing
is guessed from the look of numbers.

A fix that is right for one kind of images only is not right: `works_for_all_sizes` asks for
references met among images of every size. `calipers.doctor.box_trials` lists the ways in which
boxes are misread, `calipers.doctor.class_agreement` those in which classes are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.data.objects import LARGEST, Predictions, from_corners, row_all, to_corners
from calipers.io.reader import Key, ObjectPart
from calipers.io.source import Progress
from calipers.kernels import ragged
from calipers.kernels.boxes import all_pairs, overlapping

# Fields of findings on names that the references lack, by the column that they leave at -1.
UNKNOWN = {"image": "image", "image_id": "image", "class": "label", "category_id": "label"}
UNKNOWN_RULES = ("unknown-image", "unknown-category", "id-type")
HIT = 0.5  # IoU from which a reference counts as met
CLEAR = 0.1  # difference of the IoU that counts as won or lost
LEAST_SHARE = 0.3  # of the references that a fix must let predictions meet
# Median IoU of those that are met: a fix that is nearly right puts boxes beside their objects.
TYPICAL = 0.65
CERTAIN = 1e-4  # probability of so many wins by chance
CERTAIN_NAMED = 1e-3  # where names say the same, and nothing else was tried
FEW, EXACT = 3, 0.8  # so few wins convince if none is lost and the overlaps are nearly perfect
BEST = 20  # predictions of an image that are compared; a flood of them hits everything
MOST_ROWS = 20_000  # on the images that are compared; more would cost seconds for the same answer
NEAR_ZERO = 0.05  # share of references met below which AP is near 0
# A fix whose numbers were taken from the data itself fits by chance more easily.
CERTAIN_FITTED, FEWEST_FITTED = 1e-7, 8
SAME_SCALE, STANDARD_ERRORS = 0.01, 4.0  # by which a scale may be off, and by chance
FEW_OF_A_SIZE = 5  # references of images of one size that are too few to tell
EVERYWHERE = 0.25  # of the share that is met at the best size, so much at every other


@dataclass(frozen=True)
class RawPredictions:
    """The predictions of a model as delivered: a row each; -1 for an unknown image or class."""

    image: I64
    label: I64
    boxes: F64  # as delivered
    box_format: str
    score: F64 | None
    # The names of images and classes that the references lack, by row.
    image_names: Mapping[int, object] = field(default_factory=dict)
    label_names: Mapping[int, object] = field(default_factory=dict)
    n_before: int | None = None  # predictions, if only those on compared images are rows here

    def __len__(self) -> int:
        return len(self.label)

    @classmethod
    def of(cls, predictions: Predictions, box_format: str = "xyxy") -> RawPredictions:
        """Return the sample of a checked table, as if its boxes came in a format."""
        boxes = from_corners(predictions.boxes, box_format)
        image, label = predictions.image, predictions.label.astype(np.int64)
        return cls(image, label, boxes, box_format, predictions.score)

    @classmethod
    def compared(cls, predictions: Predictions) -> RawPredictions:
        """Return the predictions of a checked table on the images that are compared.

        Trials of millions of boxes would cost minutes and copies of all of them, although only
        those on every k-th image decide.
        """
        n = len(predictions)
        images = np.arange(0, predictions.n_images, _step_of(n))
        rows, offsets = ragged.take_rows(predictions.offsets, images)
        label = predictions.label[rows].astype(np.int64)
        boxes, score = predictions.boxes[rows], predictions.score[rows]
        return cls(images[ragged.owners(offsets)], label, boxes, "xyxy", score, n_before=n)

    def written_as(self, box_format: str) -> RawPredictions:
        """Return corners as if they had been written in a format and read as corners."""
        return replace(self, boxes=from_corners(self.boxes, box_format), box_format=box_format)

    @property
    def n(self) -> int:
        """How many predictions the model has; rows may be fewer."""
        return len(self) if self.n_before is None else self.n_before

    def corners(self, sizes: F64) -> F64:
        """Return the boxes as corners; NaN where the size of the image is needed and unknown."""
        per_box = sizes[self.image]
        per_box[self.image < 0] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            return to_corners(self.boxes, self.box_format, per_box)[0]


def sample_of(part: ObjectPart) -> RawPredictions:
    """Return the predictions of a part before any rule, with the names that nobody knows."""
    names: dict[str, dict[int, object]] = {"image": {}, "label": {}}
    for finding in part.findings:
        if finding.field in UNKNOWN and finding.rule in UNKNOWN_RULES:
            column = names[UNKNOWN[finding.field]]
            column.update(zip(finding.rows.tolist(), finding.values))
    delivery = part.delivery
    return RawPredictions(
        delivery.image.astype(np.int64),
        delivery.label.astype(np.int64),
        delivery.boxes.copy(),
        delivery.box_format,
        delivery.score,
        names["image"],
        names["label"],
    )


@dataclass(frozen=True)
class Case:
    """The predictions of a model beside the references."""

    cohort: Cohort
    file: str
    sample: RawPredictions
    image_keys: Sequence[Key]  # ids as the references type them
    class_keys: Mapping[Key, int] | None
    reference_format: str = "xyxy"
    in_order: bool = False  # whether only the order of predictions says on which images they are
    all_images: bool = False  # whether images that the references do not list count, too
    # Trials of boxes count by themselves: they may take longer than all the rest.
    progress: Progress | None = field(default=None, compare=False)


def overlaps(cohort: Cohort, sample: RawPredictions, *, by_class: bool = True) -> F64:
    """Return for every counted reference the IoU of the best prediction, of its class if asked.

    A prediction that is a point, as in LUNA16, has the size of the reference that it is compared
    with.
    """
    references = cohort.references
    best = np.zeros(len(references))
    n_classes = len(cohort.classes) if by_class else 0
    ours = (references.offsets, references.label, references.boxes, references.extent)
    for are_points in (False, True):
        picks = selected(cohort, sample, by_class=by_class, are_points=are_points)
        if not len(picks.rows):
            continue
        label = np.maximum(sample.label[picks.rows], 0).astype(np.int32)
        if are_points:
            row, column = all_pairs(ours[0], ours[1], picks.offsets, label, n_classes)
            np.maximum.at(best, row, _as_large(references.boxes[row], picks.boxes[column]))
            continue
        theirs = (picks.offsets, label, picks.boxes, picks.extent)
        reference, _, iou = overlapping(ours, theirs, references.crowd, n_classes)
        np.maximum.at(best, reference, iou)
    return np.asarray(best[counted(cohort, sample)])


def keeps_the_scale(cohort: Cohort, sample: RawPredictions) -> bool:
    """Return whether the coordinates of predictions are those of the references on which they lie,
    and not 2 % more or less: sides of 1000 and 1024 pixels meet about the same references.
    """
    references, picks = cohort.references, selected(cohort, sample)
    label = np.zeros(len(picks.rows), np.int32)
    ours = (references.offsets, references.label, references.boxes, references.extent)
    theirs = (picks.offsets, label, picks.boxes, picks.extent)
    reference, prediction, iou = overlapping(ours, theirs, references.crowd, 0)
    is_hit = iou >= HIT
    x, y = references.boxes[reference[is_hit]].ravel(), picks.boxes[prediction[is_hit]].ravel()
    squares = float(x @ x)
    if not squares:
        return True
    # The slope of a line through the origin, and its standard error.
    slope = float(x @ y) / squares
    error = float(np.sqrt(((y - slope * x) ** 2).mean() / squares))
    return abs(slope - 1.0) <= max(SAME_SCALE, STANDARD_ERRORS * error)


def counted(cohort: Cohort, sample: RawPredictions) -> Flags:
    """Return which references `overlaps` tells about: of many predictions every k-th image is
    compared, whatever the boxes are.
    """
    references = cohort.references
    return np.asarray(~references.ignore & (references.image % _step(sample) == 0))


def _step(sample: RawPredictions) -> int:
    return _step_of(sample.n)


def _step_of(n: int) -> int:
    return max(1, -(-n // MOST_ROWS))


@dataclass(frozen=True)
class SelectedRows:
    """The predictions that are compared, by image: the best of each, with boxes that are some."""

    rows: I64
    offsets: I64  # (n_images + 1,)
    boxes: F64

    @property
    def extent(self) -> F64:
        """(n,) areas or volumes."""
        half = self.boxes.shape[1] // 2
        return np.asarray(np.prod(self.boxes[:, half:] - self.boxes[:, :half], axis=1))


def selected(
    cohort: Cohort, sample: RawPredictions, *, by_class: bool = False, are_points: bool = False
) -> SelectedRows:
    """Return the predictions that are compared with references: those with an area, or points."""
    corners = sample.corners(cohort.images.size)
    low, high = np.split(corners, 2, axis=1)
    with np.errstate(invalid="ignore"):
        usable = (high == low).all(axis=1) if are_points else (high > low).all(axis=1)
        usable &= row_all(np.abs(corners) <= LARGEST[low.shape[1]])
    usable &= (sample.image >= 0) & (sample.image % _step(sample) == 0)
    if by_class:
        usable &= sample.label >= 0
    rows = np.flatnonzero(usable)
    score = np.ones(len(rows)) if sample.score is None else sample.score[rows]
    rows = rows[np.lexsort([-score, sample.image[rows]])]
    first = ragged.from_owner(sample.image[rows], cohort.n_images)
    rows = rows[np.arange(len(rows)) - first[sample.image[rows]] < BEST]
    offsets = ragged.from_owner(sample.image[rows], cohort.n_images)
    return SelectedRows(rows, offsets, np.ascontiguousarray(corners[rows]))


def _as_large(reference: F64, point: F64) -> F64:
    """Return the IoU of references with boxes of their own size about points."""
    half = reference.shape[1] // 2
    sides = reference[:, half:] - reference[:, :half]
    distance = np.abs((reference[:, half:] + reference[:, :half]) / 2 - point[:, :half])
    common = np.prod(np.maximum(sides - distance, 0.0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        iou = common / (2.0 * np.prod(sides, axis=1) - common)
    return np.asarray(np.nan_to_num(iou), np.float64)


def share_met(best: F64, n_predictions: int) -> float:
    """Return the share of references that are met, of those that so many predictions can meet."""
    possible = min(len(best), n_predictions)
    return float((best >= HIT).sum() / possible) if possible else 0.0


def convincing(
    before: F64,
    after: F64,
    n_predictions: int,
    *,
    fitted: bool = False,
    certain: float = CERTAIN,
) -> bool:
    """Return whether a fix helps so clearly that chance is no explanation: so many wins have a
    probability below ``certain``.

    More is asked of a fix whose numbers were ``fitted`` to the same data.
    """
    if share_met(after, n_predictions) < LEAST_SHARE:
        return False
    if float(np.median(after[after >= HIT])) < TYPICAL:
        return False
    wins = after > before + CLEAR
    n_wins, n_losses = int(wins.sum()), int((before > after + CLEAR).sum())
    if fitted:
        by_chance = _by_chance(n_wins, n_wins + n_losses)
        return n_wins >= FEWEST_FITTED and by_chance < CERTAIN_FITTED
    if n_wins >= FEW and not n_losses and float(np.median(after[wins])) >= EXACT:
        return True
    return _by_chance(n_wins, n_wins + n_losses) < certain


def _by_chance(wins: int, n: int) -> float:
    """Return the probability of at least so many wins in n fair games."""
    if wins <= n / 2:
        return 1.0
    # Hundreds of games need no exact sum: a normal bound is far below the limit.
    if n > 1000:
        return float(np.exp(-2.0 * n * (wins / n - 0.5) ** 2))
    return sum(comb(n, k) for k in range(wins, n + 1)) / 2.0**n


def works_for_all_sizes(cohort: Cohort, sample: RawPredictions, after: F64) -> bool:
    """Return whether references are met among images of every size, if images differ in it.

    Boxes that were padded to a square are right on square images if they are only scaled.
    """
    image = cohort.references.image[counted(cohort, sample)]
    sizes = cohort.images.size[image]
    if not len(image) or np.isnan(sizes).any():
        return True
    size_of = np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)
    n = np.bincount(size_of)
    shares = np.bincount(size_of, weights=after >= HIT) / n
    shares = shares[n >= FEW_OF_A_SIZE]
    return not len(shares) or bool(shares.min() >= EVERYWHERE * shares.max())
