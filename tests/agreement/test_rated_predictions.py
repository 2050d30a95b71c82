"""Criteria of rated predictions: computed here, and the same as those of a matching."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.agreement.rated_predictions import criteria_of, rated_predictions
from calipers.cli.main import run
from calipers.errors import InputError, UsageError

SQUARE = [10, 10, 30, 30]


def cohort(**more: Any) -> cal.Cohort:
    """Two references on the first image, one on the second, none on the third."""
    references = [
        {"boxes": [SQUARE, [50, 50, 60, 60]], "labels": [0, 1], "image_id": "a", "patient": "P1"},
        {"boxes": [SQUARE], "labels": [0], "image_id": "b", "patient": "P2"},
        {"boxes": [], "labels": [], "image_id": "c", "patient": "P3"},
    ]
    predictions = [
        {"boxes": [[10, 10, 30, 20], [52, 52, 58, 58]], "labels": [0, 0], "scores": [0.9, 0.8]},
        {"boxes": [[28, 28, 48, 48]], "labels": [0], "scores": [0.7]},
        {"boxes": [SQUARE], "labels": [0], "scores": [0.6]},
    ]
    for prediction, name in zip(predictions, "abc"):
        prediction["image_id"] = name
    for reference in references:
        reference.update(more)
    return cal.Cohort.from_arrays(references, predictions, classes=("x", "y"))


def test_the_best_reference_counts() -> None:
    values = criteria_of(cohort(), "model")
    assert values["box-iou"] == pytest.approx([0.5, 0.36, 4 / 796, 0.0])
    assert values["any-overlap"].tolist() == [1, 1, 1, 0]
    assert values["point-in-box"].tolist() == [1, 1, 0, 0]


def test_classes_may_have_to_agree() -> None:
    values = criteria_of(cohort(), "model", ["box-iou"], classes="within")
    assert values["box-iou"] == pytest.approx([0.5, 0.0, 4 / 796, 0.0])


def test_ignored_references_make_nothing_right() -> None:
    references = [{"boxes": [SQUARE], "labels": [0], "ignore": [True]}]
    predictions = [{"boxes": [SQUARE], "labels": [0], "scores": [1.0]}]
    one = cal.Cohort.from_arrays(references, predictions, classes=("x",))
    assert criteria_of(one, "model", ["box-iou"])["box-iou"].tolist() == [0.0]


def test_masks_bring_their_criteria() -> None:
    mask = np.zeros((1, 64, 64), bool)
    mask[0, 10:30, 10:12] = mask[0, 28:30, 10:30] = True  # an L: its centre lies outside
    references = [{"masks": mask, "labels": [0], "boxes": [SQUARE]}]
    predictions = [{"boxes": [[10, 10, 30, 30]], "labels": [0], "scores": [1.0]}]
    one = cal.Cohort.from_arrays(references, predictions, classes=("x",))
    values = {name: float(column[0]) for name, column in criteria_of(one, "model").items()}
    assert values["box-iou"] == 1.0
    assert values["mask-iou"] == pytest.approx(int(mask.sum()) / 400)
    assert values["point-in-mask"] == 0.0
    assert values["point-in-hull"] == 1.0
    assert values["mask-iou"] < values["hull-iou"] < 1.0


def test_random_values_are_those_of_a_loop() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        images, models = [], []
        for _ in range(4):
            corners = rng.integers(0, 40, (int(rng.integers(1, 4)), 2))
            boxes = np.hstack([corners, corners + rng.integers(1, 20, corners.shape)])
            images.append({"boxes": boxes, "labels": np.zeros(len(boxes), int)})
            moved = boxes + rng.integers(-5, 6, (*boxes.shape[:1], 1))
            models.append({**images[-1], "boxes": moved, "scores": rng.random(len(boxes))})
        one = cal.Cohort.from_arrays(images, models, classes=("x",))
        values = criteria_of(one, "model", ["box-iou", "centre-distance"])
        expected, distances = [], []
        for image, model in zip(images, models):
            for p in model["boxes"]:
                expected.append(max(slow_iou(r, p) for r in image["boxes"]))
                distances.append(
                    min(np.hypot(*((r[:2] + r[2:] - p[:2] - p[2:]) / 2)) for r in image["boxes"])
                )
        assert values["box-iou"] == pytest.approx(expected, abs=1e-12)
        assert values["centre-distance"] == pytest.approx(distances, abs=1e-12)


def slow_iou(a: Any, b: Any) -> float:
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union


def test_a_distance_needs_a_reference_everywhere() -> None:
    with pytest.raises(UsageError, match="image 'c' has none"):
        criteria_of(cohort(), "model", ["centre-distance"])
    with pytest.raises(UsageError, match="did you mean 'box-iou'"):
        criteria_of(cohort(), "model", ["box_iou"])


def test_predictions_are_found_by_number_or_by_image() -> None:
    table = {"prediction": [3, 0, 0], "rating": ["no", "yes", "yes"], "rater": ["A", "A", "B"]}
    rated = rated_predictions(cohort(), table)
    assert rated.columns["box-iou"].tolist() == [0.0, 0.5, 0.5]
    assert rated.columns["patient"] == ["P3", "P1", "P1"]
    assert rated.columns["image"] == ["c", "a", "a"]
    by_image = rated_predictions(cohort(), {"image": ["b", "c"], "rating": ["yes", "no"]})
    assert by_image.columns["any-overlap"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"prediction": [4]}, "from 0 to 3"),
        ({"prediction": ["x"]}, "from 0 to 3"),
        ({"prediction": [0], "image": ["b"]}, "image 'a', on which the rated prediction lies"),
        ({"image": ["a"]}, "a has 2"),
        ({"image": ["z"]}, "an image of the references"),
        ({}, "say which prediction was rated"),
    ],
)
def test_what_is_not_known_is_named(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rated_predictions(cohort(), {"rating": ["yes"], **table})


def test_a_criterion_is_not_given_and_computed() -> None:
    with pytest.raises(UsageError, match="already have a column 'box-iou'"):
        rated_predictions(cohort(), {"prediction": [0], "rating": ["yes"], "box-iou": [0.5]})


def test_the_command_line_computes_criteria(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    images, annotations, results, lines = [], [], [], ["prediction,rating"]
    for k in range(30):
        images.append({"id": k, "width": 100, "height": 100, "file_name": f"{k}.png"})
        shift = int(rng.integers(0, 25))
        box = [40, 40, 20, 20]
        annotations.append(
            {"id": k, "image_id": k, "category_id": 1, "bbox": box, "area": 400, "iscrowd": 0}
        )
        results.append(
            {"image_id": k, "category_id": 1, "bbox": [40 + shift, 40, 20, 20], "score": 0.9}
        )
        lines.append(f"{k},{'useful' if shift < 12 else 'not useful'}")
    categories = [{"id": 1, "name": "polyp"}]
    references = {"images": images, "annotations": annotations, "categories": categories}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    (tmp_path / "preds.json").write_text(json.dumps(results))
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n")
    files = [str(tmp_path / name) for name in ("refs.json", "preds.json", "ratings.csv")]
    assert run(["agreement", *files, "--json", "--replicates", "200"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ratings"]["criteria"] == ["box-iou", "any-overlap", "point-in-box"]
    assert document["settings"]["n_units"] == 30
    areas = [row for row in document["rows"] if row["metric"] == "AUROC"]
    assert next(row["value"] for row in areas if row["group"]["criterion"] == "box-iou") == 1.0
    assert run(["agreement", *files[:2]]) == 2
    assert "one or three files" in capsys.readouterr().err


def test_four_predictions_that_were_rated_and_counted_by_hand(tmp_path: Path) -> None:
    """IoU 1, 3/7 and 1/4 with a square are useful; a box elsewhere is not."""
    (tmp_path / "refs.csv").write_text(
        "image,class,x0,y0,x1,y1,width,height\n"
        "a,polyp,10,10,50,50,100,100\nb,polyp,10,10,50,50,100,100\n"
    )
    (tmp_path / "preds.csv").write_text(
        "image,class,x0,y0,x1,y1,score\na,polyp,10,10,50,50,0.9\na,polyp,26,10,66,50,0.8\n"
        "b,polyp,80,80,95,95,0.7\nb,polyp,20,20,40,40,0.6\n"
    )
    (tmp_path / "ratings.csv").write_text(
        "prediction,useful\n0,useful\n1,useful\n2,not useful\n3,useful\n"
    )
    files = [str(tmp_path / f"{name}.csv") for name in ("refs", "preds", "ratings")]
    target = tmp_path / "result.json"
    assert run(["agreement", *files, "--replicates", "100", "-o", str(target)]) == 0
    rows = {}
    for row in json.loads(target.read_text())["rows"]:
        rows[row["metric"], row["group"]["criterion"], row["group"].get("threshold")] = row["value"]
    # At 0.3 two of four are accepted, both useful: kappa is (3/4 - 1/2) / (1 - 1/2).
    expected = {
        "0.1": {"sensitivity": 1.0, "specificity": 1.0, "kappa": 1.0},
        "0.3": {"sensitivity": 2 / 3, "specificity": 1.0, "kappa": 0.5},
        "0.5": {"sensitivity": 1 / 3, "specificity": 1.0, "kappa": 0.2},
    }
    for threshold, metrics in expected.items():
        for metric, value in metrics.items():
            assert rows[metric, "box-iou", threshold] == pytest.approx(value), (metric, threshold)
    # One prediction is a prediction.
    sentence = json.loads(target.read_text())["sentences"][0]
    assert "of 1 prediction rated not useful it rejects 100 %" in sentence
