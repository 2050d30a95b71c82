# SPDX-License-Identifier: Apache-2.0
"""Estimates side by side: headline metrics, classes, groups, RoDeO's parts, differences, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.evaluation import Evaluation
from calipers.findings import lower_is_better
from calipers.plots.curves import slot_of
from calipers.plots.figures import Axis, Blob, Forest, ForestRow, HeatMap, Mark
from calipers.plots.words import at_level, short_name, why
from calipers.results import Estimate
from calipers.results.comparison import Comparison
from calipers.results.difference import Difference
from calipers.results.ranking import Ranking
from calipers.statistics.weights import plural

MOST_ROWS = 40
MOST_SERIES = 4  # more models become a heat map
MOST_NAMED = 3
MOST_HEAT_ROWS = 25


def headline(evaluation: Evaluation) -> Forest:
    """Return the headline metrics that lie between 0 and 1, a row per metric."""
    names = [name for name in headline_of(evaluation) if _unit_bounds(evaluation, name)]
    rows = [
        _row(name, [evaluation.get(name, model=model) for model in evaluation.models])
        for name in names
    ]
    title = _most_first_places(evaluation, rows)
    return Forest(
        title,
        _axis("value"),
        evaluation.models,
        tuple(rows),
        n="references",
        note=at_level(evaluation),
    )


def _most_first_places(evaluation: Evaluation, rows: Sequence[ForestRow]) -> str:
    """Return who has the best value most often; of one model the lowest and the highest value."""
    known = [
        (row.name, [mark.value for mark in row.marks])
        for row in rows
        if not math.isnan(row.marks[0].value)
    ]
    if len(evaluation.models) == 1:
        values = sorted((value[0], name) for name, value in known)
        if len(values) < 2:
            return "The headline metric" if values else "No headline metric has a value"
        return f"From {values[0][0]:.2f} ({values[0][1]}) to {values[-1][0]:.2f} ({values[-1][1]})"
    lower = lower_is_better(evaluation.protocol)
    firsts = dict.fromkeys(evaluation.models, 0)
    for row in rows:
        values_of = {
            m: mark.value
            for m, mark in zip(evaluation.models, row.marks)
            if mark.value == mark.value
        }
        best = (min if row.name in lower else max)(values_of.values(), default=math.nan)
        for model, value in values_of.items():
            firsts[model] += value == best
    most = max(firsts.values())
    if not most:
        return "No headline metric has a value"
    who = [short_name(model) for model, n in firsts.items() if n == most]
    return f"{_listed(who)} {'has' if len(who) == 1 else 'each have'} the best value in {most} of {len(rows)} metrics"


def rodeo(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Forest:
    """Return average precision beside RoDeO and its parts: place, shape and class."""
    chosen = evaluation.models if models is None else tuple(models)
    plans = evaluation.protocol.metrics
    ranking = [plan.name for plan in plans if plan.kind == "average-precision"][:2]
    parts = [plan.name for plan in plans if plan.kind == "rodeo"]
    if not parts:
        raise UsageError("this protocol has no RoDeO; use the preset rodeo or overview")
    rows = [
        _row(name, [evaluation.get(name, model=m) for m in chosen]) for name in (*ranking, *parts)
    ]
    title, slots = (
        _why_in_words(evaluation, chosen),
        tuple(slot_of(evaluation, model) for model in chosen),
    )
    note = at_level(evaluation)
    return Forest(
        title, _axis("score"), chosen, tuple(rows), n="references", slots=slots, note=note
    )


def classes(
    evaluation: Evaluation, *, metric: str | None = None, most: int = MOST_ROWS
) -> Forest | HeatMap:
    """Return one metric per class, pooled first; the classes with most references if there are
    many.
    """
    metric = metric or _first_per_class(evaluation)
    labels, lower = evaluation.cohort.classes, metric in lower_is_better(evaluation.protocol)
    table = {
        label: [evaluation.get(metric, model=m, label=label) for m in evaluation.models]
        for label in labels
    }
    order = sorted(labels, key=lambda label: -table[label][0].n_references)[
        : _room(evaluation, metric, most)
    ]
    pooled = [evaluation.get(metric, model=model) for model in evaluation.models]
    rows = [
        _row("all classes", pooled, strong=True),
        *(_row(label, table[label]) for label in order),
    ]
    left = (
        f"The {len(order)} classes with most references of {len(labels)}"
        if len(labels) > len(order)
        else ""
    )
    title = _weakest(
        metric, {label: table[label] for label in order}, evaluation.models, lower=lower, among=left
    )
    return _side_by_side(evaluation, metric, rows, title, left)


def groups(
    evaluation: Evaluation,
    *,
    by: str | None = None,
    metric: str | None = None,
    most: int = MOST_ROWS,
) -> Forest | HeatMap:
    """Return one metric per group of a ``by``, pooled first."""
    known = {grouping.by: grouping for grouping in evaluation.groupings}
    if not known:
        raise UsageError("this evaluation has no groups: evaluate with by=, or use ev.by(...)")
    if by is not None and by not in known:
        raise UsageError(f"no grouping {by!r}; {did_you_mean(by, known)}")
    grouping = known[by] if by is not None else next(iter(known.values()))
    metric = metric or next(
        name for name in headline_of(evaluation) if any(r.metric == name for r in grouping.rows)
    )
    table, lower = (
        grouping.table(metric, None, evaluation.models),
        metric in lower_is_better(evaluation.protocol),
    )
    shown = dict(list(table.items())[: _room(evaluation, metric, most)])
    pooled = [evaluation.get(metric, model=model) for model in evaluation.models]
    rows = [
        _row("all images", pooled, strong=True),
        *(_row(name, found, units=True) for name, found in shown.items()),
    ]
    left = f"The first {len(shown)} of {len(table)} groups" if len(table) > len(shown) else ""
    title = _weakest(metric, shown, evaluation.models, lower=lower, among=left)
    unit = plural(pooled[0].unit)
    rows[0] = replace(rows[0], n=f"{pooled[0].n_units} / {pooled[0].n_references}")
    return _side_by_side(
        evaluation, metric, rows, title, left, n=f"{unit} / references", what="group"
    )


def differences(comparison: Comparison, *, most: int | None = None) -> Forest:
    """Return the differences with their intervals, or the first ``most`` of them; none is 0."""
    series, rows = _difference_rows(comparison, most)
    drawn = [mark for row in rows for mark in row.marks]
    longest = max(
        (abs(v) for m in drawn for v in (m.value, m.low, m.high) if math.isfinite(v)), default=0.0
    )
    shown = [d for d in comparison.rows if d.verdict in ("a_better", "b_better")]
    tested = len(comparison.rows) - comparison.untested
    title = f"{len(shown)} of {tested} {'' if not comparison.untested else 'tested '}differences are more than chance"
    limit = longest * 1.05 or 1.0
    tests = f"tests corrected for {comparison.family} ({comparison.correction})"
    left = (
        f" The first {len(drawn)} of {len(comparison.rows)} differences."
        if len(drawn) < len(comparison.rows)
        else ""
    )
    manner = tests if comparison.correction != "none" else "tests not corrected"
    known = any(math.isfinite(mark.low) for mark in drawn)
    what = (
        f"{100 * comparison.level:g} % intervals of paired differences, each by itself"
        if known
        else "No intervals"
    )
    return Forest(
        title,
        Axis("difference", -limit, limit),
        series,
        rows,
        n=plural(comparison.unit),
        reference=0.0,
        note=f"{what}; {manner}.{left}",
    )


def _difference_rows(
    comparison: Comparison, most: int | None
) -> tuple[tuple[str, ...], tuple[ForestRow, ...]]:
    """Return series and rows: a row per metric and a series per pair of models, or a row per
    difference of many.
    """
    pairs = dict.fromkeys((d.model_a, d.model_b) for d in comparison.rows)
    table: dict[str, dict[tuple[str, str], Difference]] = {}
    for d in comparison.rows:
        table.setdefault(d.metric if d.label is None else f"{d.metric} of {d.label}", {})[
            d.model_a, d.model_b
        ] = d
    units, most = str(comparison.n_units), len(comparison.rows) if most is None else most
    if len(pairs) <= MOST_SERIES:
        names = tuple(f"{short_name(a)} − {short_name(b)}" for a, b in pairs)
        shown = list(table.items())[: max(1, most // len(pairs))]
        return names, tuple(
            ForestRow(w, units, tuple(_mark(row[p].estimate) for p in pairs)) for w, row in shown
        )
    leader = {a for a, _ in pairs}  # one against all others needs naming once only
    every = [(w, pair, d) for w, row in table.items() for pair, d in row.items()][:most]
    alone = len(leader) == 1
    rows = [
        ForestRow(
            f"{w}: {short_name(b)}" if alone else f"{w}: {short_name(a)} − {short_name(b)}",
            units,
            (_mark(d.estimate),),
        )
        for w, (a, b), d in every
    ]
    return (f"{short_name(leader.pop())} − other" if alone else "difference",), tuple(rows)


def blob(ranking: Ranking, models: Sequence[str] = ()) -> Blob:
    """Return how often each model had each rank; ``models`` in display order give them their
    colours.
    """
    places, units = ranking.places, f"{ranking.n_units} {plural(ranking.unit)}"
    shares = np.array([place.shares or (math.nan,) * len(places) for place in places], np.float64)
    return Blob(
        ranking.sentence().rstrip("."),
        tuple(place.model for place in places),
        shares.reshape(len(places), -1),
        tuple(place.median for place in places),
        tuple((place.low, place.high) for place in places),
        slots=tuple(models.index(place.model) for place in places) if models else (),
        note=f"{ranking.replicates - ranking.undefined} bootstrap replicates of {units}.",
    )


def headline_of(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the metrics that come first."""
    return evaluation.protocol.headline or evaluation.metrics[:4]


