"""Pictures are read as they are stored, within limits, and every problem is one kind of error."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calipers.pictures.pixels import PictureError, read_pixels, scale_to_bytes, window_to_bytes
from scenes import refused

RAMP = np.arange(256, dtype=np.uint8).reshape(8, 32)


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.webp"])
def test_eight_bits_stay_as_they_are(tmp_path: Path, name: str) -> None:
    options = {"lossless": True} if name.endswith("webp") else {}
    found = read_pixels(saved(Image.fromarray(RAMP), tmp_path / name, **options))
    assert np.array_equal(found.array, RAMP)
    assert (found.width, found.height, found.depth, found.note) == (32, 8, None, "")


def test_colours_stay_colours_and_grey_colours_become_grey(tmp_path: Path) -> None:
    colours = np.stack([RAMP, RAMP[::-1], RAMP], axis=-1)
    assert np.array_equal(
        read_pixels(saved(Image.fromarray(colours), tmp_path / "a.png")).array, colours
    )
    grey = np.stack([RAMP] * 3, axis=-1)
    assert np.array_equal(read_pixels(saved(Image.fromarray(grey), tmp_path / "b.png")).array, RAMP)


def test_palettes_are_looked_up(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1]], np.uint8), mode=None).convert("P")
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.paste(1, (1, 0, 2, 1))
    image.paste(0, (0, 0, 1, 1))
    found = read_pixels(saved(image, tmp_path / "a.png")).array
    assert found.tolist() == [[[10, 20, 30], [200, 100, 0]]]


def test_two_values_are_black_and_white(tmp_path: Path) -> None:
    found = read_pixels(saved(Image.fromarray(np.array([[True, False]])), tmp_path / "a.png")).array
    assert found.tolist() == [[255, 0]]


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    pixels = np.array([[[200, 10, 10, 255], [200, 10, 10, 0]]], np.uint8)
    found = read_pixels(saved(Image.fromarray(pixels), tmp_path / "a.png")).array
    assert found.tolist() == [[[200, 10, 10], [0, 0, 0]]]


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_are_windowed_to_percentiles(tmp_path: Path, name: str) -> None:
    values = np.arange(10_000, dtype=np.uint16).reshape(100, 100) + 30_000
    found = read_pixels(saved(Image.fromarray(values), tmp_path / name)).array
    low, high = np.percentile(values, [1, 99])
    assert (found[values <= low] == 0).all()
    assert (found[values >= high] == 255).all()
    middle = (values > low) & (values < high)
    wanted = (values[middle] - low) / (high - low) * 255
    assert np.abs(found[middle] - wanted).max() <= 0.501


def test_floats_are_windowed_and_nan_is_black(tmp_path: Path) -> None:
    values = np.linspace(-1000, 3000, 400, dtype=np.float32).reshape(20, 20)
    values[0, :3] = np.nan
    found = read_pixels(saved(Image.fromarray(values), tmp_path / "a.tiff")).array
    assert found[0, :3].tolist() == [0, 0, 0]
    assert found[-1, -1] == 255


def test_windows_of_odd_values() -> None:
    spot = np.zeros((100, 100), np.int32)
    spot[0, :2] = 900, 450
    assert window_to_bytes(spot, "")[0, :3].tolist() == [255, 128, 0]
    assert not window_to_bytes(np.full((3, 3), 7.0), "").any()
    assert scale_to_bytes(np.array([[-1.7e308, 0.0, 1.7e308]]), -1.7e308, 1.7e308).tolist() == [
        [0, 128, 255]
    ]
    with pytest.raises(PictureError, match="numbers"):
        window_to_bytes(np.full((2, 2), np.nan), "")


@pytest.mark.parametrize("turned", range(1, 9))
@pytest.mark.parametrize("name", ["a.jpg", "a.tif", "a.png", "a.webp"])
def test_rotation_by_exif_is_ignored_and_noted(tmp_path: Path, name: str, turned: int) -> None:
    pixels = np.zeros((16, 48), np.uint8)
    pixels[:8, :24] = 255
    exif = Image.Exif()
    exif[274] = turned
    options = (
        {"quality": 95}
        if name.endswith("jpg")
        else {"lossless": True}
        if name.endswith("webp")
        else {}
    )
    found = read_pixels(saved(Image.fromarray(pixels), tmp_path / name, exif=exif, **options))
    assert (found.width, found.height) == (48, 16)
    assert np.abs(found.array.astype(int) - pixels).max() < 30
    assert found.note == ("rotation by EXIF ignored" if turned > 1 else "")


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tif"])
def test_of_an_animation_the_first_frame_is_read(tmp_path: Path, name: str) -> None:
    frames = [Image.fromarray(np.full((4, 4, 3), value, np.uint8)) for value in (200, 20)]
    options = {"lossless": True} if name.endswith("webp") else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
    found = read_pixels(tmp_path / name)
    assert (found.array == 200).all()
    assert found.note == "the first of several frames"


def test_cmyk_is_shown_in_colours(tmp_path: Path) -> None:
    found = read_pixels(
        saved(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), tmp_path / "a.jpg", quality=95)
    ).array
    assert found.shape == (4, 4, 3)
    assert found[0, 0, 0] > 200 > 60 > found[0, 0, 1]


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "size", [(100_000, 100_000), (12_000, 12_000), (9_500, 9_500), (1, 1_000_000_000)]
)
def test_bombs_are_refused_by_their_header(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "a.png").write_bytes(png_that_claims(*size))
    assert refused(tmp_path / "a.png").rule == "picture-large"


def test_our_own_limit_holds_where_pillow_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    (tmp_path / "a.png").write_bytes(png_that_claims(10_001, 10_000))
    error = refused(tmp_path / "a.png")
    assert error.rule == "picture-large"
    assert "100 megapixels" in str(error)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp", "a.webp"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_files_are_errors(tmp_path: Path, name: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = saved(Image.fromarray(noise), tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(PictureError):
        read_pixels(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"", b"hello", bytes(500), b"%!PS-Adobe-3.0 EPSF-3.0\n", b"GIF89a" + bytes(50)]
)
def test_other_files_are_no_pictures(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    assert refused(tmp_path / "a.png").rule == "picture-format"


def test_any_bytes_after_a_true_beginning_end_in_our_error_or_a_picture(tmp_path: Path) -> None:
    whole = saved(Image.fromarray(RAMP), tmp_path / "a.tif").read_bytes()
    random, read = np.random.default_rng(1), 0
    for _ in range(300):
        bad = bytearray(whole)
        for place in random.integers(0, len(bad), 3):
            bad[place] = random.integers(0, 256)
        (tmp_path / "b.tif").write_bytes(bad)
        with contextlib.suppress(PictureError):
            read += read_pixels(tmp_path / "b.tif").array.dtype == np.uint8
    assert 0 < read < 300  # some are still pictures, the others were refused


def test_a_picture_has_no_slices(tmp_path: Path) -> None:
    assert (
        refused(saved(Image.fromarray(RAMP), tmp_path / "a.png"), slice_at=3).rule
        == "picture-slice"
    )


def test_only_regular_files_are_opened_and_no_links(tmp_path: Path) -> None:
    saved(Image.fromarray(RAMP), tmp_path / "a.png")
    assert refused(tmp_path).rule == "not-a-file"
    assert refused(tmp_path / "none.png").rule == "not-readable"
    if sys.platform != "win32":
        (tmp_path / "link.png").symlink_to(tmp_path / "a.png")
        assert refused(tmp_path / "link.png").rule == "not-readable"
        os.mkfifo(tmp_path / "pipe.png")
        assert refused(tmp_path / "pipe.png").rule == "not-a-file"
