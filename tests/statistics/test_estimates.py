"""From metrics to estimates: what stands behind a value, standard errors of ratios,
and whole evaluations.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.evaluation import collect
from calipers.kernels import route
from calipers.metrics.base import Metric
from calipers.results.estimate import FLAGS, REASONS
from calipers.statistics import few_errors
from calipers.statistics import intervals as making
from calipers.statistics.estimates import Certainty, ClassSample, estimates
from calipers.statistics.support import Support
from calipers.statistics.weights import Units, bootstrap, units_of
from cases import MODEL, cohort_of, evidence_of, metric_of
from preset_lists import BOX_PRESETS
from random_cohorts import random_cohort
from reference import resampling
from seeds import in_turn

BOX = [0, 0, 10, 10]
FAR = [50, 50, 60, 60]


def quick(preset: str, **changes) -> cal.Protocol:
    return replace(cal.Protocol.load(preset), **{"replicates": 200, **changes})


def rows_of(evaluation: cal.Evaluation) -> list[tuple]:
    """Everything that is said, as text: NaN equals NaN."""
    return [
        (row.model, row.metric, str(row.label), str(row.group), repr(row.estimate))
        for row in evaluation.rows
    ]


def simple(outcomes: list[str], label: list[int] | None = None) -> cal.Cohort:
    """One image per word: h a hit, m a missed reference, f a false alarm, - nothing;
    ``hf`` is both.
    """
    references, predictions = [], []
    for k, word in enumerate(outcomes):
        there = [BOX] * (("h" in word) or ("m" in word))
        said = [BOX] * ("h" in word) + [FAR] * ("f" in word)
        own = 0 if label is None else label[k]
        references.append({"boxes": np.reshape(there, (-1, 4)), "labels": [own] * len(there)})
        scores = np.linspace(0.9, 0.8, len(said)) - 0.001 * k
        predictions.append(
            {"boxes": np.reshape(said, (-1, 4)), "labels": [own] * len(said), "scores": scores}
        )
    return cal.Cohort.from_arrays(references, {MODEL: predictions}, classes=("a", "b"))


MIXED = ["h", "m", "hf", "h", "f", "m", "-", "h", "h", "m"] * 4
WORDS = ["h"] * 9 + ["m"] * 3 + ["hf"] * 4 + ["f"] * 2 + ["-"] * 6


def made_by(metric: Metric, cohort: cal.Cohort, units: Units, **certainty):
    (table,) = estimates([(metric, evidence_of(metric, cohort))], units, Certainty(**certainty))
    return table


# What stands behind a value


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sensitivity", (16, 16, 3)),
        ("ppv", (15, 15, 6)),
        ("f-beta", (18, 18, 9)),
        ("false-alarms", (24, 24, 6)),
        ("average-precision", (16, 18, 9)),
        ("average-recall", (16, 16, 3)),
        ("froc", (16, 18, 9)),
        ("accuracy", (24, 24, 9)),
    ],
)
def test_units_that_are_needed_that_can_err_and_that_do(
    kind: str, expected: tuple[int, ...]
) -> None:
    cohort = simple(WORDS)
    metric = metric_of(kind)
    found = metric.support(evidence_of(metric, cohort), np.arange(24), 24)
    assert found[0, 0].tolist() == list(expected)
    assert found[1, 0].tolist() == list(expected)  # all are of class a
    pairs = metric.support(evidence_of(metric, cohort), np.arange(24) // 24, 1)
    assert pairs[0, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["plain", "crowds", "ignored", "crowded images"])
@pytest.mark.parametrize("max_dets", [1, 2, 100])
def test_a_unit_is_in_error_if_it_alone_is_not_perfect(kind: str, max_dets: int) -> None:
    """Recall of a unit below 1 at some threshold: the definition, one unit at a time."""
    cohort = cohort_of(kind, seed=3, n_images=40)
    unit = np.unique(cohort.group("patient"), return_inverse=True)[1]
    matching = {"thresholds": [0.5, 0.75], "max_dets": 100}
    for name in ("average-recall", "sensitivity"):
        metric = metric_of(name, matching, max_dets=max_dets)
        evidence = evidence_of(metric, cohort)
        n = unit.max() + 1
        alone = metric.value(evidence, (unit[None] == np.arange(n)[:, None]).astype(np.int64))[
            :, :, 0
        ]
        found = metric.support(evidence, unit, n)[:, 0]
        np.testing.assert_array_equal(found[1:, 0], (~np.isnan(alone[:, 1:])).sum(axis=0))
        np.testing.assert_array_equal(found[1:, 2], (alone[:, 1:] < 1).sum(axis=0))
        in_error = (np.nan_to_num(alone[:, 1:], nan=1.0) < 1).any(axis=1)
        assert found[0, 2] == in_error.sum()


def test_what_a_limit_cuts_off_is_an_error() -> None:
    """Three objects per image, all found: AR1 is a third, and that is far from perfect."""
    three = {"boxes": [BOX, [20, 0, 30, 10], [40, 0, 50, 10]], "labels": [0, 0, 0]}
    two = {"boxes": three["boxes"][:2], "labels": [0, 0]}
    references = [three if k % 2 else two for k in range(30)]
    predictions = [
        {**r, "scores": np.linspace(0.9, 0.8, len(r["labels"])) - k / 1000}
        for k, r in enumerate(references)
    ]
    found = cal.evaluate(
        cal.Cohort.from_arrays(references, predictions, classes=("a",)), quick("coco")
    )
    assert found["AR1"].value == pytest.approx(0.4)
    assert found["AR1"].method == "bootse-t-logit"
    assert found["AR1"].low < 0.4 < found["AR1"].high < 0.5
    assert found["AR10"].method == "jeffreys-t"


@pytest.mark.parametrize("kind", ["sensitivity", "ppv", "f-beta", "false-alarms"])
def test_parts_of_a_ratio_add_up_to_the_value(kind: str) -> None:
    for seed in range(3):
        cohort = cohort_of("ignored", seed=seed, n_images=30)
        metric = metric_of(kind, max_dets=3)
        evidence = evidence_of(metric, cohort)
        unit = np.unique(cohort.group("patient"), return_inverse=True)[1]
        n = unit.max() + 1
        top, bottom = metric.ratio_parts(evidence, unit, n, 0)
        weight = np.random.default_rng(seed).integers(0, 4, n)
        value = metric.value(evidence, weight[unit][None])[0, :, 0]
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(weight @ top / (weight @ bottom), value, atol=1e-14)
        if metric.facts.proportion:
            of_what = [row[0] for row in metric.proportion_of(evidence)]
            np.testing.assert_array_equal(of_what, bottom.sum(axis=0))


def test_means_of_ratios_have_no_parts() -> None:
    cohort = cohort_of("plain", seed=1)
    for options in ({"average": "classes"}, {"thresholds": [0.3, 0.5]}):
        metric = metric_of("sensitivity", **options)
        assert metric.ratio_parts(evidence_of(metric, cohort), np.zeros(12, np.int64), 1, 0) is None
        assert metric.proportion_of(evidence_of(metric, cohort)) == [[None]] * 4
    accuracy = metric_of("accuracy")
    assert accuracy.ratio_parts(evidence_of(accuracy, cohort), np.zeros(12, np.int64), 1, 0) is None


# Standard errors of ratios, by hand


def parts_by_hand(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Numerator and denominator of every image."""
    hits = np.array(["h" in word for word in MIXED], float)
    missed, alarms = (np.array([letter in word for word in MIXED], float) for letter in "mf")
    return hits, hits + (missed if kind == "sensitivity" else (missed + alarms) / 2)


