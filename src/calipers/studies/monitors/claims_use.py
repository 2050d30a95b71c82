# SPDX-License-Identifier: Apache-2.0
"""Claims about choices and use: tau, the share of harmless shifts, and alarms at a threshold."""

from __future__ import annotations

import math

import numpy as np

from calipers.monitors.labellings import OMS, OOD
from calipers.statistics.ranks import kendall_tau_b
from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.monitors.found import MonitorsRun, estimate_text
from calipers.studies.monitors.sweeps import PAIR
from calipers.studies.monitors.trial_claims import Finding, in_each_trial, not_judged, note_of
from calipers.studies.monitors.trials import IDEAL, Trial

SCOPE, USE = Claims[MonitorsRun](), Claims[MonitorsRun]()
WHERE = "Defining the scope of the model"
BLIND = "random"  # a made monitor that knows nothing, and must not lower the risk


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
            f"With {100 * sweep.far:g} % far runways {PAIR[1]} overtakes {PAIR[0]} under OMS at a "
            f"share of {_share(sweep.measured_flip)} harmless shifts (closed form "
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
