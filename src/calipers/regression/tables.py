# SPDX-License-Identifier: Apache-2.0
"""Tables of regression models: effects, differences between groups, checks by the bootstrap.

A `MixedModel`, a `LogisticModel` or the three `LocalizationModels` of a detector come in,
`show.table.Table` goes out; the command line shows these. Effects can be of any size, so they have
four significant digits; those of a logistic model are odds ratios.
"""

from __future__ import annotations

import math
from itertools import chain

from calipers.regression.design import INTERCEPT
from calipers.regression.logistic import LocalizationModels, LogisticModel
from calipers.regression.mixed import MixedModel, ModelTest
from calipers.regression.model import RESIDUAL, Coefficient, Component
from calipers.show.table import Amount, Cell, Table, TableRow, same_kind
from calipers.show.words import level_text, number_text, p_text, plural, reason_text

LARGEST_LOGARITHM = 700.0  # larger ones overflow
NAN = math.nan
OF_ICC = "SD: standard deviation. ICC: correlation of two rows that share such a group."


def tables(fit: MixedModel | LogisticModel) -> list[Table]:
    """Return the effects and, of a mixed model, the differences between groups and the checks."""
    results = [effects_table(fit)]
    if isinstance(fit, MixedModel):
        results.append(components_table(fit))
        if fit.replicates:
            results.append(checks_table(fit))
    return results


def localization_tables(models: LocalizationModels) -> list[Table]:
    """Return the effects of the three fits side by side, and the differences between groups."""
    return [_effects_of_three(models), _components_of_two(models)]


def effects_table(fit: MixedModel | LogisticModel) -> Table:
    """Return a row per coefficient; the intercept of a logistic model is left out."""
    is_logistic = isinstance(fit, LogisticModel)
    rows: list[TableRow] = []
    for one in fit.coefficients:
        # The odds where all columns are 0 are no effect.
        if not (is_logistic and one.term == INTERCEPT):
            rows.append((effect_name(one), _effect(fit, one), one.p))
    name = "odds ratio" if is_logistic else "effect"
    intervals = f"In brackets: {level_text(fit.level)} confidence intervals."
    return Table(
        (fit.response, name, "p"),
        tuple(rows),
        title=heading(fit),
        notes=(intervals, *whole_terms(fit)),
        name="table-effects",
        kinds=("name", "number", "p"),
    )


def heading(fit: MixedModel | LogisticModel) -> str:
    """Return the formula, and the rows and groups behind the fit."""
    rows = f"{fit.n_rows} rows"
    if isinstance(fit, LogisticModel):
        units = f"{fit.n_units} {plural(fit.unit)}"
        return f"{fit.formula}; {rows}, {fit.n_positive} of them 1; {units}"
    groups = ", ".join(f"{n} {plural(name)}" for name, n in fit.n_groups.items())
    if groups:
        rows = f"{rows} in {groups}"
    return f"{fit.formula}; {rows}; {fit.criterion}"


def whole_terms(fit: MixedModel | LogisticModel) -> tuple[str, ...]:
    """Return for terms of several coefficients whether they matter as a whole."""
    sentences = []
    for test in fit.term_tests if isinstance(fit, MixedModel) else ():
        # A term of one coefficient has its p in the table; too few groups give none.
        if test.df > 1 and not math.isnan(test.p):
            sentences.append(f"{test.what} as a whole: {p_text(test.p)} ({_statistic_text(test)}).")
    return tuple(sentences)


def _statistic_text(test: ModelTest) -> str:
    if test.df_error is None:
        return f"likelihood ratio {number_text(test.statistic)}, {test.df} degrees of freedom"
    freedom = f"{test.df} and {test.df_error:g} degrees of freedom"
    return f"F = {number_text(test.statistic)} with {freedom}"


def effect_name(one: Coefficient) -> str:
    """Return the name of a coefficient in words: ``size small (not large)``."""
    if one.reference is None:
        return one.name
    level = one.name.removeprefix(f"{one.term}[").removesuffix("]")
    return f"{one.term} {level} (not {one.reference})"


