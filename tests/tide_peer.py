"""tidecv without what it draws and downloads with: the peers of the tests are installed without
their dependencies.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from unittest.mock import MagicMock

import pytest

DRAWING = (
    "cv2",
    "seaborn",
    "appdirs",
)  # imported at the top of its files, used by nothing that computes


def load_tidecv() -> ModuleType:
    """Return tidecv, or skip; modules that only draw are stand-ins while it is imported, if they
    are missing.
    """
    if importlib.util.find_spec("tidecv") is None:
        pytest.skip("tidecv is not installed", allow_module_level=True)
    missing = [
        name
        for name in DRAWING
        if name not in sys.modules and importlib.util.find_spec(name) is None
    ]
    sys.modules.update({name: MagicMock() for name in missing})
    try:
        return importlib.import_module("tidecv")
    finally:
        for name in missing:
            del sys.modules[name]
