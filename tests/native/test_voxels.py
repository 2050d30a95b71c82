"""What the compiled voxel kernels refuse: buffers whose lengths do not fit each other, arguments
that are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.kernels import route
from native.buffers import taken_at_other_lengths

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")


def calls(kind: type) -> dict[str, tuple[Any, ...]]:
    """Arguments that fit, for every kernel."""
    wide, bins = kind is np.float64, 1 << 16
    scores, positive = np.linspace(0, 1, 7, dtype=kind), np.array([1, 0, 0, 1, 0, 0, 0], np.uint8)
    counts = [np.zeros(bins, np.int64) for _ in range(2)]
    extremes = [np.zeros(bins) for _ in range(2)]
    sides = np.linspace(0, 1, 2, dtype=kind), np.linspace(0, 1, 5, dtype=kind)
    offsets = np.array([0, 2, 2]), np.array([0, 0, 5])
    found = [np.zeros(2, np.int64) for _ in range(3)] + [np.zeros(2) for _ in range(2)]
    return {
        "voxel_bins": (scores, wide, np.zeros(7, np.int32), 1),
        "voxel_histogram": (scores, wide, positive, *counts, *extremes, 1),
        "voxel_split": (scores, wide, positive, np.zeros(3, kind), np.zeros(6, kind)),
        "voxel_walk": (*sides, wide, *offsets, *found, 1),
        "voxel_pooled": (
            np.ones((2, 3)),
            np.ones((2, 3)),
            np.ones(3, np.uint8),
            2,
            np.array([0.05]),
            np.zeros((9, 2)),
            1,
        ),
    }


KERNELS = tuple(calls(np.float64))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_a_short_or_long_buffer_is_refused(name: str, kind: type) -> None:
    assert taken_at_other_lengths(name, calls(kind)[name]) == []


@pytest.mark.parametrize("name", KERNELS[:-1])
def test_the_other_precision_is_refused(name: str) -> None:
    arguments = list(calls(np.float32)[name])
    place = next(k for k, argument in enumerate(arguments) if isinstance(argument, bool))
    arguments[place] = True
    with pytest.raises(ValueError, match="lengths do not fit"):
        getattr(route.native(), name)(*arguments)


def test_a_mask_with_more_voxels_than_room_is_refused() -> None:
    scores, wide, positive, *sides = calls(np.float64)["voxel_split"]
    with pytest.raises(ValueError, match="lengths do not fit"):
        route.native().voxel_split(scores, wide, np.ones_like(positive), *sides)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", KERNELS)
def test_a_missing_argument_is_an_error_of_python(name: str) -> None:
    with pytest.raises(IndexError):
        getattr(route.native(), name)(*calls(np.float64)[name][:-1])
