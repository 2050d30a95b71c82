"""The page of a study: claims first, everything escaped, self-contained."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from calipers.studies.open_choices import ScanShare
from calipers.studies.page import study_page
from studies.study_cases import NASTY, small_result

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Balance(HTMLParser):
    """Checks that tags are balanced, and keeps ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_names_everything_once() -> None:
    parsed = Balance()
    parsed.feed(study_page(small_result(), ["calipers", "study", "made"]))
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {
        "content",
        "claim-one",
        "figure-1",
        "figure-1a",
        "figure-1b",
        "table-1",
        "methods",
        "reproduce",
    } <= {*parsed.ids}


def test_claims_come_before_figures_with_their_verdicts_in_words() -> None:
    page = study_page(small_result())
    assert page.index('id="claim-one"') < page.index('id="figure-1"') < page.index('id="table-1"')
    said = re.findall(r'<td class="said">([^<]+)</td>', page)
    assert said == ["held", "held in part", "did not hold", "not tested"]
    assert "In this run 1 of 3 claims held" in page


def test_verdicts_of_different_kinds_are_counted_apart_with_their_rules() -> None:
    held = replace(small_result().claims[0], rule="The lowest of five.", share=ScanShare(3, 4))
    claims = (held, replace(held, name="two", basis="made"))
    rules = ({"file": "made/claims.toml", "bytes": 12, "sha256": "cd" * 32},)
    page = study_page(small_result(claims=claims, rules=rules))
    assert "held<small>3 of 4 configurations</small></td>" in page
    assert "<small>shown possible on synthetic data</small></td>" in page
    assert "Rule: The lowest of five." in page
    assert 'id="table-verdicts"' in page
    assert "made/claims.toml (SHA-256 cdcdcdcdcdcd)" in page
    assert "cd" * 32 in page
    assert 'id="table-verdicts"' not in study_page(small_result())


def test_every_text_is_escaped() -> None:
    page = study_page(small_result(NASTY), ["calipers", NASTY])
    assert NASTY not in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = study_page(small_result())
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", page)


def test_a_quick_run_says_that_it_is_not_for_citing() -> None:
    assert "not for citing" in study_page(small_result())
    assert "not for citing" not in study_page(small_result(quick=False))


def test_what_is_needed_to_reproduce_is_there() -> None:
    inputs = ({"file": "boxes.csv", "bytes": 12, "sha256": "ab" * 32},)
    page = study_page(small_result(inputs=inputs), ["calipers", "study", "made", "-o", "a b"])
    assert "calipers study made -o &#x27;a b&#x27;" in page
    assert "ab" * 32 in page


def test_settings_are_shown_whole() -> None:
    settings = {
        "monitors": ["a" * 90, "b" * 90, "c" * 90],
        "training": {"seed": 3, "counts": {"usual": 400}, "quick": False},
        "protocol": "[matching]\nthresholds = [0.5]\n",
    }
    page = study_page(replace(small_result(), settings=settings))
    assert f"{'a' * 90}, {'b' * 90}, {'c' * 90}" in page
    assert "training: counts: usual" in page
    assert "{&#x27;" not in page
    assert "<pre>[matching]\nthresholds = [0.5]\n</pre>" in page
