"""npy and npz: never unpickled, never extracted, lengths checked before they are believed."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from calipers.io.volumes.open import open_volume
from volume_cases import labels, noise, npy_header, refused


def test_fortran_order_is_the_same_array(tmp_path: Path) -> None:
    array = np.asfortranarray(noise((3, 4, 5)))
    np.save(tmp_path / "a.npy", array)
    found = open_volume(tmp_path / "a.npy").read()
    assert np.array_equal(found, array)
    assert found.flags.c_contiguous


def test_big_endian_arrays_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise((3, 4), np.int16).astype(">i2"))
    found = open_volume(tmp_path / "a.npy").read()
    assert found.dtype == np.dtype("=i2")
    assert np.array_equal(found, noise((3, 4), np.int16))


def test_object_arrays_are_refused_and_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, None], [2, 3]], object), allow_pickle=True)
    assert refused(tmp_path / "a.npy").rule == "pickle"
    np.savez(tmp_path / "b.npz", a=np.array([[1, None], [2, 3]], object))
    assert refused(tmp_path / "b.npz").rule == "pickle"


@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.zeros((2, 2), complex), "volume-dtype"),
        (np.zeros((2, 2), "U3"), "volume-dtype"),
        (np.zeros((2, 2), "M8[s]"), "volume-dtype"),
        (np.zeros((2, 2), [("a", "f4")]), "volume-dtype"),
        (np.zeros((2, 2, 2, 2)), "volume-shape"),
        (np.zeros(4), "volume-shape"),
        (np.float32(3), "volume-shape"),
        (np.zeros((0, 4)), "volume-shape"),
    ],
)
def test_arrays_that_are_no_volumes_are_refused(
    tmp_path: Path, array: np.ndarray, rule: str
) -> None:
    np.save(tmp_path / "a.npy", array)
    assert refused(tmp_path / "a.npy").rule == rule


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 'ab'}",
        "{'descr': '<q9', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 7, 'shape': (2, 3)}",
        "__import__('os').system('true')",
        "(" * 5000,
        "",
    ],
)
def test_headers_without_sense_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.npy").write_bytes(npy_header(text) + bytes(24))
    assert refused(tmp_path / "a.npy").rule == "volume-broken"


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    whole = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 1000000)}"
    (tmp_path / "a.npy").write_bytes(npy_header(whole))
    assert refused(tmp_path / "a.npy").rule == "too-large"
    (tmp_path / "b.npy").write_bytes(
        npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (4096, 4096)}")
    )
    assert refused(tmp_path / "b.npy").rule == "volume-broken"
    (tmp_path / "c.npy").write_bytes(b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{" * 100)
    assert refused(tmp_path / "c.npy").rule == "too-large"


def test_more_bytes_than_the_array_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", labels())
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes() + b"x")
    assert refused(tmp_path / "a.npy").rule == "volume-broken"


def test_one_array_of_an_archive_is_found_and_several_ask(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", scores=noise(), spacing=np.array([1.0, 2.0, 3.0]))
    assert open_volume(tmp_path / "a.npz").spacing == (1.0, 2.0, 3.0)
    np.savez_compressed(tmp_path / "b.npz", scores=noise(), other=labels())
    error = refused(tmp_path / "b.npz")
    assert error.rule == "volume-member"
    assert "'scores', 'other'" in error.hint
    assert np.array_equal(open_volume(tmp_path / "b.npz", member="other").read(), labels())
    assert refused(tmp_path / "b.npz", member="nothing").rule == "volume-member"


def test_places_of_an_archive_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for name, value, rule in [
        ("spacing", [1.0, 2.0], "spacing"),
        ("spacing", [1.0, np.nan, 1.0], "spacing"),
        ("affine", np.zeros((4, 4)), "affine"),
        ("affine", np.eye(3), "affine"),
        ("spacing", np.zeros(10_000), "volume-member"),
    ]:
        np.savez(tmp_path / "a.npz", scores=noise(), **{name: np.asarray(value)})
        assert refused(tmp_path / "a.npz").rule == rule


@pytest.mark.parametrize("name", ["../a.npy", "/a.npy", "b/../../a.npy", "..\\a.npy", "folder/"])
def test_members_that_would_leave_a_folder_are_refused(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "a.npy", labels())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(name, (tmp_path / "a.npy").read_bytes())
    assert refused(tmp_path / "a.npz").rule == "volume-member"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", labels())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("a.npy", (tmp_path / "a.npy").read_bytes())
    assert refused(tmp_path / "a.npz").rule == "volume-member"


def test_many_members_are_refused_before_they_are_listed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for k in range(10_001):
            archive.writestr(f"{k}.npy", b"")
    assert refused(tmp_path / "a.npz").rule == "too-large"


def test_a_wrong_checksum_is_found(tmp_path: Path) -> None:
    array = noise()
    np.savez(tmp_path / "a.npz", a=array)
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    place = bytes(whole).index(array.tobytes()[:16])
    whole[place] ^= 255
    (tmp_path / "a.npz").write_bytes(whole)
    assert refused(tmp_path / "a.npz").rule == "volume-broken"


@pytest.mark.parametrize(
    "name", ["a.pt", "a.pth", "a.pkl", "a.ckpt", "a.bin", "a.npy", "a.nii", "a.mha"]
)
def test_pickles_and_checkpoints_are_refused(tmp_path: Path, name: str) -> None:
    import pickle

    (tmp_path / name).write_bytes(pickle.dumps({"weights": [1.0]}))
    error = refused(tmp_path / name)
    assert error.rule == "pickle"
    assert "numpy.save" in error.hint


def test_a_checkpoint_that_is_a_zip_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    assert refused(tmp_path / "model.pt").rule == "pickle"
