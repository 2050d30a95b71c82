"""A report on paper: A4, nothing cut, nothing lost beyond the edge, dark ink on white."""

from __future__ import annotations

import math
import re

import pytest

from browser.known import every_report, fault
from browser.test_layout import assert_no_sideways_scroll, paper_and_ink

PIXELS = 96 / 25.4  # per millimetre
MARGIN = 10  # mm, what browsers leave
LINE = 30  # pixels; what is not higher is a single line
WIDTH, HEIGHT = (int((side - 2 * MARGIN) * PIXELS) for side in (210, 297))
KEPT = """e => { for (; e && e !== document.body; e = e.parentElement) {
    const whole = getComputedStyle(e).breakInside.startsWith('avoid');
    if (whole && e.getBoundingClientRect().height <= HEIGHT) return true;
} }""".replace("HEIGHT", str(HEIGHT))
CUT = f"""[...document.querySelectorAll('figure, tr, svg, img')].filter(e => e.checkVisibility())
    .filter(e => e.getBoundingClientRect().height > {LINE} && !({KEPT})(e))
    .slice(0, 5).map(e => e.outerHTML.slice(0, 99))"""
LOOSE = (
    "[...document.querySelectorAll('h2, h3')].filter(h => !getComputedStyle(h).breakAfter.startsWith('avoid')).length"
)
SCROLLED = """[...document.querySelectorAll('main *')]
    .filter(e => e.checkVisibility() && e.clientWidth && e.scrollWidth > e.clientWidth + 1)
    .filter(e => getComputedStyle(e).overflowX !== 'visible').slice(0, 3).map(e => e.outerHTML.slice(0, 99))"""


@every_report("cut")
def test_nothing_is_cut_by_the_end_of_a_page(opened, reports, name):
    page = opened(reports[name], width=WIDTH, height=HEIGHT, print=True)
    assert page.evaluate(CUT) == []


@every_report("tall")
def test_every_figure_fits_a_page(opened, reports, name):
    page = opened(reports[name], width=WIDTH, height=HEIGHT, print=True)
    tall = "h => [...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect().height).filter(t => t > h)"
    assert page.evaluate(tall, HEIGHT) == []


@pytest.mark.parametrize("name", ["demo", "grouped"])
def test_headings_stay_with_what_they_head(opened, reports, name):
    page = opened(reports[name], width=WIDTH, height=HEIGHT, print=True)
    assert page.evaluate(LOOSE) == 0


@every_report("edge")
def test_nothing_is_lost_beyond_the_edge(opened, reports, name):
    page = opened(reports[name], width=WIDTH, height=HEIGHT, print=True)
    assert_no_sideways_scroll(page)
    assert page.evaluate(SCROLLED) == []


@every_report("pages")
def test_the_number_of_pages_is_sane(opened, reports, name):
    page = opened(reports[name], width=WIDTH, height=HEIGHT, print=True)
    height = page.evaluate("document.documentElement.getBoundingClientRect().height")
    margin = dict.fromkeys(("top", "bottom", "left", "right"), f"{MARGIN}mm")
    pdf = page.pdf(format="A4", margin=margin)
    assert pdf.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type /Page\b", pdf))
    assert 1 <= pages <= 1.7 * math.ceil(height / HEIGHT) + 2


@fault("the dark colours are not limited to screens")
def test_dark_readers_print_on_white_paper_too(opened, reports):
    page = opened(reports["demo"], width=WIDTH, height=HEIGHT, print=True, dark=True)
    paper, ink = paper_and_ink(page)
    assert paper > 0.9
    assert ink < 0.1
