# SPDX-License-Identifier: Apache-2.0
"""Matching of RoDeO: the best one-to-one assignment for every weight of the class, image by image.

`paths` takes the boxes of references and predictions and returns, for every image, the matched
pairs and what is left over; `tally` sums them under weights. `calipers.metrics.rodeo` is the
caller. Both have compiled twins.

References and predictions are assigned at the largest total of ``gain + w * same`` (gain is the
GIoU). For a fixed assignment this is a line in the class weight w in [0, 1]: its height at 0 is the
sum of gains, its slope the number of pairs with equal class. The best assignment is the upper
envelope of these lines: a few *pieces*, each valid from its ``start`` on. Where two lines meet, the
piece on the right is taken; where lines or assignments are exactly equal, the answer of
`scipy.optimize.linear_sum_assignment` (rows = references) decides. So a class weight that depends
on the whole data set needs no second matching in any replicate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, permutations
from math import perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags
from calipers.kernels import boxes as overlap
from calipers.kernels import ragged, route

MOST_LISTED = 720  # assignments that are simply listed; more go to the solver
AT_ONCE = 4_000_000  # numbers in the tables of one batch of images
# Totals closer than this may be equal but for rounding; then SciPy is asked, whose answer is the
# rule.
TIE = 1e-11


class BoxSide(NamedTuple):
    """Objects of images: corners (n, 2 d) and areas."""

    offsets: I64
    label: I32
    boxes: F64
    extent: F64


class Paths(NamedTuple):
    """Pieces in image order; pairs and left-overs piece by piece, in input order inside a piece."""

    presence: I64  # (n_images, 3) classes that are in both, only predicted, only referenced
    image: I64  # of each piece
    start: F64  # class weight from which each piece is valid
    n_pairs: I64  # of each piece
    reference_label: I32  # of each pair
    prediction_label: I32
    distance: F64  # squared distance of the centres in sizes of the reference
    shape: F64  # centred IoU
    n_missed: I64  # of each piece
    missed: I32  # labels
    n_extra: I64  # of each piece
    extra: I32  # labels


def paths(
    reference: BoxSide, prediction: BoxSide, n_classes: int, class_weight: str | float
) -> Paths:
    """Match every image for all class weights in [0, 1] ("data-set"), at its own ("image"), or at a
    fixed number.

    References and predictions are paired at the largest total of GIoU + class weight x [same
    class].
    """
    native = route.native()
    if native is not None:
        w = _fixed_weights(reference, prediction, n_classes, class_weight)
        return Paths(*route.rodeo_paths(native, reference, prediction, n_classes, w))
    counts = np.stack([np.diff(reference.offsets), np.diff(prediction.offsets)], axis=1)
    rows, columns, offsets = _all_pairs(prediction.offsets, counts)
    boxes = [np.ascontiguousarray(side.boxes.T) for side in (reference, prediction)]
    a, b = boxes[0][:, rows], boxes[1][:, columns]
    gain = overlap.giou(a, b, reference.extent[rows], prediction.extent[columns])
    same = reference.label[rows] == prediction.label[columns]
    w = _fixed_weights(reference, prediction, n_classes, class_weight)
    pieces = best_assignments(gain, same, offsets, counts, w)
    presence = class_presence(reference, prediction, n_classes)
    return _with_left_overs(
        presence, counts, pieces, (reference, prediction), (rows, columns), (a, b)
    )


class TallyTable(NamedTuple):
    """What is summed over pieces; an owner is a class or an image."""

    pair_offsets: I64  # per piece
    missed_offsets: I64
    extra_offsets: I64
    owner: NDArray[np.integer]  # of each pair
    missed_owner: NDArray[np.integer]
    extra_owner: NDArray[np.integer]
    right: NDArray[np.bool_]  # whether the classes of a pair agree
    near: F64
    shape: F64


def tally(piece_weights: I64, table: TallyTable, n_owners: int) -> F64:
    """Return (R, 6, n_owners): weighted sums of pairs, right ones, nearness, shape, missed and
    extra objects.

    Plain sequential sums, so that every route gives the same bits. ``piece_weights`` is (R,
    n_pieces), 0 for pieces that are not valid.
    """
    native = route.native()
    if (
        native is not None
        and len(piece_weights) > 1
        and route.fit_lanes(piece_weights, len(table.owner))
    ):
        return route.lane_tally(native, piece_weights, table, n_owners)
    if native is not None:
        return route.tally(native, piece_weights, table, n_owners)
    piece = ragged.owners(table.pair_offsets)
    missed_piece, extra_piece = (
        ragged.owners(table.missed_offsets),
        ragged.owners(table.extra_offsets),
    )
    result = np.empty((len(piece_weights), 6, n_owners))
    for r, weight in enumerate(piece_weights):
        of_pair = weight[piece].astype(np.float64)
        # bincount adds in the order of the pairs, as the twin does.
        for k, values in enumerate(
            (of_pair, of_pair * table.right, of_pair * table.near, of_pair * table.shape)
        ):
            result[r, k] = np.bincount(table.owner, weights=values, minlength=n_owners)
        result[r, 4] = np.bincount(
            table.missed_owner, weights=weight[missed_piece], minlength=n_owners
        )
        result[r, 5] = np.bincount(
            table.extra_owner, weights=weight[extra_piece], minlength=n_owners
        )
    return result


def class_presence(reference: BoxSide, prediction: BoxSide, n_classes: int) -> I64:
    """Return (n_images, 3): how many classes are in both, only predicted, only referenced."""
    n_images = len(reference.offsets) - 1
    reference_cells = np.unique(ragged.owners(reference.offsets) * n_classes + reference.label)
    predicted_cells = np.unique(ragged.owners(prediction.offsets) * n_classes + prediction.label)
    both = reference_cells[np.isin(reference_cells, predicted_cells, assume_unique=True)]
    per_image = [
        np.bincount(cells // n_classes, minlength=n_images)
        for cells in (both, predicted_cells, reference_cells)
    ]
    return np.stack(
        [per_image[0], per_image[1] - per_image[0], per_image[2] - per_image[0]], axis=1
    )


def presence_mcc(presence: F64, cells: float | F64) -> F64:
    """Return the MCC of (..., 3) cells in both, only predicted, only referenced, of ``cells``; 0 if
    undefined.
    """
    tp, fp, fn = presence[..., 0], presence[..., 1], presence[..., 2]
    tn = cells - tp - fp - fn
    norm = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
    return np.asarray(
        np.divide(tp * tn - fp * fn, norm, out=np.zeros(np.shape(norm)), where=norm > 0)
    )


def _fixed_weights(
    reference: BoxSide, prediction: BoxSide, n_classes: int, class_weight: str | float
) -> F64 | None:
    """Return None for all weights, else one weight per image."""
    if class_weight == "data-set":
        return None
    if class_weight == "image":
        presence = class_presence(reference, prediction, n_classes)
        return np.maximum(0.0, presence_mcc(presence.astype(np.float64), n_classes))
    return np.full(len(reference.offsets) - 1, float(class_weight))


def _all_pairs(prediction_offsets: I64, counts: I64) -> tuple[I64, I64, I64]:
    """Return all pairs of every image, row-major with one row per reference, and their offsets per
    image.
    """
    per_reference = np.repeat(counts[:, 1], counts[:, 0])
    rows = np.repeat(np.arange(len(per_reference)), per_reference)
    columns = ragged.spans(np.repeat(prediction_offsets[:-1], counts[:, 0]), per_reference)
    return rows, columns, ragged.from_counts(counts[:, 0] * counts[:, 1])


def _with_left_overs(
    presence: I64,
    counts: I64,
    pieces: Pieces,
    sides: tuple[BoxSide, BoxSide],
    ends: tuple[I64, I64],
    boxes: tuple[F64, F64],
) -> Paths:
    """Add a piece for every image without a pair, and look up what is matched, missed and extra."""
    # Images with references or predictions only have nothing to match, but misses and extras.
    bare = np.flatnonzero((counts == 0).any(axis=1))
    image = np.concatenate([pieces.image, bare])
    order = np.argsort(image, kind="stable")
    sizes = np.concatenate([np.diff(pieces.offsets), np.zeros(len(bare), np.int64)])[order]
    # The pieces were sorted, and a bare image has no other piece: pairs stay in order.
    image = image[order]
    row, column = ends[0][pieces.pair], ends[1][pieces.pair]
    piece = np.repeat(np.arange(len(image)), sizes)
    missed, n_missed = _left_over_labels(image, sides[0], piece, row)
    extra, n_extra = _left_over_labels(image, sides[1], piece, column)
    a, b = boxes[0][:, pieces.pair], boxes[1][:, pieces.pair]
    shift = overlap.centres(a) - overlap.centres(b)
    return Paths(
        presence=presence,
        image=image,
        start=np.concatenate([pieces.start, np.zeros(len(bare))])[order],
        n_pairs=sizes,
        reference_label=sides[0].label[row],
        prediction_label=sides[1].label[column],
        distance=np.sum((shift / overlap.sides(a)) ** 2, axis=0),
        shape=overlap.centred_iou(a, b),
        n_missed=n_missed,
        missed=missed,
        n_extra=n_extra,
        extra=extra,
    )


def _left_over_labels(image: I64, side: BoxSide, piece: I64, row: I64) -> tuple[I32, I64]:
    """Return the labels of the objects of each piece's image that are in none of its pairs, and how
    many they are.
    """
    rows, offsets = ragged.take_rows(side.offsets, image)
    begin = offsets[:-1] - side.offsets[image]
    alone = np.ones(len(rows), np.bool_)
    alone[begin[piece] + row] = False
    owner = ragged.owners(offsets)[alone]
    return side.label[rows[alone]], np.bincount(owner, minlength=len(image))


class Pieces(NamedTuple):
    """Pieces of many images, not yet sorted: owner, start, and the matched pairs as flat positions
    in the matrices.
    """

    image: I64  # (P,)
    start: F64  # (P,)
    offsets: I64  # (P + 1,) pairs of each piece
    pair: I64  # positions in the flat tables of gains


def best_assignments(
    gain: F64, same: Flags, offsets: I64, shape: I64, w: F64 | None = None
) -> Pieces:
    """Return the pieces of every image.

    Parameters
    ----------
    gain, same
        Flat tables of all pairs: the matrix of image i is ``gain[offsets[i]:offsets[i + 1]]``,
        row-major, one row per reference.
    shape
        (n_images, 2): references and predictions of each image.
    w
        None for all of [0, 1]; else (n_images,) one fixed weight per image, which leaves one piece
        each.
    """
    parts: list[tuple[I64, F64, I64, I64]] = []
    todo: list[int] = []
    # Most images have few boxes: listing all assignments of one shape at once beats a solver per
    # image.
    for images, rows, columns in _same_shapes(shape):
        few = min(rows, columns)
        if perm(max(rows, columns), few) > MOST_LISTED:
            todo += images.tolist()
            continue
        # All lines of a batch are in memory at once.
        step = max(1, AT_ONCE // (perm(max(rows, columns), few) * few))
        for start in range(0, len(images), step):
            part = images[start : start + step]
            pieces, tied = _by_listing(
                gain, same, offsets[part], rows, columns, None if w is None else w[part]
            )
            todo += part[tied].tolist()
            owner, piece_start, pair = pieces
            parts.append((part[owner], piece_start, np.full(len(owner), few), pair))
    for i in todo:
        matrix = slice(offsets[i], offsets[i + 1])
        values, flags = gain[matrix].reshape(shape[i]), same[matrix].reshape(shape[i])
        for from_weight, (rows_, columns_) in _solve(
            values, flags, None if w is None else float(w[i])
        ):
            pair = offsets[i] + rows_ * shape[i, 1] + columns_
            parts.append((np.array([i]), np.array([from_weight]), np.array([len(pair)]), pair))
    return _merge(parts)


def _same_shapes(shape: I64) -> Iterator[tuple[I64, int, int]]:
    """Yield the images of each matrix shape that has any pair."""
    key = shape[:, 0] * (int(shape[:, 1].max(initial=0)) + 1) + shape[:, 1]
    order = np.argsort(key, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        if len(group) and shape[group[0]].all():
            yield group, int(shape[group[0], 0]), int(shape[group[0], 1])


def _by_listing(
    gain: F64, same: Flags, starts: I64, rows: int, columns: int, w: F64 | None
) -> tuple[tuple[I64, F64, I64], Flags]:
    """Return the pieces (owner, start, pairs) of images of one shape by listing, and which images
    have ties.
    """
    listed = _assignments(rows, columns)
    cells = starts[:, None] + np.arange(rows * columns)
    gains, flags = gain[cells], same[cells].astype(np.int64)
    height, slope = gains[:, listed[:, 0]], flags[:, listed[:, 0]]
    for k in range(1, listed.shape[1]):
        height, slope = height + gains[:, listed[:, k]], slope + flags[:, listed[:, k]]
    if w is None:
        owner, start, assignment, tied = _envelope(height, slope, listed.shape[1])
    else:
        total = height + w[:, None] * slope
        assignment, owner, start = (
            total.argmax(axis=1),
            np.arange(len(starts)),
            np.zeros(len(starts)),
        )
        tied = (total > total.max(axis=1, keepdims=True) - TIE).sum(axis=1) > 1
    untied = ~tied[owner]
    owner, start, assignment = owner[untied], start[untied], assignment[untied]
    return (owner, start, (starts[owner, None] + listed[assignment]).ravel()), tied


@lru_cache(maxsize=256)
def _assignments(rows: int, columns: int) -> I64:
    """Return (A, min) flat matrix positions of every one-to-one assignment."""
    if rows <= columns:
        orders = np.array(list(permutations(range(columns), rows)), np.int64)
        return np.arange(rows) * columns + orders
    orders = np.array(list(permutations(range(rows), columns)), np.int64)
    # Row by row, because every route adds up in that order.
    return np.sort(orders * columns + np.arange(columns), axis=1)


def _envelope(height: F64, slope: I64, most: int) -> tuple[I64, F64, I64, Flags]:
    """Return (owner, start, assignment) of the pieces of lines (n, A), and owners with ties."""
    n = len(height)
    everyone = np.arange(n)
    best, which = np.full((n, most + 1), -np.inf), np.zeros((n, most + 1), np.int64)
    many = np.zeros((n, most + 1), np.bool_)
    for k in range(most + 1):
        # Of lines with one slope only the highest can be on the envelope.
        of_slope = np.where(slope == k, height, -np.inf)
        which[:, k] = of_slope.argmax(axis=1)
        best[:, k] = of_slope[everyone, which[:, k]]
        many[:, k] = (of_slope > best[:, k, None] - TIE).sum(axis=1) > 1
    now = best.argmax(axis=1)
    tied = many[everyone, now] | ((best > best[everyone, now, None] - TIE).sum(axis=1) > 1)
    owner, start, assignment = [everyone], [np.zeros(n)], [which[everyone, now]]
    active = everyone
    for _ in range(most):
        rise = np.arange(most + 1) - now[active, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (best[active, now[active], None] - best[active]) / rise
        meet = np.where((rise > 0) & np.isfinite(meet), meet, np.inf)
        first = meet.min(axis=1)
        # Of several lines that meet at the same place the steepest goes on.
        steepest = most - (meet[:, ::-1] == first[:, None]).argmax(axis=1)
        on = first <= 1.0
        active = active[on]
        now[active] = steepest[on]
        if not len(active):
            break
        tied[active] |= many[active, now[active]] | (first[on] > 1.0 - TIE)
        owner.append(active)
        start.append(first[on])
        assignment.append(which[active, now[active]])
    return np.concatenate(owner), np.concatenate(start), np.concatenate(assignment), tied


def _solve(gain: F64, same: Flags, w: float | None) -> list[tuple[float, tuple[I64, I64]]]:
    """Return the pieces of one image with the Hungarian method: solve at both ends, then where
    their lines meet.
    """
    if w is not None:
        return [(0.0, _hungarian(gain, same, w))]
    left, right = _hungarian(gain, same, 0.0), _hungarian(gain, same, 1.0)
    lines = [left, *_lines_between(gain, same, left, right), right]
    pieces = [(0.0, left)]
    for before, after in pairwise(lines):
        height, slope = _line(gain, same, before)
        height_after, slope_after = _line(gain, same, after)
        if slope_after <= slope:
            continue
        # A piece that begins at exactly 0 would replace the first one, which the solver chose
        # there.
        meet = max((height - height_after) / (slope_after - slope), np.nextafter(0.0, 1.0))
        pieces.append((meet, after))
    return pieces


def _lines_between(
    gain: F64, same: Flags, left: tuple[I64, I64], right: tuple[I64, I64]
) -> list[tuple[I64, I64]]:
    height, slope = _line(gain, same, left)
    height_right, slope_right = _line(gain, same, right)
    if slope_right <= slope + 1:  # no line of a slope in between
        return []
    meet = (height - height_right) / (slope_right - slope)
    if not 0.0 < meet < 1.0:
        return []
    middle = _hungarian(gain, same, meet)
    height_middle, slope_middle = _line(gain, same, middle)
    if height_middle + meet * slope_middle <= height + meet * slope + TIE:
        return []
    return [
        *_lines_between(gain, same, left, middle),
        middle,
        *_lines_between(gain, same, middle, right),
    ]


def _line(gain: F64, same: Flags, assignment: tuple[I64, I64]) -> tuple[float, int]:
    # cumsum adds up one by one, as the native twin does; sum would not.
    return float(np.cumsum(gain[assignment])[-1]), int(same[assignment].sum())


def _hungarian(gain: F64, same: Flags, w: float) -> tuple[I64, I64]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-(same * w) - gain)
    return rows, columns


def _merge(parts: list[tuple[I64, F64, I64, I64]]) -> Pieces:
    """Sort the pieces by image and start, and bring their pairs along."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Pieces(none, np.zeros(0), np.zeros(1, np.int64), none)
    image, start, size, pair = (np.concatenate(columns) for columns in zip(*parts))
    order = np.lexsort((start, image))
    begin = (np.cumsum(size) - size)[order]
    offsets = np.concatenate([[0], np.cumsum(size[order])])
    inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], size[order])
    return Pieces(image[order], start[order], offsets, pair[np.repeat(begin, size[order]) + inside])
