"""`-o DIR`: what is in it, when it is refused, and that a failure leaves nothing behind."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import calipers as cal

NAMES = [
    "audit.jsonl",
    "evaluation.json",
    "images.csv",
    "images.parquet",
    "objects.parquet",
    "report.html",
    "run.json",
]


@pytest.fixture
def evaluate(calipers, files):
    """Evaluate into a folder."""

    def call(folder, *options):
        argv = ["evaluate", files.references, files.ours, files.theirs, "--groups", files.groups]
        return calipers(*argv, "-o", folder, *options)

    return call


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_folder_holds_the_whole_result(evaluate, tmp_path):
    said = evaluate(tmp_path / "a" / "b", "--json")
    assert said.code == 0
    assert listed(tmp_path / "a" / "b") == NAMES
    assert json.loads((tmp_path / "a" / "b" / "evaluation.json").read_text()) == said.json


def test_narration_says_where_the_page_is(evaluate, tmp_path):
    said = evaluate(tmp_path / "out")
    assert said.err.rstrip().endswith(f"Open {tmp_path / 'out' / 'report.html'}")
    assert "report.html" not in said.out


def test_an_empty_folder_will_do(evaluate, tmp_path):
    (tmp_path / "out").mkdir()
    assert evaluate(tmp_path / "out").code == 0
    assert listed(tmp_path / "out") == NAMES


def test_the_working_folder_will_do(evaluate, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert evaluate(".").code == 0
    assert listed(tmp_path / "here") == NAMES


def test_existing_results_stay(evaluate, tmp_path):
    out = tmp_path / "out"
    assert evaluate(out).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    said = evaluate(out, "--preset", "rodeo")
    assert (said.code, "[output-exists]" in said.err, "--force" in said.err) == (2, True, True)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert evaluate(out, "--preset", "rodeo", "--force").code == 0
    assert json.loads((out / "evaluation.json").read_text())["protocol"]["name"] == "rodeo"


def test_force_leaves_files_that_are_not_ours(evaluate, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    (out / "quarantine.jsonl").write_text("of an earlier run")
    assert evaluate(out).code == 2
    assert evaluate(out, "--force").code == 0
    assert listed(out) == sorted([*NAMES, "thesis.txt"])
    assert (out / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_results_never_go_among_the_inputs(evaluate, files, options):
    before = listed(files.folder)
    for spelling in (files.folder, files.folder / ".." / "data"):
        said = evaluate(spelling, *options)
        assert (said.code, "[output-in-input]" in said.err) == (2, True)
    assert listed(files.folder) == before


def test_a_file_is_no_folder(evaluate, tmp_path):
    (tmp_path / "out").write_text("mine")
    said = evaluate(tmp_path / "out", "--force")
    assert (said.code, "[not-a-folder]" in said.err) == (2, True)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_bad_folder_is_refused_before_any_work(evaluate, files, monkeypatch):
    def read(*args, **kwargs):
        pytest.fail("was read")

    monkeypatch.setattr("calipers.io.read.read", read)
    assert evaluate(files.folder).code == 2


@pytest.fixture
def full_disk(monkeypatch):
    """Let every write of a page fail, as on a full disk."""

    def write(path, content):
        if path.name == "report.html":
            raise cal.InputError("space", rule="disk-full", file=str(path))
        path.write_text("x") if isinstance(content, str) else path.write_bytes(content)

    monkeypatch.setattr("calipers.report.page.write_atomically", write)


@pytest.mark.usefixtures("full_disk")
def test_a_failure_leaves_nothing(evaluate, tmp_path):
    said = evaluate(tmp_path / "a" / "out")
    assert (said.code, said.out, "[disk-full]" in said.err) == (2, "", True)
    assert listed(tmp_path) == ["data"]


def test_a_failure_leaves_earlier_results_whole(evaluate, tmp_path, request):
    out = tmp_path / "out"
    assert evaluate(out).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    request.getfixturevalue("full_disk")
    assert evaluate(out, "--preset", "rodeo", "--force").code == 2
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_the_record_of_the_run_moves_in_last(evaluate, tmp_path, monkeypatch):
    out, moved, move = tmp_path / "out", [], os.rename
    out.mkdir()

    def watch(source, target):
        if Path(target).parent == out:
            assert not (out / "run.json").exists()
            moved.append(Path(target).name)
        move(source, target)

    monkeypatch.setattr(os, "rename", watch)
    assert evaluate(out).code == 0
    assert sorted(moved) == NAMES
    assert moved[-1] == "run.json"


def test_the_run_is_on_record(evaluate, files, tmp_path):
    out = tmp_path / "out"
    evaluate(out, "--seed", "3")
    run = json.loads((out / "run.json").read_text())
    assert (run["schema"], run["calipers"], run["exit"]) == ("calipers.run/1", cal.__version__, 0)
    assert run["command"][:3] == ["calipers", "evaluate", files.references]
    assert run["command"][-2:] == ["--seed", "3"]
    kernels = run["settings"].pop("kernels")
    matching, intervals = run["settings"].pop("matching"), run["settings"].pop("intervals")
    assert run["settings"] == {"seed": 3, "rng": "Philox4x64", "ties": "coco"}
    assert matching == run["protocol"]["matching"]
    assert (intervals["level"], intervals["replicates"]) == (0.95, 2000)
    assert intervals["method"] == run["protocol"]["interval"]
    assert kernels in ("numpy", "native")
    environment = run["environment"]
    versions = ("python", "numpy", "scipy", "blas")
    assert set(environment) == {*versions, "platform", "release", "machine", "cpu", "byteorder"}
    assert all(environment.values())
    assert set(run["source"]) == {"commit", "installed_sha256"}
    assert run["records"]["read"] == sum(file["read"] for file in run["inputs"])
    assert run["records"]["used"] == run["records"]["read"]
    assert run["started"] <= run["ended"]
    assert run["metric_ids"] == ["ap.coco101@1", "ar.coco@1"]
    given = {"references.json", "ours.json", "theirs.json", "images.csv"}
    assert {Path(file["file"]).name for file in run["inputs"]} == given
    for file in run["inputs"]:
        data = Path(file["file"]).read_bytes()
        assert (file["sha256"], file["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
        assert file["read"] == file["used"] + sum(file["quarantined"].values())


def test_equal_work_has_equal_hashes(evaluate, tmp_path, monkeypatch):
    hashes = []
    for name, options in (
        ("a", []),
        ("b", ["--jobs", "3"]),
        ("c", ["--preset", "rodeo"]),
        ("d", []),
    ):
        monkeypatch.setenv("CALIPERS_NATIVE", "0" if name == "d" else "1")
        evaluate(tmp_path / name, *options)
        run = json.loads((tmp_path / name / "run.json").read_text())
        hashes.append((run["result_hash"], run["protocol_hash"]))
    assert (
        hashes[0] == hashes[1] == hashes[3]
    )  # neither threads nor the route of the kernels matter
    assert hashes[0][0] != hashes[2][0]
    assert hashes[0][1] != hashes[2][1]


def as_any_user(mask: int) -> None:
    """Take from root what lets it go past rights, for the program that follows, and set a umask."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.umask(mask)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs capabilities")
@pytest.mark.parametrize("mask", [0o022, 0o777, 0o277])
def test_what_other_users_left_blocks_nobody(files, tmp_path, mask):
    """A run of somebody else is under way in the same parent folder, and its stage is private."""
    stages = [tmp_path / ".calipers-abc", tmp_path / ".calipers-old-abc"]
    for stage in stages:
        stage.mkdir(mode=0o000)
    words = ["evaluate", files.references, files.ours, "-q", "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "calipers", *words],
        preexec_fn=lambda: as_any_user(mask),
        capture_output=True,
        check=False,
    )
    for stage in stages:
        assert stage.is_dir()
        stage.rmdir()
    assert done.returncode == 0, done.stderr
    assert listed(tmp_path) == ["data", "out"]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~mask | 0o700
