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

from calipers.evaluation.figures import hit_rule
from calipers.evaluation.figures_maps import LEVELS, measures
from calipers.evaluation.result import Evaluation
from calipers.evaluation.warnings import bounds_of, number_of_slices
from calipers.metrics.maps import MapSettings
from calipers.pictures.album import _overlays, album_html
from calipers.report.contents import MOST_LINES, MOST_MODELS, MOST_OBJECTS
from calipers.report.context import Context
from calipers.show.html import details, items, paragraph, table_block
from calipers.show.table import Cell, Table
from calipers.show.words import count_text, level_text

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
    blocks = page.blocks("fig-voxel-", "fig-levels", "fig-soft-sizes")
    n_omitted = len(ev.models) - len(models)
    note = ""
    if n_omitted:
        note = f"The first {len(models)} models by {ev.headline[0]}; "
        note += f"{n_omitted} more are in the tables."
    behind = table_block(_behind(ev))
    pair = f'<div class="pair">{blocks}</div>' if blocks else ""
    levels = paragraph(WHY_LEVELS) if "fig-levels" in page.figures else ""
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
        rule = (
            f"at which {level_text(settings.rate)} of the voxels outside references are called "
            "positive"
        )
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


def section(page: Context) -> str:
    """Return the worst references of the leading models; nothing unless references have masks."""
    ev = page.evaluation
    if page.objects is None:
        return ""
    models = ev.leading(MOST_MODELS)
    note = ""
    if len(models) < len(ev.models):
        note = f" of the first {len(models)} by {ev.headline[0]}"
    rule = hit_rule(ev.protocol.matching)
    words = (
        f"Per model{note}, up to {MOST_OBJECTS} of "
        f"{count_text('reference', len(ev.cohort.references))}: first the missed ones ({rule}), "
        "largest first, then those that are localised worst. The full list, with masks and false "
        "alarms, is in objects.parquet."
    )
    return paragraph(words) + table_block(page.objects)
