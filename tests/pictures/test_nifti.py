"""NIfTI: one slice, in the axes of the boxes."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from calipers.pictures.pixels import PictureError, read_pixels
from scenes import refused

nibabel = pytest.importorskip("nibabel")


def written(path: Path, values: np.ndarray, *, kind: str = "Nifti1Image") -> Path:
    getattr(nibabel, kind)(values, np.diag([-1.0, 1.0, 2.0, 1.0])).to_filename(path)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
def test_a_slice_is_shown_with_x_to_the_right_and_y_down(
    tmp_path: Path, name: str, kind: str
) -> None:
    volume = np.zeros((7, 5, 4), np.uint8)
    volume[6, 1, 2] = 200  # x 6, y 1, z 2
    found = read_pixels(written(tmp_path / name, volume, kind=kind), slice_at=2.9)
    assert found.array.shape == (5, 7)
    assert found.array[1, 6] == 200
    assert np.count_nonzero(found.array) == 1
    assert (found.width, found.height, found.depth) == (7, 5, 4)


def test_two_axes_are_a_picture_and_lengths_of_one_do_not_count(tmp_path: Path) -> None:
    plane = np.arange(35, dtype=np.uint8).reshape(7, 5)
    assert np.array_equal(read_pixels(written(tmp_path / "a.nii", plane)).array, plane.T)
    assert np.array_equal(read_pixels(written(tmp_path / "b.nii", plane[..., None])).array, plane.T)
    deep = np.stack([plane, plane + 100], axis=-1)[..., None]
    assert np.array_equal(
        read_pixels(written(tmp_path / "c.nii", deep), slice_at=1).array, plane.T + 100
    )


def test_more_than_eight_bits_are_windowed(tmp_path: Path) -> None:
    volume = np.linspace(-1000, 2000, 1000).astype(np.int16).reshape(10, 10, 10)
    found = read_pixels(written(tmp_path / "a.nii.gz", volume), slice_at=0).array
    assert (found.min(), found.max()) == (0, 255)


@pytest.mark.parametrize("place", [-1.0, 4.0, 1e9])
def test_a_slice_that_is_not_there_is_an_error(tmp_path: Path, place: float) -> None:
    path = written(tmp_path / "a.nii", np.zeros((3, 3, 4), np.uint8))
    assert refused(path, slice_at=place).rule == "picture-slice"


def test_a_volume_is_no_picture(tmp_path: Path) -> None:
    assert (
        refused(written(tmp_path / "a.nii", np.zeros((3, 3, 4), np.uint8))).rule == "picture-slice"
    )
    assert (
        refused(written(tmp_path / "b.nii", np.zeros((3, 3, 4, 2), np.uint8)), slice_at=1).rule
        == "picture-format"
    )


def test_a_header_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    head = bytearray(written(tmp_path / "a.nii", np.zeros((3, 3, 4), np.uint8)).read_bytes())
    head[40:56] = struct.pack("<8h", 3, 30_000, 30_000, 30_000, 1, 1, 1, 1)
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(bytes(head)))
    assert refused(tmp_path / "a.nii.gz", slice_at=0).rule == "picture-large"
    head[40:56] = struct.pack("<8h", 3, 30_000, 30_000, 1, 1, 1, 1, 1)
    (tmp_path / "b.nii").write_bytes(head)
    assert refused(tmp_path / "b.nii").rule == "picture-large"


@pytest.mark.parametrize(
    ("kind", "place", "code"), [("Nifti1Image", 108, "f"), ("Nifti2Image", 168, "q")]
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_voxels_that_begin_far_away_are_refused(
    tmp_path: Path, kind: str, place: int, code: str, order: str
) -> None:
    volume = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    made = getattr(nibabel, kind)(volume, np.eye(4))
    header = made.header.as_byteswapped(order)
    path = tmp_path / "a.nii"
    getattr(nibabel, kind)(volume.astype(f"{order}i2"), np.eye(4), header).to_filename(path)
    assert read_pixels(path, slice_at=3).array.shape == (3, 2)
    whole = bytearray(path.read_bytes())
    size = struct.calcsize(code)
    whole[place : place + size] = struct.pack(order + code, 10**9)
    path.write_bytes(whole)
    assert refused(path, slice_at=3).rule == "picture-broken"


def test_the_bytes_of_a_volume_are_limited_too(tmp_path: Path) -> None:
    head = bytearray(written(tmp_path / "a.nii", np.zeros((3, 3, 4), np.float64)).read_bytes())
    head[40:56] = struct.pack("<8h", 3, 1100, 1100, 1000, 1, 1, 1, 1)
    (tmp_path / "a.nii").write_bytes(head)
    error = refused(tmp_path / "a.nii", slice_at=0)
    assert error.rule == "picture-large"
    assert "at most 8,589,934,592 bytes" in str(error)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_truncated_volumes_are_errors(tmp_path: Path, name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (20, 20, 20), np.uint8)
    whole = written(tmp_path / name, noise).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    if name.endswith(".gz"):  # nothing tells beforehand that a packed file is too short
        read_pixels(tmp_path / name, slice_at=0)
    else:
        assert refused(tmp_path / name, slice_at=0).rule == "picture-broken"
    assert refused(tmp_path / name, slice_at=19).rule == "picture-broken"


@pytest.mark.parametrize("content", [b"", b"hello world" * 100, b"\x1f\x8b" + bytes(400)])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.nii.gz").write_bytes(content)
    with pytest.raises(PictureError):
        read_pixels(tmp_path / "a.nii.gz", slice_at=0)


def test_voxels_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    assert (
        refused(written(tmp_path / "a.nii", np.zeros((3, 3, 2), np.complex64)), slice_at=0).rule
        == "picture-format"
    )


def test_without_nibabel_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.nii", np.zeros((3, 3, 4), np.uint8))
    monkeypatch.setitem(sys.modules, "nibabel", None)
    error = refused(path, slice_at=0)
    assert error.rule == "missing-extra"
    assert "calipers[volumes]" in error.hint
