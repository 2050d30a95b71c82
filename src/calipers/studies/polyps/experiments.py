# SPDX-License-Identifier: Apache-2.0
"""The experiments of the study of polyps: every number that its claims, figures and tables show.

`experiment_steps` takes `PolypData`; its steps make a `PolypRun`. They use what Calipers has:
evaluation by centre and size, sweeps over thresholds and criteria, presets of challenges, mixed
models, agreement with people, and the multiverse of configurations.

Counting metrics need a score below which predictions do not exist, which the paper does not state.
Here it is the score at which F1 (box IoU 0.5, all frames) is highest, for every model; the figure
of the confidence cut shows the alternatives.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from calipers.agreement.agreement import Agreement, agreement
from calipers.agreement.rated_predictions import criteria_of, rated_predictions
from calipers.arrays import F64, Flags
from calipers.data.cohort import Cohort
from calipers.errors import CalipersError
from calipers.evaluation.collect import with_areas
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.kernels.assignment import HIT
from calipers.matching.assign import match
from calipers.matching.matches import View
from calipers.regression.logistic import LocalizationModels, localization_models
from calipers.results.estimate import Estimate
from calipers.sensitivity.multiverse import multiverse
from calipers.sensitivity.result import Multiverse
from calipers.studies.open_choices import Scan
from calipers.studies.polyps.data import PolypData
from calipers.studies.polyps.people import PeopleNumbers, ShapeCounts
from calipers.studies.steps import StepSet, StudyStep

COUNTING = ("sensitivity", "PPV", "F1", "F2")
RANKING = ("AP@0.5", "AP@0.75", "AP@0.5:0.95")
SEVEN = (*COUNTING, *RANKING)  # the metrics of figure 2
SIZES = ("small", "medium", "large")
OVERLAPS = ("box-iou", "mask-iou", "hull-iou")
POINTS = ("point-in-box", "point-in-mask", "point-in-hull")
CRITERIA = ("box-iou", *POINTS)  # of table 3
FIVE = (*COUNTING, "AP")
RANGES = {"0.05:0.5": (0.05, 0.5), "0.5:0.95": (0.5, 0.95), "0.05:0.95": (0.05, 0.95)}
THRESHOLDS = tuple(round(0.05 * k, 2) for k in range(1, 20))
QUICK_THRESHOLDS = tuple(round(0.05 + 0.15 * k, 2) for k in range(7))
PRESETS = ("endovis2015", "giana2017", "giana2018", "giana2021", "endocv2021", "endocv2022")
ASSIGNMENTS = ("by-score", "by-overlap", "optimal")
CUTS = tuple(round(0.05 * k, 2) for k in range(1, 20))
PREVALENCES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DRAWS, QUICK_DRAWS = 10, 3
REPLICATES = {True: 200, False: 2000}  # of the bootstrap, by quick
GRID: Mapping[str, Sequence[float | str]] = {
    "metric": ("AP", "F1", "F2", "sensitivity"),
    "criterion": ("box-iou", "mask-iou", "any-overlap", "point-in-box", "point-in-mask"),
    "threshold": (0.1, 0.3, 0.5, 0.75),
    "assignment": ("by-score", "by-overlap", "optimal"),
    "average": ("pooled",),
    "interpolation": ("coco101", "every-point"),
    "classes": ("within",),
    "score_cut": ("none", 0.2, 0.4),
}
BOX_CRITERIA = ("box-iou", "any-overlap", "point-in-box")
MODEL_GROUPS = ("centre", "patient", "image")
GOOD_IOU, INFERIOR_IOU = 0.75, 0.5  # box IoU from which a prediction is good, below which inferior
FULL_HD = (1920, 1080)

HEAD = """schema = "calipers.protocol/1"
name = "polyp-study"
source = "Tran et al., IJCARS 2023"
[matching]
criterion = "box-iou"
assignment = "by-score"
thresholds = {thresholds}
max_dets = 100
ties = "coco"
[sizes]
from = "box"
{rescale}
small = [0, 10000]
medium = [10000, 40000]
large = [40000, 1e12]
[statistics]
replicates = {replicates}
"""


@dataclass(frozen=True, slots=True)
class ConfusionCounts:
    """True positives, false positives and false negatives at one threshold."""

    tp: int
    fp: int
    fn: int


@dataclass(frozen=True, slots=True)
class IouSpread:
    """How far box, mask and hull IoU of some predictions differ."""

    n: int  # predictions
    width: float  # median of the largest less the smallest
    relative: float  # median of that as a share of the mean of the three


@dataclass(frozen=True)
class PolypRun:
    """The numbers of a run; what the data cannot tell is None, with a reason in `reasons`."""

    data: PolypData
    cuts: Mapping[str, float]  # model -> score from which predictions count
    centres: Mapping[str, Evaluation]  # model -> the seven metrics, by centre
    sizes: Mapping[str, Mapping[tuple[str, str, str], Estimate]]  # model -> (metric, size, centre)
    size_counts: Mapping[tuple[str, str], int]  # (size, centre) -> references
    halves: tuple[float, float] | None  # AP@0.5 of frames with smaller and with larger polyps
    mixed: LocalizationModels | None
    overlap: Mapping[str, Mapping[str, F64]]  # model -> criterion -> AP at `thresholds`
    thresholds: tuple[float, ...]
    ranges: Mapping[str, Mapping[str, float]]  # model -> range -> AP
    criteria: Mapping[str, Mapping[tuple[str, str], Estimate]]  # model -> (criterion, metric)
    box_curve: Mapping[str, F64]  # metric of table 3 -> box IoU at `thresholds`, main model
    counts: Mapping[tuple[str, float], ConfusionCounts]  # (criterion, threshold), main model
    shapes: tuple[ShapeCounts, ShapeCounts] | None  # non-convex, and the other polyps
    below_half: tuple[int, int]  # centre in the mask and IoU below 0.5, of those in the mask
    # how far box, mask and hull IoU differ: "good" and "inferior" predictions; {} without masks
    spreads: Mapping[str, IouSpread]
    presets: Mapping[str, Evaluation]
    assignments: Mapping[tuple[str, str], Estimate]  # (assignment, metric)
    cut_curve: Mapping[str, F64]  # metric -> values at CUTS
    prevalence_curve: Mapping[str, F64]  # metric -> (prevalences, draws)
    prevalences: tuple[float, ...]
    ranking: Multiverse | None
    ratings: Agreement | None
    people: PeopleNumbers
    reasons: Mapping[str, str]
    scan: Scan | None = None  # over choices that the paper leaves open

    @property
    def main(self) -> str:
        """The model of figures 2 to 7."""
        return self.data.models[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The complementary models."""
        return self.data.models[1:]

    @property
    def centre_names(self) -> tuple[str, ...]:
        """The centres, sorted."""
        if not self.data.has("centre"):
            return ()
        return tuple(sorted(set(map(str, self.data.cohort.group("centre").tolist()))))

    def by_centre(self, model: str, metric: str) -> F64:
        """Return a metric of every centre."""
        own = self.centres[model]
        values = [own.get(metric, centre=name).value for name in self.centre_names]
        return np.array(values, np.float64)

    def by_criterion(self, model: str) -> dict[tuple[str, str], float]:
        """Return the values of table 3: (criterion, metric) -> value."""
        return {key: estimate.value for key, estimate in self.criteria[model].items()}


