"""Two parameters of one corruption are one corruption."""

from __future__ import annotations

import calipers as cal
from random_cohorts import random_cohort


def test_two_parameters_of_one_kind_are_swept_together() -> None:
    cohort = random_cohort(12, 3, seed=0, models=0)
    over = {"random-boxes.size": [0.2, 0.4], "random-boxes.p": [0.0, 1.0]}
    found = cal.sweep(cohort, "RoDeO/loc", over, protocol="rodeo", runs=1, seed=4)
    oracle = cal.corrupt(cohort, "random-boxes", size=0.4, p=1.0, seed=4, name="one")
    assert found.value[0, 0, 1, 1] == cal.evaluate(oracle, "rodeo", ci=False)["RoDeO/loc"].value
