"""Pictures of a report: painted, with boxes where the data says,
and switches that hide what they name.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser.test_axe import PHONE, violations
from browser.test_layout import assert_no_sideways_scroll
from browser.test_speed import LIMIT, PICTURE
from calipers.report.context import context_of
from calipers.show.figures import MARKS

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SWITCHED = ("reference", "hit", "false-alarm", "duplicate", "missed")
LAYERS = """() => Object.fromEntries([...document.querySelectorAll('.shot .fig-layer')].map(e =>
    [[...e.classList].find(name => name.startsWith('fig-layer-')).slice(10)
        + (e.matches('.fig-halo') ? ' halo' : ''),
     e.getBoundingClientRect().width > 0]))"""  # a group without display has no extent
# the corners of the boxes of every picture, in pixels of its image, from where they are on the
# screen
CORNERS = """() => [...document.querySelectorAll('.shot')].map(shot =>
    [...shot.querySelectorAll('g.fig-mark rect')].map(box => {
        const svg = box.ownerSVGElement;
        const [frame, at] = [svg, box].map(e => e.getBoundingClientRect());
        const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
        const scale = Math.min(frame.width / width, frame.height / height);
        const left = frame.left + (frame.width - width * scale) / 2;
        const top = frame.top + (frame.height - height * scale) / 2;
        return [at.left - left, at.top - top, at.right - left, at.bottom - top]
            .map(v => v / scale); }))"""


@pytest.fixture(scope="module", params=[True, False], ids=["script", "no-script"])
def page(request, kept, reports) -> Page:
    return kept(reports["with pictures"], javascript=request.param)


@pytest.fixture(scope="module")
def album(reports):
    return context_of(reports.evaluation("with pictures")).album


def pixels_of(shot: Locator) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(shot.screenshot())).convert("L"), dtype=float)


def test_every_switch_hides_its_layer_and_no_other(page):
    whole = page.evaluate(LAYERS)
    assert set(whole) == {name + end for name in SWITCHED for end in ("", " halo")}
    assert all(whole.values())
    for name in SWITCHED:
        switch = page.locator(f"#show-{name}")
        switch.uncheck()
        assert {layer for layer, is_shown in page.evaluate(LAYERS).items() if not is_shown} == {
            name,
            f"{name} halo",
        }
        switch.check()
        assert page.evaluate(LAYERS) == whole


def test_keys_press_a_switch(opened, reports):
    page = opened(reports["with pictures"])
    page.locator("#show-hit").focus()
    page.keyboard.press("Space")
    assert not page.evaluate(LAYERS)["hit"]


def test_every_switch_shows_the_line_that_it_hides(page):
    for fate, look in MARKS.items():
        if fate == "ignored":  # the cohort has none
            continue
        label = page.locator(f"label:has(#show-{fate.replace(' ', '-')})")
        assert label.inner_text().strip() == look.words
        line = label.locator("svg line")
        stroke, width, dash = line.evaluate(
            "e => (s => [s.stroke, s.strokeWidth, s.strokeDasharray])(getComputedStyle(e))"
        )
        red, green, blue = (int(look.colour[k : k + 2], 16) for k in (1, 3, 5))
        assert stroke == f"rgb({red}, {green}, {blue})"
        assert float(width.removesuffix("px")) == look.width
        assert (dash != "none") is bool(look.dash)
        assert len(np.unique(pixels_of(label.locator("svg")))) > 1, "the line is seen"


def test_pictures_are_painted(page):
    shots = page.locator(".shot")
    assert shots.count() > 10
    for shot in shots.all()[:3]:
        painted = pixels_of(shot)
        middle = painted[
            painted.shape[0] // 4 : -painted.shape[0] // 4,
            painted.shape[1] // 4 : -painted.shape[1] // 4,
        ]
        assert len(np.unique(middle)) > 50, "shades of a chest, not a plain frame"


def test_boxes_lie_where_the_data_says(page, album):
    overlays = [
        overlay for group in album.groups for entry in group.entries for overlay in entry.overlays
    ]
    for boxes, overlay in zip(page.evaluate(CORNERS), overlays, strict=True):
        assert sorted(boxes) == [
            pytest.approx(box, abs=0.6) for box in sorted(list(mark.box) for mark in overlay.marks)
        ]


def test_a_picture_lies_below_its_boxes_over_the_whole_frame(page):
    shot = page.locator(".shot").first
    frame, picture = (shot.locator(part).bounding_box() for part in ("svg", "use"))
    assert picture == pytest.approx(frame, abs=1)


@pytest.mark.parametrize("name", ["brightness", "contrast"])
def test_sliders_change_the_pictures_once(opened, reports, name):
    page = opened(reports["with pictures"])
    shot = page.locator(".shot").first
    before = pixels_of(shot)
    slider = page.get_by_label(name)
    assert slider.input_value() == "1"
    slider.fill("2")
    said = "e => getComputedStyle(e).filter"
    assert f"{name}(2)" in shot.locator("use").evaluate(said)
    stored = page.locator(".store image").first
    assert stored.evaluate(said) == "none", "else both the picture and its use would be changed"
    after = pixels_of(shot)
    grey = (before > 40) & (before < 100)
    expected = 2 * before[grey] if name == "brightness" else 2 * (before[grey] - 127.5) + 127.5
    assert np.median(np.abs(after[grey] - np.clip(expected, 0, 255))) < 4
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert float(slider.input_value()) == pytest.approx(1.95)


def test_sliders_leave_the_marks_alone(opened, reports):
    page = opened(reports["with pictures"])
    page.get_by_label("brightness").fill("0.3")
    assert (
        page.locator(".shot g.fig-mark").first.evaluate("e => getComputedStyle(e).filter") == "none"
    )


def test_without_script_nothing_looks_as_if_it_could_be_enlarged(opened, reports):
    page = opened(reports["with pictures"], javascript=False)
    assert page.locator(".enlarge").count() == 0
    assert page.locator(".shot").first.evaluate("e => getComputedStyle(e).cursor") != "zoom-in"


def test_pictures_fit_a_phone_and_break_no_rule(opened, reports):
    page = opened(reports["with pictures"], **PHONE, dark=True)
    assert_no_sideways_scroll(page)
    page.evaluate(
        "for (const part of document.querySelectorAll('main > section:not(#images, #content)')) "
        "part.remove()"
    )
    assert violations(page) == []


def test_without_its_pictures_the_report_is_small(reports):
    raw = reports["with pictures"].read_bytes()
    assert len(PICTURE.findall(raw)) > 10
    assert len(PICTURE.sub(b"", raw)) < LIMIT


@pytest.mark.parametrize("javascript", [True, False], ids=["script", "no-script"])
def test_the_map_can_be_hidden_and_nothing_else_with_it(opened, reports, javascript):
    page = opened(reports["maps"], javascript=javascript)
    whole = page.evaluate(LAYERS)
    assert whole["map"]
    page.locator("#show-map").uncheck()
    assert {layer for layer, is_shown in page.evaluate(LAYERS).items() if not is_shown} == {"map"}
    page.locator("#show-map").check()
    assert page.evaluate(LAYERS) == whole
