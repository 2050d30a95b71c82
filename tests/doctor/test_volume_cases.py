"""Which cases folders of volumes hold: copies, groups, single files, files that are broken."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import VolumeCheckup, check_volumes
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
    folder.mkdir(parents=True, exist_ok=True)
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


def pictures(folder: Path, volumes: Arrays, ending: str = ".png", factor: int = 1) -> Path:
    from PIL import Image

    folder.mkdir()
    for name, volume in volumes.items():
        image = Image.fromarray(volume)
        size = (volume.shape[1] // factor, volume.shape[0] // factor)
        image.resize(size, Image.Resampling.BILINEAR).save(folder / f"{name}{ending}")
    return folder


def masks() -> Arrays:
    return {name: 255 * np.repeat(volume[1], 2, axis=0) for name, volume in discs().items()}


def test_maps_of_half_the_size_are_resized_where_they_meet_their_references(tmp_path) -> None:
    refs = pictures(tmp_path / "refs", masks())
    grey = {name: mask // 2 + 20 for name, mask in masks().items()}
    half = pictures(tmp_path / "half", grey, factor=2)
    (command,) = checked(refs, half).commands
    assert command.endswith("--resize linear --normalise uint8")
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0
    elsewhere = {name: mask[::-1, ::-1].copy() for name, mask in grey.items()}
    checkup = checked(refs, pictures(tmp_path / "elsewhere", elsewhere, factor=2))
    assert checkup.commands == ()


def test_lossy_references_are_refused_before_they_are_judged(tmp_path) -> None:
    refs = pictures(tmp_path / "refs", masks(), ".jpg")
    checkup = checked(refs, pictures(tmp_path / "preds", masks()))
    assert codes(checkup) == {("lossy", "error")}


def test_masks_with_soft_edges_are_told(tmp_path) -> None:
    from PIL import Image

    soft = {}
    for name, mask in masks().items():
        wide = Image.fromarray(mask).resize((39, 72), Image.Resampling.BILINEAR)
        soft[name] = np.asarray(wide)
    refs = pictures(tmp_path / "refs", soft)
    checkup = checked(refs, pictures(tmp_path / "preds", {k: v // 2 for k, v in soft.items()}))
    assert ("label-fractions", "error") in codes(checkup)
    assert checkup.commands == ()


def test_one_channel_needs_no_choice(tmp_path) -> None:
    refs = put(tmp_path / "refs", discs())
    one = {name: volume[None] for name, volume in scores(discs()).items()}
    preds = tmp_path / "preds"
    preds.mkdir()
    for name, volume in one.items():
        np.savez(preds / f"{name}.npz", volume)
    (command,) = checked(refs, preds).commands
    assert command.endswith("--channel 0")
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def test_cases_whose_reference_is_broken_are_not_too_many(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    (refs / "case2.npz").write_bytes(b"PK\x03\x04")
    assert {code for code, _ in codes(checked(refs, preds))} == {"volume-broken"}


def test_a_pattern_of_one_model_is_not_for_all(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", scores(discs()))
    named = {f"{name}_prob": volume for name, volume in scores(discs()).items()}
    models = {"a": preds, "b": put(tmp_path / "others", named)}
    checkup = check_volumes(Inputs(refs, models, None, {}))
    assert (codes(checkup), checkup.commands) == ({("image-names", "error")}, ())
    assert checkup.findings[0].hint.endswith("alone: pass --pattern {name}_prob.npz")


def test_a_table_without_a_row_for_every_case_is_told_of_labels(tmp_path) -> None:
    refs, preds = put(tmp_path / "refs", discs()), put(tmp_path / "preds", discs())
    groups = table(tmp_path / "groups.csv")
    groups.write_text("\n".join(groups.read_text().split("\n")[:-1]))
    checkup = checked(refs, preds, groups)
    assert ("missing-group", "error") in codes(checkup)
    assert (checkup.refused, checkup.commands) == (True, ())


def test_models_side_by_side_are_evaluated_each(tmp_path) -> None:
    truth = put(tmp_path / "truth", discs())
    for model in ("swin", "unet"):
        put(tmp_path / "models" / model, discs())
    checkup = checked(truth, tmp_path / "models")
    assert codes(checkup) == {("several-models", "error")}
    (command,) = checkup.commands
    assert shlex.split(command)[3:] == [str(tmp_path / "models" / m) for m in ("swin", "unet")]
    assert checkup.refused
    # A folder without some cases is no model of its own.
    (tmp_path / "models" / "unet" / "case0.npz").unlink()
    assert ("several-models", "error") not in codes(checked(truth, tmp_path / "models"))


def test_predictions_are_not_blamed_for_references_that_cannot_be_read(tmp_path) -> None:
    truth = put(tmp_path / "truth", {})
    (truth / "case0_mask.png").write_bytes(b"no picture")
    cad = put(tmp_path / "cad", discs(1))
    checkup = checked(truth, cad)
    assert ("extra-cases", "error") not in codes(checkup)
    assert "  files        none of 1 can be read as references" in checkup.lines()


def put_kinds(folder: Path, kinds: dict[str, Arrays], below: str = "") -> Path:
    """Write a folder for each case, with a file of each kind."""
    for kind, volumes in kinds.items():
        for case, volume in volumes.items():
            put(folder / case / below, {kind: volume})
    return folder


@pytest.mark.parametrize("below", ["", "segmentations"])
def test_a_file_for_each_class_has_a_command_for_each(tmp_path, capsys, below) -> None:
    organs = {"liver": discs(), "spleen": {name: one[:, ::-1] for name, one in discs().items()}}
    truth = put_kinds(tmp_path / "truth", organs, below)
    for case, one in discs().items():
        # The image of a case is no case that the predictions lack.
        ct = np.arange(one.size, dtype=np.int16).reshape(one.shape) - 1000
        put(truth / case, {"ct": ct})
    cad = put_kinds(tmp_path / "cad", organs)
    checkup = checked(truth, cad)
    assert codes(checkup) == {("several-kinds", "error")}
    assert len(checkup.commands) == 2
    for command, organ in zip(checkup.commands, organs):
        assert f"{organ}.npz" in command
        assert run([*shlex.split(command)[1:], "--no-ci", "--json"]) == 0
        cohort = json.loads(capsys.readouterr().out)["cohort"]
        assert (cohort["images"], cohort["references"]) == (len(discs()), len(discs()))


def test_numbered_slices_and_files_of_one_kind_are_no_kinds(tmp_path) -> None:
    slices = {f"slice_{k:02d}": volume for k, volume in enumerate(discs().values())}
    truth, cad = tmp_path / "truth", tmp_path / "cad"
    for folder in (truth, cad):
        put_kinds(folder, {name: {"case0": one, "case1": one} for name, one in slices.items()})
    assert ("several-kinds", "error") not in codes(checked(truth, cad))
    truth = put_kinds(tmp_path / "truth-of-one", {"seg": discs()})
    assert not codes(checked(truth, put_kinds(tmp_path / "cad-of-one", {"seg": discs()})))
