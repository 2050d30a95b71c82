# SPDX-License-Identifier: Apache-2.0
"""Predictions that do not lie on the grid of their references, and the option that puts them there.

Headers say that two volumes differ in shape, spacing, orientation or place; which of the two is
right they do not say. Maps over the extent of their labels are resampled (``--resize``), references
without empty slices are placed on the grid of the predictions (``--geometry``). Anything else is
tried: if voxels meet their references once they are put there by their affines, and not as they
are, and no shift would let them meet better, the affine is right and ``--place`` is the option.

`calipers.doctor.volumes.volume_folders` calls `grids` on the files that it has surveyed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import Array
from calipers.doctor.findings import Symptom, few
from calipers.doctor.map_scores import channel_count
from calipers.doctor.volumes.turned_volumes import CLEAR, UNMET, best_shift, voxel_dice
from calipers.errors import InputError
from calipers.io.read import PathName
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import list_samples
from calipers.io.volumes.placing import can_place, check_place, is_cut, on_grid, placed
from calipers.io.volumes.samples import check_pair, resize_map
from calipers.io.volumes.volume import Volume

if TYPE_CHECKING:
    from calipers.doctor.volumes.volume_folders import FileFacts, Survey

SHAPES = "shape-mismatch"
CUT = (
    "the references do not store empty slices, and predictions reach beyond them: pass --geometry "
    "with the folder of the images; calipers maps puts both on one grid and needs none"
)
MOST_TRIED = 12  # pairs on which placing is tried
MOST_RESAMPLED = 0.8  # share of them that fill the space of their references or meet them there
FEWEST_MET = 0.5  # share of them that have to meet
# Gain of Dice by a shift that speaks against an affine; smaller shifts are those of the model.
BETTER_SHIFTED, LEAST_SHIFT = 0.25, 3


def grids(
    labels: Survey, one: Survey, geometry: PathName | None, options: dict[str, str]
) -> Iterator[Symptom]:
    """Predictions that do not lie on the grid of their reference: shape, orientation, spacing.

    Maps over the extent of their labels are resampled, references without empty slices are placed
    on the grid of the predictions, and predictions whose affines are right on that of the
    references: that is added to ``options``.
    """
    images: Mapping[str, str] = {}
    if geometry is not None:
        images = list_samples(Path(fspath(geometry)), "images").files
    by_rule: dict[str, list[tuple[str, InputError]]] = {}
    n_resampled = n_placed = 0
    pairs = [name for name in one.files if name in labels.files]
    for name in pairs:
        reference, volume = labels.files[name].volume, one.files[name].volume
        # Channels are told elsewhere.
        if channel_count(reference.shape, volume.shape):
            continue
        try:
            if name in images:
                image = open_volume(images[name], role="image")
                reference, volume = placed(reference, image), placed(volume, image)
            # Maps and labels are put on one grid, whichever of the two is whole.
            if not one.is_labels and _holds(volume, reference):
                continue
            check_pair(reference, placed(volume, reference))
        except InputError as error:
            by_rule.setdefault(error.rule, []).append((name, error))
            if not one.is_labels:
                n_resampled += _same_extent(labels.files[name], one.files[name])
            n_placed += _holds(volume, reference)
    mismatched = []
    for members in by_rule.values():
        mismatched += [name for name, _ in members]
    trial = _tried_places(labels, one, mismatched)
    for rule, members in by_rule.items():
        hint = Counter(error.hint for _, error in members).most_common(1)[0][0]
        reading = {}
        if rule == SHAPES and n_resampled >= max(1, MOST_RESAMPLED * len(members)):
            options["resize"] = "linear"
            reading, hint = {"resize": "linear"}, "resample the maps: --resize linear"
        elif rule == SHAPES and n_placed == len(members):
            options["geometry"] = one.source
            reading = {"geometry": one.source}
            hint = (
                "the references do not store empty slices: pass --geometry with the folder of the "
                "images, or of predictions that have all slices"
            )
        elif trial.place is not None:
            options["place"] = trial.place
            reading, hint = {"place": trial.place}, trial.hint
        elif trial.hint:
            hint = trial.hint
        elif rule == SHAPES and "--resize" in hint:
            hint = "save the predictions on the grid of their references"
        yield Symptom(
            rule,
            "error",
            one.source,
            "predictions that do not lie on the grid of their reference",
            len(members),
            len(pairs),
            hint,
            few([f"{name}: {error.value}" for name, error in members]),
            reading=reading,
        )
    # Placing takes maps of another resolution, too.
    if "place" in options:
        options.pop("resize", None)


@dataclass(frozen=True)
class _Trial:
    """Whether predictions are to be placed by their affines, and what is to be said about it."""

    place: str | None = None
    hint: str = ""


def _tried_places(labels: Survey, one: Survey, names: Sequence[str]) -> _Trial:
    """Put predictions on the grids of their references, and see whether they meet them there.

    An affine may as well be wrong, as that of a crop with the origin of the whole image. Then
    voxels meet better as they are stored, or if they are shifted, and nothing is proposed.
    """
    before: list[float] = []
    after: list[float] = []
    shifted: list[float] = []
    are_equal = True
    for name in names:
        reference, facts = labels.files[name], one.files[name]
        volume, grid = facts.volume, reference.volume
        if not can_place(volume, grid):
            return _Trial()
        try:
            check_place(volume, grid, "nearest")
        except InputError:
            return _Trial(hint="their affines put predictions beside their references")
        if one.is_labels and is_cut(volume, grid):
            return _Trial(hint=CUT)
        are_equal &= _same_steps(volume, grid)
        if len(after) >= MOST_TRIED or not reference.high > 0 or not facts.high > 0:
            continue
        target, mask = grid.read() != 0, _mask(facts)
        there = on_grid(mask.astype(np.uint8), volume, grid, "nearest") != 0
        is_same_shape = volume.shape == grid.shape
        before.append(voxel_dice(target, mask) if is_same_shape else 0.0)
        after.append(voxel_dice(target, there))
        shifted.append(_gain_by_shift(target, there))
    if not after:
        return _Trial()
    before_dice, after_dice = np.array(before), np.array(after)
    gain = np.array(shifted)
    if (before_dice > after_dice + CLEAR).mean() > 1 - FEWEST_MET:
        return _Trial(
            hint="the voxels overlap their references as they are stored, so the affine is wrong: "
            "save predictions with the affine of their image"
        )
    if (gain > BETTER_SHIFTED).mean() >= FEWEST_MET:
        return _Trial(
            hint="voxels placed by their affines would overlap their references better if they "
            "were shifted: is the origin that of the crop?"
        )
    if (after_dice > UNMET).mean() < FEWEST_MET or after_dice.mean() < before_dice.mean():
        return _Trial()
    # Whole voxels that only lie in another order or in a part of the image need no interpolation,
    # and labels and candidates of one score each have no values in between.
    place = "nearest" if one.is_labels or one.is_candidates or are_equal else "linear"
    return _Trial(
        place,
        f"voxels overlap their references where their affines put them: --place {place} resamples "
        "them there",
    )


def _mask(facts: FileFacts) -> Array:
    voxels = facts.volume.read()
    return np.asarray(voxels > (0 if facts.labelled else 0.5 * facts.high))


def _same_steps(volume: Volume, grid: Volume) -> bool:
    """Return whether the axes of two volumes have the same steps, in any order."""
    steps, other = volume.spacing, grid.spacing
    if steps is None or other is None:
        return False
    return bool(np.allclose(sorted(steps), sorted(other), rtol=1e-3))


def _gain_by_shift(target: Array, mask: Array) -> float:
    """Return by how much the Dice of two masks grows at most if one is shifted by some voxels."""
    shift, gain, _ = best_shift(target, mask)
    return gain if np.abs(shift).max() >= LEAST_SHIFT else 0.0


def _holds(volume: Volume, reference: Volume) -> bool:
    """Return whether a reference without empty slices lies on the grid of a whole volume."""
    if volume.sparse or not reference.sparse or len(volume.shape) != len(reference.shape):
        return False
    try:
        check_pair(placed(reference, volume), volume)
    except InputError:
        return False
    return True


def _same_extent(labels: FileFacts, scores: FileFacts) -> bool:
    """Return whether a volume of another shape fills the space of its reference: by its header, or,
    where there is none, by its proportions and the overlap after resampling.
    """
    reference, volume = labels.volume, scores.volume
    if reference.affine is None and volume.affine is None and reference.spacing is None:
        return _is_scaled(reference.shape, volume.shape) and _meets_resized(labels, scores)
    if reference.affine is None or volume.affine is None:
        return False
    try:
        check_pair(reference, volume, resize="linear")
    except InputError:
        return False
    return True


def _is_scaled(reference: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether all axes are longer or shorter by one factor, up to a rounded voxel."""
    if len(shape) != len(reference):
        return False
    factors = np.array(reference) / np.array(shape)
    return bool(np.ptp(factors) <= factors.max() / min(*shape, *reference))


def _meets_resized(labels: FileFacts, scores: FileFacts) -> bool:
    """Return whether a map meets its reference once it has its shape; empty ones may."""
    if not labels.high > 0 or not scores.high > 0:
        return True
    mask = resize_map(_mask(scores).astype(np.float32), labels.volume.shape, "nearest") > 0
    return voxel_dice(labels.volume.read() != 0, mask) > UNMET
