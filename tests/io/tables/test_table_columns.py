"""Columns of tables: chosen ones have to exist, known names are found whatever their case."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.tables.columns import column_of, find_column
from calipers.io.tables.table import Table

TABLE = Table(
    "a.csv",
    "delimited",
    {name: ["1"] for name in ("Image", "image", "Value")},
    np.array([2]),
    by_line=True,
)


def test_the_first_known_name_counts_and_of_equal_ones_the_first_column() -> None:
    assert column_of(TABLE, ("score", "value", "image")) == "Value"
    assert column_of(TABLE, ("image",)) == "Image"
    assert column_of(TABLE, ("score",)) is None


def test_a_chosen_column_goes_before_known_names_and_has_to_exist() -> None:
    assert find_column(TABLE, "image", "image", ("value",)) == "image"
    with pytest.raises(InputError, match=r"the column 'valu' \(score\)") as refused:
        find_column(TABLE, "score", "valu", ("image",))
    assert (refused.value.rule, refused.value.file) == ("missing-column", "a.csv")
    assert "Value" in refused.value.hint
