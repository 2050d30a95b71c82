# SPDX-License-Identifier: Apache-2.0
"""Figures of the study of anomaly maps: the controlled experiments, and the benchmark.

An `AnomalyRun` comes in, `StudyFigure` go out, to `study.run`. `controlled_figures` shows what the
experiments look like, a scorecard, and every metric over every error; `benchmark_figures` shows
maps of the algorithms, their values, and how far metrics agree. `picture` draws the outlines of
objects by their fate, over the image and the map.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from calipers.arrays import Array, Flags
from calipers.kernels import shapes
from calipers.pictures.pixels import Pixels, encode
from calipers.show.figures import MINUS, Axis, Bars, BoxMark, Curves, HeatMap, Line, Overlay, Ring
from calipers.show.words import join
from calipers.studies.anomaly.archive import SEEN, SLICES, VIEWS, VOLUMES, Benchmark
from calipers.studies.anomaly.controlled import (
    AXES,
    CROWD_METRICS,
    CROWDS,
    EXACT,
    FAINT,
    MODEL,
    MOVES,
    STEEP,
    TOUCHING,
    Response,
    example,
)
from calipers.studies.anomaly.data import SETTINGS
from calipers.studies.anomaly.experiments import (
    DESIRED_CHANGES,
    AnomalyRun,
    agreement,
    count_desired_changes,
    scorecard,
    tau_between,
)
from calipers.studies.anomaly.measures import ALPHA, FAMILIES, METRICS
from calipers.studies.framework import StudyFigure

LARGER = 6  # pixels per voxel; enlarged here because browsers blur when they enlarge
THRESHOLD = 0.5

EXAMPLES = {
    "a": (3.0, "(a) Three small objects added, large ones shrunk"),
    "b": (1.4, "(b) Found too large"),
    "c": (3.0, "(c) Three false objects"),
    "d": (2.0, "(d) Two objects missed"),
    "e": (1.0, "(e) One missed; empty samples are added"),
}
MOST = 0.5  # a change at which colours end


def controlled_figures(run: AnomalyRun) -> tuple[StudyFigure, ...]:
    """Return all figures of the controlled experiments."""
    return (
        looks(run),
        score_figure(run),
        _experiment(
            run,
            "figure-3",
            ("a", "a-fixed"),
            f"(a) While small objects are found, AP goes from {_ends(run, 'a', 'AP/dataset')} and "
            f"the soft IoU from {_ends(run, 'a', 'softIoU')}",
            "First two rows: small objects are added to the references and found, and the large "
            "ones, found too small from the beginning, lose as many voxels. Last two rows: two "
            "large and four small objects throughout, of which the small ones are found one after "
            "the other, while the large ones lose exactly as many of their outermost voxels.",
        ),
        _experiment(
            run,
            "figure-4",
            ("b",),
            "(b) Nearly all metrics have their peak at the true size; F1 has plateaus",
            f"Four equal objects, found with another radius. Up to {TOUCHING:g} of the true "
            "radius no two of them touch; beyond, some grow together and count as one.",
        ),
        _experiment(
            run,
            "figure-5",
            ("c", "c-faint"),
            f"(c) Confident false objects take the soft IoU from {_ends(run, 'c', 'softIoU')}, AP "
            f"from {_ends(run, 'c', 'AP/dataset')}",
            "Four equal objects are found, and false ones of the same size: as confident as the "
            f"others (first two rows), or with a score of {FAINT:g} (last two rows). Dice at 5 % "
            "false voxels ends where more than 5 % of the background is positive: then no "
            "threshold qualifies, and nothing counts as positive.",
        ),
        _crowds(run),
        _experiment(
            run,
            "figure-7",
            ("d", "d-new"),
            "(d) Missed objects cost AP by samples as much as AP of the data set: "
            f"{_ends(run, 'd', 'AP/sample')}",
            "First two rows: of four equal objects some are missed in every sample. Last two "
            f"rows: all objects of the {run.controlled.samples} samples are found, and samples "
            "are added in which all are missed.",
        ),
        _experiment(
            run,
            "figure-8",
            ("e", "e-faint"),
            f"(e) Normal samples raise the soft IoU ({_ends(run, 'e', 'softIoU')}) and F1 by "
            f"samples ({_ends(run, 'e', 'F1@0.5')}), nothing else",
            "One of four objects is missed in every sample. First two rows: there are no false "
            "positives, and samples without objects are added. Last two rows: as many normal "
            "samples as others, each with one false object of the score on the x axis. softIoU "
            "loses at once what normal samples gave; softIoU/graded, which scores them against the "
            "mean object, loses it by degrees; F1 loses it when the score reaches the threshold, "
            "0.5.",
        ),
        _soft_maps(run),
    )


def _soft_maps(run: AnomalyRun) -> StudyFigure:
    """Return the experiments on soft maps, in 2D."""
    panels = []
    for response in run.controlled.soft.values():
        for family, names in FAMILIES.items():
            title = f"({response.experiment}), soft: {family}"
            x = Axis(AXES[response.experiment])
            panels.append(Curves(title, x, Axis("value", 0.0, 1.0), _lines(response, names)))
    low = float(run.controlled.soft["b"].values["AP/dataset"].min())
    lowest = "1.00" if low >= 0.995 else f"{low:.2f} or more"
    return StudyFigure(
        "figure-9",
        f"On soft maps AP of the data set is {lowest} whatever the size of objects in (b)",
        "Experiments (a), (b) and (c) in 2D on maps whose scores fall with the distance from the "
        f"centre of an object, 0.5 on its rim: 1 / (1 + (distance / radius)^{STEEP}). "
        f"{run.controlled.samples} samples.",
        tuple(panels),
        rows=(3,) * len(run.controlled.soft),
    )


def looks(run: AnomalyRun) -> StudyFigure:
    """Return one sample of every experiment."""
    panels = []
    for name, (strength, title) in EXAMPLES.items():
        sample = example(name, SETTINGS[0], strength, run.seed)
        panels.append(picture(title, sample.labels, sample.maps[MODEL]))
    caption = (
        "One 2D sample of each experiment. White: references that are found; dotted yellow: "
        "missed ones; dashed orange: false alarms; green: positive voxels. All objects are discs "
        "(spheres in 3D) whose centres are centres of voxels."
    )
    return StudyFigure(
        "figure-1", "Five errors, one at a time", caption, tuple(panels), rows=(3, 2)
    )


def score_figure(run: AnomalyRun) -> StudyFigure:
    """Return how far every metric moves in the desired direction under every error."""
    panels = []
    for setting in SETTINGS:
        values = scorecard(run, setting.name)
        words = tuple(tuple(map(_signed_text, row)) for row in values.tolist())
        panels.append(
            HeatMap(
                f"{setting.name}: {setting.object}s",
                Axis("experiment", names=tuple(f"({name})" for name in DESIRED_CHANGES)),
                Axis("metric", names=METRICS),
                values,
                "change as wanted",
                0.0,
                MOST,
                words=words,
            )
        )
    # Several metrics may share the first place.
    best = max(count_desired_changes(run, name) for name in METRICS)
    names = [name for name in METRICS if count_desired_changes(run, name) == best]
    caption = "; ".join(f"({name}) {words}" for name, words in DESIRED_CHANGES.items())
    caption = (
        f"How far a metric moves in the desired direction. {caption}. Changes within {MOVES:g} of "
        "0 count as blindness."
    )
    title = f"{join(names)} answer {best} of {len(DESIRED_CHANGES)} errors as desired"
    return StudyFigure("figure-2", title, caption, tuple(panels), rows=(2,))


def _experiment(
    run: AnomalyRun, name: str, experiments: tuple[str, ...], title: str, caption: str
) -> StudyFigure:
    """Return three families of metrics, in 2D and in 3D."""
    panels = []
    for experiment in experiments:
        for response in run.controlled.of(experiment):
            for family, names in FAMILIES.items():
                panels.append(_panel(response, family, names))
    samples = (
        f"{run.controlled.samples} samples; maps of 0 and 1; each value is that of all samples, "
        "not a mean of runs."
    )
    return StudyFigure(
        name, title, f"{caption} {samples}", tuple(panels), rows=(3,) * (len(panels) // 3)
    )


def _panel(response: Response, family: str, names: tuple[str, ...]) -> Curves:
    title = f"{response.setting.name}: {family}"
    x = Axis(AXES[response.experiment])
    return Curves(title, x, Axis("value", 0.0, 1.0), _lines(response, names))


def _lines(response: Response, names: tuple[str, ...]) -> tuple[Line, ...]:
    lines = []
    for slot, name in enumerate(names):
        lines.append(Line(name, response.x, response.values[name], slot=slot))
    return tuple(lines)


def _crowds(run: AnomalyRun) -> StudyFigure:
    """Return experiment (c) for several numbers of true objects."""
    panels = []
    for n in CROWDS:
        lines = _lines(run.controlled.crowds[n], CROWD_METRICS)
        title = f"{n} true object{'s' if n > 1 else ''} per sample"
        panels.append(Curves(title, Axis(AXES["c"]), Axis("value", 0.0, 1.0), lines))
    caption = (
        "Experiment (c) in 2D with other numbers of true objects. softIoU = 1 / (1 + a k) does "
        "not depend on how many there are; AP = n / (n + k) does. softIoU has a = 0.5, "
        f"softIoU/lenient a = {ALPHA:g}."
    )
    title = (
        "Whether the soft IoU or AP forgives false objects depends on how many true ones there are"
    )
    return StudyFigure("figure-6", title, caption, tuple(panels))


def _signed_text(value: float) -> str:
    """Return +0.62, −0.006 or 0: small changes with a third decimal, rounding errors as 0."""
    if abs(value) < EXACT:
        return "0"
    text = f"{value:+.2f}" if abs(value) >= 0.005 else f"{value:+.3f}"
    return text.replace("-", MINUS)


def _ends(run: AnomalyRun, experiment: str, metric: str) -> str:
    values = run.controlled.responses[experiment, "2D"].values[metric]
    if np.ptp(values) > MOVES:
        return f"{values[0]:.2f} to {values[-1]:.2f}"
    return f"{values[0]:.2f} throughout"


def benchmark_figures(run: AnomalyRun) -> tuple[StudyFigure, ...]:
    """Return all figures of the benchmark; the last one only if there is a ranking by people."""
    first, second = run.benchmarks
    figures = [
        _maps(first, "figure-10", run.no_brains),
        _maps(second, "figure-11", run.no_brains),
        _values(run),
        _between(run),
        _slice_choice(run),
        _sizes(run),
    ]
    return (*figures, _people(run)) if run.ranking is not None else tuple(figures)


def _maps(bench: Benchmark, name: str, no_brains: str) -> StudyFigure:
    """Return one slice with the map of every algorithm."""
    example = bench.examples[0]
    first = "the slice and its spheres" if example.image is not None else "the spheres"
    panels = [picture(first, example.labels, np.zeros(example.labels.shape), example.image)]
    for record in bench.records:
        panels.append(
            picture(
                record.name,
                example.labels,
                example.maps[record.name],
                example.image,
                note=_values_note(bench, record.name),
            )
        )
    caption = (
        f"{bench.title}: {example.title}, the first volume with spheres, at the slice with most of "
        "them. White: detected spheres; dotted yellow: missed ones; dashed orange: false alarms; "
        "green: the map. All maps are calibrated to [0, 1]: one in 1000 voxels of normal brains "
        "reaches a score of 0.5."
    )
    if example.image is None:
        caption += f" {no_brains}"
    n = sum(record.kind != "without a network" for record in bench.records)
    title = f"{bench.name}: {n} trained networks and {len(bench.records) - n} other algorithms"
    rows = -(-len(panels) // 4)
    return StudyFigure(name, title, caption, tuple(panels), rows=(4,) * rows)


def _values_note(bench: Benchmark, name: str) -> str:
    values = bench.views[VOLUMES][name]
    return (
        f"softIoU {values['softIoU']:.2f}, F1@0.5 {values['F1@0.5']:.2f}, AP/dataset "
        f"{values['AP/dataset']:.2f}"
    )


def _values(run: AnomalyRun) -> StudyFigure:
    """Return the table of metrics by algorithms."""
    panels, parts, counts = [], [], []
    for bench in run.benchmarks:
        for view in (VOLUMES, SEEN):
            table = np.array([bench.column(view, name) for name in METRICS])
            x, y = Axis("algorithm", names=bench.algorithms), Axis("metric", names=METRICS)
            panels.append(HeatMap(f"{bench.name}: {view}", x, y, table, "value"))
        best = [
            bench.algorithms[int(np.nanargmax(bench.column(VOLUMES, name)))] for name in METRICS
        ]
        parts.append(f"{len(dict.fromkeys(best))} ({bench.name})")
        counts.append(
            f"{bench.name}: {bench.counts.test} test brains, every second one with one large and "
            f"four small spheres; on the right, each of their {bench.slices_seen} slices that hold "
            "a part of a sphere is a sample of its own"
        )
    title = f"Different algorithms are best by one metric or another: {' and '.join(parts)}"
    return StudyFigure("figure-12", title, f"{'. '.join(counts)}.", tuple(panels), rows=(2, 2))


def _between(run: AnomalyRun) -> StudyFigure:
    """Return tau-b between all metrics."""
    panels, parts = [], []
    for bench in run.benchmarks:
        # Over whole volumes, which is what the algorithms were run on.
        tau = tau_between({name: bench.column(VOLUMES, name) for name in METRICS})
        r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
        names = Axis("metric", names=METRICS)
        low = min(0.0, float(np.nanmin(tau)))
        title = f"{bench.name}: tau-b of the orders of {len(bench.algorithms)} algorithms"
        panels.append(HeatMap(title, names, names, tau, "tau-b", low, 1.0))
        parts.append(f"{METRICS[r]} and {METRICS[c]}, {tau[r, c]:.2f} ({bench.name})")
    title = f"Orders differ most between {'; '.join(parts)}"
    caption = "Kendall's tau-b over the algorithms, whole volumes; 1 = the same order."
    return StudyFigure("figure-13", title, caption, tuple(panels), rows=(2,))


def _slice_choice(run: AnomalyRun) -> StudyFigure:
    """Return how the order changes if only slices with an object are evaluated."""
    panels: list[Bars] = []
    parts = []
    for bench in run.benchmarks:
        taus = []
        for metric in METRICS:
            # Ranks fall as values rise: agreement compares ranks with values.
            ranks = [-value for value in bench.column(SLICES, metric)]
            taus.append(agreement(ranks, bench.column(SEEN, metric)).tau)
        n_changed = sum(tau < 1.0 - 1e-9 for tau in taus)
        parts.append(f"{n_changed} of {len(METRICS)} metrics ({bench.name})")
        shares = np.array([[record.unseen_share for record in bench.records]])
        panels += [
            Bars(
                f"{bench.name}: order on all slices against that on slices with an object",
                Axis("metric", names=METRICS),
                Axis("tau-b", min(0.0, float(np.nanmin(taus))), 1.0),
                ("tau-b",),
                np.array([taus]),
            ),
            Bars(
                f"{bench.name}: false voxels in slices without an object",
                Axis("algorithm", names=bench.algorithms),
                Axis("share of all false voxels", 0.0, 1.0),
                ("share",),
                shares,
            ),
        ]
    title = f"Leaving out slices without an object changes the order by {' and '.join(parts)}"
    caption = (
        "The raters of the paper saw only slices with an object. Right: the share of the false "
        "positive voxels (score 0.5 or more) that they would not have seen here."
    )
    return StudyFigure("figure-14", title, caption, tuple(panels), rows=(2, 2))


def _sizes(run: AnomalyRun) -> StudyFigure:
    """Return how much of large and small spheres is found, and Dice over thresholds."""
    panels: list[Bars | Curves] = []
    for bench in run.benchmarks:
        heights = np.array([bench.large, bench.small])
        names = Axis("algorithm", names=bench.algorithms)
        y = Axis("share of voxels with a score of 0.5 or more", 0.0, 1.0)
        title = f"{bench.name}: spheres by size"
        panels.append(Bars(title, names, y, ("one large", "four small"), heights))
        lines = []
        for slot, one in enumerate(bench.records):
            lines.append(Line(one.name, np.array(bench.thresholds), np.array(one.dice), slot=slot))
        x = Axis("threshold")
        title = f"{bench.name}: Dice of all voxels"
        panels.append(Curves(title, x, Axis("Dice", 0.0), tuple(lines)))
    medians = []
    for bench in run.benchmarks:
        large, small = float(np.median(bench.large)), float(np.median(bench.small))
        medians.append(f"{large:.2f} and {small:.2f} ({bench.name})")
    title = f"Of large and of small spheres the median algorithm finds {'; '.join(medians)}"
    caption = (
        "Left: the share of the voxels of spheres whose score is 0.5 or more. Right: Dice of all "
        "voxels pooled, over the threshold; where lines cross, the threshold decides on the order."
    )
    return StudyFigure("figure-15", title, caption, tuple(panels), rows=(2, 2))


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
    most = max(tau.values())
    # Orders of few algorithms often agree alike.
    best = [name for name in tau if tau[name] >= most - EXACT]
    verb = "agrees" if len(best) == 1 else "agree"
    title = (
        f"On slices with an object {join(best)} {verb} best with the ranking by people: tau-b "
        f"{most:.2f}"
    )
    caption = (
        f"The ranking is that of {run.ranking.file}, {len(run.ranking.ranks)} algorithms of "
        f"{run.ranked.name}."
    )
    return StudyFigure("figure-16", title, caption, tuple(panels), rows=(2,))


def picture(
    title: str, labels: Array, scores: Array, image: Array | None = None, note: str = ""
) -> Overlay:
    """Return one slice: references found or missed, false alarms, and the map as a shade.

    A reference is found if any of its voxels has a score of at least 0.5; a component of such
    voxels that touches no reference is a false alarm.
    """
    positive, references = scores >= THRESHOLD, labels > 0
    marks = []
    for part in _parts(references):
        fate = "reference" if (positive & part).any() else "missed"
        marks.append(_mark(fate, part))
    for part in _parts(positive):
        if not (part & references).any():
            marks.append(_mark("false alarm", part))
    height, width = labels.shape
    background = np.zeros(labels.shape) if image is None else image
    return Overlay(
        title,
        (float(width), float(height)),
        tuple(marks),
        picture=encode_levels(background, scores=False),
        shade=encode_levels(scores, scores=True),
        note=note,
    )


def _parts(mask: Flags) -> list[Flags]:
    from scipy import ndimage

    # Diagonal neighbours belong together.
    components, n = ndimage.label(mask, np.ones((3, 3)))
    return [np.asarray(components == number) for number in range(1, n + 1)]


def _mark(fate: str, mask: Flags) -> BoxMark:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
    points, offsets = shapes.rings(mask)
    corners = [(x, y) for x, y in points.astype(float).tolist()]
    rings: list[Ring] = []
    for start, end in pairwise(offsets.tolist()):
        rings.append(tuple(corners[start:end]))
    return BoxMark(fate, box, "object", outline=tuple(rings))


def encode_outlines(mask: Flags) -> str:
    """Return a picture of the rims of objects, as wide as two pixels of a large one."""
    from scipy import ndimage

    large = mask.repeat(LARGER, axis=0).repeat(LARGER, axis=1)
    rim = large & ~np.asarray(ndimage.binary_erosion(large, iterations=2))
    array = np.where(rim, 255, 0).astype(np.uint8)
    height, width = array.shape
    return encode(Pixels(array, width, height, scores=True)).data


def encode_levels(values: Array, *, scores: bool) -> str:
    """Return grey values or scores, both in [0, 1], as a picture for a page."""
    array = np.round(255.0 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    array = array.repeat(LARGER, axis=0).repeat(LARGER, axis=1)
    height, width = array.shape
    return encode(Pixels(array, width, height, scores=scores)).data
