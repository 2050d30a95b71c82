"""The peers read sound inputs, and as Calipers does: one that refuses everything judges nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import calipers as cal
from annotation_cases import LABELME, RECTANGLE, labelme, labelme_shape, picture, put, region, task
from calipers.errors import InputError
from calipers.io.write_volume import write_volume
from fuzz import tool_peers
from fuzz.annotations import EXPORT, MASK, OUTLINES, PAINTED
from fuzz.dumps import BOXES, INSTANCES, POLYPGEN, labels, lidc
from fuzz.peers import Disagreement, compare, rows_of


def assert_agreement(cohort: Any, table: Any, wanted: Any, n: int) -> None:
    assert len(wanted) == n
    compare(rows_of(cohort, table), wanted)


def test_labelme(tmp_path: Path) -> None:
    text = labelme(*LABELME, MASK)
    cohort = cal.read(put(tmp_path, {"a.json": text}))
    assert_agreement(cohort, cohort.references, tool_peers.labelme(text.encode()), 4)


def test_masks_of_annotation_tools(tmp_path: Path) -> None:
    text = labelme(*OUTLINES, MASK)
    cohort = cal.read(put(tmp_path / "lm", {"a.json": text}), masks="required")
    wanted = tool_peers.labelme_masks(text.encode())
    assert [int(pixels.sum()) for _, pixels in wanted] == [100, 192, 6]
    tool_peers.same_masks(cohort, wanted)
    put(tmp_path, {"e.json": PAINTED})
    cohort = cal.read(tmp_path / "e.json", masks="required")
    wanted = tool_peers.label_studio_masks(PAINTED.encode())
    tool_peers.same_masks(cohort, wanted)
    wanted[0][1][0, 0] ^= True
    with pytest.raises(Disagreement):
        tool_peers.same_masks(cohort, wanted)


def test_label_studio(tmp_path: Path) -> None:
    put(tmp_path, {"e.json": EXPORT})
    cohort = cal.read(tmp_path / "e.json", tmp_path / "e.json")
    content = EXPORT.encode()
    assert_agreement(cohort, cohort.references, tool_peers.label_studio(content), 5)
    (table,) = cohort.models.values()
    assert_agreement(cohort, table, tool_peers.label_studio_predictions(content), 1)


def test_label_pictures(tmp_path: Path) -> None:
    pixels = np.zeros((12, 16), np.uint8)
    pixels[2:5, 3:7], pixels[5, 7], pixels[7:10, 8:15] = 1, 1, 2
    Image.fromarray(pixels).save(tmp_path / "l.png")
    cohort = cal.read(tmp_path / "l.png")
    wanted = tool_peers.label_picture((tmp_path / "l.png").read_bytes())
    assert_agreement(cohort, cohort.references, wanted, 2)


@pytest.mark.parametrize("suffix", [".nii", ".mha", ".nrrd"])
def test_label_volumes(tmp_path: Path, suffix: str) -> None:
    sitk = pytest.importorskip("SimpleITK")
    voxels = np.zeros((4, 12, 16), np.uint8)
    voxels[1:3, 2:5, 3:7], voxels[3, 5, 7], voxels[0:2, 7:10, 8:15] = 1, 1, 2
    path = tmp_path / f"l{suffix}"
    sitk.WriteImage(sitk.GetImageFromArray(voxels), str(path))
    cohort = cal.read(path)
    wanted = tool_peers.label_volume(suffix)(path.read_bytes())
    assert_agreement(cohort, cohort.references, wanted, 2)


def test_nndetection(tmp_path: Path) -> None:
    put(tmp_path, {"refs/c.json": INSTANCES, "p/c_boxes.json": BOXES})
    write_volume(tmp_path / "refs" / "c.npy", labels())
    cohort = cal.read(tmp_path / "refs", tmp_path / "p", format="nndetection")
    assert_agreement(
        cohort, cohort.references, tool_peers.nndetection(labels(), INSTANCES.encode()), 2
    )
    (table,) = cohort.models.values()
    assert_agreement(cohort, table, tool_peers.nndetection_boxes(BOXES.encode()), 1)


def test_polypgen(tmp_path: Path) -> None:
    put(tmp_path, {"data_C1/bbox_C1/a_mask.txt": POLYPGEN})
    picture(tmp_path / "data_C1" / "images_C1" / "a.jpg", 100, 80)
    cohort = cal.read(tmp_path / "data_C1", format="polypgen")
    assert_agreement(cohort, cohort.references, tool_peers.polypgen(POLYPGEN.encode()), 2)


def test_lidc(tmp_path: Path) -> None:
    content = lidc(tmp_path / "l.sqlite")
    cohort = cal.read(tmp_path / "l.sqlite", readers="any")
    assert_agreement(cohort, cohort.references, tool_peers.lidc(content), 1)


def test_structured_reports(tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    from dicom_cases import report, report_images

    corners = [[4, 6], [14, 6], [14, 16], [4, 16], [4, 6]]
    regions = [(0, "POLYLINE", corners), (1, "CIRCLE", [[20, 10], [20, 14]])]
    path = report(tmp_path / "r.dcm", report_images(tmp_path), regions, percent=90.0)
    cohort = cal.read(path)
    assert_agreement(cohort, cohort.references, tool_peers.structured_report(path.read_bytes()), 2)


def test_saved_documents(tmp_path: Path) -> None:
    evaluation = cal.evaluate(cal.demo_cohort(), "coco", ci=False)
    evaluation.save(tmp_path / "saved")
    content = (tmp_path / "saved" / "evaluation.json").read_bytes()
    opened = cal.open_evaluation(tmp_path / "saved")
    tool_peers.saved_rows(content, opened)
    changed = json.loads(content)
    changed["rows"][0]["value"] = 0.5
    with pytest.raises(AssertionError, match="rows is not"):
        tool_peers.saved_rows(json.dumps(changed).encode(), opened)


def refusal(run: Callable[[], Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        run()
    return caught.value


@pytest.mark.parametrize("kind", ["rectanglelabels", "labels"])
def test_labels_that_are_a_text_are_refused(tmp_path: Path, kind: str) -> None:
    """Before, the region was left out without a word."""
    broken = region("polyp", RECTANGLE)
    del broken["value"]["rectanglelabels"]
    broken["value"][kind] = "polyp"
    text = json.dumps([task("a.png", [region("polyp", RECTANGLE), broken])])
    put(tmp_path, {"e.json": text})
    error = refusal(lambda: cal.read(tmp_path / "e.json"))
    assert (error.rule, error.location) == ("type", "/0/annotations/0/result/1")


@pytest.mark.parametrize("group", [True, 1.5, [], {"id": 1}])
def test_groups_of_labelme_are_numbers_or_names(tmp_path: Path, group: Any) -> None:
    """Before, shapes whose groups were written alike became one object."""
    square = [[1, 2], [9, 2], [9, 8]]
    shapes = [labelme_shape("polyp", square, group_id=group) for _ in range(2)]
    put(tmp_path, {"a.json": labelme(*shapes)})
    assert refusal(lambda: cal.read(tmp_path)).rule == "type"


def test_a_group_of_labelme_called_1_is_not_the_group_1(tmp_path: Path) -> None:
    square = [[1, 2], [9, 2], [9, 8]]
    shapes = [labelme_shape("polyp", square, group_id=group) for group in (1, "1", 1)]
    cohort = cal.read(put(tmp_path, {"a.json": labelme(*shapes)}))
    assert len(cohort.references) == 2


@pytest.mark.parametrize("line", ["9 10 20 30 40", "10 20 30 40 0.9", "dog 10 20 30 40"])
def test_a_line_of_polypgen_names_a_polyp_or_nothing(tmp_path: Path, line: str) -> None:
    """Before, the last four of five numbers were the box, whatever stood before them."""
    put(tmp_path, {"data_C1/bbox_C1/a_mask.txt": line})
    picture(tmp_path / "data_C1" / "images_C1" / "a.jpg", 100, 80)
    error = refusal(lambda: cal.read(tmp_path / "data_C1", format="polypgen"))
    assert error.rule == "box-shape"


def test_true_is_no_class_of_nndetection(tmp_path: Path) -> None:
    """Before, it was class 1."""
    put(tmp_path, {"refs/c.json": INSTANCES, "p/c_boxes.json": BOXES.replace("0,", "true,", 1)})
    write_volume(tmp_path / "refs" / "c.npy", labels())
    run = lambda: cal.read(tmp_path / "refs", tmp_path / "p", format="nndetection")  # noqa: E731
    assert (refusal(run).rule, refusal(run).field) == ("type", "label")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO scans VALUES (1, '9.9', 'Q', 2.5, 0.7)",
        "INSERT INTO scans VALUES (2, '1.2.3', 'Q', 2.5, 0.7)",
        "INSERT INTO annotations SELECT * FROM annotations",
        "INSERT INTO zvals VALUES (1, -50.0)",
    ],
)
def test_numbers_of_lidc_that_stand_twice_are_refused(tmp_path: Path, statement: str) -> None:
    """Before, the last scan of a number got all nodules, and a slice that is there twice moved
    what lies above it.
    """
    lidc(tmp_path / "l.sqlite")
    with sqlite3.connect(tmp_path / "l.sqlite") as base:
        columns = "(id, series_instance_uid, patient_id, slice_thickness, pixel_spacing)"
        base.execute(statement.replace("scans VALUES", f"scans {columns} VALUES"))
    base.close()
    assert refusal(lambda: cal.read(tmp_path / "l.sqlite", readers="any")).rule == "dup-key"


def test_a_rating_of_lidc_is_a_whole_number(tmp_path: Path) -> None:
    lidc(tmp_path / "l.sqlite")
    with sqlite3.connect(tmp_path / "l.sqlite") as base:
        base.execute("UPDATE annotations SET malignancy = 4.7")
    base.close()
    assert refusal(lambda: cal.read(tmp_path / "l.sqlite", readers="any")).rule == "format"


@pytest.mark.parametrize("frames", [None, [1], [1, 2]])
def test_a_region_of_a_report_lies_on_one_frame(tmp_path: Path, frames: Any) -> None:
    """Before, it lay on the first of several."""
    pydicom = pytest.importorskip("pydicom")
    pytest.importorskip("highdicom")
    from dicom_cases import report, report_images

    path = report(
        tmp_path / "r.dcm", report_images(tmp_path), [(1, "CIRCLE", [[20, 10], [20, 14]])]
    )
    document = pydicom.dcmread(path)
    waiting = [document]
    while waiting:
        item = waiting.pop()
        waiting += item.get("ContentSequence") or ()
        for reference in item.get("ReferencedSOPSequence") or ():
            if frames is not None:
                reference.ReferencedFrameNumber = frames
    document.save_as(path)
    if frames == [1, 2]:
        assert refusal(lambda: cal.read(path)).rule == "box-shape"
        return
    (image,) = set(cal.read(path).references.image.tolist())
    assert cal.read(path).images.ids[image].endswith("#1") is (frames is not None)
