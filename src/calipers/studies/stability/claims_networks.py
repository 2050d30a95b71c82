# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of stability about networks, settings and operators; appendices.

They are judged by the trained networks of the run, setting by setting (a data set with or without
known instances), or by maps that the user brings. The same rule is applied to the printed table
VII, and its verdict stands beside ours: do the sentences of the paper follow from its own numbers?
Sentences about the paper's data sets by name can only be judged by the printed numbers.

The claims of the appendices are about derivatives, large bags, and the lines of figure 9. Each
function judges one statement by a `StabilityRun`; `study` joins them in the order of the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.studies.framework import (
    ClaimJudgement,
    Claims,
    joint_verdict,
    number_text,
)
from calipers.studies.open_choices import ScanShare
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
    RULES,
    TABLE_VI,
    XRAY,
)
from calipers.studies.stability.experiments import (
    ADDED,
    ADDED_NEGATIVE,
    START,
    Key,
    NetworkTable,
    StabilityRun,
    column_correlation,
    last_step,
    lines,
    printed_networks,
    score_values,
    values_text,
)

BAG_LEVEL = Claims[StabilityRun](rules=RULES)
OPERATORS = Claims[StabilityRun](rules=RULES)
ALWAYS = Claims[StabilityRun](rules=RULES)
SCORES = (("apj", "APJ"), ("spearman", "Spearman"))  # column and name of the stability scores
DECENT, HIGH = RULES.limit("decent"), RULES.limit("high")
LINEAR, NONE = RULES.limit("linear"), RULES.limit("none")
INVARIANT, SIMILAR = RULES.limit("invariant"), RULES.limit("similar")

CLAIMS = Claims[StabilityRun](rules=RULES)
STEP = 1e-4  # of the numerical derivative
LARGE = 10_000  # instances

TableJudge = Callable[[NetworkTable], ClaimJudgement]


def _beside_printed(
    judge: TableJudge, claims: Claims[StabilityRun], name: str
) -> Callable[[StabilityRun], ClaimJudgement]:
    """Register a judge of a table of networks: that of the run decides, the printed one is told."""

    @claims.judge(name)
    def by_run(run: StabilityRun) -> ClaimJudgement:
        ours, printed = judge(run.networks), judge(printed_networks())
        words = f"\nBy the same rule the printed table VII {_verdict_text(printed)}: "
        # The sentence has named the table.
        numbers = printed.evidence.removeprefix(printed_networks().text).lstrip(":, ")
        evidence = ours.evidence + words + numbers
        return ClaimJudgement(ours.outcome, evidence, ours.note, ours.is_tested, share=ours.share)

    return by_run


def _verdict_text(judgement: ClaimJudgement) -> str:
    """Return what a table does to a statement, in words."""
    if not judgement.is_tested:
        return "cannot tell"
    words = {True: "agrees", None: "agrees in part", False: "does not agree"}
    return words[judgement.outcome]


def on_networks(claims: Claims[StabilityRun], name: str) -> Callable[[TableJudge], TableJudge]:
    """Decorate the judge of a table of networks."""

    def register(judge: TableJudge) -> TableJudge:
        _beside_printed(judge, claims, name)
        return judge

    return register


def _untested(words: str) -> ClaimJudgement:
    return ClaimJudgement(None, f"Not tested: {words}.", is_tested=False)


def _by_setting(flags: Sequence[bool]) -> ScanShare:
    return ScanShare.of(flags, "settings")


@on_networks(BAG_LEVEL, "good-bags-without-stability")
def _(table: NetworkTable) -> ClaimJudgement:
    settings, parts, words = [], [], []
    for setting in table.settings:
        auc, apj, rank = (table.column(name, setting) for name in ("auc", "apj", "spearman"))
        if not auc or not apj or not rank:
            continue
        own = [min(auc.values()) > DECENT, max(apj.values()) < HIGH, max(rank.values()) < HIGH]
        parts += own
        settings.append(all(own))
        words.append(
            f"{setting} AUC {min(auc.values()):.2f} to {max(auc.values()):.2f}, APJ at most "
            f"{max(apj.values()):.2f}, Spearman at most {max(rank.values()):.2f}"
        )
    if not settings:
        return _untested("no setting has labels of two kinds and scores")
    return ClaimJudgement(
        joint_verdict(parts), f"{table.text}: {'; '.join(words)}.", share=_by_setting(settings)
    )


