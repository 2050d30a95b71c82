"""How many digits a reader sees."""

from __future__ import annotations

import pytest

from calipers.show.words import percent, number_text, two_decimals


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123"),
        (0.0, "0.000"),
        (1.0, "1.000"),
        (-1.0, "-1.000"),
        (1.5, "1.500"),
        (5.0, "5"),
        (12.345, "12.3"),
        (77.0, "77"),
        (222.4, "222"),
        (-12.0, "-12"),
        (float("nan"), ""),
        (float("inf"), "inf"),
    ],
)
def test_a_number_has_as_many_digits_as_a_reader_needs(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (0.0001, "under 0.1"),
        (0.002, "0.2"),
        (0.01, "1"),
        (0.566, "57"),
        (0.99, "99"),
        (0.998, "99.8"),
        (0.9999, "over 99.9"),
        (1.0, "100"),
    ],
)
def test_only_nothing_is_0_percent_and_only_all_is_100(share: float, text: str) -> None:
    assert percent(share) == text


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert [two_decimals(value) for value in (-0.001, -0.01, 0.126)] == ["0.00", "-0.01", "0.13"]
