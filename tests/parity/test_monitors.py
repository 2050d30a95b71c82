"""The same numbers as scikit-learn: AUROC, average precision, MCC, with ties; 120 sets, tolerance
1e-12.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.kernels.roc import operating
from calipers.monitors.estimates import Stakes
from calipers.monitors.metrics import Signed
from seeds import looped_seeds

metrics = pytest.importorskip("sklearn.metrics")

TOLERANCE = 1e-12


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with few or many levels, labels, weights; every third set without ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 300))
    wanted = rng.random(n) < rng.uniform(0.05, 0.95)
    wanted[:2] = True, False
    alarm = rng.normal(wanted * rng.uniform(0, 2), 1.0)
    if seed % 3:
        alarm = np.round(alarm * rng.integers(1, 6))
    return alarm, wanted, rng.integers(0, 4, n) + (np.arange(n) < 2)


@looped_seeds(120, default=40)
def test_areas_are_those_of_scikit_learn(seed: int) -> None:
    alarm, wanted, weights = drawn(seed)
    found = operating(alarm, wanted, np.stack([np.ones(len(alarm), np.int64), weights]))
    for r, weight in enumerate([None, weights]):
        assert found.auroc()[r] == pytest.approx(
            metrics.roc_auc_score(wanted, alarm, sample_weight=weight), abs=TOLERANCE
        )
        assert found.aupr()[r] == pytest.approx(
            metrics.average_precision_score(wanted, alarm, sample_weight=weight), abs=TOLERANCE
        )
        assert found.aupr_in()[r] == pytest.approx(
            metrics.average_precision_score(~wanted, -alarm, sample_weight=weight), abs=TOLERANCE
        )


@looped_seeds(120, default=40)
def test_the_false_alarms_at_95_percent_are_the_lowest_point_of_the_roc_curve_there(
    seed: int,
) -> None:
    alarm, wanted, _ = drawn(seed)
    fpr, tpr, _ = metrics.roc_curve(wanted, alarm, drop_intermediate=False)
    found = operating(alarm, wanted, np.ones((1, len(alarm)), np.int64))
    assert 1 - found.tnr_at_tpr(0.95)[0] == pytest.approx(fpr[tpr >= 0.95].min(), abs=TOLERANCE)


@looped_seeds(120, default=40)
def test_the_correlation_of_alarms_is_that_of_scikit_learn(seed: int) -> None:
    alarm, wanted, weights = drawn(seed)
    rejected = alarm >= np.median(alarm)
    nothing = np.zeros(len(alarm))
    stakes = Stakes(None, None, np.ones(len(alarm)), nothing, nothing)
    value = Signed().value(stakes.decisions(rejected, wanted, fixed=True), weights[None])[0, 0, 0]
    theirs = metrics.matthews_corrcoef(wanted, rejected, sample_weight=weights)
    assert value == pytest.approx(theirs, abs=TOLERANCE) or (np.isnan(value) and theirs == 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_way_gives_the_same(seed: int) -> None:
    alarm, wanted, _ = drawn(seed)
    found = cal.evaluate_monitor(alarm, ~wanted, threshold=0.0, ci=False)
    assert found.get("AUROC").value == pytest.approx(
        metrics.roc_auc_score(wanted, alarm), abs=TOLERANCE
    )
    assert found.get("F1").value == pytest.approx(
        metrics.f1_score(wanted, alarm >= 0), abs=TOLERANCE
    )
