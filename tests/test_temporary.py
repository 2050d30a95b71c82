"""Temporary folders lie in memory only where there is enough of it and nobody chose a place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import temporary

if not hasattr(os, "statvfs"):
    pytest.skip("no file system in memory here", allow_module_level=True)


def test_a_folder_of_this_user_is_made_once(tmp_path: Path) -> None:
    folder = temporary.folder_in_memory(tmp_path, needed=0)
    assert folder is not None
    assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
    assert temporary.folder_in_memory(tmp_path, needed=0) == folder


def test_little_memory_or_none_leaves_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert temporary.folder_in_memory(tmp_path, needed=2**62) is None
    assert temporary.folder_in_memory(tmp_path / "absent", needed=0) is None
    # A container with less memory than its file systems promise.
    for name, content in (("limit", "1000"), ("usage", "900")):
        (tmp_path / name).write_text(content)
    limits = ((str(tmp_path / "limit"), str(tmp_path / "usage")),)
    monkeypatch.setattr(temporary, "LIMITS", limits)
    assert temporary.folder_in_memory(tmp_path, needed=100) is not None
    assert temporary.folder_in_memory(tmp_path, needed=101) is None


def test_nothing_is_executed_where_that_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_bavail=2**40, f_frsize=1, f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    assert temporary.folder_in_memory(tmp_path, needed=0) is None


@pytest.mark.parametrize(
    ("variable", "option", "is_moved"),
    [(None, None, True), ("/elsewhere", None, False), (None, "/elsewhere", False)],
)
def test_who_names_a_place_gets_it(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, option: str | None, is_moved: bool
) -> None:
    monkeypatch.setenv("TMPDIR", variable or "")
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.setattr(temporary, "folder_in_memory", lambda: Path("/in-memory"))
    config = SimpleNamespace(option=SimpleNamespace(basetemp=option))
    temporary.pytest_configure(config)  # type: ignore[arg-type]
    assert os.environ["TMPDIR"] == ("/in-memory" if is_moved else variable or "")
