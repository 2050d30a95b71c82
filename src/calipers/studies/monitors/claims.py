# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of monitors: definitions, paradigms, choices and use.

Claims that the definitions decide are about the score of an image and the matching behind it.
Claims about the two paradigms ask whether labels, ideal monitors and rankings agree; claims about
choices and use are about tau, the share of harmless shifts, and alarms at a threshold. Many are
judged trial by trial (`in_each_trial`), with one verdict over all trials.
`calipers.studies.monitors.study` joins them in the order of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from calipers.arrays import F64, Flags
from calipers.monitors.labels import OMS, OOD
from calipers.show.words import level_text
from calipers.statistics.ranks import kendall_tau_b
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict
from calipers.studies.monitors.experiments import (
    EXACT,
    IDEAL,
    MOST,
    NUMBERS_OF_CLASSES,
    PAIR,
    RAISED_CUT,
    TAU,
    USUAL,
    MonitorsRun,
    Trial,
    auroc,
    estimate_text,
)

Finding = tuple[Sequence[bool], str]  # what has to hold, and the numbers in words

NOT_JUDGED = (
    "Needs safe and unsafe images, and OOD labels for some images but not for all: --ood COLUMN."
)
MADE_ONLY = "Simulated data: they show that it can happen, not how often."

OPENING, SCORE = Claims[MonitorsRun](), Claims[MonitorsRun]()
SCORING = "Defining the scoring function"

PARADIGMS = Claims[MonitorsRun]()
OOD_SECTION = "The OOD paradigm"
SURE = 0.95  # a difference in at least this share of the replicates counts as certain
GOOD = 0.05  # a detector that fails on a smaller share of the images counts as good
PICTURE_MONITORS = ("image-mahalanobis", "image-knn", "count")

SCOPE, USE = Claims[MonitorsRun](), Claims[MonitorsRun]()
WHERE = "Defining the scope of the model"
BLIND = "random"  # a made monitor that knows nothing, and must not lower the risk


def not_judged(words: str = NOT_JUDGED) -> ClaimJudgement:
    """Return the judgement of a claim that the run has no numbers for."""
    return ClaimJudgement(None, words, is_tested=False)


def note_of(trials: Iterable[Trial]) -> str:
    """Return the note that results on simulated data need."""
    has_simulated = any(trial.planted_failures is not None for trial in trials)
    return MADE_ONLY if has_simulated else ""


def in_each_trial(
    rule: str = "", *, with_note: bool = True
) -> Callable[[Callable[[Trial], Finding]], Callable[[MonitorsRun], ClaimJudgement]]:
    """Judge a claim by all trials in which both paradigms can be judged; without any it is not
    judged.

    Parameters
    ----------
    rule
        When the claim holds, if that needs a word.
    noted
        Whether results on made data are marked as such.
    """

    def judge_trials(look: Callable[[Trial], Finding]) -> Callable[[MonitorsRun], ClaimJudgement]:
        def judge(run: MonitorsRun) -> ClaimJudgement:
            if not run.comparable_trials:
                return not_judged()
            findings = [look(trial) for trial in run.comparable_trials]
            note = f"{rule} {note_of(run.comparable_trials) if with_note else ''}".strip()
            return ClaimJudgement(
                joint_verdict([flag for flags, _ in findings for flag in flags]),
                _join_words(findings),
                note,
            )

        return judge

    return judge_trials


def _join_words(findings: Iterable[Finding]) -> str:
    return " ".join(words for _, words in findings)


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


@PARADIGMS.statement(
    "ood-needs-no-model",
    "OOD labels depend on the data only, those of OMS on the model too.",
    OOD_SECTION,
)
@in_each_trial(with_note=False)
def _(trial: Trial) -> Finding:
    assert trial.ood is not None
    # A higher score cut stands for another model on the same images.
    other = trial.raised_scope.unsafe(TAU)
    n_changed = int((other != trial.unsafe).sum())
    name = trial.order(OOD)[0]
    areas = auroc(trial.alarm(name)[None], np.stack([trial.unsafe, other, trial.ood]))[0]
    flags = [n_changed > 0]
    return flags, (
        f"{trial.title}: with a score cut of {RAISED_CUT:g} as another model, {n_changed} of "
        f"{len(other)} OMS labels and no OOD label change; {name} has an OMS AUROC of "
        f"{areas[0]:.3f} and {areas[1]:.3f}, its OOD AUROC stays {areas[2]:.3f}."
    )


