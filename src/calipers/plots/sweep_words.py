# SPDX-License-Identifier: Apache-2.0
"""Findings of a sweep, as titles of its figures: the best model, and what moves a metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.plots.words import short_name
from calipers.sensitivity.choices import is_corruption
from calipers.sensitivity.swept import SweepAxis

F64 = NDArray[np.float64]
STILL = 0.02  # a metric that moves by less hardly moves
NOTHING = "There is nothing to show: no value is defined"
MOST_TURNS = 2
SHORT = {"least_area": "smallest area", "max_dets": "number of predictions"}


def short(axis: SweepAxis) -> str:
    """Return the choice in a word or two: threshold, position noise."""
    if is_corruption(axis.name):
        return axis.name.partition(".")[0].replace("-", " ")
    return SHORT.get(axis.name, axis.name.replace("_", " "))


def choice_subject(axis: SweepAxis) -> str:
    """Return the choice as the subject of a sentence: ``The threshold``, ``Position noise``."""
    return short(axis).capitalize() if is_corruption(axis.name) else f"The {short(axis)}"


def point_text(axis: SweepAxis, k: int) -> str:
    """Return ``box-iou``, or ``threshold 0.5``."""
    value = axis.values[k]
    return value if isinstance(value, str) else f"{short(axis)} {value:g}"


def who_is_best(
    axis: SweepAxis, metric: str, models: Sequence[str], values: F64, *, lower: bool
) -> str:
    """Return whether one model is the best at all points; values are (models, points)."""
    order = _order(axis)
    # Undefined values never lead.
    table = np.nan_to_num((-values if lower else values)[:, order], nan=-np.inf)
    if not np.isfinite(table).any():
        return NOTHING
    ahead = table == table.max(axis=0)
    everywhere = f"at every {short(axis)}" if axis.numeric else f"with every {short(axis)}"
    if ahead.all():
        return f"The models have the same {metric} {everywhere}"
    always = np.flatnonzero(ahead.all(axis=1))
    if len(always):
        alone = len(always) == 1 and int(ahead.sum(axis=0).max()) == 1
        ties = "" if alone else ", at some with others"
        return f"{short_name(models[int(always[0])])} has the best {metric} {everywhere}{ties}"
    leaders = [models[int(k)] for k in np.argmax(ahead, axis=0)]
    if not axis.numeric:
        clauses = []
        for model, points in _by_leader(leaders).items():
            values_here = _join([axis.values[k] for k in points])
            clauses.append(f"{short_name(model)} with {values_here}")
        return f"The best model depends on the {short(axis)}: {'; '.join(clauses)}"
    x = [axis.values[k] for k in order]
    turns = _turns(leaders, ahead, models)
    clauses = [f"{short_name(turns[0][0])} first"]
    for model, k in turns[1 : 1 + MOST_TURNS]:
        clauses.append(f"{short_name(model)} from {x[k]:g} on")
    more = ", then it changes again" if len(turns) > 1 + MOST_TURNS else ""
    return f"The best model depends on the {short(axis)}: {', '.join(clauses)}{more}"


def _turns(
    leaders: Sequence[str], ahead: NDArray[np.bool_], models: Sequence[str]
) -> list[tuple[str, int]]:
    """Return which model leads from which point on; a leader leads until it is exceeded."""
    start = np.where(ahead.all(axis=1), ahead.shape[1], np.argmin(ahead, axis=1))
    leader = int(np.argmax(start))
    turns = [(models[leader], 0)]
    for k in range(ahead.shape[1]):
        if not ahead[leader, k]:
            leader = list(models).index(leaders[k])
            turns.append((models[leader], k))
    return turns


def sensitivity(axis: SweepAxis, metrics: Sequence[str], values: F64) -> str:
    """Return which metrics a choice moves, and which it does not; values are (metrics, points)."""
    defined = [k for k in range(len(metrics)) if np.isfinite(values[k]).any()]
    if not defined:
        return NOTHING
    if len(metrics) == 1:
        return _course(axis, metrics[0], values[0])
    moves = {k: float(np.nanmax(values[k]) - np.nanmin(values[k])) for k in defined}
    most = max(moves, key=lambda k: moves[k])
    if moves[most] < STILL:
        return f"{choice_subject(axis)} hardly moves any metric: by {moves[most]:.2f} at most"
    text = f"{choice_subject(axis)} moves {metrics[most]} most, which {_ends(axis, values[most])}"
    still = [metrics[k] for k in defined if moves[k] < STILL]
    if not still:
        return text
    verb = "moves" if len(still) == 1 else "move"
    return f"{text}; {_join(still)} hardly {verb}"


def _course(axis: SweepAxis, metric: str, values: F64) -> str:
    """Return how one metric changes over one choice."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if high - low < STILL:
        return f"{metric} hardly moves with the {short(axis)}: {low:.2f} to {high:.2f}"
    if not axis.numeric:
        lowest = point_text(axis, int(np.nanargmin(values)))
        highest = point_text(axis, int(np.nanargmax(values)))
        return f"{metric} ranges from {low:.2f} ({lowest}) to {high:.2f} ({highest})"
    x = [axis.values[k] for k in _order(axis)]
    return f"{metric} {_ends(axis, values)} over a {short(axis)} of {x[0]:g} to {x[-1]:g}"


