# SPDX-License-Identifier: Apache-2.0
"""Figures of object stability: references found by k of m models, shared false alarms, agreement of
pairs, and sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.plots.curves import ends_of_estimates
from calipers.plots.figures import Axis, Bars, Figure, Forest, ForestRow, HeatMap, Mark
from calipers.plots.words import percent, short_name
from calipers.results import Estimate
from calipers.stability.objects_result import ObjectStability
from calipers.statistics.weights import plural

KINDS = ("all", "some", "none")


def found_by(result: ObjectStability) -> Bars:
    """Return the share of references that 0, 1, ..., K models find."""
    n, k = len(result.evidence.references), len(result.models)
    title = "There are no counted references"
    if n:
        share = percent(result["found-by-some"].value)
        title = f"{share} of {n} references are found by some but not all of {k} models"
    return _bars(
        title,
        "models that find a reference",
        "share of references",
        [(str(row.k), row.share) for row in result.found_by()],
        f"n = {n} references. {_intervals(result)}",
    )


def false_alarms(result: ObjectStability) -> Bars:
    """Return the share of places with a false alarm where 1, ..., K models raise one."""
    n = len(result.evidence.places)
    title = "No model raises a false alarm"
    if n:
        share = percent(result["false-alarms-shared"].value)
        title = f"{share} of {n} places with a false alarm are shared"
    return _bars(
        title,
        "models with a false alarm at a place",
        "share of places",
        [(str(row.k), row.share) for row in result.false_alarms_by()],
        f"n = {n} places. {_intervals(result)}",
    )


def sizes(result: ObjectStability) -> Bars:
    """Return which shares of the references of every size all, some and none of the models find."""
    names = _sizes(result)
    heights = np.empty((len(KINDS), len(names)))
    counts, parts = [], []
    for k, name in enumerate(names):
        estimates = [result.get(f"found-by-{kind}", size=name) for kind in KINDS]
        heights[:, k] = [estimate.value for estimate in estimates]
        counts.append(f"{estimates[0].n_references} {name}")
        by_some = estimates[KINDS.index("some")].value
        if not math.isnan(by_some):
            parts.append(f"{percent(by_some)} of the {name}")
    title = "There are no counted references"
    if parts:
        title = f"Some but not all models find {', '.join(parts)} references"
    return Bars(
        title,
        Axis("size of the reference", names=names),
        Axis("share of references", 0.0, 1.0),
        ("found by all", "found by some", "found by none"),
        heights,
        stacked=True,
        note=f"n = {', '.join(counts)} references. {_cuts(result)}",
    )


def agreement(result: ObjectStability) -> Forest:
    """Return how far two models agree: on all objects, on every size and on every class."""
    overall = result["agreement"]
    rows = [ForestRow("all objects", str(overall.n_images), _marks(overall), strong=True)]
    for row in result.rows:
        if row.metric != "agreement":
            continue
        if row.label is not None:
            name = row.label
        elif row.group:
            name = f"{row.group['size']} objects"
        else:
            continue
        rows.append(ForestRow(short_name(name), str(row.estimate.n_images), _marks(row.estimate)))
    title = "No model predicts anything"
    if not math.isnan(overall.value):
        title = f"Two models agree on {percent(overall.value)} of what they predict"
    return Forest(
        title,
        Axis("agreement of two models", 0.0, 1.0),
        ("agreement",),
        tuple(rows),
        n="images",
        note=f"Mean over pairs of models, then over images. {_cuts(result)} {_intervals(result)}",
    )


def pairs(result: ObjectStability) -> HeatMap:
    """Return how far every two models agree."""
    values = result.per_pair
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = "No two models predict anything on the same images"
    if len(defined):
        a, b = min(defined.tolist(), key=lambda pair: float(values[pair[0], pair[1]]))
        first, second = short_name(result.models[a], 20), short_name(result.models[b], 20)
        title = f"{first} and {second} agree least: {percent(values[a, b])}"
    words = []
    for r, row in enumerate(values.tolist()):
        texts = [percent(value) for value in row]
        texts[r] = ""  # a model is not compared with itself
        words.append(tuple(texts))
    note = (
        "Mean over images on which one of the two predicts something; "
        f"{result.evidence.n_images} images in all. A model is not compared with itself."
    )
    axis = Axis("model", names=tuple(short_name(name) for name in result.models))
    return HeatMap(title, axis, axis, values, "agreement", words=tuple(words), note=note)


def _bars(title: str, x: str, y: str, shares: list[tuple[str, Estimate]], note: str) -> Bars:
    """Return bars with intervals, one per number of models."""
    names = tuple(name for name, _ in shares)
    heights, low, high = ends_of_estimates([share for _, share in shares])
    axes = Axis(x, names=names), Axis(y, 0.0, 1.0)
    return Bars(title, *axes, (y,), heights[None], low[None], high[None], note=note)


def _marks(estimate: Estimate) -> tuple[Mark, ...]:
    reason = ""
    if math.isnan(estimate.value):
        reason = str(estimate.reason or "").replace("_", " ")
    return (Mark(estimate.value, estimate.low, estimate.high, reason),)


def _sizes(result: ObjectStability) -> tuple[str, ...]:
    """Return the names of the sizes; raise if sizes were not distinguished."""
    groups = [dict(row.group or {}) for row in result.rows if row.metric == "found-by-all"]
    names = tuple(group["size"] for group in groups if "size" in group)
    if not names:
        raise UsageError("sizes were not distinguished: give areas that separate them (sizes=...)")
    return names


def _cuts(result: ObjectStability) -> str:
    areas = " and ".join(f"{area:.4g}" for area in result.settings["sizes"])
    return f"Sizes are separated at an area of {areas}." if areas else ""


def _intervals(result: ObjectStability) -> str:
    settings = result.settings
    if not settings["replicates"] or math.isnan(result["found-by-all"].low):
        return ""
    units = f"{settings['n_units']} {plural(settings['unit'])}"
    return f"Pointwise {100 * settings['level']:g} % intervals over {units}."


FIGURES: Mapping[str, Callable[[ObjectStability], Figure]] = {
    "found-by": found_by,
    "false-alarms": false_alarms,
    "sizes": sizes,
    "agreement": agreement,
    "pairs": pairs,
}


def figure(result: ObjectStability, name: str) -> Figure:
    """Return a figure of object stability as data: one of `FIGURES`."""
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of object stability; {did_you_mean(name, FIGURES)}")
    return FIGURES[name](result)
