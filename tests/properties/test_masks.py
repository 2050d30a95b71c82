"""Every metric and every assignment on masks: what metrics must obey does not depend on the shape
of objects.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from calipers import registry
from calipers.data.cohort import Cohort
from cases import (
    MODEL,
    NEED_MASKS,
    cohort_of,
    evidence_of,
    masked,
    references_as_predictions,
    values_of,
)
from properties.suite import CASES, Case

KINDS = ("crowds", "ignored", "volumes")
CRITERIA = [*NEED_MASKS, "any-overlap"]
OTHERS = (
    "rodeo",
    "centre-distance",
)  # they compare boxes or places, and take no criterion for masks
COUNTED = [case for case in CASES if case.kind not in OTHERS]


@cache
def cohort(kind: str) -> Cohort:
    return masked(cohort_of(kind, seed=31), cell=32.0 if kind == "volumes" else 10.0)


def on(criterion: str, case: Case, **matching: str) -> Case:
    """Return the case with another criterion, of the protocol or of the metric itself."""
    options = {
        name: value
        for name, value in case.options.items()
        if name not in ("criterion", "thresholds")
    }
    return replace(
        case, options=options, matching={**case.matching, **matching, "criterion": criterion}
    )


@pytest.mark.parametrize("case", COUNTED, ids=str)
def test_every_metric_runs_on_masks(case: Case) -> None:
    """Weights are duplication, and parts join to the whole."""
    for criterion in CRITERIA if case is COUNTED[0] else ("mask-iou",):
        metric = on(criterion, case).metric()
        for kind in KINDS:
            whole = cohort(kind)
            weights = np.random.default_rng(32).integers(0, 4, whole.n_images)
            again = whole.take(np.repeat(np.arange(whole.n_images), weights))
            expected = values_of(metric, again)
            np.testing.assert_allclose(
                values_of(metric, whole, weights), expected, rtol=0, atol=3e-16
            )
            evidence = evidence_of(metric, whole)
            parts = [evidence_of(metric, whole.span(a, b)) for a, b in ((0, 5), (5, 5), (5, 12))]
            np.testing.assert_array_equal(
                metric.value(type(evidence).concat(parts), weights[None]),
                metric.value(evidence, weights[None]),
            )


@pytest.mark.parametrize("assignment", registry.ASSIGNMENTS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_assignment_runs_on_every_criterion_for_masks(
    criterion: str, assignment: str
) -> None:
    metric = on(criterion, Case("f-beta"), assignment=assignment).metric()
    for kind in KINDS:
        value = values_of(metric, cohort(kind))[0, 0]
        assert 0 < value < 1


@pytest.mark.parametrize("criterion", ["mask-iou", "dice", "hull-iou", "boundary-iou"])
def test_references_as_predictions_are_perfect(criterion: str) -> None:
    for case in COUNTED:
        # Small discs may be equal, and several predictions may then hit one of them.
        if np.isnan(case.perfect) or case.matching.get("assignment") == "many-to-one":
            continue
        metric = on(criterion, case).metric()
        for kind in KINDS:
            found = values_of(metric, references_as_predictions(cohort(kind)))
            np.testing.assert_allclose(
                found[~np.isnan(found)], case.perfect, atol=1e-12, err_msg=f"{case} {kind}"
            )


def test_predicted_boxes_take_part_in_every_criterion() -> None:
    for kind in KINDS:
        whole = cohort(kind)
        boxed = replace(whole, models={MODEL: replace(whole.predictions(MODEL), masks=None)})
        for criterion in CRITERIA:
            metric = on(criterion, Case("sensitivity"), thresholds=0.2).metric()
            assert 0 < values_of(metric, boxed)[0, 0] < 1


def test_rodeo_looks_at_the_boxes_of_masks() -> None:
    for kind in KINDS:
        whole = cohort(kind)
        bare = replace(
            whole,
            references=replace(whole.references, masks=None),
            models={MODEL: replace(whole.predictions(MODEL), masks=None)},
        )
        metric = Case("rodeo").metric()
        np.testing.assert_array_equal(values_of(metric, whole), values_of(metric, bare))
        assert 0 < values_of(metric, whole)[0, 0] < 1
