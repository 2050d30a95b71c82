"""Evidence of bags under weights: duplication, splitting, leaving out, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.data.bags import ArrayBags
from calipers.stability.evidence import PER_BAG, SCORE_NAMES, BagPairs, collect, pair_scores
from calipers.stability.scores import (
    NAMES,
    BagAuroc,
    BagMean,
    BagValues,
    CaseScores,
    ScoreRequest,
    bag_values,
    cases,
)

THRESHOLDS = np.array([0.3, 0.5])


def evidence_of(seed: int, n_models: int = 4, n_bags: int = 9) -> BagPairs:
    rng = np.random.default_rng(seed)
    bags = [np.round(rng.random((n_models, int(rng.integers(3, 12)))), 1) for _ in range(n_bags)]
    bags[0][:] = 0.0
    marks = [rng.random(bag.shape[1]) < 0.3 if b % 2 else None for b, bag in enumerate(bags)]
    return collect(
        ArrayBags.of(bags, instances=marks, bag_scores=rng.random((n_models, n_bags))), THRESHOLDS
    )


def all_cases(evidence: BagPairs) -> list[tuple[Any, BagValues]]:
    asked = [ScoreRequest(name, 1, "skip") for name in NAMES]
    positive = np.arange(evidence.n_images) % 2
    return [case for _, case in cases(evidence, positive, asked)]


@pytest.mark.parametrize("seed", range(5))
def test_a_weight_is_a_number_of_copies(seed: int) -> None:
    evidence = evidence_of(seed)
    weights = np.random.default_rng(seed).integers(0, 4, evidence.n_images)
    copies = np.repeat(np.arange(evidence.n_images), weights)
    ones = np.ones((1, len(copies)), np.int64)
    for (metric, values), (_, copied) in zip(all_cases(evidence), all_cases(evidence.take(copies))):
        np.testing.assert_allclose(
            metric.value(values, weights[None]), metric.value(copied, ones), rtol=0, atol=1e-15
        )
        again = values.take(copies)
        np.testing.assert_array_equal(metric.value(again, ones), metric.value(copied, ones))
        every = np.ones(len(copies), np.int64)
        counted = metric.counts(values, weights)[0, :, 0]
        np.testing.assert_array_equal(counted, metric.counts(copied, every)[0, :, 0])


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_weights_may_be_bytes(kind: Any) -> None:
    evidence = evidence_of(0)
    weights = np.full((3, evidence.n_images), 255, kind)
    for metric, values in all_cases(evidence):
        np.testing.assert_allclose(
            metric.value(values, weights)[0], metric.value(values, weights // 255)[0], atol=1e-15
        )


def test_parts_are_joined_without_loss() -> None:
    evidence = evidence_of(1)
    halves = [evidence.take(np.arange(4)), evidence.take(np.arange(4, 9))]
    whole = BagPairs.concat(halves)
    for name in PER_BAG:
        np.testing.assert_array_equal(getattr(whole, name), getattr(evidence, name))
    assert (whole.n_models, whole.n_pairs, whole.n_images) == (4, 6, 9)
    for metric, values in all_cases(evidence):
        joined = BagValues.concat([values.take(np.arange(4)), values.take(np.arange(4, 9))])
        ones = np.ones((1, 9), np.int64)
        np.testing.assert_array_equal(metric.value(joined, ones), metric.value(values, ones))


def test_evidence_holds_what_was_counted() -> None:
    maps = np.array([[[0.9, 0.2, 0.5, 0.4]], [[0.6, 0.6, 0.1, 0.4]]])
    found = collect(ArrayBags.of(maps, instances=[[1, 1, 0, 0]]), THRESHOLDS)
    assert found.n.tolist() == [4]
    assert found.ones.tolist() == [[[3, 3], [2, 2]]]
    assert found.common.tolist() == [[[2], [1]]]
    assert found.calls.tolist() == [[[0, 2, 2], [1, 2, 1]]]
    assert found.hits.tolist() == [[[1, 2], [1, 2]]]
    assert found.truth.tolist() == [2]
    assert np.isnan(found.bag_scores).all()
    bare = collect(ArrayBags.of(maps), THRESHOLDS, kendall=False)
    assert (bare.hits.min(), bare.truth.tolist()) == (-1, [-1])
    assert np.isnan(bare.correlations[0, 2:]).all()
    np.testing.assert_array_equal(bare.correlations[0, :2], found.correlations[0, :2])


def test_pair_scores_have_a_column_per_pair() -> None:
    evidence = evidence_of(2)
    for name in SCORE_NAMES:
        assert pair_scores(evidence, name, 0).shape == (9, 6)
    for name in NAMES:
        assert bag_values(evidence, name, 1).shape == (9,)


def test_units_behind_a_mean() -> None:
    values = np.array([[1.0, np.nan], [0.5, np.nan], [1.0, 0.2], [np.nan, np.nan]])
    evidence = BagValues.of(values, np.array([1, 0, 1, 1]), np.full(4, 3))
    metric = BagMean(("a", "b"), ("a@1", "b@1"), (0, 1), 1.0, ("no_positives", "no_positives"))
    unit = np.array([0, 0, 1, 2])
    assert metric.support(evidence, unit, 3).tolist() == [[[2, 2, 1], [1, 1, 1]]]
    assert metric.counts(evidence, np.ones(4, np.int64)).tolist() == [[[4, 2, 9], [4, 1, 3]]]
    assert metric.value(evidence, np.array([[1, 1, 1, 1], [0, 0, 0, 1]]))[
        0, 0
    ].tolist() == pytest.approx([2.5 / 3, 0.2])
    assert np.isnan(metric.value(evidence, np.array([[0, 0, 0, 1]]))).all()
    assert metric.reasons(evidence)[0, 1] == "no_positives"


def test_no_bags_are_no_objects() -> None:
    nothing = BagValues.of(np.empty((0, 1)), np.empty(0, np.int64), np.empty(0, np.int64))
    metric = BagMean(("a",), ("a@1",), (0, 1), 1.0, ("no_positives",))
    assert np.isnan(metric.value(nothing, np.ones((1, 0), np.int64))).all()
    assert metric.reasons(nothing) == {(0, 0): "no_objects"}


@pytest.mark.parametrize("seed", range(5))
def test_a_weight_is_a_number_of_copies_for_the_bag_auc(seed: int) -> None:
    rng = np.random.default_rng(seed)
    evidence = CaseScores(np.round(rng.random((12, 3)), 1), np.arange(12) % 3 == 0)
    weights = rng.integers(0, 4, 12)
    copied = evidence.take(np.repeat(np.arange(12), weights))
    names = ("a", "b", "c", "all")
    ones = np.ones((1, copied.n_images), np.int64)
    np.testing.assert_allclose(
        BagAuroc(names, evidence).value(evidence, weights[None]),
        BagAuroc(names, copied).value(copied, ones),
        atol=3e-16,
    )
    joined = CaseScores.concat([evidence.take(np.arange(5)), evidence.take(np.arange(5, 12))])
    np.testing.assert_array_equal(joined.scores, evidence.scores)


def test_one_kind_of_bags_has_no_auc() -> None:
    for positive, why in [(True, "single_category"), (False, "no_positives")]:
        evidence = CaseScores(np.random.default_rng(0).random((4, 2)), np.full(4, positive))
        metric = BagAuroc(("a", "b", "all"), evidence)
        assert np.isnan(metric.value(evidence, np.ones((1, 4), np.int64))).all()
        assert set(metric.reasons(evidence).values()) == {why}
