"""Panoptic quality against the twin and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from cases import KINDS, MODEL, cohort_of, evidence_of, metric_of, values_of
from kernel_routes import native_by_default
from reference import boxes
from reference.instances import hit_similarities, panoptic, tallies
from reference.matching import Rule, fates
from reference.plain import Thing, things
from reference.ranking import mean_defined

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

PARTS = ("PQ", "SQ", "RQ")


def similarity(r: Thing, p: Thing) -> float:
    return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)


def twin(cohort: Cohort, strategy: str, threshold: float, **options) -> np.ndarray:
    """Return (1 + n_classes, 3)."""
    references, predictions = things(cohort, MODEL)
    found = fates(
        references, predictions, strategy, Rule(similarity, lambda s: s >= threshold, **options)
    )
    rows = []
    for label in (None, *range(len(cohort.classes))):
        near = hit_similarities(references, predictions, found, similarity, label)
        rows.append(panoptic(*tallies(references, predictions, found, label), list(near.values())))
    return np.array(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "strategy", ["by-score", "by-overlap", "many-to-one", "per-reference-argmax"]
)
def test_the_three_parts_equal_the_twin(strategy: str, kind: str) -> None:
    for seed in range(3):
        cohort = cohort_of(kind, seed)
        expected = twin(cohort, strategy, 0.3, max_dets=100)
        for k, part in enumerate(PARTS):
            metric = metric_of(
                "panoptic-quality", {"assignment": strategy, "thresholds": 0.3}, part=part
            )
            np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected[:, k], rtol=1e-13)


@pytest.mark.parametrize("part", PARTS)
def test_the_mean_over_classes_leaves_out_undefined_ones(part: str) -> None:
    for kind in KINDS:
        cohort = cohort_of(kind, seed=4)
        classes = twin(cohort, "by-score", 0.5)[1:, PARTS.index(part)]
        found = values_of(metric_of("panoptic-quality", part=part, average="classes"), cohort)[:, 0]
        np.testing.assert_allclose(found, [mean_defined(classes), *classes], rtol=1e-13)


def three_images() -> Cohort:
    """Overlaps of 2/3 and 1 with two of three references, a false alarm,
    and an image without objects.
    """
    references = [
        {"boxes": [[0, 0, 10, 5], [20, 0, 30, 10]], "labels": [0, 0]},
        {"boxes": [[0, 0, 5, 5]], "labels": [1]},
    ]
    predictions = [
        {
            "boxes": [[0, 0, 15, 5], [20, 0, 30, 10], [50, 50, 60, 60]],
            "labels": [0, 0, 0],
            "scores": [0.9, 0.8, 0.7],
        },
        {"boxes": []},
    ]
    empty: dict[str, list[object]] = {"boxes": []}
    return Cohort.from_arrays(
        [*references, empty], {MODEL: [*predictions, empty]}, classes=("a", "b", "c")
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    # pooled: 2 hits, 1 false alarm, 1 missed; class a: 2 hits, 1 false alarm; class b: 1 missed;
    # class c: nothing
    [
        ("PQ", [(5 / 3) / 3, (5 / 3) / 2.5, 0.0, math.nan]),
        ("SQ", [5 / 6, 5 / 6, math.nan, math.nan]),
        ("RQ", [2 / 3, 2 / 2.5, 0.0, math.nan]),
    ],
)
def test_three_images_by_hand(part: str, expected: list[float]) -> None:
    found = values_of(metric_of("panoptic-quality", part=part), three_images())[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_why_a_quality_is_undefined() -> None:
    cohort = three_images()
    for part, expected in (
        ("PQ", {(3, 0): "no_objects"}),
        ("SQ", {(2, 0): "no_predictions", (3, 0): "no_objects"}),
    ):
        metric = metric_of("panoptic-quality", part=part)
        assert metric.reasons(evidence_of(metric, cohort)) == expected
    strict = metric_of("panoptic-quality", {"thresholds": 1.0, "strict": True}, part="SQ")
    assert strict.reasons(evidence_of(strict, cohort))[0, 0] == "no_positives"


def test_panoptic_quality_is_the_product_of_its_parts_and_recognition_is_f1() -> None:
    for kind in KINDS:
        cohort = cohort_of(kind, seed=5)
        whole, near, found = (
            values_of(metric_of("panoptic-quality", part=part), cohort)[:, 0] for part in PARTS
        )
        product = np.where(found == 0, 0.0, near * found)
        np.testing.assert_allclose(whole, product, rtol=1e-14)
        np.testing.assert_allclose(found, values_of(metric_of("f-beta"), cohort)[:, 0], rtol=1e-15)


def test_every_threshold_has_partners_of_its_own() -> None:
    """At 0.1 the better score takes the reference that the better box takes at 0.6:
    similarities are not shared.
    """
    references = [{"boxes": [[0, 0, 10, 10]], "labels": [0]}]
    predictions = [
        {"boxes": [[0, 0, 10, 5], [0, 0, 10, 9]], "labels": [0, 0], "scores": [0.9, 0.5]}
    ]
    cohort = Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))
    protocol = Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "t"\nsource = "t"\n[matching]\n'
        "thresholds = [0.1, 0.6]\n"
        '[[metric]]\nname = "sensitivity"\nkind = "sensitivity"\n'
        '[[metric]]\nname = "SQ@0.1"\nkind = "panoptic-quality"\npart = "SQ"\nthresholds = 0.1\n'
        '[[metric]]\nname = "SQ@0.6"\nkind = "panoptic-quality"\npart = "SQ"\nthresholds = 0.6\n'
        '[[metric]]\nname = "PQ@0.6"\nkind = "panoptic-quality"\nthresholds = 0.6\n'
    )
    found = evaluate(cohort, protocol, ci=False)
    assert found["SQ@0.1"].value == 0.5
    assert found["SQ@0.6"].value == 0.9
    assert found["PQ@0.6"].value == pytest.approx(0.9 / 1.5)
    assert found["sensitivity"].value == 1.0
    assert len(protocol.compile()) == 3  # SQ and PQ at 0.6 share their pairs


@pytest.mark.parametrize(
    ("matching", "options", "told"),
    [
        ({"thresholds": [0.3, 0.5]}, {}, "one threshold"),
        ({"criterion": "point-in-box"}, {}, "an overlap"),
        ({"criterion": "giou"}, {}, "an overlap"),
        ({"criterion": "centre-distance"}, {}, "an overlap"),
        ({}, {"part": "QQ"}, "no part"),
        ({}, {"average": "sample"}, "no average"),
    ],
)
def test_what_cannot_be_asked_for(
    matching: dict[str, object], options: dict[str, object], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        metric_of("panoptic-quality", matching, **options)
