"""The rules that objects must keep, on deliveries as readers make them."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.cohort import FileIntake, Intake
from calipers.data.rules import (
    Delivery,
    Source,
    as_predictions,
    as_references,
    clip_to_images,
    examine,
    outside_image,
    settle,
)
from calipers.errors import InputError

SIZE = np.array([[200.0, 100.0], [np.nan, np.nan]])
SOURCE = Source(
    "file.csv", lambda place, field: f"line {place + 2} ({field})", lambda place: f"text {place}"
)


def deliver(
    boxes: list[list[float]],
    box_format: str = "xyxy",
    score: list[float] | None = None,
    image: int = 0,
) -> Delivery:
    n = len(boxes)
    return Delivery(
        image=np.full(n, image),
        label=np.zeros(n, np.int64),
        boxes=np.array(boxes, float),
        box_format=box_format,
        place=np.arange(n),
        score=None if score is None else np.array(score, float),
    )


def rules(delivery: Delivery, role: str = "references", **options) -> list[str]:
    return [finding.rule for finding in examine(delivery, SIZE, role, **options)]  # type: ignore[arg-type]


GOOD = [10.0, 10.0, 30.0, 30.0]


def test_good_boxes_break_no_rule() -> None:
    assert rules(deliver([GOOD] * 5)) == []
    assert rules(deliver([GOOD] * 5, score=[0, 0.5, 1, 0.1, 0.2]), "predictions") == []


@pytest.mark.parametrize(
    ("box", "rule"),
    [
        ([np.nan, 0, 1, 1], "non-finite"),
        ([0, 0, np.inf, 1], "non-finite"),
        ([30, 10, 10, 30], "neg-size"),
        ([10, 10, 10, 30], "zero-area"),
        ([0, 0, 1e200, 1e200], "non-finite"),
        ([1e155, 1e155, 1.1e155, 1.1e155], "non-finite"),
    ],
)
def test_one_rule_at_a_time(box: list[float], rule: str) -> None:
    assert rule in rules(deliver([GOOD, box, GOOD]))


@pytest.mark.parametrize("role", ["references", "predictions"])
def test_boxes_may_leave_the_image_unless_they_must_lie_inside(role: str) -> None:
    score = [0.5] if role == "predictions" else None
    for box in ([10, 10, 210, 30], [-5, 10, 20, 30]):
        assert rules(deliver([box], score=score), role) == []
        assert rules(deliver([box], score=score), role, inside=True) == ["outside"]
    # a pixel is tolerated, and so is anything in an image of unknown size
    assert rules(deliver([[-1, 0, 201, 101]], score=score), role, inside=True) == []
    assert rules(deliver([[-50, 0, 300, 101]], score=score, image=1), role, inside=True) == []


def test_a_prediction_may_be_without_area_and_a_reference_may_not() -> None:
    thin = [10, 10, 10, 30]
    assert rules(deliver([thin], score=[0.5]), "predictions") == []
    assert rules(deliver([thin])) == ["zero-area"]


def test_clipping_cuts_at_the_borders_that_are_known() -> None:
    boxes = [[-5, 10, 20, 30], [10, 10, 30, 30], [150, 90, 260, 130], [300, 300, 310, 310]]
    clipped, cut = clip_to_images(deliver(boxes), SIZE)
    assert clipped.boxes.tolist() == [
        [0, 10, 20, 30],
        [10, 10, 30, 30],
        [150, 90, 200, 100],
        [200, 100, 200, 100],
    ]
    assert cut.tolist() == [True, False, True, True]
    assert not clip_to_images(deliver(boxes, image=1), SIZE)[1].any()


def test_outside_image() -> None:
    corners = np.array([[0, 0, 200, 100], [-1.5, 0, 10, 10], [0, 0, 10, 101.5], [0, 0, 1e9, 1e9]])
    sizes = SIZE[[0, 0, 0, 1]]
    assert outside_image(corners, sizes).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("score", "rule"), [(np.nan, "non-finite"), (1.01, "score-range"), (-0.01, "score-range")]
)
def test_scores(score: float, rule: str) -> None:
    delivery = deliver([GOOD, GOOD], score=[0.5, score])
    assert rules(delivery, "predictions") == [rule]
    raw = rules(delivery, "predictions", score_scale="raw")
    assert raw == (["non-finite"] if np.isnan(score) else [])


def test_normalised_boxes_need_an_image_size() -> None:
    fractions = [[0.1, 0.1, 0.2, 0.2]]
    assert rules(deliver(fractions, "xyxy-normalised", image=1)) == ["size-unknown"]
    assert rules(deliver(fractions, "xyxy-normalised")) == []


def test_fractions_delivered_as_pixels_are_suspect() -> None:
    fractions = [[0.1, 0.1, 0.2, 0.3]] * 3
    assert rules(deliver(fractions)) == ["box-format-suspect"]
    assert rules(deliver(fractions[:2])) == []  # two could be an accident
    assert rules(deliver(fractions, image=1)) == []  # nothing to compare with
    assert rules(deliver(fractions), declared=True) == []


def test_corners_delivered_as_sides_are_suspect() -> None:
    corners = [[150.0, 60.0, 190.0, 90.0]] * 4
    (finding,) = examine(deliver(corners, "xywh"), SIZE, "references")
    assert finding.rule == "box-format-suspect"
    assert finding.whole_file
    assert "--box-format xyxy" in finding.hint
    assert rules(deliver(corners, "xywh"), declared=True, inside=True) == ["outside"]
    few = [[10.0, 10.0, 20.0, 20.0]] * 20 + corners
    assert "box-format-suspect" not in rules(deliver(few, "xywh"))


def test_strict_settling_raises_with_file_line_and_value() -> None:
    delivery = deliver([GOOD, [30, 10, 10, 30]])
    with pytest.raises(InputError) as caught:
        settle(delivery, examine(delivery, SIZE, "references"), SOURCE)
    assert (caught.value.file, caught.value.location) == ("file.csv", "line 3 (bbox)")
    assert "[30.0, 10.0, 10.0, 30.0]" in caught.value.value


def test_lenient_settling_sets_aside_and_accounts() -> None:
    delivery = deliver([GOOD, [30, 10, 10, 30], GOOD, [np.nan] * 4, [5, 5, 5, 9]])
    kept, counts, records = settle(
        delivery, examine(delivery, SIZE, "references"), SOURCE, lenient=True
    )
    assert kept.place.tolist() == [0, 2]
    assert counts == {"neg-size": 1, "non-finite": 1, "zero-area": 1}
    assert [(record.location, record.rule, record.record) for record in records] == [
        ("line 3 (bbox)", "neg-size", "text 1"),
        ("line 5 (bbox)", "non-finite", "text 3"),
        ("line 6 (bbox)", "zero-area", "text 4"),
    ]


def test_a_record_that_breaks_two_rules_is_counted_once() -> None:
    delivery = deliver([[np.nan] * 4, GOOD], score=[np.nan, 0.5])
    _, counts, _ = settle(delivery, examine(delivery, SIZE, "predictions"), SOURCE, lenient=True)
    assert counts == {"non-finite": 1}


def test_a_suspect_format_is_never_lenient() -> None:
    delivery = deliver([[0.1, 0.1, 0.2, 0.3]] * 3)
    with pytest.raises(InputError, match="box-format-suspect"):
        settle(delivery, examine(delivery, SIZE, "references"), SOURCE, lenient=True)


def test_tables_are_arranged_by_image_in_input_order() -> None:
    delivery = Delivery(
        image=np.array([1, 0, 1, 0]),
        label=np.array([0, 1, 2, 3]),
        boxes=np.array([[k, 0.0, k + 2.0, 2.0] for k in range(4)]),
        box_format="xyxy",
        place=np.arange(4),
        area=np.array([np.nan, 3.0, np.nan, 5.0]),
        facts={"type": np.array(list("abcd"))},
    )
    references = as_references(delivery, SIZE)
    assert references.label.tolist() == [1, 3, 0, 2]
    assert references.offsets.tolist() == [0, 2, 4]
    assert references.area.tolist() == [3.0, 5.0, 4.0, 4.0]
    assert references.facts["type"].tolist() == list("bdac")
    predictions = as_predictions(delivery, SIZE)
    assert not predictions.scored
    assert predictions.score.tolist() == [1.0] * 4


def test_the_account_of_a_file_must_balance() -> None:
    FileIntake("f", "references", "csv", 5, 3, {"neg-size": 2})
    with pytest.raises(AssertionError, match="do not add up"):
        FileIntake("f", "references", "csv", 5, 3, {"neg-size": 1})
    one = Intake((FileIntake("f", "references", "csv", 5, 3, {"neg-size": 2}, notes=("said",)),))
    both = one.merge([one])
    assert both.quarantined == 4
    assert both.notes == ("said", "said")
