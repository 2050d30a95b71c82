"""Python files as syntax trees, parsed once for all tests that read the sources."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
