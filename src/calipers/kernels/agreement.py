# SPDX-License-Identifier: Apache-2.0
"""Scores of 2x2 tables, for many tables at once.

Two parties call each of N things positive or negative: ``n11`` both positive, ``n10`` only the
first, ``n01`` only the second, ``n00`` neither; ``n1*`` and ``n*1`` are the positives of the first
and of the second. Where the parties are not equal, the first is the decision and the second the
reference. `tally` counts the tables; every other function takes the four counts, numbers or arrays
of one shape, and returns an array of that shape. `SCORES` lists them under the names that reports
use. Callers are the agreement study, the monitors and the stability of repeated trainings.

0/0 gives NaN. Numerators and denominators are sums and products of counts, so that whole numbers
meet 0/0 exactly where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, Flags


class ContingencyCounts(NamedTuple):
    """The four cells of a table, or of an array of tables."""

    n11: F64
    n10: F64
    n01: F64
    n00: F64


def tally(weights: NDArray[Any], first: Flags, second: Flags) -> ContingencyCounts:
    """Return the tables of C first parties against one second, under R weightings.

    Parameters
    ----------
    weights
        (R, n) whole numbers.
    first
        (n, C).
    second
        (n,).

    Returns
    -------
    Counts
        Four (R, C) arrays. Sums of whole numbers below 2^53 are exact in any order.
    """
    w = weights.astype(np.float64)
    decision = first.astype(np.float64)
    positive = second.astype(np.float64)
    n1, both = w @ decision, w @ (decision * positive[:, None])
    reference, total = (w @ positive)[:, None], w.sum(axis=1)[:, None]
    # Margins less the shared cell: one product with the weights serves three cells.
    return ContingencyCounts(both, n1 - both, reference - both, total - n1 - reference + both)


def observed_agreement(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return po = (n11 + n00) / N: accuracy, the total agreement rate."""
    return _ratio(n11 + n00, n11 + n10 + n01 + n00)


