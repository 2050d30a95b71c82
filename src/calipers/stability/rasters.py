# SPDX-License-Identifier: Apache-2.0
"""Draw boxes and masks of detectors on a grid, so that map stability can be measured for them.

In comes a cohort; out go bags for `calipers.stability`, drawn one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import one_of, several
from calipers.errors import InputError, UsageError
from calipers.stability.objects_models import select_models
from calipers.tables import Cohort, Objects, Predictions
from calipers.tables.bags import Bag
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Covers = Literal["centre", "any-overlap"]
COVERS = ("centre", "any-overlap")
AXES = {2: ("rows", "columns"), 3: ("slices", "rows", "columns")}


@dataclass(frozen=True, eq=False)
class RasterBags:
    """Images as bags: every model's predictions on a grid, drawn on access. See
    `detections_as_bags`.
    """

    cohort: Cohort
    models: tuple[str, ...]
    shapes: I64  # (n_images, d) cells as [slices, ]rows, columns
    covers: Covers
    # model ("" for the references) -> (n, d, 2): first and last cell of every box along each axis
    spans: Mapping[str, I64]
    valid: Flags  # (n_references,) neither ignored nor a crowd
    positive: Flags
    bag_scores: F64
    notes: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the images."""
        return self.cohort.images.ids

    @property
    def groups(self) -> Mapping[str, NDArray[Any]]:
        """The columns of the images."""
        return self.cohort.images.groups

    def __len__(self) -> int:
        return self.cohort.n_images

    def __getitem__(self, i: int) -> Bag:
        """Return the bag of one image."""
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        image = i % len(self)
        shape = tuple(self.shapes[image].tolist())
        values = np.zeros((len(self.models), *shape))
        for k, name in enumerate(self.models):
            table = self.cohort.models[name]
            rows = _rows(table, image)
            ascending = rows[np.argsort(table.score[rows], kind="stable")]
            self._draw(values[k], table, name, ascending, table.score)
        truth = np.zeros(shape)
        rows = _rows(self.cohort.references, image)
        ones = np.ones(len(self.valid))
        self._draw(truth, self.cohort.references, "", rows[self.valid[rows]], ones)
        flat_values = values.reshape(len(self.models), -1)
        return Bag(self.ids[image], flat_values, shape, truth.reshape(-1) > 0)

    def _draw(self, canvas: F64, table: Objects, name: str, rows: I64, score: F64) -> None:
        """Write scores into the cells of objects that come in ascending order: the highest one
        stays.
        """
        for row in rows.tolist():
            if table.masks is not None:
                canvas[cells_of_mask(table.masks, row, canvas.shape, self.covers)] = score[row]
            else:
                box = tuple(slice(start, stop) for start, stop in self.spans[name][row].tolist())
                canvas[box] = score[row]


def detections_as_bags(
    cohort: Cohort,
    grid: Sequence[int] | None = None,
    *,
    covers: Covers = "centre",
    models: Sequence[str] | None = None,
) -> RasterBags:
    """Put the predictions of several models on a grid of every image.

    The value of a cell is the highest score of a prediction that covers its centre
    (``covers="any-overlap"``: that shares any area with it), whatever its class; 1 for predictions
    without scores, 0 where there is none. A bag is positive if its image has a counted reference;
    instances are the cells of counted references.

    Parameters
    ----------
    cohort
        Images with the predictions of at least two models: masks where a model has them, else
        boxes.
    grid
        (rows, columns), in 3D (slices, rows, columns), the same for all images; None: one cell per
        pixel.
    covers
        ``centre``: a cell belongs to an object if its centre does; boxes are half-open.
        ``any-overlap``: if they share any area.
    models
        Which ones; all if left out.

    Returns
    -------
    RasterBags
        Bags that are drawn one by one, with the columns of the images as groups, and per model and
        image the highest score as the score of the bag, 0 without predictions.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.Cohort.from_arrays(
    ...     [{"boxes": [[0, 0, 2, 2]], "labels": [0], "width": 4, "height": 4}],
    ...     {
    ...         "a": [{"boxes": [[0, 0, 2, 2]], "labels": [0], "scores": [0.9]}],
    ...         "b": [{"boxes": [[2, 0, 4, 2]], "labels": [0], "scores": [0.4]}],
    ...     },
    ...     classes=("nodule",),
    ... )
    >>> bag = detections_as_bags(cohort, grid=(2, 2))[0]
    >>> bag.values.tolist(), bag.instances.tolist()
    ([[0.9, 0.0, 0.0, 0.0], [0.0, 0.4, 0.0, 0.0]], [True, False, False, False])
    """
    one_of("rule for the cells of an object", covers, COVERS)
    names = select_models(cohort, models)
    _check_scores(cohort, names)
    size = _sizes(cohort, names)
    shapes = _shapes(cohort, grid, size)
    references = cohort.references
    spans = {"": spans_of(references, size, shapes, covers)}
    for name in names:
        spans[name] = spans_of(cohort.models[name], size, shapes, covers)
    valid = ~(references.ignore | references.crowd)
    positive = np.bincount(references.image[valid], minlength=cohort.n_images) > 0
    notes = _notes(cohort, names, grid, covers, spans)
    scores = np.stack([_highest(cohort, name) for name in names])
    return RasterBags(cohort, names, shapes, covers, spans, valid, positive, scores, notes)


