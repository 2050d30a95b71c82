"""Columns of arrow that are made without an object of Python for every row."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from calipers.io.tables import arrow


@pytest.mark.parametrize("name", ["", "ours", "naïve 数"])
@pytest.mark.parametrize("n", [0, 1, 10])
def test_a_constant_column_is_one_of_codes(name, n, monkeypatch):
    monkeypatch.setattr(arrow, "CHUNK", 16)  # bytes: several chunks
    column = arrow.constant_column(name, n)
    assert column.to_pylist() == [name] * n
    assert column.equals(arrow.text_column_of([name], np.zeros(n, np.int64)))
    column.validate(full=True)


def test_a_constant_column_takes_room_for_its_text_only():
    arrow.constant_column("model", 1)  # imports
    tracemalloc.start()
    arrow.constant_column("model", 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
