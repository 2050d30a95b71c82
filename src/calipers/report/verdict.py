# SPDX-License-Identifier: Apache-2.0
"""The answer in words: who finds how much, who leads in what, and which leads are more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calipers.evaluation import Evaluation
from calipers.findings import lower_is_better
from calipers.kernels import matching
from calipers.plots.forests import headline_of
from calipers.plots.voxels import measures
from calipers.plots.words import near_an_end, percent, short_name
from calipers.report.found_words import counts_as_found
from calipers.report.order import by_value
from calipers.report.words import join, plural, reason_word
from calipers.results import Estimate
from calipers.results.comparison import Comparison
from calipers.results.difference import Difference
from calipers.saving import shown_matches
from calipers.statistics.weights import plural as named_plural

MOST_NAMED = 3
NOTHING_THERE = "There is nothing to find: no image has a reference. What has a value only tells how little is called."

WON = {"a_better": True, "b_better": False}
WORDS = {  # kind of lead -> sentence, the firmest first
    "sure": "{models} leads in {metrics} by more than chance.",
    "unsure": "{models} has the best {metrics}, but chance could explain it.",
    "untested": "{models} has the best {metrics}; that was not tested.",
    "shared": "{models} share the best {metrics}.",
    "alone": "Only {models} has a value of {metrics}.",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence to remember, and a few that qualify it."""

    first: str
    further: tuple[str, ...]


def verdict(
    evaluation: Evaluation,
    at_one: Evaluation | None,
    duel: Comparison | None,
    all_pairs: Comparison | None,
) -> Verdict:
    """Return what an evaluation says.

    Parameters
    ----------
    at_one
        The same models judged by their sensitivity at one false alarm per image; None if they have
        no scores.
    duel
        The best model of ``at_one`` against the others.
    all_pairs
        The headline metrics of all models, or of one against the others.
    """
    if evaluation.cohort.maps:
        return of_maps(evaluation, all_pairs)
    found = list(_clinical(at_one, duel)) if at_one is not None else []
    rule = []
    if found and at_one is not None:  # protocols differ much in the place they ask for
        rule = [counts_as_found(at_one.protocol.matching, at_one.cohort.dimensions)]
    found += (
        _leads(evaluation, all_pairs)
        if len(evaluation.models) > 1
        else _alone(evaluation, bool(found))
    )
    if not found:
        found = ["There is nothing to judge: no metric of the headline has a value."]
    return Verdict(found[0], (*found[1:], *rule))


def of_maps(evaluation: Evaluation, all_pairs: Comparison | None) -> Verdict:
    """Return what an evaluation of maps says: its first headline metric, then what became of the
    objects.
    """
    if not len(evaluation.cohort.references):
        return Verdict(NOTHING_THERE, tuple(_objects_found(evaluation)))
    if len(evaluation.models) > 1:
        first, *others = headline_of(evaluation)
        found = [*_ahead_in(first, evaluation, all_pairs), *_leads(evaluation, all_pairs, others)]
    else:
        found = _alone(evaluation, known=False)
    found[1:1] = _objects_found(evaluation)
    if not found:
        return Verdict("There is nothing to judge: no metric of the headline has a value.", ())
    rule = counts_as_found(evaluation.protocol.matching, evaluation.cohort.dimensions)
    return Verdict(found[0], (*found[1:], *_soft(evaluation), rule))


def _soft(evaluation: Evaluation) -> Sequence[str]:
    """Return what the first soft IoU of the headline is; as it is printed in its paper, perfect is
    not 1.
    """
    soft = {
        name: measure for name, measure in measures(evaluation) if measure.quantity == "softIoU"
    }
    name = next((name for name in headline_of(evaluation) if name in soft), None)
    if name is None:
        return ()
    classes = evaluation.cohort.classes
    what = classes[0] if len(classes) == 1 else "reference"
    scale = "" if soft[name].variant == "printed" else ": 1 is perfect, 0 is a miss"
    return (
        f"{name} tells how well maps cover each {what} and nothing else, without a threshold{scale}.",
    )


