"""Sums and medians under weights: exact, in any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from calipers.kernels import resampling


def test_digits_put_together_are_the_number() -> None:
    random = np.random.default_rng(1)
    values = np.concatenate([random.random(200), random.random(50) * 1e-4, [0.0, 1.0, 0.5, 1 / 3]])
    for scale in (1.0, 1e-3, 7e5):
        parts, exponent = resampling.digits(values * scale)
        for k, value in enumerate((values * scale).tolist()):
            joined = sum(
                Fraction(int(part[k])) * Fraction(2) ** (exponent - 24 * (n + 1))
                for n, part in enumerate(parts)
            )
            assert joined == Fraction(value)


def weighted_sums(values, image, column, weights, n_columns):
    return resampling.SumTable.of(values, image, column, n_columns).sums(weights)


@pytest.mark.parametrize("at_once", [1, 7, 100_000])
def test_sums_are_those_of_rational_numbers(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "AT_ONCE", at_once)
    random = np.random.default_rng(2)
    values, image, column = (
        random.random(300) * 40,
        random.integers(0, 20, 300),
        random.integers(0, 3, 300),
    )
    weights = random.integers(0, 256, (5, 20))
    found = weighted_sums(values, image, column, weights, 3)
    for r in range(5):
        for c in range(3):
            exact = sum(
                Fraction(float(values[k])) * int(weights[r, image[k]])
                for k in np.flatnonzero(column == c)
            )
            assert found[r, c] == pytest.approx(float(exact), rel=3e-16)


def test_sums_do_not_depend_on_order_duplication_or_block() -> None:
    random = np.random.default_rng(3)
    values, image, column = (
        random.random(400),
        random.integers(0, 30, 400),
        random.integers(0, 2, 400),
    )
    weights = random.integers(0, 4, (70, 30))
    expected = weighted_sums(values, image, column, weights, 2)
    order = random.permutation(400)
    np.testing.assert_array_equal(
        weighted_sums(values[order], image[order], column[order], weights, 2), expected
    )
    single = [weighted_sums(values, image, column, row[None], 2)[0] for row in weights]
    np.testing.assert_array_equal(single, expected)
    for r in range(5):
        again = np.repeat(np.arange(400), weights[r][image])
        plain = weighted_sums(
            values[again], image[again], column[again], np.ones((1, 30), np.int64), 2
        )
        np.testing.assert_array_equal(plain[0], expected[r])


def test_sums_of_nothing_are_zero() -> None:
    nothing, nobody = np.zeros(0), np.zeros(0, np.int64)
    assert weighted_sums(nothing, nobody, nobody, np.ones((2, 4)), 3).tolist() == [[0.0] * 3] * 2
    assert weighted_sums(nothing, nobody, nobody, np.ones((2, 0)), 3).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("block", [1, 3, 256])
def test_a_weighted_median_is_the_median_of_repeated_values(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "BLOCK", block)
    random = np.random.default_rng(4)
    for n in (1, 2, 5, 40, 700):
        values, image = random.integers(0, 9, n) / 8, random.integers(0, 6, n)
        weights = random.integers(0, 4, (20, 6))
        found = resampling.MedianTable.of(values, image).medians(weights)
        for row, median in zip(weights, found):
            repeated = np.repeat(values, row[image])
            assert median == (
                np.median(repeated) if len(repeated) else pytest.approx(np.nan, nan_ok=True)
            )


def test_the_median_of_nothing_is_undefined() -> None:
    nobody = np.zeros(0, np.int64)
    assert np.isnan(
        resampling.MedianTable.of(np.zeros(0), nobody).medians(np.ones((3, 2), np.int64))
    ).all()
    both = resampling.MedianTable.of(np.ones(2), np.array([0, 1]))
    assert np.isnan(both.medians(np.zeros((1, 2), np.int64))).all()
