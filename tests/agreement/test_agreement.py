"""Criteria against ratings: counted by hand, resampled by hand, compared, and undefined where it
must be.
"""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.agreement.decisions import BOUNDS
from reference import contingency as plain


def cohort(seed=0, patients=30, raters=("A", "B", "C")):
    """Ratings that depend on the place, several per patient, each by one of three raters."""
    rng = np.random.default_rng(seed)
    rows = []
    for p in range(patients):
        difficulty = rng.normal(0, 0.1)
        for k in range(int(rng.integers(1, 5))):
            iou = float(np.clip(rng.beta(3, 2) + difficulty, 0, 1)) if rng.random() < 0.75 else 0.0
            useful = rng.random() < (0.95 if iou > 0.15 else 0.2)
            rows.append(
                {
                    "patient": f"P{p:02d}",
                    "image": f"P{p:02d}_{k}",
                    "rater": raters[int(rng.integers(len(raters)))],
                    "rating": "useful" if useful else "not useful",
                    "box-iou": round(iou, 3),
                    "mask-iou": round(min(1.0, 1.2 * iou), 3),
                    "point-in-box": int(iou > 0.2),
                    "centre-distance": round(40 * (1 - iou), 1),
                }
            )
    return rows


def columns(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def counted(rows, accepts):
    """n11, n10, n01, n00 of a decision against the rating."""
    cells = [0, 0, 0, 0]
    for row in rows:
        cells[2 * (not accepts(row)) + (row["rating"] != "useful")] += 1
    return cells


@pytest.fixture(scope="module")
def rows():
    return cohort()


@pytest.fixture(scope="module")
def found(rows):
    return cal.agreement(
        columns(rows), thresholds={"*": [0, 0.5], "centre-distance": 20}, replicates=300
    )


RULES = {
    ("box-iou", "0"): lambda row: row["box-iou"] > 0,
    ("box-iou", "0.5"): lambda row: row["box-iou"] >= 0.5,
    ("mask-iou", "0.5"): lambda row: row["mask-iou"] >= 0.5,
    ("point-in-box", "yes"): lambda row: row["point-in-box"] == 1,
    ("centre-distance", "20"): lambda row: row["centre-distance"] <= 20,
}


@pytest.mark.parametrize("key", RULES)
def test_values_are_what_counting_gives(rows, found, key):
    table = counted(rows, RULES[key])
    for name in BOUNDS:
        twin = plain.SCORES.get(
            {"accuracy": "po", "positive-agreement": "PAR", "negative-agreement": "NAR"}.get(
                name, name
            )
        )
        twin = twin or plain.SCORES["PJ"]
        expected = twin(*table)
        value = found.get(name, criterion=key[0], threshold=key[1]).value
        assert value == pytest.approx(math.nan if expected is None else expected, nan_ok=True), name


def test_every_number_says_what_stands_behind_it(rows, found):
    useful = sum(row["rating"] == "useful" for row in rows)
    accepted = sum(row["box-iou"] >= 0.5 for row in rows)
    where = {"criterion": "box-iou", "threshold": 0.5}
    assert found.get("sensitivity", **where).n_predictions == useful
    assert found.get("specificity", **where).n_predictions == len(rows) - useful
    assert found.get("PPV", **where).n_predictions == accepted
    assert found.get("kappa", **where).n_predictions == len(rows)
    assert found.get("kappa", **where).n_references == useful
    assert found.get("kappa", **where).n_images == len({row["image"] for row in rows})
    assert (found.get("kappa", **where).unit, found.get("kappa", **where).n_units) == (
        "patient",
        30,
    )


def by_hand(rows, statistic, replicates, seed=0):
    """Replicates by drawing whole patients and copying their rows."""
    patients = sorted({row["patient"] for row in rows})
    values = []
    for b in range(replicates):
        drawn = np.random.Generator(np.random.Philox(key=[seed, b])).integers(
            0, len(patients), len(patients)
        )
        copies = [row for p in drawn for row in rows if row["patient"] == patients[p]]
        values.append(statistic(copies))
    return np.array(values)


def test_interval_is_the_t_interval_on_the_logit_scale(rows, found):
    def sensitivity(some):
        n11, _, n01, _ = counted(some, RULES["box-iou", "0.5"])
        return n11 / (n11 + n01)

    one = found.get("sensitivity", criterion="box-iou", threshold=0.5)
    values, theta = by_hand(rows, sensitivity, 300), sensitivity(rows)
    half = stats.t.ppf(0.975, 29) * values.std(ddof=1) * math.sqrt(30 / 29) / (theta * (1 - theta))
    centre = math.log(theta / (1 - theta))
    expected = [1 / (1 + math.exp(-(centre + sign * half))) for sign in (-1, 1)]
    assert one.method == "bootse-t-logit"
    assert [one.low, one.high] == pytest.approx(expected, abs=1e-9)
    assert one.bias == pytest.approx(values.mean() - theta, abs=1e-12)


def youden_by_hand(some, rows):
    """The best cut of some rows, its index there, and its index on all rows; the lowest of equal
    ones.
    """

    def index(sample, cut):
        n11, n10, n01, n00 = counted(sample, lambda row: row["box-iou"] >= cut)
        return (n11 * (n00 + n10) + n00 * (n11 + n01)), n11 / (n11 + n01) + n00 / (n00 + n10) - 1

    cuts = sorted({row["box-iou"] for row in rows})
    best = max(cuts, key=lambda cut: (index(some, cut)[0], -cut))
    return best, index(some, best)[1], index(rows, best)[1]


def test_best_threshold_and_its_optimism(rows):
    rows = rows[:40]
    found = cal.agreement(columns(rows), criteria="box-iou", replicates=100)
    cut, height, _ = youden_by_hand(rows, rows)
    assert found.get("Youden-threshold", criterion="box-iou").value == cut
    assert found.get("Youden", criterion="box-iou").value == pytest.approx(height)
    drawn = by_hand(rows, lambda some: youden_by_hand(some, rows), 100)
    optimism = (drawn[:, 1] - drawn[:, 2]).mean()
    assert optimism > 0
    assert found.get("Youden-corrected", criterion="box-iou").value == pytest.approx(
        height - optimism
    )
    spread = found.get("Youden-threshold", criterion="box-iou")
    low, high = np.quantile(drawn[:, 0], [0.025, 0.975])
    if low < high:
        assert (spread.low, spread.high) == pytest.approx((low, high))
    else:
        # In nearly all replicates the best threshold is the same: there is no spread to state.
        assert (spread.method, spread.reason) == ("none", "constant_input")


def test_distances_are_turned_round(rows, found):
    """40 (1 - iou), rounded, orders the predictions as the overlap does, nearly."""
    near, overlap = (
        found.get("AUROC", criterion=name).value for name in ("centre-distance", "box-iou")
    )
    assert near == pytest.approx(overlap, abs=0.01)
    cut = found.get("Youden-threshold", criterion="centre-distance")
    assert cut.value > 20
    assert cut.low <= cut.value <= cut.high


def test_each_rated_once_is_said_and_shown_by_rater(rows, found):
    assert any("rated once, by one of 3 raters" in text for text in found.warnings)
    for name in "ABC":
        mine = [row for row in rows if row["rater"] == name]
        n11, _, n01, _ = counted(mine, RULES["box-iou", "0.5"])
        one = found.get("sensitivity", criterion="box-iou", threshold=0.5, rater=name)
        assert one.value == pytest.approx(n11 / (n11 + n01))
        assert one.n_predictions == n11 + n01
        assert one.n_units == len({row["patient"] for row in mine})
    assert not [row for row in found.rows if row.metric in ("Fleiss", "Conger")]


def test_two_criteria_are_compared(rows, found):
    sides = (
        {"criterion": "box-iou", "threshold": "0.5"},
        {"criterion": "point-in-box", "threshold": "yes"},
    )
    one = next(c for c in found.comparisons if (c.criterion_a, c.criterion_b) == sides)
    right = [
        [RULES[key](row) == (row["rating"] == "useful") for row in rows]
        for key in (("box-iou", "0.5"), ("point-in-box", "yes"))
    ]
    only = [sum(a and not b for a, b in zip(*sides)) for sides in (right, right[::-1])]
    assert [one.only_a, one.only_b] == only
    assert one.difference == pytest.approx((only[0] - only[1]) / len(rows))
    assert one.p_exact == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    assert one.low <= one.difference <= one.high
    assert one.p <= one.p_adjusted <= 1
    areas = [c for c in found.comparisons if c.metric == "AUROC"]
    assert len(areas) == 6
    assert all(0 < c.p <= 1 for c in areas)


def test_the_same_seed_gives_the_same_numbers(rows):
    first, again, other = (
        cal.agreement(columns(rows), seed=s, replicates=100).to_json() for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_order_of_rows_and_names_of_patients_play_no_part_in_values(rows):
    mixed = [
        dict(row, patient="x" + row["patient"])
        for row in np.random.default_rng(0).permutation(rows)
    ]
    for name in ("kappa", "AC1", "sensitivity"):
        values = [
            cal.agreement(columns(some), replicates=100)
            .get(name, criterion="box-iou", threshold=0.5)
            .value
            for some in (rows, mixed)
        ]
        assert values[0] == pytest.approx(values[1])


@pytest.mark.parametrize("kind", ["useful", "not useful"])
def test_one_kind_of_rating_leaves_po_and_ac1(rows, kind):
    found = cal.agreement(columns([dict(row, rating=kind) for row in rows]), replicates=100)
    where = {"criterion": "box-iou", "threshold": 0.5}
    for name in ("AUROC", "Youden", "Youden-threshold", "Youden-corrected"):
        assert found.get(name, criterion="box-iou").reason == "single_category"
    missing = found.get("specificity" if kind == "useful" else "sensitivity", **where)
    assert math.isnan(missing.value)
    assert missing.n_predictions == 0
    assert not math.isnan(found.get("po", **where).value)
    assert not math.isnan(found.get("AC1", **where).value)
    assert any(f"all {len(rows)} ratings are {kind}" in text for text in found.warnings)
    assert all(c.reason == "single_category" for c in found.comparisons if c.metric == "AUROC")


def test_both_say_only_one_thing(rows):
    found = cal.agreement(
        columns([{**row, "rating": "useful", "box-iou": 1.0} for row in rows]), criteria="box-iou"
    )
    for name in ("kappa", "Scott-pi", "alpha", "MCC", "APJ"):
        one = found.get(name, criterion="box-iou", threshold="yes")
        assert (math.isnan(one.value), one.reason) == (True, "single_category")
    assert (
        found.get("po", criterion="box-iou").value
        == found.get("AC1", criterion="box-iou").value
        == 1
    )
    assert "the criterion box-iou is 1 for every prediction" in found.warnings


def rule_of_three(n, n_units):
    """Return the lower bound of a share without an error: p^n = 0.05, fewer trials by t for z."""
    n = n * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, n_units - 1)) ** 2
    return 0.05 ** (1 / n)


