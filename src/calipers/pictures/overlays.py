# SPDX-License-Identifier: Apache-2.0
"""Which images to show, and the figure of one image: references and predictions of one model.

- `operating_point` chooses the score cut of a model, `matches_at` gives matches that are exact at a
  cut, and `outcomes` counts hits and errors of every image there.
- `worst`, `sample` and `disputed` choose images: where a model errs most, at random, and where
  models differ most.
- `overlay` returns the figure of one image and model: every object as the outline of its mask or
  else as its box, with its fate. Of a volume one slice is shown, that of the worst object
  (`slice_of`).
- `outline_of` returns the rings around a mask in the slice that is shown, no finer than a picture
  can show.

An `Evaluation` and its `Matches` come in; indices of images, score cuts and figures go out. Called
by the album and by the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.data.objects import Predictions, References
from calipers.evaluation.collect import collect
from calipers.evaluation.result import Evaluation
from calipers.kernels import assignment, runs, shapes
from calipers.matching.assign import MatchRecipe
from calipers.matching.matches import FATES, Matches
from calipers.show.figures import BoxMark, Overlay, Ring
from calipers.show.words import digits, short_name

# Pixels of the longer side of a picture: finer outlines would look the same.
PICTURE_SIDE = 512

SAMPLE_STREAM = 0x70696373  # keeps the sample apart from the replicates that share its seed

# The order of drawing: the last ones are on top.
LAYERS = ("ignored", "reference", "missed", "hit", "duplicate", "false alarm")
MOST_PREDICTIONS = 200  # in one figure; the best scored ones
MOST_REFERENCES = 1500  # in one figure; the largest ones
MOST_CORNERS = 8000  # of all outlines in one figure; beyond, they are drawn coarser
MARGIN = 1.05  # of a frame of unknown size around all boxes
LONGEST = 60  # characters of an id in a title


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The fates of the objects of every image at one score cut; ignored ones are left out."""

    hits: I64  # (n_images,) references that were found
    missed: I64  # (n_images,)
    false_alarms: I64  # (n_images,)
    duplicates: I64  # (n_images,)
    is_hit: Flags  # (n_references,)
    reference_image: I64  # (n_references,)

    @property
    def errors(self) -> I64:
        """(n_images,) missed, false alarms and duplicates together."""
        return self.missed + self.false_alarms + self.duplicates


@dataclass(frozen=True, slots=True)
class ImageObjects:
    """The objects of one image at a score cut: rows of the cohort's tables, and their fates."""

    references: I64
    reference_fates: tuple[str, ...]  # reference, missed or ignored
    predictions: I64  # best score first
    prediction_fates: tuple[str, ...]

    def references_with(self, fate: str) -> list[int]:
        """Return the rows of the references of one fate."""
        rows = zip(self.references.tolist(), self.reference_fates)
        return [row for row, own in rows if own == fate]

    def predictions_with(self, fate: str) -> list[int]:
        """Return the rows of the predictions of one fate, best score first."""
        rows = zip(self.predictions.tolist(), self.prediction_fates)
        return [row for row, own in rows if own == fate]


def operating_point(matches: Matches) -> float:
    """Return the score cut of the best F1 over all counted objects, under the first view.

    Notes
    -----
    F1 is twice the hits over predictions plus references. Of several best cuts the highest is
    returned. The cut is -inf, which keeps all predictions, if there is no hit or if all scores are
    equal. A cut of the protocol itself is returned unchanged.
    """
    view = matches.views[0]
    if view.score_cut > -math.inf:
        return view.score_cut
    fate = matches.prediction_fate[0]
    is_scored = fate != assignment.IGNORED
    score, hit = matches.score[is_scored], fate[is_scored] == assignment.HIT
    if not hit.any() or (score == score[0]).all():
        return -math.inf
    order = np.argsort(score)[::-1]  # equal scores in any order: they are cut together
    hits = np.cumsum(hit[order])
    n_references = np.count_nonzero(matches.reference_fate[0] != assignment.IGNORED)
    value = 2.0 * hits / (np.arange(1, len(hits) + 1) + n_references)
    descending = score[order]
    # A cut keeps all predictions of a score or none, so that F1 counts only behind the last of
    # equal scores.
    last = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    return float(descending[last[int(np.argmax(value[last]))]])


