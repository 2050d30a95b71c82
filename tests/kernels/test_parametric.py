"""The best assignment as a function of the class weight, against scipy at many single weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from calipers.kernels.rodeo import MOST_LISTED, Pieces, best_assignments

pytestmark = pytest.mark.usefixtures("kernel_route")

SHAPES = [
    (1, 1),
    (1, 5),
    (4, 1),
    (2, 2),
    (3, 3),
    (3, 5),
    (5, 3),
    (6, 6),
    (2, 9),
    (7, 7),
    (8, 3),
    (9, 12),
]


def one_image(gain: np.ndarray, same: np.ndarray, w: float | None = None) -> Pieces:
    fixed = None if w is None else np.array([w])
    offsets, shape = np.array([0, gain.size]), np.array([gain.shape])
    return best_assignments(gain.ravel(), same.ravel(), offsets, shape, fixed)


def objective_at(pieces: Pieces, gain: np.ndarray, same: np.ndarray, w: float) -> tuple[float, int]:
    """Return (gain + w * same, number of same) of the piece that is valid at w."""
    k = np.flatnonzero(pieces.start <= w)[-1]
    pairs = pieces.pair[pieces.offsets[k] : pieces.offsets[k + 1]]
    rows, columns = np.divmod(pairs, gain.shape[1])
    assert len(set(rows)) == len(rows) == min(gain.shape)
    assert len(set(columns)) == len(columns)
    return gain[rows, columns].sum() + w * same[rows, columns].sum(), int(same[rows, columns].sum())


def random_matrices(
    shape: tuple[int, int], seed: int, decimals: int | None
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, *shape])
    gain = random.uniform(-1.0, 1.0, shape)
    gain = gain if decimals is None else gain.round(decimals)
    return gain, random.random(shape) < random.uniform(0.1, 0.6)


@pytest.mark.parametrize("decimals", [None, 1, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_valid_piece_is_as_good_as_scipy_at_every_weight(
    shape: tuple[int, int], decimals: int | None
) -> None:
    for seed in range(15):
        gain, same = random_matrices(shape, seed, decimals)
        pieces = one_image(gain, same)
        weights = [
            0.0,
            1.0,
            *np.random.default_rng(seed).random(8),
            *pieces.start,
            *(pieces.start + 1e-9),
        ]
        for w in (float(w) for w in weights if w <= 1.0):
            rows, columns = linear_sum_assignment(-(same * w) - gain)
            best = gain[rows, columns].sum() + w * same[rows, columns].sum()
            assert objective_at(pieces, gain, same, w)[0] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_ties_the_pairs_are_those_of_scipy(shape: tuple[int, int]) -> None:
    for seed in range(10):
        gain, same = random_matrices(shape, seed, None)
        pieces = one_image(gain, same)
        for w in np.random.default_rng(seed).random(5):
            rows, columns = linear_sum_assignment(-(same * w) - gain)
            k = np.flatnonzero(pieces.start <= w)[-1]
            pairs = pieces.pair[pieces.offsets[k] : pieces.offsets[k + 1]]
            assert sorted(pairs) == sorted(rows * shape[1] + columns)


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fixed_weight_gives_one_piece_equal_to_scipy(
    shape: tuple[int, int], decimals: int | None
) -> None:
    for seed in range(10):
        gain, same = random_matrices(shape, seed, decimals)
        w = float(np.random.default_rng(seed).random())
        pieces = one_image(gain, same, w)
        assert len(pieces.start) == 1
        rows, columns = linear_sum_assignment(-(same * w) - gain)
        assert sorted(pieces.pair) == sorted(rows * shape[1] + columns)


def test_pieces_start_at_zero_ascend_and_gain_pairs_of_the_same_class() -> None:
    several = 0
    for seed in range(200):
        gain, same = random_matrices((4, 5), seed, None)
        pieces = one_image(gain, same)
        assert pieces.start[0] == 0.0
        assert (np.diff(pieces.start) > 0).all()
        slopes = [objective_at(pieces, gain, same, w)[1] for w in pieces.start]
        assert (np.diff(slopes) > 0).all()
        several += len(slopes) > 1
    assert several > 20


def test_listing_and_solving_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [random_matrices(shape, seed, None) for shape in SHAPES[:8] for seed in range(8)]
    listed = [one_image(*case) for case in cases]
    monkeypatch.setattr("calipers.kernels.rodeo.MOST_LISTED", 0)
    for case, before in zip(cases, listed):
        after = one_image(*case)
        np.testing.assert_allclose(after.start, before.start, atol=1e-12)
        assert sorted(after.pair.tolist()) == sorted(before.pair.tolist())


def test_many_images_together_equal_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.kernels.rodeo.AT_ONCE", 50)  # several rounds per shape
    cases = [random_matrices(shape, seed, 1) for seed in range(6) for shape in SHAPES]
    gain, same = (np.concatenate([case[k].ravel() for case in cases]) for k in (0, 1))
    offsets = np.cumsum([0, *(case[0].size for case in cases)])
    together = best_assignments(gain, same, offsets, np.array([case[0].shape for case in cases]))
    for i, case in enumerate(cases):
        alone = one_image(*case)
        mine = np.flatnonzero(together.image == i)
        np.testing.assert_array_equal(together.start[mine], alone.start)
        for k, piece in enumerate(mine):
            pairs = (
                together.pair[together.offsets[piece] : together.offsets[piece + 1]] - offsets[i]
            )
            assert pairs.tolist() == alone.pair[alone.offsets[k] : alone.offsets[k + 1]].tolist()


def test_images_without_a_pair_have_no_piece() -> None:
    shape = np.array([[0, 3], [2, 0], [0, 0], [1, 1]])
    pieces = best_assignments(np.array([0.3]), np.array([True]), np.array([0, 0, 0, 0, 1]), shape)
    assert pieces.image.tolist() == [3]
    empty = best_assignments(np.zeros(0), np.zeros(0, bool), np.zeros(3, np.int64), shape[:2])
    assert len(empty.image) == 0
    assert empty.offsets.tolist() == [0]


def test_both_routes_are_exercised() -> None:
    from math import perm

    listed = [perm(max(shape), min(shape)) <= MOST_LISTED for shape in SHAPES]
    assert any(listed)
    assert not all(listed)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
def test_integer_gains_with_every_tie(rows: int, columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    gain = random.integers(-1, 2, (rows, columns)).astype(np.float64)
    same = random.random((rows, columns)) < 0.5
    pieces = one_image(gain, same)
    for w in (0.0, 0.25, 0.5, 1.0):
        found = linear_sum_assignment(-(same * w) - gain)
        assert objective_at(pieces, gain, same, w)[0] == pytest.approx(
            gain[found].sum() + w * same[found].sum()
        )
