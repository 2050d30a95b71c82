# SPDX-License-Identifier: Apache-2.0
"""Volumes that are mirrored although their headers agree.

Headers say where voxels lie; an array that was saved in another order has the right header and lies
on the wrong side. Only the agreement with the references can tell: every way to mirror a prediction
is tried (`turned`), and one that lets most pairs overlap, which do not as they are, is a finding.
Findings that lie too much alike may as well have been moved; then both explanations are named.

`calipers.doctor.volume_folders` calls `turned` on the files that it has surveyed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import Array
from calipers.doctor.symptoms import Symptom

if TYPE_CHECKING:
    from calipers.doctor.volume_folders import Survey

MOST_TRIED = 12  # pairs on which turned axes are tried
SAME_MOVE = 2.0  # voxels that moves differ by and still count as one shift of all volumes
MOST_OF = 0.8  # share of the tried pairs that agree on how they are turned
UNMET, MET = 0.05, 0.5  # Dice of voxels: as they are, and turned


def turned(labels: Survey, one: Survey) -> Iterator[Symptom]:
    """Voxels that are mirrored although headers agree, told by the overlap after turning them."""
    tried = 0
    votes: Counter[tuple[int, ...]] = Counter()
    moves: list[list[float]] = []  # voxels by which each mask moves when it is mirrored
    for name, facts in one.files.items():
        reference = labels.files.get(name)
        if tried >= MOST_TRIED:
            break
        if reference is None or facts.volume.shape != reference.volume.shape:
            continue
        if not reference.high > 0 or not facts.high > 0:
            continue
        target = reference.volume.read() != 0
        mask = facts.volume.read()
        mask = mask > (0 if facts.labelled else 0.5 * facts.high)
        tried += 1
        axes = _better_turn(target, mask)
        if axes is not None:
            votes[axes] += 1
            moves.append(_moves(mask, axes))
    if not votes:
        return
    axes, n = votes.most_common(1)[0]
    # One pair may meet by chance; most of all pairs do not.
    if n < max(2, MOST_OF * tried):
        return
    words = ", ".join("zyx"[axis - target.ndim] for axis in axes)
    if np.ptp(np.array(moves), axis=0).max() <= SAME_MOVE:
        steps = ", ".join(f"{step:+.0f}" for step in np.median(np.array(moves), axis=0))
        yield Symptom(
            "moved",
            "error",
            one.source,
            f"voxels overlap their references if they are moved by {steps} voxels along "
            f"{', '.join('zyx'[-target.ndim :])}, or mirrored along {words}: findings lie too much "
            "alike to tell",
            n,
            tried,
            "compare the origin and the order of the voxels with those of the image",
        )
        return
    yield Symptom(
        "mirrored",
        "error",
        one.source,
        f"voxels overlap their references only if they are mirrored along {words}",
        n,
        tried,
        f"write the voxels in the order of the image: mirror the array along {words}",
    )


def _better_turn(target: Array, mask: Array) -> tuple[int, ...] | None:
    """Return the axes along which a mask has to be mirrored to meet its target; None if it meets
    it as it is, or in no way.
    """
    if voxel_dice(target, mask) >= UNMET:
        return None
    best, best_axes = MET, None
    for flags in product((False, True), repeat=target.ndim):
        axes = tuple(k for k, flag in enumerate(flags) if flag)
        overlap = voxel_dice(target, np.flip(mask, axes)) if axes else 0.0
        if overlap > best:
            best, best_axes = overlap, axes
    return best_axes


def _moves(mask: Array, axes: tuple[int, ...]) -> list[float]:
    """Return by how many voxels mirroring moves the middle of a mask along every axis."""
    moves = []
    for axis, places in enumerate(np.nonzero(mask)):
        is_turned = axis in axes
        moves.append(mask.shape[axis] - 1 - 2.0 * float(places.mean()) if is_turned else 0.0)
    return moves


def voxel_dice(first: Array, second: Array) -> float:
    """Return the Dice coefficient of two masks, 0 of two empty ones."""
    total = int(first.sum()) + int(second.sum())
    return 2.0 * float((first & second).sum()) / total if total else 0.0
