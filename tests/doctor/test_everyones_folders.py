"""What tools of others leave on a disk, with the oddities of real folders: byte order marks, blank
lines, backslashes, extensions in capitals, further columns, classes with spaces, images without
objects. The first command that the doctor prints gives the AP50 of pycocotools on the same boxes.
"""

from __future__ import annotations

import json
import shlex
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import calipers as cal
from annotation_cases import picture, put
from calipers.cli.main import run

CLASSES = ("flat polyp", "instrument", "Barrett's")
WIDTH, HEIGHT = 240, 180
RESULT = "../result"  # a folder of inputs takes no results


class Thing(NamedTuple):
    """A box of an image; one of a model has a score."""

    image: str
    label: int
    x: int
    y: int
    w: int
    h: int
    score: float = 0.0

    @property
    def corners(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.x + self.w, self.y + self.h

    @property
    def name(self) -> str:
        return CLASSES[self.label]

    @property
    def fractions(self) -> str:
        """Centre and sides as shares of the image."""
        x, y = (self.x + self.w / 2) / WIDTH, (self.y + self.h / 2) / HEIGHT
        return f"{x:.9f} {y:.9f} {self.w / WIDTH:.9f} {self.h / HEIGHT:.9f}"


class Scene(NamedTuple):
    """Images, some without objects, and what a decent model says about them."""

    images: list[str]
    references: list[Thing]
    predictions: list[Thing]

    def of(self, image: str, what: str = "references") -> list[Thing]:
        return [thing for thing in getattr(self, what) if thing.image == image]


def scene(seed: int) -> Scene:
    draw = np.random.default_rng(seed)
    images = [f"case {k:02} view" for k in range(16)]
    references, predictions = [], []
    for image in images[:13]:
        for _ in range(draw.integers(1, 4)):
            x, y = draw.integers(0, 160), draw.integers(0, 110)
            sides = draw.integers(25, 70, 2)
            truth = Thing(image, int(draw.integers(0, 3)), int(x), int(y), *map(int, sides))
            references.append(truth)
            if draw.random() < 0.75:
                moved = draw.integers(-5, 6, 2)
                score = round(float(draw.uniform(0.35, 0.999)), 4)
                x, y = max(0, truth.x + int(moved[0])), max(0, truth.y + int(moved[1]))
                predictions.append(Thing(image, truth.label, x, y, truth.w, truth.h, score))
    for image in images:
        for _ in range(draw.integers(0, 3)):
            x, y = draw.integers(0, 180), draw.integers(0, 130)
            score = round(float(draw.uniform(0.02, 0.6)), 4)
            label = int(draw.integers(0, 3))
            predictions.append(Thing(image, label, int(x), int(y), 30, 25, score))
    return Scene(images, references, predictions)


def right_ap50(cohort: Scene, images: list[str]) -> float:
    """Return the AP50 of pycocotools, of images in their order."""
    coco = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    number = {name: k for k, name in enumerate(images, 1)}
    annotations, results = [], []
    for k, thing in enumerate(cohort.references, 1):
        box = [thing.x, thing.y, thing.w, thing.h]
        annotations.append(
            {"id": k, "image_id": number[thing.image], "category_id": thing.label, "bbox": box}
            | {"area": thing.w * thing.h, "iscrowd": 0}
        )
    for thing in cohort.predictions:
        if thing.image in number:
            box = [thing.x, thing.y, thing.w, thing.h]
            record = {"image_id": number[thing.image], "category_id": thing.label}
            results.append({**record, "bbox": box, "score": thing.score})
    truth = coco.COCO()
    truth.dataset = {
        "images": [{"id": k} for k in number.values()],
        "annotations": annotations,
        "categories": [{"id": k} for k in range(len(CLASSES))],
    }
    truth.createIndex()
    evaluation = cocoeval.COCOeval(truth, truth.loadRes(results), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    precision = evaluation.eval["precision"][0, :, :, 0, 2]
    return float(precision[precision > -1].mean())


FOLDERS: dict[str, Callable[[Path, Scene], tuple[str, ...]]] = {}


def folder_of(
    make: Callable[[Path, Scene], tuple[str, ...]],
) -> Callable[[Path, Scene], tuple[str, ...]]:
    FOLDERS[make.__name__] = make
    return make


def coco_document(cohort: Scene, **more: Any) -> dict[str, Any]:
    images, annotations = [], []
    number = {}
    for k, name in enumerate(cohort.images):
        number[name] = 100 + 3 * k
        size = {"width": WIDTH, "height": HEIGHT}
        images.append({"id": number[name], "file_name": f"val/{name}.PNG", **size, "license": 1})
    for k, thing in enumerate(cohort.references, 1):
        box = [thing.x, thing.y, thing.w, thing.h]
        record = {"id": k, "image_id": number[thing.image], "category_id": 5 + thing.label}
        annotations.append({**record, "bbox": box, "area": thing.w * thing.h, "iscrowd": 0})
    categories = [
        {"id": 5 + k, "name": name, "supercategory": "none"} for k, name in enumerate(CLASSES)
    ]
    return {"images": images, "annotations": annotations, "categories": categories, **more}


def coco_results(cohort: Scene, document: dict[str, Any]) -> list[dict[str, Any]]:
    number = {Path(image["file_name"]).stem: image["id"] for image in document["images"]}
    results = []
    for thing in cohort.predictions:
        box = [float(thing.x), float(thing.y), float(thing.w), float(thing.h)]
        record = {"image_id": number[thing.image], "category_id": 5 + thing.label}
        results.append({**record, "bbox": box, "score": thing.score})
    return results


@folder_of
def coco_with_a_mark_and_capitals(folder: Path, cohort: Scene) -> tuple[str, ...]:
    document = coco_document(cohort, info={"year": 2024}, licenses=[])
    text = "\ufeff" + json.dumps(document, indent=1).replace("\n", "\r\n")
    (folder / "INSTANCES_VAL.JSON").write_text(text, newline="")
    put(folder, {"bbox.json": json.dumps(coco_results(cohort, document))})
    return "INSTANCES_VAL.JSON", "bbox.json"


@folder_of
def semicolons_decimal_commas_and_blank_lines(folder: Path, cohort: Scene) -> tuple[str, ...]:
    head = "image;class;x;y;w;h;comment"
    lines = [head, ""]
    for name in cohort.images:
        lines += [f"{name};{t.name};{t.x},0;{t.y},0;{t.w},5;{t.h},0;ok" for t in cohort.of(name)]
        lines += [] if cohort.of(name) else [f"{name};;;;;;none", ""]
    text = "\ufeff" + "\r\n".join(lines).replace(",5;", ",0;") + "\r\n\r\n"
    (folder / "gt.csv").write_text(text, newline="", encoding="utf-8")
    rows = [head.replace("comment", "score;note")]
    for t in cohort.predictions:
        score = f"{t.score:.4f}".replace(".", ",")
        rows.append(f"{t.image};{t.name};{t.x},0;{t.y},0;{t.w},0;{t.h},0;{score};")
    (folder / "pred.csv").write_text("\n".join(rows) + "\n\n", encoding="utf-8")
    return "gt.csv", "pred.csv"


@folder_of
def records_of_tensorflow_with_backslashes(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Images without objects are not in the table; predictions have paths of Windows."""
    head = "filename,width,height,class,xmin,ymin,xmax,ymax"
    rows = [head]
    for t in cohort.references:
        rows.append(f"{t.image}.jpg,{WIDTH},{HEIGHT},{t.name}," + ",".join(map(str, t.corners)))
    put(folder, {"val_labels.csv": "\n".join(rows) + "\n"})
    rows = [head.replace("width,height,", "") + ",score"]
    for t in cohort.predictions:
        corners = ",".join(map(str, t.corners))
        rows.append(f"images\\val\\{t.image}.jpg,{t.name},{corners},{t.score}")
    put(folder, {"detections.csv": "\n".join(rows) + "\n"})
    return "val_labels.csv", "detections.csv"


@folder_of
def names_with_a_text_and_images_that_are_not_listed(
    folder: Path, cohort: Scene
) -> tuple[str, ...]:
    """The references list only images with objects, and the predictions call all of them longer."""
    rows = ["image,class,xmin,ymin,xmax,ymax"]
    for t in cohort.references:
        rows.append(f"{t.image},{t.name}," + ",".join(map(str, t.corners)))
    put(folder, {"refs.csv": "\n".join(rows) + "\n"})
    longer = [t._replace(image=f"ct {t.image} v2") for t in cohort.predictions]
    put(folder, {"model.csv": table_of(cohort._replace(predictions=longer))})
    return "refs.csv", "model.csv"


@folder_of
def yolo_in_nested_folders(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """A split below images and labels; images without objects have no file of labels."""
    names = "\n".join(f"  {k}: {json.dumps(name)}" for k, name in enumerate(CLASSES))
    put(folder, {"data.yaml": f"path: ../data\nval: images/val\nnames:\n{names}\n"})
    for name in cohort.images:
        picture(folder / "images" / "val" / f"{name}.PNG", WIDTH, HEIGHT)
        rows = [f"{t.label} {t.fractions}\n" for t in cohort.of(name)]
        if rows:
            put(folder / "labels" / "val", {f"{name}.txt": "".join(rows) + "\n"})
        own = [f"{t.label} {t.fractions} {t.score}\n" for t in cohort.of(name, "predictions")]
        if own:
            put(folder / "runs/detect/predict/labels", {f"{name}.txt": "\n".join(own)})
    put(folder / "runs/detect/predict", {"args.yaml": "conf: 0.001\n"})
    return ".", "runs/detect/predict/labels"


def voc_xml(name: str, things: list[Thing]) -> str:
    objects = ""
    for t in things:
        x0, y0, x1, y1 = t.corners
        # The first pixel is 1, and the last one belongs to the box.
        box = f"<xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>"
        label = t.name.replace("'", "&apos;")
        objects += f"<object>\n<name>{label}</name><pose>Unspecified</pose>"
        objects += (
            f"<truncated>0</truncated><difficult>0</difficult><bndbox>{box}</bndbox></object>"
        )
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
    return (
        f"<annotation verified='yes'>\n<folder>x</folder><filename>{name}.JPG</filename>"
        f"<path>C:\\data\\{name}.JPG</path>{size}<segmented>0</segmented>{objects}</annotation>"
    )


def table_of(cohort: Scene, suffix: str = "") -> str:
    rows = ["image,label,confidence,x1,y1,x2,y2,extra"]
    for t in cohort.predictions:
        rows.append(
            f'{t.image}{suffix},"{t.name}",{t.score},' + ",".join(map(str, t.corners)) + ",-"
        )
    return "\n".join(rows) + "\n"


@folder_of
def voc_with_results_as_a_table(folder: Path, cohort: Scene) -> tuple[str, ...]:
    for name in cohort.images:
        put(folder / "Annotations", {f"{name}.xml": voc_xml(name, cohort.of(name))})
    put(folder, {"model.csv": table_of(cohort, ".JPG")})
    return "Annotations", "model.csv"


@folder_of
def an_archive_of_cvat(folder: Path, cohort: Scene) -> tuple[str, ...]:
    labels = "".join(f"<label><name>{name}</name></label>" for name in CLASSES)
    text = "<?xml version='1.0' encoding='utf-8'?>\n<annotations><version>1.1</version>"
    text += f"<meta><task><labels>{labels}</labels></task></meta>\n"
    for k, name in enumerate(cohort.images):
        text += f'<image id="{k}" name="val/{name}.png" width="{WIDTH}" height="{HEIGHT}">\n'
        for t in cohort.of(name):
            x0, y0, x1, y1 = t.corners
            text += (
                f'<box label="{t.name}" source="manual" occluded="0" xtl="{x0}.00" ytl="{y0}.00" '
            )
            text += f'xbr="{x1}.00" ybr="{y1}.00" z_order="0">\n</box>\n'
        text += "</image>\n"
    with zipfile.ZipFile(folder / "job_7.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("annotations.xml", text + "</annotations>\n")
        archive.writestr("images/val/first.png", b"pixels")
    put(folder, {"model.csv": table_of(cohort, ".png")})
    return "job_7.zip", "model.csv"


@folder_of
def labelme_of_windows_beside_ultralytics(folder: Path, cohort: Scene) -> tuple[str, ...]:
    for name in cohort.images:
        shapes = []
        for t in cohort.of(name):
            x0, y0, x1, y1 = map(float, t.corners)
            points = [[x1, y1], [x0, y0]]
            shape = {"label": t.name, "points": points, "group_id": None, "flags": {}}
            shapes.append({**shape, "shape_type": "rectangle", "description": ""})
        document = {"version": "5.3.1", "flags": {}, "shapes": shapes, "imageData": None}
        document |= {"imagePath": f"..\\images\\{name}.png"}
        document |= {"imageHeight": HEIGHT, "imageWidth": WIDTH}
        put(folder / "labelme", {f"{name}.json": json.dumps(document, indent=2)})
        boxes = []
        for t in cohort.of(name, "predictions"):
            box = dict(zip(("x1", "y1", "x2", "y2"), map(float, t.corners)))
            record = {"name": t.name, "class": t.label, "confidence": t.score, "box": box}
            boxes.append(record)
        put(folder / "predict", {f"{name}.json": json.dumps(boxes, indent=2)})
    return "labelme", "predict"


@folder_of
def label_studio_with_uploads(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Uploaded pictures get a random beginning of their names."""
    tasks = []
    for k, name in enumerate(cohort.images):
        regions = []
        for t in cohort.of(name):
            value = {"x": 100 * t.x / WIDTH, "y": 100 * t.y / HEIGHT, "rotation": 0}
            value |= {"width": 100 * t.w / WIDTH, "height": 100 * t.h / HEIGHT}
            value["rectanglelabels"] = [t.name]
            sizes = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
            regions.append({"id": f"r{k}", "type": "rectanglelabels", "value": value} | sizes)
            regions[-1] |= {"from_name": "label", "to_name": "image", "origin": "manual"}
        upload = f"{k + 0x1A2B3C4D:08x}-{name.replace(' ', '_')}.png"
        annotation = {"id": k, "result": regions, "was_cancelled": False}
        data = {"image": f"/data/upload/3/{upload}"}
        tasks.append(
            {"id": k + 1, "annotations": [annotation], "data": data, "file_upload": upload}
        )
    put(folder, {"project-3.json": json.dumps(tasks)})
    plain = cohort._replace(
        predictions=[t._replace(image=t.image.replace(" ", "_")) for t in cohort.predictions]
    )
    put(folder, {"model.csv": table_of(plain, ".png")})
    return "project-3.json", "model.csv"


@folder_of
def label_studio_in_short(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """JSON-MIN: a record for every annotation; one of an empty picture has no regions."""
    records = []
    for k, name in enumerate(cohort.images):
        record: dict[str, Any] = {"image": f"/data/local-files/?d=val/{name.replace(' ', '_')}.png"}
        record |= {"id": 90 + k, "annotator": 1, "annotation_id": k, "lead_time": 4.3}
        record |= {"created_at": "2024-01-01T00:00:00Z", "updated_at": "2024-01-01T00:00:01Z"}
        record["quality"] = "good"
        regions = []
        for t in cohort.of(name):
            region = {"x": 100 * t.x / WIDTH, "y": 100 * t.y / HEIGHT, "rotation": 0}
            region |= {"width": 100 * t.w / WIDTH, "height": 100 * t.h / HEIGHT}
            region |= {"rectanglelabels": [t.name]}
            regions.append(region | {"original_width": WIDTH, "original_height": HEIGHT})
        records.append(record | ({"label": regions} if regions else {}))
    put(folder, {"project-9-min.json": json.dumps(records)})
    plain = cohort._replace(
        predictions=[t._replace(image=t.image.replace(" ", "_")) for t in cohort.predictions]
    )
    put(folder, {"model.csv": table_of(plain, ".png")})
    return "project-9-min.json", "model.csv"


@folder_of
def the_output_of_detectron2(folder: Path, cohort: Scene) -> tuple[str, ...]:
    document = coco_document(cohort)
    results = coco_results(cohort, document)
    entries = []
    for image in document["images"]:
        own = [dict(r) for r in results if r["image_id"] == image["id"]]
        for record in own:
            record["category_id"] -= 5
        entries.append({"image_id": image["id"], "instances": own})
    put(folder, {"annotations.json": json.dumps(document)})
    files = {"coco_instances_results.json": json.dumps(results)}
    files["instances_predictions.json"] = json.dumps(entries)
    files["val_coco_format.json"] = json.dumps(document)
    files["metrics.json"] = '{"iteration": 19}\n{"iteration": 39}\n'
    put(folder / "inference", files)
    (folder / "inference" / "instances_predictions.pth").write_bytes(b"PK\3\4")
    return "annotations.json", "inference"


@folder_of
def a_list_of_torchvision_without_ids(folder: Path, cohort: Scene) -> tuple[str, ...]:
    entries = []
    for name in cohort.images:
        own = cohort.of(name, "predictions")
        boxes = [list(map(float, t.corners)) for t in own]
        labels, scores = [5 + t.label for t in own], [t.score for t in own]
        entries.append({"boxes": boxes, "labels": labels, "scores": scores})
    put(folder, {"annotations.json": json.dumps(coco_document(cohort))})
    put(folder, {"outputs.json": json.dumps(entries)})
    return "annotations.json", "outputs.json"


@folder_of
def lines_of_json(folder: Path, cohort: Scene) -> tuple[str, ...]:
    document = coco_document(cohort)
    put(folder, {"annotations.json": json.dumps(document)})
    lines = [json.dumps(record) for record in coco_results(cohort, document)]
    text = "\ufeff" + "\r\n\r\n".join(lines) + "\r\n"
    (folder / "detections.jsonl").write_text(text, newline="", encoding="utf-8")
    return "annotations.json", "detections.jsonl"


@folder_of
def rows_of_pandas_as_json(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """A table with ``to_json``: a list for references, lines for predictions."""
    rows = []
    for name in cohort.images:
        own = cohort.of(name)
        for t in own:
            rows.append({"file_name": name, "category": t.name} | corners_of(t) | {"ok": True})
        nothing = dict.fromkeys(("category", "xmin", "ymin", "xmax", "ymax", "ok"))
        rows += [] if own else [{"file_name": name, **nothing}]
    put(folder, {"gt.json": json.dumps(rows, indent=1)})
    lines = []
    for t in cohort.predictions:
        row = {"file_name": t.image, "category": t.name} | corners_of(t) | {"confidence": t.score}
        lines.append(json.dumps(row))
    put(folder, {"detections.ndjson": "\n".join(lines) + "\n"})
    return "gt.json", "detections.ndjson"


def corners_of(thing: Thing) -> dict[str, int]:
    return dict(zip(("xmin", "ymin", "xmax", "ymax"), thing.corners))


@folder_of
def a_column_with_all_numbers_of_a_box(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """As on Kaggle: a text in a table, a list in lines of JSON; no row for images without boxes."""
    rows = ["image_id,width,height,bbox,source,label"]
    for t in cohort.references:
        box = f'"[{t.x}.0, {t.y}.0, {t.w}.0, {t.h}.0]"'
        rows.append(f"{t.image},{WIDTH},{HEIGHT},{box},usask,{t.name}")
    put(folder, {"train.csv": "\n".join(rows) + "\n"})
    lines = []
    for t in cohort.predictions:
        row = {"image": t.image, "label": t.name, "bbox": [t.x, t.y, t.w, t.h], "score": t.score}
        lines.append(json.dumps(row))
    put(folder, {"detections.jsonl": "\n".join(lines) + "\n"})
    return "train.csv", "detections.jsonl"


@folder_of
def corners_with_sides(folder: Path, cohort: Scene) -> tuple[str, ...]:
    head = "Image_ID,Class,XMin,YMin,XMax,YMax,Width,Height"
    files = {"gt.tsv": [head], "model.tsv": [head + ",Confidence"]}
    for name in cohort.images:
        own = cohort.of(name)
        for t in own:
            numbers = [*t.corners, t.w, t.h]
            files["gt.tsv"].append(",".join([name, t.name, *map(str, numbers)]))
        files["gt.tsv"] += [] if own else [f"{name},,,,,,,"]
    for t in cohort.predictions:
        numbers = [*t.corners, t.w, t.h, t.score]
        files["model.tsv"].append(",".join([t.image, t.name, *map(str, numbers)]))
    put(folder, {name: "\n".join(rows).replace(",", "\t") for name, rows in files.items()})
    return "gt.tsv", "model.tsv"


@folder_of
def open_images_with_a_submission(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Fractions, in the order x, x, y, y; the sizes are in a table."""
    names = [name.replace(" ", "") for name in cohort.images]
    rows = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf"]
    for t in cohort.references:
        x0, y0, x1, y1 = t.corners
        shares = f"{x0 / WIDTH},{x1 / WIDTH},{y0 / HEIGHT},{y1 / HEIGHT}"
        rows.append(f"{t.image.replace(' ', '')},xclick,/m/0{t.label},1,{shares},0,0")
    put(folder, {"boxes.csv": "\n".join(rows) + "\n"})
    strings = ["ImageID,PredictionString"]
    for name, image in zip(names, cohort.images):
        words = []
        for t in cohort.of(image, "predictions"):
            x0, y0, x1, y1 = t.corners
            shares = f"{x0 / WIDTH} {y0 / HEIGHT} {x1 / WIDTH} {y1 / HEIGHT}"
            words.append(f"/m/0{t.label} {t.score} {shares}")
        strings.append(f"{name}," + " ".join(words))
    put(folder, {"submission.csv": "\n".join(strings) + "\n"})
    sizes = ["ImageID,Width,Height", *(f"{name},{WIDTH},{HEIGHT}" for name in names)]
    put(folder, {"sizes.csv": "\n".join(sizes) + "\n"})
    return "boxes.csv", "submission.csv", "--groups", "sizes.csv"


@folder_of
def voc_results_beside_annotations(folder: Path, cohort: Scene) -> tuple[str, ...]:
    for name in cohort.images:
        key = name.replace(" ", "_")
        put(folder / "VOC2012" / "Annotations", {f"{key}.xml": voc_xml(key, cohort.of(name))})
    for label, name in enumerate(CLASSES):
        lines = []
        for t in cohort.predictions:
            if t.label == label:
                x0, y0, x1, y1 = t.corners
                key = t.image.replace(" ", "_")
                lines.append(f"{key} {t.score} {x0 + 1}.0 {y0 + 1}.0 {x1}.0 {y1}.0")
        put(folder / "Main", {f"comp3_det_val_{name}.txt": "\n".join(lines) + "\n"})
    return "VOC2012/Annotations", "Main"


def german(number: float) -> str:
    return str(number).replace(".", ",")


@folder_of
def tables_of_a_german_spreadsheet(folder: Path, cohort: Scene) -> tuple[str, ...]:
    rows = ["Bild;Klasse;links;oben;Breite;Höhe;Bemerkung"]
    for name in cohort.images:
        own = cohort.of(name)
        rows += [f"{name};{t.name};{t.x};{t.y};{t.w};{t.h};gut" for t in own]
        rows += [] if own else [f"{name};;;;;;ohne Befund"]
    put(folder, {"Befunde.csv": "\ufeff" + "\r\n".join(rows) + "\r\n"})
    rows = ["Bild;Klasse;links;oben;rechts;unten;Konfidenz"]
    for t in cohort.predictions:
        corners = ";".join(f"{side},0" for side in t.corners)
        rows.append(f"{t.image}.png;{t.name};{corners};{german(t.score)}")
    put(folder, {"Modell.csv": "\ufeff" + "\r\n".join(rows) + "\r\n"})
    return "Befunde.csv", "Modell.csv"


@folder_of
def tables_that_r_writes(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """``write.table`` as it is: blanks, quotes, and names of rows that have no place in the header;
    for predictions after a selection of rows, with tabs.
    """
    head = ["image", "class", "left", "top", "width", "height"]
    rows = [" ".join(f'"{name}"' for name in head)]
    things: list[tuple[Any, ...]] = []
    for name in cohort.images:
        own = cohort.of(name)
        things += [(f'"{name}"', f'"{t.name}"', t.x, t.y, t.w, t.h) for t in own]
        things += [] if own else [(f'"{name}"', *["NA"] * 5)]
    for k, thing in enumerate(things, 1):
        rows.append(" ".join([f'"{k}"', *map(str, thing)]))
    put(folder, {"truth.txt": "\n".join(rows).replace("NA", '""') + "\n"})
    rows = ["\t".join(f'"{name}"' for name in [*head, "score"])]
    for k, t in enumerate(cohort.predictions):
        cells = [f'"{t.image}"', f'"{t.name}"', t.x, t.y, t.w, t.h, t.score]
        rows.append("\t".join([f'"{7 * k + 3}"', *map(str, cells)]))
    put(folder, {"model.txt": "\n".join(rows) + "\n"})
    return "truth.txt", "model.txt"


@folder_of
def tables_of_matlab(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """``writetable`` of a variable with four columns."""
    head = "imageFilename,label,bbox_1,bbox_2,bbox_3,bbox_4"
    rows = [head]
    for t in cohort.references:
        rows.append(f"{t.image}.png,{t.name},{t.x},{t.y},{t.w},{t.h}")
    for name in cohort.images:
        rows += [] if cohort.of(name) else [f"{name}.png,,,,,"]
    put(folder, {"groundTruth.csv": "\n".join(rows) + "\n"})
    rows = [head + ",score"]
    for t in cohort.predictions:
        rows.append(f"{t.image}.png,{t.name},{t.x},{t.y},{t.w},{t.h},{t.score}")
    put(folder, {"detections.csv": "\n".join(rows) + "\n"})
    return "groundTruth.csv", "detections.csv"


def lines_of(things: list[Thing], is_scored: bool, is_corners: bool) -> str:
    lines = []
    for t in things:
        numbers = t.corners if is_corners else (t.x, t.y, t.w, t.h)
        score = [str(t.score)] if is_scored else []
        lines.append(" ".join([t.name, *score, *map(str, numbers)]))
    return "\n".join([*lines, ""])


@folder_of
def text_files_with_corners(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """``class left top right bottom``; images without detections have no file."""
    for name in cohort.images:
        put(folder / "ground-truth", {f"{name}.txt": lines_of(cohort.of(name), False, True)})
        own = cohort.of(name, "predictions")
        if own:
            put(folder / "detection-results", {f"{name}.txt": lines_of(own, True, True)})
    return "ground-truth", "detection-results"


@folder_of
def text_files_with_sides(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """``class left top width height``, and corners of the model."""
    for name in cohort.images:
        put(folder / "groundtruths", {f"{name}.txt": lines_of(cohort.of(name), False, False)})
        own = cohort.of(name, "predictions")
        put(folder / "detections", {f"{name}.txt": lines_of(own, True, True)})
    return "groundtruths", "detections"


@folder_of
def numbers_of_classes_in_two_columns(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Counted from 1 by the references, from 0 by the model; without names there is one list."""
    rows = ["image,category_id,x0,y0,x1,y1"]
    for name in cohort.images:
        own = cohort.of(name)
        rows += [f"{name},{t.label + 1},{','.join(map(str, t.corners))}" for t in own]
        rows += [] if own else [f"{name},,,,,"]
    put(folder, {"gt.csv": "\n".join(rows) + "\n"})
    rows = ["image,class_id,x0,y0,x1,y1,score"]
    for t in cohort.predictions:
        rows.append(f"{t.image},{t.label},{','.join(map(str, t.corners))},{t.score}")
    put(folder, {"model.csv": "\n".join(rows) + "\n"})
    return "gt.csv", "model.csv"


@folder_of
def labelme_without_files_of_empty_pictures(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Who sees nothing on a picture saves nothing; masks that a script drew lie beside."""
    for name in cohort.images:
        picture(folder / "val" / f"{name}.png", WIDTH, HEIGHT)
        if cohort.of(name):
            shapes = []
            for t in cohort.of(name):
                x0, y0, x1, y1 = map(float, t.corners)
                points = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]
                shape = {"label": t.name, "points": points, "group_id": None, "flags": {}}
                shapes.append({**shape, "shape_type": "polygon"})
            document = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imageData": None}
            document |= {"imagePath": f"{name}.png", "imageHeight": HEIGHT, "imageWidth": WIDTH}
            put(folder / "val", {f"{name}.json": json.dumps(document, indent=2)})
            picture(folder / "val" / f"{name}_mask.png", WIDTH, HEIGHT)
    put(folder, {"model.csv": table_of(cohort, ".png")})
    return "val", "model.csv"


@folder_of
def label_img_beside_pictures(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """LabelImg writes a file for a picture once something is marked on it."""
    for name in cohort.images:
        picture(folder / "images" / f"{name}.jpg", WIDTH, HEIGHT)
        if cohort.of(name):
            put(folder / "annotations", {f"{name}.xml": voc_xml(name, cohort.of(name))})
    put(folder, {"model.csv": table_of(cohort, ".jpg")})
    return "annotations", "model.csv"


@folder_of
def label_img_with_its_pictures(folder: Path, cohort: Scene) -> tuple[str, ...]:
    label_img_beside_pictures(folder, cohort)
    # Masks of a segmentation are no pictures.
    for name in cohort.images:
        picture(folder / "SegmentationClass" / f"{name}.png", WIDTH, HEIGHT)
    return ".", "model.csv"


@folder_of
def names_of_columns_of_other_tools(folder: Path, cohort: Scene) -> tuple[str, ...]:
    rows = ["imgPath,ClassLabel,bbox_left,bbox_top,bbox_width,bbox_height"]
    for name in cohort.images:
        own = cohort.of(name)
        rows += [f"{name},{t.name},{t.x},{t.y},{t.w},{t.h}" for t in own]
        rows += [] if own else [f"{name},,,,,"]
    put(folder, {"truth.csv": "\n".join(rows) + "\n"})
    rows = ["file,cls,topLeftX,topLeftY,bottomRightX,bottomRightY,detectionScore"]
    for t in cohort.predictions:
        rows.append(f"{t.image},{t.name},{','.join(map(str, t.corners))},{t.score}")
    put(folder, {"model.csv": "\n".join(rows) + "\n"})
    return "truth.csv", "model.csv"


@folder_of
def folders_of_cases_behind_another_folder(folder: Path, cohort: Scene) -> tuple[str, ...]:
    """Frames have the same names in every case, and extensions in capitals in one of the files."""
    paths = {name: f"case{k // 4}/frame{k % 4}" for k, name in enumerate(cohort.images)}
    rows = ["image,class,x0,y0,x1,y1"]
    for name in cohort.images:
        own = cohort.of(name)
        rows += [f"{paths[name]}.png,{t.name},{','.join(map(str, t.corners))}" for t in own]
        rows += [] if own else [f"{paths[name]}.png,,,,,"]
    put(folder, {"truth.csv": "\n".join(rows) + "\n"})
    longer = [t._replace(image=f"./data/{paths[t.image]}.PNG") for t in cohort.predictions]
    put(folder, {"model.csv": table_of(cohort._replace(predictions=longer))})
    return "truth.csv", "model.csv"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_first_command_gives_the_number_of_pycocotools(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    cohort = scene(zlib.crc32(name.encode()) % 100)
    arguments = FOLDERS[name](place, cohort)
    run(["doctor", *arguments])
    text = capsys.readouterr().out
    commands = [line.strip() for line in text.splitlines() if line.startswith("  calipers ")]
    assert commands, text
    for command in commands:
        words = shlex.split(command)[1:]
        more = []
        if words[0] == "evaluate":
            more = ["--no-ci", "--metrics", "AP50", "-o", RESULT]
        code = run([*words, *more])
        assert not more or code == 0, (command, capsys.readouterr().err, text)
    result = cal.open_evaluation(RESULT)
    (row,) = [row for row in result.rows if row.label is None and not row.group]
    known = {image.replace("_", " ").split("-")[-1] for image in result.cohort.images.ids}
    assert result.cohort.n_images == len(known)
    right = right_ap50(cohort, cohort.images)
    assert row.estimate.value == pytest.approx(right, abs=1e-9), text
