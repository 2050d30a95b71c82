# SPDX-License-Identifier: Apache-2.0
"""Try a fix: do predictions meet more references with it than without?

`RawPredictions` are those of one model as they were delivered, before any rule: boxes may be
broken, images and classes unknown. A fix makes another sample of them. `overlaps` says for every
reference how well the best prediction of its class meets it, and `convincing` compares two such
columns reference by reference: a sound model loses by every change, a poor one wins as often as it
loses, and a misread one wins nearly everywhere. So nothing is guessed from the look of numbers.

`box_trials` lists the ways in which boxes are misread: formats, axes, scale, mirrored. The checks
of `calipers.doctor.symptoms` and the warnings of an evaluation whose AP is near 0 use them
(`suspicion`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import comb
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.data.objects import LARGEST, Predictions, from_corners, row_all, to_corners
from calipers.kernels import ragged
from calipers.kernels.boxes import overlapping

HIT = 0.5  # IoU from which a reference counts as met
CLEAR = 0.1  # difference of the IoU that counts as won or lost
LEAST_SHARE = 0.3  # of the references that a fix must let predictions meet
# Median IoU of those that are met: a fix that is nearly right puts boxes beside their objects.
TYPICAL = 0.65
CERTAIN = 1e-4  # probability of so many wins by chance
FEW, EXACT = 3, 0.8  # so few wins convince if none is lost and the overlaps are nearly perfect
BEST = 20  # predictions of an image that are compared; a flood of them hits everything
MOST_ROWS = 20_000  # on the images that are compared; more would cost seconds for the same answer
NEAR_ZERO = 0.05  # share of references met below which AP is near 0
SOUND = 0.7  # share of references met from which nothing is tried

LAYOUTS = ("xyxy", "xywh", "cxcywh")
SCALES = (2.0, 4.0, 0.5, 0.25)
# Sides of the square to which networks resize their input.
INPUT_SIDES = (224, 256, 320, 384, 416, 448, 512, 640, 768, 800, 896, 1024, 1280, 1536, 2048)


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

    def __len__(self) -> int:
        return len(self.label)

    @classmethod
    def of(cls, predictions: Predictions, box_format: str = "xyxy") -> RawPredictions:
        """Return the sample of a checked table, as if its boxes came in a format."""
        boxes = from_corners(predictions.boxes, box_format)
        image, label = predictions.image, predictions.label.astype(np.int64)
        return cls(image, label, boxes, box_format, predictions.score)

    def corners(self, sizes: F64) -> F64:
        """Return the boxes as corners; NaN where the size of the image is needed and unknown."""
        per_box = sizes[self.image]
        per_box[self.image < 0] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            return to_corners(self.boxes, self.box_format, per_box)[0]


def overlaps(cohort: Cohort, sample: RawPredictions, *, by_class: bool = True) -> F64:
    """Return for every counted reference the IoU of the best prediction, of its class if asked."""
    references = cohort.references
    corners = sample.corners(cohort.images.size)
    low, high = np.split(corners, 2, axis=1)
    with np.errstate(invalid="ignore"):
        in_range = row_all(np.abs(corners) <= LARGEST[low.shape[1]])
        usable = (sample.image >= 0) & (high > low).all(axis=1) & in_range
    if by_class:
        usable &= sample.label >= 0
    # Of many predictions every k-th image is compared, whatever the boxes are.
    step = max(1, -(-len(sample) // MOST_ROWS))
    rows = np.flatnonzero(usable & (sample.image % step == 0))
    score = np.ones(len(rows)) if sample.score is None else sample.score[rows]
    order = np.lexsort([-score, sample.image[rows]])
    rows = rows[order]
    first = ragged.from_owner(sample.image[rows], cohort.n_images)
    rows = rows[np.arange(len(rows)) - first[sample.image[rows]] < BEST]
    boxes = np.ascontiguousarray(corners[rows])
    extent = np.prod(boxes[:, boxes.shape[1] // 2 :] - boxes[:, : boxes.shape[1] // 2], axis=1)
    theirs = (
        ragged.from_owner(sample.image[rows], cohort.n_images),
        np.maximum(sample.label[rows], 0).astype(np.int32),
        boxes,
        extent,
    )
    ours = (references.offsets, references.label, references.boxes, references.extent)
    n_classes = len(cohort.classes) if by_class else 0
    reference, _, iou = overlapping(ours, theirs, references.crowd, n_classes)
    best = np.zeros(len(references))
    np.maximum.at(best, reference, iou)
    return np.asarray(best[~references.ignore & (references.image % step == 0)])


def share_met(best: F64, n_predictions: int) -> float:
    """Return the share of references that are met, of those that so many predictions can meet."""
    possible = min(len(best), n_predictions)
    return float((best >= HIT).sum() / possible) if possible else 0.0


def convincing(before: F64, after: F64, n_predictions: int) -> bool:
    """Return whether a fix helps so clearly that chance is no explanation."""
    if share_met(after, n_predictions) < LEAST_SHARE:
        return False
    if float(np.median(after[after >= HIT])) < TYPICAL:
        return False
    wins = after > before + CLEAR
    n_wins, n_losses = int(wins.sum()), int((before > after + CLEAR).sum())
    if n_wins >= FEW and not n_losses and float(np.median(after[wins])) >= EXACT:
        return True
    return _by_chance(n_wins, n_wins + n_losses) < CERTAIN


def _by_chance(wins: int, n: int) -> float:
    """Return the probability of at least so many wins in n fair games."""
    if wins <= n / 2:
        return 1.0
    # Hundreds of games need no exact sum: a normal bound is far below the limit.
    if n > 1000:
        return float(np.exp(-2.0 * n * (wins / n - 0.5) ** 2))
    return sum(comb(n, k) for k in range(wins, n + 1)) / 2.0**n


class BoxTrial(NamedTuple):
    """One way in which boxes may have been misread, with the sample that is read rightly."""

    code: str
    words: str  # what the boxes are, after "boxes"
    hint: str
    sample: RawPredictions
    box_format: str | None = None  # that reads them rightly, if a format is all


def box_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """Yield the ways in which boxes may have been misread, the plainest first."""
    has_sizes = bool(np.isfinite(cohort.images.size).all())
    yield from _format_trials(sample, has_sizes)
    for layout in dict.fromkeys([sample.box_format, *LAYOUTS]):
        words = "have x and y swapped"
        if layout != sample.box_format:
            words += f", and are {layout}"
        swapped = _moved(cohort, replace(sample, box_format=layout), _swap)
        yield BoxTrial("axes-swapped", words, "write x before y", swapped)
    for factor in SCALES:
        words = f"are at {1 / factor:g} times the resolution of the references"
        hint = f"multiply all coordinates by {factor:g}"
        yield BoxTrial("resolution", words, hint, _moved(cohort, sample, _scale(factor)))
    if has_sizes:
        yield from _sized_trials(cohort, sample)


def _format_trials(sample: RawPredictions, has_sizes: bool) -> Iterator[BoxTrial]:
    names = [*LAYOUTS]
    if has_sizes:
        names += [f"{layout}-normalised" for layout in LAYOUTS]
    for name in names:
        if name != sample.box_format:
            code = "boxes-normalised" if name.endswith("-normalised") else "box-format"
            hint = f"read the boxes as {name}"
            yield BoxTrial(code, f"are {name}", hint, replace(sample, box_format=name), name)


def _sized_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    for side in INPUT_SIDES:
        words = f"are on images resized to {side} x {side}"
        hint = f"multiply x by width / {side} and y by height / {side}"
        yield BoxTrial("resolution", words, hint, _moved(cohort, sample, _scale_from(side)))
    turns = (
        (1, "are upside down", "count y from the upper border of the image"),
        (0, "are mirrored left to right", "count x from the left border of the image"),
    )
    for axis, words, hint in turns:
        if not _like_a_shift(cohort, sample, axis):
            mirrored = _moved(cohort, sample, _mirror(axis))
            yield BoxTrial("mirrored", words, hint, mirrored)


def _like_a_shift(cohort: Cohort, sample: RawPredictions, axis: int) -> bool:
    """Return whether mirroring moves nearly all boxes by the same distance, as where all findings
    lie on one side: boxes that are shifted would look the same.
    """
    corners = sample.corners(cohort.images.size)
    half = corners.shape[1] // 2
    low, high = corners[:, axis], corners[:, half + axis]
    distance = cohort.images.size[sample.image, axis] - low - high
    first, last = np.quantile(distance, (0.1, 0.9)) if len(distance) else (0.0, 0.0)
    return bool(last - first < np.median(high - low)) if len(distance) else True


Move = Callable[[F64, F64], F64]  # corners and image sizes of boxes -> corners


def _moved(cohort: Cohort, sample: RawPredictions, move: Move) -> RawPredictions:
    sizes = cohort.images.size[sample.image]
    corners = move(sample.corners(cohort.images.size), sizes)
    return replace(sample, boxes=corners, box_format="xyxy")


def _swap(corners: F64, sizes: F64) -> F64:
    half = corners.shape[1] // 2
    order = np.arange(2 * half)
    order[[0, 1, half, half + 1]] = [1, 0, half + 1, half]
    return np.ascontiguousarray(corners[:, order])


def _scale(factor: float) -> Move:
    return lambda corners, sizes: corners * factor


def _scale_from(side: int) -> Move:
    def move(corners: F64, sizes: F64) -> F64:
        factor = np.ones_like(sizes)
        factor[:, :2] = sizes[:, :2] / side
        return np.asarray(corners * np.concatenate([factor, factor], axis=1))

    return move


def _mirror(axis: int) -> Move:
    def move(corners: F64, sizes: F64) -> F64:
        half = corners.shape[1] // 2
        moved = corners.copy()
        moved[:, axis] = sizes[:, axis] - corners[:, half + axis]
        moved[:, half + axis] = sizes[:, axis] - corners[:, axis]
        return moved

    return move


class BoxVerdict(NamedTuple):
    """A trial that convinced, and the shares of references met without and with it."""

    trial: BoxTrial
    share_before: float
    share_after: float


def best_trial(cohort: Cohort, sample: RawPredictions) -> BoxVerdict | None:
    """Return the fix of the boxes with which most references are met, if one convinces."""
    # Places only: classes may be numbered wrongly at the same time.
    before = overlaps(cohort, sample, by_class=False)
    n = len(sample)
    if share_met(before, n) >= SOUND or not len(before):
        return None
    best: BoxVerdict | None = None
    for trial in box_trials(cohort, sample):
        after = overlaps(cohort, trial.sample, by_class=False)
        share = share_met(after, n)
        # A later trial must be clearly better: formats come before stranger explanations.
        if convincing(before, after, n) and (best is None or share > 1.1 * best.share_after):
            best = BoxVerdict(trial, share_met(before, n), share)
    return best


def suspicion(cohort: Cohort, model: str) -> str | None:
    """Return in words why a checked model meets hardly a reference, if its classes or the way in
    which its boxes were read explain that.
    """
    predictions = cohort.predictions(model)
    sample = RawPredictions.of(predictions)
    n = len(sample)
    placed, right = overlaps(cohort, sample, by_class=False), overlaps(cohort, sample)
    if share_met(right, n) < NEAR_ZERO and convincing(right, placed, n):
        share = share_met(placed, n)
        return f"{share:.0%} of the references are met by a box of another class: check the classes"
    # The format in which the file was read is not known here: the one that explains most counts.
    verdicts = {}
    for layout in LAYOUTS:
        verdict = best_trial(cohort, RawPredictions.of(predictions, layout))
        if verdict is not None:
            verdicts[layout] = verdict
    if not verdicts:
        return None
    layout = max(verdicts, key=lambda name: verdicts[name].share_after)
    trial, _, share = verdicts[layout]
    words = trial.words
    if trial.box_format is not None:
        words += f", but were read as {layout}"
    return f"it seems that boxes {words} ({share:.0%} of the references would be met)"
