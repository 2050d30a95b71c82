"""Folders as other tools leave them: the first command that the doctor prints gives the number that
another computation gives on the same files.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.io.write_volume import write_volume
from reference.luna16 import Scan, sensitivity_at

RESULT = "../result"  # a folder of inputs takes no results
RATES = (0.125, 0.25, 0.5, 1, 2, 4, 8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def first_numbers(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, float]:
    """Run the first command that the doctor prints, as it is, and return the values over all."""
    run(["doctor", *arguments])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    commands = [line for line in lines if line.startswith("calipers ")]
    assert commands, "\n".join(lines)
    for command in commands:
        words = shlex.split(command)[1:]
        more = ["--no-ci", "-o", RESULT] if words[0] in ("evaluate", "maps") else []
        code = run([*words, *more])
        message = capsys.readouterr().err
        if more:
            assert code == 0, f"{command}\n{message}"
            break
    rows = cal.open_evaluation(RESULT).rows
    return {row.metric: row.estimate.value for row in rows if row.label is None and not row.group}


def luna_scans(seed: int) -> dict[str, Scan]:
    """Nodules far apart in two thirds of the scans, and candidates in nearly all."""
    draw = np.random.default_rng(seed)
    scans = {}
    for k in range(30):
        scan = scans[f"1.3.6.1.4.1.{k}"] = Scan()
        for cell in range(int(draw.integers(1, 4)) if k < 20 else 0):
            place = np.array([cell * 100.0, 0, -50]) + draw.uniform(0, 40, 3)
            scan.nodules.append((tuple(place.tolist()), float(draw.uniform(5, 30))))
            for _ in range(draw.integers(0, 3)):
                spot = place + draw.normal(0, 3, 3)
                scan.candidates.append((tuple(spot.tolist()), round(draw.uniform(0.2, 1), 3)))
        for _ in range(draw.integers(1 if k >= 20 else 0, 5)):
            spot = draw.uniform(-300, -100, 3)
            scan.candidates.append((tuple(spot.tolist()), round(draw.uniform(0, 0.9), 3)))
    return scans


def write_luna(folder: Path, scans: dict[str, Scan]) -> None:
    findings = ["seriesuid,coordX,coordY,coordZ,diameter_mm"]
    candidates = ["seriesuid,coordX,coordY,coordZ,probability"]
    for name, scan in scans.items():
        findings += [",".join([name, *map(str, place), f"{d}"]) for place, d in scan.nodules]
        candidates += [",".join([name, *map(str, spot), f"{p}"]) for spot, p in scan.candidates]
    (folder / "annotations.csv").write_text("\n".join(findings) + "\n")
    (folder / "submission.csv").write_text("\n".join(candidates) + "\n")


@pytest.mark.parametrize("references", ["annotations.csv", "."])
@pytest.mark.parametrize("has_excluded", [False, True])
@pytest.mark.parametrize("has_list", [False, True])
def test_luna16_without_some_of_its_lists(
    references: str,
    has_excluded: bool,
    has_list: bool,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The evaluation of the challenge on the same files: scans without a nodule are scans."""
    scans = luna_scans(has_list + 2 * has_excluded)
    write_luna(folder, scans)
    if has_excluded:
        lines = ["seriesuid,coordX,coordY,coordZ,diameter_mm"]
        for name, scan in list(scans.items())[::2]:
            for spot, _ in scan.candidates[-1:]:
                scan.excluded.append((spot, 10.0))
                lines.append(",".join([name, *map(str, spot), "-1"]))
        (folder / "annotations_excluded.csv").write_text("\n".join(lines) + "\n")
    if has_list:
        scans["1.3.6.1.4.1.99"] = Scan()  # neither nodule nor candidate
        (folder / "seriesuids.csv").write_text("\n".join(scans) + "\n")
    values = first_numbers(capsys, references, "submission.csv")
    right = [sensitivity_at(list(scans.values()), rate) for rate in RATES]
    assert [values[f"FROC@{rate:g}"] for rate in RATES] == pytest.approx(right, abs=1e-12)
    assert values["FROC"] == pytest.approx(np.mean(right), abs=1e-12)
    assert cal.open_evaluation(RESULT).cohort.n_images == len(scans)


