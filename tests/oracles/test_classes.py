"""Corruptions of classes: every image and class by itself, on all declared classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from oracle_cases import centres, of_boxes, one_box_each, said, sides

MANY = 20_000
UNLIKELY = 1e-4
A, B, C, D = range(4)
BOX, OTHER, THIRD = [0, 0, 10, 10], [20, 20, 40, 40], [50, 10, 60, 20]


def near(found: float, expected: float, n: int = MANY) -> bool:
    """Whether a share lies within four standard errors."""
    return abs(found - expected) < 4 * np.sqrt(max(expected * (1 - expected), 1e-12) / n)


def test_a_class_is_dropped_from_an_image_as_a_whole() -> None:
    cohort = of_boxes([([BOX, OTHER, THIRD], [A, A, B])] * 2000)
    found = said(cal.corrupt(cohort, "class-underprediction", p=0.3, noise=0.0))
    kept = np.zeros((2000, 2), int)
    np.add.at(kept, (found.image, found.label), 1)
    assert set(kept[:, A].tolist()) == {0, 2}
    assert near((kept[:, A] == 0).mean(), 0.3, 2000)
    assert near((kept[:, B] == 0).mean(), 0.3, 2000)
    assert abs(np.corrcoef(kept.T)[0, 1]) < 4 / np.sqrt(2000)


def test_what_is_left_has_position_noise() -> None:
    cohort = one_box_each(MANY)
    found = said(cal.corrupt(cohort, "class-underprediction", p=0.5))
    was = cohort.references.boxes[found.image]
    low, high = np.split(was, 2, axis=1)
    offset = (centres(found) - (low + high) / 2) / (high - low)
    assert stats.kstest(offset.ravel() / 0.5, "norm").pvalue > UNLIKELY


def test_absent_classes_get_one_box_of_a_quarter_of_the_sides_inside_the_image() -> None:
    cohort = of_boxes([([BOX, OTHER], [A, A])] * MANY)
    found = said(cal.corrupt(cohort, "class-overprediction", p=0.4))
    added = found.label != A
    assert (~added).sum() == 2 * MANY
    np.testing.assert_array_equal(found.boxes[~added].reshape(-1, 2, 4)[0], [BOX, OTHER])
    for label in (B, C, D):
        assert near((found.label == label).sum() / MANY, 0.4)
        assert np.bincount(found.image[found.label == label]).max() == 1
    np.testing.assert_allclose(sides(found)[added], [[25.0, 12.5]] * added.sum())
    low = found.boxes[added, :2]
    assert low.min() >= 0
    assert (
        min(stats.kstest(axis / room, "uniform").pvalue for axis, room in zip(low.T, (75.0, 37.5)))
        > UNLIKELY
    )


def test_overprediction_in_volumes() -> None:
    cohort = one_box_each(500, dimensions=3)
    found = said(cal.corrupt(cohort, "class-overprediction", p=1.0, share=0.5))
    assert len(found) == 4 * 500
    added = found.label != cohort.references.label[found.image]
    np.testing.assert_allclose(sides(found)[added], 100.0)
    assert (found.boxes[added] >= 0).all()
    assert (found.boxes[added] <= 200).all()


def test_confusion_permutes_the_classes_of_an_image_consistently() -> None:
    cohort = of_boxes([([BOX, OTHER, THIRD], [A, A, B])] * 3000)
    found = said(cal.corrupt(cohort, "class-confusion", p=1.0))
    named = found.label.reshape(-1, 3)
    np.testing.assert_array_equal(named[:, 0], named[:, 1])  # one class, one new name
    assert (named[:, 0] != named[:, 2]).all()  # two classes, two names
    pairs = np.unique(named[:, 1:], axis=0, return_counts=True)[1]
    assert len(pairs) == 12  # all ordered pairs of four names
    assert stats.chisquare(pairs).pvalue > UNLIKELY
    np.testing.assert_array_equal(found.boxes, cohort.references.boxes)


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_a_class_keeps_its_name_as_often_as_a_random_permutation_says(p: float) -> None:
    """Not selected, or selected with m of the C - 1 others and fixed:
    1 - p + (1 - (1 - p)^C) / C.
    """
    cohort = one_box_each(MANY)
    found = said(cal.corrupt(cohort, "class-confusion", p=p))
    kept = (found.label == cohort.references.label).mean()
    assert near(kept, 1 - p + (1 - (1 - p) ** 4) / 4)


def test_random_boxes_keep_only_which_classes_there_are() -> None:
    cohort = of_boxes([([BOX, OTHER, THIRD], [A, A, B])] * MANY)
    found = said(cal.corrupt(cohort, "random-boxes", size=0.2))
    np.testing.assert_array_equal(found.label.reshape(-1, 2), [[A, B]] * MANY)
    np.testing.assert_allclose(sides(found), [[20.0, 10.0]] * len(found))
    assert (
        min(
            stats.kstest(axis / room, "uniform").pvalue
            for axis, room in zip(found.boxes.T, (80, 40))
        )
        > UNLIKELY
    )
    more = said(cal.corrupt(cohort, "random-boxes", size=0.2, p=0.25))
    assert near((more.label == C).sum() / MANY, 0.25)
    assert (more.label == A).sum() == MANY


def test_places_at_random_need_the_size_of_every_image() -> None:
    records = [{"boxes": [[0, 0, 1, 1]], "labels": [0]}]
    cohort = cal.Cohort.from_arrays(records, classes=("a", "b"))
    for kind in ("class-overprediction", "random-boxes"):
        with pytest.raises(cal.UsageError, match="size of every image"):
            cal.corrupt(cohort, kind, p=0.5)


@pytest.mark.parametrize(
    "kind", ["class-underprediction", "class-overprediction", "class-confusion"]
)
def test_with_probability_zero_nothing_happens(kind: str) -> None:
    cohort = one_box_each(50)
    options = {"noise": 0.0} if kind == "class-underprediction" else {}
    found = said(cal.corrupt(cohort, kind, p=0.0, **options))
    np.testing.assert_allclose(found.boxes, cohort.references.boxes, atol=1e-9)
    np.testing.assert_array_equal(found.label, cohort.references.label)
