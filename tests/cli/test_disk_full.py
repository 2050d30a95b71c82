"""A disk that runs full at twenty different places of writing a result: a small file system in
memory, which only root can mount.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import calipers as cal

ROUNDS = 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no permission to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.slow  # twenty evaluations
def test_a_full_disk_leaves_the_old_result_intact(
    calipers: Callable[..., Any], small_disk: Path, tmp_path: Path
) -> None:
    cohort = cal.demo_cohort()
    model = next(iter(cohort.models))
    cal.write(cohort, tmp_path / "refs.json", what="references")
    cal.write(cohort, tmp_path / "preds.json", what=model)
    result = small_disk / "result"
    words = ["evaluate", tmp_path / "refs.json", tmp_path / "preds.json", "-q", "-o", result]
    assert calipers(*words, "--replicates", 100).code == 0
    size = sum(path.stat().st_size for path in result.rglob("*") if path.is_file())
    refused = 0
    for k in range(ROUNDS):
        before = json.loads((result / "run.json").read_text())["result_hash"]
        names = names_below(small_disk)
        disk = os.statvfs(small_disk)
        room = 1.6 * size * k / (ROUNDS - 1)
        (small_disk / "filler").write_bytes(bytes(int(disk.f_bavail * disk.f_frsize - room)))
        said = calipers(*words, "--replicates", 100, "--seed", k + 1, "--force")
        (small_disk / "filler").unlink()
        after = json.loads((result / "run.json").read_text())["result_hash"]
        assert calipers("verify", result).code == 0
        if said.code:
            refused += 1
            assert (said.code, "[disk-full]" in said.err) == (2, True), said.err
            assert after == before
        assert (names_below(small_disk) - names) <= {"result.blocks"}
    # the sizes were chosen so that the disk is full first and has room at the end
    assert 0 < refused < ROUNDS
