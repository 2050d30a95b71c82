"""Stability, the slow obvious way: loops over bags and pairs, with scipy and scikit-learn where
they have the score.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics

NAN = math.nan


def counts(a: np.ndarray, b: np.ndarray) -> tuple[int, int, int, int]:
    """n11, n10, n01, n00 of two lists of calls."""
    pairs = list(zip(a.tolist(), b.tolist()))
    n11, n10, n01, n00 = (
        pairs.count(kind) for kind in [(True, True), (True, False), (False, True), (False, False)]
    )
    return n11, n10, n01, n00


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else NAN


def binary(name: str, a: np.ndarray, b: np.ndarray) -> float:
    """One score of two lists of calls."""
    n11, n10, n01, n00 = counts(a, b)
    n = n11 + n10 + n01 + n00
    first, second = n11 + n10, n11 + n01
    expected, forced = first * second / n, max(first + second - n, 0)
    constant = n11 == n or n00 == n
    if name == "PJ":
        return NAN if n00 == n else float(metrics.jaccard_score(a, b))
    if name == "PAR":
        return NAN if n00 == n else float(metrics.f1_score(a, b))
    if name == "NAR":
        return NAN if n11 == n else float(metrics.f1_score(~a, ~b))
    if name == "AJ":
        return NAN if constant else float(metrics.cohen_kappa_score(a, b, labels=[False, True]))
    if name == "PO":
        return ratio(n11, min(n10, n01) + n11)
    if name == "APO":
        return ratio(n11 - expected, min(first, second) - expected)
    if name == "HAPJ":
        return ratio(n11 - forced, n10 + n01 + n11 - forced)
    if name == "APJ":
        return ratio(n11 - expected, n10 + n01 + n11 - expected)
    if name == "TAR":
        return float(metrics.accuracy_score(a, b))
    if name == "PABAK":
        return 2 * (n11 + n00) / n - 1
    if name == "AC1":
        share = (first + second) / (2 * n)
        chance = 2 * share * (1 - share)
        return ((n11 + n00) / n - chance) / (1 - chance)
    if name == "PAR-NAR":
        return binary("PAR", a, b) - binary("NAR", a, b)
    return {
        "prevalence-index": (n11 - n00) / n,
        "bias-index": abs(n10 - n01) / n,
        "positive_share": n11 / n,
    }[name]


def continuous(name: str, a: np.ndarray, b: np.ndarray) -> float:
    """One correlation of two maps."""
    if name == "Kendall-a":
        places = itertools.combinations(range(len(a)), 2)
        signs = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in places]
        return float(np.mean(signs)) if signs else NAN
    if len(set(a.tolist())) < 2 or len(set(b.tolist())) < 2:
        return NAN
    peer = {"Pearson": stats.pearsonr, "Spearman": stats.spearmanr, "Kendall-b": stats.kendalltau}[
        name
    ]
    return float(peer(a, b)[0])


def pair_score(
    name: str, a: np.ndarray, b: np.ndarray, threshold: float, undefined: str = "skip"
) -> float:
    """One score of two flat maps."""
    if name in ("Pearson", "Spearman", "Kendall-b", "Kendall-a"):
        return continuous(name, a, b)
    x, y = (a >= threshold, b >= threshold) if threshold > 0 else (a > 0, b > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = binary(name, x, y)
    agreement = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ", "PAR", "NAR")
    if math.isnan(value) and undefined != "skip" and name in agreement:
        if x.all() and y.all():
            return 1.0
        if not x.any() and not y.any():
            return 1.0 if undefined == "one" else 0.0
    return value


def bag_score(name: str, maps: Any, threshold: float, undefined: str = "skip") -> float:
    """The mean over the defined pairs of the models of one bag (K, ...)."""
    flat = [np.asarray(one, float).ravel() for one in maps]
    found = [
        pair_score(name, a, b, threshold, undefined) for a, b in itertools.combinations(flat, 2)
    ]
    known = [value for value in found if not math.isnan(value)]
    return float(np.mean(known)) if known else NAN


def score(name: str, bags: Sequence[Any], threshold: float, undefined: str = "skip") -> float:
    """The mean over the bags that have a value."""
    known = [
        v for v in (bag_score(name, bag, threshold, undefined) for bag in bags) if not math.isnan(v)
    ]
    return float(np.mean(known)) if known else NAN
