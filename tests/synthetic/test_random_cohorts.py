from __future__ import annotations

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.data.rules import Delivery, examine
from calipers.errors import UsageError
from random_cohorts import random_cohort


def _boxes(cohort: Cohort) -> list[np.ndarray]:
    return [cohort.references.boxes, *(predictions.boxes for predictions in cohort.models.values())]


def test_the_same_seed_gives_the_same_cohort() -> None:
    first, second = random_cohort(40, 3, seed=7, models=2), random_cohort(40, 3, seed=7, models=2)
    for a, b in zip(_boxes(first), _boxes(second)):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(random_cohort(40, 3, seed=8).references.boxes, first.references.boxes)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("grid", [None, 1.0, 7.0])
def test_boxes_keep_every_rule(dimensions: int, grid: float | None) -> None:
    cohort = random_cohort(200, 4, seed=3, dimensions=dimensions, grid=grid)
    assert cohort.dimensions == dimensions
    for role, objects in (
        ("references", cohort.references),
        ("predictions", cohort.predictions("model-1")),
    ):
        delivery = Delivery(
            image=objects.image,
            label=objects.label.astype(np.int64),
            boxes=objects.boxes,
            box_format="xyxy",
            place=objects.place,
            score=getattr(objects, "score", None),
        )
        assert examine(delivery, cohort.images.size, role) == []  # type: ignore[arg-type]


def test_grid_rounds_coordinates() -> None:
    for boxes in _boxes(random_cohort(50, 2, seed=1, grid=8.0)):
        np.testing.assert_array_equal(boxes % 8.0, 0.0)


@pytest.mark.parametrize("levels", [1, 2, 10])
def test_tie_levels_limit_the_scores(levels: int) -> None:
    score = random_cohort(300, 2, seed=1, tie_levels=levels).predictions("model-1").score
    assert len(np.unique(score)) == levels
    assert score.min() > 0
    assert score.max() < 1


def test_shares() -> None:
    cohort = random_cohort(2000, 2, seed=1, empty_share=0.4, crowd_share=0.2, ignore_share=0.1)
    references = cohort.references
    assert np.mean(np.diff(references.offsets) == 0) == pytest.approx(0.4, abs=0.04)
    assert references.crowd.mean() == pytest.approx(0.2, abs=0.03)
    assert references.ignore.mean() == pytest.approx(0.28, abs=0.03)
    assert references.ignore[references.crowd].all()


def test_without_options_nothing_is_ignored_and_areas_are_those_of_the_boxes() -> None:
    references = random_cohort(100, 2, seed=1).references
    assert not references.ignore.any()
    np.testing.assert_array_equal(references.area, references.extent)


def test_declared_areas_differ_from_the_boxes() -> None:
    references = random_cohort(100, 2, seed=1, declared_areas=True).references
    assert (references.area < references.extent).all()


def test_overlaps_sizes_and_classes_are_varied() -> None:
    cohort = random_cohort(500, 3, seed=2)
    side = np.sqrt(cohort.references.extent)
    assert min(np.mean(side < 32), np.mean((side > 32) & (side < 96)), np.mean(side > 96)) > 0.1
    assert set(cohort.references.label.tolist()) == {0, 1, 2}
    neighbours = cohort.references.image[1:] == cohort.references.image[:-1]
    low = np.maximum(cohort.references.boxes[1:, :2], cohort.references.boxes[:-1, :2])
    high = np.minimum(cohort.references.boxes[1:, 2:], cohort.references.boxes[:-1, 2:])
    assert np.mean((high > low).all(axis=1)[neighbours]) > 0.3


def test_models_differ_and_speak_on_empty_images() -> None:
    cohort = random_cohort(300, 2, seed=2, models=3)
    assert list(cohort.models) == ["model-1", "model-2", "model-3"]
    empty = np.diff(cohort.references.offsets) == 0
    for predictions in cohort.models.values():
        assert np.diff(predictions.offsets)[empty].sum() > 0
    assert len({len(predictions) for predictions in cohort.models.values()}) > 1


def test_a_patient_has_one_centre_and_sometimes_several_images() -> None:
    cohort = random_cohort(100, 2, seed=2)
    patients = cohort.group("patient").tolist()
    assert len(set(zip(patients, cohort.group("centre").tolist()))) == len(set(patients)) < 100


@pytest.mark.parametrize("dimensions", [2, 3])
def test_small_cases(dimensions: int) -> None:
    assert random_cohort(0, 1, seed=0, dimensions=dimensions).n_images == 0
    empty = random_cohort(3, 1, seed=0, empty_share=1.0, dimensions=dimensions, declared_areas=True)
    assert len(empty.references) == 0
    assert empty.references.boxes.shape == (0, 2 * dimensions)
    assert list(random_cohort(3, 1, seed=0, models=0, dimensions=dimensions).models) == []


@pytest.mark.parametrize(
    "options",
    [
        {"n_images": -1},
        {"n_classes": 0},
        {"crowd_share": 1.5},
        {"dimensions": 4},
        {"tie_levels": 0},
    ],
)
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        random_cohort(**{"n_images": 5, "n_classes": 2, "seed": 0, **options})  # type: ignore[arg-type]
