"""Labels are the values that a file stores, and nothing of a file is left out without a word."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calipers.errors import InputError
from calipers.io.volumes.open import open_volume
from volume_cases import metaimage, noise, png_chunk, refused

tifffile = pytest.importorskip("tifffile")


def packed_lines(array: np.ndarray, bits: int, start: bytes = b"") -> bytes:
    """Return rows of numbers of few bits, each filled up to whole bytes."""
    lines = b""
    for row in array:
        line = 0
        for value in row.tolist():
            line = line << bits | value
        padding = -len(row) * bits % 8
        lines += start + (line << padding).to_bytes((len(row) * bits + padding) // 8, "big")
    return lines


def grey_png(array: np.ndarray, bits: int) -> bytes:
    """Return a grey PNG file of 1, 2, 4 or 8 bits, packed by hand."""
    height, width = array.shape
    lines = packed_lines(array, bits, b"\0")
    head = png_chunk(b"IHDR", struct.pack(">2I5B", width, height, bits, 0, 0, 0, 0))
    data = png_chunk(b"IDAT", zlib.compress(lines))
    return b"\x89PNG\r\n\x1a\n" + head + data + png_chunk(b"IEND", b"")


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("role", ["labels", "map"])
def test_grey_png_of_few_bits_gives_the_stored_values(tmp_path: Path, bits: int, role: Any) -> None:
    array = np.random.default_rng(bits).integers(0, 1 << bits, (5, 7))
    (tmp_path / "a.png").write_bytes(grey_png(array, bits))
    assert np.array_equal(open_volume(tmp_path / "a.png", role=role).read(), array)


def few_bits_tiff(array: np.ndarray, bits: int, photometric: int) -> bytes:
    """Return an uncompressed grey TIFF file of one strip, by hand."""
    height, width = array.shape
    strip = array.astype("<u2").tobytes() if bits == 16 else packed_lines(array, bits)
    entries = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric)]
    entries += [(273, 8), (277, 1), (278, height), (279, len(strip))]
    place = 8 + len(strip) + len(strip) % 2
    body = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in entries)
    page = struct.pack("<H", len(entries)) + body + bytes(4)
    return b"II*\0" + struct.pack("<I", place) + strip.ljust(place - 8, b"\0") + page


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("photometric", [0, 1], ids=["white is 0", "black is 0"])
def test_tiff_gives_the_stored_values_whatever_white_is(
    tmp_path: Path, bits: int, photometric: int
) -> None:
    array = np.random.default_rng(bits).integers(0, 1 << bits, (5, 7))
    path = tmp_path / "a.tif"
    path.write_bytes(few_bits_tiff(array, bits, photometric))
    if bits >= 8:
        assert np.array_equal(tifffile.imread(path), array)
    assert np.array_equal(open_volume(path, role="labels").read(), array)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("big", [False, True], ids=["classic", "BigTIFF"])
def test_pages_equal_those_of_tifffile(tmp_path: Path, kind: Any, big: bool) -> None:
    array = noise((4, 5, 6), kind)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, array, photometric="minisblack", bigtiff=big, metadata=None)
    assert np.array_equal(open_volume(path).read(), array)


@pytest.mark.parametrize("writer", ["pillow", "tifffile", "BigTIFF", "packed"])
def test_a_tiff_that_is_cut_off_never_has_fewer_slices(tmp_path: Path, writer: str) -> None:
    array, path = noise((4, 8, 9), np.uint8), tmp_path / "a.tif"
    if writer in ("pillow", "packed"):
        pages = [Image.fromarray(page) for page in array]
        options = {"compression": "tiff_deflate"} if writer == "packed" else {}
        pages[0].save(path, save_all=True, append_images=pages[1:], **options)
    else:
        tifffile.imwrite(
            path, array, photometric="minisblack", bigtiff=writer == "BigTIFF", metadata=None
        )
    whole, rules = path.read_bytes(), set[str]()
    assert np.array_equal(open_volume(path).read(), array)
    complete = 0
    for stop in range(8, len(whole)):
        path.write_bytes(whole[:stop])
        try:
            volume = open_volume(path).read()
        except InputError as error:
            rules.add(error.rule)
            continue
        assert np.array_equal(volume, array)
        complete += 1
    # The last bytes may be padding.
    assert (complete < 20, rules <= {"volume-broken", "volume-format"}) == (True, True)


def test_a_chain_of_pages_without_end_is_refused(tmp_path: Path) -> None:
    whole = bytearray(few_bits_tiff(np.zeros((5, 7), int), 8, 1))
    whole[-4:] = whole[4:8]
    (tmp_path / "a.tif").write_bytes(bytes(whole))
    assert refused(tmp_path / "a.tif").rule == "volume-broken"


def test_pages_of_different_kinds_are_refused(tmp_path: Path) -> None:
    """Pillow would give both as bytes, the second one inverted."""
    pages = io.BytesIO()
    with tifffile.TiffWriter(pages) as writer:
        writer.write(noise((5, 6), np.uint8), photometric="minisblack", metadata=None)
        writer.write(noise((5, 6), np.uint8), photometric="miniswhite", metadata=None)
    (tmp_path / "a.tif").write_bytes(pages.getvalue())
    assert refused(tmp_path / "a.tif").rule == "volume-shape"


@pytest.mark.parametrize(
    "matrix", ["21000 0 0 0 1 0 0 0 1", "1 0 0 0 0.5 0 0 0 1", "1 1 0 0 1 0 0 0 1", "nan " * 9]
)
def test_directions_that_are_none_are_refused(tmp_path: Path, matrix: str) -> None:
    path = metaimage(tmp_path / "a.mha", ElementSpacing="1 1 1", TransformMatrix=matrix)
    assert refused(path).rule == "affine"
