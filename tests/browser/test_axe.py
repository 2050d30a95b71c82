"""The rules of axe (WCAG and best practices): not one is broken, light and dark,
on a desk and on a phone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser.known import RULES, every_report
from browser.reading import open_all

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844}
ROWS = 4
MAIN = ("demo", "grouped")


def violations(page: Page, *, contrast: bool = True) -> list[str]:
    """Return broken rules as ``rule: element: what is wrong``; contrast takes most of the time."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": contrast}}}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"][:3]
    ]


def shorten(page: Page) -> None:
    """Leave out rows that are like those before them: axe takes its time with every cell."""
    page.evaluate(
        f"for (const row of document.querySelectorAll('tbody tr:nth-child(n+{ROWS + 1})')) "
        f"row.remove()"
    )


def assert_no_rule_is_broken(page: Page, *, contrast: bool = True) -> None:
    open_all(page)
    shorten(page)
    found = [
        broken
        for broken in violations(page, contrast=contrast)
        if broken.split(":")[0] not in RULES
    ]
    assert not found, "\n".join(found)


@every_report("axe")
def test_no_rule_is_broken_on_a_desk(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name]))


@every_report("axe")
def test_no_rule_is_broken_on_a_phone_in_the_dark(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name], dark=True, **PHONE), contrast=name in MAIN)


@pytest.mark.parametrize("name", MAIN)
def test_no_rule_is_broken_otherwise(opened, reports, name):
    assert_no_rule_is_broken(opened(reports[name], dark=True))
    assert_no_rule_is_broken(opened(reports[name], **PHONE))


def test_a_broken_rule_is_found(opened):
    page = opened(
        "<!doctype html><html lang=en><title>t</title><main><h1>h</h1><p style='color: "
        "#aaa'>pale</main>"
    )
    assert [found.split(":")[0] for found in violations(page)] == ["color-contrast"]
