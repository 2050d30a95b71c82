"""The simplest evidence there is: one numerator and one denominator per image, and their ratio as
the metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.metrics.base import Facts


@dataclass(frozen=True)
class Shares:
    over: np.ndarray
    under: np.ndarray

    @classmethod
    def of(cls, values: Any) -> Shares:
        """Return evidence whose metric is the mean of the values."""
        values = np.asarray(values, np.float64)
        return cls(values, np.ones(len(values)))

    @property
    def n_images(self) -> int:
        return len(self.over)

    def take(self, images: np.ndarray) -> Shares:
        return Shares(self.over[images], self.under[images])

    @classmethod
    def concat(cls, parts: Sequence[Shares]) -> Shares:
        return cls(
            np.concatenate([p.over for p in parts]), np.concatenate([p.under for p in parts])
        )


class Recipe:
    key = ("shares",)


class Ratio:
    """Sum of numerators / sum of denominators; undefined if the latter is 0."""

    recipe = Recipe()

    def __init__(self, **facts: Any) -> None:
        self.facts = Facts(id="ratio@1", names=("ratio",), per_class=False, **facts)

    def value(self, evidence: Shares, weights: np.ndarray) -> np.ndarray:
        weights = weights.astype(np.float64)
        over, under = weights @ evidence.over, weights @ evidence.under
        return np.divide(over, under, out=np.full(len(weights), np.nan), where=under > 0)[
            :, None, None
        ]


def sides(*values: Any) -> list[dict[Any, Shares]]:
    """Return the evidence of several models, by the key of the recipe."""
    return [{Recipe.key: v if isinstance(v, Shares) else Shares.of(v)} for v in values]
