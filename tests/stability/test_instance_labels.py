"""Labels of instances from boxes: four rules, by hand and against loops over cells."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.stability.grid import RULES, instance_labels
from seeds import looped

BOX = [[12, 10, 31, 20]]  # on an image of 40 x 40 with cells of 10 x 10


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("any-overlap", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]),
        ("centre", [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
        ("rounded", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0]]),
        ("coverage", [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
    ],
)
def test_every_rule_by_hand(rule: Any, expected: list[list[int]]) -> None:
    assert instance_labels(BOX, (40, 40), (4, 4), rule).astype(int).tolist() == expected


def slow(
    boxes: Any, size: tuple[int, int], grid: tuple[int, int], rule: str, coverage: float
) -> np.ndarray:
    """Cell by cell, in whole pixels times the size of the grid, so that nothing is rounded."""
    (width, height), (rows, columns) = size, grid
    found = np.zeros(grid, bool)
    for row, column in itertools.product(range(rows), range(columns)):
        for x0, y0, x1, y1 in boxes:
            a0, b0, a1, b1 = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
            if a1 <= a0 or b1 <= b0:
                continue
            left, right, top, bottom = a0 * columns, a1 * columns, b0 * rows, b1 * rows
            wide = min(right, (column + 1) * width) - max(left, column * width)
            high = min(bottom, (row + 1) * height) - max(top, row * height)
            if rule == "any-overlap":
                hit = wide > 0 and high > 0
            elif rule == "centre":
                hit = (
                    2 * left <= (2 * column + 1) * width < 2 * right
                    and 2 * top <= (2 * row + 1) * height < 2 * bottom
                )
            elif rule == "coverage":
                hit = wide > 0 and high > 0 and wide * high >= coverage * width * height - 1e-9
            else:
                first, last = (
                    min(round(left / width), columns - 1),
                    min(round(right / width), columns - 1),
                )
                upper, lower = (
                    min(round(top / height), rows - 1),
                    min(round(bottom / height), rows - 1),
                )
                hit = first <= column <= last and upper <= row <= lower
            found[row, column] |= hit
    return found


@pytest.mark.parametrize("rule", RULES)
@looped("seed", range(25))
def test_every_rule_equals_loops_over_cells(rule: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, grid = (
        (int(rng.integers(20, 90)), int(rng.integers(20, 90))),
        tuple(int(n) for n in rng.integers(1, 9, 2)),
    )
    corners = rng.integers(-10, 100, (int(rng.integers(0, 4)), 2, 2))
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    share = float(rng.choice([0.1, 0.5, 1.0]))
    found = instance_labels(boxes, size, grid, rule, share)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, slow(boxes.tolist(), size, grid, rule, share))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES)
def test_no_box_labels_nothing_and_a_whole_image_everything(rule: Any) -> None:
    assert not instance_labels([], (40, 30), (3, 4), rule).any()
    assert not instance_labels([[50, 50, 60, 60]], (40, 30), (3, 4), rule).any()
    assert instance_labels([[0, 0, 40, 30]], (40, 30), (3, 4), rule).all()


def test_edges_that_meet_do_not_overlap() -> None:
    assert instance_labels([[30, 0, 70, 100]], (100, 100), (1, 10)).sum() == 4
    assert instance_labels([[30, 0, 70, 100]], (100, 100), (1, 10), "coverage", 1.0).sum() == 4


def test_coverage_is_of_one_box() -> None:
    halves = [[0, 0, 4, 10], [6, 0, 10, 10]]
    assert not instance_labels(halves, (10, 10), (1, 1), "coverage", 0.5).any()
    assert instance_labels(halves, (10, 10), (1, 1), "coverage", 0.4).all()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"rule": "centres"}, cal.UsageError, "did you mean 'centre'"),
        ({"coverage": 0.0}, cal.UsageError, "coverage"),
        ({"size": (0, 10)}, cal.UsageError, "positive sides"),
        ({"grid": (0, 3)}, cal.UsageError, "whole number"),
        ({"boxes": [[0, 0, 1]]}, cal.InputError, "box-shape"),
        ({"boxes": "boxes"}, cal.InputError, "type"),
        ({"grid": None}, cal.UsageError, "several entries"),
        ({"size": (1, 2, 3)}, cal.UsageError, "width, height"),
        ({"boxes": [[0, 0, 1, 1], [0, 0, np.nan, 1]]}, cal.InputError, r"boxes\[1\].*non-finite"),
        ({"boxes": [[5, 0, 1, 1]]}, cal.InputError, "neg-size"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], error: type[Exception], said: str) -> None:
    given = {"boxes": BOX, "size": (40, 40), "grid": (4, 4), **options}
    with pytest.raises(error, match=said):
        instance_labels(**given)
