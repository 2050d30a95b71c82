"""Offsets algebra: every function against the plain list of lists it stands for."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels import ragged

COUNTS = st.lists(st.integers(0, 4), max_size=8)


def rows_of(counts: list[int]) -> list[list[int]]:
    """The row numbers of every owner."""
    ends = np.cumsum([0, *counts]).tolist()
    return [list(range(a, b)) for a, b in itertools.pairwise(ends)]


@given(COUNTS)
def test_offsets_owners_and_positions(counts: list[int]) -> None:
    offsets = ragged.from_counts(np.array(counts, np.int64))
    owner = [k for k, n in enumerate(counts) for _ in range(n)]
    assert offsets.dtype == np.int64
    assert np.diff(offsets).tolist() == counts
    assert ragged.owners(offsets).tolist() == owner
    assert ragged.from_owner(np.array(owner, np.int64), len(counts)).tolist() == offsets.tolist()
    assert ragged.positions(np.array(counts, np.int64)).tolist() == [
        p for n in counts for p in range(n)
    ]


@given(COUNTS.filter(bool), st.data())
def test_take_rows_keeps_the_chosen_owners_in_order(counts: list[int], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=6))
    rows, offsets = ragged.take_rows(
        ragged.from_counts(np.array(counts)), np.array(chosen, np.int64)
    )
    assert rows.tolist() == [row for k in chosen for row in rows_of(counts)[k]]
    assert np.diff(offsets).tolist() == [counts[k] for k in chosen]


@given(st.lists(COUNTS, max_size=4))
def test_concat_offsets(parts: list[list[int]]) -> None:
    joined = ragged.concat_offsets([ragged.from_counts(np.array(part, np.int64)) for part in parts])
    assert np.diff(joined).tolist() == [n for part in parts for n in part]
    assert joined[0] == 0


@given(st.lists(st.integers(0, 3), max_size=12))
def test_ranks_in_runs(keys: list[int]) -> None:
    expected: list[int] = []
    for k, key in enumerate(keys):
        expected.append(expected[-1] + 1 if k and keys[k - 1] == key else 0)
    assert ragged.ranks_in_runs(np.array(keys, np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 5), max_size=10), st.lists(st.integers(0, 5), max_size=5))
def test_matching_spans(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    starts, counts = ragged.matching_spans(np.array(keys, np.int64), np.array(wanted, np.int64))
    assert counts.tolist() == [keys.count(key) for key in wanted]
    for start, count, key in zip(starts.tolist(), counts.tolist(), wanted):
        assert keys[start : start + count] == [key] * count


def test_the_first_of_every_key_is_marked() -> None:
    keys = np.array([3, 1, 3, 0, 1])
    assert ragged.is_first(keys).tolist() == [True, True, False, True, False]
    assert ragged.first_places(keys).tolist() == [0, 1, 3]
    assert len(ragged.is_first(np.zeros(0, np.int64))) == 0
