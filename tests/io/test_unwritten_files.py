"""Large files that were created and never written, and files that are replaced while read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io.source import version_of

SUFFIXES = (".json", ".csv", ".nii.gz", ".png", ".parquet", ".dcm", ".npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_gigabytes_of_nothing_are_refused_before_they_are_hashed(
    suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"x{suffix}"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    start = time.process_time()
    with pytest.raises(InputError, match=r"65,536 NUL bytes at the beginning.*\[empty-file\]"):
        cal.read(path)
    assert time.process_time() - start < 1


def test_in_a_folder_too(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match=r"NUL bytes at the beginning.*\[empty-file\]"):
        cal.read(tmp_path)


def test_another_file_of_the_same_length_and_time_is_another_version(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[1]")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    before = version_of(path)
    (tmp_path / "b.json").write_bytes(b"[3]")
    os.utime(tmp_path / "b.json", ns=times)
    os.replace(tmp_path / "b.json", path)
    assert version_of(path) != before
