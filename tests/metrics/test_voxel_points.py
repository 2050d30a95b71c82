"""Curves of all voxels: the points are those of the ROC and precision curves, under weights too."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

import calipers as cal
from calipers.data.maps import Maps
from calipers.metrics.maps import SensitivityCurve, VoxelPrecisionCurve
from seeds import looped

PLACES = tuple(np.linspace(0.01, 1.0, 100))
FINE = tuple(np.linspace(0.0, 1.0, 20_001))


def samples(seed: int, n: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Maps of 201 values, each a bin of its own: nothing is lost by counting."""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        labels = (chance.random((16, 16)) < 0.2).astype(int)
        scores = np.clip(chance.normal(0.4 + 0.2 * labels, 0.2), 0, 1)
        found.append((np.round(scores * 200) / 200, labels))
    return found


def maps_of(given: list[tuple[np.ndarray, np.ndarray]]) -> Maps:
    return cal.evaluate_maps(given, ci=False).cohort.maps["model"]


def flat(given: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([labels.ravel() for _, labels in given]), np.concatenate(
        [s.ravel() for s, _ in given]
    )


def ones(n: int) -> np.ndarray:
    return np.ones((1, n), np.int64)


@looped("seed", range(20))
def test_the_roc_curve_is_that_of_scikit_learn(seed: int) -> None:
    given = samples(seed)
    rate, share, _ = roc_curve(*flat(given), drop_intermediate=False)
    wanted = [share[rate <= p].max() if p in rate else np.interp(p, rate, share) for p in PLACES]
    found = SensitivityCurve(PLACES).value(maps_of(given), ones(4))
    assert found.shape == (1, 1, 100)
    np.testing.assert_allclose(found[0, 0], wanted, atol=1e-12)


def test_the_area_below_the_roc_curve_is_the_auroc() -> None:
    given = samples(0)
    found = SensitivityCurve(FINE).value(maps_of(given), ones(4))[0, 0]
    assert np.trapezoid(found, FINE) == pytest.approx(roc_auc_score(*flat(given)), abs=1e-4)


@looped("seed", range(20))
def test_the_precision_is_that_of_the_highest_score_with_the_recall(seed: int) -> None:
    given = samples(seed)
    precision, recall, _ = precision_recall_curve(*flat(given))
    wanted = [precision[np.flatnonzero(recall >= place - 1e-12)[-1]] for place in PLACES]
    found = VoxelPrecisionCurve(PLACES).value(maps_of(given), ones(4))
    np.testing.assert_allclose(found[0, 0], wanted, atol=1e-12)


@pytest.mark.parametrize("curve", [SensitivityCurve(PLACES), VoxelPrecisionCurve(PLACES)])
def test_a_weight_of_two_is_a_sample_twice(curve: SensitivityCurve | VoxelPrecisionCurve) -> None:
    given = samples(1)
    weighted = curve.value(maps_of(given), np.array([[2, 1, 0, 1]]))
    twice = curve.value(maps_of([given[0], given[0], given[1], given[3]]), ones(4))
    np.testing.assert_allclose(weighted, twice, atol=1e-12)


def test_without_references_there_is_no_curve() -> None:
    healthy = [(scores, np.zeros_like(labels)) for scores, labels in samples(0)]
    for curve in (SensitivityCurve(PLACES), VoxelPrecisionCurve(PLACES)):
        assert np.isnan(curve.value(maps_of(healthy), ones(4))).all()


def test_without_other_voxels_there_is_no_rate_but_a_precision() -> None:
    full = [(scores, np.ones_like(labels)) for scores, labels in samples(0)]
    assert np.isnan(SensitivityCurve(PLACES).value(maps_of(full), ones(4))).all()
    assert (VoxelPrecisionCurve(PLACES).value(maps_of(full), ones(4)) == 1).all()
