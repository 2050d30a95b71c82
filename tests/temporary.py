"""Temporary folders in memory, where there is plenty of it.

A plug-in of pytest, loaded by `conftest.py`. The tests write some hundred thousand small files, and
on a disk one takes up to ten times as long as in memory. Whoever names a place (``TMPDIR``,
``--basetemp``) gets it. Of tests that passed nothing is kept (``tmp_path_retention_policy`` in
pyproject.toml), and the next run removes what others left.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
# A run holds less than 1 GB at any time. Containers often have 64 MB here.
NEEDED = 4 * 2**30  # bytes
# What the kernel would still hand out, and what a container may have and has.
MEMORY_INFO = Path("/proc/meminfo")
LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def pytest_configure(config: pytest.Config) -> None:
    """Decide once: processes that this one starts inherit the variable."""
    if os.environ.get("TMPDIR") or config.option.basetemp:
        return
    folder = folder_in_memory()
    if folder is not None:
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # Python looks again


def folder_in_memory(memory: Path = MEMORY, needed: int = NEEDED) -> Path | None:
    """Return a folder of this user; None where there is too little memory, or where nothing can be
    written or executed (a test builds the compiled kernels in such a folder).
    """
    if not hasattr(os, "statvfs") or not memory.is_dir() or not os.access(memory, os.W_OK):
        return None
    disk = os.statvfs(memory)
    room = min([disk.f_bavail * disk.f_frsize, *_free_memory()])
    if room < needed or disk.f_flag & os.ST_NOEXEC:
        return None
    folder = memory / f"calipers-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    is_own = folder.stat(follow_symlinks=False).st_uid == os.getuid()
    return folder if is_own else None


def _free_memory() -> list[int]:
    """Return the bytes that the machine has left, and a container where there is one."""
    free = []
    if MEMORY_INFO.exists():
        for line in MEMORY_INFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    for limit, usage in LIMITS:
        try:
            free.append(int(Path(limit).read_text()) - int(Path(usage).read_text()))
        except (OSError, ValueError):
            continue  # another version of control groups, or "max": no limit
    return free