@PARADIGMS.statement(
    "good-in-worse-out-of-distribution",
    "A network must be good on images like its training data, and worse on others.",
    OOD_SECTION,
)
@in_each_trial(
    f"Good: the interval lies below {GOOD:g}. Worse: that of the difference lies above 0."
)
def _(trial: Trial) -> Finding:
    assert trial.evaluation.disagreement is not None
    # The interval of 1 - x is that of x, mirrored.
    usual, safe = (trial.evaluation.disagreement.share(name) for name in ("ID-unsafe", "OOD-safe"))
    low, high = trial.harm
    flags = [usual.high < GOOD, low > 0.0]
    return flags, (
        f"{trial.title}: unsafe are {estimate_text(usual)} of the ID images and "
        f"{1.0 - safe.value:.3f} [{1.0 - safe.high:.3f}, {1.0 - safe.low:.3f}] of the OOD images, "
        f"a difference of {low:.3f} to {high:.3f}."
    )


@PARADIGMS.statement(
    "ood-is-a-proxy",
    "OOD is only a proxy: the images that are out of distribution are not those on which the "
    "model fails.",
    OOD_SECTION,
)
@in_each_trial()
def _(trial: Trial) -> Finding:
    tables = trial.evaluation.disagreement
    assert tables is not None
    agree, safe, inside = (tables.share(name) for name in ("labels-agree", "OOD-safe", "unsafe-ID"))
    flags = [agree.high < 1.0]
    return flags, (
        f"{trial.title} (n = {int(tables.labels.sum())}): both labels agree on "
        f"{estimate_text(agree)} of the images; {estimate_text(safe)} of the OOD images are safe, "
        f"{estimate_text(inside)} of the unsafe ones are in distribution.{_harmless(trial)}"
    )


def _harmless(trial: Trial) -> str:
    """Return the share of unsafe images by shift, if the shifts are known."""
    if trial.planted_failures is None:
        return ""
    rates = {}
    for kind in np.unique(trial.kinds).tolist():
        rates[kind] = float(trial.unsafe[trial.kinds == kind].mean())
    words = [f"{kind} {rates[kind]:.2f}" for kind in sorted(rates, key=rates.__getitem__)]
    return f" Shares of unsafe images by shift: {', '.join(words)}."


@PARADIGMS.statement(
    "ideal-monitors-differ",
    "The ideal monitor of OOD is another one than the ideal monitor of OMS.",
    "The OMS paradigm; the OOD paradigm",
)
@in_each_trial()
def _(trial: Trial) -> Finding:
    get = trial.evaluation.get
    own = [get("AUROC", IDEAL[p], p).value for p in (OMS, OOD)]
    cross = [get("AUROC", IDEAL[OOD], OMS), get("AUROC", IDEAL[OMS], OOD)]
    hazard, cost = get("RH", IDEAL[OOD]), get("AC", IDEAL[OOD])
    flags = [own == [1.0, 1.0] and all(e.high < 1.0 for e in cross)]
    return flags, (
        f"{trial.title}: AUROC 1 for the own labels; the ideal OOD monitor has "
        f"{estimate_text(cross[0])} under OMS, the ideal OMS monitor {estimate_text(cross[1])} "
        f"under OOD. Rejecting all OOD images leaves a residual hazard of {estimate_text(hazard)} "
        f"and costs {estimate_text(cost)} of the images, on which the model is right."
    )


@PARADIGMS.statement(
    "ood-gives-a-biased-indication",
    "Performance under OOD labels may be a biased indication of the real performance of a monitor.",
    OOD_SECTION,
)
@in_each_trial()
def _(trial: Trial) -> Finding:
    gaps, values = {}, {}
    n_up = n_down = 0
    for name, gap in trial.evaluation.paradigm_gaps.items():
        if name not in trial.contenders:
            continue
        gaps[name], values[name] = gap.estimate, gap.estimate.value
        # An interval on one side of 0 shows that the two kinds of labels differ.
        n_up += gap.estimate.low > 0
        n_down += gap.estimate.high < 0
    most, least = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    flags = [n_up + n_down > 0]
    return flags, (
        f"{trial.title}: OOD overrates {n_up} and underrates {n_down} of {len(gaps)} "
        "monitors (interval of the paired difference of AUROC without 0), from "
        f"{estimate_text(gaps[most])} for {most} to {estimate_text(gaps[least])} for {least}."
    )


