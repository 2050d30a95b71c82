"""Files are written whole or not at all, and never in the place of something that is no file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from calipers import InputError
from calipers.io.annotations.export import write_folder
from calipers.results.files import check_file, staged_folder, write_atomically


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_or_device_is_not_replaced(pipe):
    with pytest.raises(InputError, match="a device or pipe") as caught:
        write_atomically(pipe, "text")
    assert caught.value.rule == "not-a-file"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(pipe.parent) == ["pipe"]


def test_a_device_behind_a_link_is_not_replaced(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    with pytest.raises(InputError, match="a device or pipe"):
        write_atomically(link, "text")
    assert link.is_symlink()


def test_a_device_is_refused_before_the_work_even_by_force(pipe):
    with pytest.raises(InputError, match="a device or pipe"):
        check_file(str(pipe), force=True, inputs=[])


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "runs").mkdir()
    link = tmp_path / "latest.html"
    link.symlink_to(tmp_path / "runs" / "3.html")
    write_atomically(link, "first")
    write_atomically(link, "second")
    assert link.is_symlink()
    assert (tmp_path / "runs" / "3.html").read_text() == "second"
    assert os.listdir(tmp_path / "runs") == ["3.html"]


@pytest.fixture
def private() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("private")
def test_nobody_else_may_read_what_the_user_keeps_private(tmp_path):
    """Results name patients: a umask of 077 holds for files, folders and what replaces them."""
    write_atomically(tmp_path / "file", "text")
    write_atomically(tmp_path / "file", "again")
    for force in (False, True):
        with staged_folder(tmp_path / "folder", force=force) as stage:
            write_atomically(stage / "run.json", "{}")
    write_folder(tmp_path / "labels", {"labels/a.txt": "0"})
    rights = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    folders = dict.fromkeys(("folder", "labels"), 0o700)
    assert rights == {"file": 0o600, "run.json": 0o600, "a.txt": 0o600, **folders}


def test_others_may_read_what_the_user_shares(tmp_path):
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "file", "text")
        with staged_folder(tmp_path / "folder") as stage:
            write_atomically(stage / "run.json", "{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755
