# SPDX-License-Identifier: Apache-2.0
"""The pictures of the study of monitors: canvases of digits under shifts of known strength.

A `SceneSet` is a list of canvases that are drawn when they are asked for. A canvas
(`calipers.training.datasets.canvases`) shows 3 to 6 digits on noise. Three kinds of things happen
to some:

- the *picture* changes: ``fog``, ``blur``, ``noise``, ``contrast``, and ``background`` (stripes or
  a ramp where the ground was black), each in three strengths;
- *objects* appear that no class is declared for: ``foreign``, one to three of them between the
  digits: clothes, if a second folder of idx files is there, else drawn shapes. They are not
  references: a prediction on one of them is a false alarm;
- ``both``: a foreign object, and one of the changes of the picture.

So "out of distribution" has three meanings for a detector, and `SceneSet.ood` has them all: the
picture is, an object is, or either. Whether the detector fails is decided by nobody here.
`calipers.studies.monitors.training` trains on these and tests on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from calipers.arrays import F64, I64, U8, Flags
from calipers.errors import InputError
from calipers.training.datasets.canvases import (
    Canvases,
    CanvasSet,
    ComposedCanvas,
    Glyphs,
    is_canvases,
    open_canvases,
)

USUAL = "none"
STRENGTHS = (1, 2, 3)
FOG = (0.3, 0.55, 0.75)  # share of grey mist
MIST = 0.7
BLUR = (0.6, 1.0, 1.6)  # deviation in pixels
NOISE = (0.1, 0.2, 0.35)  # deviation of what is added, of 1
CONTRAST = (0.6, 0.4, 0.2)  # what is left of it
BACKGROUND = (0.25, 0.45, 0.65)  # height of stripes and ramps
PERIOD = (5.0, 12.0)  # pixels of a stripe
FOREIGN, BOTH = "foreign", "both"
PICTURE_SHIFTS = ("fog", "blur", "noise", "contrast", "background")
DEFINITIONS = ("picture", "object", "either")
DRAWN = "drawn shapes"
TRIES = 300  # to find room for a foreign object
MARGIN = 2  # pixels that a foreign object may overlap the square of a digit

# Corners of a cross.
CROSS = (
    *((-0.3, -0.9), (0.3, -0.9), (0.3, -0.3), (0.9, -0.3), (0.9, 0.3), (0.3, 0.3)),
    *((0.3, 0.9), (-0.3, 0.9), (-0.3, 0.3), (-0.9, 0.3), (-0.9, -0.3), (-0.3, -0.3)),
)
# Corners of drawn shapes, in a square of side 2 around 0; none looks like a digit.
SHAPES = (
    ((-0.9, 0.8), (0.9, 0.8), (0.0, -0.9)),
    ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)),
    CROSS,
    ((0.0, -0.9), (0.9, 0.0), (0.0, 0.9), (-0.9, 0.0)),
    ((-0.9, -0.3), (0.2, -0.3), (0.2, -0.9), (0.9, 0.0), (0.2, 0.9), (0.2, 0.3), (-0.9, 0.3)),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, -0.4), (-0.4, -0.4), (-0.4, 0.9), (-0.9, 0.9)),
)


@dataclass(frozen=True, slots=True)
class SceneCounts:
    """Numbers of pictures."""

    training: int
    usual: int  # in distribution, for testing
    each: int  # of every shift and strength
    both: int
    epochs: int


FULL = SceneCounts(training=1400, usual=400, each=40, both=80, epochs=8)
QUICK = SceneCounts(training=700, usual=150, each=14, both=30, epochs=6)


@dataclass(frozen=True)
class SceneSet:
    """Test pictures by number: what happened to each, and how to draw it."""

    name: str
    canvases: CanvasSet
    foreign: Glyphs
    foreign_name: str
    shift: tuple[str, ...]
    strength: I64  # (n,) 0 for usual ones
    picture_shift: tuple[str, ...]  # what happened to the picture; "" if nothing
    n_foreign: I64  # (n,) foreign objects that were asked for
    seed: int

    def __len__(self) -> int:
        return len(self.shift)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the pictures."""
        return tuple(f"scene-{k:05d}" for k in range(len(self)))

    def ood(self, definition: str) -> Flags:
        """Return (n,) which pictures are out of distribution by one of `DEFINITIONS`."""
        picture = np.array([name != "" for name in self.picture_shift])
        by_object = self.n_foreign > 0
        labels = {"picture": picture, "object": by_object, "either": picture | by_object}
        return labels[definition]

    def drawing(self, k: int) -> ComposedCanvas:
        """Draw a picture; its boxes are those of the digits."""
        canvas = self.canvases.drawing(self.canvases.settings.n_train + k)
        random = np.random.default_rng([self.seed, 7, k])
        pixels = canvas.pixels / 255.0
        if self.n_foreign[k]:
            pixels = self._with_foreign(pixels, canvas.boxes, int(self.n_foreign[k]), random)
        if self.picture_shift[k]:
            pixels = shifted(pixels, self.picture_shift[k], int(self.strength[k]), random)
        eight_bits: U8 = np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
        return ComposedCanvas(eight_bits, canvas.boxes, canvas.labels)

    def _with_foreign(self, pixels: F64, boxes: F64, n: int, random: Generator) -> F64:
        size = self.foreign.pixels.shape[1]
        obstacles = [tuple(box) for box in boxes.tolist()]
        result = pixels.copy()
        for _ in range(n):
            glyph = self.foreign.pixels[int(random.integers(len(self.foreign.pixels)))]
            x, y = _free_corner(obstacles, pixels.shape[0] - size, size, random)
            obstacles.append((x, y, x + size, y + size))
            place = result[y : y + size, x : x + size]
            np.maximum(place, glyph, out=place)
        return result


