# SPDX-License-Identifier: Apache-2.0
"""Groups in memory: no value becomes another one on the way into a cohort."""

from __future__ import annotations

import datetime
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calipers as cal
from calipers.data.group_columns import group_column
from calipers.errors import InputError


class Centre(StrEnum):
    NORTH = "north"


RECORD: dict[str, Any] = {"boxes": [[1, 2, 3, 4]], "labels": [0]}
ONE: list[list[Any]] = [
    [1, "1"],
    ["True", True],
    [1.5, "1.5"],
    ["a", "a\0"],
    [datetime.date(2020, 1, 2), "2020-01-02"],
    [2**53 + 1, 2.0**53],
    [2**63, -1],
    [2**70, 1],
]
NONE: list[list[Any]] = [
    [{}, 1],
    [..., NotImplemented],
    [b"a", "a"],
    [1j, 2],
    [[1, [2]], 1],
    [[1, 2], [3, 4]],
    [np.timedelta64(1), 1],
]


def cohort_of(patients: list[Any]) -> cal.Cohort:
    references = [{**RECORD, "patient": patient} for patient in patients]
    predictions = [{**RECORD, "scores": [0.5]} for _ in patients]
    return cal.Cohort.from_arrays(references, {"m": predictions}, classes=["a"])


def column_of(cohort: cal.Cohort, name: str = "patient") -> list[Any]:
    return cohort.images.groups[name].tolist()


@pytest.mark.parametrize("values", [*ONE, *NONE], ids=repr)
def test_values_that_would_become_one_are_refused(values: list[Any]) -> None:
    with pytest.raises(InputError, match="group-"):
        cohort_of(values)
    cohort = cohort_of(["p", "q"])
    with pytest.raises(InputError, match="group-"):
        cohort.with_groups({"patient": values})
    objects = np.empty(2, object)
    objects[:] = values
    with pytest.raises(InputError, match="group-"):
        replace(cohort.images, groups={"patient": objects})
    bags, labels = np.zeros((2, 2, 3, 3)), np.array([0, 1])
    with pytest.raises(InputError, match="group-"):
        cal.stability(bags, labels, groups={"patient": values})


def test_values_of_several_kinds_become_texts_if_they_stay_apart() -> None:
    assert column_of(cohort_of([1, "a", 1.0])) == ["1", "a", "1"]
    assert column_of(cohort_of([1, 2.5])) == [1.0, 2.5]
    assert column_of(cohort_of([7, 8])) == [7, 8]
    assert column_of(cohort_of([True, False])) == [True, False]
    assert column_of(cohort_of([Centre.NORTH, "south"])) == ["north", "south"]
    assert column_of(cohort_of([np.array(3), 4])) == [3, 4]
    assert column_of(cohort_of([datetime.date(2020, 1, 2)] * 2)) == ["2020-01-02"] * 2


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([None, "a"], ["", "a"]),
        ([float("nan"), "a"], ["", "a"]),
        ([None, 12], ["", "12"]),
        ([pd.NA, True], ["", "True"]),
        ([None, None], ["", ""]),
        (pd.Series([None, "a"]), ["", "a"]),
        (pd.Series([1, pd.NA], dtype=object), ["1", ""]),
        (np.array(["2020-01-02", "NaT"], "M8[D]"), ["2020-01-02", ""]),
        (pd.Series(pd.to_datetime(["2020-01-02", None])), None),
    ],
    ids=repr,
)
def test_missing_values_do_not_break_groups(values: Any, column: list[str] | None) -> None:
    """Results by such a group are made, and those without one are not one unit of resampling."""
    cohort = cohort_of(["p", "q"]).with_groups({"site": values})
    if column is not None:
        assert column_of(cohort, "site") == column
    evaluation = cal.evaluate(cohort, "coco", ci=False, by=["site"])
    names = {row.group["site"] for row in evaluation.rows if row.group}
    assert names == set(map(str, column_of(cohort, "site")))
    with pytest.raises(cal.UsageError, match=r"[12] of 2 images have no site"):
        cal.evaluate(cohort, replace(cal.Protocol.load("coco"), cluster="site"))


def test_a_gap_among_floats_is_unknown() -> None:
    column = group_column([1.5, None], "groups", "age")
    assert column.dtype == np.float64
    assert np.isnan(column[1])


def test_masked_entries_are_refused() -> None:
    masked = np.ma.masked_array([1, 2], [True, False])
    with pytest.raises(InputError, match="masked"):
        cohort_of(["p", "q"]).with_groups({"age": masked})


def test_cohorts_with_groups_of_other_kinds_are_joined_if_values_stay_apart() -> None:
    a, b = cohort_of([1, 2]), cohort_of(["x", "y"])
    b = replace(b, images=replace(b.images, ids=("c", "d")))
    assert column_of(cal.Cohort.concat([a, b])) == ["1", "2", "x", "y"]
    c = cohort_of(["2", "3"])
    c = replace(c, images=replace(c.images, ids=("c", "d")))
    with pytest.raises(InputError, match="group-value"):
        cal.Cohort.concat([a, c])
