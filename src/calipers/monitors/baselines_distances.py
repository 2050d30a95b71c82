# SPDX-License-Identifier: Apache-2.0
"""How far rows of features are from those of the fit images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# the least scale of a feature: one that is constant on the fit images still counts where it differs
FINEST = 1e-3
LEAST_SHRINKAGE = 1e-3  # keeps the covariance of features that depend on each other invertible
AT_ONCE = 1 << 22  # distances that are held together


@dataclass(frozen=True)
class Normal:
    """A normal distribution with a shrunken covariance.

    Notes
    -----
    Features are centred and divided by their standard deviations (ddof 0) on the fit rows, at least
    by 0.001. Their covariance S (ddof 0) is drawn towards ``m I``, m the mean of its diagonal, with
    the weight of Ledoit and Wolf (2004), at least 0.001; where m is 0 it is I. So it can always be
    inverted.
    """

    mean: F64  # (d,)
    scale: F64  # (d,)
    root: F64  # (d, d) lower triangle; root @ root.T is the covariance of scaled features

    @classmethod
    def fitted(cls, rows: F64) -> Normal:
        """Return the distribution of (n, d) rows, n at least 1."""
        mean, scale = rows.mean(axis=0), scale_of(rows)
        scaled = (rows - mean) / scale
        covariance = scaled.T @ scaled / len(rows)
        level = float(np.trace(covariance)) / len(covariance)
        weight = shrinkage_of(scaled)
        target = np.eye(len(covariance)) * (level if level > 0.0 else 1.0)
        return cls(mean, scale, np.linalg.cholesky((1.0 - weight) * covariance + weight * target))

    def distances(self, rows: F64) -> F64:
        """Return the (n,) Mahalanobis distances of rows from the mean."""
        return np.asarray(np.sqrt((self._white(rows) ** 2).sum(axis=0)))

    def log_density(self, rows: F64) -> F64:
        """Return the (n,) natural logs of the density of rows, in the units of the features."""
        volume = np.log(np.diag(self.root)).sum() + np.log(self.scale).sum()
        constant = 0.5 * len(self.mean) * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * (self._white(rows) ** 2).sum(axis=0) - volume - constant)

    def _white(self, rows: F64) -> F64:
        from scipy.linalg import solve_triangular

        return np.asarray(
            solve_triangular(self.root, ((rows - self.mean) / self.scale).T, lower=True)
        )


def scale_of(rows: F64) -> F64:
    """Return the (d,) standard deviations (ddof 0) of features, at least 0.001."""
    return np.asarray(np.maximum(rows.std(axis=0), FINEST))


def shrinkage_of(centred: F64) -> float:
    """Return the weight of Ledoit and Wolf (2004) for (n, d) centred rows, between 0.001 and 1; 1
    for one row.
    """
    n, d = centred.shape
    if n < 2:
        return 1.0
    covariance = centred.T @ centred / n
    level = np.trace(covariance) / d
    spread = float(((covariance - level * np.eye(d)) ** 2).sum())
    if spread <= 0.0:
        return 1.0
    # Mean squared distance of x x' from S, over n.
    noise = float(((centred**2).sum(axis=1) ** 2).mean() - (covariance**2).sum()) / n
    return float(np.clip(noise / spread, LEAST_SHRINKAGE, 1.0))


def mahalanobis(rows: F64, fit: F64) -> F64:
    """Return the (n,) Mahalanobis distances of rows from the fit rows."""
    return Normal.fitted(fit).distances(rows)


def nearest(rows: F64, fit: F64, neighbours: int, fit_row: I64) -> F64:
    """Return the (n,) Euclidean distances of scaled rows to their k-th nearest fit row.

    Parameters
    ----------
    fit_row
        (n,) the fit row of the same image, -1 = none: an image is not its own neighbour.

    Notes
    -----
    Features are divided by `scale_of` the fit rows. If there are fewer than k neighbours the
    farthest counts. At least two fit rows are needed.
    """
    from scipy.spatial.distance import cdist

    scale = scale_of(fit)
    rows, fit = rows / scale, fit / scale
    distances = np.empty(len(rows))
    step = max(1, AT_ONCE // len(fit))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        table = np.asarray(cdist(rows[part], fit))
        mine = np.flatnonzero(fit_row[part] >= 0)
        table[mine, fit_row[part][mine]] = np.inf
        others = len(fit) - (fit_row[part] >= 0)
        kth = np.minimum(neighbours, others) - 1
        distances[part] = np.partition(table, np.unique(kth), axis=1)[np.arange(len(table)), kth]
    return distances
