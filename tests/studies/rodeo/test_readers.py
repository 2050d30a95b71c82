"""Radiologists as predictors: the trio with the most images, its boxes, and what is missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from calipers.errors import InputError
from calipers.studies.rodeo import readers
from calipers.studies.rodeo.experiments import MEAN_AP, RODEO
from calipers.studies.rodeo.readers import reader_cohorts, reader_table, vindr_table

HEAD = "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max\n"


def written(path: Path, rows: list[str]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.write(HEAD + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = []
    for k in range(30):
        box = f"{10 + k},20,{60 + k},90"
        # R1 is the reference, R2 marks the same, R3 another class on every third image.
        rows += [f"i{k:02d},Mass,0,R1,{box}", f"i{k:02d},Mass,0,R2,{box}"]
        rows.append(f"i{k:02d},{'Nodule' if k % 3 == 0 else 'Mass'},0,R3,{box}")
    rows.append("i00,Nodule,0,R1,5,5,5,40")  # no area
    rows += ["other,No finding,14,R1,,,,", "other,No finding,14,R9,,,,"]
    return written(tmp_path / readers.VINDR, rows)


def test_the_trio_with_the_most_images_is_taken(table: Path) -> None:
    cohorts = reader_cohorts(table, quick=False)
    assert list(cohorts) == ["R1", "R2", "R3"]
    cohort = cohorts["R1"]
    assert cohort.n_images == len(cohort.references) == 30
    assert list(cohort.models) == ["R2", "R3"]
    assert cohort.classes == ("Mass", "Nodule")


def test_the_table_has_both_readers_and_says_who_is_better_by_what(table: Path) -> None:
    result = reader_table(reader_cohorts(table, quick=False), seed=0, quick=True)
    assert [row[:2] for row in result.rows[2:4]] == [("R2", "R1"), ("R2", "R3")]
    rows = {row[1]: dict(zip(result.columns, row)) for row in result.rows if row[0] == "R1"}
    assert rows["R2"]["RoDeO"].value == pytest.approx(1)
    assert rows["R3"]["RoDeO"].value < rows["R2"]["RoDeO"].value
    assert rows["R3"][MEAN_AP].value < rows["R2"][MEAN_AP].value
    assert rows["R3"]["RoDeO"].low < rows["R3"]["RoDeO"].value < rows["R3"]["RoDeO"].high
    # The parts have intervals too.
    assert all(rows["R3"][name].low <= rows["R3"][name].value for name in RODEO)
    assert "Against R1: R2 by RoDeO, mAP@0.1:0.7 and mAP in input order." in result.notes[1]


def test_a_table_that_is_another_one_is_refused(tmp_path: Path) -> None:
    few = written(tmp_path / "few.csv.gz", ["a,Mass,0,R1,1,1,2,2"])
    with pytest.raises(InputError, match="same three readers"):
        reader_cohorts(few, quick=False)
    with gzip.open(tmp_path / "other.csv.gz", "wt") as stream:
        stream.write("image,label\n")
    with pytest.raises(InputError, match=r"(?s)rad_id.*torchxrayvision 1\.5\.7"):
        reader_cohorts(tmp_path / "other.csv.gz", quick=False)


@pytest.mark.parametrize(
    "content", [b"no gzip", b"", gzip.compress(b"image_id")[:-9], gzip.compress(b"\xff\xfe")]
)
def test_a_damaged_table_says_what_to_install(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"torchxrayvision"):
        reader_cohorts(path, quick=False)


def test_corners_that_are_no_numbers_are_refused_with_the_file(tmp_path: Path) -> None:
    rows = [f"a,Mass,0,{reader},one,1,2,2" for reader in ("R1", "R2", "R3")]
    with pytest.raises(InputError, match=r"(?s)words.csv.gz.*force-reinstall torchxrayvision"):
        reader_cohorts(written(tmp_path / "words.csv.gz", rows), quick=False)


def test_without_the_package_a_line_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(readers, "find_spec", lambda name: None)
    assert vindr_table() is None
    assert "pip install --no-deps torchxrayvision==1.5.7" in readers.MISSING
