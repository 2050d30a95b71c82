# SPDX-License-Identifier: Apache-2.0
"""What the page of a stability analysis says: how far the maps can be trusted, and the methods for a paper."""

from __future__ import annotations

from calipers.stability.result import StabilityResult
from calipers.stability.wording import MOSTLY, PARTLY, counted
from calipers.statistics.weights import plural

RIGHT = 0.5  # of DICE, from which on models are said to mark what the reference does: judgement, said with the number

CITATIONS = (
    "Romanova A, van Schoren S, Cheplygina V. Localization stability of weakly supervised deep neural networks.",
    "Cohen J. A coefficient of agreement for nominal scales. Educ Psychol Meas 1960;20:37-46.",
    "Feinstein AR, Cicchetti DV. High agreement but low kappa: I. The problems of two paradoxes. J Clin Epidemiol "
    "1990;43:543-549.",
    "Byrt T, Bishop J, Carlin JB. Bias, prevalence and kappa. J Clin Epidemiol 1993;46:423-429.",
    "Gwet KL. Computing inter-rater reliability and its variance in the presence of high agreement. Br J Math Stat "
    "Psychol 2008;61:29-48.",
)
UNDEFINED = {
    "skip": "left out and counted",
    "agree": "counted as 1 if both mark everything and as 0 if both mark nothing",
    "one": "counted as 1",
}


def trust(found: StabilityResult) -> str:
    """Return how far a single map can be trusted, in a sentence; the numbers stand in the sentences after it."""
    share = found["called-by-all"].value
    models = f"{counted(len(found.models))} models"
    if share != share:
        return f"There is nothing to trust: none of the {models} marks anything at the threshold {found.threshold:g}."
    right = found.localized.get("DICE").value if found.localized.has("DICE") else None
    if share < PARTLY:
        also = " Nor do they mark what the reference does." if right is not None and right < RIGHT else ""
        return f"Do not trust a single map: these {models} mark different places on the same image.{also}"
    if share < MOSTLY:
        start = f"Trust a single map in part: these {models} share a core of places and differ around it."
    else:
        start = f"A single map says what the others say: these {models} mark nearly the same places."
    return f"{start} {_rightness(right)}"


def _rightness(dice: float | None) -> str:
    if dice is None:
        return "Whether it is the right place is not known without a reference."
    if dice < RIGHT:
        return f"But it is mostly not where the reference is (mean DICE {dice:.2f}): stable is not right."
    return f"It is mostly where the reference is (mean DICE {dice:.2f})."


def described(found: StabilityResult) -> str:
    """Return what was looked at, in a line."""
    instances = int(found.evidence.n.sum())
    left = found.n_bags - found.n_used
    more = f" ({left} negative ones are left out)" if left else ""
    return (
        f"{len(found.models)} models, {found.n_used} images{more}, {instances:,} places; a place is marked from a score "
        f"of {found.threshold:g} on."
    )


def methods(found: StabilityResult) -> list[str]:
    """Return paragraphs that a paper can take over."""
    plan, n = found.plan, len(found.models)
    kind = "positive images" if plan.positive is not None and plan.bags == "positive" else "images"
    first = (
        f"We compared the maps of {n} models that were trained alike on {found.n_used} {kind}. Maps were binarised at "
        f"{found.threshold:g}. For each image and each of the {n * (n - 1) // 2} unordered pairs of models we computed "
        "the agreement of the binary maps, among others the adjusted positive Jaccard index (APJ: the Jaccard index of "
        "positive instances corrected for chance; 1 for the same instances, 0 for what chance gives), positive and "
        "negative agreement and Gwet's AC1, and rank and linear correlations of the maps themselves. The value of an "
        "image is the mean over pairs, and the value reported is the mean over images. Pairs of maps for which a score "
        f"is 0/0, because both mark nothing or everything, were {UNDEFINED[plan.undefined]}."
    )
    return [first, _uncertainty(found), *_against(found)]


def _uncertainty(found: StabilityResult) -> str:
    plan, certainty = found.plan, found.plan.certainty
    units = plural(plan.units.name)
    said = "No intervals over images were made."
    if certainty.replicates:
        said = (
            f"Intervals of {100 * certainty.level:g} % come from {certainty.replicates} bootstrap replicates over "
            f"{plan.units.number} {units} (seed {certainty.seed}), with these models, and speak for "
            f"{plan.units.generalises_to()}."
        )
    if found.leave_one_out("APJ").reason is None:
        said += (
            " Pairs that share a model are dependent, so pairs were never counted as independent: the uncertainty over "
            f"trainings is a t interval with {len(found.models) - 1} degrees of freedom from the jackknife over models."
        )
    return f"{said} Standard deviations are over images (ddof 0)."


def _against(found: StabilityResult) -> list[str]:
    local, said = found.localized, []
    if local.has("DICE"):
        said.append(
            f"On {len(local.ids)} annotated positive images every model was compared with the reference by DICE, the "
            f"Jaccard index, and whether the Jaccard index is at least {local.least_jaccard:g} (accuracy)."
        )
    if local.has("AUC"):
        scores = "given scores" if local.pooling == "given" else f"the {local.pooling} of each map"
        said.append(f"Whole images were told apart by {scores}, measured by the area under the ROC curve (AUC).")
    return [" ".join(said)] if said else []
