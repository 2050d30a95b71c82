# SPDX-License-Identifier: Apache-2.0
"""Stability as sentences and tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.cli.messages import one_line
from calipers.cli.tables import name_of, plain_table, single_cells, stdout_console
from calipers.findings import legend
from calipers.results import Estimate
from calipers.stability.plan import ALL_MODELS
from calipers.stability.scores import CALLED
from calipers.statistics.weights import plural

MEASURES = ("DICE", "Jaccard", "accuracy", "AUC")


def print_stability(result: Any) -> None:
    """Print the result in words, a line per score, the models against the reference, and what the
    intervals mean.
    """
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    console = stdout_console()
    estimates = [result[name] for name in result.names]
    console.print(_scores(result, estimates))
    reference_estimates = _against(result, console)
    units, certainty = result.plan.units, result.plan.certainty
    if certainty.replicates and any(each.low == each.low for each in estimates):
        click.echo(
            one_line(
                f"{100 * certainty.level:g} % confidence intervals, resampled by {units.name} "
                f"(n = {units.number}); they generalise to {units.generalises_to()}, with these "
                "models."
            )
        )
    click.echo(
        "Other trainings: t interval from leaving out one model at a time. SD: over images (ddof "
        "0)."
    )
    for line in legend([*estimates, *reference_estimates]):
        click.echo(one_line(line))


def _scores(result: Any, estimates: Sequence[Estimate]) -> Table:
    """Return a line per score."""
    table = plain_table(["score"], [_mean_of(result), "SD", "other trainings", "undefined pairs"])
    for name, cell in zip(result.names, single_cells(estimates)):
        other = counts = ""
        if name not in CALLED:  # scores of pairs of models
            jackknife, undefined = result.leave_one_out(name), result.undefined(name)
            other = _range(jackknife.low, jackknife.high, jackknife.reason)
            counts = f"{undefined.pairs} of {undefined.of_pairs}"
        sd = result.sd(name)
        spread = "" if math.isnan(sd) else f"{sd:.3f}"
        table.add_row(name, escape(cell), spread, escape(other), counts)
    return table


def _mean_of(result: Any) -> str:
    """Return the head of the column of means."""
    certainty = result.plan.certainty
    if not certainty.replicates:
        return "mean"
    return escape(
        f"mean [{100 * certainty.level:g} % interval over "
        f"{one_line(plural(result.plan.units.name))}]"
    )


def _against(result: Any, console: Console) -> list[Estimate]:
    """Print how well every model agrees with the reference, if there is one; return the
    estimates.
    """
    local = result.localization()
    names = [name for name in MEASURES if local.has(name)]
    if not names:
        return []
    models = (*local.models, ALL_MODELS)
    every: list[Estimate] = []
    heads, columns = [], []
    for name in names:
        estimates = [local.get(name, model) for model in models]
        every += estimates
        heads.append(f"{name}, n = {estimates[0].n_images}")
        columns.append(single_cells(estimates))
    table = plain_table(["against the reference"], heads)
    for model, cells in zip(models, zip(*columns)):
        if model == ALL_MODELS:
            table.add_section()
        table.add_row(name_of(model), *map(escape, cells))
    console.print(table)
    return every


def print_objects(result: Any) -> None:
    """Print how many detectors share which references and false alarms."""
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    console, of = stdout_console(), len(result.models)
    hits, alarms = result.found_by(), result.false_alarms_by()
    shares = [each.share for each in (*hits, *alarms)]
    cells = [escape(cell) for cell in single_cells(shares)]
    alarm_cells = {}
    for each, cell in zip(alarms, cells[len(hits) :]):
        alarm_cells[each.k] = (str(each.places), cell)
    table = plain_table(["models"], ["references", "share", "places of false alarms", "share"])
    for each, cell in zip(hits, cells):
        others = alarm_cells.get(each.k, ("", ""))
        table.add_row(f"{each.k} of {of}", str(each.references), cell, *others)
    console.print(table)
    for line in legend(shares):
        click.echo(one_line(line))
    click.echo("The same predictions as maps, cell by cell:")


def _range(low: float, high: float, reason: str | None) -> str:
    if math.isnan(low):
        return str(reason or "").replace("_", " ")
    return f"[{low:.3f}, {high:.3f}]"
