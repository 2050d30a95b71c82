# SPDX-License-Identifier: Apache-2.0
"""The words of the page of a stability analysis: can the maps be trusted, and methods for a
paper.
"""

from __future__ import annotations

from calipers.stability.result import StabilityResult
from calipers.stability.wording import agreement_word, by_chance, number_word

# From this mean DICE on, models are said to mark what the reference does. It is a judgement, so the
# sentence states the number too.
RIGHT = 0.5

CITATIONS = (
    "Romanova R, van Schoren J, Cheplygina V. Localization stability of weakly supervised deep "
    "neural networks.",
    "Cohen J. A coefficient of agreement for nominal scales. Educ Psychol Meas 1960;20:37-46.",
    "Feinstein AR, Cicchetti DV. High agreement but low kappa: I. The problems of two paradoxes. J "
    "Clin Epidemiol "
    "1990;43:543-549.",
    "Byrt T, Bishop J, Carlin JB. Bias, prevalence and kappa. J Clin Epidemiol 1993.",
    "Gwet KL. Computing inter-rater reliability in the presence of high agreement. Br J Math Stat "
    "Psychol 2008.",
)
UNDEFINED = {
    "skip": "left out and counted",
    "agree": "counted as 1 if both mark everything and as 0 if both mark nothing",
    "one": "counted as 1",
}
MEANINGS = {  # of the scores, for readers who have never heard of them
    "called-by-all": "of the places that any model marks, the share that all of them mark",
    "called-by-some": "of all places, the share that some but not all models mark",
    "APJ": (
        "overlap (Jaccard) of what two models mark, corrected for chance: 1 for the same places, 0 "
        "as by chance"
    ),
    "AJ": "Cohen's kappa of two models: the same information as APJ on another scale",
    "PAR": "agreement of two models on marked places (their Dice)",
    "NAR": "agreement of two models on unmarked places",
    "TAR": "share of places on which two models agree, marked or not",
    "AC1": "the same, corrected for chance in a way that stays high if almost nothing is marked",
    "Pearson": "correlation of the scores of two maps, without a threshold",
    "Spearman": "correlation of the ranks of two maps, without a threshold",
}


def trust(result: StabilityResult, what: str = "map") -> str:
    """Return in one sentence, without numbers, whether a single map, or model, can be trusted."""
    word, models = agreement_word(result), f"{number_word(len(result.models))} models"
    if not word:
        return (
            f"There is nothing to trust: none of the {models} marks anything at the threshold "
            f"{result.threshold:g}."
        )
    right = result.localized.get("DICE").value if result.localized.has("DICE") else None
    if word == "hardly" or by_chance(result):
        why = "agree no better than chance"
        if word == "hardly":
            why = "mark different places on the same image"
        also = ""
        if _wrong(right):
            also = f" Nor do they mark what the reference marks (mean DICE {right:.2f})."
        elif right is not None:
            also = (
                " Still, on average they mark much of what the reference marks "
                f"(mean DICE {right:.2f})."
            )
        return f"Do not trust a single {what}: these {models} {why}.{also}"
    if _wrong(right):
        return (
            f"Do not trust these {what}s: the {models} {word} mark the same places, but these are "
            f"mostly not where the reference is (mean DICE {right:.2f}). Stable is not right."
        )
    start = (
        f"Trust a single {what} in part: these {models} share a core of places and differ around "
        "it."
    )
    if word == "mostly":
        start = (
            f"A single {what} stands for the others: these {models} mark nearly the same places."
        )
    if right is None:
        return f"{start} Without a reference, nobody knows whether they are the right places."
    return f"{start} They are mostly where the reference is (mean DICE {right:.2f})."


def _wrong(dice: float | None) -> bool:
    return dice is not None and dice < RIGHT


def summary_line(result: StabilityResult) -> str:
    """Return models, images and places in one line."""
    instances = int(result.evidence.n.sum())
    n_omitted = result.n_bags - result.n_used
    omitted_note = f" ({n_omitted} negative ones are left out)" if n_omitted else ""
    return (
        f"{len(result.models)} models, {result.n_used} images{omitted_note}, {instances:,} places; "
        f"a place is marked if its score is at least {result.threshold:g}."
    )


def methods(result: StabilityResult) -> list[str]:
    """Return paragraphs on methods that are ready for a paper."""
    plan, n = result.plan, len(result.models)
    kind = "positive images" if plan.positive is not None and plan.bags == "positive" else "images"
    first = (
        f"We compared the maps of {n} models that were trained alike on {result.n_used} {kind}. "
        f"Maps were binarised at {result.threshold:g}. For each image and each of the "
        f"{n * (n - 1) // 2} unordered pairs of models we computed the agreement of the binary "
        "maps, among others the adjusted positive Jaccard index (APJ: the Jaccard index of "
        "positive instances corrected for chance; 1 for the same instances, 0 for agreement by "
        "chance), positive and negative agreement and Gwet's AC1, and rank and linear correlations "
        "of the maps themselves. The value of an image is the mean over pairs, and the reported "
        "value is the mean over images. Pairs of maps for which a score is 0/0, because both mark "
        f"nothing or everything, were {UNDEFINED[plan.undefined]}."
    )
    return [first, _uncertainty(result), *_against(result)]


def _uncertainty(result: StabilityResult) -> str:
    plan, certainty = result.plan, result.plan.certainty
    sentences = ["No confidence intervals over images were computed."]
    if certainty.replicates:
        sentences = [
            f"{100 * certainty.level:g} % confidence intervals come from {certainty.replicates} "
            f"bootstrap replicates, resampled by {plan.units.name} (n = {plan.units.number}, seed "
            f"{certainty.seed}), with these models; they generalise to "
            f"{plan.units.generalises_to()}."
        ]
    if result.leave_one_out("APJ").reason is None:
        sentences.append(
            "Pairs that share a model are dependent, so pairs were never counted as independent: "
            f"the uncertainty over trainings is a t interval with {len(result.models) - 1} degrees "
            "of freedom from the jackknife over models."
        )
    sentences.append("Standard deviations are over images (ddof 0).")
    return " ".join(sentences)


def _against(result: StabilityResult) -> list[str]:
    local, sentences = result.localized, []
    if local.has("DICE"):
        sentences.append(
            f"On {len(local.ids)} annotated positive images every model was compared with the "
            "reference by DICE, the Jaccard index, and whether the Jaccard index is at least "
            f"{local.least_jaccard:g} (accuracy)."
        )
    if local.has("AUC"):
        scores = "given scores" if local.pooling == "given" else f"the {local.pooling} of each map"
        sentences.append(
            f"Whole images were classified by {scores}, measured by the area under the ROC curve "
            "(AUC)."
        )
    return [" ".join(sentences)] if sentences else []
