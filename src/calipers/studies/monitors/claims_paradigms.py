# SPDX-License-Identifier: Apache-2.0
"""Claims about the two paradigms: whether labels, ideal monitors and rankings agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.monitors.found import MonitorsRun, estimate_text
from calipers.studies.monitors.trial_claims import MADE_ONLY, Finding, in_each_trial, not_judged
from calipers.studies.monitors.trials import IDEAL, RAISED_CUT, TAU, USUAL, Trial, auroc

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

PARADIGMS = Claims[MonitorsRun]()
OOD_SECTION = "The OOD paradigm"
SURE = 0.95  # a difference in at least this share of the replicates counts as certain
GOOD = 0.05  # a detector that fails on a smaller share of the images counts as good
PICTURE_MONITORS = ("image-mahalanobis", "image-knn", "count")


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
    gaps = {}
    for name, gap in trial.evaluation.paradigm_gaps.items():
        if name in trial.contenders:
            gaps[name] = gap.estimate
    up = [name for name, gap in gaps.items() if gap.low > 0]
    down = [name for name, gap in gaps.items() if gap.high < 0]
    most = max(gaps, key=lambda name: gaps[name].value)
    least = min(gaps, key=lambda name: gaps[name].value)
    flags = [bool(up or down)]
    return flags, (
        f"{trial.title}: OOD overrates {len(up)} and underrates {len(down)} of {len(gaps)} "
        "monitors (interval of the paired difference of AUROC without 0), from "
        f"{estimate_text(gaps[most])} for {most} to {estimate_text(gaps[least])} for {least}."
    )


@PARADIGMS.statement(
    "ood-ranking-misleads",
    "Who is the best monitor depends on the paradigm: choosing by OOD can mislead.",
    OOD_SECTION,
)
@in_each_trial(f"Holds if the winner differs in at least {100 * SURE:g} % of the replicates.")
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
