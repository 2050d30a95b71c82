"""YOLO folders: labels, outlines, predictions with scores, names of classes, sizes of pictures."""

from __future__ import annotations

import time

import numpy as np
import pytest

import calipers as cal
from annotation_cases import YOLO_LABELS, picture, put, yolo_data
from calipers.errors import InputError
from calipers.io.annotations.names import read_names
from calipers.io.source import InputFile
from refusals import assert_refused_or_set_aside

PREDICTIONS = {"labels/a.txt": "0 0.5 0.5 0.2 0.25 0.9\n1 0.1 0.2 0.1 0.2 0.25\n"}


def refused(*args, **options) -> InputError:
    with pytest.raises(InputError) as caught:
        cal.read(*args, **options)
    return caught.value


def test_labels_by_hand(tmp_path) -> None:
    cohort = cal.read(yolo_data(tmp_path))
    assert cohort.images.ids == ("a", "b", "c")
    assert cohort.classes == ("polyp", "other thing")
    np.testing.assert_array_equal(cohort.images.size, [[100, 80], [200, 100], [20, 10]])
    # 0.5 of 100 plus or minus half of 0.2 of 100, and so on.
    np.testing.assert_allclose(cohort.references.boxes, [[40, 30, 60, 50], [5, 8, 15, 24]])
    assert cohort.references.label.tolist() == [0, 1]
    assert cohort.images.groups["file_name"].tolist() == ["a.png", "b.jpg", "c.png"]
    assert any("1 pictures have no label file" in note for note in cohort.intake.notes)


def test_predictions_by_hand(tmp_path) -> None:
    folder = yolo_data(tmp_path / "data")
    predictions = put(tmp_path / "run", PREDICTIONS)
    cohort = cal.read(folder, predictions / "labels")
    table = cohort.models["run"]
    assert table.score.tolist() == [0.9, 0.25]
    assert table.label.tolist() == [0, 1]
    np.testing.assert_allclose(table.boxes[0], [40, 30, 60, 50])
    assert cal.sniff(predictions).role == "predictions"
    assert cal.sniff(folder).role == "references"


def test_a_split_finds_its_pictures_and_names_beside_it(tmp_path) -> None:
    picture(tmp_path / "images" / "val" / "a.png", 100, 80)
    picture(tmp_path / "images" / "train" / "t.png", 100, 80)
    put(tmp_path, {"labels/val/a.txt": YOLO_LABELS, "labels/train/t.txt": YOLO_LABELS})
    put(tmp_path, {"data.yaml": "names: [polyp, 'it''s']\n"})
    cohort = cal.read(tmp_path / "labels" / "val")
    assert cohort.images.ids == ("a",)
    assert cohort.classes == ("polyp", "it's")
    np.testing.assert_array_equal(cohort.images.size, [[100, 80]])
    notes = "\n".join(cohort.intake.notes)
    assert "../../images/val" in notes
    assert "../../data.yaml" in notes
    whole = cal.read(tmp_path)
    assert whole.images.ids == ("train/t", "val/a")


def test_the_layout_with_a_folder_per_split(tmp_path) -> None:
    picture(tmp_path / "valid" / "images" / "a.jpg", 100, 80)
    put(tmp_path, {"valid/labels/a.txt": YOLO_LABELS, "data.yaml": "nc: 2\nnames:\n- p\n- q\n"})
    put(tmp_path, {"README.roboflow.txt": "words", "README.dataset.txt": "more words"})
    for place in (tmp_path / "valid", tmp_path / "valid" / "labels"):
        assert cal.read(place).images.ids == ("a",)
    assert cal.read(tmp_path).images.ids == ("valid/a",)


def test_texts_about_the_data_set_are_no_images(tmp_path) -> None:
    texts = {"LICENSE.txt": "MIT", "labels.txt": "p\nq\n", "README.txt": "words", "._a.txt": "\0"}
    folder = put(tmp_path / "data", {"a.txt": YOLO_LABELS, "license_plate_1.txt": "", **texts})
    put(folder, {"images.csv": "image,width,height\na,100,80\nlicense_plate_1,100,80\n"})
    assert cal.read(folder).images.ids == ("a", "license_plate_1")


