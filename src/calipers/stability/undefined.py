# SPDX-License-Identifier: Apache-2.0
"""Count how often a score is 0/0, to print beside it: undefined pairs are no evidence for or
against stability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UndefinedPairs:
    """Pairs without a value, of all pairs on all bags; and bags on which no pair has one."""

    name: str
    pairs: int
    of_pairs: int
    bags: int
    of_bags: int

    @classmethod
    def of(cls, name: str, scores: F64) -> UndefinedPairs:
        """Count what is NaN in (B, P) scores."""
        missing = np.isnan(scores)
        n_bags = int(missing.all(axis=1).sum())
        return cls(name, int(missing.sum()), missing.size, n_bags, len(scores))

    @property
    def share(self) -> float:
        """The share of undefined pairs; NaN without pairs."""
        return self.pairs / self.of_pairs if self.of_pairs else float("nan")

    def __str__(self) -> str:
        pairs = f"{self.pairs} of {self.of_pairs} pairs undefined"
        return f"{pairs}, {self.bags} of {self.of_bags} bags without a value"

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "metric": self.name,
            "pairs": self.pairs,
            "of_pairs": self.of_pairs,
            "bags": self.bags,
            "of_bags": self.of_bags,
        }