def _effect(fit: MixedModel | LogisticModel, one: Coefficient) -> Cell:
    """Return the estimate with its interval; of log odds the odds ratio."""
    if math.isnan(one.value):
        return reason_text(one.reason)
    if isinstance(fit, LogisticModel):
        return Amount(_odds(one.value), low=_odds(one.low), high=_odds(one.high))
    return Amount(one.value, low=one.low, high=one.high)


def _odds(logarithm: float) -> float:
    return math.exp(min(logarithm, LARGEST_LOGARITHM)) if logarithm == logarithm else NAN


def components_table(fit: MixedModel) -> Table:
    """Return the standard deviations between groups, and of what remains unexplained."""
    p_values = {test.what: test.p for test in fit.component_tests}
    rows: list[TableRow] = []
    for one in fit.components:
        p = p_values.get(one.name, NAN)
        name, share = _component_name(one.name), one.share
        rows.append((name, _spread(one), share, _likeness(one), one.n_groups, p))
    return Table(
        ("differences between", "SD", "share of variance", "ICC", "number", "p"),
        tuple(rows),
        notes=(OF_ICC,),
        name="table-components",
        kinds=("name", "value", "share", "value", "count", "p"),
    )


def _component_name(name: str) -> str:
    return "rows, unexplained" if name == RESIDUAL else plural(name)


def _spread(one: Component) -> Amount:
    return Amount(one.sd, low=one.low, high=one.high)


def _likeness(one: Component) -> Cell:
    """Return the intraclass correlation; nothing for the residual, which nobody shares."""
    return None if one.icc is None else Amount(one.icc, low=one.icc_low, high=one.icc_high)


def checks_table(fit: MixedModel) -> Table:
    """Return the bootstrap standard errors beside those of the model."""
    rows: list[TableRow] = []
    for k, one in enumerate(fit.coefficients):
        errors = [check.coefficients[k].se for check in fit.checks]
        rows.append((effect_name(one), one.se, *errors))
    heads = [f"{check.kind} bootstrap" for check in fit.checks]
    return Table(
        ("standard error", "model", *heads),
        tuple(rows),
        name="table-checks",
        kinds=("name", "number", *same_kind("number", len(heads))),
    )


def _effects_of_three(models: LocalizationModels) -> Table:
    fits = (models.best, models.matched, models.hit)
    numbers = [None if fit is None else fit.n_rows for fit in fits]
    rows: list[TableRow] = [("references", *numbers)]
    for one in models.best.coefficients:
        rows.append((effect_name(one), *(_effect_of(fit, one) for fit in fits)))
    level = level_text(models.best.level)
    return Table(
        ("effect on", "IoU, 0 if missed", "IoU of hits", "hit, odds ratio"),
        tuple(rows),
        title=f"{models.model}: {heading(models.best)}",
        notes=(
            f"In brackets: {level} confidence intervals; the same effects on three responses.",
            *whole_terms(models.best),
        ),
        name="table-effects",
        kinds=("name", "number", "number", "number"),
        row_kinds={0: "whole"},
    )


def _effect_of(fit: MixedModel | LogisticModel | None, one: Coefficient) -> Cell:
    """Return the effect of that name in another fit, where there is one."""
    if fit is None or (isinstance(fit, LogisticModel) and one.term == INTERCEPT):
        return None
    for own in fit.coefficients:
        if own.name == one.name:
            return _effect(fit, own)
    return None


def _components_of_two(models: LocalizationModels) -> Table:
    components = []
    for fit in (models.best, models.matched):
        components.append({} if fit is None else {one.name: one for one in fit.components})
    names = list(dict.fromkeys(chain.from_iterable(components)))
    rows: list[TableRow] = []
    # The residual stands last, whatever groups the two fits have.
    for name in sorted(names, key=lambda name: name == RESIDUAL):
        cells: list[Cell] = []
        for one in components:
            component = one.get(name)
            cells.append(None if component is None else _spread(component))
            cells.append(None if component is None else _likeness(component))
        rows.append((_component_name(name), *cells))
    return Table(
        ("differences between", "IoU, 0 if missed: SD", "ICC", "IoU of hits: SD", "ICC of hits"),
        tuple(rows),
        notes=(OF_ICC,),
        name="table-components",
        kinds=("name", *same_kind("value", 4)),
    )
