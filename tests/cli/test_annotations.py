"""Annotation folders on the command line: inspected, evaluated, converted."""

from __future__ import annotations

import numpy as np

import calipers as cal
from annotation_cases import VOC, put, yolo_data


def test_a_folder_is_evaluated_and_saved(tmp_path, calipers) -> None:
    folder = yolo_data(tmp_path / "y")
    run = put(tmp_path / "run", {"labels/a.txt": "0 0.5 0.5 0.2 0.25 0.9\n"})
    arguments = ("--preset", "overview", "--no-ci", "-o", tmp_path / "out", "--json")
    done = calipers("evaluate", folder, run / "labels", *arguments)
    assert done.code == 0, done.err
    assert {row["model"] for row in done.json["rows"]} == {"run"}
    assert calipers("verify", tmp_path / "out").code == 0


def test_no_result_is_written_into_an_input_folder(tmp_path, calipers) -> None:
    folder = yolo_data(tmp_path / "y")
    run = put(tmp_path / "run", {"labels/a.txt": "0 0.5 0.5 0.2 0.25 0.9\n"})
    done = calipers("evaluate", folder, run, "-o", folder / "results")
    assert done.code == 2
    assert "output-in-input" in done.err


def test_inspect_tells_how_a_folder_is_read(tmp_path, calipers) -> None:
    done = calipers("inspect", yolo_data(tmp_path / "y"))
    assert done.code == 0
    assert "yolo, boxes as cxcywh-normalised" in done.out
    assert "2 read = 2 used + 0 set aside" in done.out


def test_convert(tmp_path, calipers) -> None:
    folder, target, again = yolo_data(tmp_path / "y"), tmp_path / "voc", tmp_path / "again"
    done = calipers("convert", folder, target, "--to", "voc", "--json")
    assert (done.code, done.json["objects"]) == (0, 2)
    done = calipers("convert", target, again, "--to", "yolo")
    assert done.code == 0
    # Boxes of YOLO are fractions of pictures that are not there: the sizes stand in a table.
    assert calipers("inspect", again).code == 0
    cohort = cal.read(again, groups=again / "images.csv")
    boxes = np.sort(cohort.references.boxes, axis=0)
    np.testing.assert_allclose(boxes, [[5, 8, 15, 24], [40, 30, 60, 50]])
    # An existing folder is never replaced: there may be pictures in it.
    assert calipers("convert", folder, again, "--to", "yolo", "--force").code == 2
    assert calipers("convert", folder, folder / "new", "--to", "yolo").code == 2


def test_convert_tells_what_is_lost(tmp_path, calipers) -> None:
    folder = put(tmp_path / "v", {"000001.xml": VOC})
    groups = put(tmp_path, {"g.csv": "image,site\n000001,x\n"}) / "g.csv"
    arguments = (folder, tmp_path / "y", "--to", "yolo", "--json", "--groups", groups)
    warnings = "\n".join(calipers("convert", *arguments).json["warnings"])
    assert "1 ignored references" in warnings
    assert "columns of images are not written: site" in warnings