def spans_of(table: Objects, size: F64, shapes: I64, covers: Covers) -> I64:
    """Return (n, d, 2): from which cell to which, along [slices, ]rows, columns, every box reaches.

    Cell i of n along a side of length L is ``[i L / n, (i + 1) L / n)``.
    """
    image, d = table.image, table.dimensions
    cells = shapes[image][:, ::-1]  # along x, y[, z], as boxes are
    low = table.boxes[:, :d] * cells / size[image]
    high = table.boxes[:, d:] * cells / size[image]
    if covers == "centre":
        first, last = np.ceil(low - 0.5), np.ceil(high - 0.5)
    else:
        first, last = np.floor(low), np.ceil(high)
    ends = np.stack([first, last], axis=2)
    return np.asarray(np.clip(ends, 0, cells[:, :, None])[:, ::-1], np.int64)


def cells_of_mask(masks: Masks, row: int, shape: tuple[int, ...], covers: Covers) -> Flags:
    """Return which cells of a grid a mask covers."""
    cells = masks.dense(row)
    for axis, (n, length) in enumerate(zip(shape, cells.shape)):
        if n == length:
            continue
        if covers == "centre":
            centre = np.floor((np.arange(n) + 0.5) * length / n).astype(np.int64)
            cells = cells.take(centre, axis)
            continue
        # Cell i is [i, i + 1) * length / n; compared in whole numbers, so that edges are exact.
        start, stop = np.arange(n)[:, None] * length, (np.arange(n)[:, None] + 1) * length
        pixel = np.arange(length)
        overlap = (pixel * n < stop) & ((pixel + 1) * n > start)
        sums = np.tensordot(overlap.astype(np.float64), cells, (1, axis))
        cells = np.moveaxis(sums, 0, axis) > 0
    return np.asarray(cells)


def _rows(table: Objects, image: int) -> I64:
    return np.arange(int(table.offsets[image]), int(table.offsets[image + 1]))


def _check_scores(cohort: Cohort, models: tuple[str, ...]) -> None:
    for name in models:
        table = cohort.models[name]
        rows = np.flatnonzero((table.score < 0) | (table.score > 1))
        if len(rows):
            row = int(rows[0])
            image = cohort.images.ids[int(table.image[row])]
            raise InputError(
                "scores between 0 and 1",
                rule="score-range",
                location=f"{name}, image {image}, row {int(table.place[row])}",
                field="score",
                value=float(table.score[row]),
                hint="turn raw scores into probabilities first",
            )


def _sizes(cohort: Cohort, models: tuple[str, ...]) -> F64:
    """Return (n_images, d) the sides of every image, from its masks if they are not stated."""
    size = cohort.images.size.copy()
    for table in (cohort.references, *(cohort.models[name] for name in models)):
        if table.masks is not None:
            no_size = np.isnan(size[table.image]).any(axis=1)
            size[table.image[no_size]] = table.masks.size[no_size]
    missing = np.flatnonzero(~(np.isfinite(size) & (size > 0)).all(axis=1))
    if len(missing):
        raise InputError(
            "the size of every image, to put a grid on it",
            rule="size-unknown",
            location=f"image {cohort.images.ids[int(missing[0])]}",
            field="width, height",
            value="unknown",
            hint="give width and height (and depth) with the references",
        )
    return size


def _shapes(cohort: Cohort, grid: Sequence[int] | None, size: F64) -> I64:
    """Return (n_images, d) numbers of cells as [slices, ]rows, columns."""
    if grid is None:
        return np.ceil(size[:, ::-1]).astype(np.int64)
    cells: list[Any] = several("grid", grid)
    whole = all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in cells
    )
    if not whole or len(cells) != cohort.dimensions:
        axes = ", ".join(AXES[cohort.dimensions])
        raise UsageError(f"a grid is ({axes}), whole numbers from 1 on, got {grid!r}")
    return np.tile(np.array(cells, np.int64), (cohort.n_images, 1))


def _highest(cohort: Cohort, name: str) -> F64:
    table: Predictions = cohort.models[name]
    highest = np.zeros(cohort.n_images)  # an image without predictions keeps 0
    np.maximum.at(highest, table.image, table.score)
    return highest


def _notes(
    cohort: Cohort,
    models: tuple[str, ...],
    grid: Sequence[int] | None,
    covers: Covers,
    spans: Mapping[str, I64],
) -> tuple[str, ...]:
    """Return notes on how the objects were drawn."""
    cells = "one cell per pixel"
    if grid is not None:
        cells = f"a grid of {' x '.join(map(str, grid))} cells on every image"
    rule = "its centre" if covers == "centre" else "any part of it"
    notes = [
        f"{cells}; a cell has the highest score of a prediction that covers {rule}, of any class"
    ]
    unscored = [name for name in models if not cohort.models[name].scored]
    if unscored:
        notes.append(f"no scores: {', '.join(unscored)}; their predictions count 1")
    ignored = int((cohort.references.ignore | cohort.references.crowd).sum())
    if ignored:
        notes.append(
            f"{ignored} references are ignored or crowds: they make no image and no cell positive"
        )
    for name, table in spans.items():
        objects: Objects = cohort.models[name] if name else cohort.references
        n_lost = int((table[:, :, 0] >= table[:, :, 1]).any(axis=1).sum())
        if objects.masks is None and n_lost:
            whose = f"predictions of {name}" if name else "references"
            notes.append(
                f"{n_lost} of {len(table)} {whose} cover no cell of the grid: too small, or "
                "outside of the image"
            )
    return tuple(notes)
