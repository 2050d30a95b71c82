"""The ways in which the tests read a page, on a page that is known."""

from __future__ import annotations

import pytest

from browser.reading import (
    all_words,
    as_plain,
    column_of,
    downloaded_csv,
    open_all,
    plain,
    rows_of,
    sorted_by,
    words,
)

PAGE = """<!doctype html><html lang=en><title>t</title><h1>h</h1>
<table><caption>c</caption>
<thead><tr><th><button id=sort>name</button><th>value</thead>
<tbody><tr><th>b<td>1<tr><th>a<td>2<tr hidden><th>hidden<td>3</tbody></table>
<details><summary>more</summary><p>closed  words</details>
<button id=take>CSV</button>
<script>
const body = document.querySelector('tbody');
document.querySelector('#sort').onclick = () =>
    body.append(...[...body.rows].sort((a, b) =>
        a.cells[0].innerText < b.cells[0].innerText ? -1 : 1));
document.querySelector('#take').onclick = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(
        new Blob(['\\ufeffname,value\\r\\n"a ""quoted"",\\nname",1\\r\\n']));
    link.download = 'table.csv';
    link.click();
};
</script>"""


def test_rows_are_those_that_are_shown(opened):
    table = opened(PAGE).locator("table")
    assert rows_of(table) == [["b", "1"], ["a", "2"]]
    assert column_of(table, 1) == ["1", "2"]


def test_sorting_presses_the_head(opened):
    table = opened(PAGE).locator("table")
    assert sorted_by(table, 0) == ["a", "b"]
    assert column_of(table, 1) == ["2", "1"]


def test_a_table_is_taken_away_as_csv(opened, tmp_path):
    page = opened(PAGE)
    rows = downloaded_csv(page, page.locator("#take"), tmp_path)
    assert rows == [["name", "value"], ['a "quoted",\nname', "1"]]
    assert (tmp_path / "table.csv").exists()


def test_closed_words_are_read_only_when_opened(opened):
    page = opened(PAGE)
    assert "closed words" not in words(page)
    assert "closed words" in all_words(page)
    assert "onclick" not in all_words(page)
    open_all(page)
    assert "closed words" in words(page)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("a\x00b", "a b"),
        ("\u202ename", "name"),
        ("<b>", "<b>"),
        ("a \n b", "a b"),
        ("x" * 99, "x" * 40),
    ],
)
def test_what_must_be_left_of_a_name(name, left):
    assert plain(name) == left
    assert left in as_plain(f"… {name.replace(chr(0), chr(0xFFFD))} …")
