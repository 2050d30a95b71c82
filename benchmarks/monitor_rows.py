# SPDX-License-Identifier: Apache-2.0
"""A monitor with intervals against a bootstrap loop over scikit-learn, which is what people write
today.

Calipers states all quantities of both halves of a threshold; the loop has three: AUROC, average
precision and the false alarm rate at 95 % sensitivity. The loop runs some replicates, scaled to
all; the row says how many.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import Result, peer_name, take_turns
from benchmarks.rows import row
from benchmarks.voxel_rows import same

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

IMAGES, REPLICATES, PEER_REPLICATES, ROUNDS = 5000, 1000, 50, 5
BAR = 10.0


@row("monitor-intervals")
def monitor_intervals() -> Iterator[Result]:
    """All quantities of one monitor with their intervals, from arrays in memory."""
    from calipers.monitors.evaluate import evaluate_monitor

    rng = np.random.default_rng(0)
    unsafe = rng.random(IMAGES) < 0.2
    alarm = np.round(rng.normal(size=IMAGES) + unsafe, 2)  # ties, as of real monitors
    point = evaluate_monitor(alarm, ~unsafe, ci=False)
    for name, theirs in zip(("AUROC", "AUPR", "FPR95"), _scores(alarm, unsafe)):
        same(np.array([point.get(name).value]), np.array([theirs]), 1e-12)
    times = take_turns(
        {
            "ours": lambda: evaluate_monitor(alarm, ~unsafe, replicates=REPLICATES),
            "peer": lambda: _loop(alarm, unsafe, PEER_REPLICATES),
        },
        ROUNDS,
    )
    slow = times["peer"] * REPLICATES / PEER_REPLICATES
    what = f"monitor, {IMAGES:,} images, {REPLICATES:,} replicates (peer: {PEER_REPLICATES})"
    yield Result(
        "monitor-intervals",
        what,
        "NumPy",
        peer_name("scikit-learn"),
        slow,
        times["ours"],
        "s",
        BAR,
        ROUNDS,
    )


def _scores(alarm: F64, unsafe: Flags) -> tuple[float, float, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    alarms, caught, _ = roc_curve(unsafe, alarm, drop_intermediate=False)
    rate = float(alarms[caught >= 0.95].min())
    return float(roc_auc_score(unsafe, alarm)), float(average_precision_score(unsafe, alarm)), rate


def _loop(alarm: F64, unsafe: Flags, n: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(n):
        drawn = rng.integers(0, len(alarm), len(alarm))
        _scores(alarm[drawn], unsafe[drawn])
