"""Numbers of images and classes are compared in one pass, whichever of them are known."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.doctor.name_symptoms import class_numbers, image_numbers
from calipers.doctor.trial import Case, RawPredictions

SHIFT = "image-numbers"


def case_of(numbers: list[int], image: list[int], names: dict[int, object]) -> Case:
    """A case with a reference on every image, and predictions on these and on unknown ones."""
    corner = np.arange(len(numbers), dtype=float) * 20
    boxes = np.stack([corner, corner, corner + 10, corner + 10], axis=1)
    references = [{"boxes": boxes[k : k + 1], "labels": [0]} for k in range(len(numbers))]
    cohort = cal.Cohort.from_arrays(references, {}, classes=["finding"], box_format="xyxy")
    # Every prediction lies where the reference of the image before lies.
    true_place = [
        numbers.index(int(str(names[row]) if row in names else numbers[k]) - 1)
        for row, k in enumerate(image)
    ]
    sample = RawPredictions(
        np.array(image, np.int64),
        np.zeros(len(image), np.int64),
        boxes[true_place],
        "xyxy",
        np.ones(len(image)),
        names,
        {},
    )
    return Case(cohort, "predictions.json", sample, numbers, {0: 0})


@pytest.mark.parametrize("start", [0, 1, 7_000_000])
def test_numbers_of_known_and_of_unknown_images_are_joined(start):
    numbers = list(range(start, start + 12))
    image = [*range(1, 12), -1]
    case = case_of(numbers, image, {11: start + 12})
    (symptom,) = image_numbers(case)
    assert symptom.code == SHIFT
    assert symptom.remedy.image.tolist() == list(range(12))
    assert symptom.examples[0] == str(start + 1)


def test_without_images_or_predictions_there_is_nothing_to_renumber():
    case = case_of([1, 2, 3], [], {})
    assert list(image_numbers(case)) == []
    assert list(class_numbers(case)) == []
