"""The rules of axe (WCAG and best practices): not one is broken, light and dark,
on a desk and on a phone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from browser.known import RULES, every_report
from browser.reading import open_all

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844}
ROWS = 4
MAIN = ("demo", "grouped")
OF_LAYOUT = ["scrollable-region-focusable", "target-size", "link-in-text-block"]
# The rules of axe, on all of the page or on the texts that stand for their kind.
RUN = """async ([ofKinds, options]) => {
    const context = ofKinds ? window.__kinds : document;
    return (await axe.run(context, {...options, resultTypes: ['violations']})).violations; }"""
# A kind is a chain of tags and classes from the text up to the body; rows are even or odd, because
# a style may tell them apart.
MARK_KINDS = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const numbers = new Map(), texts = new Set();
    while (walk.nextNode()) {
        const text = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || text.closest('script, style')) continue;
        let kind = '';
        for (let e = text; e !== document.body; e = e.parentElement)
            kind += ` ${e.tagName}.${e.getAttribute('class')}` + (e.rowIndex ?? 0) % 2;
        numbers.set(kind, (numbers.get(kind) ?? 0) + 1);
        if (numbers.get(kind) <= 2) texts.add(text);
    }
    window.__kinds = [...texts]; }"""


def violations(page: Page, *, contrast: bool = True, every_text: bool = False) -> list[str]:
    """Return broken rules as ``rule: element: what is wrong``.

    Contrast takes most of the time, and texts in the same place of the same kind of element have
    the same colours (a page has no style attributes), so that two of each kind speak for it.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(Axe().axe_script)
    rules = {"color-contrast": {"enabled": contrast and every_text}}
    broken = page.evaluate(RUN, [False, {"rules": rules}])
    return [*_told(broken), *(pale(page) if contrast and not every_text else [])]


def pale(page: Page) -> list[str]:
    """Return the texts without contrast of a page in which axe has run."""
    page.evaluate(MARK_KINDS)
    return _told(page.evaluate(RUN, [True, {"runOnly": ["color-contrast"]}]))


def _told(broken: list[dict[str, Any]]) -> list[str]:
    return [
        f"{rule['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for rule in broken
        for node in rule["nodes"][:3]
    ]


def shorten(page: Page) -> None:
    """Leave out rows that are like those before them: axe takes its time with every cell."""
    page.evaluate(
        f"for (const row of document.querySelectorAll('tbody tr:nth-child(n+{ROWS + 1})')) "
        f"row.remove()"
    )


def assert_no_rule_is_broken(
    page: Page, *, dark_too: bool = False, phone_too: bool = False, **options: bool
) -> None:
    """Ask all rules; in the dark and on a phone only those about what differs there."""
    open_all(page)
    shorten(page)
    found = violations(page, **options)
    if phone_too:
        page.set_viewport_size(PHONE)
        found += _told(page.evaluate(RUN, [False, {"runOnly": OF_LAYOUT}]))
    if dark_too:
        page.emulate_media(color_scheme="dark")
        found += pale(page)
    broken = [text for text in found if text.split(":")[0] not in RULES]
    assert not broken, "\n".join(broken)


# A run of axe takes two seconds. These three have every part that a report can have.
@every_report("axe", half="none", also=["maps"])
def test_no_rule_is_broken(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name]), phone_too=True, dark_too=True)


# The other rules see the same page on a desk and on a phone, and what is on a page does not depend
# on its colours.
@pytest.mark.slow
@every_report("axe")
def test_no_rule_is_broken_on_a_phone_in_the_dark(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name], dark=True, **PHONE), contrast=name in MAIN)


# The other two pairs of a screen and its colours, of which the tests above see each by itself.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "grouped"])
def test_no_rule_is_broken_otherwise(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name], dark=True))
    assert_no_rule_is_broken(opened(reports[name], **PHONE))


# All texts of a page take three times as long as two of each kind, and say the same.
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@every_report("axe")
def test_every_text_has_contrast(opened, reports, name, dark):
    assert_no_rule_is_broken(opened(reports[name], dark=dark), every_text=True)


PALE = (
    "<!doctype html><html lang=en><title>t</title><style>.pale { color: #aaa }</style>"
    "<main><h1>h</h1><p>dark<p>dark<p>dark<p class=pale>pale</main>"
)


@pytest.mark.parametrize("every_text", [False, True])
def test_a_pale_text_is_found(opened, every_text):
    broken = violations(opened(PALE), every_text=every_text)
    assert [text.split(":")[0] for text in broken] == ["color-contrast"]


def test_a_text_that_is_pale_in_the_dark_is_found(opened):
    dark = "@media (prefers-color-scheme: dark) { body { background: #000 } .pale { color: #333 } "
    style = dark + "main { color: #fff } }</style>"
    page = opened(PALE.replace(".pale { color: #aaa }</style>", style))
    assert violations(page) == []
    with pytest.raises(AssertionError, match="color-contrast"):
        assert_no_rule_is_broken(page, dark_too=True)


def test_a_broken_rule_is_found(opened):
    page = opened(PALE.replace("lang=en", ""))
    assert [text.split(":")[0] for text in violations(page, contrast=False)] == ["html-has-lang"]
