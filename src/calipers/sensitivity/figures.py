# SPDX-License-Identifier: Apache-2.0
"""Figures of a sweep and of a multiverse, each with its finding as title.

A `Sweep` or a `Multiverse` comes in, a figure of `calipers.show.figures` goes out.

- Sweeps (`sweep_figure`, `sweep_figures`): curves over a number, a forest plot over words, contours
  over two numbers, a heat map over two words. Titles say which model is best, or what moves a
  metric (`who_is_best`, `sensitivity`, `ranges`, `spread_of_words`).
- Multiverses (`FIGURES`): ranks, the specification curve, which choices move the ranking, and the
  winners at every level.

Results look up their figures by name; terminal, page and notebooks show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.errors import UsageError, did_you_mean
from calipers.sensitivity.result import (
    NOTICED,
    Multiverse,
    choice_name,
    choice_text,
    configuration_text,
)
from calipers.sensitivity.sweep import Sweep, SweepAxis, Value, is_corruption
from calipers.show.figures import (
    Axis,
    Blob,
    Contour,
    Curves,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Line,
    Mark,
)
from calipers.show.words import level_text, percent_text, short_name, span_text, two_decimals

# Our judgement: changes that no reader would act on.
STILL = 0.02  # a metric that moves by less hardly moves
NOTHING = "There is nothing to show: no value is defined"
MOST_TURNS = 2
SHORT = {"least_area": "smallest area", "max_dets": "number of predictions"}

MOST_MARKED = 25  # points of a line that get a marker

SPAN = (0.025, 0.975)  # quantiles of the ranks
MATTERS = 0.01  # a choice that explains a smaller share of the variance is not named
TIES = "Tied models share a configuration."


def sweep_figure(sweep: Sweep, metric: str | None = None, *, model: str | None = None) -> Figure:
    """Return a sweep as a figure.

    Parameters
    ----------
    metric
        The first one if left out. Of one model, or an oracle, over one choice: all that have the
        same scale.
    model
        The first one if left out; over one choice all models are shown together, unless one is
        named.

    Notes
    -----
    One choice of numbers gives curves with bands, one of words a forest plot; two of numbers a
    contour map, a number and a word a curve per word, two of words a heat map. Beside another
    choice, a single number counts as a word.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.sensitivity.figures import sweep_figure
    >>> result = cal.sweep(cal.demo_cohort(), "AP@0.5", {"threshold": [0.1, 0.5, 0.9]}, ci=False)
    >>> sweep_figure(result).title.split(": ")[1]
    'overpredicts first, misses-small at 0.9 and above'
    """
    for what, name, names in (("metric", metric, sweep.metrics), ("model", model, sweep.models)):
        if name is not None and name not in names:
            raise UsageError(f"no {what} {name!r} in this sweep; {did_you_mean(name, names)}")
    if len(sweep.axes) == 2:
        return _over_two(sweep, metric or sweep.metrics[0], model or sweep.models[0])
    if model is None and len(sweep.models) > 1:
        return _of_models(sweep, metric or sweep.metrics[0])
    metrics = _same_scale(sweep) if metric is None else (metric,)
    return _of_metrics(sweep, metrics, model or sweep.models[0])


def sweep_catalogue(sweep: Sweep) -> dict[str, Callable[..., Figure]]:
    """Return a figure per metric; the one without a name takes the metric as a choice."""
    figures: dict[str, Callable[..., Figure]] = {"": sweep_figure}
    for metric in sweep.metrics:
        figures[metric] = partial(_of_metric, metric)
    return figures


def sweep_figures(sweep: Sweep) -> dict[str, Figure]:
    """Return all figures of a sweep by name: the metric, or ``metric of model``.

    Over two choices a figure can show one model only.
    """
    figures: dict[str, Figure] = {}
    if len(sweep.axes) == 2:
        for metric in sweep.metrics:
            for model in sweep.models:
                name = f"{metric} of {model}" if len(sweep.models) > 1 else metric
                figures[name] = _over_two(sweep, metric, model)
        return figures
    if len(sweep.models) > 1 or len(sweep.metrics) == 1:
        return {metric: sweep_figure(sweep, metric) for metric in sweep.metrics}
    alike = _same_scale(sweep)
    name = " and ".join(alike[:2])
    if len(alike) > 2:
        name += " and more"
    figures[name] = sweep_figure(sweep)
    for metric in sweep.metrics:
        if metric not in alike:
            figures[metric] = sweep_figure(sweep, metric)
    return figures


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
    # Equal values are ahead together.
    ahead = table == table.max(axis=0)
    everywhere = f"at every {short(axis)}" if axis.numeric else f"with every {short(axis)}"
    if ahead.all():
        return f"The models have the same {metric} {everywhere}"
    always = np.flatnonzero(ahead.all(axis=1))
    if len(always):
        alone = len(always) == 1 and int(ahead.sum(axis=0).max()) == 1
        ties = "" if alone else ", at some with others"
        leader = short_name(models[int(always[0])])
        return f"On these images {leader} has the best {metric} {everywhere}{ties}"
    leaders = [models[int(k)] for k in np.argmax(ahead, axis=0)]
    if not axis.numeric:
        clauses = []
        for model, points in _by_leader(leaders).items():
            values_here = _join([axis.values[k] for k in points])
            clauses.append(f"{short_name(model)} with {values_here}")
        return f"On these images the best model depends on the {short(axis)}: {'; '.join(clauses)}"
    x = [axis.values[k] for k in order]
    turns = _turns(leaders, ahead, models)
    clauses = [f"{short_name(turns[0][0])} first"]
    for model, k in turns[1 : 1 + MOST_TURNS]:
        clauses.append(f"{short_name(model)} at {x[k]:g} and above")
    more = ", then it changes again" if len(turns) > 1 + MOST_TURNS else ""
    return (
        f"On these images the best model depends on the {short(axis)}: {', '.join(clauses)}{more}"
    )


def _turns(
    leaders: Sequence[str], ahead: NDArray[np.bool_], models: Sequence[str]
) -> list[tuple[str, int]]:
    """Return which model leads from which point on; a leader leads until it is exceeded."""
    # The first leader is the one that stays ahead for longest, so that ties at the first points
    # make no turn.
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
    # metric -> how far its values lie apart; a metric without a value has no entry
    moves: dict[int, float] = {}
    for k in range(len(metrics)):
        if np.isfinite(values[k]).any():
            moves[k] = float(np.nanmax(values[k]) - np.nanmin(values[k]))
    if not moves:
        return NOTHING
    if len(metrics) == 1:
        return _course_title(axis, metrics[0], values[0])
    most = max(moves, key=moves.__getitem__)
    if moves[most] < STILL:
        largest = two_decimals(moves[most])
        return f"{choice_subject(axis)} hardly moves any metric: by {largest} at most"
    text = (
        f"{choice_subject(axis)} moves {metrics[most]} most, "
        f"which {_change_text(axis, values[most])}"
    )
    still = [metrics[k] for k, move in moves.items() if move < STILL]
    if not still:
        return text
    verb = "moves" if len(still) == 1 else "move"
    return f"{text}; {_join(still)} hardly {verb}"


def _course_title(axis: SweepAxis, metric: str, values: F64) -> str:
    """Return how one metric changes over one choice."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if high - low < STILL:
        return f"{metric} hardly moves with the {short(axis)}: {span_text(low, high)}"
    if not axis.numeric:
        lowest = point_text(axis, int(np.nanargmin(values)))
        highest = point_text(axis, int(np.nanargmax(values)))
        ends = f"{two_decimals(low)} ({lowest}) to {two_decimals(high)} ({highest})"
        return f"{metric} ranges from {ends}"
    x = [axis.values[k] for k in _order(axis)]
    return f"{metric} {_change_text(axis, values)} over a {short(axis)} of {x[0]:g} to {x[-1]:g}"


