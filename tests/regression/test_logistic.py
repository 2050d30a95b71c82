"""`logistic_model`: odds, probabilities, clusters, and outcomes that are all alike."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.regression.logistic import logistic_model


def hits(seed: int = 0, n: int = 300, patients: int = 40) -> dict[str, np.ndarray]:
    random = np.random.default_rng([20_264, seed])
    patient = random.integers(0, patients, n)
    size = random.choice(["large", "small"], n)
    logit = 1.0 - 1.5 * (size == "small") + random.standard_normal(patients)[patient]
    hit = (random.random(n) < 1 / (1 + np.exp(-logit))).astype(float)
    return {"hit": hit, "size": size, "patient": patient}


def test_a_table_of_four_cells_has_its_odds_ratio() -> None:
    """20 of 30 large and 5 of 25 small ones are hit: odds 2 and 1/4."""
    table = {
        "hit": [1] * 20 + [0] * 10 + [1] * 5 + [0] * 20,
        "size": ["large"] * 30 + ["small"] * 25,
        "image": list(range(55)),
    }
    found = logistic_model(table, "hit ~ size", ["image"])
    assert found["intercept"].value == pytest.approx(np.log(2.0))
    assert found.odds_ratio("size[small]")[0] == pytest.approx(1 / 8)
    # One row per cluster: the sandwich of a saturated model is the model's own variance, but for
    # the correction.
    own = 1 / 20 + 1 / 10 + 1 / 5 + 1 / 20
    assert found["size[small]"].se == pytest.approx(np.sqrt(own * 55 / 54 * 54 / 53))
    large, small = found.probabilities
    assert (large.value, small.value) == (pytest.approx(20 / 30), pytest.approx(5 / 25))
    assert (large.n_rows, small.n_rows) == (30, 25)
    half = stats.t.ppf(0.975, 54) * found["intercept"].se
    assert large.low == pytest.approx(1 / (1 + np.exp(-(np.log(2) - half))))
    assert (found.unit, found.n_units, found.n_positive) == ("row", 55, 25)
    assert found.sentences()[0].startswith("hit: 67 % with size large (95 % interval")


def test_rows_of_one_patient_count_together() -> None:
    table = hits()
    twice = {name: np.concatenate([column, column]) for name, column in table.items()}
    once, doubled = (logistic_model(t, "hit ~ size", ["patient"]) for t in (table, twice))
    assert doubled["size[small]"].value == pytest.approx(once["size[small]"].value)
    assert doubled["size[small]"].se == pytest.approx(once["size[small]"].se, rel=0.01)
    assert (once["size[small]"].df, once["size[small]"].method, once.unit) == (
        39.0,
        "sandwich-t",
        "patient",
    )


def test_adjusted_probabilities_hold_the_other_columns() -> None:
    table = hits()
    table["age"] = np.random.default_rng(1).normal(60, 10, 300) + 10 * (table["size"] == "small")
    found = logistic_model(table, "hit ~ size + age", ["patient"])
    b = [c.value for c in found.coefficients]
    p = 1 / (1 + np.exp(-(b[0] + b[1] + b[2] * table["age"])))
    assert found.probabilities[1].value == pytest.approx(p.mean())
    assert len(found.probabilities) == 2


def test_few_centres_become_a_fixed_effect_and_patients_the_clusters() -> None:
    table = hits()
    table["centre"] = np.array(["A", "B", "C"])[table["patient"] % 3]
    found = logistic_model(table, "hit ~ size", ["centre", "patient"])
    assert [c.name for c in found.coefficients] == [
        "intercept",
        "size[small]",
        "centre[B]",
        "centre[C]",
    ]
    assert (found.unit, found.n_units) == ("patient", 40)
    assert [one.column for one in found.probabilities] == ["size", "size"]


def test_too_few_clusters_have_no_interval() -> None:
    table = hits(patients=3)
    found = logistic_model(table, "hit ~ size", ["patient"], few_groups=2)
    assert found["size[small]"].reason == "too_few_units"
    assert np.isnan(found["size[small]"].low)
    assert np.isfinite(found["size[small]"].value)
    assert found.sentences()[0].endswith("no interval).")


def test_a_level_without_a_miss_has_no_odds_ratio() -> None:
    table = hits()
    table["size"] = np.where(table["patient"] % 5 == 0, "huge", table["size"])
    table["hit"] = np.where(table["size"] == "huge", 1.0, table["hit"])
    found = logistic_model(
        table, "hit ~ size", ["patient"], levels={"size": ["large", "small", "huge"]}
    )
    assert found["size[huge]"].reason == "single_category"
    assert np.isnan(found["size[huge]"].value)
    kept = table["size"] != "huge"
    alone = logistic_model(
        {name: column[kept] for name, column in table.items()}, "hit ~ size", ["patient"]
    )
    assert found["size[small]"].value == pytest.approx(alone["size[small]"].value, abs=1e-6)
    assert any("rows with size huge have hit 1" in note for note in found.notes)
    assert found.probabilities[2].value == pytest.approx(1.0, abs=1e-6)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_outcomes_that_are_all_alike(value: float) -> None:
    table = {**hits(), "hit": np.full(300, value)}
    found = logistic_model(table, "hit ~ size", ["patient"])
    assert {c.reason for c in found.coefficients} == {"single_category"}
    assert [one.value for one in found.probabilities] == [value, value]
    assert any("nothing to explain" in note for note in found.notes)
    json.dumps(found.as_dict(), allow_nan=False)


def test_other_outcomes_are_refused() -> None:
    table = hits()
    table["hit"][4] = 0.5
    with pytest.raises(cal.InputError) as error:
        logistic_model(table, "hit ~ size", ["patient"])
    assert (error.value.rule, error.value.location) == ("binary-response", "4:1")
    few = {name: column[:2] for name, column in hits().items()} | {
        "size": np.array(["large", "small"])
    }
    with pytest.raises(cal.InputError, match="too-few-rows"):
        logistic_model(few, "hit ~ size", ["patient"])


def test_an_unknown_coefficient_gets_the_nearest_name() -> None:
    with pytest.raises(cal.UsageError, match="did you mean"):
        logistic_model(hits(), "hit ~ size", ["patient"])["size[smal]"]
