"""README and documentation do what they say: commands run, examples give what is printed, tables
are complete.

In a page, a block with ``title="name"`` is written to that file; lines ``$ calipers ...`` of
console blocks are run and what follows them is compared (``...`` stands for anything); Python
blocks are executed, with output checked where they are written as a session.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import hashlib
import importlib
import io
import os
import pickle
import re
import runpy
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import docs_hooks
import pytest
from PIL import Image

import calipers as cal
import calipers.evaluation.collect
import calipers.evaluation.figures
import calipers.evaluation.saved
import calipers.statistics.estimates
from calipers import registry
from calipers.cli.main import VERBS, run
from calipers.data.objects import BOX_FORMATS
from calipers.oracles.corrupt import KINDS
from calipers.oracles.maps import MAP_KINDS
from calipers.results.requirements import Requirement, Requirements
from calipers.sensitivity.sweep import CHOICES
from source_trees import nodes_of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]+)\n(?P<body>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
CHECKER, LOOSELY = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RULES = ROOT / "docs" / "how-to" / "bad-input.md"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it stands for, and its text."""

    language: str
    title: str
    body: str


def blocks(page: Path) -> list[Block]:
    found = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        language, _, rest = match["info"].partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        found.append(Block(language, title[1] if title else "", body))
    return found


def commands(body: str) -> list[tuple[str, str]]:
    """Return (command, what is printed) of a console block; a backslash continues a command."""
    joined = body.replace("\\\n", " ")
    parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


@cache
def demo_folder(command: str) -> tuple[int, str, tempfile.TemporaryDirectory[str]]:
    """Run a demo where nothing else is; return exit code, what it printed, and where it is."""
    place = tempfile.TemporaryDirectory()
    with contextlib.chdir(place.name):
        return *printed_by(shlex.split(command)[1:]), place


def demo(command: str) -> tuple[int, str]:
    """Put what a demo leaves into the working folder. It reads nothing and is the same on every
    page, so that it runs once.
    """
    code, printed, place = demo_folder(command)
    shutil.copytree(place.name, ".", dirs_exist_ok=True)
    return code, printed


def printed_by(words: list[str]) -> tuple[int, str]:
    """Call the command line; return its exit code and everything it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        return run(words), printed.getvalue()


def call(command: str, last: int) -> tuple[int, str]:
    """Run one line of a console block in the working folder; return its exit code and everything it
    printed.
    """
    words = shlex.split(command)
    if command == "echo $?":
        return 0, f"{last}\n"
    if words[:2] == ["calipers", "demo"] and not os.listdir():
        return demo(command)
    if words[0] == "calipers":
        return printed_by(words[1:])
    assert words[0] in ("cat", "head", "ls"), (
        f"cannot run {command!r}; a block that is not run is marked sh or text"
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def converse(body: str) -> list[tuple[str, str, str]]:
    """Run a console block; return (command, expected, printed) of every line."""
    found, last = [], 0
    for command, expected in commands(body):
        last, printed = call(command, last)
        is_told = "error:" in expected or "(error) in" in expected  # the second by the doctor
        assert last in (0, 1) or is_told, f"{command}: exit {last}\n{printed}"
        found.append((command, expected, printed))
    return found


def execute(body: str, names: dict[str, Any], page: Path) -> None:
    if ">>> " not in body:
        exec(compile(body, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(body, names, page.name, str(page), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=LOOSELY).run(
        test, out=said.append, clear_globs=False
    )
    names.update(test.globs)
    assert result.failed == 0, "".join(said)


def blank_images(cohort: cal.Cohort, folder: Path, seed: int = 0) -> list[Path]:
    """Write black pictures of the right size and name, in place of drawn ones."""
    sizes = cohort.images.size.astype(int).tolist()
    paths = [folder / str(name) for name in cohort.group("file_name")]
    for path, size in zip(paths, sizes):
        Image.new("L", tuple(size)).save(path)
    return paths


def once_per_content(evaluated_again: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a stored evaluation again once, however often a page opens the same files."""
    results: dict[bytes, Any] = {}

    def recalled(saved: Any, *options: Any, **further: Any) -> Any:
        digest = hashlib.sha256()
        for file in sorted(Path(saved.file).parent.glob("*")):
            if file.is_file() and file.suffix != ".html":
                digest.update(file.read_bytes())
        key = digest.digest()
        if key not in results:
            results[key] = evaluated_again(saved, *options, **further)
        return results[key]

    return recalled


