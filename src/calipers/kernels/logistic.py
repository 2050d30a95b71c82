# SPDX-License-Identifier: Apache-2.0
"""Logistic regression by reweighted least squares, with a covariance that allows for clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

STEPS = 60
SETTLED = 1e-11  # relative change of the deviance
STEEPEST = 30.0  # logits; beyond it a probability is 0 or 1 to all digits


class LogisticFit(NamedTuple):
    """The optimum."""

    beta: F64  # (p,) log odds
    bread: F64  # (p, p) inverse information: the covariance if rows were independent
    probability: F64  # (n,)
    deviance: float
    converged: bool


def fit(x: F64, y: F64) -> LogisticFit:
    """Return the maximum-likelihood fit of ``P(y = 1) = 1 / (1 + exp(-x b))``; x (n, p) has full
    rank.

    Where the data are separated, coefficients run away: the search stops where probabilities are 0
    or 1 to nearly all digits, and the bread of those coefficients is huge.
    """
    q, r = np.linalg.qr(x)
    beta, deviance, converged = np.zeros(x.shape[1]), np.inf, False
    for _ in range(STEPS):
        eta = np.clip(q @ beta, -STEEPEST, STEEPEST)
        p = 1.0 / (1.0 + np.exp(-eta))
        before, deviance = (
            deviance,
            float(2.0 * np.logaddexp(0.0, np.where(y > 0.5, -eta, eta)).sum()),
        )
        if abs(before - deviance) <= SETTLED * (1.0 + deviance):
            converged = True
            break
        weight = p * (1.0 - p)
        beta = beta + np.linalg.solve((q * weight[:, None]).T @ q, q.T @ (y - p))
    back = np.linalg.inv(r)
    information = (q * (p * (1.0 - p))[:, None]).T @ q
    return LogisticFit(
        back @ beta, back @ np.linalg.inv(information) @ back.T, p, deviance, converged
    )


def sandwich(x: F64, residual: F64, bread: F64, code: I64) -> F64:
    """Return the covariance of the coefficients if only rows of different clusters are independent.

    Notes
    -----
    ``bread (sum_g s_g s_g') bread`` with the score ``s_g`` of cluster g, times ``G / (G - 1) * (n -
    1) / (n - p)``, the usual correction for few clusters (Liang and Zeger 1986).
    """
    n, p = x.shape
    scores = np.zeros((int(code.max()) + 1, p))
    np.add.at(scores, code, x * residual[:, None])
    groups = len(scores)
    factor = groups / (groups - 1.0) * (n - 1.0) / (n - p)
    return np.asarray(factor * bread @ (scores.T @ scores) @ bread)
