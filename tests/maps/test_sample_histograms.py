"""Histograms gathered one after the other: all of them, in order,
and none larger than it may be.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from calipers.maps.examine import GatheredHistograms, SampleHistogram, count_voxels


def random_histogram(seed: int) -> SampleHistogram:
    random = np.random.default_rng(seed)
    return count_voxels(random.random((20, 20)), random.random((20, 20)) < 0.2)


def test_nothing_gathered_is_no_histogram() -> None:
    found = GatheredHistograms().settled()
    assert (found.offsets.tolist(), len(found.bin)) == ([0], 0)


def test_samples_stay_in_order_and_asking_changes_nothing() -> None:
    parts = [random_histogram(seed) for seed in range(4)]
    at_once, in_steps = GatheredHistograms(), GatheredHistograms()
    for part in parts:
        at_once.add(part)
        in_steps.add(part)
        in_steps.settled()
    found, other = at_once.settled(), in_steps.settled()
    assert np.diff(found.offsets).tolist() == [len(part.bin) for part in parts]
    assert found.positives.tolist() == [n for part in parts for n in part.positives.tolist()]
    for name in ("offsets", "bin", "positives", "negatives", "overlap", "lowest", "highest"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


def test_no_voxel_is_lost_where_bins_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.maps.examine.MOST_ENTRIES", 200)
    gathered = GatheredHistograms()
    for seed in range(5):
        gathered.add(random_histogram(seed))
    found = gathered.settled()
    assert len(found.bin) <= 100
    assert int(found.positives.sum() + found.negatives.sum()) == 5 * 400


@pytest.mark.parametrize("waiting", [0, 500, 1000])
def test_joining_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    at_once, in_steps = GatheredHistograms(), GatheredHistograms()
    for seed in range(6):
        at_once.add(random_histogram(seed))
    monkeypatch.setattr("calipers.maps.examine.MOST_WAITING", waiting)
    for seed in range(6):
        in_steps.add(random_histogram(seed))
    found, other = at_once.settled(), in_steps.settled()
    for name in ("offsets", "bin", "positives", "negatives", "overlap", "lowest", "highest"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


def test_many_samples_do_not_wait_with_their_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.maps.examine.MOST_WAITING", 200_000)
    random = np.random.default_rng(0)
    n, gathered = 2_000_000, GatheredHistograms()
    tracemalloc.start()
    while gathered._entries < n:
        gathered.add(count_voxels(random.random((200, 200)), random.random((200, 200)) < 0.2))
    gathered.settled()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A bin has 28 bytes, and twice that while all are put together; with its extremes it has 44.
    assert peak < 75 * n