def _change_text(axis: SweepAxis, values: F64) -> str:
    """Return ``falls from 1.00 to 0.36`` if both extremes lie at the ends, else the whole range."""
    along = values[_order(axis)]
    along = along[np.isfinite(along)]
    first, last, low, high = along[0], along[-1], along.min(), along.max()
    if axis.numeric and first != last and {first, last} == {low, high}:
        verb = "falls" if last < first else "rises"
        return f"{verb} from {span_text(first, last)}"
    return f"lies between {two_decimals(low)} and {two_decimals(high)}"


def ranges(axes: Sequence[SweepAxis], metric: str, values: F64) -> str:
    """Return where a metric over two choices is lowest and highest."""
    if not np.isfinite(values).any():
        return NOTHING
    low, high = np.nanmin(values), np.nanmax(values)
    if high - low < STILL:
        return f"{metric} hardly moves: {span_text(low, high)}"
    texts = []
    for pick in (np.nanargmin, np.nanargmax):
        place = np.unravel_index(int(pick(values)), values.shape)
        where = ", ".join(point_text(axis, int(k)) for axis, k in zip(axes, place))
        texts.append(f"{two_decimals(values[place])} ({where})")
    return f"{metric} ranges from {texts[0]} to {texts[1]}"


def spread_of_words(number: SweepAxis, word: SweepAxis, metric: str, values: F64) -> str:
    """Return where a choice of words makes most of a difference; values are (words, numbers)."""
    # Only points at which every word has a value: else a gap would look like a difference.
    defined = np.isfinite(values).all(axis=0)
    if not defined.any():
        return NOTHING
    differences = np.where(defined, np.ptp(np.nan_to_num(values), axis=0), -1.0)
    k = int(np.argmax(differences))
    subject, largest = choice_subject(word), differences[k]
    if largest < STILL:
        return f"{subject} hardly moves {metric}: by {two_decimals(largest)} at most"
    low, high = int(np.argmin(values[:, k])), int(np.argmax(values[:, k]))
    lowest = f"{two_decimals(values[low, k])} with {point_text(word, low)}"
    highest = f"{two_decimals(values[high, k])} with {point_text(word, high)}"
    where = point_text(number, k)
    most = two_decimals(largest)
    return f"{subject} moves {metric} by up to {most}: at {where}, {lowest}, {highest}"


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


