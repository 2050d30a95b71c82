"""Mixed models equal lme4's published numbers and statsmodels; the logistic model equals
statsmodels' GLM and GEE.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import calipers as cal
from calipers.kernels import mixed
from calipers.regression.logistic import logistic_model
from seeds import looped_seeds

SETS = 20

# Strength of a chemical paste: 10 batches, 3 casks of each, 2 assays of each cask. Davies and
# Goldsmith (eds.), Statistical Methods in Research and Production, 4th edition, 1972, section 6.4;
# data set `Pastes` of R's lme4.
PASTES = {
    "A": ((62.8, 62.6), (60.1, 62.3), (62.7, 63.1)),
    "B": ((60.0, 61.4), (57.5, 56.9), (61.1, 58.9)),
    "C": ((58.7, 57.5), (63.9, 63.1), (65.4, 63.7)),
    "D": ((57.1, 56.4), (56.9, 58.6), (64.7, 64.5)),
    "E": ((55.1, 55.1), (54.7, 54.2), (58.8, 57.5)),
    "F": ((63.4, 64.9), (59.3, 58.1), (60.5, 60.0)),
    "G": ((62.5, 62.6), (61.0, 58.7), (56.9, 57.7)),
    "H": ((59.2, 59.4), (65.2, 66.0), (64.8, 64.1)),
    "I": ((54.8, 54.8), (64.0, 64.0), (57.7, 56.8)),
    "J": ((58.3, 59.3), (59.2, 59.2), (58.9, 56.6)),
}


def pastes() -> dict[str, list[Any]]:
    rows = [
        (batch, cask, strength)
        for batch, casks in PASTES.items()
        for cask, pair in zip("abc", casks)
        for strength in pair
    ]
    return {
        "batch": [r[0] for r in rows],
        "cask": [r[1] for r in rows],
        "strength": [r[2] for r in rows],
    }


def test_pastes_by_reml_equals_lme4() -> None:
    """`lmer(strength ~ (1 | batch) + (1 | batch:cask))`; numbers as statsmodels' tests quote them
    from R.
    """
    model = cal.mixed_model(pastes(), "strength ~ 1", ["batch", "cask"])
    batch, cask, residual = model.components
    assert model["intercept"].value == pytest.approx(60.0533, rel=1e-6)
    assert model["intercept"].se == pytest.approx(0.6769, rel=1e-4)
    assert batch.variance == pytest.approx(1.657, rel=2e-4)  # quoted with four digits
    assert cask.variance == pytest.approx(8.434, rel=1e-4)
    assert residual.variance == pytest.approx(0.678, rel=1e-4)
    assert model.log_likelihood == pytest.approx(-123.49, rel=1e-4)
    assert model.deviance == pytest.approx(246.9907, rel=1e-6)
    diagnostics = model.diagnostics
    np.testing.assert_allclose(
        diagnostics.fitted[:5], [62.62866, 62.62866, 61.18663, 61.18663, 62.82094], rtol=1e-6
    )
    expected = [0.17133538, -0.02866462, -1.08662875, 1.11337125, -0.12093607]
    np.testing.assert_allclose(diagnostics.residuals[:5], expected, atol=1e-5)


def test_pastes_by_ml_equals_lme4() -> None:
    model = cal.mixed_model(pastes(), "strength ~ 1", ["batch", "cask"], reml=False)
    assert model["intercept"].se == pytest.approx(0.642, rel=1e-3)
    assert model.components[0].variance == pytest.approx(1.199, rel=1e-3)


def random_table(seed: int) -> pd.DataFrame:
    """A small multi-centre study whose groups really differ: statsmodels struggles where a variance
    is zero.
    """
    random = np.random.default_rng([20_262, seed])
    n_centres, n_patients, n_images = (
        int(random.integers(5, 8)),
        int(random.integers(25, 35)),
        int(random.integers(60, 80)),
    )
    centre = random.integers(0, n_centres, n_patients)
    patient = random.integers(0, n_patients, n_images)
    n = int(random.integers(140, 200))
    image = random.integers(0, n_images, n)
    table = pd.DataFrame(
        {"image": image, "patient": patient[image], "centre": centre[patient[image]]}
    )
    table["size"] = random.choice(["large", "medium", "small"], n)
    table["age"] = random.normal(60, 10, n)
    y = (
        0.7
        + 0.003 * table["age"]
        - 0.25 * (table["size"] == "small")
        + 0.12 * random.standard_normal(n)
    )
    y += 0.15 * random.standard_normal(n_centres)[table["centre"]]
    y += 0.15 * random.standard_normal(n_patients)[table["patient"]]
    y += 0.12 * random.standard_normal(n_images)[table["image"]]
    return table.assign(iou=y)


def statsmodels_fit(table: pd.DataFrame, reml: bool, wanted: float) -> Any:
    """Return the fit of the first optimiser that comes as low as wanted: each of them gets stuck
    now and then.
    """
    formulas = {"patient": "0 + C(patient)", "image": "0 + C(image)"}
    model = sm.MixedLM.from_formula(
        "iou ~ size + age", table, groups="centre", re_formula="1", vc_formula=formulas
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("lbfgs", "bfgs", "cg", "powell"):
            found = model.fit(reml=reml, method=method)
            if -2 * found.llf < wanted + 1e-5:
                break
    return found


# A fit of statsmodels takes half a second.
@looped_seeds(SETS, default=4)
def test_random_sets_equal_statsmodels(seed: int) -> None:
    table, reml = random_table(seed), seed % 2 == 0
    ours = cal.mixed_model(table, "iou ~ size + age", ["centre", "patient", "image"], reml=reml)
    peer = statsmodels_fit(table, reml, ours.deviance)
    assert ours.deviance == pytest.approx(-2 * peer.llf, abs=1e-5)
    np.testing.assert_allclose([c.value for c in ours.coefficients], peer.fe_params, atol=1e-4)
    # Beyond the intercept only: statsmodels lets the variances move too when it differentiates,
    # lme4 and we hold them.
    np.testing.assert_allclose([c.se for c in ours.coefficients[1:]], peer.bse_fe[1:], rtol=0.02)
    vcomp = dict(zip(peer.model.exog_vc.names, peer.vcomp))
    expected = [float(peer.cov_re.iloc[0, 0]), vcomp["patient"], vcomp["image"], float(peer.scale)]
    np.testing.assert_allclose(
        [c.variance for c in ours.components], expected, rtol=0.02, atol=1e-5
    )


def test_crossed_groups_equal_statsmodels() -> None:
    random = np.random.default_rng(3)
    reader, case = np.repeat(np.arange(8), 15), np.tile(np.arange(15), 8)
    y = 0.5 + 0.3 * random.standard_normal(8)[reader] + 0.4 * random.standard_normal(15)[case]
    table = pd.DataFrame(
        {"y": y + 0.1 * random.standard_normal(120), "reader": reader, "case": case, "one": 1}
    )
    table["x"] = random.standard_normal(120)
    ours = cal.mixed_model(table, "y ~ x", ["reader", "case"], crossed=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        formulas = {"reader": "0 + C(reader)", "case": "0 + C(case)"}
        peer = sm.MixedLM.from_formula("y ~ x", table, groups="one", vc_formula=formulas).fit()
    assert ours.deviance == pytest.approx(-2 * peer.llf, abs=1e-4)
    np.testing.assert_allclose([c.value for c in ours.coefficients], peer.fe_params, atol=1e-4)
    sds = {c.name: c.sd for c in ours.components}
    assert sds["reader"] == pytest.approx(0.3, rel=0.5)
    assert sds["case"] == pytest.approx(0.4, rel=0.4)
    assert ours["intercept"].n_units == 8
    assert ours.components[0].reason == "not_requested"
    effects = ours.diagnostics.effects
    found = pd.Series(peer.random_effects[1]).to_numpy()
    np.testing.assert_allclose(
        np.sort([*effects["case"].value, *effects["reader"].value]), np.sort(found), atol=1e-3
    )


@pytest.mark.parametrize("seed", range(5))
def test_logistic_equals_statsmodels(seed: int) -> None:
    table = random_table(seed)
    table["hit"] = (table["iou"] > 0.8).astype(int)
    ours = logistic_model(table, "hit ~ size + age", ["centre", "patient", "image"])
    binomial = sm.families.Binomial()
    peer = smf.glm("hit ~ size + age", table, family=binomial).fit()
    np.testing.assert_allclose([c.value for c in ours.coefficients], peer.params, rtol=1e-6)
    assert ours.deviance == pytest.approx(peer.deviance)
    # The plain sandwich and the one of Mancl and DeRouen; ours, CR2, lies between them.
    gee = smf.gee("hit ~ size + age", "centre", table, family=binomial)
    errors = []
    for power, kind in ((0.0, "robust"), (0.5, None), (1.0, "bias_reduced")):
        probability = peer.fittedvalues.to_numpy()
        weight, residual = probability * (1 - probability), table["hit"] - probability
        code = table["centre"].factorize()[0]
        x, bread = peer.model.exog, np.linalg.inv((peer.model.exog.T * weight) @ peer.model.exog)
        found = mixed.sandwich(x, residual.to_numpy(), weight, bread, code, power)
        errors.append(np.sqrt(np.diag(found.covariance)))
        if kind is not None:
            np.testing.assert_allclose(errors[-1], gee.fit(cov_type=kind).bse, rtol=1e-4)
    np.testing.assert_allclose([c.se for c in ours.coefficients], errors[1], rtol=1e-6)
    assert (errors[0] < errors[1]).all()
    assert (errors[1] < errors[2]).all()


def test_numbers_as_categories_equal_statsmodels() -> None:
    """`C(decade)` compares every level with the smallest number, 8 before 10, as patsy does."""
    table = random_table(3)
    table["decade"] = 8 + np.arange(len(table)) % 4
    table["hit"] = (table["iou"] > 0.8).astype(int)
    ours = logistic_model(table, "hit ~ C(decade) + age", ["centre", "patient", "image"])
    peer = smf.glm("hit ~ C(decade) + age", table, family=sm.families.Binomial()).fit()
    names = ["intercept", "decade[9]", "decade[10]", "decade[11]", "age"]
    assert [c.name for c in ours.coefficients] == names
    np.testing.assert_allclose([c.value for c in ours.coefficients], peer.params, rtol=1e-6)
    linear = cal.mixed_model(table, "iou ~ C(decade) + age:C(decade)", ["patient"], reml=False)
    peer = smf.mixedlm("iou ~ C(decade) + age:C(decade)", table, groups="patient").fit(reml=False)
    assert linear.formula == "iou ~ C(decade) + age:C(decade)"
    assert linear.deviance == pytest.approx(-2 * peer.llf, abs=1e-4)
    values = [c.value for c in linear.coefficients]
    np.testing.assert_allclose(values, peer.fe_params, atol=1e-4)
