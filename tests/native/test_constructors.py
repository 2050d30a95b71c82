"""Tables that do not fit their cohort, through the public names: refused with a typed error.

`make sanitize` runs this file too, so that a read or write beyond a buffer is seen even where the
process survives it. Random damage is the business of the fuzz tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.data.objects import Objects
from calipers.errors import CalipersError
from random_cohorts import random_cohort


def test_predictions_for_other_classes_are_refused() -> None:
    cohort, other = random_cohort(40, 2, seed=1), random_cohort(40, 40, seed=2)
    with pytest.raises(CalipersError, match=r"labels from 0 to 1.*label-range"):
        cohort.with_predictions("o", other.predictions("model-1"))


def test_a_cohort_for_other_images_is_refused() -> None:
    cohort, other = random_cohort(10, 2, seed=1), random_cohort(9, 2, seed=2)
    with pytest.raises(CalipersError, match="objects of 10 images"):
        replace(cohort, references=other.references)
    with pytest.raises(CalipersError, match="9 images"):
        cohort.with_predictions("o", other.predictions("model-1"))


@pytest.mark.parametrize("images", [[-11], [10], [[0, 1]], [0.5], ["a"], [2**63 - 1]], ids=str)
def test_objects_of_images_that_are_not_there_are_refused(images: Any) -> None:
    cohort = random_cohort(10, 2, seed=1)
    for table in (cohort, cohort.references):
        with pytest.raises(CalipersError):
            table.take(np.array(images))


def test_nothing_cannot_be_joined() -> None:
    cohort = random_cohort(3, 2, seed=1)
    flat, deep = cohort.references, random_cohort(3, 2, seed=1, dimensions=3).references
    tries: list[Callable[[], Any]] = [
        lambda: Cohort.concat([]),
        lambda: type(flat).concat([]),
        lambda: type(flat).concat([flat, deep]),
    ]
    for call in tries:
        with pytest.raises(CalipersError):
            call()


@pytest.mark.parametrize(
    ("start", "length"),
    [([90], [20]), ([-1], [2]), ([5], [0]), ([0, 0], [1, 1]), ([2**62], [2**62]), ([8], [4])],
    ids=str,
)
def test_masks_with_impossible_runs_are_refused(start: list[int], length: list[int]) -> None:
    masks = Masks(
        np.array([0, len(start)]), np.array(start), np.array(length), np.array([[10, 10]])
    )
    with pytest.raises(CalipersError, match=r"mask-runs|empty-mask"):
        Cohort.from_arrays(
            [{"masks": masks, "labels": [0], "width": 10, "height": 10}], classes=("a",)
        )


def test_masks_of_other_lengths_are_refused() -> None:
    cohort = random_cohort(3, 2, seed=1)
    masks = Masks.from_dense(np.ones((1, 4, 4), np.bool_))
    with pytest.raises(CalipersError, match="one per object"):
        replace(cohort.references, masks=masks)
    with pytest.raises(CalipersError, match="offsets"):
        replace(masks, offsets=np.array([0, 9]))


def test_every_table_of_objects_is_checked() -> None:
    tables = {table.__name__ for table in Objects.__subclasses__()}
    assert {"References", "Predictions"} <= tables
    for table in Objects.__subclasses__():
        assert "__post_init__" not in vars(table) or table.__module__ != Objects.__module__
