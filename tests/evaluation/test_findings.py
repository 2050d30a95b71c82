"""Warnings that catch wrong input which would otherwise only show as a bad number."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.results.estimate import FLAGS
from calipers.show.words import MARKS, legend, marks_of, speaks_for, without_interval

BOXES = np.array(
    [[40.0, 60, 30, 20], [200, 100, 50, 80], [300, 220, 40, 40], [120, 300, 60, 30]]
)  # x y w h


def corners(boxes: np.ndarray) -> np.ndarray:
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def cohort(predicted: np.ndarray, copies: int = 1) -> cal.Cohort:
    n = len(predicted) * copies
    found = {
        "boxes": np.tile(predicted, (copies, 1)),
        "labels": [0] * n,
        "scores": np.tile(np.linspace(0.5, 0.9, 4), copies),
    }
    return cal.Cohort.from_arrays(
        [{"boxes": BOXES, "labels": [0] * 4}], [found], classes=("nodule",), box_format="xywh"
    )


def warned(predicted: np.ndarray, words: str, **options: Any) -> bool:
    return any(words in warning for warning in cal.evaluate(cohort(predicted, **options)).warnings)


def test_predictions_that_meet_nothing_are_questioned() -> None:
    assert warned(
        BOXES + np.array([1000, 0, 0, 0]), "are box format, axis order and classes right?"
    )
    assert not warned(BOXES, "are box format")
    assert not warned(BOXES + np.array([10, 0, 0, 0]), "are box format")


def test_exact_copies_are_counted() -> None:
    assert warned(BOXES, "4 of 8 predictions repeat another one exactly", copies=2)
    assert not warned(BOXES, "repeat another one")


def files(folder: Path) -> tuple[Path, Path]:
    """References as x y w h, results of the same boxes as corners."""
    images = [{"id": 1, "width": 400, "height": 400}]
    annotations = [
        {"id": k + 1, "image_id": 1, "category_id": 1, "bbox": b}
        for k, b in enumerate(BOXES.tolist())
    ]
    document = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "nodule"}],
    }
    results = [
        {"image_id": 1, "category_id": 1, "bbox": b, "score": 0.9} for b in corners(BOXES).tolist()
    ]
    references, predictions = folder / "references.json", folder / "results.json"
    references.write_text(json.dumps(document))
    predictions.write_text(json.dumps(results))
    return references, predictions


def test_each_side_has_its_box_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references, predictions = files(tmp_path)
    with pytest.raises(cal.InputError, match="xywh,xyxy"):
        cal.read(references, predictions)
    read = cal.read(references, predictions, box_format=("xywh", "xyxy"))
    assert read.models["results"].boxes.tolist() == read.references.boxes.tolist()
    command = ["evaluate", str(references), str(predictions), "--json"]
    assert run([*command, "--box-format", "xywh,xyxy"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["value"] == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [("xywh", "xyxy", "xyxy"), ("xywh", "corners")])
def test_a_wrong_pair_of_formats_is_refused(tmp_path: Path, wrong: Any) -> None:
    references, predictions = files(tmp_path)
    with pytest.raises((cal.UsageError, cal.InputError)):
        cal.read(references, predictions, box_format=wrong)


@pytest.mark.parametrize("iou", [1.5, -0.1, float("nan"), (0.5, 50)])
def test_no_threshold_beyond_the_overlaps(iou: Any) -> None:
    with pytest.raises(cal.UsageError, match="overlaps lie in"):
        cal.average_precision(cohort(BOXES), iou)


def patients(n: int, predicted: list[int]) -> cal.Cohort:
    """One reference per patient; patient k gets ``predicted[k]`` right boxes."""
    box = [0.0, 0.0, 10.0, 10.0]
    references = [{"boxes": [box], "labels": [0], "patient": f"P{k}"} for k in range(n)]
    found = [
        {"boxes": [box] * right, "labels": [0] * right, "scores": [0.9 - k / 1000] * right}
        for k, right in enumerate(predicted)
    ]
    return cal.Cohort.from_arrays(references, found, classes=("nodule",))


SENSITIVITY = cal.Protocol.load("overview").only(["sensitivity@0.5"])


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ([1, 0], "they are based on fewer than 5 patients"),
        ([1, 0] * 4, "Rows marked † (all 2 rows): fewer than 10 patients"),
        (
            [1] * 11 + [0],
            "Rows marked * (all 2 rows): interval for small counts, because few patients, or "
            "nearly all, have errors",
        ),
    ],
)
def test_what_must_be_known_of_intervals_is_said_with_the_name_of_the_unit(
    predicted: list[int], said: str
) -> None:
    cohort = patients(len(predicted), predicted)
    warnings = cal.evaluate(cohort, SENSITIVITY).warnings
    assert any(
        said in warning and re.search("all 2 rows|any of the 2 rows", warning)
        for warning in warnings
    )
    assert not [
        warning
        for warning in cal.evaluate(cohort, SENSITIVITY, ci=False).warnings
        if "nterval" in warning
    ]


def test_sound_intervals_need_no_words() -> None:
    evaluation = cal.evaluate(patients(20, [1, 0] * 10), SENSITIVITY)
    assert evaluation.warnings == ()
    estimates = [row.estimate for row in evaluation.rows]
    assert legend(estimates) == []
    said = speaks_for(evaluation.statistics, estimates)
    assert (
        said
        == "95 % confidence intervals, resampled by patient (n = 20); valid for other patients "
        "like these 20."
    )


def test_marks_are_explained() -> None:
    estimates = [row.estimate for row in cal.evaluate(patients(8, [1, 0] * 4), SENSITIVITY).rows]
    assert {marks_of(estimate) for estimate in estimates} == {"†"}
    assert legend(estimates) == ["† fewer than 10 patients"]
    assert set(MARKS) == set(FLAGS)
    assert len(set(MARKS.values())) == len(MARKS)


def test_a_missing_interval_has_words() -> None:
    few = cal.evaluate(patients(4, [1, 0, 1, 0]), SENSITIVITY)
    estimates = [row.estimate for row in few.rows]
    assert {without_interval(estimate) for estimate in estimates} == {"too few patients"}
    assert (
        speaks_for(few.statistics, estimates)
        == "No intervals: they are based on fewer than 5 patients."
    )
    nobody = cal.evaluate(patients(4, [1, 0, 1, 0]), SENSITIVITY, ci=False)
    assert speaks_for(nobody.statistics, [row.estimate for row in nobody.rows]) == ""
    assert {without_interval(row.estimate) for row in nobody.rows} == {""}


def test_a_spacing_that_is_known_along_some_axes_only_is_noted() -> None:
    image = {"image_id": "a", "boxes": [[0, 0, 4, 4]], "labels": [0]}
    cohort = cal.Cohort.from_arrays([image], [{**image, "scores": [0.5]}], classes=("n",))
    spacing = np.array([[0.5, np.nan]])
    known = replace(cohort, images=replace(cohort.images, spacing=spacing))
    warnings = cal.evaluate(known, "coco", ci=False).warnings
    assert any("1 of 1 images state their spacing along some axes only" in w for w in warnings)
    assert not any("some axes" in w for w in cal.evaluate(cohort, "coco", ci=False).warnings)
