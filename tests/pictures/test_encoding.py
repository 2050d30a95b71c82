"""Encoded pictures: small, bare, the same every time."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image, features

from calipers.pictures.pixels import Pixels, encode
from calipers.results.files import Encoded

SMOOTH = np.add.outer(np.arange(300), np.arange(900)).astype(np.float64)
GREY = (SMOOTH / SMOOTH.max() * 255).astype(np.uint8)


def pixels(array: np.ndarray) -> Pixels:
    return Pixels(array, array.shape[1], array.shape[0])


def decoded(found: Encoded) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(found.data.partition(",")[2])))


def test_the_longer_side_is_shrunk_and_the_shape_kept() -> None:
    found = encode(pixels(GREY))
    assert (found.width, found.height) == decoded(found).size == (512, 171)
    assert found.data.startswith("data:image/webp;base64,")
    assert found.bytes == len(found.data) < 20_000


def test_small_pictures_are_not_enlarged() -> None:
    assert decoded(encode(pixels(GREY[:20, :30]))).size == (30, 20)
    assert decoded(encode(pixels(GREY[:1, :900]), side=64)).size == (64, 1)


def test_grey_stays_grey() -> None:
    shown = np.asarray(decoded(encode(pixels(GREY))).convert("RGB")).astype(int)
    assert np.ptp(shown, axis=-1).max() <= 2
    assert abs(shown[:, :, 0].mean() - GREY.mean()) < 3


def test_colours_come_through() -> None:
    red = np.zeros((40, 40, 3), np.uint8)
    red[..., 0] = 220
    assert (
        np.abs(np.asarray(decoded(encode(pixels(red))).convert("RGB")).astype(int) - red).max() < 12
    )


def test_the_same_pixels_give_the_same_bytes() -> None:
    assert encode(pixels(GREY)) == encode(pixels(GREY.copy()))


def test_shrinking_averages_instead_of_picking() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 512))
    shown = np.asarray(decoded(encode(pixels(stripes), side=128)).convert("L")).astype(int)
    assert np.abs(shown[:, 8:-8] - 127).max() < 25


def test_without_webp_it_is_a_jpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "check", lambda name: False)
    found = encode(pixels(GREY))
    assert found.data.startswith("data:image/jpeg;base64,")
    assert (decoded(found).format, decoded(found).mode) == ("JPEG", "L")


def test_nothing_but_pixels_is_kept() -> None:
    shown = decoded(encode(pixels(GREY)))
    assert not {"exif", "icc_profile", "xmp"} & set(shown.info)
    assert not shown.getexif()
