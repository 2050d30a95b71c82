# SPDX-License-Identifier: Apache-2.0
"""Choices that the RoDeO paper leaves open, and in how many of them its sentences hold.

The paper does not say which half of the images its oracles ran on, in which order average precision
takes equal scores (all scores of an oracle are equal), and at which strengths curves were computed.
`scan_of` judges the sentences about figures 3 to 5 and 7 to 11 again under every combination, with
the judges and rules that give the verdicts. `calipers.studies.rodeo.study` puts the shares beside
the verdicts, and the table of all of them onto the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calipers.arrays import F64, I64
from calipers.sensitivity.sweep import Sweep, SweepAxis
from calipers.show.table import Cell, Table
from calipers.studies.claim_rules import Statement
from calipers.studies.framework import ClaimJudgement
from calipers.studies.open_choices import Configuration, Scan, scan_configurations
from calipers.studies.rodeo.claims import RodeoRun
from calipers.studies.rodeo.experiments import IN_ORDER, PRECISIONS

HALF, ORDER, GRID = "half of the images", "equal scores", "grid"
TEST, OTHER = "test", "the other"
STEP, INPUT = "one step", "input order"
FINE, COARSE = "every point", "every second point"
# Figures that show sweeps; the others are exact, or examples.
SWEPT = re.compile(r"figure (?:3|4|5|7|8|9|10|11)$")

Entries = Sequence[tuple[Statement, Callable[[RodeoRun], ClaimJudgement]]]


def scan_of(run: RodeoRun, entries: Entries, other: RodeoRun | None = None) -> Scan:
    """Judge all sentences about sweeps under every combination of the open choices.

    Parameters
    ----------
    entries
        Statements with their judges.
    other
        The same experiments on the other half of the images; None leaves that choice out, and that
        of the grid, as in a quick run, whose grids are coarse already.
    """
    runs = {TEST: run}
    choices: dict[str, Sequence[str]] = {HALF: (TEST,), ORDER: (STEP, INPUT), GRID: (FINE,)}
    if other is not None:
        runs[OTHER] = other
        choices |= {HALF: (TEST, OTHER), GRID: (FINE, COARSE)}

    def outcomes(one: Configuration) -> Mapping[str, bool | None]:
        variant = with_choices(runs[one[HALF]], order=one[ORDER], grid=one[GRID])
        holds = {}
        for statement, judge in entries:
            if SWEPT.search(statement.where):
                holds[statement.name] = judge(variant).outcome is True
        return holds

    return scan_configurations(choices, outcomes)


def with_choices(run: RodeoRun, *, order: str = STEP, grid: str = FINE) -> RodeoRun:
    """Return the run as it is with another order of equal scores, or on a coarser grid."""
    sweeps = {}
    for name, sweep in run.sweeps.items():
        changed = _in_input_order(sweep) if order == INPUT else sweep
        sweeps[name] = _every_second_point(changed) if grid == COARSE else changed
    return replace(run, sweeps=sweeps)


def _in_input_order(sweep: Sweep) -> Sweep:
    """Exchange the two kinds of AP, so that judges read the one in input order."""
    names = list(sweep.metrics)
    rows = list(range(len(names)))
    for one, other in zip(PRECISIONS, IN_ORDER):
        first, second = names.index(one), names.index(other)
        rows[first], rows[second] = second, first
    low, high = sweep.low[:, rows], sweep.high[:, rows]
    return replace(sweep, value=sweep.value[:, rows], low=low, high=high)


def _every_second_point(sweep: Sweep) -> Sweep:
    """Leave out every second strength, but neither the first nor the last."""
    axes, places = [], []
    for axis in sweep.axes:
        n = len(axis.values)
        rows: I64 = np.unique([*range(0, n, 2), n - 1])
        places.append(rows)
        axes.append(SweepAxis(axis.name, tuple(axis.values[k] for k in rows.tolist())))

    def thinned(values: F64) -> F64:
        # Models and metrics come first.
        for dimension, rows in enumerate(places, start=2):
            values = np.take(values, rows, axis=dimension)
        return values

    return replace(
        sweep,
        axes=tuple(axes),
        value=thinned(sweep.value),
        low=thinned(sweep.low),
        high=thinned(sweep.high),
    )


def scan_table(scan: Scan) -> Table:
    """Return a row per sentence: in how many configurations it holds, in all and by choice."""
    columns = ["claim", "all"]
    parts: list[dict[str, str]] = [{}]
    for choice, values in scan.choices.items():
        if len(values) > 1:
            for value in values:
                columns.append(f"{choice}: {value}")
                parts.append({choice: value})
    rows: list[tuple[Cell, ...]] = []
    for sentence in scan.sentences:
        shares = [scan.share(sentence, **part) for part in parts]
        rows.append((sentence, *(f"{share.n_held}/{share.n_total}" for share in shares)))
    note = (
        f"{len(scan.configurations)} configurations, counted alike: in how many of them a sentence "
        "held, neither in part nor not at all. AP takes equal scores as one step, as appendix E "
        "of the paper defines it, or in input order, as pycocotools does."
    )
    title = "Sentences about oracles, over the choices that the paper leaves open"
    return Table(tuple(columns), tuple(rows), title=title, name="table-scan", notes=(note,))
