"""What is done with boxes of heat maps: into a cohort, into files, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calipers as cal


@pytest.fixture
def result():
    maps = np.zeros((2, 2, 8, 8))
    maps[0, 1, 2:4, 2:6] = 1.0
    maps[1, 0, 5:, 1:3] = 0.5
    return cal.boxes_from_heatmaps(
        maps, classes=["mass", "nodule"], image_ids=["a", "b"], thresholds=(60, 180)
    )


@pytest.fixture
def cohort():
    references = [
        {"image_id": "b", "boxes": [[1, 5, 3, 8]], "labels": [1], "width": 8, "height": 8},
        {"image_id": "a", "boxes": [[2, 2, 6, 4]], "labels": [0], "width": 8, "height": 8},
    ]
    return cal.Cohort.from_arrays(references, classes=("nodule", "mass"))


def test_predictions_join_a_cohort_by_id_and_name(result, cohort):
    joined = cohort.with_predictions("cam", result.predictions_for(cohort))
    evaluation = cal.evaluate(joined, "coco", ci=False)
    assert evaluation["AP50"].value == pytest.approx(1.0)
    assert joined.models["cam"].facts["threshold"].tolist() == [60.0, 180.0, 60.0, 180.0]


def test_predictions_fit_a_cohort_of_the_same_order_as_they_are(result):
    references = [
        {"boxes": [[2, 2, 6, 4]], "labels": [1]},
        {"boxes": [[1, 5, 3, 8]], "labels": [0]},
    ]
    cohort = cal.Cohort.from_arrays(references, classes=("mass", "nodule"))
    assert cal.average_precision(
        cohort.with_predictions("cam", result.predictions)
    ) == pytest.approx(1.0)


def test_nothing_is_left_out_when_names_do_not_fit(result, cohort):
    with pytest.raises(cal.InputError) as caught:
        result.predictions_for(cohort.take(np.array([0])))
    assert caught.value.rule == "unknown-image"
    other = cal.Cohort.from_arrays(
        [{"image_id": "a", "boxes": [], "labels": []}], classes=("nodule",)
    )
    with pytest.raises(cal.InputError):
        result.predictions_for(other)
    more = [{"image_id": name, "boxes": [], "labels": []} for name in "abc"]
    with pytest.raises(cal.InputError) as caught:
        result.predictions_for(cal.Cohort.from_arrays(more, classes=("nodule", "mass")))
    assert (caught.value.rule, caught.value.value) == ("subset", "'c'")


@pytest.mark.parametrize("suffix", ["json", "csv", "tsv", "parquet"])
def test_files_are_read_back_to_the_last_bit(result, cohort, tmp_path, suffix):
    references, target = tmp_path / "refs.json", tmp_path / f"boxes.{suffix}"
    cal.write(cohort, references)
    result.write(target)
    read = cal.read(references, {"cam": target})
    wanted = result.predictions_for(read)
    np.testing.assert_array_equal(read.models["cam"].boxes, wanted.boxes)
    np.testing.assert_array_equal(read.models["cam"].score, wanted.score)
    np.testing.assert_array_equal(read.models["cam"].label, wanted.label)


def test_the_account_is_plain_json(result):
    account = json.loads(json.dumps(result.as_dict()))
    assert account["by_threshold"] == [
        {"threshold": 60.0, "boxes": 2},
        {"threshold": 180.0, "boxes": 2},
    ]
    assert (account["images"], account["maps"], account["constant"], account["boxes"]) == (
        2,
        4,
        2,
        4,
    )
    assert account["settings"]["scale"] == "image"


def test_no_boxes_at_all_can_be_written_and_evaluated(cohort, tmp_path):
    nothing = cal.boxes_from_heatmaps(
        np.zeros((2, 2, 8, 8)), classes=["nodule", "mass"], image_ids=["a", "b"]
    )
    assert len(nothing) == 0
    cal.write(cohort, tmp_path / "refs.json")
    for name in ("none.json", "none.csv"):
        nothing.write(tmp_path / name)
        read = cal.read(tmp_path / "refs.json", {"cam": tmp_path / name})
        assert len(read.models["cam"]) == 0
