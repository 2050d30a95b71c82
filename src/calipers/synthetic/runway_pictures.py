# SPDX-License-Identifier: Apache-2.0
"""Small pictures of runways: sky, ground, a runway with its centre line, spots on the ground."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.synthetic.shifts import eight_bits, shifted

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
Flags = NDArray[np.bool_]

SIZE = (160, 120)  # width, height
BAND = 16  # rows at the bottom that no runway reaches: what lies there is no runway
GROUND_SPOTS = 6  # places in the band for things that are mistaken for one
SPOT = (14.0, 10.0)
SKY = {"sky": np.array([0.95, 0.62, 0.35])}  # an evening
USUAL_SKY = np.array([0.55, 0.72, 0.92])
GROUND = {"sky": np.array([0.50, 0.38, 0.22])}
USUAL_GROUND = np.array([0.28, 0.42, 0.22])
ASPHALT, PAINT = np.array([0.42, 0.42, 0.44]), np.array([0.92, 0.92, 0.90])


def spot_box(spot: int) -> F64:
    """Return the (4,) box of a spot in the band at the bottom."""
    x = 4.0 + spot * (SIZE[0] - 8.0) / GROUND_SPOTS
    y = SIZE[1] - BAND + 3.0
    return np.array([x, y, x + SPOT[0], y + SPOT[1]])


def draw_runway(corners: F64, shift: str, random: Generator) -> U8:
    """Return a (120, 160, 3) picture.

    Parameters
    ----------
    corners
        (4, 2) near left, near right, far right, far left.
    shift
        ``sky`` changes the colours of sky and ground, ``taxiway`` adds a strip on the first spot,
        `shifted` does the rest.
    """
    width, height = SIZE
    y, x = np.mgrid[:height, :width] + 0.5
    horizon = float(corners[:, 1].min()) - 4.0
    depth = np.clip((y - horizon) / height, 0.0, 1.0)[..., None]
    sky = (
        SKY.get(shift, USUAL_SKY)
        * (1.0 - 0.25 * np.clip((horizon - y) / height, 0.0, 1.0))[..., None]
    )
    ground = GROUND.get(shift, USUAL_GROUND) * (0.8 + 0.4 * depth)
    texture = random.normal(0.0, 0.035, (height, width, 1)) * (0.3 + depth)
    picture = np.where((y < horizon)[..., None], sky, ground + texture)
    if shift == "taxiway":
        x0, y0, x1, y1 = spot_box(0)
        strip = [[x0, y1], [x1, y1], [x1 - 4.0, y0], [x0 + 4.0, y0]]
        picture[_inside(np.array(strip), x, y)] = ASPHALT * 1.1
    picture[_inside(corners, x, y)] = ASPHALT
    picture[_inside(_centre_line(corners), x, y)] = PAINT
    picture = picture * random.uniform(0.94, 1.06) + random.normal(0.0, 0.01, picture.shape)
    return eight_bits(shifted(picture, shift, random))


def _centre_line(corners: F64) -> F64:
    """Return the corners of a strip along the middle, a twelfth as wide as the runway."""
    near, far = corners[:2], corners[2:]
    parts = [
        near.mean(axis=0) + (near - near.mean(axis=0)) / 12.0,
        far.mean(axis=0) + (far - far.mean(axis=0)) / 12.0,
    ]
    return np.concatenate(parts)


def _inside(corners: F64, x: F64, y: F64) -> Flags:
    """Return which points lie in a convex polygon."""
    following = np.roll(corners, -1, axis=0)
    sides = [
        (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        for (ax, ay), (bx, by) in zip(corners, following)
    ]
    turns = np.stack(sides)
    return np.asarray((turns >= 0).all(axis=0) | (turns <= 0).all(axis=0))