def matches_at(
    evaluation: Evaluation, model: str, cut: float, matches: Matches | None = None
) -> Matches:
    """Return matches in which leaving out predictions below the cut is exact.

    Where pairs are chosen by score, this holds for the matches of the protocol. Other assignments
    are computed again without those predictions, because one of them may have taken the reference
    of a prediction with a higher score.
    """
    matches = evaluation.matches(model) if matches is None else matches
    view = matches.views[0]
    if (
        view.assignment in assignment.CHOOSING_IN_TURN
        or cut <= view.score_cut
        or not (matches.score < cut).any()
    ):
        return matches
    # With the cut in the view, the assignment never sees the predictions below it.
    recipe = MatchRecipe((replace(view, score_cut=cut),))
    result = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(result, Matches)
    return result


def remaining_predictions(matches: Matches, cut: float, rows: slice = slice(None)) -> Flags:
    """Return which predictions remain: at or above the cut, and among the best that the protocol
    admits.
    """
    view = matches.views[0]
    return np.asarray(
        (matches.score[rows] >= max(cut, view.score_cut)) & (matches.rank[rows] < view.max_dets)
    )


def outcomes(matches: Matches, cut: float) -> Outcomes:
    """Return hits and errors of every image; a reference whose hit lies below the cut counts as
    missed.
    """
    in_play = remaining_predictions(matches, cut)
    prediction_fate, reference_fate = matches.prediction_fate[0], matches.reference_fate[0]
    is_hit = np.zeros(len(reference_fate), np.bool_)
    is_hit[matches.partner[in_play & (prediction_fate == assignment.HIT)]] = True
    # Only references that the protocol counts as found.
    is_hit &= reference_fate == assignment.HIT
    is_missed = (reference_fate != assignment.IGNORED) & ~is_hit
    is_false_alarm = in_play & (prediction_fate == assignment.FALSE_ALARM)
    is_duplicate = in_play & (prediction_fate == assignment.DUPLICATE)

    def count(image: I64, flags: Flags) -> I64:
        return np.bincount(image[flags], minlength=matches.n_images)

    return Outcomes(
        hits=count(matches.reference_image, is_hit),
        missed=count(matches.reference_image, is_missed),
        false_alarms=count(matches.prediction_image, is_false_alarm),
        duplicates=count(matches.prediction_image, is_duplicate),
        is_hit=is_hit,
        reference_image=matches.reference_image,
    )


def worst(of: Outcomes, n: int) -> I64:
    """Return at most ``n`` images, those with most errors first.

    Ties go to the image with more missed references, then to the earlier one. Images without errors
    are left out.
    """
    # lexsort is stable: ties stay in the order of the images.
    order = np.lexsort((-of.missed, -of.errors))[: max(n, 0)]
    return order[of.errors[order] > 0]


def sample(n_images: int, n: int, seed: int) -> I64:
    """Return ``n`` different images drawn at random, in the order of the images."""
    key = np.array([seed, SAMPLE_STREAM], np.uint64)
    random = np.random.Generator(np.random.Philox(key=key))
    return np.sort(random.choice(n_images, size=min(max(n, 0), n_images), replace=False))


def disputed(models: Sequence[Outcomes], n: int) -> I64:
    """Return at most ``n`` images on which models differ most; ties go to the earlier image.

    The difference is the number of references that some but not all models found, plus the
    difference between the most and the fewest false alarms. Images without any are left out.
    """
    if len(models) < 2:
        return np.zeros(0, np.int64)
    votes = np.sum([of.is_hit for of in models], axis=0)
    is_disputed = (votes > 0) & (votes < len(models))
    alarms = np.stack([of.false_alarms for of in models])
    amount: I64 = np.bincount(models[0].reference_image[is_disputed], minlength=alarms.shape[1])
    # Also images without references may be disputed: by their false alarms.
    amount = amount + np.ptp(alarms, axis=0)
    order = np.argsort(-amount, kind="stable")[: max(n, 0)]
    return order[amount[order] > 0]


