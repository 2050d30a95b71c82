"""`logistic_model`: odds, probabilities, clusters, and outcomes that are all alike."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.kernels import mixed
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
    # One row per cluster: a saturated model's own variance, each part enlarged for what its 30 or
    # 25 rows took of their own residuals; Welch's degrees of freedom.
    parts = (1 / 20 + 1 / 10) * 30 / 29, (1 / 5 + 1 / 20) * 25 / 24
    assert found["size[small]"].se == pytest.approx(np.sqrt(sum(parts)))
    own = (1 / 20 + 1 / 10), (1 / 5 + 1 / 20)
    assert found["size[small]"].df == pytest.approx(
        sum(own) ** 2 / (own[0] ** 2 / 29 + own[1] ** 2 / 24)
    )
    large, small = found.probabilities
    assert (large.value, small.value) == (pytest.approx(20 / 30), pytest.approx(5 / 25))
    assert (large.n_rows, small.n_rows) == (30, 25)
    assert found["intercept"].df == pytest.approx(29.0)
    half = stats.t.ppf(0.975, 29) * found["intercept"].se
    assert large.low == pytest.approx(1 / (1 + np.exp(-(np.log(2) - half))))
    assert (found.unit, found.n_units, found.n_positive) == ("row", 55, 25)
    assert found.sentences()[0].startswith("hit: 67 % with size large (95 % CI")


def test_rows_of_one_patient_count_together() -> None:
    table = hits()
    twice = {name: np.concatenate([column, column]) for name, column in table.items()}
    once, doubled = (logistic_model(t, "hit ~ size", ["patient"]) for t in (table, twice))
    assert doubled["size[small]"].value == pytest.approx(once["size[small]"].value)
    assert doubled["size[small]"].se == pytest.approx(once["size[small]"].se, rel=0.01)
    assert (once["size[small]"].method, once.unit) == ("sandwich-t", "patient")
    assert 20.0 < once["size[small]"].df < 39.0


def brute_sandwich(x, y, probability, code, column):
    """Return the CR2 variance and the degrees of freedom of a coefficient, with matrices of all
    rows.
    """
    root = np.sqrt(probability * (1 - probability))
    scaled, residual = x * root[:, None], (y - probability) / root
    bread = np.linalg.inv(scaled.T @ scaled)
    maker = np.eye(len(y)) - scaled @ bread @ scaled.T
    meat, directions = np.zeros_like(bread), []
    for group in np.unique(code):
        rows = np.flatnonzero(code == group)
        values, vectors = np.linalg.eigh(maker[np.ix_(rows, rows)])
        enlarge = (vectors * values**-0.5) @ vectors.T
        score = scaled[rows].T @ enlarge @ residual[rows]
        meat += np.outer(score, score)
        directions.append(maker[:, rows] @ enlarge @ scaled[rows] @ bread[:, column])
    shared = np.array(directions) @ np.array(directions).T
    variance = (bread @ meat @ bread)[column, column]
    return variance, np.trace(shared) ** 2 / (shared**2).sum()


@pytest.mark.parametrize("seed", range(3))
def test_errors_and_degrees_of_freedom_are_those_of_the_whole_matrices(seed: int) -> None:
    random = np.random.default_rng([77, seed])
    code = np.repeat(np.arange(7), [5, 9, 14, 22, 10, 6, 7])
    x = np.column_stack(
        [np.ones(len(code)), random.normal(size=7)[code], random.normal(size=len(code))]
    )
    y = (random.random(len(code)) < 0.6).astype(float)
    fit = mixed.fit_logistic(x, y)
    weight = fit.probability * (1 - fit.probability)
    found = mixed.sandwich(x, y - fit.probability, weight, fit.bread, code)
    for column in range(3):
        variance, df = brute_sandwich(x, y, fit.probability, code, column)
        assert found.covariance[column, column] == pytest.approx(variance, rel=1e-8)
        assert found.freedom(np.eye(3)[column]) == pytest.approx(df, rel=1e-8)


def test_a_coefficient_that_one_cluster_decides_has_no_interval() -> None:
    """All small ones are of one patient: nothing shows how patients differ in them."""
    random = np.random.default_rng(5)
    patient = np.repeat(np.arange(6), 20)
    table = {
        "hit": (random.random(120) < 0.6).astype(float),
        "size": np.where(patient == 0, "small", "large"),
        "patient": patient,
    }
    model = logistic_model(table, "hit ~ size", ["patient"])
    found, (large, small) = model["size[small]"], model.probabilities
    assert np.isfinite(found.value)
    assert (found.reason, small.reason, large.reason) == ("too_few_units", "too_few_units", None)
    assert np.isnan([found.low, found.high, found.p, small.low, small.high]).all()
    assert model["intercept"].df == pytest.approx(4.0)


def test_a_column_of_six_centres_is_not_called_significant_too_often() -> None:
    """200 data sets without an effect: the plain sandwich with 5 degrees of freedom rejected .16
    of them.
    """
    random = np.random.default_rng(20_267)
    n_rejected = 0
    for _ in range(200):
        centre = np.repeat(np.arange(6), 20)
        logit = 0.3 + 0.8 * random.standard_normal(6)[centre]
        x = np.column_stack([np.ones(120), random.standard_normal(6)[centre]])
        y = (random.random(120) < 1 / (1 + np.exp(-logit))).astype(float)
        fit = mixed.fit_logistic(x, y)
        weight = fit.probability * (1 - fit.probability)
        spread = mixed.sandwich(x, y - fit.probability, weight, fit.bread, centre)
        t = fit.beta[1] / np.sqrt(spread.covariance[1, 1])
        n_rejected += 2 * stats.t.sf(abs(t), spread.freedom(np.array([0.0, 1.0]))) < 0.05
    assert n_rejected / 200 < 0.09


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
    n = int((table["size"] == "huge").sum())
    assert found.sentences()[2] == f"hit: {n} of {n} rows with size huge (no interval)."
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_outcomes_that_are_all_alike(value: float) -> None:
    table = {**hits(), "hit": np.full(300, value)}
    found = logistic_model(table, "hit ~ size", ["patient"])
    assert {c.reason for c in found.coefficients} == {"single_category"}
    assert [one.value for one in found.probabilities] == [value, value]
    large = found.probabilities[0]
    n_hits = large.n_rows if value else 0
    assert found.sentences()[0].startswith(f"hit: {n_hits} of {large.n_rows} rows with size ")
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
