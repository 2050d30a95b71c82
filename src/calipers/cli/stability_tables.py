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
from calipers.cli.tables import cells_of, name_of, plain_table, stdout_console
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
    units = result.plan.units
    if result.plan.certainty.replicates and any(each.low == each.low for each in estimates):
        level = f"{100 * result.plan.certainty.level:g} %"
        speaks = f"they speak for {units.generalises_to()}, with these models"
        click.echo(
            one_line(f"{level} intervals over {units.number} {plural(units.name)}: {speaks}.")
        )
    click.echo(
        "Other trainings: t interval from leaving out one model at a time. SD: over images (ddof 0)."
    )
    for line in legend([*estimates, *reference_estimates]):
        click.echo(one_line(line))


def _scores(result: Any, estimates: Sequence[Estimate]) -> Table:
    """Return a line per score."""
    table = plain_table(["score"], [_mean_of(result), "SD", "other trainings", "undefined pairs"])
    for name, cells in zip(result.names, cells_of([[each] for each in estimates], ())):
        undefined = result.undefined(name)
        pairs = name not in CALLED
        jackknife = result.leave_one_out(name) if pairs else None
        other = "" if jackknife is None else _range(jackknife.low, jackknife.high, jackknife.reason)
        counts = f"{undefined.pairs} of {undefined.of_pairs}" if pairs else ""
        sd = result.sd(name)
        table.add_row(
            name, escape(cells[0]), "" if math.isnan(sd) else f"{sd:.3f}", escape(other), counts
        )
    return table


def _mean_of(result: Any) -> str:
    """Return the head of the column of means."""
    certainty = result.plan.certainty
    if not certainty.replicates:
        return "mean"
    return escape(
        f"mean [{100 * certainty.level:g} % interval over {one_line(plural(result.plan.units.name))}]"
    )


def _against(result: Any, console: Console) -> list[Estimate]:
    """Print what every model finds of the reference, if there is one; return the estimates."""
    local = result.localization()
    names = [name for name in MEASURES if local.has(name)]
    if not names:
        return []
    models = (*local.models, ALL_MODELS)
    rows = [[local.get(name, model) for model in models] for name in names]
    heads = [f"{name}, n = {row[0].n_images}" for name, row in zip(names, rows)]
    table = plain_table(["against the reference"], heads)
    columns = [[cell for (cell,) in cells_of([[each] for each in row], ())] for row in rows]
    for k, model in enumerate(models):
        if model == ALL_MODELS:
            table.add_section()
        table.add_row(name_of(model), *(escape(column[k]) for column in columns))
    console.print(table)
    return [estimate for row in rows for estimate in row]


def print_objects(result: Any) -> None:
    """Print which references and false alarms how many detectors share."""
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    console, of = stdout_console(), len(result.models)
    hits, alarms = result.found_by(), result.false_alarms_by()
    table = plain_table(["models"], ["references", "share", "places of false alarms", "share"])
    cells = cells_of([[each.share] for each in (*hits, *alarms)], ())
    by_k = {
        each.k: (str(each.places), escape(cell[0]))
        for each, cell in zip(alarms, cells[len(hits) :])
    }
    for each, cell in zip(hits, cells):
        table.add_row(
            f"{each.k} of {of}", str(each.references), escape(cell[0]), *by_k.get(each.k, ("", ""))
        )
    console.print(table)
    for line in legend([each.share for each in (*hits, *alarms)]):
        click.echo(one_line(line))
    click.echo("The same predictions as maps, cell by cell:")


def _range(low: float, high: float, reason: str | None) -> str:
    if math.isnan(low):
        return str(reason or "").replace("_", " ")
    return f"[{low:.3f}, {high:.3f}]"
