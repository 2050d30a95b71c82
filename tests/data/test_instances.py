"""Objects of a map whose masks are known: their place and their scores."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.maps import instances_of, measured
from calipers.data.masks import Masks, no_masks

VALUES = np.array([[0.2, 0.6, 0.0, -0.5], [0.0, 0.0, 0.0, 1.0]])
LABELS = np.array([[1, 1, 2, 3], [0, 0, 2, 3]])


def test_by_hand() -> None:
    found = measured(VALUES, Masks.from_labels(LABELS))
    assert found.highest.tolist() == [0.6, 0.0, 1.0]
    assert found.mean == pytest.approx([0.4, 0.0, 0.25])
    assert found.boxes.tolist() == [[0, 0, 2, 1], [2, 0, 3, 2], [3, 0, 4, 2]]
    # Weighted by the values; where their sum is 0 or one is negative, the middle of the voxels.
    assert found.centroids == pytest.approx(
        np.array([[(0.2 * 0.5 + 0.6 * 1.5) / 0.8, 0.5], [2.5, 1.0], [3.5, 1.0]])
    )


@pytest.mark.parametrize("dimensions", [2, 3])
def test_no_mask_gives_empty_columns(dimensions: int) -> None:
    found = measured(np.ones((2,) * dimensions), no_masks(dimensions))
    assert (len(found), found.boxes.shape, found.centroids.shape) == (
        0,
        (0, 2 * dimensions),
        (0, dimensions),
    )
    assert len(found.highest) == len(found.mean) == 0


def test_components_are_measured_like_any_masks() -> None:
    values = np.random.default_rng(0).random((9, 9))
    found = instances_of(values, values > 0.7, "faces")
    again = measured(values, Masks.from_components(values > 0.7, "faces"))
    assert found.centroids.tolist() == again.centroids.tolist()
    assert found.mean.tolist() == again.mean.tolist()
