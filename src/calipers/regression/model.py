# SPDX-License-Identifier: Apache-2.0
"""What the linear and the logistic model share: data, levels of groups, the fit, and its numbers.

- `prepare` takes a table, a formula and groups and returns `RegressionData`: response, design and
  levels of groups as arrays. A group that cannot be told from another one, or of which there are
  too few to estimate a variance, is removed, and a note says so (`resolve`).
- `MixedProblem` is a mixed model in the order that the kernel wants; tests and bootstraps solve
  variants of it. Nested groups are solved by `calipers.kernels.mixed`, crossed ones (every reader
  reads many images, every image has many readers) by statsmodels (`solve`).
- `coefficients` gives every effect its standard error, interval and p; `components` says how much
  groups differ (variance components) and how alike rows of one group are.

Called by `calipers.regression.mixed` and `calipers.regression.logistic`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.look_alikes import note_on_names
from calipers.errors import InputError, UsageError, spelled
from calipers.kernels import mixed
from calipers.kernels.mixed import Fit
from calipers.regression.design import (
    Design,
    Effect,
    Formula,
    Frame,
    column_names,
    design,
    numeric_column,
)
from calipers.results.estimate import number
from calipers.show.words import plural

MOST_LEVELS = 4
MANY_LEVELS = 12  # of a category: more get a note

NAN = float("nan")
RESIDUAL = "residual"


@dataclass(frozen=True)
class Level:
    """One random intercept: the group of every row."""

    name: str
    code: I64  # (n,) index into labels
    labels: tuple[str, ...]  # "A/7": patient 7 of centre A

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, rows: I64) -> Level:
        """Return the level of some rows, with the groups that are left."""
        groups, code = np.unique(self.code[rows], return_inverse=True)
        return Level(
            self.name, code.astype(np.int64), tuple(self.labels[k] for k in groups.tolist())
        )


@dataclass(frozen=True)
class Structure:
    """The random intercepts that remain, the group that became a fixed effect, and notes."""

    levels: tuple[Level, ...]  # outermost first
    fixed: Level | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class RegressionData:
    """The rows that are used as arrays, with notes on the preparation."""

    formula: Formula
    groups: tuple[str, ...]
    frame: Frame  # the rows that are used
    y: F64
    design: Design
    structure: Structure
    n_dropped: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def file(self) -> str:
        """Where the table came from."""
        return self.frame.table.file


def prepare(
    source: Any,
    formula: str,
    groups: Sequence[str],
    *,
    levels: Mapping[str, Sequence[Any]] | None,
    missing: Literal["refuse", "drop"],
    few_groups: int,
    crossed: bool,
    level: float,
) -> RegressionData:
    """Return the arrays behind a formula and groups: response, design, levels, notes."""
    if not 0.0 < level < 1.0:
        raise UsageError(f"a level lies between 0 and 1, such as 0.95, not {level}")
    if few_groups < 2:
        raise UsageError(f"few_groups is at least 2: one has no variance; got {few_groups}")
    if missing not in ("refuse", "drop"):
        raise UsageError(f"missing is 'refuse' or 'drop', not {missing!r}")
    model_formula = Formula.parse(formula)
    if not model_formula.response:
        raise UsageError(f"the formula {formula!r} has no response: write it before the ~")
    columns = column_names(source)
    model_formula = model_formula.spelled_as(columns)
    names = check_groups(groups, model_formula.response)
    names = tuple(spelled(name, columns) for name in names)
    levels = _orders(levels, model_formula.response)
    frame = Frame.of(source, [model_formula.response, *model_formula.columns, *names], levels)
    frame = frame.declared(model_formula.categories)
    frame, n_dropped = complete(frame, model_formula, names, missing)
    # Incomplete rows are gone before the levels are counted.
    y = frame.numbers(model_formula.response)
    if crossed:
        group_levels = [single_level(frame, name) for name in names]
        level_notes: list[str] = []
    else:
        group_levels, level_notes = nested_levels(frame, names)
    structure = resolve(group_levels, model_formula.columns, few_groups, crossed=crossed)
    if structure.fixed is not None:
        # Too few groups for a variance: their column joins the formula as a category.
        group = structure.fixed
        labels = [group.labels[k] for k in group.code.tolist()]
        frame = frame.with_column(group.name, labels, group.labels)
        # Main effects before interactions, as a formula has them.
        terms = tuple(sorted((*model_formula.terms, (group.name,)), key=len))
        model_formula = replace(model_formula, terms=terms)
    notes = [f"{n} rows without {name} were left out" for name, n in n_dropped.items()]
    fitted_design = design(frame, model_formula)
    notes += [*level_notes, *structure.notes, *_many_levels(fitted_design)]
    for name in dict.fromkeys((*names, *fitted_design.levels)):
        notes += note_on_names(name, frame.texts(name).tolist())
    return RegressionData(
        formula=model_formula,
        groups=names,
        frame=frame,
        y=y,
        design=fitted_design,
        structure=structure,
        n_dropped=n_dropped,
        notes=tuple(notes),
    )


def _orders(
    levels: Mapping[str, Sequence[Any]] | None, response: str
) -> dict[str, tuple[str, ...]]:
    """Return levels as words; those of the response, and one that is named twice, are refused."""
    orders = {name: tuple(map(str, values)) for name, values in (levels or {}).items()}
    for name, order in orders.items():
        if name == response:
            raise UsageError(f"levels of {name!r}, which is the response: it is a number")
        if len(set(order)) < len(order):
            raise UsageError(f"levels of {name!r}: a level is named twice in {', '.join(order)}")
    return orders


def _many_levels(fitted_design: Design) -> list[str]:
    """Return a note on every category with so many levels that it may be meant otherwise."""
    notes = []
    for name, levels in fitted_design.levels.items():
        if len(levels) > MANY_LEVELS:
            remedy = "name it as a group for a random intercept instead"
            if numeric_column(np.array(levels)) is not None:
                remedy = f"write {name} instead of C({name}) for one slope"
            notes.append(
                f"{name} is a category with {len(levels)} levels, each with an effect of its own; "
                f"{remedy}"
            )
    return notes


def complete(
    frame: Frame, formula: Formula, groups: Sequence[str], missing: str
) -> tuple[Frame, dict[str, int]]:
    """Return the rows that have all values, and how many rows lack which column.

    By default such a row is an error.
    """
    if not len(frame):
        raise InputError("rows", rule="too-few-rows", file=frame.table.file, value="only a header")
    counts: dict[str, int] = {}
    is_complete = np.ones(len(frame), np.bool_)
    is_group = dict.fromkeys([formula.response, *formula.columns], False)
    is_group |= dict.fromkeys(groups, True)
    for name, as_text in is_group.items():
        # The response is a number, whatever else its column may look like.
        if name == formula.response:
            empty = np.isnan(frame.numbers(name))
        else:
            empty = frame.missing(name, as_text=as_text)
        # A row that lacks several columns counts for the first of them only.
        lacking = is_complete & empty
        if not lacking.any():
            continue
        if missing == "refuse":
            hint = (
                f"{int(lacking.sum())} rows have no {name}; "
                "missing='drop' (--missing drop) leaves them out"
            )
            row = int(np.flatnonzero(lacking)[0])
            raise frame.table.problem(row, name, "missing-value", "a value", None, hint).as_error(
                frame.table.file
            )
        counts[name] = int(lacking.sum())
        is_complete &= ~lacking
    if not is_complete.any():
        raise InputError(
            "rows without empty cells", rule="too-few-rows", file=frame.table.file, value=counts
        )
    if is_complete.all():
        return frame, counts
    return frame.rows(np.flatnonzero(is_complete)), counts


def check_groups(groups: Sequence[str], response: str) -> tuple[str, ...]:
    """Return the names of the groups; raise if there are too many, repeated, or the response."""
    names = (groups,) if isinstance(groups, str) else tuple(groups)
    if not 1 <= len(names) <= MOST_LEVELS:
        raise UsageError(f"between 1 and {MOST_LEVELS} groups, outermost first, not {list(names)}")
    if len(set(names)) < len(names):
        raise UsageError(f"a group is named twice: {', '.join(names)}")
    if response in names:
        raise UsageError(f"{response!r} is the response and cannot be a group")
    return names


def nested_levels(frame: Frame, names: Sequence[str]) -> tuple[list[Level], list[str]]:
    """Return the levels, outermost first, and notes.

    Equal ids in different outer groups are different groups; a note says so.
    """
    levels: list[Level] = []
    notes = []
    for name in names:
        own = single_level(frame, name)
        if not levels:
            levels.append(own)
            continue
        outer = levels[-1]
        pairs, code = np.unique(np.stack([outer.code, own.code]), axis=1, return_inverse=True)
        labels = tuple(f"{outer.labels[a]}/{own.labels[b]}" for a, b in pairs.T.tolist())
        shared = int((np.bincount(pairs[1]) > 1).sum())
        if shared:
            notes.append(
                f"{shared} values of {name} occur in more than one {outer.name}; "
                f"they are taken for different {plural(name)}"
            )
        levels.append(Level(name, code.reshape(-1).astype(np.int64), labels))
    return levels, notes


def single_level(frame: Frame, name: str) -> Level:
    """Return the groups of one column, whatever they lie in."""
    labels, code = np.unique(frame.texts(name), return_inverse=True)
    return Level(name, code.astype(np.int64), tuple(labels.tolist()))


def resolve(
    levels: Sequence[Level], explained: Sequence[str], few: int, *, crossed: bool = False
) -> Structure:
    """Remove groups that cannot be estimated.

    Crossed groups stay as they are, except those whose groups are the rows themselves.

    Parameters
    ----------
    levels
        Outermost first.
    explained
        Columns that the formula already has as fixed effects.
    few
        Fewer groups than this become a fixed effect.
    """
    notes = []
    remaining = []
    for level in levels:
        if level.name in explained:
            notes.append(f"{level.name} is a fixed effect of the formula, so it has no variance")
        else:
            remaining.append(level)
    remaining = _distinct_levels(remaining, notes, crossed)
    fixed_effect = None
    scarce = [k for k, level in enumerate(remaining) if len(level) < few]
    if scarce and not crossed:
        last = remaining[scarce[-1]]
        outer_names = ", ".join(level.name for level in remaining[: scarce[-1]])
        remaining = remaining[scarce[-1] + 1 :]
        if len(last) > 1:
            fixed_effect = last
            note = (
                f"{len(last)} {plural(last.name)} are too few for a variance: "
                f"{last.name} is a fixed effect"
            )
            if outer_names:
                note += f", which also accounts for {outer_names}"
            notes.append(note)
        else:
            notes.append(f"there is one {last.name} only, so it has no effect of its own")
    if not remaining:
        notes.append("no random intercept is left: rows are taken as independent (least squares)")
    return Structure(tuple(remaining), fixed_effect, tuple(notes))


def _distinct_levels(levels: list[Level], notes: list[str], crossed: bool) -> list[Level]:
    """Take out levels whose groups are the rows themselves, or the groups of the level above."""
    remaining: list[Level] = []
    for level in levels:
        # Then the intercept of a group and the residual of its row are one number.
        if len(level) == len(level.code):
            notes.append(
                f"one row per {level.name} everywhere: {level.name} is part of the residual"
            )
        elif remaining and len(level) == len(remaining[-1]) and not crossed:
            outer = remaining[-1].name
            notes.append(
                f"one {level.name} per {outer} everywhere: {level.name} is part of {outer}"
            )
        else:
            remaining.append(level)
    return remaining


@dataclass(frozen=True)
class MixedProblem:
    """Response, design and groups of a mixed model; tests and bootstraps solve variants of it."""

    y: F64  # (n,)
    design: Design
    levels: tuple[Level, ...]  # outermost first
    crossed: bool
    rows: I64  # (n,) which row of the table stands here

    @classmethod
    def of(cls, y: F64, design: Design, levels: Sequence[Level], *, crossed: bool) -> MixedProblem:
        """Return the problem with its rows sorted by group."""
        # The innermost code counts within the outer groups, so that sorting by it sorts by all.
        order = np.arange(len(y))
        if levels and not crossed:
            order = np.argsort(levels[-1].code, kind="stable")
        sorted_levels = tuple(level.rows(order) for level in levels)
        return cls(
            y[order], replace(design, matrix=design.matrix[order]), sorted_levels, crossed, order
        )

    @property
    def x(self) -> F64:
        """The (n, p) design matrix."""
        return self.design.matrix

    def tree(self, times: F64 | None = None) -> mixed.Nest:
        """Return the sums that the nested kernel works on."""
        return mixed.nest(self.x, self.y, [level.code for level in reversed(self.levels)], times)

    def solve(
        self, *, reml: bool, start: F64 | None = None, times: F64 | None = None
    ) -> mixed.Fit | None:
        """Return the optimum, with the levels outermost first; None where the design has no full
        rank.
        """
        if self.crossed:
            return solve(self.x, self.y, self.levels, reml=reml)
        # The kernel counts levels from the innermost on, formulas and results from the outermost.
        inward = None if start is None else start[::-1]
        fit = mixed.fit(self.tree(times), reml=reml, start=inward)
        if fit is None:
            return None
        return fit._replace(relative=fit.relative[::-1], gradient=fit.gradient[::-1])

    def intercepts(self, relative: F64) -> list[tuple[F64, F64]]:
        """Return the predicted intercepts of each level and their variance divided by that of the
        residual.
        """
        if self.crossed:
            return intercepts(self.x, self.y, self.levels, relative)
        return mixed.intercepts(self.tree(), relative[::-1])[::-1]

    def without_term(self, term: str) -> MixedProblem:
        """Return the problem without the columns of a term."""
        columns = [k for k, effect in enumerate(self.design.effects) if effect.term != term]
        effects = tuple(self.design.effects[k] for k in columns)
        return replace(
            self, design=replace(self.design, matrix=self.x[:, columns], effects=effects)
        )

    def without_level(self, name: str) -> MixedProblem:
        """Return the problem without one random intercept; the order of the rows still fits."""
        return replace(self, levels=tuple(level for level in self.levels if level.name != name))

    def restored(self, values: F64) -> F64:
        """Return values of the sorted rows in the order of the table."""
        back = np.empty_like(values)
        back[self.rows] = values
        return back


def solve(x: F64, y: F64, levels: Sequence[Level], *, reml: bool) -> Fit | None:
    """Return the optimum of a model with one random intercept per level, none of them inside
    another.
    """
    import warnings

    mixed_lm = _statsmodels()
    n = len(y)
    if not levels:
        from calipers.kernels import mixed

        return mixed.fit(mixed.nest(x, y, []), reml=reml)
    spec = mixed_lm.VCSpec(
        [level.name for level in levels],
        [[list(level.labels)] for level in levels],
        [[_indicators(level)] for level in levels],
    )
    # One group for all rows: crossed levels are variance components within it.
    model = mixed_lm.MixedLM(y, x, np.zeros(n), exog_vc=spec)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # "MLE may be on the boundary" appears on good fits too; singular says it
        result = model.fit(reml=reml)
    return Fit(
        relative=np.asarray(result.vcomp, np.float64) / float(result.scale),
        sigma2=float(result.scale),
        beta=np.asarray(result.fe_params, np.float64),
        covariance=np.asarray(result.cov_params())[: x.shape[1], : x.shape[1]],
        deviance=-2.0 * float(result.llf),
        gradient=np.zeros(len(levels)),
        converged=bool(result.converged),
    )


def intercepts(x: F64, y: F64, levels: Sequence[Level], relative: F64) -> list[tuple[F64, F64]]:
    """Return the predicted intercepts of each level and their variance divided by that of the
    residual.
    """
    # Best linear unbiased predictors, with the variances of the fit taken as known.
    tables = [_indicators(level) for level in levels]
    v = np.eye(len(y)) + sum(g * z @ z.T for g, z in zip(relative, tables))
    solution = np.linalg.solve(v, np.column_stack([x, y]))
    beta = np.linalg.solve(x.T @ solution[:, :-1], x.T @ solution[:, -1])
    residual = solution[:, -1] - solution[:, :-1] @ beta
    predictions = []
    for g, z in zip(relative, tables):
        diagonal = (z * np.linalg.solve(v, z)).sum(axis=0)
        predictions.append((g * z.T @ residual, np.maximum(g - g**2 * diagonal, 0.0)))
    return predictions


def _indicators(level: Level) -> F64:
    return np.asarray(level.code[:, None] == np.arange(len(level)), np.float64)


def _statsmodels() -> Any:
    from importlib import import_module

    try:
        return import_module("statsmodels.regression.mixed_linear_model")
    except ImportError:
        raise UsageError(
            "crossed random intercepts need statsmodels: pip install 'calipers[mixed]'; "
            "nested ones do not"
        ) from None


@dataclass(frozen=True, slots=True)
class Component:
    """The standard deviation between the groups of one level, or of the residual.

    ``share`` is the part of the whole variance. ``icc`` is the correlation of two rows that lie in
    one such group: for nested groups the shares of this level and of all outer ones together.
    """

    name: str
    sd: float
    low: float
    high: float
    level: float
    method: str  # profile | none
    share: float
    icc: float | None  # None for the residual
    n_groups: int  # rows for the residual
    reason: str | None = None
    icc_low: float = NAN  # interval of the icc, of the same level and method
    icc_high: float = NAN

    @property
    def variance(self) -> float:
        """The square of the standard deviation."""
        return self.sd**2

    def as_dict(self) -> dict[str, Any]:
        """Return the component for JSON."""
        return {
            "name": self.name,
            "sd": number(self.sd),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": self.method,
            "variance": number(self.variance),
            "share": number(self.share),
            "icc": self.icc,
            "icc_low": number(self.icc_low),
            "icc_high": number(self.icc_high),
            "n_groups": self.n_groups,
            "reason": self.reason,
        }


def components(
    problem: MixedProblem, fit: Fit, *, level: float, reml: bool
) -> tuple[Component, ...]:
    """Return the components, outermost first, with profile-likelihood intervals where groups are
    nested.
    """
    names = [(one.name, len(one)) for one in problem.levels] + [(RESIDUAL, len(problem.y))]
    # The kernel works with variances relative to that of the residual.
    variances = np.append(fit.relative, 1.0) * fit.sigma2
    shares = variances / variances.sum()
    # Rows of one inner group also share all groups around it, so nested shares add up.
    likeness = shares[:-1] if problem.crossed else np.cumsum(shares[:-1])
    icc = [*likeness.tolist(), None]
    bounds, icc_bounds = _profile_bounds(problem, fit, level, reml)
    method, reason = ("none", "not_requested") if problem.crossed else ("profile", None)
    rows = []
    for k, (name, n) in enumerate(names):
        component = Component(
            name=name,
            sd=float(np.sqrt(variances[k])),
            low=bounds[k][0],
            high=bounds[k][1],
            level=level,
            method=method,
            share=float(shares[k]),
            icc=icc[k],
            n_groups=n,
            reason=reason,
            icc_low=icc_bounds[k][0],
            icc_high=icc_bounds[k][1],
        )
        rows.append(component)
    return tuple(rows)


Bounds = list[tuple[float, float]]


def _profile_bounds(
    problem: MixedProblem, fit: Fit, level: float, reml: bool
) -> tuple[Bounds, Bounds]:
    """Return the bounds of the standard deviations and of the intraclass correlations, outermost
    first and the residual last.
    """
    from scipy.special import chdtri

    n = len(problem.levels)
    nothing = (NAN, NAN)
    if problem.crossed:
        return [nothing] * (n + 1), [nothing] * (n + 1)
    tree, rise = problem.tree(), float(chdtri(1, 1 - level))
    inward = fit._replace(relative=fit.relative[::-1])
    outwards = list(reversed(range(n)))  # the kernel counts from the innermost level
    bounds, icc_bounds = [], []
    for place in outwards:
        bounds.append(mixed.interval(tree, inward, place, rise, reml=reml))
        icc_bounds.append(mixed.likeness_interval(tree, inward, place, rise, reml=reml))
    bounds.append(mixed.interval(tree, inward, n, rise, reml=reml))
    return bounds, [*icc_bounds, nothing]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """How much the response changes with one column of the design, all others held.

    The interval is ``value -+ q * se`` with q of the t distribution with ``df`` degrees of freedom,
    or of the normal distribution if ``df`` is infinite. ``p`` is two-sided, for a value of 0.
    """

    name: str
    term: str
    reference: str | None  # level that a category is compared with
    value: float
    se: float
    low: float
    high: float
    level: float
    method: str  # wald-t | wald-z | sandwich-t | none
    df: float
    p: float
    unit: str  # what stands behind the interval: a group, or "row"
    n_units: int
    n_rows: int
    reason: str | None = None  # why a number is missing: one of results.REASONS

    def as_dict(self) -> dict[str, Any]:
        """Return the coefficient for JSON; null for undefined, and for the infinite df of a normal
        distribution.
        """
        return {
            "name": self.name,
            "term": self.term,
            "reference": self.reference,
            "value": number(self.value),
            "standard_error": number(self.se),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": self.method,
            "df": number(self.df),
            "p": number(self.p),
            "unit": self.unit,
            "n_units": self.n_units,
            "n_rows": self.n_rows,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class CoefficientSupport:
    """What the standard error of one coefficient rests on."""

    method: str
    df: float
    unit: str
    n_units: int
    reason: str | None = None  # why there is no interval


def supports_of(problem: MixedProblem) -> list[CoefficientSupport]:
    """Return t for columns that are constant within the outermost groups, else z.

    K groups give K independent facts about such columns; c columns take c of them, which is exact
    where the groups are of one size.
    """
    supports = []
    # Of crossed groups the smallest number counts; of nested ones the outermost has the smallest.
    candidates = problem.levels if problem.crossed else problem.levels[:1]
    n_constant = {}
    for level in candidates:
        constant = [_is_constant_within(column, level.code) for column in problem.x.T]
        n_constant[level.name] = sum(constant)
    for column in problem.x.T:
        around = [level for level in candidates if _is_constant_within(column, level.code)]
        if around:
            few = min(around, key=len)
            df = len(few) - n_constant[few.name]
            reason = None if df > 0 else "too_few_units"
            supports.append(CoefficientSupport("wald-t", float(df), few.name, len(few), reason))
        else:
            supports.append(CoefficientSupport("wald-z", float("inf"), "row", len(column)))
    return supports


def _is_constant_within(column: F64, code: I64) -> bool:
    first = np.zeros(int(code.max()) + 1)
    first[code] = column
    return bool((first[code] == column).all())


def quantile(level: float, df: float) -> float:
    """Return the two-sided quantile of the t distribution, or of the normal one for infinite
    ``df``.
    """
    from scipy.special import ndtri, stdtrit

    return float(ndtri((1 + level) / 2) if math.isinf(df) else stdtrit(df, (1 + level) / 2))


def two_sided(statistic: float, df: float) -> float:
    """Return the probability of a value at least that far from 0."""
    from scipy.special import ndtr, stdtr

    return float(2.0 * (ndtr(-abs(statistic)) if math.isinf(df) else stdtr(df, -abs(statistic))))


def coefficients(
    effects: Sequence[Effect],
    values: F64,
    covariance: F64,
    supports: Sequence[CoefficientSupport],
    *,
    level: float,
    n_rows: int,
) -> tuple[Coefficient, ...]:
    """Return the coefficients of all effects; a value that is NaN stays without interval."""
    rows = []
    # Rounding can leave a variance of zero slightly below it.
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist()
    for effect, value, se, support in zip(effects, values.tolist(), errors, supports):
        method, half, p = support.method, NAN, NAN
        if support.reason is not None:
            method, se = "none", NAN
        else:
            half = quantile(level, support.df) * se
            if se != 0.0:
                p = two_sided(value / se, support.df)
        rows.append(
            Coefficient(
                name=effect.name,
                term=effect.term,
                reference=effect.reference,
                value=value,
                se=se,
                low=value - half,
                high=value + half,
                level=level,
                method=method,
                df=support.df,
                p=p,
                unit=support.unit,
                n_units=support.n_units,
                n_rows=n_rows,
                reason=support.reason,
            )
        )
    return tuple(rows)
