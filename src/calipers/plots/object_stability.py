# SPDX-License-Identifier: Apache-2.0
"""Object stability in figures: found by k of m models, shared false alarms, agreement of pairs, and
by size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.plots.figures import Axis, Bars, Figure, Forest, ForestRow, HeatMap, Mark
from calipers.plots.words import percent, short_name
from calipers.results import Estimate
from calipers.stability.objects_result import ObjectStability
from calipers.statistics.weights import plural

KINDS = ("all", "some", "none")


def found_by(result: ObjectStability) -> Bars:
    """Return the share of references that 0, 1, ..., K models find."""
    rows = result.found_by()
    n, k = len(result.evidence.references), len(result.models)
    title = f"{percent(result['found-by-some'].value)} of {n} references are found by some but not all of {k} models"
    return _bars(
        title if n else "There are no counted references",
        "models that find a reference",
        "share of references",
        [(str(row.k), row.share) for row in rows],
        f"n = {n} references. {_intervals(result)}",
    )


def false_alarms(result: ObjectStability) -> Bars:
    """Return the share of places with a false alarm where 1, ..., K models raise one."""
    rows, n = result.false_alarms_by(), len(result.evidence.places)
    title = f"{percent(result['false-alarms-shared'].value)} of {n} places with a false alarm are shared"
    return _bars(
        title if n else "No model raises a false alarm",
        "models with a false alarm at a place",
        "share of places",
        [(str(row.k), row.share) for row in rows],
        f"n = {n} places. {_intervals(result)}",
    )


def sizes(result: ObjectStability) -> Bars:
    """Return which shares of the references of every size all, some and none of the models find."""
    names = _sizes(result)
    table = [[result.get(f"found-by-{kind}", size=name) for name in names] for kind in KINDS]
    heights = np.array([[one.value for one in line] for line in table]).reshape(
        len(KINDS), len(names)
    )
    parts = ", ".join(
        f"{percent(share)} of the {name}"
        for name, share in zip(names, heights[1])
        if share == share
    )
    counts = ", ".join(f"{one.n_references} {name}" for name, one in zip(names, table[0]))
    return Bars(
        f"Some but not all models find {parts} references"
        if parts
        else "There are no counted references",
        Axis("size of the reference", names=names),
        Axis("share of references", 0.0, 1.0),
        ("found by all", "found by some", "found by none"),
        heights,
        stacked=True,
        note=f"n = {counts} references. {_cuts(result)}",
    )


def agreement(result: ObjectStability) -> Forest:
    """Return how far two models agree: on everything, on every size and on every class."""
    rows = [
        ForestRow(
            "all objects",
            str(result["agreement"].n_images),
            _marks(result["agreement"]),
            strong=True,
        )
    ]
    for row in result.rows:
        if row.metric == "agreement" and (row.label is not None or row.group):
            name = row.label if row.label is not None else f"{(row.group or {})['size']} objects"
            rows.append(
                ForestRow(short_name(name), str(row.estimate.n_images), _marks(row.estimate))
            )
    value = result["agreement"]
    title = f"Two models agree on {percent(value.value)} of what they predict"
    return Forest(
        "No model predicts anything" if math.isnan(value.value) else title,
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
        title = f"{short_name(result.models[a], 20)} and {short_name(result.models[b], 20)} agree least: {percent(values[a, b])}"
    names = tuple(short_name(name) for name in result.models)
    note = (
        f"Mean over images on which one of the two predicts something; {result.evidence.n_images} images in all. "
        "A model is not compared with itself."
    )
    words = tuple(
        tuple("" if r == c else percent(float(value)) for c, value in enumerate(line))
        for r, line in enumerate(values)
    )
    axis = Axis("model", names=names)
    return HeatMap(title, axis, axis, values, "agreement", words=words, note=note)


def _bars(title: str, x: str, y: str, shares: list[tuple[str, Estimate]], note: str) -> Bars:
    """Return bars with intervals, one per number of models."""
    names = tuple(name for name, _ in shares)
    heights, low, high = (
        np.array([[getattr(share, end) for _, share in shares]]) for end in ("value", "low", "high")
    )
    return Bars(title, Axis(x, names=names), Axis(y, 0.0, 1.0), (y,), heights, low, high, note=note)


def _marks(estimate: Estimate) -> tuple[Mark, ...]:
    reason = str(estimate.reason or "").replace("_", " ") if math.isnan(estimate.value) else ""
    return (Mark(estimate.value, estimate.low, estimate.high, reason),)


def _sizes(result: ObjectStability) -> tuple[str, ...]:
    """Return the words for sizes; where references are all of one size there is no figure of sizes."""
    groups = [dict(row.group or {}) for row in result.rows if row.metric == "found-by-all"]
    names = tuple(group["size"] for group in groups if "size" in group)
    if not names:
        raise UsageError("sizes were not told apart: give areas that part them (sizes=...)")
    return names


def _cuts(result: ObjectStability) -> str:
    areas = result.settings["sizes"]
    return (
        f"Sizes are parted at an area of {' and '.join(f'{cut:.4g}' for area in areas)}."
        if areas
        else ""
    )


def _intervals(result: ObjectStability) -> str:
    settings = result.settings
    if not settings["replicates"] or math.isnan(result["found-by-all"].low):
        return ""
    return f"{100 * settings['level']:g} % intervals over {settings['n_units']} {plural(settings['unit'])}, each by itself."


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
