"""The page of a multiverse: quiet, accessible, within its screen,
whatever the models are called.
"""

from __future__ import annotations

import numpy as np
import pytest

from browser.names import HOSTILE
from browser.test_axe import assert_no_rule_is_broken
from browser.test_layout import WIDTHS, assert_no_sideways_scroll
from calipers.sensitivity.result import Multiverse

SOME = HOSTILE[::20]


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Return the path of a page with so many configurations of models of these names."""

    def made(models) -> str:
        each = tuple({"metric": m, "threshold": t} for m in ("AP", "F1") for t in (0.1, 0.3, 0.5))
        values = np.random.default_rng(0).random((len(each), len(models)))
        found = Multiverse(tuple(models), ("metric", "threshold"), each, values, 0, 6, 0, 9, 20)
        return found.save(tmp_path_factory.mktemp("multiverse"), command=["calipers", *models])

    return made


def test_it_breaks_no_rule_of_access(opened, page_of):
    assert_no_rule_is_broken(opened(page_of(("ours", "theirs", "others"))), dark_too=True)


@pytest.mark.parametrize("models", [("ours", "theirs"), SOME], ids=["plain", "hostile"])
def test_it_is_quiet_and_fits_its_screen(opened, page_of, models):
    page = opened(page_of(models))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        assert_no_sideways_scroll(page)
    assert page.evaluate("window.__hit") is None