@PARADIGMS.statement(
    "ood-ranking-misleads",
    "Who is the best monitor depends on the paradigm: choosing by OOD can mislead.",
    OOD_SECTION,
)
@in_each_trial(f"Holds if the winner differs in at least {level_text(SURE)} of the replicates.")
def _(trial: Trial) -> Finding:
    by_ood, by_oms = trial.order(OOD)[0], trial.order(OMS)[0]
    rank_agreement = trial.rank_agreement
    flags = [by_ood != by_oms and rank_agreement.winner_differs >= SURE]
    get = trial.evaluation.get
    return flags, (
        f"{trial.title}, {len(trial.contenders)} monitors: the best by OOD is {by_ood} (AUROC "
        f"{estimate_text(get('AUROC', by_ood, OOD))}), under OMS it has "
        f"{estimate_text(get('AUROC', by_ood, OMS))}; the best by OMS is {by_oms} "
        f"({estimate_text(get('AUROC', by_oms, OMS))}). The winner differs in "
        f"{100 * rank_agreement.winner_differs:.1f} % of {rank_agreement.replicates} replicates; "
        f"tau-b of the two orders {rank_agreement.kendall:.2f} [{rank_agreement.low:.2f}, "
        f"{rank_agreement.high:.2f}]."
    )


@PARADIGMS.statement(
    "ood-is-ambiguous-for-detection",
    "What is out of distribution is ambiguous in detection: the picture may be, or the objects on "
    "it.",
    "Generalizing OOD to object detection",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    trials = [trial for trial in run.comparable_trials if trial.planted_failures is not None]
    if not trials:
        return not_judged("Needs data whose shifts are known.")
    sentences, flags = [], []
    for trial in trials:
        strange = np.isin(trial.kinds, ("taxiway", "new-class"))
        foreign = (trial.kinds != USUAL) & ~strange
        names = [name for name in PICTURE_MONITORS if name in trial.contenders]
        areas = _against_usual(trial, names, (foreign, strange))
        flags.append(bool(areas[:, 0].argmax() != areas[:, 1].argmax()))
        words = [f"{name} {a:.3f} and {b:.3f}" for name, (a, b) in zip(names, areas.tolist())]
        sentences.append(
            f"{trial.title}: {int(foreign.sum())} pictures are changed as a whole, "
            f"{int(strange.sum())} only have a strange object; AUROC of the one and of the other "
            f"against usual images: {', '.join(words)}."
        )
    rule = (
        "Holds if the best of these monitors differs between strange objects and changed pictures."
    )
    return ClaimJudgement(joint_verdict(flags), " ".join(sentences), f"{rule} {MADE_ONLY}")


def _against_usual(trial: Trial, names: Sequence[str], kinds: Sequence[Flags]) -> F64:
    """Return (monitors, kinds): AUROC of the images of one kind against usual images, without the
    other kinds.
    """
    usual = trial.kinds == USUAL
    alarms = np.stack([trial.alarm(name) for name in names])
    columns = []
    for kind in kinds:
        subset = usual | kind
        columns.append(auroc(alarms[:, subset], kind[subset][None])[:, 0])
    return np.stack(columns, axis=1)


@SCOPE.statement(
    "prevalence-depends-on-tau",
    "The scope of a model depends on the score function and on tau, and so does who is unsafe.",
    WHERE,
)
def _(run: MonitorsRun) -> ClaimJudgement:
    sentences, flags = [], []
    for curve in run.taus:
        distinct = len(np.unique(curve.prevalence))
        flags.append(distinct > 1)
        sentences.append(
            f"{curve.trial.capitalize()}, mean over {curve.classes} classes: "
            f"{curve.prevalence[0]:.3f} of the images are unsafe at tau = {curve.taus[0]:.2f} and "
            f"{curve.prevalence[-1]:.3f} at tau = 1, {distinct} different values."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        " ".join(sentences),
        "tau has no default in Calipers; the prevalence is always reported.",
    )


@SCOPE.statement(
    "tau-changes-the-order",
    "A proper tau is needed: which monitors are better depends on it.",
    WHERE,
)
def _(run: MonitorsRun) -> ClaimJudgement:
    curves = [curve for curve in run.taus if curve.defined.sum() > 1 and len(curve.monitors) > 1]
    if not curves:
        return not_judged("Needs two monitors, and two values of tau with safe and unsafe images.")
    sentences, flags = [], []
    for curve in curves:
        # Equal columns of neighbouring tau would only repeat comparisons.
        values = np.unique(curve.values[:, curve.defined], axis=1)
        lowest = min(float(np.nanmin(kendall_tau_b(column, values.T))) for column in values.T)
        winners = curve.winners
        flags.append(lowest < 1.0)
        best = f"{winners[0]} is always best"
        if len(winners) > 1:
            best = f"the best are {', '.join(winners)}"
        sentences.append(
            f"{curve.trial.capitalize()}, mean over {curve.classes} classes: tau-b between orders "
            f"of {len(curve.monitors)} monitors is as low as {lowest:.2f}; {best}."
        )
    return ClaimJudgement(joint_verdict(flags), " ".join(sentences), note_of(run.trials))


@USE.statement(
    "harmless-shifts-turn-the-order",
    "How good a proxy OOD is depends on how many of the shifts harm the model.",
    "The OOD paradigm",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    if not run.shares:
        return not_judged("Needs shifts that can be varied, which only simulated data have.")
    sentences, flags = [], []
    for sweep in run.shares:
        low, high = sweep.flip_bounds
        closed_form = sweep.expected_flip
        flags += [sweep.turns, low <= closed_form <= high]
        sentences.append(
            f"With {level_text(sweep.far)} far runways {PAIR[1]} overtakes {PAIR[0]} under OMS at "
            f"a share of {_share(sweep.measured_flip)} harmless shifts (closed form "
            f"{_share(closed_form)}; from {low:.2f} to {high:.2f} the interval of the difference "
            "contains 0)."
        )
    ood = min(float((s.values["ood"][0] - s.values["ood"][1]).min()) for s in run.shares)
    return ClaimJudgement(
        joint_verdict(flags),
        f"{' '.join(sentences)} Under OOD labels {PAIR[0]} is better at every share, by at least "
        f"{ood:.3f} in AUROC (n = {run.shares[0].n_images} per share).",
        "Holds if the order is certain both without harmless shifts and with harmless shifts "
        "only, is reversed between the two, and the closed form lies where the order is uncertain.",
    )


def _share(value: float) -> str:
    return "none found" if math.isnan(value) else f"{value:.2f}"


@USE.statement(
    "chosen-by-ood-leaves-hazard",
    "A monitor is there to reject unsafe predictions; one that is chosen by OOD may leave them.",
    "Quick reminder; Defining the scope of the model",
)
@in_each_trial(
    "Thresholds reject at most 5 % of the safe images of the tuning split; RH is on the images "
    "for testing."
)
def _(trial: Trial) -> Finding:
    by_ood, by_oms = trial.order(OOD)[0], trial.order(OMS)[0]
    get = trial.evaluation.get
    ideal = get("RH", IDEAL[OMS]).value, get("AC", IDEAL[OMS]).value
    hazard = get("SG", by_oms).value + get("RH", by_oms).value
    rows = []
    for name in dict.fromkeys((by_ood, by_oms)):
        rows.append(
            f"{name}: SG {get('SG', name).value:.3f}, RH {estimate_text(get('RH', name))}, AC "
            f"{get('AC', name).value:.3f}"
        )
    words = ""
    if by_ood == by_oms:
        flags = [False]
    else:
        gap = trial.evaluation.compare(by_ood, by_oms, "RH")
        flags = [gap.estimate.low > 0]
        words = f" Difference of RH {estimate_text(gap.estimate)}."
    return flags, (
        f"{trial.title}: hazard without a monitor {hazard:.3f}. {'; '.join(rows)}.{words} The "
        f"ideal OMS monitor leaves {ideal[0]:g} at a cost of {ideal[1]:g}."
    )


@USE.statement(
    "risk-falls-with-rejection",
    "Rejecting images by a monitor lowers the risk on those accepted.",
    "Quick reminder",
)
def _(run: MonitorsRun) -> ClaimJudgement:
    if not run.mixed_trials:
        return not_judged("Needs safe and unsafe images.")
    sentences, flags = [], []
    for trial in run.mixed_trials:
        base = float(trial.unsafe.mean())
        get = trial.evaluation.get
        area = {name: get("AURC", name, OMS) for name in trial.contenders if name != BLIND}
        better = [name for name, e in area.items() if e.high < base]
        best = min(area, key=lambda name: area[name].value)
        # The claim holds if all monitors lower the risk, and in part if some do.
        flags.append(len(better) == len(area))
        if better and len(better) < len(area):
            flags.append(True)
        blind = (
            f"; {BLIND} has {estimate_text(get('AURC', BLIND, OMS))}"
            if BLIND in trial.contenders
            else ""
        )
        sentences.append(
            f"{trial.title}: risk {base:.3f} without rejection; AURC lies below it, with its "
            f"interval, for {len(better)} of {len(area)} monitors, lowest for {best} "
            f"({estimate_text(area[best])}){blind}."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        " ".join(sentences),
        "An uninformative monitor has an AURC close to the base risk.",
    )
