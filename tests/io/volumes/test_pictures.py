"""PNG and TIFF: values as they are stored, one channel, checksums, no losses in labels."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from volume_cases import labels, noise, png_chunk, refused


def test_palettes_give_their_indices(tmp_path: Path) -> None:
    picture = Image.fromarray(noise((5, 7), np.uint8) % 4).convert("P")
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 9, 9, 9])
    indices = np.asarray(picture)
    picture.save(tmp_path / "a.png")
    volume = open_volume(tmp_path / "a.png")
    assert np.array_equal(volume.read(), indices)
    assert "palette" in volume.notes[0]


def test_one_bit_is_true_or_false(tmp_path: Path) -> None:
    mask = labels((5, 7)) > 0
    Image.fromarray(mask).save(tmp_path / "a.png")
    found = open_volume(tmp_path / "a.png").read()
    assert found.dtype == np.bool_
    assert np.array_equal(found, mask)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA"])
def test_several_channels_are_refused_and_images_become_grey(tmp_path: Path, mode: str) -> None:
    Image.fromarray(noise((5, 7), np.uint8)).convert(mode).save(tmp_path / "a.png")
    error = refused(tmp_path / "a.png", role="labels")
    assert (error.rule, error.value) == ("volume-channels", repr(mode))
    assert np.array_equal(
        open_volume(tmp_path / "a.png", role="image").read(), noise((5, 7), np.uint8)
    )


@pytest.mark.parametrize(
    ("name", "format"), [("a.jpg", "JPEG"), ("a.webp", "WEBP"), ("a.png", "JPEG")]
)
def test_labels_with_losses_are_refused(tmp_path: Path, name: str, format: str) -> None:
    Image.fromarray(noise((16, 16), np.uint8)).convert("RGB" if format == "WEBP" else "L").save(
        tmp_path / name, format=format
    )
    assert refused(tmp_path / name, role="labels").rule == "lossy"
    assert open_volume(tmp_path / name, role="image").notes == ("the format may have losses",)


def test_tiff_with_losses_inside_is_refused_for_labels(tmp_path: Path) -> None:
    Image.fromarray(noise((16, 16), np.uint8)).save(tmp_path / "a.tif", compression="jpeg")
    assert refused(tmp_path / "a.tif", role="labels").rule == "lossy"


def test_rotation_by_exif_is_ignored_and_noted(tmp_path: Path) -> None:
    array = noise((5, 7), np.uint8)
    picture = Image.fromarray(array)
    exif = Image.Exif()
    exif[274] = 6
    for name in ("a.png", "a.tif"):
        picture.save(tmp_path / name, exif=exif)
        volume = open_volume(tmp_path / name)
        assert np.array_equal(volume.read(), array), name
        assert "rotation by EXIF ignored" in volume.notes


def test_animations_are_refused(tmp_path: Path) -> None:
    pages = [Image.fromarray(noise((5, 7), np.uint8, seed=k)) for k in range(3)]
    pages[0].save(tmp_path / "a.png", save_all=True, append_images=pages[1:])
    assert refused(tmp_path / "a.png").rule == "volume-format"


def test_pages_of_different_sizes_are_refused(tmp_path: Path) -> None:
    pages = [Image.fromarray(noise((5, 7 + k), np.uint8)) for k in range(2)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    error = refused(tmp_path / "a.tif")
    assert error.rule == "volume-shape"
    assert "page 1 is 8 x 5" in error.value


def png(width: int, height: int, data: bytes = b"", bits: int = 8) -> bytes:
    head = png_chunk(b"IHDR", struct.pack(">2I5B", width, height, bits, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("width", "height"), [(1, 10**9), (10**9, 1), (20_000, 20_000), (2**31 - 1, 2**31 - 1)]
)
def test_pictures_beyond_the_limit_are_refused(tmp_path: Path, width: int, height: int) -> None:
    (tmp_path / "a.png").write_bytes(png(width, height, zlib.compress(bytes(1000))))
    assert refused(tmp_path / "a.png").rule == "too-large"


def test_large_pictures_within_the_limit_are_read(tmp_path: Path) -> None:
    array = np.zeros((10_000, 19_000), np.uint8)  # above the limit of Pillow itself
    array[-1, -1] = 7
    write_volume(tmp_path / "a.png", array)
    assert open_volume(tmp_path / "a.png").read()[-1, -1] == 7


def test_a_page_of_tiff_beyond_the_limit_of_pillow_is_not_called_broken(tmp_path: Path) -> None:
    array = np.zeros((13_500, 13_500), np.uint8)  # within our limit, above that of Pillow
    write_volume(tmp_path / "a.tif", array)
    assert refused(tmp_path / "a.tif").rule == "too-large"


def test_every_changed_byte_of_a_png_file_is_found(tmp_path: Path) -> None:
    write_volume(tmp_path / "a.png", noise((5, 7), np.uint8))
    whole = (tmp_path / "a.png").read_bytes()
    for k in range(8, len(whole)):
        (tmp_path / "a.png").write_bytes(whole[:k] + bytes([whole[k] ^ 4]) + whole[k + 1 :])
        assert refused(tmp_path / "a.png").rule in ("volume-broken", "too-large", "volume-shape")


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_files_that_are_cut_off_are_refused(tmp_path: Path, name: str) -> None:
    write_volume(tmp_path / name, noise((20, 30), np.uint8))
    whole = (tmp_path / name).read_bytes()
    for stop in range(1, len(whole) - 1, 13):
        (tmp_path / name).write_bytes(whole[:stop])
        assert refused(tmp_path / name).rule in ("volume-broken", "volume-format")


def test_signed_bytes_and_long_numbers_of_tiff_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(noise((4, 4), np.uint8)).save(path, tiffinfo={339: 2})
    assert refused(path).rule == "volume-dtype"


@pytest.mark.parametrize(
    "content", [b"hello world" * 100, b"\x89PNG\r\n\x1a\n", b"II*\0", b"BM", b"\0"]
)
def test_other_files_are_refused(tmp_path: Path, content: Any) -> None:
    for name in ("a.png", "a.tif", "a.bmp", "a.npy", "a.npz", "a.dcm", "a.xyz"):
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name).rule in ("volume-format", "volume-broken")