def protocol_of(
    metrics: Sequence[tuple[str, str, str]],
    cohort: Cohort,
    *,
    thresholds: str = "0.5",
    replicates: int = 2000,
) -> Protocol:
    """Return a protocol of metrics (name, kind, further lines)."""
    # Size cuts are meant at 1920 x 1080; images whose size is unknown keep their pixels.
    is_known = not np.isnan(cohort.images.size).any()
    rescale = f"rescale_to = [{FULL_HD[0]}, {FULL_HD[1]}]" if is_known else ""
    head = HEAD.format(thresholds=thresholds, rescale=rescale, replicates=replicates)
    blocks = [f'[[metric]]\nname = "{name}"\nkind = "{kind}"\n{own}' for name, kind, own in metrics]
    return Protocol.from_toml(head + "\n".join(blocks))


def counting_metrics(cut: float, own: str = "", suffix: str = "") -> list[tuple[str, str, str]]:
    """Return sensitivity, PPV, F1 and F2 from a score on."""
    lines = f"score_cut = {cut!r}\n{own}"
    return [
        (f"sensitivity{suffix}", "sensitivity", lines),
        (f"PPV{suffix}", "ppv", lines),
        (f"F1{suffix}", "f-beta", f"beta = 1\n{lines}"),
        (f"F2{suffix}", "f-beta", f"beta = 2\n{lines}"),
    ]


