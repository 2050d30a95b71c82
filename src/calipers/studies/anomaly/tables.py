# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of anomaly maps: metric by algorithm, agreement of orders, and closed forms.

An `AnomalyRun` comes in, tables go out, to `study.run`.
"""

from __future__ import annotations

from calipers.show.table import Amount, Cell, Table
from calipers.studies.anomaly.archive import SEEN, SLICES, VIEWS, VOLUMES, Benchmark
from calipers.studies.anomaly.controlled import (
    CROWD_METRICS,
    CROWDS,
    Response,
    closed_form,
)
from calipers.studies.anomaly.experiments import AnomalyRun, agreement
from calipers.studies.anomaly.measures import FAMILIES, GRADED, METRICS
from calipers.studies.framework import counterparts_table

SEEN_SHORT = "with object"


def study_tables(run: AnomalyRun) -> tuple[Table, ...]:
    """Return all tables."""
    return (
        *_values(run),
        _orders(run),
        _algorithms(run),
        _normal_volumes(run),
        _theory(run),
        *_scans(run),
        counterparts(run),
    )


def counterparts(run: AnomalyRun) -> Table:
    """Return where every part of the only figure of the paper is; it has no tables."""
    people = "not here: the paper prints none; --rank-maps makes one, --ranking reads it"
    if run.ranking is not None:
        people = f"figure 16, with the ranking of {run.ranking.file}"
    return counterparts_table(
        (
            ("figure 1, top: (a) to (e)", "figures 3, 4, 5, 7 and 8; overview in figure 2"),
            ("figure 1, bottom left (Cam-CAN)", "figures 10 and 12 to 15, T1: deformed MNI152"),
            ("figure 1, bottom right (MOOD)", "figures 11 to 15, MOOD-like: deformed MNI152"),
            ("the human ranking of both", people),
        )
    )


def _scans(run: AnomalyRun) -> list[Table]:
    """Return, for every experiment, in how many designs each sentence of the paper holds."""
    tables = []
    for k, (experiment, scan) in enumerate(run.controlled.scans.items(), start=6):
        title = (
            f"Table {k}: sentences of the paper about ({experiment}), over the choices that it "
            "leaves open"
        )
        tables.append(scan.table(f"table-{k}", title))
    return tables


def _values(run: AnomalyRun) -> list[Table]:
    """Return table 1 in three parts, because sixteen metrics are too many for one."""
    tables = []
    sizes = []
    for bench in run.benchmarks:
        sizes.append(
            f"{bench.name}: {bench.counts.test} volumes, {bench.slices} slices, "
            f"{bench.slices_seen} of them with an object"
        )
    note = (
        f"{'; '.join(sizes)}. As volumes, with 95 % intervals over volumes; every slice as a "
        f"sample; {SEEN_SHORT}: only slices that hold a part of one. Values by slices have no "
        "intervals, because slices of one volume are not independent."
    )
    for k, (family, metrics) in enumerate(FAMILIES.items()):
        rows: list[tuple[Cell, ...]] = []
        for bench in run.benchmarks:
            for view in VIEWS:
                for name in bench.algorithms:
                    cells = [_value_cell(bench, view, name, metric) for metric in metrics]
                    # One column of names, because seven of intervals leave no room for three.
                    # A name of more than 40 characters would be cut.
                    words = SEEN_SHORT if view == SEEN else view
                    rows.append((f"{bench.name}, {name}, {words}", *cells))
        tables.append(
            Table(
                ("setting, algorithm, seen as", *metrics),
                tuple(rows),
                name="table-1" + ("", "-ranked", "-regions")[k],
                title=f"Table 1: metric by algorithm, {family}",
                notes=(note,),
            )
        )
    return tables


def _value_cell(bench: Benchmark, view: str, algorithm: str, metric: str) -> Cell:
    value = bench.views[view][algorithm][metric]
    bounds = bench.intervals[algorithm][metric] if view == VOLUMES else None
    return value if bounds is None else Amount(value, low=bounds[0], high=bounds[1])


def _orders(run: AnomalyRun) -> Table:
    """Return the rank correlations of every metric."""
    rows = []
    ranked_views = VIEWS if run.ranking is not None else ()
    people = {view: run.agreements(view) for view in VIEWS}
    for metric in METRICS:
        cells: list[Cell] = [metric]
        for bench in run.benchmarks:
            # `agreement` expects ranks, of which small ones are good.
            ranks = [-value for value in bench.column(SLICES, metric)]
            order_agreement = agreement(ranks, bench.column(SEEN, metric))
            cells += [order_agreement.tau, order_agreement.rho]
        for view in ranked_views:
            cells += [people[view][metric].tau, people[view][metric].rho]
        rows.append(tuple(cells))
    columns = ["metric"]
    for bench in run.benchmarks:
        words = f"{bench.name}: all slices against slices with an object"
        columns += [f"{words}: tau-b", f"{words}: rho"]
    for view in ranked_views:
        columns += [f"people against {view}: tau-b", f"people against {view}: rho"]
    note = "Kendall's tau-b and Spearman's rho of the orders of the algorithms."
    if run.ranking is None:
        note += " No ranking by people was provided (--ranking FILE), and the paper prints none."
    return Table(
        tuple(columns),
        tuple(rows),
        name="table-2",
        title="Table 2: agreement of orders",
        notes=(note,),
    )


def _algorithms(run: AnomalyRun) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for bench in run.benchmarks:
        for one in bench.records:
            rows.append((bench.name, one.name, one.kind, one.about, one.seconds))
    return Table(
        ("setting", "algorithm", "kind", "score of a voxel", "processor time, s"),
        tuple(rows),
        name="table-3",
        title="Table 3: algorithms of the benchmark",
        notes=("Processor time of training and of the maps of all test volumes, one thread.",),
    )


def _normal_volumes(run: AnomalyRun) -> Table:
    """Return the soft IoU with its two ways to score samples without objects."""
    rows: list[tuple[Cell, ...]] = []
    for bench in run.benchmarks:
        for name in bench.algorithms:
            strict, graded = (bench.views[VOLUMES][name][m] for m in ("softIoU", GRADED))
            cells = [_value_cell(bench, VOLUMES, name, metric) for metric in ("softIoU", GRADED)]
            on_slices = bench.views[SEEN][name]["softIoU"]
            rows.append((bench.name, name, *cells, graded - strict, on_slices))
    n = run.benchmarks[0].counts.test
    note = (
        f"{n - (n + 1) // 2} of {n} volumes of every setting have no object. By softIoU such a "
        "volume counts nearly 0 unless its map is exactly 0; by softIoU/graded it is scored "
        "against the mean volume of an object. The difference is what normal volumes contribute. "
        "95 % intervals over volumes."
    )
    return Table(
        ("setting", "algorithm", "softIoU", GRADED, "difference", "softIoU, slices with an object"),
        tuple(rows),
        kinds=("name", "text", "value", "value", "signed", "value"),
        name="table-4",
        title="Table 4: what volumes without objects do to the soft IoU",
        notes=(note,),
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
    return Table(columns, tuple(rows), name="table-5", title="Table 5: closed forms", notes=(note,))


def _comparison_rows(
    response: Response, words: str, metric: str, objects: int, samples: int
) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for x, value in zip(response.x.tolist(), response.values[metric].tolist()):
        law = closed_form(response.experiment, metric, x, objects=objects, samples=samples)
        if law is not None:
            rows.append((words, metric, x, law, value, value - law))
    return rows
