"""The page of stability: quiet, accessible, within its screen, on paper, whatever models and images
are called.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from browser.names import HOSTILE
from browser.test_axe import assert_no_rule_is_broken
from browser.test_layout import WIDTHS, assert_no_sideways_scroll
from calipers.synthetic.bags import demo_bags

SOME = HOSTILE[::25]


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Return the path of a page of models and images of these names."""

    def made(names=None) -> str:
        if names is None:
            found = cal.stability(
                demo_bags("unstable", n_bags=24, n_models=3, shape=(8, 8)), replicates=100
            )
        else:
            maps = np.random.default_rng(0).random((len(names), len(names), 5, 4))
            found = cal.stability(
                maps,
                np.ones(len(names)),
                models=names,
                ids=names,
                instances=maps[0] > 0.5,
                ci=False,
            )
        return found.save(
            tmp_path_factory.mktemp("stability"), command=["calipers", "stability", *(names or ())]
        )

    return made


def test_it_breaks_no_rule_of_access(opened, page_of):
    assert_no_rule_is_broken(opened(page_of()), dark_too=True)


@pytest.mark.parametrize("names", [None, SOME], ids=["plain", "hostile"])
def test_it_is_quiet_and_fits_its_screen(opened, page_of, names):
    page = opened(page_of(names))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        assert_no_sideways_scroll(page)
    assert page.evaluate("window.__hit") is None
