# SPDX-License-Identifier: Apache-2.0
"""Notes on predictions that are allowed but unusual, for the report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.tables.boxes import to_corners
from calipers.tables.checks import outside_image
from calipers.tables.delivery import BLOCK, Delivery

MANY = 0.5  # share from which tied scores and silent images are noted


def prediction_notes(delivery: Delivery, sizes: NDArray[np.float64]) -> list[str]:
    """Return notes on ties, boxes outside their image, and images without predictions."""
    return [*_ties(delivery), *_outside(delivery, sizes), *_silent_images(delivery, len(sizes))]


def _ties(delivery: Delivery) -> list[str]:
    score, n = delivery.score, len(delivery)
    if score is None or n < 2:
        return []
    sorted_scores = np.sort(score)
    same = sorted_scores[1:] == sorted_scores[:-1]
    tied = _count_tied(same)
    if tied == n and sorted_scores[0] == sorted_scores[-1]:
        return [f"all {n} scores are equal: average precision depends on the order of the records"]
    if tied > MANY * n:
        return [
            f"{tied} of {n} scores are tied: average precision depends on the order of the records"
        ]
    return []


def _count_tied(same: NDArray[np.bool_]) -> int:
    """Count the entries that equal a neighbour, from the comparisons of sorted neighbours."""
    edge = np.zeros(1, np.bool_)
    return int((np.concatenate([edge, same]) | np.concatenate([same, edge])).sum())


def _outside(delivery: Delivery, sizes: NDArray[np.float64]) -> list[str]:
    n = 0
    for start in range(0, len(delivery), BLOCK):
        block = slice(start, start + BLOCK)
        per_box = sizes[delivery.image[block]]
        corners, _ = to_corners(delivery.boxes[block], delivery.box_format, per_box)
        n += int(outside_image(corners, per_box).sum())
    if not n:
        return []
    total = len(delivery)
    return [f"{n} of {total} predictions reach outside their image; they are kept as they are"]


def _silent_images(delivery: Delivery, n_images: int) -> list[str]:
    silent = n_images - int((np.bincount(delivery.image, minlength=n_images) > 0).sum())
    return [f"{silent} of {n_images} images without prediction"] if silent > MANY * n_images else []
