"""What the page is known to do wrong: such a test must fail, and says so when it no longer does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from browser.reports import EVERY

# In every run: the page with most parts, and the one with the worst names. Of the others a file of
# tests takes one half by default, "even" or "odd", and leaves the other half to the slow run: a
# page is opened again for every file, and the halves are of the same kinds.
ALWAYS = ("grouped", "hostile")
OTHERS = tuple(name for name in EVERY if name not in ALWAYS)
HALVES: dict[str, tuple[str, ...]] = {"even": OTHERS[::2], "odd": OTHERS[1::2], "none": ()}

# test -> report -> what is wrong; remove an entry with the fault
FAULTS: dict[str, dict[str, str]] = {}
# rules of axe that are broken
RULES: set[str] = set()


def every_report(
    test: str = "",
    *,
    half: str | None = None,
    also: Sequence[str] = (),
    of: str = "name",
    but: Sequence[str] = (),
) -> pytest.MarkDecorator:
    """Parametrise a test over every report, by ``name`` or by a fixture; one with a known fault is
    expected to fail, and those outside of a ``half`` (and not ``also`` named) are left to the slow
    run.
    """
    faults = FAULTS.get(test, {})
    params = []
    for name in EVERY:
        if name in but:
            continue
        marks = [fault(faults[name])] if name in faults else []
        if half and name not in (*ALWAYS, *HALVES[half], *also):
            marks.append(pytest.mark.slow)
        params.append(pytest.param(name, marks=marks))
    return pytest.mark.parametrize(of, params, indirect=of != "name")


def fault(why: str):
    """Expect a test to fail; it says so when it no longer does."""
    return pytest.mark.xfail(reason=why, strict=True)