def test_predictions_with_tracks_are_named(tmp_path) -> None:
    """Seven numbers could be a triangle; ultralytics writes the track behind the score."""
    folder = yolo_data(tmp_path / "data")
    tracked = put(tmp_path / "track", {"labels/a.txt": "0 0.5 0.5 0.2 0.25 0.9 1\n"})
    assert "that of a track?" in refused(folder, tracked).hint
    bare = put(tmp_path / "run", {"labels/a.txt": "0 0.5 0.5 0.2 0.25\n"})
    assert "save_conf=True" in refused(folder, bare).hint


def test_the_layout_of_darknet(tmp_path) -> None:
    picture(tmp_path / "obj_train_data" / "a.png", 100, 80)
    put(tmp_path, {"obj_train_data/a.txt": YOLO_LABELS, "obj.names": "p\nq\n"})
    put(tmp_path, {"train.txt": "data/obj_train_data/a.png\n", "obj.data": "classes = 2"})
    cohort = cal.read(tmp_path)
    assert cohort.images.ids == ("obj_train_data/a",)
    assert cohort.classes == ("p", "q")


def test_other_pictures_are_no_images(tmp_path) -> None:
    folder = yolo_data(tmp_path)
    picture(folder / "preview.png", 10, 10)
    assert cal.read(folder).images.ids == ("a", "b", "c")
    flat = put(tmp_path / "flat", {"data/a.txt": YOLO_LABELS, "data/classes.txt": "p\nq"})
    picture(flat / "data" / "a.png", 100, 80)
    picture(flat / "plots" / "results.png", 100, 80)
    assert cal.read(flat).images.ids == ("data/a",)


def test_sizes_may_come_from_a_table(tmp_path) -> None:
    folder = put(tmp_path / "y", {"a.txt": YOLO_LABELS, "classes.txt": "p\nq\n"})
    error = refused(folder)
    assert error.rule == "size-unknown"
    groups = tmp_path / "sizes.csv"
    groups.write_text("image,width,height\na,100,80\n")
    np.testing.assert_allclose(
        cal.read(folder, groups=groups).references.boxes, [[40, 30, 60, 50], [5, 8, 15, 24]]
    )


