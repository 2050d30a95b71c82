# SPDX-License-Identifier: Apache-2.0
"""What stands behind the scores: who calls, where scores vary, what misleads, other trainings.

`StabilityResult` calls these functions with `BagPairs` or with scores of pairs (B bags, P pairs).
Figures and the JSON document show them.

- `CallCounts`: instances by how many models call them positive: 0 of K, 1 of K, ..., all K.
- `leave_one_out`: the jackknife over models. K models have K (K - 1) / 2 pairs, but two pairs that
  share a model are dependent, so the number of pairs is not a sample size. Leaving out one model at
  a time gives K values and a t interval with K - 1 degrees of freedom for other trainings.
- `components`: where a score varies: between bags, between pairs of models, or neither. Bags and
  pairs are crossed, one score per cell: score = mean + bag + pair + rest. The three variances are
  those that make the mean squares of the two-way table equal to what is expected of them; a
  negative one is set to 0, as variances are. Bags with an undefined pair are left out and counted,
  so that the table has no holes. Pairs that share a model are alike, so the part of pairs is a
  description of these models, without an interval.
- `correlate`: do two scores rank the bags alike?
- `UndefinedPairs`: how often a score is 0/0, to print beside it: undefined pairs are no evidence
  for or against stability.
- `paradox`: the kappa paradox: two models agree on nearly all instances, yet kappa is small. Kappa
  (AJ), and with it APJ, subtracts the agreement expected by chance. If nearly all instances are
  negative (or positive), that agreement is large, and a few instances decide the score. A pair
  whose AJ is defined is *paradoxical* on a bag if its calls are one-sided, |prevalence index| =
  |n11 - n00| / N at least 0.6, and its scores differ, PABAK - AJ at least 0.2, where PABAK is kappa
  adjusted for prevalence and bias. An analysis is flagged if at least 20 % of its defined pairs are
  paradoxical. The three limits are our judgement (Feinstein and Cicchetti, High agreement but low
  kappa, J Clin Epidemiol 1990; Byrt et al., Bias, prevalence and kappa, J Clin Epidemiol 1993).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.arrays import F64, I64
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.ranks import midranks
from calipers.results.estimate import number
from calipers.stability.evidence import BagPairs, bag_means, pair_scores
from calipers.stability.scores import SCORES, called_values
from calipers.statistics.intervals import MetricScale

NAN = math.nan

METHODS = ("spearman", "pearson")

# Limits of the kappa paradox: our judgement, printed with every result.
ONE_SIDED = 0.6
APART = 0.2
MANY = 0.2

FEWEST_MODELS = 3  # leaving one out must leave a pair


@dataclass(frozen=True)
class CallCounts:
    """Histograms of instances by the number of models that call them positive, at one threshold."""

    threshold: float
    per_bag: I64  # (B, K + 1)

    @property
    def total(self) -> I64:
        """(K + 1,) instances of all bags."""
        return np.asarray(self.per_bag.sum(axis=0))

    @property
    def shares(self) -> F64:
        """(K + 1,) shares of all instances; NaN without any."""
        total = self.total
        return np.asarray(total / total.sum()) if total.sum() else np.full(len(total), np.nan)

    @property
    def some(self) -> float:
        """The share of all instances that some but not all models call positive; large bags weigh
        more.
        """
        return float(called_values(self.total[None], "called-by-some")[0])

    def as_dict(self) -> dict[str, Any]:
        """Return the histogram for JSON."""
        return {
            "threshold": self.threshold,
            "instances": self.total.tolist(),
            "some_but_not_all": number(self.some),
        }


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """A score without each model, and its t interval over models; NaN with a reason where there is
    none.

    ``without[k]`` is the mean over bags without model k; ``error`` is sqrt((K - 1) / K sum (without
    - mean)^2); the interval is value -+ t(K - 1) error, on the scale of the score's limits. It
    describes other trainings of the same kind on these bags.
    """

    name: str
    models: tuple[str, ...]
    value: float
    without: tuple[float, ...]
    error: float
    low: float
    high: float
    level: float
    reason: str | None = None

    @property
    def most_different(self) -> str | None:
        """The model without which the score is highest: it agrees least with the others."""
        # A value is equal to itself unless it is NaN.
        pairs = [pair for pair in zip(self.without, self.models) if pair[0] == pair[0]]
        return max(pairs)[1] if pairs else None

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        method = "none" if self.reason else "jackknife-t"
        return {
            "metric": self.name,
            "value": number(self.value),
            "without": {model: number(value) for model, value in zip(self.models, self.without)},
            "standard_error": number(self.error),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": method,
            "unit": "model",
            "n_units": len(self.models),
            "reason": self.reason,
        }


def leave_one_out(
    evidence: BagPairs,
    name: str,
    threshold_index: int,
    undefined: str,
    models: tuple[str, ...],
    level: float,
) -> LeaveOneOut:
    """Return a score of pairs of models without each model in turn."""
    scores = pair_scores(evidence, name, threshold_index, undefined)
    value = _mean_of_defined(bag_means(scores))
    if evidence.n_models < FEWEST_MODELS:
        nothing = (NAN,) * evidence.n_models
        return LeaveOneOut(name, models, value, nothing, NAN, NAN, NAN, level, "too_few_units")
    without = []
    for k in range(evidence.n_models):
        # Pairs without model k, on all bags: a bag whose last defined pair goes has no value then.
        without.append(_mean_of_defined(bag_means(scores[:, evidence.without_model(k)])))
    error = jackknife_error(np.array(without))
    if not math.isfinite(error) or math.isnan(value):
        why = SCORES[name].reason if math.isnan(value) else "too_many_undefined"
        return LeaveOneOut(name, models, value, tuple(without), NAN, NAN, NAN, level, why)
    low, high = t_interval(value, error, len(without), level, SCORES[name].bounds)
    if not low < high:  # an interval of width 0 would claim certainty
        why = "constant_input"
        return LeaveOneOut(name, models, value, tuple(without), error, NAN, NAN, level, why)
    return LeaveOneOut(name, models, value, tuple(without), error, low, high, level)


def jackknife_error(without: F64) -> float:
    """Return the standard error of an estimate from its K values (K,) without one model each."""
    centred = without - without.mean()
    return float(np.sqrt((len(without) - 1) / len(without) * (centred**2).sum()))


def t_interval(
    value: float, error: float, n: int, level: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Return the t interval of a score of n models, on the scale of the score's limits."""
    from scipy.special import stdtrit

    if error == 0.0:  # all models are alike, or all differ alike; on a bound the scale has no slope
        return value, value
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    low, high = MetricScale.of(bounds).around(np.array([value]), np.array([half]))
    return float(low[0]), float(high[0])


