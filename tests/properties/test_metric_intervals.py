"""What every interval of every metric must obey; a metric outside the suite fails the suite."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

import calipers as cal
from calipers import registry
from calipers.results.estimate import Estimate
from calipers.statistics.comparison import bootstrapped, judge
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.weights import Units
from cases import KINDS, MODEL, cohort_of, evidence_of
from properties.suite import CASES, MAP_CASES, Case
from seeds import in_turn, looped

every_metric = looped("case", CASES)
BOX, FAR = [0, 0, 10, 10], [30, 30, 40, 40]
N_IMAGES = 30


def test_the_suite_covers_the_registry() -> None:
    assert {case.kind for case in [*CASES, *MAP_CASES]} == set(registry.METRICS)


def stated(
    case: Case,
    cohort: cal.Cohort,
    units: Units,
    replicates: int = 200,
    method: str = "bootse-t-logit",
):
    metric = case.metric()
    certainty = Certainty(replicates=replicates, seed=3, method=method)
    (table,) = estimates([(metric, evidence_of(metric, cohort))], units, certainty)
    for row in table:
        for k, estimate in enumerate(row):
            yield metric.facts.names[k], metric.facts.bounds_of(k), estimate


@pytest.mark.parametrize(("case", "kind"), in_turn(CASES, KINDS, default=3))
def test_bounds_stay_in_range_and_hold_their_value(case: Case, kind: str) -> None:
    cohort = cohort_of(kind, seed=31, n_images=N_IMAGES)
    unit = np.arange(N_IMAGES) // 3
    for units in (Units.of("image", None, N_IMAGES), Units.of("patient", unit, N_IMAGES)):
        for name, (least, most), e in stated(case, cohort, units):
            if e.method == "none":
                continue
            assert least <= e.low <= e.value + 1e-12, (name, e)
            assert e.value - 1e-12 <= e.high <= most, (name, e)
            assert e.low < e.high, (name, e)
            assert math.isfinite(e.high), (name, e)


@cache
def detector(n_misses: int) -> cal.Cohort:
    """One object per image, of two classes in turn; the least certain predictions lie far off."""
    references, predictions = [], []
    for k in range(N_IMAGES):
        references.append({"boxes": [BOX], "labels": [k % 2]})
        place = BOX if k < N_IMAGES - n_misses else FAR
        predictions.append({"boxes": [place], "labels": [k % 2], "scores": [0.9 - k / 100]})
    return cal.Cohort.from_arrays(references, {MODEL: predictions}, classes=("a", "b"))


@every_metric
@pytest.mark.parametrize("method", ["bootse-t-logit", "percentile", "bca"])
def test_no_interval_has_a_width_of_0(case: Case, method: str) -> None:
    """Units that all fare alike are no certainty: the interval has room, or there is none."""
    units = Units.of("image", None, N_IMAGES)
    for n_misses in (0, N_IMAGES):
        for name, _, e in stated(case, detector(n_misses), units, 100, method):
            assert e.low < e.high or (math.isnan(e.low) and e.reason is not None), (name, e)
            assert e.percentile[0] != e.percentile[1], (name, e)
            assert "[" not in str(e) or e.low < e.high, str(e)


@every_metric
def test_a_model_and_its_copy_have_no_interval_of_their_difference(case: Case) -> None:
    units = Units.of("image", None, N_IMAGES)
    metric = case.metric()
    tables = {metric.recipe.key: evidence_of(metric, detector(3))}
    (one,), (other,) = bootstrapped([metric], [tables, tables], units, 100, 3)
    d = (one - other)[:, 0]
    tests = judge(np.zeros(d.shape[1]), d, None, units, 0.95)
    for interval, p in zip(tests.intervals, tests.p.tolist()):
        assert math.isnan(interval.low)
        if interval.reason == "constant_input":
            assert p == 1.0


@every_metric
@pytest.mark.parametrize(
    ("n_units", "most_misses", "replicates"),
    [(N_IMAGES, 9, 400), pytest.param(10, 6, 200, marks=pytest.mark.slow)],
)
def test_more_errors_never_raise_the_lower_bound_nor_move_it_far(
    case: Case, n_units: int, most_misses: int, replicates: int
) -> None:
    """Nor lower the upper bound where less is better; every miss lies in a unit of its own.

    Up to the error that comes from the number of replicates. Scores that are graded and means over
    thresholds keep the t interval: theirs may rise a little where it takes over from the bound of a
    perfect value, by up to .05 in units of three images.
    """
    metric = case.metric()
    patient = None if n_units == N_IMAGES else np.arange(N_IMAGES) % n_units
    units = Units.of("image", patient, N_IMAGES)
    walks: dict[str, list[Estimate]] = {}
    for n_misses in range(most_misses + 1):
        every = list(stated(case, detector(n_misses), units, replicates))
        for name, bounds, e in every[: len(metric.facts.names)]:  # pooled
            # A count of hits has no bound that errors bring it away from.
            countable = bounds == (0.0, 1.0) or metric.facts.lower_is_better(name)
            if countable and e.method != "none":
                walks.setdefault(name, []).append(e)
    for name, walk in walks.items():
        for fewer, more in itertools.pairwise(walk):
            steps = more.low - fewer.low, more.value - fewer.value, more.high - fewer.high
            noise = 2 * (fewer.mc_error[0] + more.mc_error[0])
            if metric.facts.lower_is_better(name):
                steps = tuple(-step for step in reversed(steps))
                noise = 2 * (fewer.mc_error[1] + more.mc_error[1])
            low, value, high = steps
            if name in metric.facts.graded:
                noise += 0.05
            assert value >= 0 or low <= noise + 1e-9, (name, fewer, more)
            # One error is worth 1/30 of most values, and never moves a bound by a multiple of that.
            if fewer.high <= 1 and n_units == N_IMAGES:
                assert value >= 0 or high < 0.02, (name, fewer, more)
                assert abs(low) < 3 * abs(value) + 0.06, (name, fewer, more)
                assert abs(high) < 3 * abs(value) + 0.06, (name, fewer, more)