def _ahead_in(metric: str, evaluation: Evaluation, all_pairs: Comparison | None) -> list[str]:
    """Return who leads in a metric, by how much, and whether that is more than chance."""
    order = [
        model
        for model in by_value(evaluation)
        if not math.isnan(evaluation.get(metric, model=model).value)
    ]
    if len(order) < 2:
        return []
    best, other = order[:2]
    values = [evaluation.get(metric, model=model).value for model in (best, other)]
    if values[0] == values[1]:
        return [
            f"{short_name(best)} and {short_name(other)} have the same {metric}: {values[0]:.3f}."
        ]
    told = f"{metric} {values[0]:.3f} against {values[1]:.3f} of {short_name(other)}"
    rows = (
        []
        if all_pairs is None
        else [row for row in all_pairs.rows if row.metric == metric and row.label is None]
    )
    row = next((row for row in rows if {row.model_a, row.model_b} == {best, other}), None)
    if row is None or math.isnan(row.estimate.low):
        return [f"{short_name(best)} localises best: {told}."]
    sign = 1.0 if row.model_a == best else -1.0
    ends = sorted((sign * row.estimate.low, sign * row.estimate.high))
    span = (
        f"{100 * row.estimate.level:g} % interval of the difference {ends[0]:.3f} to {ends[1]:.3f}"
    )
    if _certainty(all_pairs, metric, best, len(order) - 1) == "sure":
        return [f"{short_name(best)} localises best: {told}; {span}."]
    doubt = f"No model is shown to localise best: {short_name(best)} has {told}"
    if ends[0] <= 0.0 or math.isnan(row.p_adjusted):
        return [f"{doubt}, but chance could explain it ({span})."]
    tests = f" after correction for {row.family} tests" if row.family > 1 else ""
    return [
        f"{doubt} ({span}), but the test leaves room for chance (p = {row.p_adjusted:.2g}{tests})."
    ]


def _objects_found(evaluation: Evaluation) -> list[str]:
    """Return how many references every model finds as objects, and how many false alarms it raises."""
    cohort, said = evaluation.cohort, []
    what = named_plural(cohort.classes[0]) if len(cohort.classes) == 1 else "references"
    for model in by_value(evaluation)[:MOST_NAMED]:
        table = shown_matches(evaluation, model)
        counted = int((table.reference_fate[0] != matching.IGNORED).sum())
        hits = int((table.reference_fate[0] == matching.HIT).sum())
        wrong = int(
            np.isin(table.prediction_fate[0], (matching.FALSE_ALARM, matching.DUPLICATE)).sum()
        )
        alarms = f"raises {plural('false alarm', wrong)}" if wrong else "raises no false alarm"
        found = (
            f"finds {hits} of {counted} {what} ({percent(hits / counted)}) and " if counted else ""
        )
        said.append(f"{short_name(model)} {found}{alarms}")
    return [f"As objects, {'; '.join(said)}, in {plural('image', cohort.n_images)}."]


def _clinical(at_one: Evaluation, duel: Comparison | None) -> Sequence[str]:
    """Return what the best model finds at one false alarm per image, how far ahead it is, and what
    it raises uncut.
    """
    metric = at_one.metrics[0]
    found = [(at_one.get(metric, model=model), model) for model in at_one.models]
    known = [(e, model) for e, model in found if e.value == e.value]
    if not known:
        return ()
    best, model = max(known, key=lambda entry: entry[0].value)
    return (*_found(at_one, duel, best, model), *_alarms(at_one, model))


def _found(
    at_one: Evaluation, duel: Comparison | None, best: Estimate, model: str
) -> Sequence[str]:
    """Return how many references the best model finds, and how far ahead it is."""
    share = (
        f"{percent(best.value)} of the {plural('reference', best.n_references)}{_interval(best)}"
    )
    if len(at_one.models) == 1:
        return (f"At one false alarm per image, {short_name(model)} finds {share}.",)
    row = _closest(duel, model)
    if row is not None:
        return _ahead(row, model, len(at_one.models)), f"{short_name(model)} finds {share}."
    others = [
        at_one.get(at_one.metrics[0], model=other).value
        for other in at_one.models
        if other != model
    ]
    if best.value in others:
        return (
            f"At one false alarm per image, no model finds more than {short_name(model)}: {share}.",
        )
    return (f"At one false alarm per image, {short_name(model)} finds most: {share}.",)


def _alarms(at_one: Evaluation, model: str) -> Sequence[str]:
    """Return how many false alarms the best model raises if nobody cuts its scores; nothing if that
    is at most one.
    """
    e = at_one.get(at_one.metrics[1], model=model)
    if not e.value > 1.0:
        return ()
    every = (
        f"With all its predictions, {short_name(model)} raises {e.value:.1f} false alarms per image"
    )
    span = (
        "" if math.isnan(e.low) else f" ({100 * e.level:g} % interval {e.low:.1f} to {e.high:.1f})"
    )
    return (f"{every}{span}.",)


def _ahead(row: Difference, model: str, n_models: int) -> str:
    """Return how far the best model is ahead of the next one, and whether that is more than chance."""
    value, low, high, other = _from(row, model)
    where = "at one false alarm per image"
    ahead = f"{short_name(model)} finds {_points(value)} more of the references than {short_name(other)} {where}"
    span = _span(low, high, row.estimate.level)
    if value == 0.0:
        return f"{short_name(model)} and {short_name(other)} find equally many references {where}{span and f'; {span}'}."
    if math.isnan(low):
        return f"{ahead}; there is no interval ({reason_word(row.estimate.reason)})."
    if row.verdict in WON:
        return f"{ahead}{span and f'; {span}'}."
    doubt = f"No model is shown to find {'more' if n_models == 2 else 'most'}: {ahead}"
    if low <= 0.0 or math.isnan(row.p_adjusted):
        return f"{doubt}, but chance could explain it{span and f' ({span})'}."
    tests = f" after correction for {row.family} tests" if row.family > 1 else ""
    return f"{doubt}{span and f' ({span})'}, but the test leaves room for chance (p = {row.p_adjusted:.2g}{tests})."


