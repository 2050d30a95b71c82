"""What an evaluation of maps is expected to take, from the headers of its files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.maps import BINS
from calipers.maps import plan
from calipers.maps.plan import ENTRY_BYTES, HEADER_BYTES, cost_of


def samples(n: int, shape: tuple[int, ...], models: tuple[str, ...] = ("ours",)) -> list[Any]:
    labels = SimpleNamespace(shape=shape, dtype=np.dtype(np.uint8), bytes=1)
    maps = dict.fromkeys(models, SimpleNamespace(dtype=np.dtype(np.float32), bytes=4))
    files = [labels, *maps.values()]
    sample = SimpleNamespace(name="s", labels=labels, maps=maps, files=lambda: files)
    return [sample] * n


def memory(*what: Any) -> int:
    return cost_of(samples(*what), cal.Protocol.load("anomaly")).memory(1)


def test_memory_grows_with_samples_and_models_until_bins_are_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = memory(100, (64, 64)), memory(600, (64, 64))
    assert many - few == 500 * (64 * 64 * ENTRY_BYTES + 2 * HEADER_BYTES)
    both = memory(600, (64, 64), ("ours", "theirs"))
    # The second model also is a file of four more bytes per voxel, of one sample at a time.
    assert both - many == 600 * (64 * 64 * ENTRY_BYTES + HEADER_BYTES) + 4 * 64 * 64
    monkeypatch.setattr(plan, "MOST_ENTRIES", 200 * 64 * 64)
    assert memory(600, (64, 64)) - memory(300, (64, 64)) == 600 * HEADER_BYTES


def test_a_volume_has_no_more_bins_than_there_are() -> None:
    further = memory(3, (256, 256, 256)) - memory(2, (256, 256, 256))
    assert further == BINS * ENTRY_BYTES + 2 * HEADER_BYTES


def test_many_samples_share_blocks() -> None:
    protocol = cal.Protocol.load("anomaly")
    assert cost_of(samples(9, (8, 8)), protocol).n_blocks == 9
    assert cost_of(samples(40_001, (8, 8)), protocol).n_blocks == 10_001