def _of_metric(metric: str, sweep: Sweep, *, model: str | None = None) -> Figure:
    return sweep_figure(sweep, metric, model=model)


def _same_scale(sweep: Sweep) -> tuple[str, ...]:
    """Return the metrics that can share a scale with the first one."""
    first = sweep.metrics[0]
    if first not in sweep.bounded:
        return (first,)
    return tuple(metric for metric in sweep.metrics if metric in sweep.bounded)


def _of_models(sweep: Sweep, metric: str) -> Figure:
    """Return one metric of all models over one choice."""
    axis, tables = sweep.axes[0], [sweep.line(metric, model) for model in sweep.models]
    values = np.array([table[0] for table in tables])
    title = who_is_best(
        axis, sweep.metric_label(metric), sweep.models, values, lower=metric in sweep.lower
    )
    return _series_over(sweep, axis, title, sweep.models, tables, _scale(sweep, (metric,)))


def _of_metrics(sweep: Sweep, metrics: tuple[str, ...], model: str) -> Figure:
    """Return metrics of one model over one choice."""
    axis, tables = sweep.axes[0], [sweep.line(metric, model) for metric in metrics]
    names = tuple(sweep.metric_label(metric) for metric in metrics)
    title = sensitivity(axis, names, np.array([table[0] for table in tables]))
    title = _title_of(sweep, model, title)
    return _series_over(sweep, axis, title, names, tables, _scale(sweep, metrics))


def _over_two(sweep: Sweep, metric: str, model: str) -> Figure:
    """Return one metric of one model over two choices."""
    first, second = sweep.axes
    tables = sweep.line(metric, model)
    label, scale = sweep.metric_label(metric), _scale(sweep, (metric,))
    if _is_continuous(first) != _is_continuous(second):
        return _of_number_and_word(sweep, metric, model)
    title = _title_of(sweep, model, ranges(sweep.axes, label, tables[0]))
    note = _note(sweep, band=False)
    if not _is_continuous(first):
        low, high = _colour_ends(scale, tables[0])
        columns, rows = (Axis(axis.label, names=_words(axis)) for axis in (first, second))
        return HeatMap(title, columns, rows, tables[0].T, scale.label, low, high, note=note)
    xs, ys = (np.array(axis.values, np.float64) for axis in (first, second))
    # Contours need rising places; the user may have named values in any order.
    x_order, y_order = np.argsort(xs), np.argsort(ys)
    values = tables[0].T[np.ix_(y_order, x_order)]
    axes = Axis(first.label), Axis(second.label)
    return Contour(title, *axes, xs[x_order], ys[y_order], values, scale.label, note=note)


def _of_number_and_word(sweep: Sweep, metric: str, model: str) -> Figure:
    """Return a curve over the number for every word."""
    first, second = sweep.axes
    number, word = (first, second) if _is_continuous(first) else (second, first)
    # Words along the first axis, so that every row is a curve.
    values, low, high = (
        np.moveaxis(table, sweep.axes.index(word), 0) for table in sweep.line(metric, model)
    )
    label = sweep.metric_label(metric)
    title = _title_of(sweep, model, spread_of_words(number, word, label, values))
    lines = list(zip(values, low, high))
    return _series_over(sweep, number, title, _words(word), lines, _scale(sweep, (metric,)))