@pytest.mark.parametrize("kind", ["sensitivity", "f-beta"])
def test_studentized_intervals_by_hand(kind: str) -> None:
    unit = np.arange(40) // 2
    units = Units.of("patient", unit, 40)
    found = made_by(
        metric_of(kind), simple(MIXED), units, method="studentized", replicates=300, seed=4
    )[0][0]
    top, bottom = (np.bincount(unit, part) for part in parts_by_hand(kind))
    theta = top.sum() / bottom.sum()
    steps = []
    for b in range(300):
        chosen = resampling.repeated(resampling.draws(4, b, 20))
        error = resampling.ratio_error(top[chosen], bottom[chosen])
        steps.append((top[chosen].sum() / bottom[chosen].sum() - theta) / error)
    low, high = np.quantile(steps, [0.025, 0.975])
    error = resampling.ratio_error(top, bottom)
    assert found.value == pytest.approx(theta, abs=1e-15)
    assert (found.low, found.high) == pytest.approx(
        (theta - high * error, theta - low * error), abs=1e-12
    )
    assert found.method == "studentized"


@pytest.mark.parametrize("kind", ["sensitivity", "f-beta"])
def test_jackknife_t_intervals_by_hand(kind: str) -> None:
    units = Units.of("image", None, 40)
    found = made_by(metric_of(kind), simple(MIXED), units, method="jackknife-t", replicates=100)[0][
        0
    ]
    hits, every = parts_by_hand(kind)
    without = (hits.sum() - hits) / (every.sum() - every)
    half = stats.t.ppf(0.975, 39) * math.sqrt(39 / 40 * np.sum((without - np.mean(without)) ** 2))
    theta = hits.sum() / every.sum()
    assert (found.low, found.high) == pytest.approx((theta - half, theta + half), abs=1e-12)


