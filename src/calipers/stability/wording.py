# SPDX-License-Identifier: Apache-2.0
"""A stability analysis in sentences, for a reader who wants to know how far the maps can be
trusted. In comes a `StabilityResult`; `StabilityResult.sentences` and the report call it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from calipers.results import Estimate
from calipers.stability.correlation import correlation
from calipers.statistics.estimate_words import as_share, as_value

if TYPE_CHECKING:
    from calipers.stability.models import LeaveOneOut
    from calipers.stability.result import StabilityResult

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Limits of PAR, which does not fall with every further model. They are our judgement, so the
# sentence always prints the number too.
MOSTLY, PARTLY = 0.8, 0.5
MOST_IMAGES = 3


def number_word(n: int) -> str:
    """Return a small number as a word."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def sentences(result: StabilityResult) -> list[str]:
    """Return the verdict, the numbers behind it, and its limits."""
    return [
        *_same_places(result),
        *_chance(result),
        *_undefined(result),
        *_worst(result),
        *_right(result),
    ]


def agreement_word(result: StabilityResult) -> str:
    """Return mostly, partly or hardly: how far two models mark the same places; empty if no model
    marks anything.
    """
    share = result["PAR"].value
    if share != share:
        return ""
    if share >= MOSTLY:
        return "mostly"
    return "partly" if share >= PARTLY else "hardly"


def by_chance(result: StabilityResult) -> bool:
    """Return whether APJ (the lower end of its interval, if there is one) is at most 0."""
    apj = result["APJ"]
    lowest = apj.value if apj.low != apj.low else apj.low
    return bool(lowest <= 0)


def _same_places(result: StabilityResult) -> Iterator[str]:
    pair, all_of, some = result["PAR"], result["called-by-all"], result["called-by-some"]
    models, images = number_word(len(result.models)), _images(result)
    verdict = agreement_word(result)
    if not verdict:
        yield (
            f"None of the {models} models marks anything on {images} at the threshold "
            f"{result.threshold:g}."
        )
        return
    chance = ", but no more than expected by chance" if by_chance(result) else ""
    yield (
        f"The {models} models {verdict} mark the same places{chance}: of what one model marks on "
        f"an image, another marks {_percent(pair)}, on average over {images}."
    )
    if len(result.models) > 2:
        yield f"Of what at least one of them marks, all {models} mark {_percent(all_of)}."
    yield (
        f"They disagree on {_percent(some)} of all places of an image: some models mark them, "
        "others do not."
    )


def _chance(result: StabilityResult) -> Iterator[str]:
    apj, rank = result["APJ"], result["Spearman"]
    if apj.value == apj.value:
        yield (
            "Corrected for chance, the overlap of two models (APJ: 1 for the same places, 0 for "
            f"chance) is {_value(apj)}. {_reach(result, apj)}."
        )
    if rank.value == rank.value:
        yield (
            "Without a threshold, the rank correlation of two maps (Spearman: 1 for the same "
            f"order) is {_value(rank)}."
        )


def _reach(result: StabilityResult, apj: Estimate) -> str:
    """Return to which images and which trainings the score generalises; without an interval, only
    the trainings.
    """
    trainings = _other_trainings(result.leave_one_out("APJ"))
    if apj.low != apj.low:
        return trainings[0].upper() + trainings[1:]
    scope = result.plan.units.generalises_to()
    return f"The interval speaks for {scope}, with these {_models(result)}; {trainings}"


def _other_trainings(jackknife: LeaveOneOut) -> str:
    if jackknife.reason is not None:
        return "it cannot be estimated for other trainings"
    if jackknife.low == jackknife.high:
        return "leaving out one model changes nothing"
    return (
        f"for other trainings it is {jackknife.low:.2f} to {jackknife.high:.2f}, from leaving out "
        "one model at a time"
    )


def _undefined(result: StabilityResult) -> Iterator[str]:
    missing = result.undefined("APJ")
    if missing.pairs:
        yield (
            f"For {missing.pairs} of {missing.of_pairs} pairs of maps APJ is undefined, because "
            f"both mark nothing or everything; {missing.bags} of {missing.of_bags} images have no "
            "value at all."
        )


def _worst(result: StabilityResult) -> Iterator[str]:
    order = result.ranked("APJ")
    if len(order) > MOST_IMAGES:
        values = result.per_bag("APJ")
        images = ", ".join(f"{result.ids[i]} ({values[i]:.2f})" for i in order[:MOST_IMAGES])
        yield f"Look first at the images on which they differ most: {images}."


def _right(result: StabilityResult) -> Iterator[str]:
    localized = result.localized
    if localized.has("DICE"):
        dice, values = localized.get("DICE"), localized.of_models("DICE")
        n = len(localized.ids)
        images = "image" if n == 1 else "images"
        text = (
            "Marking the same places is not marking the right ones: against the reference on "
            f"{n} annotated {images} the mean DICE is {_value(dice)}, from {np.min(values):.2f} to "
            f"{np.max(values):.2f} between models"
        )
        of_dice = localized.per_bag("DICE")[0]
        rank_correlation = correlation(result.per_bag("APJ")[localized.places], of_dice)
        if rank_correlation == rank_correlation:
            text += f"; its rank correlation with APJ over images is {rank_correlation:.2f}"
        yield f"{text}."
    if localized.has("AUC"):
        auc = localized.get("AUC")
        yield (
            f"Positive and negative images are separated with a mean AUC of {_value(auc)}, "
            f"n = {auc.n_images}."
        )


def _percent(share: Estimate) -> str:
    return as_share(share, "{span} % of {units} show no difference")


def _value(estimate: Estimate) -> str:
    return as_value(estimate, "{span} % of {units} are without a fault")


def _images(result: StabilityResult) -> str:
    images = "image" if result.n_used == 1 else "images"
    if result.plan.positive is not None and result.plan.bags == "positive":
        images = f"positive {images}"
    return f"{result.n_used} {images}"


def _models(result: StabilityResult) -> str:
    return f"{number_word(len(result.models))} models"
