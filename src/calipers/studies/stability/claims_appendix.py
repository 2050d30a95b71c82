# SPDX-License-Identifier: Apache-2.0
"""Claims of the appendices: derivatives, large bags, and the lines of figure 9."""

from __future__ import annotations

import numpy as np

from calipers.statistics.contingency import agreement_scores
from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.stability.counting import (
    ADDED,
    ADDED_NEGATIVE,
    START,
    last_step,
    lines,
    score_values,
)
from calipers.studies.stability.found import StabilityRun
from calipers.studies.stability.printed import LAST_STEPS

CLAIMS = Claims[StabilityRun]()
STEP = 1e-4  # of the numerical derivative
LARGE = 10_000  # instances


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
