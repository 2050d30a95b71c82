"""Every format: what is written comes back, in [z, ]y, x, with its place in space."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE, labels, noise

PLANE, SPACE = (5, 7), (3, 5, 7)
KINDS = {
    ".npy": ("bool", "uint8", "int16", "uint16", "int64", "float16", "float32", "float64"),
    ".npz": ("bool", "uint8", "int32", "float32", "float64"),
    ".png": ("uint8", "uint16"),
    ".tif": ("uint8", "uint16", "float32"),
    ".nii": ("uint8", "int16", "int32", "float32", "float64"),
    ".nii.gz": ("uint8", "uint16", "float32"),
}
CASES = [
    (suffix, kind, shape)
    for suffix, kinds in KINDS.items()
    for kind in kinds
    for shape in (PLANE, SPACE)
    if not (suffix == ".png" and shape == SPACE)
]


def made(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    return noise(shape, np.uint8) > 120 if kind == "bool" else noise(shape, np.dtype(kind))


@pytest.mark.parametrize(("suffix", "kind", "shape"), CASES)
def test_what_is_written_comes_back(
    tmp_path: Path, suffix: str, kind: str, shape: tuple[int, ...]
) -> None:
    array, path = made(kind, shape), tmp_path / f"a{suffix}"
    write_volume(path, array)
    volume = open_volume(path)
    found = volume.read()
    assert (volume.shape, volume.size, volume.dimensions) == (shape, shape[::-1], len(shape))
    assert found.dtype == volume.dtype
    assert found.flags.c_contiguous
    assert np.array_equal(found, array)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".tif", ".nii", ".nii.gz"])
def test_the_same_array_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    array = noise(PLANE, np.uint8)
    for name in ("a", "b"):
        write_volume(tmp_path / f"{name}{suffix}", array)
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".npz", ".nii", ".nii.gz"])
def test_the_place_in_space_comes_back(tmp_path: Path, suffix: str) -> None:
    write_volume(tmp_path / f"a{suffix}", labels(), affine=OBLIQUE)
    volume = open_volume(tmp_path / f"a{suffix}")
    assert volume.affine is not None
    assert volume.affine == pytest.approx(OBLIQUE, abs=1e-5)
    assert volume.codes == "AIR"
    assert volume.spacing == pytest.approx(np.linalg.norm(OBLIQUE[:3, :3], axis=0), abs=1e-6)


@pytest.mark.parametrize("suffix", [".npz", ".nii", ".nii.gz"])
@pytest.mark.parametrize("shape", [PLANE, SPACE])
def test_a_spacing_alone_has_no_orientation(
    tmp_path: Path, suffix: str, shape: tuple[int, ...]
) -> None:
    spacing = (0.5, 0.75, 3.0)[: len(shape)]
    write_volume(tmp_path / f"a{suffix}", labels(shape), spacing=spacing)
    volume = open_volume(tmp_path / f"a{suffix}")
    assert volume.spacing == pytest.approx(spacing)
    assert (volume.affine, volume.codes) == (None, None)


@pytest.mark.parametrize("suffix", [".npy", ".png", ".tif"])
def test_formats_without_a_place_say_so(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(UsageError, match="no spacing and no affine"):
        write_volume(tmp_path / f"a{suffix}", labels(PLANE), spacing=(1.0, 1.0))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("a.png", labels()),
        ("a.png", noise(PLANE)),
        ("a.tif", noise(PLANE, np.float64)),
        ("a.npy", np.zeros((2, 2), complex)),
        ("a.npy", np.zeros(3)),
        ("a.xyz", labels(PLANE)),
        (".npy", labels(PLANE)),
    ],
)
def test_what_a_format_cannot_hold_is_not_written(
    tmp_path: Path, name: str, array: np.ndarray
) -> None:
    with pytest.raises(UsageError):
        write_volume(tmp_path / name, array)
    assert not list(tmp_path.iterdir())


def test_hash_and_size_are_those_of_the_file(tmp_path: Path) -> None:
    write_volume(tmp_path / "a.npy", labels())
    volume = open_volume(tmp_path / "a.npy")
    whole = (tmp_path / "a.npy").read_bytes()
    assert (volume.sha256, volume.bytes) == (hashlib.sha256(whole).hexdigest(), len(whole))


def test_volumes_cross_process_borders(tmp_path: Path) -> None:
    for suffix in (".npy", ".npz", ".tif", ".nii.gz"):
        write_volume(tmp_path / f"a{suffix}", labels())
        again = pickle.loads(pickle.dumps(open_volume(tmp_path / f"a{suffix}")))
        assert np.array_equal(again.read(), labels())
