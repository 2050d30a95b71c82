"""`Cohort.from_arrays`: what it accepts, and for everything else which rule is broken and where."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.errors import CalipersError, InputError, InputProblems

R = {"boxes": [[1, 2, 5, 6]], "labels": [0]}
P = {**R, "scores": [0.5]}
NAN, INF = float("nan"), float("inf")


def build(references: Any, predictions: Any = None, **options: Any) -> Cohort:
    return Cohort.from_arrays(references, predictions, **{"classes": ("a", "b"), **options})


def test_a_cohort_with_everything() -> None:
    references = [
        {
            "image_id": "x",
            "boxes": np.array([[0, 0, 10, 20], [5, 5, 9, 9]], np.int16),
            "labels": np.array([1, 0], np.uint8),
            "ignore": [False, True],
            "crowd": [False, False],
            "area": [150, NAN],
            "width": 100,
            "height": 80,
            "spacing": (0.5, 0.7),
            "patient": "p1",
            "age": 61,
        },
        {
            "image_id": "y",
            "boxes": [],
            "labels": [],
            "patient": "p2",
            "age": 7,
            "width": 50,
            "height": 50,
        },
    ]
    predictions = {
        "ours": [
            {"image_id": "y", **P},
            {"image_id": "x", "boxes": np.zeros((0, 4)), "labels": [], "scores": []},
        ],
        "theirs": [{"image_id": "x", **P}],
    }
    cohort = build(references, predictions)
    assert cohort.images.ids == ("x", "y")
    assert cohort.images.size.tolist() == [[100, 80], [50, 50]]
    assert cohort.images.spacing[0].tolist() == [0.5, 0.7]
    assert np.isnan(cohort.images.spacing[1]).all()
    assert cohort.group("patient").tolist() == ["p1", "p2"]
    assert cohort.group("age").tolist() == [61, 7]
    assert cohort.references.area.tolist() == [150.0, 16.0]
    assert cohort.references.ignore.tolist() == [False, True]
    assert cohort.references.label.dtype == np.int32
    assert cohort.predictions("ours").image.tolist() == [1]
    assert cohort.predictions("theirs").image.tolist() == [0]
    assert [file.used for file in cohort.intake.files] == [2, 1, 1]


def test_a_crowd_is_ignored() -> None:
    cohort = build([{**R, "crowd": [True]}])
    assert cohort.references.ignore.tolist() == [True]


def test_flags_of_one_image_do_not_need_flags_everywhere() -> None:
    cohort = build([R, {**R, "crowd": [1]}])
    assert cohort.references.crowd.tolist() == [False, True]


def test_a_single_list_is_the_model_called_model_paired_by_position() -> None:
    cohort = build([R, R], [{"boxes": []}, P])
    assert list(cohort.models) == ["model"]
    assert cohort.predictions("model").image.tolist() == [1]
    assert cohort.images.ids == ("0", "1")


def test_input_order_is_kept_inside_an_image() -> None:
    many = {
        "boxes": [[k, 0, k + 1, 1] for k in (3, 1, 2)],
        "labels": [0, 1, 0],
        "scores": [0.1, 0.9, 0.5],
    }
    cohort = build([R], [many])
    assert cohort.predictions("model").boxes[:, 0].tolist() == [3, 1, 2]


def test_volumes() -> None:
    volume = {"boxes": [[0, 0, 0, 2, 3, 4]], "labels": [0]}
    cohort = build(
        [{**volume, "width": 9, "height": 9, "depth": 9, "spacing": (1, 1, 3)}, {"boxes": []}]
    )
    assert cohort.dimensions == 3
    assert cohort.references.extent.tolist() == [24.0]
    assert cohort.images.size.shape == (2, 3)


def test_raw_scores() -> None:
    assert build([R], [{**P, "scores": [-7.5]}], score_scale="raw").predictions(
        "model"
    ).score.tolist() == [-7.5]


def test_three_dimensions_from_the_predictions_alone() -> None:
    volume = {"boxes": [[0, 0, 0, 2, 3, 4]], "labels": [0], "scores": [1.0]}
    assert build([{"boxes": []}], [volume]).dimensions == 3


BAD = [
    ([{"labels": [0]}], None, {}, "missing-key", "references[0]"),
    ([{"boxes": [[1, 2, 5, 6]]}], None, {}, "missing-key", "references[0]"),
    ([R], [{"boxes": [[1, 2, 5, 6]], "labels": [0]}], {}, "missing-key", "predictions['model'][0]"),
    ([{"boxes": [["a", 2, 5, 6]], "labels": [0]}], None, {}, "type", "references[0]"),
    ([{"boxes": [[1, 2, 5, 6], [1, 2]], "labels": [0, 0]}], None, {}, "type", "references[0]"),
    ([R, {"boxes": [[1, 2, 3]], "labels": [0]}], None, {}, "box-shape", "references[1]"),
    ([R, {"boxes": [[1, 2, 3, 4, 5, 6]], "labels": [0]}], None, {}, "box-shape", "references[1]"),
    ([{"boxes": [1, 2, 5, 6], "labels": [0]}], None, {}, "box-shape", "references[0]"),
    ([{**R, "labels": [0, 1]}], None, {}, "length", "references[0]"),
    ([{**R, "area": []}], None, {}, "length", "references[0]"),
    ([R], [{**P, "scores": [[0.5]]}], {}, "length", "predictions['model'][0]"),
    ([{**R, "labels": ["a"]}], None, {}, "type", "references[0]"),
    ([{**R, "labels": [2]}], None, {}, "label-range", "references[0]['labels'][0]"),
    ([{**R, "labels": [-1]}], None, {}, "label-range", "references[0]['labels'][0]"),
    ([{**R, "labels": [0.5]}], None, {}, "label-range", "references[0]['labels'][0]"),
    ([{**R, "labels": [NAN]}], None, {}, "label-range", "references[0]['labels'][0]"),
    (
        [R, R],
        {"m": [P, {**P, "labels": [9]}]},
        {},
        "label-range",
        "predictions['m'][1]['labels'][0]",
    ),
    (
        [{"boxes": [[1, 2, NAN, 6]], "labels": [0]}],
        None,
        {},
        "non-finite",
        "references[0]['boxes'][0]",
    ),
    (
        [{"boxes": [[1, 2, INF, 6]], "labels": [0]}],
        None,
        {},
        "non-finite",
        "references[0]['boxes'][0]",
    ),
    ([{"boxes": [[5, 2, 1, 6]], "labels": [0]}], None, {}, "neg-size", "references[0]['boxes'][0]"),
    (
        [{"boxes": [[1, 2, 1, 6]], "labels": [0]}],
        None,
        {},
        "zero-area",
        "references[0]['boxes'][0]",
    ),
    (
        [{"boxes": [[0, 0, 1e200, 1e200]], "labels": [0]}],
        None,
        {},
        "non-finite",
        "references[0]['boxes'][0]",
    ),
    ([{**R, "area": [-1]}], None, {}, "area-range", "references[0]['area'][0]"),
    ([{**R, "ignore": [2]}], None, {}, "ignore-flag", "references[0]"),
    ([R, {**R, "crowd": [NAN]}], None, {}, "crowd-flag", "references[1]"),
    ([R, {**R, "area": [INF]}], None, {}, "area-range", "references[1]['area'][0]"),
    ([R], [{**P, "scores": [NAN]}], {}, "non-finite", "predictions['model'][0]['scores'][0]"),
    ([R], [{**P, "scores": [1.5]}], {}, "score-range", "predictions['model'][0]['scores'][0]"),
    ([R], [P], {"box_format": "xyxy-normalised"}, "size-unknown", "references[0]['boxes'][0]"),
    ([R], [P, P], {}, "image-count", "predictions['model']"),
    (
        [{**R, "image_id": 1}],
        [{**P, "image_id": 2}],
        {},
        "unknown-image",
        "predictions['model'][0]",
    ),
    ([{**R, "image_id": 1}, R], None, {}, "missing-id", "references[1]"),
    ([{**R, "image_id": 1}, {**R, "image_id": "1"}], None, {}, "dup-image", "references[1]"),
    (
        [{**R, "image_id": 1}],
        [{**P, "image_id": 1}] * 2,
        {},
        "dup-image",
        "predictions['model'][1]",
    ),
    ([{**R, "centre": "A"}, R], None, {}, "missing-group", "references[1]"),
    ([{**R, "image": "A"}], None, {}, "group-name", "references"),
    ([{**R, "centre": ["A", "B"]}], None, {}, "group-shape", "references[0]"),
    ([{**R, "width": "wide", "height": 3}], None, {}, "image-size", "references[0]"),
    ([{**R, "width": 0, "height": 3}], None, {}, "image-size", "references[0]"),
    ([{**R, "spacing": (1, 1, 1)}], None, {}, "image-size", "references[0]"),
    ([{**R, "spacing": (1, -1)}], None, {}, "image-size", "references[0]"),
    ([[1]], None, {}, "type", "references[0]"),
    ("text", None, {}, "type", "references"),
    ([R], {"m": [None]}, {}, "type", "predictions['m'][0]"),
    ([R], None, {"box_format": "xyhw"}, "box-format", ""),
    ([R], None, {"score_scale": "percent"}, "score-scale", ""),
    ([R], None, {"classes": ()}, "classes", ""),
    ([R], None, {"classes": (1, 2)}, "classes", ""),
    ([R], None, {"classes": ("a", "a")}, "dup-category", ""),
]


@pytest.mark.parametrize(
    ("references", "predictions", "options", "rule", "place"),
    BAD,
    ids=lambda value: str(value)[:40],
)
def test_broken_rules_are_named_with_their_place(
    references, predictions, options, rule: str, place: str
) -> None:
    with pytest.raises(InputError) as caught:
        build(references, predictions, **options)
    assert (caught.value.rule, caught.value.location) == (rule, place)
    assert f"[{rule}]" in str(caught.value)


def test_the_place_is_that_of_the_record_even_when_images_are_paired_by_id() -> None:
    references = [{**R, "image_id": name} for name in "xyz"]
    predictions = [{**P, "image_id": "z", "scores": [7.0]}, {**P, "image_id": "x"}]
    with pytest.raises(InputError) as caught:
        build(references, {"m": predictions})
    assert caught.value.location == "predictions['m'][0]['scores'][0]"


def test_a_wrong_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="did you mean 'xywh'"):
        build([R], box_format="xyhw")


def test_several_problems_are_told_together() -> None:
    bad = {"boxes": [[1, 2, 1, 6], [5, 2, 1, 6], [NAN, 0, 1, 1]], "labels": [0, 0, 0]}
    with pytest.raises(InputProblems) as caught:
        build([R, bad])
    assert [problem.rule for problem in caught.value.problems] == [
        "non-finite",
        "neg-size",
        "zero-area",
    ]
    assert "3 problems; nothing was evaluated." in str(caught.value)
    assert "references[1]['boxes'][2]" in str(caught.value)


def test_many_problems_of_a_kind_are_counted() -> None:
    bad = {"boxes": [[1, 2, 1, 6]] * 250, "labels": [0] * 250}
    with pytest.raises(InputProblems) as caught:
        build([bad])
    assert caught.value.total == 250
    assert len(caught.value.problems) == 100
    assert "\n  250 times: expected" in str(caught.value)
    assert "[zero-area]" in str(caught.value)
    assert "and 245 more" in str(caught.value)


def test_what_is_given_and_not_used_is_said() -> None:
    references = [R, {**R, "scores": [1.0]}, {**R, "masks": None}]
    predictions = {"ours": [P, P, P], "theirs": [{**P, "patient": "p1", "width": 9}, P, P]}
    cohort = build(references, predictions)
    assert [file.notes for file in cohort.intake.files] == [
        ("scores given for 1 images; not used for references",),
        (),
        ("patient given for 1 images; not used for predictions",),
    ]
    assert not cohort.images.groups
    assert not build([R], [P]).intake.notes


@pytest.mark.parametrize(
    ("stated", "field"),
    [({"width": 50}, "size"), ({"spacing": (1, 2)}, "spacing")],
)
def test_predictions_on_other_pixels_than_the_references_are_refused(
    stated: dict[str, Any], field: str
) -> None:
    """As in files: their boxes have another scale."""
    box = [[0, 0, 10, 10]]
    image = {"boxes": box, "labels": [0], "width": 100, "height": 80, "spacing": (0.703125, 1)}
    images = [image | {"image_id": "a"}, image | {"image_id": "b"}]
    box_of_model = {"boxes": box, "labels": [0], "scores": [0.5], "image_id": "b"}
    same = box_of_model | {"width": 100, "height": None, "spacing": (0.703, 1)}
    cohort = Cohort.from_arrays(images, [same], classes=("n",), box_format="xyxy")
    assert len(cohort.predictions("model")) == 1
    with pytest.raises(InputError, match="image 'b' in the references") as refused:
        Cohort.from_arrays(images, [same | stated], classes=("n",), box_format="xyxy")
    assert (refused.value.rule, refused.value.field) == ("size-conflict", field)


def test_no_images_at_all() -> None:
    assert build([], []).n_images == 0


def test_more_objects_than_rows_can_be_numbered_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calipers.data.rules.MOST_OBJECTS", 1)
    with pytest.raises(InputError, match="too-large"):
        build([R, R])


def test_what_is_under_a_mask_is_not_read() -> None:
    masked = np.ma.array([[1.0, 2, 5, 6], [3, 3, 9, 9]], mask=[[False] * 4, [True] * 4])
    boxes = masked.data
    flags = np.ma.array([0, 1], mask=[False, True])
    calls = [
        lambda: build([{"boxes": masked, "labels": [0, 0]}]),
        lambda: build([{"boxes": list(masked), "labels": [0, 0]}]),
        lambda: build([{"boxes": boxes, "labels": flags}]),
        lambda: build([R], [{**P, "scores": np.ma.array([0.5], mask=[True])}]),
        lambda: cal.nms([masked], [[0.5, 0.4]], [[0, 0]]),
        lambda: cal.soft_instance_iou(masked / 9, boxes > 3),
        lambda: cal.boxes_from_heatmaps([masked / 9], classes=["a"]),
        lambda: cal.agreement_scores(n00=flags, n01=[1, 2], n10=[1, 2], n11=[1, 2]),
    ]
    for call in calls:
        with pytest.raises(CalipersError):
            call()
    # A mask that hides nothing is no reason to refuse.
    assert len(build([{"boxes": np.ma.array(boxes), "labels": [0, 0]}]).references) == 2


@pytest.mark.parametrize("kind", ["str", "S", "M8[s]", "m8[s]", "bool"])
@pytest.mark.parametrize("column", ["boxes", "labels", "scores", "area", "points", "width"])
def test_no_text_date_or_flag_becomes_a_number(kind: str, column: str) -> None:
    """NumPy makes numbers of them: boxes as texts were read, and yes was a coordinate of 1."""
    record = {"boxes": [[0, 0, 1, 1], [1, 1, 2, 2]], "labels": [0, 1], "image_id": "a"}
    numbers = {"scores": [1, 1], "area": [1, 1], "points": [[0, 0], [1, 1]], "width": [4]}
    values = np.array({**record, **numbers}[column]).astype(np.int64)
    odd = values.astype("S1" if kind == "S" else kind)
    role = {"scores": [1, 1]} if column == "scores" else {}
    good, bad = ({**record, **role, column: array} for array in (values, odd))
    if column == "width":
        good, bad = ({**record, column: array[0]} for array in (values, odd))

    def cohort(one: dict) -> cal.Cohort:
        pair = ([record], [one]) if column == "scores" else ([one], None)
        return cal.Cohort.from_arrays(*pair, classes=["x", "y"])

    assert cohort(good).n_images == 1
    with pytest.raises(InputError) as refused:
        cohort(bad)
    assert refused.value.rule in ("type", "image-size", "point-shape")
    if column != "scores":
        objects = np.array(odd.tolist(), object)
        with pytest.raises(InputError):
            cohort({**bad, column: objects if column != "width" else objects[0]})


def test_numbers_of_other_kinds_stay_numbers() -> None:
    boxes = np.array([[0, 1, 2, 4]])
    for odd in (
        boxes.astype(object),
        boxes.astype("f2"),
        boxes.astype(">f4"),
        [[0, 1, 2, Decimal(4)]],
    ):
        record = {"boxes": odd, "labels": [0]}
        cohort = cal.Cohort.from_arrays([record], classes=["x"])
        assert cohort.references.boxes.tolist() == [[0.0, 1.0, 2.0, 4.0]]
