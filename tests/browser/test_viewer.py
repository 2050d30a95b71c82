"""A picture is enlarged: opened and closed by mouse and keys, zoomed and moved,
never beyond its edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from browser.opening import Opener
from browser.reading import open_all
from browser.test_axe import PHONE, violations

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PICTURE = ".viewer .stage svg"
FOCUSED = "e => e === document.activeElement"
RESET = """() => {
    for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
    document.activeElement.blur();
    scrollTo(0, 0); }"""


@pytest.fixture(scope="module")
def album(windows, reports, tmp_path_factory) -> Iterator[Page]:
    """The page with pictures, opened once: it is the largest of all."""
    opener = Opener(windows, tmp_path_factory.mktemp("album"))
    yield opener(reports["with pictures"])
    assert opener.close() == [], "the page was not quiet"


@pytest.fixture
def page(album) -> Iterator[Page]:
    """The page as a reader opens it: nothing enlarged, nothing in focus, at its top."""
    album.set_viewport_size({"width": 1200, "height": 900})
    yield album
    album.evaluate(RESET)
    album.mouse.move(0, 0)


@pytest.fixture
def viewer(page) -> Locator:
    """The viewer, with the first picture in it."""
    page.locator(".enlarge").first.click()
    return page.get_by_role("dialog")


def box_of(page: Page) -> list[float]:
    """Return x, y, width and height of the part of the picture that is shown, in its pixels."""
    return [float(part) for part in page.locator(PICTURE).get_attribute("viewBox").split()]


def button(viewer: Locator, name: str) -> Locator:
    return viewer.get_by_role("button", name=name)


def assert_within(page: Page, whole: list[float]) -> None:
    x, y, width, height = box_of(page)
    assert 0 <= x <= whole[2] - width + 1e-6
    assert 0 <= y <= whole[3] - height + 1e-6
    assert width / height == pytest.approx(whole[2] / whole[3])


@pytest.mark.parametrize("key", ["Enter", "Space"])
@pytest.mark.parametrize("closing", ["Escape", "Close"])
def test_keys_open_and_close_it_and_the_focus_returns(page, key, closing):
    opener = page.locator(".enlarge").nth(1)
    opener.focus()
    page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    assert dialog.is_visible()
    assert dialog.evaluate("e => e.contains(document.activeElement) && e.matches(':modal')")
    if closing == "Escape":
        page.keyboard.press("Escape")
    else:
        button(dialog, "Close").focus()
        page.keyboard.press("Enter")
    assert page.locator(".viewer").is_hidden()
    assert opener.evaluate(FOCUSED)


def test_a_click_on_the_picture_opens_it_and_the_focus_goes_to_its_button(page):
    shot = page.locator(".shot").nth(2)
    shot.click(position={"x": 20, "y": 20})
    assert page.get_by_role("dialog").is_visible()
    assert (
        page.locator(f"{PICTURE} title").first.text_content()
        == shot.locator("title").first.text_content()
    )
    button(page.get_by_role("dialog"), "Close").click()
    assert shot.locator(".enlarge").evaluate(FOCUSED)


def test_it_shows_the_whole_picture_on_the_screen(page, viewer):
    for width, height in ((1200, 900), (1200, 500), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        at = page.locator(PICTURE).bounding_box()
        assert at["height"] <= 0.8 * height + 1
        assert at["width"] <= width
    assert box_of(page) == [
        float(v) for v in page.locator(".shot svg").first.get_attribute("viewBox").split()
    ]


def test_it_says_what_it_shows(page, viewer):
    title = page.locator(".shot svg title").first.text_content()
    assert title in viewer.inner_text()
    assert page.locator(PICTURE).get_attribute("aria-label") == title
    assert page.locator(PICTURE).get_attribute("role") == "img"


def by_button(page: Page, closer: bool) -> None:
    button(page.get_by_role("dialog"), "Zoom in" if closer else "Zoom out").click()


def by_wheel(page: Page, closer: bool) -> None:
    page.locator(PICTURE).hover()
    before = box_of(page)
    page.mouse.wheel(0, -100 if closer else 100)
    page.wait_for_timeout(50)
    assert closer is False or box_of(page) != before


def by_key(page: Page, closer: bool) -> None:
    page.keyboard.press("+" if closer else "-")


@pytest.mark.parametrize("zoom", [by_button, by_wheel, by_key])
def test_it_zooms_in_and_out_but_not_beyond_the_whole(page, viewer, zoom):
    whole = box_of(page)
    zoom(page, False)
    assert box_of(page) == whole
    zoom(page, True)
    closer = box_of(page)
    assert closer[2] < 0.9 * whole[2]
    assert closer[0] + closer[2] / 2 == pytest.approx(whole[2] / 2, rel=0.02), "the middle stays"
    assert_within(page, whole)
    for _ in range(3):
        zoom(page, False)
    assert box_of(page) == pytest.approx(whole)


def test_it_zooms_in_to_a_limit(page, viewer):
    whole = box_of(page)
    for _ in range(40):
        page.keyboard.press("+")
    assert box_of(page)[2] == pytest.approx(whole[2] / 40)
    assert_within(page, whole)


def test_the_wheel_keeps_the_point_under_the_pointer(page, viewer):
    at = page.locator(PICTURE).bounding_box()
    under = (
        "([x, y]) => (p => [p.x, p.y])(new DOMPoint(x, "
        "y).matrixTransform(SVG.getScreenCTM().inverse()))"
    ).replace("SVG", f"document.querySelector('{PICTURE}')")
    point = [at["x"] + 0.4 * at["width"], at["y"] + 0.3 * at["height"]]
    before = page.evaluate(under, point)
    page.mouse.move(*point)
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(50)
    assert box_of(page)[2] < 320
    assert page.evaluate(under, point) == pytest.approx(before, abs=1)


def test_a_wheel_that_turns_sideways_does_nothing(page, viewer):
    whole = box_of(page)
    page.locator(PICTURE).hover()
    page.mouse.wheel(100, 0)
    page.wait_for_timeout(50)
    assert box_of(page) == whole


@pytest.mark.parametrize(
    ("key", "axis", "sign"), [("Right", 0, 1), ("Left", 0, -1), ("Down", 1, 1), ("Up", 1, -1)]
)
def test_arrows_move_it_to_its_edge_and_no_further(page, viewer, key, axis, sign):
    whole = box_of(page)
    page.keyboard.press(f"Arrow{key}")
    assert box_of(page) == whole, "the whole has nowhere to go"
    for _ in range(3):
        page.keyboard.press("+")
    before = box_of(page)
    page.keyboard.press(f"Arrow{key}")
    after = box_of(page)
    assert sign * (after[axis] - before[axis]) > 0
    assert after[1 - axis] == before[1 - axis]
    for _ in range(20):
        page.keyboard.press(f"Arrow{key}")
    edge = whole[2 + axis] - after[2 + axis] if sign > 0 else 0
    assert box_of(page)[axis] == pytest.approx(edge)


def test_dragging_moves_the_picture_with_the_pointer(page, viewer):
    for _ in range(4):
        page.keyboard.press("+")
    before, at = box_of(page), page.locator(PICTURE).bounding_box()
    scale = max(before[2] / at["width"], before[3] / at["height"])
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 30, y - 20, steps=4)
    page.mouse.up()
    moved = box_of(page)
    assert [moved[0] - before[0], moved[1] - before[1]] == pytest.approx(
        [30 * scale, 20 * scale], abs=0.5
    )
    page.mouse.move(x, y)
    assert box_of(page) == moved, "after the button is let go it stays"


@pytest.mark.parametrize("key", ["Control++", "Control+-", "Alt+ArrowRight"])
def test_keys_of_the_browser_are_left_to_it(page, viewer, key):
    page.keyboard.press("+")
    before = box_of(page)
    page.evaluate(
        "addEventListener('keydown', event => { window.__taken = event.defaultPrevented; })"
    )
    page.keyboard.press(key)
    assert box_of(page) == before
    assert page.evaluate("window.__taken") is False


def test_each_picture_begins_whole(page, viewer):
    whole = box_of(page)
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    page.locator(".enlarge").first.click()
    assert box_of(page) == whole


def test_switches_and_sliders_hold_for_the_enlarged_picture(opened, reports):
    page = opened(reports["with pictures"])  # its own: it stays changed
    page.locator("#show-missed").uncheck()
    page.get_by_label("brightness").fill("1.5")
    page.locator(".enlarge").first.click()
    assert page.locator(f"{PICTURE} .fig-layer-missed").first.is_hidden()
    assert "brightness(1.5)" in page.locator(f"{PICTURE} use").evaluate(
        "e => getComputedStyle(e).filter"
    )


def test_no_name_is_given_twice_while_it_is_open(page, viewer):
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    pointed = page.locator(f"{PICTURE} use").get_attribute("href")
    assert page.locator(pointed).count() == 1


@pytest.mark.parametrize(("dark", "size"), [(False, {}), (True, PHONE)], ids=["desk", "dark phone"])
def test_it_breaks_no_rule(opened, reports, dark, size):
    page = opened(reports["with pictures"], dark=dark, **size)
    open_all(page)
    page.locator(".enlarge").first.click()
    page.evaluate(
        "for (const part of document.querySelectorAll('main > section:not(#images, #content)')) "
        "part.remove()"
    )
    assert violations(page) == []


def test_tab_stays_within_it(page, viewer):
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "!document.activeElement.closest('main') || !!document.activeElement.closest('.viewer')"
        )
