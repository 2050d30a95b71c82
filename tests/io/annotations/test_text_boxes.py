"""Text files with a class in words and the numbers of a box in every line."""

from __future__ import annotations

import pytest

import calipers as cal
from annotation_cases import put
from calipers.errors import InputError

TRUTH = {"a.txt": "flat polyp 10 20 30 40\nvessel 50 60 90 80 difficult\n", "b.txt": "\n"}


def test_references_by_hand(tmp_path) -> None:
    cohort = cal.read(put(tmp_path / "truth", TRUTH))
    assert cal.sniff(tmp_path / "truth").format == "text-boxes"
    assert cohort.images.ids == ("a", "b")
    assert cohort.classes == ("flat polyp", "vessel")
    assert cohort.references.boxes.tolist() == [[10, 20, 30, 40], [50, 60, 90, 80]]
    assert cohort.references.ignore.tolist() == [False, True]
    assert any("read as xyxy" in note for note in cohort.intake.notes)


def test_predictions_have_a_score_behind_the_class(tmp_path) -> None:
    truth = put(tmp_path / "truth", TRUTH)
    found = put(tmp_path / "found", {"a.txt": "flat polyp 0.9 10 20 30 40\n"})
    predictions = cal.read(truth, found).predictions("found")
    assert (predictions.score.tolist(), predictions.label.tolist()) == ([0.9], [0])
    with pytest.raises(InputError, match="wrong-role"):
        cal.read(found, truth)


def test_sides_are_told_from_corners(tmp_path) -> None:
    text = "polyp 100 200 30 40\npolyp 10 10 80 90\n"
    cohort = cal.read(put(tmp_path, {"a.txt": text}))
    assert cohort.references.boxes.tolist() == [[100, 200, 130, 240], [10, 10, 90, 100]]
    assert any("read as xywh, because 1 of 2" in note for note in cohort.intake.notes)
    corners = cal.read(put(tmp_path, {"a.txt": "polyp 10 10 80 90\n"}), box_format="xywh")
    assert corners.references.boxes.tolist() == [[10, 10, 90, 100]]


def test_a_few_broken_boxes_are_refused(tmp_path) -> None:
    lines = [f"polyp {k} 10 {k + 20} 40" for k in range(20)]
    put(tmp_path, {"a.txt": "\n".join([*lines, "polyp 90 10 20 40"])})
    with pytest.raises(InputError) as caught:
        cal.read(tmp_path)
    assert caught.value.location == "a.txt:21"


@pytest.mark.parametrize("line", ["polyp 1 2 3", "polyp one 2 3 4", "polyp 0.9 1 2 3 4"])
def test_broken_lines_are_named(line: str, tmp_path) -> None:
    put(tmp_path, {**TRUTH, "c.txt": f"{line}\n"})
    with pytest.raises(InputError) as caught:
        cal.read(tmp_path, format="text-boxes")
    assert caught.value.location == "c.txt:1"


def test_numbers_as_classes_are_those_of_yolo(tmp_path) -> None:
    put(tmp_path, {"a.txt": "0 0.5 0.5 0.2 0.2\n"})
    assert cal.sniff(tmp_path).format == "yolo"
