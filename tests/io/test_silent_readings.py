"""Inputs that could be read in a second way, or in part, without a word: each has its error."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
import list_cases as lists
from annotation_cases import (
    CVAT,
    CVAT_VIDEO,
    RECTANGLE,
    VOC,
    YOLO_LABELS,
    put,
    region,
    task,
)
from calipers.cli import main
from calipers.data.objects import empty_predictions
from calipers.errors import CalipersError
from calipers.fusion.recipe import FusionRecipe
from calipers.io.source import open_regular
from calipers.results.files import head_of
from calipers.results.requirements import Requirements

TABLE = "image,class,x0,y0,x1,y1,width,height\na,polyp,10,20,30,40,100,80\n"
HEADER = "image,class,x0,y0,x1,y1,patient"
BOX = {"name": "polyp", "confidence": 0.9, "box": {"x1": 1, "y1": 2, "x2": 3, "y2": 4}}
COLUMNS = {"boxes": [[1, 2, 3, 4]], "labels": [0], "scores": [0.9]}
INSTANCE = {"category_id": 0, "bbox": [1, 2, 3, 4], "score": 0.9}
RESULTS = "a 0.9 48 240 195 371\n"
NAMES = "path: .\nnames:\n  - polyp\n  - other\n"


def ellipse(**others: Any) -> str:
    value = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 5, **others}
    return json.dumps([task("a.png", [region("polyp", value, "ellipselabels")])])


def regions(value: Mapping[str, Any], **annotation: Any) -> str:
    whole = task("a.png", [region("polyp", value)])
    whole["annotations"][0].update(annotation)
    return json.dumps([whole])


def detections(*entries: Mapping[str, Any]) -> str:
    return json.dumps(entries)


def nodules(z: float) -> str:
    box = {"corners": lists.corners(1, 2, 3, 4, z), "probability": 0.5}
    return json.dumps({"type": "Multiple 2D bounding boxes", "boxes": [box]})


NUMBERED = lists.NODE21.replace(".mha", "")
# (files, references, predictions, rule)
CASES: dict[str, tuple[dict[str, str], str, str, str]] = {
    "a polygon with a point that is none": (
        {"c.xml": CVAT.replace("21.00,2.00;", "nan,nan;")},
        "c.xml",
        "",
        "polygon",
    ),
    "an ellipse that is turned by a word": (
        {"c.xml": CVAT.replace('ry="5"', 'ry="5" rotation="left"')},
        "c.xml",
        "",
        "type",
    ),
    "an ellipse with a negative radius": (
        {"c.xml": CVAT.replace('ry="5"', 'ry="-5"')},
        "c.xml",
        "",
        "neg-size",
    ),
    "a shape that may be outside": (
        {"c.xml": CVAT_VIDEO.replace('outside="1"', 'outside="yes"')},
        "c.xml",
        "",
        "type",
    ),
    "frames by an unknown filter": (
        {"c.xml": CVAT_VIDEO.replace("step=2", "every=2")},
        "c.xml",
        "",
        "type",
    ),
    "two boxes of one object": (
        {"v/a.xml": VOC.replace("<bndbox>", "<bndbox></bndbox><bndbox>", 1)},
        "v",
        "",
        "dup-key",
    ),
    "two left sides of one box": (
        {"v/a.xml": VOC.replace("<xmin>48</xmin>", "<xmin>48</xmin><xmin>8</xmin>")},
        "v",
        "",
        "dup-key",
    ),
    "two sizes of one picture": (
        {"v/a.xml": VOC.replace("<segmented>", "<size><width>9</width></size><segmented>")},
        "v",
        "",
        "dup-key",
    ),
    "two widths of one picture": (
        {"v/a.xml": VOC.replace("<width>353", "<width>9</width><width>353")},
        "v",
        "",
        "dup-key",
    ),
    "cancelled by a word": (
        {"l.json": regions(RECTANGLE, was_cancelled="false")},
        "l.json",
        "",
        "type",
    ),
    "a rectangle without its height": (
        {"l.json": regions({"x": 1, "y": 2, "width": 3})},
        "l.json",
        "",
        "box-shape",
    ),
    "a rectangle that is turned by nothing": (
        {"l.json": regions({**RECTANGLE, "rotation": ""})},
        "l.json",
        "",
        "type",
    ),
    "a painted ellipse with a negative radius": (
        {"l.json": ellipse(radiusX=-10)},
        "l.json",
        "",
        "neg-size",
    ),
    "half a class": (
        {"t.csv": TABLE, "m.json": json.dumps({"a": {**COLUMNS, "labels": [0.5]}})},
        "t.csv",
        "m.json",
        "unknown-category",
    ),
    "an image twice in a dump": (
        {"t.csv": TABLE, "m.json": detections(*[{"image_id": "a", **COLUMNS}] * 2)},
        "t.csv",
        "m.json",
        "dup-image",
    ),
    "two names of one image": (
        {"t.csv": TABLE, "m/x/a.json": json.dumps([BOX]), "m/y/a.json": json.dumps([BOX])},
        "t.csv",
        "m",
        "dup-file-name",
    ),
    "an instance of another image": (
        {
            "t.csv": TABLE,
            "m.json": detections(
                {"image_id": "a", "instances": [{**INSTANCE, "image_id": "b"}]},
            ),
        },
        "t.csv",
        "m.json",
        "image-conflict",
    ),
    "an instance whose mask is none": (
        {
            "t.csv": TABLE,
            "m.json": detections(
                {"image_id": "a", "instances": [{**INSTANCE, "segmentation": "mask"}]},
            ),
        },
        "t.csv",
        "m.json",
        "polygon",
    ),
    "results of two competitions": (
        {
            "v/a.xml": VOC,
            "m/comp3_det_test_dog.txt": RESULTS,
            "m/comp4_det_test_dog.txt": RESULTS,
        },
        "v",
        "m",
        "dup-file-name",
    ),
    "a picture between two others": (
        {"n.csv": NUMBERED, "m.json": nodules(0.9999999)},
        "n.csv",
        "m.json",
        "box-shape",
    ),
    "two jobs of one image": (
        {"n.csv": lists.NODE21, "m.json": json.dumps([lists.job("0.mha")] * 2)},
        "n.csv",
        "m.json",
        "dup-image",
    ),
    "two rows of one image in a submission": (
        {"r.csv": lists.RSNA, "s.csv": lists.RSNA_SUBMISSION + "00436515,0.9 1 2 3 4\n"},
        "r.csv",
        "s.csv",
        "dup-image",
    ),
    "two files of labels of one image": (
        {"y/data.yaml": NAMES, "y/labels/a.txt": YOLO_LABELS, "y/labels/a.TXT": YOLO_LABELS},
        "y",
        "",
        "dup-file-name",
    ),
    "names twice": (
        {"y/data.yaml": NAMES + "names: [b, c]\n", "y/labels/a.txt": YOLO_LABELS},
        "y",
        "",
        "dup-key",
    ),
    "a name behind a dash without space": (
        {"y/data.yaml": "names:\n- polyp\n-other\n- third\n", "y/labels/a.txt": YOLO_LABELS},
        "y",
        "",
        "class-names",
    ),
    "names behind the list of names": (
        {"y/data.yaml": "names: [polyp, other] third\n", "y/labels/a.txt": YOLO_LABELS},
        "y",
        "",
        "class-names",
    ),
    "two patients on one image": (
        {"t.csv": f"{HEADER}\na,n,1,2,3,4,p\na,n,1,2,3,4,q\n"},
        "t.csv",
        "",
        "group-conflict",
    ),
    "only a broken row": (
        {"t.csv": f"{HEADER}\na,n,1,2,3,4\n"},
        "t.csv",
        "",
        "ragged",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_second_way_to_read_it_is_an_error(tmp_path: Path, name: str) -> None:
    files, references, predictions, rule = CASES[name]
    put(tmp_path, files)
    models = {"m": tmp_path / predictions} if predictions else None
    with pytest.raises(CalipersError, match=rf"\[{rule}\]"):
        cal.read(tmp_path / references, models)


def test_groups_that_contradict_the_references(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "t.csv": f"{HEADER}\na,n,1,2,3,4,p\nb,n,1,2,3,4,q\n",
            "same.csv": "image,patient\nb,q\na,p\n",
            "other.csv": "image,patient\nb,q\na,r\n",
        },
    )
    assert cal.read(tmp_path / "t.csv", groups=tmp_path / "same.csv").n_images == 2
    with pytest.raises(CalipersError, match=r"other\.csv, 3:2 .*'p', got 'r' \[group-conflict\]"):
        cal.read(tmp_path / "t.csv", groups=tmp_path / "other.csv")


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    """They would stand in records of JSON, which is UTF-8."""
    odd = os.fsdecode(b"q\xff\xfe")
    put(tmp_path, {"t.csv": TABLE})
    try:
        (tmp_path / f"{odd}.csv").write_text(TABLE.replace("y1", "y1,score").replace("40", "40,1"))
    except OSError:
        pytest.skip("the file system has names in UTF-8 only")
    with pytest.raises(CalipersError, match=r"names of files in UTF-8"):
        cal.read(tmp_path / "t.csv", tmp_path / f"{odd}.csv")
    (tmp_path / "maps").mkdir()
    np.save(tmp_path / "maps" / f"{odd}.npy", np.zeros((4, 4)))
    with pytest.raises(CalipersError, match=r"names of files in UTF-8"):
        cal.read_maps(tmp_path / "maps", tmp_path / "maps")
    assert main.run(["inspect", f"{odd}.csv"]) == 2
    cohort = cal.read(tmp_path / "t.csv")
    cohort = cohort.with_predictions(odd, empty_predictions(1))
    with pytest.raises(CalipersError, match=r"\[encoding\]"):
        cal.evaluate(cohort, "coco", ci=False).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_has_nothing_to_read_yet_is_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of /proc such as kmsg, which says that it is a regular one."""
    reader, writer = os.pipe()
    path = Path(f"/proc/self/fd/{reader}")
    if not path.exists():
        pytest.skip("no /proc")
    monkeypatch.setattr(stat, "S_ISREG", lambda mode: True)
    stream = open_regular(path, follow=True)
    with pytest.raises(CalipersError, match="nothing to read yet"):
        stream.__enter__()
    os.close(reader)
    os.close(writer)


def test_a_number_is_no_name_of_a_file() -> None:
    """Python would read the open file of that number, and close it."""
    reader, writer = os.pipe()
    for load in (cal.Protocol.load, Requirements.load, FusionRecipe.load):
        with pytest.raises(CalipersError):
            load(reader)
    os.fstat(reader)  # still open
    os.close(reader)
    os.close(writer)


def test_the_head_of_a_file_that_has_nothing_to_read_yet_is_empty() -> None:
    reader, writer = os.pipe()
    path = Path(f"/proc/self/fd/{reader}")
    if not path.exists():
        pytest.skip("no /proc")
    assert head_of(path, 10) == b""
    os.close(reader)
    os.close(writer)


def test_an_output_in_a_thousand_folders(tmp_path: Path) -> None:
    cohort = cal.read(put(tmp_path, {"t.csv": TABLE}) / "t.csv")
    deep = tmp_path.joinpath(*["x"] * 1000)
    with pytest.raises(CalipersError, match=r"\[not-writable\]"):
        cal.write(cohort, deep, format="voc")
    cohort = cohort.with_predictions("m", empty_predictions(1))
    with pytest.raises(CalipersError, match=r"\[not-writable\]"):
        cal.evaluate(cohort, "coco", ci=False).save(deep)