def test_studentized_falls_back_where_there_is_no_ratio() -> None:
    found = cal.evaluate(random_cohort(40, 2, seed=1), quick("overview", interval="studentized"))
    assert found["F1@0.5"].method == found["sensitivity@0.5"].method == "studentized"
    assert found["AP@0.5"].method == found["RoDeO"].method == "bootse-t-logit"
    nested = quick("overview", interval="studentized", cluster=("patient", "image"))
    assert cal.evaluate(random_cohort(40, 2, seed=1), nested)["F1@0.5"].method == "bootse-t-logit"


# Wilson and Clopper-Pearson


@pytest.mark.parametrize(
    ("method", "make"),
    [("wilson", few_errors.wilson), ("clopper-pearson", few_errors.clopper_pearson)],
)
def test_proportions_take_the_interval_of_their_objects(method: str, make) -> None:
    found = cal.evaluate(simple(WORDS), quick("overview", interval=method))
    for name, k, n in (("sensitivity@0.5", 13, 16), ("PPV@0.5", 13, 19)):
        e = found[name]
        assert (e.low, e.high, e.method) == (*make(k, n), method)
        assert e.flags == ("independent_objects",)
    for name in ("F1@0.5", "AP@0.5", "FP/image@0.5", "RoDeO"):
        assert found[name].method not in (method, "none")
        assert "independent_objects" not in found[name].flags


def test_proportions_do_not_inherit_flags_of_an_interval_that_is_not_shown() -> None:
    perfect = cal.evaluate(simple(["h"] * 8), quick("overview", interval="wilson"))
    assert perfect["sensitivity@0.5"].flags == ("few_units", "independent_objects")
    assert (perfect["sensitivity@0.5"].low, perfect["sensitivity@0.5"].high) == few_errors.wilson(
        8, 8
    )
    assert "few_errors" in perfect["F1@0.5"].flags
    silent = cal.evaluate(simple(["m"] * 12), quick("overview", interval="wilson"))
    assert silent["PPV@0.5"].reason == "no_predictions"
    assert math.isnan(silent["PPV@0.5"].low)


# Rules, through a whole evaluation


@pytest.mark.parametrize(("n", "reason"), [(1, "one_unit"), (4, "too_few_units"), (5, None)])
def test_few_units_have_no_interval(n: int, reason: str | None) -> None:
    cohort = simple(WORDS).with_groups({"patient": np.arange(24) % n})
    e = cal.evaluate(cohort, quick("overview"))["F1@0.5"]
    assert (e.reason, e.n_units, e.unit) == (reason, n, "patient")
    assert math.isnan(e.low) == (reason is not None)
    assert (e.flags == ("few_units",)) == (reason is None)


def test_a_class_in_few_units_has_no_interval() -> None:
    label = [1] * 4 + [0] * 20
    found = cal.evaluate(simple(WORDS, label), quick("overview"))
    assert found.get("sensitivity@0.5", label="b").reason == "too_few_units"
    assert found.get("sensitivity@0.5", label="a").reason is None
    assert found["sensitivity@0.5"].reason is None


def test_a_score_of_false_alarms_alone_says_that_there_are_no_references() -> None:
    """RoDeO is 0 then; it is not that there were too few images."""
    found = cal.evaluate(simple(["f"] * 12), quick("overview"))
    e = found["RoDeO"]
    assert (e.value, e.reason, e.method) == (0.0, "no_references", "none")
    assert math.isnan(e.low)
    words = "No interval for 8 of 15 rows: there are no references, only false alarms."
    assert words in found.warnings
    assert "fewer than 5" not in " ".join(found.warnings)


