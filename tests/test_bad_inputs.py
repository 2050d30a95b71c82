"""The page of bad inputs names tests that exist, for every row."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "validation" / "bad-inputs.md"
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(\w+)`")
ROWS = {
    *(f"A{k}" for k in range(1, 29)),
    *(f"B{k}" for k in range(1, 7)),
    *(f"C{k}" for k in range(1, 12)),
    *(f"D{k}" for k in range(1, 5)),
    *(f"E{k}" for k in range(1, 6)),
    "F",
}


def rows() -> dict[str, str]:
    cells = [line.split("|") for line in PAGE.read_text("utf-8").split("\n")]
    named = [row for row in cells if len(row) == 6 and re.fullmatch(r"[A-F]\d*", row[1].strip())]
    assert len({row[1] for row in named}) == len(named)
    return {row[1].strip(): row[4] for row in named}


def test_every_kind_of_bad_input_has_its_row() -> None:
    assert set(rows()) == ROWS


def test_every_row_names_tests_that_exist() -> None:
    missing = []
    for row, cell in rows().items():
        names = NAMED.findall(cell)
        assert names, f"row {row} names no test"
        assert cell.count("`") == 2 * len(names), f"row {row} names something else than a test"
        for file, name in names:
            path = TESTS / file
            if not path.exists() or f"def {name}(" not in path.read_text("utf-8"):
                missing.append(f"{row}: {file}::{name}")
    assert not missing
