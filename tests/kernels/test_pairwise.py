"""Pairs of maps: hand values, the slow twin, degenerate maps,
sizes at which numbers stop fitting.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calipers.kernels import ranks, route
from calipers.kernels import ranks as pairwise
from reference import pairwise as plain
from seeds import looped_seeds

pytestmark = pytest.mark.usefixtures("kernel_route")

SMALLEST = 5e-324
CUTS = np.array([0.25, 0.5, 0.75])


def expected_correlations(values: np.ndarray) -> np.ndarray:
    rows = values.tolist()
    found = []
    for i, j in plain.pairs_of(len(rows)):
        x, y = rows[i], rows[j]
        found.append([plain.pearson(x, y), plain.spearman(x, y), *plain.kendall(x, y)])
    return np.array(found, float).reshape(-1, 4).T


def maps(rng: np.random.Generator, k: int, n: int, kind: int) -> np.ndarray:
    """Values of all sorts: without ties, a few levels, two levels, constant maps, sparse maps,
    nearly equal maps.
    """
    values = rng.random((k, n))
    if kind == 1:
        values = np.round(values, 1)
    elif kind == 2:
        values = np.round(values)
    elif kind == 3 and k:
        values[0] = 0.5
        values[-1] = np.round(values[-1], 1)
    elif kind == 4:
        values[rng.random((k, n)) < 0.8] = 0.0
    elif kind == 5 and k:
        values = np.clip(values[0] + 0.01 * values, 0, 1)
    return values


def test_pairs_come_in_the_order_of_rows() -> None:
    first, second = pairwise.pair_index(4)
    assert list(zip(first.tolist(), second.tolist())) == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 3),
    ]
    assert [len(part) for k in (0, 1) for part in pairwise.pair_index(k)] == [0, 0, 0, 0]


def test_hand_values() -> None:
    values = np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.3, 0.3, 0.9], [0.9, 0.5, 0.4, 0.1]])
    assert pairwise.midranks(values).tolist() == [[1, 2, 3, 4], [1, 2.5, 2.5, 4], [4, 3, 2, 1]]
    found = pairwise.correlations(values)
    assert found[1] == pytest.approx(
        [4.5 / np.sqrt(5 * 4.5), -1, -4.5 / np.sqrt(5 * 4.5)], abs=1e-15
    )
    assert found[2] == pytest.approx([5 / np.sqrt(30), -1, -5 / np.sqrt(30)], abs=1e-15)
    assert found[3].tolist() == [5 / 6, -1, -5 / 6]
    ones, both, called = pairwise.joint_counts(values, np.array([0.3, 0.95]))
    assert ones.tolist() == [[2, 3, 3], [0, 0, 0]]
    assert both.tolist() == [[2, 1, 2], [0, 0, 0]]
    assert called.tolist() == [[0, 1, 2, 1], [4, 0, 0, 0]]
    assert pairwise.hits(values, np.array([True, False, True, True]), CUTS[:1]).tolist() == [
        [2, 2, 2]
    ]


@looped_seeds(60, default=25)
def test_every_score_equals_its_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, n = int(rng.choice([2, 3, 5])), int(rng.choice([2, 3, 4, 7, 16, 17, 40]))
    values = maps(rng, k, n, seed % 6)
    np.testing.assert_allclose(
        pairwise.correlations(values), expected_correlations(values), rtol=0, atol=1e-13
    )
    np.testing.assert_array_equal(
        pairwise.midranks(values), [plain.midranks(row) for row in values.tolist()]
    )
    found = pairwise.joint_counts(values, CUTS)
    for t, cut in enumerate(CUTS):
        for ours, theirs in zip(found, plain.joint_counts(values.tolist(), cut)):
            assert ours[t].tolist() == theirs


def test_the_parts_are_the_rows_of_the_whole() -> None:
    values = maps(np.random.default_rng(1), 6, 100, 1)
    parts = np.stack(
        [pairwise.pearson(values), pairwise.spearman(values), *pairwise.kendall(values)]
    )
    np.testing.assert_array_equal(pairwise.correlations(values), parts)


@pytest.mark.parametrize("k", [0, 1, 2, 20])
@pytest.mark.parametrize("n", [0, 1])
def test_too_few_instances_leave_every_correlation_undefined(k: int, n: int) -> None:
    values = np.full((k, n), 0.7)
    found = pairwise.correlations(values)
    assert found.shape == (4, k * (k - 1) // 2)
    assert np.isnan(found).all()
    ones, both, called = pairwise.joint_counts(values, np.array([0.5, 0.9]))
    assert (ones.shape, both.shape, called.shape) == ((2, k), (2, k * (k - 1) // 2), (2, k + 1))
    assert (ones[0] == n).all()
    assert (both[0] == n).all()
    assert called[0, k] == n
    assert (called.sum(axis=1) == n).all()


def test_two_instances() -> None:
    values = np.array([[0.1, 0.2], [0.3, 0.9], [0.9, 0.3], [0.5, 0.5]])
    found = pairwise.correlations(values)
    assert found[:, 0].tolist() == [1, 1, 1, 1]
    assert found[:, 1].tolist() == [-1, -1, -1, -1]
    assert np.isnan(found[:3, 2]).all()
    assert found[3, 2] == 0


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, SMALLEST])
def test_a_constant_map_has_no_correlation_but_a_tau_a_of_zero(value: float) -> None:
    values = np.stack([np.full(50, value), np.random.default_rng(0).random(50), np.full(50, value)])
    found = pairwise.correlations(values)
    assert np.isnan(found[:3]).all()
    assert found[3].tolist() == [0, 0, 0]
    assert pairwise.midranks(values[:1]).tolist() == [[25.5] * 50]


def test_no_thresholds_and_no_reference_instances() -> None:
    values = np.random.default_rng(0).random((3, 9))
    ones, both, called = pairwise.joint_counts(values, np.zeros(0))
    assert (ones.shape, both.shape, called.shape) == ((0, 3), (0, 3), (0, 4))
    assert pairwise.hits(values, np.ones(9, bool), np.zeros(0)).shape == (0, 3)
    assert pairwise.hits(values, np.zeros(9, bool), CUTS).tolist() == [[0] * 3] * 3


def test_both_zeros_are_one_value() -> None:
    values = np.array([[0.0, -0.0, 0.5, -0.0], [-0.0, 0.0, 0.2, 0.1]])
    assert pairwise.midranks(values).tolist() == [[2, 2, 4, 2], [1.5, 1.5, 4, 3]]
    np.testing.assert_array_equal(
        pairwise.correlations(values), pairwise.correlations(np.abs(values))
    )
    assert np.isnan(pairwise.correlations(np.array([[0.0, -0.0], [0.0, 1.0]]))[:3]).all()
    assert pairwise.joint_counts(values, np.zeros(1))[0].tolist() == [[4, 4]]


@pytest.mark.parametrize("scale", [SMALLEST, 1e-310, 1e-200, 1.0, 1e150, 1e300])
def test_the_size_of_numbers_does_not_matter(scale: float) -> None:
    whole = np.random.default_rng(3).integers(0, 50, (3, 40)).astype(float)
    np.testing.assert_allclose(
        pairwise.correlations(whole * scale),
        pairwise.correlations(whole),
        rtol=0,
        atol=1e-12,
        equal_nan=False,
    )


def test_neighbouring_numbers_are_told_apart() -> None:
    steps = np.random.default_rng(4).permutation(2000).reshape(2, 1000)
    values = np.where(np.arange(1000) < 500, steps * SMALLEST, 0.5 + steps * 2.0**-52)
    np.testing.assert_array_equal(
        pairwise.midranks(values), np.argsort(np.argsort(values, axis=1), axis=1) + 1.0
    )


def test_negative_and_large_numbers_are_ranked_too() -> None:
    values = np.array([[-1.0, -1e300, 1e300, -SMALLEST, 0.0, SMALLEST, -np.inf, np.inf]])
    assert pairwise.midranks(values).tolist() == [[3, 2, 7, 4, 5, 6, 1, 8]]


def test_equal_maps_agree_exactly_and_reversed_ones_not_at_all() -> None:
    row = np.random.default_rng(5).random(1001)
    found = pairwise.correlations(np.stack([row, row, 1 - row]))
    assert found[:, 0].tolist() == [1, 1, 1, 1]
    assert found[1:, 1:].tolist() == [[-1, -1]] * 3
    assert found[0, 1:] == pytest.approx([-1, -1], abs=1e-15)


def test_input_of_any_layout_and_precision() -> None:
    values = np.round(np.random.default_rng(6).random((4, 60)), 1).astype(np.float32)
    wide = values.astype(np.float64)
    for given_values in (values, np.asfortranarray(wide), np.repeat(wide, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(pairwise.spearman(given_values), pairwise.spearman(wide))
        np.testing.assert_array_equal(pairwise.kendall(given_values), pairwise.kendall(wide))
        for ours, theirs in zip(
            pairwise.joint_counts(given_values, CUTS), pairwise.joint_counts(wide, CUTS)
        ):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("n", [1, 2, 15, 63, 64, 65, 128, 129, 1000, 4096, 4097])
def test_inversions_of_arrangements(n: int) -> None:
    rng = np.random.default_rng(n)
    listed = np.stack([np.arange(n), np.arange(n)[::-1], rng.permutation(n)])
    random = sum(int((listed[2, k + 1 :] < listed[2, k]).sum()) for k in range(n))
    assert ranks.inversions(listed).tolist() == [0, n * (n - 1) // 2, random]
    ranked = ranks.places(listed.astype(float))
    found, joint = ranks.discordant(ranked, *pairwise.pair_index(3))
    assert found.tolist() == [n * (n - 1) // 2, random, n * (n - 1) // 2 - random]
    assert joint.tolist() == [0, 0, 0]


@pytest.mark.parametrize("n", [65_536, 65_537, 300_001])
def test_large_maps(n: int) -> None:
    row = np.random.default_rng(n).permutation(n) / n
    ties = np.floor(row * 7)
    tau_b, tau_a = pairwise.kendall(np.stack([row, row, 1 - row, ties]))
    assert tau_b[:2].tolist() == tau_a[:2].tolist() == [1, -1]
    assert tau_b[2] == pytest.approx(np.sqrt(1 - 1 / 7), abs=1e-4)
    assert tau_b[5] == -tau_b[2]
    spearman = pairwise.spearman(np.stack([row, row, 1 - row, ties]))
    assert spearman[:2].tolist() == [1, -1]
    assert spearman[2] == pytest.approx(np.sqrt(1 - 1 / 49), abs=1e-4)


@pytest.mark.parametrize("size", [100, 1 << 20, (1 << 31) - 1])
def test_sums_of_products_of_ranks_are_exact(size: int) -> None:
    rng = np.random.default_rng(0)
    doubled = rng.integers(-size, size, (3, (1 << 18) + 5), endpoint=True, dtype=np.int64).astype(
        np.int32
    )
    found = ranks.products(doubled)
    for i, j in itertools.product(range(3), repeat=2):
        left, right = doubled[i].astype(object), doubled[j].astype(object)
        assert found[i, j] == float((left * right).sum())
    if size == 100:
        few = doubled[:, : 1 << 18]
        np.testing.assert_array_equal(ranks.products(few), ranks._products_of_halves(few))


def test_bits_where_a_tile_ends() -> None:
    for n in (63, 64, 65, 1023, 1024, 1025, 65_536, 65_537):
        values = np.ones((3, n))
        values[1, -1] = values[2, 0] = 0
        ones, both, called = pairwise.joint_counts(values, np.array([0.5]))
        assert ones.tolist() == [[n, n - 1, n - 1]]
        assert both.tolist() == [[n - 1, n - 1, n - 2]]
        assert called.tolist() == [[0, 0, 2, n - 2]]


def test_more_than_two_hundred_models() -> None:
    values = np.random.default_rng(7).random((300, 70))
    _, _, called = pairwise.joint_counts(values, np.array([0.0, 0.5]))
    assert called[0, 300] == 70
    np.testing.assert_array_equal(
        called[1], np.bincount((values >= 0.5).sum(axis=0), minlength=301)
    )


LEVELS = st.sampled_from([0.0, -0.0, SMALLEST, 1e-300, 0.1, 0.25, 0.5, 0.5 + 2**-53, 1.0])
MAPS = st.tuples(st.integers(2, 4), st.integers(2, 24)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.one_of(LEVELS, st.floats(0, 1)))
)


@given(values=MAPS, seed=st.integers(0, 1000))
def test_orders_of_instances_and_models_do_not_matter(values: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in ("numpy", "native"):
        with route.forced(name):
            found = pairwise.correlations(values)
            assert np.nanmax(np.abs(found), initial=0) <= 1
            shuffled = values[:, rng.permutation(values.shape[1])]
            np.testing.assert_array_equal(pairwise.correlations(shuffled)[1:], found[1:])
            two = values[:2]
            np.testing.assert_array_equal(pairwise.correlations(two[::-1])[:, 0], found[:, 0])
            for ours, theirs in zip(
                pairwise.joint_counts(shuffled, CUTS), pairwise.joint_counts(values, CUTS)
            ):
                np.testing.assert_array_equal(ours, theirs)


@given(values=MAPS)
def test_ranks_and_tau_are_those_of_the_twin(values: np.ndarray) -> None:
    expected = [
        plain.kendall(values[i].tolist(), values[j].tolist())
        for i, j in plain.pairs_of(len(values))
    ]
    ranks = [plain.midranks(row) for row in values.tolist()]
    for name in ("numpy", "native"):
        with route.forced(name):
            np.testing.assert_array_equal(pairwise.midranks(values), ranks)
            np.testing.assert_allclose(
                np.stack(pairwise.kendall(values)).T, np.array(expected, float), atol=1e-15
            )