def overlay(
    evaluation: Evaluation,
    model: str,
    image: int,
    *,
    cut: float,
    picture: str = "",
    symbol: str = "",
    shade_symbol: str = "",
    matches: Matches | None = None,
    slice_at: float | None = None,
    size: tuple[float, float] | None = None,
) -> Overlay:
    """Return the figure of one image and model.

    Parameters
    ----------
    image
        Index in the cohort.
    cut
        Predictions of a lower score are left out.
    picture, symbol
        The pixels: a data: address, or the id of one in the page.
    shade_symbol
        The id of the map of the model in the page.
    matches
        Those of the model, if they are available; see `matches_at`.
    slice_at
        Of a volume: the slice that is shown, in voxels; by default `slice_of`.
    size
        Width and height of the picture; used if the cohort lacks them.
    """
    matches = matches_at(evaluation, model, cut, matches)
    cohort = evaluation.cohort
    objects = objects_of(matches, image, cut)
    if cohort.dimensions == 3 and slice_at is None:
        slice_at = slice_of(cohort, model, image, objects)
    frame = frame_of(cohort, image, size)
    large, n_small = _large_references(cohort.references, objects, slice_at)
    marks = _marks_with_few_corners(
        cohort, model, matches, large, slice_at, coarseness(*frame), max(frame)
    )
    notes = [f"model {short(model)}"]
    notes.append("all predictions" if cut == -math.inf else f"scores of at least {digits(cut, 3)}")
    if slice_at is not None:
        kind = "boxes" if cohort.references.masks is None else "outlines"
        notes.append(f"counts are of the whole volume, {kind} are those that reach the slice")
    surplus = len(objects.predictions) - MOST_PREDICTIONS
    if surplus > 0:
        notes.append(f"the {surplus} predictions of lowest score are not drawn")
    if n_small:
        notes.append(f"the {n_small} smallest references are not drawn")
    return Overlay(
        title_of(cohort, image, objects, slice_at),
        note="; ".join(notes),
        size=frame,
        marks=tuple(sorted(marks, key=lambda mark: LAYERS.index(mark.fate))),
        picture=picture,
        symbol=symbol,
        shade_symbol=shade_symbol,
    )


def objects_of(matches: Matches, image: int, cut: float) -> ImageObjects:
    """Return the objects of one image and their fates at a cut."""
    first, last = matches.reference_offsets[image : image + 2].tolist()
    start, stop = matches.prediction_offsets[image : image + 2].tolist()
    rows = np.arange(start, stop)[remaining_predictions(matches, cut, slice(start, stop))]
    rows = rows[np.argsort(-matches.score[rows], kind="stable")]
    fates = matches.prediction_fate[0][rows]
    # Only hits above the cut: a reference whose hit is left out counts as missed.
    hits = set(matches.partner[rows[fates == assignment.HIT]].tolist())
    reference_fates = []
    for row in range(first, last):
        if matches.reference_fate[0][row] == assignment.IGNORED:
            reference_fates.append("ignored")
        elif row in hits:
            reference_fates.append("reference")
        else:
            reference_fates.append("missed")
    prediction_fates = tuple(FATES[fate] for fate in fates.tolist())
    return ImageObjects(np.arange(first, last), tuple(reference_fates), rows, prediction_fates)


def _large_references(
    references: References, objects: ImageObjects, slice_at: float | None
) -> tuple[ImageObjects, int]:
    """Return the objects without references that are too many or not in the slice, and the number
    of those that are too many.
    """
    rows = objects.references
    if slice_at is not None:
        rows = rows[_reaches(references.boxes[rows], slice_at)]
    n_small = max(len(rows) - MOST_REFERENCES, 0)
    if n_small:
        largest = np.argsort(-references.extent[rows], kind="stable")[:MOST_REFERENCES]
        rows = rows[np.sort(largest)]
    places = np.searchsorted(objects.references, rows).tolist()
    fates = tuple(objects.reference_fates[k] for k in places)
    return replace(objects, references=rows, reference_fates=fates), n_small


def _marks_with_few_corners(
    cohort: Cohort,
    model: str,
    matches: Matches,
    objects: ImageObjects,
    slice_at: float | None,
    step: int,
    longest: float,
) -> list[BoxMark]:
    """Return the marks with outlines of step ``step``, or coarser if they have too many corners."""
    while True:
        marks, corners = [], 0
        # Doubling ends: an outline in steps of the whole image has four corners.
        is_coarsest = not step < longest
        for mark in _marks(cohort, model, matches, objects, slice_at, step):
            marks.append(mark)
            corners += sum(map(len, mark.outline))
            if corners > MOST_CORNERS and not is_coarsest:
                break
        else:
            return marks
        step *= 2


