"""A table is taken away as CSV: numbers are numbers, names come back as they were, and no
spreadsheet runs them.
"""

from __future__ import annotations

import csv
import io
import math
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.names import HOSTILE
from browser.reading import downloaded, downloaded_csv, open_all, sorted_by
from browser.test_tables import all_numbers, bar_of, table_in
from calipers.evaluation.rename import with_display_names
from calipers.io.tables.table import FORMULA, unprotect
from calipers.report.sections import LONGEST_NAME, NUMBER_COLUMNS
from calipers.show.html import cut
from calipers.show.html import text as escaped

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def csv_of(table: Locator, folder: Path) -> list[list[str]]:
    return downloaded_csv(table.page, bar_of(table).get_by_role("button", name="CSV"), folder)


def is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


@pytest.fixture(scope="module")
def sparse(kept, reports) -> Page:
    """One page for tests that take its tables away and change nothing."""
    return kept(reports["sparse"])


def test_value_and_interval_are_three_columns_of_numbers(sparse, reports, tmp_path):
    evaluation = reports.evaluation("sparse")
    table = table_in(sparse, "#classes table.sheet")
    head, *rows = csv_of(table, tmp_path)
    models = [f"{model}{end}" for model in evaluation.models for end in ("", " low", " high")]
    assert head == ["class", *models, "references"]
    for name, row in zip(evaluation.cohort.classes, rows, strict=True):
        assert row[0] == name
        for k, model in enumerate(evaluation.models):
            e = evaluation.get("AP@0.5", model=model, label=name)
            for cell, value in zip(row[1 + 3 * k :], (e.value, e.low, e.high)):
                assert (
                    cell == ""
                    if math.isnan(value)
                    else float(cell) == pytest.approx(value, rel=1e-5)
                )
        assert int(row[-1]) == evaluation.get("AP@0.5", model="ours", label=name).n_references


def test_summaries_of_groups_are_numbers_too(sparse, reports, tmp_path):
    grouping = reports.evaluation("sparse").groupings[0]
    table = table_in(sparse, "#groups table.groups")
    head, *rows = csv_of(table, tmp_path)
    assert head[:4] == ["group", "ours", "ours low", "ours high"]
    assert [row[0] for row in rows] == [
        "centre 1",
        "centre 2",
        "centre 3",
        "mean of 3 groups",
        "range",
    ]
    summary = grouping.summary("AP@0.5", None, "ours")
    assert float(rows[3][1]) == pytest.approx(summary.mean, rel=1e-5)
    assert rows[3][2:4] == ["", ""]
    assert rows[4][1] == ""
    assert [float(cell) for cell in rows[4][2:4]] == pytest.approx(
        [summary.lowest, summary.highest], rel=1e-5
    )
    assert rows[2][1] == "", "no number, no words in its place"


def test_a_negative_number_is_a_number(opened, reports, tmp_path):
    page = opened(reports["demo"])
    differences = csv_of(page.locator("#table-differences"), tmp_path)
    low = differences[0].index("a − b low")
    assert any(float(row[low]) < 0 for row in differences[1:])
    head, *rows = csv_of(table_in(page, "#methods table"), tmp_path)
    for name in ("value", "bias", "left out"):
        assert all(is_number(row[head.index(name)]) for row in rows)
    assert any(float(row[head.index("bias")]) < 0 for row in rows)


def test_every_table_of_a_report_can_be_taken_away(opened, reports, tmp_path):
    page = opened(reports["grouped"])
    all_numbers(page)
    open_all(page)
    tables = page.locator("main table").all()
    assert len(tables) > 10
    assert page.get_by_role("button", name="CSV", exact=True).count() == len(tables)
    for table in tables[::8]:
        path = downloaded(page, bar_of(table).get_by_role("button", name="CSV"), tmp_path)
        assert (
            path.name
            == f"{table.get_attribute('id') or table.evaluate('t => t.closest(`[id]`).id')}.csv"
        )
        assert path.stat().st_size


