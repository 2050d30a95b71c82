# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of stability about the scores themselves: sections II and III of the paper.

They are decided by counting all tables and by simulated maps. Each function judges one statement by
a `StabilityRun`; `study` joins the claims with those of `claims_maps` and `claims_networks`.
"""

from __future__ import annotations

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.show.words import percent_text
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict
from calipers.studies.stability.data import BINARY, ROW_TOTALS, RULES
from calipers.studies.stability.experiments import (
    ADDED,
    ADDED_NEGATIVE,
    JOINED,
    ROUNDING,
    TURNED,
    StabilityRun,
    score_values,
)

CLAIMS = Claims[StabilityRun](rules=RULES)
DIGITS = 0.005  # half of the last printed digit


@CLAIMS.judge("lse-between-mean-and-max")
def _(run: StabilityRun) -> ClaimJudgement:
    # The paper uses r = 0.1 as a soft mean and r = 1 as a soft maximum.
    by = {one.r: one for one in run.soft}
    flags = [by[0.1].from_mean < by[0.1].from_max, by[1.0].from_max < by[1.0].from_mean]
    words = [
        f"r = {r:g}: {one.from_mean:.3f} from the mean, {one.from_max:.3f} from the maximum"
        for r, one in by.items()
    ]
    return ClaimJudgement(
        joint_verdict(flags),
        "Over 400 simulated maps of probabilities, the largest distance from the mean and the "
        f"mean one from the maximum: {'; '.join(words)}.",
        "On values in [0, 1] LSE lies within r / 8 of the mean, so at r = 1 it is near the mean: "
        "it takes r of 10 and more to come near the maximum. The printed results with r = 1 are "
        "nearer to Mean than to Max, too.",
    )


@CLAIMS.judge("po-is-one-for-subsets")
def _(run: StabilityRun) -> ClaimJudgement:
    tables, value = run.counting.tables, run.counting.value("PO")
    # One set of calls is a subset of the other if one kind of dispute does not occur.
    subset = (np.minimum(tables[:, 1], tables[:, 2]) == 0) & (tables[:, 3] > 0)
    one = agreement_scores(n00=0, n01=255, n10=0, n11=1)
    return ClaimJudgement(
        bool((value[subset] == 1).all()),
        f"It is 1 in all {int(subset.sum())} such tables of up to {run.counting.most} instances. "
        f"One instance against 256: PO {one['PO']:.0f}, PJ {one['PJ']:.3f}.",
    )


@CLAIMS.judge("apo-limits")
def _(run: StabilityRun) -> ClaimJudgement:
    flags = []
    for n in run.counting.sizes[1:]:
        low, high = (run.counting.extreme("APO", n, low=way) for way in (True, False))
        flags += [abs(low.value - (1 - n)) < ROUNDING * n, high.value <= 1 + ROUNDING]
        flags.append([0.0, n - 1.0, 1.0, 0.0] in low.tables.tolist())
    most = run.counting.most
    value = run.counting.extreme("APO", most, low=True).value
    return ClaimJudgement(
        joint_verdict(flags),
        f"All tables of 2 to {most} instances: the minimum is 1 - N in every case ({value:.0f} at "
        f"N = {most}), there.",
    )


@CLAIMS.judge("hapj-limits")
def _(run: StabilityRun) -> ClaimJudgement:
    tables, value = run.counting.tables, run.counting.value("HAPJ")
    n00, n01, n10, n11 = tables.T
    # The calls of both models together are no more than the instances.
    few = 2 * n11 + n01 + n10 <= tables.sum(axis=1)
    defined = ~np.isnan(value)
    same = np.abs(value - run.counting.value("PJ"))[few & defined].max() < ROUNDING
    inside = bool(((value[defined] >= -ROUNDING) & (value[defined] <= 1 + ROUNDING)).all())
    undisputed = (n01 + n10 == 0) & (n11 > 0) & (n00 > 0)
    more = int((undisputed & (n11 > n00)).sum())
    return ClaimJudgement(
        bool(inside and same and (value[undisputed] == 1).all()),
        f"In all {int(defined.sum())} tables where it is defined it lies in [0, 1], and it equals "
        f"PJ in the {int((few & defined).sum())} with no more calls than instances.",
        f"The condition n11 <= n00 is not needed: it is 1 in {more} tables with n11 > n00 too. The "
        "text has the sign of the least overlap reversed: it is n*1 + n1* - N.",
    )


@CLAIMS.judge("apj-limits")
def _(run: StabilityRun) -> ClaimJudgement:
    return _limits(run, "APJ", -1 / 3)


@CLAIMS.judge("aj-limits")
def _(run: StabilityRun) -> ClaimJudgement:
    return _limits(run, "AJ", -1.0)


def _limits(run: StabilityRun, name: str, lowest: float) -> ClaimJudgement:
    """Return whether a score has its limits, and whether the minimum is at N = 2 only."""
    ends = {n: run.counting.extreme(name, n, low=True) for n in run.counting.sizes[1:]}
    value = run.counting.value(name)
    limits = (
        abs(float(np.nanmin(value)) - lowest) < ROUNDING
        and abs(float(np.nanmax(value)) - 1) < ROUNDING
    )
    sizes = [n for n, end in ends.items() if abs(end.value - lowest) < ROUNDING]
    halves = all(ends[n].tables.tolist() == [[0, n / 2, n / 2, 0]] for n in sizes)
    most = max(n for n in ends if n % 2)
    return ClaimJudgement(
        joint_verdict([limits, sizes == [2]]),
        f"All tables of up to {run.counting.most} instances: from {np.nanmin(value):.4f} to "
        f"{np.nanmax(value):.0f}. The minimum is taken at N = {', '.join(map(str, sizes))}, "
        f"{'each time' if halves else 'mostly'} at n01 = n10 = N/2; at odd N it is near "
        f"({ends[most].value:.4f} at N = {most}).",
        "The limits are right. The minimum is not specific to small bags: two models that split "
        "any bag into halves reach it.",
    )


@CLAIMS.judge("undefined-if-all-alike")
def _(run: StabilityRun) -> ClaimJudgement:
    tables = run.counting.tables
    n = tables.sum(axis=1)
    alike = (tables[:, 0] == n) | (tables[:, 3] == n)
    contrary = (tables[:, 1] == n) | (tables[:, 2] == n)
    flags = []
    for name in ("APJ", "AJ"):
        value = run.counting.value(name)
        flags += [bool((np.isnan(value) == alike).all()), bool((value[contrary] == 0).all())]
    return ClaimJudgement(
        joint_verdict(flags),
        f"Of {len(n)} tables, {int(alike.sum())} are undefined, the all-alike ones and no other; "
        f"all {int(contrary.sum())} contrary ones have 0.",
    )


@CLAIMS.judge("aj-is-kappa")
def _(run: StabilityRun) -> ClaimJudgement:
    n00, n01, n10, n11 = run.counting.tables.T
    n = n00 + n01 + n10 + n11
    observed_agreement = (n11 + n00) / n
    chance = ((n11 + n10) * (n11 + n01) + (n00 + n01) * (n00 + n10)) / n**2
    aj, apj = run.counting.value("AJ"), run.counting.value("APJ")
    defined = ~np.isnan(aj)
    kappa = (observed_agreement[defined] - chance[defined]) / (1 - chance[defined])
    off = (
        float(np.abs(kappa - aj[defined]).max()),
        float(np.abs(apj[defined] - aj[defined] / (2 - aj[defined])).max()),
    )
    return ClaimJudgement(
        bool(max(off) < 1e-9),
        f"Over {int(defined.sum())} tables AJ differs from kappa by at most {off[0]:.0e}, and APJ "
        f"from AJ / (2 - AJ) by at most {off[1]:.0e}.",
        "More than a resemblance: APJ is an increasing function of kappa, so the two rank single "
        "pairs alike, always.",
    )


@CLAIMS.judge("monotone")
def _(run: StabilityRun) -> ClaimJudgement:
    flags, words = [], []
    for move in (ADDED, JOINED, TURNED):
        effects = [run.counting.move_effect(name, move) for name in ("APJ", "HAPJ", "AJ")]
        flags += [effect.monotone for effect in effects]
        apj = effects[0]
        falls = f"APJ falls {apj.falls} times"
        if all(effect.monotone for effect in effects):
            falls = "none of the three falls"
        words.append(f"{move}: {falls} in {apj.n} tables, APJ rises in {apj.rises}")
    flags.append(run.counting.move_effect("AJ", ADDED_NEGATIVE).monotone)
    worst = run.counting.move_effect("APJ", TURNED)
    return ClaimJudgement(
        joint_verdict(flags),
        f"Moves: {'; '.join(words)}. The largest fall, {worst.worst:.2f}, is from (n00, n01, n10, "
        f"n11) = {worst.example}.",
        "The proof differentiates with all other cells fixed, so N grows with n11: then the claim "
        "holds. It also holds at fixed N when a dispute is settled. Turned from negative to "
        "positive agreement at fixed N, APJ, HAPJ and AJ fall as often as they rise: exactly if "
        "n11 is at least n00. Appendix C shows it (green line).",
    )


@CLAIMS.judge("corrected-for-chance")
def _(run: StabilityRun) -> ClaimJudgement:
    tables = run.counting.tables
    n00, n01, n10, n11 = tables.T
    n = tables.sum(axis=1)
    # Independent calls: n11 N = (calls of one) (calls of the other), in whole numbers.
    calls = (n11 + n10) * (n11 + n01)
    chance = tables[(n11 * n == calls) & (calls > 0) & ((n00 + n01) * (n00 + n10) > 0)]
    means = {
        name: float(np.mean(score_values(chance, name)))
        for name in ("PO", "APO", "HAPJ", "APJ", "AJ")
    }
    means_in_words = ", ".join(f"{name} {value:.2f}" for name, value in means.items())
    return ClaimJudgement(
        joint_verdict([abs(value) < ROUNDING for value in means.values()]),
        f"In the {len(chance)} tables whose agreement is exactly that of independent calls the "
        f"means are {means_in_words}.",
        "PO has no correction, and HAPJ subtracts only the overlap that cannot be avoided.",
    )


@CLAIMS.judge("spearman-formula")
def _(run: StabilityRun) -> ClaimJudgement:
    one = run.ties
    off = {name: abs(one.formula[name] - one.spearman[name]) for name in one.spearman}
    return ClaimJudgement(
        joint_verdict([value < 1e-9 for value in off.values()]),
        f"Two simulated maps without ties: {one.formula['without ties']:.3f} by the formula and "
        f"{one.spearman['without ties']:.3f}. With everything below 0.5 set to 0 "
        f"({percent_text(one.zeros)} of the cells are 0 in both): {one.formula['with ties']:.3f} "
        f"by the formula, {one.spearman['with ties']:.3f} by the correlation of midranks.",
        "With ties the formula is wrong, and too high. As printed, table I also has a root from "
        "Pearson's formula in it.",
    )


@CLAIMS.judge("spearman-punishes-few-large-deviations")
def _(run: StabilityRun) -> ClaimJudgement:
    large, small = run.rank_shifts.few_large, run.rank_shifts.many_small
    return ClaimJudgement(
        large[0] < small[0],
        f"256 ranks, as much displacement in all: few large exchanges {large[0]:.3f}, many small "
        f"ones {small[0]:.3f}. Tau-b: {large[1]:.3f} and {small[1]:.3f}.",
        "Tau-b is sensitive in the same way, slightly less so.",
    )


@CLAIMS.judge("spearman-sees-consistent-shifts")
def _(run: StabilityRun) -> ClaimJudgement:
    return ClaimJudgement(
        run.rank_shifts.halved[0] < 1 - ROUNDING,
        f"A map and half of it: Spearman {run.rank_shifts.halved[0]:.3f}.",
        "It compares ranks, which do not change. Scores at a threshold would change.",
    )


@CLAIMS.judge("kendall-ignores-consistent-shifts")
def _(run: StabilityRun) -> ClaimJudgement:
    return ClaimJudgement(
        abs(run.rank_shifts.halved[1] - 1) < ROUNDING,
        f"A map and half of it: tau-b {run.rank_shifts.halved[1]:.3f}.",
    )


@CLAIMS.judge("kendall-formula")
def _(run: StabilityRun) -> ClaimJudgement:
    a, b = run.ties.tau_a, run.ties.tau_b
    return ClaimJudgement(
        None if abs(a["with ties"] - b["with ties"]) > 0.1 else True,
        f"The two simulated maps: tau-a {a['without ties']:.3f} and tau-b {b['without ties']:.3f} "
        f"without ties; tau-a {a['with ties']:.3f} and tau-b {b['with ties']:.3f} with the faint "
        "cells set to 0.",
        "That is tau-a, which cannot reach 1 with ties; software mostly computes tau-b. On maps "
        "that are zero almost everywhere the variant makes more difference than the model: name "
        "it. The printed text also calls it a ratio between concordant and discordant pairs, "
        "which it is not.",
    )


@CLAIMS.judge("tables-ii-iii")
def _(run: StabilityRun) -> ClaimJudgement:
    off, words = [], []
    for name, (counts, *paper) in BINARY.items():
        ours = [agreement_scores(*counts)[score] for score in ("AJ", "APJ")]
        off += [abs(a - b) for a, b in zip(ours, paper)]
        words.append(f"{name} {ours[0]:.4f} and {ours[1]:.4f}")
    return ClaimJudgement(max(off) <= DIGITS + ROUNDING, "; ".join(words) + ".")


@CLAIMS.judge("table-iiib-margin")
def _(run: StabilityRun) -> ClaimJudgement:
    (n00, n01, n10, n11), _, _ = BINARY["IIIb"]
    totals = ROW_TOTALS["IIIb"]
    return ClaimJudgement(
        totals == (n00 + n01, n10 + n11),
        f"Its cells add up to {n00 + n01} and {n10 + n11}; the printed totals, {totals[0]} and "
        f"{totals[1]}, add up to {sum(totals)} of 100.",
        "A misprint: 55 should be 45. The scores belong to the cells.",
        basis="printed",
    )


@CLAIMS.judge("imbalance-lowers-scores")
def _(run: StabilityRun) -> ClaimJudgement:
    tables = np.array([[80 - k, 10, 10, k] for k in range(40, 81)], np.float64)
    falls, ends = [], []
    for name in ("AJ", "APJ"):
        values = score_values(tables, name)
        falls.append(bool((np.diff(values) < 0).all()))
        ends.append(f"{name} from {values[0]:.2f} to {values[-1]:.2f}")
    total = [agreement_scores(*BINARY[name][0])["TAR"] for name in ("IIa", "IIb")]
    return ClaimJudgement(
        joint_verdict(falls),
        f"N = 100, 80 agreed and 10 disputed either way, n11 from 40 to 80: {', '.join(ends)}, "
        "falling at every step.",
        "Table II itself does not show it: its two tables share n11 = 40, but the total agreement "
        f"is {total[0]:.1f} against {total[1]:.1f}, and most of the fall comes from that.",
    )


@CLAIMS.judge("asymmetry-raises-scores")
def _(run: StabilityRun) -> ClaimJudgement:
    one, other = (agreement_scores(*BINARY[name][0]) for name in ("IIIa", "IIIb"))
    tables = np.array([[20, 20 + k, 20 - k, 40] for k in range(21)], np.float64)
    rises = [bool((np.diff(score_values(tables, name)) > 0).all()) for name in ("AJ", "APJ")]
    return ClaimJudgement(
        joint_verdict([*rises, other["AJ"] > one["AJ"], other["APJ"] > one["APJ"]]),
        f"The same total agreement, {one['TAR']:.1f}: AJ {one['AJ']:.2f} and {other['AJ']:.2f}, "
        f"APJ {one['APJ']:.2f} and {other['APJ']:.2f}; both rise at every step as 40 disputed "
        "instances move to one side.",
    )


@CLAIMS.judge("tar-formula")
def _(run: StabilityRun) -> ClaimJudgement:
    one = agreement_scores(*BINARY["IIa"][0])
    return ClaimJudgement(
        one["positive_share"] == one["TAR"],
        f"Table IIa: n11 / N = {one['positive_share']:.1f}, but 80 of 100 instances are agreed "
        f"on, (n11 + n00) / N = {one['TAR']:.1f}.",
        "A misprint. Calipers calls the printed one positive_share.",
    )
