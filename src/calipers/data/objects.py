# SPDX-License-Identifier: Apache-2.0
"""References and predictions: flat tables of objects with offsets per image, and box formats.

Every reader ends in these tables (`data.rules` builds them), and matching and metrics start from
them. Boxes are held as corners ``x0 y0 x1 y1`` (3D: ``x0 y0 z0 x1 y1 z1``), pixels, half-open, no
"+1"; `to_corners` and `from_corners` convert what users deliver (`BOX_FORMATS`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_fields, names_methods
from calipers.arrays import F64, I32, I64, Column, Flags, joined_columns
from calipers.data.masks import Masks, check_array, check_offsets, no_masks
from calipers.errors import InputError, UsageError, shown
from calipers.kernels import ragged

SHAPES = ("masks", "points")  # columns that a table may lack

# The types that the compiled kernels read; boxes are checked apart.
TYPES: Mapping[str, type[np.generic]] = {
    "extent": np.float64,
    "label": np.int32,
    "place": np.int64,
    "area": np.float64,
    "ignore": np.bool_,
    "crowd": np.bool_,
    "score": np.float64,
}
# Coordinates up to which the box around any two boxes has a finite area (volume).
LARGEST = {2: 1e150, 3: 1e100}

BoxFormat = Literal[
    "xyxy",
    "xywh",
    "cxcywh",
    "xyxy-normalised",
    "xywh-normalised",
    "cxcywh-normalised",
    "xyxy-inclusive",
]
BOX_FORMATS: tuple[str, ...] = get_args(BoxFormat)


@names_methods
@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects on images; the rows ``offsets[i]:offsets[i+1]`` belong to image i.

    Every table is checked when it is made, by whatever way: lengths and types of the columns,
    offsets, labels, finite boxes and scores. The kernels rely on it.
    """

    offsets: I64  # (n_images + 1,)
    boxes: F64  # (n, 4) x0 y0 x1 y1 | (n, 6) x0 y0 z0 x1 y1 z1
    extent: F64  # (n,) box area or volume, from the sides as delivered
    label: I32  # (n,) index into Cohort.classes
    place: I64 | I32  # (n,) row in the input, for messages and the explorer
    facts: Mapping[str, Column]  # object-level columns: type, rating, reader
    # of all objects or of none; without masks the boxes are the shapes
    masks: Masks | None = field(default=None, kw_only=True)
    # (n, 2|3) where an object is; None = centres of the boxes
    points: F64 | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        table = type(self).__name__.lower()
        check_array(table, "label", self.label, np.int32, (None,))
        n = len(self.label)
        check_offsets(table, self.offsets, n)
        for name in self._columns():
            if name != "boxes":
                column = getattr(self, name)
                # Of a file with fewer than 2^31 records, places need half the room.
                is_short = name == "place" and getattr(column, "dtype", None) == np.int32
                check_array(table, name, column, np.int32 if is_short else TYPES[name], (n,))
        _check_values(table, self)
        for name, column in self.facts.items():
            if len(column) != n:
                raise InputError(
                    f"{n} entries, one per object",
                    rule="length",
                    location=table,
                    field=name,
                    value=len(column),
                )
        if self.masks is not None and (len(self.masks), self.masks.dimensions) != (
            n,
            self.dimensions,
        ):
            raise InputError(
                f"{n} masks of {self.dimensions} dimensions, one per object",
                rule="length",
                location=table,
                field="masks",
                value=f"{len(self.masks)} of {self.masks.dimensions} dimensions",
            )
        if self.points is not None:
            check_array(table, "points", self.points, np.float64, (n, self.dimensions))

    def __len__(self) -> int:
        return len(self.label)

    @property
    def n_images(self) -> int:
        """Number of images, with or without objects."""
        return len(self.offsets) - 1

    @property
    def image(self) -> I64:
        """(n,) index of the image of every object."""
        return ragged.owners(self.offsets)

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return int(self.boxes.shape[1]) // 2

    def take(self, images: I64) -> Self:
        """Return the objects of the images ``images``, in that order."""
        rows, offsets = ragged.take_rows(self.offsets, image_indices(images, self.n_images))
        return self.rows(rows, offsets)

    def span(self, start: int, stop: int) -> Self:
        """Return the objects of the images ``start:stop`` without copying."""
        check_span(start, stop, self.n_images)
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return self.rows(slice(first, last), self.offsets[start : stop + 1] - first)

    def rows(self, rows: I64 | slice, offsets: I64) -> Self:
        """Return the table with these rows of every column."""
        try:
            columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in self._columns()}
        except (IndexError, TypeError, ValueError):
            last = len(self) - 1
            raise UsageError(
                f"rows is a slice or an array of whole numbers up to {last}, not {shown(rows)}"
            ) from None
        for name in SHAPES:
            shape = getattr(self, name)
            if shape is not None:
                columns[name] = shape[rows]
        facts = {name: column[rows] for name, column in self.facts.items()}
        return replace(self, offsets=offsets, facts=facts, **columns)

    def keep(self, mask: Flags) -> Self:
        """Return the objects for which ``mask`` is true; the images stay."""
        if np.shape(mask) != (len(self),):
            shape = np.shape(mask)
            raise UsageError(f"one flag per object: {len(self)} are needed, got shape {shape}")
        rows = np.flatnonzero(mask)
        # Rows ascend, so the first of every image is found among them.
        return self.rows(rows, np.searchsorted(rows, self.offsets))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the tables of several sets of images, one below the other.

        Facts that some of the tables lack are left out.
        """
        if not all(isinstance(part, cls) for part in parts):
            raise UsageError(f"parts is a list of tables {cls.__name__}, not {shown(parts)}")
        if len(parts) == 0:
            raise UsageError("at least one table is needed to put tables one below the other")
        if len({part.dimensions for part in parts}) > 1:
            raise UsageError("2D and 3D objects cannot be in one table")
        columns = joined_columns(parts, parts[0]._columns())
        columns["masks"] = _concat_masks(parts)
        columns["points"] = _concat_points(parts)
        facts = {}
        for name in parts[0].facts:
            if all(name in part.facts for part in parts):
                facts[name] = np.concatenate([part.facts[name] for part in parts])
        offsets = ragged.concat_offsets([part.offsets for part in parts])
        return replace(parts[0], offsets=offsets, facts=facts, **columns)

    @classmethod
    def _columns(cls) -> tuple[str, ...]:
        others = ("offsets", "facts", "scored", *SHAPES)
        return tuple(column.name for column in fields(cls) if column.name not in others)


@names_fields
@dataclass(frozen=True, slots=True, eq=False)
class References(Objects):
    """What is really there."""

    # declared (COCO `area`) if given, else of the mask, else the extent: what size cuts see
    area: F64
    ignore: Flags  # may be matched, never counted
    crowd: Flags  # ignored, and may be matched many times


@names_fields
@dataclass(frozen=True, slots=True, eq=False)
class Predictions(Objects):
    """What a model says is there."""

    # of the mask if there is one, else the extent, or what size cuts shall see instead of it
    area: F64
    score: F64  # (n,) free of NaN
    scored: bool  # whether the input had scores; else all are 1


def _check_values(table: str, objects: Objects) -> None:
    """Raise unless boxes, extents, labels and scores are what the kernels can compare."""
    boxes, n = objects.boxes, len(objects)
    check_array(table, "boxes", boxes, np.float64, (n, None))
    if boxes.shape[1] not in (4, 6):
        raise InputError(
            "boxes with 4 or 6 coordinates",
            rule="box-shape",
            location=table,
            field="boxes",
            value=boxes.shape,
        )
    largest = LARGEST[objects.dimensions]
    # Extremes say it without a copy; they are NaN if one of the numbers is.
    _check_range(table, "boxes", boxes, -largest, largest, "non-finite")
    _check_range(table, "extent", objects.extent, 0.0, np.finfo(np.float64).max, "non-finite")
    _check_range(table, "label", objects.label, 0, np.iinfo(np.int32).max, "label-range")
    score = getattr(objects, "score", None)
    if score is not None:
        _check_range(table, "score", score, -np.inf, np.inf, "non-finite")


def _check_range(
    table: str, name: str, values: NDArray[Any], low: float, high: float, rule: str
) -> None:
    if not values.size or (values.min() >= low and values.max() <= high):
        return
    row = int(np.argwhere(~((values >= low) & (values <= high)))[0, 0])
    raise InputError(
        f"numbers from {low:g} to {high:g}",
        rule=rule,
        location=f"{table}.{name}[{row}]",
        field=name,
        value=values[row].tolist(),
    )


def check_span(start: int, stop: int, n: int) -> None:
    """Raise unless ``start:stop`` are some of n images."""
    if not 0 <= start <= stop <= n:
        raise UsageError(f"images from 0 to {n}, in this order, not {start!r} to {stop!r}")


def image_indices(images: NDArray[Any], n: int) -> I64:
    """Return the indices behind flags or indices of n images; negative ones count from the end."""
    if np.ma.is_masked(images):
        raise UsageError("images are chosen by whole numbers or flags, none of them masked")
    images = np.asarray(images)
    if images.dtype == np.bool_:
        if images.shape != (n,):
            raise UsageError(f"one flag per image: {n} are needed, got shape {images.shape}")
        return np.flatnonzero(images)
    if images.ndim != 1:
        raise UsageError(f"images are chosen by a list of them, got shape {images.shape}")
    if images.size and not np.issubdtype(images.dtype, np.integer):
        raise UsageError(f"images are chosen by whole numbers or flags, not by {images.dtype}")
    # Before the conversion: a large unsigned number would become a negative one.
    if images.size and not (images.min() >= -n and images.max() < n):
        raise UsageError(
            f"the cohort has {n} images, numbered from 0; one beyond that was asked for"
        )
    indices = images.astype(np.int64)
    # As NumPy counts; offsets cannot be looked up with negative numbers.
    return np.where(indices < 0, indices + n, indices)


def _concat_masks(parts: Sequence[Objects]) -> Masks | None:
    """Return the masks of all tables, or None if the objects of one of them have none."""
    masks = []
    for part in parts:
        # A table without objects has masks as well as it has none.
        own = part.masks if len(part) else no_masks(part.dimensions)
        if own is None:
            return None
        masks.append(own)
    return Masks.concat(masks)


def _concat_points(parts: Sequence[Objects]) -> F64 | None:
    """Return the points of all tables, or None if the objects of one of them have none."""
    points = []
    for part in parts:
        own = part.points if len(part) else np.zeros((0, part.dimensions))
        if own is None:
            return None
        points.append(own)
    return np.concatenate(points)


def empty_predictions(n_images: int, dimensions: int = 2) -> Predictions:
    """Return the predictions of a model that says nothing."""
    return Predictions(
        offsets=np.zeros(n_images + 1, np.int64),
        boxes=np.zeros((0, 2 * dimensions)),
        extent=np.zeros(0),
        label=np.zeros(0, np.int32),
        place=np.zeros(0, np.int64),
        facts={},
        area=np.zeros(0),
        score=np.zeros(0),
        scored=True,
    )


def to_corners(boxes: F64, box_format: str, sizes: F64 | None = None) -> tuple[F64, F64]:
    """Convert delivered boxes to corners.

    Parameters
    ----------
    boxes
        (n, 4) or (n, 6); in 3D the order is all first coordinates, then all second ones (``x y z w
        h d``).
    box_format
        One of `BOX_FORMATS`. ``xyxy-inclusive`` is 1-based with both ends inside, as in VOC XML.
    sizes
        (n, 2|3) image size of each box, for the normalised formats.

    Returns
    -------
    corners, extent
        (n, 4|6) corners and the (n,) area (volume) of each box, from the sides as delivered: `(x +
        w) - x` is not always `w` in floating point, and size cuts such as 32 x 32 sit exactly on
        that edge.
    """
    boxes = np.asarray(boxes, np.float64)
    if box_format.endswith("-normalised"):
        assert sizes is not None  # the callers check; here only for the type
        boxes = boxes * np.concatenate([sizes, sizes], axis=1)
    layout = box_format.split("-")[0]
    half = boxes.shape[1] // 2
    corners = np.array(boxes)
    # Views: what follows changes `corners` in place.
    low, high = corners[:, :half], corners[:, half:]
    if layout == "xyxy":
        if box_format == "xyxy-inclusive":
            low -= 1.0
        return corners, row_product(high - low)
    extent = row_product(high)
    if layout != "xywh":
        low -= high / 2.0
    high += low
    return corners, extent


def from_corners(corners: F64, box_format: str, sizes: F64 | None = None) -> F64:
    """Convert corners to a delivered format: the inverse of `to_corners`, for writers."""
    low, high = np.split(np.asarray(corners, np.float64), 2, axis=1)
    layout = box_format.split("-")[0]
    if layout == "xyxy":
        boxes = np.concatenate([low + 1.0 if box_format == "xyxy-inclusive" else low, high], axis=1)
    elif layout == "xywh":
        boxes = np.concatenate([low, high - low], axis=1)
    else:
        boxes = np.concatenate([(low + high) / 2.0, high - low], axis=1)
    if box_format.endswith("-normalised"):
        assert sizes is not None
        boxes = boxes / np.concatenate([sizes, sizes], axis=1)
    return boxes


def box_extent(corners: F64) -> F64:
    """Return the (n,) area, in 3D the volume, of corner boxes."""
    half = corners.shape[1] // 2
    return row_product(corners[:, half:] - corners[:, :half])


def row_product(values: F64) -> F64:
    """Return (n,) the products of rows (n, k); see `row_any`."""
    result = values[:, 0].copy()
    for k in range(1, values.shape[1]):
        result *= values[:, k]
    return result


def row_any(flags: Flags) -> Flags:
    """Return (n,) which rows of flags (n, k) hold one.

    Rows are short here: NumPy goes along columns several times faster than along such rows.
    """
    result = flags[:, 0].copy()
    for k in range(1, flags.shape[1]):
        result |= flags[:, k]
    return result


def row_all(flags: Flags) -> Flags:
    """Return (n,) which rows of flags (n, k) hold nothing else; see `row_any`."""
    result = flags[:, 0].copy()
    for k in range(1, flags.shape[1]):
        result &= flags[:, k]
    return result
