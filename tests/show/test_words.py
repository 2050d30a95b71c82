"""How numbers, estimates, reasons and names are said: one table of what is read."""

from __future__ import annotations

import math

import pytest

from calipers.results.estimate import Estimate
from calipers.show.words import (
    MARKS,
    count_text,
    digits,
    estimate_text,
    interval_text,
    join,
    legend,
    level_text,
    number_text,
    p_number,
    p_text,
    percent_span,
    percent_text,
    reason_text,
    share_in_words,
    short_name,
    signed_text,
    two_decimals,
    value_in_words,
    whole_text,
)

NAN = math.nan
FAULTLESS = "{span} of {units} are without a fault"


def estimate(
    low: float,
    high: float,
    method: str = "t",
    reason: str | None = None,
    value: float = 0.842,
    flags: tuple[str, ...] = (),
) -> Estimate:
    return Estimate(
        value, low, high, 0.9, method, "patient", 20, 30, 40, 50, 0.0, 0, reason, flags=flags
    )


SURE = estimate(0.796, 0.881)
BOUNDED = estimate(0.7, 1.0, "clopper-pearson-units")
UNSURE = estimate(NAN, NAN, "none", "too_few_units")
SAME = estimate(0.842, 0.842)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (number_text(0.1234), "0.123"),
        (number_text(0.0), "0.000"),
        (number_text(1.0), "1.000"),
        (number_text(-1.0), "-1.000"),
        (number_text(1.5), "1.500"),
        (number_text(5.0), "5"),
        (number_text(12.345), "12.3"),
        (number_text(77.0), "77"),
        (number_text(222.4), "222"),
        (number_text(-12.0), "-12"),
        (number_text(NAN), ""),
        (number_text(math.inf), "inf"),
        (two_decimals(-0.001), "0.00"),  # what rounds to zero has no sign
        (two_decimals(-0.01), "-0.01"),
        (two_decimals(0.126), "0.13"),
        (signed_text(0.0123), "+0.012"),
        (signed_text(-0.0123), "-0.012"),
        (signed_text(NAN), ""),
        (whole_text(1.0), "1"),
        (whole_text(NAN), ""),
        (digits(0.000123456, 4), "0.0001235"),
        (digits(1e6), "1000000"),
        (percent_text(0.0), "0 %"),
        (percent_text(0.0001), "under 0.1 %"),
        (percent_text(0.002), "0.2 %"),
        (percent_text(0.01), "1.0 %"),
        (percent_text(0.052), "5.2 %"),
        (percent_text(0.566), "57 %"),
        (percent_text(0.963), "96.3 %"),
        (percent_text(0.998), "99.8 %"),
        (percent_text(0.9999), "over 99.9 %"),
        (percent_text(1.0), "100 %"),
        (percent_text(NAN), "undefined"),
        (percent_span(0.052, 0.31), "5.2 to 31.0 %"),
        (level_text(0.95), "95 %"),
        (level_text(0.995), "99.5 %"),
        (p_text(0.0004), "p < 0.001"),
        (p_text(0.0234), "p = 0.023"),
        (p_number(0.0004), "< 0.001"),
        (p_number(0.5), "0.5"),
        (p_number(NAN), ""),
        (interval_text(0.1, 0.3), "[0.100, 0.300]"),
        (interval_text(-0.1, 0.3, signed_text), "[-0.100, +0.300]"),
        (interval_text(NAN, NAN), ""),
        (estimate_text(SURE), "0.842 [0.796, 0.881]"),
        (estimate_text(UNSURE), "0.842"),
        (estimate_text(estimate(NAN, NAN, "none", "no_references", NAN)), "no references"),
        (estimate_text(estimate(0.7, 1.0, flags=("on_bound",))), "0.842 [0.700, 1.000]‡"),
        (share_in_words(SURE, FAULTLESS), "84 % (90 % CI 80 to 88 %)"),
        (value_in_words(SURE, FAULTLESS), "0.84 (90 % CI 0.80 to 0.88)"),
        # A bound on units is a share of them, whatever the value is.
        (
            share_in_words(BOUNDED, FAULTLESS),
            "84 % (70 to 100 % of patients are without a fault, at 90 %)",
        ),
        (
            value_in_words(BOUNDED, FAULTLESS),
            "0.84 (70 to 100 % of patients are without a fault, at 90 %)",
        ),
        (share_in_words(UNSURE, FAULTLESS), "84 % (no interval: too few patients)"),
        (value_in_words(UNSURE, FAULTLESS), "0.84 (no interval: too few patients)"),
        # Width 0, as results of before may have it, is no interval.
        (value_in_words(SAME, FAULTLESS), "0.84 (no interval: all bootstrap samples agree)"),
        (estimate_text(SAME), "0.842"),
        (reason_text("too_few_units"), "too few units"),
        (reason_text(None), ""),
        (count_text("image", 1), "1 image"),
        (count_text("study", 2), "2 studies"),
        (count_text("class", 0), "0 classes"),
        (join([]), ""),
        (join(["a", "b", "c"]), "a, b and c"),
        (short_name("a" * 30 + "-" * 30 + "fold-3"), "a" * 24 + "…" + "-" * 9 + "fold-3"),
    ],
)
def test_what_a_reader_sees(words: str, text: str) -> None:
    assert words == text


def test_one_legend_explains_every_mark() -> None:
    lines = legend([estimate(0.1, 0.9, flags=tuple(MARKS))])
    assert [line[0] for line in lines] == list(MARKS.values())
    assert "† fewer than 10 patients" in lines
