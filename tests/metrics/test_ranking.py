"""Average precision and recall against the twins, and on a curve drawn by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.metrics.ranking import INTERPOLATIONS
from cases import KINDS, MODEL, cohort_of, evidence_of, metric_of, values_of
from kernel_routes import native_by_default
from random_cohorts import random_cohort
from reference import boxes
from reference.matching import Rule, fates
from reference.plain import things
from reference.ranking import average_precision, entries_of, mean_defined, positives
from seeds import batches

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default


def iou_rule(threshold: float, **options) -> Rule:
    def similarity(r, p):
        return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)

    return Rule(similarity, lambda s: s >= threshold, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", ["coco", "block"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("batch", batches(4, default=2))  # the twin takes nearly all of the time
def test_average_precision_equals_the_twin(
    interpolation: str, ties: str, kind: str, batch: range
) -> None:
    for seed in batch:
        cohort = cohort_of(kind, seed)
        thresholds = [0.2, 0.5, 0.8]
        metric = metric_of(
            "average-precision",
            {"ties": ties, "thresholds": thresholds},
            interpolation=interpolation,
        )
        references, predictions = things(cohort, MODEL)
        of_threshold = [fates(references, predictions, "by-score", iou_rule(t)) for t in thresholds]
        expected = [
            sum(
                average_precision(
                    entries_of(predictions, f, c), positives(references, f, c), interpolation, ties
                )
                for f in of_threshold
            )
            / len(thresholds)
            for c in range(len(cohort.classes))
        ]
        found = values_of(metric, cohort)[:, 0]
        np.testing.assert_allclose(found[1:], expected, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found[0], mean_defined(expected), rtol=1e-13)


@pytest.mark.parametrize("max_dets", [1, 2, 100])
@pytest.mark.parametrize("size", [[0, 1024], [1024, 9216], [0, 1e10]])
def test_size_ranges_and_limits_equal_the_twin(max_dets: int, size: list[float]) -> None:
    for kind, seed in itertools.product(("declared areas", "crowded images", "volumes"), range(4)):
        cohort = cohort_of(kind, seed)
        metric = metric_of(
            "average-precision",
            {"ties": "coco"},
            {"chosen": size},
            size="chosen",
            max_dets=max_dets,
        )
        references, predictions = things(cohort, MODEL)
        found = fates(
            references, predictions, "by-score", iou_rule(0.5, size=tuple(size), max_dets=max_dets)
        )
        recall = values_of(
            metric_of("average-recall", {}, {"chosen": size}, size="chosen", max_dets=max_dets),
            cohort,
        )
        for c, value in enumerate(values_of(metric, cohort)[1:, 0]):
            n = positives(references, found, c)
            entries = entries_of(predictions, found, c)
            assert value == pytest.approx(
                average_precision(entries, n, "coco101", "coco"), abs=1e-13, nan_ok=True
            )
            hits = sum(hit for _, hit in entries)
            assert recall[1 + c, 0] == pytest.approx(
                hits / n if n else np.nan, abs=1e-15, nan_ok=True
            )


def by_hand(scores: list[float], right: list[bool], n: int) -> Cohort:
    """One class, one image: prediction k is exactly on reference k, or far away."""
    references = [{"boxes": [[20 * k, 0, 20 * k + 10, 10] for k in range(n)], "labels": [0] * n}]
    places, free = [], iter(range(n))
    for k, hit in enumerate(right):
        low = 20 * next(free) if hit else 5000 + 20 * k
        places.append([low, 0, low + 10, 10])
    predictions = [{"boxes": places, "labels": [0] * len(places), "scores": scores}]
    return Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))


@pytest.mark.parametrize(
    ("interpolation", "expected"),
    [
        # Four references; hit, miss, hit, hit: precision 1, 2/3, 3/4 at recall .25, .5, .75;
        # envelope 1, .75, .75.
        ("coco101", (26 * 1 + 50 * 0.75) / 101),
        ("voc11", (3 * 1 + 5 * 0.75) / 11),
        ("every-point", 0.25 * 1 + 0.5 * 0.75),
        ("tie-aware", 0.25 * (1 + 2 / 3 + 3 / 4)),
    ],
)
def test_a_curve_by_hand(interpolation: str, expected: float) -> None:
    cohort = by_hand([0.9, 0.8, 0.7, 0.6], [True, False, True, True], 4)
    metric = metric_of("average-precision", {"ties": "coco"}, interpolation=interpolation)
    assert values_of(metric, cohort)[0, 0] == pytest.approx(expected, abs=1e-15)
    assert cal.average_precision(cohort, interpolation=interpolation) == pytest.approx(
        expected, abs=1e-15
    )


def test_equal_scores_are_one_point_or_stay_in_input_order() -> None:
    first, last = by_hand([0.5, 0.5], [True, False], 1), by_hand([0.5, 0.5], [False, True], 1)
    assert cal.average_precision(first) == pytest.approx(1.0)
    assert cal.average_precision(last) == pytest.approx(0.5)
    for cohort in (first, last):
        assert cal.average_precision(cohort, ties="block") == pytest.approx(0.5)
        assert cal.average_precision(cohort, interpolation="tie-aware") == pytest.approx(0.5)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_block_ties_do_not_depend_on_the_order_of_predictions(interpolation: str) -> None:
    cohort = cohort_of("tied scores", seed=6, n_images=20)
    metric = metric_of(
        "average-precision", {"ties": "block", "assignment": "optimal"}, interpolation=interpolation
    )
    expected = values_of(metric, cohort)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(cohort.n_images)
        np.testing.assert_allclose(values_of(metric, cohort.take(order)), expected, rtol=1e-13)


def test_precisions_are_the_interpolated_curve() -> None:
    cohort = by_hand([0.9, 0.8], [True, False], 2)
    metric = metric_of("average-precision", {"ties": "coco", "thresholds": [0.5, 0.6]})
    weights = np.ones((1, 1), np.int64)
    found = metric.precisions(evidence_of(metric, cohort), metric.outputs[0], weights)
    assert found.shape == (1, 2, 1, 101)
    assert found[0, 0, 0] == pytest.approx(np.where(np.linspace(0, 1, 101) <= 0.5, 1.0, 0.0))


def test_a_class_without_references_is_left_out_of_the_mean() -> None:
    cohort = by_hand([0.9], [True], 1)
    wider = Cohort.from_arrays(
        [{"boxes": [[0, 0, 10, 10]], "labels": [0]}],
        {
            MODEL: [
                {"boxes": [[0, 0, 10, 10], [0, 0, 10, 10]], "labels": [0, 1], "scores": [0.9, 0.8]}
            ]
        },
        classes=("a", "b", "c"),
    )
    assert cal.average_precision(cohort) == cal.average_precision(wider) == pytest.approx(1.0)
    assert np.isnan(values_of(metric_of("average-precision"), wider)[2:, 0]).all()


@pytest.mark.parametrize(
    ("interpolation", "rough"),
    [("coco101", True), ("voc11", True), ("every-point", False), ("tie-aware", False)],
)
def test_only_average_precision_at_fixed_recalls_is_rough(interpolation: str, rough: bool) -> None:
    facts = metric_of("average-precision", interpolation=interpolation).facts
    assert facts.rough == (frozenset(facts.names) if rough else frozenset())


def test_the_mean_over_sizes_is_that_of_the_single_sizes() -> None:
    """EndoCV's score: AP of all, small, medium and large polyps, averaged; what is absent is left
    out.
    """
    for seed in range(3):
        cohort = random_cohort(20, 1, seed=seed, models=1)
        cohort = replace(
            cohort, images=replace(cohort.images, size=np.tile([1920.0, 1080.0], (20, 1)))
        )
        ev = cal.evaluate(cohort, "endocv2022", ci=False)
        names = ("AP@0.5:0.95", "APs@0.5:0.95", "APm@0.5:0.95", "APl@0.5:0.95")
        values = [ev[name].value for name in names]
        defined = [value for value in values if value == value]
        assert ev["AP-mean@0.5:0.95"].value == pytest.approx(sum(defined) / len(defined))


@pytest.mark.parametrize("sizes", ['"small"', "[]"])
def test_sizes_of_a_mean_are_a_list(sizes: str) -> None:
    text = (
        'schema = "calipers.protocol/1"\nname = "x"\nsource = "x"\n[sizes]\nsmall = [0, 10]\n'
        f'[[metric]]\nname = "m"\nkind = "size-mean-average-precision"\nover_sizes = {sizes}'
    )
    with pytest.raises(cal.UsageError, match="over_sizes is a list"):
        cal.Protocol.from_toml(text)
    with pytest.raises(cal.InputError, match="unknown-size"):
        cal.Protocol.from_toml(text.replace(sizes, '["large"]'))
