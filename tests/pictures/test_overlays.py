"""What is drawn on an image: boxes by fate, words that count them, a frame of the right size."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import calipers as cal
from calipers.pictures import overlays
from calipers.pictures.overlays import (
    LONGEST,
    MOST_CORNERS,
    MOST_PREDICTIONS,
    MOST_REFERENCES,
    overlay,
)
from calipers.show.figures import MARKS, Overlay
from cases import KINDS, MODEL, cohort_of
from scenes import box, protocol, scene


def fates(figure: Overlay) -> dict[str, list[float]]:
    """The places of the boxes, by fate."""
    found: dict[str, list[float]] = {}
    for mark in figure.marks:
        found.setdefault(mark.fate, []).append(mark.box[0])
    return found


def test_every_object_is_drawn_by_its_fate() -> None:
    found = [[(0, 0.9), (1, 0.6), (60, 0.7), (20, 0.3)]]
    figure = overlay(scene([[0, 20]], {"m": found}), "m", 0, cut=0.5)
    assert fates(figure) == {
        "reference": [0],
        "missed": [20],
        "hit": [0],
        "duplicate": [1],
        "false alarm": [60],
    }
    assert figure.title == "i0: 1 of 2 found, 1 false alarm, 1 duplicate"
    assert figure.note == "model m; scores of at least 0.5"
    assert figure.size == (200, 100)


def test_all_predictions_and_the_words_for_them() -> None:
    found = [[(0, 0.9), (60, 0.7), (80, 0.7), (20, 0.3)]]
    figure = overlay(scene([[0, 20]], {"m": found}), "m", 0, cut=-math.inf)
    assert figure.title == "i0: 2 of 2 found, 2 false alarms"
    assert figure.note == "model m; all predictions"


def test_nothing_to_find() -> None:
    evaluation = scene([[]], {"m": [[]], "n": [[(0, 0.5)]]})
    assert overlay(evaluation, "m", 0, cut=0.1).title == "i0: nothing to find"
    assert overlay(evaluation, "n", 0, cut=0.1).title == "i0: nothing to find, 1 false alarm"


def evaluated(
    references: list[dict[str, Any]], predictions: list[dict[str, Any]], classes: str = "within"
) -> cal.Evaluation:
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("nodule", "mass"))
    return cal.evaluate(cohort, protocol(classes=classes), ci=False)


def test_a_hit_of_another_class_says_what_it_was_called() -> None:
    real = [{"boxes": [box(0), box(20)], "labels": [0, 1]}]
    said = [{"boxes": [box(0), box(20)], "labels": [1, 1], "scores": [0.9, 0.8]}]
    figure = overlay(evaluated(real, said, classes="ignore"), "model", 0, cut=0.0)
    assert [m.label for m in figure.marks if m.fate == "hit"] == ["nodule (called mass)", "mass"]
    assert [m.score for m in figure.marks if m.fate == "hit"] == [0.9, 0.8]
    assert [m.label for m in figure.marks if m.fate == "reference"] == ["nodule", "mass"]


def test_what_is_ignored_is_drawn_as_ignored_and_not_counted() -> None:
    real = [{"boxes": [box(0), box(20)], "labels": [0, 0], "ignore": [True, False]}]
    said = [{"boxes": [box(0), box(20)], "labels": [0, 0], "scores": [0.9, 0.8]}]
    figure = overlay(evaluated(real, said), "model", 0, cut=0.0)
    assert fates(figure) == {"ignored": [0, 0], "reference": [20], "hit": [20]}
    assert figure.title.endswith(": 1 of 1 found")


def test_predictions_that_the_protocol_leaves_out_are_not_drawn() -> None:
    found = [[(0, 0.9), (60, 0.7), (70, 0.69), (80, 0.6)]]
    evaluation = scene([[0]], {"m": found}, protocol(further="max_dets = 2\nscore_cut = 0.65"))
    assert fates(overlay(evaluation, "m", 0, cut=0.0)) == {
        "reference": [0],
        "hit": [0],
        "false alarm": [60],
    }


def test_without_scores_none_is_shown() -> None:
    figure = overlay(scene([[0]], {"m": [[(0, 0.9)]]}), "m", 0, cut=0.0)
    assert math.isnan(next(m.score for m in figure.marks if m.fate == "reference"))


def test_the_frame_comes_from_the_cohort_the_picture_or_the_boxes() -> None:
    real, said = (
        [{"boxes": [box(10)], "labels": [0]}],
        [{"boxes": [box(70)], "labels": [0], "scores": [0.9]}],
    )
    evaluation = evaluated(real, said)
    assert overlay(evaluation, "model", 0, cut=0.0).size == pytest.approx((84.0, 84.0))
    assert overlay(evaluation, "model", 0, cut=0.0, size=(300, 200)).size == (300, 200)
    known = evaluated([{**real[0], "width": 120, "height": 90}], said)
    assert overlay(known, "model", 0, cut=0.0, size=(300, 200)).size == (120, 90)
    empty = evaluated([{"boxes": [], "labels": []}], [{"boxes": [], "labels": [], "scores": []}])
    assert min(overlay(empty, "model", 0, cut=0.0).size) > 0


def test_a_long_id_is_shortened_in_the_title() -> None:
    record = {"image_id": "x" * 10**6, "boxes": [], "labels": []}
    figure = overlay(evaluated([record], [{**record, "scores": []}]), "model", 0, cut=0.0)
    assert len(figure.title) < LONGEST + 40


def test_more_predictions_than_one_can_see_are_said_and_not_drawn() -> None:
    found = [[(float(k), 1.0 - k / 1000) for k in range(MOST_PREDICTIONS + 50)]]
    figure = overlay(
        scene([[]], {"m": found}, protocol(further="max_dets = 1000")), "m", 0, cut=0.0
    )
    assert len(figure.marks) == MOST_PREDICTIONS
    assert {m.box[0] for m in figure.marks} == set(range(MOST_PREDICTIONS))
    assert figure.title == f"i0: nothing to find, {MOST_PREDICTIONS + 50} false alarms"
    assert "50 predictions of lowest score are not drawn" in figure.note


def cube(z: float, side: float = 4.0, place: float = 0.0) -> list[float]:
    return [place, place, z, place + side, place + side, z + side]


def volume(references: list[list[float]], predictions: list[list[float]]) -> cal.Evaluation:
    """Evaluate a volume, and a second one so that the cohort is 3D whatever the first one has."""
    size = {"width": 50, "height": 40, "depth": 60}
    real = [
        {
            "image_id": "v",
            "boxes": np.reshape(references, (-1, 6)),
            "labels": [0] * len(references),
            **size,
        },
        {"image_id": "w", "boxes": [cube(1)], "labels": [0], **size},
    ]
    scores = [0.9 - k / 100 for k in range(len(predictions))]
    boxes = np.reshape(predictions, (-1, 6))
    said = [
        {"image_id": "v", "boxes": boxes, "labels": [0] * len(predictions), "scores": scores},
        {"image_id": "w", "boxes": [cube(1)], "labels": [0], "scores": [0.5]},
    ]
    return evaluated(real, said)


@pytest.mark.parametrize(
    ("references", "predictions", "z", "drawn"),
    [
        (
            [cube(10), cube(30, 6.0, 20)],
            [cube(50, place=30)],
            33,
            {"missed": [20]},
        ),  # the largest that was missed
        ([cube(10)], [cube(10), cube(50, place=30), cube(20, place=8)], 52, {"false alarm": [30]}),
        (
            [cube(10), cube(30, 6.0, 20)],
            [cube(10), cube(30, 6.0, 20)],
            33,
            {"reference": [20], "hit": [20]},
        ),
        ([], [], 30, {}),
    ],
)
def test_a_volume_is_shown_at_the_slice_of_its_worst_object(
    references: list[list[float]],
    predictions: list[list[float]],
    z: int,
    drawn: dict[str, list[float]],
) -> None:
    figure = overlay(volume(references, predictions), "model", 0, cut=0.0)
    assert figure.title.startswith(f"v, slice z = {z}: ")
    assert fates(figure) == drawn
    assert figure.size == (50, 40)


@pytest.mark.parametrize(
    ("at", "seen"), [(9, False), (9.9, False), (10, True), (13.5, True), (14, False)]
)
def test_only_boxes_that_reach_the_slice_are_drawn(at: float, seen: bool) -> None:
    figure = overlay(volume([cube(10)], []), "model", 0, cut=0.0, slice_at=at)
    assert bool(figure.marks) is seen
    assert "0 of 1 found" in figure.title


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_titles_and_marks_agree_with_the_outcomes(kind: str) -> None:
    from calipers.pictures.overlays import operating_point, outcomes

    evaluation = cal.evaluate(cohort_of(kind, 2), protocol(), ci=False)
    matches = evaluation.matches(MODEL)
    cut = operating_point(matches)
    of = outcomes(matches, cut)
    for image in range(evaluation.cohort.n_images):
        figure = overlay(evaluation, MODEL, image, cut=cut, matches=matches)
        counted = of.hits[image] + of.missed[image]
        assert (f": {of.hits[image]} of {counted} found" in figure.title) == bool(counted)
        assert {mark.fate for mark in figure.marks} <= set(MARKS)
        if evaluation.cohort.dimensions == 2:
            drawn = fates(figure)
            for fate, n in (
                ("missed", of.missed),
                ("false alarm", of.false_alarms),
                ("hit", of.hits),
            ):
                assert len(drawn.get(fate, [])) == n[image]


def noise(*shape: int) -> cal.Evaluation:
    random = np.random.default_rng(0)
    return cal.evaluate_maps([(random.random(shape), random.random(shape) > 0.85)], ci=False)


@pytest.mark.parametrize("shape", [(1, 30_000), (256, 256)])
def test_noise_is_drawn_once_and_its_smallest_references_are_said(shape: tuple[int, int]) -> None:
    evaluation = noise(*shape)
    with patch.object(overlays, "outline_of", wraps=overlays.outline_of) as drawn:
        figure = overlay(evaluation, "model", 0, cut=-np.inf)
    # Beyond the corners of one figure a step is left at once: few outlines are drawn in vain.
    assert drawn.call_count < 6 * (MOST_REFERENCES + MOST_PREDICTIONS)
    references = [mark for mark in figure.marks if mark.fate in ("reference", "missed")]
    surplus = len(evaluation.cohort.references.label) - MOST_REFERENCES
    assert len(references) == MOST_REFERENCES
    assert surplus > 0
    assert f"the {surplus} smallest references are not drawn" in figure.note
    assert sum(len(ring) for mark in figure.marks for ring in mark.outline) <= MOST_CORNERS