@on_networks(BAG_LEVEL, "stability-linear-in-auc")
def _(table: NetworkTable) -> ClaimJudgement:
    values, within = {}, {}
    for name, score in SCORES:
        values[score] = _across(table, name, "auc")
        for setting in table.settings:
            one = _across(table, name, "auc", setting)
            if not np.isnan(one):
                within[f"{setting} {score}"] = one
    if np.isnan(list(values.values())).any():
        return _untested("fewer than three networks have an AUC")
    within_in_words = values_text(within) if within else "too few rows"
    return ClaimJudgement(
        joint_verdict([value >= LINEAR for value in values.values()]),
        f"{table.text}, Pearson's correlation with AUC over {len(table.column('auc'))} rows: "
        f"{values_text(values)}. Within settings: {within_in_words}.",
        "Rows of one data set are not independent. Where AUC is the same throughout there is no "
        "correlation.",
    )


def _across(table: NetworkTable, one: str, other: str, setting: str | None = None) -> float:
    """Return Pearson's correlation of two columns over networks; NaN for fewer than three."""
    first, second = table.column(one, setting), table.column(other, setting)
    # Two points always lie on a line.
    keys = [key for key in first if key in second]
    if len(keys) < 3:
        return float("nan")
    return column_correlation(
        np.array([first[key] for key in keys]), np.array([second[key] for key in keys])
    )


@OPERATORS.judge("most-stable-operators")
def _(run: StabilityRun) -> ClaimJudgement:
    table = printed_networks()
    flags, words = [], []
    for data, operator in ((XRAY, LSE_SMALL), (MURA, LSE_ONE), (PASCAL, NOR)):
        for name, score in SCORES:
            column = table.column(name, data)
            best = max(column.values())
            flags.append(column[data, operator] == best)
            words.append(f"{data} by {score}: {_names(column, best)} ({best:.2f})")
    own = []
    for setting in run.networks.settings:
        column = run.networks.column("apj", setting)
        if column:
            best = max(column.values())
            own.append(f"{setting} {_names(column, best)} ({best:.2f})")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, the highest: {'; '.join(words)}. {run.networks.text}, by APJ: "
        f"{', '.join(own)}.",
        "Standard deviations over bags are 0.1 to 0.3, so many of these orders are within noise.",
        basis="printed",
    )


def _names(column: dict[Key, float], value: float) -> str:
    return " and ".join(operator for (_, operator), one in column.items() if one == value)


@on_networks(OPERATORS, "nor-stable-everywhere")
def _(table: NetworkTable) -> ClaimJudgement:
    ranks = {}
    for setting in table.settings:
        column = table.column("apj", setting)
        if (setting, NOR) in column:
            # Rank 1 is the highest APJ; equal values share the better rank.
            ranks[setting] = 1 + sum(value > column[setting, NOR] for value in column.values())
    if not ranks:
        return _untested(f"no setting has the operator {NOR}")
    flags = [rank <= 2 for rank in ranks.values()]
    words = ", ".join(f"{setting} {rank}" for setting, rank in ranks.items())
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, its rank by APJ: {words}.",
        share=_by_setting(flags),
    )


@on_networks(OPERATORS, "max-lowest-spearman")
def _(table: NetworkTable) -> ClaimJudgement:
    flags, words = [], []
    for setting in table.settings:
        column = table.column("spearman", setting)
        others = [value for key, value in column.items() if key[1] != MAX]
        if (setting, MAX) in column and others:
            flags.append(column[setting, MAX] < min(others))
            words.append(
                f"{setting} {column[setting, MAX]:.2f} (lowest other {number_text(min(others))})"
            )
    if not flags:
        return _untested(f"no setting has the operator {MAX} and another one")
    return ClaimJudgement(
        joint_verdict(flags), f"{table.text}: {', '.join(words)}.", share=_by_setting(flags)
    )