def _marks(
    cohort: Cohort,
    model: str,
    matches: Matches,
    objects: ImageObjects,
    slice_at: float | None,
    step: int,
) -> Iterator[BoxMark]:
    references, predictions, names = cohort.references, cohort.models[model], cohort.classes
    for row, fate in zip(objects.references.tolist(), objects.reference_fates):
        if (place := _box_and_outline(references, row, slice_at, step)) is not None:
            yield BoxMark(fate, place[0], names[references.label[row]], outline=place[1])
    rows = objects.predictions[:MOST_PREDICTIONS].tolist()
    for row, fate in zip(rows, objects.prediction_fates):
        if (place := _box_and_outline(predictions, row, slice_at, step)) is None:
            continue
        label = names[predictions.label[row]]
        partner = int(matches.partner[row])
        if fate == "hit" and partner >= 0 and references.label[partner] != predictions.label[row]:
            # A hit of another class is drawn as a hit, so its tooltip must say what it was called.
            label = f"{names[references.label[partner]]} (called {label})"
        score = float(predictions.score[row]) if predictions.scored else math.nan
        yield BoxMark(fate, place[0], label, score, place[1])


def _box_and_outline(
    table: References | Predictions, row: int, slice_at: float | None, step: int
) -> tuple[tuple[float, float, float, float], tuple[Ring, ...]] | None:
    """Return box and outline of an object in its image; None if it does not reach the slice of a
    volume.
    """
    box = _box_in_slice(table.boxes[row], slice_at)
    if box is None:
        return None
    if table.masks is None:
        return box, ()
    outline = outline_of(table.masks, row, slice_at, step)
    return (box, outline) if outline else None


def _box_in_slice(box: F64, slice_at: float | None) -> tuple[float, float, float, float] | None:
    """Return the corners of a box in its image, or None if a box of a volume does not reach the
    slice.
    """
    corners = box.tolist()
    if slice_at is None:
        x0, y0, x1, y1 = corners
        return x0, y0, x1, y1
    x0, y0, _, x1, y1, _ = corners
    return (x0, y0, x1, y1) if _reaches(box[None], slice_at)[0] else None


def _reaches(boxes: F64, slice_at: float) -> Flags:
    """Return which boxes of volumes reach a slice."""
    # Voxel k reaches from k to k + 1; a box that only touches the slice does not reach it.
    k = math.floor(slice_at)
    return np.asarray((boxes[:, 2] < k + 1) & (boxes[:, 5] > k))


