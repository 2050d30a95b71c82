# SPDX-License-Identifier: Apache-2.0
"""Volumes that are mirrored, turned, moved or exchanged although their headers agree.

Headers say where voxels lie; an array that was saved in another order has the right header and lies
on the wrong side. Only the agreement with the references can tell: every way to mirror a prediction
is tried (`turned`), with x and y exchanged too if an image is as wide as high, and one that lets
most pairs overlap, which do not as they are, is a finding.
Findings that lie too much alike may as well have been moved; then both explanations are named. If
no turn explains them, one shift of all volumes is looked for, then predictions that lie on the
references of other cases.

`calipers.doctor.volumes.volume_folders` calls `turned` on the files that it has surveyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import Array
from calipers.doctor.findings import Symptom, few

if TYPE_CHECKING:
    from calipers.doctor.volumes.volume_folders import Survey

MOST_TRIED = 12  # pairs on which turned axes are tried
SAME_MOVE = 2.0  # voxels that moves differ by and still count as one shift of all volumes
MOST_OF = 0.8  # share of the pairs that differ which have to be better with a turn
CLEAR = 0.1  # difference of Dice that counts as better or worse
UNMET, MET = 0.05, 0.5  # Dice of voxels: as they are, and turned
MANY, MET_BY_FEW = 4, 0.25  # pairs, of which none loses, and their mean Dice after the change
# Median Dice of pairs that gain, median gain, and share of pairs that has to gain.
STRONG, GAIN, STRONG_OF = 0.7, 0.4, 0.3
EXCHANGED, BETTER = 0.4, 0.25  # Dice on the reference of another case, and more than on its own
FEWEST = 3  # pairs that a shift, which is fitted, or an exchange of cases has to explain
COARSE = 64  # voxels along an axis to which masks are thinned out before they are shifted

Turn = tuple[bool, tuple[int, ...]]  # whether the last two axes are swapped, and mirrored axes
AS_IS: Turn = (False, ())


@dataclass(frozen=True)
class _Pair:
    """Where a reference and a prediction of the same shape are marked."""

    name: str
    shape: tuple[int, ...]
    target: tuple[Array, ...]  # the indices of the marked voxels, by axis
    mask: tuple[Array, ...]
    overlaps: Mapping[Turn, float]  # the Dice of the two for every way to turn the prediction
    shift: Array | None  # by which the prediction overlaps most, if it does not as it is
    step: int  # voxels within which the shift is known


def turned(labels: Survey, one: Survey) -> Iterator[Symptom]:
    """Voxels that lie elsewhere than their references although headers agree."""
    pairs = _pairs(labels, one)
    turn = _best_turn([pair.overlaps for pair in pairs])
    if turn is None:
        yield from _moved(pairs, one.source) or _exchanged(pairs, one.source)
        return
    is_swapped, axes = turn
    n_axes = len(pairs[0].shape)
    better = [pair for pair in pairs if pair.overlaps[turn] > pair.overlaps[AS_IS] + CLEAR]
    n, n_tried = len(better), len(pairs)
    letters = "zyx"[-n_axes:]
    words = ", ".join(letters[axis] for axis in axes)
    moves = np.array([_moves(pair.mask, pair.shape, axes) for pair in better])
    if not is_swapped and np.ptp(moves, axis=0).max() <= SAME_MOVE:
        yield Symptom(
            "moved",
            "error",
            one.source,
            f"voxels overlap their references if they are moved by "
            f"{_steps_text(np.median(moves, axis=0))}, or mirrored along {words}: the findings lie "
            "too similarly to tell which",
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


def _pairs(labels: Survey, one: Survey) -> list[_Pair]:
    """Return the first pairs of one shape in which something is marked on both sides."""
    pairs: list[_Pair] = []
    for name, facts in one.files.items():
        reference = labels.files.get(name)
        if len(pairs) >= MOST_TRIED:
            break
        if reference is None or facts.volume.shape != reference.volume.shape:
            continue
        if not reference.high > 0 or not facts.high > 0:
            continue
        target = reference.volume.read() != 0
        voxels = facts.volume.read()
        mask = np.asarray(voxels > (0 if facts.labelled else 0.5 * facts.high))
        places = np.nonzero(mask)
        overlaps = _overlaps(target, places)
        shift, step = None, 1
        if overlaps[AS_IS] < UNMET:
            shift, _, step = best_shift(target, mask)
        pairs.append(_Pair(name, target.shape, np.nonzero(target), places, overlaps, shift, step))
    return pairs


def _moved(pairs: Sequence[_Pair], source: str) -> list[Symptom]:
    """Return the finding that all volumes lie beside their references by the same shift."""
    unmet = [pair for pair in pairs if pair.shift is not None]
    if len(unmet) < FEWEST:
        return []
    # The shift that most pairs share: some predictions are false alarms only.
    shifts = np.array([pair.shift for pair in unmet])
    reach = max(SAME_MOVE, max(pair.step for pair in unmet))
    agree = np.abs(shifts[:, None] - shifts[None]).max(axis=2) <= reach
    near = agree[agree.sum(axis=1).argmax()]
    if near.sum() < FEWEST:
        return []
    shift = _refined(np.rint(np.median(shifts[near], axis=0)).astype(np.int64), unmet)
    before = np.array([pair.overlaps[AS_IS] for pair in pairs])
    after = np.array([_shifted_dice(pair, shift) for pair in pairs])
    if not _is_clear(before, after, FEWEST):
        return []
    return [
        Symptom(
            "moved",
            "error",
            source,
            f"voxels overlap their references if all are moved by {_steps_text(shift)}",
            int((after > before + CLEAR).sum()),
            len(pairs),
            "save predictions at the place of their image: were they cropped or padded?",
        )
    ]


def _refined(shift: Array, pairs: Sequence[_Pair]) -> Array:
    """Return the shift nearby with the largest sum of Dice, one axis after the other."""
    reach = max(pair.step for pair in pairs)
    for axis in range(len(shift)):
        candidates = []
        for move in range(-reach, reach + 1):
            candidate = shift.copy()
            candidate[axis] += move
            candidates.append(candidate)
        sums = np.zeros(len(candidates))
        for pair in pairs:
            sums += [_shifted_dice(pair, one) for one in candidates]
        shift = candidates[int(sums.argmax())]
    return shift


def _shifted_dice(pair: _Pair, shift: Array) -> float:
    """Return the Dice of a pair whose prediction is moved; voxels that leave the image are lost."""
    places = np.array(pair.mask) + shift[:, None]
    shape = np.array(pair.shape)[:, None]
    inside = ((places >= 0) & (places < shape)).all(axis=0)
    mask = np.ravel_multi_index(tuple(places[:, inside]), pair.shape)
    return _dice_of_indices(np.ravel_multi_index(pair.target, pair.shape), mask)


def _exchanged(pairs: Sequence[_Pair], source: str) -> list[Symptom]:
    """Return the finding that predictions lie on the references of other cases."""
    targets = {}
    for pair in pairs:
        targets[pair.name] = np.ravel_multi_index(pair.target, pair.shape)
    owners: dict[str, str] = {}
    for pair in pairs:
        own = pair.overlaps[AS_IS]
        mask = np.ravel_multi_index(pair.mask, pair.shape)
        best, best_dice = "", max(EXCHANGED, own + BETTER)
        for other in pairs:
            if other.shape != pair.shape or other.name in owners.values():
                continue
            dice = _dice_of_indices(targets[other.name], mask)
            if dice >= best_dice:
                best, best_dice = other.name, dice
        if best:
            owners[pair.name] = best
    if len(owners) < max(FEWEST, 0.5 * len(pairs)):
        return []
    return [
        Symptom(
            "cases-exchanged",
            "error",
            source,
            "voxels lie on the references of other cases, and not on their own",
            len(owners),
            len(pairs),
            "compare the names of the files with the order in which they were written",
            few([f"{name} fits {other}" for name, other in owners.items()]),
        )
    ]


def _dice_of_indices(first: Array, second: Array) -> float:
    total = len(first) + len(second)
    common = len(np.intersect1d(first, second, assume_unique=True))
    return 2.0 * common / total if total else 0.0


def best_shift(target: Array, mask: Array) -> tuple[Array, float, int]:
    """Return the shift by which a mask overlaps another one most, the gain of Dice, and the voxels
    within which the shift is known.
    """
    # Thinned out: a shift that matters is seen on a coarse grid, too, and whole volumes cost much.
    steps = np.array([-(-n // COARSE) for n in target.shape])
    thin = tuple(slice(None, None, step) for step in steps.tolist())
    first, second = target[thin].astype(float), mask[thin].astype(float)
    nothing = np.zeros(target.ndim, np.int64)
    if not first.any() or not second.any():
        return nothing, 0.0, int(steps.max())
    shape = tuple(2 * n for n in first.shape)
    axes = tuple(range(len(shape)))
    product_of_both = np.fft.rfftn(first, shape, axes) * np.fft.rfftn(second, shape, axes).conj()
    common = np.fft.irfftn(product_of_both, shape, axes)
    shift = np.array(np.unravel_index(int(common.argmax()), shape))
    # The second half of the indices stands for shifts back.
    shift = np.where(shift >= np.array(first.shape), shift - np.array(shape), shift)
    gain = 2 * (common.max() - common.flat[0]) / (first.sum() + second.sum())
    return shift * steps, float(gain), int(steps.max())


def _steps_text(shift: Array) -> str:
    steps = ", ".join(f"{round(step):+d}" for step in shift.tolist())
    return f"{steps} voxels along {', '.join('zyx'[-len(shift) :])}"


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
    # One pair may meet by chance; most of all pairs do not.
    return best if _is_clear(before, after, 2) else None


def _is_clear(before: Array, after: Array, fewest: int) -> bool:
    """Return whether most pairs overlap after a change that do not before, and so many at least."""
    wins, losses = after > before + CLEAR, before > after + CLEAR
    n_wins = int(wins.sum())
    if n_wins >= fewest and not losses.any() and _are_strong(before, after, wins):
        return True
    if n_wins < max(fewest, MOST_OF * (n_wins + losses.sum()), 0.5 * len(before)):
        return False
    if np.median(after[wins]) >= MET and np.median(before[wins]) < UNMET:
        return True
    # A model that misses much, or findings that lie in the middle: what is wrong never loses.
    is_better = after.mean() >= max(MET_BY_FEW, 2 * before.mean())
    return bool(n_wins >= MANY and not losses.any() and is_better)


def _are_strong(before: Array, after: Array, wins: Array) -> bool:
    """Return whether the pairs that gain lie nearly where they should, and did not by far: few of
    them are enough, of those that the change does anything to.
    """
    # A finding near the diagonal meets its reference with and without an exchange of axes.
    is_open = ~((before >= MET) & (after >= MET) & ~wins)
    gains = after[wins] - before[wins]
    is_enough = wins.sum() >= STRONG_OF * is_open.sum()
    return bool(is_enough and np.median(after[wins]) >= STRONG and np.median(gains) >= GAIN)


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
