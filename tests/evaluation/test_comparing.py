"""From an evaluation to differences and a ranking: every metric, every option,
every reason for no answer.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.compare import narrowed
from calipers.results.comparison import MARGIN_VERDICTS, VERDICTS
from calipers.results.estimate import REASONS
from calipers.statistics.comparison import bootstrapped, judge, left_out
from calipers.statistics.weights import Units
from calipers.validation.designs import CohortDesign
from calipers.validation.designs import cohort_of as simulated
from cases import cohort_of
from evaluated import evaluated_demo

OVERVIEW = cal.Protocol.load("overview")


@pytest.fixture(scope="module")
def demo():
    return evaluated_demo(replace(OVERVIEW, replicates=300), ci=False)


def clustered(evaluation, **statistics):
    return replace(evaluation, protocol=replace(evaluation.protocol, **statistics))


def little(n_units: int, models=("a", "b"), found=(1.0, 0.6), silent=(), rare=None):
    """Return an evaluation of n images with three references each; model k finds a share of them.

    ``silent`` models say nothing, the ``rare`` one speaks on the first image only.
    """
    rng = np.random.default_rng(n_units)
    boxes = np.array([[10.0, 10, 20, 20], [40, 40, 55, 60], [70, 10, 90, 25]])
    references = [
        {"boxes": boxes, "labels": [0, 1, 0], "width": 100, "height": 100} for _ in range(n_units)
    ]
    predictions = {}
    for model, share in zip(models, found):
        kept = [rng.random(3) < (0.0 if model in silent else share) for _ in range(n_units)]
        if model == rare:
            kept = [np.full(3, k == 0) for k in range(n_units)]
        predictions[model] = [
            {
                "boxes": boxes[k],
                "labels": np.array([0, 1, 0])[k],
                "scores": rng.random(int(k.sum())),
            }
            for k in kept
        ]
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("x", "y"))
    return cal.evaluate(cohort, replace(OVERVIEW, replicates=300), ci=False)


def test_the_headline_of_all_pairs_is_compared(demo):
    found = demo.compare()
    assert [(row.model_a, row.model_b, row.metric) for row in found.rows] == [
        (a, b, metric)
        for a, b in (
            ("mislabels", "overpredicts"),
            ("mislabels", "misses-small"),
            ("overpredicts", "misses-small"),
        )
        for metric in demo.protocol.headline
    ]
    assert found.family == len(found.rows) == 18
    assert {row.family for row in found.rows} == {18}


def test_one_against_all_others_and_one_pair(demo):
    pairs = {(r.model_a, r.model_b) for r in demo.compare("misses-small", metrics=["F1@0.5"]).rows}
    assert pairs == {("misses-small", "mislabels"), ("misses-small", "overpredicts")}
    (row,) = demo.compare("misses-small", "mislabels", metrics=["F1@0.5"]).rows
    assert (row.model_a, row.model_b) == ("misses-small", "mislabels")


def test_values_are_those_of_the_evaluation(demo):
    for row in demo.compare(metrics=["all"]).rows:
        a, b = demo[row.model_a, row.metric], demo[row.model_b, row.metric]
        assert (row.value_a, row.value_b) == (a.value, b.value)
        assert row.estimate.value == a.value - b.value
        assert row.estimate.low < row.estimate.value < row.estimate.high
        assert (row.estimate.n_units, row.estimate.unit) == (80, "patient")
        assert (row.estimate.n_images, row.estimate.n_references) == (120, a.n_references)
        assert row.estimate.n_predictions == a.n_predictions + b.n_predictions
        assert row.estimate.method == "bootse-t"


def test_exchanging_the_models_turns_the_signs(demo):
    pair, names = ("mislabels", "misses-small"), ["AP@0.5", "FP/image@0.5"]
    one, other = demo.compare(*pair, metrics=names), demo.compare(*pair[::-1], metrics=names)
    for x, y in zip(one.rows, other.rows):
        assert x.estimate.value == -y.estimate.value
        assert x.estimate.low == pytest.approx(-y.estimate.high, abs=1e-12)
        assert x.p == pytest.approx(y.p, abs=1e-12)
        assert {x.verdict, y.verdict} == {"a_better", "b_better"}


def test_every_metric_is_tested_by_the_t_of_its_interval_unless_asked(demo):
    rows = demo.compare("mislabels", "misses-small", metrics=["all"]).rows
    assert {row.test for row in rows} == {"bootstrap"}
    forced = demo.compare("mislabels", "misses-small", metrics=["AP", "F1@0.5"], test="permutation")
    assert {row.test for row in forced.rows} == {"permutation"}
    assert any("mixes the scores" in warning and "(AP)" in warning for warning in forced.warnings)
    assert {
        r.test for r in demo.compare("mislabels", metrics=["F1@0.5"], test="bootstrap").rows
    } == {"bootstrap"}


def test_less_is_better_for_false_alarms(demo):
    row = demo.compare("overpredicts", "misses-small", metrics=["FP/image@0.5"], margin=0.5).get(
        "FP/image@0.5"
    )
    assert row.estimate.value > 0
    assert (row.verdict, row.margin_verdict) == ("b_better", "b_superior")
    assert "lower is better" in row.sentence
    assert row.sentence.startswith("misses-small is better than overpredicts")


def test_counts_of_errors_are_better_when_small():
    protocol = cal.Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "counts"\nsource = "test"\n'
        "metric = [{ name = 'TP', kind = 'count', of = 'TP' }, { name = 'FN', kind = 'count', of = "
        "'FN' }]"
    )
    ev = evaluated_demo(protocol, ci=False)
    found = ev.compare("misses-small", "overpredicts", metrics=["TP", "FN"], replicates=200)
    assert [row.verdict for row in found.rows] == ["b_better", "b_better"]
    assert ev.rank("FN", replicates=200).models[0] == "overpredicts"


def test_corrections_change_p_and_nothing_else(demo):
    by = {name: demo.compare(correction=name).rows for name in ("holm", "bh", "none")}
    for holm, bh, none in zip(*by.values()):
        assert holm.p == bh.p == none.p == none.p_adjusted
        assert none.p_adjusted <= bh.p_adjusted <= holm.p_adjusted
        assert holm.estimate == bh.estimate == none.estimate
    assert any(holm.p_adjusted > bh.p_adjusted for holm, bh in zip(by["holm"], by["bh"]))


def test_margins_per_metric(demo):
    found = demo.compare(
        "mislabels", "misses-small", metrics=["AP@0.5", "F1@0.5"], margin={"F1@0.5": 0.3}
    )
    assert found.get("AP@0.5").margin is found.get("AP@0.5").margin_verdict is None
    assert found.get("F1@0.5").margin_verdict == "equivalent"
    assert "Equivalent within 30.0 points" in found.get("F1@0.5").sentence


def test_classes_join_the_family(demo):
    found = demo.compare("mislabels", "overpredicts", metrics=["sensitivity@0.5"], per_class=True)
    assert [row.label for row in found.rows] == [None, *demo.cohort.classes]
    assert found.family == 5
    row = found.get("sensitivity@0.5", label="nodule")
    assert row.value_a == demo.get("sensitivity@0.5", model="mislabels", label="nodule").value
    assert "sensitivity@0.5 of nodule" in row.sentence


def test_a_model_against_its_copy_shows_no_difference():
    cohort = cal.demo_cohort()
    twin = cohort.with_predictions("twin", cohort.models["mislabels"])
    ev = cal.evaluate(twin, replace(OVERVIEW, replicates=200), ci=False)
    for row in ev.compare("mislabels", "twin", metrics=["all"], margin=0.01).rows:
        e = row.estimate
        assert (e.value, row.p) == (0.0, 1.0)
        assert math.isnan(e.low)
        assert math.isnan(e.high)
        assert (e.method, e.reason) == ("none", "constant_input")
        assert row.verdict == "no_difference_shown"
        assert row.margin_verdict == "not_shown"
        assert "identical_units" in e.flags
        assert "no interval: all bootstrap samples agree" in row.sentence
        assert "equal" not in row.sentence.replace("Equivalent", "")


@pytest.mark.parametrize("n_units", [2, 3, 4])
def test_too_few_units_have_no_interval_but_an_exact_permutation(n_units):
    evaluation = little(n_units, found=(1.0, 0.0))
    names = ["AP@0.5", "sensitivity@0.5"]
    untested = evaluation.compare(metrics=names, margin=0.1)
    assert {row.estimate.reason for row in untested.rows} == {"too_few_units"}
    assert {row.verdict for row in untested.rows} == {"undefined"}
    assert untested.family == 0
    assert any("2 of 2 differences have no p value" in warning for warning in untested.warnings)
    found = evaluation.compare(metrics=names, margin=0.1, test="permutation")
    by_count = found.get("sensitivity@0.5")
    assert by_count.estimate.reason == "too_few_units"
    assert by_count.p == 2.0 ** (1 - n_units)
    assert f"no p value can be below {2.0 ** (1 - n_units):g}" in by_count.sentence
    assert "margin of 10.0 points cannot be judged" in by_count.sentence
    assert found.family == 2


def test_five_units_cannot_reach_five_percent():
    row = little(5, found=(1.0, 0.0)).compare(metrics=["sensitivity@0.5"]).rows[0]
    assert row.p == 0.0625
    assert row.verdict == "no_difference_shown"
    assert "With 5 images no p value can be below 0.0625" in row.sentence


def test_five_units_may_have_an_interval_without_0_and_still_show_nothing():
    row = little(5, found=(1.0, 0.1)).compare(metrics=["sensitivity@0.5"], test="bootstrap").rows[0]
    assert row.estimate.low > 0.0
    assert (row.p, row.verdict) == (0.0625, "no_difference_shown")
    assert (
        "With 5 images no p value can be below 0.0625, even where the interval excludes 0."
        in row.sentence
    )


def test_undefined_values_have_a_reason_and_no_test():
    found = little(30, silent=("b",)).compare(metrics=["PPV@0.5", "sensitivity@0.5"])
    row = found.get("PPV@0.5")
    assert math.isnan(row.estimate.value)
    assert (row.estimate.reason, row.verdict) == ("no_predictions", "undefined")
    assert math.isnan(row.p)
    assert "undefined for b (no predictions)" in row.sentence
    assert found.family == 1
    assert found.get("sensitivity@0.5").verdict == "a_better"


def test_undefined_replicates_are_counted():
    row = little(12, rare="b").compare(metrics=["PPV@0.5"], test="permutation").rows[0]
    assert row.estimate.undefined > 0.05 * 300
    assert row.estimate.reason == "too_many_undefined"
    assert math.isnan(row.estimate.low)
    assert row.p == 1.0


def test_the_document_is_json_of_the_contract(demo):
    document = demo.compare(metrics=["AP@0.5", "F1@0.5"], margin=0.05, per_class=True).as_dict()
    assert list(document) == [
        "schema",
        "calipers",
        "protocol",
        "cohort",
        "settings",
        "rows",
        "ranking",
        "warnings",
    ]
    assert document["schema"] == "calipers.comparison/1"
    assert document["settings"]["generalises_to"] == "other patients like these 80"
    again = json.loads(json.dumps(document, allow_nan=False))
    for row in again["rows"]:
        assert row["verdict"] in VERDICTS
        assert row["margin_verdict"] in MARGIN_VERDICTS
        assert row["reason"] is None or row["reason"] in REASONS
        assert row["difference"] == pytest.approx(row["value_a"] - row["value_b"])


def test_seeds_and_only_seeds_change_the_replicates(demo):
    pair = ("mislabels", "misses-small")
    one, again = (demo.compare(*pair, metrics=["F1@0.5"]).rows for _ in range(2))
    assert one == again
    other = clustered(demo, seed=1).compare(*pair, metrics=["F1@0.5"]).rows
    assert other[0].estimate.value == one[0].estimate.value
    assert other[0].estimate.low != one[0].estimate.low


def test_the_cluster_decides_what_is_drawn(demo):
    pair = ("mislabels", "misses-small")
    found = {
        c: clustered(demo, cluster=c).compare(*pair, metrics=["F1@0.5"]).rows[0]
        for c in ("image", "patient")
    }
    assert [row.estimate.n_units for row in found.values()] == [120, 80]
    centre = clustered(demo, cluster="centre").compare(*pair, metrics=["F1@0.5"]).rows[0]
    assert (centre.estimate.n_units, centre.estimate.reason) == (4, "too_few_units")


@pytest.mark.parametrize(
    "kind", ["plain", "tied scores", "crowds", "ignored", "mostly empty", "volumes"]
)
def test_every_kind_of_cohort_and_both_routes(kind, kernel_route):
    ev = cal.evaluate(
        cohort_of(kind, seed=3, n_images=24, models=2), replace(OVERVIEW, replicates=100), ci=False
    )
    for row in ev.compare(metrics=["all"], per_class=True).rows:
        assert math.isnan(row.p) or 0.0 < row.p <= row.p_adjusted <= 1.0
        assert (
            math.isnan(row.estimate.low)
            or row.estimate.low <= row.estimate.value <= row.estimate.high
        )
        assert (row.estimate.reason is None) == (
            row.estimate.method != "none" and not math.isnan(row.p)
        )


def test_both_routes_give_the_same_bits():
    from calipers.kernels import route

    found = []
    for name in ("numpy", "native"):
        with route.forced(name):
            ev = cal.evaluate(
                cohort_of("plain", 5, 30, models=2), replace(OVERVIEW, replicates=100), ci=False
            )
            found.append((ev.compare(metrics=["all"]).as_dict()["rows"], ev.rank().as_dict()))
    assert found[0] == found[1]


def test_narrowed_metrics_look_at_the_same_evidence(demo):
    coco = evaluated_demo("coco", ci=False)
    ones = np.ones((1, 120), np.int64)
    for name in ("AP75", "ARs", "AR1"):
        (metric,) = narrowed(coco.protocol, [name])
        assert metric.facts.names == (name,)
        value = metric.value(coco.evidence["mislabels", metric.recipe.key], ones)[0, 0, 0]
        assert value == coco["mislabels", name].value


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"a": "mislables"}, "no model 'mislables'; did you mean 'mislabels'"),
        ({"a": "mislabels", "b": "mislabels"}, "with itself"),
        ({"b": "mislabels"}, "give a too"),
        ({"metrics": ["AP@0.6"]}, "no metric 'AP@0.6'"),
        ({"metrics": []}, "no metric"),
        ({"margin": -1}, "above 0"),
        ({"margin": {"AP@0.5": float("nan")}}, "above 0"),
        ({"margin": {"F1@0.5": 0.1}}, "'F1@0.5' is not compared"),
        ({"test": "t"}, "no test 't'"),
        ({"correction": "bonferoni"}, "no correction"),
        ({"replicates": 10}, "at least 100 replicates"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(demo, given, match):
    with pytest.raises(cal.UsageError, match=match):
        demo.compare(**given)


def test_one_model_or_one_unit_is_no_comparison(demo):
    alone = cal.evaluate(cohort_of("plain", 0), "overview", ci=False)
    for call in (alone.compare, alone.rank):
        with pytest.raises(cal.UsageError, match="two models"):
            call()
    one = clustered(demo, cluster="all")
    one = replace(one, cohort=one.cohort.with_groups({"all": np.zeros(120)}))
    for call in (one.compare, one.rank):
        with pytest.raises(cal.UsageError, match="one all only"):
            call()


def test_a_row_that_is_not_there(demo):
    found = demo.compare("mislabels", "overpredicts", metrics=["F1@0.5"])
    with pytest.raises(cal.UsageError, match=r"did you mean 'F1@0.5'"):
        found.get("F1@0.55")
    assert str(found) == found.rows[0].sentence


def test_of_several_pairs_one_must_be_named(demo):
    found = demo.compare(metrics=["F1@0.5"], replicates=100)
    with pytest.raises(
        cal.UsageError,
        match=r"3 pairs of models .* a='mislabels', b='overpredicts'; a='mislabels', b=",
    ):
        found.get("F1@0.5")
    with pytest.raises(cal.UsageError, match="2 pairs of models"):
        found.get("F1@0.5", a="mislabels")
    assert found.get("F1@0.5", a="overpredicts") == found.get(
        "F1@0.5", a="overpredicts", b="misses-small"
    )
    with pytest.raises(
        cal.UsageError, match=r"no row for 'F1@0.5', class None, models misses-small and None"
    ):
        found.get("F1@0.5", a="misses-small")


def too_few(evaluation, **options):
    """Return the warnings about tests that cannot show anything."""
    return [said for said in evaluation.compare(**options).warnings if "are too few for" in said]


def test_few_random_trades_for_many_tests_are_told(demo):
    counts = ["sensitivity@0.5", "PPV@0.5"]  # 6 tests: 6 / 101 is too much, 6 / 121 is not
    (said,) = too_few(demo, metrics=counts, replicates=100, test="permutation")
    assert said == (
        "100 replicates are too few for 6 tests: the smallest p value of a permutation, 0.0099, is "
        "0.059 after Holm if it comes first. Give more, or test less."
    )
    assert too_few(demo, metrics=counts, replicates=120, test="permutation") == []
    trades = {"replicates": 100, "test": "permutation"}
    assert too_few(demo, metrics=counts, correction="bh", **trades) == []
    assert too_few(demo, a="mislabels", metrics=["F1@0.5"]) == []
    (said,) = too_few(
        clustered(demo, level=0.995),
        a="mislabels",
        b="overpredicts",
        metrics=["F1@0.5"],
        **trades,
    )
    assert said.startswith("100 replicates are too few for 1 test:")


def test_replicates_do_not_limit_the_t_of_the_bootstrap(demo):
    names = ["AP@0.5", "sensitivity@0.5", "PPV@0.5"]
    assert too_few(demo, metrics=names, replicates=100) == []
    assert too_few(demo, metrics=names, replicates=100, correction="holm") == []


@pytest.mark.parametrize("test", ["bootstrap", "permutation"])
def test_few_units_for_many_tests_are_told_however_many_replicates(test):
    names = ["sensitivity@0.5", "PPV@0.5", "F1@0.5", "FP/image@0.5"]
    holm = {"test": test, "correction": "holm"}
    (said,) = too_few(little(7), metrics=names, replicates=3000, **holm)  # 4 x 2 / 2^7
    assert said == (
        f"7 images are too few for 4 tests: the smallest p value of a {test}, 0.016, is 0.062 "
        f"after Holm if it comes first. Test less."
    )
    assert too_few(little(7), metrics=names[:3], replicates=100, **holm) == []  # 3 x 2 / 2^7 = .047
    assert too_few(little(8), metrics=names, replicates=100, **holm) == []


# Rankings


def test_ranking_of_a_data_set_metric(demo):
    found = demo.rank("AP@0.5")
    assert found.models == ("overpredicts", "misses-small", "mislabels")
    assert [place.value for place in found.places] == [
        demo[model, "AP@0.5"].value for model in found.models
    ]
    assert (found.unit, found.n_units, found.test, found.family) == ("patient", 80, "bootstrap", 6)
    assert found.replicates == 300
    assert found.winner_kept == found["overpredicts"].shares[0] == 1.0
    assert found.sentence().startswith(
        "overpredicts is first in AP@0.5, and in 100 % of 300 bootstrap replicates (a share, not a "
        "probability of being better)."
    )
    json.dumps(found.as_dict(), allow_nan=False)
    with pytest.raises(KeyError):
        found["nobody"]


def test_less_is_better_ranks_the_other_way(demo):
    assert demo.rank("FP/image@0.5").models == ("misses-small", "mislabels", "overpredicts")
    assert demo.rank("FP/image@0.5", method="rank-then-mean").models == (
        "misses-small",
        "mislabels",
        "overpredicts",
    )


@pytest.mark.parametrize(
    "method", ["mean-then-rank", "median-then-rank", "rank-then-mean", "test-then-rank"]
)
def test_rankings_over_patients(demo, method):
    found = demo.rank("sensitivity@0.5", method=method)
    assert found.models[0] == "overpredicts"
    assert found.n_cases + found.left_out == 80
    assert found.left_out == 19  # healthy patients have nothing to be found, for any model
    assert (found.filled, found.test) == (0, "signed-rank")
    assert [pair.significant for pair in found.pairs if pair.worse == "overpredicts"] == [
        False,
        False,
    ]


def test_ranking_of_a_class(demo):
    found = demo.rank("sensitivity@0.5", label="nodule")
    assert found.models[-1] == "misses-small"
    assert (
        found["misses-small"].value
        == demo.get("sensitivity@0.5", model="misses-small", label="nodule").value
    )
    with pytest.raises(cal.UsageError, match="no class 'nodul'"):
        demo.rank("sensitivity@0.5", label="nodul")


def test_a_missing_value_of_one_model_is_an_error_or_the_worst(demo):
    with pytest.raises(
        cal.UsageError, match=r"undefined for mislabels, misses-small on \d+ of 80 cases"
    ):
        demo.rank("F1@0.5", method="mean-then-rank")
    filled = demo.rank("F1@0.5", method="mean-then-rank", missing="worst")
    assert filled.filled > 0
    silent = little(12, silent=("b",))
    with pytest.raises(cal.UsageError, match="undefined for b: no rank"):
        silent.rank("PPV@0.5")
    found = silent.rank("PPV@0.5", missing="worst")
    assert [(p.model, p.value, p.rank) for p in found.places] == [("a", 1.0, 1), ("b", 0.0, 2)]
    assert (found.filled, found.undefined) == (1, 0)


def test_few_units_are_ranked_without_saying_how_firmly():
    found = little(4).rank("sensitivity@0.5")
    assert [place.rank for place in found.places] == [1, 2]
    assert found.reason == "too_few_units"
    assert found.as_dict()["winner_kept"] is None
    assert found.as_dict()["models"][0]["shares"] == [None, None]
    assert "the stability of this order is unknown (too few units)" in found.sentence()


@pytest.mark.parametrize("method", ["mean-then-rank", "rank-then-mean", "test-then-rank"])
def test_many_cases_in_few_centres_do_not_say_how_firmly(method):
    ev = little(40, found=(0.9, 0.5))
    ev = replace(ev, cohort=ev.cohort.with_groups({"centre": np.arange(40) % 4}))
    found = clustered(ev, cluster=("centre", "image")).rank("sensitivity@0.5", method=method)
    assert (found.n_units, found.n_cases, found.replicates) == (4, 40, 0)
    assert (found.models[0], found.reason, found.family) == ("a", "too_few_units", 0)
    assert all(math.isnan(pair.p) and not pair.significant for pair in found.pairs)
    assert (
        found.sentence()
        == "a is first in sensitivity@0.5; the stability of this order is unknown (too few units)."
    )


@pytest.mark.parametrize(("per_stratum", "n_strata"), [(2, 6), (2, 3)])
def test_the_map_of_a_ranking_and_the_comparison_spend_the_same_on_strata(per_stratum, n_strata):
    n = per_stratum * n_strata
    ev = little(n, found=(0.9, 0.5))
    ev = replace(ev, cohort=ev.cohort.with_groups({"centre": np.arange(n) % n_strata}))
    ev = clustered(ev, cluster="image", strata="centre")
    ranked, row = (
        ev.rank("sensitivity@0.5"),
        ev.compare(metrics=["sensitivity@0.5"], test="bootstrap").rows[0],
    )
    assert ranked.reason == row.estimate.reason == (None if n_strata == 6 else "too_few_units")
    better = next(pair for pair in ranked.pairs if pair.better == ranked.models[0])
    assert better.p == pytest.approx(row.p / 2, nan_ok=True)
    assert math.isnan(better.p) == (n_strata == 3)


def test_equal_models_share_rank_one():
    cohort = cal.demo_cohort()
    ev = cal.evaluate(
        cohort.with_predictions("twin", cohort.models["overpredicts"]), OVERVIEW, ci=False
    )
    found = ev.rank("sensitivity@0.5", replicates=100)
    assert [(place.model, place.rank) for place in found.places[:2]] == [
        ("overpredicts", 1),
        ("twin", 1),
    ]
    assert "overpredicts and twin share rank 1" in found.sentence()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"metric": "APP"}, "no metric 'APP'"),
        ({"method": "mean"}, "no method 'mean'"),
        ({"missing": "drop"}, "no missing 'drop'"),
        ({"quantile": 2.0}, "between 0 and 1"),
        ({"replicates": 3}, "at least 100"),
    ],
)
def test_wrong_rankings_say_what_is_wrong(demo, given, match):
    with pytest.raises(cal.UsageError, match=match):
        demo.rank(**given)


def test_a_metric_without_classes_has_no_ranking_of_one():
    protocol = cal.Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "any"\nsource = "test"\n'
        'matching = { classes = "ignore" }\n'
        "metric = [{ name = 'S', kind = 'sensitivity' }]"
    )
    ev = evaluated_demo(protocol, ci=False)
    with pytest.raises(cal.UsageError, match="no values per class"):
        ev.rank("S", label="nodule")
    assert [row.label for row in ev.compare(per_class=True, replicates=100).rows] == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("n_images", [10, 40])
def test_equal_models_are_told_apart_in_one_of_twenty_cases(n_images):
    """Two random models of one kind: the bootstrap for AP and the permutation for F1 both keep a
    size of about .05.
    """
    protocol = replace(OVERVIEW, replicates=200, cluster="image").only(["AP@0.5", "F1@0.5"])
    rejected, sims = np.zeros(2), 300
    for seed in range(sims):
        cohort = cohort_of("plain", 5000 + seed, n_images, models=2)
        found = cal.evaluate(cohort, protocol, ci=False).compare(correction="none")
        rejected += [row.p < 0.05 for row in found.rows]
    assert ((rejected / sims >= 0.015) & (rejected / sims <= 0.09)).all(), rejected / sims


def test_differences_in_ap_have_the_error_of_metrics_that_move_in_steps() -> None:
    """Compared and ranked: the bootstrap and the jackknife for AP, the jackknife for F1."""
    design = CohortDesign(
        "d", 100, 1, always=True, sensitivity=0.97, likeness=0.0, alarms=0.1, unit="image"
    )
    ev = cal.evaluate(simulated(design, 1, 8), "overview", seed=3, ci=False)
    found = ev.compare("a", "b", metrics=["AP@0.5", "F1@0.5"], correction="none", replicates=400)
    units = Units.of("image", None, 100)
    for row, in_steps in zip(found.rows, (True, False)):
        (metric,) = ev.protocol.only([row.metric]).compile()
        sides = []
        for model in ("a", "b"):
            sides.append({metric.recipe.key: metric.recipe.collect(ev.cohort, model)})
        k = metric.facts.names.index(row.metric)
        drawn = bootstrapped([metric], sides, units, 400, 3)
        without = left_out([metric], sides, units)
        assert without is not None
        d = np.array([row.value_a - row.value_b])
        replicates = (drawn[0][0] - drawn[1][0])[:, 0, k : k + 1]
        beside = (without[0][0] - without[1][0])[:, 0, k : k + 1]
        flags = np.array([in_steps])
        tests = judge(d, replicates, None, units, 0.95, seed=3, left_out=beside, in_steps=flags)
        assert (row.estimate.low, row.estimate.high) == pytest.approx(
            (tests.intervals[0].low, tests.intervals[0].high), abs=1e-12
        )
        alone = judge(d, replicates, None, units, 0.95, seed=3, left_out=beside)
        # AP moves in steps of which the jackknife makes too much, or too little.
        assert (alone.p[0] == pytest.approx(row.p, abs=1e-6)) == (not in_steps)
        ranking = ev.rank(row.metric, replicates=400)
        p = min(pair.p for pair in ranking.pairs)
        assert p == pytest.approx(row.p / 2, abs=1e-9)
