"""Files that end the process that reads them: strict runs name them, lenient runs go on without.

A decoder that crashes is hard to come by, so workers load a module that kills them when they open a
certain file. Everything else is as users have it: the command line, processes, signals.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from random_cohorts import random_cohort

N_SAMPLES = 7
DEADLY = "s3"
KILLER = f"""
import multiprocessing, os, signal, sys

def kill(event, arguments):
    if event == "open" and str(arguments[0]).endswith("{DEADLY}.npy"):
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGSEGV)

sys.addaudithook(kill)
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels, the maps of two trainings, and references of boxes."""
    folder = tmp_path_factory.mktemp("deadly")
    for name in ("labels", "a", "b"):
        (folder / name).mkdir()
    for k in range(N_SAMPLES):
        rng = np.random.default_rng(k)
        labels = np.zeros((12, 12), np.uint8)
        labels[3:6, 4 : 6 + k % 3] = k % 4 > 0
        np.save(folder / "labels" / f"s{k}.npy", labels)
        for model in "ab":
            scores = np.clip(0.5 * labels + 0.4 * rng.random(labels.shape), 0, 1)
            np.save(folder / model / f"s{k}.npy", scores.astype(np.float32))
    return folder


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on workers die of one of the samples."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "sitecustomize.py").write_text(KILLER)
    paths = [str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def maps_words(folder: Path, *more: object) -> list[object]:
    return ["maps", folder / "labels", f"ours={folder / 'a'}", "--no-ci", "-q", *more]


def result_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "evaluation.json").read_text()))


@pytest.mark.usefixtures("deadly")
def test_strict_maps_name_the_sample_and_keep_the_others(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    said = calipers(*maps_words(samples, "--jobs", 2, "-o", tmp_path / "result"))
    assert said.code == 2
    assert said.err.startswith(f"error: {DEADLY}: ")
    assert "signal 11, SIGSEGV" in said.err
    assert "worker-died" in said.err
    assert "--lenient" in said.err
    # Those before it need not be examined again.
    assert len(list((tmp_path / "result.blocks").glob("*.npz"))) == 3


@pytest.mark.usefixtures("deadly")
@pytest.mark.parametrize("jobs", [1, 2])
def test_lenient_maps_are_those_of_the_other_samples(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path, jobs: int
) -> None:
    output = tmp_path / "result"
    said = calipers(*maps_words(samples, "--jobs", jobs, "--lenient", "-o", output))
    assert said.code == 0, said.err
    run = json.loads((output / "run.json").read_text())
    for file in run["inputs"]:
        assert (file["read"], file["used"]) == (N_SAMPLES, N_SAMPLES - 1)
        assert file["quarantined"] == {"worker-died": 1}
    records = [json.loads(line) for line in (output / "quarantine.jsonl").read_text().splitlines()]
    assert [Path(record["file"]).parent.name for record in records] == ["labels", "a"]
    for record in records:
        assert record["location"] == DEADLY
        assert "SIGSEGV" in record["record"]
    others = without_the_deadly(samples, tmp_path)
    assert calipers(*maps_words(others, "-o", tmp_path / "others")).code == 0
    assert result_of(output)["rows"] == result_of(tmp_path / "others")["rows"]
    assert calipers("verify", output, "-q").code == 0


@pytest.mark.usefixtures("deadly")
def test_parts_of_a_lenient_run_set_the_same_sample_aside(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    folders = [tmp_path / "p1", tmp_path / "p2"]
    for k, folder in enumerate(folders, start=1):
        words = maps_words(samples, "--lenient", "--part", f"{k}/2", "-o", folder)
        assert calipers(*words).code == 0
    assert calipers("merge", *folders, "-o", tmp_path / "merged", "-q").code == 0
    others = without_the_deadly(samples, tmp_path)
    assert calipers(*maps_words(others, "-o", tmp_path / "others")).code == 0
    assert result_of(tmp_path / "merged")["rows"] == result_of(tmp_path / "others")["rows"]
    # Blocks of a lenient run are none of a strict one.
    said = calipers(*maps_words(samples, "--part", "1/2", "-o", folders[0]))
    assert (said.code, "lenient" in said.err) == (2, True)


def test_broken_samples_are_set_aside_as_far_as_allowed(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(samples, copy)
    broken = np.load(copy / "a" / "s1.npy")
    broken[2, 3] = np.nan
    np.save(copy / "a" / "s1.npy", broken)
    said = calipers(*maps_words(copy))
    assert (said.code, "s1.npy" in said.err) == (2, True)
    words = [word for word in maps_words(copy, "--lenient") if word != "-q"]
    said = calipers(*words)
    assert "1 of 7 records were set aside (non-finite 1)" in said.err
    said = calipers(*words, "--allow-loss", 0.1)
    assert (said.code, "mostly-broken" in said.err) == (2, True)


def without_the_deadly(samples: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(samples, copy)
    for folder in ("labels", "a", "b"):
        (copy / folder / f"{DEADLY}.npy").unlink()
    return copy


def stability_words(folder: Path, *more: object) -> list[object]:
    return ["stability", folder / "a", folder / "b", "--no-ci", "--json", *more]


@pytest.mark.usefixtures("deadly")
def test_stability_names_the_image_or_goes_on_without(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    said = calipers(*stability_words(samples, "--lenient", "--jobs", 2))
    assert said.code == 0, said.err
    others = calipers(*stability_words(without_the_deadly(samples, tmp_path)))
    assert said.json["rows"] == others.json["rows"]
    (note,) = [text for text in said.json["warnings"] if "set aside" in text]
    assert f"1 image was set aside (--lenient): bag '{DEADLY}' (signal 11, SIGSEGV)" in note
    said = calipers(*stability_words(samples, "--lenient", "--allow-loss", 0.1))
    assert (said.code, "mostly-broken" in said.out) == (2, True)


DEADLY_IMAGE = "2"
# Kills the worker that matches the image, as lack of memory would; the program itself lives.
MATCH_KILLER = f"""
import importlib.abc, importlib.util, multiprocessing, os, signal, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "calipers.matching.assign":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            match = module.match
            def deadly(cohort, model, views):
                if {DEADLY_IMAGE!r} in cohort.images.ids and multiprocessing.parent_process():
                    os.kill(os.getpid(), signal.SIGKILL)
                return match(cohort, model, views)
            module.match = deadly
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """References and predictions of boxes; from here on workers die of one of the images."""
    cohort = random_cohort(4, 2, seed=4, models=2)
    cohort = replace(cohort, images=replace(cohort.images, ids=("0", "1", "2", "3")))
    cal.write(cohort, tmp_path / "references.csv")
    for model in cohort.models:
        cal.write(cohort, tmp_path / f"{model}.csv", what=model)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "sitecustomize.py").write_text(MATCH_KILLER)
    paths = [str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    return tmp_path


VERBS_OF_BOXES = {
    "evaluate": "evaluate references.csv model-1.csv --preset overview --metrics F1@0.5 --no-ci",
    "sweep": "sweep references.csv model-1.csv --over threshold=0.3,0.5 --metric F1@0.5 --no-ci",
    "multiverse": "multiverse references.csv model-1.csv model-2.csv --metric F1 --replicates 100",
    "monitor": "monitor references.csv model-1.csv --alarm max-score --tau 0.9 --no-ci",
}


def numbers_of(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what says how and of which files it was made."""
    told = ("cohort", "warnings", "notes", "settings", "scope")
    return {key: value for key, value in document.items() if key not in told}


@pytest.mark.slow  # about twenty processes start and die one after the other
@pytest.mark.parametrize("verb", VERBS_OF_BOXES)
def test_verbs_of_boxes_name_the_image_or_go_on_without(
    calipers: Callable[..., Any], boxes: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(boxes)
    words = VERBS_OF_BOXES[verb].split()
    lenient = calipers(*words, "--lenient", "--jobs", 2, "--json")
    assert lenient.code == 0, lenient.err
    said = calipers(*words, "--lenient", "--jobs", 2)
    assert f"1 image was set aside (--lenient): {DEADLY_IMAGE} (signal 9, SIGKILL)" in said.err
    for file in boxes.glob("*.csv"):
        lines = file.read_text().splitlines()
        file.write_text("".join(f"{x}\n" for x in lines if x.split(",")[0] != DEADLY_IMAGE))
    others = calipers(*words, "--json")
    assert others.code == 0, others.err
    assert numbers_of(lenient.json) == numbers_of(others.json)
