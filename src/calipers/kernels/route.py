# SPDX-License-Identifier: Apache-2.0
"""Which route the kernels take: compiled twins if they were built, else NumPy. Both give the same bits.

``CALIPERS_NATIVE=0`` turns the twins off, ``CALIPERS_THREADS=n`` sets their threads (default: the cores at hand).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

MOST_THREADS = 1024

_forced: list[str] = []


def native() -> ModuleType | None:
    """Return the compiled twins, or None if the NumPy route is in use."""
    wanted = _forced[-1] if _forced else ("numpy" if os.environ.get("CALIPERS_NATIVE") == "0" else "native")
    return _built() if wanted == "native" else None


def threads() -> int:
    """Return how many threads the twins may use."""
    given = os.environ.get("CALIPERS_THREADS", "")
    return min(max(1, int(given)), MOST_THREADS) if given.isdecimal() else _cores()


def describe() -> str:
    """Return the route in words, for ``calipers --version``."""
    if native() is not None:
        return "kernels: native"
    if os.environ.get("CALIPERS_NATIVE") == "0":
        return "kernels: NumPy, the native ones are turned off by CALIPERS_NATIVE=0"
    return "kernels: NumPy, the native ones were not built (no C++ compiler at installation)"


@contextmanager
def forced(route: str) -> Iterator[None]:
    """Take one route, "numpy" or "native", whatever the environment says. For tests and benchmarks."""
    _forced.append(route)
    try:
        yield
    finally:
        _forced.pop()


_cache: list[ModuleType | None] = []


def _built() -> ModuleType | None:
    if not _cache:
        try:
            _cache.append(import_module("calipers.kernels._native"))
        except ImportError:
            _cache.append(None)
    return _cache[0]


def _cores() -> int:
    """Return the cores that this process may use, which on a shared machine are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
