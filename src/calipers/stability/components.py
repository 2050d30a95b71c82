# SPDX-License-Identifier: Apache-2.0
"""Where a score varies: between bags, between pairs of models, or neither.

Bags and pairs are crossed, one score per cell: score = mean + bag + pair + rest. The three
variances are those that make the mean squares of the two-way table equal to what is expected of
them; a negative one is set to 0, as variances are. Bags with an undefined pair are left out and
counted, so that the table has no holes. Pairs that share a model are alike, so the part of pairs is
a description of these models, without an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import number

F64 = NDArray[np.float64]
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a score; NaN with a reason where they cannot be told apart."""

    name: str
    bags: float
    pairs: float
    rest: float
    n_bags: int  # without a hole
    n_left_out: int
    n_pairs: int
    reason: str | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the whole variance; NaN if nothing varies."""
        parts = {"bags": self.bags, "pairs": self.pairs, "rest": self.rest}
        whole = sum(parts.values())
        if not whole > 0:
            return dict.fromkeys(parts, NAN)
        return {name: part / whole for name, part in parts.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "metric": self.name,
            "variance": {
                "bags": number(self.bags),
                "pairs": number(self.pairs),
                "rest": number(self.rest),
            },
            "share": {name: number(share) for name, share in self.shares.items()},
            "n_bags": self.n_bags,
            "n_left_out": self.n_left_out,
            "n_pairs": self.n_pairs,
            "reason": self.reason,
        }


def components(name: str, scores: F64) -> Components:
    """Return the variance components of scores (B, P) of bags and pairs; NaN for undefined ones."""
    complete = ~np.isnan(scores).any(axis=1)
    table = scores[complete]
    n_bags, n_pairs, n_left_out = len(table), scores.shape[1], int((~complete).sum())
    if n_bags < 2 or n_pairs < 2:
        return Components(name, NAN, NAN, NAN, n_bags, n_left_out, n_pairs, "too_few_units")
    mean, of_bags, of_pairs = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - of_bags[:, None] - of_pairs[None, :] + mean
    noise = float((rest**2).sum()) / ((n_bags - 1) * (n_pairs - 1))
    between_bags = n_pairs * float(((of_bags - mean) ** 2).sum()) / (n_bags - 1)
    between_pairs = n_bags * float(((of_pairs - mean) ** 2).sum()) / (n_pairs - 1)
    bags = max(0.0, (between_bags - noise) / n_pairs)
    pairs = max(0.0, (between_pairs - noise) / n_bags)
    return Components(name, bags, pairs, noise, n_bags, n_left_out, n_pairs)
