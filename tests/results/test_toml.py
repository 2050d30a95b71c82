"""TOML from users: whatever it holds is a document or a typed error, at once."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calipers.errors import CalipersError, InputError
from calipers.evaluation.protocol import Protocol
from calipers.results.files import small_text
from calipers.results.requirements import Requirements
from calipers.results.toml import parse_toml
from calipers.sensitivity.multiverse import load_grid

LOADERS: dict[str, Callable[[Any], Any]] = {
    "protocol": Protocol.load,
    "grid": load_grid,
    "requirements": Requirements.load,
}
BOMBS = {
    "digits": ("x = " + "9" * 5000, "toml-syntax"),
    "brackets": ("x = " + "[" * 2000 + "]" * 2000, "depth"),
    "dots": ("a" + ".a" * 50_000 + " = 1", "depth"),
    "quoted dots": ('"a"' + '."a"' * 50_000 + " = 1", "depth"),
    "spaced dots": ("a" + " . a" * 20_000 + " = 1", "depth"),
    "table of dots": ("[a" + ".a" * 50_000 + "]", "depth"),
    "letters": ("a" * 900_000, "toml-syntax"),
    "large number": ("x = 1" + "0" * 400, "range"),
    "inner number": ("x = [{y = [-1" + "0" * 400 + "]}]", "range"),
}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_typed_error_at_once(tmp_path: Path, kind: str, name: str) -> None:
    text, rule = BOMBS[name]
    file = tmp_path / "a.toml"
    file.write_text(f'schema = "calipers.{kind}/1"\n{text}\n')
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        LOADERS[kind](str(file))
    assert (caught.value.rule, time.process_time() - began < 1.0) == (rule, True)


@pytest.mark.parametrize("kind", LOADERS)
def test_only_regular_files_are_read_and_the_reason_is_right(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe\0")
    os.symlink(tmp_path / "loop.toml", tmp_path / "loop.toml")
    places = {
        tmp_path / "pipe.toml": "not-a-file",
        tmp_path: "not-a-file",
        Path("/dev/zero"): "not-a-file",
        Path("/"): "not-a-file",
        tmp_path / "odd.toml": "encoding",
        tmp_path / "absent.toml": "not-found",
        tmp_path / "loop.toml": "not-readable",
        tmp_path / ("x" * 300 + ".toml"): "not-readable",
    }
    if os.geteuid() != 0:
        (tmp_path / "closed.toml").write_text("x = 1")
        (tmp_path / "closed.toml").chmod(0)
        places[tmp_path / "closed.toml"] = "not-readable"
    for place, rule in places.items():
        with pytest.raises(InputError) as caught:
            LOADERS[kind](place)
        assert caught.value.rule == rule, place


@pytest.mark.parametrize("rates", ["5", '"5"', "[[1]]", "{a = 1}", "[true]", "[nan]", "[]", "[-1]"])
def test_rates_that_are_none_are_a_typed_error(rates: str) -> None:
    text = (
        'schema = "calipers.protocol/1"\nname = "x"\nsource = "t"\n'
        f'[[metric]]\nname = "FROC@1"\nkind = "froc"\nrates = {rates}\n'
    )
    with pytest.raises(CalipersError):
        Protocol.from_toml(text)


def test_what_people_write_is_read() -> None:
    text = 'a.b.c = 1\ntext = "see 1.2.840.10008.5.1.4.1.1.66.4 ..."\n[d."e.f".g]\nh = [1, 2.5]\n'
    document = parse_toml(text, "a.toml")
    assert document["a"]["b"]["c"] == 1
    assert document["d"]["e.f"]["g"]["h"] == [1, 2.5]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_file_that_has_nothing_to_read_yet_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file of /proc such as kmsg, which says that it is a regular one."""
    path = tmp_path / "a.toml"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    monkeypatch.setattr(stat, "S_ISREG", lambda mode: True)
    with pytest.raises(InputError, match="nothing to read yet"):
        small_text(path, "a protocol", 1000)
    os.close(writer)
