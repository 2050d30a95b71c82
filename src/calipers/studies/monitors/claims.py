# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of monitors: definitions, paradigms, choices and use.

Claims that the definitions decide are about the score of an image and the matching behind it.
Claims about the two paradigms ask whether labels, ideal monitors and rankings agree; claims about
choices and use are about tau, the share of harmless shifts, and alarms at a threshold. Many are
judged trial by trial (`in_each_trial`), with one verdict over all trials.
What they say and the rules that decide stand in ``claims.toml``, in the order of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from calipers.monitors.labels import OMS, OOD
from calipers.show.words import interval_text, percent_text, two_decimals
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict
from calipers.studies.monitors.experiments import (
    EXACT,
    IDEAL,
    MOST,
    NUMBERS_OF_CLASSES,
    RAISED_CUT,
    RULES,
    TAU,
    LabelAreas,
    LabelWinner,
    MonitorsRun,
    RankAgreement,
    Trial,
    auroc,
    bounded_text,
    estimate_text,
    rank_agreement,
)
from calipers.studies.open_choices import Configuration, Outcomes, Scan, scan_configurations

Finding = tuple[Sequence[bool], str]  # what has to hold, and the numbers in words

NOT_JUDGED = (
    "Needs safe and unsafe images, and OOD labels for some images but not for all: --ood COLUMN."
)
CLAIMS = Claims[MonitorsRun](rules=RULES)
SCAN_TAUS = tuple(round(0.1 * k, 1) for k in range(1, 11))
OTHER_WINNER = "another monitor is best by OOD than by OMS"
SURE = RULES.limit("sure")  # share of the replicates from which on a difference is certain
GOOD = RULES.limit("good")  # a detector that fails on a smaller share of the images is good


def not_judged(words: str = NOT_JUDGED) -> ClaimJudgement:
    """Return the judgement of a claim that the run has no numbers for."""
    return ClaimJudgement(None, words, is_tested=False)


def in_each_trial(look: Callable[[Trial], Finding]) -> Callable[[MonitorsRun], ClaimJudgement]:
    """Judge a claim by all trials in which both paradigms can be judged; without any it is not
    judged.
    """

    def judge(run: MonitorsRun) -> ClaimJudgement:
        if not run.comparable_trials:
            return not_judged()
        findings = [look(trial) for trial in run.comparable_trials]
        flags = [flag for own, _ in findings for flag in own]
        return ClaimJudgement(joint_verdict(flags), _join_words(findings))

    return judge


def _join_words(findings: Iterable[Finding]) -> str:
    # A line for each trial.
    return "\n".join(words for _, words in findings)


@CLAIMS.judge("equality-asks-too-much")
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
        equal < RULES.limit("equal-boxes") * n,
        f"{equal} of {n} predicted boxes equal a reference box.",
    )


@CLAIMS.judge("classification-is-a-special-case")
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


@CLAIMS.judge("one-prediction-one-reference")
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
        basis="made",
    )


@CLAIMS.judge("precision-and-recall-ill-defined")
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


@CLAIMS.judge("four-cases-define-f1")
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


@CLAIMS.judge("mean-over-classes")
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
    for trial in run.featured:
        # Images on which less than half is right, by the classes that are there.
        if trial.scope.n_classes > 1 and trial.unsafe.any():
            hidden = int((~trial.declared_scope.unsafe(TAU) & trial.unsafe).sum())
            sentences += (
                f" Of the {int(trial.unsafe.sum())} images of {trial.name} that are unsafe by the "
                f"mean over present classes, {hidden} are safe by that over declared ones."
            )
    return ClaimJudgement(
        joint_verdict([bool(s < TAU) for s in missed_scores]),
        f"An image whose only object is missed scores 1 - 1/C: {', '.join(words)} (largest "
        f"difference from the closed form {np.abs(missed_scores - law).max():.0e}). No tau up to "
        f"that rejects it; the mean over present classes is {present_scores.max():g}.{sentences}",
        "Classes that are absent and not predicted score 1 each. It holds with one class. "
        "Calipers warns if tau is not above 1 - 1/C.",
    )


