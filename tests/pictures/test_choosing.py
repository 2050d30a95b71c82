"""Which images are shown: cuts, outcomes and orders that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calipers as cal
from calipers.matching.matches import Matches
from calipers.pictures.overlays import (
    disputed,
    matches_at,
    operating_point,
    outcomes,
    sample,
    worst,
)
from cases import KINDS, MODEL, cohort_of
from random_cohorts import random_cohort
from scenes import protocol, scene


def matches_of(evaluation: cal.Evaluation, model: str = "m") -> Matches:
    return evaluation.matches(model)


def f1_at(matches: Matches, cut: float) -> float:
    of = outcomes(matches, cut)
    hits, wrong = of.hits.sum(), of.errors.sum()
    return 2 * hits / (2 * hits + wrong)


def test_the_cut_of_the_best_f1() -> None:
    # 0.9 and 0.7 hit, 0.5 is wrong, 0.3 hits, 0.1 is wrong: F1 is 2/4 .. 4/5 .. 4/6 .. 6/7 .. 6/8
    found = [[(0, 0.9), (20, 0.7), (60, 0.5), (40, 0.3), (80, 0.1)]]
    assert operating_point(matches_of(scene([[0, 20, 40]], {"m": found}))) == 0.3


def test_of_equal_cuts_the_higher() -> None:
    # one of two found: 2/3; with two wrong and the second: 4/6
    found = [[(0, 0.9), (60, 0.5), (80, 0.4), (20, 0.3)]]
    assert operating_point(matches_of(scene([[0, 20]], {"m": found}))) == 0.9


@pytest.mark.parametrize("places", [(0, 60, 80), (60, 80, 0)])
def test_equal_scores_are_cut_together(places: tuple[float, ...]) -> None:
    # Counted one by one, the hit could come first and 0.5 would be as good as 0.2.
    found = [[*((place, 0.5) for place in places), (20, 0.2)]]
    assert operating_point(matches_of(scene([[0, 20]], {"m": found}))) == 0.2


@pytest.mark.parametrize("found", [[[]], [[(60, 0.9), (80, 0.2)]], [[(0, 1.0), (60, 1.0)]]])
def test_nothing_to_cut_keeps_all(found: list[list[tuple[float, float]]]) -> None:
    assert operating_point(matches_of(scene([[0]], {"m": found}))) == -math.inf


def test_a_cut_of_the_protocol_stays() -> None:
    found = [[(0, 0.9), (20, 0.7), (40, 0.3)]]
    made = matches_of(scene([[0, 20, 40]], {"m": found}, protocol(further="score_cut = 0.8")))
    assert operating_point(made) == 0.8
    assert outcomes(made, 0.8).missed.tolist() == [2]
    assert outcomes(made, 0.1).missed.tolist() == [2]


@pytest.mark.parametrize(
    "kind", ["plain", "tied scores", "crowds", "ignored", "volumes", "mostly empty"]
)
def test_no_other_score_has_a_better_f1(kind: str) -> None:
    evaluation = cal.evaluate(cohort_of(kind, 3, n_images=20), protocol(), ci=False)
    made = matches_of(evaluation, MODEL)
    cut = operating_point(made)
    values = {float(s): f1_at(made, s) for s in np.unique(made.score)}
    best = max(values.values())
    assert f1_at(made, cut) == pytest.approx(best)
    assert cut == max(s for s, value in values.items() if value == pytest.approx(best, abs=1e-12))


def test_outcomes_count_what_is_above_the_cut() -> None:
    found = [[(0, 0.9), (1, 0.6), (60, 0.7), (20, 0.3)], [(0, 0.2)], []]
    made = matches_of(scene([[0, 20], [], [40]], {"m": found}))
    low, high = outcomes(made, -math.inf), outcomes(made, 0.5)
    assert (low.hits.tolist(), low.missed.tolist()) == ([2, 0, 0], [0, 0, 1])
    assert (low.false_alarms.tolist(), low.duplicates.tolist()) == ([1, 1, 0], [1, 0, 0])
    assert (high.hits.tolist(), high.missed.tolist()) == ([1, 0, 0], [1, 0, 1])
    assert (high.false_alarms.tolist(), high.duplicates.tolist()) == ([1, 0, 0], [1, 0, 0])
    assert high.is_hit.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "assignment", ["by-score", "many-to-one", "by-overlap", "optimal", "per-reference-argmax"]
)
@pytest.mark.parametrize("kind", ["crowded images", "ignored"])
def test_a_cut_is_as_if_lower_predictions_had_never_been_made(assignment: str, kind: str) -> None:
    whole = cohort_of(kind, 5)
    cut = float(np.median(whole.models[MODEL].score))
    kept = whole.with_predictions(MODEL, whole.models[MODEL].keep(whole.models[MODEL].score >= cut))
    how = protocol(assignment)
    evaluation = cal.evaluate(whole, how, ci=False)
    found = outcomes(matches_at(evaluation, MODEL, cut), cut)
    wanted = outcomes(matches_of(cal.evaluate(kept, how, ci=False), MODEL), -math.inf)
    for name in ("hits", "missed", "false_alarms", "duplicates", "is_hit"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def test_predictions_beyond_the_allowed_number_do_not_exist() -> None:
    found = [[(60, 0.9), (80, 0.8), (0, 0.7)]]
    made = matches_of(scene([[0]], {"m": found}, protocol(further="max_dets = 2")))
    of = outcomes(made, -math.inf)
    assert (of.missed.tolist(), of.false_alarms.tolist()) == ([1], [2])


def test_worst_has_most_errors_then_more_missed_then_the_earlier() -> None:
    references = [[0], [0, 20], [0], [0, 20], [0]]
    found = [[(60, 0.9)], [], [(0, 0.9)], [], [(0, 0.9), (60, 0.9), (80, 0.9)]]
    of = outcomes(matches_of(scene(references, {"m": found})), -math.inf)
    assert of.errors.tolist() == [2, 2, 0, 2, 2]
    assert worst(of, 10).tolist() == [1, 3, 0, 4]
    assert worst(of, 2).tolist() == [1, 3]
    assert worst(of, 0).tolist() == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(KINDS)), st.integers(0, 15))
def test_no_image_that_is_left_out_is_worse(seed: int, kind: str, n: int) -> None:
    evaluation = cal.evaluate(cohort_of(kind, seed), protocol(), ci=False)
    of = outcomes(matches_of(evaluation, MODEL), -math.inf)
    chosen = worst(of, n)
    rest = np.setdiff1d(np.arange(len(of.errors)), chosen)
    assert len(set(chosen.tolist())) == len(chosen) <= n
    assert (of.errors[chosen] > 0).all()
    if len(chosen) and len(rest):
        assert of.errors[chosen].min() >= of.errors[rest].max()
    if len(chosen) < n:
        assert not of.errors[rest].any()


def test_a_sample_is_fixed_by_its_seed_and_in_order() -> None:
    first = sample(1000, 20, 7)
    assert np.array_equal(first, sample(1000, 20, 7))
    assert (np.diff(first) > 0).all()
    assert not np.array_equal(first, sample(1000, 20, 8))
    assert sample(3, 20, 0).tolist() == [0, 1, 2]
    assert sample(0, 5, 0).tolist() == []
    assert len(sample(10, 3, 2**64 - 1)) == 3


def test_every_image_is_as_likely_as_the_others() -> None:
    times = np.bincount(np.concatenate([sample(10, 3, seed) for seed in range(2000)]), minlength=10)
    assert np.abs(times - 600).max() < 5 * math.sqrt(2000 * 0.3 * 0.7)


def test_disputed_counts_references_and_false_alarms_that_differ() -> None:
    references = [[0, 20], [0], [0], [0, 20]]
    a = [[(0, 0.9), (20, 0.9)], [(0, 0.9)], [(60, 0.9), (80, 0.9), (40, 0.9)], [(0, 0.9)]]
    b = [[], [(0, 0.9)], [], [(20, 0.9)]]
    evaluation = scene(references, {"a": a, "b": b})
    both = [outcomes(matches_of(evaluation, model), -math.inf) for model in ("a", "b")]
    assert disputed(both, 10).tolist() == [2, 0, 3]  # 3, 2, 2; the second image is agreed on
    assert disputed(both, 1).tolist() == [2]
    assert disputed(both[:1], 10).tolist() == []


def test_what_all_models_miss_is_not_disputed() -> None:
    evaluation = scene([[0]], {"a": [[]], "b": [[]], "c": [[]]})
    of = [outcomes(matches_of(evaluation, model), -math.inf) for model in "abc"]
    assert disputed(of, 5).tolist() == []


def test_a_hundred_thousand_images_are_chosen_from_quickly() -> None:
    import time

    evaluation = cal.evaluate(random_cohort(100_000, 3, seed=1, models=1), protocol(), ci=False)
    made = matches_of(evaluation, MODEL)
    seconds = []
    for _ in range(5):  # the machine may be busy: one quiet run out of these is enough
        start = time.process_time()
        of = outcomes(made, operating_point(made))
        worst(of, 6), disputed([of, of, of], 6), sample(100_000, 6, 0)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0