def _mean_of_defined(values: F64) -> float:
    defined_values = values[~np.isnan(values)]
    return float(defined_values.mean()) if len(defined_values) else NAN


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a score; NaN with a reason where they cannot be told apart."""

    name: str
    bags: float
    pairs: float
    rest: float
    n_bags: int  # without a hole
    n_left_out: int
    n_pairs: int
    reason: str | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the whole variance; NaN if nothing varies."""
        parts = {"bags": self.bags, "pairs": self.pairs, "rest": self.rest}
        whole = sum(parts.values())
        if not whole > 0:
            return dict.fromkeys(parts, NAN)
        return {name: part / whole for name, part in parts.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "metric": self.name,
            "variance": {
                "bags": number(self.bags),
                "pairs": number(self.pairs),
                "rest": number(self.rest),
            },
            "share": {name: number(share) for name, share in self.shares.items()},
            "n_bags": self.n_bags,
            "n_left_out": self.n_left_out,
            "n_pairs": self.n_pairs,
            "reason": self.reason,
        }


def components(name: str, scores: F64) -> Components:
    """Return the variance components of scores (B, P) of bags and pairs; NaN for undefined ones."""
    complete = ~np.isnan(scores).any(axis=1)
    table = scores[complete]
    n_bags, n_pairs, n_left_out = len(table), scores.shape[1], int((~complete).sum())
    if n_bags < 2 or n_pairs < 2:
        return Components(name, NAN, NAN, NAN, n_bags, n_left_out, n_pairs, "too_few_units")
    mean, of_bags, of_pairs = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - of_bags[:, None] - of_pairs[None, :] + mean
    # Expected mean squares of a two-way table with one value per cell: noise; noise + n_pairs *
    # bags; noise + n_bags * pairs.
    noise = float((rest**2).sum()) / ((n_bags - 1) * (n_pairs - 1))
    between_bags = n_pairs * float(((of_bags - mean) ** 2).sum()) / (n_bags - 1)
    between_pairs = n_bags * float(((of_pairs - mean) ** 2).sum()) / (n_pairs - 1)
    bags = max(0.0, (between_bags - noise) / n_pairs)
    pairs = max(0.0, (between_pairs - noise) / n_bags)
    return Components(name, bags, pairs, noise, n_bags, n_left_out, n_pairs)


@dataclass(frozen=True)
class ScoreCorrelation:
    """Correlations of scores over bags, each over the bags on which both are defined.

    A value is NaN where fewer than two bags have both scores or one of them is constant. APJ = AJ /
    (2 - AJ), so the rank correlation of the two is 1 over single pairs: over bags, which are means
    of pairs, it is near 1 for that reason alone.
    """

    method: str
    names: tuple[str, ...]
    values: F64  # (n_names, n_names)
    n: I64  # (n_names, n_names) bags

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """Return the correlation of two scores."""
        for name in pair:
            if name not in self.names:
                raise UsageError(f"no score {name!r}; {did_you_mean(name, self.names)}")
        return float(self.values[self.names.index(pair[0]), self.names.index(pair[1])])

    def as_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        values = [list(map(number, row)) for row in self.values.tolist()]
        return {
            "method": self.method,
            "names": list(self.names),
            "values": values,
            "n": self.n.tolist(),
        }


def correlate(names: tuple[str, ...], table: F64, method: str) -> ScoreCorrelation:
    """Return the correlations of the columns of (B, n_names)."""
    if method not in METHODS:
        raise UsageError(f"no correlation {method!r}; {did_you_mean(method, METHODS)}")
    size = len(names)
    values, n = np.full((size, size), np.nan), np.zeros((size, size), np.int64)
    for i in range(size):
        for j in range(i, size):
            n[i, j] = n[j, i] = int((~np.isnan(table[:, i]) & ~np.isnan(table[:, j])).sum())
            values[i, j] = values[j, i] = correlation(table[:, i], table[:, j], method)
    return ScoreCorrelation(method, names, values, n)


def correlation(first: F64, second: F64, method: str = "spearman") -> float:
    """Return the correlation of two columns over the bags on which both are defined.

    NaN for fewer than two such bags, or if a column is constant on them.
    """
    defined = ~np.isnan(first) & ~np.isnan(second)
    pair = np.stack([first[defined], second[defined]])
    # Compared exactly: rounding of the mean would leave a constant column with a variance.
    if pair.shape[1] < 2 or (pair == pair[:, :1]).all(axis=1).any():
        return float("nan")
    if method == "spearman":
        pair = midranks(pair)
    centred = pair - pair.mean(axis=1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=1))
    if not size.all():  # differences so small that their squares are 0
        return float("nan")
    # rounding may lead beyond -1 or 1
    return float(np.clip((centred[0] * centred[1]).sum() / (size[0] * size[1]), -1.0, 1.0))


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
