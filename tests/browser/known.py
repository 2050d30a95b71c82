"""What the page is known to do wrong: such a test must fail, and says so when it no longer does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from browser.reports import EVERY

# test -> report -> what is wrong; remove an entry with the fault
FAULTS: dict[str, dict[str, str]] = {}
# rules of axe that are broken
RULES: set[str] = set()


def every_report(test: str = "", *, of: str = "name", but: Sequence[str] = ()):
    """Parametrise a test over every report, by ``name`` or by a fixture; one with a known fault is
    expected to fail.
    """
    faults = FAULTS.get(test, {})
    marks = {name: fault(why) for name, why in faults.items()}
    given = [pytest.param(name, marks=marks.get(name, ())) for name in EVERY if name not in but]
    return pytest.mark.parametrize(of, given, indirect=of != "name")


def fault(why: str):
    """Expect a test to fail; it says so when it no longer does."""
    return pytest.mark.xfail(reason=why, strict=True)