def _series_over(
    sweep: Sweep,
    axis: SweepAxis,
    title: str,
    names: Sequence[str],
    tables: Sequence[tuple[F64, ...]],
    scale: Axis,
) -> Figure:
    """Return series over one choice: curves over numbers, a forest plot over words."""
    # A single number is drawn as one point of a curve.
    if not _is_continuous(axis) and isinstance(axis.values[0], str):
        rows = []
        for k, word in enumerate(_words(axis)):
            marks = tuple(_mark(table, k) for table in tables)
            rows.append(ForestRow(word, str(sweep.n_references), marks))
        return Forest(title, scale, tuple(names), tuple(rows), n="references", note=_note(sweep))
    x = np.array(axis.values, np.float64)
    order = np.argsort(x, kind="stable")
    marks_at = tuple(range(len(x))) if len(x) <= MOST_MARKED else ()
    lines = []
    for k, (name, (value, low, high)) in enumerate(zip(names, tables)):
        band = low[order], high[order]
        lines.append(Line(name, x[order], value[order], *band, slot=k, marks=marks_at))
    return Curves(title, Axis(axis.label), scale, tuple(lines), note=_note(sweep))


def _title_of(sweep: Sweep, model: str, title: str) -> str:
    """Return a title that names its model, if there are several."""
    if len(sweep.models) == 1:
        return title
    if title.startswith("The"):
        title = "t" + title[1:]
    return f"{short_name(model)}: {title}"


def _is_continuous(axis: SweepAxis) -> bool:
    """Return whether a line may join the values: they are numbers, more than one."""
    return axis.numeric and len(axis.values) > 1


def _words(axis: SweepAxis) -> tuple[str, ...]:
    return tuple(map(_value_text, axis.values))


def _value_text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _mark(table: tuple[F64, ...], k: int) -> Mark:
    value, low, high = (float(part[k]) for part in table)
    return Mark(value, low, high, "" if value == value else "undefined")


def _scale(sweep: Sweep, metrics: Sequence[str]) -> Axis:
    """Return the axis of values: from 0 to 1 if all metrics are bounded by 0 and 1."""
    label = sweep.metric_label(metrics[0]) if len(metrics) == 1 else "value"
    if any(metric in sweep.lower for metric in metrics):
        label += " (lower is better)"
    if all(metric in sweep.bounded for metric in metrics):
        return Axis(label, 0.0, 1.0)
    return Axis(label)


def _colour_ends(scale: Axis, values: F64) -> tuple[float, float]:
    """Return the ends of the colours: those of the axis, else those of the values."""
    if scale.high == scale.high:
        return scale.low, scale.high
    defined = values[np.isfinite(values)]
    if len(defined) and defined.min() < defined.max():
        return float(defined.min()), float(defined.max())
    return 0.0, 1.0


def _note(sweep: Sweep, *, band: bool = True) -> str:
    """Return what bands are, and how many images and references there are."""
    sentences = []
    if band and sweep.band != "none":
        sentences.append(f"Bands: pointwise {sweep.band}.")
    if not band and sweep.of_oracle and sweep.runs > 1:
        sentences.append(f"Mean of {sweep.runs} runs.")
    counts = f"{sweep.n_images} images, {sweep.n_references} references"
    sentences.append(f"{counts}; protocol {sweep.protocol}.")
    return " ".join(sentences)


def ranks(result: Multiverse) -> Blob:
    """Return how often every model had every rank over all configurations."""
    order = np.argsort(result.ranks.mean(axis=0), kind="stable").tolist()
    first = max(result.wins, key=lambda model: result.wins[model])
    low, high = np.quantile(result.ranks, SPAN, axis=0).tolist()
    share, n = percent_text(result.wins[first]), len(result.each)
    return Blob(
        f"{short_name(first)} most often has the best value, in {share} of {n} configurations",
        tuple(result.models[m] for m in order),
        _shares(result.values)[order],
        tuple(np.median(result.ranks, axis=0)[order].tolist()),
        tuple((low[m], high[m]) for m in order),
        slots=tuple(order),
        of="configurations",
        note=f"Lines span 95 % of the configurations. {_counts(result)}",
    )


def _shares(values: F64) -> F64:
    """Return (models, ranks) shares of configurations.

    Each of t tied models has each of their t ranks 1 / t times.
    """
    n, m = values.shape
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    rank = np.arange(m)
    # Tied models take the ranks from `above` to `above + equal - 1`, counted from 0.
    here = (rank >= above[:, :, None]) & (rank < (above + equal)[:, :, None])
    return np.asarray((here / equal[:, :, None]).sum(axis=0) / n)


