"""Tables answer: they sort, filter and turn their pages, by mouse and by keys,
and show all on paper.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from browser.reading import column_of, open_all, rows_of, sorted_by

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PAGE = 25  # rows
BEFORE, AFTER = (f"dispatchEvent(new Event('{name}'))" for name in ("beforeprint", "afterprint"))


def table_in(page: Page, selector: str) -> Locator:
    """Return the first such table, whatever was closed around it opened."""
    open_all(page)
    return page.locator(selector).first


def bar_of(table: Locator) -> Locator:
    """Return filter, buttons and count of a table, which stand before or after it."""
    frame = table.locator("xpath=ancestor::div[contains(@class, 'wide')]")
    return frame.locator(
        "xpath=preceding-sibling::*[1][contains(@class, 'bar')] | "
        "following-sibling::div[contains(@class, 'bar')][1]"
    ).first


def count_of(table: Locator) -> str:
    return bar_of(table).locator("[role=status]").inner_text()


def press(table: Locator, name: str) -> None:
    bar_of(table).get_by_role("button", name=name, exact=True).click()


def all_numbers(page: Page) -> Locator:
    table = page.locator("#all-numbers")
    table.wait_for()  # its rows are unpacked first
    return table


def every_row(table: Locator) -> list[list[str]]:
    """Return the rows of all pages of a table that is at its first."""
    found = rows_of(table)
    forward = bar_of(table).get_by_role("button", name="Next")
    while forward.is_enabled():
        forward.click()
        found += rows_of(table)
    return found


def in_class_table(reports, metric: str, model: str) -> dict[str, float]:
    evaluation = reports.evaluation("sparse")
    return {
        name: float(evaluation.get(metric, model=model, label=name))
        for name in evaluation.cohort.classes
    }


@pytest.fixture(scope="module")
def sparse(kept, reports) -> Page:
    """One page for tests that do not care for the order of rows that they find."""
    return kept(reports["sparse"])


@pytest.fixture
def classes(sparse) -> Locator:
    """A row per class, a column per model; the last class has no number. All rows are shown,
    ordered by the last column, so that a first press on any other is its first.
    """
    table = table_in(sparse, "#classes table.sheet")
    bar_of(table).get_by_role("searchbox").fill("")
    sorted_by(table, 3)
    return table


def test_the_first_press_puts_the_largest_number_first_and_the_second_turns_it_round(
    classes, reports
):
    values = in_class_table(reports, "AP@0.5", "ours")
    defined = sorted((value for value in values.values() if not math.isnan(value)), reverse=True)
    undefined = [name for name, value in values.items() if math.isnan(value)]
    assert len(set(defined)) > 2
    assert undefined
    for expected in (defined, defined[::-1]):
        sorted_by(classes, 1)
        names = column_of(classes, 0)
        assert [values[name] for name in names[: len(defined)]] == pytest.approx(expected)
        assert names[len(defined) :] == undefined, (
            "what is undefined stays last, whatever the order"
        )


def test_names_are_sorted_as_a_reader_counts(classes):
    forward = [f"finding {k + 1}" for k in range(10)]  # 10 after 9, not after 1
    assert sorted_by(classes, 0) == forward
    assert sorted_by(classes, 0) == forward[::-1]


def test_the_order_is_said_in_one_column_only(opened, reports):
    classes = table_in(opened(reports["sparse"]), "#classes table.sheet")
    said = "table => [...table.tHead.rows[0].cells].map(cell => cell.getAttribute('aria-sort'))"
    assert classes.evaluate(said) == [None] * 4
    sorted_by(classes, 1)
    assert classes.evaluate(said) == [None, "descending", None, None]
    sorted_by(classes, 1)
    assert classes.evaluate(said) == [None, "ascending", None, None]
    sorted_by(classes, 0)
    assert classes.evaluate(said) == ["ascending", None, None, None]


def test_an_arrow_is_seen_beside_the_name(classes):
    sorted_by(classes, 1)
    arrow = "button => getComputedStyle(button, '::after').content"
    buttons = classes.locator("thead button")
    assert "\u2193" in buttons.nth(1).evaluate(arrow)
    assert buttons.nth(0).evaluate(arrow) in ("none", "normal")


def test_keys_sort_too(classes):
    head = classes.locator("thead th").nth(0)
    head.locator("button").focus()
    for key, order in (
        ("Enter", "ascending"),
        ("Enter", "descending"),
        ("Space", "ascending"),
        ("Space", "descending"),
    ):
        classes.page.keyboard.press(key)
        assert head.get_attribute("aria-sort") == order
        assert head.locator("button").evaluate("button => button === document.activeElement")
    assert column_of(classes, 0)[0] == "finding 10"


def test_summaries_of_groups_stay_last(sparse):
    table = table_in(sparse, "#groups table.groups")
    for column in range(4):
        for _ in range(2):
            sorted_by(table, column)
            assert column_of(table, 0)[-2:] == ["mean of 3 groups", "range"]
            assert table.locator("tbody tr.over").count() == 2
        if column in (1, 2):
            assert column_of(table, 0)[2] == "centre 3", (
                "undefined: after the numbers, before the summaries"
            )


def test_the_total_of_all_classes_stays_last(sparse):
    table = sparse.locator("#table-classes")
    for _ in range(2):
        sorted_by(table, 1)
        assert column_of(table, 0)[-1] == "all classes"


def test_words_narrow_the_rows(classes):
    assert count_of(classes) == "10 rows"
    box = bar_of(classes).get_by_role("searchbox")
    box.fill("FINDING 1")  # both words, in any case
    assert column_of(classes, 0) == ["finding 1", "finding 10"]
    assert count_of(classes) == "2 of 10 rows"
    box.fill("  10   finding ")
    assert column_of(classes, 0) == ["finding 10"]
    assert count_of(classes) == "1 of 10 rows"
    box.fill("no such word")
    assert rows_of(classes) == []
    assert count_of(classes) == "0 of 10 rows"
    box.fill("")
    assert len(rows_of(classes)) == 10
    assert count_of(classes) == "10 rows"


def test_an_order_outlives_a_filter(classes):
    sorted_by(classes, 0)
    sorted_by(classes, 0)
    bar_of(classes).get_by_role("searchbox").fill("finding 1")
    assert column_of(classes, 0) == ["finding 10", "finding 1"]


def test_a_filter_says_which_table_it_is_of(sparse):
    all_numbers(sparse)
    labels = sparse.locator("input[type=search]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    assert labels
    assert all(
        label.startswith("Filter rows of ") and not label.endswith(" table") for label in labels
    )


def test_pages_are_turned(opened, reports):
    table = opened(reports["80 classes"]).locator("#table-classes")
    names = [*reports.evaluation("80 classes").cohort.classes, "all classes"]
    back, forward = (
        bar_of(table).get_by_role("button", name=name) for name in ("Previous", "Next")
    )
    seen = []
    for start in range(0, len(names), PAGE):
        assert column_of(table, 0) == names[start : start + PAGE]
        assert count_of(table) == f"{start + 1} to {min(start + PAGE, 81)} of 81 rows"
        assert back.is_disabled() is (start == 0)
        assert forward.is_disabled() is (start + PAGE >= 81)
        seen.append(start)
        if forward.is_enabled():
            forward.click()
    assert len(seen) == 4
    for start in seen[-2::-1]:
        back.click()
        assert column_of(table, 0) == names[start : start + PAGE]


def test_a_new_order_and_a_filter_begin_at_the_first_page(opened, reports):
    table = opened(reports["80 classes"]).locator("#table-classes")
    press(table, "Next")
    sorted_by(table, 0)
    assert count_of(table) == "1 to 25 of 81 rows"
    assert column_of(table, 0)[0] == "finding 1"
    press(table, "Next")
    bar_of(table).get_by_role("searchbox").fill("7")
    assert count_of(table) == "1 to 17 of 17 of 81 rows"
    assert len(column_of(table, 0)) == 17  # 7, 17 to 67, and 70 to 79


def test_all_numbers_are_those_of_the_evaluation_and_sorted_filtered_and_paged(opened, reports):
    evaluation = reports.evaluation("sparse")
    table = all_numbers(opened(reports["sparse"]))
    assert count_of(table) == f"1 to 25 of {len(evaluation.rows)} rows"
    found = every_row(table)
    assert len(found) == len(evaluation.rows)
    for row, cells in zip(evaluation.rows, found):
        e, group = row.estimate, row.group or {}
        assert cells[:4] == [
            row.model,
            row.metric,
            row.label or "",
            ", ".join(f"{k} {v}" for k, v in group.items()),
        ]
        for shown, value in zip(cells[4:7], (e.value, e.low, e.high)):
            assert (
                shown == "" if math.isnan(value) else float(shown) == pytest.approx(value, rel=1e-3)
            )
        assert [int(cell) for cell in cells[7:10]] == [e.n_units, e.n_references, e.n_predictions]
    rows = evaluation.rows
    sorted_by(table, 4)
    defined = sorted(
        (r.estimate.value for r in rows if not math.isnan(r.estimate.value)), reverse=True
    )
    shown = [row[4] for row in every_row(table)]
    assert [float(value) for value in shown[: len(defined)]] == pytest.approx(defined, rel=1e-3)
    assert set(shown[len(defined) :]) == {""}
    bar_of(table).get_by_role("searchbox").fill("theirs AP@0.5 finding")
    wanted = [r for r in rows if r.model == "theirs" and r.metric == "AP@0.5" and r.label]
    assert count_of(table).endswith(f"{len(wanted)} of {len(rows)} rows")
    assert {(row[0], row[1]) for row in every_row(table)} == {("theirs", "AP@0.5")}


def test_all_numbers_of_80_classes_are_sorted_at_once(opened, reports):
    buttons = all_numbers(opened(reports["80 classes"])).locator("thead button")
    took = (
        "button => { const start = performance.now(); button.click(); return performance.now() - "
        "start; }"
    )
    for column in (0, 2, 4, 10):
        assert min(buttons.nth(column).evaluate(took) for _ in range(3)) < 200  # ms


def test_signs_that_nobody_sees_are_shown_as_one_that_is_seen(opened, reports):
    table = all_numbers(opened(reports["hostile"]))
    for word in ("isolate", "right to left"):
        bar_of(table).get_by_role("searchbox").fill(word)
        names = {name for row in rows_of(table) for name in row if word in name}
        assert names
        assert all(
            "\ufffd" in name and not set(name) & set("\u202c\u202e\u2066\u2067\u2069")
            for name in names
        )


def test_paper_shows_all_rows_of_a_table_of_bearable_length(opened, reports):
    page = opened(reports["80 classes"])
    table = page.locator("#table-classes")
    press(table, "Next")
    page.evaluate(BEFORE)
    assert len(rows_of(table)) == 81
    page.evaluate(AFTER)
    assert count_of(table) == "26 to 50 of 81 rows"
    assert len(rows_of(table)) == PAGE


def test_paper_says_where_rows_are_left_out(opened, reports):
    page = opened(reports["80 classes"], print=True)
    long, short = all_numbers(page), page.locator("#table-classes")
    page.evaluate(BEFORE)
    assert len(rows_of(long)) == PAGE
    assert bar_of(long).locator("[role=status]").is_visible()
    assert count_of(long) == f"1 to 25 of {len(reports.evaluation('80 classes').rows)} rows"
    assert not bar_of(long).get_by_role("button").first.is_visible()
    assert not bar_of(short).is_visible(), "nothing is left out"
