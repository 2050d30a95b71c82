"""A run that is killed from outside, without warning, continues to the same weights."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)

DATA = ("digits", "--canvases", "60", "--side", "32", "--grid", "8", "--device", "cpu")
COMMAND = [sys.executable, "-m", "calipers", "train", *DATA, "--epochs", "12", "--subsets", "2"]


# Four processes that each import PyTorch.
@pytest.mark.slow
def test_sigkill(tmp_path):
    subprocess.run([*COMMAND, "-o", "whole"], cwd=tmp_path, check=True, capture_output=True)
    process = subprocess.Popen(
        [*COMMAND, "-o", "killed"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoint = tmp_path / "killed" / "subset-1" / "checkpoint.pt"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads((tmp_path / "killed" / "run.json").read_text())["status"] == "running"
    resumed = [*COMMAND, "-o", "killed", "--resume"]
    subprocess.run(resumed, cwd=tmp_path, check=True, capture_output=True)
    for name in ("subset-1", "subset-2"):
        states = []
        for folder in ("whole", "killed"):
            path: Path = tmp_path / folder / name / "weights.pt"
            states.append(torch.load(path, weights_only=True)["network"])
        first, second = states
        assert all(torch.equal(first[key], second[key]) for key in first)