def cohen_kappa(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return kappa = (po - pe) / (1 - pe) with pe from both parties' own margins; undefined if 1 -
    pe is 0.

    Written as 2 (n11 n00 - n10 n01) / (n1* n*0 + n0* n*1), which is the same.
    """
    cross = (n11 + n10) * (n10 + n00) + (n01 + n00) * (n11 + n01)
    return _ratio(2 * (n11 * n00 - n10 * n01), cross)


def scott_pi(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return Scott's pi: kappa with one margin for both parties."""
    positive, negative = _pooled(n11, n10, n01, n00)
    return 1 - _ratio(2 * (n10 + n01) * (n11 + n10 + n01 + n00), positive * negative)


def krippendorff_alpha(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return nominal alpha of two parties: Scott's pi with a correction for small N."""
    positive, negative = _pooled(n11, n10, n01, n00)
    return 1 - _ratio((n10 + n01) * (2 * (n11 + n10 + n01 + n00) - 1), positive * negative)


def pabak(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return 2 po - 1: kappa as it would be without prevalence and bias."""
    return 2 * observed_agreement(n11, n10, n01, n00) - 1


def gwet_ac1(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return AC1: (po - pe) / (1 - pe) with pe = 2 pi (1 - pi), pi the mean share of positives."""
    positive, negative = _pooled(n11, n10, n01, n00)
    n = n11 + n10 + n01 + n00
    return _ratio(2 * n * (n11 + n00) - positive * negative, 2 * n * n - positive * negative)


def prevalence_index(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return (n11 - n00) / N."""
    return _ratio(n11 - n00, n11 + n10 + n01 + n00)


def bias_index(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return (n10 - n01) / N: how much oftener the first party says positive."""
    return _ratio(n10 - n01, n11 + n10 + n01 + n00)


def positive_agreement(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return 2 n11 / (2 n11 + n10 + n01): the Dice coefficient."""
    return _ratio(2 * n11, 2 * n11 + n10 + n01)


def negative_agreement(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return 2 n00 / (2 n00 + n10 + n01)."""
    return _ratio(2 * n00, 2 * n00 + n10 + n01)


def agreement_gap(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return positive minus negative agreement."""
    return positive_agreement(n11, n10, n01, n00) - negative_agreement(n11, n10, n01, n00)


def positive_share(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n11 / N."""
    return _ratio(n11, n11 + n10 + n01 + n00)


def jaccard(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n11 / (n11 + n10 + n01)."""
    return _ratio(n11, n11 + n10 + n01)


def overlap(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n11 / (min(n10, n01) + n11): the overlap coefficient."""
    return _ratio(n11, np.minimum(n10, n01) + n11)


def adjusted_overlap(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return (n11 - E) / (min(n1*, n*1) - E) with E = n1* n*1 / N."""
    first, second, n = n11 + n10, n11 + n01, n11 + n10 + n01 + n00
    expected = first * second
    return _ratio(n11 * n - expected, np.minimum(first, second) * n - expected)


def adjusted_jaccard(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return (n11 - E) / (n11 + n10 + n01 - E) with E = n1* n*1 / N; lies in [-1/3, 1]."""
    n = n11 + n10 + n01 + n00
    expected = (n11 + n10) * (n11 + n01)
    return _ratio(n11 * n - expected, (n11 + n10 + n01) * n - expected)


def heuristic_jaccard(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return the Jaccard index less the overlap that cannot be avoided, max(n1* + n*1 - N, 0), in
    both parts.
    """
    forced = np.maximum(n11 - n00, 0)
    return _ratio(n11 - forced, n11 + n10 + n01 - forced)


def first_surplus(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n0* - n1*: how many more negatives than positives the first party gives."""
    # Adding 0.0 turns -0.0 and whole numbers into plain floats.
    return n01 + n00 - n11 - n10 + 0.0


def second_surplus(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n*0 - n*1: the same of the second party."""
    return n10 + n00 - n11 - n01 + 0.0


def sensitivity(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n11 / (n11 + n01): the share of the reference's positives that are accepted."""
    return _ratio(n11, n11 + n01)


def specificity(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n00 / (n00 + n10): the share of the reference's negatives that are rejected."""
    return _ratio(n00, n00 + n10)


def positive_predictive_value(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n11 / (n11 + n10)."""
    return _ratio(n11, n11 + n10)


def negative_predictive_value(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return n00 / (n00 + n01)."""
    return _ratio(n00, n00 + n01)


def balanced_accuracy(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return the mean of sensitivity and specificity."""
    return (sensitivity(n11, n10, n01, n00) + specificity(n11, n10, n01, n00)) / 2


def matthews(n11: F64, n10: F64, n01: F64, n00: F64) -> F64:
    """Return the correlation of the two parties (MCC, phi); undefined if either says only one
    thing.
    """
    # One root of the product: the root of a square is exact, so that perfect tables give exactly 1.
    margins = np.sqrt(((n11 + n10) * (n01 + n00)) * ((n11 + n01) * (n10 + n00)))
    return _ratio(n11 * n00 - n10 * n01, margins)


def _pooled(n11: F64, n10: F64, n01: F64, n00: F64) -> tuple[F64, F64]:
    """Return how many positives and negatives both parties give together."""
    return 2 * n11 + n10 + n01, 2 * n00 + n10 + n01


def _ratio(part: F64, whole: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(part, whole))


# One function may have two names: that of agreement studies, and that of the stability of repeated
# trainings.
SCORES: Mapping[str, Callable[[F64, F64, F64, F64], F64]] = {
    "sensitivity": sensitivity,
    "specificity": specificity,
    "PPV": positive_predictive_value,
    "NPV": negative_predictive_value,
    "accuracy": observed_agreement,
    "balanced-accuracy": balanced_accuracy,
    "MCC": matthews,
    "po": observed_agreement,
    "kappa": cohen_kappa,
    "Scott-pi": scott_pi,
    "alpha": krippendorff_alpha,
    "PABAK": pabak,
    "AC1": gwet_ac1,
    "prevalence-index": prevalence_index,
    "bias-index": bias_index,
    "positive-agreement": positive_agreement,
    "negative-agreement": negative_agreement,
    "Jaccard": jaccard,
    "PJ": jaccard,
    "PO": overlap,
    "APO": adjusted_overlap,
    "HAPJ": heuristic_jaccard,
    "APJ": adjusted_jaccard,
    "AJ": cohen_kappa,
    "TAR": observed_agreement,
    "PAR": positive_agreement,
    "NAR": negative_agreement,
    "PAR-NAR": agreement_gap,
    "positive_share": positive_share,
    "n0*-n1*": first_surplus,
    "n*0-n*1": second_surplus,
}
