"""The bones of a page, as a screen reader meets them."""

from __future__ import annotations

from itertools import pairwise

from browser.known import every_report
from browser.reading import headings

BARE = (
    "[...document.querySelectorAll('table')].filter(t => !t.caption?.textContent.trim() && "
    "!t.ariaLabel).length"
)
UNTOLD = """[...document.querySelectorAll('figure')]
    .filter(f => !f.querySelector('figcaption')?.textContent.trim()).length"""
SILENT = (
    "[...document.querySelectorAll('figure svg')].filter(s => s.role !== 'img' && "
    "!s.ariaHidden).length"
)


@every_report(of="read", half="even")
def test_headings_are_an_outline(read):
    found = headings(read)
    levels = [level for level, _ in found]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), found
    assert all(text for _, text in found)


@every_report(of="read", half="even")
def test_language_title_and_landmarks(read):
    assert read.locator("html").get_attribute("lang") == "en"
    assert read.title().startswith("Calipers")
    assert read.locator("main").count() == 1
    assert read.locator("main h1").count() + read.locator("header h1").count() >= 1
    assert (
        read.locator("meta[name=viewport]")
        .get_attribute("content")
        .startswith("width=device-width")
    )


@every_report(of="read", half="even")
def test_identifiers_are_unique_and_links_lead_somewhere(read):
    ids = read.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    links = read.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(e => "
        "decodeURIComponent(e.hash.slice(1)))"
    )
    assert set(links) <= set(ids)


@every_report("caption", of="read", half="even")
def test_every_table_and_figure_says_what_it_is(read):
    assert read.evaluate(BARE) == 0
    assert read.evaluate(UNTOLD) == 0
    assert read.evaluate(SILENT) == 0