def _span(low: float, high: float, level: float) -> str:
    """Return an interval in points; nothing if it has no width. No share exceeds another by more
    than 100 points.
    """
    low, high = max(100 * low, -100.0), min(100 * high, 100.0)
    return f"{100 * level:g} % interval {low:.1f} to {high:.1f}" if low < high else ""


def _closest(duel: Comparison | None, model: str) -> Difference | None:
    """Return the smallest lead of a model over another; None if nothing was compared."""
    rows = (
        []
        if duel is None
        else [row for row in duel.rows if row.estimate.value == row.estimate.value]
    )
    return min(rows, key=lambda row: _from(row, model)[0], default=None)


def _from(row: Difference, model: str) -> tuple[float, float, float, str]:
    """Return a difference as seen by one of its models: value, low, high, and the other one."""
    e = row.estimate
    if row.model_a == model:
        return e.value, e.low, e.high, row.model_b
    return -e.value, -e.high, -e.low, row.model_a


def _leads(
    evaluation: Evaluation, all_pairs: Comparison | None, metrics: Sequence[str] | None = None
) -> list[str]:
    """Return who leads in which headline metrics, or in some of them, and whether by more than
    chance.
    """
    said: dict[tuple[str, str], list[str]] = {}
    valued = False
    for metric in headline_of(evaluation) if metrics is None else metrics:
        values = {model: evaluation.get(metric, model=model).value for model in evaluation.models}
        known = {model: value for model, value in values.items() if value == value}
        valued = valued or bool(known)
        found = _lead(evaluation, all_pairs, metric, known)
        if found is not None:
            said.setdefault(found, []).append(metric)
    if not said:
        which = "headline metric" if metrics is None else "other headline metric"
        return [f"The models do not differ in any {which}."] if valued else []
    order = sorted(said.items(), key=lambda entry: list(WORDS).index(entry[0][0]))
    return [
        WORDS[kind].format(models=models, metrics=join(metrics))
        for (kind, models), metrics in order
    ]


def _lead(
    evaluation: Evaluation, all_pairs: Comparison | None, metric: str, known: Mapping[str, float]
) -> tuple[str, str] | None:
    """Return the kind of lead in a metric (see `WORDS`) and who has it; None if nobody is ahead of
    anybody.
    """
    if not known:
        return None
    if len(known) == 1:
        return "alone", short_name(next(iter(known)))
    top = (min if metric in lower_is_better(evaluation.protocol) else max)(known.values())
    best = [model for model, value in known.items() if value == top]
    if len(best) == len(known):
        return None
    if len(best) > 1:
        return "shared", join([short_name(model) for model in best])
    return _certainty(all_pairs, metric, best[0], len(known) - 1), short_name(best[0])


def _certainty(all_pairs: Comparison | None, metric: str, model: str, rivals: int) -> str:
    """Return how firm a lead is: ``sure`` if every rival is beaten, tests corrected; ``untested``
    if one is not met.
    """
    rows = (
        []
        if all_pairs is None
        else [row for row in all_pairs.rows if row.metric == metric and row.label is None]
    )
    met = [
        row for row in rows if model in (row.model_a, row.model_b) and row.verdict != "undefined"
    ]
    won = [
        row
        for row in met
        if row.verdict in WON and (row.model_a if WON[row.verdict] else row.model_b) == model
    ]
    if len(won) < len(met):
        return "unsure"
    return "sure" if len(won) == rivals else "untested"


def _alone(evaluation: Evaluation, known: bool) -> list[str]:
    """Return the headline of a single model in words."""
    said = []
    for metric in headline_of(evaluation)[: 3 if known else 4]:
        e = evaluation.get(metric)
        if e.value == e.value:
            said.append(f"{metric} {e.value:.2f}{_interval(e, share=False)}")
    return [f"{join(said)}."] if said else []


def _interval(e: Estimate, *, share: bool = True) -> str:
    """Return an interval in brackets, both ends with the same number of digits."""
    if math.isnan(e.low):
        return ""
    if share:
        fine = near_an_end(e.low) or near_an_end(e.high)
        low, high = (f"{100 * v:.{int(fine)}f}" for v in (e.low, e.high))
    else:
        low, high = (f"{v:.2f}" for v in (e.low, e.high))
    return f" ({100 * e.level:g} % interval {low} to {high})"


def _points(value: float) -> str:
    amount = f"{100 * value:.1f}"
    if amount == "0.0":
        return "less than 0.1 points"
    return f"{amount} point" if amount == "1.0" else f"{amount} points"
