# SPDX-License-Identifier: Apache-2.0
"""What a sweep says, as titles of its figures: who is best where, what moves and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

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
    """Return the choice as the beginning of a sentence."""
    return short(axis).capitalize() if is_corruption(axis.name) else f"The {short(axis)}"


def point_text(axis: SweepAxis, k: int) -> str:
    """Return ``box-iou``, or ``threshold 0.5``."""
    value = axis.values[k]
    return value if isinstance(value, str) else f"{short(axis)} {value:g}"


def who_is_best(
    axis: SweepAxis, metric: str, models: Sequence[str], values: F64, *, lower: bool
) -> str:
    """Return whether one model, of (models, points), is the best wherever one looks."""
    order = _order(axis)
    worst = -np.inf
    table = np.nan_to_num((-values if lower else values)[:, order], nan=worst)
    if not np.isfinite(table).any():
        return NOTHING
    ahead = table == table.max(axis=0)
    every = f"at every {short(axis)}" if axis.numeric else f"with every {short(axis)}"
    if ahead.all():
        return f"The models have the same {metric} {every}"
    always = np.flatnonzero(ahead.all(axis=1))
    if len(always):
        shared = (
            ""
            if len(always) == 1 and int(ahead.sum(axis=0).max()) == 1
            else ", at some with others"
        )
        return f"{short_name(models[int(always[0])])} has the best {metric} {every}{shared}"
    leaders = [models[int(k)] for k in np.argmax(ahead, axis=0)]
    if not axis.numeric:
        clauses = [
            f"{short_name(model)} with {_listed([axis.values[k] for k in places])}"
            for model, places in _by(leaders)
        ]
        return f"The best model depends on the {short(axis)}: {'; '.join(clauses)}"
    x = [axis.values[k] for k in order]
    turns = _turns(leaders, ahead, models)
    clauses = [f"{short_name(turns[0][0])} first"]
    clauses += [f"{short_name(model)} from {x[k]:g} on" for model, k in turns[1 : 1 + MOST_TURNS]]
    more = ", then it changes again" if len(turns) > 1 + MOST_TURNS else ""
    return f"The best model depends on the {short(axis)}: {', '.join(clauses)}{more}"


def _turns(
    leaders: Sequence[str], ahead: NDArray[np.bool_], models: Sequence[str]
) -> list[tuple[str, int]]:
    """Return who leads from which point on; who leads keeps the lead until somebody exceeds it."""
    start = np.where(ahead.all(axis=1), ahead.shape[1], np.argmin(ahead, axis=1))
    leader = int(np.argmax(start))
    turns = [(models[leader], 0)]
    for k in range(ahead.shape[1]):
        if not ahead[leader, k]:
            leader = list(models).index(leaders[k])
            turns.append((models[leader], k))
    return turns


def sensitivity(axis: SweepAxis, metrics: Sequence[str], values: F64) -> str:
    """Return which of (metrics, points) a choice moves, and which it does not."""
    defined = [k for k in range(len(metrics)) if np.isfinite(values[k]).any()]
    if not defined:
        return NOTHING
    if len(metrics) == 1:
        return _course(axis, metrics[0], values[0])
    moves = {k: float(np.nanmax(values[k]) - np.nanmin(values[k])) for k in defined}
    most = max(moves, key=lambda k: moves[k])
    still = [metrics[k] for k in defined if moves[k] < STILL]
    if moves[most] < STILL:
        return f"{choice_subject(axis)} hardly moves any metric: by {moves[most]:.2f} at most"
    text = f"{choice_subject(axis)} moves {metrics[most]} most, which {_ends(axis, values[most])}"
    return (
        f"{text}; {_listed(still)} hardly move{'s' if len(still) == 1 else ''}" if still else text
    )


def _course(axis: SweepAxis, metric: str, values: F64) -> str:
    """Return how one metric goes over one choice."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if high - low < STILL:
        return f"{metric} hardly moves with the {short(axis)}: {low:.2f} to {high:.2f}"
    if not axis.numeric:
        where = [point_text(axis, int(pick(values))) for pick in (np.nanargmin, np.nanargmax)]
        return f"{metric} ranges from {low:.2f} ({where[0]}) to {high:.2f} ({where[1]})"
    x = [axis.values[k] for k in _order(axis)]
    return f"{metric} {_ends(axis, values)} over a {short(axis)} of {x[0]:g} to {x[-1]:g}"


def _ends(axis: SweepAxis, values: F64) -> str:
    """Return ``falls from 1.00 to 0.36`` if that is what it does from end to end, else the whole
    range.
    """
    along = values[_order(axis)]
    values_defined = along[np.isfinite(along)]
    if (
        axis.numeric
        and values_defined[0] != values_defined[-1]
        and {values_defined[0], values_defined[-1]} == {values_defined.min(), values_defined.max()}
    ):
        return f"{'falls' if values_defined[-1] < values_defined[0] else 'rises'} from {values_defined[0]:.2f} to {values_defined[-1]:.2f}"
    return f"lies between {values_defined.min():.2f} and {values_defined.max():.2f}"


def ranges(axes: Sequence[SweepAxis], metric: str, values: F64) -> str:
    """Return where a metric over two choices is least and most."""
    if not np.isfinite(values).any():
        return NOTHING
    ends = []
    for pick in (np.nanargmin, np.nanargmax):
        place = np.unravel_index(int(pick(values)), values.shape)
        where = ", ".join(point_text(axis, int(k)) for axis, k in zip(axes, place))
        ends.append(f"{values[place]:.2f} ({where})")
    if np.nanmax(values) - np.nanmin(values) < STILL:
        return f"{metric} hardly moves: {np.nanmin(values):.2f} to {np.nanmax(values):.2f}"
    return f"{metric} ranges from {ends[0]} to {ends[1]}"


def spread_of_words(number: SweepAxis, word: SweepAxis, metric: str, values: F64) -> str:
    """Return where the words make most of a difference; values are (words, numbers)."""
    defined = np.isfinite(values).all(axis=0)
    if not defined.any():
        return NOTHING
    ranges_here = np.where(defined, np.ptp(np.nan_to_num(values), axis=0), -1.0)
    k = int(np.argmax(ranges_here))
    if ranges_here[k] < STILL:
        return f"{choice_subject(word)} hardly moves {metric}: by {ranges_here[k]:.2f} at most"
    low, high = (int(pick(values[:, k])) for pick in (np.argmin, np.argmax))
    ends = f"{values[low, k]:.2f} with {point_text(word, low)}, {values[high, k]:.2f} with {point_text(word, high)}"
    return f"{choice_subject(word)} moves {metric} by up to {ranges_here[k]:.2f}: at {point_text(number, k)}, {ends}"


def _order(axis: SweepAxis) -> list[int]:
    """Return the points from left to right."""
    if not axis.numeric:
        return list(range(len(axis.values)))
    return [int(k) for k in np.argsort(np.array(axis.values, np.float64), kind="stable")]


def _by(leaders: Sequence[str]) -> list[tuple[str, list[int]]]:
    pairs = sorted(enumerate(leaders), key=lambda pair: leaders.index(pair[1]))
    return [
        (model, [k for k, _ in group]) for model, group in groupby(pairs, key=lambda pair: pair[1])
    ]


def _listed(names: Sequence[object]) -> str:
    words = [str(name) for name in names]
    if len(words) > 3:
        return f"{', '.join(words[:2])} and {len(words) - 2} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
