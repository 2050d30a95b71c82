"""The likelihood of a mixed model as the textbook writes it: the whole covariance matrix,
inverted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def covariance(codes: Sequence[Sequence[int]], relative: Sequence[float]) -> F64:
    """V / sigma^2: 1 on the diagonal, and g for every pair of rows that share a group."""
    n = len(codes[0])
    v = np.eye(n)
    for i in range(n):
        for j in range(n):
            v[i, j] += sum(g for code, g in zip(codes, relative) if code[i] == code[j])
    return v


def solved(x: F64, y: F64, v: F64) -> tuple[F64, F64, float]:
    """Generalised least squares: coefficients, inverse of X' V^-1 X,
    weighted residual sum of squares.
    """
    inverse = np.linalg.inv(v)
    spread = np.linalg.inv(x.T @ inverse @ x)
    beta = spread @ x.T @ inverse @ y
    residual = y - x @ beta
    return beta, spread, float(residual @ inverse @ residual)


def deviance(x: F64, y: F64, v: F64, sigma2: float | None = None, *, reml: bool = True) -> float:
    """-2 log likelihood, restricted or not; the residual variance at its best unless it is
    given.
    """
    n, p = x.shape
    _, spread, rss = solved(x, y, v)
    m = n - p if reml else n
    sigma2 = rss / m if sigma2 is None else sigma2
    value = m * math.log(2 * math.pi * sigma2) + rss / sigma2 + np.linalg.slogdet(v)[1]
    return float(value - np.linalg.slogdet(spread)[1] if reml else value)


def intercepts(x: F64, y: F64, v: F64, code: Sequence[int], g: float) -> F64:
    """Best linear unbiased prediction: g Z' V^-1 (y - X b)."""
    beta, _, _ = solved(x, y, v)
    z = (np.array(code)[:, None] == np.arange(max(code) + 1)).astype(float)
    return np.asarray(g * z.T @ np.linalg.inv(v) @ (y - x @ beta))
