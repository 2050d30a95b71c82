"""No interval rests on more than there is to learn from: images of the rarer kind, bags, objects.

All is right, or nothing is, so that a bound is that of the rule of three. A number that counted
other things as its trials would state a narrower interval.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.monitors.scope import Scope
from calipers.stability.scores import BagMean, BagValues
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.weights import Units
from calipers.validation import choices_areas
from calipers.validation.cells import CoverageCell, Effort


def rule_of_three(n: int) -> float:
    """Return the bound of a share of n without an exception."""
    return 0.05 ** (1 / n)


def perfect_monitor(n_wanted: int, n_others: int):
    rng = np.random.default_rng(1)
    alarm = np.concatenate([rng.uniform(2, 3, n_wanted), rng.uniform(0, 1, n_others)])
    scope = Scope.from_values([0.0] * n_wanted + [1.0] * n_others)
    return cal.evaluate_monitor({"m": alarm}, scope, 0.9, threshold=1.5, replicates=200)


@pytest.mark.parametrize(("n_wanted", "n_others"), [(6, 94), (94, 6)])
def test_a_perfect_monitor_is_as_certain_as_its_rarer_images(n_wanted: int, n_others: int) -> None:
    result = perfect_monitor(n_wanted, n_others)
    rarer = min(n_wanted, n_others)
    expected = {"g-mean": rarer, "specificity": n_others}
    expected |= dict.fromkeys(("F1", "sensitivity", "precision"), n_wanted)
    for name, number in expected.items():
        estimate = result.get(name, "m")
        assert estimate.value == 1.0
        assert estimate.low == pytest.approx(rule_of_three(number), abs=1e-9), name
    # Areas count errors, each of which costs three quarters of an image.
    areas = {"AUROC": rarer, "AUPR": n_wanted, "best-F1": n_wanted, "AUPR-in": n_others}
    for name, number in areas.items():
        estimate = result.get(name, "m")
        assert estimate.value == 1.0
        assert estimate.method == "gamma-t"
        low = 1 + math.log(0.05) * 0.75 / number
        assert estimate.low == pytest.approx(low, abs=1e-9), name
    for name in ("MCC", "Youden"):
        low = result.get(name, "m").low
        assert low == pytest.approx(2 * rule_of_three(rarer) - 1, abs=1e-9), name


def test_places_of_a_bag_are_no_trials() -> None:
    """Twenty bags of a thousand places without a hit, two of which have no value."""
    values = np.zeros((20, 1))
    values[:2] = np.nan
    places = np.full(20, 1000)
    for graded in (True, False):
        metric = BagMean(("m",), ("m@1",), (0.0, 1.0), 1.0, ["no_references"], graded=graded)
        units = Units.of("image", None, 20)
        case = metric, BagValues.of(values, places, places)
        ((row,),) = estimates([case], units, Certainty(replicates=200))
        assert row[0].value == 0.0
        assert row[0].high == pytest.approx(1 - rule_of_three(18), abs=1e-9)


def test_a_perfect_score_of_images_rests_on_the_rarer_kind() -> None:
    """Five of fifty images have a reference, and it is found."""
    boxes, empty = np.array([[10.0, 10.0, 30.0, 30.0]]), np.zeros((0, 4))
    references, predictions = [], []
    for k in range(50):
        own = boxes if k < 5 else empty
        references.append({"boxes": own, "labels": np.zeros(len(own), int), "image_id": k})
        predictions.append({**references[-1], "scores": np.full(len(own), 0.9)})
    cohort = cal.Cohort.from_arrays(references, {"m": predictions}, classes=("lesion",))
    protocol = cal.Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "own"\nsource = "own"\n'
        '[[metric]]\nname = "AUROC/case"\nkind = "case-auroc"\n'
    )
    estimate = cal.evaluate(cohort, protocol)["AUROC/case"]
    assert estimate.value == 1.0
    assert estimate.low == pytest.approx(1 + math.log(0.05) * 0.75 / 5, abs=1e-9)


def missed_altogether(seed: int) -> tuple[float, float, float]:
    """Value and bounds of AUROC where 4 % of the failures look like all other images."""
    rng = np.random.default_rng(seed)
    positive = rng.random(160) < 0.25
    visible = positive & (rng.random(160) >= 0.04)
    scope = Scope.from_values((~positive).astype(float))
    result = cal.evaluate_monitor(
        {"m": rng.normal(size=160) + 3.5 * visible}, scope, 0.5, replicates=200
    )
    estimate = result.get("AUROC", "m")
    return estimate.value, estimate.low, estimate.high


def test_areas_hold_the_truth_where_some_images_are_missed_altogether() -> None:
    """The t interval did so in 82 % of the cases."""
    separated = float(stats.norm.cdf(3.5 / math.sqrt(2.0)))
    truth = 0.96 * separated + 0.04 * 0.5
    made = np.array([missed_altogether(seed) for seed in range(80)])
    assert ((made[:, 1] <= truth) & (truth <= made[:, 2])).mean() >= 0.9
    assert ((made[:, 1] <= made[:, 0]) & (made[:, 0] <= made[:, 2])).all()


def test_the_rule_that_was_written_before_chooses_between_intervals_of_areas() -> None:
    rules = choices_areas.OF_SECOND
    coverages = {rules[0].name: 0.6, rules[1].name: 0.96, rules[2].name: 0.95, rules[3].name: 0.96}
    widths = {rules[0].name: 1.0, rules[1].name: 1.4, rules[2].name: 1.2, rules[3].name: 1.6}
    cells = []
    for rule in rules:
        for design in "abc":
            numbers = (9, 0.9, 400, 1.0, coverages[rule.name], widths[rule.name], 0.0)
            cells.append(CoverageCell(rule.name, "AUROC", design, "image", *numbers))
    assert choices_areas.chosen(cells, rules, ["AUROC"]) == rules[2].name


def test_candidates_for_areas_are_measured_on_data_of_their_own() -> None:
    design = choices_areas.SECOND[1]
    cells = choices_areas.compare(design, choices_areas.OF_SECOND, Effort(6, 100, 12, 5, 9_000))
    assert {cell.family for cell in cells} == {rule.name for rule in choices_areas.OF_SECOND}
    assert {cell.metric for cell in cells} == set(choices_areas.NAMES)
    for cell in cells:
        assert (cell.simulations, cell.without) == (6, 0.0), str(cell)