def test_everything_rejected_is_an_upper_bound_not_certainty():
    n = 40
    table = {
        "patient": range(n),
        "rating": ["useful"] * 20 + ["not useful"] * 20,
        "iou": [0.5] * 20 + [0.0] * 20,
    }
    one = cal.agreement(table, thresholds=0.5).get("specificity", criterion="iou")
    assert one.value == 1
    assert (one.method, one.high) == ("jeffreys-t", 1)
    assert one.low == pytest.approx(rule_of_three(20, 40))


@pytest.mark.parametrize(("hits", "patients"), [(9, 4), (4, 3)])
def test_few_patients_with_errors_in_most_of_them_are_not_near_perfection(hits, patients):
    """Fewer than five patients with an error, but they are half of all or more."""
    table = {
        "patient": np.repeat(range(6), 10),
        "rating": ["useful"] * 60,
        "iou": ([1.0] * hits + [0.2] * (10 - hits)) * patients + [1.0] * (10 * (6 - patients)),
    }
    one = cal.agreement(table, thresholds=0.5, replicates=200).get("sensitivity", criterion="iou")
    assert one.method == "bootse-t-logit"
    assert one.low < one.value < one.high


def test_perfect_disagreement_counts_units():
    table = {"rating": [1, 0] * 10, "iou": [0.0, 0.9] * 10}
    one = cal.agreement(table, thresholds=0.5, replicates=100).get("kappa", criterion="iou")
    assert (one.value, one.low, one.method) == (-1, -1, "jeffreys-t")
    # The bound for 0 of 10, the units of the rarer rating, on the scale from -1 to 1.
    assert one.high == pytest.approx(1 - 2 * rule_of_three(10, 20))


