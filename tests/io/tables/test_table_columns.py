"""Columns of tables: chosen ones have to exist, known names are found whatever their case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calipers as cal
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


def table(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_sides_may_be_called_width_and_height(tmp_path) -> None:
    rows = ("a,n,10,10,20,10", "a,n,50,60,5,8", "b,n,1,2,30,40")
    short = table(tmp_path / "short.csv", "image,class,x,y,w,h", *rows)
    words = table(tmp_path / "words.csv", "image,class,x,y,width,height", *rows)
    centred = table(tmp_path / "centred.csv", "image,class,cx,cy,width,height", *rows)
    sized = table(
        tmp_path / "sized.csv",
        "image,class,x,y,width,height,image_width,image_height",
        *(f"{row},100,200" for row in rows),
        "c,,,,,,90,80",
    )
    boxes = cal.read(short).references.boxes
    assert boxes[0].tolist() == [10, 10, 30, 20]
    assert cal.read(words).references.boxes.tolist() == boxes.tolist()
    assert cal.read(centred).references.boxes[0].tolist() == [0, 5, 20, 15]
    cohort = cal.read(sized)
    assert cohort.references.boxes.tolist() == boxes.tolist()
    assert cohort.images.size.tolist() == [[100, 200], [100, 200], [90, 80]]


def test_width_and_height_of_the_image_are_no_sides_of_boxes(tmp_path) -> None:
    rows = ("a,n,10,10,20,10,100,200", "b,n,1,2,30,40,100,200")
    both = table(tmp_path / "both.csv", "image,class,x,y,w,h,width,height", *rows)
    assert cal.read(both).images.size.tolist() == [[100, 200], [100, 200]]
    points = table(
        tmp_path / "points.csv", "image,class,x,y,width,height", "a,n,5,6,100,80", "b,n,7,8,100,80"
    )
    with pytest.raises(InputError) as refused:
        cal.read(points)
    assert refused.value.rule == "box-columns"


@pytest.mark.parametrize(
    "header",
    ["Image Index,Finding Label", "Image.Index,Finding.Label", "imageIndex,findingLabel"],
)
def test_names_of_texts_may_be_joined_in_any_way(tmp_path: Path, header: str) -> None:
    (tmp_path / "t.csv").write_text(f"{header},x0,y0,x1,y1\na,polyp,1,2,3,4\n")
    cohort = cal.read(tmp_path / "t.csv")
    assert (cohort.images.ids, cohort.classes) == (("a",), ("polyp",))


@pytest.mark.parametrize("x", ["xmin", "x_min", "x0", "x1"])
@pytest.mark.parametrize("sides", ["width,height", "w,h"])
def test_a_corner_and_sides_are_a_box(tmp_path: Path, x: str, sides: str) -> None:
    header = f"image,class,{x},{x.replace('x', 'y')},{sides}"
    (tmp_path / "t.csv").write_text(f"{header}\na,polyp,10,20,3,4\nb,polyp,1,2,30,40\nc,,,,,\n")
    cohort = cal.read(tmp_path / "t.csv")
    assert cohort.references.boxes.tolist() == [[10, 20, 13, 24], [1, 2, 31, 42]]
    assert cohort.images.ids == ("a", "b", "c")


@pytest.mark.parametrize("header", [
    "image,class,x0,x1,y1,w,h",
    "image,class,y0,x1,y1,width,height",
    "image,class,x1,y1,x_2,y_2,width,height",
    "image,class,xmin,ymin,xmx,ymx,width,height",
])  # fmt: skip
def test_a_corner_beside_a_part_of_another_is_no_box(tmp_path: Path, header: str) -> None:
    rows = [name + ",polyp" + ",7" * (header.count(",") - 1) for name in "ab"]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    with pytest.raises(InputError) as refused:
        cal.read(tmp_path / "t.csv")
    assert refused.value.rule == "box-columns"
