# SPDX-License-Identifier: Apache-2.0
"""Object stability in words: the sentences and warnings of an `ObjectStability`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calipers.results import Estimate
from calipers.results.digits import percent
from calipers.statistics.estimate_words import interval_of, reason_of
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    from calipers.stability.objects_result import ObjectStability

FEW_MODELS = 5
MANY_UNDEFINED = 0.2


def sentences(result: ObjectStability) -> list[str]:
    """Return the result in sentences, the most important first."""
    candidates = [
        _references(result),
        _agreement(result),
        _overlap(result),
        _false_alarms(result),
        _without(result),
        _disputed(result),
    ]
    return [sentence for sentence in candidates if sentence]


def _references(result: ObjectStability) -> str:
    n, k = len(result.evidence.references), len(result.models)
    if not n:
        return "There are no counted references, so what the models find cannot be compared."
    every = _share(result["found-by-all"])
    some = _share(result["found-by-some"])
    none = _share(result["found-by-none"])
    references = _many(n, "reference")
    if k == 2:
        shares = f"both models find {every}, only one finds {some}"
    else:
        shares = f"all {k} models find {every}, some but not all find {some}"
    return f"Of {references}, {shares}, and none finds {none}."


def _agreement(result: ObjectStability) -> str:
    value, n_silent = result["agreement"], result.undefined[2]
    if math.isnan(value.value):
        return "No model predicts anything: agreement is undefined."
    details = f"mean over {_many(value.n_images, 'image')}"
    sd = result.sd("agreement")
    if sd == sd:
        details += f", standard deviation {sd:.2f}"
    if n_silent:
        details += f"; {_many(n_silent, 'image')} without any prediction left out"
    return f"Two models agree on {_share(value)} of what they predict, correct or not ({details})."


def _overlap(result: ObjectStability) -> str:
    value = result["mean-iou"]
    if math.isnan(value.value):
        return ""
    interval = ""
    if not math.isnan(value.low):
        interval = f" ({100 * value.level:g} % interval {value.low:.2f} to {value.high:.2f})"
    return (
        "Where they agree, their shapes have a mean intersection over union of "
        f"{value.value:.2f}{interval}."
    )


def _false_alarms(result: ObjectStability) -> str:
    n = len(result.evidence.places)
    if not n:
        return "No model raises a false alarm."
    share = _share(result["false-alarms-shared"])
    return f"Of {_many(n, 'place')} with a false alarm, at least two models share {share}."


def _without(result: ObjectStability) -> str:
    jackknife = result.leave_one_out("agreement")
    if jackknife.reason is not None:
        return ""
    without, value = jackknife.without, jackknife.value
    name = max(without, key=lambda model: abs(without[model] - value))
    return (
        f"Other trainings: without one of the models, the agreement lies between "
        f"{min(without.values()):.2f} and {max(without.values()):.2f} (furthest away without "
        f"{name}); the jackknife over {len(result.models)} models gives {value:.2f} with a "
        f"{100 * jackknife.level:g} % interval of {jackknife.low:.2f} to {jackknife.high:.2f}."
    )


def _disputed(result: ObjectStability) -> str:
    images = result.disputed(3)
    if not images:
        return "No reference is disputed." if len(result.evidence.references) else ""
    texts = [f"{one.image} ({len(one.references)} of {one.n_references})" for one in images]
    return f"Most disputed references: {', '.join(texts)}."


def warnings(result: ObjectStability) -> tuple[str, ...]:
    """Return what was left out, and what limits the numbers."""
    return (*_left_out(result), *_limits(result))


def _left_out(result: ObjectStability) -> list[str]:
    evidence, notes = result.evidence, []
    if n_ignored := int(evidence.ignored.sum()):
        notes.append(f"{_many(n_ignored, 'reference')} left out: ignored, or crowds")
    score_cut = result.settings["score_cut"]
    for name, n in result.below.items():
        if n:
            notes.append(f"{_many(n, 'prediction')} of {name} left out: score below {score_cut:g}")
    for name, n in zip(result.models, evidence.duplicates.sum(axis=0).tolist()):
        if n:
            notes.append(
                f"{_many(n, 'duplicate')} of {name}: further predictions of a reference that "
                "was already found, not counted as false alarms"
            )
    chained = int((evidence.places.members > evidence.places.by_model.sum(axis=1)).sum())
    if chained:
        notes.append(
            f"{_many(chained, 'place')} with several false alarms of one model, counted once"
        )
    unscored = [name for name in result.models if not result.cohort.models[name].scored]
    if unscored:
        notes.append(f"no scores: {', '.join(unscored)}; all predictions count, with a score of 1")
    return notes


def _limits(result: ObjectStability) -> list[str]:
    notes, n_models, agreement = [], len(result.models), result["agreement"]
    n_undefined, n_pairs, _ = result.undefined
    if n_undefined:
        note = (
            f"in {n_undefined} of {n_pairs} comparisons of two models on an image, both predict "
            "nothing: skipped"
        )
        if n_undefined > MANY_UNDEFINED * n_pairs:
            note += ", a large part: see agreement-with-silence too"
        notes.append(note)
    if n_models < FEW_MODELS:
        notes.append(f"{n_models} models are too few to predict what other trainings would find")
    if result.evidence.n_images and np.isnan(agreement.low) and agreement.reason:
        notes.append(f"no interval of the agreement: {reason_of(agreement)}")
    if "few_units" in agreement.flags:
        notes.append(
            f"few units ({agreement.n_units} {plural(agreement.unit)}): intervals are rough"
        )
    notes.append(
        "the shares found by all, some and none depend on the number of models: compare only "
        "results with equal numbers"
    )
    return notes


def _many(n: int, what: str) -> str:
    return f"{n} {what if n == 1 else plural(what)}"


def _share(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "an undefined share"
    value = f"{percent(estimate.value)} %"
    if math.isnan(estimate.low):
        return value
    if estimate.method == "clopper-pearson-units":  # too few exceptions for a bootstrap
        level, units = f"{100 * estimate.level:g}", plural(estimate.unit)
        return f"{value} (at {level} %: {_between(estimate)} of the {units})"
    return f"{value} ({interval_of(estimate)} {_between(estimate)})"


def _between(estimate: Estimate) -> str:
    return f"{percent(estimate.low)} to {percent(estimate.high)} %"
