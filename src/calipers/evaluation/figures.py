# SPDX-License-Identifier: Apache-2.0
"""Figures of an evaluation, a comparison and a ranking.

A result comes in, a figure as data (`show.figures`) goes out, with its finding as title. A title
names a leader or a worst group only where that was tested; else it says what is shown.
`evaluation.catalogue` names the figures; `Evaluation.figure`, the page and notebooks ask for them.

- Curves with pointwise bands: `froc`, and `precision_recall`. `points` computes the band of any
  curve, also those over thresholds (`evaluation.figures_errors`) and voxels
  (`evaluation.figures_maps`).
- Values of groups as dots and boxes: `groups_box`.
- Estimates side by side: `headline`, `classes`, `groups`, `rodeo`, `differences`, `blob` (ranks).
  They are forest plots; `classes` and `groups` become a heat map if there are too many models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers import registry
from calipers.arrays import F64
from calipers.errors import UsageError, did_you_mean
from calipers.evaluation.collect import certainty_of
from calipers.evaluation.result import Evaluation
from calipers.matching.matches import View
from calipers.metrics.base import Metric
from calipers.metrics.ranking import RATES, FrocCurve, PrecisionCurve
from calipers.results.comparison import (
    ColumnAverage,
    ColumnSummary,
    Comparison,
    Difference,
    Ranking,
)
from calipers.results.estimate import Estimate
from calipers.show.figures import (
    FEWEST_FOR_TAILS,
    Axis,
    Blob,
    BoxDots,
    Curves,
    Forest,
    ForestRow,
    HeatMap,
    Line,
    Mark,
)
from calipers.show.words import (
    intervals_by,
    level_text,
    percent_text,
    plural,
    reason_text,
    short_name,
    span_text,
    two_decimals,
    whole_text,
    why,
)
from calipers.statistics.estimates import Case, estimates

FROC_RATES = tuple(2.0 ** (k / 4) for k in range(-16, 17))  # exact at 1/8, 1/4, ..., 8
RATE_NAMES = ("1/8", "1/4", "1/2", "1", "2", "4", "8")  # of `RATES`
RECALLS = tuple(k / 100 for k in range(101))
# Bands do not use the interval method of the protocol: most others are too slow, or too narrow, for
# every point of a curve. With 400 replicates the standard error is known to 4 %.
BAND_METHOD = "bootse-t-logit"
BAND_REPLICATES = 400
MOST_ROWS = 40  # of a forest plot
MOST_SERIES = 4  # more models become a heat map
MOST_NAMED = 3  # models or classes in a title
MOST_HEAT_ROWS = 25


def hit_rule(view: View) -> str:
    """Return when a prediction is a hit: ``box-iou >= 0.5``, ``centre-distance <= 10``."""
    criterion = registry.resolve("criterion", view.criterion)
    if criterion.yes_no:
        return view.criterion
    if criterion.distance:
        sign = "<" if view.strict else "<="
    else:
        # Every pair has an overlap of at least 0, so a threshold of 0 means above 0.
        sign = ">" if view.strict or not view.threshold else ">="
    return f"{view.criterion} {sign} {view.threshold:g}"


def at_level(evaluation: Evaluation, *, is_curve: bool = False) -> str:
    """Return what the bands of a curve are, or whiskers; empty if there are none."""
    if not has_intervals(evaluation):
        return ""
    settings = evaluation.statistics
    how = intervals_by(settings["level"], settings["unit"], settings["n_units"])
    return f"Pointwise {how}." if is_curve else f"{how}."


def has_intervals(evaluation: Evaluation) -> bool:
    """Return whether any number has an interval: they may be off, or the units too few."""
    requested = evaluation.statistics["interval"] is not None
    return requested and any(math.isfinite(row.estimate.low) for row in evaluation.rows)


@dataclass(frozen=True, slots=True)
class CurvePoints:
    """One curve per model: estimates along x."""

    x: F64
    of_model: dict[str, list[Estimate]]

    def line(self, model: str, slot: int, **options: Any) -> Line:
        """Return the curve of a model with its band."""
        y, low, high = ends_of_estimates(self.of_model[model])
        return Line(model, self.x, y, low, high, slot=slot, **options)


def ends_of_estimates(estimates: Sequence[Estimate]) -> tuple[F64, F64, F64]:
    """Return the values, lower ends and upper ends of estimates."""
    value = np.array([e.value for e in estimates])
    low = np.array([e.low for e in estimates])
    high = np.array([e.high for e in estimates])
    return value, low, high


def points(evaluation: Evaluation, x: Sequence[float], cases: Mapping[str, Case]) -> CurvePoints:
    """Return the estimates of every model's metric; the names of the metric lie along x."""
    certainty = certainty_of(evaluation.protocol, ci=evaluation.ci)
    # The seed stays: bands come from the same draws as the intervals of the tables.
    certainty = replace(
        certainty, method=BAND_METHOD, replicates=min(certainty.replicates, BAND_REPLICATES)
    )
    units = evaluation.units
    tables = estimates(list(cases.values()), units, certainty)
    return CurvePoints(np.array(x), {model: table[0] for model, table in zip(cases, tables)})


