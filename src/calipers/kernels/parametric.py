# SPDX-License-Identifier: Apache-2.0
"""The best one-to-one assignment as a function of the class weight w in [0, 1].

Assigning references to predictions at the largest total of ``gain + w * same`` is, for every
assignment, a line in w: its height at 0 is the sum of gains, its slope the number of pairs with
equal class. The best assignment is the upper envelope of these lines: a few *pieces*, each valid
from its ``start`` on. Where two lines meet, the piece on the right is taken; where lines or
assignments are exactly equal, the answer of `scipy.optimize.linear_sum_assignment` (rows =
references) decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, permutations
from math import perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_LISTED = 720  # assignments that are simply listed; more go to the solver
AT_ONCE = 4_000_000
TIE = 1e-11


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
    for images, rows, columns in _same_shapes(shape):
        few = min(rows, columns)
        if perm(max(rows, columns), few) > MOST_LISTED:
            todo += images.tolist()
            continue
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


@lru_cache(maxsize=256)
def _assignments(rows: int, columns: int) -> I64:
    """Return (A, min) flat matrix positions of every one-to-one assignment."""
    if rows <= columns:
        orders = np.array(list(permutations(range(columns), rows)), np.int64)
        return np.arange(rows) * columns + orders
    orders = np.array(list(permutations(range(rows), columns)), np.int64)
    # Row by row, because every route adds up in that order.
    return np.sort(orders * columns + np.arange(columns), axis=1)


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


def _envelope(height: F64, slope: I64, most: int) -> tuple[I64, F64, I64, Flags]:
    """Return (owner, start, assignment) of the pieces of lines (n, A), and owners with ties."""
    n = len(height)
    everyone = np.arange(n)
    best, which = np.full((n, most + 1), -np.inf), np.zeros((n, most + 1), np.int64)
    many = np.zeros((n, most + 1), np.bool_)
    for k in range(most + 1):
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
    lines = [left, *_between(gain, same, left, right), right]
    pieces = [(0.0, left)]
    for before, after in pairwise(lines):
        height, slope = _line(gain, same, before)
        height_after, slope_after = _line(gain, same, after)
        if slope_after <= slope:
            continue
        meet = max((height - height_after) / (slope_after - slope), np.nextafter(0.0, 1.0))
        pieces.append((meet, after))
    return pieces


def _between(
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
    return [*_between(gain, same, left, middle), middle, *_between(gain, same, middle, right)]


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
