# SPDX-License-Identifier: Apache-2.0
"""The pages for validation: every requirement has tests that exist, every part is listed."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MATRIX = ROOT / "docs" / "validation" / "traceability.md"
PARTS = ROOT / "docs" / "validation" / "parts.md"
ROW = re.compile(r"^\| ([A-Z]{3}-\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
RUNTIME_EXTRAS = ("frames", "mixed", "volumes", "dicom", "mpl", "studies", "dask", "train")


def requirements() -> list[tuple[str, list[str]]]:
    rows = ROW.findall(MATRIX.read_text(encoding="utf-8"))
    return [(name, re.findall(r"`(tests/[^`]+)`", tests)) for name, _, tests in rows]


def test_every_requirement_has_tests_that_exist():
    rows = requirements()
    names = [name for name, _ in rows]
    assert len(rows) > 30
    assert len(set(names)) == len(names), "an id is used twice"
    missing = [
        f"{name}: {path}"
        for name, paths in rows
        for path in paths or ["no test"]
        if not (ROOT / path).exists()
    ]
    assert not missing, "name tests that exist: " + ", ".join(missing)


def test_no_folder_of_tests_is_left_out():
    named = {Path(path).parts[1] for _, paths in requirements() for path in paths}
    folders = {
        file.relative_to(ROOT / "tests").parts[0] for file in ROOT.glob("tests/*/**/test_*.py")
    }
    left_out = folders - named
    assert not left_out, f"docs/validation/traceability.md: what do these tests hold? {left_out}"


def test_every_part_is_listed_with_the_version_it_was_tested_with():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts = list(project["dependencies"])
    for extra in RUNTIME_EXTRAS:
        parts += project["optional-dependencies"][extra]
    names = {re.split(r"[<>=!\[]", part)[0].lower() for part in parts}
    rows = re.findall(
        r"^\| (\S+) \| (\d[\w.]*) \|", PARTS.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert names <= {name.lower() for name, _ in rows}
