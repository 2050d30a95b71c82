"""Orders of images by alarm scores: equal to slow twins under weights, closed forms,
empty cases.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.kernels.roc import (
    CaseRanks,
    Cuts,
    Operating,
    Standing,
    augrc,
    aurc,
    best_aurc,
    harmonic,
    operating,
)
from reference import monitors as slow
from seeds import looped


def drawn(seed: int, n: int = 30, levels: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, labels of both kinds, and three sets of weights of which the first are
    1.
    """
    rng = np.random.default_rng(seed)
    wanted = rng.random(n) < rng.uniform(0.2, 0.8)
    wanted[:2] = True, False
    weights = rng.integers(0, 4, (3, n))
    weights[0] = 1
    weights[:, :2] += 1
    return rng.integers(0, levels, n) / levels, wanted, weights


def areas(
    alarm: np.ndarray, loss: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """AURC and AUGRC under weights (R, n)."""
    standing = Standing.of(Cuts.of(alarm), weights)
    return aurc(standing, loss[None])[0], augrc(standing, loss[None])[0]


@looped("seed", range(60))
def test_every_quantity_equals_its_slow_twin_under_weights(seed: int) -> None:
    alarm, wanted, weights = drawn(seed, levels=2 + seed % 12)
    found = operating(alarm, wanted, weights)
    for r, weight in enumerate(weights):
        many, labels = (
            slow.repeated(alarm, weight),
            [bool(w) for w in slow.repeated(wanted, weight)],
        )
        assert found.auroc()[r] == pytest.approx(slow.auroc(many, labels), abs=1e-12)
        assert found.aupr()[r] == pytest.approx(slow.aupr(many, labels), abs=1e-12)
        turned = [-a for a in many], [not w for w in labels]
        assert found.aupr_in()[r] == pytest.approx(slow.aupr(*turned), abs=1e-12)
        assert 1 - found.tnr_at_tpr(0.95)[r] == pytest.approx(
            slow.fpr_at_tpr(many, labels), abs=1e-12
        )
        assert found.best_f1()[r] == pytest.approx(slow.best_f1(many, labels), abs=1e-12)


@looped("seed", range(20))
def test_the_area_is_that_of_the_ranks_of_cases_to_the_last_bit(seed: int) -> None:
    alarm, wanted, weights = drawn(seed, n=80)
    ranks = CaseRanks.of(alarm, wanted, -np.inf)
    np.testing.assert_array_equal(operating(alarm, wanted, weights).auroc(), ranks.area(weights))
    labels = np.stack([wanted, ~wanted, alarm > 0.5])
    found = Standing.of(Cuts.of(alarm), weights).auroc(labels)
    for k, label in enumerate(labels):
        np.testing.assert_array_equal(found[k], operating(alarm, label, weights).auroc())


@looped("seed", range(25))
def test_areas_of_risk_are_the_mean_over_all_orders_of_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alarm, loss = rng.integers(0, 3, 6).astype(float), rng.integers(0, 3, 6) / 2
    plain, general = areas(alarm, loss, np.ones((1, 6), np.int64))
    assert plain[0] == pytest.approx(
        slow.over_all_orders(alarm, loss, slow.aurc_of_order), abs=1e-12
    )
    assert general[0] == pytest.approx(
        slow.over_all_orders(alarm, loss, slow.augrc_of_order), abs=1e-12
    )


@looped("seed", range(10))
def test_a_weight_is_so_many_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alarm, loss, weights = rng.integers(0, 4, 12) / 4, rng.random(12), rng.integers(0, 4, (2, 12))
    weights[:, 0] = 2
    for r, weight in enumerate(weights):
        rows = np.repeat(np.arange(12), weight)
        once = areas(alarm[rows], loss[rows], np.ones((1, len(rows)), np.int64))
        often = areas(alarm, loss, weights)
        for area, same in zip(often, once):
            assert area[r] == pytest.approx(same[0], abs=1e-12)


def test_a_constant_monitor_is_chance() -> None:
    wanted = np.arange(50) < 20
    found = operating(np.zeros(50), wanted, np.ones((1, 50), np.int64))
    assert found.auroc()[0] == 0.5
    assert found.aupr()[0] == pytest.approx(0.4)
    assert found.tnr_at_tpr(0.95)[0] == 0.0
    plain, general = areas(np.zeros(50), wanted.astype(float), np.ones((1, 50), np.int64))
    assert plain[0] == pytest.approx(0.4, abs=1e-12)
    assert general[0] == pytest.approx(0.4 * 51 / 100, abs=1e-12)


def test_a_perfect_monitor_has_the_closed_form() -> None:
    n, bad = 500, 90
    wanted = np.arange(n) >= n - bad
    ones = np.ones((1, n), np.int64)
    found = operating(np.arange(n, dtype=float), wanted, ones)
    assert (found.auroc()[0], found.aupr()[0], found.tnr_at_tpr(0.95)[0]) == (1.0, 1.0, 1.0)
    exact = float(areas(wanted.astype(float), wanted.astype(float), ones)[0][0])
    assert best_aurc(np.array([[float(bad)]]), np.array([n]))[0, 0] == pytest.approx(
        exact, abs=1e-14
    )
    h = harmonic(n)
    assert exact == pytest.approx((bad - (n - bad) * (h[n] - h[n - bad])) / n, abs=1e-14)
    assert exact == pytest.approx(0.017450, abs=5e-7)
    r = bad / n
    assert r + (1 - r) * math.log(1 - r) == pytest.approx(
        0.017270, abs=5e-6
    )  # the usual approximation is not exact
    one_by_one, _ = areas(np.arange(n, dtype=float), wanted.astype(float), ones)
    assert one_by_one[0] == pytest.approx(exact, abs=1e-14)


def test_no_order_is_better_than_that_of_the_losses() -> None:
    rng = np.random.default_rng(3)
    loss, ones = rng.random(40), np.ones((1, 40), np.int64)
    best = areas(loss, loss, ones)[0][0]
    assert best == pytest.approx(slow.best_aurc(loss.tolist()), abs=1e-12)
    others = [areas(rng.random(40), loss, ones)[0][0] for _ in range(50)]
    assert min(others) > best


def test_the_share_of_rejected_images_is_reached_exactly() -> None:
    alarm = np.arange(40, dtype=float)
    wanted = np.arange(40) >= 20  # 19 of 20 are exactly 95 %
    alarm[20] = -1.0
    assert operating(alarm, wanted, np.ones((1, 40), np.int64)).tnr_at_tpr(0.95)[0] == 1.0


def test_one_kind_of_images_is_undefined() -> None:
    for wanted in (np.zeros(4, np.bool_), np.ones(4, np.bool_)):
        found = operating(np.arange(4.0), wanted, np.ones((1, 4), np.int64))
        values = [
            found.auroc(),
            found.aupr(),
            found.aupr_in(),
            found.tnr_at_tpr(0.95),
            found.best_f1(),
        ]
        assert np.isnan(values).all()


def test_no_images_give_no_numbers() -> None:
    nobody = np.zeros((2, 0), np.int64)
    found = operating(np.zeros(0), np.zeros(0, np.bool_), nobody)
    values = [found.auroc(), found.aupr(), found.aupr_in(), found.tnr_at_tpr(0.95), found.best_f1()]
    assert np.isnan(values).all()
    assert np.isnan(areas(np.zeros(0), np.zeros(0), nobody)).all()


def test_a_replicate_without_one_kind_is_undefined_and_the_others_are_not() -> None:
    cuts = Cuts.of(np.array([1.0, 2.0, 3.0]))
    weights = np.array([[1, 1, 1], [0, 2, 0]])
    gathered = cuts.gathered(weights)
    found = Operating.of(cuts, gathered, cuts.rejected(gathered), np.array([False, False, True]))
    assert np.isnan(found.auroc()).tolist() == [False, True]
