"""Slices with x and y exchanged are found in small folders, too, whatever the model misses, and
neither sound nor useless predictions are called so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import VolumeCheckup, check_volumes
from calipers.io.write_volume import write_volume

Arrays = dict[str, np.ndarray]
SHAPE = (6, 24, 24)


def lesions(seed: int, n: int) -> Arrays:
    """One or two blocks in every volume, some of them near the diagonal."""
    draw = np.random.default_rng(seed)
    volumes = {}
    for k in range(n):
        volume = np.zeros(SHAPE, np.uint8)
        for _ in range(draw.integers(1, 3)):
            z = draw.integers(0, 4)
            (y, x), (h, w) = draw.integers(1, 15, 2), draw.integers(3, 8, 2)
            volume[z : z + 2, y : y + h, x : x + w] = 1
        volumes[f"case{k}"] = volume
    return volumes


def found(of: Arrays, seed: int, kind: str) -> Arrays:
    """Predictions one voxel beside their lesions; a quarter of the cases is missed."""
    draw = np.random.default_rng(seed + 1)
    volumes = {}
    for name, volume in of.items():
        mask = np.roll(volume, 1, axis=2)
        if draw.random() < 0.25:
            mask = np.zeros_like(mask)
        if kind == "maps":
            noise = 0.1 * draw.random(mask.shape)
            volumes[name] = (0.1 + 0.7 * mask + noise).astype(np.float32)
        else:
            volumes[name] = mask
    return volumes


def checked(folder: Path, truth: Arrays, cad: Arrays) -> VolumeCheckup:
    for name, volumes in (("truth", truth), ("cad", cad)):
        (folder / name).mkdir()
        for case, volume in volumes.items():
            write_volume(folder / name / f"{case}.npz", volume, spacing=(1.0, 1.0, 2.0))
    return check_volumes(Inputs(folder / "truth", {"cad": folder / "cad"}, None, {}))


def errors(checkup: VolumeCheckup) -> set[str]:
    return {symptom.code for symptom in checkup.findings if symptom.level == "error"}


@pytest.mark.parametrize(
    ("kind", "n", "seed"),
    [(kind, n, seed) for kind in ("maps", "labels") for n in (5, 8) for seed in (2, 11, 12, 303)],
)
def test_transposed_slices_are_found(kind, n, seed, tmp_path) -> None:
    truth = lesions(seed, n)
    turned = {name: v.transpose(0, 2, 1) for name, v in found(truth, seed, kind).items()}
    checkup = checked(tmp_path, truth, turned)
    assert errors(checkup) == {"axes-swapped"}
    assert not checkup.commands


@pytest.mark.parametrize("kind", ["maps", "labels"])
@pytest.mark.parametrize("seed", [2, 11, 12, 303])
def test_sound_and_useless_predictions_are_not_called_transposed(kind, seed, tmp_path) -> None:
    for name, of in (("sound", lesions(seed, 5)), ("useless", lesions(seed + 500, 5))):
        place = tmp_path / name
        place.mkdir()
        assert not errors(checked(place, lesions(seed, 5), found(of, seed, kind)))
