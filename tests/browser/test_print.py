"""A report on paper: A4, nothing cut, nothing lost beyond the edge, dark ink on white."""

from __future__ import annotations

import math
import re

from browser.known import every_report
from browser.opening import MARGIN, PAPER
from browser.test_layout import assert_no_sideways_scroll, paper_and_ink

LINE = 30  # pixels; what is not higher is a single line
HEIGHT = PAPER["height"]
KEPT = """e => { for (; e && e !== document.body; e = e.parentElement) {
    const whole = getComputedStyle(e).breakInside.startsWith('avoid');
    if (whole && e.getBoundingClientRect().height <= HEIGHT) return true;
} }""".replace("HEIGHT", str(HEIGHT))
CUT = f"""[...document.querySelectorAll('figure, tr, svg, img')].filter(e => e.checkVisibility())
    .filter(e => e.getBoundingClientRect().height > {LINE} && !({KEPT})(e))
    .slice(0, 5).map(e => e.outerHTML.slice(0, 99))"""
# Headings, and the sentences that lead from them to a figure, a table or an album.
LOOSE = """[...document.querySelectorAll(
      'h2, h3, h2 + p, h3 + p, p:has(+ figure), p:has(+ .pair), p:has(+ .pairs), p:has(+ .album)')]
    .filter(h => !getComputedStyle(h).breakAfter.startsWith('avoid'))
    .map(h => h.outerHTML.slice(0, 99))"""
SCROLLED = """[...document.querySelectorAll('main *')]
    .filter(e => e.checkVisibility() && e.clientWidth && e.scrollWidth > e.clientWidth + 1)
    .filter(e => getComputedStyle(e).overflowX !== 'visible')
    .slice(0, 3).map(e => e.outerHTML.slice(0, 99))"""


@every_report("cut", of="printed", half="odd")
def test_nothing_is_cut_by_the_end_of_a_page(printed):
    assert printed.evaluate(CUT) == []


@every_report("tall", of="printed", half="odd")
def test_every_figure_fits_a_page(printed):
    tall = (
        "h => [...document.querySelectorAll('figure')].map(f => "
        "f.getBoundingClientRect().height).filter(t => t > h)"
    )
    assert printed.evaluate(tall, HEIGHT) == []


@every_report("loose", of="printed", half="odd")
def test_headings_stay_with_what_they_head(printed):
    assert printed.evaluate(LOOSE) == []


@every_report("edge", of="printed", half="odd")
def test_nothing_is_lost_beyond_the_edge(printed):
    assert_no_sideways_scroll(printed)
    assert printed.evaluate(SCROLLED) == []


@every_report("pages", of="printed", half="odd")
def test_the_number_of_pages_is_sane(printed):
    height = printed.evaluate("document.documentElement.getBoundingClientRect().height")
    margin = dict.fromkeys(("top", "bottom", "left", "right"), f"{MARGIN}mm")
    pdf = printed.pdf(format="A4", margin=margin)
    assert pdf.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type /Page\b", pdf))
    assert 1 <= pages <= 1.7 * math.ceil(height / HEIGHT) + 2


def test_dark_readers_print_on_white_paper_too(opened, reports):
    page = opened(reports["demo"], **PAPER, print=True, dark=True)
    paper, ink = paper_and_ink(page)
    assert paper > 0.9
    assert ink < 0.1