def test_a_perfect_model_is_not_certain() -> None:
    found = cal.evaluate(simple(["h"] * 30), quick("overview"))
    # The rule of three: 30 images with one object each are 30 trials.
    bound = 0.05 ** (1 / 30)
    for name in ("AP", "AP@0.5", "FROC", "sensitivity@0.5", "PPV@0.5", "F1@0.5", "RoDeO"):
        e = found[name]
        assert (e.low, e.high) == pytest.approx((bound, 1.0), abs=1e-12), name
        assert (e.method, "few_errors" in e.flags) == ("jeffreys-t", True)
    rate = found["FP/image@0.5"]
    assert (rate.low, rate.method) == (0.0, "poisson-t")
    assert rate.high == pytest.approx(-math.log(0.05) / 30)
    none_hit = cal.evaluate(simple(["m"] * 30), quick("overview"))["sensitivity@0.5"]
    assert none_hit.flags == ("few_errors",)
    assert (none_hit.low, none_hit.high) == pytest.approx((0.0, 1 - bound), abs=1e-12)


def test_a_perfect_ranking_is_perfect_whatever_its_last_bits_say() -> None:
    """pycocotools' epsilon makes the AP of a class with one reference a little less than 1."""
    rare = {"boxes": [BOX, [20, 20, 40, 40]], "labels": [0, 1]}
    references = [rare if k == 0 else {"boxes": [BOX], "labels": [0]} for k in range(40)]
    predictions = []
    for k, r in enumerate(references):
        scores = [0.9 - k / 1000] * len(r["labels"])
        late = {
            "boxes": [*r["boxes"], FAR],
            "labels": [*r["labels"], 0],
            "scores": [*scores, 0.1 + k / 1000],
        }
        predictions.append(late)
    found = cal.evaluate(
        cal.Cohort.from_arrays(references, predictions, classes=("a", "b")), quick("coco")
    )
    assert 1 - 1e-12 < found["AP50"].value < 1
    assert found["AP50"].method == "jeffreys-t"
    assert found["AP50"].low < found["AP50"].value <= found["AP50"].high


@pytest.mark.parametrize("preset", BOX_PRESETS)
def test_identical_units_are_told_from_certain_ones(preset: str) -> None:
    said = {
        "boxes": [[1, 0, 10, 11], [27, 3, 38, 11], FAR],
        "labels": [0, 1, 1],
        "scores": [0.9, 0.7, 0.3],
    }
    reference = {"boxes": [BOX, [20, 0, 37, 13]], "labels": [0, 1], "width": 960, "height": 540}
    cohort = cal.Cohort.from_arrays([reference] * 30, [said] * 30, classes=("a", "b"))
    found = cal.evaluate(cohort, quick(preset))
    assert any("identical_units" in row.estimate.flags for row in found.rows)
    for row in found.rows:
        e = row.estimate
        told = e.reason == "constant_input" or set(e.flags) & {"identical_units", "few_errors"}
        assert math.isnan(e.value) or told, row.metric
        assert e.method == "none" or e.low < e.high, row.metric


def test_many_undefined_replicates_are_counted() -> None:
    words = ["hf"] * 3 + ["m"] * 3 + ["-"] * 60
    e = cal.evaluate(simple(words), quick("overview", replicates=400))["PPV@0.5"]
    assert e.reason == "too_few_units"  # three images have predictions
    sparse = cal.evaluate(simple(["hf"] * 5 + ["-"] * 300), quick("overview", replicates=400))
    e = sparse["sensitivity@0.5"]
    expected = [resampling.draws(0, b, 305)[:5].sum() == 0 for b in range(400)]
    assert e.undefined == sum(expected) > 0


# Whole evaluations


@pytest.mark.parametrize("preset", BOX_PRESETS)
@pytest.mark.parametrize("kind", ["plain", "tied scores", "crowds", "many classes"])
def test_intervals_hold_their_value_and_gaps_have_a_reason(preset: str, kind: str) -> None:
    found = cal.evaluate(cohort_of(kind, seed=21, n_images=40), quick(preset))
    for row in found.rows:
        e = row.estimate
        assert set(e.flags) <= set(FLAGS)
        if math.isnan(e.low):
            assert e.reason in REASONS
            assert e.method == "none"
            continue
        assert e.reason is None
        assert not math.isnan(e.bias)
        assert not e.percentile[0] >= e.percentile[1]
        assert np.isfinite(e.mc_error).all()
        assert e.low <= e.value <= e.high, row.metric
        assert e.low < e.high, row.metric
        if not e.method.startswith("bootse-t"):
            assert e.method in ("jeffreys-t", "poisson-t", "gamma-t")
            # Gains have the gamma form also with more than a few errors.
            is_few = {"few_errors", "identical_units"} & set(e.flags)
            assert is_few or e.method == "gamma-t"


