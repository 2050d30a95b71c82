# SPDX-License-Identifier: Apache-2.0
"""Curves of an evaluation with pointwise bands: FROC, and precision against recall.

`points` also serves the curves over thresholds (`errors`) and over voxels (`voxels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.estimation import certainty_of, units_for
from calipers.evaluation import Evaluation
from calipers.matches import View
from calipers.metrics.contract import Metric
from calipers.metrics.curve_points import FrocCurve, PrecisionCurve
from calipers.metrics.froc import RATES
from calipers.plots.figures import Axis, Curves, Line
from calipers.plots.words import at_level, hit_rule, percent, short_name
from calipers.results import Estimate
from calipers.saving import shown_matches
from calipers.statistics.estimates import Case, estimates

F64 = NDArray[np.float64]

FROC_RATES = tuple(2.0 ** (k / 4) for k in range(-16, 17))  # exact at 1/8, 1/4, ..., 8
RATE_NAMES = ("1/8", "1/4", "1/2", "1", "2", "4", "8")  # of `RATES`
RECALLS = tuple(k / 100 for k in range(101))
# Bands do not use the interval method of the protocol: most others are too slow, or too narrow, for
# every point of a curve. With 400 replicates the standard error is known to 4 %.
BAND_METHOD = "bootse-t-logit"
BAND_REPLICATES = 400


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
    certainty = replace(
        certainty, method=BAND_METHOD, replicates=min(certainty.replicates, BAND_REPLICATES)
    )
    units = units_for(evaluation.cohort, evaluation.protocol)
    tables = estimates(list(cases.values()), units, certainty)
    return CurvePoints(np.array(x), {model: table[0] for model, table in zip(cases, tables)})


def _cases(
    evaluation: Evaluation, make: Callable[[View], Metric[Any]], models: Sequence[str]
) -> dict[str, Case]:
    """Return the metric and the matches that the page shows, for some models."""
    matches = {model: shown_matches(evaluation, model) for model in models}
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
    clauses = [f"{short_name(model)} finds {percent(share)}" for share, model in ranking[:3]]
    more = f", {len(ranking) - 3} more models less" if len(ranking) > 3 else ""
    return f"{where}, {', '.join(clauses)} {of}{more}"


def reach(recalls: Sequence[float], estimates_along: list[Estimate]) -> float:
    """Return the largest recall at which the precision is one half or more.

    0 if the precision is below one half everywhere, NaN if it is defined nowhere.
    """
    if all(e.value != e.value for e in estimates_along):
        return float("nan")
    good = [recall for recall, e in zip(recalls, estimates_along) if e.value >= 0.5]
    return max(good, default=0.0)


def precision_finding(recalls: dict[str, float]) -> str:
    """Return which model keeps a precision of one half up to the highest recall."""
    ranking = best_first(recalls)
    if not ranking:
        return "There is no precision to show: no references"
    recall, model = ranking[0]
    if recall == 0.0:
        return "No model keeps a precision of one half at any recall above 0"
    return (
        f"{short_name(model)} keeps a precision of one half or more "
        f"up to a recall of {percent(recall)}"
    )


def _of_classes(evaluation: Evaluation) -> bool:
    """Return whether classes are evaluated one by one."""
    return evaluation.protocol.matching.within_class and len(evaluation.cohort.classes) > 1


def _note(evaluation: Evaluation) -> str:
    """Return what the bands are, and what a hit is."""
    rule = f"Hits at {hit_rule(evaluation.protocol.matching)}."
    return f"{at_level(evaluation)} {rule}".strip()
