# SPDX-License-Identifier: Apache-2.0
"""The figure of one image: references and the predictions of one model, as outlines of masks or
else as boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.evaluation import Evaluation
from calipers.kernels import matching
from calipers.matches import FATES, Matches
from calipers.pictures.choosing import matches_at, remaining_predictions
from calipers.pictures.outlines import coarseness, outline_of, widest_slice
from calipers.plots.figures import BoxMark, Overlay, Ring
from calipers.tables import Cohort, Predictions, References

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# The order of drawing: the last ones are on top.
LAYERS = ("ignored", "reference", "missed", "hit", "duplicate", "false alarm")
MOST_PREDICTIONS = 200  # in one figure; the best scored ones
MOST_CORNERS = 8000  # of all outlines in one figure; beyond, they are drawn coarser
MARGIN = 1.05  # of a frame of unknown size around all boxes
LONGEST = 60  # characters of an id in a title


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
        Those of the model, if they are available; see `choosing.matches_at`.
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
    marks = _fine_enough(cohort, model, matches, objects, slice_at, coarseness(*frame))
    notes = [f"model {short(model)}"]
    notes.append("all predictions" if cut == -math.inf else f"scores from {cut:.3g}")
    if slice_at is not None:
        kind = "boxes" if cohort.references.masks is None else "outlines"
        notes.append(f"counts are of the whole volume, {kind} are those that reach the slice")
    surplus = len(objects.predictions) - MOST_PREDICTIONS
    if surplus > 0:
        notes.append(f"the {surplus} predictions of lowest score are not drawn")
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
    hits = set(matches.partner[rows[fates == matching.HIT]].tolist())
    reference_fates = []
    for row in range(first, last):
        if matches.reference_fate[0][row] == matching.IGNORED:
            reference_fates.append("ignored")
        elif row in hits:
            reference_fates.append("reference")
        else:
            reference_fates.append("missed")
    prediction_fates = tuple(FATES[fate] for fate in fates.tolist())
    return ImageObjects(np.arange(first, last), tuple(reference_fates), rows, prediction_fates)


def _fine_enough(
    cohort: Cohort,
    model: str,
    matches: Matches,
    objects: ImageObjects,
    slice_at: float | None,
    step: int,
) -> list[BoxMark]:
    """Return the marks with outlines of step ``step``, or coarser if they have too many corners."""
    while True:
        marks = list(_marks(cohort, model, matches, objects, slice_at, step))
        corners = sum(len(ring) for mark in marks for ring in mark.outline)
        if corners <= MOST_CORNERS or step >= max(cohort.images.size.max(initial=1.0), 1.0):
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
            label = f"{names[references.label[partner]]} (called {label})"
        score = float(predictions.score[row]) if predictions.scored else math.nan
        yield BoxMark(fate, place[0], label, score, place[1])


def _box_and_outline(
    table: References | Predictions, row: int, slice_at: float | None, step: int
) -> tuple[tuple[float, float, float, float], tuple[Ring, ...]] | None:
    """Return box and outline of an object in its image; None if it does not reach the slice of a
    volume.
    """
    box = _in_slice(table.boxes[row], slice_at)
    if box is None:
        return None
    if table.masks is None:
        return box, ()
    outline = outline_of(table.masks, row, slice_at, step)
    return (box, outline) if outline else None


def _in_slice(box: F64, slice_at: float | None) -> tuple[float, float, float, float] | None:
    """Return the corners of a box in its image, or None if a box of a volume does not reach the
    slice.
    """
    corners = box.tolist()
    if slice_at is None:
        x0, y0, x1, y1 = corners
        return x0, y0, x1, y1
    x0, y0, z0, x1, y1, z1 = corners
    k = math.floor(slice_at)
    return (x0, y0, x1, y1) if z0 < k + 1 and z1 > k else None


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
        return references, max(missed, key=lambda row: (references.extent[row], -row))
    alarms = objects.predictions_with("false alarm")
    if alarms:
        return predictions, alarms[0]
    rows: list[tuple[References | Predictions, int]] = []
    rows += [(references, row) for row in objects.references.tolist()]
    rows += [(predictions, row) for row in objects.predictions.tolist()]
    return max(rows, key=lambda entry: entry[0].extent[entry[1]], default=None)


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
    """Return a name that fits a title."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
