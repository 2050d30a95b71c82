# SPDX-License-Identifier: Apache-2.0
"""Agreement as tables and sentences in the terminal."""

from __future__ import annotations

import math

import click
from rich.markup import escape
from rich.table import Table

from calipers.cli.messages import one_line
from calipers.cli.tables import name_of, plain_table, stdout_console
from calipers.findings import legend, marks_of
from calipers.results import Estimate
from calipers.statistics.agreement_result import Agreement
from calipers.statistics.criterion_pairs import CriterionDifference

MOST_COMPARISONS = 12
SHOWN = {
    "sensitivity": "useful accepted",
    "specificity": "not useful rejected",
    "kappa": "kappa",
    "AC1": "AC1",
}
# metrics in the tables, besides those on raters
EXPLAINED = (*SHOWN, "AUROC", "Youden-threshold", "Youden-corrected")


def print_agreement(result: Agreement) -> None:
    """Print the decisions, the criteria, raters where there are several, comparisons, and the
    result in words.
    """
    console = stdout_console()
    tables = [
        _decisions(result),
        _criteria(result),
        _by_rater(result),
        _raters(result),
        _comparisons(result),
    ]
    for table in tables:
        if table is not None:
            console.print(table)
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    settings = result.settings
    click.echo(
        f"n = {len(result.ratings)} ratings; {100 * settings['level']:g} % confidence intervals, "
        f"resampled by {one_line(settings['unit'])} (n = {settings['n_units']})."
    )
    estimates = []
    for row in result.rows:
        if row.metric in EXPLAINED or "raters" in (row.group or {}):
            estimates.append(row.estimate)
    for line in legend(estimates):
        click.echo(one_line(line))


def _decisions(result: Agreement) -> Table | None:
    if not result.decisions:
        return None
    table = plain_table(["criterion", "threshold"], list(SHOWN.values()))
    for decision in result.decisions:
        cells = [_cell(result.get(metric, **decision.group)) for metric in SHOWN]
        table.add_row(name_of(decision.criterion), decision.group["threshold"], *cells)
    return table


def _criteria(result: Agreement) -> Table | None:
    if not result.ratings.criteria:
        return None
    table = plain_table(["criterion"], ["AUROC", "best threshold", "its Youden index, corrected"])
    for name in result.ratings.criteria:
        cells = [_cell(result.get("AUROC", criterion=name))]
        if not result.ratings.yes_no(name):
            cells += [
                _cell(result.get(metric, criterion=name))
                for metric in ("Youden-threshold", "Youden-corrected")
            ]
        table.add_row(name_of(name), *cells)
    return table


def _by_rater(result: Agreement) -> Table | None:
    names: dict[str, None] = {}  # an ordered set
    for row in result.rows:
        if row.metric in ("sensitivity", "specificity") and "rater" in (row.group or {}):
            names[(row.group or {})["rater"]] = None
    if not names:
        return None
    table = plain_table(
        ["criterion", "threshold", "rater"], ["useful accepted", "n", "not useful rejected", "n"]
    )
    for decision in result.headlines():
        for name in names:
            cells = [name_of(decision.criterion), decision.group["threshold"], name_of(name)]
            for metric in ("sensitivity", "specificity"):
                estimate = result.get(metric, rater=name, **decision.group)
                cells += [_cell(estimate), str(estimate.n_predictions)]
            table.add_row(*cells)
    return table


def _raters(result: Agreement) -> Table | None:
    rows = [row for row in result.rows if "raters" in (row.group or {})]
    if not rows:
        return None
    table = plain_table([f"among raters ({result.ratings.scale})"], ["value", "items", "ratings"])
    for row in rows:
        table.add_row(
            row.metric,
            _cell(row.estimate),
            str(row.estimate.n_images),
            str(row.estimate.n_predictions),
        )
    return table


def _comparisons(result: Agreement) -> Table | None:
    if not result.comparisons:
        return None
    table = plain_table(
        ["first", "second", "metric"], ["difference", "only first/second", "p", "p (Holm)"]
    )
    for one in result.comparisons[:MOST_COMPARISONS]:
        only = "" if one.only_a is None else f"{one.only_a}/{one.only_b}"
        sides = _side(one.criterion_a), _side(one.criterion_b)
        table.add_row(*sides, one.metric, _difference(one), only, _p(one.p), _p(one.p_adjusted))
    n_more = len(result.comparisons) - MOST_COMPARISONS
    if n_more > 0:
        table.add_row(f"... and {n_more} more, see --json")
    return table


def _side(group: dict[str, str]) -> str:
    at = group.get("threshold", "yes")
    return name_of(group["criterion"] + ("" if at == "yes" else f" @{at}"))


def _difference(one: CriterionDifference) -> str:
    if math.isnan(one.difference):
        return str(one.reason).replace("_", " ")
    interval = "" if math.isnan(one.low) else f" [{one.low:+.3f}, {one.high:+.3f}]"
    return f"{one.difference:+.3f}{interval}"


def _p(value: float) -> str:
    if math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _cell(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return str(estimate.reason).replace("_", " ")
    if math.isnan(estimate.low):
        return f"{estimate.value:.3f} ({str(estimate.reason).replace('_', ' ')})"
    return escape(
        f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]{marks_of(estimate)}"
    )
