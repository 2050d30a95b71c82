# SPDX-License-Identifier: Apache-2.0
"""Ranking of models, and how much of it is luck of the draw.

Ranks are "min": equal values share the better rank. What is ranked:

``data-set``
    the metric on all images, as tables show it. The only way for metrics that mean little on a
    single case, such as AP.
``mean-then-rank``, ``median-then-rank``, ``quantile-then-rank``
    the mean, median or a quantile of the metric over the cases.
``rank-then-mean``, ``rank-then-median``
    the mean or median over the cases of the rank in each.
``test-then-rank``
    the number of other models against which a one-sided signed-rank test over the cases is
    significant (Holm).

A case is a unit on its own. Units are drawn again and again, the models are ranked on what was
drawn, and the ranks are counted: how often a model had which rank (the blobs), how much the orders
agree (Kendall's tau-b), how often the winner stayed. `evaluation.rank` makes a `RankedScores` with
`standing_of_values` or `standing_of_cases` and asks the other functions about it.

References
----------
Wiesenfarth et al., Methods and open-source toolkit for analyzing and visualizing challenge results,
Scientific Reports 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.results.comparison import Place, Superiority, TauSummary
from calipers.statistics.comparison import SharedDraws, adjusted, signed_rank_p, superiority_p
from calipers.statistics.intervals import MOST_UNDEFINED
from calipers.statistics.support import FEWEST_UNITS

NAN = float("nan")

DATA_SET = "data-set"
METHODS = (
    DATA_SET,
    "mean-then-rank",
    "median-then-rank",
    "quantile-then-rank",
    "rank-then-mean",
    "rank-then-median",
    "test-then-rank",
)
SIGNED_RANK, BOOTSTRAP = "signed-rank", "bootstrap"


@dataclass(frozen=True, slots=True)
class Rule:
    """How per-case values become one number per model."""

    method: str
    higher_is_better: bool  # of the metric
    quantile: float = 0.05
    level: float = 0.95  # 1 - level is the size of the tests of ``test-then-rank``

    @property
    def higher_wins(self) -> bool:
        """Whether the larger number is the better one: ranks are better when small, tests when many
        are won.
        """
        if self.method == "test-then-rank":
            return True
        return self.higher_is_better and not self.method.startswith("rank-then")


class RankedScores(NamedTuple):
    """The numbers that are ranked, (M,) and in B replicates (B, M), and one-sided tests of all
    pairs (M, M).
    """

    scores: F64
    replicates: F64
    p: F64
    test: str
    higher_wins: bool


def ranks(scores: F64, *, higher_wins: bool) -> F64:
    """Return (R, M): 1 + the number of models that are better; NaN for all models where one has no
    value.
    """
    # A replicate in which one model has no value has no order at all.
    oriented = scores if higher_wins else -scores
    positions = 1.0 + (oriented[:, None, :] > oriented[:, :, None]).sum(axis=2)
    return np.where(np.isnan(scores).any(axis=1, keepdims=True), np.nan, positions)


def kendall_tau_b(one: F64, others: F64) -> F64:
    """Return (R,): tau-b of the ranks (M,) with each of (R, M); NaN where one side is all tied or
    undefined.
    """
    i, j = np.triu_indices(len(one), k=1)
    x, y = np.sign(one[i] - one[j]), np.sign(others[:, i] - others[:, j])
    norm = np.sqrt(np.sum(x**2) * np.sum(y**2, axis=1))
    return np.asarray(np.divide(y @ x, norm, out=np.full(len(others), np.nan), where=norm > 0))


def standing_of_values(
    theta: F64,
    replicates: F64,
    n_units: int,
    *,
    higher_is_better: bool,
    freedom: int | None = None,
    draws: SharedDraws | None = None,
) -> RankedScores:
    """Return the scores of a data-set metric: values (M,), replicates (B, M), and tests.

    ``freedom`` is ``n_units - 1`` if left out; every stratum takes one. With ``draws`` the tests
    are those of a comparison.
    """
    m, sign = len(theta), 1.0 if higher_is_better else -1.0
    df = n_units - 1 if freedom is None else freedom
    p = np.full((m, m), np.nan)
    # As for intervals: with fewer units there is nothing to test.
    if df + 1 >= FEWEST_UNITS:
        for i in range(m):
            d, d_replicates = (
                sign * (theta[i] - theta),
                sign * (replicates[:, i, None] - replicates),
            )
            if draws is None:
                p[i] = superiority_p(d, d_replicates, n_units, df)
                continue
            left_out = draws.left_out
            if left_out is not None:
                left_out = sign * (left_out[:, i, None] - left_out)
            p[i] = draws.superiority_p(d, d_replicates, left_out)
    np.fill_diagonal(p, np.nan)
    return RankedScores(theta, replicates, p, BOOTSTRAP, higher_is_better)


def standing_of_cases(values: F64, weights: Iterable[NDArray[Any]], rule: Rule) -> RankedScores:
    """Return the scores from values (K, M) on single cases, with replicates and tests.

    ``weights`` are blocks (R, K) of bootstrap weights.
    """
    once = np.ones((1, len(values)), np.int64)
    cases = values
    if rule.method.startswith("rank-then"):
        cases = ranks(values, higher_wins=rule.higher_is_better)
    replicates = [np.zeros((0, values.shape[1]))]
    replicates += [aggregated(cases, block, rule) for block in weights]
    p = case_tests(values, once, higher_is_better=rule.higher_is_better)[0]
    return RankedScores(
        scores=aggregated(cases, once, rule)[0],
        replicates=np.concatenate(replicates),
        p=p,
        test=SIGNED_RANK,
        higher_wins=rule.higher_wins,
    )


def aggregated(cases: F64, weights: NDArray[Any], rule: Rule) -> F64:
    """Return (R, M): one number per model from cases (K, M) under weights (R, K); NaN where no case
    has weight.
    """
    if rule.method == "test-then-rank":
        return tests_won(
            case_tests(cases, weights, higher_is_better=rule.higher_is_better), 1.0 - rule.level
        )
    if rule.method.endswith("mean") or rule.method.startswith("mean"):
        total = weights.sum(axis=1, dtype=np.float64)[:, None]
        sums = weights.astype(np.float64) @ cases
        return np.asarray(np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0))
    at = rule.quantile if rule.method.startswith("quantile") else 0.5
    result = np.full((len(weights), cases.shape[1]), np.nan)
    # Quantiles have no weighted form with the same bits: cases are repeated instead.
    for r in np.flatnonzero(weights.any(axis=1)):
        result[r] = np.quantile(np.repeat(cases, weights[r], axis=0), at, axis=0)
    return result


def case_tests(values: F64, weights: NDArray[Any], *, higher_is_better: bool) -> F64:
    """Return (R, M, M): one-sided p values of the row's model being better than the column's over
    the cases.
    """
    m, sign = values.shape[1], 1.0 if higher_is_better else -1.0
    p = np.full((len(weights), m, m), np.nan)
    for i in range(m):
        for j in range(i + 1, m):
            pair_p = signed_rank_p(sign * (values[:, i] - values[:, j]), weights)
            p[:, i, j], p[:, j, i] = pair_p[:, 0], pair_p[:, 1]
    return p


def tests_won(p: F64, size: float) -> F64:
    """Return (R, M): in how many tests of p (R, M, M) a model is significantly better, Holm over
    all of them.
    """
    numbers = []
    for rows in p:
        # Both directions of a pair are tests of the family.
        corrected = adjusted(rows.ravel())[0].reshape(rows.shape)
        numbers.append((corrected < size).sum(axis=1))
    return np.stack(numbers).astype(float)


def places(models: Sequence[str], standing: RankedScores, level: float) -> tuple[Place, ...]:
    """Return the models from best to worst, with the ranks they had in the replicates."""
    full = ranks(standing.scores[None], higher_wins=standing.higher_wins)[0]
    replicate_ranks = defined_ranks(standing)
    m, at = len(models), [(1 - level) / 2, 0.5, (1 + level) / 2]
    result = []
    for k in np.argsort(full, kind="stable").tolist():
        column = replicate_ranks[:, k]
        low, median, high = NAN, NAN, NAN
        shares = [NAN] * m
        if len(column):
            # Ranks are whole numbers, and so are their quantiles.
            low, median, high = np.quantile(column, at, method="inverted_cdf").tolist()
            shares = [float((column == rank).mean()) for rank in range(1, m + 1)]
        score, rank = float(standing.scores[k]), int(full[k])
        result.append(Place(models[k], score, rank, median, low, high, tuple(shares)))
    return tuple(result)


def defined_ranks(standing: RankedScores) -> F64:
    """Return the ranks in the replicates in which every model has one."""
    replicate_ranks = ranks(standing.replicates, higher_wins=standing.higher_wins)
    return replicate_ranks[~np.isnan(replicate_ranks).any(axis=1)]


def agreement(standing: RankedScores, level: float) -> tuple[TauSummary, float]:
    """Return tau-b between the ranking and those of the replicates, and the share with the same
    models on rank 1.
    """
    full = ranks(standing.scores[None], higher_wins=standing.higher_wins)[0]
    replicate_ranks = defined_ranks(standing)
    if not len(replicate_ranks):
        return TauSummary(NAN, NAN, NAN, 0), NAN
    tau = kendall_tau_b(full, replicate_ranks)
    defined = tau[~np.isnan(tau)]
    # Ties count: the same set of models has to be first.
    same_winner = float(((replicate_ranks == 1.0) == (full == 1.0)).all(axis=1).mean())
    if not len(defined):
        return TauSummary(NAN, NAN, NAN, len(tau)), same_winner
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return TauSummary(float(defined.mean()), low, high, len(tau) - len(defined)), same_winner


def significance_map(
    models: Sequence[str], standing: RankedScores, level: float
) -> tuple[tuple[Superiority, ...], int]:
    """Return the tests of all ordered pairs, Holm over all of them, and how many there are."""
    corrected, family = adjusted(standing.p.ravel())
    table = corrected.reshape(standing.p.shape)
    tests = []
    for i, a in enumerate(models):
        for j, b in enumerate(models):
            if i != j:
                p, p_adjusted = float(standing.p[i, j]), float(table[i, j])
                tests.append(Superiority(a, b, p, p_adjusted, p_adjusted < 1.0 - level))
    return tuple(tests), family


def missing_reason(n_units: int, standing: RankedScores, freedom: int | None = None) -> str | None:
    """Return why nothing can be said about replicates, or None; ``freedom`` is ``n_units - 1`` if
    left out.
    """
    n_varying = n_units if freedom is None else freedom + 1
    if min(n_units, n_varying) < FEWEST_UNITS:
        return "one_unit" if n_units == 1 else "too_few_units"
    undefined = len(standing.replicates) - len(defined_ranks(standing))
    return "too_many_undefined" if undefined > MOST_UNDEFINED * len(standing.replicates) else None
