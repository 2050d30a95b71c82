"""RoDeO against the authors' stored values, their code, scikit-learn and the numbers of the
specification.
"""

from __future__ import annotations

import csv
import json
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

import calipers as cal
from cases import DATA
from kernel_routes import native_by_default
from random_cohorts import random_cohort

# The peer takes most of the time, and `test_routes.py` holds every metric to the same bits on both
# routes.
pytestmark = native_by_default

PARTS = {
    "localization": "localization",
    "shape": "shape_matching",
    "classification": "classification",
    "total": "total",
}
GOLDEN = DATA / "rodeo_golden" / "cases.json"
CHEST = DATA / "chestxray8" / "BBox_List_2017.csv"


def cohort_of(references: list[Any], predictions: list[Any], n_classes: int) -> cal.Cohort:
    def record(rows: Any) -> dict[str, Any]:
        table = np.array(rows, float).reshape(-1, 5)
        return {"boxes": table[:, :4], "labels": table[:, 4].astype(int)}

    said = [{**record(rows), "scores": np.ones(len(rows))} for rows in predictions]
    names = [f"c{k}" for k in range(n_classes)]
    return cal.Cohort.from_arrays(
        [record(rows) for rows in references], said, classes=names, box_format="xywh"
    )


def golden_cases() -> list[dict[str, Any]]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else []


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the shared data (CALIPERS_DATA)")
def test_all_golden_cases_are_there() -> None:
    assert len(golden_cases()) == 12


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: f"seed {case['seed']}")
def test_golden_values_pooled_and_per_class(case: dict[str, Any]) -> None:
    cohort = cohort_of(case["references"], case["predictions"], case["classes"])
    ours, with_epsilon = cal.rodeo(cohort), cal.rodeo(cohort, epsilon=1e-6)
    results = [(None, ours, with_epsilon)]
    results += [
        (name, ours.per_class[name], with_epsilon.per_class[name]) for name in cohort.classes
    ]
    if (
        case["expected_per_class"] is None
    ):  # their code raises when a class has no reference; SPEC 4.8
        assert any(result.total == 0 or np.isnan(result.total) for _, result, _ in results[1:])
        results = []
    for name, plain, compatible in results:
        prefix = "RoDeO/" if name is None else f"RoDeO/{name}/"
        for part, theirs in PARTS.items():
            expected = case["expected_per_class"][prefix + theirs]
            tolerance = 1e-5 if part == "total" else 1e-9
            assert getattr(plain, part) == pytest.approx(expected, abs=tolerance)
            assert getattr(compatible, part) == pytest.approx(expected, abs=1e-9)
    for part, theirs in PARTS.items():
        assert getattr(with_epsilon, part) == pytest.approx(case["expected"][theirs], abs=1e-9)


def boxes_of(objects: Any, n_images: int) -> list[np.ndarray]:
    """Return x y w h class per image, as the authors' code wants it."""
    low, high = np.split(objects.boxes, 2, axis=1)
    table = np.concatenate([low, high - low, objects.label[:, None]], axis=1)
    return [table[objects.image == image] for image in range(n_images)]


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch) -> Any:
    import rodeo.rodeo

    # Their release calls `.clip` on what is a Python float in recent scikit-learn.
    monkeypatch.setattr(
        rodeo.rodeo, "matthews_corrcoef", lambda a, b: np.float64(matthews_corrcoef(a, b))
    )
    return rodeo.RoDeO


