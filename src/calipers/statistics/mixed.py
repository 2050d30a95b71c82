# SPDX-License-Identifier: Apache-2.0
"""`mixed_model`: what explains a measurement, when rows come from the same image, patient and
centre.

Rows of one patient are more alike than rows of two, so that 1,400 polyps of 6 centres are much less
than 1,400 independent facts. The model ``y = X b + u_centre + u_patient + u_image + e`` gives every
centre, patient and image an intercept of its own, drawn from a normal distribution, and estimates
the effects b together with the variances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels.nested import Fit
from calipers.results.estimate import number
from calipers.statistics.coefficients import Coefficient, CoefficientSupport, coefficients
from calipers.statistics.components import Component, components
from calipers.statistics.mixed_bootstrap import BootstrapCheck, Draws, check
from calipers.statistics.mixed_diagnostics import Diagnostics, diagnose
from calipers.statistics.mixed_problem import MixedProblem
from calipers.statistics.mixed_tests import LikelihoodRatio, compare, component_tests, term_tests
from calipers.statistics.mixed_words import sentences
from calipers.statistics.regression import RegressionData, prepare
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    import pandas as pd

F64 = NDArray[np.float64]
SINGULAR = 1e-4  # relative standard deviation below which a variance counts as zero
ALONE = 1e4  # relative standard deviation above which the residual counts as nothing


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
        ``{"size": ["large", "medium", "small"]}``: makes a column one of categories, and orders it;
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

    Notes
    -----
    Intervals of coefficients are ``b -+ q se``. For columns that are constant within the outermost
    groups (the intercept, everything that describes a centre) q is of the t distribution with K - 1
    degrees of freedom for K groups, else of the normal distribution. Standard deviations have
    profile-likelihood intervals.

    Removed, with an entry in `notes`: a group with one row each everywhere; a group with one
    subgroup each everywhere; fewer than ``few_groups`` groups, which become a fixed effect.

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
    if bootstrap < 0 or seed < 0:
        raise UsageError("bootstrap and seed are not negative")
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
    if fit is None:
        raise AssertionError("the design has full rank, it was checked")
    supports = _supports(problem)
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
    )


@dataclass(frozen=True)
class MixedModel:
    """A fitted linear mixed model; `mixed_model` makes it, slow parts are computed on access."""

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
    def term_tests(self) -> tuple[LikelihoodRatio, ...]:
        """For every term of the formula, the likelihood-ratio test of the model without it; always
        by ML.
        """
        return term_tests(self.problem)

    @cached_property
    def component_tests(self) -> tuple[LikelihoodRatio, ...]:
        """For every random intercept, the likelihood-ratio test of the model without it."""
        return component_tests(self.problem, reml=self.criterion == "REML")

    def lr_test(self, other: MixedModel) -> LikelihoodRatio:
        """Compare with a model on the same rows that has more terms, or one random intercept more.

        Terms are compared by ML, whatever the criterion of the two models: restricted likelihoods
        of different designs are not comparable. For a random intercept the p is halved, because a
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
        draws = Draws(self.replicates, self.seed, self.level)
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

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients as a pandas frame (extra ``frames``)."""
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas: pip install 'calipers[frames]'") from None
        return pd.DataFrame([coefficient.as_dict() for coefficient in self.coefficients])

    def as_dict(self) -> dict[str, Any]:
        """Return the fit for JSON; NaN is null, with a reason beside it."""
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
            "coefficients": [coefficient.as_dict() for coefficient in self.coefficients],
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


def _check_response(data: RegressionData) -> None:
    """Refuse a response that leaves nothing to estimate a variance from."""
    x, y = data.design.matrix, data.y
    rows, columns = x.shape
    if rows < columns + 2:
        raise InputError(
            f"at least {columns + 2} rows for {columns} coefficients",
            rule="too-few-rows",
            file=data.file,
            value=rows,
        )
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    if float(residual @ residual) <= 1e-20 * max(float(y @ y), 1e-300):
        raise InputError(
            "a response that the terms do not determine",
            rule="constant-response",
            file=data.file,
            field=data.formula.response,
            hint="it is constant, or made of the other columns: there is nothing left to estimate",
        )


def _check_within(problem: MixedProblem, data: RegressionData) -> None:
    """Refuse rows that do not differ within their innermost groups: the residual variance would be
    nothing.
    """
    if not problem.levels or problem.crossed:
        return
    code = problem.levels[-1].code
    table = np.column_stack([problem.x, problem.y])
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


def _supports(problem: MixedProblem) -> list[CoefficientSupport]:
    """Return t with K - 1 degrees of freedom for columns that are constant within the outermost
    groups, else z.
    """
    supports = []
    # Of crossed groups the smallest number counts; of nested ones the outermost has the smallest.
    candidates = problem.levels if problem.crossed else problem.levels[:1]
    for column in problem.x.T:
        around = [level for level in candidates if _constant(column, level.code)]
        if around:
            few = min(around, key=len)
            supports.append(CoefficientSupport("wald-t", float(len(few) - 1), few.name, len(few)))
        else:
            supports.append(CoefficientSupport("wald-z", float("inf"), "row", len(column)))
    return supports


def _constant(column: F64, code: NDArray[np.int64]) -> bool:
    first = np.zeros(int(code.max()) + 1)
    first[code] = column
    return bool((first[code] == column).all())


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
