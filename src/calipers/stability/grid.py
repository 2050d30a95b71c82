# SPDX-License-Identifier: Apache-2.0
"""Objects on a grid: predictions of detectors as maps, and boxes as labels of instances.

`detections_as_bags` takes a cohort and returns bags for `calipers.stability`, drawn one at a time:
boxes and masks of every model on a grid over each image, so that map stability can be measured for
detectors. `instance_labels` takes boxes on an image and returns which cells of a grid belong to one
of them, by one of four rules; readers of labels and users call it.

Cells are half-open: cell i of n along a side of length L is ``[i L / n, (i + 1) L / n)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.bags import Bag
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.data.objects import Objects, Predictions
from calipers.errors import InputError, UsageError, finite, one_of, real, several, shown, whole
from calipers.stability.objects_result import select_models

Covers = Literal["centre", "any-overlap"]
COVERS = ("centre", "any-overlap")
AXES = {2: ("rows", "columns"), 3: ("slices", "rows", "columns")}

RULES = ("any-overlap", "centre", "rounded", "coverage")
ROUNDING = 1e-12  # a half of a cell may come as 0.49999999999999994
MOST_CELLS = 1 << 16  # along a side
Rule = Literal["any-overlap", "centre", "rounded", "coverage"]


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
    covers = cast(Covers, one_of("rule for the cells of an object", covers, COVERS))
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
    scores = np.stack([_highest_scores(cohort, name) for name in names])
    return RasterBags(cohort, names, shapes, covers, spans, valid, positive, scores, notes)


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
            # Ascending, so that the highest score is written last and stays.
            ascending = rows[np.argsort(table.score[rows], kind="stable")]
            self._draw(values[k], table, name, ascending, table.score)
        truth = np.zeros(shape)
        rows = _rows(self.cohort.references, image)
        ones = np.ones(len(self.valid))
        self._draw(truth, self.cohort.references, "", rows[self.valid[rows]], ones)
        flat_values = values.reshape(len(self.models), -1)
        return Bag(self.ids[image], flat_values, shape, truth.reshape(-1) > 0)

    def alone(self, i: int) -> RasterBags:
        """Return image i as the only one, for a worker that gets nothing else."""
        image = np.array([i])
        cohort = self.cohort.take(image)
        spans = {"": self.spans[""][_rows(self.cohort.references, i)]}
        for name in self.models:
            spans[name] = self.spans[name][_rows(self.cohort.models[name], i)]
        return RasterBags(
            cohort,
            self.models,
            self.shapes[image],
            self.covers,
            spans,
            self.valid[_rows(self.cohort.references, i)],
            self.positive[image],
            self.bag_scores[:, image],
            (),
        )

    def fingerprint(self, i: int) -> str:
        """Return a line that names the image and its grid; `settings` has the hashes of files."""
        return f"{self.ids[i]} grid={self.shapes[i].tolist()}"

    def file_bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.bytes for file in self.cohort.intake.files)

    def settings(self) -> dict[str, Any]:
        """Return what else decides the maps of all images, for JSON."""
        inputs = [[file.role, file.sha256, file.used] for file in self.cohort.intake.files]
        return {"covers": str(self.covers), "inputs": inputs}

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


def spans_of(table: Objects, size: F64, shapes: I64, covers: Covers) -> I64:
    """Return (n, d, 2): from which cell to which, along [slices, ]rows, columns, every box reaches.

    Cell i of n along a side of length L is ``[i L / n, (i + 1) L / n)``.
    """
    image, d = table.image, table.dimensions
    cells = shapes[image][:, ::-1]  # along x, y[, z], as boxes are
    low = table.boxes[:, :d] * cells / size[image]
    high = table.boxes[:, d:] * cells / size[image]
    if covers == "centre":
        # The centre of cell i is i + 0.5: the first one at or above the lower edge, up to the upper
        # edge.
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
            # The pixel in which the centre of the cell lies.
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
        raise UsageError(f"a grid is ({axes}), whole numbers of at least 1, got {grid!r}")
    return np.tile(np.array(cells, np.int64), (cohort.n_images, 1))


def _highest_scores(cohort: Cohort, name: str) -> F64:
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
        # A box that covers no cell vanishes from the map, which a reader must know.
        n_lost = int((table[:, :, 0] >= table[:, :, 1]).any(axis=1).sum())
        if objects.masks is None and n_lost:
            whose = f"predictions of {name}" if name else "references"
            notes.append(
                f"{n_lost} of {len(table)} {whose} cover no cell of the grid: too small, or "
                "outside of the image"
            )
    return tuple(notes)


def instance_labels(
    boxes: Any,
    size: tuple[float, float],
    grid: tuple[int, int],
    rule: Rule = "any-overlap",
    coverage: float = 0.5,
) -> Flags:
    """Return (rows, columns): which cells of a grid over an image belong to a box.

    Parameters
    ----------
    boxes
        (n, 4) x0 y0 x1 y1 in pixels, half-open; n may be 0. Parts outside the image are cut off.
    size
        (width, height) of the image in pixels. Cells are width / columns wide and height / rows
        high.
    grid
        (rows, columns).
    rule
        ``any-overlap``: an area of the cell above 0 lies in a box. ``centre``: the centre of the
        cell lies in a box (its lower edges included). ``rounded``: the cells from round(x0) to
        round(x1), both included, in units of cells and with halves to even, and likewise rows;
        indices are kept in the grid. ``coverage``: at least this share of the cell's area lies in
        one box.
    coverage
        Above 0, up to 1.

    Notes
    -----
    A cell is positive if one box makes it so. A box without area inside the image labels nothing,
    under any rule.

    Examples
    --------
    >>> instance_labels([[10, 10, 30, 20]], size=(40, 40), grid=(4, 4)).astype(int).tolist()
    [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    >>> int(instance_labels([[10, 10, 30, 20]], (40, 40), (4, 4), rule="rounded").sum())
    6
    """
    rule = cast(Rule, one_of("rule", rule, RULES))
    table, (width, height), (rows, columns) = _check_grid_arguments(boxes, size, grid, coverage)
    limits = np.array([width, height, width, height], np.float64)
    clipped = np.clip(table, 0.0, limits)
    visible = clipped[(clipped[:, 2] > clipped[:, 0]) & (clipped[:, 3] > clipped[:, 1])]
    # in units of cells; multiplied first, so that edges on the borders of cells stay whole numbers
    cells = visible * np.array([columns, rows, columns, rows]) / limits
    across = _shares_along(cells[:, 0], cells[:, 2], columns, rule)
    down = _shares_along(cells[:, 1], cells[:, 3], rows, rule)
    # A rectangle covers a cell by the product of its shares along both axes.
    shares = down[:, :, None] * across[:, None, :]
    enough = shares >= coverage - ROUNDING if rule == "coverage" else shares > 0
    return np.asarray(enough.any(axis=0))


def _shares_along(start: F64, end: F64, n: int, rule: str) -> F64:
    """Return (n_boxes, n): the part of each cell of one axis that a box covers; 0 or 1 for the
    rules that only decide whether it does.
    """
    at = np.arange(n, dtype=np.float64)
    if rule == "centre":
        has_centre = (start[:, None] <= at + 0.5) & (at + 0.5 < end[:, None])
        return has_centre.astype(np.float64)
    if rule == "rounded":
        # Both ends included, and halves to even, as Python's `round` has it.
        first, last = np.clip(np.rint(start), 0, n - 1), np.clip(np.rint(end), 0, n - 1)
        return ((first[:, None] <= at) & (at <= last[:, None])).astype(np.float64)
    overlap = np.minimum(end[:, None], at + 1) - np.maximum(start[:, None], at)
    return np.asarray(np.maximum(overlap, 0.0))


def _check_grid_arguments(
    boxes: Any, size: tuple[float, float], grid: tuple[int, int], coverage: float
) -> tuple[F64, tuple[float, float], tuple[int, int]]:
    """Return the arguments as numbers; raise for those that are not valid."""
    if not 0 < real("coverage", coverage) <= 1:
        raise UsageError(f"coverage lies above 0 and up to 1, got {coverage!r}")
    sides, cells = several("size", size), several("grid", grid)
    if len(sides) != 2 or len(cells) != 2:
        raise UsageError(
            f"size is (width, height) and grid (rows, columns), got {shown(size)} and {shown(grid)}"
        )
    width, height = (finite("a side of the image", side) for side in sides)
    rows, columns = (whole("a side of the grid", side, 1, MOST_CELLS) for side in cells)
    if not (width > 0 and height > 0):
        raise UsageError(f"an image has positive sides, got {shown(size)}")
    try:
        array = np.asarray(boxes)
    except ValueError:
        raise InputError("boxes (n, 4)", rule="box-shape", field="boxes", value=boxes) from None
    if array.size and array.dtype.kind not in "biuf":
        raise InputError("numbers", rule="type", field="boxes", value=boxes)
    table = np.zeros((0, 4)) if array.size == 0 else array.astype(np.float64)
    if table.ndim != 2 or table.shape[1] != 4:
        raise InputError(
            "boxes (n, 4): x0 y0 x1 y1", rule="box-shape", field="boxes", value=table.shape
        )
    if not np.isfinite(table).all():
        raise InputError(
            "finite numbers",
            rule="non-finite",
            field="boxes",
            location=_first_box(~np.isfinite(table)),
        )
    wrong = (table[:, 2] < table[:, 0]) | (table[:, 3] < table[:, 1])
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            "x0 <= x1 and y0 <= y1",
            rule="neg-size",
            location=f"boxes[{k}]",
            value=table[k].tolist(),
        )
    return table, (width, height), (rows, columns)


def _first_box(wrong: Flags) -> str:
    return f"boxes[{int(np.argwhere(wrong)[0, 0])}]"
