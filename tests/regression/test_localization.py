"""The table of references, and the three questions asked of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.matching.matches import View
from calipers.regression.logistic import localization_models, reference_table
from random_cohorts import random_cohort
from reference.boxes import iou


def small_cohort() -> Cohort:
    """One image with a good hit, a poor overlap, a wrong class, a miss,
    and an ignored reference.
    """
    references = [
        {
            "boxes": [
                [0, 0, 10, 10],
                [20, 0, 40, 10],
                [50, 0, 60, 10],
                [0, 50, 300, 250],
                [0, 300, 10, 310],
            ],
            "labels": [0, 0, 0, 1, 0],
            "ignore": [False, False, False, False, True],
            "patient": "P1",
            "image_id": "I1",
        }
    ]
    predictions = [
        {
            "boxes": [[0, 0, 10, 8], [0, 0, 10, 9], [32, 0, 40, 10], [50, 0, 60, 10]],
            "labels": [0, 0, 0, 1],
            "scores": [0.9, 0.1, 0.8, 0.7],
            "image_id": "I1",
        }
    ]
    return Cohort.from_arrays(references, predictions, classes=("a", "b"))


def test_the_table_by_hand() -> None:
    table = reference_table(small_cohort(), "model")
    np.testing.assert_allclose(
        table["iou"], [0.9, 0.4, 0.0, 0.0]
    )  # the best overlap, not the assigned one
    np.testing.assert_allclose(table["iou_matched"], [0.8, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(table["hit"], [1, 0, 0, 0])
    assert table["class"].tolist() == ["a", "a", "a", "b"]
    assert table["size"].tolist() == ["small", "small", "small", "large"]
    assert table["image"].tolist() == ["I1"] * 4
    assert table["patient"].tolist() == ["P1"] * 4


def test_sizes_have_their_cuts() -> None:
    cohort = small_cohort()
    area = np.array([9_999.0, 10_000.0, 40_000.0, 40_001.0, 1.0])
    cohort = replace(cohort, references=replace(cohort.references, area=area))
    assert reference_table(cohort, "model")["size"].tolist() == [
        "small",
        "medium",
        "medium",
        "large",
    ]
    assert reference_table(cohort, "model", cuts=(1e4 + 1, 1e5))["size"].tolist()[-1] == "medium"
    with pytest.raises(cal.UsageError, match="the smaller first"):
        reference_table(cohort, "model", cuts=(3.0, 2.0))


def test_the_view_decides() -> None:
    cohort = small_cohort()
    loose = reference_table(cohort, "model", View(threshold=0.3))
    assert loose["hit"].tolist() == [1, 1, 0, 0]
    classless = reference_table(cohort, "model", View(within_class=False))
    assert classless["iou"].tolist()[2] == 1.0
    cut = reference_table(cohort, "model", View(score_cut=0.5))
    np.testing.assert_allclose(cut["iou"][0], 0.8)
    one = reference_table(cohort, "model", View(max_dets=1))
    np.testing.assert_allclose(one["iou"], [0.8, 0.0, 0.0, 0.0])
    for criterion in ("centre-distance", "point-in-box", "giou"):
        with pytest.raises(cal.UsageError, match="not an overlap between 0 and 1"):
            reference_table(cohort, "model", View(criterion=criterion))


def test_best_overlap_equals_the_slow_way() -> None:
    for seed in range(5):
        cohort = random_cohort(12, 3, seed, ignore_share=0.2, crowd_share=0.1)
        model = next(iter(cohort.models))
        predictions, references = cohort.models[model], cohort.references
        table = reference_table(cohort, model, View(max_dets=10_000))
        rows = np.flatnonzero(~(references.ignore | references.crowd))
        assert len(rows) == len(table["iou"])
        for row, value in zip(rows.tolist(), table["iou"].tolist()):
            same = (predictions.image == references.image[row]) & (
                predictions.label == references.label[row]
            )
            overlaps = [
                iou(tuple(references.boxes[row]), tuple(box)) for box in predictions.boxes[same]
            ]
            assert value == pytest.approx(max(overlaps, default=0.0))


def test_three_fits_tell_misses_from_poor_overlaps() -> None:
    """The demo model sees few small findings, but places those that it sees as well as any."""
    found = localization_models(cal.demo_cohort(), "misses-small", "iou ~ size", cuts=(400, 2500))
    assert found.matched is not None
    assert found.hit is not None
    assert found.best["size[small]"].high < -0.6
    assert found.matched["size[small]"].low < 0 < found.matched["size[small]"].high
    assert found.hit["size[small]"].high < 0
    assert found.best["size[small]"].reference == "large"
    assert (found.best.n_rows, found.matched.n_rows, found.hit.n_rows) == (189, 94, 189)
    assert [fit["part"] for fit in found.as_dicts()] == ["best", "matched", "hit"]
    json.dumps(found.as_dicts(), allow_nan=False)


def test_a_part_that_cannot_be_fitted_says_why() -> None:
    cohort = cal.demo_cohort()
    silent = cohort.with_predictions(
        "silent", cohort.models["mislabels"].keep(np.zeros(len(cohort.models["mislabels"]), bool))
    )
    with pytest.raises(cal.InputError, match="constant-response"):
        localization_models(silent, "silent", cuts=(400, 2500))
    predictions = cohort.models["misses-small"]
    picky = cohort.with_predictions("picky", predictions.keep(predictions.area > 2500))
    found = localization_models(picky, "picky", cuts=(400, 2500))
    assert found.matched is None or "size[small]" not in [
        c.name for c in found.matched.coefficients
    ]
    everything = localization_models(picky, "picky", cuts=(400, 2500), view=View(threshold=0.9999))
    assert everything.matched is None
    assert "0 hits" in everything.problems["matched"]
    assert everything.as_dicts()[1] == {
        "model": "picky",
        "part": "matched",
        "kind": "none",
        "problem": everything.problems["matched"],
    }


def test_the_response_is_the_overlap() -> None:
    with pytest.raises(cal.UsageError, match="the response of references is iou"):
        localization_models(cal.demo_cohort(), "mislabels", "area ~ size")
    with pytest.raises(cal.InputError, match="missing-column"):
        localization_models(cal.demo_cohort(), "mislabels", "~ colour")


def aged_cohort(ages: list[str]) -> Cohort:
    """One box in every image of a patient, predicted the worse the older the patient is; ages are
    text, as tables of images have them.
    """
    references, predictions = [], []
    for k, age in enumerate(ages):
        box, who = [[0, 0, 100, 100]], {"patient": k, "centre": k % 7, "image_id": str(k)}
        references.append({"boxes": box, "labels": [0], "age": age, **who})
        width = 90 - float(age) / 4 + k * k % 5
        predicted = [[0, 0, width, 100]]
        predictions.append({"boxes": predicted, "labels": [0], "scores": [0.9], "image_id": str(k)})
    return Cohort.from_arrays(references, predictions, classes=("a",))


def test_a_column_of_images_whose_cells_are_numbers_is_a_number() -> None:
    cohort = aged_cohort([str(20 + k) for k in range(40)])
    fit = localization_models(cohort, "model", "iou ~ age", ["patient"]).best
    assert [c.name for c in fit.coefficients] == ["intercept", "age"]
    assert fit["age"].value == pytest.approx(-1 / 400, rel=0.2)
    assert not [note for note in fit.notes if "levels" in note]


def test_numbers_can_be_declared_as_categories_and_too_many_are_noted() -> None:
    decades = aged_cohort([str(10 * (2 + k % 4)) for k in range(40)])
    fit = localization_models(decades, "model", "iou ~ C(age)", ["patient"]).best
    assert [c.name for c in fit.coefficients] == ["intercept", "age[30]", "age[40]", "age[50]"]
    table = reference_table(decades, "model")
    means = {age: table["iou"][table["age"] == age].mean() for age in ("20", "50")}
    assert fit["age[50]"].value == pytest.approx(means["50"] - means["20"])
    assert not [note for note in fit.notes if "levels" in note]
    years = aged_cohort([str(20 + k % 13) for k in range(60)])
    notes = localization_models(years, "model", "iou ~ C(age)", ["centre"]).best.notes
    assert (
        "age is a category with 13 levels, each with an effect of its own; "
        "write age instead of C(age) for one slope"
    ) in notes
    texts = [f"device {k % 13}" for k in range(60)]
    table = {"iou": np.arange(60.0) % 7, "device": texts, "centre": np.arange(60) % 9}
    notes = cal.mixed_model(table, "iou ~ device", ["centre"]).notes
    assert "name it as a group" in " ".join(notes)


def test_names_stay_names_even_if_they_are_numbers_or_some_cells_are_not() -> None:
    cohort = aged_cohort([str(20 + k) for k in range(40)])
    fit = localization_models(cohort, "model", "iou ~ centre", ["patient"]).best
    assert [c.name for c in fit.coefficients][1:] == [f"centre[{k}]" for k in range(1, 7)]
    ages = [str(20 + k % 14) for k in range(60)]
    table = reference_table(aged_cohort(ages), "model") | {"age": np.array(["old", *ages[1:]])}
    notes = cal.mixed_model(table, "iou ~ age", ["centre"]).notes
    assert "age is a category with 15 levels" in " ".join(notes)
