"""What the compiled kernels for pairs of maps refuse: buffers whose lengths do not fit, rows that
are not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.kernels import route
from native.buffers import taken_at_other_lengths

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")


def calls() -> dict[str, tuple[Any, ...]]:
    """Arguments that fit, for every kernel: three maps of five instances."""
    values = np.random.default_rng(0).random((3, 5))
    places = [np.zeros((3, 5), np.int32) for _ in range(3)]
    native = route.native()
    assert native is not None
    native.row_places(values, 3, *places, 1)
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
    counts = [np.zeros(3, np.int64) for _ in range(2)]
    table = np.zeros((2, 3), np.int64), np.zeros((2, 3), np.int64), np.zeros((2, 4), np.int64)
    return {
        "row_places": (values, 3, *places, 1),
        "kendall_pairs": (*places[:2], np.zeros(3, np.uint8), *pairs, *counts, 1),
        "joint_counts": (values, 3, np.array([0.3, 0.5]), *table, 1),
    }


KERNELS = tuple(calls()) if route.native() is not None else ()


@pytest.mark.parametrize("name", KERNELS)
def test_a_short_or_long_buffer_is_refused(name: str) -> None:
    assert taken_at_other_lengths(name, calls()[name]) == []


@pytest.mark.parametrize("row", [-1, 3])
@pytest.mark.parametrize("side", [3, 4])
def test_a_pair_with_a_map_that_is_not_there_is_refused(side: int, row: int) -> None:
    arguments = list(calls()["kendall_pairs"])
    arguments[side] = np.array([0, row, 1])
    with pytest.raises(ValueError, match="lengths do not fit"):
        route.native().kendall_pairs(*arguments)  # type: ignore[union-attr]


@pytest.mark.parametrize("n_rows", [-1, 0, 2])
@pytest.mark.parametrize("name", ["row_places", "joint_counts"])
def test_another_number_of_maps_is_refused(name: str, n_rows: int) -> None:
    arguments = list(calls()[name])
    arguments[1] = n_rows
    with pytest.raises(ValueError, match="lengths do not fit"):
        getattr(route.native(), name)(*arguments)


@pytest.mark.parametrize("name", KERNELS)
def test_a_missing_argument_is_an_error_of_python(name: str) -> None:
    with pytest.raises(IndexError):
        getattr(route.native(), name)(*calls()[name][:-1])


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, 0])
def test_places_that_are_no_order_are_refused(side: int, wrong: int) -> None:
    """Beyond the instances, or one of them twice: the places are written to by number."""
    arguments = list(calls()["kendall_pairs"])
    arguments[side] = arguments[side].copy()
    arguments[side][1] = np.where(arguments[side][1] == 2, wrong, arguments[side][1])
    with pytest.raises(ValueError, match="entries beyond"):
        route.native().kendall_pairs(*arguments)  # type: ignore[union-attr]