def test_the_scans_that_no_list_names_are_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_luna(folder, luna_scans(0))
    assert run(["doctor", "annotations.csv", "submission.csv", "--json"]) == 2
    result = json.loads(capsys.readouterr().out)
    (finding,) = result["findings"]
    assert finding["code"] == "images-in-predictions"
    assert (finding["count"], finding["total"]) == (10, 30)
    assert result["commands"][0].endswith("--preset luna16 --all-images")
    words = shlex.split(result["commands"][0])[1:-3]
    in_mm = ["--metrics", "sensitivity@centre-distance-mm:3", "--all-images", "--no-ci"]
    assert run([*words[:3], *in_mm]) == 0
    # Without the option a scan that nobody lists is refused, as ever.
    assert run(["evaluate", "annotations.csv", "submission.csv", "--preset", "luna16"]) == 2


def test_images_of_a_model_that_names_none_of_the_references_are_not_added(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All names are other ones: a mistake, and no set of images without references."""
    write_luna(folder, luna_scans(0))
    text = (folder / "submission.csv").read_text().replace("1.3.6.1.4.1.", "scan-")
    (folder / "submission.csv").write_text(text)
    words = ["annotations.csv", "submission.csv", "--preset", "luna16", "--all-images"]
    assert run(["evaluate", *words]) == 2
    assert "unknown-image" in capsys.readouterr().err


def test_further_images_of_all_models_are_added_once(folder: Path) -> None:
    refs = "image,class,x,y,w,h\na,polyp,1,5,20,30\n"
    for name, rows in (("m", "a,polyp,1,5,20,30,0.9\nb,polyp,1,5,2,3,0.5\n"), ("n", "")):
        text = "image,class,x,y,w,h,score\n" + (rows or rows.replace("b,", "c,"))
        (folder / f"{name}.csv").write_text(text + "a,polyp,1,5,9,9,0.1\nd,polyp,1,5,9,9,0.1\n")
    (folder / "refs.csv").write_text(refs)
    cohort = cal.read("refs.csv", ["m.csv", "n.csv"], all_images=True)
    assert cohort.images.ids == ("a", "b", "d")
    assert [len(table) for table in cohort.models.values()] == [4, 2]
    assert "images known from predictions only, which have no references: 2" in " ".join(
        cohort.intake.files[0].notes
    )


def lesions(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Label volumes of one class, and candidates with whole scores from 1 to 5."""
    draw = np.random.default_rng(seed)
    truth, scores = {}, {}
    for k in range(24):
        volume = np.zeros((4, 40, 40), np.uint8)
        candidates = np.zeros((4, 40, 40), np.uint8)
        for cell in draw.permutation(9)[:4].tolist():
            y, x = 13 * (cell // 3) + 2, 13 * (cell % 3) + 2
            is_lesion = draw.random() < 0.4
            if is_lesion:
                volume[1:3, y : y + 6, x : x + 6] = 1
            if draw.random() < 0.8:
                y, x = y + int(draw.integers(-2, 3)), x + int(draw.integers(-2, 3))
                place = slice(1, 3), slice(y, y + 6), slice(x, x + 6)
                candidates[place] = draw.integers(2, 6) if is_lesion else draw.integers(1, 4)
        truth[f"case_{k:03}"], scores[f"case_{k:03}"] = volume, candidates
    return truth, scores


@pytest.mark.parametrize("seed", range(2))
def test_detection_maps_of_whole_scores(
    seed: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picai_eval = pytest.importorskip("picai_eval")
    truth, scores = lesions(seed)
    for place, volumes in (("labels", truth), ("detections", scores)):
        for name, volume in volumes.items():
            (folder / place).mkdir(exist_ok=True)
            write_volume(folder / place / f"{name}.nii.gz", volume)
    values = first_numbers(capsys, "labels", "detections")
    right = picai_eval.evaluate(
        y_det=[volume / (1.0 + volume) for volume in scores.values()], y_true=list(truth.values())
    )
    assert values["AUROC/case"] == pytest.approx(right.auroc, abs=1e-9)
    assert values["AP@0.1"] == pytest.approx(right.AP, abs=1e-9)


def test_classes_that_the_references_lack_are_no_scores(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of four classes beside labels of one: only its own class lies on them."""
    truth, _ = lesions(0)
    for name, volume in truth.items():
        others = np.where(np.roll(volume, 13, axis=2) > 0, 3, 0) + volume * 2
        for place, voxels in (("labels", volume), ("predictions", others.astype(np.uint8))):
            (folder / place).mkdir(exist_ok=True)
            write_volume(folder / place / f"{name}.nii.gz", voxels)
    run(["doctor", "labels", "predictions", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert "whole-scores" not in {finding["code"] for finding in result["findings"]}


def test_another_name_of_a_listed_image_is_no_further_image(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most names are right, and a few have an extension: they are no images without objects."""
    refs, predictions = ["image,class,x,y,w,h"], ["image,class,x,y,w,h,score"]
    for k in range(12):
        refs.append(f"scan{k},polyp,10,10,{20 + k},30")
        name = f"scan{k}.png" if k > 9 else f"scan{k}"
        predictions.append(f"{name},polyp,10,10,{20 + k},30,0.{99 - 5 * k}")
    (folder / "refs.csv").write_text("\n".join(refs) + "\n")
    (folder / "model.csv").write_text("\n".join(predictions) + "\n")
    run(["doctor", "refs.csv", "model.csv", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert "images-in-predictions" not in {finding["code"] for finding in result["findings"]}
    assert not any("--all-images" in command for command in result["commands"])


def test_images_of_another_split_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model was run on all images, and the table lists those of one split: what it finds on the
    others is as sure, so they are no images without objects.
    """
    draw = np.random.default_rng(8)
    refs, predictions = ["image,class,x,y,w,h"], ["image,class,x,y,w,h,score"]
    for k in range(40):
        x, y = draw.integers(0, 90, 2)
        if k < 25:
            refs.append(f"scan-{k},polyp,{x},{y},30,30")
        predictions.append(f"scan-{k},polyp,{x + 2},{y},30,30,{draw.uniform(0.6, 1):.4f}")
        predictions.append(f"scan-{k},polyp,200,{y},30,30,{draw.uniform(0, 0.5):.4f}")
    (folder / "refs.csv").write_text("\n".join(refs) + "\n")
    (folder / "model.csv").write_text("\n".join(predictions) + "\n")
    run(["doctor", "refs.csv", "model.csv", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["commands"] == ["calipers evaluate refs.csv model.csv --lenient"]


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_predictions_without_names_in_another_order_have_no_command(
    is_shuffled: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(2)
    images, annotations, entries = [], [], []
    for k in range(20):
        images.append({"id": k, "file_name": f"{k}.png", "width": 300, "height": 200})
        x, y = map(int, draw.integers(0, 150, 2))
        box = [x, y, 40, 30]
        annotations.append({"id": k, "image_id": k, "category_id": 1, "bbox": box})
        boxes = [[x + 2, y, x + 41, y + 30]]
        entries.append({"boxes": boxes, "labels": [1], "scores": [float(draw.random())]})
    document = {"images": images, "annotations": annotations}
    document["categories"] = [{"id": 1, "name": "polyp"}]
    if is_shuffled:
        entries = [entries[k] for k in draw.permutation(20).tolist()]
    (folder / "refs.json").write_text(json.dumps(document))
    (folder / "outputs.json").write_text(json.dumps(entries))
    code = run(["doctor", "refs.json", "outputs.json", "--json"])
    result = json.loads(capsys.readouterr().out)
    codes = {finding["code"] for finding in result["findings"]}
    assert ("image-order" in codes, bool(result["commands"])) == (is_shuffled, not is_shuffled)
    assert code == 0  # strict reading accepts both


def test_ids_in_no_order_leave_lists_without_names_unread(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool may go through them as they come, or sorted: nobody knows."""
    refs = "image,class,x,y,w,h\nc,polyp,1,1,9,9\na,polyp,1,1,9,9\nb,polyp,1,1,9,9\n"
    (folder / "refs.csv").write_text(refs)
    entry = {"boxes": [[1, 1, 10, 10]], "labels": [0], "scores": [0.5]}
    for n in (2, 3):
        (folder / "outputs.json").write_text(json.dumps([entry] * n))
        assert run(["evaluate", "refs.csv", "outputs.json", "--no-ci"]) == 2
        assert "image_id in every entry" in capsys.readouterr().err
