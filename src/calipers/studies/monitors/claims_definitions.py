# SPDX-License-Identifier: Apache-2.0
"""Claims that the definitions decide: the score of an image, and the matching behind it."""

from __future__ import annotations

import math

import numpy as np

from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.monitors.definitions import MOST, NUMBERS_OF_CLASSES
from calipers.studies.monitors.found import EXACT, MonitorsRun
from calipers.studies.monitors.trials import TAU

OPENING, SCORE = Claims[MonitorsRun](), Claims[MonitorsRun]()
SCORING = "Defining the scoring function"


@OPENING.statement(
    "equality-asks-too-much",
    "Boxes lie on a continuum: a prediction equals its reference with very low probability, so a "
    "threshold is needed.",
    "Generalizing OMS to object detection",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    n = equal = 0
    for trial in run.trials:
        references = trial.cohort.references
        predictions = trial.cohort.predictions(trial.scope.model)
        reference_boxes = set()
        for image, box in zip(references.image.tolist(), references.boxes.tolist()):
            reference_boxes.add((image, *box))
        for image, box in zip(predictions.image.tolist(), predictions.boxes.tolist()):
            equal += (image, *box) in reference_boxes
        n += len(predictions)
    if not n:
        return ClaimJudgement(None, "There are no predictions.", is_tested=False)
    return ClaimJudgement(
        equal < 0.01 * n, f"{equal} of {n} predicted boxes equal a reference box."
    )


@OPENING.statement(
    "classification-is-a-special-case",
    "The scope of a detector generalises that of a classifier, f(x) = truth.",
    "Generalizing OMS to object detection",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    confused_scores = run.definitions.confused_scores
    # With one class there is no wrong class.
    several = np.array(NUMBERS_OF_CLASSES) > 1
    zero = {mean: bool((values[several] == 0.0).all()) for mean, values in confused_scores.items()}
    worst = confused_scores["declared"][several]
    return ClaimJudgement(
        joint_verdict(list(zero.values())),
        "One object per image, found in its place: s is 1 if its class is right. If it is wrong, "
        "s is 0 by the mean over present classes and by micro-averaging; by the mean over "
        f"declared ones it is 1 - 2/C, {worst.min():.3f} with {NUMBERS_OF_CLASSES[1]} and "
        f"{worst.max():.3f} with {NUMBERS_OF_CLASSES[-1]} classes.",
    )


@SCORE.statement(
    "one-prediction-one-reference",
    "A reference is matched with its best prediction, and the others are left unmatched: matches "
    "are pairs.",
    "The label assignment step",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    c = run.crowds
    pairs = c.twice == 0
    return ClaimJudgement(
        joint_verdict([pairs, True]),
        f"Not where references lie close: on {c.twice} of {c.images} simulated images with two of "
        f"them, one prediction is the best for both. The rule then counts {c.hits_by_reference} "
        f"hits by references but {c.hits_by_prediction} by predictions, one-to-one matching "
        f"{c.hits_one_to_one}; on {c.recall_without_cost} images recall is 1 with fewer "
        f"predictions than references. Equal IoUs, which match twice, came up {c.ties} times.",
        "With one reference per image, as on LARD, the rule gives pairs. Calipers matches "
        "one-to-one; the literal rule, each prediction kept once, is the assignment "
        "per-reference-argmax.",
    )


@SCORE.statement(
    "precision-and-recall-ill-defined",
    "Precision of a class has no value without predictions of it, and recall none without "
    "references.",
    SCORING,
)
def _(run: MonitorsRun) -> ClaimJudgement:
    counts = run.definitions.counts
    no_p = no_r = 0
    right = True
    for c in counts:
        undefined = math.isnan(c.precision), math.isnan(c.recall)
        no_p += undefined[0]
        no_r += undefined[1]
        right = right and undefined == (c.predictions == 0, c.references == 0)
    return ClaimJudgement(
        right,
        f"Of the {len(counts)} possible counts with up to {MOST} predictions and references, "
        f"{no_p} have no precision and {no_r} no recall.",
    )


@SCORE.statement(
    "four-cases-define-f1",
    "With the cases for absent predictions and absent references, the extended F1 has a value for "
    "every image.",
    SCORING,
)
def _(run: MonitorsRun) -> ClaimJudgement:
    counts = run.definitions.counts
    # NaN marks 0 / 0 in the printed formula.
    lost = [c for c in counts if math.isnan(c.printed_score)]
    off = max(
        (abs(c.printed_score - c.defined_score) for c in counts if not math.isnan(c.printed_score)),
        default=0.0,
    )
    none_hit = all(
        c.hits == 0 and c.predictions and c.references and c.defined_score == 0.0 for c in lost
    )
    return ClaimJudgement(
        not lost,
        f"{len(lost)} of {len(counts)} counts are 0 / 0 as printed: predictions and references, "
        "but no hit, so that P = R = 0. 2 TP / (Nd + Nx) is "
        f"{'0' if none_hit else 'not always 0'} there and equals the printed cases elsewhere "
        f"(largest difference {off:.0e}).",
        "Calipers uses 2 TP / (Nd + Nx), and 1 if both are 0.",
    )


@SCORE.statement(
    "mean-over-classes",
    "The score of an image is the mean over all classes; an image is rejected if it lies below "
    "tau.",
    SCORING,
)
def _(run: MonitorsRun) -> ClaimJudgement:
    missed_scores, present_scores = (
        run.definitions.missed_scores["declared"],
        run.definitions.missed_scores["present"],
    )
    law = 1.0 - 1.0 / np.array(NUMBERS_OF_CLASSES)
    words = []
    for c, s in zip(NUMBERS_OF_CLASSES, missed_scores.tolist()):
        if c > 1:
            words.append(f"{s:.3f} (C = {c})")
    sentences = ""
    for trial in run.trials:
        if (
            trial.scope.n_classes > 1
            and trial.planted_failures is not None
            and trial.planted_failures.any()
        ):
            hidden = int((~trial.declared_scope.unsafe(TAU) & trial.planted_failures).sum())
            safe = int((~trial.unsafe & trial.planted_failures).sum())
            sentences += (
                f" Of {int(trial.planted_failures.sum())} failures of {trial.name}, {hidden} are "
                f"safe at tau = {TAU:g}; over present: {safe}."
            )
    return ClaimJudgement(
        joint_verdict([bool(s < TAU) for s in missed_scores]),
        f"An image whose only object is missed scores 1 - 1/C: {', '.join(words)} (largest "
        f"difference from the closed form {np.abs(missed_scores - law).max():.0e}). No tau up to "
        f"that rejects it; the mean over present classes is {present_scores.max():g}.{sentences}",
        "Classes that are absent and not predicted score 1 each. It holds with one class. "
        "Calipers warns if tau is not above 1 - 1/C.",
    )


@SCORE.statement(
    "lard-one-ill-defined-case",
    "With one runway on every image, the only ill-defined case left is an image without "
    "predictions.",
    "Specific use case: LARD",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    lost = [c for c in run.definitions.counts if c.references == 1 and math.isnan(c.printed_score)]
    words = []
    for trial in run.trials:
        scope = trial.scope
        single_reference = scope.n_references == 1
        if scope.n_classes == 1 and single_reference.any():
            bad = int((single_reference & (scope.n_predictions > 0) & (scope.score == 0.0)).sum())
            words.append(f"{bad} of {int(single_reference.sum())} images of {trial.name}")
    also = f" So on {', '.join(words)}." if words else ""
    return ClaimJudgement(
        not lost,
        f"Predictions that all miss the runway give 0 / 0 too, for each of 1 to {len(lost)} "
        f"predictions tried.{also}",
        "By 2 TP / (Nd + 1) they score 0, as an image without predictions does.",
    )


@SCORE.statement(
    "lard-score",
    "On LARD the score is 0 without a prediction and the F1 of the image otherwise: 2 / (Nd + 1) "
    "if the runway is hit.",
    "Specific use case: LARD",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    cases = run.definitions.one_runway
    off = 0.0
    for n, hit, score in cases:
        law = 2.0 / (n + 1) if hit else 0.0
        off = max(off, abs(score - law))
    third = next(s for n, hit, s in cases if hit and n == 2)
    return ClaimJudgement(
        off < EXACT,
        f"{len(cases)} constructed images with up to {max(n for n, _, _ in cases)} predictions: "
        f"largest difference {off:.0e}. One false alarm beside the hit takes s to {third:.3f}, so "
        "that tau above 2/3 allows none.",
    )
