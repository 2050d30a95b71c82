# SPDX-License-Identifier: Apache-2.0
"""What the page of a stability analysis says: how far the maps can be trusted, and the methods for
a paper.
"""

from __future__ import annotations

from calipers.stability.result import StabilityResult
from calipers.stability.wording import agreement_word, by_chance, number_word
from calipers.statistics.weights import plural

# of DICE, from which on models are said to mark what the reference does: judgement, said with the
# number
RIGHT = 0.5

CITATIONS = (
    "Romanova R, van Schoren J, Cheplygina V. Localization stability of weakly supervised deep neural networks.",
    "Cohen J. A coefficient of agreement for nominal scales. Educ Psychol Meas 1960;20:37-46.",
    "Feinstein AR, Cicchetti DV. High agreement but low kappa: I. The problems of two paradoxes. J Clin Epidemiol "
    "1990;43:543-549.",
    "Byrt T, Bishop J, Carlin JB. Bias, prevalence and kappa. J Clin Epidemiol 1993.",
    "Gwet KL. Computing inter-rater reliability in the presence of high agreement. Br J Math Stat Psychol 2008.",
)
UNDEFINED = {
    "skip": "left out and counted",
    "agree": "counted as 1 if both mark everything and as 0 if both mark nothing",
    "one": "counted as 1",
}
MEANINGS = {  # of the scores above, for somebody who has never heard of them
    "called-by-all": "of the places that any model marks, how many all of them mark",
    "called-by-some": "of all places, how many some but not all models mark",
    "APJ": "overlap (Jaccard) of what two models mark, corrected for chance: 1 the same places, 0 as by chance",
    "AJ": "Cohen's kappa of two models: the same finding as APJ on another scale",
    "PAR": "agreement of two models on marked places (their Dice)",
    "NAR": "agreement of two models on unmarked places",
    "TAR": "share of places on which two models say the same, marked or not",
    "AC1": "the same, corrected for chance in a way that stays high if nearly nothing is marked",
    "Pearson": "correlation of the scores of two maps, without a threshold",
    "Spearman": "correlation of the ranks of two maps, without a threshold",
}


def trust(found: StabilityResult, what: str = "map") -> str:
    """Return how far a single map, or model, can be trusted, in a sentence; others have the
    numbers.
    """
    word, models = agreement_word(found), f"{number_word(len(found.models))} models"
    if not word:
        return f"There is nothing to trust: none of the {models} marks anything at the threshold {found.threshold:g}."
    right = found.localized.get("DICE").value if found.localized.has("DICE") else None
    if word == "hardly" or by_chance(found):
        also = (
            f" Nor do they mark what the reference does (mean DICE {right:.2f})."
            if _wrong(right)
            else ""
        )
        if right is not None and not also:
            also = f" Still, on average they mark much of what the reference does (mean DICE {right:.2f})."
        why = (
            "mark different places on the same image"
            if word == "hardly"
            else "agree no more than by chance"
        )
        return f"Do not trust a single {what}: these {models} {why}.{also}"
    if _wrong(right):
        return (
            f"Do not trust these {what}s: the {models} {word} mark the same places, and these are mostly not where the "
            f"reference is (mean DICE {right:.2f}). Stable is not right."
        )
    start = f"Trust a single {what} in part: these {models} share a core of places and differ around it."
    if word == "mostly":
        start = (
            f"A single {what} says what the others say: these {models} mark nearly the same places."
        )
    if right is None:
        return f"{start} Whether they are the right places is not known without a reference."
    return f"{start} They are mostly where the reference is (mean DICE {right:.2f})."


def _wrong(dice: float | None) -> bool:
    return dice is not None and dice < RIGHT


def described(found: StabilityResult) -> str:
    """Return what was looked at, in a line."""
    instances = int(found.evidence.n.sum())
    left = found.n_bags - found.n_used
    more = f" ({left} negative ones are left out)" if left else ""
    return (
        f"{len(found.models)} models, {found.n_used} images{more}, {instances:,} places; a place is marked from a "
        f"score of {found.threshold:g} on."
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
        said.append(
            f"Whole images were told apart by {scores}, measured by the area under the ROC curve (AUC)."
        )
    return [" ".join(said)] if said else []
