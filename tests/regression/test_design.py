"""Tables of any kind become columns, and columns become a design of full rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calipers as cal
from calipers.io.tables.table import open_table
from calipers.regression.design import Formula, Frame, design, hypothetical

TABLE = {
    "a": ["x", "x", "y", "z", "y", "z"],
    "b": ["u", "v", "u", "v", "v", "u"],
    "n": [1, 2, 3, 4, 5, 7.5],
}


def matrix(text: str, table: Any = TABLE, **levels: list[str]) -> tuple[list[str], np.ndarray]:
    formula = Formula.parse(text)
    found = design(Frame.of(table, formula.columns, levels), formula)
    return list(found.names), found.matrix


def test_categories_are_compared_with_their_first_level() -> None:
    names, x = matrix("~ a + n")
    assert names == ["intercept", "a[y]", "a[z]", "n"]
    expected = [
        [1, 0, 0, 1],
        [1, 0, 0, 2],
        [1, 1, 0, 3],
        [1, 0, 1, 4],
        [1, 1, 0, 5],
        [1, 0, 1, 7.5],
    ]
    np.testing.assert_array_equal(x, expected)


def test_declared_levels_set_the_order_and_the_kind() -> None:
    assert matrix("~ a", a=["z", "y", "x"])[0] == ["intercept", "a[y]", "a[x]"]
    assert matrix("~ n", n=["7.5", "1", "2", "3", "4", "5"])[0][1] == "n[1]"
    assert matrix("~ a", a=["w", "x", "y", "z"])[0] == [
        "intercept",
        "a[y]",
        "a[z]",
    ]  # w does not occur


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("~ a - 1", ["a[x]", "a[y]", "a[z]"]),
        ("~ a + b - 1", ["a[x]", "a[y]", "a[z]", "b[v]"]),
        ("~ b:n", ["intercept", "b[u]:n", "b[v]:n"]),
        ("~ n + b:n", ["intercept", "n", "b[v]:n"]),
        ("~ b + b:n", ["intercept", "b[v]", "b[u]:n", "b[v]:n"]),
    ],
)
def test_coding_follows_the_terms_that_are_there(text: str, names: list[str]) -> None:
    assert matrix(text)[0] == names


@pytest.mark.parametrize(
    "text", ["~ a + b", "~ a:b", "~ a + a:b", "~ a + b + a:b", "~ a:b - 1", "~ a + b - 1"]
)
def test_coding_spans_what_all_cells_span(text: str) -> None:
    """Where a and b occur in every combination, the columns have full rank and the rank of the full
    set of dummies.
    """
    table = {"a": ["x", "y", "z"] * 4, "b": ["u", "u", "u", "v", "v", "v"] * 2}
    _, x = matrix(text, table)
    cells = [(a, b) for a in "xyz" for b in "uv"] if ":" in text else []
    dummies = [[(a, b) == cell for a, b in zip(table["a"], table["b"])] for cell in cells]
    dummies += [[a == level for a in table["a"]] for level in "xyz"]
    dummies += (
        [[b == level for b in table["b"]] for level in "uv"] if ":" in text or "+ b" in text else []
    )
    full = np.array(dummies, float).T
    assert np.linalg.matrix_rank(x) == x.shape[1] == np.linalg.matrix_rank(full)
    assert np.linalg.matrix_rank(np.column_stack([x, full])) == x.shape[1]


def test_the_same_table_in_any_clothes(tmp_path: Path) -> None:
    frame = pd.DataFrame(TABLE)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    wanted = matrix("~ a + n")
    categorical = frame.assign(a=frame["a"].astype("category"))
    clothes = [frame, categorical, pa.table(TABLE), {k: np.array(v) for k, v in TABLE.items()}]
    clothes += [
        frame.convert_dtypes(),
        open_table(tmp_path / "t.csv"),
        open_table(tmp_path / "t.parquet"),
    ]
    for table in clothes:
        names, x = matrix("~ a + n", table)
        assert names == wanted[0]
        np.testing.assert_array_equal(x, wanted[1])


def test_order_of_a_pandas_category_is_kept() -> None:
    column = pd.Categorical(TABLE["a"], categories=["z", "x", "y"])
    assert matrix("~ a", pd.DataFrame({"a": column}))[0] == ["intercept", "a[x]", "a[y]"]


def test_columns_that_are_not_used_may_hold_anything() -> None:
    frame = pd.DataFrame(
        {**TABLE, "when": pd.date_range("2020", periods=6), "thing": [object()] * 6}
    )
    assert matrix("~ a", frame)[0] == ["intercept", "a[y]", "a[z]"]


@pytest.mark.parametrize(
    ("table", "text", "rule", "said"),
    [
        (TABLE, "~ c", "missing-column", "known: a, b, n"),
        ({**TABLE, "a": ["x"] * 6}, "~ a", "one-level", "every row has the same a"),
        ({**TABLE, "m": [2, 4, 6, 8, 10, 15]}, "~ n + m", "rank-deficient", "determined by n"),
        ({**TABLE, "m": [1.0] * 6}, "~ m", "rank-deficient", "determined by intercept"),
        ({**TABLE, "m": [0.0] * 6}, "~ m", "rank-deficient", "m"),
        (
            {"a": ["x", "y"] * 3, "b": ["u", "v"] * 3},
            "~ a + b",
            "rank-deficient",
            "determined by a[y]",
        ),
        ({k: v[:2] for k, v in TABLE.items()}, "~ b + n", "too-few-rows", "3 columns"),
        ({"a": [1, 2], "b": [1]}, "~ a + b", "length", "one length"),
        ({"a": [[1, 2], [3, 4]]}, "~ a", "length", "one value per row"),
        ({"a": [1, object()]}, "~ a", "column-type", "numbers or text"),
        ({"a": [1.0, float("inf"), 2.0]}, "~ a", "non-finite", "1:1"),
        ({"a": [1.0, 2e300, -1e300]}, "~ a", "range", "1:1"),
        ({"a": [1e-200, 2e-300, -1e-299]}, "~ a", "range", "0:1"),
        (7, "~ a", "type", "a pandas frame"),
    ],
)
def test_what_cannot_be_a_design_is_named(table: Any, text: str, rule: str, said: str) -> None:
    with pytest.raises(cal.InputError) as error:
        matrix(text, table)
    assert error.value.rule == rule
    assert said in str(error.value)


def test_a_combination_that_never_occurs_is_named() -> None:
    table = {"a": ["x", "x", "y", "y", "x", "x"], "b": ["u", "v", "u", "u", "u", "v"]}
    with pytest.raises(cal.InputError, match="no row has this combination"):
        matrix("~ a + b + a:b", table)


@pytest.mark.parametrize(
    ("cells", "levels", "rule", "place"),
    [
        ("1\n2\nx\n", None, "type", "4:1"),
        ("1\n2,5\n3\n", None, None, None),
        ("u\nv\nw\n", {"a": ["u", "v"]}, "unknown-level", "4:1"),
    ],
)
def test_csv_cells_are_never_guessed(
    tmp_path: Path, cells: str, levels: Any, rule: str | None, place: str
) -> None:
    (tmp_path / "t.csv").write_text("a\n" + cells)
    with pytest.raises(cal.InputError) as error:
        matrix("~ a", open_table(tmp_path / "t.csv"), **(levels or {}))
    if rule is None:
        assert error.value.rule == "ragged"
    else:
        assert (error.value.rule, error.value.location) == (rule, place)


def test_numbers_that_are_categories_have_to_be_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("grade\n1\n2\n3a\n1\n2\n3a\n")
    table = open_table(tmp_path / "t.csv")
    with pytest.raises(cal.InputError, match="declare them as levels"):
        matrix("~ grade", table)
    assert matrix("~ grade", table, grade=["1", "2", "3a"])[0] == [
        "intercept",
        "grade[2]",
        "grade[3a]",
    ]


def test_json_is_not_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"a": 1}')
    with pytest.raises(cal.InputError, match="a table"):
        open_table(tmp_path / "t.json")


def test_a_hypothetical_design_changes_one_category() -> None:
    formula = Formula.parse("~ a + n")
    frame = Frame.of(TABLE, formula.columns)
    found = design(frame, formula)
    everyone = hypothetical(frame, found, "a", "z")
    np.testing.assert_array_equal(everyone[:, :3], np.tile([1, 0, 1], (6, 1)))
    np.testing.assert_array_equal(everyone[:, 3], found.matrix[:, 3])


def test_a_declared_number_is_a_category_even_if_some_cells_are_words(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(
        "y,grade,g\n"
        + "".join(f"{k % 5},{'x' if k % 6 == 0 else k % 3},{k % 8}\n" for k in range(48))
    )
    with pytest.raises(cal.InputError, match="a number, as in other rows"):
        cal.mixed_model(open_table(file), "y ~ grade", ["g"])
    fit = cal.mixed_model(open_table(file), "y ~ C(grade)", ["g"])
    assert [c.name for c in fit.coefficients] == ["intercept", "grade[1]", "grade[2]", "grade[x]"]
    ordered = cal.mixed_model(open_table(file), "y ~ C(grade)", ["g"], levels={"grade": "x012"})
    assert [c.name for c in ordered.coefficients][1:] == ["grade[0]", "grade[1]", "grade[2]"]
