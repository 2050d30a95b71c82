"""`calipers study`: lists studies, runs one, writes its folder, refuses what it cannot do."""

from __future__ import annotations

import re
import sys

import pytest

from calipers.show.terminal import Narrator
from studies.anomaly.made_brains import archive_of_template, made_template
from studies.study_cases import small_result


@pytest.fixture
def made(monkeypatch):
    """Let every study be the one made by hand."""
    calls = []

    def run(name, **given):
        calls.append((name, given))
        return small_result()

    monkeypatch.setattr("calipers.studies.framework.run_study", run)
    return calls


def test_without_a_name_studies_are_listed(calipers) -> None:
    said = calipers("study")
    assert said.code == 0
    assert said.out.startswith("rodeo")
    listed = calipers("study", "--json").json
    assert listed["schema"] == "calipers.studies/1"
    assert "rodeo" in [entry["name"] for entry in listed["studies"]]


def test_claims_are_printed_with_their_verdicts(calipers, made) -> None:
    said = calipers("study", "rodeo", "--seed", 5, "--quick", "--runs", 3)
    assert said.code == 0
    assert "- did not hold: c (section 3)" in said.out
    assert said.out.splitlines()[-1].startswith("In this run 1 of 3 claims held")
    ((name, given),) = made
    assert (name, given["seed"], given["quick"], given["runs"]) == ("rodeo", 5, True, 3)


def test_the_folder_is_written_and_named(calipers, made, tmp_path) -> None:
    said = calipers("study", "rodeo", "-o", tmp_path / "out")
    assert said.out.splitlines()[-1] == f"Open {tmp_path / 'out' / 'study.html'}"
    document = calipers("study", "rodeo", "-o", tmp_path / "out", "--force", "--json").json
    assert document["schema"] == "calipers.study/1"
    assert document["page"] == str(tmp_path / "out" / "study.html")


def test_a_folder_in_use_is_refused_before_anything_runs(calipers, made, tmp_path) -> None:
    (tmp_path / "mine").write_text("x")
    said = calipers("study", "rodeo", "-o", tmp_path)
    assert (said.code, made) == (2, [])
    assert "output-exists" in said.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("rodoe",), "did you mean 'rodeo'"),
        (("rodeo", "--predictions", "a=b.json"), "--data"),
        (("rodeo", "--runs", "1"), "--runs"),
        (("rodeo", "--data", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_cannot_be_done_is_refused(calipers, argv, words) -> None:
    said = calipers("study", *argv)
    assert said.code == 2
    assert words in said.err


def test_progress_shows_the_time_that_all_of_it_will_take(capsys, monkeypatch) -> None:
    clock = iter([0.0, 0.0, 30.0, 30.0, 60.0, 60.0, 90.0, 90.0])
    monkeypatch.setattr("calipers.show.terminal.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(Narrator, "line_width", 0)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    progress = Narrator(quiet=False).whole()
    progress("figure 3", 0, 4)
    progress("figure 3", 1, 4)
    shown = capsys.readouterr().err.replace("2 min", "90 s")
    assert "figure 3 [=====>              ]  25 %, 90 s left" in shown


def test_a_page_to_rank_maps_is_written_instead_of_a_study(calipers, tmp_path, monkeypatch) -> None:
    template = made_template()
    archive_of_template(template).write(tmp_path / "brains.npz")
    monkeypatch.setattr("calipers.studies.anomaly.brains.read_template", lambda: template)
    page = tmp_path / "rank.html"
    said = calipers("study", "anomaly", "--rank-maps", page, "--keep", tmp_path)
    assert f"Open {page}" in said.out
    assert "slice-pca" in page.read_text()
    again = calipers("study", "anomaly", "--rank-maps", page, "--keep", tmp_path)
    assert again.code == 2
    assert "--force" in again.err


def test_without_nilearn_ranking_says_what_to_install(calipers, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("calipers.studies.anomaly.brains.installed_folder", lambda: None)
    said = calipers("study", "anomaly", "--rank-maps", tmp_path / "rank.html")
    assert said.code == 2
    assert "pip install nilearn==0.14.1" in said.err
    assert not (tmp_path / "rank.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rodeo", "--rank-maps", "rank.html"), "has no maps to rank"),
        (("anomaly", "--rank-maps", "rank.html", "-o", "out"), "leave out -o and --train"),
        (("anomaly", "--rank-maps", "nowhere/rank.html"), "a folder that exists"),
    ],
)
def test_what_rank_maps_refuses(calipers, arguments, words: str) -> None:
    said = calipers("study", *arguments)
    assert said.code == 2
    assert words in said.err


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_plan_of_a_study(calipers, jobs: int) -> None:
    said = calipers("study", "stability", "--quick", "--plan", "--jobs", jobs)
    assert said.code == 0
    first, *kinds, memory, time = said.out.splitlines()
    assert first == "work    32 steps:"
    assert sum(int(line.split()[0]) for line in kinds) == 32
    # How much depends on what this process has done before: tests share it.
    assert re.match(rf"memory  about [\d.]+ GB with --jobs {jobs}; the largest step is ", memory)
    assert f"with --jobs {jobs}, from" in time
