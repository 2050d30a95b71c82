"""Without JavaScript a report can still be read: every answer, every number, every figure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from browser.known import every_report
from browser.opening import Opener
from browser.reading import all_words, headings, words

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Words that slip out of a program; as the whole of a text they are never meant.
SLIPS = re.compile(
    r"(undefined|nan|null|none|inf|infinity|-inf|true|false|\[\]|\{\})", re.IGNORECASE
)
TEXTS = """() => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walk.nextNode())
        if (!walk.currentNode.parentElement.closest('script, style, pre'))
            found.push(walk.currentNode.data.trim());
    return found; }"""
FIGURES = (
    "[...document.querySelectorAll('figure svg, figure img')].filter(e => "
    "e.getBoundingClientRect().height).length"
)
HIDDEN = (
    "[...document.querySelectorAll('h1, h2')].filter(h => !h.checkVisibility()).map(h => "
    "h.textContent)"
)

# A box or a button of a radio needs no script.
OFFERED = """[...document.querySelectorAll('button, input, select')]
    .filter(e => e.checkVisibility({visibilityProperty: true}))
    .filter(e => e.type !== 'checkbox' && e.type !== 'radio')
    .map(e => e.outerHTML.slice(0, 120))"""


class Both(NamedTuple):
    """A report in two windows."""

    name: str
    bare: Page  # without JavaScript
    read: Page


def ways(value: float) -> tuple[str, ...]:
    """The ways in which a page may write a number."""
    return f"{value:.3f}", f"{value:.2f}", f"{100 * value:.1f}", f"{value:.3g}", f"{value:.0f}"


@pytest.fixture(scope="module")
def report(request, windows, reports) -> Iterator[Both]:
    """A report without and with JavaScript, opened once for all tests, which only read it."""
    opener = Opener(windows, reports.folder)
    path = reports[request.param]
    yield Both(request.param, opener(path, javascript=False), opener(path))
    problems = opener.close()
    assert not problems, "the page was not quiet:\n" + "\n".join(problems)


@every_report(of="report", half="even")
def test_headings_and_figures_are_all_there(report):
    without, with_script = report.bare, report.read
    assert headings(without) == headings(with_script)
    assert without.evaluate(HIDDEN) == []
    assert without.evaluate(FIGURES) == with_script.evaluate(FIGURES)


@every_report(of="report", half="even", but=["hostile"])
def test_headline_numbers_and_models_are_there(report, reports):
    evaluation = reports.evaluation(report.name)
    shown = words(report.bare)
    for metric in evaluation.protocol.headline or evaluation.metrics[:1]:
        assert metric in shown
        for model in evaluation.models:
            value = float(evaluation.get(metric, model=model))
            assert model in shown
            assert math.isnan(value) or any(way in shown for way in ways(value)), (
                metric,
                model,
                value,
            )


def test_the_verdict_comes_first(opened, reports):
    page = opened(reports["demo"], javascript=False)
    verdict = page.locator(".verdict").first
    assert verdict.is_visible()
    assert len(verdict.inner_text().split()) > 5
    before = (
        "v => v.compareDocumentPosition(document.querySelector('table, figure')) & "
        "Node.DOCUMENT_POSITION_FOLLOWING"
    )
    assert verdict.evaluate(before)
    assert verdict.bounding_box()["y"] < 600, "on the first screen"


@every_report("slips", of="report", but=["hostile"], half="even")
def test_nothing_slips_out_of_the_program(report):
    assert_no_slips(report.bare)


@every_report("slips", of="report", but=["hostile"], half="even")
def test_nothing_slips_out_of_the_script(report):
    assert_no_slips(report.read)


def assert_no_slips(page: Page) -> None:
    slips = [text for text in page.evaluate(TEXTS) if SLIPS.fullmatch(text)]
    assert slips == []
    text = all_words(page)
    assert not re.search(
        r"\bNaN\b|\[object |\bnan\b|<built-in|0x[0-9a-f]{8}|array\(|np\.float", text
    )


@every_report(of="report", half="even")
def test_what_cannot_work_is_not_offered(report):
    assert report.bare.evaluate(OFFERED) == []
