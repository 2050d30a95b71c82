# SPDX-License-Identifier: Apache-2.0
"""Augmentation of pictures with boxes: every epoch sees other versions of the training images.

The settings are those of the EndoCV 2022 ensemble. ``light``: mosaic of four images, horizontal
flip, scale, colour jitter. ``heavy``: also vertical flip, translation, rotation, shear, mix-up and
copy-paste. ``none`` leaves an image as it is.

`augmented` is called by `calipers.training.detector.DetectorTask` for every image of a batch. A box
that a picture loses by more than three quarters, or that becomes thinner than two pixels, goes.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from calipers.arrays import F64, I64, U8

LEAST_VISIBLE = 0.25  # share of a box that has to stay
THINNEST = 2.0  # pixels
# probabilities
MOSAIC, FLIP, MIX_UP, COPY_PASTE = 0.5, 0.5, 0.15, 0.3
# how far, either way
SCALE, JITTER = 0.2, 0.2
BLUR = 0.1, 2.0  # standard deviation in pixels of a side of 224
TRANSLATION, ROTATION, SHEAR = 0.1, 10.0, 5.0  # of the side; degrees


class BoxedFrame(NamedTuple):
    """An image with its boxes, in pixels of the frame."""

    pixels: U8  # (side, side) or (side, side, 3)
    boxes: F64  # (m, 4)
    labels: I64  # (m,)


class FrameSource(Protocol):
    """Where images come from: ``rows`` are those to borrow from."""

    rows: I64

    def sample(self, i: int) -> BoxedFrame:
        """Return an image."""


def augmented(source: FrameSource, i: int, random: Generator, setting: str) -> BoxedFrame:
    """Return another version of an image; ``setting`` is ``none``, ``light`` or ``heavy``."""
    if setting == "none":
        return source.sample(i)
    heavy = setting == "heavy"
    sample = _one(source, i, random, heavy=heavy)
    if heavy and random.random() < COPY_PASTE:
        sample = copy_paste(sample, source.sample(_other(source, random)), random)
    if heavy and random.random() < MIX_UP:
        sample = mix_up(sample, _one(source, _other(source, random), random, heavy=True))
    return jittered(sample, random)


def _one(source: FrameSource, i: int, random: Generator, *, heavy: bool) -> BoxedFrame:
    """Return an image or a mosaic, flipped and moved."""
    sample = source.sample(i)
    if random.random() < MOSAIC:
        others = [source.sample(_other(source, random)) for _ in range(3)]
        sample = mosaic([sample, *others], random)
    if random.random() < FLIP:
        sample = flipped(sample, axis=1)
    if heavy and random.random() < FLIP:
        sample = flipped(sample, axis=0)
    return moved(sample, _matrix(random, len(sample.pixels), heavy=heavy))


def _other(source: FrameSource, random: Generator) -> int:
    return int(random.choice(source.rows))


def mosaic(samples: list[BoxedFrame], random: Generator) -> BoxedFrame:
    """Return four images in the quarters of one, in random order, each at half its size."""
    from PIL import Image

    side = len(samples[0].pixels)
    half = side // 2
    pixels = np.zeros_like(samples[0].pixels)
    boxes, labels = [], []
    for k, place in enumerate(random.permutation(4).tolist()):
        x, y = half * (place % 2), half * (place // 2)
        image = Image.fromarray(samples[k].pixels).resize((half, half), Image.Resampling.BILINEAR)
        pixels[y : y + half, x : x + half] = np.asarray(image)
        boxes.append(samples[k].boxes * (half / side) + [x, y, x, y])
        labels.append(samples[k].labels)
    return _visible(BoxedFrame(pixels, np.concatenate(boxes), np.concatenate(labels)))


def flipped(sample: BoxedFrame, axis: int) -> BoxedFrame:
    """Return the mirror image; axis 1 is from left to right."""
    side = sample.pixels.shape[axis]
    boxes = sample.boxes.copy()
    first, second = (0, 2) if axis == 1 else (1, 3)
    boxes[:, first], boxes[:, second] = (
        side - sample.boxes[:, second],
        side - sample.boxes[:, first],
    )
    return BoxedFrame(np.ascontiguousarray(np.flip(sample.pixels, axis)), boxes, sample.labels)


def _matrix(random: Generator, side: int, *, heavy: bool) -> F64:
    """Return (2, 3): from pixels of the image to those of the moved one."""
    factor = np.exp(random.uniform(-SCALE, SCALE))
    turn = shear = 0.0
    shift = np.zeros(2)
    if heavy:
        turn = np.deg2rad(random.uniform(-ROTATION, ROTATION))
        shear = np.tan(np.deg2rad(random.uniform(-SHEAR, SHEAR)))
        shift = random.uniform(-TRANSLATION, TRANSLATION, 2) * side
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    linear = factor * rotation @ np.array([[1.0, shear], [0.0, 1.0]])
    # Scale, rotation and shear are about the centre of the frame.
    centre = np.full(2, side / 2)
    return np.column_stack([linear, centre - linear @ centre + shift])


def moved(sample: BoxedFrame, matrix: F64) -> BoxedFrame:
    """Return an image under an affine map; boxes become those around their moved corners."""
    from PIL import Image

    side = len(sample.pixels)
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    image = Image.fromarray(sample.pixels).transform(
        (side, side),
        Image.Transform.AFFINE,
        tuple(inverse.ravel().tolist()),
        Image.Resampling.BILINEAR,
    )
    x0, y0, x1, y1 = sample.boxes.T
    points = np.array([[x0, x1, x0, x1], [y0, y0, y1, y1]])  # (2, 4, m)
    places = np.einsum("ij,jkm->ikm", matrix[:, :2], points) + matrix[:, 2][:, None, None]
    low, high = places.min(axis=1), places.max(axis=1)
    boxes = np.concatenate([low, high]).T.reshape(-1, 4)
    return _visible(BoxedFrame(np.asarray(image), boxes, sample.labels))


def _visible(sample: BoxedFrame) -> BoxedFrame:
    """Return the sample with boxes cut at the border, without those that are mostly gone."""
    side = len(sample.pixels)
    boxes = np.clip(sample.boxes, 0, side)
    sizes, before = boxes[:, 2:] - boxes[:, :2], sample.boxes[:, 2:] - sample.boxes[:, :2]
    share = sizes.prod(axis=1) / np.maximum(before.prod(axis=1), 1e-9)
    good = (share >= LEAST_VISIBLE) & (sizes >= THINNEST).all(axis=1)
    return BoxedFrame(sample.pixels, boxes[good], sample.labels[good])


def mix_up(first: BoxedFrame, second: BoxedFrame) -> BoxedFrame:
    """Return two images on top of each other, half of each, with the boxes of both."""
    pixels = ((first.pixels.astype(np.uint16) + second.pixels) // 2).astype(np.uint8)
    return BoxedFrame(
        pixels,
        np.concatenate([first.boxes, second.boxes]),
        np.concatenate([first.labels, second.labels]),
    )


def copy_paste(sample: BoxedFrame, other: BoxedFrame, random: Generator) -> BoxedFrame:
    """Return an image with an object of another one, at a random place; what it covers by more
    than three quarters goes.
    """
    if not len(other.boxes):
        return sample
    k = int(random.integers(len(other.boxes)))
    x0, y0 = np.floor(other.boxes[k, :2]).astype(int)
    x1, y1 = np.ceil(other.boxes[k, 2:]).astype(int)
    patch = other.pixels[y0:y1, x0:x1]
    height, width = patch.shape[:2]
    side = len(sample.pixels)
    if not 0 < height <= side or not 0 < width <= side:
        return sample
    x, y = int(random.integers(side - width + 1)), int(random.integers(side - height + 1))
    pixels = sample.pixels.copy()
    pixels[y : y + height, x : x + width] = patch
    box = other.boxes[k] + [x - x0, y - y0, x - x0, y - y0]
    open_share = 1 - _covered(sample.boxes, box)
    good = open_share >= LEAST_VISIBLE
    return BoxedFrame(
        pixels,
        np.concatenate([sample.boxes[good], box[None]]),
        np.concatenate([sample.labels[good], other.labels[k : k + 1]]),
    )


def _covered(boxes: F64, cover: F64) -> F64:
    """Return (m,) the share of every box that another box covers."""
    common = np.minimum(boxes[:, 2:], cover[2:]) - np.maximum(boxes[:, :2], cover[:2])
    area = np.maximum((boxes[:, 2:] - boxes[:, :2]).prod(axis=1), 1e-9)
    return np.asarray(np.clip(common, 0, None).prod(axis=1) / area)


def jittered(sample: BoxedFrame, random: Generator) -> BoxedFrame:
    """Return an image with other brightness and contrast, of colours each by itself."""
    return sample._replace(pixels=jittered_pixels(sample.pixels, random))


def jittered_pixels(pixels: U8, random: Generator) -> U8:
    """Return a picture with other brightness and contrast, of colours each by itself."""
    shape = (1, 1, 3) if pixels.ndim == 3 else (1, 1)
    gain = 1 + random.uniform(-JITTER, JITTER, shape)
    shift = 255 * random.uniform(-JITTER, JITTER) / 2
    return np.clip(pixels * gain + shift, 0, 255).astype(np.uint8)


def blurred(pixels: U8, random: Generator) -> U8:
    """Return a picture after a Gaussian blur of random width, for networks of whole images."""
    from PIL import Image, ImageFilter

    # The width is that of a picture of 224 pixels, the size that it was published for.
    width = random.uniform(*BLUR) * len(pixels) / 224
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(width)))
