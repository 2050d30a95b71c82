"""A run that is killed from outside, without warning, continues to the same weights."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calipers.synthetic.anomalies import write_anomalies
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)

TRAIN = [sys.executable, "-m", "calipers", "train"]
CANVASES = ("digits", "--canvases", "60", "--side", "32", "--device", "cpu")
BLURRED = """\
schema = "calipers.plan/1"
[plan.blurred]
extends = "canvases-chexnet"
augment = "jitter-blur"
"""
# Kind -> its options, the models of the run, and the one that is being trained when it is killed.
RUNS = {
    "mil": (
        [*CANVASES, "--grid", "8", "--epochs", "12", "--subsets", "2"],
        ("subset-1", "subset-2"),
        "subset-1",
    ),
    "two stages": (
        [*CANVASES, "--grid", "8", "--epochs", "12", "--subsets", "1", "--stages", "2"],
        ("subset-1/stage-1", "subset-1"),
        "subset-1",
    ),
    "ensemble": (
        [*CANVASES, "--ensemble", "endocv2022", "--epochs", "4", "--batch", "8"],
        ("fold-1-light", "fold-1-heavy", "fold-2-light", "fold-2-heavy"),
        "fold-1-heavy",
    ),
    "jitter and blur": (
        [*CANVASES, "--plan", "blurred.toml", "--epochs", "12", "--subsets", "1"],
        ("subset-1",),
        "subset-1",
    ),
    "anomaly": (
        ["scans/normal", "--model", "anomaly", "--method", "fpi", "--side", "16", "--epochs", "12"],
        ("subset-1",),
        "subset-1",
    ),
}


# Three processes each that import PyTorch.
@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_sigkill(tmp_path, kind):
    options, models, last = RUNS[kind]
    write_anomalies(tmp_path / "scans", n_normal=12, n_strange=1, side=16)
    (tmp_path / "blurred.toml").write_text(BLURRED)
    command = [*TRAIN, *options]
    subprocess.run([*command, "-o", "whole"], cwd=tmp_path, check=True, capture_output=True)
    process = subprocess.Popen(
        [*command, "-o", "killed"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoint = tmp_path / "killed" / last / "checkpoint.pt"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads((tmp_path / "killed" / "run.json").read_text())["status"] == "running"
    resumed = [*command, "-o", "killed", "--resume"]
    subprocess.run(resumed, cwd=tmp_path, check=True, capture_output=True)
    for name in models:
        states = []
        for folder in ("whole", "killed"):
            path: Path = tmp_path / folder / name / "weights.pt"
            states.append(torch.load(path, weights_only=True)["network"])
        first, second = states
        assert all(torch.equal(first[key], second[key]) for key in first)
