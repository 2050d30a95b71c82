# SPDX-License-Identifier: Apache-2.0
"""A stability analysis in sentences, for somebody who wants to know how far the maps can be
trusted.
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
MOSTLY, PARTLY = (
    0.8,
    0.5,
)  # of PAR, which does not fall with every further model: judgement, said with the number
SHOWN = 3


def counted(n: int) -> str:
    """Return a small number as a word."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def sentences(result: StabilityResult) -> list[str]:
    """Return the verdict, what it rests on, and where it does not hold."""
    return [
        *_same_places(result),
        *_chance(result),
        *_undefined(result),
        *_worst(result),
        *_right(result),
    ]


def shared(result: StabilityResult) -> str:
    """Return mostly, partly or hardly: how far two models mark the same places; empty if none marks
    anything.
    """
    share = result["PAR"].value
    if share != share:
        return ""
    return "mostly" if share >= MOSTLY else "partly" if share >= PARTLY else "hardly"


def by_chance(result: StabilityResult) -> bool:
    """Return whether two models agree no more than chance would make them, as far as is known."""
    apj = result["APJ"]
    return bool((apj.value if apj.low != apj.low else apj.low) <= 0)


def _same_places(result: StabilityResult) -> Iterator[str]:
    pair, all_of, some = result["PAR"], result["called-by-all"], result["called-by-some"]
    models, images = counted(len(result.models)), _images(result)
    verdict = shared(result)
    if not verdict:
        yield f"None of the {models} models marks anything on {images} at the threshold {result.threshold:g}."
        return
    chance = ", and no more than chance would make them" if by_chance(result) else ""
    yield (
        f"The {models} models {verdict} mark the same places{chance}: of what one of them marks on an image, another "
        f"marks {_percent(pair)}, on average over {images}."
    )
    if len(result.models) > 2:
        yield f"Of what at least one of them marks, all {models} mark {_percent(all_of)}."
    yield f"They disagree on {_percent(some)} of all places of an image: some mark them, others do not."


def _chance(result: StabilityResult) -> Iterator[str]:
    apj, rank = result["APJ"], result["Spearman"]
    if apj.value == apj.value:
        yield (
            f"Corrected for chance, the overlap of two models (APJ: 1 is the same places, 0 is what chance gives) is "
            f"{_value(apj)}. {_reach(result, apj)}."
        )
    if rank.value == rank.value:
        yield f"Without a threshold, the rank correlation of two maps (Spearman: 1 is one order) is {_value(rank)}."


def _reach(result: StabilityResult, apj: Estimate) -> str:
    """Return for which images and which trainings the score speaks; without an interval, only the
    second.
    """
    trainings = _other_trainings(result.leave_one_out("APJ"))
    if apj.low != apj.low:
        return trainings[0].upper() + trainings[1:]
    over = f"The interval speaks for {result.plan.units.generalises_to()}, with these {_models(result)}"
    return f"{over}; {trainings}"


def _other_trainings(left: LeaveOneOut) -> str:
    if left.reason is not None:
        return "of other trainings nothing can be said"
    if left.low == left.high:
        return "leaving out one model changes nothing"
    return f"for other trainings it is {left.low:.2f} to {left.high:.2f}, from leaving out one model at a time"


def _undefined(result: StabilityResult) -> Iterator[str]:
    missing = result.undefined("APJ")
    if missing.pairs:
        yield (
            f"For {missing.pairs} of {missing.of_pairs} pairs of maps there is no APJ, because both mark nothing or "
            f"everything; {missing.bags} of {missing.of_bags} images have no value at all."
        )


def _worst(result: StabilityResult) -> Iterator[str]:
    order = result.ranked("APJ")
    if len(order) > SHOWN:
        values = result.per_bag("APJ")
        shown = ", ".join(f"{result.ids[i]} ({values[i]:.2f})" for i in order[:SHOWN])
        yield f"Look first at the images on which they differ most: {shown}."


def _right(result: StabilityResult) -> Iterator[str]:
    found = result.localized
    if found.has("DICE"):
        dice, values = found.get("DICE"), found.of_models("DICE")
        n = len(found.ids)
        text = (
            f"Marking the same places is not marking the right ones: against the reference on {n} annotated "
            f"{'image' if n == 1 else 'images'} the mean DICE is {_value(dice)}, from {np.min(values):.2f} to "
            f"{np.max(values):.2f} between models"
        )
        together = correlation(result.per_bag("APJ")[found.places], found.per_bag("DICE")[0])
        yield text + (
            f"; its rank correlation with APJ over images is {together:.2f}."
            if together == together
            else "."
        )
    if found.has("AUC"):
        auc = found.get("AUC")
        yield f"Positive images are told from negative ones with a mean AUC of {_value(auc)}, n = {auc.n_images}."


def _percent(share: Estimate) -> str:
    return as_share(share, "{span} % of {units} show no difference")


def _value(estimate: Estimate) -> str:
    return as_value(estimate, "{span} % of {units} are without a fault")


def _images(result: StabilityResult) -> str:
    kind = (
        "positive " if result.plan.positive is not None and result.plan.bags == "positive" else ""
    )
    return f"{result.n_used} {kind}{'image' if result.n_used == 1 else 'images'}"


def _models(result: StabilityResult) -> str:
    return f"{counted(len(result.models))} models"
