"""The level of whole images, against the twin and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from cases import KINDS, MODEL, cohort_of, evidence_of, metric_of, values_of
from kernel_routes import native_by_default
from reference import boxes
from reference.instances import auroc
from reference.matching import Rule, fates
from reference.plain import Thing, things
from reference.ranking import average_precision, entries_of, mean_defined, positives

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

NOTHING: dict[str, list[object]] = {"boxes": []}


def similarity(r: Thing, p: Thing) -> float:
    return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)


def twin(cohort: Cohort, strategy: str = "by-score", **options) -> list[float]:
    references, predictions = things(cohort, MODEL)
    found = fates(
        references, predictions, strategy, Rule(similarity, lambda s: s >= 0.5, **options)
    )
    rows = []
    for label in (None, *range(len(cohort.classes))):
        scores: dict[bool, list[float]] = {True: [], False: []}
        for image in range(cohort.n_images):
            of_image = [p for p in predictions if p.image == image and label in (None, p.label)]
            real = [r for r in references if r.image == image and label in (None, r.label)]
            heard = [p.score for p in of_image if p.row in found.suspicious]
            there = any(found.reference[r.row] != "ignored" for r in real)
            scores[there].append(max(heard, default=-math.inf))
        rows.append(auroc(scores[True], scores[False]))
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_case_auroc_equals_the_twin(kind: str) -> None:
    for seed in range(4):
        cohort = cohort_of(kind, seed)
        found = values_of(metric_of("case-auroc"), cohort)[:, 0]
        np.testing.assert_allclose(found, twin(cohort, max_dets=100), rtol=1e-15)


def five_cases() -> Cohort:
    """Sick: .8 and nothing said; well: .8, .2 and nothing said."""
    box = [0, 0, 10, 10]

    def said(score: float) -> dict[str, list[object]]:
        return {"boxes": [box], "labels": [0], "scores": [score]}

    sick = {"boxes": [box], "labels": [0]}
    predictions = [said(0.8), NOTHING, said(0.8), said(0.2), NOTHING]
    return Cohort.from_arrays(
        [sick, sick, NOTHING, NOTHING, NOTHING], {MODEL: predictions}, classes=("a",)
    )


def test_five_cases_by_hand() -> None:
    """.8 against .8, .2 and silence: 2.5 of 3; silence against the same: .5 of 3."""
    assert values_of(metric_of("case-auroc"), five_cases())[0, 0] == 3 / 6


def test_a_silent_image_lies_below_all_scores_unless_it_counts_as_zero() -> None:
    box = [0, 0, 10, 10]
    sick, said = {"boxes": [box], "labels": [0]}, {"boxes": [box], "labels": [0], "scores": [0.0]}
    cohort = Cohort.from_arrays([sick, NOTHING], {MODEL: [said, NOTHING]}, classes=("a",))
    assert values_of(metric_of("case-auroc"), cohort)[0, 0] == 1.0
    assert values_of(metric_of("case-auroc", silent="zero"), cohort)[0, 0] == 0.5


def test_why_the_area_is_undefined() -> None:
    cohort, metric = five_cases(), metric_of("case-auroc")
    for images, reason in (([0, 1], "single_category"), ([2, 3], "no_references")):
        evidence = evidence_of(metric, cohort.take(np.array(images)))
        assert metric.reasons(evidence) == {(0, 0): reason, (1, 0): reason}


def test_an_ignored_reference_makes_no_image_positive() -> None:
    box = [0, 0, 10, 10]
    found = {"boxes": [box], "labels": [0], "scores": [0.9]}
    unsure = {"boxes": [box], "labels": [0], "ignore": [True]}
    sick = {"boxes": [box], "labels": [0], "ignore": [False]}
    cohort = Cohort.from_arrays(
        [unsure, sick], {MODEL: [found, {**found, "scores": [0.3]}]}, classes=("a",)
    )
    assert values_of(metric_of("case-auroc"), cohort)[0, 0] == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_picai_score_is_the_mean_of_both(kind: str) -> None:
    cohort = cohort_of(kind, seed=2)
    references, predictions = things(cohort, MODEL)
    rule = Rule(similarity, lambda s: s >= 0.5, duplicates="forgiven")
    found = fates(references, predictions, "by-overlap", rule)
    precision = [
        average_precision(
            entries_of(predictions, found, c), positives(references, found, c), "tie-aware", "block"
        )
        for c in range(len(cohort.classes))
    ]
    area = twin(cohort, "by-overlap", duplicates="forgiven")
    expected = [(a + b) / 2 for a, b in zip(area, [mean_defined(precision), *precision])]
    metric = metric_of("picai-score", {"assignment": "by-overlap", "duplicates": "forgiven"})
    np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected, rtol=1e-14)


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(UsageError, match="no silent"):
        metric_of("case-auroc", silent="one")
    with pytest.raises(UsageError, match="no option 'interpolation'"):
        metric_of("case-auroc", interpolation="coco101")
    with pytest.raises(UsageError, match="no interpolation"):
        metric_of("picai-score", interpolation="every")
