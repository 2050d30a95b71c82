"""Seeds of random data, of which a run by default takes the first and `make test-slow` the rest."""

from __future__ import annotations

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
