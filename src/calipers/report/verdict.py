# SPDX-License-Identifier: Apache-2.0
"""The answer in words, at the top of the page.

`verdict` takes an evaluation and its comparisons and returns sentences: what the models find, which
of them leads, and whether that is significant; `of_maps` does so for maps. `counts_as_found` says
when a reference counts as found, for readers who do not know the criteria. `report.page` calls it.
Words are careful: a lead is a fact of these images, "better" needs a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calipers import registry
from calipers.evaluation.figures import hit_rule
from calipers.evaluation.figures_maps import measures
from calipers.evaluation.result import Evaluation
from calipers.kernels import assignment
from calipers.matching.matches import View
from calipers.results.comparison import Comparison, Difference
from calipers.results.estimate import Estimate
from calipers.show.comparison_tables import Manner, p_in_words
from calipers.show.words import (
    count_text,
    digits,
    interval_in_words,
    join,
    level_text,
    number_text,
    percent_span,
    percent_text,
    short_name,
    span_text,
    two_decimals,
)
from calipers.show.words import plural as named_plural

OVER_BOTH = "the {area} it shares with {what} is {share} of the {area} both cover together"

# Criterion -> how a reference is found. {share} is "at least 50 %", {amount} "at least 0.5" or "at
# most 10".
WORDS = {
    "box-iou": OVER_BOTH.replace("{what}", "a predicted box"),
    "giou": (
        "a predicted box is close enough to its box, with a generalised IoU (1 for the same box) "
        "of {amount}"
    ),
    "ciou": (
        f"{OVER_BOTH.replace('{what}', 'a predicted box')}, after the box is moved onto its centre"
    ),
    "complete-iou": (
        "a predicted box has its place, size and form, with a complete IoU (1 for the same box) of "
        "{amount}"
    ),
    "iop": "{share} of a predicted box lies inside its box",
    "ior": "a predicted box covers {share} of its box",
    "hausdorff": (
        "a predicted box has its size and form, with a Hausdorff similarity (1 for the same box) "
        "of {amount}"
    ),
    "mask-iou": OVER_BOTH.replace("{what}", "a predicted shape"),
    "dice": "a predicted shape overlaps it, with a Dice score (1 for the same shape) of {amount}",
    "hull-iou": (
        f"{OVER_BOTH.replace('{what}', 'a predicted shape')}, with the dents of both filled"
    ),
    "boundary-iou": (
        "the part that its rim shares with the rim of a predicted shape is {share} of what both "
        "rims cover"
    ),
    "any-overlap": "a prediction overlaps it at all",
    "centre-distance": "the centre of a prediction is {amount} {pixels} away from its centre",
    "centre-distance-mm": "the centre of a prediction is {amount} mm away from its centre",
    "centre-distance-relative": (
        "the centre of a prediction is {amount} times its own size away from its centre"
    ),
    "point-in-box": "the centre of a prediction lies in its box",
    "point-in-mask": "the centre of a prediction lies in it",
    "point-in-hull": "the centre of a prediction lies in it, with its dents filled",
}
MOST_NAMED = 3
NOTHING_THERE = (
    "No image has a reference, so there is nothing to find. Values only show how much is marked by "
    "mistake."
)
ADDED = (
    "The sensitivity at one false alarm per image is not a metric of the protocol {protocol!r}; "
    "this page adds it, with the matching rule of the protocol."
)
NOTHING_JUDGED = "There is nothing to judge: no headline metric has a value."
POINTS = Manner(points=True, higher_is_better=True)
WON = {"a_better": True, "b_better": False}
VERDICT_WORDS = {  # kind of lead -> sentence, the strongest first
    "sure": "{models} leads in {metrics} by more than chance can explain.",
    "unsure": "{models} has the best {metrics} on these images, but chance could explain it.",
    "untested": "{models} has the best {metrics} on these images; the difference was not tested.",
    "shared": "{models} share the best {metrics} on these images.",
    "alone": "Only {models} has a value of {metrics}.",
}


def counts_as_found(view: View, dimensions: int) -> str:
    """Return when a reference counts as found, with the name of the criterion in brackets."""
    criterion = registry.resolve("criterion", view.criterion)
    if criterion.distance:
        least = "less than" if view.strict else "at most"
    else:
        least = "more than" if view.strict or not view.threshold else "at least"
    area, pixels = "area", "pixels"
    if dimensions == 3:
        area, pixels = "volume", "voxels"
    rule = WORDS[view.criterion].format(
        share=f"{least} {level_text(view.threshold)}",
        amount=f"{least} {view.threshold:g}",
        area=area,
        pixels=pixels,
    )
    of_class = "" if view.within_class else ", whatever the class"
    return f"A reference counts as found if {rule} ({hit_rule(view)}){of_class}."


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
    """Return the answer that an evaluation gives.

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
    if not len(evaluation.cohort.references):
        return Verdict(NOTHING_THERE, tuple(_objects_found(evaluation)))
    if evaluation.cohort.maps:
        return of_maps(evaluation, all_pairs)
    sentences: list[str] = []
    rule: list[str] = []
    if at_one is not None:
        sentences += _clinical(at_one, duel)
        if sentences:
            # Protocols differ much in what counts as the right place, so the page says it.
            rule = [counts_as_found(at_one.protocol.matching, at_one.cohort.dimensions)]
            if not _has_one_alarm(evaluation):
                rule.insert(0, ADDED.format(protocol=evaluation.protocol.name))
    if len(evaluation.models) > 1:
        sentences += _leads(evaluation, all_pairs)
    else:
        sentences += _single_model(evaluation, bool(sentences))
    if not sentences:
        sentences = [NOTHING_JUDGED]
    return Verdict(sentences[0], (*sentences[1:], *rule))


