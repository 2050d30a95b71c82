# SPDX-License-Identifier: Apache-2.0
"""The kappa paradox: two models agree on nearly all instances, yet kappa is small.

Kappa (AJ), and with it APJ, subtracts the agreement expected by chance. If nearly all instances are
negative (or positive), that agreement is large, and a few instances decide the score. The rule, on
every bag and pair of models whose AJ is defined: the pair is *paradoxical* if

- the calls are one-sided: |prevalence index| = |n11 - n00| / N is at least 0.6, and
- the scores differ: PABAK - AJ is at least 0.2, where PABAK is kappa adjusted for prevalence and
  bias.

An analysis is flagged if at least 20 % of its defined pairs are paradoxical. The three limits are
our judgement.

References
----------
Feinstein and Cicchetti, High agreement but low kappa, J Clin Epidemiol 1990. Byrt et al., Bias,
prevalence and kappa, J Clin Epidemiol 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.results.estimate import number
from calipers.stability.pairs import BagPairs, pair_scores

ONE_SIDED = 0.6
APART = 0.2
MANY = 0.2


@dataclass(frozen=True, slots=True)
class Paradox:
    """How many pairs are paradoxical, and the mean scores of these."""

    pairs: int
    of_pairs: int  # defined ones
    total_agreement: float  # TAR of paradoxical pairs
    kappa: float  # AJ of them
    prevalence_index: float

    @property
    def share(self) -> float:
        """The share of paradoxical pairs; NaN if none is defined."""
        return self.pairs / self.of_pairs if self.of_pairs else float("nan")

    @property
    def flagged(self) -> bool:
        """Whether AJ and APJ mislead on many pairs."""
        return self.of_pairs > 0 and self.share >= MANY

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "pairs": self.pairs,
            "of_pairs": self.of_pairs,
            "share": number(self.share),
            "flagged": self.flagged,
            "TAR": number(self.total_agreement),
            "AJ": number(self.kappa),
            "prevalence-index": number(self.prevalence_index),
            "rule": {"prevalence-index": ONE_SIDED, "PABAK-AJ": APART, "share": MANY},
        }


def paradox(evidence: BagPairs, threshold_index: int) -> Paradox:
    """Return how many pairs of models are paradoxical at a threshold."""
    names = ("AJ", "PABAK", "prevalence-index", "TAR")
    kappa, pabak, prevalence, total = (
        pair_scores(evidence, name, threshold_index) for name in names
    )
    is_defined = ~np.isnan(kappa)
    odd = is_defined & (np.abs(prevalence) >= ONE_SIDED) & (pabak - kappa >= APART)
    means = [float("nan")] * 3
    if odd.any():
        means = [float(scores[odd].mean()) for scores in (total, kappa, prevalence)]
    return Paradox(int(odd.sum()), int(is_defined.sum()), *means)
