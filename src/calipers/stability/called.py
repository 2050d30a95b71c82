# SPDX-License-Identifier: Apache-2.0
"""Histograms of instances by how many models call them positive: 0 of K, 1 of K, ..., all K.

Made by `StabilityResult.called` from `BagPairs.calls`; figures and the JSON document show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import number
from calipers.stability.scores import called_values

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class CallCounts:
    """Histograms of instances by the number of models that call them positive, at one threshold."""

    threshold: float
    per_bag: I64  # (B, K + 1)

    @property
    def total(self) -> I64:
        """(K + 1,) instances of all bags."""
        return np.asarray(self.per_bag.sum(axis=0))

    @property
    def shares(self) -> F64:
        """(K + 1,) shares of all instances; NaN without any."""
        total = self.total
        return np.asarray(total / total.sum()) if total.sum() else np.full(len(total), np.nan)

    @property
    def some(self) -> float:
        """The share of all instances that some but not all models call positive; large bags weigh
        more.
        """
        return float(called_values(self.total[None], "called-by-some")[0])

    def as_dict(self) -> dict[str, Any]:
        """Return the histogram for JSON."""
        return {
            "threshold": self.threshold,
            "instances": self.total.tolist(),
            "some_but_not_all": number(self.some),
        }
