# SPDX-License-Identifier: Apache-2.0
"""The result of `calipers.stability`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.results import Estimate, Row
from calipers.stability.cases import Cases
from calipers.stability.pairs import BagPairs
from calipers.stability.plan import ALL_MODELS, Plan

if TYPE_CHECKING:
    pass

F64 = NDArray[np.float64]
SCHEMA = "calipers.stability/1"


@dataclass(frozen=True)
class StabilityResult:
    """What `calipers.stability` returns."""

    plan: Plan
    evidence: BagPairs
    cases: Cases
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return self.plan.models

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the bags that were used."""
        return self.plan.ids

    @property
    def n_bags(self) -> int:
        """Bags, used or not."""
        return self.plan.n_bags

    @property
    def n_used(self) -> int:
        """Bags whose stability was looked at."""
        return len(self.plan.ids)

    @property
    def threshold(self) -> float:
        """At or above it an instance is called positive."""
        return self.plan.threshold

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a score over all models."""
        return self.get(name)

    def get(self, metric: str, *, model: str = ALL_MODELS, **group: str | float) -> Estimate:
        """Return one estimate, such as ``get("APJ", threshold=0.3)`` or ``get("DICE", model="seed 1")``."""
        wanted = {name: f"{value:g}" if isinstance(value, int | float) else value for name, value in group.items()}
        found = self._by_key.get((model, metric, tuple(sorted(wanted.items()))))
        if found is None:
            known = dict.fromkeys(row.metric for row in self.rows if row.model == model)
            if not known:
                raise UsageError(f"no model {model!r}; {did_you_mean(model, (ALL_MODELS, *self.models))}")
            if metric not in known:
                raise UsageError(f"no score {metric!r} of {model}; {did_you_mean(metric, known)}")
            raise UsageError(f"no row of {metric!r} with {wanted}")
        return found

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], Estimate]:
        return {(r.model, r.metric, tuple(sorted((r.group or {}).items()))): r.estimate for r in self.rows}
