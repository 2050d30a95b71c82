"""Fates of which every distinct row is held once are the fates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from calipers.arrays import FateRows, n_distinct
from calipers.kernels import assignment, curves, route
from calipers.kernels.assignment import HIT, FateTable
from calipers.kernels.ragged import distinct_rows
from calipers.matching.matches import JointFateRows

ROUTES = ["numpy"] if route.native() is None else ["numpy", "native"]


def fates_of(rng: np.random.Generator, n_views: int, n: int, n_rows: int) -> np.ndarray:
    rows = rng.choice([0, 1, 3], size=(n_rows, n_views), p=[0.4, 0.1, 0.5]).astype(np.int8)
    return rows[rng.integers(n_rows, size=n)].T


@pytest.mark.parametrize("n_views", [1, 7, 8, 9, 40, 70])
@pytest.mark.parametrize("n_rows", [1, 5, 3000])
def test_distinct_rows_are_the_fates(n_views: int, n_rows: int) -> None:
    rng = np.random.default_rng(n_views + n_rows)
    fates = fates_of(rng, n_views, 5000, n_rows)
    for kind in ROUTES:
        with route.forced(kind):
            rows = distinct_rows(fates)
            np.testing.assert_array_equal(np.asarray(rows), fates)
            assert len(rows.rows) == len(np.unique(fates.T, axis=0))
            joint = JointFateRows(n_views, room=17)
            for part in (fates[:, :0], fates[:, :900], distinct_rows(fates[:, 900:])):
                joint.add(part)
            whole = joint.result()
            np.testing.assert_array_equal(whole, fates)
            assert len(whole.rows) == len(rows.rows)


def test_they_are_asked_as_an_array_is() -> None:
    fates = fates_of(np.random.default_rng(3), 12, 300, 20)
    rows = distinct_rows(fates)
    some = np.array([5, 7, 299])
    assert (rows.shape, rows.ndim, rows.dtype, len(rows)) == ((12, 300), 2, np.dtype(np.int8), 12)
    for key in (3, np.int64(4), (2, some), (2, slice(0, 9)), (slice(None), some), [1, 5], (1, 2)):
        np.testing.assert_array_equal(rows[key], fates[key])
    assert isinstance(rows[:, some], FateRows)
    np.testing.assert_array_equal(rows == HIT, fates == HIT)
    np.testing.assert_array_equal(rows.T, fates.T)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)), fates)


@pytest.mark.parametrize("n_views", [9, 40, 70])
def test_sums_and_curves_have_the_same_bits(n_views: int) -> None:
    rng = np.random.default_rng(n_views)
    n, n_classes = 4000, 3
    fates = fates_of(rng, n_views, n, 500)
    label, score = rng.integers(n_classes, size=n).astype(np.int32), rng.random(n)
    rank, image = rng.integers(9, size=n).astype(np.int32), np.sort(rng.integers(50, size=n))
    positives = rng.integers(1, 900, size=(1, n_views, n_classes))
    results = []
    for kind in ROUTES:
        with route.forced(kind):
            ranked = curves.ranking(score, label, n_classes, blocks=False)
            for table in (FateTable(fates), FateTable(distinct_rows(fates))):
                totals = []
                for weights in (np.ones((1, 50), np.int64), rng_weights()):
                    totals.append(
                        assignment.totals(table, label, rank, 4, image, weights, n_classes)
                    )
                    problem = curves.CurveProblem(
                        table, list(range(n_views)), ranked, lambda: image, weights
                    )
                    of_weights = np.repeat(positives, len(weights), axis=0)
                    totals.append(curves.average_precision(problem, of_weights, None))
                results.append(totals)
    for other in results[1:]:
        for one, two in zip(results[0], other):
            np.testing.assert_array_equal(one, two)


def rng_weights() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, size=(3, 50))


def test_a_wrong_row_is_refused() -> None:
    native = route.native()
    if native is None:
        pytest.skip("without compiled kernels")
    rows, place = np.zeros((2, 9), np.int8), np.array([0, 2], np.int32)
    kind, label = np.full(2, assignment.FULL_ROW, np.uint8), np.zeros(2, np.int32)
    result = np.empty((1, 9, 2, 1), np.int64)
    # The second object has the third of two rows.
    sides = (rows, place, kind, np.zeros(0, np.uint64), label, np.zeros(0, np.int32))
    with pytest.raises(ValueError, match="lengths do not fit"):
        native.totals(*sides, 9, 1, 0, result)


@pytest.mark.parametrize("most", [1, 7, 100, 10_000])
def test_distinct_numbers_are_counted_in_parts(most: int) -> None:
    rng = np.random.default_rng(most)
    for n in (0, 1, 2, 500):
        for values in (rng.random(n), rng.integers(0, 9, n) / 4, np.zeros(n)):
            assert n_distinct(values, most) == len(np.unique(values))
