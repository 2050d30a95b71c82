# SPDX-License-Identifier: Apache-2.0
"""The evidence of map stability, `BagPairs`: counts and correlations of every pair of models.

Every score of a pair of models on a bag is a function of these numbers, so that other thresholds,
other conventions, leaving out a model and resampling bags never read a map again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import one_of
from calipers.errors import UsageError, did_you_mean
from calipers.kernels import contingency
from calipers.kernels.contingency import SCORES
from calipers.kernels.pairwise import pair_index

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

AGREEMENT = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ", "TAR", "PAR", "NAR", "PABAK", "AC1")
# These describe the calls of two models; a higher value is not better.
MARGINAL = ("PAR-NAR", "prevalence-index", "bias-index", "positive_share")
BINARY = (*AGREEMENT, *MARGINAL)
CONTINUOUS = ("Pearson", "Spearman", "Kendall-b", "Kendall-a")
SCORE_NAMES = (*BINARY, *CONTINUOUS)

UNDEFINED = ("skip", "agree", "one")


@dataclass(frozen=True)
class BagPairs:
    """Evidence of the stability of K models on B bags: P = K (K - 1) / 2 pairs, T thresholds.

    ``calls[b, t, k]`` counts the instances of bag b that exactly k models call positive at
    threshold t.
    """

    n_models: int
    thresholds: F64  # (T,) ascending
    n: I64  # (B,) instances
    ones: I64  # (B, T, K) called positive
    common: I64  # (B, T, P) called positive by both
    calls: I64  # (B, T, K + 1)
    correlations: F64  # (B, 4, P) as CONTINUOUS; NaN = undefined or not asked for
    # the reference; -1 = bag not annotated
    hits: I64  # (B, T, K) positive instances of the reference that are called positive
    truth: I64  # (B,) positive instances of the reference
    bag_scores: F64  # (B, K) NaN = unknown

    @property
    def n_images(self) -> int:
        """Number of bags: they are the images of this evidence."""
        return len(self.n)

    @property
    def n_pairs(self) -> int:
        """Number of unordered pairs of models."""
        return self.n_models * (self.n_models - 1) // 2

    def take(self, images: I64) -> BagPairs:
        """Return the evidence of some bags."""
        per_bag: dict[str, Any] = {name: getattr(self, name)[images] for name in PER_BAG}
        return replace(self, **per_bag)

    @classmethod
    def concat(cls, parts: Sequence[BagPairs]) -> BagPairs:
        """Return the evidence of all bags of several parts with the same models and thresholds."""
        per_bag: dict[str, Any] = {}
        for name in PER_BAG:
            per_bag[name] = np.concatenate([getattr(part, name) for part in parts])
        return replace(parts[0], **per_bag)

    def at(self, threshold: float) -> int:
        """Return the index of a threshold of the analysis."""
        indices = np.flatnonzero(self.thresholds == threshold)
        if not len(indices):
            thresholds = ", ".join(f"{t:g}" for t in self.thresholds)
            raise UsageError(
                f"the threshold {threshold:g} is not part of the analysis; there are: {thresholds}"
            )
        return int(indices[0])

    def without_model(self, model: int) -> Flags:
        """Return (P,) which pairs remain if a model is left out."""
        first, second = pair_index(self.n_models)
        return np.asarray((first != model) & (second != model))


PER_BAG = tuple(
    field.name for field in fields(BagPairs) if field.name not in ("n_models", "thresholds")
)


def check_name(name: str) -> None:
    """Raise for a score that does not exist."""
    if name not in SCORE_NAMES:
        raise UsageError(f"no stability score {name!r}; {did_you_mean(name, SCORE_NAMES)}")


def check_undefined(undefined: str) -> None:
    """Raise for a rule that does not exist."""
    one_of("rule for undefined pairs", undefined, UNDEFINED)


def pair_counts(evidence: BagPairs, threshold_index: int) -> contingency.ContingencyCounts:
    """Return the 2x2 tables of every bag and pair: four (B, P) arrays."""
    first, second = pair_index(evidence.n_models)
    ones = evidence.ones[:, threshold_index].astype(np.float64)
    n11 = evidence.common[:, threshold_index].astype(np.float64)
    n10, n01 = ones[:, first] - n11, ones[:, second] - n11
    return contingency.ContingencyCounts(n11, n10, n01, evidence.n[:, None] - n11 - n10 - n01)


def pair_scores(
    evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip"
) -> F64:
    """Return (B, P): one score of every bag and pair of models; NaN where it is undefined.

    Parameters
    ----------
    undefined
        What a score of agreement (``AGREEMENT``) is where it is 0/0 because both maps are
        all-positive or both are all-negative: ``skip`` leaves it undefined, ``agree`` says 1 for
        all-positive and 0 for all-negative, ``one`` says 1 for both. Correlations of constant maps
        stay undefined.

    Notes
    -----
    A pair of models has no first one, so ``bias-index`` is |n10 - n01| / N here.
    """
    check_name(name)
    check_undefined(undefined)
    if name in CONTINUOUS:
        return evidence.correlations[:, CONTINUOUS.index(name)]
    counts = pair_counts(evidence, threshold_index)
    scores = SCORES[name](*counts)
    if name == "bias-index":
        scores = np.abs(scores)
    if undefined == "skip" or name not in AGREEMENT:
        return scores
    n = evidence.n[:, None]
    missing = np.isnan(scores)
    of_nothing = 1.0 if undefined == "one" else 0.0
    scores = np.where(missing & (counts.n11 == n), 1.0, scores)
    return np.where(missing & (counts.n00 == n), of_nothing, scores)


def bag_means(scores: F64) -> F64:
    """Return (B,): the mean over the defined pairs of every bag; NaN where no pair is defined."""
    is_defined = ~np.isnan(scores)
    number = is_defined.sum(axis=1)
    total = np.where(is_defined, scores, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, number, out=np.full(len(scores), np.nan), where=number > 0))


def per_bag(evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip") -> F64:
    """Return (B,): the mean of a score over the pairs of models, bag by bag."""
    return bag_means(pair_scores(evidence, name, threshold_index, undefined))
