# SPDX-License-Identifier: Apache-2.0
"""Claims about trained networks, data sets and pooling operators.

They are judged by the numbers that the paper prints, or by given maps; never by families that were
made to be like them.
"""

from __future__ import annotations

import numpy as np

from calipers.studies.judging import Claims, Judgement, share, told
from calipers.studies.stability.found import Found, Key, listed, related
from calipers.studies.stability.printed import (
    BAGS_TOLD,
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

BAG_LEVEL, OPERATORS, ALWAYS = Claims[Found](), Claims[Found](), Claims[Found]()
DECENT = 0.8  # AUC
HIGH = 0.7  # a stability score from here on is called high
LINEAR = 0.5  # a correlation from here on is called linear
NONE = 0.3  # a correlation up to here is called none
INVARIANT = 0.05  # a range up to here is called invariant
SIMILAR = 0.05  # scores of two operators within this are similar


def _missing(found: Found, *operators: str) -> Judgement | None:
    """Return that operators are not there in any data set; None if they are."""
    known = {operator for _, operator in found.networks}
    left = [name for name in operators if name not in known]
    if not left:
        return None
    return Judgement(
        None, f"Not tested: the given maps have no operator {' and '.join(left)}.", tested=False
    )


@BAG_LEVEL.says(
    "good-bags-without-stability",
    "Bag AUC is above 0.8 in all data sets, but stability is not high.",
    "section V-D, figure 8",
)
def _(found: Found) -> Judgement:
    auc, apj, rank = (found.column(name) for name in ("auc", "apj", "spearman"))
    if not auc or not apj or not rank:
        return Judgement(
            None,
            "Not tested: the given maps have no labels of two kinds, or no scores.",
            tested=False,
        )
    high = sum(value >= HIGH for value in rank.values())
    flags = [min(auc.values()) > DECENT, max(apj.values()) < HIGH, high == 0]
    families = {
        name: found.families[name]["APJ"].value
        for name in ("stable-good", "stable-wrong", "unstable")
    }
    area = found.families["unstable"].localized.mean("AUC")
    return Judgement(
        share(flags),
        f"{found.told}: AUC from {min(auc.values()):.2f} to {max(auc.values()):.2f}; APJ at most "
        f"{max(apj.values()):.2f}; Spearman is {HIGH:g} or more in {high} of {len(rank)} rows (highest "
        f"{max(rank.values()):.2f}).",
        f"AUC cannot tell: three families with the same bag scores (AUC {area:.2f}) have APJ {listed(families)}.",
    )


@BAG_LEVEL.says(
    "stability-linear-in-auc",
    "Stability increases linearly with bag performance.",
    "sections V-D and VI-A, figure 8",
)
def _(found: Found) -> Judgement:
    values, within = {}, {}
    for name, words in (("apj", "APJ"), ("spearman", "Spearman")):
        values[words] = _across(found, name, "auc")
        for data in found.data_sets:
            one = _across(found, name, "auc", data)
            if not np.isnan(one):
                within[f"{data} {words}"] = one
    if np.isnan(list(values.values())).any():
        return Judgement(None, "Not tested: fewer than three networks have an AUC.", tested=False)
    return Judgement(
        share([value >= LINEAR for value in values.values()]),
        f"{found.told}, Pearson's correlation with AUC over {len(found.column('auc'))} rows: {listed(values)}. Within "
        f"data sets: {listed(within) if within else 'too few rows'}.",
        "Rows of one data set are not independent. Where AUC is the same throughout there is no correlation.",
    )


def _across(found: Found, one: str, other: str, data: str | None = None) -> float:
    """Return Pearson's correlation of two columns over networks; NaN for fewer than three."""
    first, second = found.column(one, data), found.column(other, data)
    keys = [key for key in first if key in second]
    if len(keys) < 3:
        return float("nan")
    return related(np.array([first[key] for key in keys]), np.array([second[key] for key in keys]))


@OPERATORS.says(
    "most-stable-operators",
    "The most stable operator is LSE with r = 0.1 on X-Ray, LSE with r = 1 on MURA, and NOR on Pascal VOC.",
    "section V-E, table VII",
)
def _(found: Found) -> Judgement:
    flags, words = [], []
    for data, operator in ((XRAY, LSE_SMALL), (MURA, LSE_ONE), (PASCAL, NOR)):
        if any((data, operator) not in found.column(name) for name in ("apj", "spearman")):
            return Judgement(
                None, f"Not tested: the given maps have no {data}, {operator}.", tested=False
            )
        for name, said in (("apj", "APJ"), ("spearman", "Spearman")):
            column = found.column(name, data)
            best = max(column.values())
            flags.append(column[data, operator] == best)
            words.append(f"{data} by {said}: {_names(column, best)} ({best:.2f})")
    return Judgement(
        share(flags),
        f"{found.told}, the highest: {'; '.join(words)}.",
        "Standard deviations over bags are 0.1 to 0.3, so many of these orders are within noise.",
    )


def _names(column: dict[Key, float], value: float) -> str:
    return " and ".join(operator for (_, operator), one in column.items() if one == value)


@OPERATORS.says(
    "nor-stable-everywhere",
    "NOR has relatively good APJ on all data sets.",
    "sections V-E and VI-A, table VII",
)
def _(found: Found) -> Judgement:
    lack = _missing(found, NOR)
    if lack is not None:
        return lack
    ranks = {}
    for data in found.data_sets:
        column = found.column("apj", data)
        if (data, NOR) in column:
            ranks[data] = 1 + sum(value > column[data, NOR] for value in column.values())
    words = ", ".join(f"{data} {rank}" for data, rank in ranks.items())
    return Judgement(
        share([rank <= 2 for rank in ranks.values()]), f"{found.told}, its rank by APJ: {words}."
    )


@OPERATORS.says(
    "max-lowest-spearman",
    "Max has the lowest Spearman correlation on all data sets.",
    "sections V-E and VI-A, table VII",
)
def _(found: Found) -> Judgement:
    lack = _missing(found, MAX)
    if lack is not None:
        return lack
    flags, words = [], []
    for data in found.data_sets:
        column = found.column("spearman", data)
        if (data, MAX) in column:
            others = min((value for key, value in column.items() if key[1] != MAX), default=np.nan)
            flags.append(column[data, MAX] < others)
            words.append(f"{data} {column[data, MAX]:.2f} (lowest other {told(others)})")
    return Judgement(share(flags), f"{found.told}: {', '.join(words)}.")


@OPERATORS.says(
    "mean-like-lse-small",
    "Mean and LSE with r = 0.1 give similar results.",
    "section V-E, table VII",
)
def _(found: Found) -> Judgement:
    return _missing(found, MEAN, LSE_SMALL) or _compared(found, MEAN, LSE_SMALL, alike=True)


@OPERATORS.says(
    "lse-one-unlike-max",
    "LSE with r = 1 differs greatly from Max, and behaves more like Mean and LSE with r = 0.1.",
    "sections V-E and VI-A, table VII",
)
def _(found: Found) -> Judgement:
    lack = _missing(found, LSE_ONE, MAX, MEAN)
    if lack is not None:
        return lack
    flags, words = [], []
    for data in found.data_sets:
        for name, said in (("apj", "APJ"), ("spearman", "Spearman")):
            column = found.column(name, data)
            if all((data, operator) in column for operator in (LSE_ONE, MAX, MEAN)):
                gaps = [
                    abs(column[data, LSE_ONE] - column[data, operator]) for operator in (MAX, MEAN)
                ]
                flags.append(gaps[0] > gaps[1])
                words.append(f"{data} {said} {gaps[0]:.2f} and {gaps[1]:.2f}")
    if not flags:
        return Judgement(None, "Not tested: no data set has all three operators.", tested=False)
    return Judgement(
        share(flags),
        f"{found.told}, distance from Max and from Mean: {', '.join(words)}.",
        "As it must be: on probabilities LSE with r = 1 is nearly the mean.",
    )


def _compared(found: Found, one: str, other: str, *, alike: bool) -> Judgement:
    """Return whether two operators have similar scores in all data sets."""
    flags, words = [], []
    for data in found.data_sets:
        for name, said in (("apj", "APJ"), ("spearman", "Spearman")):
            column = found.column(name, data)
            if (data, one) in column and (data, other) in column:
                gap = abs(column[data, one] - column[data, other])
                flags.append((gap <= SIMILAR) == alike)
                words.append(f"{data} {said} {gap:.2f}")
    if not flags:
        return Judgement(None, f"Not tested: no data set has both {one} and {other}.", tested=False)
    return Judgement(share(flags), f"{found.told}, they differ by: {', '.join(words)}.")


@OPERATORS.says(
    "bag-auc-invariant-dice-not",
    "Bag performance is somewhat invariant to the operator; instance performance varies with it.",
    "section V-E, table VII",
)
def _(found: Found) -> Judgement:
    auc, dice = (
        {data: _range(found, name, data) for data in found.data_sets} for name in ("auc", "dice")
    )
    auc, dice = ({k: v for k, v in one.items() if not np.isnan(v)} for one in (auc, dice))
    if not auc or not dice:
        return Judgement(
            None, "Not tested: AUC or DICE of several operators are missing.", tested=False
        )
    flags = [value <= INVARIANT for value in auc.values()] + [
        value > INVARIANT for value in dice.values()
    ]
    return Judgement(
        share(flags),
        f"{found.told}, ranges over operators: AUC {listed(auc)}; DICE {listed(dice)}.",
    )


def _range(found: Found, name: str, data: str) -> float:
    values = list(found.column(name, data).values())
    return max(values) - min(values) if len(values) > 1 else float("nan")


@OPERATORS.says(
    "no-relation-of-dice-and-stability",
    "Over operators there is no relationship between instance performance and stability.",
    "section V-E, table VII",
)
def _(found: Found) -> Judgement:
    values = {}
    for data in found.data_sets:
        for name, said in (("apj", "APJ"), ("spearman", "Spearman")):
            value = _across(found, name, "dice", data)
            if not np.isnan(value):
                values[f"{data} {said}"] = value
    if not values:
        return Judgement(None, "Not tested: fewer than three operators have DICE.", tested=False)
    return Judgement(
        share([abs(value) <= NONE for value in values.values()]),
        f"{found.told}, Pearson's correlation with DICE over operators: {listed(values)}.",
        ""
        if found.given
        else "Five rows each: the printed numbers rather suggest a relationship, of different signs.",
    )


@ALWAYS.says(
    "same-auc-varying-stability",
    "The same bag performance can come with varying stability, according to the operator.",
    "section VI-A, table VII",
)
def _(found: Found) -> Judgement:
    ranges = {
        data: (_range(found, "auc", data), _range(found, "apj", data)) for data in found.data_sets
    }
    known = {data: pair for data, pair in ranges.items() if not np.isnan(pair).any()}
    if not known:
        return Judgement(
            None, "Not tested: no data set has several operators with an AUC.", tested=False
        )
    words = [f"{data} AUC {auc:.2f}, APJ {apj:.2f}" for data, (auc, apj) in known.items()]
    return Judgement(
        share([apj > 2 * auc for auc, apj in known.values()]),
        f"{found.told}, ranges over operators: {'; '.join(words)}.",
    )


@ALWAYS.says(
    "spearman-above-apj",
    "Spearman's correlation is always higher than APJ.",
    "section VI-A",
)
def _(found: Found) -> Judgement:
    both = [key for key in found.column("apj") if key in found.column("spearman")]
    if not both:
        return Judgement(None, f"Not tested: no row of {found.made} has both scores.", tested=False)
    below = [key for key in both if found.networks[key].spearman <= found.networks[key].apj]
    total = sum(len(cell.per_bag("APJ")) for cell in found.cells.values())
    bags = sum(
        int((cell.per_bag("Spearman") <= cell.per_bag("APJ")).sum())
        for cell in found.cells.values()
    )
    words = "; ".join(
        f"{', '.join(key)} {found.networks[key].spearman:.2f} against {found.networks[key].apj:.2f}"
        for key in below
    )
    said = f"{found.told} it is lower in {len(below)} of {len(both)} rows{f' ({words})' if below else ''}."
    if not found.given:
        six = TABLE_VI[XRAY]
        told_bags = [name for name, (apj, rank, _) in BAGS_TOLD.items() if rank <= apj]
        said += f" Table VI, X-Ray: {six.scores[1][0]:.2f} against {six.scores[0][0]:.2f}."
        said += f" Bags told of: {', '.join(told_bags)}."
    note = (
        "Where models agree on what they call and on nothing else, ranks of the background are noise, and Spearman is "
        "the lower one."
    )
    return Judgement(
        not below and not bags,
        f"{said} In {found.made} it is lower on {bags} of {total} bags.",
        note if below or bags else "",
    )
