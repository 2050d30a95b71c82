# SPDX-License-Identifier: Apache-2.0
"""Isolation forest (extra ``studies``: scikit-learn)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
TREES, DRAWN = 100, 512


def fit_forest(rows: F32, seed: int) -> Callable[[F32], NDArray[np.float64]]:
    """Fit a forest to rows; return its score: up to 0.5 is usual, near 1 is isolated at once."""
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(
        n_estimators=TREES, max_samples=min(DRAWN, len(rows)), random_state=seed % 2**32, n_jobs=1
    ).fit(rows)
    return lambda patches: -np.asarray(model.score_samples(patches))
