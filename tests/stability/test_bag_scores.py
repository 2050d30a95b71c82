"""Pooling operators: vectors, identities and limits, and the versions for known instances."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.stability import bag_scores as pooling

P = np.array([[0.2, 0.9, 0.5, 0.0], [0.1, 0.1, 0.1, 0.1]])
S = np.array([[False, True, True, False], [True, False, False, False]])


def test_256_certain_patches() -> None:
    assert pooling.noisy_or(np.ones(256), 0.98) == pytest.approx(0.9943261823, abs=1e-10)
    assert pooling.noisy_or(np.zeros(256), 0.98) == 0
    assert pooling.noisy_or(np.ones(256), 0.0) == 1


def test_operators_by_hand() -> None:
    assert pooling.maximum(P).tolist() == [0.9, 0.1]
    assert pooling.mean(P).tolist() == pytest.approx([0.4, 0.1])
    assert pooling.top_mean(P, 2).tolist() == pytest.approx([0.7, 0.1])
    assert pooling.noisy_or(P, 0.0).tolist() == pytest.approx([1 - 0.8 * 0.1 * 0.5, 1 - 0.9**4])
    expected = np.log(np.exp(3 * P).mean(axis=1)) / 3
    assert pooling.log_mean_exp(P, 3.0) == pytest.approx(expected)


def test_known_instances_by_hand() -> None:
    first = [0.8, 0.9, 0.5, 1.0]  # p where known, 1 - p elsewhere
    assert pooling.agreeing(P, S)[0].tolist() == pytest.approx(first)
    assert pooling.known_maximum(P, S).tolist() == [0.9, 0.1]
    assert pooling.known_mean(P, S)[0] == pytest.approx(np.mean(first))
    assert pooling.known_noisy_or(P, S, 0.0)[0] == pytest.approx(np.prod(first))
    rescaled = 0.98 + 0.02 * np.array(first)
    assert pooling.known_noisy_or(P, S, 0.98)[0] == pytest.approx(np.prod(rescaled))
    expected = np.log(np.exp(10 * np.array(first)).mean()) / 10
    assert pooling.known_log_mean_exp(P, S, 10.0)[0] == pytest.approx(expected)
    assert pooling.known_top_mean(P, S, 1).tolist() == [0.9, 0.1]
    assert pooling.known_top_mean(P, S, 3)[0] == pytest.approx(0.7)  # only two are known


def test_limits_of_log_sum_exp_and_top_k() -> None:
    values = np.random.default_rng(0).random((50, 4096))
    sharp = pooling.log_mean_exp(values, 1e6)
    assert np.abs(sharp - values.max(axis=1)).max() < 1e-4
    flat = pooling.log_mean_exp(values, 1e-6)
    assert np.abs(flat - values.mean(axis=1)).max() < 1e-6
    # At r = 1 it is near the mean, not the maximum.
    assert np.abs(pooling.log_mean_exp(values, 1.0) - values.mean(axis=1)).max() <= 1 / 8
    np.testing.assert_array_equal(pooling.top_mean(values, 1), values.max(axis=1))
    np.testing.assert_allclose(pooling.top_mean(values, 9999), values.mean(axis=1))


def test_order_of_noisy_or_does_not_stick_to_1() -> None:
    sure, surer = np.full(4096, 0.9), np.full(4096, 0.95)
    assert pooling.noisy_or(sure, 0.0) == pooling.noisy_or(surer, 0.0) == 1
    assert pooling.noisy_or_order(sure, 0.0) < pooling.noisy_or_order(surer, 0.0)
    assert np.isinf(pooling.noisy_or_order(np.array([1.0, 0.0]), 0.0))