def test_without_names_classes_are_numbers(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    (folder / "data.yaml").unlink()
    cohort = cal.read(folder)
    assert cohort.classes == ("0", "1")
    assert any("named by their numbers" in note for note in cohort.intake.notes)


def test_numbers_of_predictions_without_names_are_positions_and_noted(tmp_path) -> None:
    table = tmp_path / "refs.csv"
    table.write_text("image,class,x0,y0,x1,y1,width,height\na.png,polyp,1,1,9,9,100,80\n")
    folder = put(tmp_path / "run", {"labels/a.txt": "0 0.5 0.5 0.2 0.25 0.9\n"})
    cohort = cal.read(table, folder)
    assert cohort.models["run"].label.tolist() == [0]
    assert any("positions in the classes" in note for note in cohort.intake.notes)


def test_names_of_predictions_are_joined_by_name(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    run = put(tmp_path / "run", {**PREDICTIONS, "classes.txt": "other thing\npolyp\n"})
    assert cal.read(folder, run).models["run"].label.tolist() == [1, 0]


def test_outlines_become_masks_if_all_have_one(tmp_path) -> None:
    folder = yolo_data(tmp_path)
    put(folder, {"labels/a.txt": "0 0.1 0.125 0.3 0.125 0.3 0.5 0.1 0.5\n"})
    cohort = cal.read(folder)
    assert cohort.references.masks is not None
    assert cohort.references.masks.voxels.tolist() == [600]
    np.testing.assert_allclose(cohort.references.boxes, [[10, 10, 30, 40]])
    put(folder, {"labels/b.txt": "0 0.5 0.5 0.1 0.1\n"})
    mixed = cal.read(folder)
    assert mixed.references.masks is None
    assert any("masks present in 1 of 2" in note for note in mixed.intake.notes)
    assert cal.read(folder, masks="ignore").references.masks is None
    with pytest.raises(InputError):
        cal.read(folder, masks="required")


def test_outlines_with_scores_are_predictions(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    text = "0 0.1 0.125 0.3 0.125 0.3 0.5 0.1 0.5 0.75\n"
    cohort = cal.read(folder, put(tmp_path / "p", {"a.txt": text}))
    assert cohort.models["p"].score.tolist() == [0.75]
    assert cohort.models["p"].masks is not None


def test_outlines_without_sizes_are_boxes(tmp_path) -> None:
    folder = put(tmp_path, {"a.txt": "0 0.1 0.1 0.3 0.1 0.3 0.5\n", "classes.txt": "p"})
    groups = tmp_path / "sizes.csv"
    groups.write_text("image,width,height\na,100,80\n")
    cohort = cal.read(folder, groups=groups)
    np.testing.assert_allclose(cohort.references.boxes, [[10, 8, 30, 40]])
    assert any("cannot be drawn" in note for note in cohort.intake.notes)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0 0.5 0.5 0.2", "box-shape"),
        ("0 0.5 0.5 0.2 x", "type"),
        ("0 0.5 0.5 0.2 1_0", "type"),
        ("-1 0.5 0.5 0.2 0.2", "type"),
        ("0.5 0.5 0.5 0.2 0.2", "type"),
        ("7 0.5 0.5 0.2 0.2", "dangling"),
        ("999999999 0.5 0.5 0.2 0.2", "id-range"),
        ("0 50 40 20 20", "not-normalised"),
        ("0 nan 0.5 0.2 0.2", "not-normalised"),
        ("0 0.5 0.5 -0.2 0.2", "neg-size"),
        ("0 0.5 0.5 0 0.2", "zero-area"),
        ("0 0.5 0.5 0.2 0.2 0.9", "box-shape"),
    ],
)
def test_broken_labels_are_refused_with_file_and_line(tmp_path, line: str, rule: str) -> None:
    folder = yolo_data(tmp_path)
    put(folder, {"labels/b.txt": f"1 0.5 0.5 0.1 0.1\n\n{line}\n"})
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, **options), 0, rule, "labels/b.txt:3"
    )


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0 0.5 0.5 0.2 0.2", "score-missing"),
        ("0 0.5 0.5 0.2 0.2 1.5", "score-range"),
        ("7 0.5 0.5 0.2 0.2 0.5", "unknown-category"),
    ],
)
def test_broken_predictions_are_refused_with_file_and_line(tmp_path, line: str, rule: str) -> None:
    folder = yolo_data(tmp_path / "y")
    run = put(tmp_path / "p", {"a.txt": f"1 0.5 0.5 0.1 0.1 0.5\n{line}\n"})
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, run, **options), 1, rule, "a.txt:2"
    )


def test_predictions_of_other_images_are_refused(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    files = {"a.txt": "0 0.5 0.5 0.1 0.1 0.5\n", "zz.txt": "0 0.5 0.5 0.1 0.1 0.5\n"}
    run = put(tmp_path / "p", files)
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, run, **options), 1, "unknown-image", "zz.txt:1"
    )


