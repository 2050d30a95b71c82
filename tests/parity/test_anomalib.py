"""AUPRO against anomalib, which lives in an environment of its own; it sums in single precision, so
to 1e-5.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from calipers.kernels.voxel_ranking import aupro

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("CALIPERS_TORCH_PEERS", ROOT / ".venv-torch" / "bin" / "python"))
TOLERANCE = 1e-5

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(),
    reason="anomalib needs an environment of its own, see requirements/torch-peers.txt",
)


def random_set(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three maps with a few regions, numbered over all maps without a gap; every third set is
    heavily tied.
    """
    rng = np.random.default_rng(seed)
    scores, regions = rng.random((3, 12, 14), np.float32), np.zeros((3, 12, 14), np.int64)
    for number in range(1, 1 + int(rng.integers(1, 6))):
        k, y, x = rng.integers(0, 3), *rng.integers(0, 9, 2)
        part = (k, slice(y, y + rng.integers(1, 4)), slice(x, x + rng.integers(1, 4)))
        regions[part] = number
        scores[part] **= 0.4
    if seed % 3 == 0:
        scores = np.round(scores, 1)
    return scores, np.unique(regions, return_inverse=True)[1].reshape(regions.shape)


def test_random_sets(tmp_path: Path) -> None:
    sets = [random_set(seed) for seed in range(120)]
    file = tmp_path / "sets.npz"
    np.savez(
        file,
        **{f"{name}_{k}": array for k, pair in enumerate(sets) for name, array in zip(NAMES, pair)},
    )
    command = [str(PYTHON), str(ROOT / "benchmarks" / "torch_peers.py"), "aupro", str(file)]
    done = subprocess.run(
        command, input="\n", capture_output=True, text=True, timeout=300, check=True
    )
    expected = [values[0] for values in json.loads(done.stdout.splitlines()[-1])]
    found = [aupro(list(scores), list(regions), 0.3) for scores, regions in sets]
    assert found == pytest.approx(expected, abs=TOLERANCE)
    assert np.ptp(found) > 0.3


NAMES = ("scores", "labels")
