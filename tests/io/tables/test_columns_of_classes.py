"""Columns with numbers of classes are columns of classes, and never lost without a word."""

from __future__ import annotations

import pytest

import calipers as cal
from annotation_cases import put
from calipers.errors import InputError

BOX = "x0,y0,x1,y1"
ONE, TWO = "1,2,30,40", "50,2,80,40"


@pytest.mark.parametrize("name", ["class_id", "category_id", "Label ID"])
def test_numbers_are_classes(name: str, tmp_path) -> None:
    put(tmp_path, {"refs.csv": f"image,{name},{BOX}\na,3,{ONE}\na,7,{TWO}\n"})
    put(tmp_path, {"preds.csv": f"image,{name},{BOX},score\na,7,{TWO},0.9\na,3,{ONE},0.8\n"})
    cohort = cal.read(tmp_path / "refs.csv", tmp_path / "preds.csv")
    assert cohort.classes == ("3", "7")
    assert cohort.references.label.tolist() == [0, 1]
    assert sorted(cohort.predictions("preds").label.tolist()) == [0, 1]


def test_names_stand_before_numbers(tmp_path) -> None:
    put(tmp_path, {"refs.csv": f"image,class_id,class_name,{BOX}\na,3,polyp,{ONE}\n"})
    assert cal.read(tmp_path / "refs.csv").classes == ("polyp",)


@pytest.mark.parametrize("head", ["image,", "image,class,"])
def test_one_number_is_the_only_class(head: str, tmp_path) -> None:
    cell = "polyp," if "class" in head else ""
    put(tmp_path, {"refs.csv": f"{head}{BOX}\na,{cell}{ONE}\n"})
    put(tmp_path, {"preds.csv": f"image,class_id,{BOX},score\na,0,{ONE},0.9\na,0,{TWO},0.8\n"})
    cohort = cal.read(tmp_path / "refs.csv", tmp_path / "preds.csv")
    assert len(cohort.predictions("preds")) == 2
    assert any("the only number 0 is read" in note for note in cohort.intake.notes)


def test_several_numbers_are_not_one_class(tmp_path) -> None:
    put(tmp_path, {"refs.csv": f"image,{BOX}\na,{ONE}\n"})
    put(tmp_path, {"preds.csv": f"image,class_id,{BOX},score\na,0,{ONE},0.9\na,1,{TWO},0.8\n"})
    with pytest.raises(InputError, match="unknown-category"):
        cal.read(tmp_path / "refs.csv", tmp_path / "preds.csv")


def test_another_number_is_another_class(tmp_path) -> None:
    put(tmp_path, {"refs.csv": f"image,class_id,{BOX}\na,3,{ONE}\n"})
    put(tmp_path, {"preds.csv": f"image,class_id,{BOX},score\na,7,{ONE},0.9\n"})
    with pytest.raises(InputError, match="unknown-category"):
        cal.read(tmp_path / "refs.csv", tmp_path / "preds.csv")