def range_text(low: float, high: float) -> str:
    """Return a range of thresholds for a protocol."""
    return f"{{ from = {low}, to = {high}, step = 0.05 }}"


def only(cohort: Cohort, model: str) -> Cohort:
    """Return a cohort with one of its models."""
    return replace(cohort, models={model: cohort.models[model]})


def best_cut(cohort: Cohort, model: str) -> float:
    """Return the score from which on F1 at a box IoU of 0.5 is highest."""
    matches = match(cohort, model, [View()])
    order = np.argsort(-matches.score, kind="stable")
    scores, hits = matches.score[order], (matches.prediction_fate[0] == HIT)[order]
    if not len(scores):
        return 0.0
    # Matching is greedy by score: the hits among the best k do not depend on the rest.
    n = np.arange(1, len(scores) + 1)
    f1 = 2.0 * np.cumsum(hits) / (n + len(cohort.references))
    # Equal scores come together or not at all.
    is_last = np.append(scores[1:] < scores[:-1], True)
    return float(scores[int(np.argmax(np.where(is_last, f1, -1.0)))])


def experiment_steps(data: PolypData, *, seed: int, quick: bool, limit: float) -> StepSet[PolypRun]:
    """Return a step per experiment and model, which make the run; ``limit`` is the share of its
    hull below which a polyp is not convex. People and scan are not part of it.
    """
    main = data.models[0]
    thresholds = QUICK_THRESHOLDS if quick else THRESHOLDS
    cuts = {model: best_cut(data.cohort, model) for model in data.models}
    # The members are for rankings alone; workers in other processes would receive them every time.
    own = replace(data, members=None)
    steps: dict[Hashable, StudyStep] = {}
    for model in data.models:
        one = (own, model)
        cut = cuts[model]
        steps["centres", model] = StudyStep("centres", _centres, (*one, cut, quick, seed), 0.2)
        steps["sizes", model] = StudyStep("sizes", _sizes, (*one, quick, seed), 0.2)
        steps["overlap", model] = StudyStep("overlap criteria", _overlap, (*one, thresholds), 0.1)
        steps["ranges", model] = StudyStep("ranges", _ranges, one, 0.01)
        steps["criteria", model] = StudyStep(
            "point criteria", _criteria, (*one, cut, quick, seed), 0.15
        )
    one, cut = (own, main), cuts[main]
    steps["box curve"] = StudyStep("point criteria", _box_curve, (*one, cut, thresholds), 0.05)
    steps["mixed"] = StudyStep("mixed model", _mixed, one, 1.5)
    if data.has_masks:
        steps["shapes"] = StudyStep("shapes", _shapes, (*one, cut, limit), 0.01)
        steps["spreads"] = StudyStep("shapes", _spreads, (*one, cut), 0.01)
    for name in PRESETS:
        steps["preset", name] = StudyStep("presets", _preset, (own, name), 0.03)
    steps["assignments"] = StudyStep("assignments", _assignments, (*one, cut, quick, seed), 0.1)
    steps["cut curve"] = StudyStep("confidence cut", _cut_curve, one, 0.05)
    steps["prevalence"] = StudyStep("prevalence", _prevalence, (*one, cut, quick, seed), 0.2)
    steps["ranking"] = StudyStep("rankings", _ranking, (data, quick), 3.2)
    if data.ratings is not None:
        steps["ratings"] = StudyStep("ratings", _ratings, (*one, seed))

    def compose(results: Mapping[Any, Any]) -> PolypRun:
        def by_model(name: str) -> dict[str, Any]:
            return {model: results[name, model] for model in data.models}

        mixed, reason = results["mixed"]
        reasons = {"mixed": reason} if reason else {}
        presets = {}
        for name in PRESETS:
            evaluation, reason = results["preset", name]
            if evaluation is None:
                reasons[name] = reason
            else:
                presets[name] = evaluation
        prevalences, curve = results["prevalence"]
        overlap = by_model("overlap")
        return PolypRun(
            data=data,
            cuts=cuts,
            centres=by_model("centres"),
            sizes=by_model("sizes"),
            size_counts=_size_counts(data),
            halves=_halves(data, main),
            mixed=mixed,
            overlap=overlap,
            thresholds=thresholds,
            ranges=by_model("ranges"),
            criteria=by_model("criteria"),
            box_curve={"AP": overlap[main]["box-iou"], **results["box curve"]},
            counts=overlap_counts(data, main, cuts[main]),
            shapes=results.get("shapes"),
            below_half=_below_half(data, main, cuts[main]),
            spreads=results.get("spreads", {}),
            presets=presets,
            assignments=results["assignments"],
            cut_curve=results["cut curve"],
            prevalence_curve=curve,
            prevalences=prevalences,
            ranking=results["ranking"],
            ratings=results.get("ratings"),
            people=PeopleNumbers(),
            reasons=reasons,
        )

    return StepSet.of(steps, compose)