def _first_per_class(evaluation: Evaluation) -> str:
    found = [name for name in headline_of(evaluation) if name in evaluation.metrics_per_class]
    found += list(evaluation.metrics_per_class)
    if not found:
        raise UsageError(
            "no metric of this protocol has values per class: its matching ignores classes"
        )
    return found[0]


def _side_by_side(
    evaluation: Evaluation,
    metric: str,
    rows: Sequence[ForestRow],
    title: str,
    left: str,
    n: str = "references",
    what: str = "class",
) -> Forest | HeatMap:
    """Return a forest plot, or colours if there are too many models for it."""
    label = metric + (
        " (lower is better)" if metric in lower_is_better(evaluation.protocol) else ""
    )
    left = f"{left}." if left else ""
    if not _coloured(evaluation, metric):
        note = f"{at_level(evaluation)} {left}".strip()
        axis = _axis(label) if _unit_bounds(evaluation, metric) else Axis(label, 0.0)
        slots = tuple(slot_of(evaluation, model) for model in evaluation.models)
        return Forest(title, axis, evaluation.models, tuple(rows), n=n, slots=slots, note=note)
    values = np.array([[mark.value for mark in row.marks] for row in rows], np.float64)
    names = tuple(f"{row.name} (n = {row.n})" for row in rows)
    return HeatMap(
        title,
        Axis("model", names=evaluation.models),
        Axis(what, names=names),
        values,
        label,
        note=left,
    )


