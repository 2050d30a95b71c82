"""Counts and what is made of them, against the twin and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from cases import KINDS, MODEL, cohort_of, metric_of, values_of
from kernel_routes import native_by_default
from reference import boxes
from reference.matching import Rule, fates
from reference.plain import things
from reference.ranking import counts, mean_defined

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default


def twin_counts(cohort: Cohort, strategy: str, threshold: float, **options) -> np.ndarray:
    def similarity(r, p):
        return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)

    references, predictions = things(cohort, MODEL)
    found = fates(
        references, predictions, strategy, Rule(similarity, lambda s: s >= threshold, **options)
    )
    n = cohort.n_images
    return np.array(
        [counts(references, predictions, found, n, c) for c in range(len(cohort.classes))], float
    )


def over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else np.nan


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["by-score", "by-overlap", "many-to-one"])
def test_counts_equal_the_twin(strategy: str, kind: str) -> None:
    for seed in range(4):
        cohort = cohort_of(kind, seed)
        expected = twin_counts(cohort, strategy, 0.4)
        for k, name in enumerate(("TP", "FP", "FN", "TN")):
            metric = metric_of("count", {"assignment": strategy, "thresholds": 0.4}, of=name)
            found = values_of(metric, cohort)[:, 0]
            assert found[1:].tolist() == expected[:, k].tolist()
            assert found[0] == expected[:, k].sum()


FORMULAS = {
    "sensitivity": lambda tp, fp, fn, tn: over(tp, tp + fn),
    "ppv": lambda tp, fp, fn, tn: over(tp, tp + fp),
    "f-beta": lambda tp, fp, fn, tn: over(2 * tp, 2 * tp + fp + fn),
    "accuracy": lambda tp, fp, fn, tn: over(tp + tn, tp + tn + fp + fn),
}


@pytest.mark.parametrize("average", ["pooled", "classes"])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_equal_the_twin(name: str, average: str) -> None:
    for kind in KINDS:
        cohort = cohort_of(kind, seed=7)
        table = twin_counts(cohort, "by-score", 0.5, max_dets=100)
        expected = [FORMULAS[name](*row) for row in table]
        pooled = (
            FORMULAS[name](*table.sum(axis=0)) if average == "pooled" else mean_defined(expected)
        )
        found = values_of(metric_of(name, average=average), cohort)[:, 0]
        np.testing.assert_allclose(found, [pooled, *expected], rtol=1e-14)


@pytest.mark.parametrize("name", ["sensitivity", "ppv", "f-beta"])
def test_pooled_unless_asked_and_accuracy_as_class_mean(name: str) -> None:
    cohort = cohort_of("many classes", seed=1)
    np.testing.assert_array_equal(
        values_of(metric_of(name), cohort), values_of(metric_of(name, average="pooled"), cohort)
    )
    np.testing.assert_array_equal(
        values_of(metric_of("accuracy"), cohort),
        values_of(metric_of("accuracy", average="classes"), cohort),
    )


@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_f_beta(beta: float) -> None:
    cohort = cohort_of("plain", seed=2)
    tp, fp, fn, _ = twin_counts(cohort, "by-score", 0.5).sum(axis=0)
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    expected = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
    assert values_of(metric_of("f-beta", beta=beta), cohort)[0, 0] == pytest.approx(
        expected, rel=1e-14
    )


def test_score_cut_removes_predictions() -> None:
    cohort = cohort_of("plain", seed=2)
    expected = twin_counts(cohort, "by-score", 0.5, score_cut=0.6)[:, 1].sum()
    assert values_of(metric_of("count", {"score_cut": 0.6}, of="FP"), cohort)[0, 0] == expected


def test_several_thresholds_are_averaged() -> None:
    cohort = cohort_of("plain", seed=2)
    each = [values_of(metric_of("sensitivity", {"thresholds": t}), cohort) for t in (0.3, 0.6)]
    both = values_of(metric_of("sensitivity", {"thresholds": [0.3, 0.6]}), cohort)
    np.testing.assert_allclose(both, np.mean(each, axis=0), rtol=1e-15)


def tiny() -> Cohort:
    """Two classes, three images: a hit and a false alarm of a; b missed; nothing."""
    references = [
        {"boxes": [[0, 0, 10, 10]], "labels": [0]},
        {"boxes": [[0, 0, 10, 10]], "labels": [1]},
        {"boxes": []},
    ]
    predictions = [
        {"boxes": [[0, 0, 10, 10], [50, 50, 60, 60]], "labels": [0, 0], "scores": [0.9, 0.8]},
        {"boxes": []},
        {"boxes": []},
    ]
    return Cohort.from_arrays(references, {MODEL: predictions}, classes=("a", "b"))


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("sensitivity", {}, [0.5, 1.0, 0.0]),
        ("ppv", {}, [0.5, 0.5, np.nan]),
        ("f-beta", {}, [2 / 4, 2 / 3, 0.0]),
        ("f-beta", {"beta": 2}, [5 / 10, 5 / 6, 0.0]),
        ("accuracy", {}, [(3 / 4 + 2 / 3) / 2, 3 / 4, 2 / 3]),
        ("false-alarms", {}, [1 / 3, 1 / 3, 0.0]),
        ("count", {"of": "TN"}, [4, 2, 2]),
    ],
)
def test_three_images_by_hand(name: str, options: dict, expected: list[float]) -> None:
    np.testing.assert_allclose(
        values_of(metric_of(name, **options), tiny())[:, 0], expected, rtol=1e-15
    )


def test_blocks_of_cells_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = cohort_of("many classes", seed=3, n_images=25)
    metric = metric_of("accuracy")
    expected = values_of(metric, cohort)
    monkeypatch.setattr("calipers.metrics.counts.CELLS_AT_ONCE", 20)
    np.testing.assert_array_equal(values_of(metric, cohort), expected)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("f-beta", {"beta": 0}),
        ("f-beta", {"beta": -1}),
        ("f-beta", {"beta": "two"}),
        ("count", {}),
        ("count", {"of": "XP"}),
        ("sensitivity", {"average": "weighted"}),
        ("ppv", {"beta": 1}),
    ],
)
def test_impossible_options_are_refused(kind: str, options: dict) -> None:
    with pytest.raises(UsageError, match="'m'"):
        metric_of(kind, **options)