@on_networks(OPERATORS, "no-best-operator")
def _(table: NetworkTable) -> ClaimJudgement:
    flags, words = [], []
    for name, score in SCORES:
        firsts, lasts = [], []
        for setting in table.settings:
            column = table.column(name, setting)
            if len(column) > 1:
                firsts.append(_names(column, max(column.values())))
                lasts.append(_names(column, min(column.values())))
        if len(firsts) < 2:
            return _untested("fewer than two settings have several operators")
        for end, names in (("first", firsts), ("last", lasts)):
            flags.append(len(set(names)) > 1)
            counts = Counter(names).most_common()
            words.append(f"{end} by {score} {', '.join(f'{one} in {n}' for one, n in counts)}")
    return ClaimJudgement(
        joint_verdict(flags), f"{table.text}, of {len(firsts)} settings: {'; '.join(words)}."
    )


@on_networks(OPERATORS, "mean-like-lse-small")
def _(table: NetworkTable) -> ClaimJudgement:
    flags, words = [], []
    for setting in table.settings:
        for name, score in SCORES:
            column = table.column(name, setting)
            if (setting, MEAN) in column and (setting, LSE_SMALL) in column:
                gap = abs(column[setting, MEAN] - column[setting, LSE_SMALL])
                flags.append(gap <= SIMILAR)
                words.append(f"{setting} {score} {gap:.2f}")
    if not flags:
        return _untested(f"no setting has both {MEAN} and {LSE_SMALL}")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, they differ by: {', '.join(words)}.",
        share=ScanShare.of(flags, "comparisons"),
    )


@on_networks(OPERATORS, "lse-one-unlike-max")
def _(table: NetworkTable) -> ClaimJudgement:
    flags, words = [], []
    for setting in table.settings:
        for name, score in SCORES:
            column = table.column(name, setting)
            if all((setting, operator) in column for operator in (LSE_ONE, MAX, MEAN)):
                from_max = abs(column[setting, LSE_ONE] - column[setting, MAX])
                from_mean = abs(column[setting, LSE_ONE] - column[setting, MEAN])
                flags.append(from_max > from_mean)
                words.append(f"{setting} {score} {from_max:.2f} and {from_mean:.2f}")
    if not flags:
        return _untested("no setting has all three operators")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, distance from Max and from Mean: {', '.join(words)}.",
        "As it must be: on probabilities LSE with r = 1 is nearly the mean.",
        share=ScanShare.of(flags, "comparisons"),
    )


@on_networks(OPERATORS, "bag-auc-invariant-dice-not")
def _(table: NetworkTable) -> ClaimJudgement:
    auc, dice = _ranges(table, "auc"), _ranges(table, "dice")
    if not auc or not dice:
        return _untested("AUC or DICE of several operators are missing")
    flags = [value <= INVARIANT for value in auc.values()]
    flags += [value > INVARIANT for value in dice.values()]
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, ranges over operators: AUC {values_text(auc)}; DICE {values_text(dice)}.",
        share=ScanShare.of(flags, "ranges"),
    )


def _ranges(table: NetworkTable, name: str) -> dict[str, float]:
    """Return the range over operators of every setting that has two operators or more."""
    ranges = {}
    for setting in table.settings:
        values = list(table.column(name, setting).values())
        if len(values) > 1:
            ranges[setting] = max(values) - min(values)
    return ranges


@on_networks(OPERATORS, "no-relation-of-dice-and-stability")
def _(table: NetworkTable) -> ClaimJudgement:
    values = {}
    for setting in table.settings:
        for name, score in SCORES:
            value = _across(table, name, "dice", setting)
            if not np.isnan(value):
                values[f"{setting} {score}"] = value
    if not values:
        return _untested("fewer than three operators have DICE")
    flags = [abs(value) <= NONE for value in values.values()]
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, Pearson's correlation with DICE over operators: {values_text(values)}.",
        "Five rows each: a correlation of five rows means little.",
        share=ScanShare.of(flags, "correlations"),
    )


