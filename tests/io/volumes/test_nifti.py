"""NIfTI: axes, scaling, orientation, and every way in which a header can be wrong."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE, labels, noise, refused

nibabel = pytest.importorskip("nibabel")

SFORM, QFORM, OFFSET, SLOPE, UNITS, DIM = 254, 252, 108, 112, 123, 40  # places in a NIfTI-1 header


def written(
    path: Path, array: np.ndarray, affine: np.ndarray | None = OBLIQUE, kind: str = "Nifti1Image"
) -> Path:
    getattr(nibabel, kind)(array.T, affine).to_filename(path)
    return path


def changed(path: Path, place: int, code: str, *values: Any) -> Path:
    whole = bytearray(path.read_bytes())
    struct.pack_into(code, whole, place, *values)
    path.write_bytes(whole)
    return path


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_axes_codes_and_spacing_equal_those_of_nibabel(
    tmp_path: Path, name: str, kind: str
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(15):
        turned = np.linalg.qr(rng.normal(size=(3, 3)))[0] * rng.uniform(0.4, 3.0, 3)
        affine = np.eye(4)
        affine[:3, :3], affine[:3, 3] = turned, rng.uniform(-100, 100, 3)
        array = noise((3, 4, 5), np.int16)
        path = written(tmp_path / name, array, affine, kind)
        volume, peer = open_volume(path), nibabel.load(path)
        assert np.array_equal(volume.read(), np.asarray(peer.dataobj).T)
        assert volume.affine == pytest.approx(peer.affine, abs=1e-5)
        assert volume.codes == "".join(nibabel.aff2axcodes(peer.affine))
        assert volume.spacing == pytest.approx(nibabel.affines.voxel_sizes(peer.affine), abs=1e-5)


def test_big_endian_files_are_read(tmp_path: Path) -> None:
    array = noise((3, 4, 5), np.int16)
    header = nibabel.Nifti1Header().as_byteswapped(">")
    header.set_data_dtype(">i2")
    nibabel.Nifti1Image(array.T.astype(">i2"), OBLIQUE, header).to_filename(tmp_path / "a.nii")
    assert (tmp_path / "a.nii").read_bytes()[:4] == b"\0\0\1\x5c"
    found = open_volume(tmp_path / "a.nii").read()
    assert found.dtype == np.dtype("=i2")
    assert np.array_equal(found, array)


def test_slope_and_intercept_are_applied_as_nibabel_does(tmp_path: Path) -> None:
    path = changed(
        written(tmp_path / "a.nii", noise((3, 4, 5), np.uint8)), SLOPE, "<2f", 1 / 255, 0.25
    )
    volume = open_volume(path)
    assert volume.dtype == np.float64
    assert np.array_equal(volume.read(), nibabel.load(path).get_fdata().T)


@pytest.mark.parametrize("slope", [0.0, np.nan])
def test_a_slope_of_nothing_means_values_as_they_are(tmp_path: Path, slope: float) -> None:
    path = changed(written(tmp_path / "a.nii", labels()), SLOPE, "<2f", slope, 7.0)
    assert np.array_equal(open_volume(path).read(), labels())


@pytest.mark.parametrize(("slope", "inter"), [(np.inf, 0.0), (1.0, np.nan), (2.0, -np.inf)])
def test_a_scaling_that_is_not_finite_is_refused(
    tmp_path: Path, slope: float, inter: float
) -> None:
    path = changed(written(tmp_path / "a.nii", labels()), SLOPE, "<2f", slope, inter)
    assert refused(path).rule == "non-finite"


def test_units_become_millimetres(tmp_path: Path) -> None:
    path = written(tmp_path / "a.nii", labels(), np.diag([0.5, 0.5, 2.0, 1.0]))
    for unit, factor in {0: 1.0, 1: 1000.0, 2: 1.0, 3: 0.001}.items():
        assert open_volume(changed(path, UNITS, "B", unit)).spacing == pytest.approx(
            (0.5 * factor, 0.5 * factor, 2.0 * factor)
        )
    assert refused(changed(path, UNITS, "B", 5)).rule == "spacing"


def test_two_forms_that_disagree_are_named(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(labels().T, np.diag([1.0, 1.0, 2.0, 1.0]))
    image.set_sform(np.diag([1.0, 1.0, 2.0, 1.0]), code=1)
    image.set_qform(np.diag([-1.0, 1.0, 2.0, 1.0]), code=1)
    image.to_filename(tmp_path / "a.nii.gz")
    error = refused(tmp_path / "a.nii.gz")
    assert error.rule == "affine"
    assert "sform RAS, qform LAS" in error.value
    assert "mm apart" in error.value


def test_two_forms_that_agree_are_fine(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(labels().T, np.diag([1.0, 1.0, 2.0, 1.0]))
    image.set_sform(np.diag([1.0, 1.0, 2.0, 1.0]), code=1)
    image.set_qform(np.diag([1.0, 1.0, 2.0, 1.0]), code=1)
    image.to_filename(tmp_path / "a.nii.gz")
    assert open_volume(tmp_path / "a.nii.gz").codes == "RAS"


def test_other_sides_of_voxels_in_pixdim_are_noted(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(labels().T, np.diag([0.5, 1.0, 2.0, 1.0]))
    image.set_qform(None, code=0)
    image.to_filename(tmp_path / "a.nii")
    volume = open_volume(tmp_path / "a.nii")
    assert (volume.spacing, volume.notes) == ((0.5, 1.0, 2.0), ())
    volume = open_volume(changed(tmp_path / "a.nii", 80, "<f", 3.0))
    assert volume.spacing == (0.5, 1.0, 2.0)
    assert (
        "0.5 x 1 x 2 mm by the affine, which was used, and 3 x 1 x 2 by pixdim" in volume.notes[0]
    )


@pytest.mark.parametrize("place", [252, 254])
@pytest.mark.parametrize("code", [-1, 6, 512])
def test_codes_that_no_program_knows_are_refused(tmp_path: Path, place: int, code: int) -> None:
    """nibabel takes such a form for none, others for one: the two would show different places."""
    write_volume(tmp_path / "a.nii", labels(), affine=OBLIQUE)
    error = refused(changed(tmp_path / "a.nii", place, "<h", code))
    assert (error.rule, error.field) == ("affine", "sform_code" if place == 254 else "qform_code")


def test_an_affine_without_sense_is_refused(tmp_path: Path) -> None:
    write_volume(tmp_path / "a.nii", labels(), affine=OBLIQUE)
    whole = (tmp_path / "a.nii").read_bytes()
    for row in ([np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [0, 0, 0, 0]):
        (tmp_path / "a.nii").write_bytes(whole)
        assert refused(changed(tmp_path / "a.nii", 280, "<4f", *row)).rule == "affine"


def test_a_quaternion_without_sense_is_refused(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(labels().T, None)
    image.set_qform(np.diag([1.0, 1.0, 2.0, 1.0]), code=1)
    image.to_filename(tmp_path / "a.nii")
    assert refused(changed(tmp_path / "a.nii", 256, "<3f", 5.0, 5.0, 5.0)).rule == "affine"


def test_four_axes_are_refused_unless_they_are_one_long(tmp_path: Path) -> None:
    four = np.zeros((2, 4, 5, 6), np.uint8)
    error = refused(written(tmp_path / "a.nii", four))
    assert (error.rule, error.value) == ("volume-shape", "'6 x 5 x 4 x 2'")
    volume = open_volume(written(tmp_path / "b.nii", labels()[None]))
    assert np.array_equal(volume.read(), labels())
    assert "axes of length one" in volume.notes[0]


@pytest.mark.parametrize("kind", [np.complex64, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])])
def test_voxels_that_are_no_numbers_are_refused(tmp_path: Path, kind: Any) -> None:
    assert refused(written(tmp_path / "a.nii", np.zeros((3, 3, 2), kind))).rule == "volume-dtype"


def test_a_name_that_does_not_fit_the_packing_is_refused(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.nii", labels()).read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(plain)
    assert refused(tmp_path / "b.nii.gz").rule == "volume-format"
    (tmp_path / "c.nii").write_bytes(gzip.compress(plain))
    assert refused(tmp_path / "c.nii").rule == "volume-format"


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_files_that_are_cut_off_are_refused_everywhere(tmp_path: Path, name: str) -> None:
    whole = written(tmp_path / name, noise((4, 5, 6), np.uint8)).read_bytes()
    for stop in range(1, len(whole), 7):
        (tmp_path / name).write_bytes(whole[:stop])
        assert refused(tmp_path / name).rule in ("volume-broken", "volume-format")


def test_a_wrong_checksum_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "a.nii.gz", noise((4, 5, 6), np.uint8))
    whole = bytearray(path.read_bytes())
    whole[-6] ^= 1
    path.write_bytes(whole)
    assert refused(path).rule == "volume-broken"


def test_bytes_behind_the_voxels_are_noted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.nii", labels())
    path.write_bytes(path.read_bytes() + b"more")
    assert open_volume(path).notes == ("4 bytes after the voxels were not read",)


@pytest.mark.parametrize("offset", [0.0, -1.0, 100.5, 4e9, np.nan])
def test_voxels_begin_after_the_header(tmp_path: Path, offset: float) -> None:
    assert (
        refused(changed(written(tmp_path / "a.nii", labels()), OFFSET, "<f", offset)).rule
        == "volume-broken"
    )


@pytest.mark.parametrize(
    "dim", [(0, 6, 5, 4), (8, 6, 5, 4), (3, -6, 5, 4), (3, 0, 5, 4), (1, 120, 1, 1)]
)
def test_axes_without_sense_are_refused(tmp_path: Path, dim: tuple[int, ...]) -> None:
    assert refused(changed(written(tmp_path / "a.nii", labels()), DIM, "<4h", *dim)).rule in (
        "volume-shape",
        "volume-broken",
    )


def test_without_nibabel_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.nii", labels())
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(UsageError, match=r"calipers\[volumes\]"):
        open_volume(path)
