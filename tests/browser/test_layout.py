"""A page fits its screen: no sideways scroll on a phone, dark where the reader wants it dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from browser.known import every_report
from browser.reading import open_all

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS = (1200, 768, 390, 320)
WIDEST = """() => [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1
        && !e.parentElement.closest('[data-widest]')
        && ![...ancestors(e)].some(a => getComputedStyle(a).overflowX !== 'visible'))
    .slice(0, 3).map(e => e.outerHTML.slice(0, 100))"""
SMALL = """[...document.querySelectorAll('main *')]
    .filter(e => !e.closest('svg, sup, sub, [aria-hidden], .star')
        && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
        && parseFloat(getComputedStyle(e).fontSize) < 10)
    .slice(0, 3).map(e => getComputedStyle(e).fontSize + ' ' + e.outerHTML.slice(0, 99))"""
ANCESTORS = (
    "window.ancestors = function* (e) { while ((e = e.parentElement) && e !== document.body) yield "
    "e; }"
)


def assert_no_sideways_scroll(page: Page) -> None:
    width, screen = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    if width > screen:
        page.evaluate(ANCESTORS)
        raise AssertionError(
            f"{width} px on a screen of {screen}, beyond it: {page.evaluate(WIDEST)}"
        )


@every_report("sideways", half="odd")
def test_there_is_no_sideways_scroll_and_no_text_is_too_small(opened, reports, name):
    page = opened(reports[name])
    for open_first in (lambda page: None, open_all):
        open_first(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            assert_no_sideways_scroll(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(SMALL) == []


def luminance(colour: str) -> float:
    """Return the relative luminance of ``rgb(r, g, b)``, from 0 to 1 (WCAG)."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def paper_and_ink(page: Page) -> tuple[float, float]:
    colours = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
    paper, ink = page.evaluate(colours)
    return luminance(paper), luminance(ink)


@pytest.mark.parametrize("name", ["demo", "empty"])
def test_dark_is_dark_and_light_is_light(opened, reports, name):
    page = opened(reports[name], dark=True)
    paper, ink = paper_and_ink(page)
    assert paper < 0.1
    assert ink > 0.6
    page.emulate_media(color_scheme="light")
    paper, ink = paper_and_ink(page)
    assert paper > 0.9
    assert ink < 0.1


def test_dark_reaches_what_the_browser_draws(opened, reports):
    page = opened(reports["demo"], dark=True)
    assert "dark" in page.evaluate("getComputedStyle(document.documentElement).colorScheme")


@pytest.mark.parametrize(("colour", "light"), [("rgb(255, 255, 255)", 1.0), ("rgb(0, 0, 0)", 0.0)])
def test_luminance(colour, light):
    assert luminance(colour) == pytest.approx(light)
