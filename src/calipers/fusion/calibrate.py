# SPDX-License-Identifier: Apache-2.0
"""Score curves: from the scores of a member to the share of its boxes that are hits.

Members whose scores mean different things cannot be averaged fairly: a score of .9 is a hit in nine
of ten cases for one model, and in one of two for another. `fit_curve` takes scores and which of
them belong to hits, both of a tuning split, and returns a `ScoreCurve`:

``isotonic``
    the non-decreasing step function with the least squared error (`scipy.optimize`), linear between
    its steps. It follows any monotone distortion, and ties boxes whose scores say the same.
``temperature``
    ``sigmoid(logit(score) / T)`` with the T of the highest likelihood. It keeps the order of all
    boxes. Scores of 0 and 1 have no logit, and count as 1e-6 and 1 - 1e-6.

Nothing can be learnt from no box, from hits only, or from false alarms only, nor a temperature from
scores that are all equal. Such a curve leaves the scores as they are and states its reason; callers
count it.

`calipers.fusion.recipe` writes curves as TOML, `calipers.fusion.fuse` fits and uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calipers.arrays import F64, Flags

CalibrationMethod = Literal["none", "isotonic", "temperature"]
NEAREST = 1e-6  # to 0 and 1, for logits
LOG_TEMPERATURES = (-3.0, 3.0)  # T from 0.05 to 20: beyond, scores are all alike or all 0 and 1
WHY_NOT = {
    "no_boxes": "it has no boxes there",
    "no_hits": "none of its boxes is a hit there",
    "all_hits": "all of its boxes are hits there",
    "constant_scores": "all of its scores are equal",
}


@dataclass(frozen=True)
class ScoreCurve:
    """How a member's scores become shares of hits, and what that was learnt from."""

    n: int  # boxes of the tuning split
    hits: int  # among them
    knots: tuple[float, ...] = ()  # ascending scores: isotonic
    values: tuple[float, ...] = ()  # their shares of hits
    temperature: float = 1.0
    reason: str = ""  # why scores stay as they are: a key of WHY_NOT

    def __call__(self, score: F64) -> F64:
        """Return calibrated scores."""
        if self.reason or not len(score):
            return score
        if self.knots:
            return np.interp(score, self.knots, self.values)
        from scipy.special import expit

        return np.asarray(expit(_logits(score) / self.temperature), np.float64)

    def as_dict(self) -> dict[str, Any]:
        """Return what is needed to read the curve back."""
        counts: dict[str, Any] = {"n": self.n, "hits": self.hits}
        if self.reason:
            return {**counts, "reason": self.reason}
        if self.knots:
            return {**counts, "knots": list(self.knots), "values": list(self.values)}
        return {**counts, "temperature": self.temperature}


def fit_curve(score: F64, hit: Flags, method: str) -> ScoreCurve:
    """Return the curve of a member from its boxes on a tuning split.

    Parameters
    ----------
    score
        (n,) in [0, 1].
    hit
        (n,) whether the box is a hit.
    method
        ``isotonic`` or ``temperature``.

    Examples
    --------
    >>> import numpy as np
    >>> scores, hits = np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, True, False, True])
    >>> fit_curve(scores, hits, "isotonic")(np.array([0.05, 0.5, 0.95])).tolist()
    [0.0, 0.5, 1.0]
    """
    n, hits = len(score), int(hit.sum())
    reason = _reason(score, hits, method)
    if reason:
        return ScoreCurve(n, hits, reason=reason)
    if method == "temperature":
        return ScoreCurve(n, hits, temperature=_temperature(score, hit))
    knots, values = _isotonic(score, hit)
    return ScoreCurve(n, hits, tuple(knots.tolist()), tuple(values.tolist()))


def _reason(score: F64, hits: int, method: str) -> str:
    if not len(score):
        return "no_boxes"
    if hits == 0:
        return "no_hits"
    if hits == len(score):
        return "all_hits"
    # A step function of equal scores is their share of hits, but no temperature moves them apart.
    is_constant = bool(score.min() == score.max())
    return "constant_scores" if method == "temperature" and is_constant else ""


def _isotonic(score: F64, hit: Flags) -> tuple[F64, F64]:
    """Return the ends of the steps of the fit, and its values there."""
    from scipy.optimize import isotonic_regression

    levels, place = np.unique(score, return_inverse=True)
    boxes = np.bincount(place)
    # Equal scores are one observation with the weight of all of them: they can only move together.
    share = np.bincount(place, weights=hit) / boxes
    fit = isotonic_regression(share, weights=boxes.astype(np.float64))
    # A mean of shares can leave [0, 1] by a rounding error.
    values = np.clip(fit.x, 0.0, 1.0)
    changes = np.flatnonzero(np.diff(values)) + 1
    ends = np.unique(np.concatenate([[0], changes - 1, changes, [len(levels) - 1]]))
    return levels[ends], values[ends]


def _temperature(score: F64, hit: Flags) -> float:
    """Return the temperature under which the hits are most likely."""
    from scipy.optimize import minimize_scalar

    logits = _logits(score)
    signs = np.where(hit, -1.0, 1.0)

    def surprise(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, signs * logits * np.exp(-log_temperature)).mean())

    best = minimize_scalar(surprise, bounds=LOG_TEMPERATURES, method="bounded")
    return float(np.exp(best.x))


def _logits(score: F64) -> F64:
    from scipy.special import logit

    return np.asarray(logit(np.clip(score, NEAREST, 1.0 - NEAREST)), np.float64)
