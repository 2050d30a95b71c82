# SPDX-License-Identifier: Apache-2.0
"""Corruptions of place and shape (Meissen et al. 2023, appendix A), every box by itself."""

from __future__ import annotations

import numpy as np

from calipers.oracles.drawn import F64, CentredBoxes, move_boxes, reshape_boxes
from calipers.tables import Cohort

Random = np.random.Generator


def position_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Move the centre by a normal offset, along every axis with a standard deviation of ``sigma``
    sides.
    """
    return move_boxes(
        boxes, boxes.centre + sigma * boxes.side * random.standard_normal(boxes.centre.shape)
    )


def position_bias(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, bias: float, literal: bool = False
) -> CentredBoxes:
    """Move the centre by ``bias`` sides into a random direction.

    The paper prints a division by the side, which contradicts its own figure; ``literal`` does
    that, in fractions of the image.
    """
    step = bias * _directions(boxes, random)
    if not literal:
        return move_boxes(boxes, boxes.centre + step * boxes.side)
    size = cohort.images.size[boxes.image]
    return move_boxes(boxes, boxes.centre + step / (boxes.side / size) * size)


def _directions(boxes: CentredBoxes, random: Random) -> F64:
    """Return (n, d) vectors of length 1, in every direction alike."""
    if boxes.centre.shape[1] == 2:
        angle = random.random(len(boxes)) * (2.0 * np.pi)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vectors = random.standard_normal(boxes.centre.shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def shape_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Multiply every side by a log-normal factor of its own, ``ln f ~ N(0, sigma^2)``."""
    return reshape_boxes(
        boxes, boxes.side * np.exp(sigma * random.standard_normal(boxes.side.shape))
    )


def size_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Multiply all sides by one log-normal factor, ``ln f ~ N(0, sigma^2)``."""
    return reshape_boxes(
        boxes, boxes.side * np.exp(sigma * random.standard_normal((len(boxes), 1)))
    )


def aspect_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Change the aspect, ``ln a' ~ N(ln a, sigma^2)`` with a = width / height, and keep the area.

    In 3D the logarithms of the sides move by normal offsets whose sum is taken out, so that the
    volume stays.
    """
    if boxes.side.shape[1] == 2:
        half = 0.5 * sigma * random.standard_normal(len(boxes))
        return reshape_boxes(boxes, boxes.side * np.exp(np.stack([half, -half], axis=1)))
    offset = sigma * random.standard_normal(boxes.side.shape)
    return reshape_boxes(boxes, boxes.side * np.exp(offset - offset.mean(axis=1, keepdims=True)))


def box_overprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, mean: float, noise: float = 0.5
) -> CentredBoxes:
    """Add D copies of every box, geometric on 0, 1, ... with that mean, then move all by position
    noise.
    """
    copies = random.geometric(1.0 / (1.0 + mean), len(boxes)) - 1
    repeated = boxes.rows(np.repeat(np.arange(len(boxes)), 1 + copies))
    return position_noise(repeated, cohort, random, sigma=noise)
