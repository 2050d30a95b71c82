# SPDX-License-Identifier: Apache-2.0
"""What metrics are, in closed form, on maps of 0 and 1 with objects of equal size: experiments (c),
(d) and (e).
"""

from __future__ import annotations

from calipers.studies.anomaly.measures import ALPHA, LENIENT

WEIGHTS = {"softIoU": 0.5, LENIENT: ALPHA}
ALIKE = (
    "F1@0.5",
    "F1@0.01",
    "F1@centre",
    "Dice",
)  # F1 of objects, and of voxels where all objects have as many


def closed_form(
    experiment: str, metric: str, x: float, *, objects: int = 4, samples: int = 50
) -> float | None:
    """Return the value of a metric at a strength, None where there is no simple form.

    Notes
    -----
    With n objects, k false ones and weight a on false voxels, the soft IoU is ``1 / (1 + a k)``,
    its Jaccard form ``1 / (1 + k)``, AP ``n / (n + k)``, F1 and Dice ``2 n / (2 n + k)``. With m
    objects missed the soft IoU is ``(n - m) / n``, F1 and Dice ``2 (n - m) / (2 n - m)`` and AUROC
    ``1 - m / (2 n)``. With e empty samples beside s others, means over samples go from v to ``(s v
    + e) / (s + e)``; Dice, AUROC and IoU/instance stay.
    """
    if experiment == "c":
        return _with_false(metric, x, objects)
    if experiment == "d":
        return _with_missed(metric, x, objects)
    if experiment == "e":
        value = _with_missed(metric, 1.0, objects)
        # Added samples without objects do not change these.
        if value is None or metric == "Dice" or metric.startswith(("AUROC", "IoU")):
            return value
        return (samples * value + x) / (samples + x)
    return None


def _with_false(metric: str, k: float, n: int) -> float | None:
    if metric in WEIGHTS:
        return 1.0 / (1.0 + WEIGHTS[metric] * k)
    if metric == "softIoU/jaccard":
        return 1.0 / (1.0 + k)
    if metric in ("AP/dataset", "AP/sample"):
        return n / (n + k)
    return 2.0 * n / (2.0 * n + k) if metric in ALIKE else None


def _with_missed(metric: str, m: float, n: int) -> float | None:
    if metric in ("softIoU", "softIoU/jaccard", "IoU/instance"):
        return (n - m) / n
    if metric in ("AUROC/dataset", "AUROC/sample"):
        return 1.0 - m / (2.0 * n)
    if metric == "Dice" and m == n:
        return None  # then the best threshold calls everything
    return 2.0 * (n - m) / (2.0 * n - m) if metric in ALIKE else None
