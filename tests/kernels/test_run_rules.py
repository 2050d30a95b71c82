"""Runs that are those of a mask, and those that only look like it."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import ragged
from calipers.kernels.runs import sound_runs
from mask_cases import random_mask
from reference import coco_masks

SIZE = (5, 4)


@pytest.mark.parametrize(
    ("runs", "size", "sound"),
    [
        ([(0, 5), (5, 5)], SIZE, True),  # two whole rows
        ([(1, 2), (4, 1), (6, 3)], SIZE, True),
        ([(19, 1)], SIZE, True),
        ([(0, 3)], (5, 2, 2), True),
        ([], SIZE, False),
        ([(0, 0)], SIZE, False),
        ([(0, -1)], SIZE, False),
        ([(-1, 2)], SIZE, False),
        ([(19, 2)], SIZE, False),
        ([(20, 1)], SIZE, False),
        ([(3, 3)], SIZE, False),  # beyond the end of the row
        ([(0, 2), (2, 1)], SIZE, False),  # touch
        ([(0, 3), (1, 1)], SIZE, False),  # overlap
        ([(6, 1), (0, 1)], SIZE, False),  # descend
        ([(1 << 62, 1 << 62)], SIZE, False),
        ([(0, 1)], (0, 4), False),
        ([(0, 1)], (-5, -4), False),
        ([(0, 1)], (1 << 40, 1 << 40), False),
    ],
)
def test_one_object(runs, size, sound):
    start, length = np.array(runs, np.int64).reshape(-1, 2).T
    assert sound_runs(np.array([0, len(runs)]), start, length, np.array([size])).tolist() == [sound]


def test_the_runs_of_random_masks_are_sound():
    rng = np.random.default_rng(0)
    masks = [mask for mask in (random_mask(rng) for _ in range(200)) if mask.any()]
    runs = [coco_masks.runs_of(mask) for mask in masks]
    offsets = ragged.from_counts(np.array(list(map(len, runs))))
    start, length = np.array([run for one in runs for run in one]).T
    size = np.array([mask.shape[::-1] for mask in masks])
    assert sound_runs(offsets, start, length, size).all()
    length[offsets[:-1]] += 1  # every first run one longer: beyond its row, or into the next run
    broken = ~sound_runs(offsets, start, length, size)
    for k, mask in enumerate(masks):
        y, x = divmod(int(start[offsets[k]]), mask.shape[1])
        after = x + int(length[offsets[k]]) - 1
        beside = after + 1 < mask.shape[1] and mask[y, after + 1]
        assert broken[k] == (after >= mask.shape[1] or beside)


def test_nothing_at_all():
    nothing = np.zeros(0, np.int64)
    assert (
        sound_runs(np.zeros(1, np.int64), nothing, nothing, np.zeros((0, 2), np.int64)).tolist()
        == []
    )
