"""Habits that no linter checks: names, density and sizes in the library, headers, words that must
not be there.

CONTRIBUTING.md says why; each message here says what to do.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from source_trees import Walk, nodes_of, walk_of, walked

ROOT = Path(__file__).parent.parent
MOST_LINES = 800
FEWEST_LINES = 80
MOST_FILES = 17
SPDX = "# SPDX-License-Identifier: Apache-2.0"
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
# What git leaves in a file that it could not merge; a line of `=` alone may be a heading.
CONFLICT = re.compile(rb"^(?:<{7}|>{7}|[|]{7})(?: |\r?$)", re.MULTILINE)
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


# A file below 80 lines needs a reason.
SHORT_FILES = {
    "io/coco/plugin.py": "recognising COCO must not load its reader",
    "io/tables/nih.py": "a format is one file",
    "io/lists/deep_lesion.py": "a format is one file",
    "io/lists/node21.py": "a format is one file",
    "io/lists/rsna.py": "a format is one file",
    "__main__.py": "`python -m calipers`",
    "evaluation/catalogue.py": "the table of all figures by name, without what draws them",
    "matching/suppress.py": "one rule: non-maximum suppression on tables",
    "regression/words.py": "a role: how the feature says its numbers",
}

# File names that repeat by design, so that who knows one feature knows all.
ROLES = {
    "read": "files to data",
    "files": "names and kinds of the files of a feature",
    "labels": "what is right for each unit",
    "evidence": "data to what is counted, per unit",
    "metrics": "evidence and weights to values",
    "scores": "evidence and weights to values, of one kind",
    "estimates": "values with their intervals",
    "evaluate": "the whole flow of a feature",
    "result": "what a feature returns",
    "tables": "a result as tables",
    "figures": "a result as figures",
    "words": "a result in sentences",
    "page": "a result as HTML",
    "plan": "what a run will do, before it does it",
    "archive": "what a study keeps of the networks that were trained for it",
    "study": "a study: its parts in order",
    "data": "a study: what it runs on",
    "experiments": "a study: what it runs",
    "claims": "a study: what it says, as data that is checked",
}
# The same kind of data in each package that handles it.
KINDS = {"bags", "boxes", "cohort", "columns", "maps", "masks", "objects", "table"}
# A package beside others: `cli/compare` is the verb, `kernels/ranks` the arithmetic, `results/...`
# the plain data of what another package does, and `show/mpl` draws what `show/svg` draws.
TWINS = {"cli", "kernels", "results", "show/mpl"}

# Participles say what happened to a thing, not what the thing is.
PARTICIPLES = frozenset(
    """
    answered asked bought brought built called chosen climbed come counted delivered demanded done
    drawn felt found given gone got had held heard kept knew known laid led lent looked made
    meant met noted paid pressed promised put said seen sent shown spoken stood stuck tabled
    taken taught thought threatened told took wanted went written
    """.split()  # noqa: SIM905
)


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _in_package(file: Path) -> str:
    return file.relative_to(ROOT / "src" / "calipers").as_posix()


@cache
def _n_lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def _listed(advice: str, places: list[str]) -> str:
    return "\n".join([advice, *places])


def _lines_with(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{_name(file)}:{number}: {line.strip()[:80]}"
        for file in files
        for number, line in enumerate(
            file.read_text(encoding="utf-8", errors="replace").splitlines(), 1
        )
        if pattern.search(line)
    ]


def _participles(walk: Walk) -> list[tuple[int, str]]:
    """Variables, parameters and attributes, where they get their value, that are participles."""
    bound = [(node.lineno, node.arg) for node in walk.by_kind[ast.arg]]
    bound += [(node.lineno, node.id) for node in walk.by_kind[ast.Name] if _is_stored(node)]
    bound += [(node.lineno, node.attr) for node in walk.by_kind[ast.Attribute] if _is_stored(node)]
    return [(line, name) for line, name in bound if name.strip("_") in PARTICIPLES]


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node.ctx, ast.Store)  # type: ignore[attr-defined]


def test_no_comprehension_in_another() -> None:
    nested = [f"{_name(file)}:{line}" for file in LIBRARY for line in walk_of(file).nested]
    assert not nested, _listed("write the outer one as a loop, or name the inner one", nested)


def test_one_conditional_expression_in_a_statement() -> None:
    double = [f"{_name(file)}:{line}" for file in LIBRARY for line in walk_of(file).double]
    assert not double, _listed("write `if`, or give the first one a name", double)


def test_names_are_nouns() -> None:
    bare = [
        f"{_name(file)}:{line} {name}"
        for file in LIBRARY
        for line, name in _participles(walk_of(file))
    ]
    assert not bare, _listed("say what the thing is: `rows`, `matches`, `options`, `text`", bare)


@pytest.mark.parametrize(
    ("source", "nested", "double", "participles"),
    [
        ("x = [[i for i in j] for j in y]", 1, 0, 0),
        ("x = [f(i) for i in {j for j in y}]", 1, 0, 0),
        ("x = [i for j in y for i in j]", 0, 0, 0),
        ("x = 1 if a else 2 if b else 3", 0, 1, 0),
        ("x = (1 if a else 2, 3 if b else 4)", 0, 1, 0),
        ("if 1 if a else 2:\n    x = 3 if b else 4", 0, 0, 0),
        ("def f(given, *, shown=1):\n    self.held = _found = 1", 0, 0, 4),
        ("found_rows = rows.found", 0, 0, 0),
    ],
)
def test_what_counts_as_dense(source: str, nested: int, double: int, participles: int) -> None:
    walk = walked(ast.parse(source))
    assert len(walk.nested) == nested
    assert len(walk.double) == double
    assert len(_participles(walk)) == participles


def test_a_class_name_exists_once() -> None:
    places = defaultdict(list)
    for file in LIBRARY:
        for node in nodes_of(file, ast.ClassDef):
            places[node.name].append(f"{_name(file)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice


def test_a_file_name_exists_once() -> None:
    places = defaultdict(list)
    for file in LIBRARY:
        folder, name = file.parent, file.stem
        repeats = name == "__init__" or name in ROLES or name in KINDS
        if not repeats and _in_package(folder) not in TWINS:
            places[name].append(_in_package(file))
    twice = [" ".join(files) for files in places.values() if len(files) > 1]
    assert not twice, _listed("a file has a name of its own, but for the ROLES", twice)


def test_files_are_neither_long_nor_short() -> None:
    library = [file for file in LIBRARY if file.name != "__init__.py"]
    long = {_name(file): _n_lines(file) for file in {*PYTHON, *LIBRARY}}
    assert not {name: n for name, n in long.items() if n > MOST_LINES}
    short = {_in_package(file) for file in library if _n_lines(file) < FEWEST_LINES}
    assert not short - set(SHORT_FILES), "put it where it belongs, or give a reason in SHORT_FILES"
    assert not set(SHORT_FILES) - short, "no longer short: take it off the list"


def test_a_folder_fits_in_the_head() -> None:
    files = Counter(_in_package(file.parent) for file in LIBRARY if file.name != "__init__.py")
    assert not {folder: n for folder, n in files.items() if n > MOST_FILES}


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
        for node in nodes_of(file, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                printing.append(f"{_name(file)}:{node.lineno}")
    assert not printing


# Packages whose numbers readers see: `show/words.py` rounds for all of them. Readers of files, the
# engine and studies, which print what their papers print, choose their own digits.
FEATURES = frozenset(
    """
    agreement doctor evaluation fusion maps monitors pictures regression report sensitivity
    stability statistics
    """.split()  # noqa: SIM905
)
# Tables and sentences of a model show as many decimals as its standard errors have.
OWN_DECIMALS = "regression/words.py"
ROUNDING = re.compile(r"\.\w*[efg]?$")


def _roundings(tree_nodes: list[ast.JoinedStr], *, percents_only: bool) -> list[int]:
    """The lines of texts that round a number themselves."""
    lines = []
    for node in tree_nodes:
        for value, after in zip(node.values, [*node.values[1:], None]):
            if not isinstance(value, ast.FormattedValue) or value.format_spec is None:
                continue
            spec = ast.unparse(value.format_spec)[2:-1]
            percent = isinstance(after, ast.Constant) and str(after.value).startswith((" %", "%"))
            rounds = ROUNDING.search(spec) is not None
            if spec.endswith("%") or (rounds and (percent or not percents_only)):
                lines.append(value.lineno)
    return lines


def test_numbers_are_rounded_by_show_words_alone() -> None:
    places = []
    for file in LIBRARY:
        name = _in_package(file)
        if name not in ("show/words.py", OWN_DECIMALS):
            feature = name.partition("/")[0] in FEATURES
            lines = _roundings(nodes_of(file, ast.JoinedStr), percents_only=not feature)
            places += [f"{_name(file)}:{line}" for line in lines]
    assert not places, _listed("call number_text, two_decimals, digits or percent_text", places)


@pytest.mark.parametrize(
    ("source", "n", "n_percents"),
    [
        ('f"{x:.2f}"', 1, 0),
        ('f"{x:+.3f} of {n:d}"', 1, 0),
        ('f"{x:.4g}{y:>{wide}}"', 1, 0),
        ('f"{x:.0%}"', 1, 1),
        ('f"{100 * x:.1f} % of {n}"', 1, 1),
        ('f"{x} % of {n:>5} in {k:03d}"', 0, 0),
        ('f"{limit:g} %"', 0, 0),
    ],
)
def test_what_counts_as_rounding(source: str, n: int, n_percents: int) -> None:
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]
    assert len(_roundings(nodes, percents_only=False)) == n
    assert len(_roundings(nodes, percents_only=True)) == n_percents


def test_nothing_is_left_unfinished() -> None:
    assert not _lines_with(UNFINISHED, WRITTEN)


def test_no_paths_of_one_machine() -> None:
    assert not _lines_with(MACHINE_PATH, WRITTEN)


def _conflicts(data: bytes) -> list[int]:
    """The lines of a text file at which a merge was left unresolved."""
    if b"\0" in data[:8192]:  # no text: an archive, a picture
        return []
    return [data.count(b"\n", 0, mark.start()) + 1 for mark in CONFLICT.finditer(data)]


def test_no_conflict_markers() -> None:
    places = [f"{_name(file)}:{line}" for file in TRACKED for line in _conflicts(file.read_bytes())]
    assert not places, _listed("resolve the merge and remove its markers", places)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\n" + b"<" * 7 + b" HEAD\nb\n" + b"=" * 7 + b"\nc\n" + b">" * 7 + b" main\n", [2, 6]),
        (b"|" * 7 + b" base\r\n", [1]),
        (b">" * 7 + b"\n", [1]),
        (b"Title\n" + b"=" * 7 + b"\n", []),
        (b"x = 1 " + b"<" * 7 + b" 3\n" + b"<" * 8 + b"\n", []),
        (b"\0\n" + b"<" * 7 + b" HEAD\n", []),
    ],
)
def test_what_counts_as_a_conflict_marker(data: bytes, lines: list[int]) -> None:
    assert _conflicts(data) == lines


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


# Phrases that read as if they were translated word by word; in literals and documentation.
TRANSLATED = {
    "say `are not numbers`": (
        r"\b(?:that|which|they|these|those|it|this|who) (?:is|are|was|were) no "
        r"(?!longer|more|less|better|worse|larger|smaller|way|need|room|such)"
    ),
    "say `at least 0.5` or `0.5 or more`": (
        r"\bfrom (?:-?[\d.]+|which \w+|a score) on"
        r"(?! (?:the|a|an|this|that|one|eight|its)\b)(?![-\w])"
    ),
    "say `alternately`": r"\bby turns\b",
    "say `current` or `earlier`": r"\bof (?:now|then|before)(?=[,.;:)]|$)",
    "say `the same`": r"\bone and the same\b",
    "say `named after`": r"\bcalled (?:like|after)\b",
    "say `synthetic data`": r"\bmade data\b",
    "say `unique names`": r"\b(?:names|ids) that differ$",
    "say `does not support` or `ignores`": r"\bknows no\b",
    "say `valid for other patients`": r"\bspeaks? for (?:other|these)\b",
    "say `depends on`": r"\bhangs? on\b",
    "say `hardly any`": r"\bhardly an? (?!number)",
    "say `reversed`": r"\bturned round\b",
    "say `continues from there`": r"\bgoes on from\b",
}


def _literals(file: Path) -> list[tuple[int, str]]:
    """The texts of a module that are not docstrings, with their lines."""
    documented = set()
    for kind in (ast.Module, ast.ClassDef, ast.FunctionDef):
        for node in nodes_of(file, kind):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                documented.add(id(first.value))
    return [
        (node.lineno, node.value)
        for node in nodes_of(file, ast.Constant)
        if isinstance(node.value, str) and id(node) not in documented
    ]


def _translated(text: str) -> list[str]:
    return [advice for advice, form in TRANSLATED.items() if re.search(form, text, re.IGNORECASE)]


def test_texts_are_plain_english() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [(file, *entry) for file in LIBRARY for entry in _literals(file)]
    for file in pages:
        lines = file.read_text(encoding="utf-8").splitlines()
        texts += [(file, number, line) for number, line in enumerate(lines, 1)]
    places = []
    for file, number, text in texts:
        for advice in _translated(text):
            places.append(f"{_name(file)}:{number}: {advice}: {text[:80]}")
    assert not places, _listed("write what a native engineer would say", places)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("scores that are no probabilities", 1),
        ("there are no references", 0),
        ("it is no longer read", 0),
        ("weights are from 0 on", 1),
        ("misses-small from 0.9 on the left", 0),
        ("counts by turns; the rules of now", 2),
        ("one and the same box of made data", 2),
        ("unique image ids, named after the file", 0),
        ("image ids that differ", 1),
        ("names that differ in their middle", 0),
        ("they speak for other patients like these 80", 1),
        ("it knows no strata and hangs on the threshold", 2),
    ],
)
def test_what_counts_as_translated(text: str, n: int) -> None:
    assert len(_translated(text)) == n


# Distributions of the dependencies and of the extra `check` whose modules have another name.
MODULES = {"pillow": "PIL", "pandas-stubs": "pandas"}


def _typed_modules(project: dict[str, Any]) -> set[str]:
    """The modules that are installed wherever `make check` runs."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["check"], *extras["mpl"]]
    names = {re.split(r"[\[<>=!~; ]", name)[0] for name in wanted}
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def _imports(file: Path) -> set[str]:
    modules = {alias.name for node in nodes_of(file, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes_of(file, ast.ImportFrom)}
    return {module.partition(".")[0] for module in modules}


def test_types_are_checked_alike_without_the_extras() -> None:
    """`make check` passes in a fresh clone, where Dask, PyTorch and others are not installed."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    skipped = {
        module.partition(".")[0]
        for override in settings["tool"]["mypy"]["overrides"]
        if override.get("ignore_missing_imports")
        for module in override["module"]
    }
    imported = set().union(*map(_imports, LIBRARY)) - set(sys.stdlib_module_names) - {"calipers"}
    missing = imported - _typed_modules(settings["project"]) - skipped
    assert not missing, "add `name.*` to the overrides of mypy in pyproject.toml"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    targets = re.search(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert targets is not None
    assert listed == targets[1].split()
