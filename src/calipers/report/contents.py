# SPDX-License-Identifier: Apache-2.0
"""What the page of an evaluation shows and has to compute: its figures, and the worst objects.

`report.context` asks for all of it, once, before the page is written. The sections find a figure by
its id in the page (`Context.blocks`) and show nothing where there is none, so it is decided here
and nowhere else whether a figure makes sense for an evaluation. Bands of curves, matches at other
thresholds and places of objects are computed on the way; rendering computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arrays import F64
from calipers.errors import UsageError
from calipers.evaluation.figures import blob, differences
from calipers.evaluation.figures_errors import SHARES
from calipers.evaluation.figures_maps import Softness, level_rows, sizes_of, softness
from calipers.evaluation.result import Evaluation
from calipers.kernels import assignment
from calipers.matching.matches import FATES
from calipers.pictures.overlays import widest_slice
from calipers.results.comparison import Comparison, GroupedRows, Ranking
from calipers.show.figures import Figure
from calipers.show.table import Cell, Table

MOST_LINES = 5  # curves that can still be told apart
MOST_MODELS = 3  # with figures of their errors, and with a list of their worst objects
MOST_BOXES = 60  # of a figure
MOST_DOTS = 200  # more groups times boxes would fill the page, and nobody can tell them apart
MOST_FIGURES = 4  # of classes, and of every grouping
MOST_SIDE_BY_SIDE = 4  # models in the figure of the headline; more get a row of a table each
FEW_CLASSES = 20  # up to which every headline metric has a figure per class
FEW_GROUPS = 12  # more than these get one figure only
MOST_DIFFERENCES = 18  # rows of the forest of differences, which stays legible on one screen
MOST_OBJECTS = 10  # of each model
MOST_PAIRED = 4  # models of which all pairs are shown; of more, those of the leader are

Named = Iterator[tuple[str, Figure]]  # id in the page, figure


def figures_of(
    evaluation: Evaluation,
    comparison: Comparison | None,
    ranking: Ranking | None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Figure]:
    """Return the figures of the page by their ids; those that would be empty are left out.

    ``progress`` is called with (kinds of figures done, kinds in all).
    """
    kinds = (
        _headline(evaluation),
        _maps(evaluation),
        _curves(evaluation),
        _parts(evaluation),
        _classes(evaluation),
        _groups(evaluation),
        _errors(evaluation),
        _choices(evaluation),
        _comparison(evaluation, pairs_shown(evaluation, comparison), ranking),
    )
    figures: dict[str, Figure] = {}
    for n_done, figures_of_kind in enumerate(kinds, start=1):
        figures.update(figures_of_kind)
        if progress is not None:
            progress(n_done, len(kinds))
    return figures


def pairs_shown(ev: Evaluation, comparison: Comparison | None) -> Comparison | None:
    """Return all pairs of few models; of many, those of the leader."""
    if comparison is None or len(ev.models) <= MOST_PAIRED:
        return comparison
    return comparison.of_model(ev.models_by_value[0])


def _headline(ev: Evaluation) -> Named:
    if len(ev.models) > MOST_SIDE_BY_SIDE:
        return
    figure = ev.figure("headline")
    # An empty figure beside the table would look like a failure of the page.
    marks = [mark for row in figure.rows for mark in row.marks]  # type: ignore[attr-defined]
    if not all(math.isnan(mark.value) for mark in marks):
        yield "fig-headline", figure


def _maps(ev: Evaluation) -> Named:
    """Yield the curves of all voxels, the levels, and the soft IoU by size."""
    if not ev.cohort.maps:
        return
    names = []
    if len(ev.cohort.references):
        names += ["voxel-roc", "voxel-pr"]
        if level_rows(ev):
            names.append("levels")
    soft = softness(ev)
    if soft is not None and len(soft.size):
        names.append("soft-sizes")
    models = ev.leading(MOST_LINES)
    for name in names:
        yield f"fig-{name}", ev.figure(name, models=models)


def _curves(ev: Evaluation) -> Named:
    """Yield the curves of the leading models; they need scores and references."""
    if ev.at_one_alarm is None or not len(ev.cohort.references):
        return
    models = ev.leading(MOST_LINES)
    for name in ("froc", "pr"):
        yield f"fig-{name}", ev.figure(name, models=models)


def _parts(ev: Evaluation) -> Named:
    """Yield the parts of RoDeO beside average precision."""
    if any(plan.kind == "rodeo" for plan in ev.protocol.metrics) and len(ev.cohort.references):
        yield "fig-rodeo", ev.figure("rodeo", models=ev.leading(MOST_LINES))


def _classes(ev: Evaluation) -> Named:
    for k, name in enumerate(metrics_by_class(ev)):
        yield f"fig-classes-{k}", ev.figure("classes", metric=name)


def metrics_by_class(ev: Evaluation) -> list[str]:
    """Return the headline metrics that the page shows per class; none of a single class."""
    if len(ev.cohort.classes) < 2:
        return []
    names = []
    for name in ev.headline:
        if name in ev.metrics_per_class and _has_class_values(ev, name):
            names.append(name)
    few_rows = len(ev.models) <= MOST_FIGURES and len(ev.cohort.classes) <= FEW_CLASSES
    return _one_of_a_kind(ev, names)[: MOST_FIGURES if few_rows else 1]


def _has_class_values(ev: Evaluation, metric: str) -> bool:
    """Return whether a metric has any value per class."""
    for row in ev.rows:
        if row.metric == metric and row.label is not None and not math.isnan(row.estimate.value):
            return True
    return False


def _groups(ev: Evaluation) -> Named:
    for g, grouping in enumerate(ev.groupings):
        names = metrics_by_group(ev, grouping)
        if not names:
            continue
        n_groups = len(grouping.table(names[0], None, ev.models))
        n_figures = MOST_FIGURES if n_groups <= FEW_GROUPS else 1
        for k, name in enumerate(_one_of_a_kind(ev, names)[:n_figures]):
            yield f"fig-groups-{g}-{k}", ev.figure("groups", by=grouping.by, metric=name)
        if _has_box(ev, grouping, names):
            yield f"fig-groups-{g}-box", ev.figure("groups-box", by=grouping.by)


def _has_box(ev: Evaluation, grouping: GroupedRows, names: Sequence[str]) -> bool:
    """Return whether there is a box to draw: of several groups of images, and few enough boxes."""
    over = grouping.first_column
    if over is None:
        return False
    summary = ev.summary(over, by=grouping.by)
    boxes = [average for average in summary.averages if average.metric in names]
    n_groups = len(summary.groups)
    fits = len(boxes) <= MOST_BOXES and len(boxes) * n_groups <= MOST_DOTS
    return n_groups > 2 and fits and _any_share(ev, names)


def _any_share(ev: Evaluation, names: Sequence[str]) -> bool:
    for metric in ev.protocol.compile():
        for name in metric.facts.names:
            if name in names and metric.facts.bounds == (0.0, 1.0):
                return True
    return False


def metrics_by_group(ev: Evaluation, grouping: GroupedRows) -> list[str]:
    """Return the headline metrics that have pooled values per group."""
    pooled = {row.metric for row in grouping.rows if row.label is None}
    return [name for name in ev.headline if name in pooled]


def _one_of_a_kind(ev: Evaluation, names: Sequence[str]) -> list[str]:
    """Return the first metric of every kind: RoDeO without its parts."""
    kinds = {plan.name: plan.kind for plan in ev.protocol.metrics}
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(kinds[name], name)
    return list(first.values())


def has_objects(ev: Evaluation) -> bool:
    """Return whether there is any reference or prediction."""
    return bool(len(ev.cohort.references)) or any(map(len, ev.cohort.models.values()))


def _errors(ev: Evaluation) -> Named:
    """Yield the cost of every kind of mistake, fates, overlaps of hits and scores."""
    if not has_objects(ev):
        return
    models = ev.leading(MOST_MODELS)
    for name in ("error-gains", "error-counts"):
        try:
            yield f"fig-{name}", ev.figure(name, models=models)
        except UsageError:  # the protocol states only gains, only counts, or neither
            continue
    yield "fig-fates", ev.figure("fates", models=models)
    # Distances have no common scale from 0 to 1, so they have no such figure.
    if ev.protocol.matching.criterion in SHARES:
        yield "fig-overlaps", ev.figure("overlaps", models=models)
    for k, model in enumerate(models):
        predictions = ev.cohort.models[model]
        if predictions.scored and len(predictions):
            yield f"fig-scores-{k}", ev.figure("scores", model=model)


def _choices(ev: Evaluation) -> Named:
    """Yield the average precision against the threshold, if it can vary."""
    can_vary = ev.at_one_alarm is not None and ev.protocol.matching.criterion in SHARES
    if can_vary and len(ev.cohort.references):
        yield "fig-thresholds", ev.figure("thresholds", models=ev.leading(MOST_LINES))


def _comparison(ev: Evaluation, comparison: Comparison | None, ranking: Ranking | None) -> Named:
    # A comparison in which everything is undefined would be a figure without a mark.
    if comparison is None or all(math.isnan(row.estimate.value) for row in comparison.rows):
        return
    yield "fig-differences", differences(comparison, most=MOST_DIFFERENCES)
    if ranking is not None:
        ranks = blob(ranking, ev.models)
        if ranks is not None:
            yield "fig-ranking", ranks


@dataclass(frozen=True, slots=True)
class _ReferenceOutcomes:
    """What became of the references under one model."""

    fate: NDArray[np.int8]
    # largest similarity to any prediction; None if the criterion is a distance, or yes or no
    best: F64 | None
    soft: F64 | None  # soft IoU


def worst_objects(ev: Evaluation) -> Table | None:
    """Return the references that the leading models localise worst, so that a reader can look at
    them; None unless references have masks.
    """
    if ev.cohort.references.masks is None or not len(ev.cohort.references):
        return None
    soft, (size, unit) = softness(ev), sizes_of(ev.cohort)
    rows: list[tuple[Cell, ...]] = []
    for model in ev.leading(MOST_MODELS):
        rows += _worst_of_model(ev, model, soft, size)
    return Table(
        _columns(ev, soft, unit),
        tuple(rows),
        title="References localised worst",
        name="table-objects",
    )


def _columns(ev: Evaluation, soft: Softness | None, unit: str) -> tuple[str, ...]:
    columns = ["model", "image"]
    columns += ["slice z"] if ev.cohort.dimensions == 3 else ["centre x", "centre y"]
    columns += ["fate", f"size ({unit})"]
    if soft is not None:
        columns.append(soft.metric)
    if _graded(ev):
        columns.append(f"best {ev.protocol.matching.criterion}")
    return (*columns, "object")


def _graded(ev: Evaluation) -> bool:
    """Return whether the criterion is a similarity, of which the largest is the best."""
    criterion = registry.resolve("criterion", ev.protocol.matching.criterion)
    return not criterion.distance and not criterion.yes_no


def _worst_of_model(
    ev: Evaluation, model: str, soft: Softness | None, size: F64
) -> list[tuple[Cell, ...]]:
    """Return the worst references of one model; the objects of an image are numbered from 1."""
    references = ev.cohort.references
    outcome = _reference_outcomes(ev, model, soft)
    rows: list[tuple[Cell, ...]] = []
    for k in _order(outcome, size)[:MOST_OBJECTS].tolist():
        image = int(references.image[k])
        row: list[Cell] = [model, ev.cohort.images.ids[image], *_place(ev, k)]
        row += [FATES[int(outcome.fate[k])], float(size[k])]
        if outcome.soft is not None:
            row.append(float(outcome.soft[k]))
        if outcome.best is not None:
            row.append(float(outcome.best[k]))
        # Objects are stored image by image; within its image the first one is number 1.
        rows.append((*row, k - int(references.offsets[image]) + 1))
    return rows


def _reference_outcomes(ev: Evaluation, model: str, soft: Softness | None) -> _ReferenceOutcomes:
    matches = ev.matches(model)
    best = None
    if _graded(ev):
        best = np.zeros(len(ev.cohort.references))
        # Pairs are all that overlap, not only the assigned ones: the best of a missed reference
        # too.
        np.maximum.at(best, matches.pairs.reference, matches.pairs.similarity)
    soft_iou = None if soft is None else soft.of_model[model]
    return _ReferenceOutcomes(matches.reference_fate[0], best, soft_iou)


def _order(outcome: _ReferenceOutcomes, size: F64) -> NDArray[np.int64]:
    """Return the counted references: missed ones by size, then the others by how badly they are
    localised.
    """
    missed = outcome.fate == assignment.MISSED
    good = outcome.soft if outcome.soft is not None else outcome.best
    # One key for two orders: missed references largest first, the others worst first.
    rank = np.where(missed, -size, np.zeros(len(size)) if good is None else good)
    # lexsort sorts by its last key first.
    order = np.lexsort((rank, ~missed))
    return np.asarray(order[outcome.fate[order] != assignment.IGNORED])


def _place(ev: Evaluation, k: int) -> tuple[Cell, ...]:
    """Return where to look: the slice with most voxels, or the centre of a picture's object."""
    masks = ev.cohort.references.masks
    assert masks is not None
    if ev.cohort.dimensions == 3:
        return (widest_slice(masks, k),)
    return tuple(round(float(v), 1) for v in masks[k : k + 1].centroids()[0])
