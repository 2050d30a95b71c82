"""LabelMe folders and the JSON export of Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from annotation_cases import LABELME, RECTANGLE, labelme, labelme_shape, put, region, task
from calipers.errors import InputError
from refusals import assert_refused_or_set_aside


def refused(*args, **options) -> InputError:
    with pytest.raises(InputError) as caught:
        cal.read(*args, **options)
    return caught.value


def export(folder: Path, *tasks: Any) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps(list(tasks)))
    return path


def test_labelme_by_hand(tmp_path) -> None:
    folder = put(tmp_path, {"a.json": labelme(*LABELME), "sub/b.json": labelme()})
    cohort = cal.read(folder)
    assert cohort.images.ids == ("a", "sub/b")
    assert cohort.classes == ("polyp", "vessel")
    expected = [[10, 20, 30, 50], [1.5, 2, 21.5, 12], [45, 35, 55, 45]]
    np.testing.assert_allclose(cohort.references.boxes, expected)
    np.testing.assert_array_equal(cohort.images.size, [[100, 80], [100, 80]])
    single = cal.read(folder / "a.json")
    assert single.images.ids == ("a",)
    assert cal.sniff(folder / "a.json").format == "labelme"


def test_the_picture_may_stand_before_the_shapes(tmp_path) -> None:
    document = json.loads(labelme(*LABELME))
    shapes = document.pop("shapes")
    text = json.dumps({**document, "imageData": "A" * 200_000, "shapes": shapes})
    folder = put(tmp_path, {"a.json": text})
    for place in (folder, folder / "a.json"):
        assert cal.sniff(place).format == "labelme"


def test_shapes_of_one_group_are_one_object(tmp_path) -> None:
    parts = [
        labelme_shape("polyp", [[0, 0], [10, 0], [10, 10], [0, 10]], group_id=1),
        labelme_shape("vessel", [[0, 0], [10, 0], [10, 10]], group_id=1),
        labelme_shape("polyp", [[20, 20], [30, 20], [30, 30], [20, 30]], group_id=1),
    ]
    cohort = cal.read(put(tmp_path, {"a.json": labelme(*parts)}))
    np.testing.assert_array_equal(cohort.references.boxes[0], [0, 0, 30, 30])
    assert cohort.references.label.tolist() == [0, 1]
    assert cohort.references.masks is not None
    assert cohort.references.masks.voxels[0] == 200


def test_the_size_may_be_unknown_and_early_files_have_polygons_only(tmp_path) -> None:
    shape = labelme_shape("polyp", [[1, 1], [9, 1], [9, 9]])
    del shape["shape_type"]
    text = labelme(shape, imageWidth=None, imageHeight=None)
    cohort = cal.read(put(tmp_path, {"a.json": text}))
    np.testing.assert_array_equal(cohort.references.boxes, [[1, 1, 9, 9]])
    assert np.isnan(cohort.images.size).all()
    assert any("cannot be drawn" in note for note in cohort.intake.notes)


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        (labelme_shape("p", [[1, 1], [2, 2]], "line"), "shape-kind"),
        (labelme_shape("p", [[1, 1]], "point"), "shape-kind"),
        (labelme_shape("p", [[1, 1]], ["polygon"]), "shape-kind"),
        (labelme_shape("p", [[1, 1], [2, 2]]), "box-shape"),
        (labelme_shape("p", [[1, 1]], "rectangle"), "box-shape"),
        (labelme_shape("p", [[1, "1"], [2, 2]], "rectangle"), "type"),
        (labelme_shape("p", [[1, True], [2, 2]], "rectangle"), "type"),
        (labelme_shape("p", None), "type"),
        (labelme_shape("", [[1, 1], [2, 2]], "rectangle"), "class-missing"),
        (labelme_shape("p", [[1, 1], [1, 2]], "rectangle"), "zero-area"),
        (7, "type"),
    ],
)
def test_broken_shapes_are_refused_with_file_and_pointer(tmp_path, shape: Any, rule: str) -> None:
    folder = put(tmp_path, {"x/a.json": labelme(LABELME[0], shape)})
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, **options), 0, rule, "x/a.json/shapes/1"
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (labelme(*LABELME)[:50], "json-syntax"),
        ("", "json-syntax"),
        ("[]", "format"),
        ('{"images": []}', "format"),
        (labelme(imageWidth=-1), "image-size"),
        (labelme(imageWidth="100"), "image-size"),
        (labelme(*LABELME).replace('"flags"', '"shapes"', 1), "dup-key"),
        (labelme(*LABELME).replace("1.5", "NaN", 1), "non-finite"),
        (labelme(*LABELME).replace("polyp", "\\ud800", 1), "encoding"),
        (labelme(flags=json.loads("[" * 70 + "]" * 70)), "depth"),
    ],
)
def test_labelme_files_that_cannot_be_trusted(tmp_path, text: str, rule: str) -> None:
    folder = put(tmp_path, {"a.json": labelme(*LABELME), "b.json": text})
    for lenient in (False, True):
        error = refused(folder, lenient=lenient)
        assert error.rule == rule
        assert error.file.endswith("b.json")


def test_label_studio_by_hand(tmp_path) -> None:
    ellipse = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 20}
    polygon = {"points": [[10, 10], [20, 10], [20, 30]]}
    turned = {**RECTANGLE, "rotation": 90}
    first = [
        region("polyp", RECTANGLE),
        region("polyp", ellipse, "ellipselabels"),
        region("vessel", polygon, "polygonlabels"),
        region("polyp", turned),
        {"type": "choices", "value": {"choices": ["good"]}, "id": "c"},
        {"type": "relation", "from_id": "a", "to_id": "b"},
    ]
    path = export(
        tmp_path, task("a.png", first), task("b.png", []), task("c.png", [], annotations=[])
    )
    cohort = cal.read(path)
    assert cohort.images.ids == ("a.png", "b.png")
    assert cohort.classes == ("polyp", "vessel")
    expected = [
        [20, 20, 80, 60],  # percent of 200 x 100
        [80, 30, 120, 70],
        [20, 10, 40, 30],
        [-20, 20, 20, 80],  # turned about its first corner
    ]
    np.testing.assert_allclose(cohort.references.boxes, expected, atol=1e-9)
    np.testing.assert_array_equal(cohort.images.size[0], [200, 100])
    assert any("1 tasks without annotation" in note for note in cohort.intake.notes)
    assert cal.sniff(path).format == "label-studio"


def test_label_studio_predictions_have_scores(tmp_path) -> None:
    results = [region("polyp", RECTANGLE, score=0.25), region("polyp", RECTANGLE)]
    predictions = [{"model_version": "v1", "score": 0.75, "result": results}]
    path = export(tmp_path, task("a.png", [region("polyp", RECTANGLE)], predictions=predictions))
    cohort = cal.read(path, path)
    assert cohort.models["export"].score.tolist() == [0.25, 0.75]
    np.testing.assert_allclose(cohort.models["export"].boxes[0], [20, 20, 80, 60])
    only = export(tmp_path, task("a.png", [region("polyp", RECTANGLE)]))
    assert refused(only, only).rule == "score-missing"
    two = task("a.png", [region("polyp", RECTANGLE)], predictions=predictions * 2)
    path = export(tmp_path, two)
    assert refused(path, path).rule == "wrong-role"


@pytest.mark.parametrize("lenient", [False, True])
def test_label_studio_predictions_on_resized_images_are_refused(tmp_path, lenient: bool) -> None:
    """Percent of another size became pixels of another scale."""
    small = region("polyp", RECTANGLE, original_width=100, original_height=100)
    entries = [{"score": 0.5, "result": [small]}]
    put(
        tmp_path,
        {
            "r.json": json.dumps([task("a.png", [region("polyp", RECTANGLE)])]),
            "p.json": json.dumps([task("a.png", [], predictions=entries)]),
        },
    )
    with pytest.raises(InputError, match="200, the width of image") as refused:
        cal.read(tmp_path / "r.json", tmp_path / "p.json", lenient=lenient)
    assert (refused.value.rule, refused.value.location) == ("size-conflict", "/0/predictions")
    small["original_width"] = 200
    put(tmp_path, {"p.json": json.dumps([task("a.png", [], predictions=entries)])})
    assert len(cal.read(tmp_path / "r.json", tmp_path / "p.json").models["p"]) == 1


def test_shapes_and_labels_of_one_id_are_one_object(tmp_path) -> None:
    shape = region("polyp", RECTANGLE)
    bare = {**shape, "type": "rectangle", "value": dict(RECTANGLE)}
    labelled = {**shape, "type": "labels", "value": {**RECTANGLE, "labels": ["polyp"]}}
    assert len(cal.read(export(tmp_path, task("a.png", [bare, labelled]))).references) == 1


def test_names_of_images(tmp_path) -> None:
    first = task("a.png", [region("p", RECTANGLE)])
    second = {**first, "data": {"image": "/data/local-files/?d=scans/0123abcd-b.png"}}
    third = {**first, "data": {"picture": "s3://bucket/x/c.png?sig=1"}}
    assert cal.read(export(tmp_path, first, second, third)).images.ids == (
        "a.png",
        "0123abcd-b.png",
        "c.png",
    )
    assert refused(export(tmp_path, first, first)).rule == "dup-image"
    # Only what stands before the name is the mark of an upload.
    names = ("0123abcd-d.png", "scan_0123abcd-d.png", "scan_d.png")
    uploads = []
    for name in names:
        uploads.append({**first, "data": {"image": f"/data/upload/1/{name}"}})
    ids = cal.read(export(tmp_path, *uploads)).images.ids
    assert ids == ("d.png", "scan_0123abcd-d.png", "scan_d.png")


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (region("polyp", {**RECTANGLE, "x": "10"}), "type"),
        (region("polyp", {**RECTANGLE, "width": 0}), "zero-area"),
        (region("polyp", {**RECTANGLE, "width": -1}), "neg-size"),
        (region("", RECTANGLE), "class-missing"),
        (
            {**region("p", RECTANGLE), "value": {**RECTANGLE, "rectanglelabels": "polyp"}},
            "type",
        ),
        (
            {**region("p", RECTANGLE), "value": {**RECTANGLE, "rectanglelabels": ["a", "b"]}},
            "class-missing",
        ),
        ({**region("p", RECTANGLE), "value": dict(RECTANGLE), "id": "r2"}, "class-missing"),
        (region("p", {"rle": [1], "format": "rle"}, "brushlabels"), "rle-length"),
        ({**region("p", {}, "brushlabels"), "value": {"id": 1}}, "box-shape"),
        (region("p", RECTANGLE, image_rotation=90), "shape-kind"),
        (region("p", {"points": [[1, 2], [3, 4]]}, "polygonlabels"), "polygon"),
        (region("p", {"points": [[1, 2], [3, None], [5, 6]]}, "polygonlabels"), "polygon"),
        (region("p", {"points": 3}, "polygonlabels"), "polygon"),
        (None, "type"),
    ],
)
def test_broken_regions_are_refused_with_their_pointer(tmp_path, broken: Any, rule: str) -> None:
    path = export(tmp_path, task("a.png", [region("polyp", RECTANGLE), broken]))
    assert_refused_or_set_aside(
        lambda **options: cal.read(path, **options), 0, rule, "/0/annotations/0/result/1"
    )


def test_tasks_that_cannot_be_trusted(tmp_path) -> None:
    sound = region("polyp", RECTANGLE)
    minimal = {"id": 1, "image": "a.png", "label": [{**RECTANGLE, "rectanglelabels": ["p"]}]}
    second = task("a.png", [sound])["annotations"] * 2
    for broken, rule in (
        (minimal, "image-size"),
        (task("a.png", [sound], annotations=second), "several-readers"),
        (task("a.png", [sound], data={"image": ""}), "type"),
        (task("a.png", [sound], annotations=[{"result": {}}]), "type"),
        (task("a.png", [sound], annotations={"result": []}), "type"),
        (task("a.png", [{**sound, "original_width": 0}]), "image-size"),
        (task("a.png", [sound, {**sound, "original_width": 300}]), "size-conflict"),
    ):
        assert refused(export(tmp_path, broken), format="label-studio").rule == rule
    assert cal.sniff(export(tmp_path, minimal)).format == "label-studio"


def test_a_turned_ellipse_has_the_box_around_it(tmp_path) -> None:
    value = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 4, "rotation": 90}
    path = export(tmp_path, task("a.png", [region("polyp", value, "ellipselabels")]))
    # 20 and 4 pixels on 200 x 100, turned by 90 degrees about (100, 50)
    np.testing.assert_allclose(cal.read(path).references.boxes, [[96, 30, 104, 70]])


def read_by(name: object, *regions: Any) -> dict[str, Any]:
    return {"completed_by": name, "was_cancelled": False, "result": list(regions)}


def test_several_annotations_are_those_of_several_readers(tmp_path) -> None:
    one, other = region("polyp", RECTANGLE), region("polyp", {**RECTANGLE, "x": 11})
    mail = {"id": 5, "email": "b@example.org"}
    first = task("a.png", [], annotations=[read_by(4, one), read_by(mail, other), read_by(6)])
    second = task("b.png", [], annotations=[read_by(4, one), read_by(mail)])
    path = export(tmp_path, first, second)
    error = refused(path)
    assert (error.rule, error.location) == ("several-readers", "/0/annotations/1")
    assert "4, b@example.org, 6" in error.hint
    # 20 of 200 pixels is 10 percent: the mean of x0 = 20 and 22
    majority = cal.read(path, readers="majority").references
    assert majority.boxes.tolist() == [[21, 20, 81, 60]]
    assert cal.read(path, readers="any").references.image.tolist() == [0, 1]
    alone = cal.read(path, readers="6")
    assert (alone.images.ids, len(alone.references)) == (("a.png",), 0)


def test_one_person_may_not_annotate_an_image_twice(tmp_path) -> None:
    one = region("polyp", RECTANGLE)
    path = export(tmp_path, task("a.png", [], annotations=[read_by(4, one), read_by(4, one)]))
    for readers in (None, "any"):
        error = refused(path, readers=readers)
        assert (error.rule, error.location) == ("several-readers", "/0/annotations/1")
    nobody = task("a.png", [], annotations=[read_by(None, one), read_by(5, one)])
    assert refused(export(tmp_path, nobody)).rule == "type"


def test_coco_files_are_not_mistaken(tmp_path) -> None:
    results = '[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]'
    document = '{"images": [], "annotations": [], "categories": [], "version": 1, "shapes": []}'
    for text in (results, document):
        assert cal.sniff(put(tmp_path, {"c.json": text}) / "c.json").format == "coco"


def test_records_of_json_min_are_the_annotations_of_their_tasks(tmp_path) -> None:
    """Two people on one picture are two records with the id of the task."""
    sized = {**RECTANGLE, "original_width": 200, "original_height": 100}
    record = {"id": 7, "image": "/data/upload/1/0123abcd-a.png", "created_at": "2024-01-01"}
    records = [
        {**record, "annotator": 1, "label": [{**sized, "rectanglelabels": ["polyp"]}]},
        {**record, "annotator": 2, "label": [{**sized, "rectanglelabels": ["vessel"]}]},
        {"id": 8, "image": "b.png", "annotator": 1, "choice": "nothing"},
    ]
    path = tmp_path / "min.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    assert refused(path).rule == "several-readers"
    whole = [
        task("/data/upload/1/0123abcd-a.png", [region(name, RECTANGLE)])
        for name in ("polyp", "vessel")
    ]
    cohort = cal.read(path, readers="any")
    assert cohort.images.ids == ("a.png", "b.png")
    assert cohort.classes == ("polyp", "vessel")
    expected = cal.read(export(tmp_path, whole[0])).references.boxes
    assert cohort.references.boxes[0].tolist() == expected[0].tolist()


@pytest.mark.parametrize(
    ("further", "rule"),
    [
        ({"x": 1, "y": 1, "width": 5, "height": 5}, "class-missing"),
        ({"x": 1, "y": 1, "width": 1, "keypointlabels": ["polyp"]}, "shape-kind"),
    ],
)
def test_regions_of_json_min_are_told_apart_by_their_places(tmp_path, further, rule) -> None:
    """Without a label, or without extent: refused, not taken for a copy of its neighbour."""
    size = {"original_width": 200, "original_height": 100}
    labelled = {**RECTANGLE, **size, "rectanglelabels": ["polyp"]}
    record = {"id": 7, "image": "a.png", "annotator": 1}
    path = tmp_path / "min.json"
    path.write_text(json.dumps([{**record, "label": [labelled, {**further, **size}]}]))
    assert refused(path).rule == rule
    path.write_text(json.dumps([{**record, "box": [{**RECTANGLE, **size}], "label": [labelled]}]))
    assert len(cal.read(path).references.label) == 1


def on(name: object, x: float, **others: Any) -> dict[str, Any]:
    return region("polyp", {**RECTANGLE, "x": x}, **{"to_name": name, "id": f"r{x}", **others})


TWO = {"image1": "left/a.png", "image2": "right/a.png"}
PAGES = {"image": "a.png", "pages": ["a.png", "b.png"]}


@pytest.mark.parametrize(
    ("data", "regions", "place"),
    [
        (TWO, [on("image1", 10), on("image2", 50)], 1),
        ({"image": "a.png"}, [on("left", 10), on("right", 50)], 1),
        (TWO, [on("image2", 10)], 0),  # the image would be called like the other one
        (TWO, [on(None, 10)], 0),
        ({"image": "a.png", "second": "b.png"}, [on("second", 10)], 0),
        (PAGES, [on("image", 10, item_index=0), on("image", 50, item_index=1)], 1),
        (PAGES, [on("image", 10, item_index=1)], 0),
    ],
)
def test_shapes_on_several_images_of_a_task_are_refused(tmp_path, data, regions, place) -> None:
    """All of them became objects of the first image."""
    whole = task("", regions, data=data)
    entries = [{"score": 0.5, "result": regions}]
    prediction = task("", [], data=data, annotations=[], predictions=entries)
    for lenient in (False, True):
        error = refused(export(tmp_path, task("c.png", []), whole), lenient=lenient)
        assert (error.rule, error.location) == (
            "image-conflict",
            f"/1/annotations/0/result/{place}",
        )
    name = Path(next(iter(data.values()))).name
    references = tmp_path / "r.json"
    references.write_text(json.dumps([task(name, [region("polyp", RECTANGLE)])]))
    error = refused(references, export(tmp_path, prediction))
    assert (error.rule, error.location) == ("image-conflict", f"/0/predictions/0/result/{place}")


@pytest.mark.parametrize(
    "data",
    [
        {"image": "s3://x/a.png", "patient": "p1", "study": "https://pacs.example.org/1?x=a.png"},
        {"image": "/data/upload/1/0123abcd-a.png", "file": "a.png"},
        {"image": "a.png", "overview": "small/b.png"},
        {"image1": "a.png", "image2": "b.png", "text": "seen"},
        PAGES,
    ],
)
def test_other_data_and_choices_beside_one_image_are_read(tmp_path, data) -> None:
    """Only shapes have to lie on one image."""
    name = "image1" if "image1" in data else "image"
    choice = {"id": "c", "type": "choices", "to_name": "text", "value": {"choices": ["good"]}}
    regions = [on(name, 10, item_index=0), {**choice, "item_index": 1}, on(name, 50)]
    cohort = cal.read(export(tmp_path, task("", regions, data=data)))
    assert cohort.images.ids == ("a.png",)
    assert cohort.references.boxes[:, 0].tolist() == [20, 100]


def short_record(k: int, reader: int, **others: Any) -> dict[str, Any]:
    sized = {**RECTANGLE, "original_width": 200, "original_height": 100}
    label = [{**sized, "rectanglelabels": ["polyp"]}]
    return {"id": k, "annotator": reader, "label": label, **others}


@pytest.mark.parametrize(
    ("records", "location"),
    [
        ([short_record(1, 1, **TWO)], "/0/annotations/0/result/0"),
        ([short_record(1, 1, **PAGES)], "/0/annotations/0/result/0"),
        ([short_record(1, 1, image="a.png"), short_record(1, 2, image="b.png")], "/1"),
        ([short_record(1, 1, patient="p", x="a.png"), short_record(1, 2, patient="p")], "/1"),
    ],
)
def test_records_of_several_images_are_refused(tmp_path, records, location) -> None:
    error = refused(export(tmp_path, *records), readers="any", format="label-studio")
    assert (error.rule, error.location) == ("image-conflict", location)


def test_rectangles_of_films_are_refused(tmp_path) -> None:
    """They were left out without a word beside other tasks."""
    frames = {"framesCount": 9, "sequence": [{"frame": 1, **RECTANGLE}], "labels": ["polyp"]}
    film = {"id": "f", "type": "videorectangle", "to_name": "video", "value": frames}
    path = export(tmp_path, task("a.png", [region("polyp", RECTANGLE), film]))
    assert_refused_or_set_aside(
        lambda **options: cal.read(path, **options), 0, "shape-kind", "/0/annotations/0/result/1"
    )
    record = short_record(1, 1, image="a.png")
    path = export(tmp_path, {**record, "box": [frames]})
    assert refused(path, format="label-studio").rule == "shape-kind"
