# SPDX-License-Identifier: Apache-2.0
"""Which kinds of mistakes a model makes: what each costs, and how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calipers.errors import UsageError
from calipers.evaluation import Evaluation
from calipers.metrics.contract import MetricPlan
from calipers.metrics.errors import ErrorTypes
from calipers.metrics.errors_gains import COUNTS, GAINS
from calipers.plots.curves import slot_of
from calipers.plots.figures import Axis, Bars
from calipers.plots.words import at_level, named
from calipers.results import Estimate

KIND = "error-types"
MAIN = GAINS[:6]  # the kinds, without what spans several of them
MOST_NAMED = 3
WORDS = {  # short enough to stand below a bar
    "cls": "class",
    "loc": "place",
    "both": "both",
    "dup": "double",
    "bkg": "nothing",
    "miss": "missed",
    "fp": "all false",
    "fn": "all missed",
    "empty": "empty",
}
SENTENCES = {
    "cls": "a wrong class",
    "loc": "a place that is only roughly right",
    "both": "a wrong class in a place that is only roughly right",
    "dup": "second predictions on one reference",
    "bkg": "predictions on nothing",
    "miss": "references that nobody came near",
    "empty": "false alarms on images without references",
}


def error_gains(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return the average precision that mending each kind of mistake would gain, and false alarms
    on empty images.
    """
    chosen = evaluation.models if models is None else tuple(models)
    shown = metrics_of(evaluation, "gain", (*MAIN, "empty"))
    title = _costliest(evaluation, chosen, {of: name for of, name in shown.items() if of in MAIN})
    note = "Gains do not add up: mending one kind changes what the others cost."
    if "empty" in shown:
        note += " “empty”: without false alarms on images that have no reference, which are among “nothing”."
    return _bars(evaluation, chosen, shown, title, "AP gained by mending", note)


def error_counts(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return how many mistakes there are of each kind, and how many false alarms on empty images."""
    chosen = evaluation.models if models is None else tuple(models)
    shown = metrics_of(evaluation, "count", COUNTS)
    title = _most_frequent(
        evaluation, chosen, {of: name for of, name in shown.items() if of != "empty"}
    )
    note = f"{evaluation.cohort.n_images} images; all predictions count, whatever their score."
    return _bars(evaluation, chosen, shown, title, "mistakes", note)


def metrics_of(evaluation: Evaluation, what: str, order: Sequence[str]) -> dict[str, str]:
    """Return which metric of the protocol is the gain or the count of each kind; the first if there
    are several.
    """
    plans = [plan for plan in evaluation.protocol.resolved() if plan.kind == KIND]
    found: dict[str, str] = {}
    for plan in plans:
        wanted = _wanted(plan)
        if wanted[0] == what:
            found.setdefault(wanted[1], plan.name)
    if not found:
        raise UsageError(f"this protocol has no {what} of error types; use the preset tide")
    return {of: found[of] for of in order if of in found}


def _wanted(plan: MetricPlan) -> tuple[str, str]:
    (wanted,) = ErrorTypes([plan]).quantities
    return wanted.what, wanted.of


def _bars(
    evaluation: Evaluation,
    models: Sequence[str],
    shown: dict[str, str],
    title: str,
    label: str,
    note: str,
) -> Bars:
    table = [[evaluation.get(name, model=model) for name in shown.values()] for model in models]

    def numbers(pick: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(
            [[getattr(estimate, pick) for estimate in row] for row in table], np.float64
        )

    known = any(math.isfinite(estimate.low) for row in table for estimate in row)
    said = f"{note} {at_level(evaluation)}" if known else note
    missing = known and any(math.isnan(e.low) and e.value > 0 for row in table for e in row)
    said += " Bars without whiskers rest on too few mistakes for an interval." if missing else ""
    return Bars(
        title,
        Axis("kind of mistake", names=tuple(WORDS[of] for of in shown)),
        Axis(label, 0.0),
        tuple(models),
        np.nan_to_num(numbers("value"), nan=0.0),
        low=numbers("low") if known else None,
        high=numbers("high") if known else None,
        slots=tuple(slot_of(evaluation, model) for model in models),
        note=said,
    )


def _largest(
    evaluation: Evaluation, model: str, shown: dict[str, str]
) -> tuple[str, Estimate] | None:
    """Return the kind with the largest value; None if none is above 0."""
    values = {of: evaluation.get(name, model=model) for of, name in shown.items()}
    above = {of: estimate for of, estimate in values.items() if estimate.value > 0}
    if not above:
        return None
    of = max(above, key=lambda kind: above[kind].value)
    return of, above[of]


def _costliest(evaluation: Evaluation, models: Sequence[str], shown: dict[str, str]) -> str:
    said = []
    for model in models[:MOST_NAMED]:
        found = _largest(evaluation, model, shown)
        if found is not None:
            said.append(
                f"{named(model)} loses most by {SENTENCES[found[0]]} ({found[1].value:.2f} AP)"
            )
    return "; ".join(said) or "No kind of mistake costs any average precision"


def _most_frequent(evaluation: Evaluation, models: Sequence[str], shown: dict[str, str]) -> str:
    said = []
    for model in models[:MOST_NAMED]:
        found = _largest(evaluation, model, shown)
        if found is not None:
            said.append(
                f"{named(model)} makes most of its mistakes by {SENTENCES[found[0]]} ({found[1].value:.0f})"
            )
    return "; ".join(said) or "There are no mistakes"