@CLAIMS.judge("lard-one-ill-defined-case")
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


@CLAIMS.judge("lard-score")
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
        f"largest difference {off:.1g}. One false alarm beside the hit takes s to {third:.3f}, so "
        "that tau above 2/3 allows none.",
    )


@CLAIMS.judge("ood-needs-no-model")
@in_each_trial
def _(trial: Trial) -> Finding:
    assert trial.ood is not None
    other = trial.other_scope.unsafe(TAU)
    n_changed = int((other != trial.unsafe).sum())
    name = trial.order(OOD)[0]
    areas = auroc(trial.alarm(name)[None], np.stack([trial.unsafe, other, trial.ood]))[0]
    model = f"with a score cut of {RAISED_CUT:g} as another model"
    if trial.other_is_trained:
        model = "with a detector from other random weights"
    flags = [n_changed > 0]
    return flags, (
        f"{trial.title}: {model}, {n_changed} of {len(other)} OMS labels and no OOD label change; "
        f"the same alarms of {name} have an OMS AUROC of {areas[0]:.3f} and {areas[1]:.3f}, and "
        f"an OOD AUROC of {areas[2]:.3f}."
    )


@CLAIMS.judge("good-in-worse-out-of-distribution")
@in_each_trial
def _(trial: Trial) -> Finding:
    assert trial.evaluation.disagreement is not None
    # The interval of 1 - x is that of x, mirrored.
    usual, safe = (trial.evaluation.disagreement.share(name) for name in ("ID-unsafe", "OOD-safe"))
    low, high = trial.harm
    flags = [usual.high < GOOD, low > 0.0]
    return flags, (
        f"{trial.title}: unsafe are {estimate_text(usual)} of the ID images and "
        f"{bounded_text(1.0 - safe.value, 1.0 - safe.high, 1.0 - safe.low)} of the OOD images, "
        f"a difference of {low:.3f} to {high:.3f}."
    )


@CLAIMS.judge("ood-is-a-proxy")
@in_each_trial
def _(trial: Trial) -> Finding:
    tables = trial.evaluation.disagreement
    assert tables is not None
    agree, safe, inside = (tables.share(name) for name in ("labels-agree", "OOD-safe", "unsafe-ID"))
    flags = [agree.high < 1.0]
    return flags, (
        f"{trial.title} (n = {int(tables.labels.sum())}): both labels agree on "
        f"{estimate_text(agree)} of the images; {estimate_text(safe)} of the OOD images are safe, "
        f"{estimate_text(inside)} of the unsafe ones are in distribution.{_by_shift(trial)}"
    )


def _by_shift(trial: Trial) -> str:
    """Return the share of unsafe images by shift, if the shifts are known."""
    if trial.strength is None:
        return ""
    rates = {}
    for kind in np.unique(trial.kinds).tolist():
        rates[kind] = float(trial.unsafe[trial.kinds == kind].mean())
    words = [f"{kind} {rates[kind]:.2f}" for kind in sorted(rates, key=rates.__getitem__)]
    return f" Shares of unsafe images by shift: {', '.join(words)}."


@CLAIMS.judge("ideal-monitors-differ")
@in_each_trial
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


@CLAIMS.judge("ood-gives-a-biased-indication")
@in_each_trial
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
    n_biased = n_up + n_down
    flags = [n_biased >= RULES.limit("half") * len(gaps), n_biased >= RULES.limit("fewest")]
    return flags, (
        f"{trial.title}: OOD overrates {n_up} and underrates {n_down} of {len(gaps)} "
        "monitors (interval of the paired difference of AUROC without 0), from "
        f"{estimate_text(gaps[most])} for {most} to {estimate_text(gaps[least])} for {least}."
    )


