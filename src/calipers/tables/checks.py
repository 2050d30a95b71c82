# SPDX-License-Identifier: Apache-2.0
"""The rules that objects must keep, each with a stable name.

`examine` takes a `Delivery` and returns `Finding`s. One vectorised function per rule, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputProblems
from calipers.tables.boxes import to_corners
from calipers.tables.delivery import Delivery, Finding

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Role = Literal["references", "predictions"]

OUTSIDE_TOLERANCE = 1.0  # pixels; annotation tools round
# Coordinates up to which the box around any two boxes has a finite area (volume).
LARGEST = {2: 1e150, 3: 1e100}
SIDES = " (two formats, such as xywh,xyxy, are for references and predictions)"
SUSPECT_SHARE = 0.2


def examine(
    delivery: Delivery, sizes: F64, role: Role, *, score_scale: str = "unit", declared: bool = False
) -> list[Finding]:
    """Return every broken rule of a delivery, most basic first.

    Parameters
    ----------
    sizes
        (n_images, 2|3) image sizes in pixels, NaN where unknown.
    declared
        The user named the box format, so it is not doubted.
    """
    findings = [*_non_finite(delivery), *_scores(delivery, score_scale), *_areas(delivery)]
    sound = np.asarray(np.isfinite(delivery.boxes).all(axis=1))
    per_box = sizes[delivery.image]
    findings += [*_unsized(delivery, per_box), *_mask_sizes(delivery, per_box)]
    suspect = [] if declared else list(_format_suspect(delivery, per_box, sound))
    if suspect:
        return [*findings, *suspect]
    with np.errstate(over="ignore", invalid="ignore"):
        corners, extent = to_corners(delivery.boxes, delivery.box_format, per_box)
    sized = np.asarray(sound & np.isfinite(corners).all(axis=1))
    findings += _sides(delivery, corners, extent, sized)
    if role == "references":
        findings += _outside(delivery, corners, per_box, sized)
    return findings


def outside_image(corners: F64, per_box: F64) -> Flags:
    """Return which boxes reach more than a pixel beyond their image; unknown sizes never do."""
    low, high = np.split(corners, 2, axis=1)
    with np.errstate(invalid="ignore"):
        beyond = (low < -OUTSIDE_TOLERANCE) | (high > per_box + OUTSIDE_TOLERANCE)
    return np.asarray((beyond & np.isfinite(per_box)).any(axis=1))


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


def _non_finite(delivery: Delivery) -> Iterable[Finding]:
    bad = np.asarray(~np.isfinite(delivery.boxes).all(axis=1))
    return _finding(
        delivery,
        bad,
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
        yield from _finding(
            delivery, out, "score-range", "score", "a score in [0, 1]", values=score, hint=hint
        )


def _areas(delivery: Delivery) -> Iterable[Finding]:
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
    bad = np.asarray(np.isnan(per_box).any(axis=1))
    return _finding(
        delivery, bad, "size-unknown", "bbox", "an image size, because the boxes are normalised"
    )


def _mask_sizes(delivery: Delivery, per_box: F64) -> Iterator[Finding]:
    if delivery.masks is None:
        return
    size = delivery.masks.size
    rows = np.flatnonzero(((size != per_box) & np.isfinite(per_box)).any(axis=1))
    if len(rows):
        sizes_of_masks = [
            f"{_by(size[row])} in an image of {_by(per_box[row])}"
            for row in rows[: InputProblems.SHOWN]
        ]
        hint = (
            "masks must have the grid of their image: "
            "check that the axes are [z, ]y, x, or resize the masks"
        )
        expected = "a mask of the size of its image (width x height[ x depth])"
        yield Finding("mask-size", "masks", expected, rows, sizes_of_masks, hint)


def _by(size: NDArray[Any]) -> str:
    return " x ".join(f"{side:g}" for side in size.tolist())


def _format_suspect(delivery: Delivery, per_box: F64, sound: Flags) -> Iterator[Finding]:
    """Find corners delivered as sides and fractions delivered as pixels; the user decides."""
    has_size = sound & np.isfinite(per_box).all(axis=1)
    boxes, size = delivery.boxes[has_size], per_box[has_size]
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
    as_sides = ((first + second) > size + OUTSIDE_TOLERANCE).any(axis=1)
    as_corners = (second > size + OUTSIDE_TOLERANCE).any(axis=1) | (second <= first).any(axis=1)
    if as_sides.mean() > SUSPECT_SHARE and not as_corners.any():
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


def _sides(delivery: Delivery, corners: F64, extent: F64, sized: Flags) -> Iterator[Finding]:
    low, high = np.split(corners, 2, axis=1)
    negative = sized & (high < low).any(axis=1)
    hint = "check the box format (--box-format); the second corner must not lie before the first"
    yield from _finding(
        delivery, negative, "neg-size", "bbox", "sides that are not negative", hint=hint
    )
    empty = sized & ~negative & ((high <= low).any(axis=1) | ~(extent > 0))
    yield from _finding(
        delivery,
        empty,
        "zero-area",
        "bbox",
        "a box with an area above zero",
        hint="remove the record",
    )
    largest = LARGEST[low.shape[1]]
    huge = sized & ~negative & (np.abs(corners) > largest).any(axis=1)
    yield from _finding(delivery, huge, "non-finite", "bbox", f"coordinates of at most {largest:g}")


def _outside(delivery: Delivery, corners: F64, per_box: F64, sized: Flags) -> Iterable[Finding]:
    bad = sized & outside_image(corners, per_box)
    hint = "check width and height of the image and the box format"
    return _finding(
        delivery, bad, "outside", "bbox", "a reference inside its image (1 px tolerance)", hint=hint
    )
