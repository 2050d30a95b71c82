# SPDX-License-Identifier: Apache-2.0
"""Augmentation: every epoch sees other versions of the training images.

`augmented` gives other versions of pictures with boxes, to `calipers.training.detector`. Its
settings are those of the EndoCV 2022 ensemble. ``light``: mosaic of four images, horizontal flip,
scale, colour jitter. ``heavy``: also vertical flip, translation, rotation, shear, mix-up and
copy-paste. `jitter_and_blur` is for `calipers.training.chexnet`, whose images have labels only.

Pictures are changed by the transforms of MONAI, boxes together with them; mosaic, mix-up and
copy-paste are ours, because MONAI has none for boxes. MONAI's random transforms are not used: all
random numbers are drawn here, from a generator that is a function of the seed and the epoch, so
that a training that was killed continues with the same pictures.

A box that a picture loses by more than three quarters, or that becomes thinner than two pixels,
goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from calipers.arrays import I64, U8
from calipers.errors import UsageError

WHITE = 255.0
LEAST_VISIBLE = 0.25  # share of a box that has to stay
THINNEST = 2.0  # pixels
# probabilities
MOSAIC, FLIP, MIX_UP, COPY_PASTE, JITTER_OR_BLUR = 0.5, 0.5, 0.15, 0.3, 0.5
# how far, either way
SCALE, JITTER = 0.2, 0.2
BLUR = 0.1, 2.0  # standard deviation in pixels of a side of 224
TRANSLATION, ROTATION, SHEAR = 0.1, 10.0, 5.0  # of the side; degrees
X, Y = 0, 1
# The corners (y, x) of boxes x0 y0 x1 y1: MONAI counts rows first, as pictures do.
CORNERS = [[1, 0], [1, 2], [3, 0], [3, 2]]


class BoxedFrame(NamedTuple):
    """An image with its boxes, in pixels of the frame."""

    pixels: Tensor  # (channels, side, side) from 0 to 255
    boxes: Tensor  # (m, 4)
    labels: Tensor  # (m,)


class FrameSource(Protocol):
    """Where images come from: ``rows`` are those to borrow from."""

    rows: I64

    def sample(self, i: int) -> BoxedFrame:
        """Return an image."""


def picture_tensor(pixels: U8) -> Tensor:
    """Return (channels, side, side) numbers from 0 to 255 of bytes (side, side[, 3])."""
    values = torch.from_numpy(pixels.astype(np.float32))
    return values[None] if values.ndim == 2 else values.permute(2, 0, 1).contiguous()


def network_values(pictures: list[Tensor]) -> Tensor:
    """Return a batch as networks take it: numbers in [-1, 1], those of `frames.scaled`."""
    return torch.stack(pictures) / (WHITE / 2) - 1


def require_transforms() -> None:
    """Raise if MONAI is missing, before an hour is spent on decoding pictures."""
    _monai()


def _monai() -> Any:
    try:
        from monai import transforms
    except ImportError:
        raise UsageError("augmentation needs MONAI: pip install 'calipers[train]'") from None
    return transforms


@contextmanager
def _plain_tensors() -> Iterator[None]:
    """Let MONAI work on plain tensors.

    It usually records every step with the picture, so that it can be undone. Nobody undoes anything
    here, and on a picture of 64 x 64 pixels the records take longer than the work.
    """
    from monai.data import get_track_meta, set_track_meta

    before = get_track_meta()
    set_track_meta(False)
    try:
        yield
    finally:
        set_track_meta(before)


def augmented(source: FrameSource, i: int, random: Generator, setting: str) -> BoxedFrame:
    """Return another version of an image; ``setting`` is ``none``, ``light`` or ``heavy``."""
    if setting == "none":
        return source.sample(i)
    require_transforms()
    heavy = setting == "heavy"
    with _plain_tensors():
        sample = _one(source, i, random, heavy=heavy)
        if heavy and random.random() < COPY_PASTE:
            sample = copy_paste(sample, source.sample(_other(source, random)), random)
        if heavy and random.random() < MIX_UP:
            sample = mix_up(sample, _one(source, _other(source, random), random, heavy=True))
        return sample._replace(pixels=jittered(sample.pixels, random))


def jitter_and_blur(pixels: Tensor, random: Generator) -> Tensor:
    """Return a picture with colour jitter and with blur, each in half of the cases."""
    require_transforms()
    with _plain_tensors():
        if random.random() < JITTER_OR_BLUR:
            pixels = jittered(pixels, random)
        if random.random() < JITTER_OR_BLUR:
            # The width is that of a picture of 224 pixels, the size that it was published for.
            pixels = blurred(pixels, random.uniform(*BLUR) * pixels.shape[-1] / 224)
    return pixels


def _one(source: FrameSource, i: int, random: Generator, *, heavy: bool) -> BoxedFrame:
    """Return an image or a mosaic, flipped and moved."""
    sample = source.sample(i)
    if random.random() < MOSAIC:
        others = [source.sample(_other(source, random)) for _ in range(3)]
        sample = mosaic([sample, *others], random)
    if random.random() < FLIP:
        sample = flipped(sample, X)
    if heavy and random.random() < FLIP:
        sample = flipped(sample, Y)
    scale = float(np.exp(random.uniform(-SCALE, SCALE)))
    if not heavy:
        return moved(sample, scale=scale)
    return moved(
        sample,
        scale=scale,
        rotation=random.uniform(-ROTATION, ROTATION),
        shear=random.uniform(-SHEAR, SHEAR),
        shift=random.uniform(-TRANSLATION, TRANSLATION, 2) * sample.pixels.shape[-1],
    )


def _other(source: FrameSource, random: Generator) -> int:
    return int(random.choice(source.rows))


def mosaic(samples: list[BoxedFrame], random: Generator) -> BoxedFrame:
    """Return four images in the quarters of one, in random order, each at half its size."""
    side = samples[0].pixels.shape[-1]
    half = side // 2
    # Each pixel is the mean of those that it stands for.
    shrink = _monai().Resize((half, half), mode="area")
    pixels = torch.zeros_like(samples[0].pixels)
    boxes = []
    for sample, place in zip(samples, random.permutation(4).tolist()):
        x, y = half * (place % 2), half * (place // 2)
        pixels[:, y : y + half, x : x + half] = shrink(sample.pixels)
        boxes.append(sample.boxes * (half / side) + torch.tensor([x, y, x, y]))
    labels = torch.cat([sample.labels for sample in samples])
    return _visible(BoxedFrame(pixels, torch.cat(boxes), labels))


def flipped(sample: BoxedFrame, axis: int) -> BoxedFrame:
    """Return the mirror image; along the axis `X` from left to right, along `Y` upside down."""
    from monai.apps.detection.transforms.array import FlipBox

    pixels = _monai().Flip(1 - axis)(sample.pixels)
    return BoxedFrame(pixels, FlipBox(axis)(sample.boxes, pixels.shape[1:]), sample.labels)


def moved(
    sample: BoxedFrame,
    *,
    scale: float = 1.0,
    rotation: float = 0.0,
    shear: float = 0.0,
    shift: Any = (0.0, 0.0),
) -> BoxedFrame:
    """Return an image after rotation, shear, shift and scaling, in this order, about the centre of
    its frame; what comes from outside is black. Angles are in degrees, a rotation goes against
    the clock, ``shift`` is (x, y) in pixels.

    Notes
    -----
    Boxes become those around their four moved corners. MONAI's ``AffineBox`` moves only two of
    them, which is too small a box after a rotation.
    """
    transforms, side = _monai(), sample.pixels.shape[-1]
    # MONAI describes a movement by where a place of the result comes from: all of it backwards.
    grid, matrix = transforms.AffineGrid(
        rotate_params=-np.deg2rad(rotation),
        shear_params=(0.0, -np.tan(np.deg2rad(shear))),
        translate_params=(-shift[1], -shift[0]),
        scale_params=(1 / scale, 1 / scale),
    )((side, side))
    pixels = transforms.Resample(padding_mode="zeros", dtype=np.float32)(sample.pixels, grid)
    forwards = torch.as_tensor(matrix).inverse().float()
    corners = (sample.boxes[:, CORNERS] - side / 2) @ forwards[:2, :2].T + forwards[:2, 2]
    low, high = corners.amin(dim=1), corners.amax(dim=1)
    boxes = torch.stack([low[:, 1], low[:, 0], high[:, 1], high[:, 0]], dim=1) + side / 2
    return _visible(BoxedFrame(pixels, boxes, sample.labels))


def _visible(sample: BoxedFrame) -> BoxedFrame:
    """Return the sample with boxes cut at the border, without those that are mostly gone."""
    from monai.apps.detection.transforms.array import ClipBoxToImage

    clip = ClipBoxToImage(remove_empty=False)
    boxes, labels = clip(sample.boxes, sample.labels, sample.pixels.shape[1:])
    sizes, before = boxes[:, 2:] - boxes[:, :2], sample.boxes[:, 2:] - sample.boxes[:, :2]
    share = sizes.prod(dim=1) / before.prod(dim=1).clamp(min=1e-9)
    good = (share >= LEAST_VISIBLE) & (sizes >= THINNEST).all(dim=1)
    return BoxedFrame(sample.pixels, boxes[good], labels[good])


def mix_up(first: BoxedFrame, second: BoxedFrame) -> BoxedFrame:
    """Return two images on top of each other, half of each, with the boxes of both."""
    return BoxedFrame(
        (first.pixels + second.pixels) / 2,
        torch.cat([first.boxes, second.boxes]),
        torch.cat([first.labels, second.labels]),
    )


def copy_paste(sample: BoxedFrame, other: BoxedFrame, random: Generator) -> BoxedFrame:
    """Return an image with an object of another one, at a random place; what it covers by more
    than three quarters goes.
    """
    if not len(other.boxes):
        return sample
    k = int(random.integers(len(other.boxes)))
    x0, y0 = other.boxes[k, :2].floor().int().tolist()
    x1, y1 = other.boxes[k, 2:].ceil().int().tolist()
    patch = other.pixels[:, y0:y1, x0:x1]
    height, width = patch.shape[1:]
    side = sample.pixels.shape[-1]
    if not 0 < height <= side or not 0 < width <= side:
        return sample
    x, y = int(random.integers(side - width + 1)), int(random.integers(side - height + 1))
    pixels = sample.pixels.clone()
    pixels[:, y : y + height, x : x + width] = patch
    box = other.boxes[k] + torch.tensor([x - x0, y - y0, x - x0, y - y0])
    good = 1 - _covered(sample.boxes, box) >= LEAST_VISIBLE
    return BoxedFrame(
        pixels,
        torch.cat([sample.boxes[good], box[None]]),
        torch.cat([sample.labels[good], other.labels[k : k + 1]]),
    )


def _covered(boxes: Tensor, cover: Tensor) -> Tensor:
    """Return (m,) the share of every box that another box covers."""
    common = torch.minimum(boxes[:, 2:], cover[2:]) - torch.maximum(boxes[:, :2], cover[:2])
    area = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1).clamp(min=1e-9)
    return common.clamp(min=0).prod(dim=1) / area


def jittered(pixels: Tensor, random: Generator) -> Tensor:
    """Return a picture with other brightness and contrast, of colours each by itself."""
    transforms, channels = _monai(), []
    for channel in pixels:
        factor = random.uniform(-JITTER, JITTER)
        channels.append(transforms.ScaleIntensity(None, None, factor)(channel))
    offset = WHITE * random.uniform(-JITTER, JITTER) / 2
    return transforms.ShiftIntensity(offset)(torch.stack(channels)).clamp(0, WHITE)


def blurred(pixels: Tensor, width: float) -> Tensor:
    """Return a picture after a Gaussian blur with a standard deviation of ``width`` pixels."""
    transforms = _monai()
    # Outside a picture MONAI sees black, which would darken the border: its last pixels go on.
    border = int(np.ceil(4 * width)) + 1  # where MONAI cuts the Gaussian
    wide = transforms.BorderPad(border, mode="replicate")(pixels)
    smooth = transforms.GaussianSmooth(width)
    # Three channels together take twice as long as one after the other.
    channels = [smooth(channel[None]) for channel in wide]
    return torch.cat(channels)[:, border:-border, border:-border]