def _centres(data: PolypData, model: str, cut: float, quick: bool, seed: int) -> Evaluation:
    """Return the seven metrics of figure 2, for all frames and by centre."""
    own = counting_metrics(cut)
    own += [
        ("AP@0.5", "average-precision", "thresholds = 0.5"),
        ("AP@0.75", "average-precision", "thresholds = 0.75"),
        ("AP@0.5:0.95", "average-precision", f"thresholds = {range_text(0.5, 0.95)}"),
    ]
    cohort = only(data.cohort, model)
    protocol = protocol_of(own, cohort, replicates=REPLICATES[quick])
    by = ["centre"] if data.has("centre") else []
    return evaluate(cohort, protocol, by=by, seed=seed)


def _sizes(
    data: PolypData, model: str, quick: bool, seed: int
) -> dict[tuple[str, str, str], Estimate]:
    """Return AP by size and centre: (metric, size, centre), with centre "" for all frames."""
    own = []
    for size in SIZES:
        lines = f'size = "{size}"'
        own.append((f"AP-{size}@0.5", "average-precision", f"thresholds = 0.5\n{lines}"))
        span = f"thresholds = {range_text(0.5, 0.95)}\n{lines}"
        own.append((f"AP-{size}@0.5:0.95", "average-precision", span))
    cohort = only(data.cohort, model)
    by = ["centre"] if data.has("centre") else []
    protocol = protocol_of(own, cohort, replicates=REPLICATES[quick])
    result = evaluate(cohort, protocol, by=by, seed=seed)
    values = {}
    for row in result.rows:
        if row.label is not None:
            continue
        size, threshold = row.metric.removeprefix("AP-").split("@")
        centre = str(dict(row.group or {}).get("centre", ""))
        values[f"AP@{threshold}", size, centre] = row.estimate
    return values


def _size_counts(data: PolypData) -> dict[tuple[str, str], int]:
    """Return the number of references by size and centre, with centre "" for all."""
    areas = sized_areas(data.cohort)
    codes = np.searchsorted((100.0**2, 200.0**2), areas)
    image = data.cohort.references.image
    centre = np.full(len(areas), "", object)
    if data.has("centre"):
        centre = data.cohort.group("centre").astype(object)[image]
    counts: dict[tuple[str, str], int] = {}
    for k, size in enumerate(SIZES):
        counts[size, ""] = int((codes == k).sum())
        for name in sorted(set(centre.tolist())):
            counts[size, str(name)] = int(((codes == k) & (centre == name)).sum())
    return counts


def sized_areas(cohort: Cohort) -> F64:
    """Return the areas of reference boxes at 1920 x 1080."""
    plan = protocol_of([("AP", "average-precision", "")], cohort)
    return with_areas(cohort, plan).references.area


def _halves(data: PolypData, model: str) -> tuple[float, float] | None:
    """Return AP@0.5 of the frames whose largest polyp is below the median, and of the others."""
    cohort = only(data.cohort, model)
    areas = sized_areas(cohort)
    largest = np.zeros(cohort.n_images)
    np.maximum.at(largest, cohort.references.image, areas)
    with_polyp = np.flatnonzero(largest > 0)
    if len(with_polyp) < 4:
        return None
    median = float(np.median(largest[with_polyp]))
    plan = protocol_of([("AP@0.5", "average-precision", "")], cohort)
    values = []
    for rows in (
        with_polyp[largest[with_polyp] < median],
        with_polyp[largest[with_polyp] >= median],
    ):
        values.append(evaluate(cohort.take(rows), plan, ci=False)[model, "AP@0.5"].value)
    return values[0], values[1]


