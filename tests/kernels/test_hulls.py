"""Convex hulls of runs: against all half-spaces through the voxels, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.masks import Masks
from reference import masks as slow


def hull(mask: np.ndarray) -> np.ndarray:
    return Masks.from_dense(mask[None]).hulls().dense(0)


def random_mask(seed: int, dimensions: int) -> np.ndarray:
    random = np.random.default_rng([14, seed])
    mask = random.random(
        random.integers(1, 13 if dimensions == 2 else 6, dimensions)
    ) < random.choice([0.05, 0.15, 0.5])
    mask[tuple(random.integers(0, mask.shape))] = True
    return mask


@pytest.mark.parametrize("block", range(4))
def test_hulls_in_2d_equal_the_twin(block: int) -> None:
    for seed in range(100 * block, 100 * (block + 1)):
        mask = random_mask(seed, 2)
        assert (hull(mask) == slow.hull(mask)).all(), seed


def test_hulls_in_3d_equal_the_twin() -> None:
    compared = 0
    for seed in range(150):
        mask = random_mask(seed, 3)
        if mask.sum() <= 30:
            assert (hull(mask) == slow.hull(mask)).all(), seed
            compared += 1
    assert compared > 100


def test_many_objects_at_once_as_one_by_one() -> None:
    for dimensions in (2, 3):
        masks = Masks.from_dense([random_mask(seed, dimensions) for seed in range(60)])
        together = masks.hulls()
        assert len(together) == 60
        for k in range(60):
            assert (together.dense(k) == hull(masks.dense(k))).all()
            assert (together.dense(k) >= masks.dense(k)).all(), "a hull holds its object"


def test_a_horseshoe_is_filled() -> None:
    shoe = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], bool)
    assert hull(shoe).all()


@pytest.mark.parametrize(
    "flat",
    [
        [[1, 0, 1, 1]],  # gaps in one row
        [[1], [0], [1]],
        [[1, 0, 0], [0, 0, 0], [0, 0, 1]],  # a diagonal with a gap
        [[0, 0, 1]],  # one voxel
        [[[1, 0, 1], [0, 0, 0], [0, 1, 0]]],  # one slice of a volume
        [[[1, 0], [0, 0]], [[0, 0], [0, 1]]],  # two voxels of a volume
    ],
)
def test_what_lies_on_a_line_or_in_a_plane_is_its_own_hull(flat: list) -> None:
    mask = np.array(flat, bool)
    assert (hull(mask) == mask).all()


def test_a_thin_hull_may_skip_a_row() -> None:
    mask = np.zeros((4, 2), bool)
    # between rows 1 and 3 it runs between two voxel centres
    mask[0, 0] = mask[1, 0] = mask[3, 1] = True
    assert (hull(mask) == slow.hull(mask)).all()
    assert not hull(mask)[2].any()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_convex_shapes_are_their_own_hulls(dimensions: int) -> None:
    grid = np.indices((25,) * dimensions) - 12.3
    ball = (grid**2).sum(axis=0) <= 10.4**2
    assert (hull(ball) == ball).all()
    cube = np.zeros((9,) * dimensions, bool)
    cube[(slice(2, 7),) * dimensions] = True
    assert (hull(cube) == cube).all()


def test_a_hull_does_not_feel_where_it_is() -> None:
    mask = random_mask(77, 3)
    far = np.zeros((40, 60, 500), bool)
    place = tuple(slice(n - m, n) for n, m in zip(far.shape, mask.shape))
    far[place] = mask
    assert (hull(far)[place] == hull(mask)).all()
    assert hull(far).sum() == hull(mask).sum()
