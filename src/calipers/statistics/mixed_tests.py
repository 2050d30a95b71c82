# SPDX-License-Identifier: Apache-2.0
"""Likelihood-ratio tests of terms (by ML) and of random intercepts (with the chi-bar-squared
mixture).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.errors import UsageError
from calipers.results.estimate import number
from calipers.statistics.design import INTERCEPT
from calipers.statistics.mixed_problem import MixedProblem

NOTHING = 1e-8  # a gain in deviance below this is none


@dataclass(frozen=True, slots=True)
class LikelihoodRatio:
    """A likelihood-ratio test: how much worse the model is without a term or a group."""

    what: str  # a term, or a group
    kind: str  # term | component
    statistic: float  # difference of the deviances
    df: int
    p: float
    criterion: str  # of the two fits: ML | REML
    method: str  # chi-squared | chi-bar-squared

    def as_dict(self) -> dict[str, Any]:
        """Return the test for JSON."""
        return {
            "what": self.what,
            "kind": self.kind,
            "statistic": number(self.statistic),
            "df": self.df,
            "p": number(self.p),
            "criterion": self.criterion,
            "method": self.method,
        }


def term_tests(problem: MixedProblem) -> tuple[LikelihoodRatio, ...]:
    """Test every term that no interaction contains, against the model without its columns."""
    effects = problem.design.effects
    columns: dict[str, set[str]] = {}
    for effect in effects:
        columns[effect.term] = {name for name, _ in effect.parts}
    if INTERCEPT not in columns:
        return ()  # a term would take the mean with it: that is no question about the term
    terms = [term for term in columns if term != INTERCEPT]
    full_deviance = _deviance(problem, reml=False)
    tests = []
    for term in terms:
        if not any(columns[term] < columns[other] for other in terms):
            small = problem.without_term(term)
            tests.append(_of_terms(term, small, full_deviance, len(effects)))
    return tuple(tests)


def component_tests(problem: MixedProblem, *, reml: bool) -> tuple[LikelihoodRatio, ...]:
    """Test every random intercept against the model without it."""
    full_deviance = _deviance(problem, reml=reml)
    tests = []
    for level in problem.levels:
        small = problem.without_level(level.name)
        tests.append(_of_level(level.name, small, full_deviance, reml))
    return tuple(tests)


def compare(first: MixedProblem, second: MixedProblem, *, reml: bool) -> LikelihoodRatio:
    """Test two models on the same rows, one of which contains the other."""
    y, other = first.restored(first.y), second.restored(second.y)
    if len(y) != len(other) or not np.array_equal(y, other):
        raise UsageError(
            "the two models have different rows or responses: their likelihoods are not comparable"
        )
    small, large = sorted(
        (first, second), key=lambda problem: (problem.x.shape[1], len(problem.levels))
    )
    same_terms = small.x.shape[1] == large.x.shape[1]
    if not _contains(large, small):
        raise UsageError(
            "neither model contains the other: a likelihood-ratio test needs one that does"
        )
    small_levels = {level.name for level in small.levels}
    large_levels = {level.name for level in large.levels}
    if small_levels == large_levels and not same_terms:
        extra = [e.term for e in large.design.effects if e not in small.design.effects]
        what = " + ".join(dict.fromkeys(extra))
        return _of_terms(what, small, _deviance(large, reml=False), large.x.shape[1])
    difference = small_levels ^ large_levels
    is_nested = small_levels < large_levels or large_levels < small_levels
    if same_terms and len(difference) == 1 and is_nested:
        return _of_level(difference.pop(), small, _deviance(large, reml=reml), reml)
    raise UsageError(
        "the models must differ in terms, or in one random intercept, not in both and not in more"
    )


def _of_terms(
    what: str, small: MixedProblem, full_deviance: float, columns: int
) -> LikelihoodRatio:
    from scipy.special import chdtrc

    gain, df = max(_deviance(small, reml=False) - full_deviance, 0.0), columns - small.x.shape[1]
    return LikelihoodRatio(what, "term", gain, df, float(chdtrc(df, gain)), "ML", "chi-squared")


def _of_level(name: str, small: MixedProblem, full_deviance: float, reml: bool) -> LikelihoodRatio:
    """Half of the chi-squared tail: under the null the estimate is 0, and the gain nothing, half of
    the time.
    """
    from scipy.special import chdtrc

    gain = max(_deviance(small, reml=reml) - full_deviance, 0.0)
    p = 1.0 if gain < NOTHING else 0.5 * float(chdtrc(1, gain))
    return LikelihoodRatio(
        name, "component", gain, 1, p, "REML" if reml else "ML", "chi-bar-squared"
    )


def _deviance(problem: MixedProblem, *, reml: bool) -> float:
    fit = problem.solve(reml=reml)
    return float("nan") if fit is None else fit.deviance


def _contains(large: MixedProblem, small: MixedProblem) -> bool:
    """Return whether the columns of one design are combinations of those of the other, row by row
    of the table.
    """
    ours, theirs = large.restored(large.x), small.restored(small.x)
    residual = theirs - ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    return bool(
        np.abs(residual).max(initial=0.0) < 1e-8 * max(np.abs(theirs).max(initial=0.0), 1.0)
    )
