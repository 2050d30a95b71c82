"""Predictions on a grid: which cells they cover, and what bags of them say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.stability.grid import detections_as_bags
from cases import cohort_of, masked


def made(references, *models, size=(8, 4), **more):
    """Return a cohort of one image, 8 wide and 4 high; models are lists of (box, score)."""
    d = len(size)
    sides = dict(zip(("width", "height", "depth"), size))
    said = {
        f"m{k}": [
            {
                "boxes": np.array([box for box, _ in boxes], float).reshape(-1, 2 * d),
                "labels": [0] * len(boxes),
                "scores": [score for _, score in boxes],
            }
        ]
        for k, boxes in enumerate(models)
    }
    boxes = np.array(references, float).reshape(-1, 2 * d)
    return cal.Cohort.from_arrays(
        [{"boxes": boxes, "labels": [0] * len(boxes), **sides, **more}], said, classes=("x",)
    )


def test_a_cell_has_the_highest_score_of_what_covers_its_centre():
    cohort = made(
        [[0, 0, 2, 2]],
        [([0, 0, 4, 4], 0.3), ([2, 0, 6, 2], 0.8)],
        [([2, 0, 6, 2], 0.8), ([0, 0, 4, 4], 0.3)],
    )
    bag = detections_as_bags(cohort, (2, 4))[0]
    assert bag.shape == (2, 4)
    for values in bag.values:  # the order of the predictions does not matter
        assert values.reshape(2, 4).tolist() == [[0.3, 0.8, 0.8, 0.0], [0.3, 0.3, 0.0, 0.0]]
    assert bag.instances.reshape(2, 4).tolist() == [[True, False, False, False], [False] * 4]


@pytest.mark.parametrize(
    ("box", "centre", "overlap"),
    [
        ([0, 0, 0.9, 0.9], [], [0]),  # does not reach the centre at 1, 1
        ([0, 0, 1, 1.1], [], [0]),  # boxes are half-open
        ([1, 1, 1.1, 1.1], [0], [0]),
        ([1.9, 1, 2.1, 2], [], [0, 1]),
        ([2, 0, 4, 2], [1], [1]),  # touching is no overlap
        ([-5, -5, 20, 20], list(range(8)), list(range(8))),
        ([7.5, 3.5, 30, 30], [], [7]),
    ],
)
def test_cells_of_a_box(box, centre, overlap):
    cohort = made([], [(box, 1.0)], [])
    for covers, cells in (("centre", centre), ("any-overlap", overlap)):
        bag = detections_as_bags(cohort, (2, 4), covers=covers)[0]
        assert np.flatnonzero(bag.values[0]).tolist() == cells
        assert not bag.values[1].any()


def brute(cohort, table, image, shape, covers):
    """Return the cells of every object of an image, one cell after the other."""
    size = cohort.images.size[image][::-1]
    found = []
    for row in range(int(table.offsets[image]), int(table.offsets[image + 1])):
        d = len(size)
        low, high = table.boxes[row, :d][::-1], table.boxes[row, d:][::-1]
        cells = np.zeros(shape, bool)
        for index in np.ndindex(*shape):
            begin, end = (np.array(index) + step for step in (0, 1))
            begin, end, middle = (
                begin * size / shape,
                end * size / shape,
                (np.array(index) + 0.5) * size / shape,
            )
            if covers == "centre":
                cells[index] = bool(((low <= middle) & (middle < high)).all())
            else:
                cells[index] = bool(((low < end) & (begin < high)).all())
        found.append((row, cells))
    return found


@pytest.mark.parametrize("covers", ["centre", "any-overlap"])
@pytest.mark.parametrize(
    ("kind", "shape"), [("plain", (7, 5)), ("ignored", (16, 16)), ("volumes", (3, 4, 5))]
)
def test_grids_are_those_of_loops_over_cells(kind, shape, covers):
    cohort = cohort_of(kind, 3, n_images=4, models=2)
    bags = detections_as_bags(cohort, shape, covers=covers)
    for image in range(4):
        bag = bags[image]
        for k, table in enumerate(cohort.models.values()):
            cells = np.zeros(shape)
            for row, inside in brute(cohort, table, image, shape, covers):
                cells[inside] = np.maximum(cells[inside], table.score[row])
            assert (bag.values[k].reshape(shape) == cells).all()
        real = np.zeros(shape, bool)
        for row, inside in brute(cohort, cohort.references, image, shape, covers):
            real |= inside & ~cohort.references.ignore[row]
        assert (bag.instances.reshape(shape) == real).all()
        assert bool(bags.positive[image]) == bool(
            (~cohort.references.ignore)[cohort.references.image == image].any()
        )


def test_masks_are_drawn_as_they_are():
    mask = np.zeros((4, 8), np.uint8)
    mask[0, 0] = mask[1, 1:3] = mask[3, 7] = 1
    said = {"masks": mask[None], "labels": [0], "scores": [0.7]}
    cohort = cal.Cohort.from_arrays(
        [{"masks": mask[None], "labels": [0]}], {"a": [said], "b": [said]}, classes=("x",)
    )
    whole = detections_as_bags(cohort)[0]
    assert whole.shape == (4, 8)
    assert (whole.values[0].reshape(4, 8) == 0.7 * mask).all()
    centre = detections_as_bags(cohort, (2, 4))[
        0
    ]  # centres lie in the pixels 1, 3, ... of both axes
    assert centre.instances.reshape(2, 4).tolist() == [
        [True, False, False, False],
        [False, False, False, True],
    ]
    anywhere = detections_as_bags(cohort, (2, 4), covers="any-overlap")[0]
    assert anywhere.instances.reshape(2, 4).tolist() == [
        [True, True, False, False],
        [False, False, False, True],
    ]


@pytest.mark.parametrize("covers", ["centre", "any-overlap"])
@pytest.mark.parametrize("shape", [(3, 5), (50, 70)])
def test_masks_of_full_boxes_are_boxes(shape, covers):
    mask = np.zeros((1, 40, 60), np.uint8)
    mask[0, 7:25, 11:42] = 1
    common = {"labels": [0], "scores": [0.5]}
    frame = {"masks": mask, "labels": [0]}
    boxes, masks = ({"boxes": [[11, 7, 42, 25]], **common}, {"masks": mask, **common})
    cohort = cal.Cohort.from_arrays([frame], {"boxes": [boxes], "masks": [masks]}, classes=("x",))
    bag = detections_as_bags(cohort, shape, covers=covers)[0]
    assert (bag.values[0] == bag.values[1]).all()
    assert bag.values[0].any()


def test_volumes_of_masks():
    cohort = masked(cohort_of("volumes", 1, n_images=3, models=2), cell=40.0)
    bags = detections_as_bags(cohort)
    assert bags[0].shape == tuple(cohort.images.size[0].astype(int)[::-1])
    assert sum(bag.instances.sum() for bag in (bags[k] for k in range(3))) > 0


def test_bags_say_what_they_are():
    cohort = cohort_of("plain", 2, n_images=6, models=3).with_groups(
        {"patient": np.array(list("aabbcc"))}
    )
    bags = detections_as_bags(cohort, (4, 4), models=["model-3", "model-1"])
    assert (len(bags), bags.models, bags.ids) == (6, ("model-3", "model-1"), cohort.images.ids)
    assert bags.groups["patient"].tolist() == list("aabbcc")
    table = cohort.models["model-3"]
    highest = [table.score[table.image == k].max(initial=0.0) for k in range(6)]
    assert bags.bag_scores[0].tolist() == highest
    assert bags.notes[0].startswith("a grid of 4 x 4 cells")
    assert bags[-1].id == bags[5].id
    with pytest.raises(IndexError):
        bags[6]


def test_lost_objects_and_models_without_scores_are_counted():
    cohort = made([[0, 0, 0.5, 0.5]], [([0, 0, 0.5, 0.5], 1.0)], [([0, 0, 8, 4], 1.0)])
    cohort = cohort.with_predictions("m1", replace(cohort.models["m1"], scored=False))
    notes = detections_as_bags(cohort, (2, 4)).notes
    assert "no scores: m1; their predictions count 1" in notes
    assert (
        "1 of 1 references cover no cell of the grid: too small, or outside of the image" in notes
    )
    assert (
        "1 of 1 predictions of m0 cover no cell of the grid: too small, or outside of the image"
        in notes
    )


def test_ignored_references_make_nothing_positive():
    bags = detections_as_bags(made([[0, 0, 4, 4]], [], [], ignore=[True]), (2, 4))
    assert not bags.positive.any()
    assert not bags[0].instances.any()
    assert any("ignored" in note for note in bags.notes)


@pytest.mark.parametrize("grid", [(2,), (2, 0), (2.5, 3), (True, 2), (2, 3, 4)])
def test_a_grid_that_is_none_is_refused(grid):
    with pytest.raises(UsageError, match=r"a grid is \(rows, columns\)"):
        detections_as_bags(made([], [], []), grid)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="two or more models"):
        detections_as_bags(made([], []), (2, 2))
    with pytest.raises(UsageError, match="cells of an object 'middle'"):
        detections_as_bags(made([], [], []), (2, 2), covers="middle")
    cohort = made([], [([0, 0, 1, 1], 0.5)], [])
    raw = replace(cohort.models["m0"], score=np.array([3.5]))
    with pytest.raises(InputError, match=r"m0, image .*3\.5") as error:
        detections_as_bags(cohort.with_predictions("m0", raw), (2, 2))
    assert error.value.rule == "score-range"
    unknown = replace(cohort, images=replace(cohort.images, size=np.full((1, 2), np.nan)))
    with pytest.raises(InputError, match="size of every image") as error:
        detections_as_bags(unknown, (2, 2))
    assert error.value.rule == "size-unknown"
