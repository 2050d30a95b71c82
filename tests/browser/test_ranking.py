"""The page on which people rank maps blind: by keyboard, quiet, and read by the study."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.test_axe import assert_no_rule_is_broken
from browser.test_layout import assert_no_sideways_scroll
from calipers.studies.anomaly.experiments import read_ranking
from calipers.studies.anomaly.ranking_page import write_ranking_page
from studies.anomaly.made_brains import NAMES, made_benchmark


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("ranking") / "rank.html"
    return write_ranking_page(path, made_benchmark(), seed=1, archive="0" * 64)


def algorithms_shown(page) -> list[str]:
    """Return whose maps the current slice shows, which only the data of the page say."""
    slices = page.evaluate("JSON.parse(document.getElementById('rows').textContent).slices")
    number = int(page.locator("#content-title").inner_text().split()[1])
    return [one["algorithm"] for one in slices[number - 1]["maps"]]


def test_a_ranking_by_keyboard_is_saved_and_read(opened, page_file, tmp_path) -> None:
    page = opened(page_file)
    assert not any(name in page.locator("main").inner_text() for name in NAMES)
    # On two slices the best and the second best are picked; the third is left out.
    for _ in range(2):
        shown = algorithms_shown(page)
        for name in NAMES[:2]:
            page.keyboard.press("ABCD"[shown.index(name)].lower())
        page.keyboard.press("Enter")
    page.keyboard.press("a")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowRight")
    assert "2 of 3 slices" in page.locator("#judged").inner_text()
    with page.expect_download() as download:
        page.locator("#save").click()
    file = tmp_path / "ranking.csv"
    download.value.save_as(file)
    ranking = read_ranking(file, NAMES)
    assert ranking.ranks == {"ae": 1.0, "fpi": 2.0, "atlas": 3.5, "slice-pca": 3.5}


def test_orders_differ_between_slices_and_follow_the_seed(opened, page_file, tmp_path) -> None:
    page = opened(page_file)
    orders = []
    for _ in range(3):
        orders.append(tuple(algorithms_shown(page)))
        page.keyboard.press("ArrowRight")
    assert len(set(orders)) > 1
    again = write_ranking_page(tmp_path / "again.html", made_benchmark(), seed=1, archive="0" * 64)
    assert again.read_bytes() == page_file.read_bytes()


def test_the_page_is_accessible_and_fits_a_phone(opened, page_file) -> None:
    page = opened(page_file)
    assert_no_rule_is_broken(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert_no_sideways_scroll(page)