@CLAIMS.judge("ood-ranking-misleads")
def _(run: MonitorsRun) -> ClaimJudgement:
    judgement = in_each_trial(_ranking_finding)(run)
    scan = scan_of(run)
    if scan is None or not judgement.is_tested:
        return judgement
    note = (
        "The share is of configurations of what the note leaves open: tau, the mean over classes, "
        "and what is out of distribution; winners by value, without intervals. It is younger than "
        "the results."
    )
    return replace(judgement, note=note, share=scan.share(OTHER_WINNER))


def scan_of(run: MonitorsRun) -> Scan | None:
    """Return where the best monitor by OOD labels is another one than the best by failures.

    The note leaves open tau, how F1 is averaged over classes, and what is out of distribution in
    detection. Detectors are a choice too. None if no trial has both kinds of labels.
    """
    areas = {one.trial: one for one in run.areas}
    curves = {(curve.trial, curve.classes): curve for curve in run.taus}
    names = [trial.name for trial in run.comparable_trials if trial.name in areas]
    definitions: dict[str, None] = {}
    for name in names:
        definitions |= dict.fromkeys(label for label in areas[name].labels if label != "OMS")
    if not definitions:
        return None
    choices = {
        "data": names,
        "mean over classes": tuple(dict.fromkeys(classes for _, classes in curves)),
        "tau": SCAN_TAUS,
        "out of distribution": tuple(definitions),
    }

    def outcomes(one: Configuration) -> Outcomes:
        area, curve = areas[one["data"]], curves.get((one["data"], one["mean over classes"]))
        if curve is None or one["out of distribution"] not in area.labels:
            return {OTHER_WINNER: None}
        # Between two values of the grid no label changes.
        by_oms = curve.values[:, int(np.flatnonzero(curve.taus <= one["tau"])[-1])]
        if np.isnan(by_oms).any():
            return {OTHER_WINNER: None}
        by_ood = area.values[:, area.labels.index(one["out of distribution"])]
        winner, other = curve.monitors[int(by_oms.argmax())], area.monitors[int(by_ood.argmax())]
        return {OTHER_WINNER: winner != other}

    return scan_configurations(choices, outcomes)


def _ranking_finding(trial: Trial) -> Finding:
    by_ood, by_oms = trial.order(OOD)[0], trial.order(OMS)[0]
    rank_agreement = trial.rank_agreement
    flags = [by_ood != by_oms and rank_agreement.winner_differs >= SURE]
    get = trial.evaluation.get
    return flags, (
        f"{trial.title}, {len(trial.contenders)} monitors: the best by OOD is {by_ood} (AUROC "
        f"{estimate_text(get('AUROC', by_ood, OOD))}), under OMS it has "
        f"{estimate_text(get('AUROC', by_ood, OMS))}; the best by OMS is {by_oms} "
        f"({estimate_text(get('AUROC', by_oms, OMS))}). The winner differs in "
        f"{percent_text(rank_agreement.winner_differs)} of {rank_agreement.replicates} replicates; "
        f"tau-b of the two orders {_kendall_text(rank_agreement)}."
    )


@CLAIMS.judge("ood-is-ambiguous-for-detection")
def _(run: MonitorsRun) -> ClaimJudgement:
    trials = [trial for trial in run.comparable_trials if trial.definitions]
    if not trials:
        return not_judged("Needs data of which is known whether the picture or an object is OOD.")
    sentences, flags = [], []
    for trial in trials:
        labels = np.stack([trial.definitions["picture"], trial.definitions["object"]])
        agreement = rank_agreement(trial, labels)
        winners = {one.labels: one for one in _areas_of(run, trial).winners}
        picture, by_object = winners["OOD: picture"], winners["OOD: object"]
        is_other = picture.winner != by_object.winner
        flags.append(is_other and agreement.winner_differs >= SURE)
        sentences.append(
            f"{trial.title}: {int(labels[0].sum())} pictures are out of distribution, and "
            f"{int(labels[1].sum())} show objects that are ({int((labels[0] & labels[1]).sum())} "
            f"both). Best for pictures is {picture.winner} ({_area_text(picture)}), best for "
            f"objects {by_object.winner} ({_area_text(by_object)}); the best differs in "
            f"{percent_text(agreement.winner_differs)} of the replicates, tau-b of the orders is "
            f"{_kendall_text(agreement)}."
        )
    return ClaimJudgement(joint_verdict(flags), "\n".join(sentences))


