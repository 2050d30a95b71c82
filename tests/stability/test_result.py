"""What a stability result answers beyond its rows."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.show.words import marks_of
from calipers.stability.analyse import stability_table
from calipers.stability.result import StabilityResult, remarks
from calipers.stability.score_diagnostics import components, jackknife_error, paradox
from calipers.stability.scores import CALLED, SCORES
from reference import stability as twin


def made(seed: int = 0, n_models: int = 4, n_bags: int = 12, noise: float = 0.2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shared = rng.random((1, n_bags, 20))
    return np.clip(shared + noise * rng.standard_normal((n_models, n_bags, 20)), 0, 1)


def found_of(maps: np.ndarray, **options: object) -> StabilityResult:
    return cal.stability(maps, ci=False, **options)  # type: ignore[arg-type]


def test_sd_is_over_bags() -> None:
    found = found_of(made())
    values = found.per_bag("APJ")
    assert found.sd("APJ") == pytest.approx(values.std(ddof=0))
    assert found.sd("APJ", ddof=1) == pytest.approx(values.std(ddof=1))
    assert math.isnan(found_of(made(n_bags=1)).sd("APJ", ddof=1))


def test_per_pair_is_the_mean_over_bags_of_every_pair() -> None:
    maps = made()
    matrix = found_of(maps).per_pair("AJ")
    assert np.isnan(np.diagonal(matrix)).all()
    np.testing.assert_array_equal(matrix, matrix.T)
    for i, j in itertools.combinations(range(4), 2):
        expected = np.nanmean(
            [twin.pair_score("AJ", maps[i, b], maps[j, b], 0.5) for b in range(12)]
        )
        assert matrix[i, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["APJ", "TAR", "Spearman"])
def test_leaving_out_a_model_is_the_analysis_without_it(name: str) -> None:
    maps = made(1)
    left = found_of(maps).leave_one_out(name)
    without = [found_of(np.delete(maps, k, axis=0))[name].value for k in range(4)]
    np.testing.assert_allclose(left.without, without, atol=1e-12)
    expected = math.sqrt(3 / 4 * sum((value - np.mean(without)) ** 2 for value in without))
    assert left.error == pytest.approx(expected, abs=1e-12)
    assert left.low < left.value < left.high


def test_the_interval_over_models_is_a_t_interval_on_the_scale_of_the_score() -> None:
    left = found_of(made(1)).leave_one_out("TAR")
    half = stats.t.ppf(0.975, 3) * left.error / (left.value * (1 - left.value))
    logit = math.log(left.value / (1 - left.value))
    expected = [1 / (1 + math.exp(-(logit + sign * half))) for sign in (-1, 1)]
    assert (left.low, left.high) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("noise", [0.02, 0.3, 1.5])
def test_no_interval_leaves_the_range_of_its_score(noise: float) -> None:
    """Neither over images nor over models; with three models t is 4.3, so that a plain t interval
    of APO reached 1.07.
    """
    # Nearly everything, or next to nothing, is marked: scores lie near their bounds.
    for seed, shift in enumerate((-0.45, 0.0, 0.45)):
        maps = np.clip(made(seed, n_models=3, n_bags=8, noise=noise) + shift, 0, 1)
        result = cal.stability(maps, replicates=100, seed=seed)
        for name in result.names:
            lowest, highest = SCORES[name].bounds
            spans = [(result[name].low, result[name].high)]
            if name not in CALLED:
                spans.append((result.leave_one_out(name).low, result.leave_one_out(name).high))
            for low, high in spans:
                assert math.isnan(low) or lowest <= low < high <= highest, name


def test_two_models_say_nothing_of_other_trainings() -> None:
    found = found_of(made(n_models=2))
    left = found.leave_one_out("APJ")
    assert (left.reason, left.as_dict()["low"], left.as_dict()["method"]) == (
        "too_few_units",
        None,
        "none",
    )
    assert "few-models" in found.flags
    assert left.most_different is None


def test_only_marks_that_a_table_has_are_explained() -> None:
    """Images that are all alike have the mark §, and without an interval there is no mark."""
    result = cal.stability(np.tile(made(3, n_models=3, n_bags=1), (1, 12, 1)), replicates=100)
    assert "identical_units" in result["APO"].flags
    assert marks_of(result["APO"]) == ""
    assert marks_of(result["APJ"]) == "§"
    assert "marked § in tables" in " ".join(result.warnings)
    without = [replace(row.estimate, low=math.nan, high=math.nan) for row in result.rows]
    rows = tuple(replace(row, estimate=one) for row, one in zip(result.rows, without))
    bare = remarks(replace(result, stability_rows=rows))
    assert not [remark for remark in bare if "§" in remark.text]


def test_the_model_that_differs_most_is_named() -> None:
    maps = made(2, n_models=5, noise=0.05)
    maps[3] = np.random.default_rng(9).random(maps[3].shape)
    assert found_of(maps).leave_one_out("APJ").most_different == "model 4"


def test_the_jackknife_by_hand() -> None:
    assert jackknife_error(np.array([1.0, 2.0, 3.0])) == pytest.approx(math.sqrt(2 / 3 * 2))


def test_variance_components_by_hand() -> None:
    only_bags = np.array([[1.0, 1, 1], [2, 2, 2], [4, 4, 4]])
    found = components("APJ", only_bags)
    assert (found.bags, found.pairs, found.rest) == pytest.approx((np.var([1, 2, 4], ddof=1), 0, 0))
    only_pairs = components("APJ", only_bags.T)
    assert (only_pairs.bags, only_pairs.pairs, only_pairs.rest) == pytest.approx(
        (0, np.var([1, 2, 4], ddof=1), 0)
    )
    # Mean squares of [[0, 1], [1, 0]]: nothing between rows or columns, all 1 in the rest.
    crossed = components("APJ", np.array([[0.0, 1], [1, 0]]))
    assert (crossed.bags, crossed.pairs, crossed.rest) == (0, 0, 1)
    assert crossed.shares == {"bags": 0, "pairs": 0, "rest": 1}


def test_variance_components_are_found_again() -> None:
    rng = np.random.default_rng(0)
    table = 0.3 * rng.standard_normal((4000, 1)) + 0.1 * rng.standard_normal((1, 300))
    table = table + 0.2 * rng.standard_normal((4000, 300))
    found = components("APJ", table)
    assert (found.bags, found.pairs, found.rest) == pytest.approx((0.09, 0.01, 0.04), rel=0.2)


def test_bags_with_holes_are_left_out_of_components_and_counted() -> None:
    found = components("APJ", np.array([[0.1, 0.2], [np.nan, 0.3], [0.2, 0.5]]))
    assert (found.n_bags, found.n_left_out, found.reason) == (2, 1, None)
    few = components("APJ", np.array([[0.1], [0.2]]))
    assert (few.reason, math.isnan(few.shares["rest"])) == ("too_few_units", True)


def test_correlation_between_scores_is_over_bags() -> None:
    found = found_of(made(3, n_bags=20))
    for method, peer in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        table = found.correlation(method)
        expected = peer(found.per_bag("TAR"), found.per_bag("Spearman"))[0]
        assert table["TAR", "Spearman"] == pytest.approx(expected, abs=1e-12)
        assert table["Spearman", "TAR"] == table["TAR", "Spearman"]
        assert table["APJ", "APJ"] == pytest.approx(1)
    with pytest.raises(cal.UsageError, match="did you mean 'spearman'"):
        found.correlation("spearmann")
    with pytest.raises(cal.UsageError, match="no score"):
        found.correlation()["APJ", "nonsense"]


def test_correlation_counts_the_bags_that_have_both_scores() -> None:
    maps = made(4)
    maps[:, 0] = 0.0
    table = found_of(maps).correlation()
    at = [table.names.index(name) for name in ("APJ", "TAR")]
    assert table.n[at[0], at[1]] == 11
    assert table.n[at[1], at[1]] == 12


def test_apj_and_aj_are_one_finding_over_pairs() -> None:
    found = found_of(made(5, n_models=2, n_bags=30))
    assert found.correlation()["APJ", "AJ"] == pytest.approx(1)
    kappa = found.per_bag("AJ")
    np.testing.assert_allclose(found.per_bag("APJ"), kappa / (2 - kappa), atol=1e-12)
    assert any("one finding" in text for text in found.warnings)


def test_called_counts_the_models_behind_every_instance() -> None:
    maps = made(6, n_models=3)
    called = found_of(maps).called()
    number = (maps >= 0.5).sum(axis=0)
    assert called.total.tolist() == [int((number == k).sum()) for k in range(4)]
    assert called.some == pytest.approx(((number > 0) & (number < 3)).mean())
    found = found_of(maps)
    some = ((number > 0) & (number < 3)).mean(axis=1)
    np.testing.assert_allclose(found.per_bag("called-by-some"), some)
    assert found["called-by-some"].value == pytest.approx(some.mean())
    by_all = [(row == 3).sum() / (row > 0).sum() for row in number]
    assert found["called-by-all"].value == pytest.approx(np.mean(by_all))
    assert called.shares.sum() == pytest.approx(1)
    assert (
        found.called(0.3).total.tolist()
        == np.bincount((maps >= 0.3).sum(axis=0).ravel(), minlength=4).tolist()
    )
    with pytest.raises(cal.UsageError, match="is not part of the analysis"):
        found.called(0.33)


def test_margins_are_negatives_less_positives() -> None:
    maps = made(6, n_models=3)
    expected = ((maps < 0.5).sum(axis=2) - (maps >= 0.5).sum(axis=2)).T
    np.testing.assert_array_equal(found_of(maps).margins(), expected)


def test_bags_are_ranked_from_the_least_stable() -> None:
    found = found_of(made(7))
    values = found.per_bag("APJ")
    assert (np.diff(values[found.ranked("APJ")]) >= 0).all()
    assert (np.diff(found.per_bag("called-by-some")[found.ranked("called-by-some")]) <= 0).all()


def test_shares_over_all_models_are_no_scores_of_pairs() -> None:
    found = found_of(made())
    for ask in (found.per_pair, found.leave_one_out, found.components):
        with pytest.raises(cal.UsageError, match="not a score of pairs"):
            ask("called-by-all")
    with pytest.raises(cal.UsageError, match="no threshold to sweep"):
        found.sweep("Spearman")


@pytest.mark.parametrize(
    "ask", ["per_bag", "sd", "per_pair", "undefined", "leave_one_out", "components", "sweep"]
)
def test_a_misspelt_score_is_answered_with_the_nearest_one(ask: str) -> None:
    with pytest.raises(cal.UsageError, match="did you mean 'Spearman'"):
        getattr(found_of(made()), ask)("Spearmann")


def test_a_misspelt_row_is_answered() -> None:
    found = found_of(made())
    with pytest.raises(cal.UsageError, match="did you mean 'Spearman'"):
        found["Spearmann"]
    with pytest.raises(cal.UsageError, match="no model"):
        found.get("APJ", model="nobody")
    with pytest.raises(cal.UsageError, match="no row of 'APJ' with"):
        found.get("APJ", threshold=0.33)
    with pytest.raises(cal.UsageError, match="no references"):
        found["DICE"]


def test_the_paradox_of_kappa_is_flagged() -> None:
    calls = np.zeros((2, 30, 100))
    # 97 of 100 alike and negative, one shared positive
    calls[0, :, 0] = calls[1, :, 1] = calls[:, :, 2] = 1
    found = found_of(calls)
    odd = found.paradox()
    assert (odd.pairs, odd.of_pairs, odd.flagged) == (30, 30, True)
    assert (odd.total_agreement, odd.prevalence_index) == (
        pytest.approx(0.98),
        pytest.approx(-0.96),
    )
    assert "kappa-paradox" in found.flags
    assert any("98.0 % of the instances alike, and AJ is 0.49" in text for text in found.warnings)
    balanced = found_of(made(8))
    assert "kappa-paradox" not in balanced.flags
    assert not paradox(balanced.evidence, balanced.evidence.at(0.5)).flagged


def test_the_paradox_needs_defined_pairs() -> None:
    nothing = found_of(np.zeros((2, 5, 10))).paradox()
    assert (nothing.of_pairs, nothing.flagged, math.isnan(nothing.share)) == (0, False, True)


def test_undefined_pairs_are_said() -> None:
    maps = made(9)
    maps[:, :3] = 0.0
    found = found_of(maps)
    assert str(found.undefined("APJ")) == "18 of 72 pairs undefined, 3 of 12 bags without a value"
    assert {"undefined-pairs", "constant-maps"} <= set(found.flags)
    second = found.with_convention("APJ").value
    assert second == pytest.approx((9 * found["APJ"].value + 3) / 12)
    assert any(f"APJ is {second:.2f}" in text for text in found.warnings)
    agreed = found_of(maps, undefined="one")
    assert agreed["APJ"].value == pytest.approx(second)
    assert agreed.undefined("APJ").pairs == 18  # counted whatever the convention


def test_few_bags_are_said() -> None:
    assert "few-bags" in found_of(made(n_bags=3)).flags
    assert "few-bags" in found_of(made(n_bags=7)).flags
    assert "few-bags" not in found_of(made(n_bags=12)).flags


def test_sentences_begin_with_what_a_reader_wants_to_know() -> None:
    found = cal.stability(made(10, n_models=5, n_bags=20), replicates=200)
    said = found.sentences()
    assert said[0].startswith("The five models ")
    assert "of what one model marks on an image, another marks" in said[0]
    assert said[0].endswith("on average over 20 images.")
    assert said[1].startswith("Of what at least one of them marks, all five mark")
    assert any(
        "generalises to other images like these 20, with these five models" in text for text in said
    )
    assert any("for other trainings it is" in text for text in said)
    assert any(text.startswith("Look first at the images") for text in said)


def test_sentences_without_anything_to_say() -> None:
    assert (
        found_of(np.zeros((3, 4, 5)))
        .sentences()[0]
        .startswith("None of the three models marks anything")
    )
    two = found_of(made(n_models=2)).sentences()
    assert two[1].startswith("They disagree on")
    assert "It cannot be estimated for other trainings" in two[2]


def test_the_verdict_does_not_fall_with_every_further_model() -> None:
    rng = np.random.default_rng(0)
    lesion = np.zeros((30, 100))
    lesion[:, :40] = 1.0
    noise = rng.random((20, 30, 100)) < 0.04
    maps = np.where(noise, 1.0 - lesion, lesion)
    few, many = found_of(maps[:3]), found_of(maps)
    assert many["called-by-all"].value < 0.5 < few["called-by-all"].value
    assert few.sentences()[0].startswith(
        "The three models mostly mark the same places: of what one"
    )
    assert many.sentences()[0].startswith("The 20 models mostly mark the same places: of what one")


def test_much_in_common_by_chance_is_said_to_be_by_chance() -> None:
    found = cal.stability(
        np.random.default_rng(1).random((4, 30, 100)), threshold=0.05, replicates=200
    )
    assert found["PAR"].value > 0.9
    assert (
        "mostly mark the same places, but agreement beyond chance is not shown:"
        in found.sentences()[0]
    )


def test_the_document_is_plain_json() -> None:
    maps = made(11)
    maps[:, 0] = 0.0
    found = found_of(maps)
    document = json.loads(found.to_json())
    assert document["schema"] == "calipers.stability/1"
    assert document["bags"] == {
        "bags": 12,
        "used": 12,
        "positive": None,
        "annotated": 0,
        "instances": 240,
    }
    assert document["models"] == ["model 1", "model 2", "model 3", "model 4"]
    assert len(document["rows"]) == len(found.rows)
    assert document["localization"]["missing"]["DICE"] == "no_references"
    assert {row["metric"] for row in document["leave_one_out"]} == set(found.names) - {
        "called-by-all",
        "called-by-some",
    }
    assert found.to_frame().shape[0] == len(found.rows)


def test_the_printed_form_has_sentences_a_table_and_warnings() -> None:
    text = str(cal.stability(made(12), replicates=100))
    assert text.startswith("The four models")
    assert "\n| APJ | " in text
    assert " | 0 | 72 |\n" in text
    assert "one finding" in text


def test_a_table_of_several_results() -> None:
    maps, labels = made(13), [1, 0] * 6
    with_labels = found_of(
        maps, labels=labels, instances=[(maps[0, b] > 0.8) & bool(labels[b]) for b in range(12)]
    )
    table = stability_table({("X", "NOR"): with_labels, ("X", "max"): found_of(maps)})
    cell = table[("X", "NOR"), "APJ"]
    assert (cell.mean, cell.sd, cell.over, cell.n) == (
        with_labels["APJ"].value,
        with_labels.sd("APJ"),
        "bags",
        6,
    )
    dice = table[("X", "NOR"), "DICE"]
    assert (dice.mean, dice.sd) == (
        with_labels.localized.mean("DICE"),
        with_labels.localized.sd("DICE"),
    )
    assert str(table[("X", "max"), "AUC"]) == "-"
    lines = str(table).splitlines()
    assert lines[0].split() == ["APJ", "Spearman", "AUC", "DICE"]
    assert f"{cell.mean:.2f} ± {cell.sd:.2f}" in lines[1]
    assert table.as_dict()["rows"][1]["DICE"] == {
        "mean": None,
        "sd": None,
        "over": "models",
        "n": 0,
    }
    assert len(table.to_frame()) == 8
    with pytest.raises(cal.UsageError, match="no cell"):
        table[("X", "nobody"), "APJ"]
    with pytest.raises(cal.UsageError, match="keys of one length"):
        stability_table({"a": with_labels, ("a", "b"): with_labels})
    with pytest.raises(cal.UsageError, match="at least one result"):
        stability_table({})
