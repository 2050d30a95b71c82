"""Ratings that are numbers: equal numbers are one step, different ones are never merged."""

from __future__ import annotations

import pytest

from calipers.agreement.read import read_ratings


def steps(*cells: str) -> tuple[str, ...]:
    """The categories of a table with these ratings."""
    n = len(cells)
    table = {
        "rating": list(cells),
        "iou": [0.1 * (k % 9) for k in range(n)],
        "rater": ["a"] * n,
        "item": [str(k) for k in range(n)],
    }
    return read_ratings(table).categories


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1000001", "1000002", "1000003"), ("1000001", "1000002", "1000003")),
        (("1", "2", "2.0", "3"), ("1", "2", "3")),
        (("0.1234567", "0.1234568", "1"), ("0.1234567", "0.1234568", "1")),
        (
            ("9007199254740992", "9007199254740993", "1"),
            ("1", "9007199254740992", "9007199254740993"),
        ),
        (("1e2", "100", "20"), ("20", "100")),
        (("-0", "0", "1", "2"), ("0", "1", "2")),
    ],
)
def test_different_numbers_are_different_steps(
    cells: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert steps(*cells) == expected
