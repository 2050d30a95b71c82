# SPDX-License-Identifier: Apache-2.0
"""The sections of the page on pictures, maps and single objects.

`report.sections` lists them. Each takes the `Context` of the page and returns HTML, or "" if it has
nothing to show:

- `images_section`: the album of failures (worst, random and disputed images), with the marks of
  references and predictions;
- `maps_section`: curves of all voxels, levels and sizes, and the data behind the voxel metrics;
- `section`: the objects that were localised worst, one by one, so that a reader can look at them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arrays import F64
from calipers.evaluation.figures import hit_rule
from calipers.evaluation.figures_maps import (
    LEVELS,
    Softness,
    level_rows,
    measures,
    sizes_of,
    softness,
)
from calipers.evaluation.result import Evaluation
from calipers.evaluation.warnings import bounds_of, number_of_slices
from calipers.kernels import assignment
from calipers.matching.matches import FATES
from calipers.metrics.maps import MapSettings
from calipers.pictures.album import _overlays, album_html
from calipers.pictures.overlays import widest_slice
from calipers.report.context import Context
from calipers.show.html import details, figure_block, items, paragraph, table_block
from calipers.show.table import Cell, Table
from calipers.show.words import count_text, level_text

MOST_LINES = 5
MOST_MODELS = 3
MOST_OBJECTS = 10  # of each model
CONNECTED = {
    "full": "neighbours across faces, edges and corners",
    "edges": "neighbours across faces and edges",
    "faces": "neighbours across faces",
}
WHY_LEVELS = (
    "Levels answer different questions. All voxels together: one ranking, in which large "
    "references count most and scores must mean the same in every sample. Means of samples or "
    "slices: each counts the same, whatever its size; those without references have no value."
)
BEHIND = (
    "Number of samples or slices with a value, and of those without one because they have no "
    "references"
)
BOUNDS = (
    "Counted in bins, because all voxels together did not fit into memory: bounds of the exact "
    "values"
)


def images_section(page: Context) -> str:
    """Return the album: what the marks mean, switches for them, and the pictures of every group."""
    album = page.album
    if album is None or not (album.pictures or any(o.marks for o in _overlays(album))):
        return ""
    return album_html(album, volumes=page.evaluation.cohort.dimensions == 3)


def maps_section(page: Context) -> str:
    """Return the curves of all voxels and the data behind them; nothing without maps."""
    ev = page.evaluation
    if not ev.cohort.maps:
        return ""
    models = ev.leading(MOST_LINES)
    names = _figure_names(ev)
    blocks = "".join(figure_block(ev.figure(name, models=models), f"fig-{name}") for name in names)
    n_omitted = len(ev.models) - len(models)
    note = ""
    if n_omitted:
        note = f"The {len(models)} leading models; {n_omitted} more are in the tables."
    behind = table_block(_behind(ev))
    pair = f'<div class="pair">{blocks}</div>' if blocks else ""
    levels = paragraph(WHY_LEVELS) if "levels" in names else ""
    parts = [
        paragraph(note, "note"),
        pair,
        levels,
        items(_rules(ev)),
        details("Data behind the voxel metrics", behind),
    ]
    bounds = _bounds(ev)
    if bounds.rows:
        parts.append(table_block(bounds))
    return "\n".join(part for part in parts if part)


def _figure_names(ev: Evaluation) -> list[str]:
    names = []
    if len(ev.cohort.references):
        names += ["voxel-roc", "voxel-pr"]
        if level_rows(ev):
            names.append("levels")
    soft = softness(ev)
    if soft is not None and len(soft.size):
        names.append("soft-sizes")
    return names


def _rules(ev: Evaluation) -> list[str]:
    """Return how maps became objects, slices and batches, in words."""
    settings = ev.protocol.maps or MapSettings()
    levels = {measure.level for _, measure in measures(ev)}
    sentences = [
        f"Objects are connected voxels ({CONNECTED[settings.connectivity]}) {_threshold(settings)}."
    ]
    if settings.least > 1:
        sentences.append(f"Predicted objects of fewer than {settings.least} voxels are left out.")
    score = "largest" if settings.score == "max" else "mean"
    sentences.append(f"The score of a predicted object is the {score} score of its voxels.")
    if "slice" in levels and ev.cohort.dimensions == 3:
        sentences.append(f"Slices lie across the {settings.slices} axis.")
    if "batch" in levels:
        sentences.append(f"A batch has {settings.batch} samples, in the order of the input.")
    return sentences


def _threshold(settings: MapSettings) -> str:
    """Return where objects begin; a threshold chosen on the maps is listed with the inputs of every
    model.
    """
    if not isinstance(settings.threshold, str):
        return f"with a score of at least {settings.threshold:g}"
    where = f" on {settings.tuning}, which is left out here" if settings.tuning else ""
    rule = "of the best Dice"
    if settings.rate is not None:
        rule = f"at which {level_text(settings.rate)} of the voxels outside references are called"
    return f"above the score {rule}{where}; the threshold of every model is under Data"


def _behind(ev: Evaluation) -> Table:
    """Return a row per metric: what it is averaged over, and how much has no value."""
    maps = next(iter(ev.cohort.maps.values()))  # the references are the same for all models
    rows: list[tuple[Cell, ...]] = []
    for name, measure in measures(ev):
        total = _total(ev, measure.level)
        number = without = None
        if total is not None:
            number = round(maps.sums[measure.key][:, 1].sum())
            without = total - number
        rows.append((name, LEVELS[measure.level], number, without))
    columns = ("metric", "taken over", "values", "without a value")
    return Table(columns, tuple(rows), title=BEHIND, name="table-maps")


def _bounds(ev: Evaluation) -> Table:
    """Return the bounds of the values that were counted in bins."""
    rows: list[tuple[Cell, ...]] = []
    for model, maps in ev.cohort.maps.items():
        bounds = bounds_of(maps)
        for name, measure in measures(ev):
            if measure.pooled and measure.quantity in bounds:
                ends = map(_finite_or_none, bounds[measure.quantity])
                rows.append((name, model, _finite_or_none(ev.get(name, model=model).value), *ends))
    columns = ("metric", "model", "value", "lowest possible", "highest possible")
    return Table(columns, tuple(rows), title=BOUNDS, name="table-bounds")


def _total(ev: Evaluation, level: str) -> int | None:
    if level == "slice":
        return number_of_slices(ev.cohort, ev.protocol)
    return ev.cohort.n_images if level == "sample" else None


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class _ReferenceOutcomes:
    """What became of the references under one model."""

    fate: NDArray[np.int8]
    # largest similarity to any prediction; None if the criterion is a distance, or yes or no
    best: F64 | None
    soft: F64 | None  # soft IoU


def section(page: Context) -> str:
    """Return the worst references of the leading models; nothing unless references have masks."""
    ev = page.evaluation
    if ev.cohort.references.masks is None or not len(ev.cohort.references):
        return ""
    models = ev.leading(MOST_MODELS)
    note = f" of the {len(models)} leading models" if len(models) < len(ev.models) else ""
    rule = hit_rule(ev.protocol.matching)
    words = (
        f"Per model{note}, up to {MOST_OBJECTS} of "
        f"{count_text('reference', len(ev.cohort.references))}: first the missed ones ({rule}), "
        "largest first, then those that are localised worst. The full list, with masks and false "
        "alarms, is in objects.parquet."
    )
    soft, (size, unit) = softness(ev), sizes_of(ev.cohort)
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        rows += _rows(ev, model, soft, size)
    table = Table(
        _columns(ev, soft, unit),
        tuple(rows),
        title="References localised worst",
        name="table-objects",
    )
    return paragraph(words) + table_block(table)


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


def _rows(ev: Evaluation, model: str, soft: Softness | None, size: F64) -> list[tuple[Cell, ...]]:
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
