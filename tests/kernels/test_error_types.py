"""The kinds of mistakes, against looking at one prediction after the other."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.kernels import error_types as kernel
from calipers.metrics.error_types import ErrorRecipe
from cases import KINDS, MODEL, cohort_of
from reference import boxes
from reference.error_types import told
from reference.plain import Thing, things

pytestmark = pytest.mark.usefixtures("kernel_route")

WORDS = {
    kernel.ABSENT: "absent",
    kernel.RIGHT: "right",
    kernel.CLS: "cls",
    kernel.LOC: "loc",
    kernel.BOTH: "both",
    kernel.DUP: "dup",
    kernel.BKG: "bkg",
    kernel.MISS: "miss",
    kernel.MENDABLE: "mendable",
}


def similarity(r: Thing, p: Thing) -> float:
    return (boxes.iop if r.ignore else boxes.iou)(r.box, p.box)


def assert_equals_the_twin(cohort: Cohort, **limits: float) -> None:
    found = ErrorRecipe(**limits).collect(cohort, MODEL)
    expected = told(*things(cohort, MODEL), similarity, **limits)
    assert [WORDS[code] for code in found.prediction_kind.tolist()] == [
        expected.prediction[k] for k in range(len(found.score))
    ]
    assert [WORDS[code] for code in found.reference_kind.tolist()] == [
        expected.reference[k] for k in range(len(found.reference_kind))
    ]
    assert set(np.flatnonzero(found.mended).tolist()) == expected.mended
    assert set(np.flatnonzero(found.covered).tolist()) == expected.covered
    assert {k: r for k, r in enumerate(found.partner.tolist()) if r >= 0} == expected.partner
    assert (np.isnan(found.similarity) == (found.partner < 0)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_those_of_the_twin(kind: str) -> None:
    for seed in range(6):
        assert_equals_the_twin(cohort_of(kind, seed))


@pytest.mark.parametrize("kind", ["crowded images", "crowds", "grid and ties"])
def test_other_limits_are_those_of_the_twin(kind: str) -> None:
    for seed in range(4):
        assert_equals_the_twin(cohort_of(kind, seed), background=0.3, foreground=0.7, max_dets=3)


def test_more_images_than_one_task_holds() -> None:
    assert_equals_the_twin(cohort_of("plain", seed=3, n_images=1100))


def test_every_kind_occurs() -> None:
    seen = set()
    for seed in range(6):
        found = ErrorRecipe(max_dets=8).collect(cohort_of("crowded images", seed), MODEL)
        seen |= {
            WORDS[code]
            for code in (*found.prediction_kind.tolist(), *found.reference_kind.tolist())
        }
    assert seen == set(WORDS.values())
