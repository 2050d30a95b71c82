"""Ticks are round, few and inside; their texts are short and exact."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.show.figures import tick_text, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        (0, 0.5, (0, 0.1, 0.2, 0.3, 0.4, 0.5)),
        (-0.1, 0.2, (-0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2)),
        (3, 97, (20, 40, 60, 80)),
        (5, 5, (5,)),
        (1, 0, (0, 0.2, 0.4, 0.6, 0.8, 1)),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: tuple[float, ...]) -> None:
    assert ticks(low, high, most=7) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 100, (0.1, 1, 10, 100)),
        (1, 30, (1, 2, 5, 10, 20)),
        (1e-6, 1e6, (1e-6, 1e-3, 1, 1e3, 1e6)),
        (3, 4, (3, 3.2, 3.4, 3.6, 3.8, 4)),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_powers_and_their_doubles(
    low: float, high: float, expected: tuple[float, ...]
) -> None:
    assert ticks(low, high, log=True) == pytest.approx(expected)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 12), st.booleans())
def test_ticks_are_few_ascending_and_inside(low: float, span: float, most: int, log: bool) -> None:
    found = ticks(low, low + span, log, most)
    assert len(found) <= most
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= tick <= low + span + slack for tick in found)
    assert list(found) == sorted(found)


def test_ends_that_are_no_numbers_have_no_ticks() -> None:
    assert ticks(math.nan, 1) == ticks(0, math.inf) == ()
    assert ticks(-1.7e308, 1.7e308) == (-1.7e308, 1.7e308)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.125, "0.125"),
        (-0.5, "\N{MINUS SIGN}0.5"),
        (1.0, "1"),
        (1234.0, "1234"),
        (25000.0, "25\N{NARROW NO-BREAK SPACE}000"),
        (1e6, "10⁶"),
        (2.5e-7, "2.5×10⁻⁷"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_said_plainly(value: float, text: str) -> None:
    assert tick_text(value) == text


@pytest.mark.parametrize("span", [5e-324, 1e-310, 1.7e308])
def test_ticks_at_the_ends_of_all_numbers(span: float) -> None:
    values = ticks(0.0, span)
    assert values
    assert 0.0 <= values[0] <= values[-1] <= span
