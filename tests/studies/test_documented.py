"""Numbers in the docs are those of the pages: the check itself, and all of them on full runs.

Quick runs check most passages in the tests of each study. The rest needs full runs, which take two
to four minutes of a core together, and packages that bring real outlines and readers.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from calipers.studies.framework import run_study
from studies import documented
from studies.documented import DOCS, PACKAGES, PASSAGES, passage, quoted, unsupported

DOCUMENT = {
    "study": "made",
    "summary": "In this run 2 of 3 claims held.",
    "claims": [
        {
            "name": "one",
            "text": "AP falls",
            "evidence": "AP 0.512 to 0.249 in 1,510 frames",
            "note": "",
            "share": {"held": 3, "total": 8},
        }
    ],
    "figures": [],
    "tables": [{"name": "table-1", "title": "t", "note": "", "rows": [["a", {"value": 0.29}]]}],
}


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("- AP falls from 0.51 to 0.25 in 1,510 frames, in 3 of 8.", []),
        ("- AP falls from 0.52 to 0.25.", ["0.52"]),
        ("- AP falls by 51 %, or -0.512.", []),  # a share in percent; signs are not compared
        ("- AP at IoU 0.5 (figure 7, r = 0.1, `table-9`) is 0.512.", []),  # names of things
        ("- AP is 29 %.", ["29"]),  # what a source does not have that is not named
    ],
)
def test_a_number_is_supported_by_the_sources_that_are_named(
    monkeypatch, text: str, lost: list[str]
) -> None:
    monkeypatch.setattr(documented, "passage", lambda start: text)
    words = [word.removeprefix("- AP: ") for word in unsupported(DOCUMENT, {"- AP": ("one",)})]
    assert words == lost


def test_other_sources_count_if_they_are_named(monkeypatch) -> None:
    monkeypatch.setattr(documented, "passage", lambda start: "- AP is 29 %, 2 of 3.")
    assert unsupported(DOCUMENT, {"- AP": ("one", "table-1", "summary")}) == []
    with pytest.raises(ValueError, match="no 'two'"):
        unsupported(DOCUMENT, {"- AP": ("two",)})


def test_every_passage_is_there_and_quotes_numbers() -> None:
    for study, passages in PASSAGES.items():
        for start in passages:
            assert list(quoted(passage(start))), f"{study}: {start}"
    with pytest.raises(ValueError, match="no passage 'Nothing like this'"):
        passage("Nothing like this")


def test_findings_with_decimals_are_all_checked() -> None:
    """A new finding with numbers needs its sources."""
    text = DOCS.read_text(encoding="utf-8")
    known = [passage(start) for passages in PASSAGES.values() for start in passages]
    sections = re.findall(r"### (?:What (?:was found|the \w+ says?))\n(.*?)(?=\n##|\Z)", text, re.S)
    assert len(sections) == 4
    for section in sections:
        for entry in re.split(r"\n(?=- |\n)", section):
            words = " ".join(entry.split())
            if any(re.search(r"\.\d\d", word) for word, _, _ in quoted(words)):
                assert words in known, words


@pytest.mark.slow  # full runs: half a minute to a minute of a core each
@pytest.mark.parametrize("study", PASSAGES)
def test_the_docs_quote_what_the_full_page_says(study: str) -> None:
    without: set[str] = set()
    for package, starts in PACKAGES.get(study, {}).items():
        if find_spec(package) is None:
            without |= {*starts}
    passages = {start: own for start, own in PASSAGES[study].items() if start not in without}
    assert unsupported(run_study(study).as_dict(), passages) == []
