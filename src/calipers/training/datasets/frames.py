# SPDX-License-Identifier: Apache-2.0
"""Frames: pictures of any size become squares that a network takes.

`prepare` decodes every picture once. Its longer side is scaled down to the side of the frame; a
smaller picture is not enlarged. The picture lies in the upper left corner, so that coordinates only
have to be multiplied, and the rest is 0. What cannot be decoded is set aside and counted; if that
is more than half of the pictures, nothing is trained.

Frames are bytes, and become numbers in [-1, 1] batch by batch (`scaled`). Many of them live in a
file without a name instead of the memory.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calipers.arrays import F32, F64, I64, U8, Flags
from calipers.errors import InputError
from calipers.stability.grid import instance_labels
from calipers.training.datasets.training_images import TrainingImages

IN_MEMORY = 1 << 30  # bytes; more are kept in a file
FIRST = 16  # pictures that decide whether frames have colours
MOST_BROKEN = 0.5
AHEAD = 32  # pictures that are decoded at a time

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Frames:
    """Prepared pictures: ``images`` has those that could be decoded, in the same order."""

    images: TrainingImages
    pixels: U8  # (n, side, side) or (n, side, side, 3)
    sizes: F64  # (n, 2) width and height of the picture
    scales: F64  # (n,) frame pixels per picture pixel
    broken: tuple[InputError, ...]  # why pictures were set aside
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    @property
    def side(self) -> int:
        """Side of a frame in pixels."""
        return int(self.pixels.shape[1])

    @property
    def channels(self) -> int:
        """1 for grey frames, 3 for colours."""
        return 1 if self.pixels.ndim == 3 else 3

    def extent(self, i: int) -> float:
        """Return the side of the frame in pixels of the picture."""
        return float(self.side / self.scales[i])

    def instances(self, i: int, grid: int) -> Flags:
        """Return (grid, grid): which cells of the frame the boxes of an image overlap."""
        boxes = self.images.boxes[i]
        if boxes is None or not len(boxes):
            return np.zeros((grid, grid), np.bool_)
        side = self.extent(i)
        return instance_labels(boxes, size=(side, side), grid=(grid, grid))


def prepare(
    images: TrainingImages,
    side: int,
    *,
    jobs: int = 1,
    colour: bool | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Frames:
    """Decode all pictures.

    Parameters
    ----------
    colour
        Whether frames have colours; None: if one of the first pictures has.
    folder
        Where the file of many frames lies; None: the usual place for temporary files.
    """
    if colour is None:
        colour = _has_colour(images)
    shape = (len(images), side, side, 3) if colour else (len(images), side, side)
    pixels = _storage(shape, folder)
    sizes, scales = np.zeros((len(images), 2)), np.ones(len(images))
    good = np.zeros(len(images), np.bool_)
    broken: list[InputError] = []
    with ThreadPoolExecutor(jobs) as pool:
        for start in range(0, len(images), AHEAD):
            block = range(start, min(start + AHEAD, len(images)))
            for i, picture in zip(block, pool.map(lambda i: _decoded(images, i), block)):
                if isinstance(picture, InputError):
                    broken.append(picture)
                    continue
                pixels[i], scales[i] = frame_of(picture, side, colour=colour)
                sizes[i] = picture.shape[1], picture.shape[0]
                good[i] = True
            if progress is not None:
                progress(block.stop, len(images))
    _check_loss(broken, len(images))
    rows = np.flatnonzero(good)
    # The array of all is only copied if something is missing in it.
    if broken:
        images, pixels, sizes, scales = images.take(rows), pixels[rows], sizes[rows], scales[rows]
    return Frames(images, pixels, sizes, scales, tuple(broken))


def _decoded(images: TrainingImages, i: int) -> U8 | InputError:
    try:
        return images.picture(i)
    except InputError as error:
        return error


def _has_colour(images: TrainingImages) -> bool:
    pictures = [_decoded(images, i) for i in range(min(FIRST, len(images)))]
    return any(isinstance(own, np.ndarray) and own.ndim == 3 for own in pictures)


def _storage(shape: tuple[int, ...], folder: Path | None) -> U8:
    if math.prod(shape) <= IN_MEMORY:
        return np.zeros(shape, np.uint8)
    # It has no name, so that it vanishes with the process however that ends.
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    return np.memmap(file, np.uint8, "w+", shape=shape)


def _check_loss(broken: list[InputError], n: int) -> None:
    if len(broken) <= MOST_BROKEN * n:
        return
    first = broken[0]
    raise InputError(
        "pictures, most of which can be read",
        rule="mostly-broken",
        file=first.file,
        value=f"{len(broken)} of {n} cannot",
        hint=f"the first: {first.describe()}",
    )


def frame_of(picture: U8, side: int, *, colour: bool) -> tuple[U8, float]:
    """Return a picture as a square, and by how much it was scaled."""
    from PIL import Image

    if colour and picture.ndim == 2:
        picture = np.repeat(picture[:, :, None], 3, axis=2)
    height, width = picture.shape[:2]
    scale = min(1.0, side / max(height, width))
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR)
        picture = np.asarray(image)
    if not colour and picture.ndim == 3:
        picture = np.asarray(Image.fromarray(picture).convert("L"))
    frame = np.zeros((side, side, 3) if colour else (side, side), np.uint8)
    frame[: picture.shape[0], : picture.shape[1]] = picture
    return frame, scale


def scaled(pixels: U8) -> F32:
    """Return (n, channels, side, side) numbers in [-1, 1] of bytes (n, side, side[, 3])."""
    values = pixels.astype(np.float32) / 127.5 - 1
    if values.ndim == 3:
        return values[:, None]
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


def statistics(frames: Frames, rows: I64) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the numbers of `scaled`, per channel, over images."""
    total, square, n = np.zeros(frames.channels), np.zeros(frames.channels), 0
    for start in range(0, len(rows), 64):
        values = scaled(frames.pixels[rows[start : start + 64]]).astype(np.float64)
        total += values.sum(axis=(0, 2, 3))
        square += (values**2).sum(axis=(0, 2, 3))
        n += values.size // frames.channels
    mean = total / n
    spread = np.sqrt(np.maximum(square / n - mean**2, 0))
    return mean.tolist(), np.maximum(spread, 1e-6).tolist()
