"""Starting is quick: what `import calipers` and `calipers --help` cost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = ("scipy", "pyarrow", "pandas", "msgspec", "click", "rich", "PIL", "matplotlib")
IMPORT_LIMIT = 0.060  # seconds above `import numpy`
HELP_LIMIT = 0.3
ROUNDS = 4  # the machine may be busy: one quiet round out of these is enough
RUNS = 5


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def _import_seconds(statement: str) -> float:
    return float(
        _python(
            f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        )
    )


def _extra_seconds() -> float:
    """Median cost of calipers and numpy together above numpy alone, runs interleaved."""
    pairs = [
        (_import_seconds("import numpy"), _import_seconds("import calipers, numpy"))
        for _ in range(RUNS)
    ]
    alone, both = zip(*pairs)
    return statistics.median(both) - statistics.median(alone)


def test_import_costs_little_more_than_numpy() -> None:
    rounds = []
    while len(rounds) < ROUNDS and min(rounds, default=1.0) > IMPORT_LIMIT:
        rounds.append(_extra_seconds())
    assert min(rounds) <= IMPORT_LIMIT, f"seconds above numpy, by round: {rounds}"


@pytest.mark.parametrize(
    "statement", ["import calipers", "import calipers.data.cohort", "from calipers import Cohort"]
)
def test_import_leaves_heavy_packages_alone(statement: str) -> None:
    loaded = _python(
        f"import sys; {statement}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    )
    assert not set(HEAVY) & set(loaded.split())


def test_help_is_quick() -> None:
    command = [str(Path(sys.executable).with_name("calipers")), "--help"]
    best = float("inf")
    for _ in range(ROUNDS):
        for _ in range(RUNS):
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True, timeout=60)
            best = min(best, time.perf_counter() - start)
        if best < HELP_LIMIT:
            break
    assert best < HELP_LIMIT
