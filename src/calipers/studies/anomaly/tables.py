# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of anomaly maps: metric by algorithm, agreement of orders, and closed forms.

An `AnomalyRun` comes in, tables go out, to `study.run`.
"""

from __future__ import annotations

from calipers.show.table import Cell, Table
from calipers.studies.anomaly.algorithms import ALGORITHMS
from calipers.studies.anomaly.controlled import (
    CROWD_METRICS,
    CROWDS,
    Response,
    closed_form,
)
from calipers.studies.anomaly.experiments import (
    SEEN,
    SLICES,
    VIEWS,
    AnomalyRun,
    agreement,
)
from calipers.studies.anomaly.measures import METRICS


def study_tables(run: AnomalyRun) -> tuple[Table, ...]:
    """Return all tables."""
    return (_values(run), _orders(run), _algorithms(run), _theory(run), *_scans(run))


def _scans(run: AnomalyRun) -> list[Table]:
    """Return, for every experiment, in how many designs each sentence of the paper holds."""
    tables = []
    for k, (experiment, scan) in enumerate(run.controlled.scans.items(), start=5):
        title = f"({experiment}) Sentences of the paper, over the choices that it leaves open"
        tables.append(scan.table(f"table-{k}", title))
    return tables


def _values(run: AnomalyRun) -> Table:
    bench = run.benchmark
    rows: list[tuple[Cell, ...]] = []
    for view in VIEWS:
        for name in bench.algorithms:
            values = [bench.views[view][name][metric] for metric in METRICS]
            rows.append((name, view, *values))
    note = "As volumes; every slice as a sample; only slices that hold a part of an object."

    return Table(
        ("algorithm", "seen as", *METRICS),
        tuple(rows),
        name="table-1",
        title="Metric by algorithm",
        notes=(note,),
    )


def _orders(run: AnomalyRun) -> Table:
    """Return the rank correlations of every metric."""
    bench, rows = run.benchmark, []
    ranked_views = VIEWS if run.ranking is not None else ()
    people = {view: run.agreements(view) for view in VIEWS}
    for metric in METRICS:
        # `agreement` expects ranks, of which small ones are good.
        ranks = [-value for value in bench.column(SLICES, metric)]
        order_agreement = agreement(ranks, bench.column(SEEN, metric))
        cells: list[Cell] = [metric, order_agreement.tau, order_agreement.rho]
        for view in ranked_views:
            cells += [people[view][metric].tau, people[view][metric].rho]
        rows.append(tuple(cells))
    columns = ["metric", "all slices against slices with an object: tau-b", "rho"]
    for view in ranked_views:
        columns += [f"people against {view}: tau-b", f"people against {view}: rho"]
    note = "Kendall's tau-b and Spearman's rho of the orders of the algorithms."
    if run.ranking is None:
        note += " No ranking by people was provided (--ranking FILE), and the paper prints none."
    return Table(
        tuple(columns), tuple(rows), name="table-2", title="Agreement of orders", notes=(note,)
    )


def _algorithms(run: AnomalyRun) -> Table:
    rows = []
    for algorithm in ALGORITHMS:
        status = "yes"
        if algorithm.name not in run.benchmark.algorithms:
            status = f"no: needs {algorithm.package} (extra {algorithm.extra})"
        rows.append((algorithm.name, algorithm.about, status))
    return Table(
        ("algorithm", "score of a voxel", "ran"),
        tuple(rows),
        name="table-3",
        title="Algorithms of the benchmark",
    )


def _theory(run: AnomalyRun) -> Table:
    """Return closed forms next to the measured values."""
    rows: list[tuple[Cell, ...]] = []
    for (experiment, dimensions), response in run.controlled.responses.items():
        for metric in METRICS:
            rows += _comparison_rows(
                response, f"({experiment}), {dimensions}", metric, 4, run.controlled.samples
            )
    for n in CROWDS:
        for metric in CROWD_METRICS:
            response = run.controlled.crowds[n]
            words = f"(c), 2D, {n} true object{'s' if n > 1 else ''}"
            rows += _comparison_rows(response, words, metric, n, run.controlled.samples)
    note = (
        "Where a closed form for maps of 0 and 1 exists; differences come from e = 0.00001 in the "
        "soft IoU."
    )
    columns = ("experiment", "metric", "strength", "expected", "measured", "difference")
    return Table(columns, tuple(rows), name="table-4", title="Closed forms", notes=(note,))


def _comparison_rows(
    response: Response, words: str, metric: str, objects: int, samples: int
) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for x, value in zip(response.x.tolist(), response.values[metric].tolist()):
        law = closed_form(response.experiment, metric, x, objects=objects, samples=samples)
        if law is not None:
            rows.append((words, metric, x, law, value, value - law))
    return rows