def _free_corner(
    obstacles: list[tuple[float, ...]], last: int, size: int, random: Generator
) -> tuple[int, int]:
    """Return the corner of a square that touches what is there as little as possible."""
    best, least = (0, 0), float("inf")
    for _ in range(TRIES):
        x, y = (int(number) for number in random.integers(0, last + 1, 2))
        overlap = 0.0
        for x0, y0, x1, y1 in obstacles:
            width = min(x1, x + size) - max(x0, x) - MARGIN
            height = min(y1, y + size) - max(y0, y) - MARGIN
            overlap += max(width, 0.0) * max(height, 0.0)
        if overlap < least:
            best, least = (x, y), overlap
        if not least:
            break
    return best


def shifted(pixels: F64, shift: str, strength: int, random: Generator) -> F64:
    """Return a picture of 0 to 1 under one of `PICTURE_SHIFTS`, in a strength of 1 to 3."""
    change: dict[str, Callable[[F64, int, Generator], F64]] = {
        "fog": _fog,
        "blur": _blur,
        "noise": _noise,
        "contrast": _contrast,
        "background": _background,
    }
    return change[shift](pixels, strength - 1, random)


def _fog(pixels: F64, k: int, random: Generator) -> F64:
    return np.asarray((1 - FOG[k]) * pixels + FOG[k] * MIST)


def _blur(pixels: F64, k: int, random: Generator) -> F64:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(pixels, BLUR[k]))


def _noise(pixels: F64, k: int, random: Generator) -> F64:
    return np.asarray(pixels + NOISE[k] * random.standard_normal(pixels.shape))


def _contrast(pixels: F64, k: int, random: Generator) -> F64:
    return np.asarray(CONTRAST[k] * pixels)


def _background(pixels: F64, k: int, random: Generator) -> F64:
    """Stripes in half of the pictures, a ramp in the others, brightest behind the darkest."""
    y, x = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    angle = random.uniform(0, np.pi)
    along = x * np.cos(angle) + y * np.sin(angle)
    if random.random() < 0.5:
        texture = 0.5 + 0.5 * np.sin(2 * np.pi * along / random.uniform(*PERIOD))
    else:
        texture = (along - along.min()) / (along.max() - along.min())
    return np.asarray(pixels + (1 - pixels) * BACKGROUND[k] * texture)


