# SPDX-License-Identifier: Apache-2.0
"""Figures of a fusion: members and ensemble, what each member adds, precision and recall, tuning.

A `FusionDocument` or a `FusionTuning` comes in, a figure of `calipers.show.figures` goes out; the
page, notebooks and matplotlib show the same ones. A title says what was tested: no model is called
better because its value is higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from calipers.errors import UsageError
from calipers.evaluation import figures as of_evaluation
from calipers.fusion.result import FusionDocument, FusionEvaluation, FusionTuning
from calipers.results.comparison import Difference
from calipers.results.estimate import Estimate, Row
from calipers.show.figures import Axis, Curves, Figure, Forest, ForestRow, Mark
from calipers.show.words import (
    intervals_by,
    join,
    level_text,
    plural,
    short_name,
    signed_text,
    two_decimals,
    why,
)

MOST_BANDS = 4  # curves whose bands can still be told apart


def ensemble(result: FusionDocument, *, metric: str | None = None) -> Forest:
    """Return the values of members and ensemble, a row per model."""
    evaluation = _evaluation(result)
    name = _metric(evaluation, metric)
    rows = [row for row in evaluation.rows if row.metric == name]
    members = [row.estimate.value for row in rows if row.model != evaluation.ensemble]
    whole = [row.estimate.value for row in rows if row.model == evaluation.ensemble]
    title = f"{name} is {_span(members)} for the members and {_span(whole)} for the ensemble"
    return _forest(title, name, rows, strong=evaluation.ensemble, note=_intervals(evaluation))


def differences(result: FusionDocument, *, metric: str | None = None) -> Forest:
    """Return the ensemble minus each member, paired."""
    evaluation = _evaluation(result)
    name = _metric(evaluation, metric)
    rows = [row for row in evaluation.members if row.metric == name]
    label = f"{short_name(evaluation.ensemble)} − member, {name}"
    title = _shown_title(rows, "differences from a member are more than chance can explain")
    return _paired(title, label, {row.model_b: row for row in rows}, evaluation)


def contributions(result: FusionDocument, *, metric: str | None = None) -> Forest:
    """Return what the ensemble loses without each member, paired."""
    evaluation = _evaluation(result)
    name = _metric(evaluation, metric)
    if not evaluation.without:
        raise UsageError("an ensemble of one member has no contributions")
    rows = {member: evaluation.contribution(member, name) for member in evaluation.without}
    title = _shown_title(
        list(rows.values()), "contributions of a member are more than chance can explain"
    )
    return _paired(title, f"contribution to {name}", rows, evaluation)


def precision_recall(result: FusionDocument) -> Curves:
    """Return precision against recall of members and ensemble."""
    evaluation = _evaluation(result)
    models = list(dict.fromkeys(row.model for row in evaluation.rows))
    curves = of_evaluation.precision_recall(evaluation.evaluation, models=models)
    # The ensemble is what the figure is about: it has the first colour and a whole line. The bands
    # of many members would hide each other.
    lines, slot, many = [], 1, len(models) > MOST_BANDS
    for line in curves.lines:
        if line.name == evaluation.ensemble:
            lines.append(replace(line, slot=0))
            continue
        band = (None, None) if many else (line.low, line.high)
        lines.append(replace(line, slot=slot, low=band[0], high=band[1]))
        slot += 1
    has_band = many and curves.lines[0].low is not None
    note = f"The band is that of the ensemble. {curves.note}" if has_band else curves.note
    return replace(curves, lines=tuple(lines), note=note)


def tuning(result: FusionTuning) -> Forest:
    """Return the recipe as given, tuned on the same images, and tuned on held-out folds."""
    gap = result.optimistic.value - result.held_out.value
    title = (
        f"{result.metric} is {two_decimals(result.held_out.value)} on held-out folds, and "
        f"{two_decimals(result.optimistic.value)} on the images that chose the parameters"
    )
    note = (
        f"{intervals_by(result.held_out.level, result.unit, result.n_units)}. The difference of "
        f"the two, {signed_text(gap)}, is optimism: only the held-out value says what to "
        "expect on new data."
    )
    return _forest(title, result.metric, result.rows, strong=result.rows[-1].model, note=note)


def available(result: FusionDocument) -> dict[str, Callable[..., Figure]]:
    """Return the figures that a result has."""
    figures: dict[str, Callable[..., Figure]] = {}
    if result.evaluation is not None:
        figures |= {"ensemble": ensemble, "differences": differences, "pr": precision_recall}
        if result.evaluation.without:
            figures["contributions"] = contributions
    if result.tuning is not None:
        figures["tuning"] = lambda document: tuning(document.tuning)
    return figures


TUNING_FIGURES: Mapping[str, Callable[..., Figure]] = {"tuning": tuning}


def _evaluation(result: FusionDocument) -> FusionEvaluation:
    if result.evaluation is None:
        raise UsageError("this fusion was not evaluated: use --evaluate")
    return result.evaluation


def _metric(evaluation: FusionEvaluation, metric: str | None) -> str:
    if metric is None:
        return evaluation.metrics[0]
    if metric not in evaluation.metrics:
        raise UsageError(f"{metric!r} was not evaluated, but {join(evaluation.metrics)}")
    return metric


def _forest(title: str, label: str, rows: Sequence[Row], *, strong: str, note: str) -> Forest:
    lines = []
    for row in rows:
        n = f"{row.estimate.n_units} / {row.estimate.n_references}"
        lines.append(ForestRow(row.model, n, (_mark(row.estimate),), strong=row.model == strong))
    units = plural(rows[0].estimate.unit)
    values = [row.estimate for row in rows]
    axis = Axis(label, 0.0, 1.0) if _is_share(values) else Axis(label, 0.0)
    return Forest(title, axis, (label,), tuple(lines), n=f"{units} / references", note=note)


def _is_share(estimates: Sequence[Estimate]) -> bool:
    ends = [end for e in estimates for end in (e.value, e.high) if math.isfinite(end)]
    return all(0 <= end <= 1 for end in ends)


def _paired(
    title: str, label: str, rows: Mapping[str, Difference], evaluation: FusionEvaluation
) -> Forest:
    """Return paired differences around no difference."""
    marks = {name: _mark(row.estimate) for name, row in rows.items()}
    lengths = []
    for mark in marks.values():
        lengths += [abs(end) for end in (mark.value, mark.low, mark.high) if math.isfinite(end)]
    limit = max(lengths, default=0.0) * 1.05 or 1.0
    comparison = evaluation.differences
    lines = tuple(ForestRow(name, str(comparison.n_units), (marks[name],)) for name in marks)
    return Forest(
        title,
        Axis(label, -limit, limit),
        (label,),
        lines,
        n=plural(comparison.unit),
        reference=0.0,
        note=(
            f"{level_text(comparison.level)} confidence intervals of paired differences, not "
            f"adjusted for multiple comparisons; tests corrected for {comparison.family} "
            f"({comparison.correction})."
        ),
    )


def _mark(estimate: Estimate) -> Mark:
    return Mark(estimate.value, estimate.low, estimate.high, why(estimate))


def _shown_title(rows: Sequence[Difference], words: str) -> str:
    tested = [row for row in rows if not math.isnan(row.p)]
    if not tested:
        return "No difference could be tested"
    significant = [row for row in tested if row.verdict in ("a_better", "b_better")]
    return f"{len(significant)} of {len(tested)} {words}"


def _intervals(evaluation: FusionEvaluation) -> str:
    comparison = evaluation.differences
    return (
        f"{intervals_by(comparison.level, comparison.unit, comparison.n_units)}. Whether models "
        "differ is shown by the paired differences, not by whether these intervals overlap."
    )


def _span(values: Sequence[float]) -> str:
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return "undefined"
    low, high = two_decimals(min(defined)), two_decimals(max(defined))
    return low if low == high else f"{low} to {high}"
