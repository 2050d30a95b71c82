"""`calipers demo`: from nothing to a page, on data that is drawn on the spot."""

from __future__ import annotations

import json

import pytest

from calipers.cli.main import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("demo") / "new" / "demo"
    assert run(["demo", "-o", str(made), "--quiet"]) == 0
    return made


def test_it_leaves_data_pictures_and_results(folder):
    assert len(list((folder / "images").glob("*.png"))) == 120
    names = {
        "references.json",
        "mislabels.json",
        "overpredicts.json",
        "misses-small.json",
        "images.csv",
    }
    assert {file.name for file in (folder / "data").iterdir()} == names
    results = {
        "audit.jsonl",
        "evaluation.json",
        "objects.parquet",
        "images.csv",
        "images.parquet",
        "report.html",
        "run.json",
    }
    assert {file.name for file in (folder / "results").iterdir()} == results


def test_its_files_give_the_same_numbers_again(folder, calipers):
    data = folder / "data"
    models = [data / f"{name}.json" for name in ("mislabels", "overpredicts", "misses-small")]
    argv = [
        "evaluate",
        data / "references.json",
        *models,
        "--groups",
        data / "images.csv",
        "--preset",
        "overview",
    ]
    saved = json.loads((folder / "results" / "evaluation.json").read_text())
    assert calipers(*argv, "--json").json["rows"] == saved["rows"]


def test_it_does_not_replace_without_being_asked(folder, calipers):
    said = calipers("demo", "-o", folder)
    assert (said.code, "--force" in said.err) == (2, True)


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the pictures as they are: drawing takes most of the time."""
    monkeypatch.setattr("calipers.synthetic.demo.draw_images", lambda *args, **options: [])


@pytest.mark.usefixtures("undrawn")
def test_stdout_tells_the_story_and_stderr_what_is_done(folder, calipers):
    said = calipers("demo", "-o", folder, "--force")
    assert said.code == 0
    assert "Average precision and RoDeO rank them differently" in said.out
    assert said.out.rstrip().endswith(f"Open {folder / 'results' / 'report.html'}")
    assert said.err.startswith("drawing 120 phantom images")


@pytest.mark.usefixtures("undrawn")
def test_json_is_the_evaluation_and_the_page(folder, calipers):
    said = calipers("demo", "-o", folder, "--force", "--preset", "rodeo", "--json")
    assert (said.code, said.err) == (0, "")
    assert list(said.json) == [
        "schema",
        "calipers",
        "protocol",
        "cohort",
        "rows",
        "warnings",
        "statistics",
        "page",
    ]
    assert said.json["protocol"]["name"] == "rodeo"
    assert said.json["page"] == str(folder / "results" / "report.html")


def test_an_unknown_preset_is_refused(calipers, tmp_path):
    assert calipers("demo", "-o", tmp_path / "x", "--preset", "nope").code == 2
    assert not (tmp_path / "x").exists()
