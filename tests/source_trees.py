"""Python files as syntax trees, parsed once for all tests that read the sources."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def nodes_of(file: Path, *kinds: type[Node]) -> list[Node]:
    """Return the nodes of some kinds in a file. Its tree has thousands and is walked once."""
    by_kind = _by_kind(file)
    nodes = []
    for kind in kinds:
        nodes += by_kind[kind]
    return nodes


@cache
def _by_kind(file: Path) -> defaultdict[type[ast.AST], list[ast.AST]]:
    by_kind = defaultdict(list)
    for node in ast.walk(tree_of(file)):
        by_kind[type(node)].append(node)
    return by_kind
