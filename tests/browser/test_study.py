"""The page of a study in a browser: quiet, accessible, no wider than its screen, printable."""

from __future__ import annotations

import pytest

from browser.opening import PAPER
from browser.test_axe import PHONE, assert_no_rule_is_broken
from browser.test_layout import assert_no_sideways_scroll
from calipers.studies.framework import run_study
from calipers.studies.page import study_page


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> object:
    path = tmp_path_factory.mktemp("study") / "study.html"
    path.write_text(
        study_page(run_study("rodeo", quick=True), ["calipers", "study", "rodeo"]), encoding="utf-8"
    )
    return path


def test_no_rule_of_accessibility_is_broken(opened, study) -> None:
    assert_no_rule_is_broken(opened(study))


def test_the_page_fits_every_screen(opened, study) -> None:
    page = opened(study, dark=True, **PHONE)
    for width in (1280, 768, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert_no_sideways_scroll(page)


def test_the_page_fits_on_paper_and_shows_every_claim(opened, study) -> None:
    page = opened(study, **PAPER, print=True)
    assert_no_sideways_scroll(page)
    assert page.locator(".claims tbody tr").count() == 49


def test_everything_is_there_without_scripts(opened, study) -> None:
    page = opened(study, javascript=False)
    assert page.locator(".study-figure").count() == 12
    assert page.locator(".study-figure svg").first.is_visible()


def test_no_table_of_the_tables_section_scrolls_sideways_on_a_desk(opened, study) -> None:
    page = opened(study, width=1280, height=900)
    wide = page.evaluate(
        "[...document.querySelectorAll('#tables .wide')]"
        ".filter((frame) => frame.scrollWidth > frame.clientWidth + 1)"
        ".map((frame) => frame.getAttribute('aria-label'))"
    )
    assert wide == []


def test_one_row_is_counted_in_the_singular(opened, study) -> None:
    page = opened(study)
    rules = page.locator("#table-rules").locator("xpath=../following-sibling::*[1]")
    assert rules.locator("[role=status]").inner_text() == "1 row"
