"""Which cases folders of volumes hold: copies, groups, single files, files that are broken."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volume_folders import VolumeCheckup, check_volumes
from calipers.io.write_volume import write_volume

Arrays = dict[str, np.ndarray]


def discs(n: int = 6) -> Arrays:
    z, y, x = np.indices((6, 24, 26))
    volumes = {}
    for k in range(n):
        volumes[f"case{k}"] = ((y - 6 - k) ** 2 + (x - 16 + k) ** 2 <= 20 + k).astype(np.uint8)
        volumes[f"case{k}"][z > 3 + k % 2] = 0
    return volumes


def scores(of: Arrays) -> Arrays:
    return {name: (0.2 + 0.6 * volume).astype(np.float32) for name, volume in of.items()}


def put(folder: Path, volumes: Arrays) -> Path:
    folder.mkdir()
    for name, volume in volumes.items():
        write_volume(folder / f"{name}.npz", volume, spacing=(1.0, 1.0, 2.0))
    return folder


def checked(refs: Path, preds: Path, groups: Path | None = None) -> VolumeCheckup:
    return check_volumes(Inputs(refs, {"model": preds}, groups, {}))


def codes(checkup: VolumeCheckup) -> set[tuple[str, str]]:
    return {(symptom.code, symptom.level) for symptom in checkup.findings}


@pytest.mark.parametrize("kind", ["maps", "labels"])
def test_a_case_that_is_there_twice_is_told(kind, tmp_path) -> None:
    volumes = discs()
    volumes["case9"] = volumes["case2"]
    predictions = scores(volumes) if kind == "maps" else volumes
    checkup = checked(put(tmp_path / "refs", volumes), put(tmp_path / "preds", predictions))
    (copy,) = [symptom for symptom in checkup.findings if symptom.code == "duplicate-images"]
    assert (copy.level, copy.count, copy.examples) == ("warning", 1, ("case2 and case9",))
    assert not checkup.refused


def test_equal_boxes_and_empty_volumes_are_no_copies(tmp_path) -> None:
    volumes = discs()
    for name in ("case1", "case2"):
        volumes[name][:] = 0
        volumes[name][1:3, 4:9, 5:8] = 1
    for name in ("case3", "case4"):
        volumes[name][:] = 0
    checkup = checked(put(tmp_path / "refs", volumes), put(tmp_path / "preds", scores(volumes)))
    assert not codes(checkup)


def table(path: Path, *, ending: str = "") -> Path:
    rows = [f"case{k}{ending},P{k // 2},{'train' if k == 1 else 'test'}" for k in range(6)]
    path.write_text("\n".join(["image,patient,split", *rows]))
    return path


def test_a_patient_in_two_splits_is_told_of_maps(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    checkup = checked(refs, preds, table(tmp_path / "groups.csv"))
    assert codes(checkup) == {("patient-in-two-splits", "warning")}
    (command,) = checkup.commands
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def test_a_table_of_other_names_is_refused_and_gets_no_command(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    groups = table(tmp_path / "groups.csv", ending=".nii.gz")
    checkup = checked(refs, preds, groups)
    assert (checkup.refused, checkup.commands) == (True, ())
    assert checkup.findings[0].about == str(groups)
    words = ["maps", str(refs), str(preds), "--groups", str(groups), "--no-ci", "-q"]
    assert run(words) == 2


@pytest.mark.parametrize("kind", ["maps", "labels"])
def test_two_single_files_are_a_pair_whatever_their_names(kind, tmp_path) -> None:
    volume = discs()["case3"]
    refs = put(tmp_path / "refs", {"truth": volume}) / "truth.npz"
    predicted = scores({"output": volume}) if kind == "maps" else {"output": volume}
    preds = put(tmp_path / "preds", predicted) / "output.npz"
    checkup = checked(refs, preds)
    assert not checkup.refused, checkup.lines()
    (command,) = checkup.commands
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def test_files_that_are_broken_are_not_missing(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    for path in preds.iterdir():
        path.write_bytes(path.read_bytes()[:200])
    assert codes(checked(refs, preds)) == {("volume-broken", "error")}


def test_a_segment_that_was_asked_for_is_part_of_the_command(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    checkup = check_volumes(Inputs(refs, {"model": preds}, None, {"segment": 2}))
    assert checkup.commands[0].endswith("--segment 2")
