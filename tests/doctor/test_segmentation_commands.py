"""Folders of predicted labels without scores get commands for the Dice and the other numbers of
segmentations, equal to those of NumPy and SciPy by their definitions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import calipers as cal
from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import VolumeCheckup, check_volumes
from calipers.errors import InputError
from calipers.io.write_volume import write_volume

SHAPE = (12, 40, 44)
TOUCHING = np.ones((3, 3, 3), bool)
Volumes = dict[str, np.ndarray]


def ball(centre: tuple[int, ...], radius: int) -> np.ndarray:
    squares = sum((axis - c) ** 2 for axis, c in zip(np.indices(SHAPE), centre))
    return np.asarray(squares <= radius**2)


def organs(seed: int) -> tuple[Volumes, Volumes]:
    """Two classes, the second in a few cases only, and predictions that miss some of it."""
    draw = np.random.default_rng(seed)
    truth, cad = {}, {}
    for k in range(7):
        reference, predicted = np.zeros((2, *SHAPE), np.uint8)
        for value, radius, n in ((1, 6, 1), (2, 3, k % 3)):
            for _ in range(n):
                centre = tuple(int(draw.integers(4, side - 4)) for side in SHAPE)
                reference[ball(centre, radius)] = value
                moved = tuple(int(c + draw.integers(-1, 2)) for c in centre)
                if draw.random() < 0.8:
                    predicted[ball(moved, radius)] = value
        if k == 3:
            predicted[ball((6, 20, 22), 2)] = 2
        truth[f"case_{k:03d}"], cad[f"case_{k:03d}"] = reference, predicted
    return truth, cad


def put(folder: Path, volumes: Volumes) -> Path:
    folder.mkdir(parents=True)
    for name, voxels in volumes.items():
        write_volume(folder / f"{name}.nii.gz", voxels, spacing=(0.8, 0.8, 2.5))
    return folder


def checked(truth: Path, cad: Path, **reading: object) -> VolumeCheckup:
    return check_volumes(Inputs(truth, {cad.name: cad}, None, reading))


def by_hand(truth: Volumes, cad: Volumes, of_class: Callable[[np.ndarray], np.ndarray]) -> dict:
    """Return the numbers of a class by their definitions."""
    dice, iou, common, both = [], [], 0, 0
    hits, overlaps, n_references, n_predictions = 0, 0.0, 0, 0
    for name, labels in truth.items():
        ours, theirs = of_class(labels), of_class(cad[name])
        n = int((ours & theirs).sum())
        common, both = common + 2 * n, both + int(ours.sum() + theirs.sum())
        # As MONAI: an image without a reference has no Dice.
        if ours.any():
            dice.append(2 * n / int(ours.sum() + theirs.sum()))
            iou.append(n / int((ours | theirs).sum()))
        first, n_first = ndimage.label(ours, TOUCHING)
        second, n_second = ndimage.label(theirs, TOUCHING)
        n_references, n_predictions = n_references + n_first, n_predictions + n_second
        for k in range(1, n_first + 1):
            for j in range(1, n_second + 1):
                a, b = first == k, second == j
                overlap = float((a & b).sum() / (a | b).sum())
                # Above one half a partner is the only one.
                if overlap > 0.5:
                    hits, overlaps = hits + 1, overlaps + overlap
    errors = 0.5 * (n_references + n_predictions - 2 * hits)
    return {
        "Dice/sample@0.5": np.mean(dice),
        "IoU/sample@0.5": np.mean(iou),
        "Dice@0.5": common / both,
        "PQ@0.5": overlaps / (hits + errors),
        "SQ@0.5": overlaps / hits,
        "RQ@0.5": hits / (hits + errors),
        "sensitivity@0.5": hits / n_references,
        "FP/image@0.5": (n_predictions - hits) / len(truth),
    }


def numbers(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    capsys.readouterr()
    assert run([*shlex.split(command)[1:], "--no-ci", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    return {row["metric"]: row["value"] for row in rows}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_class_has_the_numbers_of_its_voxels(seed, tmp_path, capsys) -> None:
    truth, cad = organs(seed)
    root = tmp_path / "Dataset001_Organs"
    put(root / "labelsTr", truth)
    names = {"labels": {"background": 0, "pancreas": 1, "tumour": 2}}
    (root / "dataset.json").write_text(json.dumps(names))
    checkup = checked(root / "labelsTr", put(tmp_path / "cad", cad))
    assert len(checkup.commands) == 1
    assert len(checkup.voxel_commands) == 2
    for value, name in ((1, "pancreas"), (2, "tumour")):
        command = checkup.voxel_commands[value - 1]
        assert f"--label {name}" in command
        expected = by_hand(truth, cad, lambda voxels, value=value: voxels == value)
        assert numbers(command, capsys) == pytest.approx(expected, abs=1e-9)


def test_one_class_needs_no_values(tmp_path, capsys) -> None:
    """Masks of 0 and 1 against masks of 0 and 255, with names of their own."""
    truth, cad = organs(4)
    truth = {name: (labels > 0).astype(np.uint8) for name, labels in truth.items()}
    cad = {f"{name}_pred": 255 * (labels > 0).astype(np.uint8) for name, labels in cad.items()}
    checkup = checked(put(tmp_path / "truth", truth), put(tmp_path / "cad", cad))
    (command,) = checkup.voxel_commands
    assert "--pattern '{name}_pred.nii.gz'" in command
    cad = {name.removesuffix("_pred"): voxels for name, voxels in cad.items()}
    expected = by_hand(truth, cad, lambda voxels: voxels > 0)
    assert numbers(command, capsys) == pytest.approx(expected, abs=1e-9)


def test_labels_with_scores_have_a_ranking_and_need_no_other_command(tmp_path) -> None:
    truth, cad = organs(5)
    rows = [f"{name},{value},0.5" for name in cad for value in (1, 2)]
    table = tmp_path / "scores.csv"
    table.write_text("\n".join(["image,label,score", *rows]) + "\n")
    folders = put(tmp_path / "truth", truth), put(tmp_path / "cad", cad)
    checkup = checked(*folders, scores=str(table))
    assert checkup.commands
    assert not checkup.voxel_commands


def test_dicom_segmentations_with_other_slices_are_compared_as_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither file stores empty slices. Placing predictions on the slices of the references would
    cut off what lies beside them, so that command is neither printed nor accepted.
    """
    pytest.importorskip("highdicom")
    from dicom_cases import segmentation, series
    from volume_cases import noise

    monkeypatch.chdir(tmp_path)
    for folder in ("refs", "cad", "images"):
        Path(folder).mkdir()
    dice = []
    for k, step in enumerate((1, 2, -1)):
        place = series(tmp_path / "images" / f"p{k}", noise((9, 12, 14), np.uint16))
        truth = np.zeros((9, 12, 14, 1), np.uint8)
        truth[3:6, 2:8, 3:9] = 1
        found = np.roll(truth, step, axis=0)
        found[8 if step > 0 else 0, 9:11, 10:13] = 1
        segmentation(Path(f"refs/p{k}.dcm"), truth, place, omit_empty_frames=True)
        segmentation(Path(f"cad/p{k}.dcm"), found, place, omit_empty_frames=True)
        dice.append(2 * (truth & found).sum() / (truth.sum() + found.sum()))
    checkup = checked(Path("refs"), Path("cad"))
    (command,) = checkup.commands
    assert command.startswith("calipers maps refs cad --predictions labels")
    assert run([*shlex.split(command)[1:], "--no-ci", "--json"]) == 0
    (row,) = [
        row
        for row in json.loads(capsys.readouterr().out)["rows"]
        if row["metric"] == "Dice/sample@0.5"
    ]
    assert row["value"] == pytest.approx(np.mean(dice), abs=1e-9)
    with pytest.raises(InputError, match="would be cut off") as error:
        cal.read("refs", "cad", place="nearest")
    assert "--geometry" in error.value.hint
    assert "--place" not in error.value.hint
    # With the images all of it counts.
    cohort = cal.read("refs", "cad", geometry="images")
    assert cohort.predictions("cad").boxes.shape == (6, 6)
