"""Folders of classes (``liver/case1``, ``spleen/case1``) are never read as cases of one class
without a word: the doctor has a command for each, and evaluations say what they read.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import VolumeCheckup, check_volumes
from calipers.io.write_volume import write_volume

ORGANS = ("liver", "spleen")
CASES = ("case1", "case2", "case3")
SIDE = 32


def checked(folder: Path) -> VolumeCheckup:
    return check_volumes(Inputs(folder / "refs", {"preds": folder / "preds"}, None, {}))


def codes(checkup: VolumeCheckup) -> set[tuple[str, str]]:
    return {(symptom.code, symptom.level) for symptom in checkup.findings} - {
        ("few-positives", "note")
    }


def organ(case: int, kind: int, shift: int, shape: tuple[int, ...]) -> np.ndarray:
    """A block that is moved in a prediction, further for the second organ."""
    voxels = np.zeros(shape, np.uint8)
    start = 3 + 2 * case + shift
    voxels[..., 2 + 14 * kind : 12 + 14 * kind, start : start + 10] = 1
    return voxels


def put(
    folder: Path,
    names: tuple[str, ...] = ORGANS,
    *,
    endings: tuple[str, str] = ("", ""),
    extension: str = ".nii.gz",
    steps: tuple[float, float] = (1.0, 1.0),
) -> Path:
    """Write references and predictions, with a folder for every name and a file for every case."""
    shape = (4, SIDE, SIDE) if extension == ".nii.gz" else (SIDE, SIDE)
    for kind, name in enumerate(names):
        for k, case in enumerate(CASES):
            for side, shift in (("refs", 0), ("preds", 1 + 2 * kind)):
                place = folder / side / name / f"{case}{endings[kind]}{extension}"
                place.parent.mkdir(parents=True, exist_ok=True)
                options = {"spacing": (steps[kind], 1.0, 2.0)} if len(shape) == 3 else {}
                write_volume(place, organ(k, kind, shift, shape), **options)
    return folder


def overlap(kind: int) -> float:
    """IoU of blocks of ten columns that are moved by 1 + 2 * kind columns."""
    moved = 1 + 2 * kind
    return (10 - moved) / (10 + moved)


@pytest.mark.parametrize("endings", [("", ""), ("_LI", "_SP")])
def test_every_class_has_a_command_with_its_own_numbers(endings, tmp_path, capsys) -> None:
    checkup = checked(put(tmp_path, endings=endings))
    assert codes(checkup) == {("several-kinds", "error")}
    assert len(checkup.commands) == len(ORGANS)
    for kind, command in enumerate(checkup.commands):
        assert ORGANS[kind] in command
        words = [*shlex.split(command)[1:], "--no-ci", "--json"]
        assert run([*words, "--metrics", "sensitivity@0.5,sensitivity@0.6"]) == 0
        document = json.loads(capsys.readouterr().out)
        counts = document["cohort"]
        assert (counts["images"], counts["references"]) == (len(CASES), len(CASES))
        values = {row["metric"]: row["value"] for row in document["rows"]}
        for limit in (0.5, 0.6):
            assert values[f"sensitivity@{limit}"] == float(overlap(kind) >= limit)


def test_predictions_of_classes_may_have_an_ending_of_their_own(tmp_path) -> None:
    put(tmp_path)
    for path in sorted((tmp_path / "preds").rglob("*.nii.gz")):
        path.rename(path.with_name(path.name.replace(".nii.gz", "_pred.nii.gz")))
    checkup = checked(tmp_path)
    assert codes(checkup) == {("several-kinds", "error")}
    for command, name in zip(checkup.commands, ORGANS, strict=True):
        words = shlex.split(command)
        assert words[words.index("--pattern") + 1] == f"{name}/{{name}}_pred.nii.gz"
        assert words[words.index("--reference-pattern") + 1] == f"{name}/{{name}}.nii.gz"
        assert run([*words[1:], "--no-ci", "-q"]) == 0


def test_an_evaluation_says_that_folders_of_classes_were_read_as_one(tmp_path) -> None:
    put(tmp_path)
    cohort = cal.read(tmp_path / "refs", tmp_path / "preds")
    assert any("the folders liver, spleen" in note for note in cohort.intake.notes)
    pairing = cal.read_maps(tmp_path / "refs", tmp_path / "preds")
    assert any("the folders liver, spleen" in note for note in pairing.notes)


def test_an_evaluation_says_that_every_case_has_several_files(tmp_path) -> None:
    for kind, name in enumerate(ORGANS):
        for k, case in enumerate(CASES):
            for side in ("refs", "preds"):
                place = tmp_path / side / case
                place.mkdir(parents=True, exist_ok=True)
                write_volume(place / f"{name}.nii.gz", organ(k, kind, 0, (4, SIDE, SIDE)))
    cohort = cal.read(tmp_path / "refs", tmp_path / "preds")
    assert any("every case has several files (liver, spleen)" in n for n in cohort.intake.notes)


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (("train", "val"), (1.0, 1.0)),
        (("Site Rome", "Site Oslo"), (1.0, 1.0)),
        # Images of other scanners, whatever their folders are called.
        (("rome", "oslo"), (1.0, 1.5)),
    ],
)
def test_folders_of_images_of_their_own_are_no_classes(names, steps, tmp_path) -> None:
    checkup = checked(put(tmp_path, names, steps=steps))
    assert not codes(checkup)
    (command,) = checkup.commands
    assert "pattern" not in command
    cohort = cal.read(tmp_path / "refs", tmp_path / "preds")
    assert not any("folders" in note for note in cohort.intake.notes)


def test_pictures_of_one_size_may_be_either(tmp_path) -> None:
    """Nothing tells classes of the same pictures from pictures of two patients: both are said."""
    checkup = checked(put(tmp_path, ("anna", "bert"), extension=".png"))
    assert codes(checkup) == {("class-folders", "warning")}
    (command,) = checkup.commands
    assert "pattern" not in command
