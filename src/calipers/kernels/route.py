# SPDX-License-Identifier: Apache-2.0
"""Which route the kernels take: compiled twins if they were built, else NumPy. Both give the same
bits.

``CALIPERS_NATIVE=0`` turns the twins off, ``CALIPERS_THREADS=n`` sets their threads (default: the
cores at hand).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

MOST_THREADS = 1024

# What the twins must offer. A module that was built before one of them existed is stale: NumPy is
# used instead.
TWINS = (
    "average_precision",
    "cell_totals",
    "common_voxels",
    "count_draws",
    "decide",
    "error_types",
    "group_runs",
    "intersections",
    "joint_counts",
    "kendall_pairs",
    "lane_tally",
    "overlapping",
    "ranking",
    "ranks",
    "replicate_hits",
    "replicate_precision",
    "rodeo_paths",
    "rodeo_tally",
    "row_kinds",
    "row_places",
    "run_borders",
    "run_boxes",
    "run_centroids",
    "run_components",
    "runs_between",
    "totals",
    "transpose",
    "voxel_bins",
    "voxel_histogram",
    "voxel_pooled",
    "voxel_split",
    "voxel_walk",
)

_forced: list[str] = []


def native() -> ModuleType | None:
    """Return the compiled twins, or None if the NumPy route is in use."""
    if _forced:
        return _built() if _forced[-1] == "native" else None
    return None if os.environ.get("CALIPERS_NATIVE") == "0" else _built()


def threads() -> int:
    """Return how many threads the twins may use."""
    setting = os.environ.get("CALIPERS_THREADS", "")
    return min(max(1, int(setting)), MOST_THREADS) if setting.isdecimal() else _cores()


def describe() -> str:
    """Return the route in words, for ``calipers --version``."""
    if native() is not None:
        return "kernels: native"
    if os.environ.get("CALIPERS_NATIVE") == "0":
        return "kernels: NumPy, the native ones are turned off by CALIPERS_NATIVE=0"
    if missing():
        names = ", ".join(missing()[:3])
        if len(missing()) > 3:
            names += ", ..."
        return (
            "kernels: NumPy, the native ones are of an older version "
            f"(without {names}): install or build again"
        )
    return "kernels: NumPy, the native ones were not built (no C++ compiler at installation)"


def missing() -> tuple[str, ...]:
    """Return the twins that a built module lacks, because it is older than this code; nothing if
    none was built.
    """
    module = _imported()
    if module is None:
        return ()
    return tuple(name for name in TWINS if not hasattr(module, name))


@contextmanager
def forced(route: str) -> Iterator[None]:
    """Force one route, "numpy" or "native", for tests and benchmarks."""
    _forced.append(route)
    try:
        yield
    finally:
        _forced.pop()


_cache: list[ModuleType | None] = []  # what was built, if anything
_whole: list[ModuleType | None] = []  # the same if it can be used


def _built() -> ModuleType | None:
    """Return the compiled twins if there are all of them."""
    if not _whole:
        _whole.append(None if missing() else _imported())
    return _whole[0]


def _imported() -> ModuleType | None:
    if not _cache:
        try:
            _cache.append(import_module("calipers.kernels._native"))
        except ImportError:
            _cache.append(None)
    return _cache[0]


def _cores() -> int:
    """Return the cores that this process may use; on a shared machine that may not be all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
