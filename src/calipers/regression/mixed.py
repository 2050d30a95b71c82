# SPDX-License-Identifier: Apache-2.0
"""`mixed_model`: what explains a measurement, if rows share an image, a patient or a centre.

A table, a formula and groups come in, a `MixedModel` goes out. `calipers.mixed_model`,
`calipers.regression.logistic.localization_models` and the command line call it.

Rows of one patient are more alike than rows of two, so that 1,400 polyps of 6 centres are much less
than 1,400 independent facts. The model ``y = X b + u_centre + u_patient + u_image + e`` gives every
centre, patient and image an intercept of its own, drawn from a normal distribution, and estimates
the effects b together with the variances.

- `ModelTest`: tests of terms and of random intercepts. Likelihood ratios, by ML for terms and with
  the chi-bar-squared mixture for intercepts; a term that is constant within the outermost groups,
  of which there are few, is tested by F with their degrees of freedom.
- `BootstrapCheck`: two checks of the intervals. The parametric bootstrap draws data from the fit:
  it believes the model and shows what its asymptotics leave out. The cluster bootstrap draws the
  outermost groups again: it believes only that these are independent, and if its standard errors
  are much larger, the model misses something.
- `Diagnostics`: what shows whether the model fits: residuals, QQ points, predicted intercepts.
  Data, no pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_arguments
from calipers.arrays import F64
from calipers.errors import InputError, UsageError, did_you_mean, whole
from calipers.kernels.mixed import Fit
from calipers.kernels.resampling import check_seed, generator
from calipers.regression.design import INTERCEPT
from calipers.regression.model import (
    RESIDUAL,
    Coefficient,
    Component,
    MixedProblem,
    RegressionData,
    coefficients,
    components,
    prepare,
    supports_of,
)
from calipers.regression.words import sentences
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.show.words import digits, plural
from calipers.statistics import intervals, spread
from calipers.statistics.estimates import Progress
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units, bootstrap

NOTHING = 1e-8  # a gain in deviance below this is none

EVERYWHERE = (float("-inf"), float("inf"))
Kind = Literal["parametric", "cluster"]
START = 0.02  # relative standard deviation: a search that begins at 0 would stay there

# Relative to the residual, as the kernel has variances.
SINGULAR = 1e-4  # relative standard deviation below which a variance counts as zero
ALONE = 1e4  # relative standard deviation above which the residual counts as nothing


@names_arguments
def mixed_model(
    frame: Any,
    formula: str,
    groups: Sequence[str],
    *,
    reml: bool = True,
    level: float = 0.95,
    levels: Mapping[str, Sequence[Any]] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    few_groups: int = 5,
    crossed: bool = False,
    bootstrap: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> MixedModel:
    """Fit a linear mixed model with a random intercept for every group.

    Parameters
    ----------
    frame
        A pandas frame, an arrow table, a mapping of columns.
    formula
        ``"iou ~ size + type"``, with ``size:type`` for an interaction and ``-1`` for no intercept.
        Text columns are categories, compared with their first level; numbers are numbers.
    groups
        Columns with the random intercepts, outermost first: ``["centre", "patient", "image"]``.
        They are nested: patient 1 of centre A is not patient 1 of centre B.
    reml
        Restricted maximum likelihood (default), else maximum likelihood.
    level
        Of the intervals.
    levels
        ``{"size": ["large", "medium", "small"]}``: makes a column categorical, and orders it;
        the first level is the one that others are compared with. Sorted if left out.
    missing
        What happens to rows with an empty cell: ``"refuse"`` them with an error, or ``"drop"`` and
        count them.
    few_groups
        With fewer groups than this, a variance is not estimated: the groups become a fixed effect.
    crossed
        The groups are not nested (readers and images); needs statsmodels.
    bootstrap
        Replicates of a parametric and of a cluster bootstrap, as a check of the intervals; see
        `MixedModel.checks`.
    seed
        Of the bootstrap.
    progress
        Called with (replicates done, replicates in all) of each bootstrap, when it is asked for.

    Notes
    -----
    Intervals of coefficients are ``b -+ q se``. For columns that are constant within the outermost
    groups (the intercept, everything that describes a centre) q is of the t distribution with K - c
    degrees of freedom for K groups and c such columns, else of the normal distribution. Standard
    deviations and intraclass correlations have profile-likelihood intervals.

    Removed, with an entry in `notes`: a grouping whose groups all have one row, or all have one
    subgroup. A grouping with fewer than ``few_groups`` groups becomes a fixed effect.

    Examples
    --------
    >>> import calipers as cal
    >>> table = {
    ...     "iou": [0.90, 0.61, 0.82, 0.52, 0.71, 0.49, 0.93, 0.60, 0.78, 0.55, 0.86, 0.52],
    ...     "size": ["large", "small"] * 6,
    ...     "patient": list("aabbccddeeff"),
    ... }
    >>> model = cal.mixed_model(table, "iou ~ size", groups=["patient"])
    >>> print(round(model["size[small]"].value, 3), model.n_groups)
    -0.285 {'patient': 6}
    """
    whole("bootstrap", bootstrap, 0, intervals.MOST_REPLICATES)
    check_seed(seed)
    data = prepare(
        frame,
        formula,
        groups,
        levels=levels,
        missing=missing,
        few_groups=few_groups,
        crossed=crossed,
        level=level,
    )
    _check_response(data)
    problem = MixedProblem.of(data.y, data.design, data.structure.levels, crossed=crossed)
    _check_within(problem, data)
    fit = problem.solve(reml=reml)
    # `prepare` has refused designs without full rank.
    if fit is None:
        raise AssertionError("the design has full rank, it was checked")
    supports = supports_of(problem)
    rows = coefficients(
        data.design.effects, fit.beta, fit.covariance, supports, level=level, n_rows=len(data.y)
    )
    n_groups = {one.name: len(one) for one in problem.levels}
    return MixedModel(
        formula=str(data.formula),
        response=data.formula.response,
        groups=data.groups,
        criterion="REML" if reml else "ML",
        crossed=crossed,
        level=level,
        coefficients=rows,
        n_rows=len(data.y),
        n_dropped=data.n_dropped,
        n_groups=n_groups,
        deviance=fit.deviance,
        converged=fit.converged,
        singular=bool((fit.relative < SINGULAR**2).any()),
        notes=(*data.notes, *_notes(problem, fit)),
        seed=seed,
        replicates=bootstrap,
        problem=problem,
        fit=fit,
        progress=progress,
    )


def _check_response(data: RegressionData) -> None:
    """Refuse a response that leaves nothing to estimate a variance from."""
    x, y = data.design.matrix, data.y
    rows, columns = x.shape
    # First of all: whatever else is wrong, no term explains what does not vary.
    if rows > 1 and float(np.ptp(y)) == 0.0:
        name = data.formula.response
        raise InputError(
            "a response that varies",
            rule="constant-response",
            file=data.file,
            field=name,
            value=f"{digits(y[0], 6)} in all {rows} rows",
            hint=f"every row has the same {name}: no term can explain it",
        )
    # Fewer rows would leave nothing to estimate variances from.
    if rows < columns + 2:
        raise InputError(
            f"at least {columns + 2} rows for {columns} coefficients",
            rule="too-few-rows",
            file=data.file,
            value=rows,
        )
    # A response that is a combination of the terms leaves no residual to divide by.
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    if float(residual @ residual) <= 1e-20 * max(float(y @ y), 1e-300):
        raise InputError(
            "a response that the terms do not determine",
            rule="constant-response",
            file=data.file,
            field=data.formula.response,
            hint="it is made of the other columns: there is nothing left to estimate",
        )


def _check_within(problem: MixedProblem, data: RegressionData) -> None:
    """Refuse rows that do not differ within their innermost groups: the residual variance would be
    nothing.
    """
    if not problem.levels or problem.crossed:
        return
    code = problem.levels[-1].code
    table = np.column_stack([problem.x, problem.y])
    # Means of the innermost groups taken away: what is left is all that the residual can see.
    means = np.zeros((int(code.max()) + 1, table.shape[1]))
    np.add.at(means, code, table)
    away = table - (means / np.bincount(code)[:, None])[code]
    residual = (
        away[:, -1] - away[:, :-1] @ np.linalg.lstsq(away[:, :-1], away[:, -1], rcond=None)[0]
    )
    if float(residual @ residual) <= 1e-20 * float(problem.y @ problem.y):
        name = problem.levels[-1].name
        raise InputError(
            f"rows of one {name} that differ",
            rule="constant-response",
            file=data.file,
            field=data.formula.response,
            hint=f"the {data.formula.response} of all rows of a {name} is the same: "
            "keep one row of each",
        )


def _notes(problem: MixedProblem, fit: Fit) -> list[str]:
    """Return notes on variances of zero, on convergence, and on a binary response."""
    notes = []
    for level, g in zip(problem.levels, fit.relative.tolist()):
        if g < SINGULAR**2:
            notes.append(
                f"the variance between {plural(level.name)} is estimated as zero (a singular fit)"
            )
        elif g > ALONE**2:
            notes.append(
                f"rows of one {level.name} hardly differ: the residual variance is negligible "
                "next to its variance"
            )
    if not fit.converged:
        notes.append("the search for the variances did not converge")
    if set(np.unique(problem.y).tolist()) <= {0.0, 1.0}:
        notes.append(
            "the response is 0 or 1: coefficients are differences of probabilities, "
            "a logistic model fits better"
        )
    return notes


@dataclass(frozen=True, repr=False, eq=False)
class MixedModel(Document):
    """A fitted linear mixed model; `mixed_model` makes it, slow parts are computed on access."""

    TABLES = "calipers.regression.tables:tables"
    ROW = "coefficient"

    formula: str
    response: str
    groups: tuple[str, ...]  # as asked for
    criterion: Literal["REML", "ML"]
    crossed: bool
    level: float
    coefficients: tuple[Coefficient, ...]
    n_rows: int
    n_dropped: Mapping[str, int]  # rows without a value, by the first column that lacks one
    n_groups: Mapping[str, int]  # of the random intercepts that are left, outermost first
    deviance: float  # -2 log likelihood, restricted under REML
    converged: bool
    singular: bool  # a variance is zero
    notes: tuple[str, ...]  # what was taken out, and why
    seed: int
    replicates: int  # of the bootstrap checks
    problem: MixedProblem = field(repr=False)
    fit: Fit = field(repr=False)
    progress: Progress | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Coefficient:
        """Return a coefficient, such as ``model["size[small]"]``."""
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise UsageError(
            f"no coefficient {name!r}; {did_you_mean(name, [c.name for c in self.coefficients])}"
        )

    @property
    def log_likelihood(self) -> float:
        """The logarithm of the likelihood, restricted under REML."""
        return -self.deviance / 2.0

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The standard deviations: of every group from the outermost on, then of the residual."""
        return components(self.problem, self.fit, level=self.level, reml=self.criterion == "REML")

    @cached_property
    def term_tests(self) -> tuple[ModelTest, ...]:
        """For every term of the formula, the test of the model without it: likelihood ratio, always
        by ML; F if the term is constant within the outermost groups.
        """
        return term_tests(self.problem)

    @cached_property
    def component_tests(self) -> tuple[ModelTest, ...]:
        """For every random intercept, the likelihood-ratio test of the model without it."""
        return component_tests(self.problem, reml=self.criterion == "REML")

    def lr_test(self, other: MixedModel) -> ModelTest:
        """Compare with a model on the same rows that has more terms, or one random intercept more.

        Terms are compared by ML, whatever the criterion of the two models: restricted likelihoods
        of different designs are not comparable. Terms that are constant within the outermost groups
        are tested by F, as in `term_tests`. For a random intercept the p is halved, because a
        variance cannot be negative (the 50:50 mixture of chi-squared with 0 and 1 degrees of
        freedom).
        """
        return compare(self.problem, other.problem, reml=self.criterion == "REML")

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Fitted values, residuals, points of a QQ plot, and the predicted intercept of every
        group.
        """
        return diagnose(self.problem, self.fit)

    @cached_property
    def checks(self) -> tuple[BootstrapCheck, ...]:
        """The bootstrap checks that were asked for: parametric, and of the outermost groups."""
        if not self.replicates:
            return ()
        reml = self.criterion == "REML"
        draws = Draws(self.replicates, self.seed, self.level, self.progress)
        parametric = check(self.problem, self.fit, "parametric", draws, reml=reml)
        if self.crossed:
            return (parametric,)  # groups that cross cannot be drawn one by one
        return parametric, check(self.problem, self.fit, "cluster", draws, reml=reml)

    def sentences(self) -> tuple[str, ...]:
        """Say every effect in words."""
        return sentences(self.response, self.coefficients)

    def __str__(self) -> str:
        head = f"{self.formula}, {self.criterion}, {self.n_rows} rows"
        if self.n_groups:
            counts = ", ".join(f"{n} of {name}" for name, n in self.n_groups.items())
            head += f" ({counts})"
        return "\n".join([head, *self.sentences(), *self.notes])

    @property
    def rows(self) -> tuple[Coefficient, ...]:
        """A row per coefficient."""
        return self.coefficients

    def _content(self) -> dict[str, Any]:
        seed = self.seed if self.replicates else None
        return {
            "kind": "linear",
            "formula": self.formula,
            "response": self.response,
            "criterion": self.criterion,
            "crossed": self.crossed,
            "level": self.level,
            "n_rows": self.n_rows,
            "n_dropped": dict(self.n_dropped),
            "n_groups": dict(self.n_groups),
            "coefficients": self._records(),
            "components": [component.as_dict() for component in self.components],
            "tests": [test.as_dict() for test in (*self.term_tests, *self.component_tests)],
            "deviance": number(self.deviance),
            "log_likelihood": number(self.log_likelihood),
            "converged": self.converged,
            "singular": self.singular,
            "seed": seed,
            "checks": [one.as_dict() for one in self.checks],
            "sentences": list(self.sentences()),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ModelTest:
    """A test of how much worse the model is without a term or a group."""

    what: str  # a term, or a group
    kind: str  # term | component
    statistic: float  # difference of the deviances; F
    df: int
    p: float
    criterion: str  # of the fits: ML | REML
    method: str  # chi-squared | chi-bar-squared | wald-f
    df_error: float | None = None  # of F

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
            "df_error": self.df_error,
        }


def term_tests(problem: MixedProblem) -> tuple[ModelTest, ...]:
    """Test every term that no interaction contains, against the model without its columns."""
    effects = problem.design.effects
    columns: dict[str, set[str]] = {}
    for effect in effects:
        columns[effect.term] = {name for name, _ in effect.parts}
    if INTERCEPT not in columns:
        return ()  # a term would take the mean with it: that is no question about the term
    terms = [term for term in columns if term != INTERCEPT]
    tests = []
    for term in terms:
        # A main effect inside an interaction cannot be taken out by itself.
        if not any(columns[term] < columns[other] for other in terms):
            places = [k for k, effect in enumerate(effects) if effect.term == term]
            tests.append(_term_test(term, problem.without_term(term), problem, places))
    return tuple(tests)


def component_tests(problem: MixedProblem, *, reml: bool) -> tuple[ModelTest, ...]:
    """Test every random intercept against the model without it."""
    full_deviance = _deviance(problem, reml=reml)
    tests = []
    for level in problem.levels:
        small = problem.without_level(level.name)
        tests.append(_level_test(level.name, small, full_deviance, reml))
    return tuple(tests)


def compare(first: MixedProblem, second: MixedProblem, *, reml: bool) -> ModelTest:
    """Test two models on the same rows, one of which contains the other."""
    y, other = first.restored(first.y), second.restored(second.y)
    if len(y) != len(other) or not np.array_equal(y, other):
        raise UsageError(
            "the two models have different rows or responses: their likelihoods are not comparable"
        )
    # The caller need not know which of the two is the larger one.
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
        effects = large.design.effects
        places = [k for k, e in enumerate(effects) if e not in small.design.effects]
        what = " + ".join(dict.fromkeys(effects[k].term for k in places))
        return _term_test(what, small, large, places)
    difference = small_levels ^ large_levels
    is_nested = small_levels < large_levels or large_levels < small_levels
    if same_terms and len(difference) == 1 and is_nested:
        return _level_test(difference.pop(), small, _deviance(large, reml=reml), reml)
    raise UsageError(
        "the models must differ in terms, or in one random intercept, not in both and not in more"
    )


def _term_test(
    what: str, small: MixedProblem, large: MixedProblem, places: Sequence[int]
) -> ModelTest:
    """Test the columns of the larger model at some places, which the smaller one does not have."""
    from scipy.special import chdtrc

    df = large.x.shape[1] - small.x.shape[1]
    supports = supports_of(large)
    constant = [supports[k] for k in places if supports[k].method == "wald-t"]
    # With few outermost groups the chi-squared distribution of a likelihood ratio is too narrow.
    # Columns that the two models write in other ways can only be compared by their likelihood.
    if constant and len(places) == df:
        return _f_test(what, large, places, min(one.df for one in constant))
    # By ML: restricted likelihoods of different designs are not comparable.
    gain = max(_deviance(small, reml=False) - _deviance(large, reml=False), 0.0)
    return ModelTest(what, "term", gain, df, float(chdtrc(df, gain)), "ML", "chi-squared")


def _f_test(what: str, problem: MixedProblem, places: Sequence[int], df_error: float) -> ModelTest:
    """Return the Wald test that some coefficients are 0, by F; its covariance is that of REML."""
    from scipy.special import fdtrc

    fit, df = problem.solve(reml=True), len(places)
    statistic = p = float("nan")
    if fit is not None:
        beta, covariance = fit.beta[places], fit.covariance[np.ix_(places, places)]
        statistic = float(beta @ np.linalg.solve(covariance, beta)) / df
        if df_error > 0:
            p = float(fdtrc(df, df_error, statistic))
    return ModelTest(what, "term", statistic, df, p, "REML", "wald-f", df_error)


def _level_test(name: str, small: MixedProblem, full_deviance: float, reml: bool) -> ModelTest:
    """Half of the chi-squared tail: under the null the estimate is 0, and the gain nothing, half of
    the time.
    """
    from scipy.special import chdtrc

    gain = max(_deviance(small, reml=reml) - full_deviance, 0.0)
    p = 1.0 if gain < NOTHING else 0.5 * float(chdtrc(1, gain))
    return ModelTest(name, "component", gain, 1, p, "REML" if reml else "ML", "chi-bar-squared")


def _deviance(problem: MixedProblem, *, reml: bool) -> float:
    fit = problem.solve(reml=reml)
    return float("nan") if fit is None else fit.deviance


def _contains(large: MixedProblem, small: MixedProblem) -> bool:
    """Return whether the columns of one design are combinations of those of the other, row by row
    of the table.
    """
    # In the order of the table: the two problems sort their rows by their own groups.
    ours, theirs = large.restored(large.x), small.restored(small.x)
    residual = theirs - ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    return bool(
        np.abs(residual).max(initial=0.0) < 1e-8 * max(np.abs(theirs).max(initial=0.0), 1.0)
    )


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """One coefficient or standard deviation under the bootstrap."""

    name: str
    value: float  # of the fit itself
    se: float
    bias: float  # mean of the replicates minus the value
    low: float
    high: float
    method: str
    reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "value": number(self.value),
            "standard_error": number(self.se),
            "bias": number(self.bias),
            "low": number(self.low),
            "high": number(self.high),
            "method": self.method,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class BootstrapCheck:
    """All coefficients and standard deviations under one kind of bootstrap."""

    kind: Kind
    unit: str  # what was drawn
    n_units: int
    replicates: int
    undefined: int  # replicates in which the design had no full rank
    seed: int
    level: float
    coefficients: tuple[CheckedValue, ...]
    components: tuple[CheckedValue, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "n_units": self.n_units,
            "replicates": self.replicates,
            "undefined": self.undefined,
            "seed": self.seed,
            "level": self.level,
            "coefficients": [one.as_dict() for one in self.coefficients],
            "components": [one.as_dict() for one in self.components],
        }


@dataclass(frozen=True, slots=True)
class Draws:
    """How often, from which seed, and at which level."""

    replicates: int
    seed: int
    level: float
    progress: Progress | None = None


def check(
    problem: MixedProblem, fit: Fit, kind: Kind, draws: Draws, *, reml: bool
) -> BootstrapCheck:
    """Refit on bootstrap samples, and return how much every number varies."""
    parametric = kind == "parametric"
    fits = (_parametric_fits if parametric else _cluster_fits)(problem, fit, draws, reml)
    # A replicate without a solution counts as undefined, not as zero.
    missing = np.full(problem.x.shape[1] + len(problem.levels) + 1, np.nan)
    replicates = []
    for replicate in fits:
        replicates.append(missing if replicate is None else _fit_numbers(replicate))
        if draws.progress is not None:
            draws.progress(len(replicates), draws.replicates)
    rows = np.stack(replicates)
    point, n_beta = _fit_numbers(fit), problem.x.shape[1]
    n_units = len(problem.levels[0]) if problem.levels else len(problem.y)
    unit = problem.levels[0].name if problem.levels else "row"
    names = [*problem.design.names, *(one.name for one in problem.levels), RESIDUAL]
    values = []
    for k, name in enumerate(names):
        column = rows[:, k]
        # A standard deviation lies on its bound of 0 too often for a t interval; replicates of a
        # simulation are draws from the fitted model, so that their quantiles serve.
        by_quantile = parametric or k >= n_beta
        bounds = _interval(
            point[k],
            column,
            n_units,
            draws.level,
            by_quantile=by_quantile,
            needs_units=not parametric,
        )
        n_defined = np.isfinite(column).sum()
        se = bias = float("nan")
        if n_defined > 1:
            se = float(np.nanstd(column, ddof=1))
        if n_defined:
            bias = float(np.nanmean(column) - point[k])
        values.append(CheckedValue(name, float(point[k]), se, bias, *bounds))
    undefined = int(np.isnan(rows).any(axis=1).sum())
    return BootstrapCheck(
        kind=kind,
        unit=unit,
        n_units=n_units,
        replicates=draws.replicates,
        undefined=undefined,
        seed=draws.seed,
        level=draws.level,
        coefficients=tuple(values[:n_beta]),
        components=tuple(values[n_beta:]),
    )


def _fit_numbers(fit: Fit) -> F64:
    return np.concatenate([fit.beta, np.sqrt(np.append(fit.relative, 1.0) * fit.sigma2)])


def _interval(
    value: float, rows: F64, n_units: int, level: float, *, by_quantile: bool, needs_units: bool
) -> tuple[float, float, str, str | None]:
    if needs_units and n_units < FEWEST_UNITS:
        return float("nan"), float("nan"), "none", "too_few_units"
    if by_quantile:
        (low,), (high,) = spread.quantiles(rows[:, None], level)
        if not low < high:  # an interval of width 0 would claim certainty
            return float("nan"), float("nan"), "none", "constant_input"
        return float(low), float(high), "percentile", None
    estimate = intervals.interval(
        float(value), rows, n_units=n_units, level=level, bounds=EVERYWHERE
    )
    return estimate.low, estimate.high, estimate.method, estimate.reason


def _parametric_fits(
    problem: MixedProblem, fit: Fit, draws: Draws, reml: bool
) -> Iterator[Fit | None]:
    """Yield the fits of responses that are drawn from the fitted model."""
    expected, sigma = problem.x @ fit.beta, float(np.sqrt(fit.sigma2))
    # Starting at the fit itself makes every replicate quick to solve.
    start = np.maximum(np.sqrt(fit.relative), START)
    for b in range(draws.replicates):
        random = generator(draws.seed, b)
        y = expected + sigma * random.standard_normal(len(problem.y))
        for level, g in zip(problem.levels, fit.relative.tolist()):
            y = y + sigma * np.sqrt(g) * random.standard_normal(len(level))[level.code]
        yield replace(problem, y=y).solve(reml=reml, start=start)


def _cluster_fits(
    problem: MixedProblem, fit: Fit, draws: Draws, reml: bool
) -> Iterator[Fit | None]:
    """Yield the fits in which outermost groups (without any: rows) count as often as they were
    drawn.
    """
    start = np.maximum(np.sqrt(fit.relative), START)
    n = len(problem.levels[0]) if problem.levels else len(problem.y)
    # Weights of groups instead of copied rows: the kernel multiplies its sums.
    for block in bootstrap(Units.of("group", None, n), draws.replicates, draws.seed):
        for times in block:
            yield problem.solve(reml=reml, start=start, times=times.astype(np.float64))


@dataclass(frozen=True)
class GroupEffects:
    """The predicted intercept of every group of a level, shrunk towards 0 as far as its rows are
    few (BLUP).
    """

    name: str
    labels: tuple[str, ...]
    value: F64
    se: F64  # given the variances, and leaving out that the coefficients were estimated
    n_rows: NDArray[np.int64]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one entry per group for JSON."""
        columns = (self.labels, self.value.tolist(), self.se.tolist(), self.n_rows.tolist())
        return [
            dict(zip(("group", "value", "standard_error", "n_rows"), entry))
            for entry in zip(*columns)
        ]