def test_few_units():
    table = {
        "patient": list("aabbccdd"),
        "rating": [1, 0] * 4,
        "iou": [0.9, 0.1, 0.8, 0.3, 0.2, 0.1, 0.7, 0.6],
    }
    found = cal.agreement(table, thresholds=0.5)
    assert found.get("accuracy", criterion="iou").reason == "too_few_units"
    one = cal.agreement({**table, "patient": ["a"] * 8}).get("AUROC", criterion="iou")
    assert one.reason == "one_unit"
    assert one.value == 14 / 16


def test_unbalanced_ratings_are_said():
    table = {"rating": [1] * 95 + [0] * 5, "iou": np.linspace(1, 0, 100)}
    assert any(
        "95 % of the ratings are useful" in text
        for text in cal.agreement(table, replicates=100).warnings
    )


def several(rows, raters=3, seed=1):
    """Each item rated by every rater, who errs now and then."""
    rng = np.random.default_rng(seed)
    found = []
    for k, row in enumerate(rows):
        for name in "ABCDEF"[:raters]:
            rating = row["rating"] if rng.random() < 0.9 else "not useful"
            found.append({**row, "item": k, "rater": name, "rating": rating})
    return found


def test_several_raters_are_compared_and_all_ratings_count(rows):
    long = several(rows)
    found = cal.agreement(columns(long), replicates=200)
    assert {"po", "alpha", "Fleiss", "AC1", "Conger"} <= {
        row.metric for row in found.rows if "raters" in row.group
    }
    pairs = [
        (a["rating"], b["rating"])
        for _, group in itertools.groupby(long, key=lambda row: row["item"])
        for a, b in itertools.combinations(group, 2)
    ]
    among = found.get("po", raters="3")
    assert among.value == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert (among.n_images, among.n_predictions, among.n_units) == (len(rows), 3 * len(rows), 30)
    assert f"every rating counts once: {len(long)} ratings of {len(rows)} items" in found.warnings
    useful = sum(row["rating"] == "useful" for row in long)
    assert found.get("sensitivity", criterion="box-iou", threshold=0.5).n_predictions == useful
    assert found.sentences()[0].startswith(
        f"Of {useful} ratings that say useful, box-iou at 0.5 accepts "
    )