def _coloured(evaluation: Evaluation, metric: str) -> bool:
    """Return whether there are too many models for a forest plot."""
    return len(evaluation.models) > MOST_SERIES and _unit_bounds(evaluation, metric)


def _room(evaluation: Evaluation, metric: str, most: int) -> int:
    """Return how many rows are drawn: fewer as colours, which are large."""
    return min(most, MOST_HEAT_ROWS) if _coloured(evaluation, metric) else most


def _row(
    name: str, estimates: Sequence[Estimate], *, strong: bool = False, units: bool = False
) -> ForestRow:
    e = estimates[0]
    n = f"{e.n_units} / {e.n_references}" if units else str(e.n_references)
    return ForestRow(name, n, tuple(_mark(found) for found in estimates), strong)


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


def _weakest(
    metric: str,
    table: dict[str, list[Estimate]],
    models: Sequence[str],
    *,
    lower: bool,
    among: str = "",
) -> str:
    """Return where every model is worst: ``AP is worst in Summit for A (0.32), in Valley for B
    (0.92)``.

    ``among`` says what the rows are if they are not all: the worst place of all may be one that is
    not shown.
    """
    at: dict[str, list[str]] = {}
    for k, model in enumerate(models):
        known = {name: row[k].value for name, row in table.items() if row[k].value == row[k].value}
        if len(set(known.values())) > 1:
            value = (max if lower else min)(known.values())
            at.setdefault(_places([name for name in known if known[name] == value]), []).append(
                f"{short_name(model)} ({value:.2f})"
            )
    if not at:
        several = any(
            sum(row[k].value == row[k].value for row in table.values()) > 1
            for k in range(len(models))
        )
        return f"{metric} does not vary" if several else metric
    places = [f"in {name} for {_listed(who)}" for name, who in list(at.items())[:MOST_NAMED]]
    where = f"{among}: " if among else ""
    return f"{where}{metric} is worst {', '.join(places)}"


def _places(names: Sequence[str]) -> str:
    """Return the places that share the worst value: the first, and how many more."""
    return (
        short_name(names[0])
        if len(names) == 1
        else f"{short_name(names[0])} and {len(names) - 1} more"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"


def _why_in_words(evaluation: Evaluation, models: Sequence[str]) -> str:
    """Return the weakest of RoDeO's parts of every model, for up to three of them."""
    parts = {
        plan.options.get("part", "total"): plan.name
        for plan in evaluation.protocol.metrics
        if plan.kind == "rodeo"
    }
    words = {"localization": "place", "shape": "shape", "classification": "class"}
    said = []
    for model in models[:MOST_NAMED]:
        values = {
            words[part]: evaluation.get(parts[part], model=model).value
            for part in words
            if part in parts
        }
        known = {word: value for word, value in values.items() if value == value}
        if len(known) > 1:
            worst = min(known, key=known.__getitem__)
            said.append(f"{short_name(model)} loses most by {worst} ({known[worst]:.2f})")
    return "; ".join(said) or "RoDeO and its parts"
