"""Every format that is read becomes every format that is written, and comes back the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from annotation_cases import picture, put
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.io.write import write
from calipers.io.write_volume import write_volume

# The same two boxes on a picture of 100 x 80, and a picture without any, in every format.
BOXES = [[10.0, 20.0, 30.0, 40.0], [50.0, 8.0, 62.0, 24.0]]
VOC_OBJECT = (
    "<object><name>polyp</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>"
    "<ymax>{}</ymax></bndbox></object>"
)
CVAT_BOX = '<box label="polyp" xtl="{}" ytl="{}" xbr="{}" ybr="{}"></box>'


def coco(folder: Path) -> Path:
    images = [{"id": name, "width": 100, "height": 80} for name in ("a", "b")]
    annotations = []
    for k, (x0, y0, x1, y1) in enumerate(BOXES, start=1):
        box = [x0, y0, x1 - x0, y1 - y0]
        annotations.append({"id": k, "image_id": "a", "category_id": 1, "bbox": box})
    categories = [{"id": 1, "name": "polyp"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    return put(folder, {"refs.json": json.dumps(document)}) / "refs.json"


def table(folder: Path) -> Path:
    lines = ["image,class,x0,y0,x1,y1,width,height"]
    lines += [f"a,polyp,{','.join(map(str, box))},100,80" for box in BOXES]
    lines.append("b,,,,,,100,80")
    return put(folder, {"refs.csv": "\n".join(lines)}) / "refs.csv"


def yolo(folder: Path) -> Path:
    for name in "ab":
        picture(folder / "images" / f"{name}.png", 100, 80)
    lines = []
    for x0, y0, x1, y1 in BOXES:
        numbers = ((x0 + x1) / 200, (y0 + y1) / 160, (x1 - x0) / 100, (y1 - y0) / 80)
        lines.append(f"0 {' '.join(map(repr, numbers))}")
    return put(
        folder, {"labels/a.txt": "\n".join(lines), "labels/b.txt": "", "classes.txt": "polyp"}
    )


def voc(folder: Path) -> Path:
    head = "<annotation><size><width>100</width><height>80</height></size>{}</annotation>"
    objects = [VOC_OBJECT.format(x0 + 1, y0 + 1, x1, y1) for x0, y0, x1, y1 in BOXES]
    return put(folder, {"a.xml": head.format("".join(objects)), "b.xml": head.format("")})


def cvat(folder: Path) -> Path:
    shapes = "".join(CVAT_BOX.format(*box) for box in BOXES)
    images = [
        f'<image id="0" name="a" width="100" height="80">{shapes}</image>',
        '<image id="1" name="b" width="100" height="80"></image>',
    ]
    text = f"<annotations><version>1.1</version>{''.join(images)}</annotations>"
    return put(folder, {"annotations.xml": text}) / "annotations.xml"


def polypgen(folder: Path) -> Path:
    for name in "ab":
        picture(folder / "images_C1" / f"{name}.png", 100, 80)
    lines = [f"polyp {' '.join(map(str, box))}" for box in BOXES]
    return put(folder, {"bbox_C1/a_mask.txt": "\n".join(lines), "bbox_C1/b_mask.txt": "\n"})


def label_pictures(folder: Path) -> Path:
    folder.mkdir()
    mask = np.zeros((80, 100), np.uint8)
    for x0, y0, x1, y1 in BOXES:
        mask[int(y0) : int(y1), int(x0) : int(x1)] = 1
    write_volume(folder / "a.png", mask)
    write_volume(folder / "b.png", np.zeros_like(mask))
    put(folder, {"dataset.json": '{"labels": {"background": 0, "polyp": 1}}'})
    return folder


SOURCES: dict[str, Callable[[Path], Path]] = {
    make.__name__: make for make in (coco, table, yolo, voc, cvat, polypgen, label_pictures)
}
TARGETS = {"coco": "out.json", "csv": "out.csv", "parquet": "out.parquet", "yolo": "y", "voc": "v"}


def same_boxes(cohort: Cohort, *, exact: bool = True) -> None:
    assert cohort.classes == ("polyp",)
    assert np.diff(cohort.references.offsets).tolist() == [2, 0]
    boxes = cohort.references.boxes[np.argsort(cohort.references.boxes[:, 0])]
    np.testing.assert_allclose(boxes, BOXES, rtol=0, atol=0 if exact else 1e-9)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_boxes_survive_the_way_there_and_back(tmp_path, source, target) -> None:
    cohort = cal.read(SOURCES[source](tmp_path / "in"))
    same_boxes(cohort, exact=source != "yolo")
    path = tmp_path / TARGETS[target]
    write(cohort, path, format=target)
    groups = path / "images.csv" if target == "yolo" else None
    again = cal.read(path, groups=groups)
    assert len(again.images.ids) == 2
    same_boxes(again, exact="yolo" not in (source, target))


def test_masks_of_label_pictures_survive_coco(tmp_path) -> None:
    cohort = cal.read(label_pictures(tmp_path / "in"))
    write(cohort, tmp_path / "out.json")
    masks = cal.read(tmp_path / "out.json").references.masks
    assert masks is not None
    assert masks.voxels.tolist() == [192, 400]


def scored(tmp_path: Path) -> Cohort:
    references = coco(tmp_path / "in")
    (tmp_path / "p.csv").write_text("image,class,x0,y0,x1,y1,score\na,polyp,10,20,30,41,0.9\n")
    return cal.read(references, {"m": tmp_path / "p.csv"})


def test_integer_ids_are_read_by_other_tools(tmp_path) -> None:
    """pycocotools takes nothing but whole numbers and a bare list of results."""
    cohort = scored(tmp_path)
    write(cohort, tmp_path / "r.json", integer_ids=True)
    write(cohort, tmp_path / "p.json", what="m", integer_ids=True)
    images = json.loads((tmp_path / "r.json").read_text())["images"]
    assert [(image["id"], image["file_name"]) for image in images] == [(1, "a"), (2, "b")]
    assert isinstance(json.loads((tmp_path / "p.json").read_text()), list)
    again = cal.read(tmp_path / "r.json", {"m": tmp_path / "p.json"})
    assert again.predictions("m").boxes.tolist() == cohort.predictions("m").boxes.tolist()
    assert again.images.groups["file_name"].tolist() == ["a", "b"]
    peer = pytest.importorskip("pycocotools.coco")
    truth = peer.COCO(str(tmp_path / "r.json"))
    results = truth.loadRes(str(tmp_path / "p.json"))
    assert sorted(truth.getImgIds()) == [1, 2]
    assert len(results.getAnnIds()) == 1


def test_names_of_files_stay_and_ids_stand_beside_them(tmp_path) -> None:
    cohort = cal.read(yolo(tmp_path / "in"))
    named = "file_name" in cohort.images.groups
    write(cohort, tmp_path / "r.json", integer_ids=True)
    image = json.loads((tmp_path / "r.json").read_text())["images"][0]
    assert image["id"] == 1
    assert image.get("source_id" if named else "file_name") == "a"


def test_whole_numbers_stay_as_they_are(tmp_path) -> None:
    (tmp_path / "r.csv").write_text("image,class,x0,y0,x1,y1\n7,polyp,1,2,3,4\n")
    write(cal.read(tmp_path / "r.csv"), tmp_path / "r.json", integer_ids=True)
    assert json.loads((tmp_path / "r.json").read_text())["images"][0]["id"] == 7


def test_integer_ids_are_for_coco(tmp_path) -> None:
    with pytest.raises(UsageError, match="COCO"):
        write(cal.read(coco(tmp_path / "in")), tmp_path / "x.csv", integer_ids=True)


def test_globox_reads_what_is_written(tmp_path) -> None:
    globox = pytest.importorskip("globox")
    write(cal.read(coco(tmp_path / "in")), tmp_path / "r.json", integer_ids=True)
    annotations = globox.AnnotationSet.from_coco(tmp_path / "r.json")
    boxes = [(box.xmin, box.ymin, box.xmax, box.ymax) for box in annotations["a"].boxes]
    assert sorted(boxes) == sorted(tuple(box) for box in BOXES)


@pytest.mark.parametrize("kind", ["voc", "cvat"])
def test_globox_reads_the_same(tmp_path, kind) -> None:
    """Globox counts the pixels of VOC from 0, as many tools write them."""
    globox = pytest.importorskip("globox")
    path = SOURCES[kind](tmp_path / "in")
    if kind == "voc":
        text = (path / "a.xml").read_text().replace("<size>", "<filename>a</filename><size>")
        put(path, {"a.xml": text})
        (path / "b.xml").unlink()
        annotations = globox.AnnotationSet.from_pascal_voc(path)
        mine = cal.read(path, box_format="xyxy").references.boxes.tolist()
    else:
        annotations = globox.AnnotationSet.from_cvat(path)
        mine = cal.read(path).references.boxes.tolist()
    boxes = [[box.xmin, box.ymin, box.xmax, box.ymax] for box in annotations["a"].boxes]
    assert sorted(boxes) == sorted(mine)


@pytest.mark.parametrize("kind", ["yolo", "voc", "coco"])
def test_supervision_reads_the_same(tmp_path, kind) -> None:
    supervision = pytest.importorskip("supervision")
    path = SOURCES[kind](tmp_path / "in")
    folder = path if path.is_dir() else path.parent
    for name in ("a", "b"):
        picture(folder / "images" / f"{name}.png", 100, 80)
    open_as = supervision.DetectionDataset
    if kind == "yolo":
        put(folder, {"data.yaml": "names: [polyp]\nnc: 1\n"})
        data = open_as.from_yolo(
            str(folder / "images"), str(folder / "labels"), str(folder / "data.yaml")
        )
        mine = cal.read(folder)
    elif kind == "voc":
        # It looks for the file of every picture, and counts pixels from 1 as we do.
        data = open_as.from_pascal_voc(str(folder / "images"), str(folder))
        mine = cal.read(folder)
    else:
        write(cal.read(path), folder / "whole.json", integer_ids=True)
        document = json.loads((folder / "whole.json").read_text())
        for image in document["images"]:
            image["file_name"] += ".png"
        put(folder, {"whole.json": json.dumps(document)})
        data = open_as.from_coco(str(folder / "images"), str(folder / "whole.json"))
        mine = cal.read(folder / "whole.json")
    detections = next(one for path, _, one in data if path.endswith("a.png"))
    boxes = np.sort(detections.xyxy, axis=0)
    np.testing.assert_allclose(boxes, np.sort(mine.references.boxes, axis=0), atol=1e-3)
