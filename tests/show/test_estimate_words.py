"""Estimates inside sentences: the value, and how sure it is or why that is not known."""

from __future__ import annotations

import math

from calipers.results.estimate import Estimate
from calipers.show.words import share_in_words, value_in_words

FAULTLESS = "{span} % of {units} are without a fault"


def estimate(low: float, high: float, method: str = "t", reason: str | None = None) -> Estimate:
    return Estimate(0.842, low, high, 0.9, method, "patient", 20, 30, 40, 50, 0.0, 0, reason)


def test_a_share_is_said_in_percent_and_a_value_with_two_digits() -> None:
    found = estimate(0.796, 0.881)
    assert share_in_words(found, FAULTLESS) == "84 % (90 % interval 80 to 88 %)"
    assert value_in_words(found, FAULTLESS) == "0.84 (90 % interval 0.80 to 0.88)"


def test_a_bound_on_units_is_a_share_of_them_whatever_the_value_is() -> None:
    found = estimate(0.7, 1.0, "clopper-pearson-units")
    assert (
        share_in_words(found, FAULTLESS)
        == "84 % (70 to 100 % of patients are without a fault, at 90 %)"
    )
    assert (
        value_in_words(found, FAULTLESS)
        == "0.84 (70 to 100 % of patients are without a fault, at 90 %)"
    )


def test_why_there_is_no_interval_is_said() -> None:
    found = estimate(math.nan, math.nan, "none", "too_few_units")
    assert share_in_words(found, FAULTLESS) == "84 % (no interval: too few units)"
    assert value_in_words(found, FAULTLESS) == "0.84 (no interval: too few units)"
