"""Volumes made on the spot, and how a file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.readers.volumes import open_volume

OBLIQUE = np.array(
    [[0.0, 0.3, 2.0, 10.0], [1.5, 0.0, 0.0, -20.0], [0.0, -3.0, 0.2, 5.0], [0.0, 0.0, 0.0, 1.0]]
)


def labels(shape: tuple[int, ...] = (4, 5, 6), kind: Any = np.uint8) -> np.ndarray:
    """A block of ones off the centre: no flip or transposition leaves it where it is."""
    found = np.zeros(shape, kind)
    found[tuple(slice(1, 2 + k) for k in range(len(shape)))] = 1
    return found


def noise(shape: tuple[int, ...] = (4, 5, 6), kind: Any = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(kind).kind == "f":
        return rng.random(shape).astype(kind)
    return rng.integers(0, np.iinfo(kind).max, shape, dtype=kind)


def refused(path: Path, **options: Any) -> InputError:
    """Return the error with which a file is refused, when it is opened or when it is read."""
    with pytest.raises(InputError) as caught:
        open_volume(path, **options).read()
    assert caught.value.file == str(path)
    return caught.value
