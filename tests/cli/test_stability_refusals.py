"""What `calipers stability` refuses, it refuses in words, with exit code 2, and as JSON if that was
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NAMES = ("=cmd|' /c calc'!A1", "C:up", "line\u202eturned", "x" * 200)
BAD: dict[str, Any] = {
    "nan": np.full(4, np.nan),
    "outside": np.full(4, 1.5),
    "words": np.array(["a", "b", "c", "d"]),
    "shape": np.zeros(5),
    "empty": np.zeros(0),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **{entry: rng.random(4) for entry in NAMES})
    for name, values in BAD.items():
        np.savez(
            tmp_path / f"{name}.npz",
            **{entry: rng.random(4) for entry in NAMES[1:]},
            **{NAMES[0]: values},
        )
    np.savez(tmp_path / "fewer.npz", **{entry: rng.random(4) for entry in NAMES[1:]})
    (tmp_path / "labels.csv").write_text("bag,label\nz,1\n")
    (tmp_path / "boxes.json").write_text("[]")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    return tmp_path


REFUSED = [
    ("a.npz",),
    ("a.npz", "a.npz"),
    ("a.npz", "gone.npz"),
    ("a.npz", "fewer.npz"),
    ("a.npz", "boxes.json"),
    ("a.npz", "binary.csv"),
    ("a.npz", "x="),
    *(("a.npz", f"{name}.npz") for name in BAD),
    ("a.npz", "b.npz", "--labels", "labels.csv"),
    ("a.npz", "b.npz", "--groups", "labels.csv"),
    ("a.npz", "b.npz", "--scores", "labels.csv"),
    ("a.npz", "b.npz", "--labels", "gone.csv"),
    ("a.npz", "b.npz", "--threshold", "2"),
    ("a.npz", "b.npz", "--threshold", "nan"),
    ("a.npz", "b.npz", "--level", "1"),
    ("a.npz", "b.npz", "--level", "nan"),
    ("a.npz", "b.npz", "--jobs", "0"),
    ("a.npz", "b.npz", "--jobs", "99999999999"),
    ("a.npz", "b.npz", "--seed", "-1"),
    ("a.npz", "b.npz", "--seed", "99999999999999999999999"),
    ("a.npz", "b.npz", "--replicates", "1"),
    ("a.npz", "b.npz", "--cluster", "patient"),
    ("a.npz", "b.npz", "--grid", "4,4"),
    ("a.npz", "b.npz", "--rule", "centre"),
    ("a.npz", "b.npz", "--normalise", "logit"),
    ("a.npz", "b.npz", "--bags", "some"),
    ("a.npz", "b.npz", "--undefined", "zero"),
    ("a.npz", "b.npz", "-o", "a.npz"),
    ("a.npz", "b.npz", "--references", "boxes.json"),
    ("all models=a.npz", "b.npz"),
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_bad_calls_end_with_2_and_a_sentence(
    calipers: Callable[..., Any],
    folder: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    said = calipers("stability", *words)
    assert said.code == 2
    assert said.err.strip()
    assert "Traceback" not in said.err
    told = calipers("stability", *words, "--json")
    assert told.code == 2
    assert "error" in told.json


def test_strange_names_are_data(
    calipers: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    said = calipers("stability", "a.npz", "b.npz", "--no-ci", "-o", "out")
    assert said.code == 0
    assert "\u202e" not in said.out + said.err
    for file in (folder / "out").rglob("*.csv"):
        assert not any(
            cell.startswith(("=", "@"))
            for line in file.read_text().splitlines()
            for cell in line.split(",")
        )


def test_names_that_climb_out_of_an_archive_are_refused(
    calipers: Callable[..., Any], tmp_path: Path
) -> None:
    np.savez(tmp_path / "up.npz", **{"../up": np.zeros(4)})
    said = calipers("stability", tmp_path / "up.npz", tmp_path / "up.npz")
    assert said.code == 2
    assert "volume-member" in said.err


def test_hints_name_what_to_do(calipers: Callable[..., Any], tmp_path: Path, folder: Path) -> None:
    for model in ("fold0", "fold1"):
        (tmp_path / "runs" / model).mkdir(parents=True)
        np.save(tmp_path / "runs" / model / "x1.npy", np.full((2, 2), 0.5))
    above = calipers("stability", tmp_path / "runs").err
    assert "[one-model]" in above
    assert f"name each: {tmp_path / 'runs'}/fold0 {tmp_path / 'runs'}/fold1 ..." in above
    two = [tmp_path / "runs" / name for name in ("fold0", "fold1")]
    assert (
        "a file here is called 'x1.npy'"
        in calipers("stability", *two, "--pattern", "{name}_map.npy").err
    )
    (tmp_path / "boxed.csv").write_text("image,x0,y0,x1,y1\nx1,0,0,1,1\n")
    assert "give it as --labels" in calipers("stability", *two, tmp_path / "boxed.csv").err


def test_without_an_interval_none_is_spoken_of(calipers: Callable[..., Any], folder: Path) -> None:
    said = calipers("stability", folder / "a.npz", folder / "b.npz", "--no-ci").out
    assert "The interval speaks" not in said
    assert "It cannot be estimated for other trainings." in said
