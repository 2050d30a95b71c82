"""`Cohort.from_arrays` with masks and points: what they become, and which rule is broken where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.errors import InputError

NAN = float("nan")
A = np.zeros((6, 8), bool)
A[1:3, 2:6] = True
B = np.zeros((6, 8), bool)
B[2:6, 4] = True
R = {"masks": [A], "labels": [0]}
P = {**R, "scores": [0.5]}


def build(references: Any, predictions: Any = None, **options: Any) -> Cohort:
    return Cohort.from_arrays(references, predictions, **{"classes": ("a", "b"), **options})


def test_boxes_areas_and_image_sizes_come_from_masks() -> None:
    cohort = build([{"masks": np.stack([A, B]), "labels": [0, 1]}], [{**P, "masks": [B]}])
    references, predictions = cohort.references, cohort.predictions("model")
    assert references.boxes.tolist() == [[2, 1, 6, 3], [4, 2, 5, 6]]
    assert references.extent.tolist() == references.area.tolist() == [8, 4]
    assert (references.masks.dense(1) == B).all()
    assert predictions.area.tolist() == [4]
    assert cohort.images.size.tolist() == [[8, 6]]
    assert not cohort.intake.notes


def test_the_extent_is_of_the_box_and_the_area_of_the_mask() -> None:
    hollow = A.copy()
    hollow[1, 3:5] = False
    cohort = build([{**R, "masks": [hollow, A, A], "labels": [0, 0, 0], "area": [NAN, 5.5, NAN]}])
    assert cohort.references.extent.tolist() == [8, 8, 8]
    assert cohort.references.area.tolist() == [6, 5.5, 8]


def test_boxes_that_are_given_stay() -> None:
    cohort = build([{**R, "boxes": [[2, 1, 4, 2]]}], box_format="xywh")
    assert cohort.references.boxes.tolist() == [[2, 1, 6, 3]]
    other = build([{**R, "boxes": [[0, 0, 8, 6]]}])
    assert other.references.extent.tolist() == [48]
    assert other.references.masks.voxels.tolist() == [8]


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh-normalised", "xyxy-inclusive"])
def test_boxes_from_masks_need_no_format(box_format: str) -> None:
    assert build([R], [P], box_format=box_format).predictions("model").boxes.tolist() == [
        [2, 1, 6, 3]
    ]


@pytest.mark.parametrize("kind", [np.uint8, np.float32, bool, list, Masks])
def test_masks_come_in_many_forms(kind: Any) -> None:
    stack = np.stack([A, B])
    given = (
        stack.tolist()
        if kind is list
        else Masks.from_dense(stack)
        if kind is Masks
        else stack.astype(kind)
    )
    masks = build([{"masks": given, "labels": [0, 1]}]).references.masks
    assert (masks.dense(0) == A).all()
    assert (masks.dense(1) == B).all()


def test_images_without_objects_need_no_masks() -> None:
    empty = [
        {},
        {"boxes": []},
        {"masks": [], "labels": []},
        {"masks": np.zeros((0, 6, 8)), "labels": []},
    ]
    cohort = build([*empty, R], [*empty, P])
    assert cohort.references.image.tolist() == [4]
    assert len(cohort.references.masks) == len(cohort.predictions("model").masks) == 1


def test_nobody_has_objects() -> None:
    cohort = build([{"masks": [], "labels": []}] * 2, [{"masks": []}] * 2)
    assert len(cohort.references.masks) == len(cohort.predictions("model")) == 0


def test_input_order_is_kept_when_images_are_paired_by_id() -> None:
    references = [{**R, "image_id": "x"}, {"masks": [B], "labels": [0], "image_id": "y"}]
    predictions = [{**P, "masks": [B], "image_id": "y"}, {**P, "image_id": "x"}]
    found = build(references, predictions).predictions("model").masks
    assert (found.dense(0) == A).all()
    assert (found.dense(1) == B).all()


def test_masks_of_references_and_boxes_of_predictions() -> None:
    cohort = build([R], [{"boxes": [[1, 1, 3, 3]], "labels": [0], "scores": [1.0]}])
    assert cohort.predictions("model").masks is None
    assert cohort.predictions("model").area.tolist() == [4]


def test_volumes() -> None:
    volume = np.zeros((3, 4, 5), bool)
    volume[1:, 2, 3:] = True
    cohort = build([{"masks": [volume], "labels": [0], "spacing": (1, 1, 3)}, {}])
    assert cohort.dimensions == 3
    assert cohort.references.boxes.tolist() == [[3, 2, 1, 5, 3, 3]]
    assert cohort.images.size[0].tolist() == [5, 4, 3]
    assert np.isnan(cohort.images.size[1]).all()


def test_points() -> None:
    references = [{"boxes": [[1, 1, 3, 3]], "labels": [0], "points": [[1.5, 2.5]]}, {"boxes": []}]
    cohort = build(references, [{**P, "points": [(3, 4)]}, {}])
    assert cohort.references.points.tolist() == [[1.5, 2.5]]
    assert cohort.predictions("model").points.tolist() == [[3, 4]]
    assert build([R]).references.points is None


def test_tables_keep_masks_and_points() -> None:
    record = {"masks": [A, B], "labels": [0, 1], "points": [[1, 1], [2, 2]]}
    cohort = build([record, {}, {**R, "points": [[3, 3]]}], [P, {}, P])
    taken = cohort.take(np.array([2, 0]))
    assert taken.references.points.tolist() == [[3, 3], [1, 1], [2, 2]]
    assert [taken.references.masks.voxels.tolist(), taken.references.label.tolist()] == [
        [8, 8, 4],
        [0, 0, 1],
    ]
    kept = cohort.references.keep(np.array([False, True, True]))
    assert (kept.masks.dense(0) == B).all()
    parts = [cohort.span(0, 2), cohort.span(2, 3)]
    parts[1] = Cohort(
        parts[1].images, parts[1].classes, parts[1].references, parts[1].models, parts[1].intake
    )
    joined = Cohort.concat(parts).references
    np.testing.assert_array_equal(joined.masks.start, cohort.references.masks.start)
    np.testing.assert_array_equal(joined.points, cohort.references.points)


EMPTY = np.zeros((6, 8), bool)
BAD = [
    (
        [{"masks": [A.astype(int) * 255], "labels": [0]}],
        None,
        "mask-values",
        "references[0]['masks'][0]",
    ),
    (
        [R, {"masks": [A, A * 0.5], "labels": [0, 0]}],
        None,
        "mask-values",
        "references[1]['masks'][1]",
    ),
    (
        [{"masks": [np.where(A, NAN, 0)], "labels": [0]}],
        None,
        "mask-values",
        "references[0]['masks'][0]",
    ),
    ([{"masks": [A, EMPTY], "labels": [0, 0]}], None, "empty-mask", "references[0]['masks'][1]"),
    ([R], [{**P, "masks": [EMPTY]}], "empty-mask", "predictions['model'][0]['masks'][0]"),
    ([{"masks": [A], "labels": [0, 1]}], None, "length", "references[0]"),
    ([{"masks": [A, B], "labels": [0]}], None, "length", "references[0]"),
    (
        [{"masks": [A], "boxes": [[0, 0, 1, 1]] * 2, "labels": [0, 0]}],
        None,
        "length",
        "references[0]",
    ),
    ([{"masks": [A], "boxes": [[0, 0, 1, 1]], "labels": [0, 0]}], None, "length", "references[0]"),
    ([R, {"boxes": [[0, 0, 1, 1]], "labels": [0]}], None, "missing-key", "references[0]"),
    (
        [{**R, "boxes": [[0, 0, 1, 1]]}, {"boxes": [[0, 0, 1, 1]], "labels": [0]}],
        None,
        "missing-key",
        "references[1]",
    ),
    ([R, {"labels": [0]}], None, "missing-key", "references[1]"),
    ([{**R, "boxes": [[0, 0, 1, 1]]}, R], None, "missing-key", "references[1]"),
    ([{"masks": A, "labels": [0]}], None, "mask-shape", "references[0]"),
    ([{"masks": 5, "labels": [0]}], None, "mask-shape", "references[0]"),
    ([{"masks": np.array(5), "labels": 0}], None, "mask-shape", "references[0]"),
    ([{"masks": [A, A[:3]], "labels": [0, 0]}], None, "mask-shape", "references[0]"),
    ([{"masks": {"size": 3}, "labels": [0]}], None, "type", "references[0]"),
    ([{"masks": "text", "labels": [0]}], None, "type", "references[0]"),
    ([R, {"masks": [np.stack([A, A])], "labels": [0]}], None, "mask-shape", "references[1]"),
    (
        [R, {"masks": Masks.from_dense(np.ones((1, 2, 2, 2))), "labels": [0]}],
        None,
        "mask-shape",
        "references[1]",
    ),
    ([{**R, "width": 6, "height": 8}], None, "mask-size", "references[0]['masks'][0]"),
    ([{**R, "width": 9}], None, "mask-size", "references[0]['masks'][0]"),
    ([R, R], [P, {**P, "masks": [A.T]}], "mask-size", "predictions['model'][1]['masks'][0]"),
    ([{**R, "points": [[1, 2, 3]]}], None, "point-shape", "references[0]"),
    ([{**R, "points": [[1, 2], [3, 4]]}], None, "point-shape", "references[0]"),
    ([{**R, "points": [[1, NAN]]}], None, "non-finite", "references[0]['points'][0]"),
    ([{**R, "points": [["x", "y"]]}], None, "type", "references[0]"),
    ([{**R, "points": [[1, 2]]}, R], None, "point-shape", "references[1]"),
]


@pytest.mark.parametrize(("references", "predictions", "rule", "place"), BAD)
def test_broken_rules_are_named_with_their_place(
    references, predictions, rule: str, place: str
) -> None:
    with pytest.raises(InputError) as caught:
        build(references, predictions)
    assert (caught.value.rule, caught.value.location) == (rule, place)


def test_values_that_are_neither_0_nor_1_are_listed() -> None:
    with pytest.raises(InputError, match="values 0, 1, 127, 255"):
        build([{"masks": [np.array([[0, 255], [127, 1]], np.uint8)], "labels": [0]}])
    with pytest.raises(InputError, match=r"8, 9, \.\.\."):
        build([{"masks": [np.arange(30).reshape(5, 6)], "labels": [0]}])


def test_both_sizes_are_named() -> None:
    with pytest.raises(InputError, match="8 x 6 in an image of 6 x 8"):
        build([{**R, "width": 6, "height": 8}])