def open_scenes(source: str | None, counts: SceneCounts, seed: int) -> SceneSet:
    """Return the test pictures; the training pictures are those of ``canvases``.

    Parameters
    ----------
    source
        None: the digits of scikit-learn and drawn shapes. A folder of idx files, with drawn shapes;
        or a folder of two such folders, of which ``fashion`` (or the second by name) has the
        foreign objects.
    """
    objects, others = _folders(source)
    n_test = counts.usual + len(STRENGTHS) * counts.each * (len(PICTURE_SHIFTS) + 1) + counts.both
    settings = Canvases(n_train=counts.training, n_test=n_test, seed=seed)
    canvases = open_canvases(objects, settings)
    foreign_name = DRAWN if others is None else Path(others).name
    foreign = drawn_shapes(settings.glyph)
    if others is not None:
        foreign = open_canvases(others, settings).glyphs["test"]
    shift, strength, picture_shift, n_foreign = _dealt(counts, seed)
    name = "digits" if source is None else Path(objects).name
    return SceneSet(
        name, canvases, foreign, foreign_name, shift, strength, picture_shift, n_foreign, seed
    )


def _folders(source: str | None) -> tuple[str, str | None]:
    if source is None:
        return "digits", None
    folder = Path(source)
    if not folder.is_dir():
        raise InputError("a folder of idx files", rule="not-found", file=source)
    if is_canvases(folder):
        return source, None
    inner = sorted(path for path in folder.iterdir() if path.is_dir() and is_canvases(path))
    if not inner:
        hint = "the layout is that of MNIST: train-images-idx3-ubyte(.gz), ..."
        raise InputError("idx files, or folders of them", rule="not-found", file=source, hint=hint)
    if len(inner) == 1:
        return str(inner[0]), None
    # Digits are what is looked for: the folder of clothes is the foreign one whatever its name
    # sorts to.
    inner.sort(key=lambda path: "fashion" in path.name.lower())
    return str(inner[0]), str(inner[1])


def _dealt(counts: SceneCounts, seed: int) -> tuple[tuple[str, ...], I64, tuple[str, ...], I64]:
    """Return shift, strength, change of the picture and foreign objects of every picture, in an
    order that has nothing to do with them.
    """
    rows: list[tuple[str, int, str, int]] = [(USUAL, 0, "", 0)] * counts.usual
    for strength in STRENGTHS:
        for name in PICTURE_SHIFTS:
            rows += [(name, strength, name, 0)] * counts.each
        rows += [(FOREIGN, strength, "", strength)] * counts.each
    for k in range(counts.both):
        strength = STRENGTHS[k % len(STRENGTHS)]
        name = PICTURE_SHIFTS[k // len(STRENGTHS) % len(PICTURE_SHIFTS)]
        rows.append((BOTH, strength, name, 1))
    order = np.random.default_rng([seed, 11]).permutation(len(rows)).tolist()
    shift, strength_column, picture_shift, n_foreign = zip(*(rows[k] for k in order))
    numbers = np.array(strength_column, np.int64), np.array(n_foreign, np.int64)
    return shift, numbers[0], picture_shift, numbers[1]


def drawn_shapes(side: int, n: int = 60) -> Glyphs:
    """Return filled shapes, turned at random, as characters of one class."""
    from PIL import Image, ImageDraw

    random = np.random.default_rng(5)
    fine = 8 * side
    pixels = np.empty((n, side, side))
    for k in range(n):
        angle = random.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = np.array(SHAPES[k % len(SHAPES)]) @ turn.T * 0.75
        picture = Image.new("L", (fine, fine))
        places = ((corners + 1) / 2 * fine).tolist()
        ImageDraw.Draw(picture).polygon([tuple(place) for place in places], fill=255)
        small = picture.resize((side, side), Image.Resampling.BOX)
        pixels[k] = np.asarray(small) / 255.0 * random.uniform(0.6, 1.0)
    return Glyphs(pixels, np.zeros(n, np.int64), ("shape",))
