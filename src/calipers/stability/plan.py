# SPDX-License-Identifier: Apache-2.0
"""The settings of a stability analysis, and the bags it uses. Made once by `stability`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.estimates import Certainty
from calipers.statistics.weights import Units

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

ALL_MODELS = "all models"


@dataclass(frozen=True)
class StabilityPlan:
    """The settings of an analysis; ``ids``, ``positive`` and ``units`` are of the bags that are
    used.
    """

    models: tuple[str, ...]
    ids: tuple[str, ...]
    n_bags: int  # used or not
    positive: Flags | None
    threshold: float
    sweep: tuple[float, ...]
    undefined: str
    bags: str
    kendall: bool
    units: Units
    certainty: Certainty
    notes: tuple[str, ...]

    @property
    def references(self) -> I64:
        """(B,) 1 for bags that are known to be positive."""
        if self.positive is None:
            return np.zeros(len(self.ids), np.int64)
        return self.positive.astype(np.int64)

    def settings(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            "threshold": self.threshold,
            "thresholds": list(self.sweep),
            "undefined": self.undefined,
            "bags": self.bags,
            "kendall": self.kendall,
            "level": self.certainty.level,
            "replicates": self.certainty.replicates,
            "seed": self.certainty.seed,
            "unit": self.units.name,
            "n_units": self.units.number,
        }
