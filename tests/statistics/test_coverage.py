"""Intervals hold the truth as often as they say, and are no wider than they must be;
see `examples/coverage.py`.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

STUDY = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "coverage.py"))
DESIGNS, coverage = STUDY["DESIGNS"], STUDY["coverage"]
LOWEST, HIGHEST, WIDEST = 0.90, 0.995, 1.5


def honest(found) -> bool:
    """The gate: coverage of a nominal 95 %, and mean width in widths of the true sampling
    interval.
    """
    return LOWEST <= found.coverage <= HIGHEST and found.width_ratio <= WIDEST


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_intervals_over_units_are_honest(design) -> None:
    found = coverage(design, over="unit", simulations=400)
    assert honest(found), str(found)


@pytest.mark.slow
def test_intervals_over_images_of_patients_are_not() -> None:
    found = coverage(DESIGNS[0], over="image", simulations=400)
    assert not honest(found), str(found)
    assert found.coverage < LOWEST


def test_intervals_over_images_of_patients_are_too_narrow() -> None:
    narrow, right = (
        coverage(DESIGNS[0], over=over, simulations=20, extra=180) for over in ("image", "unit")
    )
    assert narrow.width_ratio < 0.8 < right.width_ratio < WIDEST
    assert narrow.truth == right.truth
