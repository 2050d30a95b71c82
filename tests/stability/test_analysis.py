"""`calipers.stability` against loops over bags and pairs, by hand, and under every option."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.bags import ArrayBags
from calipers.stability.evidence import BINARY, CONTINUOUS, SCORE_NAMES
from calipers.stability.scores import AT_THRESHOLD, SCORES
from reference import stability as twin

QUICK: dict[str, Any] = {"ci": False}


def ragged(seed: int, n_models: int = 4, n_bags: int = 7, tied: bool = True) -> list[np.ndarray]:
    """Bags of different sizes with ties; some maps are constant,
    some call everything or nothing.
    """
    rng = np.random.default_rng(seed)
    bags = []
    for b in range(n_bags):
        n = int(rng.integers(2, 14))
        values = rng.random((n_models, n)) ** rng.choice([0.3, 1.0, 3.0])
        if tied:
            values = np.round(values, 1)
        if b % 3 == 0:
            values[0] = rng.choice([0.0, 0.5, 1.0])
        if b % 5 == 0:
            values[1] = rng.choice([0.1, 0.9])
        bags.append(values)
    return bags


@pytest.mark.parametrize(
    ("seed", "undefined"),
    [*((s, "skip") for s in range(6)), (0, "agree"), (1, "agree"), (0, "one")],
)
def test_every_score_equals_loops_over_pairs_with_scipy_and_sklearn(
    seed: int, undefined: Any
) -> None:
    bags = ragged(seed, n_models=3, tied=seed % 2 == 0)
    threshold = [0.5, 0.3, 0.8][seed % 3]
    found = cal.stability(bags, threshold=threshold, undefined=undefined, **QUICK)
    for name in SCORE_NAMES:
        per_bag = [twin.bag_score(name, bag, threshold, undefined) for bag in bags]
        np.testing.assert_allclose(found.per_bag(name), per_bag, rtol=0, atol=1e-12, err_msg=name)
        known = [value for value in per_bag if value == value]
        expected = np.mean(known) if known else math.nan
        assert found[name].value == pytest.approx(expected, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("seed", range(2))
def test_the_sweep_is_the_score_at_every_threshold(seed: int) -> None:
    bags = ragged(seed)
    found = cal.stability(bags, **QUICK)
    for name in ("APJ", "PO"):
        thresholds, estimates = found.sweep(name)
        np.testing.assert_array_equal(thresholds, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
        expected = [twin.score(name, bags, t) for t in thresholds]
        np.testing.assert_allclose([e.value for e in estimates], expected, atol=1e-12)
    assert found.get("APJ", threshold=0.5) == found["APJ"]


def one_bag(n00: int, n01: int, n10: int, n11: int) -> np.ndarray:
    """Two binary maps with this table."""
    calls = [(0, 0)] * n00 + [(0, 1)] * n01 + [(1, 0)] * n10 + [(1, 1)] * n11
    return np.array(calls, float).T


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((40, 10, 10, 40), (0.6667, 0.8, 0.6, 0.6667, 0.4286, 0.6)),
        ((0, 30, 30, 40), (0.4, 0.5714, -0.4286, 0.0, -0.1765, -0.4286)),
        ((20, 20, 20, 40), (0.5, 0.6667, 0.1667, 0.3333, 0.0909, 0.1667)),
        ((20, 35, 5, 40), (0.5, 0.8889, 0.5556, 0.3333, 0.1351, 0.2381)),
    ],
)
def test_published_tables_come_out_of_binary_maps(
    table: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    found = cal.stability([one_bag(*table)], **QUICK)
    assert [
        found[name].value for name in ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ")
    ] == pytest.approx(expected, abs=5e-5)


def test_overlap_below_chance_has_no_lower_limit() -> None:
    assert cal.stability([one_bag(0, 9, 1, 0)], **QUICK)["APO"].value == pytest.approx(-9)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_maps_that_call_everything_alike_are_undefined(value: float) -> None:
    found = cal.stability([np.full((3, 6), value)], **QUICK)
    for name in ("APJ", "AJ", "HAPJ", "APO"):
        assert math.isnan(found[name].value), name
        assert found[name].reason is not None
        missing = found.undefined(name)
        assert (missing.pairs, missing.of_pairs, missing.bags, missing.of_bags) == (3, 3, 1, 1)
        assert found.with_convention(name).value == 1.0
    assert found["TAR"].value == found["AC1"].value == found["PABAK"].value == 1.0
    assert math.isnan(found["Spearman"].value)
    assert found["Spearman"].reason == "constant_input"


def test_a_model_that_calls_nothing_leaves_the_overlap_undefined() -> None:
    found = cal.stability([one_bag(5, 5, 0, 0)], **QUICK)
    assert math.isnan(found["PO"].value)
    assert math.isnan(found["APO"].value)
    assert found["PJ"].value == 0.0
    assert (
        found.with_convention("PO").reason == "no_positives"
    )  # the maps are not alike: no convention speaks of them


def test_one_that_calls_everything_leaves_the_adjusted_overlap_undefined() -> None:
    found = cal.stability([one_bag(0, 6, 0, 4)], **QUICK)
    assert math.isnan(found["APO"].value)
    assert found["PO"].value == 1.0


def test_calls_that_exclude_each_other_are_as_good_as_chance() -> None:
    found = cal.stability([one_bag(0, 10, 0, 0)], **QUICK)
    assert (found["APJ"].value, found["AJ"].value) == (0.0, 0.0)


def test_the_minima() -> None:
    found = cal.stability([one_bag(0, 5, 5, 0)], **QUICK)
    assert (found["APJ"].value, found["AJ"].value) == (pytest.approx(-1 / 3), -1.0)


def test_conventions_for_maps_that_call_everything_alike() -> None:
    nothing, everything = np.zeros((2, 4)), np.ones((2, 4))
    same = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    bags = [nothing, everything, same]
    values = {
        rule: cal.stability(bags, undefined=rule, **QUICK).per_bag("APJ").tolist()
        for rule in ("agree", "one")
    }
    assert values == {"agree": [0.0, 1.0, 1.0], "one": [1.0, 1.0, 1.0]}
    skipped = cal.stability(bags, **QUICK)
    assert np.isnan(skipped.per_bag("APJ")).tolist() == [True, True, False]
    assert skipped["APJ"].n_images == 3
    assert skipped["APJ"].n_predictions == 2  # two maps of the one bag that has a value


def test_only_the_agreement_scores_know_conventions() -> None:
    found = cal.stability([np.zeros((2, 4))], undefined="one", **QUICK)
    assert math.isnan(found["PAR-NAR"].value)
    assert math.isnan(found["Pearson"].value)
    assert found.with_convention("TAR") == found["TAR"]


def test_positive_bags_only_if_labels_say_which() -> None:
    bags = ragged(3, n_bags=8)
    labels = [1, 0, 1, 1, 0, 1, 0, 1]
    chosen = [bag for bag, label in zip(bags, labels) if label]
    found = cal.stability(bags, labels, **QUICK)
    assert (found.n_bags, found.n_used, found.ids) == (8, 5, ("0", "2", "3", "5", "7"))
    assert found["APJ"].value == pytest.approx(twin.score("APJ", chosen, 0.5), abs=1e-12)
    assert found["TAR"].n_references == 5
    assert (
        found["APJ"].n_references == 5 - found.undefined("APJ").bags == 4
    )  # those that have a value
    every = cal.stability(bags, labels, bags="all", **QUICK)
    assert every["APJ"].value == pytest.approx(twin.score("APJ", bags, 0.5), abs=1e-12)
    assert (every["TAR"].n_images, every["TAR"].n_references, every["TAR"].n_predictions) == (
        8,
        5,
        32,
    )
    assert any("3 of 8 images are negative" in text for text in found.warnings)
    unlabelled = cal.stability(bags, **QUICK)
    assert unlabelled.n_used == 8
    assert any("all bags are used" in text for text in unlabelled.warnings)


def test_a_threshold_is_reached_at_its_value_and_0_is_strict() -> None:
    maps = np.array([[[0.5, 0.0, 0.2]], [[0.5, 0.0, 0.0]]])
    assert cal.stability(maps, **QUICK).called().total.tolist() == [2, 0, 1]
    assert cal.stability(maps, threshold=0.0, **QUICK).called().total.tolist() == [1, 1, 1]
    assert cal.stability(maps, threshold=1.0, **QUICK).called().total.tolist() == [3, 0, 0]


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2)])
def test_the_shape_of_maps_does_not_matter(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    flat = rng.random((3, 5, 12))
    shaped = cal.stability(flat.reshape(3, 5, *shape), **QUICK)
    plain = cal.stability(flat, **QUICK)
    assert [row.as_dict() for row in shaped.rows] == [row.as_dict() for row in plain.rows]
    assert ArrayBags.of(flat.reshape(3, 5, *shape))[0].shape == shape


def test_arrays_lists_and_mappings_mean_the_same() -> None:
    maps = np.random.default_rng(2).random((3, 6, 10)).astype(np.float32)
    names = ["a", "b", "c"]
    given: list[Any] = [
        maps,
        [maps[:, i] for i in range(6)],
        {name: maps[k] for k, name in enumerate(names)},
        {name: list(maps[k]) for k, name in enumerate(names)},
        {name: {f"bag {i}": maps[k, i] for i in range(6)} for k, name in enumerate(names)},
        ArrayBags.of(maps),
    ]
    values = [cal.stability(one, **QUICK)["Spearman"].value for one in given]
    assert len(set(values)) == 1
    assert cal.stability(given[4], **QUICK).ids[5] == "bag 5"
    assert cal.stability(given[2], **QUICK).models == ("a", "b", "c")


def test_the_order_of_models_and_of_bags_does_not_matter() -> None:
    bags = ragged(5)
    found = cal.stability(bags, **QUICK)
    turned = cal.stability([bag[::-1] for bag in reversed(bags)], **QUICK)
    for name in found.names:
        assert turned[name].value == pytest.approx(found[name].value, abs=1e-12, nan_ok=True), name


def test_identical_models_agree_perfectly() -> None:
    one = np.random.default_rng(0).random((1, 20, 30))
    found = cal.stability(np.repeat(one, 4, axis=0), replicates=100)
    for name, facts in SCORES.items():
        if facts.best is not None and name != "Kendall-a":
            assert found[name].value == pytest.approx(facts.best, abs=1e-12), name
    assert found["APJ"].method == "jeffreys-t"
    assert -1 / 3 < found["APJ"].low < found["APJ"].high == 1.0
    left = found.leave_one_out("APJ")
    assert (left.reason, left.error) == ("constant_input", 0.0)
    assert np.isnan([left.low, left.high]).all()


def test_threads_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(4)
    maps, labels = rng.random((4, 25, 40)), rng.integers(0, 2, 25)
    one, three = (
        cal.stability(maps, labels, jobs=jobs, replicates=200).to_json() for jobs in (1, 3)
    )
    assert one == three


def test_a_seed_gives_the_same_intervals_and_another_one_others() -> None:
    maps = np.random.default_rng(5).random((3, 20, 40))
    first, again, other = (
        cal.stability(maps, seed=seed, replicates=200)["APJ"] for seed in (1, 1, 2)
    )
    assert first == again
    assert (first.value, first.low) != (other.value, other.low)
    assert first.value == other.value


def test_progress_counts_bags() -> None:
    seen: list[tuple[int, int]] = []
    cal.stability(ragged(0, n_bags=4), progress=lambda done, of: seen.append((done, of)), **QUICK)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_negative_bags_are_only_read_for_the_auc() -> None:
    rng = np.random.default_rng(0)
    maps, labels = rng.random((2, 6, 5)), [0, 1, 1, 0, 1, 1]
    seen: list[int] = []
    for scores, expected in [(None, 6), (rng.random((2, 6)), 4)]:
        cal.stability(
            maps, labels, bag_scores=scores, progress=lambda done, of: seen.append(of), **QUICK
        )
        assert seen[-1] == expected


def test_kendall_can_be_left_out() -> None:
    found = cal.stability(ragged(0), kendall=False, **QUICK)
    assert "Kendall-b" not in found.names
    with pytest.raises(cal.UsageError, match="kendall=True"):
        found.per_bag("Kendall-b")
    assert found["Spearman"].value == cal.stability(ragged(0), **QUICK)["Spearman"].value


def test_intervals_are_over_patients_if_they_are_known() -> None:
    maps = np.random.default_rng(6).random((3, 24, 30))
    patients = np.repeat(np.arange(8), 3)
    by_patient = cal.stability(maps, groups={"patient": patients}, replicates=200)["APJ"]
    by_image = cal.stability(maps, groups={"patient": patients}, cluster="image", replicates=200)[
        "APJ"
    ]
    assert (by_patient.unit, by_patient.n_units, by_patient.n_images) == ("patient", 8, 24)
    assert (by_image.unit, by_image.n_units) == ("image", 24)
    assert by_patient.value == by_image.value


def test_intervals_contain_the_value_and_stay_in_the_limits_of_the_score() -> None:
    maps = np.random.default_rng(7).random((3, 20, 12))
    found = cal.stability(maps, replicates=200)
    for row in found.stability_rows:
        estimate = row.estimate
        if estimate.low == estimate.low:
            assert estimate.low <= estimate.value <= estimate.high
            low, high = SCORES[row.metric].bounds
            assert low <= estimate.low
            assert estimate.high <= high


def test_without_intervals_the_reason_is_said() -> None:
    assert cal.stability(ragged(1), **QUICK)["APJ"].reason == "not_requested"
    assert cal.stability(ragged(1, n_bags=3))["TAR"].reason == "too_few_units"


def test_rows_say_what_they_are_of() -> None:
    found = cal.stability(ragged(2), **QUICK)
    main = [row for row in found.rows if row.group is None]
    assert [row.metric for row in main] == list(found.names)
    assert {row.model for row in main} == {"all models"}
    assert {row.metric for row in found.rows if row.group and "threshold" in row.group} == set(
        AT_THRESHOLD
    )
    assert main[4].metric_id == "stability.APJ@1"
    assert set(BINARY) | set(CONTINUOUS) < set(found.names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 1.5}, "threshold lies in"),
        ({"threshold": float("nan")}, "threshold is a number"),
        ({"threshold": "high"}, "threshold is a number"),
        ({"thresholds": (0.1, -1)}, "threshold lies in"),
        ({"undefined": "skipp"}, "did you mean 'skip'"),
        ({"bags": "positives"}, "did you mean 'positive'"),
        ({"jobs": 0}, "from 1 to"),
        ({"jobs": float("nan")}, "jobs is a whole number"),
        ({"thresholds": None}, "several entries"),
        ({"groups": [1, 2]}, "columns by name"),
        ({"ci": "no"}, "ci is True or False"),
        ({"seed": 1.5}, "seed is a whole number"),
        ({"level": "0.9"}, "level is a number"),
        ({"cluster": "patient"}, "no column 'patient'"),
        ({"seed": -1}, "seed"),
        ({"level": 1.5}, "level"),
        ({"models": ["all models", "b"]}, "may be called"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        cal.stability(np.random.default_rng(0).random((2, 6, 5)), **options)


def test_a_source_of_bags_knows_its_labels() -> None:
    bags = ArrayBags.of(np.random.default_rng(0).random((2, 6, 5)))
    with pytest.raises(cal.UsageError, match="already has its labels"):
        cal.stability(bags, [1] * 6)


def test_labels_that_are_all_negative_leave_nothing() -> None:
    with pytest.raises(cal.InputError, match="at least one positive bag") as error:
        cal.stability(np.random.default_rng(0).random((2, 6, 5)), [0] * 6)
    assert error.value.rule == "no-bags"


class Broken:
    """A source whose maps are read late, one of them with a NaN."""

    models, ids, groups, positive, bag_scores, notes = ("a", "b"), ("x", "y"), {}, None, None, ()

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        from calipers.data.bags import Bag

        values = np.array([[0.1, 0.2], [0.3, math.nan if i == 1 else 0.4]])
        return Bag(self.ids[i], values, (2,))


@pytest.mark.parametrize("jobs", [1, 2])
def test_bags_that_are_read_late_are_checked_too(jobs: int) -> None:
    with pytest.raises(cal.InputError, match=r"model 'b', bag 'y', instance \(1\)") as error:
        cal.stability(Broken(), jobs=jobs)
    assert error.value.rule == "non-finite"


def test_the_twin_itself() -> None:
    a, b = np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0])
    assert twin.counts(a > 0, b > 0) == (1, 1, 0, 2)
    assert twin.pair_score("APJ", a, b, 0.5) == pytest.approx(1 / 3)
    assert list(itertools.combinations(range(3), 2)) == [(0, 1), (0, 2), (1, 2)]
