"""Score curves: fits against slow twins, what cannot be fitted, and calibration in a recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.fusion.calibrate import ScoreCurve, fit_curve
from calipers.fusion.fuse import carry_out, fit_calibration
from calipers.fusion.recipe import FusionRecipe
from calipers.kernels.assignment import HIT

HEAD = 'schema = "calipers.recipe/1"\nname = "own"\n'
CALIBRATED = HEAD + '[[step]]\nkind = "calibrate"\n[[step]]\nkind = "weighted-boxes-fusion"\n'


def scores_and_hits(seed: int, n: int = 60) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    score = np.round(random.random(n), 1 + seed % 2)  # with ties
    return score, random.random(n) < score**2


def minimax(score: Any, hit: Any) -> dict[float, float]:
    """Return the isotonic fit by its definition: the largest over starts of the smallest mean."""
    levels = np.unique(score)
    fit = {}
    for i, level in enumerate(levels):
        best = -np.inf
        for a in range(i + 1):
            means = []
            for b in range(i, len(levels)):
                inside = (score >= levels[a]) & (score <= levels[b])
                means.append(hit[inside].mean())
            best = max(best, min(means))
        fit[float(level)] = best
    return fit


@pytest.mark.parametrize("seed", range(4))
def test_isotonic_is_the_fit_of_its_definition(seed: int) -> None:
    score, hit = scores_and_hits(seed)
    curve = fit_curve(score, hit, "isotonic")
    expected = minimax(score, hit)
    np.testing.assert_allclose(curve(np.array(list(expected))), list(expected.values()), atol=1e-12)
    assert (np.diff(curve(np.linspace(0, 1, 101))) >= 0).all()
    assert (curve.n, curve.hits) == (60, hit.sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_temperature_is_the_likeliest(seed: int) -> None:
    score, hit = scores_and_hits(seed, 200)
    score = np.clip(score, 0.01, 0.99)
    curve = fit_curve(score, hit, "temperature")
    grid = np.geomspace(0.05, 20, 4001)
    logit = np.log(score / (1 - score))
    signs = np.where(hit, 1.0, -1.0)
    likelihood = -np.log1p(np.exp(-signs * logit[None] / grid[:, None])).sum(axis=1)
    assert curve.temperature == pytest.approx(grid[likelihood.argmax()], rel=5e-3)
    order = np.argsort(score, kind="stable")
    assert (np.diff(curve(score[order])) >= 0).all()


@pytest.mark.parametrize("method", ["isotonic", "temperature"])
@pytest.mark.parametrize(
    ("hits", "reason"), [([], "no_boxes"), ([0, 0], "no_hits"), ([1, 1], "all_hits")]
)
def test_what_cannot_be_learnt_leaves_scores_and_says_why(
    method: str, hits: list[int], reason: str
) -> None:
    score = np.array([0.3, 0.8])[: len(hits)]
    curve = fit_curve(score, np.array(hits, bool), method)
    assert curve.reason == reason
    assert curve(np.array([0.1, 0.9])).tolist() == [0.1, 0.9]


def test_equal_scores_have_a_share_of_hits_but_no_temperature() -> None:
    score, hit = np.full(4, 0.7), np.array([True, False, False, False])
    assert fit_curve(score, hit, "isotonic")(np.array([0.2, 0.7])).tolist() == [0.25, 0.25]
    assert fit_curve(score, hit, "temperature").reason == "constant_scores"


def test_curves_of_a_recipe_are_fitted_before_the_step_and_read_back() -> None:
    demo = cal.demo_cohort()
    recipe = fit_calibration(demo, FusionRecipe.from_toml(CALIBRATED))
    curves = recipe.steps[0].options["curves"]
    assert list(curves) == list(demo.models)
    assert {name: curve.n for name, curve in curves.items()} == {
        name: len(table) for name, table in demo.models.items()
    }
    assert FusionRecipe.from_toml(recipe.to_toml()) == recipe
    assert FusionRecipe.from_toml(FusionRecipe.from_toml(CALIBRATED).to_toml()).to_toml()
    by_hand = demo
    for name, table in demo.models.items():
        calibrated = replace(table, score=curves[name](table.score))
        by_hand = replace(by_hand, models={**by_hand.models, name: calibrated})
    wbf = FusionRecipe.from_toml(HEAD + '[[step]]\nkind = "weighted-boxes-fusion"\n')
    expected = carry_out(by_hand, wbf).predictions
    np.testing.assert_array_equal(carry_out(demo, recipe).predictions.score, expected.score)


def test_hits_are_those_of_a_matching_by_score() -> None:
    demo = cal.demo_cohort()
    recipe = fit_calibration(demo, FusionRecipe.from_toml(CALIBRATED))
    matches = cal.evaluate(demo, "overview", ci=False).matches("overpredicts")
    assert recipe.steps[0].options["curves"]["overpredicts"].hits == (
        (matches.prediction_fate[0] == HIT).sum()
    )


def test_the_ensemble_can_be_calibrated_too() -> None:
    text = HEAD + '[[step]]\nkind = "weighted-boxes-fusion"\n[[step]]\nkind = "calibrate"\n'
    demo = cal.demo_cohort()
    recipe = fit_calibration(demo, FusionRecipe.from_toml(text))
    assert list(recipe.steps[1].options["curves"]) == ["ensemble"]
    assert carry_out(demo, recipe).predictions.score.min() >= 0


def test_an_unfitted_calibration_is_refused() -> None:
    with pytest.raises(cal.UsageError, match="no curve for 'mislabels'"):
        cal.fuse(cal.demo_cohort(), FusionRecipe.from_toml(CALIBRATED))


def test_a_member_that_could_not_be_calibrated_is_noted() -> None:
    demo = cal.demo_cohort()
    empty = cal.Cohort.from_arrays(
        [{"boxes": np.zeros((0, 4)), "labels": []}],
        {"mislabels": [{"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": [0.5]}]},
        classes=demo.classes,
    )
    recipe = fit_calibration(empty, FusionRecipe.from_toml(CALIBRATED))
    notes = carry_out(demo, recipe, ["mislabels"]).notes
    assert notes == (
        "'mislabels' could not be calibrated on the tuning split, because none of its boxes is a "
        "hit there: its scores stay as they are",
    )


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        ("n = 2\nhits = 1", "knots and values, or a temperature, or a reason"),
        ("n = 2\nhits = 1\nknots = [0.5, 0.2]\nvalues = [0, 1]", "ascending numbers"),
        ("n = 2\nhits = 1\nknots = [0.2, 0.5]\nvalues = [1]", "as many values as knots"),
        ("n = 2\nhits = 1\ntemperature = 0", "a number above 0"),
    ],
)
def test_broken_curves_are_refused(curve: str, message: str) -> None:
    text = HEAD + f'[[step]]\nkind = "calibrate"\n[step.curves.a]\n{curve}\n'
    with pytest.raises(cal.InputError, match=message):
        FusionRecipe.from_toml(text)


def test_a_method_of_another_step_is_refused() -> None:
    with pytest.raises(cal.InputError, match="one of none, isotonic, temperature"):
        FusionRecipe.from_toml(HEAD + '[[step]]\nkind = "calibrate"\nmethod = "linear"\n')


def test_names_of_members_survive_toml() -> None:
    plan = FusionRecipe.from_toml(CALIBRATED)
    odd = {
        'a "b"\n\x7f.c': ScoreCurve(2, 1, temperature=2.0),
        "ü": ScoreCurve(0, 0, reason="no_boxes"),
    }
    recipe = replace(plan, steps=(plan.steps[0].with_options(curves=odd), plan.steps[1]))
    assert FusionRecipe.from_toml(recipe.to_toml()) == recipe