def test_raters_alone(rows):
    table = columns(
        [{name: row[name] for name in ("item", "rater", "rating")} for row in several(rows)]
    )
    found = cal.agreement(table, replicates=100)
    assert found.decisions == ()
    assert found.comparisons == ()
    assert found.get("Fleiss").unit == "item"
    assert found.sentences() == []


def test_raters_without_a_column_have_no_names(rows):
    table = columns([{name: row[name] for name in ("item", "rating")} for row in several(rows)])
    found = cal.agreement(table, replicates=100)
    named = cal.agreement(columns(several(rows)), criteria=[], replicates=100)
    assert found.get("Fleiss").value == pytest.approx(named.get("Fleiss").value)
    assert not [row for row in found.rows if row.metric == "Conger"]
    assert any("raters have no names" in text for text in found.warnings)


def test_an_ordinal_scale(rows):
    rng = np.random.default_rng(0)
    table = columns(several(rows, raters=4))
    table["rating"] = np.clip(
        np.repeat(rng.integers(1, 6, len(rows)), 4) + rng.integers(-1, 2, 4 * len(rows)), 1, 5
    )
    found = cal.agreement(table, useful=["4", "5"], replicates=100)
    assert found.ratings.scale == "ordinal"
    assert "AC2" in {row.metric for row in found.rows}
    assert found.get("kappa", criterion="box-iou", threshold=0.5).n_references == int(
        (table["rating"] >= 4).sum()
    )
    with pytest.raises(cal.UsageError, match="which ratings count as useful"):
        cal.agreement(table)