@dataclass(frozen=True)
class Diagnostics:
    """Values per row, in the order of the rows that were used."""

    fitted: F64  # with the intercepts of the groups
    expected: F64  # without them
    residuals: F64  # response minus fitted
    qq: tuple[
        F64, F64
    ]  # normal quantiles, and the sorted residuals divided by their standard deviation
    effects: Mapping[str, GroupEffects]  # by level

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnostics for JSON."""
        effects = {name: group.as_dicts() for name, group in self.effects.items()}
        return {
            "fitted": self.fitted.tolist(),
            "expected": self.expected.tolist(),
            "residuals": self.residuals.tolist(),
            "qq": {"normal": self.qq[0].tolist(), "residual": self.qq[1].tolist()},
            "effects": effects,
        }


def diagnose(problem: MixedProblem, fit: Fit) -> Diagnostics:
    """Return the diagnostics of a fit."""
    expected = problem.x @ fit.beta
    fitted = expected.copy()
    effects = {}
    for level, (value, variance) in zip(problem.levels, problem.intercepts(fit.relative)):
        fitted = fitted + value[level.code]
        rows = np.bincount(level.code, minlength=len(level))
        effects[level.name] = GroupEffects(
            level.name, level.labels, value, np.sqrt(variance * fit.sigma2), rows
        )
    residuals = problem.y - fitted
    return Diagnostics(
        fitted=problem.restored(fitted),
        expected=problem.restored(expected),
        residuals=problem.restored(residuals),
        qq=qq_points(residuals / np.sqrt(fit.sigma2)),
        effects=effects,
    )


def qq_points(values: F64) -> tuple[F64, F64]:
    """Return the normal quantiles at (k - 1/2) / n and the sorted values: a straight line if they
    are normal.
    """
    from scipy.special import ndtri

    n = len(values)
    return np.asarray(ndtri((np.arange(n) + 0.5) / n)), np.sort(values)
