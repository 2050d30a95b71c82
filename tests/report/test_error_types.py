"""The section on errors: what mistakes cost, examples with their objects, links to pictures; as
before without.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluated import evaluated_demo


def section_of(page: str) -> str:
    found = re.search(r'<section id="errors".*?</section>', page, re.DOTALL)
    assert found is not None
    return found.group()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    return evaluated_demo("tide").report(path).read_text(encoding="utf-8")


def test_the_section_has_both_figures_and_says_what_kinds_are(page: str) -> None:
    section = section_of(page)
    assert 'id="fig-error-gains"' in section
    assert 'id="fig-error-counts"' in section
    assert section.index("fig-error-gains") < section.index("fig-fates")
    assert "place (box-iou from 0.1 to 0.5 with its class)" in section


def test_examples_name_objects_and_link_to_pictures_that_exist(page: str) -> None:
    section = section_of(page)
    assert 'id="table-mistakes"' in section
    assert "class (cls)" in section
    places = re.findall(r'<a href="#(image-[0-9-]+)">', section)
    assert places
    for place in places:
        assert page.count(f'id="{place}"') == 1


def test_a_page_without_pictures_has_no_links(tmp_path: Path) -> None:
    ev = evaluated_demo("tide", ci=False)
    section = section_of(ev.report(tmp_path / "p.html", pictures=False).read_text(encoding="utf-8"))
    assert "table-mistakes" in section
    assert "<a href" not in section


def test_redacted_examples_show_no_id(tmp_path: Path) -> None:
    ev = evaluated_demo("tide", ci=False)
    section = section_of(ev.report(tmp_path / "p.html", redact=True).read_text(encoding="utf-8"))
    assert "table-mistakes" in section
    assert not any(name in section for name in ev.cohort.images.ids)


def test_other_protocols_keep_their_section(tmp_path: Path) -> None:
    ev = evaluated_demo("overview", ci=False)
    section = section_of(ev.report(tmp_path / "p.html").read_text(encoding="utf-8"))
    assert "fig-fates" in section
    assert "error-gains" not in section
    assert "table-mistakes" not in section
