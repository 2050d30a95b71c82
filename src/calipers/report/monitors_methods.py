# SPDX-License-Identifier: Apache-2.0
"""How monitors were evaluated: a paragraph that is ready for a paper, with its sources."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.thresholds import threshold_text
from calipers.plots.monitors_alarms import others_of
from calipers.report.markup import details, items, paragraph
from calipers.statistics.weights import plural

SOURCES = (
    "Guérin J, et al. Out-of-distribution detection is not all you need. AAAI 2023.",
    "Guérin J, et al. Unifying evaluation of machine learning safety monitors. ISSRE 2022.",
    "Geifman Y, et al. Bias-reduced uncertainty estimation for deep neural classifiers. ICLR 2019.",
    "Traub J, et al. Overcoming common flaws in the evaluation of selective classification "
    "systems. NeurIPS 2024.",
)
CLASSES = {
    "declared": "all declared classes; a class with neither references nor predictions counts 1",
    "present": "the classes that are on the image, as references or as predictions",
    "micro": "all classes together, whose counts are added up",
}


def methods_part(result: MonitorEvaluation) -> str:
    """Return the paragraph and its sources."""
    return paragraph(methods(result)) + details("Sources", items(SOURCES))


def methods(result: MonitorEvaluation) -> str:
    """Return how monitors were evaluated, in sentences."""
    return " ".join(
        [
            *_scope(result),
            *_labels(result),
            *_quantities(result),
            *_thresholds(result),
            *_intervals(result),
        ]
    )


def _scope(result: MonitorEvaluation) -> Iterator[str]:
    settings, model = result.scope.settings, result.scope.model
    score = settings.get("score", "given")
    if score == "labels":
        yield f"An image is safe if the label that {model} predicts is the true one."
        return
    if score == "given":
        yield f"The score s of every image, high where {model} is good, was computed elsewhere."
    elif score == "mF1":
        yield (
            f"The score s of an image is the mean F1 of {model}, "
            "2 TP / (predictions + references), over "
            f"{CLASSES.get(str(settings.get('classes')), 'classes')}; hits by "
            f"{settings.get('criterion')} at {settings.get('iou', 0.5):g} "
            f"(assignment {settings.get('assignment')}), within a class."
        )
    else:
        of = f" of the protocol {settings['protocol']}" if "protocol" in settings else ""
        yield (
            f"The score s of an image is {score}{of} of {model} on this image alone, and 1 if "
            "there is nothing on it."
        )
    if "score_cut" in settings:
        yield f"Predictions with a score below {settings['score_cut']:g} do not count."
    if "set_aside" in settings:
        yield f"Broken records that were set aside and count nowhere: {settings['set_aside']}."


def _labels(result: MonitorEvaluation) -> Iterator[str]:
    if OMS in result.paradigms and not result.scope.binary:
        yield (
            "Under OMS (out of model scope) labels an image is unsafe, and an alarm wanted, if "
            f"s < {result.tau:g}."
        )
    elif result.tau is None and result.taus:
        n = len(result.taus)
        yield f"An image is unsafe if s < tau; no single tau was chosen, {n} values were swept."
    if OOD in result.paradigms:
        yield (
            "Under OOD labels an alarm is wanted on the images that were labelled out of "
            "distribution."
        )
    else:
        yield "No OOD labels were given."


def _quantities(result: MonitorEvaluation) -> Iterator[str]:
    yield (
        "AUROC counts ties half; AUPR is the average precision with equal scores as one point; "
        "FPR95 is the smallest share of other images rejected at an attainable threshold that "
        "rejects 95 % of the wanted ones, without interpolation. AURC is the mean risk over all "
        "coverages, with the expected value inside ties; E-AURC is its exact excess over the best "
        "order."
    )
    if result.settings["stakes"] == "labels":
        yield (
            "SG, RH and AC are the shares of all images that are unsafe and rejected, unsafe and "
            "accepted, safe and rejected (for OOD labels: out of distribution instead of unsafe)."
        )
    else:
        yield (
            "SG, RH and AC are mean hazard removed, mean hazard left and mean reward lost, with "
            "the "
            "given severities, hazards and fall-back hazards."
        )


def _thresholds(result: MonitorEvaluation) -> Iterator[str]:
    thresholds = []
    for name, threshold in result.thresholds.items():
        if threshold is not None:
            thresholds.append(f"{name}: {threshold_text(threshold, others_of(result))}")
    if not thresholds:
        yield "No threshold was used."
        return
    yield f"Thresholds: {'; '.join(thresholds)}."
    if result.split.random:
        n = int(result.basis.judged.sum())
        yield (
            "As no tuning images were named, thresholds were chosen on a random half of the "
            f"{plural(result.settings['unit'])}; all numbers at a threshold come from the other "
            f"{n} images."
        )
    elif result.split.tuning.any():
        n = int(result.split.tuning.sum())
        yield f"The {n} tuning images were used for the thresholds only."


def _intervals(result: MonitorEvaluation) -> Iterator[str]:
    settings = result.settings
    if not settings["replicates"]:
        yield "No confidence intervals were computed."
        return
    yield (
        f"{100 * settings['level']:g} % confidence intervals come from {settings['replicates']} "
        f"bootstrap replicates, resampled by {settings['unit']} (n = {settings['n_units']}, seed "
        f"{settings['seed']}); all monitors and labels use the same resampled weights, and pairs "
        "of monitors are compared under them, with Holm's correction."
    )
