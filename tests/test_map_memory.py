"""Volumes are read one after the other and forgotten: memory grows by what is left of them, not by
their voxels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calipers as cal

PROGRAM = """
import json, resource, sys
sys.path[:0] = json.loads(sys.argv[3])
import calipers as cal
from test_map_memory import volumes
side, n = int(sys.argv[1]), int(sys.argv[2])
list(volumes(side, 1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cal.evaluate_maps(volumes(side, n))
print(json.dumps([before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def volumes(side: int, n: int) -> Iterator[dict[str, Any]]:
    """Yield noisy float32 volumes with three lesions and the maps of two models."""
    z, y, x = np.ogrid[:side, :side, :side]
    for k in range(n):
        random = np.random.default_rng(k)
        labels = np.zeros((side,) * 3, np.uint8)
        for c in random.integers(side // 4, 3 * side // 4, (3, 3)):
            labels |= (
                (z - c[0]) ** 2 + (y - c[1]) ** 2 + (x - c[2]) ** 2 <= (side // 16) ** 2
            ).astype(np.uint8)
        maps = {}
        for model in ("a", "b"):
            maps[model] = random.random(labels.shape, np.float32)
            maps[model] *= np.float32(0.4)
            maps[model][labels > 0] += np.float32(0.3)
        yield {"name": f"s{k}", "labels": labels, "maps": maps}
        del labels, maps


def peaks(side: int, n: int) -> tuple[float, float]:
    """Return the largest memory in MB of a process of its own: after one volume was made, and after
    the evaluation.
    """
    words = [sys.executable, "-c", PROGRAM, str(side), str(n), json.dumps(sys.path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=1200)
    before, after = json.loads(done.stdout)
    return before / 1e3, after / 1e3


def test_what_is_left_of_a_volume_is_small() -> None:
    """Histograms, sums and runs: far less than the voxels of its labels alone."""
    cohort = cal.evaluate_maps(volumes(48, 4), ci=False).cohort
    for maps in cohort.maps.values():
        held = maps.histograms
        assert (
            sum(getattr(held, name).nbytes for name in ("bin", "positives", "negatives", "overlap"))
            < 4 * 48**3 * 4
        )
        assert np.diff(held.offsets).max() < 65_536
    masks = cohort.references.masks
    assert masks is not None
    assert masks.start.nbytes + masks.length.nbytes < 4 * 48**3


@pytest.mark.slow
def test_memory_grows_by_a_few_megabytes_per_volume() -> None:
    """A volume of 160^3 with two maps takes 37 MB; twelve more of them add less than 4 MB each."""
    _, few = peaks(160, 12)
    _, many = peaks(160, 24)
    assert (many - few) / 12 < 4.0


@pytest.mark.slow
def test_volumes_of_256_fit_on_a_laptop() -> None:
    """Six volumes of 256^3 with two maps, 900 MB of voxels, in less than 1.2 GB; so do a hundred,
    by the test above.
    """
    before, after = peaks(256, 6)
    assert after < 1200
    assert after > before
