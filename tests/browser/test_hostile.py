"""A hundred hostile names are text: nothing is made of them, nothing runs,
and a reader sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser.names import HIT, HOSTILE
from browser.reading import all_words, as_plain, open_all, plain

if TYPE_CHECKING:
    from playwright.sync_api import Page

# What a page may be built of. Whatever else appears was made of a name.
STRUCTURE = (
    "html head meta title style script body header nav main section article footer div p span"
)
TEXT = (
    "h1 h2 h3 h4 a ul ol li dl dt dd pre code details summary strong em small sup sub abbr cite br "
    "hr time noscript"
)
TABLES = (
    "table caption colgroup col thead tbody tfoot tr th td figure figcaption button input label "
    "select option output dialog fieldset legend"
)
DRAWN = (
    "img svg g path line rect circle ellipse polyline polygon text tspan defs clippath pattern use "
    "desc symbol image"
)
KNOWN = set(f"{STRUCTURE} {TEXT} {TABLES} {DRAWN}".split())


def test_there_are_a_hundred():
    assert len(HOSTILE) >= 100
    assert max(map(len, HOSTILE)) > 1_000_000


@pytest.fixture(scope="module")
def page(kept, reports) -> Page:
    """One page for all tests that only read it or touch it."""
    return kept(reports["hostile"])


def unseen(page: Page) -> list[str]:
    shown = as_plain(all_words(page))
    return [name for name in HOSTILE if plain(name) not in shown]


def test_every_name_is_shown_as_text(page):
    page.evaluate(
        "dispatchEvent(new Event('beforeprint'))"
    )  # tables show all rows, not a page of them
    assert unseen(page) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")


def test_every_name_is_shown_as_text_without_script(opened, reports):
    assert unseen(opened(reports["hostile"], javascript=False)) == []


def test_nothing_is_made_of_a_name(page, reports):
    open_all(page)
    found = page.evaluate(
        "[...new Set([...document.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))]"
    )
    assert set(found) <= KNOWN
    handlers = (
        "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(a => "
        "a.startsWith('on'))"
    )
    assert page.evaluate(handlers) == []
    assert page.locator("[style]").count() == 0
    links = page.evaluate(
        "[...document.querySelectorAll('[href], [src]')].map(e => e.href?.baseVal ?? e.href ?? "
        "e.src)"
    )
    own = reports["hostile"].as_uri() + "#"
    assert [
        link
        for link in links
        if not link.startswith((own, "#", "data:image/", "blob:", "https://doi.org/"))
    ] == []


def test_no_more_scripts_and_styles_than_in_a_usual_report(page, opened, reports):
    own = """[[...document.scripts].filter(s => s.type !== 'application/json')
            .map(s => s.textContent),
        [...document.querySelectorAll('style')].map(s => s.textContent)]"""
    assert page.evaluate(own) == opened(reports["demo"]).evaluate(own)


def test_nothing_runs_even_if_everything_is_touched(page):
    open_all(page)
    page.evaluate(
        """for (const target of document.querySelectorAll('h1, caption, th, summary, button'))
            for (const name of ['mouseover', 'focus'])
                target.dispatchEvent(new Event(name, {bubbles: name === 'mouseover'}))"""
    )
    assert page.evaluate("window.__hit") is None


def test_the_payloads_would_run_where_they_are_not_escaped(opened):
    page = opened(f"<!doctype html><html lang=en><title>t</title><p>{HOSTILE[0]}", strict=False)
    assert HIT in HOSTILE[0]
    assert page.evaluate("window.__hit") == 1


def test_the_direction_of_the_text_around_a_name_stays(page):
    text = all_words(page)
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e"), (
        "embeddings and overrides reach beyond their name"
    )


def test_one_long_name_does_not_make_the_page_long(reports):
    text = reports["hostile"].read_text(encoding="utf-8")
    assert text.count("m" * 1000) <= 2
