# SPDX-License-Identifier: Apache-2.0
"""Figures 1 to 11 of the study of polyps, and three on what the paper left for later.

A `PolypRun` comes in, `StudyFigure` go out, to `study.run`. Figures 3, 4 and 8 explain criteria on
one drawn crescent, with values that are computed; figures 1 and 5 show frames of the run where they
were drawn by Calipers; the others show numbers of the run.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from calipers.agreement.rated_predictions import criteria_of
from calipers.arrays import U8
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.evaluation.figures import groups_box, precision_recall
from calipers.kernels.assignment import HIT
from calipers.matching.assign import match
from calipers.matching.matches import View
from calipers.pictures.overlays import outline_of
from calipers.sensitivity.figures import ranks
from calipers.show.figures import Axis, Bars, BoxDots, BoxMark, Curves, Figure, Line, Overlay, Ring
from calipers.show.words import percent_text
from calipers.studies.framework import StudyFigure
from calipers.studies.open_choices import choice_text
from calipers.studies.polyps.claims import accepted_useful, range_of, span_text, value_text
from calipers.studies.polyps.endoscopy import centre_frames, drawn_frame
from calipers.studies.polyps.experiments import (
    COUNTING,
    CUTS,
    GRID,
    OVERLAPS,
    POINTS,
    RANGES,
    SEVEN,
    PolypRun,
)
from calipers.studies.polyps.people import THRESHOLDS as SIIM_THRESHOLDS

SIDE = 100  # of drawn examples, pixels
NAMES = {
    "box-iou": "box IoU",
    "mask-iou": "mask IoU",
    "hull-iou": "hull IoU",
    "any-overlap": "any overlap",
    "point-in-box": "point in box",
    "point-in-mask": "point in mask",
    "point-in-hull": "point in hull",
}
UNIT = Axis("value", 0.0, 1.0)
EXAMPLES = 3  # frames of figure 5
VISIBLE = 0.3  # score of members' boxes in figure 1


def study_figures(run: PolypRun) -> tuple[StudyFigure, ...]:
    """Return all figures, in the order of the paper."""
    figures: list[StudyFigure | None] = [_recipe(run), *_centres(run), _points(run), _shapes(run)]
    figures += [_counts(run), _thresholds(run), _people(run), _criteria(), _precision(run)]
    figures += [_complementary_thresholds(run), _ranking(run), _prevalence(run), _cut(run)]
    order = {f"figure-{k}": k for k in range(1, 12)}
    present = [figure for figure in figures if figure is not None]
    return tuple(sorted(present, key=lambda figure: order.get(figure.name, 99)))


@dataclass(frozen=True)
class CrescentScene:
    """One crescent with two predicted boxes, and what criteria say about them."""

    outline: tuple[Ring, ...]
    hull: tuple[Ring, ...]
    box: tuple[float, float, float, float]
    predictions: dict[str, tuple[float, float, float, float]]
    values: dict[str, dict[str, float]]  # prediction -> criterion -> value


@cache
def crescent() -> CrescentScene:
    """Return the example of figures 3, 4 and 8."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    disc = np.hypot(x - 50, y - 50) < 38
    mask = disc & (np.hypot(x - 70, y - 50) > 30)
    shapes = Masks.from_dense([mask])
    box = tuple(shapes.boxes()[0].tolist())
    x0, y0, x1, y1 = box
    predictions = {
        "good": (x0 + 3, y0 + 2, x1 + 3, y1 + 2),
        "inferior": (x0 - 8, y0 + 22, x1 - 22, y1 + 14),
    }
    record = {
        "image_id": "crescent",
        "boxes": shapes.boxes(),
        "labels": np.zeros(1, np.int64),
        "masks": shapes,
        "width": SIDE,
        "height": SIDE,
    }
    models = {}
    for name, corners in predictions.items():
        entry = {"image_id": "crescent", "boxes": np.array([corners]), "scores": np.ones(1)}
        models[name] = [{**entry, "labels": np.zeros(1, np.int64)}]
    cohort = Cohort.from_arrays([record], models, classes=("polyp",))
    values = {}
    for name in predictions:
        own = criteria_of(cohort, name, (*OVERLAPS, *POINTS, "centre-distance"))
        values[name] = {criterion: float(value[0]) for criterion, value in own.items()}
    hulls = shapes.hulls()
    return CrescentScene(
        outline_of(shapes, 0), outline_of(hulls, 0), _four(box), predictions, values
    )


