"""The cohort of the study: halves without a common patient, boxes like those of ChestX-ray8."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.studies.framework import StudyOptions
from calipers.studies.rodeo.data import FINDINGS, simulate_cohort, study_data, test_half
from cases import DATA

CHEST = DATA / "chestxray8" / "BBox_List_2017.csv"


@pytest.mark.parametrize("seed", range(5))
def test_halves_are_equal_and_share_no_patient(seed: int) -> None:
    cohort = simulate_cohort(300, seed)
    half = test_half(cohort, seed)
    rest = np.setdiff1d(np.arange(300), half)
    patients = cohort.images.groups["patient"]
    assert len(half) == 150
    assert not set(patients[half]) & set(patients[rest])


def test_without_patients_images_are_drawn() -> None:
    images = [
        {"boxes": [[0, 0, 5, 5]], "labels": [k % 2], "width": 20, "height": 20} for k in range(30)
    ]
    assert len(test_half(cal.Cohort.from_arrays(images, classes=("a", "b")), 0)) == 15


def test_the_same_seed_makes_the_same_cohort() -> None:
    one, same, other = simulate_cohort(50, 1), simulate_cohort(50, 1), simulate_cohort(50, 2)
    assert np.array_equal(one.references.boxes, same.references.boxes)
    assert not np.array_equal(one.references.boxes[:20], other.references.boxes[:20])


def test_made_boxes_lie_in_the_image_one_per_class() -> None:
    cohort = simulate_cohort(500, 0)
    boxes = cohort.references.boxes
    assert (boxes >= 0).all()
    assert (boxes <= 1024).all()
    cells = cohort.references.image * 8 + cohort.references.label
    assert len(np.unique(cells)) == len(cells)


def test_made_boxes_are_like_those_of_chestxray8() -> None:
    if not CHEST.exists():
        pytest.skip("the list of boxes of ChestX-ray8 is not there")
    real, made = cal.read(CHEST, format="nih"), simulate_cohort(880, 0)
    assert made.classes == real.classes == tuple(finding.name for finding in FINDINGS)
    assert len(made.references) == pytest.approx(len(real.references), rel=0.03)
    assert len(np.unique(made.images.groups["patient"])) == pytest.approx(726, rel=0.05)
    for label in range(8):
        sides = []
        for cohort in (real, made):
            boxes = cohort.references.boxes[cohort.references.label == label]
            sides.append(np.log(boxes[:, 2:] - boxes[:, :2]).mean(axis=0))
        assert sides[1] == pytest.approx(sides[0], abs=0.2)


def test_predictions_need_the_data_they_belong_to() -> None:
    with pytest.raises(UsageError, match="--data"):
        study_data(StudyOptions(predictions={"a": "a.json"}))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "image,class,x0,y0,x1,y1,width,height\n"
            + "".join(f"i{k},a,0,0,5,5,9,9\n" for k in range(30)),
            "one-class",
        ),
        (
            "image,class,x0,y0,x1,y1\n"
            + "".join(f"i{k},{'ab'[k % 2]},0,0,5,5\n" for k in range(30)),
            "size-unknown",
        ),
        (
            "image,class,x0,y0,x1,y1,width,height\ni,a,0,0,5,5,9,9\ni,b,0,0,5,5,9,9\n",
            "too-few-boxes",
        ),
    ],
)
def test_data_on_which_it_cannot_be_done_is_refused(tmp_path, text: str, rule: str) -> None:
    file = tmp_path / "boxes.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=rule):
        study_data(StudyOptions(data=file))