def test_document_has_no_nan_and_keeps_its_keys(rows, found):
    document = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert list(document) == [
        "schema",
        "calipers",
        "settings",
        "ratings",
        "rows",
        "comparisons",
        "sentences",
        "warnings",
    ]
    assert document["schema"] == "calipers.agreement/1"
    assert document["ratings"]["ratings"] == len(rows)
    for row in document["rows"]:
        assert (row["value"] is None) <= (row["reason"] is not None)
        assert (row["low"] is None) == (row["reason"] is not None)
        assert row["n_units"] > 0
    frame = found.to_frame()
    assert len(frame) == len(found.rows)


@pytest.mark.parametrize(
    ("metric", "group", "said"),
    [
        ("kapa", {}, "did you mean 'kappa'"),
        ("kappa", {}, "name one"),
        ("kappa", {"criterion": "box-iou", "threshold": 0.9}, "0 rows"),
    ],
)
def test_a_row_must_be_meant(found, metric, group, said):
    with pytest.raises(cal.UsageError, match=said):
        found.get(metric, **group)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": 1.0}, "between 0 and 1"),
        ({"replicates": 10}, "at least 100"),
        ({"seed": -1}, "whole number from 0"),
        ({"thresholds": {"iou": 0.5}}, "not a criterion"),
        ({"thresholds": "high"}, "numbers"),
        ({"thresholds": []}, "one or more"),
        ({"thresholds": math.inf}, "finite"),
        ({"scale": "ratio"}, "no scale"),
        ({"scale": "interval", "categories": ["bad", "fair", "not useful", "useful"]}, "numbers"),
        ({"useful": "good"}, "cannot count as useful"),
        ({"categories": ["useful"]}, "two or more"),
        ({"criteria": ["box-iou", "box-iou"]}, "twice"),
        ({"criteria": "rating"}, "already something else"),
        ({"distances": "score"}, "not a criterion"),
    ],
)
def test_wrong_choices(rows, options, said):
    with pytest.raises(cal.UsageError, match=said):
        cal.agreement(columns(rows), **options)


def test_a_score_near_the_end_of_its_scale_keeps_its_t_interval():
    """Six of forty patients hold an error: many replicates hold none or hardly any."""
    table = {"rating": [1] * 20 + [0] * 20, "iou": [0.9] * 19 + [0.0] * 20 + [0.9]}
    one = cal.agreement(table, thresholds=0.5).get("kappa", criterion="iou")
    assert one.method == "bootse-t-atanh"
    assert one.low < one.value < one.high < 1


