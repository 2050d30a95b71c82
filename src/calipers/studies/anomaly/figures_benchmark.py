# SPDX-License-Identifier: Apache-2.0
"""Figures of the benchmark: what algorithms call, what metrics say of them, and how far metrics
agree.
"""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import Axis, Bars, HeatMap
from calipers.studies.anomaly.benchmark import SEEN, SLICES, VIEWS, VOLUMES
from calipers.studies.anomaly.found import AnomalyRun
from calipers.studies.anomaly.measures import METRICS
from calipers.studies.anomaly.pictured import picture
from calipers.studies.anomaly.ranking import agreement, tau_between
from calipers.studies.framework import StudyFigure


def benchmark_figures(found: AnomalyRun) -> tuple[StudyFigure, ...]:
    """Return all figures of the benchmark; the last one only where people ranked the algorithms."""
    figures = [_maps(found), _values(found), _between(found), _seen(found)]
    return (*figures, _people(found)) if found.ranking is not None else tuple(figures)


def _maps(found: AnomalyRun) -> StudyFigure:
    """Return one slice as every algorithm sees it."""
    bench, shown = found.benchmark, found.benchmark.shown
    panels = tuple(
        picture(name, shown.labels, shown.maps[name], shown.image, note=_called(found, name))
        for name in bench.algorithms
    )
    caption = (
        f"One test volume, {shown.title}. White: spheres of which something is called; dotted "
        "yellow: missed; dashed orange: false; green: the map. Maps are brought to [0, 1] alike: "
        "a score of 0.5 is what one in 1000 voxels of normal volumes reaches."
    )
    return StudyFigure(
        "figure-9", "Algorithms fail in different ways", caption, panels, rows=(len(panels),)
    )


def _called(found: AnomalyRun, name: str) -> str:
    values = found.benchmark.views[VOLUMES][name]
    return (
        f"softIoU {values['softIoU']:.2f}, F1@0.5 {values['F1@0.5']:.2f}, AP/dataset "
        f"{values['AP/dataset']:.2f}"
    )


def _values(found: AnomalyRun) -> StudyFigure:
    """Return metric by algorithm."""
    bench = found.benchmark
    panels = []
    for view in (VOLUMES, SEEN):
        table = np.array([bench.column(view, name) for name in METRICS])
        x, y = Axis("algorithm", names=bench.algorithms), Axis("metric", names=METRICS)
        panels.append(HeatMap(view.capitalize(), x, y, table, "value"))
    best = {name: bench.algorithms[int(np.argmax(bench.column(VOLUMES, name)))] for name in METRICS}
    winners = list(dict.fromkeys(best.values()))
    title = f"{len(winners)} algorithms win by one metric or another: {', '.join(winners)}"
    title = title if len(winners) > 1 else f"{winners[0]} wins by every metric"
    n = bench.numbers
    caption = (
        f"{n.test} test volumes of which every second one has one large and four small spheres; "
        f"on the right, each of their {bench.slices_seen} slices that hold a part of a sphere is "
        "a sample of its own."
    )
    return StudyFigure("figure-10", title, caption, tuple(panels), rows=(2,))


def _between(found: AnomalyRun) -> StudyFigure:
    """Return tau-b between all metrics."""
    columns = {name: found.benchmark.column(VOLUMES, name) for name in METRICS}
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
        f"Kendall's tau-b over {len(found.benchmark.algorithms)} algorithms, whole volumes; 1 = "
        "the same order."
    )
    return StudyFigure("figure-11", title, caption, (panel,), rows=(1,))


def _seen(found: AnomalyRun) -> StudyFigure:
    """Return how far the order changes when only slices with an object are judged."""
    bench = found.benchmark
    taus = []
    for metric in METRICS:
        one, other = (bench.column(view, metric) for view in (SLICES, SEEN))
        taus.append(agreement([-value for value in one], other).tau)
    changed = [name for name, tau in zip(METRICS, taus) if tau < 1.0 - 1e-9]
    orders = Bars(
        "Order on all slices against that on slices with an object",
        Axis("metric", names=METRICS),
        Axis("tau-b", min(0.0, float(np.nanmin(taus))), 1.0),
        ("tau-b",),
        np.array([taus]),
    )
    hidden = Bars(
        "False voxels in slices without an object",
        Axis("algorithm", names=bench.algorithms),
        Axis("share of all false voxels", 0.0, 1.0),
        ("share",),
        np.array([[bench.unseen[name] for name in bench.algorithms]]),
    )
    title = (
        f"Leaving out slices without an object changes the order by {len(changed)} of "
        f"{len(METRICS)} metrics"
    )
    caption = (
        "The raters of the paper saw slices with an object only. On the right, how much of what "
        "is called falsely (score 0.5 or more) they would not have seen here."
    )
    return StudyFigure("figure-12", title, caption, (orders, hidden), rows=(2,))


def _people(found: AnomalyRun) -> StudyFigure:
    """Return how well metrics agree with the ranking that was given."""
    assert found.ranking is not None
    tables = {view: found.agreements(view) for view in VIEWS}
    panels = []
    for words, part in (("Kendall's tau-b", "tau"), ("Spearman's rho", "rho")):
        heights = np.array(
            [[getattr(tables[view][name], part) for name in METRICS] for view in VIEWS]
        )
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
    caption = f"The ranking is that of {found.ranking.file}, {len(found.ranking.ranks)} algorithms."
    return StudyFigure("figure-13", title, caption, tuple(panels), rows=(2,))
