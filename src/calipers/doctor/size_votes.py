# SPDX-License-Identifier: Apache-2.0
"""By which scale, or which shift, do predicted boxes differ from references? Pairs of them vote.

Nobody knows which prediction belongs to which reference. So every pair on an image says how its two
boxes would have to be scaled: the pairs that belong together agree, all others say something else
each. The value on which most agree is a candidate, no more: whether it is right, the overlaps tell
(`calipers.doctor.trial`).

Scales come in families (`Scaling`): one factor for all images, images resized to one square, to one
shorter or longer side, or padded to a square after that. `calipers.doctor.box_trials` calls
`scalings` and `shifts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.doctor.trial import RawPredictions, selected
from calipers.kernels.boxes import all_pairs
from calipers.show.words import digits

MOST_PAIRS = 200_000
ALIKE = 0.15  # difference of the logarithms of two scales of one pair that are still the same
WINDOW = 0.06  # width of a vote, in logarithms
FEWEST_VOTES = 8
MOST_CANDIDATES = 2  # of one family
# Numbers that people choose: an estimate that is as near is one of them.
FRACTIONS = (1 / 16, 1 / 10, 1 / 8, 1 / 6, 1 / 5, 1 / 4, 1 / 3, 3 / 8, 1 / 2, 5 / 8, 2 / 3, 3 / 4)
SIDES = (
    *(100, 224, 256, 300, 320, 384, 400, 416, 448, 500, 512, 600, 608, 640, 672, 768, 800, 896),
    *(1000, 1024, 1280, 1333, 1344, 1400, 1500, 1536, 2000, 2048, 4096),
)
NEAR = 0.08  # of its logarithm; wrong neighbours fail on the scale that is left
METRIC = (0.1, 10.0, 0.01, 100.0, 0.001, 1000.0)  # centimetres for millimetres, and so on
SMALLEST_SHIFT = 0.25  # of the typical side of a reference
SAME_SIZE = 0.25  # logarithm of the ratio of two sides that are still the same


class Scaling(NamedTuple):
    """A way in which predictions were scaled: ``kind`` with its number.

    ``factor``: all coordinates are references' times the number. ``square``: images were resized to
    a square of that side. ``shorter``, ``longer``: to that length of one side, as they are.
    ``padded``: to that length of the longer side, with borders on both sides up to a square.
    """

    kind: str
    number: float

    @property
    def words(self) -> str:
        """What the boxes are, after "boxes"."""
        number = digits(self.number, 4)
        if self.kind == "factor" and self.number < min(FRACTIONS):
            return f"are divided by {digits(1 / self.number, 4)}"
        if self.kind == "factor":
            return f"are at {number} times the resolution of the references"
        if self.kind == "square":
            return f"are on images resized to {number} x {number}"
        if self.kind == "padded":
            return f"are on images resized and padded to {number} x {number}"
        return f"are on images whose {self.kind} side was resized to {number}"

    @property
    def hint(self) -> str:
        """What to do about it."""
        number = digits(self.number, 4)
        if self.kind == "factor":
            # A fraction is undone by a whole number, which is nicer to read.
            return f"multiply all coordinates by {digits(1 / self.number, 4)}"
        if self.kind == "square":
            return f"multiply x by width / {number} and y by height / {number}"
        side = "min" if self.kind == "shorter" else "max"
        scaled = f"multiply all coordinates by {side}(width, height) / {number}"
        if self.kind == "padded":
            return f"subtract the border of the square from all coordinates, then {scaled}"
        return scaled

    def undone(self, corners: F64, sizes: F64) -> F64:
        """Return corners in pixels of the images, whose sizes are one row per box."""
        half = corners.shape[1] // 2
        factor = np.ones((len(corners), half))
        shift = np.zeros((len(corners), half))
        plane = sizes[:, :2]
        if self.kind == "factor":
            factor[:] = 1.0 / self.number
        elif self.kind == "square":
            factor[:, :2] = plane / self.number
        else:
            longest, shortest = plane.max(axis=1), plane.min(axis=1)
            side = shortest if self.kind == "shorter" else longest
            factor[:, :2] = (side / self.number)[:, None]
            if self.kind == "padded":
                shift[:, :2] = (self.number - plane / factor[:, :2]) / 2.0
        moved = (corners - np.concatenate([shift, shift], axis=1)) * np.concatenate(
            [factor, factor], axis=1
        )
        return np.asarray(moved)


# The plainest scales, which are tried whatever the boxes say.
PLAIN_FACTORS = (0.5, 0.25, 2.0, 4.0)
INPUT_SIDES = (224, 256, 320, 384, 416, 448, 512, 640, 768, 800, 896, 1024, 1280, 1536, 2048)


def plain_scalings(cohort: Cohort) -> Iterator[Scaling]:
    """Yield the scales that most mistakes have: halves, doubles, and the input of a network, which
    is a square to which images were stretched, or into which they were padded.
    """
    for factor in PLAIN_FACTORS:
        yield Scaling("factor", factor)
    if np.isfinite(cohort.images.size).all():
        for side in INPUT_SIDES:
            for kind in ("square", "longer", "padded"):
                yield Scaling(kind, float(side))


def scalings(cohort: Cohort, sample: RawPredictions) -> Iterator[Scaling]:
    """Yield the scales on which pairs agree, plain ones first."""
    reference, prediction, image = _pairs(cohort, sample)
    if not len(reference) and len(selected(cohort, sample, are_points=True).rows):
        # Points have no size that could vote.
        for number in METRIC:
            yield Scaling("factor", number)
    if len(reference) < FEWEST_VOTES:
        return
    ratio = _sides(prediction)[:, :2] / _sides(reference)[:, :2]
    sizes = cohort.images.size[image][:, :2]
    families = {"factor": ratio}
    if not np.isnan(sizes).any():
        families["square"] = ratio * sizes
        families["shorter"] = ratio * sizes.min(axis=1, keepdims=True)
        families["longer"] = ratio * sizes.max(axis=1, keepdims=True)
    for kind, both in families.items():
        votes = np.log(both)
        agreed = votes[np.abs(votes[:, 0] - votes[:, 1]) < ALIKE].mean(axis=1)
        for estimate in _peaks(agreed):
            for number in _usual(kind, estimate):
                if kind == "factor" and number == 1.0:
                    continue
                yield Scaling(kind, number)
                if kind == "longer":
                    yield Scaling("padded", number)


def shifts(cohort: Cohort, sample: RawPredictions) -> Iterator[F64]:
    """Yield the shifts, along every axis, on which pairs of boxes of the same size agree."""
    reference, prediction, _ = _pairs(cohort, sample)
    if len(reference) < FEWEST_VOTES:
        return
    same = np.abs(np.log(_sides(prediction) / _sides(reference))) < SAME_SIZE
    rows = same.all(axis=1)
    moves = _centres(reference[rows]) - _centres(prediction[rows])
    typical = np.median(_sides(reference))
    if len(moves) < FEWEST_VOTES or not typical > 0:
        return
    cells = np.round(moves / (0.25 * typical)).astype(np.int64)
    _, first, counts = np.unique(cells, axis=0, return_index=True, return_counts=True)
    peak = cells[first[counts.argmax()]]
    near = (np.abs(cells - peak) <= 1).all(axis=1)
    shift = np.median(moves[near], axis=0)
    if near.sum() >= FEWEST_VOTES and np.abs(shift).max() > SMALLEST_SHIFT * typical:
        yield np.round(shift, 1)


def _pairs(cohort: Cohort, sample: RawPredictions) -> tuple[F64, F64, I64]:
    """Return corners of references and predictions of all pairs on an image, and these images."""
    picks = selected(cohort, sample)
    references = cohort.references
    label = np.zeros(len(picks.rows), np.int32)
    row, column = all_pairs(references.offsets, references.label, picks.offsets, label, 0)
    if len(row) > MOST_PAIRS:
        step = -(-len(row) // MOST_PAIRS)
        row, column = row[::step], column[::step]
    return references.boxes[row], picks.boxes[column], references.image[row]


def _sides(boxes: F64) -> F64:
    half = boxes.shape[1] // 2
    return np.maximum(boxes[:, half:] - boxes[:, :half], 1e-9)


def _centres(boxes: F64) -> F64:
    half = boxes.shape[1] // 2
    return np.asarray((boxes[:, half:] + boxes[:, :half]) / 2.0)


def _peaks(votes: F64) -> Iterator[float]:
    """Yield the numbers whose logarithms have most votes about them."""
    votes = np.sort(votes)
    for _ in range(MOST_CANDIDATES):
        if len(votes) < FEWEST_VOTES:
            return
        low = np.searchsorted(votes, votes - WINDOW)
        high = np.searchsorted(votes, votes + WINDOW, side="right")
        best = int((high - low).argmax())
        if high[best] - low[best] < FEWEST_VOTES:
            return
        yield float(np.exp(np.median(votes[low[best] : high[best]])))
        votes = np.concatenate([votes[: low[best]], votes[high[best] :]])


def _usual(kind: str, estimate: float) -> list[float]:
    """Return the numbers that people choose near an estimate; an estimate itself is no fix."""
    choices = [float(side) for side in SIDES]
    if kind == "factor":
        choices = [*FRACTIONS, 1.0, *(1.0 / fraction for fraction in FRACTIONS), *METRIC]
        choices += [1.0 / side for side in SIDES]
    return [choice for choice in choices if abs(np.log(choice / estimate)) < NEAR]
