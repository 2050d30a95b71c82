"""Which kernels are used: a compiled module that is older than the code is not."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calipers.kernels import ranks, route


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module from before kernels of pairs existed."""
    old = ModuleType("calipers.kernels._native")
    for name in route.TWINS:
        if name not in ("joint_counts", "kendall_pairs", "row_places"):
            setattr(old, name, None)
    monkeypatch.setattr(route, "_cache", [old])
    monkeypatch.setattr(route, "_whole", [])
    monkeypatch.delenv("CALIPERS_NATIVE", raising=False)


def test_the_list_of_twins_is_what_the_code_calls() -> None:
    called = set[str]()
    for file in Path(route.__file__).parent.glob("*.py"):
        called |= set(re.findall(r"\bnative\.(\w+)\(", file.read_text(encoding="utf-8")))
    assert set(route.TWINS) == called


@pytest.mark.usefixtures("stale")
def test_a_stale_module_is_not_used_and_that_is_said() -> None:
    assert route.native() is None
    assert "older version (without joint_counts, kendall_pairs, row_places)" in route.describe()
    ones, _, _ = ranks.joint_counts(np.array([[0.1, 0.9], [0.8, 0.9]]), np.array([0.5]))
    assert ones.tolist() == [[1, 2]]


def test_without_a_module_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_cache", [None])
    monkeypatch.setattr(route, "_whole", [])
    monkeypatch.delenv("CALIPERS_NATIVE", raising=False)
    assert route.missing() == ()
    assert "were not built" in route.describe()
