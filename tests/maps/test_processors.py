"""Numbers from maps do not depend on the processor: a folder verifies under every kernel of the
library for matrices.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calipers.kernels.resampling import exact_product

CALL = [sys.executable, "-c", "from calipers.cli.main import main; main()"]
# Kernels of OpenBLAS, which ignores names that the processor cannot run.
OLDEST, BETWEEN, WIDEST = "Nehalem", "Haswell", "SkylakeX"


def run(*words: str, processor: str) -> subprocess.CompletedProcess[bytes]:
    surroundings = {**os.environ, "OPENBLAS_CORETYPE": processor, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([*CALL, *words], capture_output=True, check=False, env=surroundings)


# Two processes that draw, evaluate and verify volumes take ten seconds; that products do not depend
# on the order of summing, on which this rests, is tested below in every run.
@pytest.mark.slow
@pytest.mark.parametrize("processor", [BETWEEN, WIDEST])
def test_a_folder_verifies_whatever_the_processor(tmp_path: Path, processor: str) -> None:
    demo = str(tmp_path / "demo")
    assert run("demo", "--maps", "-o", demo, "-q", processor=OLDEST).returncode == 0
    done = run("verify", f"{demo}/results", processor=processor)
    assert done.returncode == 0, done.stdout.decode()
    assert b"values recomputed and identical" in done.stdout


def test_products_do_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 9, (20, 500))
    table = rng.standard_normal((500, 3)) * 10.0 ** rng.integers(-9, 9, (500, 3))
    product = exact_product(weights, table)
    for _ in range(5):
        order = rng.permutation(500)
        assert np.array_equal(exact_product(weights[:, order], table[order]), product)
    assert product == pytest.approx(weights @ table, rel=1e-12)
    # A weight of 2 is the same as the row twice.
    doubled = exact_product(weights.repeat(2, axis=1), table.repeat(2, axis=0))
    assert np.array_equal(doubled, exact_product(2 * weights, table))


def test_products_of_nothing_are_zero() -> None:
    assert exact_product(np.zeros((2, 0), np.int64), np.zeros((0, 3))).tolist() == [[0.0] * 3] * 2
