"""`mixed_model`: what it decides, what it refuses, what it offers beside the coefficients."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import calipers as cal
from calipers.kernels import mixed
from calipers.regression.mixed import MixedModel

GROUPS = ["centre", "patient", "image"]


def polyps(
    seed: int = 0, *, centres: int = 6, patients: int = 60, images: int = 150, n: int = 240
) -> pd.DataFrame:
    """A multi-centre study with known effects: -.28 small, -.05 medium, +.08 protruded."""
    random = np.random.default_rng([20_263, seed])
    centre = np.arange(patients) % centres
    patient = np.concatenate([np.arange(patients), random.integers(0, patients, images - patients)])
    image = np.concatenate([np.arange(images), random.integers(0, images, n - images)])
    table = pd.DataFrame(
        {"image": image, "patient": patient[image], "centre": centre[patient[image]]}
    )
    table["size"] = random.choice(["large", "medium", "small"], n, p=[0.5, 0.3, 0.2])
    table["type"] = random.choice(["flat", "protruded"], n)
    effect = table["size"].map({"large": 0.0, "medium": -0.05, "small": -0.28})
    y = 0.75 + effect + 0.08 * (table["type"] == "protruded") + 0.12 * random.standard_normal(n)
    for name, sd in (("centre", 0.04), ("patient", 0.08), ("image", 0.06)):
        y = y + sd * random.standard_normal(int(table[name].max()) + 1)[table[name]]
    table["iou"] = y
    table["centre"] = "C" + table["centre"].astype(str)
    return table


@pytest.fixture(scope="module")
def model() -> MixedModel:
    return cal.mixed_model(polyps(1), "iou ~ size + type", GROUPS)


def test_every_number_has_its_n_and_interval(model: MixedModel) -> None:
    assert [c.name for c in model.coefficients] == [
        "intercept",
        "size[medium]",
        "size[small]",
        "type[protruded]",
    ]
    for c in model.coefficients:
        assert c.low < c.value < c.high
        assert (c.n_rows, c.reason) == (240, None)
    assert [c.name for c in model.components] == [*GROUPS, "residual"]
    assert [c.n_groups for c in model.components] == [6, 60, 150, 240]
    for component in model.components:
        assert component.low <= component.sd <= component.high
    assert model.n_groups == {"centre": 6, "patient": 60, "image": 150}
    assert model.log_likelihood == -model.deviance / 2
    assert (model.n_rows, dict(model.n_dropped), model.criterion) == (240, {}, "REML")


def test_intervals_are_t_for_what_centres_share_and_normal_else(model: MixedModel) -> None:
    intercept, small = model["intercept"], model["size[small]"]
    assert (intercept.method, intercept.df, intercept.unit, intercept.n_units) == (
        "wald-t",
        5.0,
        "centre",
        6,
    )
    assert (small.method, small.df, small.unit, small.n_units) == ("wald-z", np.inf, "row", 240)
    assert intercept.high - intercept.value == pytest.approx(stats.t.ppf(0.975, 5) * intercept.se)
    assert small.value - small.low == pytest.approx(stats.norm.ppf(0.975) * small.se)
    assert small.p == pytest.approx(2 * stats.norm.sf(abs(small.value / small.se)))
    assert intercept.p == pytest.approx(2 * stats.t.sf(abs(intercept.value / intercept.se), 5))


def test_a_column_of_the_centre_gets_t_too() -> None:
    table = polyps().assign(field=lambda t: (t["centre"] < "C3").astype(float))
    found = cal.mixed_model(table, "iou ~ field + size", GROUPS, level=0.9)
    # Six centres less the two columns that are constant in them.
    assert (found["field"].method, found["field"].df) == ("wald-t", 4.0)
    assert found["field"].high - found["field"].value == pytest.approx(
        stats.t.ppf(0.95, 4) * found["field"].se
    )
    # A single column: F is the square of its t, and the p values agree.
    test = found.term_tests[0]
    assert (test.what, test.method, test.df, test.df_error) == ("field", "wald-f", 1, 4.0)
    assert test.p == pytest.approx(found["field"].p)
    without = cal.mixed_model(table, "iou ~ size", GROUPS)
    assert found.lr_test(without).p == pytest.approx(test.p)
    assert found.term_tests[1].method == "chi-squared"


def test_a_term_of_balanced_centres_has_the_p_of_the_analysis_of_variance() -> None:
    """Exact: six centres of one size in three regions are six means in three groups."""
    random = np.random.default_rng(8)
    centre = np.repeat(np.arange(6), 30)
    means = random.normal(size=6)
    table = {
        "y": means[centre] + 0.5 * random.normal(size=180),
        "region": np.array(list("abcabc"))[centre],
        "centre": centre,
    }
    test = cal.mixed_model(table, "y ~ region", ["centre"]).term_tests[0]
    observed = np.bincount(centre, table["y"]) / 30
    peer = stats.f_oneway(*(observed[k::3] for k in range(3)))
    assert (test.df, test.df_error) == (2, 3.0)
    assert test.statistic == pytest.approx(peer.statistic, rel=1e-4)
    assert test.p == pytest.approx(peer.pvalue, rel=1e-4)


def test_terms_of_few_centres_are_not_called_significant_too_often() -> None:
    """The likelihood ratio rejected .17 of such data sets without an effect."""
    random, n_rejected = np.random.default_rng(20_268), 0
    for _ in range(150):
        centre = np.repeat(np.arange(6), 10)
        table = {
            "y": 0.3 * random.normal(size=6)[centre] + 0.4 * random.normal(size=60),
            "region": np.array(list("abcabc"))[centre],
            "centre": centre,
        }
        n_rejected += cal.mixed_model(table, "y ~ region", ["centre"]).term_tests[0].p < 0.05
    assert n_rejected / 150 < 0.09


def test_as_many_centre_columns_as_centres_leave_no_interval() -> None:
    random, centre = np.random.default_rng(9), np.repeat(np.arange(5), 8)
    table = {"y": random.normal(size=40), "centre": centre}
    for k in range(4):
        table[f"x{k}"] = random.normal(size=5)[centre]
    found = cal.mixed_model(table, "y ~ x0 + x1 + x2 + x3", ["centre"])
    assert found["x0"].reason == "too_few_units"
    assert np.isnan(found.term_tests[0].p)
    json.dumps(found.as_dict(), allow_nan=False)


def test_shares_and_correlations(model: MixedModel) -> None:
    centre, patient, image, residual = model.components
    total = sum(c.variance for c in model.components)
    assert sum(c.share for c in model.components) == pytest.approx(1.0)
    assert centre.icc == pytest.approx(centre.variance / total)
    assert patient.icc == pytest.approx((centre.variance + patient.variance) / total)
    assert image.icc == pytest.approx(1 - residual.share)
    assert residual.icc is None
    for one in (centre, patient, image):
        assert one.icc_low <= one.icc <= one.icc_high < 1.0
    assert np.isnan([residual.icc_low, residual.icc_high]).all()
    assert residual.as_dict()["icc_low"] is None


def test_intervals_of_correlations_are_where_the_likelihood_says() -> None:
    """One level: the relative variance is ICC / (1 - ICC), whose deviance a grid can follow."""
    random = np.random.default_rng(3)
    centre = np.repeat(np.arange(8), 10)
    y = 0.7 * random.normal(size=8)[centre] + random.normal(size=80)
    tree = mixed.nest(np.ones((80, 1)), y, [centre])
    best = mixed.fit(tree, reml=True)
    rise = stats.chi2.isf(0.05, 1)
    grid = np.linspace(0.0, 0.95, 2000)
    deviances = []
    for value in grid:
        point = mixed.climb(tree, np.array([value / (1 - value)]))
        deviances.append(mixed.deviance(tree, point, None, reml=True))
    inside = grid[np.array(deviances) <= best.deviance + rise]
    low, high = mixed.likeness_interval(tree, best, 0, rise, reml=True)
    assert (low, high) == (pytest.approx(inside[0], abs=1e-3), pytest.approx(inside[-1], abs=1e-3))


def test_the_deviance_at_a_held_correlation_is_the_smallest_there_is() -> None:
    """Three levels: no point of a random search that has this correlation lies below."""
    random = np.random.default_rng(4)
    outer, middle, inner = np.arange(160) // 32, np.arange(160) // 8, np.arange(160) // 2
    y = sum(random.normal(size=code.max() + 1)[code] for code in (outer, middle, inner))
    y = y + random.normal(size=160)
    tree = mixed.nest(np.ones((160, 1)), y, [inner, middle, outer])
    best = mixed.fit(tree, reml=True)
    for level in range(3):
        for icc in (0.2, 0.6):
            smallest = mixed.likeness_deviance(tree, best, level, icc, reml=True)
            for _ in range(200):
                relative = random.exponential(2.0, 3)
                target = icc / (1 - icc) * (1 + relative[:level].sum())
                relative[level:] *= target / relative[level:].sum()
                point = mixed.climb(tree, relative)
                assert mixed.deviance(tree, point, None, reml=True) >= smallest - 1e-6


def test_the_order_of_rows_does_not_matter(model: MixedModel) -> None:
    table = polyps(1)
    shuffled = table.sample(frac=1, random_state=1)
    other = cal.mixed_model(shuffled, "iou ~ size + type", GROUPS)
    assert other.deviance == pytest.approx(model.deviance, abs=1e-7)
    residuals = pd.Series(other.diagnostics.residuals, index=shuffled.index).sort_index()
    np.testing.assert_allclose(residuals, model.diagnostics.residuals, atol=1e-6)


def test_units_of_the_response_do_not_matter(model: MixedModel) -> None:
    other = cal.mixed_model(
        polyps(1).assign(iou=lambda t: 100 * t["iou"] + 7), "iou ~ size + type", GROUPS
    )
    assert other["size[small]"].value == pytest.approx(100 * model["size[small]"].value, rel=1e-6)
    assert other.components[1].high == pytest.approx(100 * model.components[1].high, rel=1e-3)


def test_equal_ids_in_different_centres_are_different_patients() -> None:
    table = polyps()
    again = table.assign(
        patient=table.groupby("centre")["patient"].rank(method="dense").astype(int)
    )
    first, second = (cal.mixed_model(t, "iou ~ size", GROUPS) for t in (table, again))
    assert second.n_groups == first.n_groups
    assert second.deviance == pytest.approx(first.deviance, abs=1e-7)
    assert not [note for note in first.notes if "occur in more than one" in note]
    assert (
        "10 values of patient occur in more than one centre; they are taken for different patients"
        in second.notes
    )


def test_few_centres_become_a_fixed_effect() -> None:
    table = polyps(centres=3)
    found = cal.mixed_model(table, "iou ~ size", GROUPS)
    assert list(found.n_groups) == ["patient", "image"]
    assert [c.name for c in found.coefficients][-2:] == ["centre[C1]", "centre[C2]"]
    assert "3 centres are too few for a variance: centre is a fixed effect" in found.notes
    assert found.formula == "iou ~ size + centre"
    insisted = cal.mixed_model(table, "iou ~ size", GROUPS, few_groups=2)
    assert list(insisted.n_groups) == GROUPS


def test_one_centre_has_no_effect() -> None:
    found = cal.mixed_model(polyps(centres=1), "iou ~ size", GROUPS)
    assert list(found.n_groups) == ["patient", "image"]
    assert [c.term for c in found.coefficients] == ["intercept", "size", "size"]
    assert "there is one centre only, so it has no effect of its own" in found.notes


def test_few_patients_speak_for_their_centres() -> None:
    found = cal.mixed_model(polyps(centres=2, patients=4), "iou ~ size", GROUPS)
    assert list(found.n_groups) == ["image"]
    assert (
        "4 patients are too few for a variance: patient is a fixed effect, which also accounts for "
        "centre" in found.notes
    )
    assert sum(c.term == "patient" for c in found.coefficients) == 3


def test_one_object_per_image_drops_the_image() -> None:
    found = cal.mixed_model(polyps(images=240), "iou ~ size", GROUPS)
    assert list(found.n_groups) == ["centre", "patient"]
    assert "one row per image everywhere: image is part of the residual" in found.notes


def test_one_image_per_patient_drops_the_image() -> None:
    found = cal.mixed_model(polyps(patients=150), "iou ~ size", GROUPS)
    assert list(found.n_groups) == ["centre", "patient"]
    assert "one image per patient everywhere: image is part of patient" in found.notes


def test_without_any_group_left_it_is_least_squares() -> None:
    table = polyps(images=240)
    found = cal.mixed_model(table, "iou ~ size", ["image"])
    assert found.n_groups == {}
    assert [c.name for c in found.components] == ["residual"]
    assert "least squares" in found.notes[-1]
    x = np.column_stack([np.ones(240), table["size"] == "medium", table["size"] == "small"]).astype(
        float
    )
    np.testing.assert_allclose(
        [c.value for c in found.coefficients], np.linalg.lstsq(x, table["iou"], rcond=None)[0]
    )


def test_a_group_that_is_a_term_has_no_variance() -> None:
    found = cal.mixed_model(polyps(), "iou ~ size + centre", GROUPS)
    assert list(found.n_groups) == ["patient", "image"]
    assert "centre is a fixed effect of the formula, so it has no variance" in found.notes


def test_a_variance_of_zero_is_flagged() -> None:
    random = np.random.default_rng(0)
    table = {
        "y": np.tile([-1.0, 1.0], 30) + 0.01 * random.standard_normal(60),
        "g": np.repeat(np.arange(30), 2),
    }
    found = cal.mixed_model(table, "y ~ 1", ["g"])
    assert found.singular
    assert found.components[0].sd == 0.0
    assert found.components[0].low == 0.0 < found.components[0].high
    assert "the variance between gs is estimated as zero (a singular fit)" in found.notes
    assert found.component_tests[0].p == 1.0


def test_rows_of_a_group_that_are_equal_are_refused() -> None:
    random = np.random.default_rng(0)
    values, x = np.repeat(random.standard_normal(12), 2), random.standard_normal(24)
    table = {"y": values, "z": values + 2 * x, "x": x, "g": np.repeat(np.arange(12), 2)}
    for formula in ("y ~ 1", "y ~ x", "z ~ x"):
        with pytest.raises(cal.InputError, match="rows of one g that differ"):
            cal.mixed_model(table, formula, ["g"])
    nearly = {**table, "y": values + 1e-7 * random.standard_normal(24)}
    found = cal.mixed_model(nearly, "y ~ 1", ["g"])
    assert [note for note in found.notes if note.startswith("rows of one g hardly differ")]
    assert found["intercept"].se == pytest.approx(
        values.std() * np.sqrt(12 / 11) / np.sqrt(12), rel=1e-3
    )


@pytest.mark.parametrize("column", ["iou", "size", "patient"])
def test_missing_values_are_refused_or_counted(column: str) -> None:
    table = polyps().astype({"patient": object})
    table.loc[[7, 11], column] = None
    with pytest.raises(cal.InputError) as error:
        cal.mixed_model(table, "iou ~ size", GROUPS)
    assert (error.value.rule, error.value.field) == ("missing-value", column)
    assert error.value.location.startswith("7:")
    assert "2 rows have no" in error.value.hint
    found = cal.mixed_model(table, "iou ~ size", GROUPS, missing="drop")
    assert (found.n_rows, dict(found.n_dropped)) == (238, {column: 2})
    assert f"2 rows without {column} were left out" in found.notes
    clean = cal.mixed_model(table.drop([7, 11]), "iou ~ size", GROUPS)
    assert found.deviance == pytest.approx(clean.deviance, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "formula", "rule", "said"),
    [
        ({"iou": 0.5}, "iou ~ size", "constant-response", "0.5 in all 240 rows"),
        (
            {"iou": 0.5, "age": np.arange(240) % 200},
            "iou ~ C(age)",
            "constant-response",
            "no term can explain it",
        ),
        ({"size": "large"}, "iou ~ size", "one-level", "size"),
        ({"kind": 1.0}, "iou ~ size + kind", "rank-deficient", "determined by intercept"),
        ({"iou": np.inf}, "iou ~ size", "non-finite", "0:"),
        ({"iou": "good"}, "iou ~ size", "type", "expected a number, got 'good'"),
        ({}, "iuo ~ size", "missing-column", "did you mean 'iou'"),
        ({}, "iou ~ sise", "missing-column", "did you mean 'size'"),
    ],
)
def test_impossible_models_name_the_column(
    change: dict[str, Any], formula: str, rule: str, said: str
) -> None:
    with pytest.raises(cal.InputError) as error:
        cal.mixed_model(polyps().assign(**change), formula, GROUPS)
    assert error.value.rule == rule
    assert said in str(error.value)


def test_too_few_rows() -> None:
    table = polyps().drop_duplicates("size")
    with pytest.raises(cal.InputError, match="too-few-rows"):
        cal.mixed_model(table, "iou ~ size", ["centre"])
    with pytest.raises(cal.InputError, match="too-few-rows"):
        cal.mixed_model(table[:0], "iou ~ size", ["centre"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": []}, "between 1 and 4 groups"),
        ({"groups": ["centre", "centre"]}, "twice"),
        ({"groups": ["iou"]}, "cannot be a group"),
        ({"level": 1.0}, "between 0 and 1"),
        ({"missing": "ignore"}, "'refuse' or 'drop'"),
        ({"bootstrap": -1}, "bootstrap is a whole number from 0"),
        ({"bootstrap": 10**9}, "bootstrap is a whole number from 0"),
        ({"few_groups": 0}, "at least 2"),
        ({"levels": {"iou": [0, 1]}}, "which is the response"),
        ({"levels": {"size": ["small", "small", "large"]}}, "named twice"),
        ({"formula": "~ size"}, "no response"),
    ],
)
def test_wrong_arguments_are_usage_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        cal.mixed_model(polyps(), **{"formula": "iou ~ size", "groups": GROUPS, **options})


def test_terms_are_tested_by_ml_whatever_the_fit() -> None:
    table = polyps()
    by_reml, by_ml = (
        cal.mixed_model(table, "iou ~ size + type", GROUPS, reml=reml) for reml in (True, False)
    )
    assert by_reml.deviance != pytest.approx(by_ml.deviance, abs=1.0)
    for first, second in zip(by_reml.term_tests, by_ml.term_tests):
        assert (first.what, first.df, first.criterion) == (second.what, second.df, "ML")
        assert first.statistic == pytest.approx(second.statistic, abs=1e-6)
    size = by_reml.term_tests[0]
    without = cal.mixed_model(table, "iou ~ type", GROUPS, reml=False)
    assert size.statistic == pytest.approx(without.deviance - by_ml.deviance, abs=1e-6)
    assert (size.what, size.df, size.method) == ("size", 2, "chi-squared")
    assert size.p == pytest.approx(stats.chi2.sf(size.statistic, 2))
    assert by_reml.lr_test(without).statistic == pytest.approx(size.statistic, abs=1e-6)
    assert without.lr_test(by_reml).what == "size"


def test_main_effects_inside_an_interaction_are_not_tested() -> None:
    found = cal.mixed_model(polyps(), "iou ~ size + type + size:type", GROUPS)
    assert [(test.what, test.df) for test in found.term_tests] == [("size:type", 2)]
    assert cal.mixed_model(polyps(), "iou ~ size - 1", GROUPS).term_tests == ()


def test_random_intercepts_are_tested_with_half_the_tail() -> None:
    table = polyps()
    full, small = (
        cal.mixed_model(table, "iou ~ size", groups) for groups in (GROUPS, ["centre", "image"])
    )
    patient = full.component_tests[1]
    assert (patient.what, patient.criterion, patient.method) == (
        "patient",
        "REML",
        "chi-bar-squared",
    )
    assert patient.statistic == pytest.approx(small.deviance - full.deviance, abs=1e-6)
    assert patient.p == pytest.approx(0.5 * stats.chi2.sf(patient.statistic, 1))
    assert full.lr_test(small).p == pytest.approx(patient.p)


def test_models_that_cannot_be_compared() -> None:
    table = polyps()
    first = cal.mixed_model(table, "iou ~ size", GROUPS)
    for other, said in (
        (cal.mixed_model(table, "iou ~ type", GROUPS), "neither model contains"),
        (cal.mixed_model(table[:200], "iou ~ size", GROUPS), "different rows"),
        (cal.mixed_model(table, "iou ~ size + type", ["centre"]), "not in both"),
        (cal.mixed_model(table, "iou ~ size", ["centre"]), "not in more"),
    ):
        with pytest.raises(cal.UsageError, match=said):
            first.lr_test(other)


def test_diagnostics_fit_together(model: MixedModel) -> None:
    table, found = polyps(1), model.diagnostics
    np.testing.assert_allclose(found.fitted + found.residuals, table["iou"])
    plain = (table["size"] == "large") & (table["type"] == "flat")
    np.testing.assert_allclose(found.expected[plain], model["intercept"].value)
    centre = found.effects["centre"]
    assert centre.labels == tuple(f"C{k}" for k in range(6))
    assert int(centre.n_rows.sum()) == 240
    assert (centre.se < model.components[0].sd).all()
    assert found.effects["patient"].labels[0] == "C0/0"
    normal, residual = found.qq
    assert np.corrcoef(normal, residual)[0, 1] > 0.98
    assert (np.diff(residual) >= 0).all()
    parts = {name: dict(zip(one.labels, one.value)) for name, one in found.effects.items()}
    row = table.iloc[5]
    label = f"{row['centre']}/{row['patient']}"
    group = (
        parts["centre"][row["centre"]]
        + parts["patient"][label]
        + parts["image"][f"{label}/{row['image']}"]
    )
    assert found.fitted[5] == pytest.approx(found.expected[5] + group)


def test_bootstrap_checks_agree_with_the_model() -> None:
    found = cal.mixed_model(
        polyps(centres=20, patients=80), "iou ~ size", GROUPS, bootstrap=60, seed=3
    )
    parametric, cluster = found.checks
    assert (parametric.kind, cluster.kind, cluster.unit, cluster.n_units) == (
        "parametric",
        "cluster",
        "centre",
        20,
    )
    for check in (parametric, cluster):
        assert (check.replicates, check.undefined, check.seed) == (60, 0, 3)
        for ours, theirs in zip(found.coefficients, check.coefficients):
            assert theirs.value == ours.value
            assert 0.5 < theirs.se / ours.se < 1.8
            assert theirs.low < theirs.value < theirs.high
    assert [one.method for one in cluster.coefficients] == ["bootse-t"] * 3
    again = cal.mixed_model(
        polyps(centres=20, patients=80), "iou ~ size", GROUPS, bootstrap=60, seed=3
    )
    assert again.checks == found.checks
    other = cal.mixed_model(
        polyps(centres=20, patients=80), "iou ~ size", GROUPS, bootstrap=60, seed=4
    )
    assert other.checks != found.checks


def test_a_cluster_bootstrap_of_few_groups_has_no_interval() -> None:
    found = cal.mixed_model(polyps(centres=4), "iou ~ size", ["centre"], few_groups=2, bootstrap=20)
    assert {one.reason for one in found.checks[1].coefficients} == {"too_few_units"}


def test_results_leave_as_json(model: MixedModel) -> None:
    import json

    text = json.dumps(model.as_dict(), allow_nan=False)
    document = json.loads(text)
    assert document["kind"] == "linear"
    assert document["coefficients"][2]["name"] == "size[small]"
    assert document["coefficients"][2]["df"] is None
    assert len(document["components"]) == 4
    assert {test["kind"] for test in document["tests"]} == {"term", "component"}
    assert list(model.to_frame()["name"]) == [c.name for c in model.coefficients]
    json.dumps(model.diagnostics.as_dict(), allow_nan=False)


def test_sentences_name_both_sides(model: MixedModel) -> None:
    medium, small, protruded = model.sentences()
    assert small.startswith("IoU is 0.2")
    assert "lower with size small than with size large (95 % CI -0." in small
    assert small.endswith("p < 0.001).")
    assert "higher with type protruded than with type flat" in protruded
    assert str(model).startswith("iou ~ size + type, REML, 240 rows (6 of centre")
    assert medium in str(model)
    random = np.random.default_rng(1)
    table = {
        "y": random.standard_normal(40),
        "x": random.standard_normal(40),
        "g": np.arange(40) % 8,
    }
    (said,) = cal.mixed_model(table, "y ~ x", ["g"]).sentences()
    assert "for every step of 1 in x" in said
    assert said.endswith("the interval contains 0, so this may be chance.")


def test_an_unknown_coefficient_gets_the_nearest_name(model: MixedModel) -> None:
    with pytest.raises(cal.UsageError, match=r"did you mean 'size\[small\]'"):
        model["size[smal]"]


def test_crossed_groups_without_statsmodels_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.regression.mixed_linear_model", None)
    with pytest.raises(cal.UsageError, match="need statsmodels"):
        cal.mixed_model(polyps(), "iou ~ size", ["centre", "type"], crossed=True)


def test_statsmodels_is_imported_in_one_file_only() -> None:
    from pathlib import Path

    source = Path(cal.__file__).parent
    users = [
        file.name
        for file in source.rglob("*.py")
        if '"statsmodels' in file.read_text(encoding="utf-8")
    ]
    assert users == ["model.py"]


@pytest.mark.slow
def test_simulation_recovers_the_truth() -> None:
    """150 studies of the size of the polyp paper: estimates are unbiased,
    intervals cover in 95 % of them.
    """
    truth = {
        "intercept": 0.75,
        "size[medium]": -0.05,
        "size[small]": -0.28,
        "type[protruded]": 0.08,
    }
    sizes = {"centres": 6, "patients": 274, "images": 1315, "n": 1400}
    fits = [
        cal.mixed_model(polyps(seed, **sizes), "iou ~ size + type", GROUPS) for seed in range(150)
    ]
    for name, value in truth.items():
        found = [fit[name] for fit in fits]
        estimates = np.array([c.value for c in found])
        assert abs(estimates.mean() - value) < 4 * estimates.std() / np.sqrt(len(fits))
        covered = np.mean([c.low <= value <= c.high for c in found])
        assert 0.89 <= covered <= 0.995, name
    spread = np.mean([np.append(fit.fit.relative, 1.0) * fit.fit.sigma2 for fit in fits], axis=0)
    np.testing.assert_allclose(np.sqrt(spread), [0.04, 0.08, 0.06, 0.12], rtol=0.12)


def test_what_is_no_table_is_named():
    with pytest.raises(cal.InputError, match="a pandas frame, an arrow table or a mapping"):
        cal.mixed_model(7, "iou ~ size", ["patient"])


def test_a_category_of_hundreds_of_levels_is_refused_before_it_is_fitted() -> None:
    table = {"y": np.arange(2000.0), "t": [f"k{k % 600}" for k in range(2000)], "p": [1, 2] * 1000}
    with pytest.raises(cal.InputError, match="too-large"):
        cal.mixed_model(table, "y ~ t", ["p"])
