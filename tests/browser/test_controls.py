"""What else a page does: copies its methods, skips to the answer, opens, closes,
and is large enough for fingers.
"""

from __future__ import annotations

import pytest

from browser.reading import INTERACTIVE, open_all
from browser.test_axe import PHONE

SMALLEST = 24  # px, WCAG 2.5.8
# A box with its label is one target; a link within a sentence is as high as its line.
SMALL = f"""[...document.querySelectorAll("{INTERACTIVE}")]
    .filter(e => e.checkVisibility() && !e.matches('.skip, .wide'))
    .filter(e => !(e.tagName === 'A' && getComputedStyle(e).display === 'inline'
        && [...e.parentElement.childNodes].some(n => n.nodeType === 3 && n.data.trim())))
    .map(e => [e, (e.type === 'checkbox' ? e.closest('label') : e).getBoundingClientRect()])
    .filter(([, at]) => Math.min(at.width, at.height) < {SMALLEST} - 0.01)
    .map(([e, at]) => `${{at.width}} x ${{at.height}} ${{e.outerHTML.slice(0, 90)}}`)"""
INK = """[...document.querySelectorAll('svg.fig')]
    .flatMap(svg => [0, 1, 2].map(k => svg.querySelector('.fig-s' + k)))
    .filter(Boolean).map(e => getComputedStyle(e).stroke)"""


def test_the_methods_are_copied_with_their_citations(opened, reports):
    page = opened(reports["demo"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy text and citations")
    button.click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n")
    words, _, cited = copied.partition("\n\n")
    assert words == page.locator("#methods-text").text_content()
    listed = page.locator(".citations li").all_text_contents()
    assert cited.split("\n") == [f"{k + 1}. {entry}" for k, entry in enumerate(listed)]
    assert len(listed) > 3


def test_where_copying_is_forbidden_the_text_is_selected_and_the_button_says_so(opened, reports):
    page = opened(reports["demo"])
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); }"
    )
    page.get_by_role("button", name="Copy text and citations").click()
    page.get_by_role("button", name="Not allowed to copy").wait_for()
    assert page.evaluate("getSelection().toString()") == page.locator("#methods-text").inner_text()


def test_the_skip_link_is_seen_when_it_is_reached_and_leads_to_the_answer(opened, reports):
    page = opened(reports["demo"], height=300)
    link = page.locator("a.skip")
    assert link.bounding_box()["x"] < 0
    page.keyboard.press("Tab")
    assert link.evaluate("e => e === document.activeElement")
    assert link.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    assert page.locator("#content .verdict").evaluate(
        "e => e.getBoundingClientRect().top < innerHeight"
    )
    assert link.bounding_box()["x"] < 0


@pytest.mark.parametrize("javascript", [True, False], ids=["script", "no-script"])
def test_numbers_of_a_figure_open_and_close(opened, reports, javascript):
    page = opened(reports["demo"], javascript=javascript)
    for summary in page.locator("figure summary").all()[:3]:
        table = summary.locator("xpath=..").locator("table")
        assert table.is_hidden()
        summary.click()
        assert table.is_visible()
        assert table.locator("tbody tr").count() > 0
        summary.click()
        assert table.is_hidden()


def test_series_of_figures_are_lighter_in_the_dark(opened, reports):
    page = opened(reports["demo"])
    light = page.evaluate(INK)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(INK)
    assert len(light) == len(dark) > 10
    assert all(day != night for day, night in zip(light, dark))
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(INK) == light, "paper is white for all"


@pytest.mark.parametrize("name", ["with pictures", "grouped", "80 classes"])
def test_everything_that_is_pressed_is_large_enough_for_a_finger(opened, reports, name):
    page = opened(reports[name], **PHONE)
    page.locator("#all-numbers").wait_for()
    open_all(page)
    assert page.evaluate(SMALL) == []
    if name != "with pictures":
        return
    page.locator(".enlarge").first.click()
    assert page.locator(".viewer").is_visible()
    assert (
        page.evaluate(
            SMALL.replace('querySelectorAll("', 'querySelector(".viewer").querySelectorAll("')
        )
        == []
    )
