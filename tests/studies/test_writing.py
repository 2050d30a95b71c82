"""The folder of a study: complete or not there at all."""

from __future__ import annotations

import json

import pytest

from calipers.errors import InputError
from calipers.show.table import Table
from calipers.studies.framework import StudyFigure
from calipers.studies.page import write_study
from studies.study_cases import small_result

FILES = {
    "study.html",
    "study.json",
    "claims.csv",
    "table-1.csv",
    "figure-1.csv",
    "figure-1a.svg",
    "figure-1b.svg",
    "figure-side.csv",
    "figure-side.svg",
}


def test_the_folder_has_page_document_figures_and_tables(tmp_path) -> None:
    page = write_study(small_result(), tmp_path / "out", command=["calipers", "study"])
    assert page == tmp_path / "out" / "study.html"
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    document = json.loads((tmp_path / "out" / "study.json").read_text())
    assert set(document["files"]) == FILES
    assert document["command"] == ["calipers", "study"]


def test_figures_are_pdf_too_if_matplotlib_is_there_and_the_run_is_for_citing(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    figure = small_result().figures[1]
    write_study(small_result(quick=False, figures=(figure,)), tmp_path / "out")
    assert (tmp_path / "out" / "figure-side.pdf").read_bytes().startswith(b"%PDF")


def test_a_folder_that_holds_something_is_refused(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="output-exists"):
        write_study(small_result(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_force_replaces_an_earlier_study_and_nothing_else(tmp_path) -> None:
    for name in ("notes.txt", "figure-9.svg", "table-9.csv", "figure of mine.svg"):
        (tmp_path / name).write_text("old")
    write_study(small_result(), tmp_path, force=True)
    assert {file.name for file in tmp_path.iterdir()} == FILES | {"notes.txt", "figure of mine.svg"}
    assert (tmp_path / "notes.txt").read_text() == "old"


def test_a_failure_leaves_nothing_behind(tmp_path) -> None:
    broken = StudyFigure("figure-2", "t", "c", (None,))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        write_study(
            small_result(figures=(*small_result().figures, broken)), tmp_path / "new" / "out"
        )
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_an_input_receives_nothing(tmp_path) -> None:
    (tmp_path / "boxes.csv").write_text("a")
    inputs = ({"file": str(tmp_path / "boxes.csv"), "bytes": 1, "sha256": ""},)
    with pytest.raises(InputError, match="output-in-input"):
        write_study(small_result(inputs=inputs), tmp_path, force=True)


def test_tables_without_rows_keep_their_head() -> None:
    assert Table(("a", "b"), ()).to_csv() == "a,b\n"
    assert Table(("a", "b"), (("=x", None), ("y", 0.5))).to_csv() == "a,b\n'=x,\ny,0.5\n"
