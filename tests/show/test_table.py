"""One table in all its forms: the same cells, said in the same way."""

from __future__ import annotations

import csv
import io
import math
from html.parser import HTMLParser

import pytest
from rich.console import Console

from calipers.results.estimate import Estimate
from calipers.show.html import table_block
from calipers.show.table import LATEX_SIGNS, Amount, Table, cell_text
from calipers.show.terminal import print_tables
from calipers.show.words import MARKS

NAN = math.nan


def estimate(
    value: float,
    low: float = NAN,
    high: float = NAN,
    reason: str | None = None,
    flags: tuple[str, ...] = (),
) -> Estimate:
    return Estimate(value, low, high, 0.95, "t", "patient", 4, 9, 8, 7, 0.0, 0, reason, flags=flags)


TABLE = Table(
    ("class", "ours", "theirs", "n"),
    (
        ("mass", estimate(0.51234, 0.4, 0.6), estimate(0.4, 0.3, 0.5, flags=("on_bound",)), 12),
        ("no_dule", estimate(NAN, reason="no_references"), estimate(0.3), 0),
    ),
    title="AP per class",
    notes=("n: references.",),
    summary=(("mean", Amount(0.51234, "SD 0.100"), Amount(NAN, low=0.3, high=0.4), None),),
    name="table-ap",
    kinds=("name", "value", "value", "count"),
    best=frozenset({(0, 1)}),
    series="model",
)


def printed(table: Table, width: int = 200) -> str:
    file = io.StringIO()
    print_tables([table], Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (None, "value", ""),
        ("a", "name", "a"),
        (0.12345, "value", "0.123"),
        (0.12345, "number", "0.1235"),
        (0.012, "signed", "+0.012"),
        (0.052, "share", "5.2 %"),
        (0.0001, "p", "< 0.001"),
        (3.0, "whole", "3"),
        (1234, "count", "1234"),
        (NAN, "value", ""),
        (estimate(0.5, 0.4, 0.6), "value", "0.500 [0.400, 0.600]"),
        (estimate(0.5, 0.4, 0.6), "signed", "+0.500 [+0.400, +0.600]"),
        (estimate(0.5, reason="too_few_units"), "value", "0.500 (too few patients)"),
        (estimate(NAN, reason="no_references"), "value", "no references"),
        (Amount(0.5, "SD 0.1"), "value", "0.500 (SD 0.1)"),
        (Amount(NAN, low=0.1, high=0.2), "value", "0.100 to 0.200"),
    ],
)
def test_a_cell_is_said_by_its_kind(cell, kind, text: str) -> None:
    assert str(cell_text(cell, kind)) == text


def test_kinds_follow_from_the_cells() -> None:
    table = Table(("a", "b", "c", "d"), (("x", "words", 0.5, 3),))
    assert table.column_kinds() == ("name", "text", "number", "count")


def test_notes_explain_marks_and_missing_values() -> None:
    notes = TABLE.all_notes()
    assert notes[0] == "n: references."
    assert any(note.startswith("‡ ") for note in notes)
    assert "no references" in notes[-1]


def test_csv_has_all_digits_and_bounds_and_reasons() -> None:
    head, mass, nodule, mean = csv.reader(io.StringIO(TABLE.to_csv()))
    assert head[:5] == ["class", "ours", "ours low", "ours high", "ours undefined because"]
    assert mass == ["mass", "0.51234", "0.4", "0.6", "", "0.4", "0.3", "0.5", "12"]
    assert nodule[4] == "no references"
    assert mean[0] == "mean"


def test_csv_keeps_columns_of_the_same_name() -> None:
    assert Table(("a", "a"), ((1, 2),)).to_csv() == "a,a (2)\n1,2\n"
    assert Table(("a", "b"), ()).to_csv() == "a,b\n"


def test_markdown() -> None:
    assert TABLE.to_markdown().splitlines()[:6] == [
        "**AP per class**",
        "",
        "| class | ours | theirs | n |",
        "|:--|--:|--:|--:|",
        r"| mass | **0.512 \[0.400, 0.600\]** | 0.400 \[0.300, 0.500\]‡ | 12 |",
        r"| no\_dule | no references | 0.300 | 0 |",
    ]


def test_latex_can_print_every_mark() -> None:
    # A sign that LaTeX does not know stops it.
    for mark in MARKS.values():
        assert LATEX_SIGNS.get(mark, mark).isascii(), mark


def test_latex() -> None:
    text = TABLE.to_latex(label="tab:ap")
    assert r"mass & \textbf{0.512 [0.400, 0.600]} & 0.400 [0.300, 0.500]\ddag{} & 12 \\" in text
    assert r"no\_dule & no references & 0.300 & 0 \\" in text
    assert r"\begin{tabular}{lrrr}" in text
    assert r"\label{tab:ap}" in text
    for left, right in (("\\begin{table}", "\\end{table}"), ("{", "}")):
        assert text.count(left) == text.count(right)


@pytest.mark.parametrize(
    "name", ["a|b", "a&b", "50%_$x", "{", "\\", "<b>", "[x]", "a\nb", "\x1b[2J"]
)
def test_no_name_breaks_a_form(name: str) -> None:
    table = Table((name, "v"), ((name, 1),), title=name, notes=(name,))
    lines = table.to_markdown().splitlines()
    assert lines[-3].replace(r"\|", "").count("|") == 3
    for text in (table.to_latex(), table.to_markdown(), printed(table)):
        assert "\x1b" not in text
    body = [line for line in table.to_latex().splitlines() if line.endswith(r"\\")]
    assert [line.replace(r"\&", "").count("&") for line in body] == [1, 1]


def test_a_terminal_shows_summaries_last_and_a_line_per_model_if_it_is_narrow() -> None:
    wide = printed(TABLE).splitlines()
    assert wide[0] == "AP per class"
    assert any("0.512 [0.400, 0.600]" in line and "‡" in line for line in wide)
    file = io.StringIO()
    print_tables([TABLE], Console(file=file, width=50, force_terminal=True, color_system=None))
    narrow = file.getvalue()
    assert "model" in narrow
    assert narrow.index("theirs") < narrow.index("mean")


class Cells(HTMLParser):
    """Collects the attributes of the cells of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.cells.append(dict(attrs))


def test_a_page_can_sort_and_save_the_numbers() -> None:
    parser = Cells()
    text = table_block(TABLE)
    parser.feed(text)
    first, second = parser.cells[:2]
    assert first == {"class": "best", "data-v": "0.51234", "data-low": "0.4", "data-high": "0.6"}
    assert second["data-v"] == "0.4"
    assert 'class="over"' in text
    assert 'id="table-ap"' in text


def test_the_first_rows_say_where_the_others_are() -> None:
    table = Table(("a",), tuple((k,) for k in range(5)), title="t", summary=(("all",),))
    short = table.first(2, all_in="x.csv")
    assert short.title == "t (the first 2 of 5 rows; x.csv has all)"
    assert (short.rows, short.summary) == (((0,), (1,)), (("all",),))
