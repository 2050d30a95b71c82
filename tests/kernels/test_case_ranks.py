"""The order of cases under weights, against looking at every pair."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels.roc import CaseRanks
from reference.instances import auroc


@pytest.mark.parametrize("silent", [-np.inf, 0.0])
def test_the_area_is_that_of_repeated_cases(silent: float) -> None:
    random = np.random.default_rng(1)
    for n in (1, 2, 5, 30):
        for _ in range(10):
            score = np.where(random.random(n) < 0.4, -np.inf, random.integers(-2, 4, n) / 4)
            positive, weights = random.random(n) < 0.5, random.integers(0, 4, (6, n))
            found = CaseRanks.of(score, positive, silent).area(weights)
            heard = np.where(np.isneginf(score), silent, score)
            for row, area in zip(weights, found):
                sides = [
                    np.repeat(heard[kind], row[kind]).tolist() for kind in (positive, ~positive)
                ]
                assert area == pytest.approx(auroc(*sides), rel=1e-15, nan_ok=True)


def test_without_cases_there_is_no_area() -> None:
    nobody = CaseRanks.of(np.zeros(0), np.zeros(0, bool), 0.0)
    assert np.isnan(nobody.area(np.ones((3, 0), np.int64))).all()