def slice_of(cohort: Cohort, model: str, image: int, objects: ImageObjects) -> float:
    """Return the slice that shows most of the worst object of a volume; the middle of the volume if
    there is no object.

    The worst object is the largest missed reference, else the false alarm with the best score, else
    the largest object. For a mask it is the slice with most voxels, for a box the one through its
    centre.
    """
    depth = float(cohort.images.size[image, 2])
    worst = _worst_object(cohort.references, cohort.models[model], objects)
    if worst is None:
        return float(depth // 2) if math.isfinite(depth) else 0.0
    table, row = worst
    if table.masks is not None:
        return float(widest_slice(table.masks, row))
    middle = max(math.floor((table.boxes[row, 2] + table.boxes[row, 5]) / 2.0), 0)
    return float(min(middle, depth - 1) if math.isfinite(depth) else middle)


def _worst_object(
    references: References, predictions: Predictions, objects: ImageObjects
) -> tuple[References | Predictions, int] | None:
    """Return the table and the row of the worst object of an image; None if it has none."""
    missed = objects.references_with("missed")
    if missed:
        # Rows ascend, and max takes the first of equal ones.
        return references, max(missed, key=references.extent.__getitem__)
    alarms = objects.predictions_with("false alarm")
    if alarms:
        return predictions, alarms[0]
    # No error at all: the largest object, references before predictions of the same extent.
    largest, worst = -math.inf, None
    tables = ((references, objects.references), (predictions, objects.predictions))
    for table, rows in tables:
        for row in rows.tolist():
            if table.extent[row] > largest:
                largest, worst = table.extent[row], (table, row)
    return worst


def frame_of(
    cohort: Cohort, image: int, picture: tuple[float, float] | None
) -> tuple[float, float]:
    """Return width and height: of the cohort, else of the picture, else around the boxes of all
    models.
    """
    width, height = cohort.images.size[image, :2].tolist()
    if math.isfinite(width) and math.isfinite(height):
        return width, height
    if picture is not None:
        return picture
    n = cohort.dimensions
    tables = [cohort.references, *cohort.models.values()]
    ends = []
    for table in tables:
        own = slice(table.offsets[image], table.offsets[image + 1])
        ends.append(table.boxes[own, n : n + 2])
    far = np.concatenate(ends).max(axis=0, initial=1.0) * MARGIN
    return float(far[0]), float(far[1])


def title_of(cohort: Cohort, image: int, objects: ImageObjects, slice_at: float | None) -> str:
    """Return the counts of an image in words: ``P031_2: 2 of 3 found, 1 false alarm``."""
    hits = len(objects.references_with("reference"))
    n_references = hits + len(objects.references_with("missed"))
    words = [f"{hits} of {n_references} found" if n_references else "nothing to find"]
    for fate in ("false alarm", "duplicate"):
        if n := len(objects.predictions_with(fate)):
            words.append(f"{n} {fate}" if n == 1 else f"{n} {fate}s")
    place = "" if slice_at is None else f", slice z = {math.floor(slice_at)}"
    return f"{short(cohort.images.ids[image])}{place}: {', '.join(words)}"


def short(name: str) -> str:
    """Return a name that fits a title; ids of images differ at their ends."""
    return short_name(name, LONGEST, LONGEST // 2)


def coarseness(width: float, height: float) -> int:
    """Return the step of the outlines of an image, in pixels."""
    longest = max(width, height)
    return max(1, math.ceil(longest / PICTURE_SIDE)) if math.isfinite(longest) else 1


def outline_of(
    masks: Masks, row: int, slice_at: float | None = None, step: int = 1
) -> tuple[Ring, ...]:
    """Return the rings around the mask of an object, in pixels of the image; none if it does not
    reach the slice.

    Parameters
    ----------
    slice_at
        Of a volume: the place along z in voxels.
    step
        Pixels along each side that are merged into one. The merged pixel belongs to the mask if at
        least half of its pixels do; if none does, if any of them does.
    """
    mask, (x, y) = _mask_in_slice(masks, row, slice_at, step)
    points, offsets = shapes.rings(_merge_pixels(mask, step))
    corners = [(a, b) for a, b in (points * step + (x, y)).astype(float).tolist()]
    return tuple(tuple(corners[i:j]) for i, j in pairwise(offsets.tolist()))


def _mask_in_slice(
    masks: Masks, row: int, slice_at: float | None, step: int
) -> tuple[Flags, tuple[int, int]]:
    """Return the part of a slice that holds the object, and its corner, a multiple of the step."""
    mine = slice(int(masks.offsets[row]), int(masks.offsets[row + 1]))
    start, length = masks.start[mine], masks.length[mine]
    width, height = masks.size[row, :2].tolist()
    if slice_at is not None:
        first = math.floor(slice_at) * width * height
        inside = (start >= first) & (start < first + width * height)
        start, length = start[inside] - first, length[inside]
    if not len(start):
        return np.zeros((0, 0), np.bool_), (0, 0)
    x, y = start % width, start // width
    # A multiple of the step, so that merged pixels of all objects lie on one grid.
    x0, y0 = (int(low) // step * step for low in (x.min(), y.min()))
    shape = int(y.max()) + 1 - y0, int((x + length).max()) - x0
    return runs.fill((y - y0) * shape[1] + x - x0, length, True, shape), (x0, y0)


def _merge_pixels(mask: Flags, step: int) -> Flags:
    """Return a mask with ``step`` x ``step`` pixels merged into one."""
    if step == 1 or not mask.size:
        return mask
    height, width = mask.shape
    padded = np.pad(mask, ((0, -height % step), (0, -width % step)))
    share = padded.reshape(padded.shape[0] // step, step, -1, step).mean(axis=(1, 3))
    # A small object must not vanish: without a pixel that is half full, any share counts.
    return np.asarray(share >= 0.5 if (share >= 0.5).any() else share > 0)


def widest_slice(masks: Masks, row: int) -> int:
    """Return the slice of a volume in which an object has most voxels; the first of several."""
    mine = slice(int(masks.offsets[row]), int(masks.offsets[row + 1]))
    width, height, _ = masks.size[row].tolist()
    slices = masks.start[mine] // (width * height)
    return int(np.bincount(slices, weights=masks.length[mine]).argmax())
