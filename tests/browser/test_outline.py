"""The bones of a page, as a screen reader meets them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from browser.known import every_report
from browser.reading import headings
from browser.reports import EVERY

BARE = "[...document.querySelectorAll('table')].filter(t => !t.caption?.textContent.trim() && !t.ariaLabel).length"
UNTOLD = """[...document.querySelectorAll('figure')]
    .filter(f => !f.querySelector('figcaption')?.textContent.trim()).length"""
SILENT = "[...document.querySelectorAll('figure svg')].filter(s => s.role !== 'img' && !s.ariaHidden).length"


@pytest.mark.parametrize("name", EVERY)
def test_headings_are_an_outline(opened, reports, name):
    found = headings(opened(reports[name]))
    levels = [level for level, _ in found]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), found
    assert all(text for _, text in found)


@pytest.mark.parametrize("name", EVERY)
def test_language_title_and_landmarks(opened, reports, name):
    page = opened(reports[name])
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.title().startswith("Calipers")
    assert page.locator("main").count() == 1
    assert page.locator("main h1").count() + page.locator("header h1").count() >= 1
    assert page.locator("meta[name=viewport]").get_attribute("content").startswith("width=device-width")


@pytest.mark.parametrize("name", EVERY)
def test_identifiers_are_unique_and_links_lead_somewhere(opened, reports, name):
    page = opened(reports[name])
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(e => decodeURIComponent(e.hash.slice(1)))"
    )
    assert set(links) <= set(ids)


@every_report("caption")
def test_every_table_and_figure_says_what_it_is(opened, reports, name):
    page = opened(reports[name])
    assert page.evaluate(BARE) == 0
    assert page.evaluate(UNTOLD) == 0
    assert page.evaluate(SILENT) == 0
