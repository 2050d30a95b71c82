"""The same objects in every format are the same references."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from annotation_cases import labelme, labelme_shape, picture, put, region, task

WIDTH, HEIGHT = 200, 100
# x0 y0 x1 y1 in pixels, half-open; the second image has none.
OBJECTS = (("polyp", (10, 20, 70, 60)), ("vessel", (0, 0, 200, 100)), ("polyp", (150, 1, 151, 99)))


def coco(folder: Path) -> Path:
    names = ["polyp", "vessel"]
    annotations = []
    for k, (name, (x0, y0, x1, y1)) in enumerate(OBJECTS):
        box = [x0, y0, x1 - x0, y1 - y0]
        annotations.append(
            {"id": k, "image_id": "a", "category_id": names.index(name), "bbox": box}
        )
    document = {
        "images": [{"id": name, "width": WIDTH, "height": HEIGHT} for name in ("a", "b")],
        "categories": [{"id": k, "name": name} for k, name in enumerate(names)],
        "annotations": annotations,
    }
    return put(folder, {"coco.json": json.dumps(document)}) / "coco.json"


def yolo(folder: Path) -> Path:
    lines = []
    for name, (x0, y0, x1, y1) in OBJECTS:
        cx, cy = (x0 + x1) / 2 / WIDTH, (y0 + y1) / 2 / HEIGHT
        w, h = (x1 - x0) / WIDTH, (y1 - y0) / HEIGHT
        lines.append(f"{['polyp', 'vessel'].index(name)} {cx} {cy} {w} {h}\n")
    for name in ("a", "b"):
        picture(folder / "images" / f"{name}.png", WIDTH, HEIGHT)
    files = {"labels/a.txt": "".join(lines), "labels/b.txt": "", "classes.txt": "polyp\nvessel"}
    return put(folder, files)


def voc(folder: Path) -> Path:
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height></size>"
    objects = ""
    for name, (x0, y0, x1, y1) in OBJECTS:
        box = f"<xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>"
        objects += f"<object><name>{name}</name><bndbox>{box}</bndbox></object>"
    texts = {"a": size + objects, "b": size}
    return put(folder, {f"{k}.xml": f"<annotation>{t}</annotation>" for k, t in texts.items()})


def cvat(folder: Path) -> Path:
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    boxes = ""
    for name, (x0, y0, x1, y1) in OBJECTS:
        boxes += f'<box label="{name}" xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}"/>'
    images = f'<image name="a" {size}>{boxes}</image><image name="b" {size}/>'
    text = f"<annotations>{images}</annotations>"
    return put(folder, {"a.xml": text}) / "a.xml"


def labelme_folder(folder: Path) -> Path:
    shapes = []
    for name, (x0, y0, x1, y1) in OBJECTS:
        shapes.append(labelme_shape(name, [[x1, y1], [x0, y0]], "rectangle"))
    sizes = {"imageWidth": WIDTH, "imageHeight": HEIGHT}
    return put(folder, {"a.json": labelme(*shapes, **sizes), "b.json": labelme(**sizes)})


def label_studio(folder: Path) -> Path:
    regions = []
    for name, (x0, y0, x1, y1) in OBJECTS:
        percent = {"x": x0 / 2, "y": y0, "width": (x1 - x0) / 2, "height": y1 - y0}
        regions.append(region(name, percent))
    tasks = [task("a", regions), task("b", [])]
    return put(folder, {"e.json": json.dumps(tasks)}) / "e.json"


@pytest.mark.parametrize("write", [yolo, voc, cvat, labelme_folder, label_studio])
def test_every_format_gives_the_references_of_coco(tmp_path, write) -> None:
    wanted, cohort = cal.read(coco(tmp_path / "c")), cal.read(write(tmp_path / "x"))
    assert cohort.images.ids == wanted.images.ids
    assert cohort.classes == wanted.classes
    assert cohort.references.label.tolist() == wanted.references.label.tolist()
    np.testing.assert_allclose(cohort.references.boxes, wanted.references.boxes, atol=1e-9)
    np.testing.assert_array_equal(cohort.images.size[0], wanted.images.size[0])
    assert cohort.references.offsets.tolist() == [0, 3, 3]
