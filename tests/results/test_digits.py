"""How many digits a reader sees."""

from __future__ import annotations

import pytest

from calipers.results.digits import shown


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
    assert shown(value) == text
