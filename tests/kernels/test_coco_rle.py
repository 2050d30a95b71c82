"""COCO's run lengths: hand values, the slow twin, and every way in which a text can be broken."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import coco_rle, ragged, runs
from mask_cases import random_mask, rows_from_columns
from reference import coco_masks
from seeds import looped


def characters(texts):
    return ragged.from_counts(np.array([len(text) for text in texts], np.int64)), np.frombuffer(
        "".join(texts).encode("latin-1"), np.uint8
    )


def numbers(lists):
    flat = [number for one in lists for number in one]
    return ragged.from_counts(np.array(list(map(len, lists)), np.int64)), np.array(flat, np.int64)


def test_hand_values():
    # 4 x 3 pixels, the middle column: 4 outside, 4 inside, 4 outside.
    offsets, counts = numbers([[4, 4, 4]])
    assert coco_rle.encode_text(offsets, counts)[1].tobytes() == b"444"
    size = np.array([[3, 4]])
    runs = rows_from_columns(coco_rle.column_runs(offsets, counts), size)
    assert [part.tolist() for part in runs] == [[0, 4], [1, 4, 7, 10], [1, 1, 1, 1]]
    assert coco_rle.counts_from_rows(*runs, size)[1].tolist() == [4, 4, 4]


def test_signs_and_differences_by_hand():
    # 16 needs two groups, because the fifth bit is the sign; the fourth count is written as 1 - 3 =
    # -2.
    offsets, counts = numbers([[16, 3, 5, 1]])
    text = coco_rle.encode_text(offsets, counts)[1].tobytes()
    assert text == b"`035N"
    assert coco_rle.decode_text(*characters([text.decode()])).counts.tolist() == [16, 3, 5, 1]


@looped("seed", range(10))
def test_texts_counts_and_runs_against_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    masks = [random_mask(rng) for _ in range(60)]
    size = np.array([mask.shape[::-1] for mask in masks])
    wanted = [coco_masks.counts_of(mask) for mask in masks]
    found = coco_rle.decode_text(*characters([*map(coco_masks.text_of, wanted)]))
    assert found.counts.tolist() == [count for counts in wanted for count in counts]
    assert not found.faults.any()
    assert not coco_rle.count_faults(found.offsets, found.counts, size).any()
    runs = rows_from_columns(coco_rle.column_runs(found.offsets, found.counts), size)
    for k, mask in enumerate(masks):
        mine = slice(runs[0][k], runs[0][k + 1])
        assert list(zip(runs[1][mine].tolist(), runs[2][mine].tolist())) == coco_masks.runs_of(mask)
        assert np.array_equal(coco_masks.mask_of(wanted[k], *mask.shape), mask)
    offsets, counts = coco_rle.counts_from_rows(*runs, size)
    assert counts.tolist() == found.counts.tolist()
    ends, text = coco_rle.encode_text(offsets, counts)
    assert text.tobytes().decode() == "".join(map(coco_masks.text_of, wanted))
    assert (
        ends.tolist() == np.cumsum([0, *(len(coco_masks.text_of(one)) for one in wanted)]).tolist()
    )


def test_large_counts_survive():
    offsets, counts = numbers([[0, 250_000_000, 1, 3, 249_999_999, 1 << 31]])
    ends, text = coco_rle.encode_text(offsets, counts)
    found = coco_rle.decode_text(ends, text)
    assert (found.counts.tolist(), found.faults.tolist()) == (counts.tolist(), [coco_rle.SOUND])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("444", coco_rle.SOUND),
        ("", coco_rle.SOUND),
        ("1 3 10 5", coco_rle.BAD_SIGN),
        ("44p", coco_rle.BAD_SIGN),
        ("44\xff", coco_rle.BAD_SIGN),
        ("44o", coco_rle.UNFINISHED),
        ("o" * 8 + "0", coco_rle.TOO_LONG),
        ("o" * 70 + "0", coco_rle.TOO_LONG),
    ],
)
def test_broken_texts_have_a_fault_and_leave_their_neighbours_alone(text, fault):
    found = coco_rle.decode_text(*characters(["444", text, "444"]))
    assert found.faults.tolist() == [coco_rle.SOUND, fault, coco_rle.SOUND]
    mine = [found.counts[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:])]
    assert mine == [[4, 4, 4], [4, 4, 4] if text == "444" else [], [4, 4, 4]]


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        ([4, 4, 4], coco_rle.SOUND),
        ([12], coco_rle.SOUND),
        ([0, 12], coco_rle.SOUND),
        ([4, 4, 3], coco_rle.SHORT),
        ([], coco_rle.SHORT),
        ([4, 4, 5], coco_rle.LONG),
        ([4, 9, -1], coco_rle.NEGATIVE),
        ([1 << 40] * 9, coco_rle.LONG),
    ],
)
def test_counts_must_fill_their_picture(counts, fault):
    offsets, flat = numbers([[12], counts])
    assert coco_rle.count_faults(offsets, flat, np.array([[3, 4], [3, 4]])).tolist() == [
        coco_rle.SOUND,
        fault,
    ]


def test_nothing_at_all():
    nothing, none = np.zeros(0, np.int64), np.zeros(1, np.int64)
    size = np.zeros((0, 2), np.int64)
    assert coco_rle.decode_text(none, np.zeros(0, np.uint8)).counts.tolist() == []
    assert coco_rle.column_runs(none, nothing)[1].tolist() == []
    assert [part.tolist() for part in runs.turned(none, nothing, nothing, size)] == [
        [0],
        [],
        [],
    ]
    assert coco_rle.counts_from_rows(none, nothing, nothing, size)[1].tolist() == []


def test_an_empty_mask_is_one_count():
    none = np.zeros(2, np.int64)
    counts = coco_rle.counts_from_rows(none, none[:0], none[:0], np.array([[3, 4]]))
    assert counts[1].tolist() == [12]


def test_batches_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    masks = [random_mask(rng) for _ in range(40)]
    size = np.array([mask.shape[::-1] for mask in masks])
    columns = coco_rle.column_runs(*numbers([coco_masks.counts_of(mask) for mask in masks]))
    whole = rows_from_columns(columns, size)
    monkeypatch.setattr(runs, "BATCH", 7)
    assert all(np.array_equal(a, b) for a, b in zip(whole, rows_from_columns(columns, size)))


def test_the_number_of_runs_is_known_before_they_are_made():
    rng = np.random.default_rng(6)
    masks = [random_mask(rng) for _ in range(40)]
    columns = coco_rle.column_runs(*numbers([coco_masks.counts_of(mask) for mask in masks]))
    turn = runs.Turn.of(*columns, np.array([mask.shape for mask in masks]))
    assert turn.counts.tolist() == [len(coco_masks.runs_of(mask)) for mask in masks]