def once_per_input(estimates: Callable[..., Any]) -> Callable[..., Any]:
    """Estimate the same metrics of the same evidence once: many pages evaluate the demo."""
    results: dict[bytes, list[Any]] = {}

    def recalled(cases: Any, units: Any, certainty: Any, *further: Any) -> list[Any]:
        key = hashlib.sha256(pickle.dumps((cases, units, certainty))).digest()
        if key not in results:
            results[key] = estimates(cases, units, certainty, *further)
        return results[key]

    return recalled


# Kept for all pages, as `demo_folder` is.
ESTIMATES = once_per_input(calipers.statistics.estimates.estimates)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in; the pictures of the demo are black, because to draw them takes most of
    its time, and neither the same folder nor the same evidence is computed again for every command.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "calipers.evaluation.saved._evaluated_again",
        once_per_content(calipers.evaluation.saved._evaluated_again),
    )
    for module in (calipers.evaluation.collect, calipers.evaluation.figures):
        monkeypatch.setattr(module, "estimates", ESTIMATES)
    monkeypatch.setattr("calipers.synthetic.demo.draw_images", blank_images)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, desk: Path) -> None:
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.title:
            file = desk / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        if block.language == "console":
            for command, expected, printed in converse(block.body):
                assert not expected.strip() or CHECKER.check_output(expected, printed, LOOSELY), (
                    f"{command}\n--- the page says\n{expected}\n--- printed was\n{printed}"
                )
        elif block.language == "python":
            execute(block.body, names, page)
        elif block.language == "toml" and "calipers.protocol/1" in block.body:
            cal.Protocol.from_toml(block.body)
        elif block.language == "toml" and "calipers.requirements/1" in block.body:
            Requirements.from_toml(block.body)


def modules_with_examples() -> list[str]:
    """Return the modules whose text has a prompt; the others need not be imported."""
    names = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        if ">>> " in file.read_text(encoding="utf-8"):
            parts = file.relative_to(ROOT / "src").with_suffix("").parts
            names.append(".".join(part for part in parts if part != "__init__"))
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name: str, desk: Path) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=LOOSELY)
    assert result.failed == 0
    assert result.attempted


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.name
)
def test_examples_run(file: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out
    assert os.listdir(desk) == []


def test_links_within_the_documentation_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if (
                not target.startswith(("http:", "https:", "mailto:"))
                and not (page.parent / target).exists()
            ):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {
        str(page.relative_to(ROOT / "docs")) for page in PAGES if "docs" in page.parts
    }


def defined_at(path: str) -> Any:
    """The object that a path names, or None if it is not defined there: an import is no place."""
    module, _, name = path.rpartition(".")
    target = getattr(importlib.import_module(module), name, None)
    if target is None:
        with contextlib.suppress(ImportError):
            target = importlib.import_module(path)
    home = getattr(target, "__module__", module)
    return target if home == module else None


REFERENCE = re.findall(
    r"^::: (\S+)$", (ROOT / "docs" / "reference" / "python.md").read_text("utf-8"), re.MULTILINE
)


def test_entries_of_the_python_reference_are_where_it_says() -> None:
    assert len(REFERENCE) == len(set(REFERENCE)) > 80
    assert [path for path in REFERENCE if defined_at(path) is None] == []


def test_every_public_name_is_in_the_python_reference() -> None:
    names = {path.rpartition(".")[2] for path in REFERENCE}
    public = [name for name in cal.__all__ if not name.startswith("_")]
    assert [name for name in public if name not in names] == []
    targets = [defined_at(path) for path in REFERENCE]
    assert [name for name in public if getattr(cal, name) not in targets] == []


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("calipers.show.table.Table", True),
        ("calipers.synthetic.volumes", True),
        ("calipers.show.figures.Table", False),
        ("calipers.metrics.maps.soft_instance_iou", False),
        ("calipers.no_such_name", False),
    ],
)
def test_what_counts_as_defined(path: str, there: bool) -> None:
    assert (defined_at(path) is not None) is there