def _four(box: Sequence[float]) -> tuple[float, float, float, float]:
    return box[0], box[1], box[2], box[3]


def _point(box: tuple[float, float, float, float], fate: str, label: str) -> BoxMark:
    """Return the centre of a box as a small square."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return BoxMark(fate, (x - 1.5, y - 1.5, x + 1.5, y + 1.5), label)


def _example(
    title: str, shape: str, prediction: str, note: str, *, hit: bool, centre: bool
) -> Overlay:
    """Return the crescent, its hull or its box, with a prediction."""
    scene = crescent()
    rings = {"mask": scene.outline, "hull": scene.hull, "box": ()}[shape]
    reference = "reference" if hit else "missed"
    fate = "hit" if hit else "false alarm"
    box = scene.predictions[prediction]
    marks = [BoxMark(reference, scene.box, f"reference {shape}", outline=rings)]
    marks.append(BoxMark(fate, box, "prediction"))
    if centre:
        marks.append(_point(box, fate, "centre of the prediction"))
    return Overlay(title, (SIDE, SIDE), tuple(marks), note=note)


def _points(run: PolypRun) -> StudyFigure:
    values = crescent().values["good"]
    panels: list[Figure] = []
    for criterion in POINTS:
        hit = values[criterion] > 0
        verdict = "true positive" if hit else "false positive, and the polyp is missed"
        shape = criterion.removeprefix("point-in-")
        panels.append(
            _example(NAMES[criterion], shape, "good", verdict + ".", hit=hit, centre=True)
        )
    title = "A centre can lie in the box and in the hull of a polyp, and not in its mask"
    caption = (
        "The same prediction (its centre is the small square) under three point criteria; the "
        "reference is a crescent, drawn as its box, its mask and its convex hull."
    )
    if run.shapes is not None:
        odd, even = run.shapes
        caption += (
            f" In this run the mask loses {odd.lost} of {odd.n} non-convex polyps that the hull "
            f"finds, and {even.lost} of {even.n} others"
        )
        siim = run.people.siim
        if siim is None:
            caption += "."
        else:
            odd, even = siim.shapes
            caption += (
                f"; of real outlines of pneumothorax (SIIM) {odd.lost} of {odd.n} non-convex ones, "
                f"and {even.lost} of {even.n} others."
            )
    return StudyFigure("figure-3", title, caption, tuple(panels))


def _shapes(run: PolypRun) -> StudyFigure:
    panels: list[Figure] = []
    for prediction in ("good", "inferior"):
        values = crescent().values[prediction]
        for criterion in OVERLAPS:
            value = values[criterion]
            shape = criterion.removesuffix("-iou")
            note = f"{NAMES[criterion]} {value:.2f}"
            hit = value >= 0.5
            title = f"{prediction} prediction, {NAMES[criterion]}"
            panels.append(_example(title, shape, prediction, note, hit=hit, centre=False))
    good, bad = crescent().values["good"], crescent().values["inferior"]
    title = "The kind of reference decides the IoU of the same box"
    caption = (
        f"Box, mask and hull IoU of a good prediction ({_three(good)}) and of an inferior one "
        f"({_three(bad)}). Solid: accepted at 0.5; dashed: not. The three differ by "
        f"{_spread(good):.2f} for the good one and by {_spread(bad):.2f} for the inferior one; in "
        "the paper's example it is the inferior one for which they differ more."
    )
    if run.spreads:
        usual, poor = run.spreads["good"], run.spreads["inferior"]
        caption += (
            f" Of this run's predictions, the median difference is {usual.width:.2f} for {usual.n} "
            f"with a box IoU of 0.75 or more, and {poor.width:.2f} for {poor.n} below 0.5."
        )
    return StudyFigure("figure-4", title, caption, tuple(panels))


def _spread(values: dict[str, float]) -> float:
    own = [values[name] for name in OVERLAPS]
    return max(own) - min(own)


def _three(values: dict[str, float]) -> str:
    return ", ".join(f"{values[name]:.2f}" for name in OVERLAPS)


def _criteria() -> StudyFigure:
    panels: list[Figure] = []
    scene = crescent()
    values = scene.values["good"]
    for criterion in POINTS:
        shape = criterion.removeprefix("point-in-")
        hit = bool(values[criterion] > 0)
        note = f"{choice_text(hit)}: true positive if the centre lies inside"
        panels.append(_example(NAMES[criterion], shape, "good", note, hit=hit, centre=True))
    box = scene.predictions["good"]
    marks = (
        BoxMark("reference", scene.box, "reference", outline=scene.outline),
        BoxMark("hit", box, "prediction"),
        _point(box, "hit", "centre of the prediction"),
    )
    distance = values["centre-distance"]
    note = f"{distance:.1f} pixels to the centroid: true positive up to a distance of choice"
    panels.append(Overlay("centre distance", (SIDE, SIDE), marks, note=note))
    for criterion in OVERLAPS:
        shape = criterion.removesuffix("-iou")
        hit = values[criterion] >= 0.5
        note = f"{values[criterion]:.2f}: true positive at a threshold or more, here 0.5"
        panels.append(_example(NAMES[criterion], shape, "good", note, hit=hit, centre=False))
    title = "Point criteria ask where an object is, overlap criteria also how large"
    caption = "The criteria of the study on one prediction; above those of points, below overlap."
    return StudyFigure("figure-8", title, caption, tuple(panels), rows=(4, 3))


def _centres(run: PolypRun) -> list[StudyFigure]:
    """Return figures 2 and 10: a dot per centre, a box per metric."""
    if len(run.centre_names) < 2:
        return []
    figures = []
    caption = (
        f"A dot per centre, with the quartiles of the centres as a box; {_n_text(run)}. Box IoU "
        f"0.5 for the counting metrics, at the score at which F1 is highest or above ({{cuts}}). "
        "The numbers have the intervals of every centre."
    )
    for name, models in (("figure-2", (run.main,)), ("figure-10", run.others)):
        if not models:
            continue
        panels, cuts, ranges = [], [], []
        for model in models:
            panels.append(_metrics_box(run, model))
            cuts.append(f"{model}: {run.cuts[model]:.2f}")
            values = run.by_centre(model, "AP@0.5:0.95")
            ranges.append(f"{model} {span_text(values)}")
        title = f"AP@0.5:0.95 by centre: {'; '.join(ranges)}"
        text = caption.format(cuts=", ".join(cuts))
        figures.append(StudyFigure(name, title, text, tuple(panels), rows=(1,) * len(panels)))
    return figures


def _n_text(run: PolypRun) -> str:
    """Return how many frames and polyps a figure rests on."""
    return f"{run.data.cohort.n_images} frames, {len(run.data.cohort.references)} polyps"


def _metrics_box(run: PolypRun, model: str) -> BoxDots:
    figure = groups_box(run.centres[model], over="centre", by="centre", metrics=SEVEN)
    spans = {metric: range_of(run.by_centre(model, metric)) for metric in SEVEN}
    widest = max(spans, key=lambda metric: spans[metric])
    title = f"{model}: the centres differ by up to {spans[widest]:.2f} ({widest})"
    return replace(figure, title=title)


def _counts(run: PolypRun) -> StudyFigure:
    names, heights = [], []
    for (criterion, threshold), counts in run.counts.items():
        names.append(f"{NAMES[criterion]} {threshold:g}")
        heights.append((counts.tp, counts.fp, counts.fn))
    bars = Bars(
        "Counts of all frames",
        Axis("criterion and threshold", names=tuple(names)),
        Axis("objects", 0.0, whole=True),
        ("true positives", "false positives", "false negatives"),
        np.array(heights, np.float64).T,
        stacked=True,
    )
    first, second = run.counts["box-iou", 0.5], run.counts["box-iou", 0.75]
    title = f"From 0.5 to 0.75, {first.tp - second.tp} of {first.tp} hits by box IoU are lost"
    cut = run.cuts[run.main]
    caption = f"Predictions of {run.main} from a score of {cut:.2f} on; {_n_text(run)}."
    examples = _between(run)
    if examples:
        caption += " Above: frames whose prediction is right at 0.5 and wrong at 0.75 by box IoU."
    rows = (len(examples), 1) if examples else (1,)
    return StudyFigure("figure-5", title, caption, (*examples, bars), rows=rows)


def _between(run: PolypRun) -> list[Overlay]:
    """Return drawn frames with a prediction whose box IoU lies between 0.5 and 0.75."""
    if not run.data.is_drawn:
        return []
    cut = run.cuts[run.main]
    matches = match(run.data.cohort, run.main, [View(score_cut=cut)])
    right = matches.prediction_fate[0] == HIT
    rows = np.flatnonzero(right & (matches.similarity > 0.5) & (matches.similarity < 0.75))
    images = run.data.cohort.models[run.main].image[rows]
    # The lowest overlaps, of different frames: what a reader would call good all the same.
    order = np.argsort(matches.similarity[rows], kind="stable")
    panels: list[Overlay] = []
    shown_images: set[int] = set()
    for k in order.tolist():
        image = int(images[k])
        if image in shown_images or len(panels) == EXAMPLES:
            continue
        shown_images.add(image)
        panels.append(_frame(run, image, f"box IoU {matches.similarity[rows[k]]:.2f}"))
    return panels


def _frame(run: PolypRun, image: int, title: str, members: str | None = None) -> Overlay:
    """Return a drawn frame with its polyps and the predictions of the main model or its members."""
    cohort = run.data.cohort
    references, masks = cohort.references, cohort.references.masks
    marks = []
    for row in range(int(references.offsets[image]), int(references.offsets[image + 1])):
        rings = () if masks is None else outline_of(masks, row)
        marks.append(
            BoxMark("reference", _four(references.boxes[row].tolist()), "polyp", outline=rings)
        )
    tables = {run.main: cohort.models[run.main]}
    cut = run.cuts[run.main]
    if members is not None and run.data.members is not None:
        own = run.data.members.models
        tables = {name: own[name] for name in own if name.startswith(f"{members}/")}
        cut = VISIBLE
    for name, table in tables.items():
        for row in range(int(table.offsets[image]), int(table.offsets[image + 1])):
            score = float(table.score[row])
            if score >= cut:
                marks.append(BoxMark("hit", _four(table.boxes[row].tolist()), name, score))
    width, height = cohort.images.size[image].tolist()
    name = cohort.images.ids[image]
    picture = _picture(int(run.data.settings["seed of frames and networks"]), name)
    return Overlay(title, (width, height), tuple(marks), picture=picture, note=name)


@cache
def _picture(seed: int, name: str) -> str:
    """Return a drawn frame as a data address."""
    from PIL import Image

    for plan in centre_frames(seed):
        if plan.name == name:
            return _address(drawn_frame(plan).pixels, Image)
    return ""


def _address(pixels: U8, image: object) -> str:
    sink = io.BytesIO()
    image.fromarray(pixels).save(sink, "PNG")  # type: ignore[attr-defined]
    return f"data:image/png;base64,{base64.b64encode(sink.getvalue()).decode('ascii')}"


def _recipe(run: PolypRun) -> StudyFigure | None:
    """Return figure 1: the boxes of all members on one frame, and what fusion makes of them."""
    if run.data.members is None or not run.data.is_drawn:
        return None
    table = run.data.cohort.models[run.main]
    matches = match(run.data.cohort, run.main, [View(score_cut=run.cuts[run.main])])
    hits = np.flatnonzero((matches.prediction_fate[0] == HIT) & (table.score >= VISIBLE))
    if not len(hits):
        return None
    # The median hit: neither the best example nor the worst.
    row = hits[np.argsort(table.score[hits], kind="stable")[len(hits) // 2]]
    image = int(table.image[row])
    n = sum(name.startswith(f"{run.main}/") for name in run.data.members.models)
    panels = (
        _frame(run, image, f"{n} members, scores from {VISIBLE:g} on", members=run.main),
        _frame(run, image, "after weighted boxes fusion"),
    )
    caption = (
        "The recipe of the winner of EndoCV 2022: two folds x light augmentation, heavy "
        "augmentation and further data; non-maximum suppression at 0.5 in every member; weighted "
        "boxes fusion at 0.5 with scores of at least 0.02; boxes above a score of 0.4 shrink by 2 "
        "%. The networks are compact detectors of Calipers, not YOLOv5. White: outlines of polyps."
    )
    return StudyFigure("figure-1", f"{n} members become one prediction", caption, panels)


def _lines(run: PolypRun, model: str) -> tuple[Line, ...]:
    x = np.array(run.thresholds)
    lines = []
    for k, (criterion, values) in enumerate(run.overlap[model].items()):
        lines.append(Line(NAMES[criterion], x, values, slot=k))
    return tuple(lines)


def _range_panel(run: PolypRun, model: str) -> Bars:
    """Return AP by box IoU over three ranges of thresholds."""
    own = run.ranges[model]
    title = f"{model}: AP {value_text(own['0.05:0.5'])} below, {value_text(own['0.5:0.95'])} above"
    return Bars(
        title,
        Axis("range of IoU thresholds", names=tuple(RANGES)),
        Axis("AP", 0.0, 1.0),
        ("box IoU",),
        np.array([[own[name] for name in RANGES]]),
    )


def _thresholds(run: PolypRun) -> StudyFigure:
    axis = Axis("IoU threshold", 0.0, 1.0)
    means = [f"{NAMES[name]} {values.mean():.2f}" for name, values in run.overlap[run.main].items()]
    panels: list[Figure] = [
        Curves(f"Means: {', '.join(means)}", axis, Axis("AP", 0.0, 1.0), _lines(run, run.main)),
        _range_panel(run, run.main),
    ]
    caption = (
        f"(a) AP of {run.main} by criterion; (b) by box IoU in three ranges of thresholds; "
        f"{_n_text(run)}. Tables 2 and 3 have intervals."
    )
    if run.people.siim is not None:
        siim = run.people.siim
        x = np.array(SIIM_THRESHOLDS)
        lines = []
        for k, (criterion, values) in enumerate(siim.curves.items()):
            lines.append(Line(NAMES[criterion], x, values, slot=k))
        title = "Real outlines: accepted boxes"
        panels.append(Curves(title, axis, Axis("share accepted", 0.0, 1.0), tuple(lines)))
        caption += (
            f" (c) Share of boxes around {siim.n_masks} outlines of pneumothorax (SIIM) that are "
            "accepted; the boxes have noise of a tenth of their sides."
        )
    low, high = run.ranges[run.main]["0.05:0.5"], run.ranges[run.main]["0.5:0.95"]
    title = f"AP is {value_text(low)} over 0.05:0.5 and {value_text(high)} over 0.5:0.95"
    return StudyFigure("figure-6", title, caption, tuple(panels), rows=(len(panels),))


def _complementary_thresholds(run: PolypRun) -> StudyFigure | None:
    if not run.others:
        return None
    panels: list[Figure] = []
    axis = Axis("IoU threshold", 0.0, 1.0)
    for model in run.others:
        title = f"{model}, by criterion"
        panels.append(Curves(title, axis, Axis("AP", 0.0, 1.0), _lines(run, model)))
        panels.append(_range_panel(run, model))
    words = []
    for model in run.others:
        own = run.ranges[model]
        words.append(f"{model} {value_text(own['0.05:0.5'])}, {value_text(own['0.5:0.95'])}")
    title = f"AP over 0.05:0.5 and over 0.5:0.95: {'; '.join(words)}"
    rows = (2,) * len(run.others)
    return StudyFigure(
        "figure-11",
        title,
        f"As figure 6, for the other models; {_n_text(run)}.",
        tuple(panels),
        rows,
    )


def _people(run: PolypRun) -> StudyFigure | None:
    """Return figure 7: which criteria accept what people find useful."""
    shares, who = accepted_useful(run)
    if not shares:
        return None
    names = [NAMES.get(name, name) for name in shares]
    words = [f"{name} 0.5" if "IoU" in name else name for name in names]
    low = high = None
    series = ["useful, accepted"]
    heights = [[shares[name] for name in shares]]
    if run.ratings is not None:
        rejected = []
        for decision in run.ratings.headlines():
            rejected.append(run.ratings.get("specificity", **decision.group).value)
        heights.append(rejected)
        series.append("not useful, rejected")
    elif run.people.lidc is not None:
        bounds = np.array([run.people.lidc.accepted[name][1:] for name in shares])
        low, high = bounds[None, :, 0], bounds[None, :, 1]
    bars = Bars(
        "Accepted by criterion",
        Axis("criterion", names=tuple(words)),
        Axis("share", 0.0, 1.0),
        tuple(series),
        np.array(heights, np.float64),
        low=low,
        high=high,
    )
    best, worst = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    title = (
        f"{NAMES.get(best, best).capitalize()} accepts {percent_text(shares[best])} of what people "
        f"found, {NAMES.get(worst, worst)} {percent_text(shares[worst])}"
    )
    caption = f"{who}."
    if run.ratings is None:
        caption += (
            " The box of one reader against the mask of another who marked the same nodule, in 3D; "
            "intervals by patient. It stands in for ratings of predictions, which are not public."
        )
    return StudyFigure("figure-7", title, caption, (bars,))


def _precision(run: PolypRun) -> StudyFigure:
    evaluation = run.centres[run.main]
    value = evaluation[run.main, "AP@0.5"].value
    panel = precision_recall(evaluation)
    title = f"AP is the area below precision over recall: {value_text(value)} at box IoU 0.5"
    return StudyFigure(
        "figure-9", title, f"Precision against recall of {run.main}; {_n_text(run)}.", (panel,)
    )


def _ranking(run: PolypRun) -> StudyFigure | None:
    if run.ranking is None:
        return None
    result = run.ranking
    share = max(result.wins.values())
    title = (
        f"{result.winner} is first in {percent_text(share)} of {len(result.each)} configurations; "
        f"Kendall's W {result.kendall_w:.2f}"
    )
    varied = [name for name in result.choices if len(GRID.get(name, ())) > 1]
    choices = ", ".join(name.replace("_", " ") for name in varied)
    caption = (
        "The paper leaves the stability of rankings to future work. Areas are shares of "
        f"configurations in which a model has a rank; the configurations combine {choices}. "
        f"{' '.join(result.sentences())}"
    )
    return StudyFigure("figure-ranking", title, caption, (ranks(result),))


def _prevalence(run: PolypRun) -> StudyFigure | None:
    if not run.prevalences:
        return None
    x = np.array(run.prevalences)
    lines = []
    for k, (name, values) in enumerate(run.prevalence_curve.items()):
        mean, spread = values.mean(axis=1), values.std(axis=1, ddof=1)
        lines.append(Line(name, x, mean, mean - spread, mean + spread, slot=k))
    ppv = run.prevalence_curve["PPV"].mean(axis=1)
    title = (
        f"From a prevalence of {x[0]:g} to {x[-1]:g}, PPV goes from {ppv[0]:.2f} to {ppv[-1]:.2f}; "
        "sensitivity does not depend on it"
    )
    caption = (
        "Left to future work by the paper. All frames without a polyp, with so many of the others "
        f"that the share of frames with a polyp is as stated; {run.main}. Bands: one standard "
        f"deviation over {run.prevalence_curve['PPV'].shape[1]} draws."
    )
    axis = Axis("share of frames with a polyp", 0.0, 1.0)
    panel = Curves("Metrics against prevalence", axis, UNIT, tuple(lines))
    return StudyFigure("figure-prevalence", title, caption, (panel,))


def _cut(run: PolypRun) -> StudyFigure:
    x = np.array(CUTS)
    lines = []
    for k, name in enumerate(COUNTING):
        lines.append(Line(name, x, run.cut_curve[name], slot=k))
    f1 = run.cut_curve["F1"]
    best = int(np.nanargmax(f1))
    title = (
        f"F1 is {f1[best]:.2f} from a score of {x[best]:g} on, and {f1[-1]:.2f} from {x[-1]:g} on"
    )
    caption = (
        f"Left to future work by the paper, which does not state its confidence cut. {run.main}, "
        f"box IoU 0.5, {_n_text(run)}; elsewhere in this study predictions count from "
        f"{run.cuts[run.main]:.3f} on. No intervals are drawn; table 3 has those at that cut."
    )
    panel = Curves(
        "Metrics against the confidence cut", Axis("score from", 0.0, 1.0), UNIT, tuple(lines)
    )
    return StudyFigure("figure-cut", title, caption, (panel,))
