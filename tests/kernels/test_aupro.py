"""AUPRO against the curve drawn threshold by threshold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels.voxel_ranking import aupro
from reference import voxels as slow
from seeds import looped_seeds


def sample(rng: np.random.Generator, levels: int) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(rng.integers(2, 7, rng.integers(2, 4)))
    components = rng.choice([0, 0, 0, 0, 1, 5, 1000], shape)
    return rng.integers(0, levels, shape) / levels, components


@looped_seeds(120, default=40)
def test_area_equals_the_obvious_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [sample(rng, int(rng.choice([2, 5, 1000]))) for _ in range(rng.integers(1, 5))]
    scores, components = map(list, zip(*samples))
    limit = float(rng.choice([0.05, 0.3, 1.0]))
    expected = slow.aupro(scores, components, limit)
    assert aupro(scores, components, limit) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_hand_value() -> None:
    scores = np.array([[0.9, 0.8, 0.7, 0.6], [0.5, 0.4, 0.3, 0.2]])
    components = np.array([[1, 0, 2, 2], [0, 0, 0, 0]])
    # Overlap .5 at a rate of 0, 1 from 1/5 on (the second region comes in at a rate of 1/5
    # exactly).
    assert aupro(scores, components, 0.4) == pytest.approx((0.2 * 0.5 + 0.2 * 1) / 0.4, abs=1e-15)


def test_equal_scores_are_one_point_and_the_line_is_cut_at_the_limit() -> None:
    scores, components = np.full((2, 5), 0.5), np.zeros((2, 5), int)
    components[0, 0] = 1
    # A straight line from (0, 0) to (1, 1).
    assert aupro(scores, components, 0.3) == pytest.approx(0.15, abs=1e-15)


def test_small_and_large_regions_count_alike() -> None:
    scores, components = np.zeros((4, 10)), np.zeros((4, 10), int)
    components[0, :9], components[3, 9] = 1, 2
    scores[components == 1] = 1.0
    found = aupro(scores, components, 0.3)
    assert found == pytest.approx(0.5 + 0.5 * 0.15, abs=1e-12)


def test_one_sample_equals_a_list_of_one_and_numbers_are_per_sample() -> None:
    scores, components = sample(np.random.default_rng(1), 50)
    assert aupro(scores, components) == aupro([scores], [components])
    renamed = components * 3
    assert aupro([scores, scores], [components, components]) == aupro(
        [scores, scores], [components, renamed]
    )


def test_perfect_maps_score_one() -> None:
    components = np.array([[0, 1, 1], [0, 0, 2]])
    assert aupro((components > 0).astype(np.float32), components) == 1.0


def test_undefined_without_regions_or_without_anything_else() -> None:
    scores = np.array([[0.1, 0.9]])
    assert np.isnan(aupro(scores, np.zeros((1, 2), int)))
    assert np.isnan(aupro(scores, np.ones((1, 2), int)))
    assert np.isnan(aupro([], []))


@given(st.integers(0, 10**6))
def test_order_of_samples_flips_and_monotone_scales_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [sample(rng, 6) for _ in range(3)]
    scores, components = map(list, zip(*samples))
    expected = pytest.approx(aupro(scores, components), abs=1e-13, nan_ok=True)
    assert aupro(scores[::-1], components[::-1]) == expected
    assert aupro([s[::-1] for s in scores], [c[::-1] for c in components]) == expected
    assert aupro([s**3 for s in scores], components) == expected


def test_the_arrays_of_the_caller_are_left_alone() -> None:
    scores, components = sample(np.random.default_rng(2), 1000)
    before = scores.copy()
    aupro(scores, np.zeros_like(components))
    assert (scores == before).all()
