# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of stability about trained networks, data sets and operators; appendices.

They are judged by the numbers that the paper prints, or by maps of networks that the user passes;
never by simulated families, which were designed to resemble the printed numbers. The claims of the
appendices are about derivatives, large bags, and the lines of figure 9. Each function judges one
statement by a `StabilityRun`; `study` joins them in the order of the paper.
"""

from __future__ import annotations

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict, number_text
from calipers.studies.stability.data import (
    DESCRIBED_BAGS,
    LAST_STEPS,
    LSE_ONE,
    LSE_SMALL,
    MAX,
    MEAN,
    MURA,
    NOR,
    PASCAL,
    TABLE_VI,
    XRAY,
)
from calipers.studies.stability.experiments import (
    ADDED,
    ADDED_NEGATIVE,
    START,
    Key,
    StabilityRun,
    column_correlation,
    last_step,
    lines,
    score_values,
    values_text,
)

BAG_LEVEL, OPERATORS, ALWAYS = (
    Claims[StabilityRun](),
    Claims[StabilityRun](),
    Claims[StabilityRun](),
)
SCORES = (("apj", "APJ"), ("spearman", "Spearman"))  # column and name of the stability scores
DECENT = 0.8  # AUC
HIGH = 0.7  # a stability score from here on counts as high
LINEAR = 0.5  # a correlation from here on counts as linear
NONE = 0.3  # a correlation up to here counts as none
INVARIANT = 0.05  # a range up to here counts as invariant
SIMILAR = 0.05  # scores of two operators within this are similar

CLAIMS = Claims[StabilityRun]()
STEP = 1e-4  # of the numerical derivative
LARGE = 10_000  # instances


def _missing(run: StabilityRun, *operators: str) -> ClaimJudgement | None:
    """Return that a claim is not tested if operators are missing in all data sets, else None."""
    available = {operator for _, operator in run.networks}
    missing_names = [name for name in operators if name not in available]
    if not missing_names:
        return None
    return ClaimJudgement(
        None,
        f"Not tested: the given maps have no operator {' and '.join(missing_names)}.",
        is_tested=False,
    )


@BAG_LEVEL.statement(
    "good-bags-without-stability",
    "Bag AUC is above 0.8 in all data sets, but stability is not high.",
    "section V-D, figure 8",
)
def _(run: StabilityRun) -> ClaimJudgement:
    auc, apj, rank = (run.column(name) for name in ("auc", "apj", "spearman"))
    if not auc or not apj or not rank:
        return ClaimJudgement(
            None,
            "Not tested: the given maps have no labels of two kinds, or no scores.",
            is_tested=False,
        )
    high = sum(value >= HIGH for value in rank.values())
    flags = [min(auc.values()) > DECENT, max(apj.values()) < HIGH, high == 0]
    families = {
        name: run.families[name]["APJ"].value
        for name in ("stable-good", "stable-wrong", "unstable")
    }
    area = run.families["unstable"].localized.mean("AUC")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{run.networks_text}: AUC from {min(auc.values()):.2f} to {max(auc.values()):.2f}; APJ at "
        f"most {max(apj.values()):.2f}; Spearman is {HIGH:g} or more in {high} of {len(rank)} "
        f"rows (highest {max(rank.values()):.2f}).",
        f"AUC cannot distinguish them: three families with the same bag scores (AUC {area:.2f}) "
        f"have APJ {values_text(families)}.",
    )


@BAG_LEVEL.statement(
    "stability-linear-in-auc",
    "Stability increases linearly with bag performance.",
    "sections V-D and VI-A, figure 8",
)
def _(run: StabilityRun) -> ClaimJudgement:
    values, within = {}, {}
    for name, score in SCORES:
        values[score] = _across(run, name, "auc")
        for data in run.data_sets:
            one = _across(run, name, "auc", data)
            if not np.isnan(one):
                within[f"{data} {score}"] = one
    if np.isnan(list(values.values())).any():
        return ClaimJudgement(
            None, "Not tested: fewer than three networks have an AUC.", is_tested=False
        )
    return ClaimJudgement(
        joint_verdict([value >= LINEAR for value in values.values()]),
        f"{run.networks_text}, Pearson's correlation with AUC over {len(run.column('auc'))} rows: "
        f"{values_text(values)}. Within data sets: "
        f"{values_text(within) if within else 'too few rows'}.",
        "Rows of one data set are not independent. Where AUC is the same throughout there is no "
        "correlation.",
    )


def _across(run: StabilityRun, one: str, other: str, data: str | None = None) -> float:
    """Return Pearson's correlation of two columns over networks; NaN for fewer than three."""
    first, second = run.column(one, data), run.column(other, data)
    # Two points always lie on a line.
    keys = [key for key in first if key in second]
    if len(keys) < 3:
        return float("nan")
    return column_correlation(
        np.array([first[key] for key in keys]), np.array([second[key] for key in keys])
    )


