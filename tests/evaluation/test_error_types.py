"""Bars of error types show the estimates of the evaluation, and say what is behind them."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from evaluated import evaluated_demo


@pytest.fixture(scope="module")
def evaluation() -> cal.Evaluation:
    return evaluated_demo("tide")


def test_gains_are_bars_with_their_intervals(evaluation: cal.Evaluation) -> None:
    found = evaluation.figure("error-gains")
    assert found.x.names == ("class", "place", "both", "double", "nothing", "missed", "empty")
    estimate = evaluation["mislabels", "dAP/cls"]
    assert (found.heights[0, 0], found.low[0, 0], found.high[0, 0]) == (
        estimate.value,
        estimate.low,
        estimate.high,
    )
    assert found.heights[2, 6] == evaluation["misses-small", "dAP/empty"].value
    assert found.title.startswith("mislabels loses 0.61 AP by a wrong class; ")
    assert "95 % confidence intervals, resampled by patient (n = 80)" in found.note
    assert "Bars without whiskers" not in found.note  # also a gain of 0 has an interval


def test_counts_end_with_the_false_alarms_on_empty_images(evaluation: cal.Evaluation) -> None:
    found = evaluation.figure("error-counts", models=["overpredicts"])
    assert found.heights.tolist() == [[4, 40, 24, 222, 282, 6, 77]]
    assert found.x.names[-1] == "empty"
    assert found.title == "Errors of all kinds: overpredicts 578"


def test_a_perfect_model_has_no_bars() -> None:
    cohort = cal.corrupt(cal.demo_cohort(), "position-noise", sigma=0.0, name="perfect")
    ev = cal.evaluate(cohort, "tide", ci=False)
    gains, counts = (
        ev.figure(name, models=["perfect"]) for name in ("error-gains", "error-counts")
    )
    assert not gains.heights.any()
    assert not counts.heights.any()
    assert gains.title == "No kind of error costs any average precision"
    assert counts.title == "There are no errors"
    assert "whiskers" not in gains.note


def test_a_protocol_without_error_types_has_no_such_figure() -> None:
    ev = evaluated_demo("overview", ci=False)
    with pytest.raises(cal.UsageError, match="use the preset tide"):
        ev.figure("error-gains")


def test_undefined_gains_are_drawn_as_nothing() -> None:
    said = {"boxes": [[0, 0, 5, 5]], "labels": [0], "scores": [0.5]}
    cohort = cal.Cohort.from_arrays([{"boxes": [], "labels": []}], [said], classes=("a",))
    found = cal.evaluate(cohort, "tide", ci=False).figure("error-gains")
    assert np.isfinite(found.heights).all()
