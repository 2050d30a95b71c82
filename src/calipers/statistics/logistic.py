# SPDX-License-Identifier: Apache-2.0
"""Logistic regression of the probability of a hit, with standard errors by patient or centre."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels import logistic
from calipers.results.estimate import number
from calipers.statistics.coefficients import Coefficient, CoefficientSupport, coefficients, quantile
from calipers.statistics.design import hypothetical
from calipers.statistics.intervals import FEWEST_UNITS
from calipers.statistics.mixed_words import percent
from calipers.statistics.regression import RegressionData, prepare
from calipers.statistics.weights import plural

F64 = NDArray[np.float64]
NAN = float("nan")
# standard error in logits per standard deviation of a column: the coefficient has no finite value
RUNAWAY = 20.0


@dataclass(frozen=True, slots=True)
class AdjustedProbability:
    """The probability if every row had one level of a category and kept all its other columns."""

    column: str
    level: str
    value: float
    low: float
    high: float
    n_rows: int  # that really have this level
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "column": self.column,
            "level": self.level,
            "value": number(self.value),
            "low": number(self.low),
            "high": number(self.high),
            "n_rows": self.n_rows,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class LogisticModel:
    """A fitted logistic regression; coefficients are logarithms of odds ratios."""

    formula: str
    response: str
    level: float
    coefficients: tuple[Coefficient, ...]
    probabilities: tuple[AdjustedProbability, ...]
    unit: str  # clusters of the standard errors
    n_units: int
    n_rows: int
    n_positive: int
    n_dropped: Mapping[str, int]
    deviance: float
    converged: bool
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Coefficient:
        """Return a coefficient, such as ``model["size[small]"]``."""
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise UsageError(
            f"no coefficient {name!r}; {did_you_mean(name, [c.name for c in self.coefficients])}"
        )

    def odds_ratio(self, name: str) -> tuple[float, float, float]:
        """Return the odds ratio of a coefficient and its interval."""
        one = self[name]
        return math.exp(one.value), math.exp(one.low), math.exp(one.high)

    def sentences(self) -> tuple[str, ...]:
        """Say the adjusted probabilities in words."""
        return tuple(_sentence(self, one) for one in self.probabilities)

    def as_dict(self) -> dict[str, Any]:
        """Return the fit for JSON; coefficients are log odds ratios."""
        return {
            "kind": "logistic",
            "formula": self.formula,
            "response": self.response,
            "level": self.level,
            "unit": self.unit,
            "n_units": self.n_units,
            "n_rows": self.n_rows,
            "n_positive": self.n_positive,
            "n_dropped": dict(self.n_dropped),
            "coefficients": [coefficient.as_dict() for coefficient in self.coefficients],
            "probabilities": [one.as_dict() for one in self.probabilities],
            "deviance": number(self.deviance),
            "converged": self.converged,
            "sentences": list(self.sentences()),
            "notes": list(self.notes),
        }


def logistic_model(
    frame: Any,
    formula: str,
    groups: Sequence[str],
    *,
    level: float = 0.95,
    levels: Mapping[str, Sequence[Any]] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    few_groups: int = FEWEST_UNITS,
) -> LogisticModel:
    """Fit a logistic regression with standard errors by cluster.

    Parameters
    ----------
    frame, formula, levels, missing, few_groups
        As in `calipers.mixed_model`; the response is 0 or 1.
    groups
        Outermost first. Clusters are the outermost groups of which there are at least
        ``few_groups``; fewer ones become a fixed effect.

    Notes
    -----
    Coefficients are those of rows taken as independent; the standard errors allow rows of one
    cluster to depend on each other in any way (sandwich estimator), intervals use the t
    distribution with K - 1 degrees of freedom for K clusters. A coefficient is undefined
    (``single_category``) where all rows of a level have the same outcome.
    """
    data = prepare(
        frame,
        formula,
        groups,
        levels=levels,
        missing=missing,
        few_groups=few_groups,
        crossed=False,
        level=level,
    )
    y = data.y
    _check_binary(data)
    if data.structure.levels:
        outer = data.structure.levels[0]
        code, unit, n_units = outer.code, outer.name, len(outer)
    else:
        code, unit, n_units = np.arange(len(y)), "row", len(y)
    notes = [note for note in data.notes if "least squares" not in note]
    fit, covariance, undefined, fit_notes = _fit_logistic(data, code)
    supports = []
    for is_undefined in undefined.tolist():
        reason = "single_category" if is_undefined else _too_few(n_units)
        supports.append(CoefficientSupport("sandwich-t", float(n_units - 1), unit, n_units, reason))
    values = np.where(undefined, NAN, fit.beta)
    rows = coefficients(
        data.design.effects, values, covariance, supports, level=level, n_rows=len(y)
    )
    return LogisticModel(
        formula=str(data.formula),
        response=data.formula.response,
        level=level,
        coefficients=rows,
        probabilities=_probabilities(data, fit, covariance, undefined, supports[0], level),
        unit=unit,
        n_units=n_units,
        n_rows=len(y),
        n_positive=int(y.sum()),
        n_dropped=data.n_dropped,
        deviance=fit.deviance,
        converged=fit.converged,
        notes=(*notes, *fit_notes),
    )


def _fit_logistic(
    data: RegressionData, code: NDArray[np.int64]
) -> tuple[logistic.LogisticFit, F64, NDArray[np.bool_], list[str]]:
    """Return the fit, its covariance by cluster, which coefficients are undefined, and notes."""
    y, x = data.y, data.design.matrix
    if len(np.unique(y)) == 1:
        fit = logistic.LogisticFit(
            np.full(x.shape[1], NAN), np.full((x.shape[1],) * 2, NAN), y, 0.0, True
        )
        notes = [f"every {data.formula.response} is {y[0]:g}: there is nothing to explain"]
        return fit, fit.bread, np.ones(x.shape[1], np.bool_), notes
    fit = logistic.fit(x, y)
    undefined = _runaway(x, fit.bread)
    covariance = logistic.sandwich(x, y - fit.probability, fit.bread, code)
    return fit, covariance, undefined, _separated(data, undefined)


def _check_binary(data: RegressionData) -> None:
    invalid = np.flatnonzero((data.y != 0.0) & (data.y != 1.0))
    if len(invalid):
        row, name = int(invalid[0]), data.formula.response
        problem = data.frame.table.problem(
            row, name, "binary-response", "0 or 1", float(data.y[row])
        )
        raise problem.as_error(data.file)
    if len(data.y) <= data.design.matrix.shape[1]:
        expected = f"more rows than the {data.design.matrix.shape[1]} coefficients"
        raise InputError(expected, rule="too-few-rows", file=data.file, value=len(data.y))


def _too_few(n_units: int) -> str | None:
    """Return why standard errors by cluster are impossible, or None."""
    if n_units >= FEWEST_UNITS:
        return None
    return "one_unit" if n_units == 1 else "too_few_units"


def _runaway(x: F64, bread: F64) -> NDArray[np.bool_]:
    """Return which coefficients have no finite value: the data carry no information on them."""
    # In separated data the estimate grows without limit, and its standard error with it.
    scale = x.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return np.asarray(~(np.sqrt(np.maximum(np.diag(bread), 0.0)) * scale < RUNAWAY))


def _separated(data: RegressionData, undefined: NDArray[np.bool_]) -> list[str]:
    """Name the levels in which every row has the same outcome."""
    notes = []
    for column, levels in data.design.levels.items():
        texts = data.frame.texts(column)
        for one in levels:
            outcomes = data.y[texts == one]
            if undefined.any() and len(set(outcomes.tolist())) == 1:
                notes.append(
                    f"all {len(outcomes)} rows with {column} {one} have "
                    f"{data.formula.response} {outcomes[0]:g}: odds ratios with it are undefined"
                )
    return notes


def _probabilities(
    data: RegressionData,
    fit: logistic.LogisticFit,
    covariance: F64,
    undefined: NDArray[np.bool_],
    support: CoefficientSupport,
    level: float,
) -> tuple[AdjustedProbability, ...]:
    """Return the adjusted probability of every level of every category of the formula."""
    probabilities = []
    for column, levels in data.design.levels.items():
        if data.structure.fixed is not None and column == data.structure.fixed.name:
            continue
        texts = data.frame.texts(column)
        for one in levels:
            n = int((texts == one).sum())
            if np.isnan(fit.beta).any():
                only = float(data.y[0])
                probabilities.append(
                    AdjustedProbability(column, one, only, NAN, NAN, n, "single_category")
                )
                continue
            x = hypothetical(data.frame, data.design, column, one)
            p = 1.0 / (1.0 + np.exp(-np.clip(x @ fit.beta, -logistic.STEEPEST, logistic.STEEPEST)))
            value, slope = float(p.mean()), (x * (p * (1.0 - p))[:, None]).mean(axis=0)
            reason, low, high = support.reason, NAN, NAN
            if reason is None and not 1e-6 < value < 1 - 1e-6:
                reason = "single_category"
            if reason is None:
                low, high = _between(value, float(slope @ covariance @ slope), support, level)
            probabilities.append(AdjustedProbability(column, one, value, low, high, n, reason))
    return tuple(probabilities)


def _between(
    value: float, variance: float, support: CoefficientSupport, level: float
) -> tuple[float, float]:
    """Return the interval of a probability, taken on the logit scale."""
    # Delta method: the derivative of the logit is 1 / (p (1 - p)).
    half = quantile(level, support.df) * math.sqrt(max(variance, 0.0)) / (value * (1.0 - value))
    logit = math.log(value / (1.0 - value))
    return 1.0 / (1.0 + math.exp(-(logit - half))), 1.0 / (1.0 + math.exp(-(logit + half)))


def _sentence(model: LogisticModel, one: AdjustedProbability) -> str:
    text = f"{model.response}: {100 * one.value:.0f} % with {one.column} {one.level}"
    if math.isnan(one.low):
        return f"{text} ({one.n_rows} rows, no interval)."
    between = f"{percent(model.level)} interval {100 * one.low:.0f} to {100 * one.high:.0f} %"
    return f"{text} ({between}; {model.n_units} {plural(model.unit)})."
