"""Corruptions of place and shape: what moves, what stays, and how the draws are distributed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from oracle_cases import centres, of_boxes, one_box_each, said, sides

MANY = 20_000
UNLIKELY = 1e-4  # a p value below it would be a bug, not chance: seeds are fixed
DIMENSIONS = pytest.mark.parametrize("dimensions", [2, 3])


def normal(values: np.ndarray, sigma: float) -> bool:
    return bool(stats.kstest(values.ravel() / sigma, "norm").pvalue > UNLIKELY)


@DIMENSIONS
def test_position_noise_is_normal_in_units_of_the_sides(dimensions: int) -> None:
    cohort = one_box_each(MANY, dimensions=dimensions)
    found = said(cal.corrupt(cohort, "position-noise", sigma=0.5))
    offset = (centres(found) - centres(cohort.references)) / sides(cohort.references)
    assert offset.shape == (MANY, dimensions)
    assert normal(offset, 0.5)
    assert np.abs(np.corrcoef(offset.T) - np.eye(dimensions)).max() < 4 / np.sqrt(MANY)
    np.testing.assert_allclose(sides(found), sides(cohort.references), rtol=1e-12)


@DIMENSIONS
def test_position_bias_has_one_distance_and_every_direction(dimensions: int) -> None:
    cohort = one_box_each(MANY, dimensions=dimensions)
    found = said(cal.corrupt(cohort, "position-bias", bias=0.7))
    offset = (centres(found) - centres(cohort.references)) / sides(cohort.references)
    np.testing.assert_allclose(np.linalg.norm(offset, axis=1), 0.7, rtol=1e-9)
    if dimensions == 2:
        angle = np.arctan2(offset[:, 1], offset[:, 0]) / (2 * np.pi) % 1.0
        assert stats.kstest(angle, "uniform").pvalue > UNLIKELY
    else:  # Archimedes: every coordinate of a point on a sphere is uniform
        assert (
            min(stats.kstest(axis / 0.7, "uniform", (-1, 2)).pvalue for axis in offset.T) > UNLIKELY
        )


def test_literal_bias_divides_by_the_side_in_fractions_of_the_image() -> None:
    cohort = of_boxes(
        [([10, 10, 30, 20], [0])]
    )  # sides 20 of 100 and 10 of 50: both 0.2 of the image
    found = said(cal.corrupt(cohort, "position-bias", bias=0.1, literal=True))
    offset = (centres(found) - centres(cohort.references))[0]
    assert np.hypot(*(offset / [100.0, 50.0])) == pytest.approx(0.1 / 0.2)
    plain = said(cal.corrupt(cohort, "position-bias", bias=0.1))
    other = (centres(plain) - centres(cohort.references))[0]
    assert np.hypot(*(other / [20.0, 10.0])) == pytest.approx(0.1)


@DIMENSIONS
def test_shape_noise_gives_every_side_a_log_normal_factor_of_its_own(dimensions: int) -> None:
    cohort = one_box_each(MANY, dimensions=dimensions)
    found = said(cal.corrupt(cohort, "shape-noise", sigma=0.3))
    factor = np.log(sides(found) / sides(cohort.references))
    assert normal(factor, 0.3)
    assert np.abs(np.corrcoef(factor.T) - np.eye(dimensions)).max() < 4 / np.sqrt(MANY)
    np.testing.assert_allclose(centres(found), centres(cohort.references), atol=1e-9)


@DIMENSIONS
def test_size_noise_keeps_the_proportions(dimensions: int) -> None:
    cohort = one_box_each(MANY, dimensions=dimensions)
    found = said(cal.corrupt(cohort, "size-noise", sigma=0.3))
    factor = sides(found) / sides(cohort.references)
    np.testing.assert_allclose(factor, factor[:, :1].repeat(dimensions, axis=1), rtol=1e-9)
    assert normal(np.log(factor[:, 0]), 0.3)
    np.testing.assert_allclose(centres(found), centres(cohort.references), atol=1e-9)


def test_aspect_noise_moves_the_logarithm_of_the_aspect_and_keeps_the_area() -> None:
    cohort = one_box_each(MANY)
    found = said(cal.corrupt(cohort, "aspect-noise", sigma=0.4))
    was, now = sides(cohort.references), sides(found)
    np.testing.assert_allclose(now.prod(axis=1), was.prod(axis=1), rtol=1e-9)
    assert normal(np.log(now[:, 0] / now[:, 1]) - np.log(was[:, 0] / was[:, 1]), 0.4)
    np.testing.assert_allclose(centres(found), centres(cohort.references), atol=1e-9)


def test_aspect_noise_keeps_the_volume_and_treats_the_axes_alike() -> None:
    cohort = one_box_each(MANY, dimensions=3)
    found = said(cal.corrupt(cohort, "aspect-noise", sigma=0.4))
    offset = np.log(sides(found) / sides(cohort.references))
    np.testing.assert_allclose(offset.sum(axis=1), 0.0, atol=1e-9)
    # z - mean(z) of three normals has the variance 2/3 of one.
    assert all(normal(axis, 0.4 * np.sqrt(2 / 3)) for axis in offset.T)


def test_box_overprediction_draws_geometric_numbers_of_copies() -> None:
    cohort = one_box_each(MANY)
    for mean in (0.5, 2.0):
        found = said(cal.corrupt(cohort, "box-overprediction", mean=mean, noise=0.0))
        copies = np.bincount(found.image, minlength=MANY) - 1
        assert copies.min() == 0
        p = 1 / (1 + mean)
        assert abs(copies.mean() - mean) < 4 * np.sqrt((1 - p) / p**2 / MANY)
        seen = np.array([(copies == k).mean() for k in range(6)])
        np.testing.assert_allclose(seen, p * (1 - p) ** np.arange(6), atol=4 * np.sqrt(0.25 / MANY))
        np.testing.assert_allclose(found.boxes, cohort.references.boxes[found.image], atol=1e-9)


def test_all_copies_move_the_first_one_too() -> None:
    cohort = one_box_each(MANY)
    found = said(cal.corrupt(cohort, "box-overprediction", mean=1.0))
    origin = cohort.references.boxes[found.image]
    low, high = np.split(origin, 2, axis=1)
    assert normal((centres(found) - (low + high) / 2) / (high - low), 0.5)
    np.testing.assert_array_equal(found.label, cohort.references.label[found.image])


@pytest.mark.parametrize("kind", ["position-noise", "shape-noise", "size-noise", "aspect-noise"])
def test_without_noise_nothing_moves(kind: str) -> None:
    cohort = one_box_each(50)
    np.testing.assert_allclose(
        said(cal.corrupt(cohort, kind, sigma=0.0)).boxes,
        cohort.references.boxes,
        rtol=1e-12,
        atol=1e-9,
    )
