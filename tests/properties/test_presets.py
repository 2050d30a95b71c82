"""What every preset must obey, whatever it computes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import calipers as cal
from calipers.data.objects import empty_predictions
from calipers.results.estimate import REASONS
from cases import KINDS, MODEL, cohort_of, masked, references_as_predictions
from kernel_routes import native_by_default
from preset_lists import BOX_PRESETS, MASK_PRESETS
from random_cohorts import random_cohort
from seeds import in_turn

# Whole evaluations are slow. That both routes give the same bits is held for every metric on every
# kind of cohort by `parity/test_routes.py`, and for presets of boxes, intervals included,
# by `statistics/test_estimates.py`; what holds on one route then holds on the other.
pytestmark = native_by_default

REPLICATES = 100  # rules that hold for any number of them

PRESETS = [*BOX_PRESETS, *MASK_PRESETS]
PERFECT = ("plain", "tied scores", "crowds", "ignored", "one class", "mostly empty", "volumes")
PLANS = list(product((4096, 3, 1), (1, 2, 3)))  # images in a block, workers
every_preset = pytest.mark.parametrize("preset", PRESETS)


def fitting(cohort: cal.Cohort, preset: str) -> cal.Cohort:
    """Return the cohort with masks if the preset needs them."""
    return masked(cohort) if preset in MASK_PRESETS else cohort


def evaluate(cohort: cal.Cohort, preset: str, **options: int) -> cal.Evaluation:
    protocol = replace(cal.Protocol.load(preset), replicates=REPLICATES)
    return cal.evaluate(cohort, protocol, **options)


def assert_sound(evaluation: cal.Evaluation) -> None:
    """Every undefined value has a reason, and the document is strict JSON."""
    for row in evaluation.rows:
        e = row.estimate
        assert e.reason in (None, *REASONS)
        assert (e.reason is None) == (not np.isnan(e.value) and not np.isnan(e.low)), (
            "a gap has a reason, nothing else has"
        )
        if np.isnan(row.estimate.value):
            assert row.estimate.reason != "not_requested"
    assert "NaN" not in evaluation.to_json()


@pytest.mark.parametrize(("preset", "kind"), in_turn(PRESETS, PERFECT, default=2))
def test_references_as_predictions_are_perfect(preset: str, kind: str) -> None:
    # One object per image: a box inside another one of its class has an iop of 1 with both (preset
    # chestxray8).
    options = {"n_classes": 3, **KINDS[kind], "objects": 1.0 if preset == "chestxray8" else 4.0}
    cohort = fitting(random_cohort(15, options.pop("n_classes"), seed=1, **options), preset)
    evaluation = evaluate(references_as_predictions(cohort), preset)
    for row in evaluation.rows:
        capped = row.metric in (
            "AR1",
            "AR10",
        )  # an image may hold more objects than predictions are looked at
        hollow = (
            "@point-in-mask" in row.metric
        )  # the centre of a mask that is not convex may lie outside of it
        if not np.isnan(row.estimate.value) and not capped and not hollow:
            best = 0.0 if row.metric.startswith(("FP/image", "dAP/", "errors/")) else 1.0
            assert row.estimate.value == pytest.approx(best, abs=1e-12), row.metric
    assert_sound(evaluation)


@pytest.mark.parametrize(("preset", "kind"), in_turn(PRESETS, KINDS, default=3))
def test_any_cohort_has_a_sound_evaluation(preset: str, kind: str) -> None:
    evaluation = evaluate(fitting(cohort_of(kind, seed=2, models=2), preset), preset)
    assert_sound(evaluation)
    assert len({(row.model, row.metric, row.label) for row in evaluation.rows}) == len(
        evaluation.rows
    )


@every_preset
def test_no_predictions_no_references_nothing(preset: str) -> None:
    cohort = fitting(random_cohort(6, 2, seed=3), preset)
    nobody = replace(
        cohort, references=cohort.references.keep(np.zeros(len(cohort.references), bool))
    )
    for trouble in (
        cohort.with_predictions(MODEL, empty_predictions(6)),
        nobody,
        nobody.with_predictions(MODEL, empty_predictions(6)),
    ):
        assert_sound(evaluate(trouble, preset))


@pytest.mark.parametrize(("preset", "plan"), in_turn(PRESETS, PLANS, default=1))
def test_workers_and_blocks_do_not_change_a_bit(
    preset: str, plan: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = fitting(cohort_of("crowds", seed=4, n_images=25, models=2), preset)
    expected = [row.as_dict() for row in evaluate(cohort, preset, jobs=1).rows]
    block, jobs = plan
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", block)
    assert [row.as_dict() for row in evaluate(cohort, preset, jobs=jobs).rows] == expected


@every_preset
def test_models_are_evaluated_independently(preset: str) -> None:
    cohort = fitting(cohort_of("plain", seed=5, models=2), preset)
    together = evaluate(cohort, preset)
    alone = evaluate(replace(cohort, models={"model-2": cohort.models["model-2"]}), preset)
    both = [row.as_dict() for row in together.rows if row.model == "model-2"]
    assert both == [row.as_dict() for row in alone.rows]