def of_maps(evaluation: Evaluation, all_pairs: Comparison | None) -> Verdict:
    """Return the answer that an evaluation of maps gives: its first headline metric, then the
    objects.
    """
    if len(evaluation.models) > 1:
        first, *others = evaluation.headline
        sentences = _ahead_in(first, evaluation, all_pairs)
        sentences += _leads(evaluation, all_pairs, others)
    else:
        sentences = _single_model(evaluation, after_others=False)
    sentences[1:1] = _objects_found(evaluation)
    if not sentences:
        return Verdict(NOTHING_JUDGED, ())
    rule = counts_as_found(evaluation.protocol.matching, evaluation.cohort.dimensions)
    return Verdict(sentences[0], (*sentences[1:], *_soft(evaluation), rule))


def _soft(evaluation: Evaluation) -> Sequence[str]:
    """Return what the first soft IoU of the headline measures."""
    variants = {}
    for metric, measure in measures(evaluation):
        if measure.quantity == "softIoU":
            variants[metric] = measure.variant
    name = next((name for name in evaluation.headline if name in variants), None)
    if name is None:
        return ()
    classes = evaluation.cohort.classes
    what = classes[0] if len(classes) == 1 else "reference"
    # With the formula as it is printed in the paper, a perfect map does not reach 1.
    scale = "" if variants[name] == "printed" else ": 1 is perfect, 0 is a miss"
    return (
        f"{name} measures how well maps cover each {what} and nothing else, without a "
        f"threshold{scale}.",
    )


def _ahead_in(metric: str, evaluation: Evaluation, all_pairs: Comparison | None) -> list[str]:
    """Return which model leads in a metric, by how much, and whether that is more than chance."""
    values = {}
    for model in evaluation.models_by_value:
        value = evaluation.get(metric, model=model).value
        if not math.isnan(value):
            values[model] = value
    if len(values) < 2:
        return []
    best, other = list(values)[:2]
    if values[best] == values[other]:
        return [
            f"{short_name(best)} and {short_name(other)} have the same {metric}: "
            f"{number_text(values[best])}."
        ]
    highest, second = number_text(values[best]), number_text(values[other])
    numbers = f"{metric} {highest} against {second} for {short_name(other)}"
    rows = _pooled_rows(all_pairs, metric)
    row = next((row for row in rows if {row.model_a, row.model_b} == {best, other}), None)
    doubt = f"No model is shown to localise best: {short_name(best)} has {numbers}"
    if row is None:
        return [f"{doubt}; the difference was not tested."]
    lead = row.estimate_for(best)
    if metric in evaluation.protocol.lower_is_better:
        lead = row.estimate_for(other)
    span = interval_in_words(lead, _difference_span)
    if math.isnan(lead.low):
        tested = "was not tested" if math.isnan(row.p) else "is the same in all samples"
        return [f"{doubt}; the difference {tested} ({span})."]
    if _certainty(all_pairs, metric, best, len(values) - 1) == "sure":
        return [f"{short_name(best)} localises best: {numbers} (difference: {span})."]
    if lead.low <= 0.0 or math.isnan(row.p_adjusted):
        return [f"{doubt}, but chance could explain it (difference: {span})."]
    return [f"{doubt} (difference: {span}), but {_not_significant(row)}."]


def _difference_span(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}"


def _pooled_rows(comparison: Comparison | None, metric: str) -> list[Difference]:
    """Return the differences in a metric, all classes together."""
    if comparison is None:
        return []
    return [row for row in comparison.rows if row.metric == metric and row.label is None]


