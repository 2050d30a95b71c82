"""What the doctor says beside planted mistakes: submissions, exit codes, repairs, warnings."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import list_cases as lists
from annotation_cases import RECTANGLE, picture, put, region, task
from calipers.arrays import F64
from calipers.cli.main import run
from calipers.doctor import checkup
from calipers.doctor.checkup import check_files
from calipers.doctor.spelling import class_index, image_index, most_images, same_names
from calipers.errors import InputError, did_you_mean
from calipers.io.read import read
from doctor_cases import Tables, corners, demo, documents, saved_documents, saved_tables, tables
from doctor_cases import random as random_pair
from seeds import seeds


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sound_tables(folder: Path) -> Tables:
    pair = tables(*demo(), folder)
    saved_tables(pair, folder)
    return pair


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run([*argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_submission_is_checked_without_references(folder, capsys):
    pair = sound_tables(folder)
    assert said(capsys, "doctor", "preds.csv", "--fail-on", "error")[0] == 0
    for row, score in zip(pair.predictions, ("nan", "2", "0.5")):
        row["score"] = score
    pair.predictions[2]["x1"] = "-5"
    pair.predictions[3]["x0"] = "left"
    saved_tables(pair, folder)
    code, out, _ = said(capsys, "doctor", "preds.csv", "--json")
    document = json.loads(out)
    assert code == 2
    codes = {finding["code"] for finding in document["findings"]}
    assert {"non-finite", "score-range", "neg-size", "type"} <= codes
    assert document["commands"] == []
    assert [file["role"] for file in document["cohort"]["files"]] == ["predictions of preds"]


@pytest.mark.parametrize("name", ["preds.csv", "preds.json"])
def test_a_sound_submission_says_what_is_read(folder, capsys, name):
    sound_tables(folder)
    saved_documents(documents(*demo(), folder), folder)
    code, out, _ = said(capsys, "doctor", name)
    assert code == 0
    assert "751 read = 751 used + 0 set aside" in out
    assert "Findings" not in out


@pytest.mark.parametrize("quotes", [False, True])
def test_a_long_table_alone_is_examined_by_its_first_rows(folder, capsys, monkeypatch, quotes):
    pair = sound_tables(folder)
    pair.predictions[-1]["score"] = "nan"  # beyond what is examined
    if quotes:
        pair.predictions[0]["image"] = '"' + pair.predictions[0]["image"] + '"'
    saved_tables(pair, folder)
    n_bytes = (folder / "preds.csv").stat().st_size
    monkeypatch.setattr(checkup, "EXAMINED", n_bytes // 2)
    code, out, _ = said(capsys, "doctor", "preds.csv", "--json")
    findings = {finding["code"]: finding for finding in json.loads(out)["findings"]}
    # quoted cells may have line breaks, so such a table is read to its end
    assert (code, "non-finite" in findings) == ((2, True) if quotes else (0, False))
    assert ("first-rows" in findings) != quotes
    if not quotes:
        assert n_bytes // 2 - 200 < findings["first-rows"]["count"] <= n_bytes // 2


def test_results_without_references_have_categories_as_numbers(folder, capsys):
    pair = documents(*demo(), folder)
    pair.bare()
    saved_documents(pair, folder)
    code, out, _ = said(capsys, "doctor", "preds.json", "--json")
    assert code == 0
    assert sorted(json.loads(out)["cohort"]["classes"]) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("all_alike", [True, False])
def test_a_shift_is_not_called_mirrored(folder, all_alike):
    """Where all findings lie on one side, boxes that are shifted look mirrored."""
    references, predictions = (
        ["image,class,x0,y0,x1,y1,width,height"],
        ["image,class,x0,y0,x1,y1,score"],
    )
    for k in range(40):
        x = 20 + (k % 3 if all_alike else 9 * k % 61)
        y = 3 * k
        references.append(f"i{k},mass,{x},{y},{x + 20},{y + 20},200,200")
        # mirrored; for findings that are all alike this is nearly one shift
        predictions.append(f"i{k},mass,{180 - x},{y},{200 - x},{y + 20},0.{k + 10}")
    (folder / "refs.csv").write_text("\n".join(references))
    (folder / "preds.csv").write_text("\n".join(predictions))
    found = check_files("refs.csv", {"preds": "preds.csv"})
    codes = {finding.code for finding in found.findings}
    assert ("mirrored" in codes) != all_alike


def test_one_unusable_file_hides_nothing_about_the_other(folder, capsys):
    pair = sound_tables(folder)
    pair.each("score", lambda cell: repr(100 * float(cell)))
    saved_tables(pair, folder)
    (folder / "cut.json").write_text('[{"image_id"')
    code, out, _ = said(capsys, "doctor", "refs.csv", "cut.json", "preds.csv", "--json")
    document = json.loads(out)
    assert code == 2
    assert [finding["code"] for finding in document["findings"]] == ["json-syntax", "score-percent"]
    # No command evaluates a file that cannot be read.
    assert document["commands"] == []


def test_every_finding_is_one_line_with_five_examples(folder, capsys):
    pair = sound_tables(folder)
    for row in pair.predictions[:40]:
        row["score"] = "1.5"
    saved_tables(pair, folder)
    code, out, _ = said(capsys, "doctor", "refs.csv", "preds.csv")
    assert code == 2
    assert out.count("score-range (error)") == 1
    start = out.index("score-range (error)")
    lines = out[start:].split("\n\n")[0].splitlines()
    assert lines[1].startswith("    fix ")
    assert "40 of 751" in lines[2]
    assert len(lines) == 3 + 5
    # Few records are broken: the rest can be evaluated.
    assert "calipers evaluate refs.csv preds.csv --lenient" in out


def test_repairing_writes_only_what_was_asked_for(folder, capsys):
    sound_tables(folder)
    code, _, err = said(capsys, "doctor", "refs.csv", "preds.csv", "--repair", "mended.csv")
    assert (code, Path("mended.csv").exists()) == (2, False)
    assert "--repair rewrites" in err
    code, _, err = said(capsys, "doctor", "refs.csv", "preds.csv", "--repair", "preds.csv")
    assert (code, "[output-in-input]" in err or "[output-exists]" in err) == (2, True)


def test_commands_keep_the_options_of_the_user(folder):
    pair = sound_tables(folder)
    for row in pair.predictions:
        row["confidence of it"] = row.pop("score")
    saved_tables(pair, folder)
    checkup = check_files("refs.csv", {"ours": "preds.csv"}, columns={"score": "confidence of it"})
    assert checkup.findings == ()
    expected = "calipers evaluate refs.csv ours=preds.csv --columns 'score=confidence of it'"
    assert checkup.commands == (expected,)


def test_an_evaluation_near_zero_says_what_it_suspects(folder, capsys):
    pair = documents(*demo(), folder)
    pair.move(lambda box, _: [side / 2 for side in box])
    saved_documents(pair, folder)
    code, out, err = said(capsys, "evaluate", "refs.json", "preds.json", "--no-ci")
    assert code == 0
    assert err.count("at 0.5 times the resolution") == 1
    _, out, _ = said(capsys, "evaluate", "refs.json", "preds.json", "--no-ci", "--json")
    assert any("calipers doctor" in warning for warning in json.loads(out)["warnings"])
    _, _, err = said(capsys, "evaluate", "sound-refs.json", "sound-preds.json", "--no-ci")
    assert "calipers doctor" not in err


def test_the_best_explanation_counts(folder, capsys):
    pair = documents(*demo("misses-small"), folder)
    pair.move(lambda box, _: corners(box))
    saved_documents(pair, folder)
    argv = ("evaluate", "refs.json", "preds.json", "--no-ci", "--box-format", "xywh")
    _, _, err = said(capsys, *argv)
    assert "boxes are xyxy, but were read as xywh" in err


@pytest.mark.parametrize(("factor", "shift"), [(0.7, 0.0), (1.4, 0.0), (0.6, 30.0)])
def test_an_approximate_fix_is_no_fix(folder, factor, shift):
    """Boxes that are moved in a way that nobody knows: the doctor proposes nothing."""
    pair = documents(*demo(), folder)
    pair.move(lambda box, _: [factor * box[0] + shift, factor * box[1], *box[2:]])
    saved_documents(pair, folder)
    checkup = check_files("refs.json", {"preds": "preds.json"})
    assert [symptom.code for symptom in checkup.findings] == ["unmet"]
    assert checkup.commands == ("calipers evaluate refs.json preds.json",)


def _padded(box: F64, size: F64) -> F64:
    factor = 640 / size.max()
    return box * factor + np.tile((640 - factor * size) / 2, 2)


def _thousandths(box: F64, size: F64) -> F64:
    return (box / np.tile(size, 2) * 1000)[[1, 0, 3, 2]]


@pytest.mark.parametrize(
    ("move", "words"),
    [(_padded, "resized and padded to 640 x 640"), (_thousandths, "resized to 1000 x 1000")],
)
def test_scales_that_meet_about_the_same_references_are_told_apart(folder, move, words):
    """On nearly square images, stretched boxes and those of 1024 pixels are nearly right, too."""
    random = np.random.default_rng(11)
    references, predictions = [], []
    for k in range(40):
        size = random.integers(300, 500, 2)
        for _ in range(random.integers(1, 4)):
            side = random.uniform(20, 100, 2)
            low = random.uniform(1, size - side - 1)
            box = np.concatenate([low, low + side])
            found = move(box + random.normal(0, 0.08, 4) * np.tile(side, 2), size)
            references.append([k, *box, *size])
            predictions.append([k, random.random(), *found])
    for name, header, rows in (
        ("refs.csv", "image,x0,y0,x1,y1,width,height", references),
        ("preds.csv", "image,score,x0,y0,x1,y1", predictions),
    ):
        lines = [",".join(map(str, row)) for row in rows]
        put(folder, {name: "\n".join([header, *lines])})
    (finding,) = check_files("refs.csv", {"preds": "preds.csv"}).findings
    assert finding.code == "resolution"
    assert words in finding.message


def yolo_files(folder: Path, line: Callable[[int, str, float], str]) -> None:
    """Write labels of 30 images, and predictions as lines of class, box in fractions and score."""
    for name in ("images", "labels", "preds"):
        (folder / name).mkdir()
    (folder / "data.yaml").write_text("train: images\nnames:\n  0: nodule\n  1: mass\n")
    for k in range(30):
        picture(folder / "images" / f"{k}.png", 200, 100)
        box = f"{0.2 + 0.02 * k:.3f} {0.7 - 0.01 * k:.3f} 0.1 0.3"
        (folder / "labels" / f"{k}.txt").write_text(f"{k % 2} {box}\n")
        (folder / "preds" / f"{k}.txt").write_text(line(k % 2, box, 0.5 + k / 100) + "\n")


def _in_pixels(label: int, box: str, score: float) -> str:
    cx, cy, width, height = map(float, box.split())
    return f"{label} {200 * cx} {100 * cy} {200 * width} {100 * height} {score}"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (_in_pixels, "box-format"),
        (lambda label, box, score: f"{label} {score} {box}", "score-first"),
        (lambda label, box, score: f"{label + 1} {box} {score}", "class-numbers"),
    ],
)
def test_predictions_of_yolo_in_another_order(folder, capsys, line, code):
    yolo_files(folder, line)
    found = check_files(".", {"preds": "preds"})
    assert [finding.code for finding in found.findings] == [code]
    for command in found.commands[:-1]:
        assert said(capsys, *shlex.split(command)[1:])[0] == 0
    _, out, _ = said(capsys, *shlex.split(found.commands[-1])[1:], "--no-ci", "--json")
    values = {row["metric"]: row["value"] for row in json.loads(out)["rows"] if not row["class"]}
    assert values["AP50"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("names", "references", "meanings"),
    [
        (["a_1", "a_2", "a_3"], ["1", "2", "3"], ["1", "2", "3"]),
        (["1", "2", "3"], ["x1y", "x2y", "x3y"], ["x1y", "x2y", "x3y"]),
        # Digits of a number are no prefix, two names of one image no suffix.
        (["0", "1", "2"], ["10", "11", "12"], None),
        (["a1b", "a2b"], ["1", "2"], None),
        (["p1_s1", "p2_s1", "p1_s2"], ["s1", "s2", "s3"], None),
    ],
)
def test_texts_about_names(names, references, meanings):
    match = same_names(names, references)
    assert (match is None) == (meanings is None)
    if match is not None:
        assert [references[match.images[name]] for name in names] == meanings


def test_an_evaluation_near_zero_suspects_the_classes(folder, capsys):
    pair = documents(*demo("misses-small"), folder)
    for record in pair.predictions["annotations"]:
        record["category_id"] = record["category_id"] % 4 + 1
    saved_documents(pair, folder)
    _, _, err = said(capsys, "evaluate", "refs.json", "preds.json", "--no-ci")
    assert err.count("overlapped by a box of another class: check the classes") == 1


def test_two_files_of_predictions_are_an_error(folder, capsys):
    sound_tables(folder)
    code, _, err = said(capsys, "doctor", "preds.csv", "preds.csv")
    assert (code, "[wrong-role]" in err) == (2, True)


@pytest.mark.parametrize("seed", seeds(40, default=15))  # each is read three times
def test_the_exit_code_is_that_of_strict_reading(folder, capsys, seed):
    """Broken cells anywhere: the doctor never fails, and refuses what an evaluation refuses."""
    pair = sound_tables(folder)
    generator = random.Random(seed)
    for rows in (pair.references, pair.predictions):
        for _ in range(generator.randrange(3)):
            row = generator.choice(rows)
            row[generator.choice(list(row))] = generator.choice(
                ("", "x", "-1", "1e300", "nan", "7")
            )
    saved_tables(pair, folder)
    try:
        read("refs.csv", {"preds": "preds.csv"})
        expected = 0
    except InputError:
        expected = 2
    assert said(capsys, "doctor", "refs.csv", "preds.csv")[0] == expected


def test_references_that_cannot_be_read_are_an_error(folder, capsys):
    sound_tables(folder)
    with pytest.raises(InputError):
        check_files("absent.json", {"preds": "preds.csv"})
    assert said(capsys, "doctor", "absent.json", "preds.csv")[0] == 2


def test_no_other_image_is_ever_meant():
    cohort = demo()[0]
    assert image_index(["P001_1.png", "P002_1.png"], cohort) is not None
    # Similar, but another patient's.
    assert image_index(["P001_11.png"], cohort) is None
    assert image_index(["P0O1_1"], cohort) is None
    # Two names for one image are no names.
    assert image_index(["a/P001_1.png", "b/P001_1.png"], cohort) is None


def test_no_class_is_guessed_between_two():
    assert class_index(["Nodule"], ("nodule", "mass"))["Nodule"].is_certain
    assert not class_index(["noduel"], ("nodule", "mass"))["noduel"].is_certain
    assert class_index(["NODULE"], ("nodule", "Nodule")) == {}
    assert class_index(["nodul-c"], ("nodule-a", "nodule-b")) == {}
    assert class_index(["1"], ("nodule", "mass")) == {}


def test_a_hint_never_names_what_was_refused():
    assert "did you mean" not in did_you_mean("nodule", ["nodule", "mass"])
    assert did_you_mean("nodul", ["nodule"]) == "did you mean 'nodule'?"


def test_unknown_images_get_no_similar_name(folder, capsys):
    pair = sound_tables(folder)
    pair.predictions[0]["image"] = "P001_11"
    saved_tables(pair, folder)
    _, _, err = said(capsys, "evaluate", "refs.csv", "preds.csv")
    assert "[unknown-image]" in err
    assert "did you mean" not in err


def test_findings_are_stable_json(folder, capsys) -> Any:
    pair = sound_tables(folder)
    pair.each("class", str.upper)
    saved_tables(pair, folder)
    _, out, _ = said(capsys, "doctor", "refs.csv", "preds.csv", "--json")
    (finding,) = json.loads(out)["findings"]
    assert list(finding) == [
        "code",
        "level",
        "file",
        "message",
        "count",
        "total",
        "hint",
        "examples",
    ]
    assert (finding["code"], finding["count"]) == ("class-names", 751)
    assert "'NODULE' is 'nodule'" in finding["examples"]


def yolo_splits(folder: Path) -> None:
    """A data set with twelve images of training and six of validation, and predictions for six."""
    for k in range(18):
        split = "train" if k < 12 else "val"
        line = f"0 {0.2 + 0.03 * k} 0.5 0.2 0.4"
        picture(folder / "data" / "images" / split / f"{k}.png", 100, 80)
        put(folder / "data" / "labels" / split, {f"{k}.txt": f"{line}\n"})
        if split == "val":
            put(folder / "run" / "labels", {f"{k}.txt": f"{line} 0.{k}\n"})
    put(folder / "data", {"data.yaml": "names: [polyp]\n"})


def test_the_split_that_was_predicted_is_evaluated(folder, capsys):
    yolo_splits(folder)
    result = check_files("data", {"run": "run/labels"})
    assert [symptom.code for symptom in result.findings] == ["other-splits"]
    assert (result.findings[0].count, result.findings[0].total) == (12, 18)
    assert result.commands == ("calipers evaluate data/labels/val run=run/labels",)
    assert not result.refused
    code, out, _ = said(
        capsys,
        "evaluate",
        "data/labels/val",
        "run/labels",
        "--no-ci",
        "--metrics",
        "AP50",
        "--json",
    )
    assert (code, json.loads(out)["rows"][0]["value"]) == (0, pytest.approx(1.0))


def test_the_split_of_a_column_is_evaluated(folder, capsys):
    refs, preds, splits = ["image,x,y,w,h"], ["image,x,y,w,h,score"], ["image,Subset"]
    for k in range(18):
        refs.append(f"{k},{3 * k},5,20,30")
        splits.append(f"{k},{'learn' if k < 12 else 'judge'}")
        if k >= 12:
            preds.append(f"{k},{3 * k},5,20,30,0.{k}")
    for name, lines in (("refs.csv", refs), ("run.csv", preds), ("splits.csv", splits)):
        put(folder, {name: "\n".join(lines)})
    result = check_files("refs.csv", {"run": "run.csv"}, "splits.csv")
    assert [symptom.code for symptom in result.findings] == ["other-splits"]
    (command,) = result.commands
    assert command.endswith("--groups splits.csv --where Subset=judge")
    code, out, _ = said(capsys, *command.split()[1:], "--no-ci", "--metrics", "AP50", "--json")
    assert (code, json.loads(out)["rows"][0]["value"]) == (0, pytest.approx(1.0))


def test_the_split_of_a_folder_is_evaluated(folder, capsys):
    refs, preds = ["image,x,y,w,h"], ["image,x,y,w,h,score"]
    for k in range(18):
        split = "train" if k < 12 else "val"
        refs.append(f"{split}/{k}.png,{3 * k},5,20,30")
        if k >= 12:
            preds.append(f"{split}/{k}.png,{3 * k},5,20,30,0.{k}")
    for name, lines in (("refs.csv", refs), ("run.csv", preds)):
        put(folder, {name: "\n".join(lines)})
    result = check_files("refs.csv", {"run": "run.csv"})
    assert [symptom.code for symptom in result.findings] == ["other-splits"]
    (command,) = result.commands
    assert command.endswith("--where folder=val")
    code, out, _ = said(capsys, *command.split()[1:], "--no-ci", "--metrics", "AP50", "--json")
    assert (code, json.loads(out)["rows"][0]["value"]) == (0, pytest.approx(1.0))


def test_images_that_only_the_table_of_groups_names_are_evaluated(folder, capsys):
    """Open Images lists boxes only: images without any are known from elsewhere."""
    head = "ImageID,LabelName,XMin,XMax,YMin,YMax"
    refs, preds, sizes = [head], [head.replace("LabelName", "LabelName,Score")], []
    for k in range(8):
        if k < 5:
            refs.append(f"i{k},/m/1,0.1,0.4,0.2,0.6")
        # A false alarm on each of the others, surer than all hits.
        preds.append(f"i{k},/m/1,0.{9 if k > 4 else 5},0.1,0.4,0.2,0.6")
        sizes.append(f"i{k},100,80,P{k}")
    put(folder, {"sizes.csv": "\n".join(["image,width,height,patient", *sizes, "i9,100,80,P9"])})
    put(folder, {"refs.csv": "\n".join(refs), "run.csv": "\n".join(preds)})
    code, _, err = said(capsys, "evaluate", "refs.csv", "run.csv", "--groups", "sizes.csv")
    assert (code, "unknown-image" in err) == (2, True)
    result = check_files("refs.csv", {"run": "run.csv"}, "sizes.csv")
    assert [symptom.code for symptom in result.findings] == ["images-in-groups"]
    (command,) = result.commands
    assert command.endswith("--groups sizes.csv --all-images")
    code, out, _ = said(
        capsys, *command.split()[1:], "--no-ci", "--metrics", "AP50,FP/image", "--json"
    )
    rows = json.loads(out)["rows"]
    values = {row["metric"]: row["value"] for row in rows if row["class"] is None}
    # Three false alarms come first: precision is 5/8 at every recall.
    assert values == {"AP50": pytest.approx(0.625), "FP/image": pytest.approx(3 / 9)}


def test_all_images_need_a_table_of_images(folder, capsys):
    put(folder, {"refs.csv": "image,x,y,w,h\n1,1,5,20,30\n"})
    code, _, err = said(capsys, "inspect", "refs.csv", "--all-images")
    assert (code, "--groups" in err) == (2, True)


def test_a_weak_model_is_not_said_to_be_of_one_split(folder):
    yolo_splits(folder)
    for path in list((folder / "run" / "labels").iterdir())[1:]:
        path.unlink()  # one image of six has a prediction: none of twelve may be chance
    codes = [symptom.code for symptom in check_files("data", {"run": "run/labels"}).findings]
    assert "other-splits" not in codes


def test_a_challenge_is_judged_by_its_preset(folder):
    put(folder, {"labels.csv": lists.RSNA, "submission.csv": lists.RSNA_SUBMISSION})
    (command,) = check_files("labels.csv", {"submission": "submission.csv"}).commands
    assert command == "calipers evaluate labels.csv submission.csv --preset rsna2018"


def test_the_results_in_a_folder_of_a_tool_are_named(folder, capsys):
    pair = sound_tables(folder)
    put(folder / "inference", {"instances_predictions.pth": b"PK", "log.json": "{}"})
    (folder / "preds.csv").rename(folder / "inference" / "preds.csv")
    code, out, _ = said(capsys, "doctor", "refs.csv", "inference", "--json")
    document = json.loads(out)
    assert code == 2
    assert [finding["code"] for finding in document["findings"]] == ["not-a-file"]
    assert document["commands"] == ["calipers evaluate refs.csv inference=inference/preds.csv"]
    assert len(pair.predictions) == 751


def coco_files(folder: Path) -> None:
    """Write two documents of references into a folder, of which one has the predicted images."""
    pair = documents(*demo(), folder)
    pair.numbered()
    (folder / "found.json").write_text(json.dumps(pair.predictions["annotations"]))
    put(folder / "data" / "annotations", {"val.json": json.dumps(pair.references)})
    for record in pair.references["images"]:
        record["id"] += 1000
    for record in pair.references["annotations"]:
        record["image_id"] += 1000
    put(folder / "data" / "annotations", {"train.json": json.dumps(pair.references)})
    put(folder / "data", {"README.md": "two splits", "notes.json": "{}"})


@pytest.mark.parametrize("place", ["data", "data/annotations"])
def test_the_references_in_a_folder_are_named(folder, capsys, place):
    coco_files(folder)
    code, out, _ = said(capsys, "doctor", place, "found.json", "--json")
    document = json.loads(out)
    assert code == 2
    assert [finding["code"] for finding in document["findings"]] == ["not-a-file"]
    assert document["commands"] == ["calipers evaluate data/annotations/val.json found.json"]
    # Without predictions nothing tells which of the two is meant.
    code, _, err = said(capsys, "doctor", place)
    assert code == 2
    assert "annotations/train.json, data/annotations/val.json" in err


def test_references_beside_their_pictures_are_no_volumes(folder):
    """Roboflow writes pictures and a COCO file into one folder."""
    coco_files(folder)
    for k in range(3):
        picture(folder / "pictures" / f"{k}.png", 20, 10)
    (folder / "data/annotations/val.json").rename(folder / "pictures" / "_annotations.coco.json")
    result = check_files("pictures", {"found": "found.json"})
    line = "calipers evaluate pictures/_annotations.coco.json found.json"
    assert result.commands == (line,)


def test_an_export_of_label_studio_has_both_roles(folder):
    scored = {**region("polyp", RECTANGLE), "score": 0.9}
    predictions = [{"model_version": "v1", "result": [scored]}]
    tasks = [task("a.png", [region("polyp", RECTANGLE)], predictions=predictions)]
    put(folder, {"both.json": json.dumps(tasks)})
    assert check_files("both.json", {}).commands == ("calipers evaluate both.json both.json",)
    put(folder, {"one.json": json.dumps([task("a.png", [region("polyp", RECTANGLE)])])})
    assert check_files("one.json", {}).commands == ()


def test_a_model_that_takes_one_class_for_another_has_no_exchanged_classes(folder):
    pair = tables(*demo(), folder)
    first, second = demo()[0].classes[:2]
    pair.each("class", lambda name: second if name == first else name)
    saved_tables(pair, folder)
    codes = {symptom.code for symptom in check_files("refs.csv", {"preds": "preds.csv"}).findings}
    assert codes <= {"silent-classes", "patients-in-names", "unmet"}


def test_a_repair_never_replaces_another(folder):
    pair = tables(*demo(), folder)
    pair.each("image", lambda name: f"{name}.tif")
    saved_tables(pair, folder)
    assert "--repair repaired.csv" in check_files("refs.csv", {"preds": "preds.csv"}).commands[0]
    put(folder, {"repaired.csv": "mine", "repaired-2.csv": "mine too"})
    first, second = check_files("refs.csv", {"preds": "preds.csv"}).commands
    assert first.endswith("--repair repaired-3.csv")
    assert second.endswith("preds=repaired-3.csv")


def test_readers_that_no_rule_can_settle_are_an_error(folder, capsys):
    annotation = {"completed_by": 1, "result": [region("polyp", RECTANGLE)]}
    put(folder, {"a.json": json.dumps([task("a.png", [], annotations=[annotation] * 2)])})
    code, _, err = said(capsys, "doctor", "a.json")
    assert (code, "several-readers" in err) == (2, True)


def test_a_column_that_names_the_same_groups_is_proposed_or_is_a_centre(folder):
    """Names such as C1_0001 are those of a centre if a column says so, and no finding then."""
    rows = [f"C{k % 4}_{k:03},polyp,{5 * k},5,{5 * k + 9},40,C{k % 4}" for k in range(24)]
    hints = {}
    for column in ("centre", "ward", "sequence"):
        put(folder, {"refs.csv": "\n".join([f"image,class,x0,y0,x1,y1,{column}", *rows])})
        findings = check_files("refs.csv", {}).findings
        hints[column] = [s.hint for s in findings if s.code == "patients-in-names"]
    assert (hints["centre"], hints["sequence"]) == ([], [])
    assert "--cluster ward" in hints["ward"][0]


def test_a_list_of_luna16_is_completed_by_its_folder(folder):
    """annotations.csv alone lacks scans without nodules and irrelevant findings: another score."""
    put(folder / "luna", {"annotations.csv": lists.LUNA16, "seriesuids.csv": lists.LUNA16_SCANS})
    put(folder / "luna", {"annotations_excluded.csv": lists.LUNA16_EXCLUDED})
    put(folder, {"cad.csv": lists.LUNA16_CANDIDATES})
    result = check_files("luna/annotations.csv", {"cad": "cad.csv"})
    assert result.findings[0].code == "part-of-a-folder"
    assert result.commands == ("calipers evaluate luna cad.csv --preset luna16",)
    (folder / "luna").rename(folder / "annotations")
    result = check_files(".", {"cad": "cad.csv"})
    assert result.commands == ("calipers evaluate annotations cad.csv --preset luna16",)
    (folder / "annotations").rename(folder / "luna")
    (folder / "luna" / "seriesuids.csv").unlink()
    (folder / "luna" / "annotations_excluded.csv").unlink()
    codes = [symptom.code for symptom in check_files("luna/annotations.csv", {}).findings]
    assert "part-of-a-folder" not in codes


@pytest.mark.parametrize("is_same", [True, False])
def test_images_of_another_folder_are_other_images(folder, is_same):
    """train/1 and val/1 are two patients, unless boxes lie where the references do."""
    pair = tables(*random_pair(), folder)
    names = sorted({row["image"] for row in pair.references if row["image"]})
    others = dict(zip(names, names if is_same else [*names[1:], names[0]]))
    for row in pair.references:
        row["image"] = f"train/{row['image']}" if row["image"] else ""
    pair.each("image", lambda name: f"val/{others[name]}")
    saved_tables(pair, folder)
    result = check_files("refs.csv", {"preds": "preds.csv"})
    assert any(finding.code == "image-names" for finding in result.findings) is is_same
    assert bool(result.commands) is is_same


def test_images_that_the_references_do_not_list_are_not_called_misnamed(folder):
    pair = sound_tables(folder)
    pair.predictions[0]["image"] = "somewhere else"
    saved_tables(pair, folder)
    (finding,) = check_files("refs.csv", {"preds": "preds.csv"}).findings
    assert (finding.code, finding.count) == ("unknown-image", 1)
    assert "do not list these images" in finding.hint


def test_models_in_folders_side_by_side_are_called_like_these(folder, capsys):
    sound_tables(folder)
    for model in ("retina", "yolo"):
        (folder / "runs" / model).mkdir(parents=True)
        (folder / "runs" / model / "preds.csv").write_bytes((folder / "preds.csv").read_bytes())
    text = (folder / "preds.csv").read_text().splitlines()
    (folder / "runs" / "yolo" / "preds.csv").write_text("\n".join(text[:-1]) + "\n")
    code, out, _ = said(capsys, "doctor", "refs.csv", "runs", "--json")
    document = json.loads(out)
    assert code == 2
    assert [finding["code"] for finding in document["findings"]] == ["not-a-file"]
    (command,) = document["commands"]
    assert command.endswith("refs.csv retina=runs/retina/preds.csv yolo=runs/yolo/preds.csv")
    # Given one by one, they are named in the same way.
    _, _, said_of_names = said(
        capsys, "doctor", "refs.csv", "runs/retina/preds.csv", "runs/yolo/preds.csv"
    )
    assert "retina=runs/retina/preds.csv yolo=runs/yolo/preds.csv" in said_of_names


def test_names_of_files_of_some_images_are_called_so(folder):
    images = [{"id": f"s{k}", "file_name": f"s{k}.png"} for k in range(6)]
    boxes = [
        {"id": k, "image_id": f"s{k}", "category_id": 1, "bbox": [10, 10, 20, 20]} for k in range(6)
    ]
    document = {"images": images, "annotations": boxes}
    put(folder, {"refs.json": json.dumps({**document, "categories": [{"id": 1, "name": "a"}]})})
    # Two images are none of the references.
    match = most_images([f"s{k}.png" for k in range(8)], read("refs.json"))
    assert match is not None
    assert (match.how, len(match.images)) == ("file", 6)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"image": {"0": "a"}, "score": {"0": 1}, "x0": {"0": 1}}', 'to_json(orient="records")'),
        ('[{"image": "a", "label": "x", "score": 1, "box": [1, 2, 3, 4]}]', "bbox: [x, y, w, h]"),
    ],
)
def test_json_of_scripts_is_refused_with_the_form_that_is_read(folder, capsys, text, hint):
    sound_tables(folder)
    put(folder, {"preds.json": text})
    code, out, _ = said(capsys, "doctor", "refs.csv", "preds.json")
    assert (code, hint in out) == (2, True)


def test_targets_without_names_of_images_are_not_called_swapped(folder, capsys):
    put(folder, {"targets.json": '[{"boxes": [[1, 2, 3, 4]], "labels": [1]}]'})
    put(folder, {"m.json": '[{"boxes": [[1, 2, 3, 4]], "labels": [1], "scores": [0.5]}]'})
    code, _, err = said(capsys, "doctor", "targets.json", "m.json")
    assert (code, "no names of images" in err, "swapped" in err) == (2, True, False)


def test_an_archive_of_boxes_is_told_how_boxes_are_read(folder, capsys):
    sound_tables(folder)
    np.savez(folder / "m.npz", boxes=np.ones((2, 4)), scores=np.ones(2))
    code, out, _ = said(capsys, "doctor", "refs.csv", "m.npz")
    assert (code, "from JSON or a table" in out) == (2, True)


@pytest.mark.parametrize("place", ["runs", "runs/detect"])
def test_runs_of_yolo_side_by_side_are_models(folder, place):
    for number in range(6):
        name = f"s{number}"
        box = f"0 0.5 0.5 0.{number + 2} 0.4"
        picture(folder / "data" / "images" / f"{name}.png", 64, 48)
        put(folder / "data" / "labels", {f"{name}.txt": box})
        for run_name in ("exp", "exp2"):
            run_folder = folder / "runs" / "detect" / run_name
            put(run_folder / "labels", {f"{name}.txt": f"{box} 0.9"})
    result = check_files("data", {"m": place})
    codes = {symptom.code for symptom in result.findings if symptom.level == "error"}
    assert codes == {"not-a-file"}
    assert result.commands == ("calipers evaluate data runs/detect/exp runs/detect/exp2",)
