# SPDX-License-Identifier: Apache-2.0
"""The answer in words: who finds how much, who leads in what, and which leads are more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calipers.evaluation import Evaluation
from calipers.findings import lower_is_better
from calipers.plots.forests import headline_of
from calipers.plots.words import named, percent
from calipers.report.words import best_of, join
from calipers.results import Estimate
from calipers.results.comparison import Comparison
from calipers.results.difference import Difference

WON = {"a_better": True, "b_better": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence to remember, and a few that qualify it."""

    first: str
    further: tuple[str, ...]


def verdict(
    evaluation: Evaluation, at_one: Evaluation | None, duel: Comparison | None, all_pairs: Comparison | None
) -> Verdict:
    """Return what an evaluation says.

    Parameters
    ----------
    at_one
        The same models judged by their sensitivity at one false alarm per image; None if they have no scores.
    duel
        The best model of ``at_one`` against the others.
    all_pairs
        The headline metrics of all models, or of one against the others.
    """
    found = list(_clinical(at_one, duel)) if at_one is not None else []
    found += _leads(evaluation, all_pairs) if len(evaluation.models) > 1 else _alone(evaluation, bool(found))
    if not found:
        found = ["There is nothing to judge: no metric of the headline has a value."]
    return Verdict(found[0], tuple(found[1:]))


def _clinical(at_one: Evaluation, duel: Comparison | None) -> Sequence[str]:
    """Return how many references the best model finds at one false alarm per image, and how far ahead it is."""
    metric = at_one.metrics[0]
    found = [(at_one.get(metric, model=model), model) for model in at_one.models]
    known = [(e, model) for e, model in found if e.value == e.value]
    if not known:
        return ()
    best, model = max(known, key=lambda entry: entry[0].value)
    share = f"{percent(best.value)} of the {best.n_references} references"
    if len(at_one.models) == 1:
        return (f"At one false alarm per image, {named(model)} finds {share}{_interval(best)}.",)
    row = _closest(duel, model)
    if row is None:
        return (f"At one false alarm per image, {named(model)} finds most: {share}{_interval(best)}.",)
    return _ahead(row, model), f"{named(model)} finds {share}{_interval(best)}."


def _ahead(row: Difference, model: str) -> str:
    """Return how far the best model is ahead of the next one, and whether that is more than chance."""
    value, low, high, other = _from(row, model)
    where = "at one false alarm per image"
    ahead = f"{named(model)} finds {_points(value)} more of the references than {named(other)} {where}"
    if math.isnan(low):
        return f"{ahead}; there is no interval ({str(row.estimate.reason).replace('_', ' ')})."
    span = f"{100 * row.estimate.level:g} % interval {100 * low:.1f} to {100 * high:.1f}"
    if row.verdict in WON:
        return f"{ahead}; {span}."
    if value == 0.0:
        return f"{named(model)} and {named(other)} find equally many references {where}; {span}."
    return f"No model is shown to find more: {ahead}, but chance could explain it ({span})."


def _closest(duel: Comparison | None, model: str) -> Difference | None:
    """Return the smallest lead of a model over another; None if nothing was compared."""
    rows = [] if duel is None else [row for row in duel.rows if row.estimate.value == row.estimate.value]
    return min(rows, key=lambda row: _from(row, model)[0], default=None)


def _from(row: Difference, model: str) -> tuple[float, float, float, str]:
    """Return a difference as seen by one of its models: value, low, high, and the other one."""
    e = row.estimate
    if row.model_a == model:
        return e.value, e.low, e.high, row.model_b
    return -e.value, -e.high, -e.low, row.model_a


def _leads(evaluation: Evaluation, all_pairs: Comparison | None) -> list[str]:
    """Return who leads in which headline metrics, and whether by more than chance."""
    lower, sure, unsure = lower_is_better(evaluation.protocol), dict[str, list[str]](), dict[str, list[str]]()
    names = headline_of(evaluation)
    if all(math.isnan(evaluation.get(name, model=model).value) for name in names for model in evaluation.models):
        return []
    for metric in names:
        estimates = [evaluation.get(metric, model=model) for model in evaluation.models]
        best = [m for m, leads in zip(evaluation.models, best_of(estimates, lower=metric in lower)) if leads]
        for model in best:
            shown = len(best) == 1 and _shown(all_pairs, metric, model, len(evaluation.models))
            (sure if shown else unsure).setdefault(model, []).append(metric)
    if not sure and not unsure:
        return ["The models do not differ in any headline metric."]
    said = [f"{named(model)} leads in {join(metrics)} by more than chance." for model, metrics in sure.items()]
    doubt = "; that was not tested" if all_pairs is None else ", but chance could explain it"
    return said + [f"{named(model)} has the best {join(metrics)}{doubt}." for model, metrics in unsure.items()]


def _shown(all_pairs: Comparison | None, metric: str, model: str, n_models: int) -> bool:
    """Return whether a model beats every other one in a metric, tests corrected."""
    rows = [] if all_pairs is None else [row for row in all_pairs.rows if row.metric == metric and row.label is None]
    won = [row for row in rows if row.verdict in WON and (row.model_a if WON[row.verdict] else row.model_b) == model]
    return len(won) == n_models - 1


def _alone(evaluation: Evaluation, known: bool) -> list[str]:
    """Return the headline of a single model in words."""
    said = []
    for metric in headline_of(evaluation)[: 3 if known else 4]:
        e = evaluation.get(metric)
        if e.value == e.value:
            said.append(f"{metric} {e.value:.2f}{_interval(e, share=False)}")
    return [f"{join(said)}."] if said else []


def _interval(e: Estimate, *, share: bool = True) -> str:
    if math.isnan(e.low):
        return ""
    low, high = ((percent(v).removesuffix(" %") if share else f"{v:.2f}") for v in (e.low, e.high))
    return f" ({100 * e.level:g} % interval {low} to {high})"


def _points(value: float) -> str:
    amount = f"{100 * value:.1f}"
    return f"{amount} point" if amount == "1.0" else f"{amount} points"
