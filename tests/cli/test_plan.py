"""``--plan``: every long verb says what it would take, in one form, and does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal

KEYS = {
    "schema",
    "work",
    "models",
    "blocks",
    "file_bytes",
    "jobs",
    "memory_bytes",
    "cpu_seconds",
    "seconds",
    "largest",
    "basis",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    cohort = cal.demo_cohort()
    cal.write(cohort, folder / "refs.json", what="references")
    for name, model in zip("ab", cohort.models):
        cal.write(cohort, folder / f"{name}.json", what=model)
        (folder / name).mkdir()
        for k in range(3):
            np.save(folder / name / f"i{k}.npy", np.random.default_rng(k).random((6, 6)))
    return folder


VERBS = {
    "evaluate": ("evaluate", "refs.json", "a.json", "b.json", "-o", "result"),
    "sweep": ("sweep", "refs.json", "a.json", "--over", "threshold=0.3,0.5", "--metric", "F1@0.5"),
    "oracle": ("sweep", "refs.json", "--over", "position-noise.sigma=0,1", "--runs", "2"),
    "multiverse": ("multiverse", "refs.json", "a.json", "b.json", "--metric", "AP", "-o", "result"),
    "compare": ("compare", "refs.json", "a.json", "b.json"),
    "monitor": ("monitor", "refs.json", "a.json", "--alarm", "max-score", "--tau", "0.5"),
    "stability": ("stability", "a", "b", "-o", "result"),
    "fuse": ("fuse", "refs.json", "a.json", "b.json", "--recipe", "wbf", "--tune", "-o", "result"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_plan_of_a_verb(
    calipers: Callable[..., Any], files: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr("calipers.evaluation.plan.TRIALS", (100, 101))
    before = sorted(files.rglob("*"))
    said = calipers(*VERBS[verb], "--plan", "--json", "--jobs", 2)
    assert said.code == 0, said.err
    assert set(said.json) >= KEYS
    assert said.json["work"] == VERBS[verb][0]
    assert said.json["blocks"] >= 1
    assert 0 < said.json["seconds"] <= said.json["cpu_seconds"]
    assert sorted(files.rglob("*")) == before
    if verb != "stability":
        files_of_verb = [file for file in VERBS[verb] if file.endswith(".json")]
        sizes = [(files / file).stat().st_size for file in files_of_verb]
        assert said.json["file_bytes"] == sum(sizes)


def test_the_plan_in_words(calipers: Callable[..., Any], files: Path) -> None:
    said = calipers("stability", files / "a", files / "b", "--plan", "-q")
    work, memory, time = said.out.splitlines()
    assert work == "work    3 images of 2 models, 0.0 MB of files, in 1 block"
    # What this process holds already is part of it.
    assert re.match(r"memory  about \d+\.\d+ GB with --jobs 1; the largest of 3 images", memory)
    assert time.startswith("time    less than a second with --jobs 1, from 3 images;")


def test_a_plan_of_fusing_alone_is_refused(calipers: Callable[..., Any], files: Path) -> None:
    said = calipers("fuse", files / "refs.json", files / "a.json", "-o", "f.json", "--plan")
    assert (said.code, "--plan is for --tune" in said.err) == (2, True)


def test_memory_limits_stability(calipers: Callable[..., Any], files: Path) -> None:
    words = ["stability", files / "a", files / "b", "--plan", "--json", "--jobs", 4]
    assert calipers(*words, "--max-memory", "100GB").json["jobs"] == 4
    said = calipers(*words, "--max-memory", "1MB")
    assert said.code == 2
    assert "one image at a time needs about" in said.json["error"]["message"]


def test_jobs_change_nothing_about_monitors(calipers: Callable[..., Any], files: Path) -> None:
    words = ["monitor", files / "refs.json", files / "a.json", "--alarm", "max-score"]
    words += ["--alarm", "count", "--tau", 0.5, "--replicates", 100, "--json"]
    alone, shared = calipers(*words), calipers(*words, "--jobs", 3)
    assert (alone.code, shared.out) == (0, alone.out)
