"""Columns of tables: chosen ones have to exist, known names are found whatever their case."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.tables.columns import ColumnSpec, declare, find_columns
from calipers.io.tables.table import FileTable

TABLE = FileTable(
    "a.csv",
    "delimited",
    {name: ["1"] for name in ("Image", "image", "Value")},
    np.array([2]),
    by_line=True,
)


def test_the_first_known_name_counts_and_of_equal_ones_the_first_column() -> None:
    assert ColumnSpec("score", ("score", "value", "image")).find(TABLE) == "Value"
    assert ColumnSpec("image", ("image",)).find(TABLE) == "Image"
    assert ColumnSpec("score", ("score",)).find(TABLE) is None


def test_a_chosen_column_goes_before_known_names_and_has_to_exist() -> None:
    assert ColumnSpec("image", ("value",)).find(TABLE, "image") == "image"
    with pytest.raises(InputError, match=r"the column 'valu' \(score\)") as refused:
        ColumnSpec("score", ("image",)).find(TABLE, "valu")
    assert (refused.value.rule, refused.value.file) == ("missing-column", "a.csv")
    assert "Value" in refused.value.hint


def test_a_required_column_that_is_missing_is_named_with_all_its_names() -> None:
    columns = declare(ColumnSpec("score", ("score", "confidence"), required=True))
    with pytest.raises(InputError, match="a column 'score'") as refused:
        find_columns(TABLE, columns)
    assert (refused.value.rule, refused.value.location) == ("missing-column", "1")
    assert "score, confidence" in refused.value.hint


def test_a_chosen_column_is_found_again_only_if_columns_are_shared() -> None:
    columns = declare(ColumnSpec("item", ("item",)), ColumnSpec("value", ("value",)))
    choices = {"item": "Value", "value": None}
    assert find_columns(TABLE, columns, choices) == {"item": "Value", "value": "Value"}
    assert find_columns(TABLE, columns, choices, shared=False) == {"item": "Value"}
    with pytest.raises(UsageError, match="did you mean 'item'"):
        find_columns(TABLE, columns, {"items": "Value"})


@pytest.mark.parametrize(
    ("kind", "cells", "values", "bad"),
    [
        ("number", ["1.5", "x", ""], [1.5, np.nan, np.nan], {1: "a number", 2: "a number"}),
        ("flag", ["Yes", "N", "true"], [True, False, True], {}),
        ("flag", ["2", "", "0"], [False, False, False], {0: "0 or 1", 1: "0 or 1"}),
        ("text", ["a", "", "b"], ["a", "", "b"], {1: "a value in every row"}),
    ],
)
def test_cells_are_read_by_the_kind_of_their_column(kind, cells, values, bad) -> None:
    table = FileTable("a.csv", "csv", {"c": cells}, np.arange(3) + 2, by_line=True)
    column = ColumnSpec("c", ("c",), kind=kind, blank=False)
    read_values, problems = column.read(table, "c")
    np.testing.assert_array_equal(read_values, values)
    assert {row: problem.expected for row, problem in problems.items()} == bad