@pytest.mark.parametrize("preset", ["coco", "overview"])
def test_the_same_seed_gives_the_same_numbers_and_another_one_others(preset: str) -> None:
    cohort = random_cohort(40, 2, seed=3)
    first, again, other = (cal.evaluate(cohort, quick(preset), seed=seed) for seed in (5, 5, 6))
    assert rows_of(first) == rows_of(again)
    moved = [
        a.estimate.low != b.estimate.low
        for a, b in zip(first.rows, other.rows)
        if a.estimate.method[:4] == "boot"
    ]
    assert moved
    assert all(moved)
    assert [row.estimate.value for row in first.rows] == pytest.approx(
        [row.estimate.value for row in other.rows], nan_ok=True, abs=0
    )


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize(
    ("preset", "method"), in_turn(BOX_PRESETS, ["bootse-t-logit", "bca"], default=1)
)
def test_routes_threads_and_jobs_do_not_change_a_bit(
    preset: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, protocol = (
        cohort_of("tied scores", seed=5, n_images=40, models=2),
        quick(preset, interval=method),
    )
    with route.forced("numpy"):
        expected = rows_of(cal.evaluate(cohort, protocol))
    for threads, jobs in (("1", 1), ("2", 3), ("8", 1)):
        monkeypatch.setenv("CALIPERS_THREADS", threads)
        with route.forced("native"):
            assert rows_of(cal.evaluate(cohort, protocol, jobs=jobs)) == expected


def test_the_order_and_number_of_models_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = random_cohort(40, 3, seed=6, models=3)
    expected = sorted(rows_of(cal.evaluate(cohort, quick("overview"))))
    turned = replace(cohort, models=dict(reversed(cohort.models.items())))
    assert sorted(rows_of(cal.evaluate(turned, quick("overview")))) == expected
    monkeypatch.setattr(collect, "MOST_KEPT", 1)  # one model at a time
    assert sorted(rows_of(cal.evaluate(cohort, quick("overview")))) == expected


def test_an_interval_is_that_of_the_replicates_of_its_metric(kernel_route: str) -> None:
    """The whole way by hand: draws, weights of images, really repeated images,
    standard deviation, t interval.
    """
    cohort = random_cohort(30, 2, seed=8)
    found = cal.evaluate(cohort, quick("overview", replicates=100))
    patient = np.unique(cohort.group("patient"), return_inverse=True)[1]
    n = patient.max() + 1
    values: dict[str, list[float]] = {}
    for b in range(100):
        images = resampling.repeated(resampling.draws(0, b, n)[patient])
        again = cal.evaluate(cohort.take(images), quick("overview"), ci=False)
        for name in again.metrics:
            values.setdefault(name, []).append(again[name].value)
    for name, replicates in values.items():
        e = found[name]
        scale = making.MetricScale(0.0, math.inf if name.startswith("FP") else 1.0)
        if name.startswith("AP"):  # means over classes hide some variance: a test of its own
            continue
        half = stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1)) * np.std(replicates, ddof=1)
        low, high = scale.around(np.array([e.value]), np.array([half]))
        assert (e.low, e.high) == pytest.approx((low[0], high[0]), abs=1e-12), name
        assert e.bias == pytest.approx(np.mean(replicates) - e.value, abs=1e-12)
        assert e.percentile == pytest.approx(
            tuple(np.quantile(replicates, [0.025, 0.975])), abs=1e-12
        )


def test_images_of_a_patient_are_not_independent() -> None:
    """Every image four times, as four images of one patient:
    only the patients carry information.
    """
    once = random_cohort(40, 2, seed=9)
    many = once.take(np.repeat(np.arange(40), 4)).with_groups(
        {"patient": np.repeat(np.arange(40), 4)}
    )
    alone = once.with_groups({"patient": np.arange(40)})
    expected, found = (cal.evaluate(c, quick("overview"))["F1@0.5"] for c in (alone, many))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    narrow = cal.evaluate(many, quick("overview", cluster="image"))["F1@0.5"]
    assert narrow.high - narrow.low == pytest.approx((found.high - found.low) / 2, rel=0.15)
    assert (narrow.unit, narrow.n_units) == ("image", 160)


