"""Seeds and kinds of random data, of which a run by default takes some and `make test-slow` the
rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def seeds(n: int, *, default: int) -> list[Any]:
    """Return n seeds for `parametrize`, those from ``default`` on marked as slow.

    For comparisons in which the peer takes nearly all of the time, and where a further seed of the
    same kind has not told anything new. A test that uses it says what the peer costs.
    """
    assert 0 < default < n
    later = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(default, n)]
    return [*range(default), *later]


def batches(n: int, *, default: int) -> list[Any]:
    """Return two batches of n seeds for `parametrize`, the second marked as slow: for tests that
    compare many small sets in a loop.
    """
    assert 0 < default < n
    rest = pytest.param(range(default, n), marks=pytest.mark.slow, id=f"further {n - default}")
    return [pytest.param(range(default), id=f"first {default}"), rest]


def in_turn(cases: Iterable[Any], kinds: Iterable[Any], *, default: int) -> list[Any]:
    """Return every pair of a case and a kind for `parametrize`; by default a case meets ``default``
    kinds, the next case the kinds after these, and so on; other pairs are marked as slow.

    For properties of many cases on many kinds of data: every case and every kind is seen in every
    run, and neighbours in the list of cases, which are alike, together see all kinds.
    """
    kinds = list(kinds)
    assert 0 < default < len(kinds)
    pairs = []
    for number, case in enumerate(cases):
        for place, kind in enumerate(kinds):
            is_due = (place - number * default) % len(kinds) < default
            marks = [] if is_due else [pytest.mark.slow]
            pairs.append(pytest.param(case, kind, marks=marks, id=f"{case}-{kind}"))
    return pairs