def test_swapped_roles_are_told(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    run = put(tmp_path / "p", {**PREDICTIONS, "classes.txt": "p\nq\n"})
    assert refused(run).rule == "wrong-role"
    assert refused(folder, folder).rule == "score-missing"


def test_boxes_in_pixels_are_read_if_the_user_says_so(tmp_path) -> None:
    folder = yolo_data(tmp_path)
    put(folder, {"labels/a.txt": "0 50 40 20 20\n"})
    boxes = cal.read(folder, box_format="cxcywh").references.boxes
    np.testing.assert_array_equal(boxes, [[40, 30, 60, 50]])
    put(folder, {"labels/a.txt": "0 0.1 0.1 0.3 0.1 0.3 0.5\n"})
    assert refused(folder, box_format="cxcywh").rule == "box-format"


def test_images_are_found_by_the_stem_of_their_file(tmp_path) -> None:
    document = (
        '{"images": [{"id": 1, "width": 100, "height": 80, "file_name": "x/a.png"},'
        ' {"id": 2, "width": 100, "height": 80, "file_name": "y/b.png"},'
        ' {"id": 3, "width": 100, "height": 80, "file_name": "z/b.png"}],'
        ' "categories": [{"id": 1, "name": "p"}],'
        ' "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}]}'
    )
    (tmp_path / "r.json").write_text(document)
    line = "0 0.5 0.5 0.1 0.1 0.5\n"
    run = put(tmp_path / "p", {"a.txt": line, "y/b.txt": line})
    assert cal.read(tmp_path / "r.json", run).models["p"].image.tolist() == [0, 1]
    # Two images are called so: neither is meant.
    assert refused(tmp_path / "r.json", put(run, {"b.txt": line})).rule == "unknown-image"


def test_dots_in_names_are_no_suffixes(tmp_path) -> None:
    groups = tmp_path / "sizes.csv"
    groups.write_text("image,width,height\n1.2.840,100,80\n")
    files = {"1.2.840.txt": "0 0.5 0.5 0.1 0.1\n", "classes.txt": "p\n"}
    references = put(tmp_path / "y", files)
    run = put(tmp_path / "p", {"1.2.999.txt": "0 0.5 0.5 0.1 0.1 0.5\n"})
    assert refused(references, run, groups=groups).rule == "unknown-image"


def test_two_pictures_of_one_image_are_refused(tmp_path) -> None:
    folder = yolo_data(tmp_path)
    picture(folder / "images" / "a.jpg", 100, 80)
    assert refused(folder).rule == "dup-file-name"


def names_of(text: str, name: str = "data.yaml") -> list[str] | None:
    return read_names(InputFile(name, text.encode(), len(text), ""))


@pytest.mark.parametrize(
    "text",
    [
        "names: [a, b c]",
        "names: ['a', \"b c\"]  # two",
        "names: [a,\n  b c]\nnc: 2",
        "names: [a, b c,]",
        "names: {0: a, 1: 'b c'}",
        "nc: 2\nnames:\n- a\n- b c\nval: x",
        "names:\n  - a\n  - 'b c'\n",
        "names:\n  0: a\n  1: b c  # comment\n\nroboflow:\n  x: 1",
        "names:  # comes here\n  '0': a\n  1: \"b c\"",
    ],
)
def test_names_of_yaml(text: str) -> None:
    assert names_of(text) == ["a", "b c"]


@pytest.mark.parametrize(
    "text",
    [
        "names: a",
        "names: [a, [b]]",
        "names: [a, b",
        "names: *other",
        "names:\n  - &x a\n  - *x",
        "names:\n  - !!python/object:os.system a",
        "names:\n  0: a\n  2: b",
        "names:\n  0: a\n  0: b",
        "names:\n  key: a",
        "names: [a, a]",
        "names: []",
        "names:",
        "names:\n  - ",
        "names: {0: a, 0: b}",
    ],
)
def test_names_that_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        names_of(text)
    assert caught.value.rule in ("class-names", "dup-category")


@pytest.mark.parametrize("text", ["names: [a", "names: ['a", "names: {0: a", "names:\n  - 'a"])
@pytest.mark.parametrize("sign", [" ", "'", '"', "a", "''b", "\n"])
def test_long_names_take_no_longer_than_they_are_long(text: str, sign: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError):
        names_of(text + sign * 200_000 + "&")
    assert time.process_time() - start < 2.0
    with pytest.raises(InputError):
        names_of(" " * 3_000_000)


def test_names_of_text_files() -> None:
    assert names_of("a\nb c \n\n", "classes.txt") == ["a", "b c"]
    assert names_of("train: x\n") is None
    with pytest.raises(InputError):
        names_of("a\n\nb\n", "classes.txt")
    with pytest.raises(InputError):
        read_names(InputFile("classes.txt", b"\xff\xfe\xff", 3, ""))


SCORED_LINE = "0 0.5 0.5 0.2 0.25 0.9\n"


def test_predictions_inside_of_a_data_set_are_no_labels(tmp_path) -> None:
    """Ultralytics writes runs/detect/predict/labels where it is started."""
    for k, split in enumerate(("train", "valid")):
        picture(tmp_path / split / "images" / f"{k}.png", 100, 80)
        put(tmp_path / split / "labels", {f"{k}.txt": "0 0.5 0.5 0.2 0.25\n"})
    put(tmp_path, {"data.yaml": "names: [polyp]\n"})
    run = put(tmp_path / "runs" / "detect" / "predict" / "labels", {"1.txt": SCORED_LINE})
    cohort = cal.read(tmp_path, {"run": run})
    assert cohort.images.ids == ("train/0", "valid/1")
    assert (len(cohort.references), len(cohort.models["run"])) == (2, 1)
    notes = " ".join(cohort.intake.notes)
    assert "runs/detect/predict/labels holds predictions, with scores, and is left out" in notes
    assert cal.sniff(tmp_path).role == "references"
    assert cal.sniff(run).role == "predictions"
