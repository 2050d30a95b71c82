"""Damaged tables through the public names: refused with a typed error, never a crash.

Every case takes a sound cohort, damages one column of one table by one of its constructors, and
evaluates what comes out. `make sanitize` runs this file too, so that a read or write beyond a
buffer is seen even where the process survives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.data.objects import Objects
from calipers.errors import CalipersError
from random_cohorts import random_cohort

ROUNDS = 150
PRESETS = ("coco", "rodeo", "luna16", "tide")


def _other_numbers(rng: np.random.Generator, array: Any) -> Any:
    """Return the column with one entry replaced by an extreme one."""
    if not array.size or array.dtype.kind not in "iufb":
        return array[:-1]
    copy = array.copy()
    extremes = [-1, 40, 2**31 - 1, -(2**31), 0]
    if array.dtype.kind == "f":
        extremes = [np.nan, np.inf, -np.inf, 1e308, -1e308]
    copy.reshape(-1)[rng.integers(copy.size)] = np.array(
        extremes[rng.integers(len(extremes))]
    ).astype(copy.dtype)
    return copy


def _other_length(rng: np.random.Generator, array: Any) -> Any:
    return array[:-1] if rng.random() < 0.5 else np.concatenate([array, array[-1:], array[-1:]])


def _other_type(rng: np.random.Generator, array: Any) -> Any:
    kinds: list[Any] = [np.int8, np.uint64, np.float32, np.bool_, object, "U8"]
    with np.errstate(invalid="ignore"):
        return array.astype(kinds[rng.integers(len(kinds))])


def _other_shape(rng: np.random.Generator, array: Any) -> Any:
    return array[:, None] if rng.random() < 0.5 else array.reshape(-1)[None]


def _no_array(rng: np.random.Generator, array: Any) -> Any:
    values: list[Any] = [None, array.tolist(), "text", 7, b"\0" * 16]
    return values[rng.integers(len(values))]


DAMAGES: tuple[Callable[[np.random.Generator, Any], Any], ...] = (
    _other_numbers,
    _other_numbers,
    _other_length,
    _other_type,
    _other_shape,
    _no_array,
)


def _damaged(rng: np.random.Generator, table: Any) -> Any:
    """Return the table with one column damaged; an error of the constructor passes on."""
    columns = []
    for column in fields(table):
        if isinstance(getattr(table, column.name), np.ndarray):
            columns.append(column.name)
    name = columns[rng.integers(len(columns))]
    damage = DAMAGES[rng.integers(len(DAMAGES))]
    return replace(table, **{name: damage(rng, getattr(table, name))})


def _case(rng: np.random.Generator, cohort: Cohort) -> Cohort:
    """Return a cohort that went through one of the public constructors with damaged tables."""
    way = rng.integers(6)
    if way == 0:
        return cohort.with_predictions("other", _damaged(rng, cohort.predictions("model-1")))
    if way == 1:
        return replace(cohort, references=_damaged(rng, cohort.references))
    if way == 2:
        other = random_cohort(len(cohort.images), int(rng.integers(1, 60)), seed=int(way))
        return cohort.with_predictions("other", other.predictions("model-1"))
    if way == 3:
        return cohort.take(_other_numbers(rng, np.arange(cohort.n_images)))
    if way == 4:
        table = cohort.predictions("model-1")
        parts = [table, _damaged(rng, table)]
        return replace(cohort, models={"model-1": type(table).concat(parts)})
    return replace(cohort, images=_damaged(rng, cohort.images))


@pytest.mark.parametrize("preset", PRESETS)
def test_damaged_tables_are_refused_or_evaluated(preset: str) -> None:
    cohort = random_cohort(12, 3, seed=1, crowd_share=0.1)
    refused = evaluated = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng([seed, PRESETS.index(preset)])
        try:
            damaged = _case(rng, cohort)
        except CalipersError:
            refused += 1
            continue
        # What a constructor lets pass, an evaluation must be able to take.
        cal.evaluate(damaged, preset, ci=False)
        evaluated += 1
    assert refused > ROUNDS // 2
    assert evaluated > 0


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