def curve(result: Multiverse) -> Curves:
    """Return the specification curve: best minus second of the base, sorted."""
    best, second = result.best_two
    of_best = result.values[:, result.models.index(best)]
    difference = of_best - result.values[:, result.models.index(second)]
    order = np.argsort(difference, kind="stable")
    x = np.arange(1, len(order) + 1, dtype=np.float64)
    low, high = None, None
    if result.robustness is not None:
        low, high = result.robustness.difference[order].T
    name = f"{short_name(best)} − {short_name(second)}"
    # Where the base stands after sorting.
    base = int(np.flatnonzero(order == result.base)[0])
    lines = (
        Line("no difference", x[[0, -1]], np.zeros(2), slot=1),
        Line(name, x, difference[order], low, high, slot=0, marks=(base,)),
    )
    share = percent_text(float((difference > 0).mean()))
    note = (
        f"The marker is the base: {configuration_text(result.each[result.base])}. "
        f"{_curve_band(result)}"
    )
    return Curves(
        f"{short_name(best)} has a better value than {short_name(second)} in {share} of "
        f"{len(order)} configurations",
        Axis("configurations, from lowest to highest difference", 1.0, max(2.0, float(len(order)))),
        Axis("difference of the metric"),
        lines,
        levels=tuple(np.quantile(x, np.linspace(0, 1, 11)).tolist()),
        note=note.strip(),
    )


def _curve_band(result: Multiverse) -> str:
    robust = result.robustness
    if robust is None:
        return ""
    return (
        "The band is the pointwise 95 % percentile interval of the difference, "
        f"resampled by {robust.unit} (n = {robust.n_units})."
    )


def choices(result: Multiverse) -> Forest:
    """Return how much of the variance of the winner's rank every choice explains by itself."""
    shares = result.explained
    winner = short_name(result.winner)
    top = [name for name, share in shares.items() if share >= MATTERS][:2]
    title = "No single choice changes the ranking"
    if top:
        most = " and ".join(f"{choice_name(name)} ({percent_text(shares[name])})" for name in top)
        title = f"The rank of {winner} depends most on {most}"
    rows = []
    for name, share in shares.items():
        values = {str(one[name]) for one in result.each if name in one}
        if len(values) > 1:
            rows.append(ForestRow(choice_name(name), str(len(values)), (Mark(share),)))
    note = (
        "Eta squared of the rank for one choice at a time, within the configurations in which it "
        f"has an effect; the rest is due to interactions of choices. {_counts(result)}"
    )
    axis = Axis(f"share of the variance of the rank of {winner}", 0.0, 1.0)
    return Forest(title, axis, ("share of variance",), tuple(rows), n="values", note=note)


def levels(result: Multiverse) -> HeatMap:
    """Return the share of configurations that every model wins at every value of every choice.

    Choices that change no share are left out.
    """
    names, shares = [], []
    for choice, level, _, wins in result.levels:
        if choice not in result.silent:
            names.append(choice_text(choice, level))
            shares.append([wins[model] for model in result.models])
    note = TIES
    if result.silent:
        omitted = ", ".join(map(choice_name, result.silent))
        least = level_text(NOTICED)
        note = f"{TIES} Left out, because they change no share by {least}: {omitted}."
    return HeatMap(
        _levels_title(result),
        Axis("model", names=result.models),
        Axis("choice", names=tuple(names)),
        np.array(shares).reshape(len(names), len(result.models)),
        "share of configurations won",
        note=note,
    )


def _levels_title(result: Multiverse) -> str:
    """Return the choice that moves the share of a model furthest.

    Rare levels count less, because chance moves them more: changes are weighted by the root of n.
    """
    furthest = None
    largest = 0.0
    for choice, level, n, wins in result.levels:
        for model, share in wins.items():
            move = float(abs(share - result.wins[model]) * np.sqrt(n))
            if move > largest:
                largest, furthest = move, (choice, level, model, share)
    if furthest is None:
        return "No single choice changes which model has the best value"
    choice, level, model, share = furthest
    return (
        f"With {choice_text(choice, level)}, {short_name(model)} has the best value in "
        f"{percent_text(share)} of the configurations; in all, {percent_text(result.wins[model])}"
    )


def _counts(result: Multiverse) -> str:
    omitted = ""
    if result.n_undefined:
        omitted = f"; {result.n_undefined} left out, because a model has no value"
    return f"{len(result.each)} configurations of {result.n_possible:,} combinations{omitted}."


FIGURES: Mapping[str, Callable[[Multiverse], Figure]] = {
    "ranks": ranks,
    "curve": curve,
    "choices": choices,
    "levels": levels,
}
