"""Blocks of images: fixed by the data, joined in order, the same on any executor."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields, replace
from time import sleep
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.collect import collect, spans
from calipers.matching.matches import Pairs
from cases import MODEL, cohort_of, metric_of

pytestmark = pytest.mark.usefixtures("kernel_route")

JOBS = {kind: (MODEL, metric_of(kind).recipe) for kind in ("average-precision", "rodeo")}


def columns_of(evidence: Any) -> dict[str, Any]:
    found = {f.name: getattr(evidence, f.name) for f in fields(evidence)}
    for name, value in list(found.items()):
        if isinstance(value, Pairs):
            found |= {f"{name}.{f.name}": getattr(value, f.name) for f in fields(Pairs)}
            del found[name]
    return found


def assert_equal_bits(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for key in expected:
        for name, column in columns_of(expected[key]).items():
            np.testing.assert_array_equal(
                columns_of(found[key])[name], column, err_msg=f"{key}: {name}"
            )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9, 10])
def test_spans_cover_every_image_once(n: int) -> None:
    found = spans(n, 3)
    assert [i for start, stop in found for i in range(start, stop)] == list(range(n))
    assert all(stop - start <= 3 for start, stop in found)
    assert len(found) == max(1, -(-n // 3))


@pytest.mark.parametrize("block", [1, 3, 7, 100])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_evidence_has_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, workers: int, block: int
) -> None:
    cohort = cohort_of("crowds", seed=1, n_images=20)
    expected = collect(cohort, JOBS)
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", block)
    assert_equal_bits(collect(cohort, JOBS, workers=workers), expected)


def test_a_group_without_predictions_has_no_fates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under many views, evidence of several blocks holds every distinct row of fates once."""
    cohort = cohort_of("plain", seed=1, n_images=20)
    images = np.repeat(np.arange(20), np.diff(cohort.models[MODEL].offsets))
    cohort = cohort.with_predictions(MODEL, cohort.models[MODEL].keep(images >= 5))
    groups = {"centre": np.array(["silent"] * 5 + ["other"] * 15)}
    cohort = replace(cohort, images=replace(cohort.images, groups=groups))
    expected = cal.evaluate(cohort, "coco", ci=False, by=("centre",)).to_frame()
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 3)
    found = cal.evaluate(cohort, "coco", ci=False, by=("centre",)).to_frame()
    assert found.equals(expected)


def test_any_executor_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = cohort_of("volumes", seed=1)
    expected = collect(cohort, JOBS)
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 5)
    with ThreadPoolExecutor(2) as threads:
        assert_equal_bits(collect(cohort, JOBS, executor=threads), expected)
    with ProcessPoolExecutor(2) as processes:
        assert_equal_bits(collect(cohort, JOBS, executor=processes), expected)


def test_progress_counts_every_block_of_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 5)
    told: list[tuple[int, int]] = []
    collect(
        cohort_of("plain", seed=1), JOBS, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(k, 6) for k in range(1, 7)]


def test_no_images_are_one_empty_block() -> None:
    found = collect(cohort_of("plain", seed=1).take([]), JOBS)
    assert [evidence.n_images for evidence in found.values()] == [0, 0]


def test_an_error_in_a_block_is_not_swallowed() -> None:
    job = {
        "distance": (MODEL, metric_of("sensitivity", {"criterion": "centre-distance-mm"}).recipe)
    }
    with pytest.raises(ValueError, match="spacing"):
        collect(cohort_of("plain", seed=1), job, workers=2)


def test_after_an_error_the_blocks_that_wait_are_not_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 1)
    begun = []

    class Failing:
        key = ("failing",)

        def merge(self, other: Failing) -> Failing:
            return self

        def collect(self, cohort: Any, model: str) -> Any:
            begun.append(cohort)
            sleep(0.01)
            raise RuntimeError("a block that fails")

    cohort = cohort_of("plain", seed=1)
    with pytest.raises(RuntimeError, match="fails"):
        collect(cohort, {k: (MODEL, Failing()) for k in range(10)}, workers=2)
    assert len(begun) < 20