@pytest.mark.parametrize(
    "options", [{}, {"grid": 16.0}, {"empty_share": 0.5, "objects": 2.0}, {"objects": 8.0}]
)
def test_the_authors_code_on_random_data(authors: Any, options: dict[str, Any]) -> None:
    for seed in range(25):
        cohort = random_cohort(20, 3, seed=seed, **options)
        peer = authors(class_names=list(cohort.classes), return_per_class=True)
        n = cohort.n_images
        peer.add(boxes_of(cohort.predictions("model-1"), n), boxes_of(cohort.references, n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a class without a box is 0/0 in their code
            theirs = peer.compute()
        ours = cal.rodeo(cohort, epsilon=1e-6)
        for part, name in PARTS.items():
            assert getattr(ours, part) == pytest.approx(theirs[f"RoDeO/{name}"], abs=1e-9)
            for label in cohort.classes:
                expected = theirs[f"RoDeO/{label}/{name}"]
                if not np.isnan(expected):
                    assert getattr(ours.per_class[label], part) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("penalties", [(2.0, 1.0, 1.0), (1.0, 3.0, 0.5)])
@pytest.mark.parametrize("weight", [None, 0.0, 0.7])
def test_the_authors_options(
    authors: Any, penalties: tuple[float, ...], weight: float | None
) -> None:
    matched, missed, extra = penalties
    cohort = random_cohort(30, 4, seed=1)
    peer = authors(
        class_names=list(cohort.classes),
        w_matched=matched,
        w_missed=missed,
        w_overpred=extra,
        class_weight_matching=weight,
    )
    peer.add(boxes_of(cohort.predictions("model-1"), 30), boxes_of(cohort.references, 30))
    theirs = peer.compute()
    options = {} if weight is None else {"class_weight": weight}
    weights = {"weight_matched": matched, "weight_missed": missed, "weight_extra": extra}
    ours = cal.rodeo(cohort, epsilon=1e-6, **weights, **options)
    for part, name in PARTS.items():
        assert getattr(ours, part) == pytest.approx(theirs[f"RoDeO/{name}"], abs=1e-9)


def test_the_vector_of_the_specification() -> None:
    predictions = [[0.1, 0.1, 0.2, 0.1, 0], [0, 0.3, 0.1, 0.1, 1], [0.2, 0.2, 0.1, 0.1, 0]]
    references = [[0, 0, 0.1, 0.1, 0], [0, 0.2, 0.1, 0.1, 1]]
    found = cal.rodeo(cohort_of([references], [predictions], 2))
    assert found.localization == pytest.approx(0.20170401730223822, abs=1e-15)
    assert found.shape == pytest.approx(0.5, abs=1e-15)
    assert found.classification == pytest.approx(2 / 3, abs=1e-15)
    assert found.total == pytest.approx(0.3547, abs=5e-5)


def chest_cohort() -> cal.Cohort:
    with CHEST.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    classes = sorted({row[1] for row in rows})
    images: dict[str, list[list[float]]] = {}
    for name, label, *box in (row[:6] for row in rows):
        images.setdefault(name, []).append([*map(float, box), classes.index(label)])
    assert (len(rows), len(images), len(classes)) == (984, 880, 8)
    return cohort_of(list(images.values()), [[]] * len(images), len(classes))


@pytest.mark.skipif(not CHEST.exists(), reason="needs the shared data (CALIPERS_DATA)")
def test_accuracy_on_chestxray8_without_any_prediction() -> None:
    evaluation = cal.evaluate(chest_cohort(), "chestxray8", ci=False)
    for metric in evaluation.metrics:
        if metric.startswith("accuracy"):
            assert evaluation[metric].value == pytest.approx(0.8602272727, abs=5e-11)
        else:
            assert evaluation[metric].value == 0.0


def pair_cohort(real: np.ndarray, said: np.ndarray, n_classes: int) -> cal.Cohort:
    """One image per pair, both boxes in one place: the matching is certain."""
    references = [[[0, 0, 10, 10, label]] for label in real]
    return cohort_of(references, [[[0, 0, 10, 10, label]] for label in said], n_classes)


@pytest.mark.parametrize("n_classes", [2, 3, 8])
def test_classification_equals_scikit_learn_in_both_forms(n_classes: int) -> None:
    for seed in range(20):
        random = np.random.default_rng([seed, n_classes])
        real = random.integers(0, n_classes, 30)
        said = np.where(random.random(30) < 0.7, real, random.integers(0, n_classes, 30))
        cohort = pair_cohort(real, said, n_classes)
        hot = np.eye(n_classes, dtype=int)
        one_hot = matthews_corrcoef(hot[real].ravel(), hot[said].ravel())
        assert cal.rodeo(cohort).classification == pytest.approx(max(0, one_hot), abs=1e-12)
        gorodkin = matthews_corrcoef(real, said)
        assert cal.rodeo(cohort, multiclass=True).classification == pytest.approx(
            max(0, gorodkin), abs=1e-12
        )


def test_a_constant_prediction_on_uneven_data() -> None:
    real = np.array([0] * 95 + [1] * 5)
    cohort = pair_cohort(real, np.zeros(100, int), 2)
    assert cal.rodeo(cohort).classification == pytest.approx(0.9)
    assert cal.rodeo(cohort, multiclass=True).classification == 0.0
