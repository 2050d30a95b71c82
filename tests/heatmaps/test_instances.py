"""Maps to instances: masks, boxes, scores, centroids."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.heatmaps.boxes import instances_from_map
from reference import heatmaps as slow
from seeds import looped


def dense(masks, k, shape):
    """Mask k as an array, run by run."""
    flat = np.zeros(int(np.prod(shape)), bool)
    for run in range(masks.offsets[k], masks.offsets[k + 1]):
        flat[masks.start[run] : masks.start[run] + masks.length[run]] = True
    return flat.reshape(shape)


def test_by_hand():
    values = np.array([[0.6, 0.0, 0.0], [0.0, 0.9, 0.5], [0.0, 0.0, 0.0]])
    found = instances_from_map(values)
    assert len(found) == 1
    assert found.boxes.tolist() == [[0.0, 0.0, 3.0, 2.0]]
    assert found.highest.tolist() == [0.9]
    np.testing.assert_allclose(found.mean, [2.0 / 3.0])
    np.testing.assert_allclose(
        found.centroids, [[(0.6 * 0.5 + 0.9 * 1.5 + 0.5 * 2.5) / 2, (0.3 + 1.4 * 1.5) / 2]]
    )
    assert (found.masks.start.tolist(), found.masks.length.tolist()) == ([0, 4], [1, 2])
    assert found.masks.size.tolist() == [[3, 3]]


@looped("seed", range(100))
def test_the_slow_twin_says_the_same(seed):
    random = np.random.default_rng(seed)
    d = 2 + seed % 2
    values = random.random(random.integers(1, 9 if d == 2 else 6, d)).round(2)
    connectivity = ["full", "edges", "faces"][seed % 3]
    grid = slow.as_grid(values)
    reach = {"faces": 1, "edges": 2, "full": d}[connectivity]
    twin = slow.components({place for place, value in grid.items() if value >= 0.6}, reach)
    found = instances_from_map(values, 0.6, connectivity)
    assert len(found) == len(twin)
    for k, part in enumerate(twin):
        assert {
            tuple(place) for place in np.argwhere(dense(found.masks, k, values.shape)).tolist()
        } == set(part)
        assert found.boxes[k].tolist() == slow.box(part)
        scores = np.array([grid[place] for place in part])
        centres = np.array(part)[:, ::-1] + 0.5
        np.testing.assert_allclose(found.highest[k], scores.max())
        np.testing.assert_allclose(found.mean[k], scores.mean(), atol=1e-12)
        np.testing.assert_allclose(
            found.centroids[k], np.average(centres, axis=0, weights=scores), atol=1e-12
        )


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_runs_never_cross_the_end_of_a_row(shape):
    found = instances_from_map(np.ones(shape))
    assert found.masks.length.tolist() == [5] * (int(np.prod(shape)) // 5)
    assert found.masks.voxels.tolist() == [int(np.prod(shape))]


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_nothing_above_the_threshold_is_no_object(shape):
    found = instances_from_map(np.zeros(shape))
    d = len(shape)
    assert len(found) == 0
    assert (found.boxes.shape, found.centroids.shape, found.masks.size.shape) == (
        (0, 2 * d),
        (0, d),
        (0, d),
    )
    assert (found.highest.shape, found.mean.shape) == ((0,), (0,))


def test_a_threshold_is_met_by_its_own_value_and_zero_is_strict():
    values = np.array([[0.0, 0.5, 0.49]])
    assert instances_from_map(values, 0.5).masks.voxels.tolist() == [1]
    assert instances_from_map(values, 0.0).masks.voxels.tolist() == [2]


def test_scores_that_cannot_be_weights_give_the_plain_centroid():
    assert instances_from_map(np.array([[0.0, 0.0]]), -1.0).centroids.tolist() == [[1.0, 0.5]]
    assert instances_from_map(np.array([[-0.5, 1.0]]), -1.0).centroids.tolist() == [[1.0, 0.5]]


def test_what_is_no_map_is_refused():
    for values, rule in (
        (np.zeros(3), "map-shape"),
        (np.array([[np.nan]]), "non-finite"),
        (np.array([["a"]]), "type"),
    ):
        with pytest.raises(cal.InputError) as caught:
            instances_from_map(values)
        assert caught.value.rule == rule
    with pytest.raises(cal.UsageError):
        instances_from_map(np.zeros((2, 2)), float("nan"))
    with pytest.raises(cal.UsageError, match="full"):
        instances_from_map(np.zeros((2, 2)), connectivity="ful")
