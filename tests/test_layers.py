"""The architecture as a test: a module imports only from lower layers.

Names of objects as text, ``"calipers.module:object"``, count as imports: they are imported later.
Only two kinds may name something above them: a result class, which says what draws it, and
`calipers.registry`, whose content such names are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import calipers
from source_trees import nodes_of, walk_of

SOURCE = Path(calipers.__file__).parent

# Bottom to top. Packages and modules on one line do not import each other.
LAYERS = (
    ("errors", "arrays"),
    ("arguments",),
    ("kernels", "registry", "results"),
    ("data", "engine"),
    ("io", "matching"),
    ("metrics", "show", "heatmaps", "synthetic"),
    ("statistics", "oracles", "doctor"),
    ("evaluation", "regression", "agreement"),
    ("maps", "pictures", "sensitivity", "fusion"),
    ("monitors", "stability"),
    ("report",),
    ("training", "validation"),
    ("studies",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# A result draws itself: this module resolves the names, and knows what comes out by its type.
DOCUMENT = "results/document.py"
NAMES_OTHERS = (DOCUMENT, "registry.py")
LINK = re.compile(r"(calipers(?:\.\w+)+):\w+")


class Import(NamedTuple):
    file: str
    line: int
    importer: str  # first name below calipers: a module or a package
    imported: str
    inside: bool  # inside a function, or for types only: nothing is loaded with the module
    linked: bool = False  # a name as text in a result class, which says what draws it


def _parts() -> list[str]:
    """The modules and packages right below calipers."""
    modules = {file.stem for file in SOURCE.glob("*.py")} - {"__init__"}
    packages = {
        folder.name for folder in SOURCE.iterdir() if folder.is_dir() and any(folder.rglob("*.py"))
    }
    return sorted(modules | packages)


def _targets(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names that an import statement reaches, absolute."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        origin = ".".join([*base, *([node.module] if node.module else [])])
        if origin == "calipers":
            yield from (f"calipers.{alias.name}" for alias in node.names)
        else:
            yield origin


def _imports(file: Path) -> Iterator[Import]:
    """Every import of a part of calipers in a file, wherever it stands."""
    relative = file.relative_to(SOURCE)
    importer = relative.parts[0].removesuffix(".py")
    package = ("calipers", *relative.parts[:-1])
    for node, inside in walk_of(file).imports:
        for target in _targets(node, package):
            names = target.split(".")
            if names[0] == "calipers":
                imported = names[1] if len(names) > 1 else "calipers"
                yield Import(str(relative), node.lineno, importer, imported, inside)


def _links(file: Path) -> Iterator[Import]:
    """Every name of an object as text in a file, outside of docstrings."""
    relative = file.relative_to(SOURCE)
    importer = relative.parts[0].removesuffix(".py")
    drawing = set()
    for node in nodes_of(file, ast.ClassDef):
        if "Document" in map(ast.unparse, node.bases):
            drawing |= {id(part) for statement in node.body for part in ast.walk(statement)}
    for node in nodes_of(file, ast.Constant):
        link = isinstance(node.value, str) and LINK.fullmatch(node.value)
        if link:
            imported = link[1].split(".")[1]
            yield Import(str(relative), node.lineno, importer, imported, True, id(node) in drawing)


def _allowed(statement: Import) -> bool:
    importer, imported = statement.importer, statement.imported
    if imported in (importer, "__version__"):
        return True
    if statement.linked or (statement.file in NAMES_OTHERS and statement.inside):
        return True
    if importer not in LEVEL or imported not in LEVEL:
        return False
    return LEVEL[imported] < LEVEL[importer]


def test_every_module_has_a_layer() -> None:
    unlisted = [name for name in _parts() if name not in LEVEL]
    assert not unlisted, f"put {unlisted} into LAYERS of this test, above everything they import"


def test_every_layer_exists_and_is_in_the_drawing() -> None:
    assert not sorted(set(LEVEL) - set(_parts())), "no such package: take it out of LAYERS"
    page = (SOURCE.parent.parent / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    drawing = re.search(r"```text\n top (.*?) bottom (.*?)```", page, re.DOTALL)
    assert drawing is not None
    rows = [line.split() for line in "".join(drawing.groups()).splitlines() if line.strip()]
    drawn = [set(names) for names in reversed(rows)]
    assert drawn == [set(names) for names in LAYERS if names != ("__main__",)]


@pytest.mark.parametrize("part", _parts())
def test_imports_go_down(part: str) -> None:
    files = (
        [SOURCE / f"{part}.py"]
        if (SOURCE / f"{part}.py").exists()
        else sorted((SOURCE / part).rglob("*.py"))
    )
    statements = [found for file in files for found in (*_imports(file), *_links(file))]
    wrong = [found for found in statements if not _allowed(found)]
    said = [f"{found.file}:{found.line} imports calipers.{found.imported}" for found in wrong]
    assert not said, "\n".join(said)


def test_public_surface_is_lazy() -> None:
    """`import calipers` itself runs no import of a part of calipers at module level."""
    eager = [
        target
        for node, inside in walk_of(SOURCE / "__init__.py").imports
        if not inside
        for target in _targets(node, ("calipers",))
        if target.startswith("calipers.")
    ]
    assert not eager


@pytest.mark.parametrize(
    ("importer", "imported", "inside", "allowed"),
    [
        ("data", "kernels", False, True),
        ("kernels", "data", True, False),
        ("io", "matching", False, False),
        ("metrics", "results", False, True),
        ("results", "errors", False, True),
        ("results", "data", True, False),
        ("evaluation", "report", True, False),
        ("evaluation", "report", False, False),
        ("metrics", "somewhere_new", False, False),
    ],
)
def test_the_rule_itself(importer: str, imported: str, inside: bool, allowed: bool) -> None:
    assert _allowed(Import("file.py", 1, importer, imported, inside)) is allowed


def test_only_results_and_the_registry_name_what_is_above() -> None:
    drawn = Import("evaluation/result.py", 1, "evaluation", "report", True, linked=True)
    assert _allowed(drawn)
    assert not _allowed(drawn._replace(linked=False))
    assert _allowed(Import(DOCUMENT, 1, "results", "show", True))
    assert not _allowed(Import(DOCUMENT, 1, "results", "show", False))


def test_names_as_text_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "one.py"
    file.write_text(
        'PAGE = "calipers.report.page:write"\n'
        'class Result(Document):\n    """calipers.io.a:b"""\n'
        '    PAGE = "calipers.report.page:write"\n'
    )
    assert [(found.line, found.imported, found.linked) for found in _links(file)] == [
        (1, "report", False),
        (3, "io", True),
        (4, "report", True),
    ]


def test_imports_are_seen_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "one.py"
    file.write_text(
        "import numpy\nimport calipers.kernels.ragged\nfrom calipers import errors\n"
        "from . import two\n"
        "from ..io import coco\ndef f():\n    from calipers.report.build import page\n"
    )
    assert [(found.imported, found.inside) for found in _imports(file)] == [
        ("kernels", False),
        ("errors", False),
        ("data", False),
        ("io", False),
        ("report", True),
    ]
