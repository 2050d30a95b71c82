# SPDX-License-Identifier: Apache-2.0
"""Monitors as sentences and tables in the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import click
import numpy as np
from rich.console import Console
from rich.markup import escape

from calipers.cli.messages import one_line
from calipers.cli.tables import cells_of, name_of, plain_table, single_cells, stdout_console
from calipers.findings import legend
from calipers.monitors import MonitorEvaluation
from calipers.monitors.labellings import OMS, OOD
from calipers.plots.words import percent
from calipers.report.monitors_tables import QUANTITIES, beside
from calipers.results import Estimate

HEADS = {OMS: "OMS (unsafe)", OOD: "OOD"}
MEANING = (
    "SG: safety gain, hazard that the monitor removes. RH: residual hazard, hazard that it leaves. "
    "AC: availability cost, good images that it rejects. AURC: mean risk over all coverages."
)
MOST_TAUS = 10
KINDS = (
    ("in distribution", "safe"),
    ("in distribution", "unsafe"),
    ("OOD", "safe"),
    ("OOD", "unsafe"),
)


def print_monitors(result: MonitorEvaluation) -> None:
    """Print the answer in words, OMS and OOD side by side, the sweep over tau, and how far the
    labels disagree.
    """
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    console = stdout_console()
    estimates: list[Estimate] = []
    if result.paradigms:
        estimates += _quantities(result, console)
    if len(result.taus) > 1:
        estimates += _sweep(result, console)
    estimates += _disagreement(result, console)
    settings = result.settings
    if settings["replicates"]:
        level = f"{100 * settings['level']:g} %"
        unit = f"{settings['unit']} (n = {settings['n_units']})"
        click.echo(one_line(f"{level} confidence intervals, resampled by {unit}."))
    for line in legend(estimates):
        click.echo(one_line(line))


def _quantities(result: MonitorEvaluation, console: Console) -> list[Estimate]:
    """Print a block of lines per monitor, with the numbers of images and of wanted alarms."""
    table = plain_table(
        ["monitor", "quantity"], [*(HEADS[one] for one in result.paradigms), "images", "wanted"]
    )
    every: list[Estimate] = []
    for name in result.monitors:
        rows = beside(result, tuple(QUANTITIES), name)
        columns = []
        for k in range(len(result.paradigms)):
            columns.append(_cells([each[k] for _, each in rows]))
        for r, (metric, each) in enumerate(rows):
            estimates = [e for e in each if e is not None]
            n_images = str(estimates[0].n_images)
            n_wanted = " / ".join(str(e.n_references) for e in estimates)
            cells = [column[r] for column in columns]
            table.add_row("" if r else name_of(name), metric, *cells, n_images, n_wanted)
            every += estimates
        table.add_section()
    console.print(table)
    words = {OMS: "unsafe (OMS)", OOD: "out of distribution (OOD)"}
    labels = " / ".join(words[one] for one in result.paradigms)
    click.echo(f"{MEANING} wanted: images on which an alarm is wanted, {labels}.")
    return every


def _cells(column: Sequence[Estimate | None]) -> list[str]:
    estimates = [e for e in column if e is not None]
    if not estimates:
        return [""] * len(column)
    texts = iter(single_cells(estimates))
    cells = []
    for e in column:
        cells.append("" if e is None else escape(next(texts)))
    return cells


def _sweep(result: MonitorEvaluation, console: Console) -> list[Estimate]:
    """Print AUROC at some values of tau, with the share of unsafe images."""
    n = len(result.taus)
    places = np.unique(np.linspace(0, n - 1, min(n, MOST_TAUS)).round().astype(np.int64)).tolist()
    taus = [result.taus[k] for k in places]
    shares = result.scope.prevalence(np.array(taus))
    table = plain_table(["AUROC (OMS) at tau"], ["unsafe", *map(name_of, result.monitors)])
    rows = []
    for tau in taus:
        rows.append([result.get("AUROC", name, OMS, tau) for name in result.monitors])
    for tau, share, cells in zip(taus, shares.tolist(), cells_of(rows, ())):
        table.add_row(f"{tau:.4g}", percent(share), *map(escape, cells))
    console.print(table)
    if len(taus) < n:
        click.echo(f"{len(taus)} of {n} values of tau; the JSON has all.")
    return list(chain.from_iterable(rows))


def _disagreement(result: MonitorEvaluation, console: Console) -> list[Estimate]:
    """Print the share of images of every kind that every monitor rejects; nothing without both
    kinds of labels.
    """
    both = result.disagreement
    if both is None:
        return []
    table = plain_table(["images"], ["safe", "unsafe"])
    for words, counts in zip(("in distribution", "OOD"), both.labels.tolist()):
        table.add_row(words, *map(str, counts))
    console.print(table)
    if not both.alarms:
        return []
    table = plain_table(["rejected of the images"], [f"{where}, {kind}" for where, kind in KINDS])
    every: list[Estimate] = []
    for name, counts in both.alarms.items():
        shares = []
        for ood in (False, True):
            shares.append(both.rejected(name, ood=ood, unsafe=False))
            shares.append(both.rejected(name, ood=ood, unsafe=True))
        cells = []
        for n, text in zip(counts.reshape(4, 2), single_cells(shares)):
            cells.append(f"{int(n[1])} of {int(n.sum())}: {escape(text)}")
        table.add_row(name_of(name), *cells)
        every += shares
    console.print(table)
    return every


def command_line_warning(warning: str) -> str:
    """Return a warning with the options of the command line instead of the keywords of Python."""
    warning = re.sub(
        r"^(.*?): (AUROC is .*) say higher_is_alarm=False$",
        r"\1: \2 say --lower-is-alarm \1",
        warning,
    )
    warning = re.sub(
        r"if low scores mean alarm, say higher_is_alarm=True$",
        "leave out --lower-is-alarm",
        warning,
    )
    return warning.replace("classes='present'", "--classes present")