def rules_in_source() -> set[str]:
    """Return every rule id that the sources can put into an error: arguments named or placed as
    `rule`.
    """
    places = {"Finding": 0, "Problem": 0, "_error": 1, "reject": 1, "unknown_names": 3}
    places |= dict.fromkeys(("_found", "_problem", "problem", "note"), 2)
    marks = ("rule=", *(f"{name}(" for name in places))
    found: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        # A walk through a tree takes a hundred times as long as a look at the text.
        if not any(mark in text for mark in marks):
            continue
        for node in nodes_of(file, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [keyword.value for keyword in node.keywords if keyword.arg == "rule"]
            if name in places and len(node.args) > places[name]:
                given.append(node.args[places[name]])
            constants = [leaf for value in given for leaf in _leaves(value)]
            found |= {text for text in constants if re.fullmatch(r"[a-z]+(-[a-z]+)*", text)}
    return found


def _leaves(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_leaves(node.body), *_leaves(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_every_rule_is_explained() -> None:
    explained = set(
        re.findall(r"^\| `([a-z-]+)` \|", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    )
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    rules = rules_in_source()
    assert len(rules) > 40
    unexplained = rules - explained
    assert not unexplained
    assert not [rule for rule in explained if f'"{rule}"' not in source]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("reference/presets.md", cal.presets()),
        ("reference/metrics.md", registry.known("metric")),
        ("reference/protocol.md", [*registry.known("criterion"), *registry.known("assignment")]),
        (
            "reference/json.md",
            ["calipers.evaluation/1", "calipers.error/1", "calipers.inspect/1", "calipers.run/1"],
        ),
        (
            "reference/json.md",
            [
                "calipers.report/1",
                "calipers.verify/1",
                "calipers.check/1",
                "calipers.agreement/1",
                "calipers.comparison/1",
                "calipers.mixed/1",
                "calipers.study/1",
                "calipers.studies/1",
                "calipers.corrupt/1",
                "calipers.fusion/1",
                "calipers.sweep/1",
                "calipers.multiverse/1",
            ],
        ),
        (
            "reference/requirements.md",
            [
                "calipers.requirements/1",
                *Requirement.__struct_encode_fields__,
                "clopper-pearson-units",
            ],
        ),
        ("how-to/oracles.md", [*KINDS, *MAP_KINDS]),
        ("how-to/sweeps.md", list(CHOICES)),
        ("how-to/formats.md", [*registry.FORMATS, *BOX_FORMATS]),
    ],
)
def test_reference_pages_name_everything(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = docs_hooks.on_page_markdown(text)
    assert not [name for name in names if f"`{name}`" not in text]


@pytest.mark.parametrize(
    "file", [ROOT / "CITATION.cff", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda file: file.name
)
def test_only_verbs_that_ship_are_named(file: Path) -> None:
    named = set(re.findall(r"`calipers ([a-z]+)\b", file.read_text(encoding="utf-8")))
    assert named <= set(VERBS)


def test_every_format_is_named_where_formats_are_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["evaluate", "--help"]) == 0
    help_text = re.sub(r"-\s+", "-", capsys.readouterr().out)  # names that a line break cuts
    texts = {"--help": re.split(r"[^a-z0-9-]+", help_text)}
    for page in ("reference/command-line.md", "how-to/formats.md"):
        texts[page] = re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs" / page).read_text())
    for place, words in texts.items():
        assert not set(registry.FORMATS) - set(words), place


def test_reference_of_the_command_line_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert run([verb, "--help"]) == 0
        options = set(re.findall(r"(?<!\S)--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        assert not [option for option in options if option not in text], verb
