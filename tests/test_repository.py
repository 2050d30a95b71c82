"""Habits that no linter checks: sizes of files and functions, headers, words that must not be
there.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES = 800
FUNCTION_LINES = 80
SPDX = "# SPDX-License-Identifier: Apache-2.0"
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)(?![\w.-])")
TEXT = {
    ".py",
    ".pyi",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".cff",
    ".txt",
    ".cpp",
    ".h",
    ".html",
    ".css",
    ".js",
    ".json",
}


def _tracked() -> list[Path]:
    """The files under version control; outside a checkout, the folders that hold our own files."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        names = [name for name in listed.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = [ROOT / name for name in ("src", "tests", "benchmarks", "docs", "examples")]
        names = [str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*")]
    return [ROOT / name for name in sorted(names) if (ROOT / name).is_file()]


TRACKED = _tracked()
PYTHON = [file for file in TRACKED if file.suffix == ".py"]
LIBRARY = sorted((ROOT / "src").rglob("*.py"))
WRITTEN = [file for file in TRACKED if file.suffix in TEXT or file.name in ("Makefile", "run")]


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, the docstring not counted."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def _lines_with(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{_name(file)}:{number}: {line.strip()[:80]}"
        for file in files
        for number, line in enumerate(
            file.read_text(encoding="utf-8", errors="replace").splitlines(), 1
        )
        if pattern.search(line)
    ]


def test_files_are_short() -> None:
    lengths = {
        _name(file): len(file.read_text(encoding="utf-8").splitlines())
        for file in {*PYTHON, *LIBRARY}
    }
    assert not {name: n for name, n in lengths.items() if n > FILE_LINES}


def test_functions_are_short() -> None:
    long = {}
    for file in {*PYTHON, *LIBRARY}:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and _function_lines(node) > FUNCTION_LINES
            ):
                long[f"{_name(file)}:{node.lineno} {node.name}"] = _function_lines(node)
    assert not long


def test_docstring_lines_do_not_count() -> None:
    node = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').body[0]
    assert isinstance(node, ast.FunctionDef)
    assert _function_lines(node) == 2


def test_sources_name_their_licence() -> None:
    bare = [
        _name(file)
        for file in LIBRARY
        if not file.read_text(encoding="utf-8").startswith(SPDX + "\n")
    ]
    assert not bare


def test_the_library_never_prints() -> None:
    printing = []
    for file in LIBRARY:
        if "cli" in file.relative_to(ROOT / "src" / "calipers").parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ):
                printing.append(f"{_name(file)}:{node.lineno}")
    assert not printing


def test_nothing_is_left_unfinished() -> None:
    assert not _lines_with(UNFINISHED, WRITTEN)


def test_no_paths_of_one_machine() -> None:
    assert not _lines_with(MACHINE_PATH, WRITTEN)


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("open('" + "/ro" + "ot/x')", True),
        ("cd " + "/wo" + "rk", True),
        ("https://example.org/work/it", False),
        ("src/work", False),
        ("{/workers}", False),
    ],
)
def test_what_counts_as_a_machine_path(line: str, bad: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is bad


def test_every_dependency_says_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[\[<>=!~; ]", name)[0] for name in wanted} - {"calipers"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert not {
        name for name in names if not re.search(rf"\| [^|]*\b{re.escape(name)}\b[^|]* \|", page)
    }


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    targets = re.search(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert targets is not None
    assert listed == targets[1].split()
