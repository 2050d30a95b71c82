# SPDX-License-Identifier: Apache-2.0
"""Regression models as tables and sentences in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import chain

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.cli.messages import one_line
from calipers.cli.tables import stdout_console
from calipers.statistics.coefficients import Coefficient
from calipers.statistics.localization import LocalizationModels
from calipers.statistics.logistic import LogisticModel
from calipers.statistics.mixed import MixedModel
from calipers.statistics.mixed_words import digits, percent, probability
from calipers.statistics.weights import plural

WIDE = 110


def print_fit(fit: MixedModel | LogisticModel) -> None:
    """Print one model: effects, differences between groups, and the result in words."""
    console = stdout_console()
    logistic = isinstance(fit, LogisticModel)
    estimate_name = "odds ratio" if logistic else "effect"
    table = _table(one_line(fit.response), [estimate_name, f"{percent(fit.level)} interval", "p"])
    for one in fit.coefficients:
        if logistic and one.name == "intercept":
            continue
        table.add_row(_effect(one), *_numbers(one, logistic, digits(fit.coefficients)), _p(one.p))
    console.print(escape(one_line(_head(fit))))
    console.print(table)
    if isinstance(fit, MixedModel):
        console.print(_spread(fit))
        if fit.replicates:
            console.print(_checks(fit))
    _say(console, [*fit.sentences(), *_whole_terms(fit), *(f"Note: {note}." for note in fit.notes)])


def print_localization(models: LocalizationModels) -> None:
    """Print the three fits of one model side by side."""
    console = stdout_console()
    level = percent(models.best.level)
    console.print(f"{_name(models.model)}: {escape(one_line(_head(models.best)))}")
    console.print(
        f"[dim]estimate \\[{level} confidence interval]; the same effects on three responses[/dim]"
    )
    table = _table("effect on", ["IoU, 0 if missed", "IoU of hits", "hit, odds ratio"])
    fits = (models.best, models.matched, models.hit)
    numbers = []
    for fit in fits:
        numbers.append("-" if fit is None else str(fit.n_rows))
    table.add_row("references", *numbers, end_section=True)
    # On a narrow terminal the interval goes below the estimate.
    separator = " " if console.width >= WIDE else "\n"
    for one in models.best.coefficients:
        table.add_row(_effect(one), *[_cell(fit, one.name, separator) for fit in fits])
    console.print(table)
    console.print(_spreads(models))
    sentences = [*models.best.sentences(), *_whole_terms(models.best)]
    if models.hit is not None:
        sentences += models.hit.sentences()
    notes: dict[str, None] = {}  # an ordered set: the fits share many notes
    for fit in fits:
        if fit is not None:
            notes |= dict.fromkeys(fit.notes)
    part_names = {"matched": "IoU of hits", "hit": "hit"}
    for part, why in models.problems.items():
        notes[f"{part_names[part]} was not fitted: {why}"] = None
    if models.n_ignored:
        notes[f"{models.n_ignored} ignored references are left out"] = None
    _say(console, [*sentences, *(f"Note: {note}." for note in notes)])


def _head(fit: MixedModel | LogisticModel) -> str:
    rows = f"{fit.n_rows} rows"
    if isinstance(fit, LogisticModel):
        return (
            f"{fit.formula}; {rows}, {fit.n_positive} of them 1; {fit.n_units} {plural(fit.unit)}"
        )
    groups = ", ".join(f"{n} {plural(name)}" for name, n in fit.n_groups.items())
    if groups:
        rows = f"{rows} in {groups}"
    return f"{fit.formula}; {rows}; {fit.criterion}"


def _table(first: str, columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(escape(first), overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _effect(one: Coefficient) -> str:
    if one.reference is None:
        return _name(one.name)
    level = one.name.removeprefix(f"{one.term}[").removesuffix("]")
    return _name(f"{one.term} {level} (not {one.reference})")


def _numbers(one: Coefficient, logistic: bool, n: int) -> tuple[str, str]:
    """Return the estimate and its interval; of log odds the odds ratio."""
    if math.isnan(one.value):
        return str(one.reason).replace("_", " "), ""
    if logistic:
        between = "" if math.isnan(one.low) else f"{_odds(one.low)} to {_odds(one.high)}"
        return _odds(one.value), between
    between = "" if math.isnan(one.low) else f"{one.low:.{n}f} to {one.high:.{n}f}"
    return f"{one.value:.{n}f}", between


def _cell(fit: MixedModel | LogisticModel | None, name: str, separator: str) -> str:
    """Return an effect as ``-0.28 [-0.31, -0.25]``."""
    logistic = isinstance(fit, LogisticModel)
    if fit is None or (logistic and name == "intercept"):
        return "-"
    one = next((one for one in fit.coefficients if one.name == name), None)
    if one is None:
        return "-"
    value, between = _numbers(one, logistic, digits(fit.coefficients))
    if between:
        value += f"{separator}[{between.replace(' to ', ', ')}]"
    return escape(value)


def _odds(logarithm: float) -> str:
    """Return an odds ratio with two decimals, or two digits if it is small."""
    ratio = math.exp(min(logarithm, 700.0))  # larger logarithms overflow
    if ratio < 0.1:
        return f"{ratio:.2g}"
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.1e}"


def _p(p: float) -> str:
    if math.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _spread(fit: MixedModel) -> Table:
    table = _table(
        "differences between",
        ["SD", f"{percent(fit.level)} interval", "share of variance", "number", "p"],
    )
    tests = {test.what: test.p for test in fit.component_tests}
    for one in fit.components:
        name = "rows, unexplained" if one.icc is None else plural(one.name)
        between = "" if math.isnan(one.low) else f"{one.low:.3f} to {one.high:.3f}"
        counts = (f"{100 * one.share:.0f} %", str(one.n_groups), _p(tests.get(one.name, math.nan)))
        table.add_row(_name(name), f"{one.sd:.3f}", between, *counts)
    return table


def _whole_terms(fit: MixedModel | LogisticModel) -> list[str]:
    """Return for terms of several coefficients whether they matter as a whole."""
    sentences: list[str] = []
    if not isinstance(fit, MixedModel):
        return sentences
    for test in fit.term_tests:
        if test.df > 1:
            sentences.append(
                f"{test.what} as a whole: {probability(test.p)} (likelihood ratio "
                f"{test.statistic:.1f}, {test.df} degrees of freedom)."
            )
    return sentences


def _spreads(models: LocalizationModels) -> Table:
    table = _table("differences between (SD)", ["IoU, 0 if missed", "IoU of hits"])
    fits = [fit for fit in (models.best, models.matched) if fit is not None]
    components = []
    for fit in fits:
        components.append({one.name: one for one in fit.components})
    names = dict.fromkeys(chain.from_iterable(components))
    for name in sorted(names, key=lambda name: name == "residual"):
        cells = []
        for of_fit in components:
            cell = "-"
            if name in of_fit:
                one = of_fit[name]
                cell = escape(f"{one.sd:.3f} [{one.low:.3f}, {one.high:.3f}]")
            cells.append(cell)
        if models.matched is None:
            cells.append("-")
        table.add_row(_name("rows, unexplained" if name == "residual" else plural(name)), *cells)
    return table


def _checks(fit: MixedModel) -> Table:
    """Return a table of the bootstrap standard errors beside the model's own."""
    table = _table(
        "standard error", ["model", *(f"{check.kind} bootstrap" for check in fit.checks)]
    )
    n = digits(fit.coefficients) + 1
    for k, one in enumerate(fit.coefficients):
        errors = [one.se, *(check.coefficients[k].se for check in fit.checks)]
        table.add_row(_effect(one), *(f"{se:.{n}f}" for se in errors))
    return table


def _say(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(escape(one_line(line)), soft_wrap=not sys.stdout.isatty())
    console.print()


def _name(text: str) -> str:
    return escape(one_line(text if len(text) <= 60 else text[:57] + "..."))
