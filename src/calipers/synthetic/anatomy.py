# SPDX-License-Identifier: Apache-2.0
"""A schematic chest: where lungs and heart are, and where each kind of finding occurs.

All lengths are fractions of the image width (x) and height (y), so that one patient fits images of
any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

F64 = NDArray[np.float64]

CLASSES = ("nodule", "mass", "effusion", "cardiomegaly")
NODULE, MASS, EFFUSION, CARDIOMEGALY = range(len(CLASSES))


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An upright ellipse: centre and half axes."""

    x: float
    y: float
    across: float
    along: float

    @property
    def box(self) -> F64:
        """(4,) corners of the box around it."""
        return np.array(
            [self.x - self.across, self.y - self.along, self.x + self.across, self.y + self.along],
            np.float64,
        )


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The chest of one patient."""

    lungs: tuple[Ellipse, Ellipse]  # on the left and on the right of the image
    heart: Ellipse
    spine: float  # x of the spine
    width: float  # half width of the body

    def lung_at(self, x: float) -> Ellipse:
        """Return the lung on whose side of the spine x lies."""
        return self.lungs[int(x > self.spine)]


def stream(seed: int, *names: str) -> Generator:
    """Return the random stream of a seed and names, independent of any other stream."""
    return Generator(Philox(key=np.array([seed, crc32("/".join(names).encode())], np.uint64)))


def patient_anatomy(seed: int, patient: str) -> Anatomy:
    """Return the chest of a patient: the same for all images of that patient."""
    random = stream(seed, "anatomy", patient)
    spine = 0.5 + random.normal(0.0, 0.008)
    build = random.normal(1.0, 0.035)
    lungs = []
    for side, lift in ((-1, 0.0), (1, 0.012)):
        y = 0.43 + random.normal(0.0, 0.01) + lift
        along = 0.305 + random.normal(0.0, 0.01)
        lungs.append(Ellipse(spine + side * 0.205 * build, y, 0.165 * build, along))
    heart = Ellipse(spine + 0.045, 0.60, 0.145 * build, 0.13 + random.normal(0.0, 0.006))
    return Anatomy((lungs[0], lungs[1]), heart, spine, 0.455 * build)


def place(kind: int, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """Return a (4,) box, in pixels, where a finding of that class could be.

    Parameters
    ----------
    kind
        Index into `CLASSES`.
    size
        (2,) width and height of the image in pixels.
    """
    if kind == CARDIOMEGALY:
        box = _enlarged_heart(anatomy, random).box
    elif kind == EFFUSION:
        box = _effusion(anatomy, random)
    else:
        box = _round_finding(kind, anatomy, size, random)
    return clip(box * np.tile(size, 2), size)


def clip(box: F64, size: F64) -> F64:
    """Return the part of a box inside its image, at least two pixels wide and high."""
    low = np.clip(box[:2], 0.0, size - 2.0)
    high = np.clip(box[2:], low + 2.0, size)
    return np.concatenate([low, high])


def _enlarged_heart(anatomy: Anatomy, random: Generator) -> Ellipse:
    across, along = random.uniform(0.205, 0.245), random.uniform(0.17, 0.195)
    return Ellipse(
        anatomy.spine + 0.05 + random.normal(0.0, 0.01),
        0.60 + random.normal(0.0, 0.01),
        across,
        along,
    )


def _effusion(anatomy: Anatomy, random: Generator) -> F64:
    """A basin at the outer foot of one lung."""
    side = int(random.integers(2))
    lung = anatomy.lungs[side]
    across, height = random.uniform(1.1, 1.6) * lung.across, random.uniform(0.15, 0.34)
    base = lung.y + 0.93 * lung.along
    outer = lung.x + (1.02 if side else -1.02) * lung.across
    x0, x1 = (outer - across, outer) if side else (outer, outer + across)
    return np.array([x0, base - height, x1, base], np.float64)


def _round_finding(kind: int, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """A nodule or a mass somewhere in a lung."""
    side = int(random.integers(2))
    lung = anatomy.lungs[side]
    angle, radius = (
        random.uniform(0.0, 2.0 * np.pi),
        np.sqrt(random.uniform(0.0, 0.60 if kind == NODULE else 0.30)),
    )
    x = lung.x + (radius * np.cos(angle) + (0.12 if side else -0.12)) * lung.across
    y = lung.y - 0.05 + radius * np.sin(angle) * lung.along
    pixels = random.uniform(9.0, 21.0) if kind == NODULE else random.uniform(39.0, 62.0)
    half = pixels / 256.0 * size.min() / 2.0 / size * random.uniform(0.88, 1.12, 2)
    return np.array([x - half[0], y - half[1], x + half[0], y + half[1]], np.float64)
