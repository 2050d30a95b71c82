"""A note where patients were drawn although centres differ, and none where they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal

BOX = [10.0, 10.0, 30.0, 30.0]
NOTE = "were resampled, but results differ between centres"


def evaluated(seed: int, spread: float, centres: int = 8, **changes: object) -> cal.Evaluation:
    """Return an evaluation of 160 patients with a hit rate of their centre, .7 on average."""
    random = np.random.default_rng([20_270, seed])
    centre = np.arange(160) % centres
    rate = np.clip(0.7 + spread * random.standard_normal(centres), 0.05, 0.95)
    is_hit = random.random(160) < rate[centre]
    references, predictions = [], []
    for k in range(160):
        references.append({"boxes": [BOX], "labels": [0]})
        boxes = np.reshape([BOX] * int(is_hit[k]), (-1, 4))
        scores = 0.5 + 0.4 * random.random(len(boxes))
        predictions.append({"boxes": boxes, "labels": [0] * len(boxes), "scores": scores})
    cohort = cal.Cohort.from_arrays(references, {"m": predictions}, classes=("a",)).with_groups(
        {"centre": centre.astype(str), "patient": np.arange(160), "sex": np.arange(160) % 4}
    )
    settings = {"replicates": 200, "headline": ("sensitivity@0.5",), **changes}
    return cal.evaluate(cohort, replace(cal.Protocol.load("overview"), **settings))


def notes(evaluation: cal.Evaluation) -> list[str]:
    return [warning for warning in evaluation.warnings if NOTE in warning]


def test_centres_that_differ_are_told() -> None:
    said = notes(evaluated(0, 0.25))
    assert len(said) == 1
    assert said[0].startswith("Patients were resampled, but results differ between centres: the")
    assert "--cluster centre,patient gives intervals for other centres" in said[0]


def test_few_centres_get_no_advice_that_cannot_be_followed() -> None:
    assert "4 centres are too few to generalise to others" in notes(evaluated(1, 0.3, 4))[0]


@pytest.mark.parametrize(
    "changes", [{"cluster": ("centre", "patient")}, {"cluster": "centre"}, {"strata": "centre"}]
)
def test_whoever_named_the_centres_is_told_nothing(changes: dict[str, object]) -> None:
    assert not notes(evaluated(0, 0.25, **changes))


def test_centres_that_do_not_differ_are_hardly_ever_told() -> None:
    n_notes = sum(bool(notes(evaluated(seed, 0.0))) for seed in range(30))
    assert n_notes <= 4
    n_found = sum(bool(notes(evaluated(seed, 0.2))) for seed in range(10))
    assert n_found >= 7


def test_without_intervals_there_is_no_note() -> None:
    evaluation = evaluated(0, 0.25)
    without = cal.evaluate(evaluation.cohort, evaluation.protocol, ci=False)
    assert not notes(without)
