"""Everything that answers to a mouse answers to a keyboard, in order,
and shows where the reader is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser.reading import INTERACTIVE

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST_STOPS = 1000
# "grouped" has every part of "demo" and more of them; a walk through either takes long.
DEMO = pytest.param("demo", marks=pytest.mark.slow)
AT_ONCE = 20  # keys between two questions: the way to the browser and back takes longer than a key
# The page notes every stop itself: its place in the list of what answers, -1 elsewhere (a
# scroller). What is closed and can be opened by keys (see below) is opened on the way.
NOTE_STOPS = """targets => {
    window.__targets = [...document.querySelectorAll(targets)];
    window.__stops = [];
    addEventListener('focusin', ({target}) => {
        window.__stops.push(window.__targets.indexOf(target));
        if (target.matches('details:not([open]) > summary')) target.parentElement.open = true;
    }); }"""
# A walk takes some hundred stops. In the dark the looks of the focus differ by colours alone, and
# "one model" has every kind of element that can have it.
IN_THE_DARK = pytest.param("grouped", True, marks=pytest.mark.slow)
# Two of each kind: a kind is what stands around it, up to its section.
CLOSED = """() => {
    const kinds = new Map();
    window.__closed = [...document.querySelectorAll('details:not([open]) > summary')].filter(e => {
        const around = e.parentElement.parentElement;
        const kind = [e, e.parentElement, around].map(part => part.tagName + part.className).join()
            + e.closest('section, main').id;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
        return e.checkVisibility() && kinds.get(kind) <= 2; });
    return window.__closed.length; }"""
# Where the focus is, whether it looks otherwise than without it, and whether it is on the screen;
# null at the end of the page and where it has been before.
FOCUS = """() => { const e = document.activeElement, seen = (window.__seen ??= new Set());
    if (e === document.body || seen.has(e)) return null;
    seen.add(e);
    const look = () => { const s = getComputedStyle(e);
        return [s.outlineStyle, s.outlineWidth, s.boxShadow, s.borderColor].join(); };
    const focused = look();
    e.blur();
    const plain = look();
    e.focus({focusVisible: true});
    const box = e.getBoundingClientRect();
    return [e.outerHTML.slice(0, 120), focused !== plain,
        box.width > 0 && box.bottom > 0 && box.top < innerHeight
        && box.right > 0 && box.left < innerWidth]; }"""


def walk(page: Page) -> set[int]:
    """Go through the page by Tab, open what is closed,
    and return the places of `INTERACTIVE` that were reached in one round.
    """
    page.evaluate(NOTE_STOPS, INTERACTIVE)
    for _ in range(MOST_STOPS // AT_ONCE):
        for _ in range(AT_ONCE):
            page.keyboard.press("Tab")
        stops = [place for place in page.evaluate("window.__stops") if place >= 0]
        if len(set(stops)) < len(stops):
            return _first_round(stops)
    raise AssertionError(
        f"more than {MOST_STOPS} stops: the focus is caught, or the page needs a shorter way"
    )


def _first_round(stops: list[int]) -> set[int]:
    """Return the places up to the first that comes again, with which a second round begins."""
    reached: set[int] = set()
    for place in stops:
        if place in reached:
            assert place == stops[0], "the focus is caught within a part of the page"
            break
        reached.add(place)
    return reached


@pytest.mark.parametrize("name", [DEMO, "grouped", "one model", "empty", "undefined"])
def test_tab_reaches_everything(opened, reports, name):
    page = opened(reports[name])
    reached = walk(page)
    missed = page.evaluate(
        """reached => window.__targets
            .filter((e, k) => e.checkVisibility() && !e.disabled && !reached.includes(k)
            && !(e.type === 'radio' && reached.some(k => window.__targets[k].name === e.name)))
            .map(e => e.outerHTML.slice(0, 120))""",
        sorted(reached),
    )
    assert missed == []


@pytest.mark.parametrize(
    ("name", "dark"),
    [
        ("grouped", False),
        ("one model", True),
        IN_THE_DARK,
        pytest.param("demo", False, marks=pytest.mark.slow),
        pytest.param("demo", True, marks=pytest.mark.slow),
    ],
)
def test_the_focus_is_seen(opened, reports, name, dark):
    page = opened(reports[name], dark=dark)
    stops = 0
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        if stop is None:
            break
        where, differs, is_shown = stop
        assert differs, f"focused looks as any other time: {where}"
        assert is_shown, f"focused but not on the screen: {where}"
        stops += 1
    assert stops > 10


def test_the_first_stop_leads_to_the_content(opened, reports):
    page = opened(reports["demo"])
    page.keyboard.press("Tab")
    leads_to = "document.getElementById(document.activeElement.hash?.slice(1))"
    assert page.evaluate(f"{leads_to}?.closest('main') != null")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') != null")


def test_keys_open_and_close_what_is_closed(opened, reports):
    page = opened(reports["demo"])
    number = page.evaluate(CLOSED)
    assert number > 5
    is_open = "k => { const e = window.__closed[k]; e.focus(); return e.parentElement.open; }"
    for key in ("Enter", "Space"):
        for k in range(number):
            assert not page.evaluate(is_open, k)
            page.keyboard.press(key)
            assert page.evaluate(is_open, k)
            page.keyboard.press(key)
        assert not any(page.evaluate(is_open, k) for k in range(number))


@pytest.mark.parametrize("name", ["demo", "grouped", "one model"])
def test_only_elements_made_for_it_are_pressed(opened, reports, name):
    page = opened(reports[name])
    assert (
        page.locator(
            "[role=button]:not(button), [role=link]:not(a), [role=checkbox]:not(input)"
        ).count()
        == 0
    )
    assert page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").count() == 0, (
        "the order is the text's"
    )
    assert page.locator("[accesskey]").count() == 0