@OPERATORS.statement(
    "most-stable-operators",
    "The most stable operator is LSE with r = 0.1 on X-Ray, LSE with r = 1 on MURA, and NOR on "
    "Pascal VOC.",
    "section V-E, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    flags, words = [], []
    for data, operator in ((XRAY, LSE_SMALL), (MURA, LSE_ONE), (PASCAL, NOR)):
        if any((data, operator) not in run.column(name) for name in ("apj", "spearman")):
            return ClaimJudgement(
                None, f"Not tested: the given maps have no {data}, {operator}.", is_tested=False
            )
        for name, score in SCORES:
            column = run.column(name, data)
            best = max(column.values())
            flags.append(column[data, operator] == best)
            words.append(f"{data} by {score}: {_names(column, best)} ({best:.2f})")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{run.networks_text}, the highest: {'; '.join(words)}.",
        "Standard deviations over bags are 0.1 to 0.3, so many of these orders are within noise.",
    )


def _names(column: dict[Key, float], value: float) -> str:
    return " and ".join(operator for (_, operator), one in column.items() if one == value)


@OPERATORS.statement(
    "nor-stable-everywhere",
    "NOR has relatively good APJ on all data sets.",
    "sections V-E and VI-A, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    lack = _missing(run, NOR)
    if lack is not None:
        return lack
    ranks = {}
    for data in run.data_sets:
        column = run.column("apj", data)
        if (data, NOR) in column:
            # Rank 1 is the highest APJ; equal values share the better rank.
            ranks[data] = 1 + sum(value > column[data, NOR] for value in column.values())
    words = ", ".join(f"{data} {rank}" for data, rank in ranks.items())
    return ClaimJudgement(
        joint_verdict([rank <= 2 for rank in ranks.values()]),
        f"{run.networks_text}, its rank by APJ: {words}.",
    )


@OPERATORS.statement(
    "max-lowest-spearman",
    "Max has the lowest Spearman correlation on all data sets.",
    "sections V-E and VI-A, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    lack = _missing(run, MAX)
    if lack is not None:
        return lack
    flags, words = [], []
    for data in run.data_sets:
        column = run.column("spearman", data)
        if (data, MAX) in column:
            others = min((value for key, value in column.items() if key[1] != MAX), default=np.nan)
            flags.append(column[data, MAX] < others)
            words.append(f"{data} {column[data, MAX]:.2f} (lowest other {number_text(others)})")
    return ClaimJudgement(joint_verdict(flags), f"{run.networks_text}: {', '.join(words)}.")


@OPERATORS.statement(
    "mean-like-lse-small",
    "Mean and LSE with r = 0.1 give similar results.",
    "section V-E, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    return _missing(run, MEAN, LSE_SMALL) or _compare_operators(run, MEAN, LSE_SMALL, alike=True)


@OPERATORS.statement(
    "lse-one-unlike-max",
    "LSE with r = 1 differs greatly from Max, and behaves more like Mean and LSE with r = 0.1.",
    "sections V-E and VI-A, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    lack = _missing(run, LSE_ONE, MAX, MEAN)
    if lack is not None:
        return lack
    flags, words = [], []
    for data in run.data_sets:
        for name, score in SCORES:
            column = run.column(name, data)
            if all((data, operator) in column for operator in (LSE_ONE, MAX, MEAN)):
                from_max = abs(column[data, LSE_ONE] - column[data, MAX])
                from_mean = abs(column[data, LSE_ONE] - column[data, MEAN])
                flags.append(from_max > from_mean)
                words.append(f"{data} {score} {from_max:.2f} and {from_mean:.2f}")
    if not flags:
        return ClaimJudgement(
            None, "Not tested: no data set has all three operators.", is_tested=False
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{run.networks_text}, distance from Max and from Mean: {', '.join(words)}.",
        "As it must be: on probabilities LSE with r = 1 is nearly the mean.",
    )


def _compare_operators(run: StabilityRun, one: str, other: str, *, alike: bool) -> ClaimJudgement:
    """Return whether two operators have similar scores in all data sets."""
    flags, words = [], []
    for data in run.data_sets:
        for name, score in SCORES:
            column = run.column(name, data)
            if (data, one) in column and (data, other) in column:
                gap = abs(column[data, one] - column[data, other])
                flags.append((gap <= SIMILAR) == alike)
                words.append(f"{data} {score} {gap:.2f}")
    if not flags:
        return ClaimJudgement(
            None, f"Not tested: no data set has both {one} and {other}.", is_tested=False
        )
    return ClaimJudgement(
        joint_verdict(flags), f"{run.networks_text}, they differ by: {', '.join(words)}."
    )


@OPERATORS.statement(
    "bag-auc-invariant-dice-not",
    "Bag performance is somewhat invariant to the operator; instance performance varies with it.",
    "section V-E, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    auc, dice = _ranges(run, "auc"), _ranges(run, "dice")
    if not auc or not dice:
        return ClaimJudgement(
            None,
            "Not tested: AUC or DICE of several operators are missing.",
            is_tested=False,
        )
    flags = [value <= INVARIANT for value in auc.values()]
    flags += [value > INVARIANT for value in dice.values()]
    return ClaimJudgement(
        joint_verdict(flags),
        f"{run.networks_text}, ranges over operators: AUC {values_text(auc)}; DICE "
        f"{values_text(dice)}.",
    )


def _ranges(run: StabilityRun, name: str) -> dict[str, float]:
    """Return the range over operators of every data set that has two operators or more."""
    ranges = {}
    for data in run.data_sets:
        values = list(run.column(name, data).values())
        if len(values) > 1:
            ranges[data] = max(values) - min(values)
    return ranges


@OPERATORS.statement(
    "no-relation-of-dice-and-stability",
    "Over operators there is no relationship between instance performance and stability.",
    "section V-E, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for data in run.data_sets:
        for name, score in SCORES:
            value = _across(run, name, "dice", data)
            if not np.isnan(value):
                values[f"{data} {score}"] = value
    if not values:
        return ClaimJudgement(
            None, "Not tested: fewer than three operators have DICE.", is_tested=False
        )
    return ClaimJudgement(
        joint_verdict([abs(value) <= NONE for value in values.values()]),
        f"{run.networks_text}, Pearson's correlation with DICE over operators: "
        f"{values_text(values)}.",
        ""
        if run.has_maps
        else "Five rows each: the printed numbers suggest a relationship, with different signs.",
    )


@ALWAYS.statement(
    "same-auc-varying-stability",
    "The same bag performance can come with varying stability, according to the operator.",
    "section VI-A, table VII",
)
def _(run: StabilityRun) -> ClaimJudgement:
    auc, apj = _ranges(run, "auc"), _ranges(run, "apj")
    flags, words = [], []
    for data in run.data_sets:
        if data in auc and data in apj:
            flags.append(apj[data] > 2 * auc[data])
            words.append(f"{data} AUC {auc[data]:.2f}, APJ {apj[data]:.2f}")
    if not flags:
        return ClaimJudgement(
            None,
            "Not tested: no data set has several operators with an AUC.",
            is_tested=False,
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{run.networks_text}, ranges over operators: {'; '.join(words)}.",
    )


@ALWAYS.statement(
    "spearman-above-apj",
    "Spearman's correlation is always higher than APJ.",
    "section VI-A",
)
def _(run: StabilityRun) -> ClaimJudgement:
    rows = [key for key in run.column("apj") if key in run.column("spearman")]
    if not rows:
        return ClaimJudgement(
            None, f"Not tested: no row of {run.cells_text} has both scores.", is_tested=False
        )
    below, words = 0, []
    for key in rows:
        network = run.networks[key]
        if network.spearman <= network.apj:
            below += 1
            words.append(f"{', '.join(key)} {network.spearman:.2f} against {network.apj:.2f}")
    bags = total = 0
    for cell in run.cells.values():
        apj = cell.per_bag("APJ")
        total += len(apj)
        bags += int((cell.per_bag("Spearman") <= apj).sum())
    examples = f" ({'; '.join(words)})" if words else ""
    evidence = f"{run.networks_text} it is lower in {below} of {len(rows)} rows{examples}."
    if not run.has_maps:
        summary = TABLE_VI[XRAY]
        names = [name for name, (apj, rank, _) in DESCRIBED_BAGS.items() if rank <= apj]
        evidence += (
            f" Table VI, X-Ray: {summary.scores[1][0]:.2f} against {summary.scores[0][0]:.2f}."
            f" Bags that the text describes: {', '.join(names)}."
        )
    note = ""
    if below or bags:
        note = (
            "Where models agree on what they call and on nothing else, the ranks of the "
            "background are noise, and Spearman is the lower one."
        )
    return ClaimJudgement(
        not below and not bags,
        f"{evidence} In {run.cells_text} it is lower on {bags} of {total} bags.",
        note,
    )


@CLAIMS.statement(
    "apj-minimum-vanishes",
    "The minimum of APJ is reached at low N, and negative scores converge to 0 for large N.",
    "appendix A",
)
def _(run: StabilityRun) -> ClaimJudgement:
    low = float(agreement_scores(n00=0, n01=LARGE / 2, n10=LARGE / 2, n11=0)["APJ"])
    two_calls = float(agreement_scores(n00=LARGE - 2, n01=1, n10=1, n11=0)["APJ"])
    return ClaimJudgement(
        abs(low) < 0.01,
        f"With {LARGE} instances, half called by one model and half by the other, APJ is "
        f"{low:.4f}. It is {two_calls:.5f} if only two are called, one by each.",
        "True for a fixed number of calls, as the limit in the proof assumes; not for a fixed "
        "share of calls.",
    )


@CLAIMS.statement(
    "derivatives",
    "The derivative of APJ by n11 is (n01+n10)(n01+n00)(n10+n00) over the squared denominator, "
    "and always positive; those of AJ by n11 and n00 are positive too.",
    "appendix A",
)
def _(run: StabilityRun) -> ClaimJudgement:
    # Central differences need room on both sides, so no cell may be empty.
    tables = run.counting.tables[(run.counting.tables > 0).all(axis=1)]
    n00, n01, n10, n11 = tables.T
    bottom = n00 * n11 - n01 * n10 + (n10 + n01) * tables.sum(axis=1)
    exact = (n01 + n10) * (n01 + n00) * (n10 + n00) / bottom**2
    # Central differences by n11, with the other cells fixed, as in the proof.
    up = np.array([0.0, 0.0, 0.0, STEP])
    numeric = (score_values(tables + up, "APJ") - score_values(tables - up, "APJ")) / (2 * STEP)
    off = float(np.abs(numeric - exact).max())
    effects = []
    for score, move in (("APJ", ADDED), ("AJ", ADDED), ("AJ", ADDED_NEGATIVE)):
        effects.append(run.counting.move_effect(score, move))
    flags = [
        off < 1e-6,
        *(one.falls == 0 for one in effects),
        *(one.stays == 0 for one in effects),
    ]
    return ClaimJudgement(
        joint_verdict(flags),
        f"On {len(tables)} tables without an empty cell the formula agrees with numerical "
        f"derivatives within {off:.0e}. With one instance more that both call, APJ rises in "
        f"{effects[0].rises} of {effects[0].n} tables and stays in "
        f"{effects[0].stays}; AJ alike.",
        "Never negative, but 0 where nothing is disputed, or where one model calls everything.",
    )


@CLAIMS.statement(
    "start-is-zero",
    "With 50 instances of each kind APJ is 0, although half of the calls of each classifier are "
    "agreed on.",
    "appendix C",
)
def _(run: StabilityRun) -> ClaimJudgement:
    one = agreement_scores(*[START] * 4)
    return ClaimJudgement(
        one["APJ"] == 0,
        f"APJ {one['APJ']:.0f}, AJ {one['AJ']:.0f}, PAR {one['PAR']:.1f}: the chance level of two "
        "models that call half of all instances.",
    )


@CLAIMS.statement(
    "green-line-falls",
    "With positive agreement rising alike, APJ rises on the blue line and falls on the green one.",
    "appendix C, figure 9",
)
def _(run: StabilityRun) -> ClaimJudgement:
    flags, words = [], []
    for name in ("APJ", "AJ"):
        curves = lines(name)
        flags += [
            bool((np.diff(curves["blue"]) > 0).all()),
            bool((np.diff(curves["green"]) < 0).all()),
        ]
        words.append(
            f"{name} from 0 to {curves['blue'][-1]:.4f} (blue) and {curves['green'][-1]:.4f} "
            "(green)"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{'; '.join(words)}, at every step.",
        "It contradicts a plain reading of monotonically increasing in section III.",
    )


@CLAIMS.statement(
    "dotted-lines-differ",
    "With positive agreement fixed, APJ rises if disputed instances move to one side (black) and "
    "falls if disputes grow at the cost of negative agreement (red).",
    "appendix C, figure 9",
)
def _(run: StabilityRun) -> ClaimJudgement:
    curves = lines()
    flags = [
        bool((np.diff(curves["black dotted"]) > 0).all()),
        bool((np.diff(curves["red dotted"]) < 0).all()),
    ]
    ends = curves["black dotted"][-1], curves["red dotted"][-1]
    return ClaimJudgement(
        joint_verdict(flags),
        f"From 0 to {ends[0]:.4f} (black) and to {ends[1]:.4f} (red), at every step.",
    )


@CLAIMS.statement(
    "less-agreement-scores-higher",
    "At the last step the black dotted line has less positive agreement than the green one, and a "
    "higher score.",
    "appendix C, table IX",
)
def _(run: StabilityRun) -> ClaimJudgement:
    same = all(last_step(line) == counts for line, counts in LAST_STEPS.items())
    green, black = (agreement_scores(*LAST_STEPS[line]) for line in ("green", "black dotted"))
    return ClaimJudgement(
        bool(same and black["APJ"] > green["APJ"] and black["PAR"] < green["PAR"]),
        f"The tables are those printed: PAR {black['PAR']:.3f} (black) and {green['PAR']:.3f} "
        f"(green), APJ {black['APJ']:.4f} and {green['APJ']:.4f}; total agreement "
        f"{black['TAR']:.2f} and {green['TAR']:.2f}.",
    )
