"""Results of ultralytics and torchvision, written by hand from their documentation."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io.read import sniff

REFERENCES = """image,class,x0,y0,x1,y1,width,height
a.png,polyp,10,20,30,40,100,80
b.png,vessel,5,5,25,25,100,80
"""
ULTRALYTICS = [
    {
        "name": "polyp",
        "class": 0,
        "confidence": 0.91,
        "box": {"x1": 11.0, "y1": 20.5, "x2": 30.0, "y2": 41.0},
    }
]
TORCHVISION = {"boxes": [[11, 20.5, 30, 41]], "labels": [0], "scores": [0.91]}


@pytest.fixture
def references(tmp_path):
    (tmp_path / "refs.csv").write_text(REFERENCES)
    return tmp_path / "refs.csv"


def test_ultralytics_results_are_called_after_their_image(tmp_path, references) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.json").write_text(json.dumps(ULTRALYTICS))
    (tmp_path / "run" / "b.json").write_text("[]")
    assert sniff(tmp_path / "run").format == "ultralytics"
    predictions = cal.read(references, tmp_path / "run").predictions("run")
    assert predictions.boxes.tolist() == [[11, 20.5, 30, 41]]
    assert predictions.score.tolist() == [0.91]
    assert np.diff(predictions.offsets).tolist() == [1, 0]


def test_one_ultralytics_file(tmp_path, references) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ULTRALYTICS))
    assert len(cal.read(references, {"m": tmp_path / "a.json"}).predictions("m")) == 1


def test_ultralytics_results_by_image(tmp_path, references) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"b.png": [], "a.png": ULTRALYTICS}))
    assert sniff(tmp_path / "m.json").format == "ultralytics"
    predictions = cal.read(references, tmp_path / "m.json").predictions("m")
    assert predictions.boxes.tolist() == [[11, 20.5, 30, 41]]
    assert np.diff(predictions.offsets).tolist() == [1, 0]
    (tmp_path / "m.json").write_text(json.dumps({"a.png": ULTRALYTICS, "b.png": {}}))
    with pytest.raises(InputError, match="a list of boxes"):
        cal.read(references, {"m": tmp_path / "m.json"})


@pytest.mark.parametrize(
    "document",
    [
        {"a.png": TORCHVISION, "b": {"boxes": [], "labels": [], "scores": []}},
        [{"image_id": "a.png", **TORCHVISION}],
    ],
)
def test_torchvision_in_one_file(tmp_path, references, document) -> None:
    (tmp_path / "m.json").write_text(json.dumps(document))
    assert sniff(tmp_path / "m.json").format == "torchvision"
    predictions = cal.read(references, tmp_path / "m.json").predictions("m")
    assert predictions.boxes.tolist() == [[11, 20.5, 30, 41]]
    assert predictions.label.tolist() == [0]


def test_torchvision_as_archives(tmp_path, references) -> None:
    (tmp_path / "run").mkdir()
    columns = {key: np.array(values) for key, values in TORCHVISION.items()}
    np.savez(tmp_path / "run" / "a.npz", **columns)
    assert sniff(tmp_path / "run").format == "torchvision"
    predictions = cal.read(references, tmp_path / "run").predictions("run")
    assert (predictions.boxes.tolist(), predictions.score.tolist()) == (
        [[11, 20.5, 30, 41]],
        [0.91],
    )


def test_numbers_of_classes_are_those_of_the_categories(tmp_path) -> None:
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 100, "height": 80}],
        "categories": [{"id": 7, "name": "polyp"}, {"id": 9, "name": "vessel"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 9, "bbox": [5, 5, 20, 20]}],
    }
    (tmp_path / "refs.json").write_text(json.dumps(document))
    (tmp_path / "m.json").write_text(json.dumps({"a.png": {**TORCHVISION, "labels": [9]}}))
    assert cal.read(tmp_path / "refs.json", tmp_path / "m.json").predictions(
        "m"
    ).label.tolist() == [1]


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"boxes": [[1, 2, 3]], "labels": [0], "scores": [0.5]}, "box-shape"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [0], "scores": [0.5, 0.6]}, "length"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [5], "scores": [0.5]}, "unknown-category"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [0], "scores": [1.5]}, "score-range"),
    ],
)
def test_broken_results_are_refused(tmp_path, references, entry, rule) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"a": entry}))
    with pytest.raises(InputError) as error:
        cal.read(references, tmp_path / "m.json")
    assert error.value.rule == rule


@pytest.mark.parametrize("name", ["instances_predictions.pth", "results.pt", "x.pkl"])
def test_pickles_are_refused_with_a_hint(tmp_path, references, name) -> None:
    (tmp_path / name).write_bytes(pickle.dumps([TORCHVISION]))
    with pytest.raises(InputError, match=r"coco_instances_results\.json") as error:
        cal.read(references, tmp_path / name)
    assert error.value.rule == "pickle"


def test_detectron2_results_are_coco(tmp_path) -> None:
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 100, "height": 80}],
        "categories": [{"id": 1, "name": "polyp"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 20, 20]}],
    }
    results = [{"image_id": 1, "category_id": 1, "bbox": [5, 5, 20, 19], "score": 0.75}]
    (tmp_path / "refs.json").write_text(json.dumps(document))
    (tmp_path / "coco_instances_results.json").write_text(json.dumps(results))
    cohort = cal.read(tmp_path / "refs.json", tmp_path / "coco_instances_results.json")
    assert cohort.predictions("coco_instances_results").score.tolist() == [0.75]


def test_detectron2_by_image_counts_classes_from_0_in_the_order_of_their_ids(tmp_path) -> None:
    document = {
        "images": [{"id": 7, "file_name": "a.png", "width": 100, "height": 80}, {"id": 8}],
        "categories": [{"id": 5, "name": "vessel"}, {"id": 3, "name": "polyp"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [5, 5, 20, 20]}],
    }
    box = {"image_id": 7, "bbox": [5.0, 5.0, 20.0, 19.0], "score": 0.75}
    entries = [
        {"image_id": 7, "instances": [{**box, "category_id": 0}, {**box, "category_id": 1}]},
        {"image_id": 8, "instances": []},
    ]
    (tmp_path / "refs.json").write_text(json.dumps(document))
    path = tmp_path / "instances_predictions.json"
    path.write_text(json.dumps(entries))
    assert cal.sniff(path).format == "detectron2"
    cohort = cal.read(tmp_path / "refs.json", {"m": path})
    predictions = cohort.predictions("m")
    assert [cohort.classes[k] for k in predictions.label.tolist()] == ["polyp", "vessel"]
    assert predictions.boxes.tolist() == [[5, 5, 25, 24]] * 2
    for broken, rule in (
        ({**box, "category_id": 2}, "unknown-category"),
        ({**box, "category_id": 0.5}, "box-shape"),
        ({**box, "category_id": 0, "bbox": [1, 2, 3]}, "box-shape"),
        ({"category_id": 0, "bbox": [1, 2, 3, 4]}, "box-shape"),
        (None, "box-shape"),
    ):
        path.write_text(json.dumps([{"image_id": 7, "instances": [broken]}]))
        with pytest.raises(InputError) as error:
            cal.read(tmp_path / "refs.json", {"m": path})
        assert error.value.rule == rule


def test_detectron2_masks_are_read(tmp_path) -> None:
    run_lengths = {"size": [8, 10], "counts": [16, 4, 60]}
    image = {"id": 1, "file_name": "a.png", "width": 10, "height": 8}
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 0, 1, 4]}
    document = {
        "images": [image],
        "categories": [{"id": 1, "name": "polyp"}],
        "annotations": [{**annotation, "segmentation": run_lengths}],
    }
    instance = {"category_id": 0, "bbox": [2, 0, 1, 4], "score": 0.5, "segmentation": run_lengths}
    (tmp_path / "refs.json").write_text(json.dumps(document))
    (tmp_path / "p.json").write_text(json.dumps([{"image_id": 1, "instances": [instance]}]))
    masks = cal.read(tmp_path / "refs.json", tmp_path / "p.json").predictions("p").masks
    assert masks is not None
    assert masks.voxels.tolist() == [4]


def test_the_hash_of_archives_is_that_of_their_contents(tmp_path, references) -> None:
    hashes = set()
    for score in (0.25, 0.75):  # files of equal length
        columns = {"boxes": [[10, 20, 30, 40]], "labels": [0], "scores": [score]}
        (tmp_path / "m").mkdir(exist_ok=True)
        np.savez(tmp_path / "m" / "a.png.npz", **columns)
        (account,) = cal.read(references, tmp_path / "m").intake.files[1:]
        assert account.bytes == (tmp_path / "m" / "a.png.npz").stat().st_size
        hashes.add(account.sha256)
    assert len(hashes) == 2
