"""Blocks of matches are joined as they come: the same arrays as all at once, in one copy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import calipers as cal
from calipers.arrays import Gathered
from calipers.evaluation import collect
from calipers.matching.matches import JointMatches, Matches
from random_cohorts import random_cohort

ARRAYS = ("reference_label", "prediction_label", "score", "rank", "similarity", "partner")


def gathered(parts: list[np.ndarray], **how: object) -> Gathered:
    column = Gathered(**how)  # type: ignore[arg-type]
    for part in parts:
        column.add(part)
    return column


def test_slices_of_one_array_are_not_copied() -> None:
    whole = np.arange(12.0)
    result = gathered([whole[2:5], whole[5:5], whole[5:9]]).result()
    assert result.base is whole
    assert result.tolist() == whole[2:9].tolist()


@pytest.mark.parametrize(
    "parts",
    [
        ([0, 2], [2, 4], [5, 9]),  # a gap
        ([2, 4], [0, 2]),  # the other way round
        ([0, 4], [0, 4]),  # twice
    ],
)
def test_other_slices_are(parts: tuple[list[int], ...]) -> None:
    whole = np.arange(12)
    slices = [whole[start:end] for start, end in parts]
    result = gathered(slices).result()
    assert result.tolist() == np.concatenate(slices).tolist()
    assert result.base is not whole


def test_a_table_of_one_buffer_is_no_slice_of_it() -> None:
    buffer = np.arange(24)
    parts = [buffer[:12].reshape(2, 6), buffer[12:].reshape(2, 6)]
    result = gathered(parts, axis=1).result()
    np.testing.assert_array_equal(result, np.concatenate(parts, axis=1))


@pytest.mark.parametrize("room", [0, 3, 20])
@pytest.mark.parametrize("order", ["C", "F"])
def test_tables_grow_and_keep_their_order(room: int, order: str) -> None:
    parts = [np.array(np.arange(4 * n).reshape(4, n), order=order) for n in (3, 0, 5, 1)]
    result = gathered(parts, axis=1, room=room).result()
    np.testing.assert_array_equal(result, np.concatenate(parts, axis=1))
    assert result.flags.f_contiguous or order == "C"
    assert result.flags.c_contiguous or order == "F"


def test_numbers_of_rows_are_counted_on_but_not_those_of_no_row() -> None:
    column = Gathered(dtype=np.int32)
    for part, shift in ((np.array([0, -1]), 0), (np.array([-1, 1]), 7)):
        column.add(part, shift)
    assert column.result().tolist() == [0, -1, -1, 8]
    assert column.result().dtype == np.int32


@pytest.mark.parametrize("block", [7, 16, 99])
def test_blocks_give_what_all_images_do(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    cohort = random_cohort(100, 3, seed=8)
    whole = cal.evaluate(cohort, "coco", ci=False)
    monkeypatch.setattr(collect, "BLOCK", block)
    parts = cal.evaluate(cohort, "coco", ci=False)
    for key, table in whole.evidence.items():
        joint = parts.evidence[key]
        assert isinstance(table, Matches)
        assert isinstance(joint, Matches)
        for name in (*ARRAYS, "prediction_fate", "reference_fate", "prediction_offsets"):
            np.testing.assert_array_equal(getattr(joint, name), getattr(table, name), name)
        for name in ("reference", "prediction", "similarity"):
            np.testing.assert_array_equal(getattr(joint.pairs, name), getattr(table.pairs, name))
    assert [row.estimate.value for row in parts.rows] == [row.estimate.value for row in whole.rows]


def test_a_single_part_is_the_result() -> None:
    cohort = random_cohort(5, 2, seed=1)
    (table,) = cal.evaluate(cohort, "coco", ci=False).evidence.values()
    joint = JointMatches()
    joint.add(table)
    assert joint.result() is table
    assert Matches.concat([table]) is table


def test_evidence_is_in_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of all blocks and the whole, one beside the other, would be twice as much."""
    monkeypatch.setattr(collect, "BLOCK", 100)
    cohort = random_cohort(4000, 3, seed=2, objects=12.0)
    protocol = cal.Protocol.load("coco")
    jobs = collect.jobs_of(cohort, protocol.compile())
    collect.collect(cohort.span(0, 100), jobs)  # loads modules
    tracemalloc.start()
    (table,) = collect.collect(cohort, jobs).values()
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(table, Matches)
    assert table.prediction_fate.place.nbytes > 4 * 20_000
    assert peak < 1.35 * size
    # Not made again, object by object: that would be a second copy of the largest array.
    assert table.prediction_fate.T.flags.c_contiguous