def _not_significant(row: Difference) -> str:
    return f"the test is not significant ({p_in_words(row)})"


def _objects_found(evaluation: Evaluation) -> list[str]:
    """Return how many references every model finds as objects, and its number of false alarms."""
    cohort, clauses = evaluation.cohort, []
    what = named_plural(cohort.classes[0]) if len(cohort.classes) == 1 else "references"
    for model in evaluation.models_by_value[:MOST_NAMED]:
        table = evaluation.matches(model)
        n_counted = int((table.reference_fate[0] != assignment.IGNORED).sum())
        n_hits = int((table.reference_fate[0] == assignment.HIT).sum())
        # A second prediction of one object is a false alarm to whoever reads the image.
        wrong_fates = (assignment.FALSE_ALARM, assignment.DUPLICATE)
        n_wrong = int(np.isin(table.prediction_fate[0], wrong_fates).sum())
        clause = "raises no false alarm"
        if n_wrong:
            clause = f"raises {count_text('false alarm', n_wrong)}"
        if n_counted:
            share = percent_text(n_hits / n_counted)
            clause = f"finds {n_hits} of {n_counted} {what} ({share}) and {clause}"
        clauses.append(f"{short_name(model)} {clause}")
    images = count_text("image", cohort.n_images)
    if cohort.maps:
        return [f"As objects, {'; '.join(clauses)}, in {images}."]
    return [f"{'; '.join(clauses)}, in {images}."]


def _has_one_alarm(evaluation: Evaluation) -> bool:
    """Return whether the sensitivity at one false alarm per image is a metric of the protocol."""
    protocol = evaluation.protocol
    threshold = protocol.matching.threshold
    for plan in protocol.metrics:
        if plan.kind != "froc":
            continue
        # A protocol may write one number without a list.
        rates = np.atleast_1d(plan.options.get("rates", ()))
        thresholds = np.atleast_1d(plan.options.get("thresholds", protocol.thresholds))
        if rates.tolist() == [1.0] and thresholds.tolist() == [threshold]:
            return True
    return False


def _clinical(at_one: Evaluation, duel: Comparison | None) -> Sequence[str]:
    """Return what the best model finds at one false alarm per image, how far ahead it is, and how
    many false alarms it raises without a score cut.
    """
    metric = at_one.metrics[0]
    defined = []
    for model in at_one.models:
        estimate = at_one.get(metric, model=model)
        if not math.isnan(estimate.value):
            defined.append((estimate, model))
    if not defined:
        return ()
    best, model = max(defined, key=lambda entry: entry[0].value)
    return (*_references_found(at_one, duel, best, model), *_alarms(at_one, model))


def _references_found(
    at_one: Evaluation, duel: Comparison | None, best: Estimate, model: str
) -> Sequence[str]:
    """Return how many references the best model finds, and how far ahead it is."""
    references = count_text("reference", best.n_references)
    share = f"{percent_text(best.value)} of the {references}{_interval(best, percent_span)}"
    if len(at_one.models) == 1:
        return (f"At one false alarm per image, {short_name(model)} finds {share}.",)
    row = _closest(duel, model)
    if row is not None:
        return _ahead(row, model, len(at_one.models)), f"{short_name(model)} finds {share}."
    metric = at_one.metrics[0]
    for other in at_one.models:
        # A tie: nobody finds "most".
        if other != model and at_one.get(metric, model=other).value == best.value:
            return (
                f"At one false alarm per image, no model finds more than {short_name(model)}: "
                f"{share}.",
            )
    return (
        f"At one false alarm per image, {short_name(model)} finds {share}, the largest share on "
        "these images; the difference was not tested.",
    )


def _alarms(at_one: Evaluation, model: str) -> Sequence[str]:
    """Return how many false alarms the best model raises without a score cut; nothing if it is at
    most one.
    """
    e = at_one.get(at_one.metrics[1], model=model)
    # Up to one per image, the sentence before has said it. NaN is not above 1 either.
    if not e.value > 1.0:
        return ()
    rate = f"{digits(e.value, 2)} false alarms per image"
    every = f"With all its predictions, {short_name(model)} raises {rate}"
    if math.isnan(e.low):
        return (f"{every}.",)
    return (f"{every} ({interval_in_words(e, _rate_span)}).",)


def _rate_span(low: float, high: float) -> str:
    return f"{digits(low, 2)} to {digits(high, 2)}"


