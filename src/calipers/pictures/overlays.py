# SPDX-License-Identifier: Apache-2.0
"""An image with the objects of the references and of one model, as a figure: outlines of masks,
else boxes.
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
from calipers.pictures.choosing import matches_at, present
from calipers.pictures.outlines import coarseness, outline_of, widest_slice
from calipers.plots.figures import BoxMark, Overlay, Ring
from calipers.tables import Cohort, Predictions, References

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

DRAWN = (
    "ignored",
    "reference",
    "missed",
    "hit",
    "duplicate",
    "false alarm",
)  # the last ones on top
MOST_PREDICTIONS = 200  # in one figure; the best scored ones
MOST_CORNERS = 8000  # of all outlines in one figure; beyond, they are drawn coarser
MARGIN = 1.05  # of a frame whose size nobody knows
LONGEST = 60  # characters of an id in a title


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects of one image at a cut: rows of the cohort's tables, and what became of them."""

    references: I64
    reference_fates: tuple[str, ...]  # reference, missed or ignored
    predictions: I64  # best score first
    prediction_fates: tuple[str, ...]

    def references_with(self, fate: str) -> list[int]:
        """Return the rows of the references of one fate."""
        return [
            row for row, word in zip(self.references.tolist(), self.reference_fates) if word == fate
        ]

    def predictions_with(self, fate: str) -> list[int]:
        """Return the rows of the predictions of one fate, best score first."""
        return [
            row
            for row, word in zip(self.predictions.tolist(), self.prediction_fates)
            if word == fate
        ]


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
        The pixels: a data: address, or the id of one that the page holds.
    shade_symbol
        The id of the map of the model that the page holds.
    matches
        Those of the model, if they are at hand; see `choosing.matches_at`.
    slice_at
        Of a volume: the slice that is shown, in voxels; `slice_of` if left out.
    size
        Width and height of the picture; used where the cohort does not know them.
    """
    matches = matches_at(evaluation, model, cut, matches)
    cohort, seen = evaluation.cohort, look(matches, image, cut)
    if cohort.dimensions == 3 and slice_at is None:
        slice_at = slice_of(cohort, model, image, seen)
    frame = frame_of(cohort, image, size)
    marks = _fine_enough(cohort, model, matches, seen, slice_at, coarseness(*frame))
    notes = [
        f"model {short(model)}",
        "all predictions" if cut == -math.inf else f"scores from {cut:.3g}",
    ]
    if slice_at is not None:
        drawn = "boxes" if cohort.references.masks is None else "outlines"
        notes.append(f"counts are of the whole volume, {drawn} those that reach the slice")
    unseen = len(seen.predictions) - MOST_PREDICTIONS
    if unseen > 0:
        notes.append(f"the {unseen} predictions of lowest score are not drawn")
    return Overlay(
        title_of(cohort, image, seen, slice_at),
        note="; ".join(notes),
        size=frame,
        marks=tuple(sorted(marks, key=lambda mark: DRAWN.index(mark.fate))),
        picture=picture,
        symbol=symbol,
        shade_symbol=shade_symbol,
    )


def look(matches: Matches, image: int, cut: float) -> Seen:
    """Return what became of the objects of one image at a cut."""
    first, last = matches.reference_offsets[image : image + 2].tolist()
    start, stop = matches.prediction_offsets[image : image + 2].tolist()
    rows = np.arange(start, stop)[present(matches, cut, slice(start, stop))]
    rows = rows[np.argsort(-matches.score[rows], kind="stable")]
    said = matches.prediction_fate[0][rows]
    found = set(matches.partner[rows[said == matching.HIT]].tolist())
    real = matches.reference_fate[0]

    def word(row: int) -> str:
        return (
            "ignored"
            if real[row] == matching.IGNORED
            else "reference"
            if row in found
            else "missed"
        )

    words = tuple(word(row) for row in range(first, last))
    return Seen(np.arange(first, last), words, rows, tuple(FATES[fate] for fate in said.tolist()))


def _fine_enough(
    cohort: Cohort, model: str, matches: Matches, seen: Seen, slice_at: float | None, step: int
) -> list[BoxMark]:
    """Return the marks with outlines as fine as a picture can show and a page can bear."""
    while True:
        marks = list(_marks(cohort, model, matches, seen, slice_at, step))
        corners = sum(len(ring) for mark in marks for ring in mark.outline)
        if corners <= MOST_CORNERS or step >= max(cohort.images.size.max(initial=1.0), 1.0):
            return marks
        step *= 2


def _marks(
    cohort: Cohort, model: str, matches: Matches, seen: Seen, slice_at: float | None, step: int
) -> Iterator[BoxMark]:
    references, predictions, names = cohort.references, cohort.models[model], cohort.classes
    for row, fate in zip(seen.references.tolist(), seen.reference_fates):
        if (place := _placed(references, row, slice_at, step)) is not None:
            yield BoxMark(fate, place[0], names[references.label[row]], outline=place[1])
    for row, fate in list(zip(seen.predictions.tolist(), seen.prediction_fates))[:MOST_PREDICTIONS]:
        if (place := _placed(predictions, row, slice_at, step)) is None:
            continue
        label = names[predictions.label[row]]
        partner = int(matches.partner[row])
        if fate == "hit" and partner >= 0 and references.label[partner] != predictions.label[row]:
            label = f"{names[references.label[partner]]} (called {label})"
        score = float(predictions.score[row]) if predictions.scored else math.nan
        yield BoxMark(fate, place[0], label, score, place[1])


def _placed(
    table: References | Predictions, row: int, slice_at: float | None, step: int
) -> tuple[tuple[float, float, float, float], tuple[Ring, ...]] | None:
    """Return box and outline of an object in its image; None if it does not reach the slice of a
    volume.
    """
    box = _in_slice(table.boxes[row], slice_at)
    if box is None or table.masks is None:
        return None if box is None else (box, ())
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


def slice_of(cohort: Cohort, model: str, image: int, seen: Seen) -> float:
    """Return the slice that shows most of the worst object of a volume; its middle if there is no
    object.

    Worst is the largest that was missed, else the false alarm of the best score, else the largest
    object. Of a mask it is the slice with most voxels, of a box the one through its centre.
    """
    real, said = cohort.references, cohort.models[model]
    depth = float(cohort.images.size[image, 2])
    if missed := seen.references_with("missed"):
        worst: tuple[References | Predictions, int] = (
            real,
            max(missed, key=lambda row: (real.extent[row], -row)),
        )
    elif alarms := seen.predictions_with("false alarm"):
        worst = said, alarms[0]
    else:
        objects: list[tuple[References | Predictions, int]] = [
            (real, row) for row in seen.references.tolist()
        ]
        objects += [(said, row) for row in seen.predictions.tolist()]
        if not objects:
            return float(depth // 2) if math.isfinite(depth) else 0.0
        worst = max(objects, key=lambda found: found[0].extent[found[1]])
    table, row = worst
    if table.masks is not None:
        return float(widest_slice(table.masks, row))
    middle = math.floor((table.boxes[row, 2] + table.boxes[row, 5]) / 2.0)
    return float(min(max(middle, 0), depth - 1) if math.isfinite(depth) else max(middle, 0))


def frame_of(
    cohort: Cohort, image: int, picture: tuple[float, float] | None
) -> tuple[float, float]:
    """Return width and height: of the cohort, else of the picture, else around all boxes, of every
    model.
    """
    width, height = cohort.images.size[image, :2].tolist()
    if math.isfinite(width) and math.isfinite(height):
        return width, height
    if picture is not None:
        return picture
    n = cohort.dimensions
    tables = [cohort.references, *cohort.models.values()]
    ends = [
        table.boxes[table.offsets[image] : table.offsets[image + 1], n : n + 2] for table in tables
    ]
    far = np.concatenate(ends).max(axis=0, initial=1.0) * MARGIN
    return float(far[0]), float(far[1])


def title_of(cohort: Cohort, image: int, seen: Seen, slice_at: float | None) -> str:
    """Return what happened, in words: ``P031_2: 2 of 3 found, 1 false alarm``."""
    found, missed = len(seen.references_with("reference")), len(seen.references_with("missed"))
    words = [f"{found} of {found + missed} found" if found + missed else "nothing to find"]
    for fate in ("false alarm", "duplicate"):
        if n := len(seen.predictions_with(fate)):
            words.append(f"{n} {fate}" if n == 1 else f"{n} {fate}s")
    place = "" if slice_at is None else f", slice z = {math.floor(slice_at)}"
    return f"{short(cohort.images.ids[image])}{place}: {', '.join(words)}"


def short(name: str) -> str:
    """Return a name that fits a title."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