def _mixed(data: PolypData, model: str) -> tuple[LocalizationModels | None, str]:
    """Return the mixed models of IoU (best overlap, overlap of hits, probability of a hit), or why
    there are none.
    """
    plan = protocol_of([("AP", "average-precision", "")], data.cohort)
    cohort = with_areas(data.cohort, plan)
    formula = "iou ~ size + type" if _types(data) > 1 else "iou ~ size"
    groups = [name for name in MODEL_GROUPS if name == "image" or data.has(name)]
    try:
        models = localization_models(cohort, model, formula, groups)
    except CalipersError as error:
        return None, str(error)
    # Tables ask for these, which take longer than the fits; a worker keeps them in its answer.
    for fit in (models.best, models.matched):
        if fit is not None:
            _ = fit.components
    return models, ""


def _types(data: PolypData) -> int:
    """Return how many types the polyps have."""
    references = data.cohort.references
    if "type" in references.facts:
        return len(set(references.facts["type"].tolist()))
    if not data.has("type"):
        return 0
    return len(set(data.cohort.group("type")[references.image].tolist()))


def overlap_criteria(data: PolypData) -> tuple[str, ...]:
    """Return the overlap criteria that the shapes of the references allow."""
    return OVERLAPS if data.has_masks else OVERLAPS[:1]


def _overlap(data: PolypData, model: str, thresholds: Sequence[float]) -> dict[str, F64]:
    """Return AP by criterion at every threshold."""
    own = []
    for criterion in overlap_criteria(data):
        for threshold in thresholds:
            lines = f'criterion = "{criterion}"\nthresholds = {threshold}'
            own.append((f"AP@{criterion}:{threshold}", "average-precision", lines))
    cohort = only(data.cohort, model)
    result = evaluate(cohort, protocol_of(own, cohort), ci=False)
    values = {}
    for criterion in overlap_criteria(data):
        row = [result[model, f"AP@{criterion}:{threshold}"].value for threshold in thresholds]
        values[criterion] = np.array(row, np.float64)
    return values


def _ranges(data: PolypData, model: str) -> dict[str, float]:
    """Return AP by box IoU over three ranges of thresholds."""
    own = []
    for name, (low, high) in RANGES.items():
        lines = f"thresholds = {range_text(low, high)}"
        own.append((f"AP@{name}", "average-precision", lines))
    cohort = only(data.cohort, model)
    result = evaluate(cohort, protocol_of(own, cohort), ci=False)
    return {name: result[model, f"AP@{name}"].value for name in RANGES}


def point_criteria(data: PolypData) -> tuple[str, ...]:
    """Return the criteria of table 3 that the shapes of the references allow."""
    return CRITERIA if data.has_masks else CRITERIA[:2]


def _criterion_metrics(data: PolypData, cut: float) -> list[tuple[str, str, str]]:
    """Return the metrics of table 3: five by criterion."""
    own = []
    for criterion in point_criteria(data):
        lines = f'criterion = "{criterion}"'
        own += counting_metrics(cut, lines, f"@{criterion}")
        own.append((f"AP@{criterion}", "average-precision", lines))
    return own


def _criteria(
    data: PolypData, model: str, cut: float, quick: bool, seed: int
) -> dict[tuple[str, str], Estimate]:
    """Return table 3 with intervals, pooled over all frames."""
    cohort = only(data.cohort, model)
    protocol = protocol_of(_criterion_metrics(data, cut), cohort, replicates=REPLICATES[quick])
    result = evaluate(cohort, protocol, seed=seed)
    values = {}
    for criterion, metric in product(point_criteria(data), FIVE):
        values[criterion, metric] = result[model, f"{metric}@{criterion}"]
    return values


