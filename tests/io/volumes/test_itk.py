"""NRRD and MetaImage: equal to SimpleITK in voxels and place, and refused where they are broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.io.volumes.open import open_volume
from volume_cases import labels, metaimage, noise, nrrd, refused

sitk = pytest.importorskip("SimpleITK")

KINDS = (
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
)
NAMES = ("a.nrrd", "a.nhdr", "a.mha", "a.mhd")


def written(path: Path, array: np.ndarray, rng: np.random.Generator, *, packed: bool) -> Path:
    image = sitk.GetImageFromArray(array)
    d = array.ndim
    image.SetSpacing([float(step) for step in rng.uniform(0.3, 4.0, d)])
    image.SetOrigin([float(place) for place in rng.uniform(-200, 200, d)])
    if d == 3:
        turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        image.SetDirection([float(c) for c in turned.ravel()])
    sitk.WriteImage(image, str(path), packed)
    return path


def affine_in_ras(path: Path) -> np.ndarray:
    """The affine as SimpleITK places voxels."""
    image = sitk.ReadImage(str(path))
    at = np.array(image.TransformIndexToPhysicalPoint((0, 0, 0)))
    unit = [tuple(int(k == axis) for k in range(3)) for axis in range(3)]
    found = np.eye(4)
    found[:3, :3] = np.array(
        [np.array(image.TransformIndexToPhysicalPoint(u)) - at for u in unit]
    ).T
    found[:3, 3] = at
    found[:2] *= -1
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("packed", [False, True])
def test_voxels_and_place_equal_those_of_simpleitk(tmp_path: Path, name: str, packed: bool) -> None:
    rng = np.random.default_rng(1)
    for kind in KINDS:
        for turn in range(2):
            array = noise((3, 4, 5), np.dtype(kind), seed=turn)
            path = written(tmp_path / name, array, rng, packed=packed)
            volume = open_volume(path)
            assert np.array_equal(volume.read(), array), kind
            assert volume.dtype == array.dtype
            assert volume.affine == pytest.approx(affine_in_ras(path), abs=1e-4)
            assert volume.spacing == pytest.approx(sitk.ReadImage(str(path)).GetSpacing(), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_have_a_spacing_and_no_orientation(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, labels((4, 6)), np.random.default_rng(0), packed=True)
    volume = open_volume(path)
    assert np.array_equal(volume.read(), labels((4, 6)))
    assert volume.spacing == pytest.approx(sitk.ReadImage(str(path)).GetSpacing())
    assert volume.affine is None


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"dimension": 4, "sizes": "4 3 2 1"}, "volume-shape"),
        ({"dimension": "three"}, "volume-broken"),
        ({"sizes": "4 3"}, "volume-broken"),
        ({"sizes": "4 3 2.5"}, "volume-broken"),
        ({"sizes": "4 3 -2"}, "volume-shape"),
        ({"sizes": "4 3 0"}, "volume-shape"),
        ({"sizes": "4 3 3"}, "volume-broken"),
        ({"sizes": "90000 90000 9"}, "too-large"),
        ({"sizes": "2000 2000 2000"}, "too-large"),
        ({"type": "block"}, "volume-dtype"),
        ({"type": None}, "volume-broken"),
        ({"type": "short", "sizes": "2 3 2"}, "volume-broken"),  # no byte order
        ({"encoding": "ascii"}, "volume-format"),
        ({"encoding": "gzip"}, "volume-broken"),
        ({"spacings": "1 1 nan"}, "spacing"),
        ({"spacings": "1 0 1"}, "spacing"),
        (
            {"space": "left-posterior-superior", "space_directions": "none (1,0,0) (0,1,0)"},
            "volume-shape",
        ),
        (
            {"space": "left-posterior-superior", "space_directions": "(nan,0,0) (0,1,0) (0,0,1)"},
            "affine",
        ),
        (
            {"space": "left-posterior-superior", "space_directions": "(1,0,0) (1,0,0) (0,0,1)"},
            "affine",
        ),
        ({"sizes": "4,3 2"}, "volume-broken"),  # commas are for vectors
        (
            {"space": "left-posterior-superior", "space_directions": "(1,0 0) (0,1,0) (0,0,1)"},
            "volume-broken",
        ),
        ({"data_file": "../other.raw"}, "volume-format"),
        ({"data_file": "LIST"}, "not-found"),
        ({"data_file": "slice%03d.raw 1 9 1"}, "volume-format"),
        ({"line_skip": 2}, "volume-format"),
        ({"byte_skip": -7}, "volume-broken"),
    ],
)
def test_broken_nrrd_headers_are_refused(tmp_path: Path, fields: dict[str, Any], rule: str) -> None:
    path = nrrd(tmp_path / "a.nrrd", **fields)
    if rule == "not-found":
        with pytest.raises(Exception, match="LIST"):
            open_volume(path)
    else:
        assert refused(path).rule == rule


def test_spaces_of_nrrd_are_converted(tmp_path: Path) -> None:
    directions = "(1,0,0) (0,2,0) (0,0,3)"
    for space, codes in {
        "LPS": "LPS",
        "right-anterior-superior": "RAS",
        "left-anterior-superior": "LAS",
    }.items():
        path = nrrd(
            tmp_path / "a.nrrd", space=space, space_directions=directions, space_origin="(1,2,3)"
        )
        volume = open_volume(path)
        assert (volume.codes, volume.spacing) == (codes, (1.0, 2.0, 3.0))
    elsewhere = open_volume(
        nrrd(tmp_path / "b.nrrd", space="3D-right-handed", space_directions=directions)
    )
    assert (elsewhere.affine, elsewhere.spacing) == (None, (1.0, 2.0, 3.0))


def test_the_voxels_may_be_the_last_bytes(tmp_path: Path) -> None:
    path = nrrd(tmp_path / "a.nrrd", b"junk" + bytes(range(24)), byte_skip=-1)
    assert open_volume(path).read().ravel().tolist() == list(range(24))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"NDims": 4, "DimSize": "4 3 2 1"}, "volume-shape"),
        ({"DimSize": "4 3 3"}, "volume-broken"),
        ({"DimSize": "4 3"}, "volume-broken"),
        ({"DimSize": "60000 60000 2"}, "too-large"),
        ({"DimSize": None}, "volume-broken"),
        ({"ElementType": "MET_FLOAT_ARRAY"}, "volume-dtype"),
        ({"ElementNumberOfChannels": 3}, "volume-channels"),
        ({"BinaryData": False}, "volume-format"),
        ({"BinaryData": "maybe"}, "volume-broken"),
        ({"CompressedData": True}, "volume-broken"),
        ({"ElementSpacing": "1 1 -1"}, "spacing"),
        ({"ElementSpacing": "1 1 1", "TransformMatrix": "1 0 0 1 0 0 0 0 1"}, "affine"),
        ({"ElementSpacing": "1,5 1"}, "volume-broken"),  # one and a half, or one and five?
        ({"ElementDataFile": "/etc/hostname"}, "volume-format"),
        ({"ElementDataFile": "a%d.raw"}, "volume-format"),
    ],
)
def test_broken_metaimage_headers_are_refused(
    tmp_path: Path, fields: dict[str, Any], rule: str
) -> None:
    assert refused(metaimage(tmp_path / "a.mha", **fields)).rule == rule


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mha").write_bytes(b"NDims = 3\n" * 10)
    assert refused(tmp_path / "a.mha").rule == "volume-broken"
    (tmp_path / "b.mha").write_bytes(b"\0" * (3 << 20))
    assert refused(tmp_path / "b.mha").rule in ("volume-broken", "volume-format")


def test_voxels_beside_a_header_may_not_be_a_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.raw").write_bytes(bytes(24))
    (tmp_path / "in" / "a.raw").symlink_to(tmp_path / "secret.raw")
    assert (
        refused(metaimage(tmp_path / "in" / "a.mhd", b"", ElementDataFile="a.raw")).rule
        == "outside-root"
    )


@pytest.mark.parametrize("name", ["a.nrrd", "a.mha"])
def test_packed_voxels_that_are_damaged_or_cut_off_are_refused(tmp_path: Path, name: str) -> None:
    path = written(
        tmp_path / name, noise((8, 9, 10), np.uint8), np.random.default_rng(0), packed=True
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert refused(path).rule == "volume-broken"
    path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 255]) + whole[-4:])
    assert refused(path).rule == "volume-broken"
