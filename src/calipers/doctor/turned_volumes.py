# SPDX-License-Identifier: Apache-2.0
"""Volumes that are mirrored or turned although their headers agree.

Headers say where voxels lie; an array that was saved in another order has the right header and lies
on the wrong side. Only the agreement with the references can tell: every way to mirror a prediction
is tried (`turned`), with x and y exchanged too if an image is as wide as high, and one that lets
most pairs overlap, which do not as they are, is a finding.
Findings that lie too much alike may as well have been moved; then both explanations are named.

`calipers.doctor.volume_folders` calls `turned` on the files that it has surveyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import Array
from calipers.doctor.findings import Symptom

if TYPE_CHECKING:
    from calipers.doctor.volume_folders import Survey

MOST_TRIED = 12  # pairs on which turned axes are tried
SAME_MOVE = 2.0  # voxels that moves differ by and still count as one shift of all volumes
MOST_OF = 0.8  # share of the pairs that differ which have to be better with a turn
CLEAR = 0.1  # difference of Dice that counts as better or worse
UNMET, MET = 0.05, 0.5  # Dice of voxels: as they are, and turned

Turn = tuple[bool, tuple[int, ...]]  # whether the last two axes are swapped, and mirrored axes


def turned(labels: Survey, one: Survey) -> Iterator[Symptom]:
    """Voxels that are mirrored although headers agree, told by the overlap after turning them."""
    overlaps: list[dict[Turn, float]] = []
    masks: list[tuple[Array, ...]] = []
    shapes: list[tuple[int, ...]] = []
    for name, facts in one.files.items():
        reference = labels.files.get(name)
        if len(overlaps) >= MOST_TRIED:
            break
        if reference is None or facts.volume.shape != reference.volume.shape:
            continue
        if not reference.high > 0 or not facts.high > 0:
            continue
        target = reference.volume.read() != 0
        voxels = facts.volume.read()
        places = np.nonzero(voxels > (0 if facts.labelled else 0.5 * facts.high))
        overlaps.append(_overlaps(target, places))
        masks.append(places)
        shapes.append(target.shape)
    turn = _best_turn(overlaps)
    if turn is None:
        return
    is_swapped, axes = turn
    n_axes = len(shapes[0])
    better = [k for k, own in enumerate(overlaps) if own[turn] > own[AS_IS] + CLEAR]
    n, n_tried = len(better), len(overlaps)
    letters = "zyx"[-n_axes:]
    words = ", ".join(letters[axis] for axis in axes)
    moves = np.array([_moves(masks[k], shapes[k], axes) for k in better])
    if not is_swapped and np.ptp(moves, axis=0).max() <= SAME_MOVE:
        steps = ", ".join(f"{round(step):+d}" for step in np.median(moves, axis=0))
        yield Symptom(
            "moved",
            "error",
            one.source,
            f"voxels overlap their references if they are moved by {steps} voxels along "
            f"{', '.join(letters)}, or mirrored along {words}: the findings lie too similarly to "
            "tell which",
            n,
            n_tried,
            "compare the origin and the order of the voxels with those of the image",
        )
        return
    code, change, remedy = "mirrored", f"they are mirrored along {words}", ""
    if axes:
        remedy = f"mirror the array along {words}"
    if is_swapped:
        code, change = "axes-swapped", "x and y are exchanged"
        if axes:
            change += f" and {words} mirrored"
        remedy = ", then ".join(["exchange x and y of the array", remedy]).removesuffix(", then ")
    yield Symptom(
        code,
        "error",
        one.source,
        f"voxels overlap their references only if {change}",
        n,
        n_tried,
        f"write the voxels in the order of the image: {remedy}",
    )


AS_IS: Turn = (False, ())


def _overlaps(target: Array, places: tuple[Array, ...]) -> dict[Turn, float]:
    """Return the Dice of a mask, given by the places of its voxels, for every way to turn it."""
    n_axes = target.ndim
    is_square = target.shape[-1] == target.shape[-2]
    total = int(target.sum()) + len(places[0])
    overlaps = {}
    for is_swapped in (False, True)[: 1 + is_square]:
        own_places = list(places)
        if is_swapped:
            own_places[-1], own_places[-2] = own_places[-2], own_places[-1]
        for flags in product((False, True), repeat=n_axes):
            axes = tuple(axis for axis, flag in enumerate(flags) if flag)
            index = list(own_places)
            for axis in axes:
                index[axis] = target.shape[axis] - 1 - own_places[axis]
            overlaps[is_swapped, axes] = 2.0 * float(target[tuple(index)].sum()) / max(total, 1)
    return overlaps


def _best_turn(overlaps: Sequence[Mapping[Turn, float]]) -> Turn | None:
    """Return the turn that lets most pairs overlap which do not as they are, if there is one."""
    if not overlaps:
        return None
    # Images of other shapes may not be turned in every way.
    turns = set(overlaps[0]).intersection(*overlaps)
    sums = dict.fromkeys(sorted(turns), 0.0)
    for own in overlaps:
        for turn in sums:
            sums[turn] += own[turn]
    best = max(sums, key=lambda turn: sums[turn])
    before = np.array([own[AS_IS] for own in overlaps])
    after = np.array([own[best] for own in overlaps])
    wins, losses = after > before + CLEAR, before > after + CLEAR
    n_wins = int(wins.sum())
    # One pair may meet by chance; most of all pairs do not.
    is_clear = n_wins >= max(2, MOST_OF * (n_wins + losses.sum()), 0.5 * len(overlaps))
    if not is_clear or np.median(after[wins]) < MET or np.median(before[wins]) >= UNMET:
        return None
    return best


def _moves(places: tuple[Array, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[float]:
    """Return by how many voxels mirroring moves the middle of a mask along every axis."""
    moves = []
    for axis, own_places in enumerate(places):
        is_turned = axis in axes
        moves.append(shape[axis] - 1 - 2.0 * float(own_places.mean()) if is_turned else 0.0)
    return moves


def voxel_dice(first: Array, second: Array) -> float:
    """Return the Dice coefficient of two masks, 0 of two empty ones."""
    total = int(first.sum()) + int(second.sum())
    return 2.0 * float((first & second).sum()) / total if total else 0.0
