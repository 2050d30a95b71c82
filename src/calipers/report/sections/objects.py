# SPDX-License-Identifier: Apache-2.0
"""The objects that were localised worst, one by one, so that a reader can look at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.evaluation import Evaluation
from calipers.kernels import matching
from calipers.matches import FATES
from calipers.pictures.outlines import widest_slice
from calipers.plots.figures import Cell, Table
from calipers.plots.voxels import Softness, sizes_of, softness
from calipers.plots.words import hit_rule
from calipers.report.context import Context
from calipers.report.markup import data_table, paragraph
from calipers.report.order import leading
from calipers.report.words import plural
from calipers.saving import shown_matches

F64 = NDArray[np.float64]

MOST_MODELS = 3
MOST_OBJECTS = 10  # of each model


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
    models = leading(ev, MOST_MODELS)
    note = f" of the {len(models)} leading models" if len(models) < len(ev.models) else ""
    rule = hit_rule(ev.protocol.matching)
    words = (
        f"Per model{note}, up to {MOST_OBJECTS} of "
        f"{plural('reference', len(ev.cohort.references))}: first the missed ones ({rule}), "
        "largest first, then those that are localised worst. The full list, with masks and false "
        "alarms, is in objects.parquet."
    )
    soft, (size, unit) = softness(ev), sizes_of(ev.cohort)
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        rows += _rows(ev, model, soft, size)
    table = Table(_columns(ev, soft, unit), tuple(rows))
    return paragraph(words) + data_table(table, "table-objects", "References localised worst")


def _columns(ev: Evaluation, soft: Softness | None, unit: str) -> tuple[str, ...]:
    columns = ["model", "image"]
    columns += ["slice z"] if ev.cohort.dimensions == 3 else ["centre x", "centre y"]
    columns += ["fate", f"size ({unit})"]
    if soft is not None:
        columns.append(soft.metric)
    if _graded(ev):
        columns.append(f"best {ev.protocol.matching.criterion}")
    return (*columns, "object")


def _table(ev: Evaluation, soft: Softness | None, unit: str, rows: list[tuple[Cell, ...]]) -> Table:
    criterion = ev.protocol.matching.criterion
    soft_columns = (soft.metric,) if soft is not None else ()
    place = ("slice z",) if ev.cohort.dimensions == 3 else ("centre x", "centre y")
    best = (f"best {criterion}",) if _graded(ev) else ()
    return Table(
        ("model", "image", *place, "fate", f"size ({unit})", *soft_columns, *best, "object"),
        tuple(rows),
    )


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
        rows.append((*row, k - int(references.offsets[image]) + 1))
    return rows


def _reference_outcomes(ev: Evaluation, model: str, soft: Softness | None) -> _ReferenceOutcomes:
    matches = shown_matches(ev, model)
    best = None
    if _graded(ev):
        best = np.zeros(len(ev.cohort.references))
        np.maximum.at(best, matches.pairs.reference, matches.pairs.similarity)
    soft_iou = None if soft is None else soft.of_model[model]
    return _ReferenceOutcomes(matches.reference_fate[0], best, soft_iou)


def _order(outcome: _ReferenceOutcomes, size: F64) -> NDArray[np.int64]:
    """Return the counted references: missed ones by size, then the others by how badly they are
    localised.
    """
    missed = outcome.fate == matching.MISSED
    good = outcome.soft if outcome.soft is not None else outcome.best
    rank = np.where(missed, -size, np.zeros(len(size)) if good is None else good)
    order = np.lexsort((rank, ~missed))
    return np.asarray(order[outcome.fate[order] != matching.IGNORED])


def _place(ev: Evaluation, k: int) -> tuple[Cell, ...]:
    """Return where to look: the slice with most voxels, or the centre of a picture's object."""
    masks = ev.cohort.references.masks
    assert masks is not None
    if ev.cohort.dimensions == 3:
        return (widest_slice(masks, k),)
    return tuple(round(float(v), 1) for v in masks[k : k + 1].centroids()[0])
