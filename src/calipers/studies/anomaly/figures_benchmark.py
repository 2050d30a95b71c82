# SPDX-License-Identifier: Apache-2.0
"""Figures of the benchmark: maps of the algorithms, their values, and how far metrics agree."""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import Axis, Bars, HeatMap
from calipers.studies.anomaly.benchmark import SEEN, SLICES, VIEWS, VOLUMES
from calipers.studies.anomaly.found import AnomalyRun
from calipers.studies.anomaly.measures import METRICS
from calipers.studies.anomaly.pictured import picture
from calipers.studies.anomaly.ranking import agreement, tau_between
from calipers.studies.framework import StudyFigure


def benchmark_figures(run: AnomalyRun) -> tuple[StudyFigure, ...]:
    """Return all figures of the benchmark; the last one only if there is a ranking by people."""
    figures = [_maps(run), _values(run), _between(run), _slice_choice(run)]
    return (*figures, _people(run)) if run.ranking is not None else tuple(figures)


def _maps(run: AnomalyRun) -> StudyFigure:
    """Return one slice with the map of every algorithm."""
    bench, example = run.benchmark, run.benchmark.example
    panels = tuple(
        picture(
            name, example.labels, example.maps[name], example.image, note=_values_note(run, name)
        )
        for name in bench.algorithms
    )
    caption = (
        f"One test volume, {example.title}. White: detected spheres; dotted yellow: missed ones; "
        "dashed orange: false alarms; green: the map. All maps are calibrated to [0, 1]: one in "
        "1000 voxels of normal volumes reaches a score of 0.5."
    )
    return StudyFigure(
        "figure-9", "Algorithms fail in different ways", caption, panels, rows=(len(panels),)
    )


def _values_note(run: AnomalyRun, name: str) -> str:
    values = run.benchmark.views[VOLUMES][name]
    return (
        f"softIoU {values['softIoU']:.2f}, F1@0.5 {values['F1@0.5']:.2f}, AP/dataset "
        f"{values['AP/dataset']:.2f}"
    )


def _values(run: AnomalyRun) -> StudyFigure:
    """Return the table of metrics by algorithms."""
    bench = run.benchmark
    panels = []
    for view in (VOLUMES, SEEN):
        table = np.array([bench.column(view, name) for name in METRICS])
        x, y = Axis("algorithm", names=bench.algorithms), Axis("metric", names=METRICS)
        panels.append(HeatMap(view.capitalize(), x, y, table, "value"))
    winners: list[str] = []
    for name in METRICS:
        best = bench.algorithms[int(np.argmax(bench.column(VOLUMES, name)))]
        if best not in winners:
            winners.append(best)
    title = f"{winners[0]} wins by every metric"
    if len(winners) > 1:
        title = f"{len(winners)} algorithms win by one metric or another: {', '.join(winners)}"
    n = bench.numbers
    caption = (
        f"{n.test} test volumes of which every second one has one large and four small spheres; "
        f"on the right, each of their {bench.slices_seen} slices that hold a part of a sphere is "
        "a sample of its own."
    )
    return StudyFigure("figure-10", title, caption, tuple(panels), rows=(2,))


def _between(run: AnomalyRun) -> StudyFigure:
    """Return tau-b between all metrics."""
    columns = {name: run.benchmark.column(VOLUMES, name) for name in METRICS}
    # Over whole volumes, which is what the algorithms were run on.
    tau = tau_between(columns)
    r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
    panel = HeatMap(
        "Tau-b of the orders of the algorithms",
        Axis("metric", names=METRICS),
        Axis("metric", names=METRICS),
        tau,
        "tau-b",
        min(0.0, float(np.nanmin(tau))),
        1.0,
    )
    title = f"Orders differ most between {METRICS[r]} and {METRICS[c]}: tau-b {tau[r, c]:.2f}"
    caption = (
        f"Kendall's tau-b over {len(run.benchmark.algorithms)} algorithms, whole volumes; 1 = "
        "the same order."
    )
    return StudyFigure("figure-11", title, caption, (panel,), rows=(1,))


def _slice_choice(run: AnomalyRun) -> StudyFigure:
    """Return how the order changes if only slices with an object are evaluated."""
    bench = run.benchmark
    taus = []
    for metric in METRICS:
        ranks = [-value for value in bench.column(SLICES, metric)]
        taus.append(agreement(ranks, bench.column(SEEN, metric)).tau)
    changed_metrics = [name for name, tau in zip(METRICS, taus) if tau < 1.0 - 1e-9]
    orders = Bars(
        "Order on all slices against that on slices with an object",
        Axis("metric", names=METRICS),
        Axis("tau-b", min(0.0, float(np.nanmin(taus))), 1.0),
        ("tau-b",),
        np.array([taus]),
    )
    hidden_bars = Bars(
        "False voxels in slices without an object",
        Axis("algorithm", names=bench.algorithms),
        Axis("share of all false voxels", 0.0, 1.0),
        ("share",),
        np.array([[bench.unseen_share[name] for name in bench.algorithms]]),
    )
    title = (
        f"Leaving out slices without an object changes the order by {len(changed_metrics)} of "
        f"{len(METRICS)} metrics"
    )
    caption = (
        "The raters of the paper saw only slices with an object. Right: the share of the false "
        "positive voxels (score 0.5 or more) that they would not have seen here."
    )
    return StudyFigure("figure-12", title, caption, (orders, hidden_bars), rows=(2,))


def _people(run: AnomalyRun) -> StudyFigure:
    """Return the agreement of metrics with the ranking by people."""
    assert run.ranking is not None
    tables = {view: run.agreements(view) for view in VIEWS}
    panels = []
    for words, part in (("Kendall's tau-b", "tau"), ("Spearman's rho", "rho")):
        heights = np.empty((len(VIEWS), len(METRICS)))
        for row, view in enumerate(VIEWS):
            for column, name in enumerate(METRICS):
                heights[row, column] = getattr(tables[view][name], part)
        low = min(0.0, float(np.nanmin(heights)))
        panels.append(
            Bars(words, Axis("metric", names=METRICS), Axis(words, low, 1.0), VIEWS, heights)
        )
    tau = {name: one.tau for name, one in tables[SEEN].items() if not np.isnan(one.tau)}
    best = max(tau, key=tau.__getitem__)
    title = (
        f"On slices with an object {best} agrees best with the ranking by people: tau-b "
        f"{tau[best]:.2f}"
    )
    caption = f"The ranking is that of {run.ranking.file}, {len(run.ranking.ranks)} algorithms."
    return StudyFigure("figure-13", title, caption, tuple(panels), rows=(2,))
