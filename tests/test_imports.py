"""Starting is quick: what `import calipers` and `calipers --help` cost.

Seconds are of the processor, not of the clock, and the least of several runs counts: a busy machine
changes neither much.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("scipy", "pyarrow", "pandas", "msgspec", "click", "rich", "PIL", "matplotlib")
IMPORT_LIMIT = 0.060  # seconds above `import numpy`
HELP_LIMIT = 0.3
RUNS = 5
ROUNDS = 4  # one in which the machine is quiet is enough


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def _import_seconds(statement: str) -> float:
    return float(
        _python(
            f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
        )
    )


def test_import_costs_little_more_than_numpy() -> None:
    alone, both = [], []
    for _ in range(ROUNDS):
        for _ in range(RUNS):
            alone.append(_import_seconds("import numpy"))
            both.append(_import_seconds("import calipers, numpy"))
        if min(both) - min(alone) <= IMPORT_LIMIT:
            break
    assert min(both) - min(alone) <= IMPORT_LIMIT, f"seconds with and without: {both}, {alone}"


@pytest.mark.parametrize(
    "statement", ["import calipers", "import calipers.data.cohort", "from calipers import Cohort"]
)
def test_import_leaves_heavy_packages_alone(statement: str) -> None:
    loaded = _python(
        f"import sys; {statement}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    )
    assert not set(HEAVY) & set(loaded.split())


def test_special_functions_come_without_the_parts_of_numpy_that_nobody_uses() -> None:
    loaded = _python(
        "import sys; from calipers.statistics.few_errors import special; special();"
        "print('scipy.special' in sys.modules, 'numpy.f2py.crackfortran' in sys.modules,"
        " 'numpy.testing._private' in sys.modules)"
    )
    assert loaded == "True False False"


def test_the_parts_of_numpy_that_were_left_out_come_when_they_are_used() -> None:
    places = _python(
        "from calipers.statistics.few_errors import special; special();"
        "import numpy, numpy.f2py; from numpy.testing import assert_equal; assert_equal(1, 1);"
        "print(numpy.f2py.get_include().endswith('src'), numpy.testing.__name__)"
    )
    assert places == "True numpy.testing"


def _child_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_help_is_quick() -> None:
    command = [str(Path(sys.executable).with_name("calipers")), "--help"]
    seconds = []
    while len(seconds) < ROUNDS * RUNS and min(seconds, default=1.0) >= HELP_LIMIT:
        before = _child_seconds()
        subprocess.run(command, capture_output=True, check=True, timeout=60)
        seconds.append(_child_seconds() - before)
    assert min(seconds) < HELP_LIMIT, seconds
