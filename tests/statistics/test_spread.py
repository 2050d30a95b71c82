"""Moments and quantiles of several batches at once have the bits of every batch by itself."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.statistics import spread


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(200, 5), (107, 4), (203, 1)])
def test_batches_together_have_the_bits_of_each_alone(shape: tuple[int, int], order: str) -> None:
    random = np.random.default_rng(3)
    rows = random.random(shape)
    rows[random.random(shape) < 0.05] = np.nan
    rows = np.asarray(rows, order=order)
    parts = [np.asarray(part, order=order) for part in np.array_split(rows, 10)]
    stacks = spread.batches(rows, 10)
    assert sum(len(stack) for stack in stacks) == 10

    def together(make) -> np.ndarray:
        return np.concatenate([np.stack(make(stack), axis=-2) for stack in stacks])

    def alone(make) -> np.ndarray:
        return np.stack([np.stack(make(part)) for part in parts])

    for make in (
        lambda part: spread.moments(part, np.isnan(part)),
        lambda part: spread.quantiles(part, 0.9),
    ):
        assert together(make).tobytes() == alone(make).tobytes()


def test_without_replicates_nothing_is_defined() -> None:
    nothing = np.zeros((0, 2))
    assert np.isnan(spread.means(nothing)).all()
    assert np.isnan(spread.quantiles(nothing, 0.95)).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("m", [129, 191, 256])
def test_moments_of_many_columns_have_the_bits_of_few(m: int, order: str) -> None:
    random = np.random.default_rng(4)
    rows = np.asarray(random.random((120, m)), order=order)
    rows[random.random(rows.shape) < 0.05] = np.nan
    together = np.stack(spread.moments(rows, np.isnan(rows)))
    pairs = [np.asarray(rows[:, k : k + 2], order=order) for k in range(0, m - 1, 2)]
    apart = [np.stack(spread.moments(pair, np.isnan(pair))) for pair in pairs]
    assert together[:, : 2 * len(pairs)].tobytes() == np.concatenate(apart, axis=1).tobytes()
