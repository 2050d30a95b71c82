"""Pictures that are kept with an evaluation: the page is the same when the volumes are gone, damage
is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.io.saved.maps import SLICES, read_slices, save_slices
from calipers.io.source import open_source
from calipers.results.files import Encoded, Slices
from calipers.synthetic.volumes import demo_samples, write_samples

QUICK = replace(cal.Protocol.load("anomaly"), replicates=100)
DATA = "data:image/webp;base64,AAAA"
KEPT = Slices(
    {"picture-3-z4": Encoded(DATA, 5, 6, len(DATA)), "map-0-3": Encoded(DATA, 7, 8, len(DATA))},
    ("a note",),
)


def stored(path: Path, slices: Slices = KEPT) -> Slices:
    save_slices(path / SLICES, slices)
    return read_slices(open_source(path / SLICES))


def test_pictures_and_notes_come_back(tmp_path: Path) -> None:
    assert stored(tmp_path) == KEPT


def test_none_come_back_as_none(tmp_path: Path) -> None:
    assert stored(tmp_path, Slices()) == Slices()


@pytest.mark.parametrize(
    "pictures",
    [
        {"picture-3": Encoded("https://elsewhere/x.png", 1, 1, 9)},
        {"picture-3": Encoded('data:image/png;base64,AA"><script>', 1, 1, 9)},
        {"picture-3": Encoded("data:image/svg+xml;base64,AAAA", 1, 1, 9)},
        {'x" onload="': Encoded(DATA, 1, 1, 9)},
        {"picture-3": Encoded(DATA, 0, 1, 9)},
        {"picture-3": Encoded(DATA, 1, 10**9, 9)},
    ],
)
def test_what_is_no_picture_of_ours_is_refused(
    tmp_path: Path, pictures: Mapping[str, Encoded]
) -> None:
    with pytest.raises(cal.InputError) as caught:
        stored(tmp_path, Slices(pictures))
    assert caught.value.rule in ("picture", "range")
    assert SLICES in str(caught.value)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = list(demo_samples(6, size=32))
    return cal.evaluate_maps(samples, QUICK).save(tmp_path_factory.mktemp("maps") / "saved")


def test_the_page_is_the_same_without_the_volumes(saved: Path, tmp_path: Path) -> None:
    again = cal.open_evaluation(saved)
    assert again.load_sample is None
    first = (saved / "report.html").read_text(encoding="utf-8")
    assert again.report(tmp_path / "again.html").read_text(encoding="utf-8") == first
    assert 'href="#map-1-' in first


def test_the_record_of_the_run_vouches_for_the_pictures(saved: Path, tmp_path: Path) -> None:
    assert SLICES in json.loads((saved / "run.json").read_text())["files"]
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    save_slices(tmp_path / SLICES, KEPT)
    with pytest.raises(cal.InputError, match="file-hash"):
        cal.open_evaluation(tmp_path)


@pytest.mark.parametrize("choice", [{"pictures": False}, {"redact": True}])
def test_no_pictures_are_kept_if_none_are_shown(tmp_path: Path, choice: dict[str, Any]) -> None:
    found = cal.evaluate_maps(list(demo_samples(3, 2, 32)), QUICK, ci=False)
    folder = found.save(tmp_path / "saved", **choice)
    assert not (folder / SLICES).exists()


def test_the_verb_report_needs_no_volumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_samples(tmp_path / "s", demo_samples(4, 2, 32))
    here, out = tmp_path / "s", tmp_path / "out"
    words = [
        "maps",
        str(here / "references"),
        f"sharp={here / 'sharp'}",
        "--images",
        str(here / "images"),
    ]
    assert run([*words, "--no-ci", "-o", str(out)]) == 0
    first = (out / "report.html").read_bytes()
    for file in sorted(here.rglob("*.npz")):
        file.unlink()
    assert run(["report", str(out), "--force"]) == 0
    assert (out / "report.html").read_bytes() == first
    assert first.count(b"data:image/") > 2
    capsys.readouterr()
