"""Quantiles of t and of the normal distribution equal SciPy's."""

from __future__ import annotations

import pytest
from scipy import special

from calipers.statistics.student import normal_quantile, t_quantile

LEVELS = (0.01, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


@pytest.mark.parametrize("level", LEVELS)
def test_normal_quantiles_equal_scipy(level: float) -> None:
    expected = special.ndtri((1 + level) / 2)
    assert normal_quantile(level) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_of_t_equal_scipy(level: float) -> None:
    for df in [*range(1, 60), 79, 100, 255, 500, 999, 1000, 1001, 5000, 10**5, 10**7]:
        expected = special.stdtrit(df, (1 + level) / 2)
        assert t_quantile(df, level) == pytest.approx(expected, rel=1e-10), df


def test_levels_near_1_lose_only_what_their_own_rounding_costs() -> None:
    for df in (1, 2, 7, 30, 500, 2000):
        expected = special.stdtrit(df, (1 + (1 - 1e-6)) / 2)
        assert t_quantile(df, 1 - 1e-6) == pytest.approx(expected, rel=1e-8), df


def test_the_quantiles_of_95_percent_agree_to_the_last_digits() -> None:
    for df in range(1, 1500):
        assert t_quantile(df, 0.95) == pytest.approx(special.stdtrit(df, 0.975), rel=2e-13), df
