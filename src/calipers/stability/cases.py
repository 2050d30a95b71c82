# SPDX-License-Identifier: Apache-2.0
"""Whole bags, positive and negative, with one score per model: the evidence of the bag AUC.

`stability` makes `Cases`; `localization` estimates the AUC of them with `BagAuroc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.case_ranks import CaseRanks
from calipers.metrics.contract import Facts
from calipers.stability.metric import units_with
from calipers.stability.pooling import POOLINGS, check_pooling
from calipers.statistics.weights import Units
from calipers.tables.bags import Bags

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Cases:
    """All bags of an analysis as cases; ``positive`` is None if there are no labels."""

    positive: Flags | None  # (n_bags,)
    bag_scores: F64 | None  # (n_bags, K) scores that came with the bags
    pooled_scores: F64  # (n_bags, n_poolings, K) NaN where a bag was not read
    units: Units

    @classmethod
    def of(cls, source: Bags, pooled_scores: F64, units: Units) -> Cases:
        """Return the cases of a source and the pooled scores of its maps."""
        positive, bag_scores = None, None
        if source.positive is not None:
            positive = np.asarray(source.positive, np.bool_)
        if source.bag_scores is not None:
            bag_scores = np.asarray(source.bag_scores, np.float64).T
        return cls(positive, bag_scores, pooled_scores, units)

    def scores(self, pooling: str) -> F64:
        """Return (n_bags, K): the scores that came with the bags, else those of a pooling."""
        check_pooling(pooling)
        if self.bag_scores is not None:
            return self.bag_scores
        return self.pooled_scores[:, POOLINGS.index(pooling)]

    @property
    def two_kinds(self) -> bool:
        """Whether there are positive and negative bags to tell apart."""
        return self.positive is not None and bool(self.positive.any() and not self.positive.all())


@dataclass(frozen=True)
class CaseScores:
    """Evidence of the bag AUC: (B, K) scores and (B,) kinds."""

    scores: F64
    positive: Flags

    @property
    def n_images(self) -> int:
        """Number of bags."""
        return len(self.positive)

    def take(self, images: I64) -> CaseScores:
        """Return the evidence of some bags."""
        return CaseScores(self.scores[images], self.positive[images])

    @classmethod
    def concat(cls, parts: Sequence[CaseScores]) -> CaseScores:
        """Return the evidence of all bags of several parts."""
        return cls(
            np.concatenate([p.scores for p in parts]), np.concatenate([p.positive for p in parts])
        )


class BagAuroc:
    """The area under the ROC curve of whole bags, of every model and their mean; equal scores count
    half.

    Undefined without a positive or without a negative bag.
    """

    def __init__(self, names: Sequence[str], evidence: CaseScores) -> None:
        self.facts = Facts(id="stability.AUC@1", names=tuple(names), per_class=False, swap=False)
        self._ranks = [
            CaseRanks.of(score, evidence.positive, -np.inf) for score in evidence.scores.T
        ]

    def value(self, evidence: CaseScores, weights: NDArray[Any]) -> F64:
        """Return (R, 1, K + 1) for weights (R, B) of the bags that were ranked; the last is the
        mean over models.
        """
        areas = np.stack([ranks.area(weights) for ranks in self._ranks], axis=1)
        return np.concatenate([areas, areas.mean(axis=1, keepdims=True)], axis=1)[:, None, :]

    def reasons(self, evidence: CaseScores) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: bags of one kind only."""
        why = "single_category" if evidence.positive.any() else "no_positives"
        return {(0, k): why for k in range(len(self.facts.names))}

    def counts(self, evidence: CaseScores, weights: I64) -> I64:
        """Return (1, K + 1, 3): bags, positive ones, scores."""
        w = np.asarray(weights, np.int64)
        n, n_models = int(w.sum()), evidence.scores.shape[1]
        n_positive = int(w @ evidence.positive)
        rows = [[n, n_positive, n]] * n_models + [[n, n_positive, n * n_models]]
        return np.array([rows], np.int64)

    def support(self, evidence: CaseScores, unit: I64, n_units: int) -> I64:
        """Return (1, K + 1, 3): the rarer kind of units, all units, those with a bag in a wrong
        order.
        """
        positive, score = evidence.positive[:, None], evidence.scores
        # A bag is in a wrong order if it does not score strictly on its side of the other kind:
        # compare with the highest score of a negative and the lowest of a positive bag.
        highest = np.where(positive, -np.inf, score).max(axis=0, initial=-np.inf)
        lowest = np.where(positive, score, np.inf).min(axis=0, initial=np.inf)
        wrong = np.where(positive, score <= highest, score >= lowest)
        wrong = np.concatenate([wrong, wrong.any(axis=1, keepdims=True)], axis=1)
        rarer = np.minimum(
            units_with(positive, unit, n_units), units_with(~positive, unit, n_units)
        )
        n_wrong = units_with(wrong, unit, n_units)
        n_rarer = np.broadcast_to(rarer, n_wrong.shape)
        return np.stack([n_rarer, np.full_like(n_wrong, n_units), n_wrong], axis=1)[None]
