# SPDX-License-Identifier: Apache-2.0
"""Object stability in words: what was found, and what must be known of it."""

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


def sentences(found: ObjectStability) -> list[str]:
    """Return the verdict, from what matters most to what explains it."""
    said = [_references(found), _agreement(found)]
    said += [_overlap(found), _false_alarms(found)]
    said += [_without(found), _disputed(found)]
    return [sentence for sentence in said if sentence]


def _references(found: ObjectStability) -> str:
    n, k = len(found.evidence.references), len(found.models)
    if not n:
        return "There are no counted references: nothing can be said of what the models find."
    every, some, none = (found[f"found-by-{kind}"] for kind in ("all", "some", "none"))
    middle = (
        f"one of them alone finds {_share(some)}"
        if k == 2
        else f"some but not all find {_share(some)}"
    )
    who = "both" if k == 2 else f"all {k}"
    return f"Of {_many(n, 'reference')}, {who} models find {_share(every)}, {middle}, and none finds {_share(none)}."


def _agreement(found: ObjectStability) -> str:
    value, silent = found["agreement"], found.undefined[2]
    if math.isnan(value.value):
        return "No model predicts anything: agreement is undefined."
    spread, n = found.sd("agreement"), value.n_images
    told = f", standard deviation {spread:.2f}" if spread == spread else ""
    left = f"; {_many(silent, 'image')} on which all are silent left out" if silent else ""
    return (
        f"Two models agree on {_share(value)} of what they predict, whether it is right or not "
        f"(mean over {_many(n, 'image')}{told}{left})."
    )


def _overlap(found: ObjectStability) -> str:
    value = found["mean-iou"]
    if math.isnan(value.value):
        return ""
    between = (
        ""
        if math.isnan(value.low)
        else f" ({100 * value.level:g} % interval {value.low:.2f} to {value.high:.2f})"
    )
    return f"Where they agree, their shapes have a mean intersection over union of {value.value:.2f}{between}."


def _false_alarms(found: ObjectStability) -> str:
    n = len(found.evidence.places)
    if not n:
        return "No model raises a false alarm."
    return f"Of {_many(n, 'place')} with a false alarm, at least two models share {_share(found['false-alarms-shared'])}."


def _without(found: ObjectStability) -> str:
    one = found.leave_one_out("agreement")
    if one.reason is not None:
        return ""
    name = max(one.without, key=lambda model: abs(one.without[model] - one.value))
    return (
        f"Other trainings: the agreement without one of the models lies between {min(one.without.values()):.2f} and "
        f"{max(one.without.values()):.2f} (furthest away without {name}); leaving out models gives {one.value:.2f} "
        f"with a {100 * one.level:g} % interval of {one.low:.2f} to {one.high:.2f} over {len(found.models)} models."
    )


def _disputed(found: ObjectStability) -> str:
    worst = found.disputed(3)
    if not worst:
        return "No reference is disputed." if len(found.evidence.references) else ""
    listed = ", ".join(
        f"{one.image} ({len(one.references)} of {one.n_references})" for one in worst
    )
    return f"Most disputed references: {listed}."


def warnings(found: ObjectStability) -> tuple[str, ...]:
    """Return what was left out, and what makes the numbers weak."""
    said = [*_left_out(found), *_weak(found)]
    return tuple(said)


def _left_out(found: ObjectStability) -> list[str]:
    evidence, said = found.evidence, []
    if ignored := int(evidence.ignored.sum()):
        said.append(f"{_many(ignored, 'reference')} left out: ignored, or crowds")
    for name, n in found.below.items():
        if n:
            said.append(
                f"{_many(n, 'prediction')} of {name} left out: score below {found.settings['score_cut']:g}"
            )
    for name, n in zip(found.models, evidence.duplicates.sum(axis=0).tolist()):
        if n:
            said.append(
                f"{_many(n, 'duplicate')} of {name}: further predictions of a found reference, no false alarms"
            )
    chained = int((evidence.places.members > evidence.places.found.sum(axis=1)).sum())
    if chained:
        said.append(
            f"{_many(chained, 'place')} with several false alarms of one model, which counts once there"
        )
    unscored = [name for name in found.models if not found.cohort.models[name].scored]
    if unscored:
        said.append(
            f"no scores: {', '.join(unscored)}; all predictions count, as with a score of 1"
        )
    return said


def _weak(found: ObjectStability) -> list[str]:
    said, k = [], len(found.models)
    undefined, pairs, _ = found.undefined
    if undefined:
        share = (
            ""
            if undefined <= MANY_UNDEFINED * pairs
            else ", a large part: look at agreement-with-silence too"
        )
        said.append(
            f"in {undefined} of {pairs} comparisons of two models on an image both say nothing: skipped{share}"
        )
    if k < FEW_MODELS:
        said.append(f"{k} models: what other trainings would find can hardly be told")
    if found.evidence.n_images and np.isnan(found["agreement"].low) and found["agreement"].reason:
        said.append(f"no interval of the agreement: {reason_of(found['agreement'])}")
    n, unit = found["agreement"].n_units, found["agreement"].unit
    if "few_units" in found["agreement"].flags:
        said.append(f"few units ({n} {plural(unit)}): intervals are rough")
    said.append(
        "the shares found by all, some and none depend on the number of models: compare equal numbers of them"
    )
    return said


def _many(n: int, what: str) -> str:
    return f"{n} {what if n == 1 else plural(what)}"


def _share(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "an undefined share"
    value = f"{percent(estimate.value)} %"
    if math.isnan(estimate.low):
        return value
    if estimate.method == "clopper-pearson-units":  # too few exceptions for a bootstrap
        return f"{value} (at {100 * estimate.level:g} %: {_between(estimate)} of the {plural(estimate.unit)})"
    return f"{value} ({interval_of(estimate)} {_between(estimate)})"


def _between(estimate: Estimate) -> str:
    return f"{percent(estimate.low)} to {percent(estimate.high)} %"
