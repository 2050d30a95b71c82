"""A folder of parquet files is one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal

NAMES = ("image", "class", "x0", "y0", "x1", "y1")
ROWS = [
    ("a", "cat", 0.0, 0.0, 10.0, 10.0),
    ("a", "dog", 20.0, 0.0, 30.0, 10.0),
    ("b", "cat", 5.0, 5.0, 15.0, 15.0),
    ("c", "dog", 0.0, 0.0, 8.0, 8.0),
]


def write(path: Path, rows: list[Any], **extra: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, **extra}), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """References in two files below folders of centres, as Spark writes them."""
    write(tmp_path / "refs" / "centre=North%20End" / "part-0.parquet", ROWS[:3])
    write(tmp_path / "refs" / "centre=South" / "part-0.parquet", ROWS[3:])
    (tmp_path / "refs" / "_SUCCESS").touch()
    write(tmp_path / "preds" / "p1.parquet", ROWS[:1], score=[0.9])
    write(tmp_path / "preds" / "p2.parquet", ROWS[1:], score=[0.8, 0.7, 0.6])
    return tmp_path


def test_parts_are_read_as_one_table(folder: Path, tmp_path: Path) -> None:
    cohort = cal.read(folder / "refs", folder / "preds")
    write(tmp_path / "refs.parquet", ROWS)
    write(tmp_path / "preds.parquet", ROWS, score=[0.9, 0.8, 0.7, 0.6])
    whole = cal.read(tmp_path / "refs.parquet", tmp_path / "preds.parquet")
    assert cohort.images.ids == whole.images.ids == ("a", "b", "c")
    assert (cohort.references.boxes == whole.references.boxes).all()
    assert (cohort.models["preds"].score == whole.models["preds"].score).all()
    assert cohort.images.groups["centre"].tolist() == ["North End", "North End", "South"]
    assert "2 parquet files are read as one table" in " ".join(cohort.intake.notes)
    assert cal.evaluate(cohort, "overview", ci=False)["F1@0.5"].value == 1


def test_an_error_names_the_part_and_its_row(folder: Path) -> None:
    write(folder / "preds" / "p3.parquet", [("a", "cat", 9.0, 9.0, 1.0, 1.0)], score=[0.5])
    with pytest.raises(cal.InputError, match=r"p3\.parquet 0:\d"):
        cal.read(folder / "refs", folder / "preds")


def test_parts_with_other_columns_are_refused(folder: Path) -> None:
    write(folder / "preds" / "p3.parquet", ROWS[:1])
    with pytest.raises(
        cal.InputError, match=r"p3\.parquet.*columns of p1\.parquet.*no column score"
    ):
        cal.read(folder / "refs", folder / "preds")


def test_the_content_of_every_part_is_hashed(folder: Path) -> None:
    before = cal.read(folder / "refs", folder / "preds").intake.files[1].sha256
    write(folder / "preds" / "p1.parquet", ROWS[:1], score=[0.8])
    assert cal.read(folder / "refs", folder / "preds").intake.files[1].sha256 != before
