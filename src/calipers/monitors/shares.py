# SPDX-License-Identifier: Apache-2.0
"""The share of images with a property among the images with another one, as a metric.

`disagreement` and `estimating` use it for prevalences and for tables of labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import product, ratio
from calipers.metrics.contract import Facts
from calipers.monitors.quantities import n_marked

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Marks:
    """Which images are counted, and of which they are a share; ``part`` lies inside ``whole``."""

    part: Flags  # (K, n)
    whole: Flags  # (K, n)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Flags, Flags]]) -> Marks:
        """Return the marks of (property, among whom) pairs."""
        return cls(
            np.stack([part & whole for part, whole in pairs]),
            np.stack([whole for _, whole in pairs]),
        )

    @property
    def n_images(self) -> int:
        """Number of images."""
        return int(self.part.shape[1])

    def take(self, images: I64) -> Marks:
        """Return the marks of some images."""
        return Marks(self.part[:, images], self.whole[:, images])

    @classmethod
    def concat(cls, parts: Sequence[Marks]) -> Marks:
        """Return the marks of all images of several parts."""
        return cls(
            np.concatenate([one.part for one in parts], axis=1),
            np.concatenate([one.whole for one in parts], axis=1),
        )


class Share:
    """Weight of the part / weight of the whole; undefined if the whole is empty."""

    def __init__(self, names: Sequence[str]) -> None:
        self.facts = Facts(id="monitor-share@1", names=tuple(names), per_class=False)

    @property
    def recipe(self) -> Any:
        """Shares come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a share is given")

    def value(self, evidence: Marks, weights: NDArray[Any]) -> F64:
        """Return (R, 1, K)."""
        w = weights.astype(np.float64)
        part = product(evidence.part.astype(np.float64), w.T).T
        whole = product(evidence.whole.astype(np.float64), w.T).T
        return ratio(part, whole, whole > 0)[:, None]

    def reasons(self, evidence: Marks) -> Mapping[tuple[int, int], str]:
        """Return that there are no such images."""
        return {(0, k): "no_objects" for k in range(len(self.facts.names))}

    def counts(self, evidence: Marks, weights: I64) -> I64:
        """Return (1, K, 3): images it is a share of, images counted, 0."""
        table = np.zeros((1, len(self.facts.names), 3), np.int64)
        table[0, :, 0], table[0, :, 1] = evidence.whole @ weights, evidence.part @ weights
        return table

    def support(self, evidence: Marks, unit: I64, n_units: int) -> I64:
        """Return (1, K, 3): units with the whole, three times: none of them is right or wrong."""
        whole = [n_marked(marks, unit, n_units) for marks in evidence.whole]
        return np.repeat(np.array(whole, np.int64)[None, :, None], 3, axis=2)
