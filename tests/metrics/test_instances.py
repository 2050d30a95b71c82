"""Instance F1, instance IoU and centre distance against the twins and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from cases import KINDS, MODEL, cohort_of, evidence_of, metric_of, values_of
from kernel_routes import native_by_default
from random_cohorts import random_cohort
from reference import boxes
from reference.instances import f1_of, hit_similarities, summary, tallies
from reference.matching import Rule, fates
from reference.plain import Thing, things

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

NOTHING: dict[str, list[object]] = {"boxes": []}


def similarity(r: Thing, p: Thing) -> float:
    return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)


def nearness(r: Thing, p: Thing) -> float:
    return -math.dist(boxes.centre(r.box), boxes.centre(p.box))


def labels_of(cohort: Cohort) -> list[int | None]:
    return [None, *range(len(cohort.classes))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threshold", [0.01, 0.5])
def test_f1_of_samples_equals_the_twin(threshold: float, kind: str) -> None:
    for seed in range(3):
        cohort = cohort_of(kind, seed)
        references, predictions = things(cohort, MODEL)
        found = fates(
            references, predictions, "by-overlap", Rule(similarity, lambda s: s >= threshold)
        )
        expected = [
            summary(
                [
                    f1_of(*tallies(references, predictions, found, c, i))
                    for i in range(cohort.n_images)
                ],
                "mean",
            )
            for c in labels_of(cohort)
        ]
        metric = metric_of("instance-f1", {"assignment": "by-overlap", "thresholds": threshold})
        np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected, rtol=1e-14)


def test_f1_of_all_objects_is_f_beta() -> None:
    for kind in KINDS:
        cohort = cohort_of(kind, seed=3)
        pooled = metric_of("instance-f1", average="pooled")
        np.testing.assert_array_equal(
            values_of(pooled, cohort), values_of(metric_of("f-beta"), cohort)
        )


def four_samples() -> Cohort:
    """A hit beside a miss; a false alarm only; a missed one only; nothing."""
    box, other = [0, 0, 10, 10], [40, 40, 50, 50]
    references = [
        {"boxes": [box, other], "labels": [0, 0]},
        NOTHING,
        {"boxes": [box], "labels": [0]},
        NOTHING,
    ]
    said = {"boxes": [box], "labels": [0], "scores": [0.9]}
    return Cohort.from_arrays(references, {MODEL: [said, said, NOTHING, NOTHING]}, classes=("a",))


def test_four_samples_by_hand() -> None:
    """2/3, 0, 0 and, because nothing is there and nothing is said, 1."""
    cohort = four_samples()
    assert values_of(metric_of("instance-f1"), cohort)[0, 0] == pytest.approx(
        (2 / 3 + 1) / 4, rel=1e-15
    )
    assert values_of(metric_of("instance-f1", average="pooled"), cohort)[0, 0] == 2 / 5


def test_only_f1_of_samples_rises_with_normal_samples() -> None:
    cohort = four_samples()
    more = cohort.take(np.array([0, 1, 2, 3, 3, 3, 3]))
    rising, flat = metric_of("instance-f1"), metric_of("instance-f1", average="pooled")
    assert values_of(rising, more)[0, 0] > values_of(rising, cohort)[0, 0]
    assert values_of(rising, more)[0, 0] == pytest.approx((2 / 3 + 4) / 7)
    assert values_of(flat, more)[0, 0] == values_of(flat, cohort)[0, 0]


def test_a_normal_sample_with_a_false_alarm_lowers_f1_of_samples() -> None:
    cohort = four_samples()
    more = cohort.take(np.array([0, 1, 1, 2, 3]))
    assert (
        values_of(metric_of("instance-f1"), more)[0, 0]
        < values_of(metric_of("instance-f1"), cohort)[0, 0]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["mean", "median"])
@pytest.mark.parametrize("over", ["references", "hits"])
def test_instance_iou_equals_the_twin(over: str, how: str, kind: str) -> None:
    for seed in range(3):
        cohort = cohort_of(kind, seed)
        references, predictions = things(cohort, MODEL)
        found = fates(references, predictions, "by-overlap", Rule(similarity, lambda s: s > 0))
        expected = []
        for label in labels_of(cohort):
            near = hit_similarities(references, predictions, found, similarity, label)
            counted = [
                r
                for r in references
                if found.reference[r.row] != "ignored" and label in (None, r.label)
            ]
            values = (
                list(near.values()) if over == "hits" else [near.get(r.row, 0.0) for r in counted]
            )
            expected.append(summary(values, how))
        metric = metric_of(
            "instance-iou", {"assignment": "by-overlap", "thresholds": 0.0}, over=over, summary=how
        )
        np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected, rtol=1e-13)


def test_instance_iou_by_hand() -> None:
    """Three references reach 1/2, 1/4 and nothing."""
    references = [
        {"boxes": [[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]], "labels": [0, 0, 0]}
    ]
    predictions = [
        {"boxes": [[0, 0, 10, 5], [20, 0, 25, 5]], "labels": [0, 0], "scores": [0.9, 0.8]}
    ]
    cohort = Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))
    at_all = {"assignment": "by-overlap", "thresholds": 0.0}
    for options, expected in (
        ({}, 0.25),
        ({"summary": "median"}, 0.25),
        ({"over": "hits"}, 0.375),
        ({"over": "hits", "summary": "median"}, 0.375),
    ):
        assert values_of(metric_of("instance-iou", at_all, **options), cohort)[0, 0] == expected
    assert values_of(metric_of("instance-iou", {"thresholds": 0.5}), cohort)[0, 0] == pytest.approx(
        1 / 6
    )


def test_a_prediction_beyond_the_limit_finds_nothing() -> None:
    references = [{"boxes": [[0, 0, 10, 10], [20, 0, 30, 10]], "labels": [0, 0]}]
    predictions = [
        {"boxes": [[0, 0, 10, 10], [20, 0, 30, 10]], "labels": [0, 0], "scores": [0.9, 0.8]}
    ]
    cohort = Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))
    for options, expected in (({}, 0.5), ({"summary": "median"}, 0.5), ({"over": "hits"}, 1.0)):
        assert values_of(metric_of("instance-iou", max_dets=1, **options), cohort)[0, 0] == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["mean", "median"])
def test_centre_distance_equals_the_twin(how: str, kind: str) -> None:
    for seed in range(3):
        cohort = cohort_of(kind, seed)
        references, predictions = things(cohort, MODEL)
        found = fates(references, predictions, "by-overlap", Rule(nearness, lambda s: s >= -20))
        expected = [
            summary(
                [
                    -s
                    for s in hit_similarities(
                        references, predictions, found, nearness, label
                    ).values()
                ],
                how,
            )
            for label in labels_of(cohort)
        ]
        matching = {"assignment": "by-overlap", "criterion": "centre-distance", "thresholds": 20.0}
        found_values = values_of(metric_of("centre-distance", matching, summary=how), cohort)[:, 0]
        np.testing.assert_allclose(found_values, expected, rtol=1e-12, atol=1e-12)


def test_centre_distance_by_hand_in_pixels_and_millimetres() -> None:
    """Centres that are (3, 4) pixels apart, at 2 mm by 1 mm, and one pair of equal boxes."""
    references = [
        {"boxes": [[0, 0, 10, 10], [50, 50, 60, 60]], "labels": [0, 0], "spacing": [2.0, 1.0]}
    ]
    predictions = [
        {"boxes": [[3, 4, 13, 14], [50, 50, 60, 60]], "labels": [0, 0], "scores": [0.9, 0.8]}
    ]
    cohort = Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))
    for criterion, apart in (("centre-distance", 5.0), ("centre-distance-mm", math.sqrt(52))):
        for how in ("mean", "median"):
            metric = metric_of("centre-distance", criterion=criterion, thresholds=10.0, summary=how)
            assert values_of(metric, cohort)[0, 0] == pytest.approx(apart / 2, rel=1e-15)


def test_without_a_hit_there_is_no_distance() -> None:
    cohort = four_samples().take(np.array([1, 2, 3]))
    metric = metric_of("centre-distance", criterion="centre-distance", thresholds=1.0)
    assert np.isnan(values_of(metric, cohort)).all()
    assert metric.reasons(evidence_of(metric, cohort)) == {
        (0, 0): "no_positives",
        (1, 0): "no_positives",
    }
    assert metric.facts.bounds == (0.0, math.inf)
    assert not metric.facts.higher_is_better


def test_the_interval_of_a_distance_lies_above_zero() -> None:
    from calipers.evaluation.evaluate import evaluate
    from calipers.evaluation.protocol import Protocol

    protocol = Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "t"\nsource = "t"\n[matching]\n'
        'criterion = "centre-distance"\n'
        'thresholds = 30\n[[metric]]\nname = "distance@30"\nkind = "centre-distance"\n'
        '[[metric]]\nname = "distance"\nkind = "centre-distance"\nsummary = "median"\n'
        "[statistics]\nreplicates = 300\n"
    )
    found = evaluate(random_cohort(60, 2, seed=1), protocol)
    for name in ("distance@30", "distance"):
        estimate = found[name]
        assert 0 < estimate.low < estimate.value < estimate.high
        assert estimate.method == "bootse-t-log"


@pytest.mark.parametrize(
    ("kind", "matching", "options", "told"),
    [
        ("instance-f1", {}, {"average": "classes"}, "no average"),
        ("instance-iou", {"thresholds": [0.1, 0.2]}, {}, "one threshold"),
        ("instance-iou", {"criterion": "any-overlap"}, {}, "an overlap"),
        ("instance-iou", {}, {"over": "predictions"}, "no over"),
        ("instance-iou", {}, {"summary": "mode"}, "no summary"),
        ("centre-distance", {}, {}, "a distance"),
    ],
)
def test_what_cannot_be_asked_for(
    kind: str, matching: dict[str, object], options: dict[str, object], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        metric_of(kind, matching, **options)
