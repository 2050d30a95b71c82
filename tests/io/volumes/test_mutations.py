"""Mutated files: success or an InputError, nothing else, and never slowly."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.values import write_volume
from mutations import mutated
from volume_cases import OBLIQUE, noise

SUFFIXES = (".npy", ".npz", ".png", ".tif", ".nii", ".nii.gz")
SLOWEST = 5.0


def survive(folder: Path, suffix: str, rounds: int) -> int:
    """Return how many mutations were read; anything but an InputError fails."""
    path, rng = folder / f"a{suffix}", np.random.default_rng(7)
    shape = (9, 11) if suffix == ".png" else (3, 9, 11)
    write_volume(
        path,
        noise(shape, np.uint8),
        **({"affine": OBLIQUE} if suffix in (".nii", ".nii.gz", ".npz") else {}),
    )
    whole, read = path.read_bytes(), 0
    for _ in range(rounds):
        path.write_bytes(mutated(whole, rng) or b"\0")
        start = time.process_time()
        try:
            open_volume(path).read()
            read += 1
        except InputError:
            pass
        assert time.process_time() - start < SLOWEST
    return read


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_thousand_mutations(tmp_path: Path, suffix: str) -> None:
    assert survive(tmp_path, suffix, 1000) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ten_thousand_mutations(tmp_path: Path, suffix: str) -> None:
    assert survive(tmp_path, suffix, 10_000) < 10_000


@pytest.mark.parametrize("name", ["a.nrrd", "a.mha", "a.nhdr", "a.mhd", "a.dcm"])
def test_mutations_of_other_formats(tmp_path: Path, name: str) -> None:
    if name == "a.dcm":
        pytest.importorskip("pydicom")
        from pictures.test_dicom import written

        written(tmp_path / name, noise((9, 11), np.uint16))
    else:
        sitk = pytest.importorskip("SimpleITK")
        sitk.WriteImage(
            sitk.GetImageFromArray(noise((3, 9, 11), np.uint8)),
            str(tmp_path / name),
            name == "a.nrrd",
        )
    whole, rng, read = (tmp_path / name).read_bytes(), np.random.default_rng(3), 0
    for _ in range(500):
        (tmp_path / name).write_bytes(mutated(whole, rng) or b"\0")
        try:
            open_volume(tmp_path / name).read()
            read += 1
        except InputError:
            pass
    assert read < 500
