"""Files are written whole or not at all, and never in the place of something that is no file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from calipers import InputError
from calipers.results.files import check_file, write_atomically


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