def test_the_rarer_rating_sets_the_freedom_of_areas():
    rng = np.random.default_rng(0)
    useful = np.arange(60) < 54
    table = {
        "rating": useful.astype(int),
        "iou": np.round((rng.random(60) + 0.4 * useful) / 1.4, 3),
    }
    one = cal.agreement(table, replicates=400).get("AUROC", criterion="iou")
    values = []
    for b in range(400):
        drawn = np.random.Generator(np.random.Philox(key=[0, b])).integers(0, 60, 60)
        x, r = table["iou"][drawn], useful[drawn]
        if r.all():
            continue
        pairs = x[r][:, None] - x[~r]
        values.append(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    half = (
        stats.t.ppf(0.975, 5)
        * np.std(values, ddof=1)
        * math.sqrt(6 / 5)
        / (one.value * (1 - one.value))
    )
    centre = math.log(one.value / (1 - one.value))
    # An area ends at 1 by itself: many replicates lie there, and the t interval stays.
    assert one.method == "bootse-t-logit"
    assert one.low == pytest.approx(1 / (1 + math.exp(half - centre)), abs=1e-9)
    assert one.undefined == 400 - len(values)


def test_frames_and_arrays_are_read_alike(rows):
    import pandas as pd

    frame = pd.DataFrame(rows)
    frame["rating"] = frame["rating"].astype("category")
    frame["point-in-box"] = frame["point-in-box"].astype(bool)
    results = [cal.agreement(table, replicates=100).to_json() for table in (columns(rows), frame)]
    assert results[0] == results[1]


def test_an_empty_cell_of_a_frame_is_a_missing_rating(rows):
    import pandas as pd

    frame = pd.DataFrame(rows)
    frame.loc[3, "rating"] = None
    frame.loc[5, "box-iou"] = np.nan
    with pytest.raises(cal.InputError) as caught:
        cal.agreement(frame)
    assert [problem.rule for problem in caught.value.problems] == [
        "rating-missing",
        "criterion-missing",
    ]
    found = cal.agreement(frame, lenient=True, replicates=100)
    assert found.ratings.intake.quarantined == {"rating-missing": 1, "criterion-missing": 1}
    assert len(found.ratings) == len(rows) - 2


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        (5, cal.UsageError, "not int"),
        ([1, 0], cal.UsageError, "not list"),
        ({"rating": [1, 0], "iou": [1.0]}, cal.InputError, "one length"),
        ({"rating": [1, 0], "iou": [[1.0], [2.0]]}, cal.InputError, "one value per row"),
        ({}, cal.InputError, "a column 'rating'"),
    ],
)
def test_wrong_tables_in_memory(table, error, said):
    with pytest.raises(error, match=said):
        cal.agreement(table)


@pytest.mark.slow
@pytest.mark.parametrize("patients", [30, 100])
def test_intervals_cover(patients):
    """Patients with up to 4 ratings each: nominal 95 % intervals over patients hold the truth."""
    options = {"criteria": "box-iou", "thresholds": 0.5}
    whole = cal.agreement(columns(cohort(seed=10**6, patients=60_000)), replicates=100, **options)
    hits = dict.fromkeys(("sensitivity", "specificity", "kappa", "AC1", "MCC", "AUROC"), 0)
    for seed in range(400):
        found = cal.agreement(columns(cohort(seed, patients)), replicates=400, **options)
        for name in hits:
            one, truth = (result.get(name, criterion="box-iou") for result in (found, whole))
            hits[name] += one.low <= truth.value <= one.high
    assert all(0.90 <= n / 400 <= 0.995 for n in hits.values()), hits


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_ratings_whose_squares_run_over_are_no_interval_scale(unit):
    table = {"item": list("aabb"), "rater": ["A", "B"] * 2, "rating": [unit, 2 * unit, 3 * unit, 0]}
    with pytest.raises(cal.UsageError, match="whose squares are numbers"):
        cal.agreement(table, useful=["0"], scale="interval")


def test_more_thresholds_than_anybody_reads_and_no_useful_rating_are_refused():
    table = {"item": list("abcd"), "rating": [0, 1, 0, 1], "iou": [0.1, 0.2, 0.3, 0.4]}
    with pytest.raises(cal.UsageError, match="at most 1,000 thresholds"):
        cal.agreement(table, thresholds=np.linspace(0, 1, 1001))
    with pytest.raises(cal.UsageError, match="one or more ratings"):
        cal.agreement(table, useful=[])
