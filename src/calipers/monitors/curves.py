# SPDX-License-Identifier: Apache-2.0
"""The curves of a monitor as points: ROC, precision and recall, risk against coverage. One point
per attainable cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, operating

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class MonitorCurves:
    """The curves of one monitor under one labelling; empty arrays where the images are all of one
    kind.
    """

    monitor: str
    paradigm: str
    threshold: F64  # (g,) falling, on the scale on which high means alarm
    tpr: F64  # (g + 1,) from 0, nothing rejected, to 1
    fpr: F64
    precision: F64  # (g,)
    coverage: F64  # (g,) share of images accepted, rising to 1
    risk: F64  # (g,) share of them on which an alarm is wanted
    best_risk: F64  # at the same coverages, if all other images were accepted first
    prevalence: float  # the risk at full coverage, which a random order has at every coverage


def curves_of(monitor: str, paradigm: str, alarm: F64, positive: Flags) -> MonitorCurves:
    """Return the curves of one monitor."""
    share = float(positive.mean()) if len(positive) else float("nan")
    if not positive.any() or positive.all():
        threshold, tpr, fpr, precision, coverage, risk, best = (np.zeros(0) for _ in range(7))
        return MonitorCurves(
            monitor, paradigm, threshold, tpr, fpr, precision, coverage, risk, best, share
        )
    ones = np.ones((1, len(alarm)), np.int64)
    points = operating(alarm, positive, ones)
    tp, fp = points.tp[:, 0], points.fp[:, 0]
    others = int((~positive).sum())
    # Accepting images up to a score rejects all above it, as the threshold before does.
    tp_before = np.concatenate([[0], tp[:-1]])[::-1]
    fp_before = np.concatenate([[0], fp[:-1]])[::-1]
    n_missed = len(alarm) - others - tp_before
    number = n_missed + others - fp_before
    return MonitorCurves(
        monitor=monitor,
        paradigm=paradigm,
        threshold=Cuts.of(alarm).threshold,
        tpr=np.concatenate([[0.0], tp / points.positives]),
        fpr=np.concatenate([[0.0], fp / points.others]),
        precision=tp / (tp + fp),
        coverage=number / len(alarm),
        risk=n_missed / number,
        best_risk=np.maximum(number - others, 0) / number,
        prevalence=share,
    )


@dataclass(frozen=True)
class TauSweep:
    """A quantity of all monitors as a function of tau, with the share of unsafe images."""

    metric: str
    tau: F64  # (T,)
    prevalence: F64  # (T,)
    monitors: tuple[str, ...]
    value: F64  # (M, T)
    low: F64
    high: F64