def test_strata_of_two_are_wide_enough() -> None:
    """Pairs of patients drawn inside their pair: the bootstrap sees half of the variance."""
    random = np.random.default_rng(1)
    words = random.choice(["h", "m"], 80, p=[0.7, 0.3]).tolist()
    cohort = simple(words).with_groups({"patient": np.arange(80), "pair": np.arange(80) // 2})
    free, bound = (
        cal.evaluate(cohort, quick("overview", strata=strata, replicates=1000))["sensitivity@0.5"]
        for strata in (None, "pair")
    )
    residual = np.array([word == "h" for word in words], float)
    within = (
        np.sum((residual[::2] - residual[1::2]) ** 2) / 2
    )  # unbiased sum of variances inside the pairs
    error = math.sqrt(2 * within) / 80 / (bound.value * (1 - bound.value))
    odds = [math.log(x / (1 - x)) for x in (bound.low, bound.high)]
    assert (odds[1] - odds[0]) / 2 / stats.t.ppf(0.975, 40) == pytest.approx(error, rel=0.08)
    assert (bound.high - bound.low) / (free.high - free.low) == pytest.approx(1.0, abs=0.3)


def test_two_levels_are_wider_than_patients_if_centres_differ() -> None:
    random = np.random.default_rng(2)
    centre = np.repeat(np.arange(10), 20)
    right = random.random(200) < random.uniform(0.3, 0.95, 10)[centre]
    cohort = simple(["h" if r else "m" for r in right]).with_groups(
        {"centre": centre, "patient": np.arange(200)}
    )
    width = {}
    for cluster in ("patient", "centre", ("centre", "patient")):
        e = cal.evaluate(cohort, quick("overview", cluster=cluster, replicates=500))[
            "sensitivity@0.5"
        ]
        width[cluster] = e.high - e.low
        assert e.n_units == (200 if cluster == "patient" else 10)
    assert width["patient"] < 0.6 * width["centre"]
    assert width["centre", "patient"] == width["centre"]


@pytest.mark.parametrize("kind", ["sensitivity", "ppv"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_bootstrap_of_a_mean_has_the_deviation_of_a_mean(kind: str, share: float) -> None:
    """One object per image: the deviation of a share is known,
    and the bootstrap finds it up to chance.
    """
    random = np.random.default_rng(int(100 * share))
    right = random.random(60) < share
    words = ["h" if r else "m" if kind == "sensitivity" else "f" for r in right]
    metric, cohort = metric_of(kind), simple(words)
    evidence = evidence_of(metric, cohort)
    values = np.concatenate(
        [
            metric.value(evidence, block)[:, 0, 0]
            for block in bootstrap(Units.of("image", None, 60), 4000, 1)
        ]
    )
    p = right.mean()
    analytic = math.sqrt(p * (1 - p) / 60)
    assert np.std(values, ddof=1) == pytest.approx(analytic, rel=4.5 / math.sqrt(2 * 4000))
    assert np.mean(values) == pytest.approx(p, abs=4.5 * analytic / math.sqrt(4000))


def test_no_replicates_no_intervals() -> None:
    cohort = random_cohort(20, 2, seed=1)
    for found in (
        cal.evaluate(cohort, quick("coco"), ci=False),
        cal.evaluate(cohort, quick("coco", replicates=0)),
    ):
        assert {
            row.estimate.reason for row in found.rows if not math.isnan(row.estimate.value)
        } == {"not_requested"}


def test_units_are_counted_over_what_is_evaluated() -> None:
    cohort = random_cohort(50, 2, seed=2)
    units = units_of(cohort.images.groups, 50)
    assert units.number == len(set(cohort.group("patient").tolist()))
    assert (
        cal.evaluate(cohort, quick("coco")).statistics["generalises_to"] == units.generalises_to()
    )


def test_an_average_precision_by_the_jackknife_is_flagged() -> None:
    cohort = random_cohort(40, 2, seed=3)
    protocol = replace(cal.Protocol.load("overview"), interval="bca", replicates=200)
    ev = cal.evaluate(cohort, protocol)
    assert "rough_metric" in ev["AP"].flags
    assert "rough_metric" not in ev["F1@0.5"].flags


def test_a_class_that_replicates_lose_is_told() -> None:
    cohort = random_cohort(40, 2, seed=3)
    rare = np.flatnonzero(cohort.references.label == 1)[0]
    kept = np.flatnonzero(
        (cohort.references.label == 0) | (np.arange(len(cohort.references)) == rare)
    )
    mask = np.zeros(len(cohort.references), np.bool_)
    mask[kept] = True
    thinned = replace(cohort, references=cohort.references.keep(mask))
    ev = cal.evaluate(thinned, replace(cal.Protocol.load("coco"), replicates=200))
    assert (
        "classes_left_out" in ev["AP50"].flags
    )  # one image in 40 holds the class: a third of the replicates have none
    assert (
        "classes_left_out"
        not in cal.evaluate(cohort, replace(cal.Protocol.load("coco"), replicates=200))[
            "AP50"
        ].flags
    )


@pytest.mark.parametrize(("average", "loses"), [("pooled", False), ("classes", True)])
def test_a_pooled_value_that_equals_the_mean_over_classes_is_not_one(
    average: str, loses: bool
) -> None:
    cohort = simple(
        ["h", "m"] * 20, label=[0] * 38 + [1] * 2
    )  # half of each class is found, so half of all
    metric = metric_of("sensitivity", average=average)
    pooled = made_by(metric, cohort, Units.of("image", None, cohort.n_images), replicates=200)[0][0]
    assert pooled.value == 0.5
    lost = sum(resampling.draws(0, b, 40)[38:].sum() == 0 for b in range(200))
    assert lost > 10
    assert pooled.partial == (lost if loses else 0)
    assert ("classes_left_out" in pooled.flags) == loses


def test_images_without_a_patient_are_no_unit() -> None:
    cohort = random_cohort(12, 2, seed=3)
    column = np.array(["a", "b", ""] * 4)
    known = replace(cohort, images=replace(cohort.images, groups={"patient": column}))
    with pytest.raises(
        cal.UsageError, match="4 of 12 images have no patient, the first is image number 3"
    ):
        cal.evaluate(known, "coco")
    assert (
        cal.evaluate(known, replace(cal.Protocol.load("coco"), cluster="image", replicates=100))[
            "AP"
        ].unit
        == "image"
    )


def class_sample(name: str, numbers: tuple[int, ...], spreads: tuple[float, ...]) -> ClassSample:
    """Classes of value 0.6 in as many units as they have references."""
    facts = next(m.facts for m in cal.Protocol.load("coco").compile() if name in m.facts.names)
    random = np.random.default_rng(5)
    parts = 0.6 + random.standard_normal((500, len(numbers))) * np.array(spreads)
    sample = np.column_stack([parts.mean(axis=1), parts])
    of_classes = np.array([sum(numbers), *numbers])
    value = np.full(1 + len(numbers), 0.6)
    return ClassSample(facts, facts.names.index(name), value, sample, of_classes, of_classes)


def test_a_mean_over_classes_reaches_by_its_bias_and_a_single_class_does_not() -> None:
    pooled = Support(60, n_trials=100.0)
    several = class_sample("AP50", (60, 35, 5), (0.06, 0.08, 0.2))
    assert several.support(pooled).reach == 1.0
    assert several.support(replace(pooled, reach=2.0)).reach == 2.0
    assert class_sample("AP50", (100,), (0.05,)).support(pooled) == pooled


@pytest.mark.parametrize("name", ["AP", "AP50"])
@pytest.mark.parametrize("part", [0.25, 0.8, 3.0])
def test_rare_classes_vary_as_far_short_of_a_share_as_common_ones(name: str, part: float) -> None:
    numbers = (60, 35, 4)
    of_share = [0.6 * 0.4 / n for n in numbers]
    # The rare class does not vary in the replicates at all; the others by a part of a share.
    spreads = [math.sqrt(part * variance) for variance in of_share]
    classes = class_sample(name, numbers, (*spreads[:2], 0.0))
    # At most a share; the common classes show their own, but for what few units take away.
    assert classes.hidden_variance() * 9 == pytest.approx(min(part, 1.0) * of_share[2], rel=0.2)


def test_classes_that_do_not_vary_have_no_variance_by_rounding() -> None:
    assert class_sample("AP", (60, 35, 4), (1e-16, 1e-16, 0.0)).hidden_variance() == 0.0
