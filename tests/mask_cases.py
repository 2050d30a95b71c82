"""Random masks and rings of every awkward kind, for tests of run lengths and polygons."""

from __future__ import annotations

import numpy as np

from calipers.kernels import ragged, runs


def random_mask(rng: np.random.Generator, largest: int = 30) -> np.ndarray:
    """Noise, blocks, stripes, all or nothing, in a picture of random size."""
    h, w = rng.integers(1, largest, 2)
    kind = rng.integers(6)
    mask = np.zeros((h, w), np.bool_)
    if kind == 0:
        mask = rng.random((h, w)) < rng.random()
    elif kind == 1:
        mask[:] = True
    elif kind == 2:
        mask[:, :: int(rng.integers(1, 4))] = True
    elif kind == 3:
        mask[:: int(rng.integers(1, 4))] = True
    elif kind == 4:
        (top, bottom), (left, right) = (
            np.sort(rng.integers(0, h + 1, 2)),
            np.sort(rng.integers(0, w + 1, 2)),
        )
        mask[top:bottom, left:right] = True
    return mask


def random_ring(rng: np.random.Generator, w: int, h: int) -> np.ndarray:
    """Corners inside, outside, far away, on the grid, on halves and tenths; stars, rectangles,
    slivers, crossings.
    """
    k, kind = int(rng.integers(3, 12)), int(rng.integers(9))
    if kind == 0:
        return rng.uniform(0, 1, (k, 2)) * [w, h]
    if kind == 1:
        return np.round(rng.uniform(-0.5, 1.5, (k, 2)) * [w, h])
    if kind == 2:
        return rng.uniform(-2, 3, (k, 2)) * [w, h]
    if kind == 3:
        turn, reach = np.sort(rng.uniform(0, 2 * np.pi, k)), rng.uniform(1, max(4, h, w) / 2, k)
        return np.stack([w / 2 + reach * np.cos(turn), h / 2 + reach * np.sin(turn)], axis=1)
    if kind == 4:
        (x0, x1), (y0, y1) = np.sort(rng.uniform(0, w, 2)), np.sort(rng.uniform(0, h, 2))
        corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
        return corners if rng.random() < 0.5 else np.round(corners)
    if kind == 5:
        x = rng.uniform(0, w)
        return np.array([[x, 0], [x + 0.3, 0], [x + 0.3, h], [x, h]])
    if kind == 6:
        return np.round(rng.uniform(0, 1, (k, 2)) * [w, h] * 10) / 10
    if kind == 7:
        return rng.uniform(-1e4, 1e4, (k, 2))
    return np.round(rng.uniform(0, 1, (k, 2)) * [w, h] * 2) / 2


def flat(shapes: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (corners of each ring, all corners, rings of each object)."""
    rings = [ring for shape in shapes for ring in shape]
    corners = np.concatenate([np.zeros((0, 2)), *rings])
    objects = ragged.from_counts(np.array([len(shape) for shape in shapes], np.int64))
    return ragged.from_counts(np.array([len(ring) for ring in rings], np.int64)), corners, objects


def rows_from_columns(columns: runs.Runs, size: np.ndarray) -> runs.Runs:
    """Return runs along rows from runs down columns, in pictures of ``size`` width, height."""
    return runs.turned(*columns, size[:, ::-1])