def _ahead(row: Difference, model: str, n_models: int) -> str:
    """Return how far the best model is ahead of the next one, and whether that is more than
    chance.
    """
    lead = row.estimate_for(model)
    other = row.model_b if row.model_a == model else row.model_a
    where = "at one false alarm per image"
    ahead = (
        f"{short_name(model)} finds {_points(lead.value)} more of the references than "
        f"{short_name(other)}"
    )
    span = interval_in_words(lead, POINTS.span)
    if math.isnan(row.p):
        return f"{where.capitalize()}, {ahead}; the difference was not tested ({span})."
    if lead.value == 0.0:
        return (
            f"{short_name(model)} and {short_name(other)} find equally many references "
            f"{where}; {span}."
        )
    if row.verdict in WON:
        return f"{where.capitalize()}, {ahead} ({span})."
    most = "more" if n_models == 2 else "most"
    doubt = f"No model is shown to find {most}: {where}, {ahead}"
    if lead.low <= 0.0 or math.isnan(row.p_adjusted):
        return f"{doubt}, but chance could explain it ({span})."
    return f"{doubt} ({span}), but {_not_significant(row)}."


def _closest(duel: Comparison | None, model: str) -> Difference | None:
    """Return the smallest lead of a model over another; None if nothing was compared."""
    if duel is None:
        return None
    rows = [row for row in duel.rows if not math.isnan(row.estimate.value)]
    return min(rows, key=lambda row: row.estimate_for(model).value, default=None)


def _leads(
    evaluation: Evaluation, all_pairs: Comparison | None, metrics: Sequence[str] | None = None
) -> list[str]:
    """Return which model leads in which headline metrics, or in ``metrics``, and whether by more
    than chance.
    """
    metrics_of_lead: dict[tuple[str, str], list[str]] = {}
    any_value = False
    for metric in evaluation.headline if metrics is None else metrics:
        values = {model: evaluation.get(metric, model=model).value for model in evaluation.models}
        defined = {model: value for model, value in values.items() if value == value}
        any_value = any_value or bool(defined)
        lead = _lead(evaluation, all_pairs, metric, defined)
        if lead is not None:
            metrics_of_lead.setdefault(lead, []).append(metric)
    if not metrics_of_lead:
        which = "headline metric" if metrics is None else "other headline metric"
        return [f"The models do not differ in any {which}."] if any_value else []
    sentences = []
    for kind, template in VERDICT_WORDS.items():
        for (lead_kind, models), names in metrics_of_lead.items():
            if lead_kind == kind:
                sentences.append(template.format(models=models, metrics=join(names)))
    return sentences


def _lead(
    evaluation: Evaluation, all_pairs: Comparison | None, metric: str, values: Mapping[str, float]
) -> tuple[str, str] | None:
    """Return the kind of lead in a metric (see `WORDS`) and who has it; None if all models tie."""
    if not values:
        return None
    if len(values) == 1:
        return "alone", short_name(next(iter(values)))
    best_value = max(values.values())
    if metric in evaluation.protocol.lower_is_better:
        best_value = min(values.values())
    best = [model for model, value in values.items() if value == best_value]
    if len(best) == len(values):
        return None
    if len(best) > 1:
        return "shared", join([short_name(model) for model in best])
    return _certainty(all_pairs, metric, best[0], len(values) - 1), short_name(best[0])


def _certainty(all_pairs: Comparison | None, metric: str, model: str, rivals: int) -> str:
    """Return how certain a lead is: ``sure`` if the model beats every rival after correction,
    ``unsure`` if it does not, ``untested`` if a rival was not compared.
    """
    n_tests = n_wins = 0
    for row in _pooled_rows(all_pairs, metric):
        if model not in (row.model_a, row.model_b) or row.verdict == "undefined":
            continue
        n_tests += 1
        if row.verdict in WON:
            winner = row.model_a if WON[row.verdict] else row.model_b
            n_wins += winner == model
    if n_wins < n_tests:
        return "unsure"
    return "sure" if n_wins == rivals else "untested"


def _single_model(evaluation: Evaluation, after_others: bool) -> list[str]:
    """Return the headline of a single model in words."""
    phrases = []
    for metric in evaluation.headline[: 3 if after_others else 4]:
        e = evaluation.get(metric)
        if e.value == e.value:
            unit = evaluation.protocol.units.get(metric, "")
            value = f"{two_decimals(e.value)} {unit}".strip()
            phrases.append(f"{metric} {value}{_interval(e, span_text)}")
    return [f"{join(phrases)}."] if phrases else []


def _interval(e: Estimate, span: Callable[[float, float], str]) -> str:
    """Return an interval in brackets; nothing if there is none."""
    return "" if math.isnan(e.low) else f" ({interval_in_words(e, span)})"


def _points(value: float) -> str:
    """Return a positive difference of shares in percentage points."""
    if POINTS.amount(value) == "0.0":
        return "less than 0.1 percentage points"
    return f"{POINTS.amount(value)} percentage points"