def _ends(axis: SweepAxis, values: F64) -> str:
    """Return ``falls from 1.00 to 0.36`` if both extremes lie at the ends, else the whole range."""
    along = values[_order(axis)]
    along = along[np.isfinite(along)]
    first, last, low, high = along[0], along[-1], along.min(), along.max()
    if axis.numeric and first != last and {first, last} == {low, high}:
        verb = "falls" if last < first else "rises"
        return f"{verb} from {first:.2f} to {last:.2f}"
    return f"lies between {low:.2f} and {high:.2f}"


def ranges(axes: Sequence[SweepAxis], metric: str, values: F64) -> str:
    """Return where a metric over two choices is lowest and highest."""
    if not np.isfinite(values).any():
        return NOTHING
    low, high = np.nanmin(values), np.nanmax(values)
    if high - low < STILL:
        return f"{metric} hardly moves: {low:.2f} to {high:.2f}"
    texts = []
    for pick in (np.nanargmin, np.nanargmax):
        place = np.unravel_index(int(pick(values)), values.shape)
        where = ", ".join(point_text(axis, int(k)) for axis, k in zip(axes, place))
        texts.append(f"{values[place]:.2f} ({where})")
    return f"{metric} ranges from {texts[0]} to {texts[1]}"


def spread_of_words(number: SweepAxis, word: SweepAxis, metric: str, values: F64) -> str:
    """Return where a choice of words makes most of a difference; values are (words, numbers)."""
    defined = np.isfinite(values).all(axis=0)
    if not defined.any():
        return NOTHING
    differences = np.where(defined, np.ptp(np.nan_to_num(values), axis=0), -1.0)
    k = int(np.argmax(differences))
    subject, largest = choice_subject(word), differences[k]
    if largest < STILL:
        return f"{subject} hardly moves {metric}: by {largest:.2f} at most"
    low, high = int(np.argmin(values[:, k])), int(np.argmax(values[:, k]))
    lowest = f"{values[low, k]:.2f} with {point_text(word, low)}"
    highest = f"{values[high, k]:.2f} with {point_text(word, high)}"
    where = point_text(number, k)
    return f"{subject} moves {metric} by up to {largest:.2f}: at {where}, {lowest}, {highest}"


def _order(axis: SweepAxis) -> list[int]:
    """Return the points from left to right."""
    if not axis.numeric:
        return list(range(len(axis.values)))
    return [int(k) for k in np.argsort(np.array(axis.values, np.float64), kind="stable")]


def _by_leader(leaders: Sequence[str]) -> dict[str, list[int]]:
    """Return model -> the points at which it leads, in the order of the first point."""
    points_of: dict[str, list[int]] = {}
    for k, model in enumerate(leaders):
        points_of.setdefault(model, []).append(k)
    return points_of


def _join(names: Sequence[object]) -> str:
    words = [str(name) for name in names]
    if len(words) > 3:
        return f"{', '.join(words[:2])} and {len(words) - 2} more"
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
