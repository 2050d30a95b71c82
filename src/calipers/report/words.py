# SPDX-License-Identifier: Apache-2.0
"""Words that all pages share: meanings of metrics, intervals, reasons, names and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from calipers.evaluation import Evaluation
from calipers.plots.words import short_name
from calipers.results import Estimate
from calipers.results.digits import short_number
from calipers.statistics.weights import plural as named_plural

LONGEST = 60  # characters of a name
TAIL = 20  # of them from its end: versions and folds stand there
MEANINGS = {
    "average-precision": (
        "Precision along the ranking by score, averaged over recall; mean over the classes that "
        "have references. False alarms with low scores cost little; a right place with a wrong "
        "class counts for nothing."
    ),
    "average-recall": (
        "The share of references that the best predictions of each image reach, averaged over "
        "thresholds and classes."
    ),
    "froc": "Sensitivity at fixed numbers of false alarms per image, averaged over them.",
    "sensitivity": "The share of references that were found.",
    "ppv": "The share of predictions that are right.",
    "f-beta": "Sensitivity and PPV in one number; beta above 1 gives sensitivity more weight.",
    "accuracy": (
        "Right calls among all, including images without the class: high even without any "
        "prediction when findings are rare."
    ),
    "false-alarms": "Predictions that are wrong, including duplicates, per image.",
    "count": "A plain count.",
    "rodeo": (
        "Robust Detection Outcome: every box is paired with its most plausible partner, then "
        "judged "
        "in three parts, place (loc), shape and class (cls); the total is their harmonic mean. "
        "Missed and surplus boxes lower all parts."
    ),
    "panoptic-quality": (
        "Recognition quality (RQ) is F1, segmentation quality (SQ) is the mean overlap of the "
        "hits, "
        "and panoptic quality (PQ) is their product."
    ),
    "instance-f1": (
        "F1 of the objects of each image, averaged over images; an image without references and "
        "predictions counts 1, so normal images without a false alarm raise it. Pooled: F1 of all "
        "objects."
    ),
    "instance-iou": (
        "The overlap that references reach with their prediction, 0 for missed ones; or of the "
        "hits "
        "only."
    ),
    "centre-distance": "How far the hits are from the centre of their reference.",
    "case-auroc": (
        "Whether the highest score of an image separates images with references from those "
        "without: "
        "the share of such pairs of images in the right order."
    ),
    "picai-score": "The mean of the average precision of objects and the AUROC of images.",
    "error-types": (
        "Error types of TIDE: dAP is the average precision gained if one kind of mistake were "
        "fixed, errors is their number: wrong class (cls), place roughly right (loc), both, second "
        "prediction on one reference (dup), prediction on nothing (bkg), reference that no "
        "prediction comes near (miss), all false alarms (fp), all references that were not found "
        "(fn), false alarms on images without references (empty). Gains do not add up."
    ),
    "voxel-average-precision": (
        "Of all voxels ranked by score: the precision at every reference voxel, averaged. Over the "
        "data set all voxels are one ranking; each sample or slice has its own, and those without "
        "references have no value. Large references count most."
    ),
    "voxel-auroc": (
        "The probability that a reference voxel scores higher than another one. Near 1 for almost "
        "any model if references are small: the easy background counts most."
    ),
    "aupro": (
        "The mean share of every reference that is called, as a function of the share of other "
        "voxels that are called, up to 0.3 of them: all references count the same, whatever their "
        "size."
    ),
    "voxel-dice": (
        "Twice the number of called reference voxels, over the number of called plus reference "
        "voxels: at the threshold that is best on these very images, which is optimistic, or at a "
        "given one."
    ),
    "voxel-iou": (
        "The number of called reference voxels, over the number of voxels that are called or "
        "belong to references; Dice / (2 - Dice)."
    ),
    "soft-instance-iou": (
        "For every reference, without a threshold: the score inside it, over the mean of its size "
        "and of all score on it and the background; then the mean per image. At alpha 0.5 this is "
        "a "
        "soft Dice, so the soft Jaccard stands beside it. Faint scores all over the background "
        "lower it. An image without references has 1 if nothing is called, and less with every "
        "score."
    ),
}
REASONS = {
    "no_references": "there are no references of that kind",
    "no_predictions": "there are no predictions of that kind",
    "no_objects": "there are neither references nor predictions of that kind",
    "single_class": "the cohort has one class only",
    "no_positives": "nothing of that kind is positive: no prediction is a hit",
    "single_category": "all images are of one category, with references or without",
}


def best_of(estimates: Sequence[Estimate], *, lower: bool) -> list[bool]:
    """Return which estimates are the best of several; none if all are equal."""
    values = [e.value for e in estimates if not math.isnan(e.value)]
    if not values or (len(set(values)) == 1 and len(values) == len(estimates)):
        return [False] * len(estimates)
    top = min(values) if lower else max(values)
    return [len(values) > 1 and e.value == top for e in estimates]


def intervals_in_words(evaluation: Evaluation) -> str:
    """Return how the intervals were computed, as a paragraph for a paper."""
    statistics = evaluation.statistics
    unit, units = statistics["unit"], named_plural(statistics["unit"])
    words = [
        f"{100 * statistics['level']:g} % confidence intervals come from "
        f"{statistics['replicates']} bootstrap replicates, resampled by {unit} "
        f"(n = {statistics['n_units']}, seed {statistics['seed']}); they generalise to "
        f"{statistics['generalises_to']}."
    ]
    if statistics["interval"] == "bootse-t-logit":
        strata = evaluation.protocol.strata
        less = "one" if strata is None else f"one per {strata}"
        words.append(
            "Each is a t interval around the value, with the standard deviation of its replicates "
            "as standard error, on the scale of the metric (logit between 0 and 1, log from 0 on); "
            f"its degrees of freedom are the number of {units} less {less}."
        )
    else:
        words.append(f"Kind of interval: {statistics['interval']}.")
    words.append(
        f"There is no interval for fewer than 5 {units}, or if more than 5 % of the replicates "
        f"have "
        f"no value. With fewer than 5 {units} in error, and fewer than half of them, it is the "
        f"Clopper-Pearson interval of the share of {units} without error, and marked."
    )
    return " ".join(words)


def meanings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield (names, what they mean), one entry per kind of metric."""
    kinds: dict[str, list[str]] = {}
    for plan in evaluation.protocol.metrics:
        kinds.setdefault(plan.kind, []).append(plan.name)
    for kind, names in kinds.items():
        if kind in MEANINGS:
            yield ", ".join(names), MEANINGS[kind]


def undefined(estimates: Sequence[Estimate]) -> str:
    """Return why some values are missing, in words; empty if none is."""
    reasons = dict.fromkeys(str(e.reason) for e in estimates if math.isnan(e.value))
    explanations = []
    for reason in reasons:
        if reason in REASONS:
            explanations.append(f"“{reason_word(reason)}”: {REASONS[reason]}")
    if not explanations:
        return ""
    return f"Words instead of a number: the value is undefined ({'; '.join(explanations)})."


def between(low: float, high: float) -> str:
    """Return ``[0.1, 0.3]``; empty if undefined."""
    return "" if math.isnan(low) else f"[{short_number(low)}, {short_number(high)}]"


def reason_word(reason: str | None) -> str:
    """Return a reason as it is displayed."""
    return str(reason).replace("_", " ")


def short(name: str) -> str:
    """Return a name that fits a heading; a long one keeps its beginning and its end."""
    return short_name(name, LONGEST, TAIL)


def join(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def plural(name: str, n: int) -> str:
    """Return ``1 image``, ``2 images``, ``3 classes``."""
    return f"{n} {name if n == 1 else named_plural(name)}"
