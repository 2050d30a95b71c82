"""Files and archives that change while they are read: a typed error, never two versions mixed."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from annotation_cases import LABELME, labelme, put
from calipers.errors import InputError
from calipers.io import source
from calipers.io.archives import list_archive
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume

FIRST, SECOND = np.full((3, 4), 1, np.uint8), np.full((3, 4), 2, np.uint8)


def later(path: Path) -> None:
    """Make sure that the time of the change differs, however coarse the clock of the disk is."""
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10_000_000))


def write(path: Path, array: np.ndarray, suffix: str) -> None:
    if suffix not in (".tar", ".zip"):
        write_volume(path, array)
        return
    stream = io.BytesIO()
    np.save(stream, array)
    content = stream.getvalue()
    if suffix == ".tar":
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("a.npy")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.npy", content)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".tif", ".nii.gz", ".tar", ".zip"])
@pytest.mark.parametrize("how", ["in place", "replaced", "removed"])
def test_voxels_of_another_version_are_refused(tmp_path: Path, suffix: str, how: str) -> None:
    """The second version has the shape of the first: its voxels were taken without a word."""
    path, other = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write(path, FIRST, suffix)
    inside = path / "a.npy" if suffix in (".tar", ".zip") else path
    volume = open_volume(inside)
    assert (volume.read() == 1).all()
    write(other, SECOND, suffix)
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        os.replace(other, path)
        later(path)
    else:
        path.write_bytes(other.read_bytes())
        later(path)
    with pytest.raises(InputError) as refused:
        volume.read()
    assert refused.value.rule == "not-readable"
    with pytest.raises((InputError, OSError)):
        volume.sha256.encode()
    if how != "removed":
        assert (open_volume(inside).read() == 2).all()  # a new reading is a new version


def test_a_tar_that_is_replaced_while_it_is_listed(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.tar"
    write(path, FIRST, ".tar")
    plain = source.open_regular

    @contextmanager
    def replaced(*arguments, **keywords):
        write(path, SECOND, ".tar")
        later(path)
        with plain(*arguments, **keywords) as stream:
            yield stream

    monkeypatch.setattr("calipers.io.archives.open_regular", replaced)
    with pytest.raises(InputError, match="stays as it was"):
        list_archive(path)


def test_a_file_of_a_folder_that_changes_after_it_was_hashed(tmp_path: Path) -> None:
    """What is read has to be what the hash of the folder covers."""
    folder = put(tmp_path / "lm", {"a.json": labelme(*LABELME), "b.json": labelme(*LABELME)})
    opened = source.open_folder(folder)
    assert opened.open("a.json").size
    later(folder / "b.json")
    with pytest.raises(InputError, match="stays as it was"):
        opened.open("b.json")


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"images": [], "annotations": [], "categories": []}))
    plain = source.open_regular

    @contextmanager
    def changing(*arguments, **keywords):
        with plain(*arguments, **keywords) as stream:
            yield Changing(stream)

    class Changing:
        def __init__(self, stream):
            self.stream = stream

        def fileno(self):
            return self.stream.fileno()

        def read(self, *size):
            content = self.stream.read(*size)
            later(path)
            return content

    monkeypatch.setattr(source, "open_regular", changing)
    with pytest.raises(InputError, match="stays as it was"):
        source.open_source(path)
