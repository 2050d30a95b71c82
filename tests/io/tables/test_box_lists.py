"""A column ``bbox`` with all numbers of a box, in delimited text and in rows of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calipers as cal
from calipers.errors import InputProblems

HEAD = "image,class,bbox\n"


def boxes_of(path: Path) -> list[list[float]]:
    boxes: list[list[float]] = cal.read(path).references.boxes.tolist()
    return boxes


@pytest.mark.parametrize(
    "cell", ['"[1, 2, 3, 4]"', '"(1.0,2.0,3.0,4.0)"', "[1. 2. 3. 4.]", '" 1, 2, 3, 4 "']
)
def test_the_numbers_are_those_of_coco(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"{HEAD}a,polyp,{cell}\nb,,\n")
    assert boxes_of(tmp_path / "t.csv") == [[1, 2, 4, 6]]
    assert cal.read(tmp_path / "t.csv").images.ids == ("a", "b")
    notes = cal.read(tmp_path / "t.csv").intake.files[0].notes
    assert "bbox is read as x, y, w, h, as in COCO" in notes


@pytest.mark.parametrize("cell", ['"[1, 2, 3]"', "box", '"[1, 2, 3, four]"'])
def test_other_cells_are_refused_with_their_place(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"{HEAD}a,polyp,{cell}\nb,polyp,{cell}\n")
    with pytest.raises(InputProblems) as error:
        cal.read(tmp_path / "t.csv")
    assert [problem.location for problem in error.value.problems][:2] == ["2:3", "3:3"]
    assert {problem.field for problem in error.value.problems} <= {"bbox"}


def test_other_columns_of_a_box_come_first(tmp_path: Path) -> None:
    text = 'image,class,bbox,x0,y0,x1,y1\na,polyp,"[9, 9, 9, 9]",1,2,3,4\n'
    (tmp_path / "t.csv").write_text(text)
    assert boxes_of(tmp_path / "t.csv") == [[1, 2, 3, 4]]


def test_lists_in_rows_of_json(tmp_path: Path) -> None:
    row = {"image": "a", "class": "polyp", "bbox": [1, 2, 3, 4.5]}
    (tmp_path / "t.json").write_text(json.dumps([row, {"image": "b", "class": None, "bbox": None}]))
    assert boxes_of(tmp_path / "t.json") == [[1, 2, 4, 6.5]]
    (tmp_path / "t.json").write_text(json.dumps([row, {**row, "bbox": [1, 2]}]))
    with pytest.raises(cal.InputError) as error:
        cal.read(tmp_path / "t.json")
    assert error.value.location == "/1/bbox"


@pytest.mark.parametrize(
    ("row", "place"), [({"x0": [1]}, "/1/x0"), (["a"], "/1"), ({"bbox": [[1]]}, "/1/bbox")]
)
def test_rows_that_are_none_are_refused_with_their_place(
    tmp_path: Path, row: object, place: str
) -> None:
    first = {"image": "a", "class": "polyp", "x0": 1, "y0": 2, "x1": 3, "y1": 4}
    wrong = {**first, **row} if isinstance(row, dict) else row
    (tmp_path / "t.json").write_text(json.dumps([first, wrong]))
    with pytest.raises(cal.InputError) as error:
        cal.read(tmp_path / "t.json")
    assert error.value.location == place
    cohort = cal.read(tmp_path / "t.json", lenient=True)
    (intake,) = cohort.intake.files
    assert (intake.read, intake.used, dict(intake.quarantined)) == (2, 1, {"type": 1})


def test_a_cell_of_a_row_is_named_by_its_pointer(tmp_path: Path) -> None:
    row = {"image": "a", "class": "polyp", "x0": 1, "y0": 2, "x1": "three", "y1": 4}
    (tmp_path / "t.json").write_text(json.dumps([row]))
    with pytest.raises(cal.InputError) as error:
        cal.read(tmp_path / "t.json")
    assert (error.value.location, error.value.value) == ("/0/x1", "'three'")


def test_a_list_and_the_origin_of_images_are_no_classes(tmp_path: Path) -> None:
    text = 'image_id,width,height,bbox,source\na,99,99,"[1, 2, 3, 4]",usask_1\n'
    (tmp_path / "t.csv").write_text(text)
    assert cal.read(tmp_path / "t.csv").classes == ("object",)
    # Any other text may be a class.
    (tmp_path / "t.csv").write_text(text.replace("source", "remark"))
    with pytest.raises(cal.InputError) as error:
        cal.read(tmp_path / "t.csv")
    assert error.value.rule == "missing-column"