@on_networks(ALWAYS, "same-auc-varying-stability")
def _(table: NetworkTable) -> ClaimJudgement:
    auc, apj = _ranges(table, "auc"), _ranges(table, "apj")
    flags, words = [], []
    for setting in table.settings:
        if setting in auc and setting in apj:
            flags.append(apj[setting] > 2 * auc[setting])
            words.append(f"{setting} AUC {auc[setting]:.2f}, APJ {apj[setting]:.2f}")
    if not flags:
        return _untested("no setting has several operators with an AUC")
    return ClaimJudgement(
        joint_verdict(flags),
        f"{table.text}, ranges over operators: {'; '.join(words)}.",
        share=_by_setting(flags),
    )


@ALWAYS.judge("spearman-above-apj")
def _(run: StabilityRun) -> ClaimJudgement:
    table = run.networks
    rows = [key for key in table.column("apj") if key in table.column("spearman")]
    if not rows:
        return _untested(f"no row of {run.cells_text} has both scores")
    words = []
    for key in rows:
        network = table.rows[key]
        if network.spearman <= network.apj:
            words.append(f"{', '.join(key)} {network.spearman:.2f} against {network.apj:.2f}")
    bags = total = 0
    for cell in run.cells.values():
        apj = cell.per_bag("APJ")
        total += len(apj)
        bags += int((cell.per_bag("Spearman") <= apj).sum())
    examples = f" ({'; '.join(words)})" if words else ""
    summary = TABLE_VI[XRAY]
    names = [name for name, (apj, rank, _) in DESCRIBED_BAGS.items() if rank <= apj]
    note = ""
    if words or bags:
        note = (
            "Where models agree on what they call and on nothing else, the ranks of the "
            "background are noise, and Spearman is the lower one."
        )
    return ClaimJudgement(
        not words and not bags,
        f"{table.text} it is lower in {len(words)} of {len(rows)} rows{examples}, and on {bags} of "
        f"{total} bags. The paper's own table VI, X-Ray: {summary.scores[1][0]:.2f} against "
        f"{summary.scores[0][0]:.2f}; and bags that its text describes: {', '.join(names)}.",
        note,
        share=ScanShare(len(rows) - len(words), len(rows), "rows"),
    )


@CLAIMS.judge("apj-minimum-vanishes")
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


@CLAIMS.judge("derivatives")
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
    always_rises = []
    for effect in effects:
        always_rises += [effect.falls == 0, effect.stays == 0]
    return ClaimJudgement(
        joint_verdict([off < 1e-6, *always_rises]),
        f"On {len(tables)} tables without an empty cell the formula agrees with numerical "
        f"derivatives within {off:.0e}. With one instance more that both call, APJ rises in "
        f"{effects[0].rises} of {effects[0].n} tables and stays in "
        f"{effects[0].stays}; AJ alike.",
        "Never negative, but 0 where nothing is disputed, or where one model calls everything.",
    )


@CLAIMS.judge("start-is-zero")
def _(run: StabilityRun) -> ClaimJudgement:
    one = agreement_scores(*[START] * 4)
    return ClaimJudgement(
        one["APJ"] == 0,
        f"APJ {one['APJ']:.0f}, AJ {one['AJ']:.0f}, PAR {one['PAR']:.1f}: the chance level of two "
        "models that call half of all instances.",
    )


@CLAIMS.judge("green-line-falls")
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


@CLAIMS.judge("dotted-lines-differ")
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


@CLAIMS.judge("less-agreement-scores-higher")
def _(run: StabilityRun) -> ClaimJudgement:
    same = all(last_step(line) == counts for line, counts in LAST_STEPS.items())
    green, black = (agreement_scores(*LAST_STEPS[line]) for line in ("green", "black dotted"))
    return ClaimJudgement(
        bool(same and black["APJ"] > green["APJ"] and black["PAR"] < green["PAR"]),
        f"The tables are those printed: PAR {black['PAR']:.3f} (black) and {green['PAR']:.3f} "
        f"(green), APJ {black['APJ']:.4f} and {green['APJ']:.4f}; total agreement "
        f"{black['TAR']:.2f} and {green['TAR']:.2f}.",
    )
