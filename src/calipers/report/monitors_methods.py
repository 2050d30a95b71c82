# SPDX-License-Identifier: Apache-2.0
"""How monitors were judged: a paragraph that is ready for a paper, with its sources."""

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
    "Traub J, et al. Overcoming common flaws in the evaluation of selective classification systems. NeurIPS 2024.",
)
CLASSES = {
    "declared": "all declared classes, a class with neither references nor predictions counting 1",
    "present": "the classes that are on the image, as references or as predictions",
    "micro": "all classes, whose counts are put together",
}


def methods_part(found: MonitorEvaluation) -> str:
    """Return the paragraph and its sources."""
    return paragraph(methods(found)) + details("Sources", items(SOURCES))


def methods(found: MonitorEvaluation) -> str:
    """Return how monitors were judged, in sentences."""
    return " ".join(
        [
            *_scope(found),
            *_labels(found),
            *_quantities(found),
            *_thresholds(found),
            *_intervals(found),
        ]
    )


def _scope(found: MonitorEvaluation) -> Iterator[str]:
    settings, model = found.scope.settings, found.scope.model
    score = settings.get("score", "given")
    if score == "labels":
        yield f"An image is safe if the label that {model} predicts is the true one."
        return
    if score == "given":
        yield f"The score s of every image, high where {model} is good, was computed elsewhere."
    elif score == "mF1":
        yield (
            f"The score s of an image is the mean F1 of {model}, 2 TP / (predictions + references), over "
            f"{CLASSES.get(str(settings.get('classes')), 'classes')}; hits by {settings.get('criterion')} "
            f"at {settings.get('iou', 0.5):g} (assignment {settings.get('assignment')}), within a class."
        )
    else:
        of = f" of the protocol {settings['protocol']}" if "protocol" in settings else ""
        yield f"The score s of an image is {score}{of} of {model} on this image alone, 1 where there is nothing."
    if "score_cut" in settings:
        yield f"Predictions with a score below {settings['score_cut']:g} do not count."
    if "set_aside" in settings:
        yield f"Broken records of the files that were set aside, and count nowhere: {settings['set_aside']}."


def _labels(found: MonitorEvaluation) -> Iterator[str]:
    if OMS in found.paradigms and not found.scope.binary:
        yield f"Under OMS (out of model scope) labels an image is unsafe, and an alarm wanted, if s < {found.tau:g}."
    elif found.tau is None and found.taus:
        yield f"An image is unsafe if s < tau; no tau was chosen, {len(found.taus)} values were swept."
    if OOD in found.paradigms:
        yield "Under OOD labels an alarm is wanted on images that are out of distribution, as they were given."
    else:
        yield "No OOD labels were given."


def _quantities(found: MonitorEvaluation) -> Iterator[str]:
    yield (
        "AUROC counts ties half; AUPR is the average precision with equal scores as one point; FPR95 is the smallest "
        "share of other images rejected at an attainable threshold that rejects 95 % of the wanted ones, without "
        "interpolation. AURC is the mean risk over all coverages, with the expected value inside ties; E-AURC is its "
        "exact excess over the best order."
    )
    if found.settings["stakes"] == "labels":
        yield (
            "SG, RH and AC are the shares of all images that are unsafe and rejected, unsafe and accepted, safe and "
            "rejected (the latter two kinds under OOD labels accordingly)."
        )
    else:
        yield (
            "SG, RH and AC are mean hazard removed, mean hazard left and mean reward lost, with the severities, "
            "hazards and fall-back hazards that were given."
        )


def _thresholds(found: MonitorEvaluation) -> Iterator[str]:
    known = [(name, one) for name, one in found.thresholds.items() if one is not None]
    if not known:
        yield "No threshold was used."
        return
    yield (
        "Thresholds: "
        + "; ".join(f"{name}: {threshold_text(one, others_of(found))}" for name, one in known)
        + "."
    )
    if found.split.random:
        n = int(found.basis.judged.sum())
        yield (
            f"As no tuning images were named, thresholds were chosen on a random half of the "
            f"{plural(found.settings['unit'])}, and numbers at a threshold are those of the other {n} images."
        )
    elif found.split.tuning.any():
        yield f"The {int(found.split.tuning.sum())} tuning images are in no number."


def _intervals(found: MonitorEvaluation) -> Iterator[str]:
    settings = found.settings
    if not settings["replicates"]:
        yield "No intervals were computed."
        return
    unit = plural(settings["unit"])
    yield (
        f"Intervals of {100 * settings['level']:g} % come from {settings['replicates']} bootstrap replicates over "
        f"{settings['n_units']} {unit} (seed {settings['seed']}); all monitors and labels see the same weights, and "
        "pairs are compared under them, with Holm's correction."
    )
