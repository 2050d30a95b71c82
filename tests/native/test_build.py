"""The extension is optional: with a compiler it is built,
without one the installation goes on and says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from calipers.kernels import route

ROOT = Path(__file__).parents[2]
SAY = "import calipers.kernels.route as r; print(r.describe())"
SCORE = (
    "import calipers as c; print(float(c.evaluate(c.demo_cohort(), 'overview', "
    "ci=False)['mislabels', 'RoDeO']))"
)


def test_a_switch_turns_the_native_kernels_off() -> None:
    built = find_spec("calipers.kernels._native") is not None
    for value, expected in (("0", "turned off"), ("1", "native" if built else "not built")):
        done = subprocess.run(
            [sys.executable, "-c", SAY],
            env={**os.environ, "CALIPERS_NATIVE": value},
            capture_output=True,
            text=True,
        )
        assert expected in done.stdout


@pytest.mark.parametrize("given", ["", "many", "-3", "0"])
def test_threads_are_at_least_one(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIPERS_THREADS", given)
    assert route.threads() >= 1


@pytest.mark.slow
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
@pytest.mark.parametrize("compiler", [False, True], ids=["without-compiler", "with-compiler"])
def test_installation(tmp_path: Path, compiler: bool, editable: bool) -> None:
    source = tmp_path / "source"
    shutil.copytree(
        ROOT / "src",
        source / "src",
        ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"),
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    hidden = {} if compiler else {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}
    where = ["-e", str(source)] if editable else [str(source)]
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *where],
        env={**os.environ, **hidden},
        capture_output=True,
        text=True,
    )
    assert installed.returncode == 0, installed.stderr
    said = subprocess.run(
        [python, "-c", SAY], capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout
    assert ("native" in said and "NumPy" not in said) if compiler else "not built" in said
    score = subprocess.run(
        [python, "-c", SCORE], capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout
    here = subprocess.run(
        [sys.executable, "-c", SCORE], capture_output=True, text=True, check=True
    ).stdout
    assert score == here