def _box_curve(
    data: PolypData, model: str, cut: float, thresholds: Sequence[float]
) -> dict[str, F64]:
    """Return the metrics of table 3 by box IoU at every threshold, but for AP."""
    own = []
    for threshold in thresholds:
        own += counting_metrics(cut, f"thresholds = {threshold}", f"@{threshold}")
    cohort = only(data.cohort, model)
    result = evaluate(cohort, protocol_of(own, cohort), ci=False)
    curves = {}
    for metric in COUNTING:
        row = [result[model, f"{metric}@{threshold}"].value for threshold in thresholds]
        curves[metric] = np.array(row, np.float64)
    return curves


def criterion_values(
    data: PolypData, model: str, cut: float, *, by_centre: bool = False
) -> dict[tuple[str, str], float]:
    """Return table 3 without intervals: five metrics by criterion, pooled or means over centres."""
    cohort = only(data.cohort, model)
    by = ["centre"] if by_centre else []
    own = _criterion_metrics(data, cut)
    result = evaluate(cohort, protocol_of(own, cohort), by=by, ci=False)
    centres = sorted(set(map(str, data.cohort.group("centre").tolist()))) if by_centre else []
    values = {}
    for criterion in point_criteria(data):
        for metric in FIVE:
            name = f"{metric}@{criterion}"
            if by_centre:
                each = [result.get(name, model=model, centre=one).value for one in centres]
                values[criterion, metric] = float(np.mean(each))
            else:
                values[criterion, metric] = result[model, name].value
    return values


def overlap_counts(
    data: PolypData, model: str, cut: float
) -> dict[tuple[str, float], ConfusionCounts]:
    """Return the counts of figure 5, for box, mask and hull IoU at 0.5 and 0.75."""
    counts = {}
    for criterion in overlap_criteria(data):
        views = [View(criterion=criterion, threshold=t, score_cut=cut) for t in (0.5, 0.75)]
        matches = match(data.cohort, model, views)
        n = int((matches.score >= cut).sum())
        for k, view in enumerate(views):
            tp = int((matches.reference_fate[k] == HIT).sum())
            fn = len(data.cohort.references) - tp
            counts[criterion, view.threshold] = ConfusionCounts(tp, n - tp, fn)
    return counts


def convexity(cohort: Cohort) -> F64:
    """Return how much of its convex hull every reference fills."""
    masks = cohort.references.masks
    assert masks is not None
    return np.asarray(masks.voxels / masks.hulls().voxels)


def cut_predictions(cohort: Cohort, model: str, cut: float) -> Cohort:
    """Return the cohort with the predictions of one model from a score on."""
    table = cohort.models[model]
    return replace(cohort, models={model: table.keep(table.score >= cut)})


def centre_hits(cohort: Cohort, model: str, criterion: str) -> Flags:
    """Return which references contain the centre of a prediction."""
    matches = match(cohort, model, [View(criterion=criterion)])
    return np.asarray(matches.reference_fate[0] == HIT)


def _shapes(
    data: PolypData, model: str, cut: float, limit: float
) -> tuple[ShapeCounts, ShapeCounts]:
    """Return how many polyps lose their prediction if its centre has to lie in the mask."""
    cohort = cut_predictions(data.cohort, model, cut)
    hull, mask = (centre_hits(cohort, model, f"point-in-{kind}") for kind in ("hull", "mask"))
    is_odd = convexity(cohort) < limit
    result = []
    for group in (is_odd, ~is_odd):
        rows = group & hull
        result.append(ShapeCounts(int(rows.sum()), int((rows & ~mask).sum())))
    return result[0], result[1]


def _below_half(data: PolypData, model: str, cut: float) -> tuple[int, int]:
    cohort = cut_predictions(data.cohort, model, cut)
    point = "point-in-mask" if data.has_masks else "point-in-box"
    values = criteria_of(cohort, model, (point, "box-iou"))
    inside = values[point] > 0
    return int((inside & (values["box-iou"] < 0.5)).sum()), int(inside.sum())