def _cases(
    evaluation: Evaluation, make: Callable[[View], Metric[Any]], models: Sequence[str]
) -> dict[str, Case]:
    """Return the metric and the matches that the page shows, for some models."""
    matches = {model: evaluation.matches(model) for model in models}
    return {model: (make(table.views[0]), table) for model, table in matches.items()}


def froc(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return sensitivity against false alarms per image, all classes ranked together."""
    names = models_shown(evaluation, models)
    cases = _cases(evaluation, lambda view: FrocCurve.of(view, FROC_RATES), names)
    curves = points(evaluation, FROC_RATES, cases)
    at_one = FROC_RATES.index(1.0)
    marks = tuple(FROC_RATES.index(rate) for rate in RATES)
    lines = []
    for model in names:
        lines.append(curves.line(model, slot_of(evaluation, model), marks=marks, step=True))
    shares = {model: curves.of_model[model][at_one].value for model in names}
    return Curves(
        finding(shares, "At one false alarm per image", "of the references"),
        Axis(
            "false alarms per image",
            FROC_RATES[0],
            FROC_RATES[-1],
            log=True,
            ticks=RATES,
            names=RATE_NAMES,
        ),
        Axis("sensitivity", 0.0, 1.0),
        tuple(lines),
        levels=RATES,
        note=_note(evaluation),
    )


def precision_recall(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return interpolated precision against recall, mean over classes.

    The mean of the curve over recall is the average precision.
    """
    names = models_shown(evaluation, models)
    ties = evaluation.protocol.ties
    cases = _cases(evaluation, lambda view: PrecisionCurve.of(view, RECALLS, ties), names)
    curves = points(evaluation, RECALLS, cases)
    lines = tuple(curves.line(model, slot_of(evaluation, model)) for model in names)
    recalls = {model: reach(RECALLS, curves.of_model[model]) for model in names}
    label = "precision, mean over classes" if _of_classes(evaluation) else "precision"
    return Curves(
        precision_finding(recalls),
        Axis("recall", 0.0, 1.0),
        Axis(label, 0.0, 1.0),
        lines,
        levels=tuple(k / 10 for k in range(11)),
        note=_note(evaluation),
    )


def slot_of(evaluation: Evaluation, model: str) -> int:
    """Return the slot of a model in the theme: it looks the same in all figures."""
    return evaluation.models.index(model)


def models_shown(evaluation: Evaluation, models: Sequence[str] | None) -> tuple[str, ...]:
    """Return the models of a figure: those that were named, else all."""
    return evaluation.models if models is None else tuple(models)


def best_first(values: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return (value, model) of the models that have a value, the highest first."""
    defined = [(value, model) for model, value in values.items() if value == value]
    return sorted(defined, reverse=True)


def finding(shares: dict[str, float], where: str, of: str) -> str:
    """Return which model finds which share, the best first."""
    ranking = best_first(shares)
    if not ranking:
        return "There is nothing to find: no references"
    clauses = []
    for share, model in ranking[:MOST_NAMED]:
        clauses.append(f"{short_name(model)} finds {percent_text(share)}")
    return f"{where}, {', '.join(clauses)} {of}{_of_how_many(ranking)}"


def _of_how_many(ranking: Sequence[object]) -> str:
    """Return how many models there are where a title names only the first of them."""
    if len(ranking) <= MOST_NAMED:
        return ""
    return f" ({MOST_NAMED} of {len(ranking)} models)"


def reach(recalls: Sequence[float], estimates_along: list[Estimate]) -> float:
    """Return the largest recall at which the precision is one half or more.

    0 if the precision is below one half everywhere, NaN if it is defined nowhere.
    """
    if all(e.value != e.value for e in estimates_along):
        return float("nan")
    good = [recall for recall, e in zip(recalls, estimates_along) if e.value >= 0.5]
    return max(good, default=0.0)


def precision_finding(recalls: dict[str, float]) -> str:
    """Return up to which recall each model keeps a precision of one half."""
    ranking = best_first(recalls)
    if not ranking:
        return "There is nothing to find: no references"
    if ranking[0][0] == 0.0:
        return "No model keeps a precision of one half at any recall above 0"
    clauses = []
    for recall, model in ranking[:MOST_NAMED]:
        clauses.append(f"{percent_text(recall)} ({short_name(model)})")
    recalls_reached = ", ".join(clauses)
    more = _of_how_many(ranking)
    return f"Precision is one half or more up to a recall of {recalls_reached}{more}"


def _of_classes(evaluation: Evaluation) -> bool:
    """Return whether classes are evaluated one by one."""
    return evaluation.protocol.matching.within_class and len(evaluation.cohort.classes) > 1


def _note(evaluation: Evaluation) -> str:
    """Return what the bands are, and what a hit is."""
    rule = f"Hits at {hit_rule(evaluation.protocol.matching)}."
    return f"{at_level(evaluation, is_curve=True)} {rule}".strip()


def headline(evaluation: Evaluation) -> Forest:
    """Return the headline metrics that lie between 0 and 1, a row per metric."""
    rows = []
    for name in evaluation.headline:
        if _unit_bounds(evaluation, name):
            rows.append(_row(name, _estimates(evaluation, name, evaluation.models)))
    return Forest(
        _headline_in_words(evaluation, rows),
        _axis("value"),
        evaluation.models,
        tuple(rows),
        n="references",
        note=at_level(evaluation),
    )


def _estimates(evaluation: Evaluation, metric: str, models: Sequence[str]) -> list[Estimate]:
    """Return the pooled estimates of a metric, one per model."""
    return [evaluation.get(metric, model=model) for model in models]


def _headline_in_words(evaluation: Evaluation, rows: Sequence[ForestRow]) -> str:
    """Return the first headline metric of every model; for one model, its lowest and highest
    value.
    """
    if len(evaluation.models) == 1:
        return _range_of_values(rows)
    for row in rows:
        values = {}
        for model, mark in zip(evaluation.models, row.marks):
            values[model] = mark.value
        ranking = best_first(values)
        # A metric that no model has a value of says nothing; the title takes the next one.
        if not ranking:
            continue
        clauses = []
        for value, model in ranking[:MOST_NAMED]:
            clauses.append(f"{two_decimals(value)} ({short_name(model)})")
        return f"{row.name} is {', '.join(clauses)}{_of_how_many(ranking)}"
    return "No headline metric has a value"


def _range_of_values(rows: Sequence[ForestRow]) -> str:
    """Return the lowest and the highest value of the first model."""
    pairs = [(row.marks[0].value, row.name) for row in rows]
    values = sorted(pair for pair in pairs if not math.isnan(pair[0]))
    if not values:
        return "No headline metric has a value"
    if len(values) == 1:
        return "The headline metric"
    first, last = [f"{two_decimals(value)} ({name})" for value, name in (values[0], values[-1])]
    return f"From {first} to {last}"


def rodeo(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Forest:
    """Return average precision beside RoDeO and its parts: place, shape and class."""
    names = models_shown(evaluation, models)
    plans = evaluation.protocol.metrics
    ranking = [plan.name for plan in plans if plan.kind == "average-precision"][:2]
    parts = [plan.name for plan in plans if plan.kind == "rodeo"]
    if not parts:
        raise UsageError("this protocol has no RoDeO; use the preset rodeo or overview")
    rows = [_row(metric, _estimates(evaluation, metric, names)) for metric in (*ranking, *parts)]
    return Forest(
        _parts_in_words(evaluation, names),
        _axis("score"),
        names,
        tuple(rows),
        n="references",
        slots=tuple(slot_of(evaluation, model) for model in names),
        note=at_level(evaluation),
    )


def classes(
    evaluation: Evaluation, *, metric: str | None = None, most: int = MOST_ROWS
) -> Forest | HeatMap:
    """Return one metric per class, pooled first; of many classes, those with most references."""
    metric = metric or _first_per_class(evaluation)
    labels = evaluation.cohort.classes
    table: dict[str, list[Estimate]] = {}
    for label in labels:
        table[label] = [evaluation.get(metric, model=m, label=label) for m in evaluation.models]
    order = sorted(labels, key=lambda label: -table[label][0].n_references)
    order = order[: _room(evaluation, metric, most)]
    pooled = _estimates(evaluation, metric, evaluation.models)
    rows = [_row("all classes", pooled, strong=True)]
    rows += [_row(label, table[label]) for label in order]
    among = ""
    if len(labels) > len(order):
        among = f"The {len(order)} classes with most references of {len(labels)}"
    in_order = {label: table[label] for label in order}
    title = _ranges(metric, in_order, evaluation.models, among=among)
    return _side_by_side(evaluation, metric, rows, title, among)


def groups(
    evaluation: Evaluation,
    *,
    by: str | None = None,
    metric: str | None = None,
    most: int = MOST_ROWS,
) -> Forest | HeatMap:
    """Return one metric per group of a ``by``, pooled first."""
    groupings = {grouping.by: grouping for grouping in evaluation.groupings}
    if not groupings:
        raise UsageError("this evaluation has no groups: evaluate with by=, or use ev.by(...)")
    if by is None:
        by = next(iter(groupings))
    if by not in groupings:
        raise UsageError(f"no grouping {by!r}; {did_you_mean(by, groupings)}")
    grouping = groupings[by]
    if not metric:
        metrics_of_groups = {row.metric for row in grouping.rows}
        metric = next(name for name in evaluation.headline if name in metrics_of_groups)
    table = grouping.table(metric, None, evaluation.models)
    groups_shown = dict(list(table.items())[: _room(evaluation, metric, most)])
    pooled = _estimates(evaluation, metric, evaluation.models)
    all_images = _row("all images", pooled, strong=True)
    rows = [replace(all_images, n=f"{pooled[0].n_units} / {pooled[0].n_references}")]
    rows += [_row(name, estimates, units=True) for name, estimates in groups_shown.items()]
    among = ""
    if len(table) > len(groups_shown):
        among = f"The first {len(groups_shown)} of {len(table)} groups"
    title = _ranges(metric, groups_shown, evaluation.models, among=among)
    n = f"{plural(pooled[0].unit)} / references"
    return _side_by_side(evaluation, metric, rows, title, among, n=n, what="group")


def groups_box(
    evaluation: Evaluation,
    *,
    over: str | None = None,
    by: str | None = None,
    metrics: Sequence[str] | None = None,
) -> BoxDots:
    """Return the values of the groups of a column as dots, with the box of their quartiles.

    A box per headline metric and model; with further columns in the grouping, such as sizes, a box
    per value of these for the first of the metrics.

    Parameters
    ----------
    over
        The column, such as ``centre``; the first one of the grouping that is no size if left out.
    by
        The grouping; the first one if left out.
    metrics
        Metrics between 0 and 1; those of the headline if left out.
    """
    summary = evaluation.summary(over or _first_column(evaluation, by), by=by)
    names = metrics or [name for name in evaluation.headline if _unit_bounds(evaluation, name)]
    crossed = any(average.group for average in summary.averages)
    if crossed:
        # A box per value of the further columns leaves room for one metric.
        names = names[:1]
    averages = _averages_in_order(summary, names)
    if not averages:
        raise UsageError("no metric between 0 and 1 has values per group; name some as metrics=")
    group_names = tuple(group.name for group in summary.groups)
    n_groups = f"{len(group_names)} {plural(summary.over)}"
    title = f"No metric has a value for any {summary.over}"
    words, values, slots = [], [], []
    for average in averages:
        parts = [average.metric]
        if crossed:
            parts = list(average.group.values())
        if len(evaluation.models) > 1:
            parts.append(short_name(average.model))
        words.append(", ".join(parts))
        values.append(np.array(average.values))
        slots.append(slot_of(evaluation, average.model))
    for average, name in zip(averages, words):
        if average.n_defined:
            lowest, highest = two_decimals(average.lowest), two_decimals(average.highest)
            title = f"{name}: from {lowest} to {highest} over {n_groups}"
            break
    if crossed:
        title = f"{names[0]}, {title}"
    label = names[0] if len(names) == 1 else "value"
    whiskers = "5 % and 95 % (the range if there are fewer than 20)"
    if len(group_names) < FEWEST_FOR_TAILS:
        whiskers = "the range"
    return BoxDots(
        title,
        _axis(label),
        tuple(words),
        tuple(values),
        slots=tuple(slots),
        points=(group_names,) * len(averages),
        note=(
            f"A dot is one of {n_groups}; boxes are quartiles, whiskers {whiskers}, of the values "
            "of the groups, whose own uncertainty is not shown."
        ),
    )


def _averages_in_order(summary: ColumnSummary, metrics: Sequence[str]) -> list[ColumnAverage]:
    """Return the averages of some metrics; those that are to be compared stand beside each other:
    the models of one metric, or of one value of the further columns.
    """
    averages = [average for average in summary.averages if average.metric in metrics]
    columns = list(dict.fromkeys(tuple(average.group.values()) for average in averages))

    def place(average: ColumnAverage) -> tuple[int, int]:
        return metrics.index(average.metric), columns.index(tuple(average.group.values()))

    return sorted(averages, key=place)


def _first_column(evaluation: Evaluation, by: str | None) -> str:
    """Return the first column of images of a grouping."""
    for grouping in evaluation.groupings:
        if by in (None, grouping.by) and grouping.first_column is not None:
            return grouping.first_column
    raise UsageError(
        "this evaluation has no groups of images: evaluate with by=, or use ev.by(...)"
    )


def differences(comparison: Comparison, *, most: int | None = None) -> Forest:
    """Return the differences with their intervals, or the first ``most``; no difference is 0."""
    series, rows = _difference_rows(comparison, most)
    marks: list[Mark] = []
    for row in rows:
        marks += row.marks
    longest = 0.0
    for mark in marks:
        for end in (mark.value, mark.low, mark.high):
            if math.isfinite(end):
                longest = max(longest, abs(end))
    limit = longest * 1.05 or 1.0
    return Forest(
        _differences_title(comparison),
        Axis("difference", -limit, limit),
        series,
        rows,
        n=plural(comparison.unit),
        reference=0.0,
        note=_differences_note(comparison, marks),
    )


def _differences_title(comparison: Comparison) -> str:
    significant = [d for d in comparison.rows if d.verdict in ("a_better", "b_better")]
    n = len(comparison.rows) - comparison.untested
    differences = "tested differences" if comparison.untested else "differences"
    return f"{len(significant)} of {n} {differences} are more than chance can explain"


def _differences_note(comparison: Comparison, marks: Sequence[Mark]) -> str:
    intervals = "No intervals"
    if any(math.isfinite(mark.low) for mark in marks):
        level = level_text(comparison.level)
        intervals = (
            f"{level} confidence intervals of paired differences, not adjusted for multiple "
            "comparisons"
        )
    tests = "tests not corrected"
    if comparison.correction != "none":
        tests = f"tests corrected for {comparison.family} ({comparison.correction})"
    omitted = ""
    if len(marks) < len(comparison.rows):
        omitted = f" The first {len(marks)} of {len(comparison.rows)} differences."
    return f"{intervals}; {tests}.{omitted}"


def _difference_rows(
    comparison: Comparison, most: int | None
) -> tuple[tuple[str, ...], tuple[ForestRow, ...]]:
    """Return series and rows: a row per metric and a series per pair of models.

    If there are too many pairs for that, there is one series, and a row per difference.
    """
    pairs: dict[tuple[str, str], str] = {}  # models -> how their difference is written
    table: dict[str, dict[tuple[str, str], Difference]] = {}
    for d in comparison.rows:
        metric = d.metric if d.label is None else f"{d.metric} of {d.label}"
        pairs[d.model_a, d.model_b] = f"{short_name(d.model_a)} − {short_name(d.model_b)}"
        table.setdefault(metric, {})[d.model_a, d.model_b] = d
    units = str(comparison.n_units)
    if most is None:
        most = len(comparison.rows)
    rows: list[ForestRow] = []
    if len(pairs) <= MOST_SERIES:
        for metric, row in list(table.items())[: max(1, most // len(pairs))]:
            rows.append(ForestRow(metric, units, tuple(_mark(row[p].estimate) for p in pairs)))
        return tuple(pairs.values()), tuple(rows)
    series = "difference"
    leaders = {a for a, _ in pairs}
    if len(leaders) == 1:
        # One model against all others needs naming once only.
        series = f"{short_name(leaders.pop())} − other"
        pairs = {(a, b): short_name(b) for a, b in pairs}
    for metric, row in table.items():
        for pair, d in row.items():
            rows.append(ForestRow(f"{metric}: {pairs[pair]}", units, (_mark(d.estimate),)))
    return (series,), tuple(rows[:most])


def blob(ranking: Ranking, models: Sequence[str] = ()) -> Blob:
    """Return how often each model had each rank; ``models`` in display order set their colours."""
    places, units = ranking.places, f"{ranking.n_units} {plural(ranking.unit)}"
    undefined = (math.nan,) * len(places)
    shares = np.array([place.shares or undefined for place in places], np.float64)
    slots: tuple[int, ...] = ()
    if models:
        slots = tuple(models.index(place.model) for place in places)
    return Blob(
        _ranks_in_words(ranking),
        tuple(place.model for place in places),
        shares.reshape(len(places), -1),
        tuple(place.median for place in places),
        tuple((place.low, place.high) for place in places),
        slots=slots,
        note=(
            f"{ranking.replicates - ranking.undefined} bootstrap replicates of {units}. Shares of "
            "replicates are not probabilities of being better."
        ),
    )


def _ranks_in_words(ranking: Ranking) -> str:
    """Return which ranks the models had, for up to three models."""
    where = ranking.metric if ranking.label is None else f"{ranking.metric} of {ranking.label}"
    if ranking.reason is not None:
        return f"Order by {where}; its stability is unknown ({reason_text(ranking.reason)})"
    clauses = []
    for place in ranking.places[:MOST_NAMED]:
        ranks = whole_text(place.low)
        if place.high > place.low:
            ranks += f" to {whole_text(place.high)}"
        clauses.append(f"{short_name(place.model)} {ranks}")
    more = _of_how_many(ranking.places)
    level = level_text(ranking.level)
    return f"Ranks by {where} in {level} of the replicates: {', '.join(clauses)}{more}"


def _first_per_class(evaluation: Evaluation) -> str:
    names = [name for name in evaluation.headline if name in evaluation.metrics_per_class]
    names += list(evaluation.metrics_per_class)
    if not names:
        raise UsageError(
            "no metric of this protocol has values per class: its matching ignores classes"
        )
    return names[0]


def _side_by_side(
    evaluation: Evaluation,
    metric: str,
    rows: Sequence[ForestRow],
    title: str,
    among: str,
    n: str = "references",
    what: str = "class",
) -> Forest | HeatMap:
    """Return a forest plot, or a heat map if there are too many models for it."""
    remark = evaluation.protocol.remark(metric)
    label = f"{metric} ({remark})" if remark else metric
    omitted = f"{among}." if among else ""
    if not _is_heat_map(evaluation, metric):
        note = f"{at_level(evaluation)} {omitted}".strip()
        axis = _axis(label) if _unit_bounds(evaluation, metric) else Axis(label, 0.0)
        slots = tuple(slot_of(evaluation, model) for model in evaluation.models)
        return Forest(title, axis, evaluation.models, tuple(rows), n=n, slots=slots, note=note)
    values = np.empty((len(rows), len(evaluation.models)))
    for r, row in enumerate(rows):
        values[r] = [mark.value for mark in row.marks]
    names = tuple(f"{row.name} (n = {row.n})" for row in rows)
    models = Axis("model", names=evaluation.models)
    return HeatMap(title, models, Axis(what, names=names), values, label, note=omitted)


def _is_heat_map(evaluation: Evaluation, metric: str) -> bool:
    """Return whether there are too many models for a forest plot."""
    return len(evaluation.models) > MOST_SERIES and _unit_bounds(evaluation, metric)


def _room(evaluation: Evaluation, metric: str, most: int) -> int:
    """Return how many rows are drawn: fewer as colours, which are large."""
    return min(most, MOST_HEAT_ROWS) if _is_heat_map(evaluation, metric) else most


def _row(
    name: str, estimates: Sequence[Estimate], *, strong: bool = False, units: bool = False
) -> ForestRow:
    e = estimates[0]
    n = f"{e.n_units} / {e.n_references}" if units else str(e.n_references)
    return ForestRow(name, n, tuple(_mark(estimate) for estimate in estimates), strong)


def _mark(e: Estimate) -> Mark:
    return Mark(e.value, e.low, e.high, why(e))


def _axis(label: str) -> Axis:
    return Axis(label, 0.0, 1.0)


def _unit_bounds(evaluation: Evaluation, metric: str) -> bool:
    """Return whether a metric lies between 0 and 1 by its nature."""
    for kind in evaluation.protocol.compile():
        if metric in kind.facts.names:
            return kind.facts.bounds == (0.0, 1.0)
    return False


def _ranges(
    metric: str, table: dict[str, list[Estimate]], models: Sequence[str], *, among: str = ""
) -> str:
    """Return from where to where the values of every model reach.

    ``AP ranges from 0.32 to 0.81 for A, from 0.40 to 0.92 for B``. Which row is lowest is to be
    seen and was not tested. ``among`` says which rows these are if some are left out.
    """
    models_of: dict[str, list[str]] = {}
    several = False
    for k, model in enumerate(models):
        values = [row[k].value for row in table.values() if not math.isnan(row[k].value)]
        several = several or len(values) > 1
        if len(set(values)) > 1:
            span = f"from {span_text(min(values), max(values))}"
            models_of.setdefault(span, []).append(short_name(model))
    if not models_of:
        return f"{metric} does not vary" if several else metric
    clauses = []
    for span, names in list(models_of.items())[:MOST_NAMED]:
        clauses.append(f"{span} for {_join(names)}")
    where = f"{among}: " if among else ""
    return f"{where}{metric} ranges {', '.join(clauses)}"


def _join(names: Sequence[str]) -> str:
    text = ", ".join(names[:MOST_NAMED])
    return text if len(names) <= MOST_NAMED else f"{text} and {len(names) - MOST_NAMED} more"


def _parts_in_words(evaluation: Evaluation, models: Sequence[str]) -> str:
    """Return the parts of RoDeO of every model, for up to three models."""
    plans = [plan for plan in evaluation.protocol.metrics if plan.kind == "rodeo"]
    metric_of = {plan.options.get("part", "total"): plan.name for plan in plans}
    words = {"localization": "place", "shape": "shape", "classification": "class"}
    clauses = []
    for model in models[:MOST_NAMED]:
        values = []
        for part, word in words.items():
            if part in metric_of:
                value = evaluation.get(metric_of[part], model=model).value
                if not math.isnan(value):
                    values.append(f"{word} {two_decimals(value)}")
        if len(values) > 1:
            clauses.append(f"{short_name(model)}: {', '.join(values)}")
    return "; ".join(clauses) or "RoDeO and its parts"