def _areas_of(run: MonitorsRun, trial: Trial) -> LabelAreas:
    return next(areas for areas in run.areas if areas.trial == trial.name)


def _area_text(winner: LabelWinner) -> str:
    return f"AUROC {bounded_text(winner.value, winner.low, winner.high)}"


def _kendall_text(agreement: RankAgreement) -> str:
    interval = interval_text(agreement.low, agreement.high, two_decimals)
    return f"{two_decimals(agreement.kendall)} {interval}".rstrip()


@CLAIMS.judge("prevalence-depends-on-tau")
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
        "\n".join(sentences),
        "tau has no default in Calipers; the prevalence is always reported.",
    )


@CLAIMS.judge("tau-changes-the-order")
def _(run: MonitorsRun) -> ClaimJudgement:
    curves = [curve for curve in run.taus if curve.defined.sum() > 1 and len(curve.monitors) > 1]
    if not curves:
        return not_judged("Needs two monitors, and two values of tau with safe and unsafe images.")
    sentences, flags = [], []
    for curve in curves:
        n_turned = len(curve.turned_pairs)
        flags += [n_turned >= RULES.limit("turned-pairs") * curve.n_pairs]
        # "In part" if any pair turns.
        if n_turned:
            flags.append(True)
        winners = curve.winners
        best = f"{winners[0]} is always best"
        if len(winners) > 1:
            best = f"the best are {', '.join(winners)}"
        sentences.append(
            f"{curve.trial.capitalize()}, mean over {curve.classes} classes: {n_turned} of "
            f"{curve.n_pairs} pairs of monitors turn; {best}."
        )
    return ClaimJudgement(joint_verdict(flags), "\n".join(sentences))


@CLAIMS.judge("harm-decides-on-the-proxy")
def _(run: MonitorsRun) -> ClaimJudgement:
    if not run.proxies:
        return not_judged("Needs shifts of known strength, which given data do not have.")
    sentences, flags = [], []
    for proxy in run.proxies:
        value, low, high = proxy.difference
        flags.append(low > 0)
        areas = ", ".join(f"{area:.3f}" for area in proxy.values.tolist())
        shares = ", ".join(f"{share:.2f}" for share in proxy.unsafe.tolist())
        sentences.append(
            f"{proxy.trial.capitalize()}: with shifts of strength "
            f"{', '.join(map(str, proxy.strengths))} the ideal OOD monitor has an AUROC of {areas} "
            f"for unsafe images (of the shifted ones {shares} are unsafe); from the weakest to the "
            f"strongest it gains {bounded_text(value, low, high)}."
        )
    return ClaimJudgement(joint_verdict(flags), "\n".join(sentences))


@CLAIMS.judge("chosen-by-ood-leaves-hazard")
@in_each_trial
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


@CLAIMS.judge("risk-falls-with-rejection")
def _(run: MonitorsRun) -> ClaimJudgement:
    if not run.mixed_trials:
        return not_judged("Needs safe and unsafe images.")
    sentences, flags = [], []
    for trial in run.mixed_trials:
        base = float(trial.unsafe.mean())
        get = trial.evaluation.get
        area = {name: get("AURC", name, OMS) for name in trial.contenders}
        better = [name for name, e in area.items() if e.high < base]
        others = [name for name in area if name not in better]
        best = min(area, key=lambda name: area[name].value)
        # The claim holds if all monitors lower the risk, and in part if some do.
        flags.append(not others)
        if better and others:
            flags.append(True)
        but = f"; not for {', '.join(others)}" if others else ""
        sentences.append(
            f"{trial.title}: risk {base:.3f} without rejection; AURC lies below it, with its "
            f"interval, for {len(better)} of {len(area)} monitors, lowest for {best} "
            f"({estimate_text(area[best])}){but}."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        "\n".join(sentences),
        "An uninformative monitor has an AURC close to the base risk.",
    )
