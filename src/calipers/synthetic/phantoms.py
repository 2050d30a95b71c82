# SPDX-License-Identifier: Apache-2.0
"""Synthetic chest radiographs: enough to see what a box is about, without any patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.synthetic.anatomy import CARDIOMEGALY, EFFUSION, MASS, Anatomy, Ellipse

F64 = NDArray[np.float64]
Pixels = NDArray[
    np.floating[Any]
]  # single precision where possible: enough for grey values, and faster

RIBS = 9


@dataclass(frozen=True, slots=True)
class CentreLook:
    """How the images of a centre look."""

    brightness: float = 0.0
    contrast: float = 1.0
    noise: float = 0.02
    vignette: float = 0.15


@dataclass(frozen=True, slots=True)
class Canvas:
    """Pixel centres of an image in fractions of its sides, and the random stream of its texture."""

    x: Pixels  # (1, width)
    y: Pixels  # (height, 1)
    random: Generator

    @classmethod
    def of(cls, width: int, height: int, random: Generator) -> Canvas:
        """Return the canvas of an image of that size."""
        x = ((np.arange(width, dtype=np.float32) + 0.5) / width)[None, :]
        y = ((np.arange(height, dtype=np.float32) + 0.5) / height)[:, None]
        return cls(x, y, random)

    def texture(self, coarseness: float) -> Pixels:
        """Return (height, width) smooth noise of mean 0 and deviation 1; ``coarseness`` is in
        pixels.
        """
        white = self.random.standard_normal((self.y.shape[0], self.x.shape[1]), np.float32)
        rows, columns = (
            np.fft.fftfreq(white.shape[0])[:, None],
            np.fft.rfftfreq(white.shape[1])[None, :],
        )
        smooth = np.fft.irfft2(
            np.fft.rfft2(white) * np.exp(-2.0 * (np.pi * coarseness) ** 2 * (rows**2 + columns**2)),
            white.shape,
        )
        return np.asarray((smooth - smooth.mean()) / smooth.std())


def draw_phantom(
    size: tuple[int, int],
    anatomy: Anatomy,
    boxes: F64,
    labels: NDArray[np.integer],
    *,
    look: CentreLook,
    random: Generator,
) -> NDArray[np.uint8]:
    """Draw a chest with findings.

    Parameters
    ----------
    size
        Width and height in pixels.
    boxes
        (n, 4) corners of the findings in pixels.
    labels
        (n,) index into `anatomy.CLASSES`.

    Returns
    -------
    image
        (height, width) grey values.
    """
    canvas = Canvas.of(*size, random)
    scaled = np.asarray(boxes, np.float64).reshape(-1, 4) / np.tile(np.array(size, np.float64), 2)
    hearts = [_inside(box) for box, label in zip(scaled, labels) if label == CARDIOMEGALY]
    dry = np.ones((size[1], size[0]), np.float32)
    for box in scaled[np.asarray(labels) == EFFUSION]:
        dry = dry * (
            1.0 - 0.94 * _fluid(canvas, box, on_right=bool(box[[0, 2]].mean() > anatomy.spine))
        )
    density = _chest(canvas, anatomy, hearts[0] if hearts else anatomy.heart, dry)
    for box, label in zip(scaled, labels):
        if label not in (EFFUSION, CARDIOMEGALY):
            # On a film, dense over dense adds little: a finding behind the heart is hard to see.
            room = np.clip((0.80 - density) / 0.55, 0.10, 1.0)
            density = density + room * _round(canvas, box, lobed=label == MASS)
    return _develop(canvas, density, look)


def _soft(distance: Pixels, width: float) -> Pixels:
    """Return 1 where the distance to an edge is positive, else 0, smooth over ``width``."""
    return np.asarray(0.5 + 0.5 * np.tanh(distance * (1.0 / width)))


def _inside(box: F64) -> Ellipse:
    low, high = box[:2], box[2:]
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    return Ellipse(float(middle[0]), float(middle[1]), float(half[0]), float(half[1]))


def _disc(canvas: Canvas, ellipse: Ellipse, softness: float) -> Pixels:
    radius = np.hypot(
        (canvas.x - ellipse.x) / ellipse.across, (canvas.y - ellipse.y) / ellipse.along
    )
    return _soft(1.0 - radius, softness)


def _lung(canvas: Canvas, lung: Ellipse, on_right: bool) -> Pixels:
    """Return one lung: narrow at the top, a dome of the diaphragm at the foot."""
    v = (canvas.y - lung.y) / lung.along
    outward = (canvas.x - lung.x) / lung.across * (1.0 if on_right else -1.0)
    breadth = np.sqrt(np.clip(1.0 - np.clip(-v - 0.1, 0.0, None) ** 2.2 / 0.82, 0.0, None)) + 1e-6
    lateral = _soft(breadth * (0.86 + 0.16 * np.clip(v, -1.0, 1.0)) - outward, 0.05)
    medial = _soft(outward + 0.92 * breadth - 0.12 * np.clip(v, 0.0, None), 0.07)
    dome = 0.72 + 0.26 * np.clip(outward + 0.25, -1.0, 1.3) ** 2
    return np.asarray(lateral * medial * _soft(dome - v, 0.035) * _soft(v + 1.0, 0.05))


def _chest(canvas: Canvas, anatomy: Anatomy, heart: Ellipse, dry: Pixels) -> Pixels:
    """Return the density, 0 for air to 1 for bone; ``dry`` is 0 where fluid stands in the lungs."""
    x, y, spine = canvas.x, canvas.y, anatomy.spine
    shoulders = (
        anatomy.width
        + 0.10 * np.exp(-(((y - 0.14) / 0.12) ** 2))
        - 0.40 * np.exp(-((y / 0.07) ** 2))
    )
    body = _soft(shoulders - np.abs(x - spine), 0.03)
    flank = 1.0 - 0.35 * np.clip(np.abs(x - spine) / anatomy.width, 0.0, 1.0) ** 4
    lungs = [_lung(canvas, lung, bool(on_right)) for on_right, lung in enumerate(anatomy.lungs)]
    shadow = _heart(canvas, heart)
    vessels = _soft(
        0.050 + 0.02 * np.exp(-(((y - 0.32) / 0.08) ** 2)) - np.abs(x - spine - 0.008), 0.018
    )
    air = (
        np.maximum(*lungs)
        * dry
        * (1.0 - 0.95 * shadow)
        * (1.0 - 0.85 * vessels * _soft(0.75 - y, 0.05))
    )
    abdomen = _soft(y - 0.70, 0.04)
    density = flank * (0.60 + 0.05 * abdomen) - 0.40 * air + 0.065 * shadow * (1.0 - 0.55 * abdomen)
    density = density + 0.05 * vessels * (1.0 - abdomen) + _spine(canvas, spine)
    density = density - 0.10 * _soft(0.016 - np.abs(x - spine), 0.008) * _soft(
        0.30 - y, 0.03
    )  # the windpipe
    density = density + _ribs(canvas, anatomy) * (0.25 + 0.75 * air) + _clavicles(canvas, spine)
    return np.asarray(density * body + _markings(canvas, anatomy, air))


def _heart(canvas: Canvas, heart: Ellipse) -> Pixels:
    """Return the shadow of the heart: overlapping ellipses that together span its box."""
    across, along = heart.across, heart.along
    upper = Ellipse(heart.x - 0.28 * across, heart.y - 0.08 * along, 0.72 * across, 0.92 * along)
    lower = Ellipse(heart.x + 0.25 * across, heart.y + 0.24 * along, 0.75 * across, 0.76 * along)
    middle = Ellipse(heart.x + 0.02 * across, heart.y + 0.12 * along, 0.82 * across, 0.86 * along)
    return np.asarray(
        np.max([_disc(canvas, part, 0.08) for part in (upper, middle, lower)], axis=0)
    )


def _spine(canvas: Canvas, spine: float) -> Pixels:
    column = _soft(0.030 - np.abs(canvas.x - spine), 0.012)
    return np.asarray(0.07 * column * (0.75 + 0.25 * np.cos(2.0 * np.pi * canvas.y * 15.0)))


def _ribs(canvas: Canvas, anatomy: Anatomy) -> Pixels:
    """Return soft arcs that leave the spine, rise a little and fall towards the flank.

    Rib k runs at height ``first + k * apart``; solving that for k gives all ribs in one go.
    """
    outward = np.abs(canvas.x - anatomy.spine) * (1.0 / anatomy.width)
    fall = outward**2.4
    behind = _arcs(
        canvas.y, 0.13 - 0.10 * outward * (1.0 - outward) + 0.10 * fall, 0.068 + 0.022 * fall, RIBS
    )
    before = _arcs(canvas.y, 0.33 - 0.17 * (outward - 0.15), np.full_like(fall, 0.068), RIBS - 3)
    ribs = 0.075 * behind + 0.030 * before * _soft(outward - 0.35, 0.06)
    return np.asarray(ribs * _soft(outward - 0.10, 0.03) * _soft(0.93 - outward, 0.03))


def _arcs(y: Pixels, first: Pixels, apart: Pixels, number: int) -> Pixels:
    nearest = np.clip(np.round((y - first) / apart), 0, number - 1)
    return _band(y - first - nearest * apart, 0.0125)


def _band(distance: Pixels, half: float) -> Pixels:
    """Return a bone across its length: soft, with a slightly brighter rim."""
    across = np.abs(distance) * (1.0 / half)
    return np.asarray(_soft(1.0 - across, 0.35) * (0.8 + 0.4 * np.minimum(across * across, 1.0)))


def _clavicles(canvas: Canvas, spine: float) -> Pixels:
    outward = np.abs(canvas.x - spine)
    middle = 0.155 - 0.26 * (outward - 0.05) + 0.30 * (outward - 0.05) ** 2
    ends = _soft(outward - 0.045, 0.012) * _soft(0.40 - outward, 0.03)
    return np.asarray(0.11 * _band(canvas.y - middle, 0.014) * ends)


def _markings(canvas: Canvas, anatomy: Anatomy, air: Pixels) -> Pixels:
    """Return the fine drawing of the lungs: vessels that thin out from the hilum."""
    near = np.zeros_like(air)
    for lung in anatomy.lungs:
        hilum = Ellipse(0.55 * lung.x + 0.45 * anatomy.spine, lung.y + 0.02, 0.13, 0.20)
        near += np.exp(
            -(
                (canvas.x - hilum.x) ** 2 / hilum.across**2
                + (canvas.y - hilum.y) ** 2 / hilum.along**2
            )
        )
    threads = np.clip(1.0 - np.abs(canvas.texture(3.2)) / 0.35, 0.0, None)
    return np.asarray(air * (0.018 * canvas.texture(6.0) + near * (0.055 + 0.075 * threads)))


def _round(canvas: Canvas, box: F64, *, lobed: bool) -> Pixels:
    """Return a nodule (round) or a mass (lobed) that fills its box."""
    ellipse = _inside(box)
    u, v = (canvas.x - ellipse.x) / ellipse.across, (canvas.y - ellipse.y) / ellipse.along
    radius, angle = np.hypot(u, v), np.arctan2(v, u)
    phases = canvas.random.uniform(0.0, 2.0 * np.pi, 3)
    waves = sum(np.cos((k + 2) * angle + phase) / (k + 2) for k, phase in enumerate(phases))
    bumps, height, softness = (0.16, 0.30, 0.10) if lobed else (0.05, 0.27, 0.17)
    edge = 0.90 + bumps * waves
    dome = np.sqrt(np.clip(1.0 - 0.55 * np.clip(radius, 0.0, 1.0) ** 2, 0.0, 1.0))
    return np.asarray(height * _soft(edge - radius, softness) * dome)


def _fluid(canvas: Canvas, box: F64, *, on_right: bool) -> Pixels:
    """Return where fluid fills the foot of a lung; it climbs the chest wall."""
    across = (canvas.x - box[0]) / (box[2] - box[0])
    outward = np.clip(across if on_right else 1.0 - across, 0.0, 1.0)
    level = box[1] + (box[3] - box[1]) * 0.75 * (1.0 - outward**1.6)
    within = _soft(across + 0.03, 0.05) if on_right else _soft(1.03 - across, 0.05)
    return np.asarray(_soft(canvas.y - level, 0.018) * within)


def _develop(canvas: Canvas, density: Pixels, look: CentreLook) -> NDArray[np.uint8]:
    """Turn density into grey values: film curve, the centre's look, vignette, grain."""
    grey = 0.04 + 0.92 * np.clip(density, 0.0, 1.0) ** 0.9 * 1.15
    grey = 0.5 + look.contrast * (grey - 0.5) + look.brightness
    corner = (canvas.x - 0.5) ** 2 + (canvas.y - 0.5) ** 2
    grey = grey * (1.0 - look.vignette * corner * 2.0)
    grey = grey + look.noise * (0.7 * canvas.texture(0.6) + 0.5 * canvas.texture(9.0))
    return np.asarray(np.round(255.0 * np.clip(grey, 0.0, 1.0)), np.uint8)
