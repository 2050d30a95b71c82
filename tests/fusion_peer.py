"""ensemble-boxes, loaded with or without numba.

The package imports numba only to compile two functions. Without numba they run as they are
written, slower and with the same results.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def load_ensemble_boxes() -> Any:
    """Return the module, or skip the tests of the file."""
    if importlib.util.find_spec("numba") is None:
        sys.modules["numba"] = _without_compiler()
    try:
        return pytest.importorskip("ensemble_boxes", exc_type=ImportError)
    finally:
        if not hasattr(sys.modules["numba"], "__file__"):
            del sys.modules["numba"]


def _without_compiler() -> ModuleType:
    module = ModuleType("numba")

    def jit(**options: object) -> Callable[[Any], Any]:
        return lambda function: function

    module.jit = jit  # type: ignore[attr-defined]
    return module
