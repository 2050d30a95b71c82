"""Archives of studies that were damaged are refused, whichever study reads them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies import kept_archives
from calipers.studies.framework import run_study
from calipers.studies.monitors.archive import MonitorArchive, shipped
from calipers.studies.polyps.archive import open_archive
from calipers.studies.stability.archive import ARCHIVE, read_archive

PLACES = resources.files("calipers.studies")
READERS: dict[str, tuple[Callable[[Path], Any], Path, str]] = {
    "stability": (read_archive, Path(str(PLACES / "stability" / ARCHIVE)), "record"),
    "monitors": (MonitorArchive.read, shipped(), "about"),
    "polyps": (open_archive, Path(str(PLACES / "polyps" / "polyps.npz")), "facts"),
}


def packed(arrays: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def facts_of(text: str, like: Any) -> Any:
    return np.array(text) if like.dtype.kind == "U" else np.frombuffer(text.encode(), np.uint8)


def damaged(arrays: dict[str, Any], key: str) -> dict[str, bytes]:
    """Return archives that are none of the study, by what is wrong with them."""
    first = next(name for name in arrays if name != key)
    without = {name: array for name, array in arrays.items() if name != key}
    zeros = io.BytesIO()
    np.savez_compressed(zeros, zeros=np.zeros(2 << 20, np.uint8))
    encrypted = bytearray(packed(without))
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    return {
        "nothing": b"",
        "no archive": b"PK\3\4" + bytes(100),
        "no facts": packed(without),
        "facts of brackets": packed(without | {key: facts_of("[" * 100_000, arrays[key])}),
        "facts of a list": packed(without | {key: facts_of("[1]", arrays[key])}),
        "facts of nothing": packed(without | {key: facts_of("{}", arrays[key])}),
        "facts of odd entries": packed(
            without | {key: facts_of(json.dumps(dict.fromkeys("ab", 1)), arrays[key])}
        ),
        "an array that is none": packed(without | {key: arrays[key], first: np.array("x")}),
        "zeros without end": zeros.getvalue(),
        "encrypted": bytes(encrypted),
    }


@pytest.mark.parametrize("study", READERS)
def test_damaged_archives_are_refused(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_archives, "MOST_BYTES", 2 << 20)
    read, sound, key = READERS[study]
    with np.load(sound) as content:
        # A few arrays are enough to be refused; the maps of stability are looked at first.
        names = sorted(content.files, key=lambda name: not name.endswith("maps"))[:2]
        arrays = {name: content[name] for name in {*names, key}}
    path = tmp_path / ARCHIVE
    for what, data in damaged(arrays, key).items():
        path.write_bytes(data)
        with pytest.raises(InputError) as error:
            read(path)
        assert error.value.rule in ("npz-format", "empty-file"), what


@pytest.mark.parametrize("study", READERS)
def test_a_pipe_is_not_waited_for(study: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "archive.npz")
    with pytest.raises(InputError):
        READERS[study][0](tmp_path / "archive.npz")


@pytest.mark.parametrize("name", ["anomaly", "monitors", "polyps", "rodeo", "stability"])
def test_a_folder_without_a_training_says_how_to_train_into_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"calipers study {name} --train --keep {tmp_path}") as got:
        run_study(name, keep=tmp_path, quick=True)
    assert got.value.rule == "not-found"