def test_only_what_is_filtered_is_taken_in_the_order_that_is_seen(opened, reports, tmp_path):
    table = opened(reports["80 classes"]).locator("#table-classes")
    sorted_by(table, 0)
    sorted_by(table, 0)
    bar_of(table).get_by_role("searchbox").fill("finding 7")
    head, *rows = csv_of(table, tmp_path)
    assert head[0] == "class"
    names = [row[0] for row in rows]
    assert names == [f"finding {k}" for k in range(80, 0, -1) if "7" in str(k)]


def test_all_pages_are_taken_not_only_the_one_that_is_seen(opened, reports, tmp_path):
    evaluation = reports.evaluation("80 classes")
    head, *rows = csv_of(all_numbers(opened(reports["80 classes"])), tmp_path)
    assert head == list(NUMBER_COLUMNS)
    assert len(rows) == len(evaluation.rows)
    assert [row[:2] for row in rows] == [[row.model, row.metric] for row in evaluation.rows]
    assert all(row[k] == "" or is_number(row[k]) for row in rows for k in range(4, 10))


def test_lines_end_as_the_standard_says(sparse, tmp_path):
    table = sparse.locator("#table-classes")
    raw = downloaded(
        table.page, bar_of(table).get_by_role("button", name="CSV"), tmp_path
    ).read_bytes()
    assert raw.endswith(b"\r\n")
    assert raw.count(b"\r\n") == raw.count(b"\n") == 12  # the head, ten classes, all classes


@pytest.fixture(scope="module")
def taken(kept, reports, tmp_path_factory) -> dict[str, str]:
    """The CSV of two tables of the hostile report, as text."""
    folder = tmp_path_factory.mktemp("taken")
    page = kept(reports["hostile"])
    found = {}
    for table in (all_numbers(page), page.locator("#table-classes")):
        path = downloaded(page, bar_of(table).get_by_role("button", name="CSV"), folder)
        found[path.stem] = path.read_bytes().decode("utf-8")
    return found


def parsed(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_hostile_names_come_back_from_all_numbers(taken, reports):
    head, *rows = parsed(taken["all-numbers"])
    assert head == list(NUMBER_COLUMNS)

    def written(name: str | None) -> str:  # half a character cannot be written as UTF-8
        return (
            (name or "")[:LONGEST_NAME]
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
        )

    expected = [
        [row.model, row.metric, row.label]
        for row in with_display_names(reports.evaluation("hostile")).rows
    ]
    assert [[unprotect(cell) for cell in row[:3]] for row in rows] == [
        [written(n) for n in row] for row in expected
    ]
    assert len({row[2] for row in rows}) >= len(HOSTILE)


def test_hostile_names_come_back_from_a_table_as_they_are_shown(taken, reports):
    _, *rows = parsed(taken["table-classes"])
    shown = [
        unescape(escaped(cut(name)))
        for name in with_display_names(reports.evaluation("hostile")).cohort.classes
    ]
    found = [unprotect(row[0]) for row in rows]
    assert [name for name in shown if name not in found] == []


@pytest.mark.parametrize("name", ["all-numbers", "table-classes"])
def test_nothing_that_is_taken_begins_like_a_formula(taken, name):
    rows = parsed(taken[name])
    width = len(rows[0])
    cells = [cell for row in rows for cell in row]
    assert all(len(row) == width for row in rows)
    assert [
        cell
        for cell in cells
        if FORMULA.match(cell) and not cell.startswith("'") and not is_number(cell)
    ] == []
    assert [cell for cell in cells if cell.startswith("'=")], "they are there, and harmless"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_every_sign_that_begins_a_formula_is_disarmed(taken, sign):
    (name,) = [name for name in HOSTILE if name.startswith(sign)][:1]
    cells = {cell for row in parsed(taken["all-numbers"]) for cell in row}
    # Names that look alike have a mark behind them.
    assert any(cell.startswith("'" + name) for cell in cells)
    assert not any(cell.startswith(name) for cell in cells)


def test_quotes_commas_and_line_breaks_survive(taken):
    cells = {cell for row in parsed(taken["all-numbers"]) for cell in row}
    assert {'a "quoted", cell', "line\nbreak", "a,b;c\td", '"""'} <= cells
    assert '"a ""quoted"", cell"' in taken["all-numbers"]
