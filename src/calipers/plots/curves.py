# SPDX-License-Identifier: Apache-2.0
"""Curves of an evaluation with pointwise bands: FROC, precision against recall, a metric against
its threshold.
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
RECALLS = tuple(k / 100 for k in range(101))
BAND_METHOD = "bootse-t-logit"  # whatever the protocol's: others are too costly, or too narrow, for every point
BAND_REPLICATES = 400  # the standard error behind a band is then known to 4 %


@dataclass(frozen=True, slots=True)
class CurvePoints:
    """A curve of every model: estimates along x."""

    x: F64
    of_model: dict[str, list[Estimate]]

    def line(self, model: str, slot: int, **given: Any) -> Line:
        """Return the curve of a model with its band."""
        found = self.of_model[model]
        y, low, high = (
            np.array([getattr(e, name) for e in found]) for name in ("value", "low", "high")
        )
        return Line(model, self.x, y, low, high, slot=slot, **given)


def points(evaluation: Evaluation, x: Sequence[float], cases: Mapping[str, Case]) -> CurvePoints:
    """Return the estimates of every model's metric, whose names lie along x."""
    certainty = certainty_of(evaluation.protocol, ci=evaluation.ci)
    certainty = replace(
        certainty, method=BAND_METHOD, replicates=min(certainty.replicates, BAND_REPLICATES)
    )
    found = estimates(
        list(cases.values()), units_for(evaluation.cohort, evaluation.protocol), certainty
    )
    return CurvePoints(np.array(x), {model: table[0] for model, table in zip(cases, found)})


def _of_shown(
    evaluation: Evaluation, make: Callable[[View], Metric[Any]], models: Sequence[str]
) -> dict[str, Case]:
    """Return the metric of the matches that are shown, for some models."""
    matches = {model: shown_matches(evaluation, model) for model in models}
    return {model: (make(table.views[0]), table) for model, table in matches.items()}


def froc(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return sensitivity against false alarms per image, all classes ranked together."""
    chosen = _chosen(evaluation, models)
    cases = _of_shown(evaluation, lambda view: FrocCurve.of(view, FROC_RATES), chosen)
    found = points(evaluation, FROC_RATES, cases)
    one = FROC_RATES.index(1.0)
    marks = tuple(FROC_RATES.index(rate) for rate in RATES)
    lines = tuple(
        found.line(model, slot_of(evaluation, model), marks=marks, step=True) for model in chosen
    )
    shares = {model: found.of_model[model][one].value for model in chosen}
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
        lines,
        levels=RATES,
        note=f"{at_level(evaluation)} {_matched(evaluation)}".strip(),
    )


def precision_recall(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return interpolated precision against recall, mean over classes: the curve whose mean is the
    AP.
    """
    chosen = _chosen(evaluation, models)
    ties = evaluation.protocol.ties
    cases = _of_shown(evaluation, lambda view: PrecisionCurve.of(view, RECALLS, ties), chosen)
    found = points(evaluation, RECALLS, cases)
    lines = tuple(found.line(model, slot_of(evaluation, model)) for model in chosen)
    halves = {model: reach(RECALLS, found.of_model[model]) for model in chosen}
    return Curves(
        precision_finding(halves),
        Axis("recall", 0.0, 1.0),
        Axis("precision, mean over classes" if _of_classes(evaluation) else "precision", 0.0, 1.0),
        lines,
        levels=tuple(k / 10 for k in range(11)),
        note=f"{at_level(evaluation)} {_matched(evaluation)}".strip(),
    )


RATE_NAMES = ("1/8", "1/4", "1/2", "1", "2", "4", "8")


def slot_of(evaluation: Evaluation, model: str) -> int:
    """Return the place of a model in the theme: the same in all figures."""
    return evaluation.models.index(model)


def _chosen(evaluation: Evaluation, models: Sequence[str] | None) -> tuple[str, ...]:
    return evaluation.models if models is None else tuple(models)


def finding(shares: dict[str, float], where: str, of: str) -> str:
    """Return who finds how much, best first."""
    known = sorted(
        ((share, model) for model, share in shares.items() if share == share), reverse=True
    )
    if not known:
        return "There is nothing to find: no references"
    said = [f"{short_name(model)} finds {percent(share)}" for share, model in known[:3]]
    more = f", {len(known) - 3} more models less" if len(known) > 3 else ""
    return f"{where}, {', '.join(said)} {of}{more}"


def reach(recalls: Sequence[float], found: list[Estimate]) -> float:
    """Return the largest recall at which the precision is one half or more."""
    good = [recall for recall, e in zip(recalls, found) if e.value >= 0.5]
    return max(good) if good else (np.nan if all(e.value != e.value for e in found) else 0.0)


def precision_finding(halves: dict[str, float]) -> str:
    """Return who keeps a precision of one half up to which recall."""
    known = sorted(
        ((recall, model) for model, recall in halves.items() if recall == recall), reverse=True
    )
    if not known:
        return "There is no precision to show: no references"
    recall, model = known[0]
    if recall == 0.0:
        return "No model keeps a precision of one half at any recall above 0"
    return f"{short_name(model)} keeps a precision of one half or more up to a recall of {percent(recall)}"


def _of_classes(evaluation: Evaluation) -> bool:
    """Return whether classes are judged one by one."""
    return evaluation.protocol.matching.within_class and len(evaluation.cohort.classes) > 1


def _matched(evaluation: Evaluation) -> str:
    return f"Hits at {hit_rule(evaluation.protocol.matching)}."
