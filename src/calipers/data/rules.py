# SPDX-License-Identifier: Apache-2.0
"""The rules that objects must keep, and the step from delivered objects to checked tables.

Every reader and `Cohort.from_arrays` fills a `Delivery`; `examine` returns a `Finding` for every
broken rule; `settle` raises (strict) or sets the records aside (lenient); `as_references` and
`as_predictions` build the frozen tables. Rules have stable names, such as ``non-finite``, which
messages, the quarantine and the documentation use. One vectorised function per rule, no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Array, Column, Flags
from calipers.data.cohort import Quarantined
from calipers.data.masks import Masks
from calipers.data.objects import (
    LARGEST,
    Predictions,
    References,
    row_all,
    row_any,
    to_corners,
)
from calipers.errors import InputError, InputProblems, raise_problems
from calipers.kernels import ragged

# Boxes that are converted together.
BLOCK = 1 << 18
MOST_OBJECTS = (1 << 31) - 1  # the kernels store rows of pairs and partners in 32 bits

Role = Literal["references", "predictions"]

OUTSIDE_TOLERANCE = 1.0  # pixels; annotation tools round
SIDES = " (two formats, such as xywh,xyxy, are for references and predictions)"
PERCENT = 100.0
FEWEST_RANKS = 5
LEAST_PERCENT = 20.0  # a model that is never surer than this has other scores
# A few boxes beyond the image are sloppy; one in five is another format.
SUSPECT_SHARE = 0.2


@dataclass(frozen=True)
class Delivery:
    """The objects of one input: flat, in input order, not yet checked."""

    image: I64 | I32  # (n,) index into the images of the cohort
    label: I64 | I32  # (n,) index into its classes
    boxes: F64  # (n, 4|6) as delivered
    box_format: str
    place: I64 | I32 | None  # (n,) record number in the input; None: every record is a row
    score: F64 | None = None
    area: F64 | None = None  # NaN = not declared; of predictions: what size cuts see
    ignore: Flags | None = None
    crowd: Flags | None = None
    masks: Masks | None = None
    points: F64 | None = None
    facts: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, rows: I64 | Flags) -> Delivery:
        """Return the delivery with only these records."""
        selection: dict[str, Any] = {}
        for column in fields(self):
            values = getattr(self, column.name)
            if column.name not in ("box_format", "facts") and values is not None:
                selection[column.name] = values[rows]
        if self.place is None:
            selection["place"] = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        facts = {name: column[rows] for name, column in self.facts.items()}
        return replace(self, **selection, facts=facts)

    def place_of(self, row: int) -> int:
        """Return the record number of a row."""
        return row if self.place is None else int(self.place[row])


@dataclass(frozen=True)
class Finding:
    """One rule that some records of a delivery break."""

    rule: str
    field: str
    expected: str
    rows: I64
    values: Sequence[object] | NDArray[np.generic]
    hint: str = ""
    whole_file: bool = False  # the file as a whole cannot be trusted, so lenient reading fails too


@dataclass(frozen=True)
class Source:
    """The origin of a delivery, for messages: file, location and original text of a record."""

    file: str
    locate: Callable[[int, str], str]  # (place, field) -> location
    text: Callable[[int], str] = str


def examine(
    delivery: Delivery,
    sizes: F64,
    role: Role,
    *,
    score_scale: str = "unit",
    declared: bool = False,
    inside: bool = False,
) -> list[Finding]:
    """Return every broken rule of a delivery, most basic first.

    Parameters
    ----------
    sizes
        (n_images, 2|3) image sizes in pixels, NaN where unknown.
    declared
        The user named the box format, so it is not doubted.
    inside
        Objects must lie inside their image.

    Notes
    -----
    Predictions without area are allowed: they overlap nothing, and a false alarm must not vanish
    because it is thin.
    """
    sound = row_all(np.isfinite(delivery.boxes))
    findings = [
        *_non_finite(delivery, sound),
        *_scores(delivery, score_scale),
        *_check_areas(delivery),
    ]
    per_box = sizes[delivery.image]
    findings += [*_unsized(delivery, per_box), *_mask_sizes(delivery, per_box)]
    suspect = [] if declared else list(_format_suspect(delivery, per_box, sound))
    # Further rules on boxes in the wrong format would only blame the wrong thing.
    if suspect:
        return [*findings, *suspect]
    with np.errstate(over="ignore", invalid="ignore"):
        corners, extent = to_corners(delivery.boxes, delivery.box_format, per_box)
    sized = sound & row_all(np.isfinite(corners))
    findings += _sides(delivery, corners, extent, sized, needs_area=role == "references")
    if inside:
        findings += _outside(delivery, corners, per_box, sized)
    return findings


def clip_to_images(delivery: Delivery, sizes: F64) -> tuple[Delivery, Flags]:
    """Return the delivery with all boxes cut at the borders of their images, and which were cut.

    An image of unknown size cuts nothing. A box that lies wholly outside is left without area.
    """
    per_box = sizes[delivery.image]
    corners, _ = to_corners(delivery.boxes, delivery.box_format, per_box)
    low, high = np.split(corners, 2, axis=1)
    limit = np.where(np.isnan(per_box), np.inf, per_box)
    least = np.where(np.isnan(per_box), -np.inf, 0.0)
    clipped = np.concatenate([np.clip(low, least, limit), np.clip(high, least, limit)], axis=1)
    return replace(delivery, boxes=clipped, box_format="xyxy"), row_any(clipped != corners)


def settle(
    delivery: Delivery, findings: Sequence[Finding], source: Source, *, lenient: bool = False
) -> tuple[Delivery, Counter[str], list[Quarantined]]:
    """Raise for broken rules, or (lenient) set the records aside and account for them.

    A record that breaks several rules is counted once, under the first.
    """
    fatal = [finding for finding in findings if finding.whole_file]
    if fatal or (findings and not lenient):
        problems, total = _as_errors(delivery, fatal or findings, source)
        raise_problems(problems, total)
    # Findings come most basic first, and the first claim on a record stands.
    rule_of = np.full(len(delivery), -1)
    for k, finding in enumerate(findings):
        rows = finding.rows[rule_of[finding.rows] < 0]
        rule_of[rows] = k
    aside = np.flatnonzero(rule_of >= 0)
    records = []
    for row in aside.tolist():
        finding, place = findings[rule_of[row]], delivery.place_of(row)
        where = source.locate(place, finding.field)
        records.append(Quarantined(source.file, where, finding.rule, source.text(place)[:2000]))
    return delivery.rows(rule_of < 0), Counter(record.rule for record in records), records


def _as_errors(
    delivery: Delivery, findings: Sequence[Finding], source: Source
) -> tuple[list[InputError], int]:
    """Return the first errors of every finding, and how many records are broken in all."""
    errors = []
    total = 0
    for finding in findings:
        total += 1 if finding.whole_file else len(finding.rows)
        for row, value in zip(finding.rows[: InputProblems.SHOWN].tolist(), finding.values):
            if isinstance(value, np.ndarray | np.generic):
                value = value.tolist()
            location = ""
            if not finding.whole_file:
                location = source.locate(delivery.place_of(row), finding.field)
            errors.append(
                InputError(
                    finding.expected,
                    rule=finding.rule,
                    file=source.file,
                    location=location,
                    field=finding.field,
                    value=value,
                    hint=finding.hint,
                )
            )
    return errors, total


def as_references(delivery: Delivery, sizes: F64) -> References:
    """Build the references of ``len(sizes)`` images from a settled delivery.

    Objects of an image keep the order of the input.
    """
    order, shared = _in_image_order(delivery, sizes)
    shared["place"] = _places(delivery, order)
    shared["extent"] = _to_corners(shared, delivery.box_format, sizes)
    crowd = ignore = np.zeros(len(delivery), np.bool_)
    if delivery.crowd is not None:
        crowd = delivery.crowd[order]
    if delivery.ignore is not None:
        ignore = delivery.ignore[order]
    area = None if delivery.area is None else delivery.area[order]
    return References(
        **shared,
        area=_areas(area, shared),
        ignore=ignore | crowd,  # a crowd is never counted
        crowd=crowd,
    )


def as_predictions(delivery: Delivery, sizes: F64, *, overwrite: bool = False) -> Predictions:
    """Build the predictions of ``len(sizes)`` images from a settled delivery.

    Objects of an image keep the order of the input. Without scores all scores are 1. With
    ``overwrite`` the columns of the delivery become those of the predictions where they can, so
    that millions of objects are not in memory twice.
    """
    order, shared = _in_image_order(delivery, sizes, overwrite=overwrite)
    box_format, scored = delivery.box_format, delivery.score is not None
    if delivery.score is None:
        score = np.ones(len(delivery))
    else:
        score = _reordered(delivery.score, order, overwrite)
    area = None if delivery.area is None else delivery.area[order]
    # Last of all that needs the order and the images: of millions of objects, none of them fits
    # beside the extents.
    shared["place"] = _places(delivery, order)
    del order, delivery
    shared["extent"] = _to_corners(shared, box_format, sizes)
    return Predictions(**shared, area=_areas(area, shared), score=score, scored=scored)


def _areas(area: F64 | None, shared: Mapping[str, Any]) -> F64:
    """Return the declared areas, where there are any."""
    own = _own_area(shared)
    return own if area is None else np.where(np.isnan(area), own, area)


def _in_image_order(
    delivery: Delivery, sizes: F64, *, overwrite: bool = False
) -> tuple[I64 | I32, dict[str, Any]]:
    """Return the order of the objects by image, and the columns of all objects in that order; the
    boxes are still as delivered.
    """
    if len(delivery) > MOST_OBJECTS:
        raise InputError(f"at most {MOST_OBJECTS} objects", rule="too-large", value=len(delivery))
    order = _order_by_image(delivery.image)
    boxes = delivery.boxes
    if not overwrite or not boxes.flags.writeable:
        boxes = np.empty(delivery.boxes.shape)
    # One coordinate after the other, so that there is room for one of them beside the boxes.
    for k, coordinate in enumerate(delivery.boxes.T):
        boxes[:, k] = _reordered(coordinate, order)
    shared: dict[str, Any] = {
        "offsets": ragged.from_owner(delivery.image, len(sizes)),
        "boxes": boxes,
        "label": _reordered(delivery.label, order, overwrite).astype(np.int32, copy=False),
        "facts": {name: column[order] for name, column in delivery.facts.items()},
        "masks": None,
        "points": None,
    }
    if delivery.masks is not None:
        shared["masks"] = delivery.masks[order.astype(np.int64)]
    if delivery.points is not None:
        shared["points"] = delivery.points[order]
    return order, shared


def _places(delivery: Delivery, order: I64 | I32) -> I64 | I32:
    return order if delivery.place is None else _reordered(delivery.place, order)


def _to_corners(shared: Mapping[str, Any], box_format: str, sizes: F64) -> F64:
    """Turn the boxes into corners in their own room, and return their extents."""
    boxes = shared["boxes"]
    extent = np.empty(len(boxes))
    for start in range(0, len(boxes), BLOCK):
        block = slice(start, start + BLOCK)
        per_box = None
        if box_format.endswith("-normalised"):
            rows = np.arange(start, min(start + BLOCK, len(boxes)))
            per_box = sizes[np.searchsorted(shared["offsets"], rows, side="right") - 1]
        boxes[block], extent[block] = to_corners(boxes[block], box_format, per_box)
    return extent


def _order_by_image(image: I64 | I32) -> I64 | I32:
    """Return the order of objects by image; those of an image stay in the order of the input, which
    decides between equal scores.
    """
    n = len(image)
    if n <= BLOCK:
        return np.argsort(image, kind="stable")
    # Millions of objects: image and row as one number need no room beside it to be sorted.
    keys = np.empty(n, np.int64)
    order = np.empty(n, np.int32)
    blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    for block in blocks:
        keys[block] = image[block]
        keys[block] <<= 32
        keys[block] += np.arange(block.start, block.stop)
    keys.sort()
    for block in blocks:
        order[block] = keys[block] & ((1 << 32) - 1)
    return order


def _reordered(column: Array, order: I64 | I32, overwrite: bool = False) -> Array:
    """Return a column in another order, in its own room if it may be overwritten.

    Block by block: NumPy needs the order in 64 bits, which for all rows would be a copy of it.
    """
    reordered = np.empty_like(column)
    for start in range(0, len(order), BLOCK):
        block = slice(start, start + BLOCK)
        reordered[block] = column[order[block]]
    if not overwrite or not column.flags.writeable:
        return reordered
    column[:] = reordered
    return column


def _own_area(shared: Mapping[str, Any]) -> F64:
    """Return the areas of objects that declare none: pixels of the masks, else box areas."""
    masks: Masks | None = shared["masks"]
    extent: F64 = shared["extent"]
    return extent if masks is None else masks.voxels.astype(np.float64)


def _non_finite(delivery: Delivery, sound: Flags) -> Iterable[Finding]:
    return _finding(
        delivery,
        ~sound,
        "non-finite",
        "bbox",
        "finite coordinates",
        hint="remove or repair the record",
    )


def _scores(delivery: Delivery, score_scale: str) -> Iterator[Finding]:
    if delivery.score is None:
        return
    score = delivery.score
    finite = np.isfinite(score)
    yield from _finding(delivery, ~finite, "non-finite", "score", "a finite score", values=score)
    if score_scale == "unit":
        out = finite & ((score < 0) | (score > 1))
        hint = "scores that are not probabilities: pass --score-scale raw (score_scale='raw')"
        if are_percentages(score[finite]):
            hint = (
                "these look like percentages: divide them by 100, as calipers doctor does; or rank "
                "by them as they are with --score-scale raw (score_scale='raw')"
            )
        yield from _finding(
            delivery, out, "score-range", "score", "a score in [0, 1]", values=score, hint=hint
        )


def are_percentages(score: F64) -> bool:
    """Return whether finite scores look like percentages: from 0 to 100, most of them above 1.

    Scores from 0 to 7 may be anything.
    """
    if not len(score):
        return False
    is_within = score.min() >= 0 and LEAST_PERCENT < score.max() <= PERCENT
    return bool(is_within and (score > 1).mean() > 0.5) and not are_ranks(score)


def are_ranks(score: F64) -> bool:
    """Return whether scores are places in a list: 1, 2, ..., with equal places after ties."""
    if len(score) < FEWEST_RANKS or not np.isfinite(score).all():
        return False
    values, counts = np.unique(score, return_counts=True)
    is_mostly_distinct = 2 * len(values) > len(score)
    return is_mostly_distinct and bool(np.array_equal(values, 1.0 + np.cumsum(counts) - counts))


def _check_areas(delivery: Delivery) -> Iterable[Finding]:
    """Declared areas; NaN is none."""
    if delivery.area is None:
        return []
    bad = (delivery.area < 0) | np.isinf(delivery.area)
    return _finding(
        delivery,
        bad,
        "area-range",
        "area",
        "a finite area that is not negative",
        values=delivery.area,
    )


def _unsized(delivery: Delivery, per_box: F64) -> Iterable[Finding]:
    if not delivery.box_format.endswith("-normalised"):
        return []
    bad = row_any(np.isnan(per_box))
    return _finding(
        delivery,
        bad,
        "size-unknown",
        "bbox",
        "an image size, because the boxes are normalised",
        hint="give width and height of every image, for instance in a table with --groups",
    )


def _mask_sizes(delivery: Delivery, per_box: F64) -> Iterator[Finding]:
    if delivery.masks is None:
        return
    size = delivery.masks.size
    rows = np.flatnonzero(row_any((size != per_box) & np.isfinite(per_box)))
    if len(rows):
        sizes_of_masks = [
            f"{_size_text(size[row])} in an image of {_size_text(per_box[row])}"
            for row in rows[: InputProblems.SHOWN]
        ]
        hint = (
            "masks must have the grid of their image: "
            "check that the axes are [z, ]y, x, or resize the masks"
        )
        expected = "a mask of the size of its image (width x height[ x depth])"
        yield Finding("mask-size", "masks", expected, rows, sizes_of_masks, hint)


def _size_text(size: NDArray[Any]) -> str:
    return " x ".join(f"{side:g}" for side in size.tolist())


def _format_suspect(delivery: Delivery, per_box: F64, sound: Flags) -> Iterator[Finding]:
    """Find corners delivered as sides and fractions delivered as pixels; the user decides."""
    has_size = sound & row_all(np.isfinite(per_box))
    boxes, size = delivery.boxes, per_box
    if not has_size.all():
        boxes, size = boxes[has_size], size[has_size]
    if not len(boxes) or delivery.box_format.endswith("-normalised"):
        return
    rows = np.flatnonzero(has_size)[:1]
    if len(boxes) >= 3 and (boxes >= 0).all() and (boxes <= 1).all() and (size > 2).all():
        message = f"{len(boxes)} of {len(boxes)} boxes lie within 0..1"
        hint = (
            "if the boxes are fractions of the image pass "
            f"--box-format {delivery.box_format}-normalised{SIDES}"
        )
        yield Finding(
            "box-format-suspect", "bbox", "boxes in pixels", rows, [message], hint, whole_file=True
        )
        return
    if delivery.box_format != "xywh":
        return
    first, second = np.split(boxes, 2, axis=1)
    as_sides = row_any((first + second) > size + OUTSIDE_TOLERANCE)
    if as_sides.mean() <= SUSPECT_SHARE:
        return
    # The doubt needs both: wrong as sides, and right as corners without exception.
    as_corners = (second > size + OUTSIDE_TOLERANCE) | (second <= first)
    if not as_corners.any():
        message = (
            f"{int(as_sides.sum())} of {len(boxes)} boxes leave the image as xywh, none as xyxy"
        )
        hint = (
            f"if the boxes are corners pass --box-format xyxy{SIDES}, "
            "or name table columns x0 y0 x1 y1; if they really are xywh pass --box-format xywh"
        )
        yield Finding(
            "box-format-suspect", "bbox", "boxes as xywh", rows, [message], hint, whole_file=True
        )


def _sides(
    delivery: Delivery, corners: F64, extent: F64, sized: Flags, *, needs_area: bool
) -> Iterator[Finding]:
    low, high = np.split(corners, 2, axis=1)
    negative = sized & row_any(high < low)
    hint = "check the box format (--box-format); the second corner must not lie before the first"
    yield from _finding(
        delivery, negative, "neg-size", "bbox", "sides that are not negative", hint=hint
    )
    if needs_area:
        empty = sized & ~negative & without_area(corners, extent)
        yield from _finding(
            delivery,
            empty,
            "zero-area",
            "bbox",
            "a reference with an area above zero",
            hint="remove the record",
        )
    largest = LARGEST[low.shape[1]]
    huge = sized & ~negative & row_any(np.abs(corners) > largest)
    yield from _finding(delivery, huge, "non-finite", "bbox", f"coordinates of at most {largest:g}")


def _outside(delivery: Delivery, corners: F64, per_box: F64, sized: Flags) -> Iterable[Finding]:
    bad = sized & outside_image(corners, per_box)
    hint = (
        "check width and height of the image and the box format, or pass --outside keep or clip "
        "(outside='keep')"
    )
    return _finding(
        delivery, bad, "outside", "bbox", "a box inside its image (1 px tolerance)", hint=hint
    )


def without_area(corners: F64, extent: F64) -> Flags:
    """Return which boxes have no area."""
    low, high = np.split(corners, 2, axis=1)
    return np.asarray(row_any(high <= low) | ~(extent > 0))


def outside_image(corners: F64, per_box: F64) -> Flags:
    """Return which boxes reach more than a pixel beyond their image; unknown sizes never do."""
    low, high = np.split(corners, 2, axis=1)
    with np.errstate(invalid="ignore"):
        beyond = (low < -OUTSIDE_TOLERANCE) | (high > per_box + OUTSIDE_TOLERANCE)
    return row_any(beyond & np.isfinite(per_box))


def _finding(
    delivery: Delivery,
    bad: Flags,
    rule: str,
    name: str,
    expected: str,
    *,
    values: object = None,
    hint: str = "",
) -> Iterator[Finding]:
    rows = np.flatnonzero(bad)
    if len(rows):
        column = delivery.boxes if values is None else np.asarray(values)
        yield Finding(rule, name, expected, rows, column[rows], hint)
