# SPDX-License-Identifier: Apache-2.0
"""Tables of the study: metric by algorithm, agreement with people, and closed forms beside what was
measured.
"""

from __future__ import annotations

from calipers.plots.figures import Cell, Table
from calipers.studies.anomaly.algorithms import ALGORITHMS
from calipers.studies.anomaly.benchmark import SEEN, SLICES, VIEWS
from calipers.studies.anomaly.controlled import CROWD_METRICS, CROWDS, Response
from calipers.studies.anomaly.found import Found
from calipers.studies.anomaly.laws import expected
from calipers.studies.anomaly.measures import METRICS
from calipers.studies.anomaly.ranking import agreement
from calipers.studies.framework import StudyTable


def study_tables(found: Found) -> tuple[StudyTable, ...]:
    """Return all tables."""
    return (_values(found), _orders(found), _algorithms(found), _theory(found))


def _values(found: Found) -> StudyTable:
    bench = found.benchmark
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, view, *(bench.views[view][name][metric] for metric in METRICS))
        for view in VIEWS
        for name in bench.algorithms
    )
    note = "As volumes; every slice as a sample; only slices that hold a part of an object."
    return StudyTable(
        "table-1", "Metric by algorithm", Table(("algorithm", "seen as", *METRICS), rows), note
    )


def _orders(found: Found) -> StudyTable:
    """Return rank correlations per metric."""
    bench, rows = found.benchmark, []
    people = {view: found.agreements(view) for view in VIEWS}
    for metric in METRICS:
        one, other = (bench.column(view, metric) for view in (SLICES, SEEN))
        same = agreement([-value for value in one], other)
        cells: list[Cell] = [metric, same.tau, same.rho]
        for view in VIEWS if found.ranking is not None else ():
            cells += [people[view][metric].tau, people[view][metric].rho]
        rows.append(tuple(cells))
    columns = ["metric", "all slices against slices with an object: tau-b", "rho"]
    for view in VIEWS if found.ranking is not None else ():
        columns += [f"people against {view}: tau-b", f"people against {view}: rho"]
    note = "Kendall's tau-b and Spearman's rho of the orders of the algorithms."
    if found.ranking is None:
        note += " No ranking by people was given (--ranking FILE), and the paper prints none."
    return StudyTable("table-2", "Agreement of orders", Table(tuple(columns), tuple(rows)), note)


def _algorithms(found: Found) -> StudyTable:
    rows = tuple(
        (
            one.name,
            one.about,
            "yes"
            if one.name in found.benchmark.algorithms
            else f"no: needs {one.package} (extra {one.extra})",
        )
        for one in ALGORITHMS
    )
    return StudyTable(
        "table-3",
        "Algorithms of the benchmark",
        Table(("algorithm", "score of a voxel", "ran"), rows),
    )


def _theory(found: Found) -> StudyTable:
    """Return closed forms beside what was measured."""
    rows: list[tuple[Cell, ...]] = []
    for (experiment, dimensions), response in found.controlled.responses.items():
        for metric in METRICS:
            rows += _compared(
                response, f"({experiment}), {dimensions}", metric, 4, found.controlled.samples
            )
    for n in CROWDS:
        for metric in CROWD_METRICS:
            response = found.controlled.crowds[n]
            words = f"(c), 2D, {n} true object{'s' if n > 1 else ''}"
            rows += _compared(response, words, metric, n, found.controlled.samples)
    note = "Where a closed form for maps of 0 and 1 exists; differences come from e = 0.00001 in the soft IoU."
    columns = ("experiment", "metric", "strength", "expected", "measured", "difference")
    return StudyTable("table-4", "Closed forms", Table(columns, tuple(rows)), note)


def _compared(
    response: Response, words: str, metric: str, objects: int, samples: int
) -> list[tuple[Cell, ...]]:
    found: list[tuple[Cell, ...]] = []
    for x, value in zip(response.x.tolist(), response.values[metric].tolist()):
        law = expected(response.experiment, metric, x, objects=objects, samples=samples)
        if law is not None:
            found.append((words, metric, x, law, value, value - law))
    return found
