"""Score maps from files: what is read, and what is refused before it does harm."""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

import calipers as cal
from calipers.heatmaps.files import load_map, read_sizes, size_of


def refused(path):
    with pytest.raises(cal.InputError) as caught:
        load_map(path)
    assert caught.value.file == str(path)
    return caught.value.rule


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "f2", "u1", "<i2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_come_back_as_they_are(tmp_path, dtype, order):
    values = np.asarray(np.random.default_rng(0).random((2, 3, 4)) * 9, dtype, order=order)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "b.npz", values)
    np.savez_compressed(tmp_path / "c.npz", arr=values, spacing=np.ones(3))
    for name in ("a.npy", "b.npz", "c.npz"):
        found = load_map(tmp_path / name)
        assert found.dtype == values.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, values)


def test_stacks_have_an_axis_more_and_no_place(tmp_path):
    values = np.random.default_rng(0).random((2, 3, 4, 5))
    np.savez(tmp_path / "a.npz", values, spacing=np.ones(3))
    np.testing.assert_array_equal(load_map(tmp_path / "a.npz"), values)
    np.savez(tmp_path / "b.npz", values[0], spacing=np.ones(2))
    np.testing.assert_array_equal(load_map(tmp_path / "b.npz"), values[0])
    np.save(tmp_path / "c.npy", values[None])
    assert refused(tmp_path / "c.npy") == "volume-shape"
    np.save(tmp_path / "d.npy", values[0, 0, 0])
    assert refused(tmp_path / "d.npy") == "volume-shape"


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_nifti_comes_as_class_z_y_x(tmp_path, name):
    nibabel = pytest.importorskip("nibabel")
    values = np.random.default_rng(0).random((2, 3, 4, 5))
    for array, stored in (
        (values, values.T),
        (values[0], values[0].T),
        (values[0], values[0].T[..., None]),
    ):
        nibabel.save(nibabel.Nifti1Image(stored, np.diag([0.5, 0.5, 2.0, 1.0])), tmp_path / name)
        np.testing.assert_array_equal(load_map(tmp_path / name), array)
    assert size_of(tmp_path / name) == (5, 4, 3)
    nibabel.save(nibabel.Nifti1Image(np.zeros((5, 4, 3, 2, 2)), np.eye(4)), tmp_path / name)
    assert refused(tmp_path / name) == "volume-shape"


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535)])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_white_is_one(tmp_path, dtype, white, suffix):
    pixels = np.array([[0, white // 5, white]], dtype)
    Image.fromarray(pixels).save(tmp_path / f"a.{suffix}")
    np.testing.assert_allclose(load_map(tmp_path / f"a.{suffix}"), [[0.0, 0.2, 1.0]])


def test_floats_of_a_tiff_are_scores(tmp_path):
    Image.fromarray(np.array([[0.25, 0.5]], np.float32)).save(tmp_path / "a.tif")
    assert load_map(tmp_path / "a.tif").tolist() == [[0.25, 0.5]]


def test_colours_several_arrays_and_objects_are_refused(tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "colour.png")
    assert refused(tmp_path / "colour.png") == "volume-channels"
    Image.new("P", (2, 2)).save(tmp_path / "palette.png")
    assert refused(tmp_path / "palette.png") == "volume-channels"
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    assert refused(tmp_path / "two.npz") == "volume-member"
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    assert refused(tmp_path / "objects.npy") == "pickle"
    np.save(tmp_path / "complex.npy", np.array([1j]))
    assert refused(tmp_path / "complex.npy") == "volume-dtype"
    frames = [Image.new("L", (2, 2)), Image.new("L", (2, 2))]
    frames[0].save(tmp_path / "frames.tif", save_all=True, append_images=frames[1:])
    assert refused(tmp_path / "frames.tif") == "map-shape"
    (tmp_path / "a.pt").write_bytes(b"x")
    assert refused(tmp_path / "a.pt") == "volume-format"
    (tmp_path / "a.png").write_bytes(b"not a picture")
    assert refused(tmp_path / "a.png") == "volume-format"
    Image.new("L", (2, 2)).save(tmp_path / "b.jpg")
    assert refused(tmp_path / "b.jpg") == "volume-format"
    (tmp_path / "b.jpg").rename(tmp_path / "b.png")
    assert refused(tmp_path / "b.png") == "volume-format"
    Image.fromarray(np.zeros((2, 2), np.int32)).save(tmp_path / "wide.tif")
    assert refused(tmp_path / "wide.tif") == "volume-dtype"
    assert refused(tmp_path / "none.npy") == "not-found"


@pytest.mark.parametrize("suffix", ["npy", "npz", "png"])
def test_a_cut_file_is_refused_at_every_length(tmp_path, suffix):
    packed = io.BytesIO()
    values = np.random.default_rng(0).random((6, 6))
    if suffix == "npy":
        np.save(packed, values)
    elif suffix == "npz":
        np.savez(packed, values)
    else:
        Image.fromarray((values * 255).astype(np.uint8)).save(packed, "PNG")
    whole, rules = packed.getvalue(), set()
    checksums = 24 if suffix == "png" else 0  # all pixels are there before the last bytes of a PNG
    for length in range(0, len(whole) - checksums, 7):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(whole[:length])
        rules.add(refused(path))
    assert rules <= {"volume-broken", "empty-file", "volume-format"}


def test_bombs_are_refused_at_once(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**5, 10**6)}
    )
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    small = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        small, {"descr": "<f8", "fortran_order": False, "shape": (10**4, 10**4)}
    )
    (tmp_path / "b.npy").write_bytes(small.getvalue())
    with zipfile.ZipFile(tmp_path / "c.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("arr_0.npy", header.getvalue() + bytes(1 << 20))
    picture = io.BytesIO()
    Image.new("L", (1, 1)).save(picture, "PNG")
    raw = bytearray(picture.getvalue())
    raw[16:24] = (60_000).to_bytes(4, "big") * 2
    raw[29:33] = zlib.crc32(bytes(raw[12:29])).to_bytes(4, "big")
    (tmp_path / "d.png").write_bytes(bytes(raw))
    began = time.process_time()
    assert refused(tmp_path / "a.npy") == "too-large"
    assert refused(tmp_path / "b.npy") == "volume-broken"
    assert refused(tmp_path / "c.npz") == "too-large"
    assert refused(tmp_path / "d.png") == "too-large"
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("suffix", ["npy", "npz", "png"])
def test_a_thousand_mutations_only_succeed_or_are_refused(tmp_path, suffix):
    packed, random = io.BytesIO(), np.random.default_rng(1)
    values = random.random((6, 6))
    if suffix == "npy":
        np.save(packed, values)
    elif suffix == "npz":
        np.savez_compressed(packed, values)
    else:
        Image.fromarray((values * 255).astype(np.uint8)).save(packed, "PNG")
    whole, path = packed.getvalue(), tmp_path / f"a.{suffix}"
    for _ in range(1000):
        broken = bytearray(whole)
        for place in random.integers(0, len(whole), random.integers(1, 4)).tolist():
            broken[place] = int(random.integers(256))
        path.write_bytes(bytes(broken))
        with contextlib.suppress(cal.InputError):
            assert load_map(path).size < 1_000_000


def test_sizes_of_pictures_come_from_their_headers(tmp_path):
    for name in ("a.png", "a.jpg", "a.tif", "a.bmp", "a.webp"):
        Image.new("L", (30, 20)).save(tmp_path / name)
        assert size_of(tmp_path / name) == (30, 20)


def test_sizes_from_a_table(tmp_path):
    table = tmp_path / "sizes.csv"
    table.write_text("image,class,width,height\na,x,30,20\nb,x,40,50\na,y,30,20\n")
    found = read_sizes(table)
    assert (found.ids, found.size.tolist()) == (("a", "b"), [[30.0, 20.0], [40.0, 50.0]])


def test_sizes_from_coco_references(tmp_path):
    cohort = cal.demo_cohort()
    cal.write(cohort, tmp_path / "refs.json")
    found = read_sizes(tmp_path / "refs.json")
    assert found.ids == cohort.images.ids
    assert found.names == tuple(cohort.group("file_name").tolist())
    np.testing.assert_array_equal(found.size, cohort.images.size)


def test_sizes_of_the_nih_list(tmp_path):
    text = "Image Index,Finding Label,Bbox [x,y,w,h],,,\n1_000.png,Mass,1,2,3,4\n"
    (tmp_path / "boxes.csv").write_text(text)
    found = read_sizes(tmp_path / "boxes.csv")
    assert (found.ids, found.size.tolist()) == (("1_000.png",), [[1024.0, 1024.0]])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("image,width\na,3\n", "missing-column"),
        ("image,width,height\na,3,0\n", "image-size"),
        ("image,width,height\na,3,2.5\n", "image-size"),
        ("image,width,height\na,3,\n", "image-size"),
        ("image,width,height\na,3,x\n", "type"),
        ("image,width,height\na,3,4\na,4,4\n", "size-conflict"),
        ("image,width,height\na,3\n", "ragged"),
    ],
)
def test_sizes_that_cannot_be_used_are_refused(tmp_path, text, rule):
    (tmp_path / "sizes.csv").write_text(text)
    with pytest.raises(cal.InputError) as caught:
        read_sizes(tmp_path / "sizes.csv")
    assert caught.value.rule == rule