def _spreads(data: PolypData, model: str, cut: float) -> dict[str, IouSpread]:
    """Return how far the three IoUs of good and of inferior predictions differ."""
    values = criteria_of(cut_predictions(data.cohort, model, cut), model, (*OVERLAPS, POINTS[0]))
    inside = values[POINTS[0]] > 0
    three = np.stack([values[criterion][inside] for criterion in OVERLAPS])
    width = np.ptp(three, axis=0)
    relative = width / three.mean(axis=0)
    groups = {"good": three[0] >= GOOD_IOU, "inferior": three[0] < INFERIOR_IOU}
    spreads = {}
    for name, rows in groups.items():
        medians = float("nan"), float("nan")
        if rows.any():
            medians = float(np.median(width[rows])), float(np.median(relative[rows]))
        spreads[name] = IouSpread(int(rows.sum()), *medians)
    return spreads


def _preset(data: PolypData, name: str) -> tuple[Evaluation | None, str]:
    """Return the metrics of a challenge of table 1, or why they cannot be computed."""
    try:
        return evaluate(data.cohort, name, ci=False), ""
    except CalipersError as error:
        return None, str(error)


def _assignments(
    data: PolypData, model: str, cut: float, quick: bool, seed: int
) -> dict[tuple[str, str], Estimate]:
    """Return metrics at box IoU 0.5 under three ways of assignment."""
    cohort = only(data.cohort, model)
    values = {}
    for assignment in ASSIGNMENTS:
        own = counting_metrics(cut, f'assignment = "{assignment}"')
        protocol = protocol_of(own, cohort, replicates=REPLICATES[quick])
        result = evaluate(cohort, protocol, seed=seed)
        for metric in COUNTING:
            values[assignment, metric] = result[model, metric]
    return values


def _cut_curve(data: PolypData, model: str) -> dict[str, F64]:
    """Return the counting metrics at every score cut."""
    own = []
    for cut in CUTS:
        own += counting_metrics(cut, suffix=f"#{cut}")
    cohort = only(data.cohort, model)
    result = evaluate(cohort, protocol_of(own, cohort), ci=False)
    curves = {}
    for metric in COUNTING:
        row = [result[model, f"{metric}#{cut}"].value for cut in CUTS]
        curves[metric] = np.array(row, np.float64)
    return curves


def _prevalence(
    data: PolypData, model: str, cut: float, quick: bool, seed: int
) -> tuple[tuple[float, ...], dict[str, F64]]:
    """Return metrics at several prevalences: all frames without a polyp, and some of the others."""
    cohort = only(data.cohort, model)
    has_polyp = np.diff(cohort.references.offsets) > 0
    empty, full = np.flatnonzero(~has_polyp), np.flatnonzero(has_polyp)
    own = [*counting_metrics(cut), ("AP@0.5", "average-precision", "")]
    names = [name for name, _, _ in own]
    prevalences = [p for p in PREVALENCES if 1 <= len(empty) * p / (1 - p) <= len(full)]
    if not len(empty) or not prevalences:
        return (), {}
    n_draws = QUICK_DRAWS if quick else DRAWS
    values = {name: np.zeros((len(prevalences), n_draws)) for name in names}
    plan = protocol_of(own, cohort)
    random = np.random.default_rng(seed)
    for draw in range(n_draws):
        # One order per draw, so that a curve does not jump from point to point.
        order = random.permutation(full)
        for k, prevalence in enumerate(prevalences):
            n = round(len(empty) * prevalence / (1 - prevalence))
            rows = np.sort(np.concatenate([empty, order[:n]]))
            result = evaluate(cohort.take(rows), plan, ci=False)
            for name in names:
                values[name][k, draw] = result[model, name].value
    return tuple(prevalences), values


def _ranking(data: PolypData, quick: bool) -> Multiverse | None:
    """Return the order of all models under every configuration: ensembles, and single networks."""
    cohort = data.cohort
    if data.members is not None and not quick:
        models = {**data.cohort.models, **data.members.models}
        own = [name for name in models if name.split("/")[0] == data.models[0]]
        models = {name: models[name] for name in (*data.models, *own)}
        cohort = replace(cohort, models=models)
    if len(cohort.models) < 2:
        return None
    grid = dict(GRID)
    if not data.has_masks:
        grid["criterion"] = BOX_CRITERIA
    return multiverse(cohort, grid)


def _ratings(data: PolypData, model: str, seed: int) -> Agreement:
    """Return the agreement of all criteria with the user's ratings."""
    table = rated_predictions(data.cohort, data.ratings, model=model)
    return agreement(table, thresholds=[0.5], seed=seed)
