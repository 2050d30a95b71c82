"""Linear interpolation with outer edges aligned."""

from __future__ import annotations

import numpy as np

from calipers.heatmaps.boxes import resample
from reference import heatmaps as slow
from seeds import looped


def test_two_pixels_become_four_by_hand():
    # New centres lie at -0.25, 0.25, 0.75 and 1.25 of the old grid; what is outside takes the pixel
    # at the edge.
    np.testing.assert_allclose(resample(np.array([[0.0, 1.0]]), (1, 4)), [[0.0, 0.25, 0.75, 1.0]])


def test_three_pixels_become_two_by_hand():
    np.testing.assert_allclose(resample(np.array([[0.0, 1.0, 5.0]]), (1, 2)), [[0.25, 4.0]])


def test_a_plane_stays_a_plane_away_from_the_edges():
    y, x = np.mgrid[:8, :8] + 0.5
    found = resample(2.0 * x - 3.0 * y, (32, 16))
    new_y, new_x = (np.arange(32) + 0.5) / 4.0, (np.arange(16) + 0.5) / 2.0
    plane = 2.0 * new_x[None, :] - 3.0 * new_y[:, None]
    np.testing.assert_allclose(found[2:-2, 1:-1], plane[2:-2, 1:-1], atol=1e-12)


@looped("seed", range(60))
def test_the_slow_twin_says_the_same(seed):
    random = np.random.default_rng(seed)
    d = 2 + seed % 2
    values = random.normal(size=random.integers(1, 6, d))
    shape = tuple(random.integers(1, 9, d).tolist())
    twin = slow.resampled(slow.as_grid(values), shape)
    found = resample(values, shape)
    assert found.shape == shape
    np.testing.assert_allclose(
        found, np.array([twin[place] for place in np.ndindex(*shape)]).reshape(shape), atol=1e-12
    )


def test_the_same_shape_and_constant_maps_keep_every_bit():
    values = np.random.default_rng(0).normal(size=(5, 7))
    assert resample(values, (5, 7)) is values
    assert (resample(np.full((3, 4), 0.1), (31, 17)) == 0.1).all()


@looped("seed", range(10))
def test_flips_and_swapped_axes_commute_with_it(seed):
    random = np.random.default_rng(seed)
    values, shape = random.random((4, 6)), (9, 11)
    found = resample(values, shape)
    np.testing.assert_allclose(resample(values[::-1, ::-1], shape), found[::-1, ::-1], atol=1e-12)
    np.testing.assert_allclose(resample(values.T, shape[::-1]), found.T, atol=1e-12)


def test_no_value_leaves_the_range_of_the_map():
    values = np.random.default_rng(1).random((6, 6))
    found = resample(values, (50, 70))
    assert values.min() <= found.min()
    assert found.max() <= values.max()
