"""Discs and spheres: volumes that are known, places that never touch, maps in [0, 1]."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from calipers.errors import UsageError
from calipers.synthetic.volumes import disc, labelled, scatter, soft_map
from seeds import looped


def test_a_disc_by_hand():
    assert disc((3, 3), (1.5, 1.5), 1.0).astype(int).tolist() == [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    assert disc((2, 4), (3.5, 0.5), 0.0).sum() == 1
    assert disc((2, 4), (3.0, 1.0), 0.5).sum() == 0


@pytest.mark.parametrize(
    ("shape", "volume"), [((101, 101), math.pi * 40**2), ((101,) * 3, 4 / 3 * math.pi * 40**3)]
)
def test_the_volume_is_that_of_geometry(shape, volume):
    mask = disc(shape, (50.5,) * len(shape), 40.0)
    assert abs(mask.sum() / volume - 1) < 0.003


def test_centres_are_x_first_and_arrays_are_x_last():
    assert np.argwhere(disc((3, 4, 5), (4.5, 2.5, 1.5), 0.1)).tolist() == [[1, 2, 4]]


def test_a_spacing_makes_spheres_in_millimetres():
    mask = disc((40, 40, 40), (20.5, 20.5, 20.5), 10.0, spacing=(1.0, 1.0, 2.0))
    extent = [len(np.flatnonzero(mask.any(axis=axes))) for axes in ((1, 2), (0, 2), (0, 1))]
    assert extent == [11, 21, 21]


def test_a_disc_may_leave_the_grid():
    assert disc((4, 4), (-10.0, 2.0), 3.0).sum() == 0
    assert disc((4, 4), (30.0, 2.0), 3.0).sum() == 0
    assert 0 < disc((4, 4), (0.0, 2.0), 2.0).sum() < 8


@pytest.mark.parametrize("shape", [(80, 100), (40, 50, 60)])
@looped("seed", range(10))
def test_scattered_discs_never_touch(shape, seed):
    discs = scatter(6, shape, [9, 3, 3, 5, 3, 7], seed, gap=2.0)
    assert [one.radius for one in discs] == [9, 3, 3, 5, 3, 7]
    labels = labelled(discs, shape)
    _, n = ndimage.label(labels > 0, np.ones((3,) * len(shape)))
    assert n == 6
    assert sorted(np.unique(labels)) == list(range(7))
    for k, one in enumerate(discs, start=1):
        assert (labels == k).sum() == one.mask(shape).sum()
        assert all(one.radius <= c <= n - one.radius for c, n in zip(one.centre, shape[::-1]))


def test_the_seed_decides():
    assert scatter(5, (50, 50), 3, seed=1) == scatter(5, (50, 50), 3, seed=1)
    assert scatter(5, (50, 50), 3, seed=1) != scatter(5, (50, 50), 3, seed=2)


def test_what_does_not_fit_is_an_error():
    for n, radii in ((1, 30), (200, 5), (2, [1, 2, 3])):
        with pytest.raises(UsageError):
            scatter(n, (50, 50), radii)
    with pytest.raises(UsageError):
        disc((4, 4), (1, 1, 1), 1)


def test_soft_maps():
    mask = disc((30, 30), (15, 15), 8)
    np.testing.assert_array_equal(soft_map(mask, 0.0), mask)
    soft = soft_map(mask, 2.0, 0.1, seed=3)
    assert (soft.dtype, soft.min() >= 0.0, soft.max() <= 1.0) == (np.float32, True, True)
    assert soft[mask].mean() > 0.7 > 0.2 > soft[~mask].mean()
    np.testing.assert_array_equal(soft, soft_map(mask, 2.0, 0.1, seed=3))
    assert (soft != soft_map(mask, 2.0, 0.1, seed=4)).any()
