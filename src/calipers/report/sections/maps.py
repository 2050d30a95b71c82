# SPDX-License-Identifier: Apache-2.0
"""Maps of scores: curves of all voxels, levels, sizes, and the data behind the voxel metrics."""

from __future__ import annotations

import math

from calipers.evaluation import Evaluation
from calipers.map_findings import bounds_of, number_of_slices
from calipers.metrics.map_settings import MapSettings
from calipers.plots.catalogue import figure
from calipers.plots.figures import Cell, Table
from calipers.plots.voxels import LEVELS, level_rows, measures, softness
from calipers.report.context import Context
from calipers.report.markup import data_table, details, figure_block, items, paragraph
from calipers.report.order import leading

MOST_LINES = 5
CONNECTED = {
    "full": "neighbours across faces, edges and corners",
    "edges": "neighbours across faces and edges",
    "faces": "neighbours across faces",
}
WHY_LEVELS = (
    "Levels answer different questions. All voxels together: one ranking, in which large "
    "references "
    "count most and scores must mean the same in every sample. Means of samples or slices: each "
    "counts the same, whatever its size; those without references have no value."
)

BEHIND = (
    "Number of samples or slices with a value, and of those without one because they have no "
    "references"
)
BOUNDS = (
    "Counted in bins, because all voxels together did not fit into memory: bounds of the exact "
    "values"
)


def section(page: Context) -> str:
    """Return the curves of all voxels and the data behind them; nothing without maps."""
    ev = page.evaluation
    if not ev.cohort.maps:
        return ""
    models = leading(ev, MOST_LINES)
    names = _figure_names(ev)
    blocks = "".join(figure_block(figure(ev, name, models=models), f"fig-{name}") for name in names)
    n_omitted = len(ev.models) - len(models)
    note = ""
    if n_omitted:
        note = f"The {len(models)} leading models; {n_omitted} more are in the tables."
    behind = data_table(_behind(ev), "table-maps", BEHIND)
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
        parts.append(data_table(bounds, "table-bounds", BOUNDS))
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
        rule = f"at which {100 * settings.rate:g} % of the voxels outside references are called"
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
    return Table(("metric", "taken over", "values", "without a value"), tuple(rows))


def _bounds(ev: Evaluation) -> Table:
    """Return the bounds of the values that were counted in bins."""
    rows: list[tuple[Cell, ...]] = []
    for model, maps in ev.cohort.maps.items():
        bounds = bounds_of(maps)
        for name, measure in measures(ev):
            if measure.pooled and measure.quantity in bounds:
                ends = map(_finite_or_none, bounds[measure.quantity])
                rows.append((name, model, _finite_or_none(ev.get(name, model=model).value), *ends))
    return Table(("metric", "model", "value", "lowest possible", "highest possible"), tuple(rows))


def _total(ev: Evaluation, level: str) -> int | None:
    if level == "slice":
        return number_of_slices(ev.cohort, ev.protocol)
    return ev.cohort.n_images if level == "sample" else None


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
