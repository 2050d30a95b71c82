"""Python files as syntax trees, parsed and walked once for all tests that read the sources."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class Walk:
    """What one walk through a tree finds; tests read from here what they need."""

    by_kind: defaultdict[type[ast.AST], list[ast.AST]] = field(
        default_factory=lambda: defaultdict(list)
    )
    # Imports, and whether they are inside a function or for types only.
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]] = field(default_factory=list)
    nested: list[int] = field(default_factory=list)  # lines of comprehensions that hold another
    double: list[int] = field(default_factory=list)  # lines of statements with two conditions


@cache
def tree_of(file: Path) -> ast.Module:
    return _parsed(file.read_text(encoding="utf-8"))


def nodes_of(file: Path, *kinds: type[Node]) -> list[Node]:
    """Return the nodes of some kinds in a file. Its tree has thousands and is walked once."""
    by_kind = walk_of(file).by_kind
    nodes = []
    for kind in kinds:
        nodes += by_kind[kind]
    return nodes


@cache
def walk_of(file: Path) -> Walk:
    return walked(tree_of(file))


def walked(tree: ast.AST) -> Walk:
    """Walk through a tree: every node knows its statement, the comprehension around it, and whether
    it is loaded with the module.
    """
    walk = Walk()
    conditions: defaultdict[int, int] = defaultdict(int)
    holders: dict[int, int] = {}
    # A node, its statement, the comprehension around it, and whether it is inside a function.
    waiting: deque[tuple[ast.AST, ast.AST | None, ast.AST | None, bool]] = deque()
    waiting.append((tree, None, None, False))
    while waiting:
        node, statement, comprehension, inside = waiting.popleft()
        kind = type(node)
        walk.by_kind[kind].append(node)
        if isinstance(node, ast.stmt):
            statement = node
            if kind in (ast.Import, ast.ImportFrom):
                walk.imports.append((node, inside))  # type: ignore[arg-type]
        if kind is ast.IfExp:
            conditions[id(statement)] += 1
            if statement is not None and conditions[id(statement)] == 2:
                walk.double.append(statement.lineno)  # type: ignore[attr-defined]
        elif kind in COMPREHENSIONS:
            if comprehension is not None:
                holders[id(comprehension)] = comprehension.lineno  # type: ignore[attr-defined]
            comprehension = node
        inside = inside or kind in FUNCTIONS or is_type_checking(node)
        for name in node._fields:
            value = getattr(node, name, None)
            children = value if isinstance(value, list) else [value]
            for child in children:
                if isinstance(child, ast.AST):
                    waiting.append((child, statement, comprehension, inside))
    walk.nested = list(holders.values())
    walk.imports.sort(key=lambda place: place[0].lineno)
    return walk


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _parsed(text: str) -> ast.Module:
    """Parse without looking for garbage: a tree is thousands of objects that all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()
