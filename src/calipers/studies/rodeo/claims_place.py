# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of RoDeO about the position and the shape of boxes: figures 1, 2, 3, 8 and 9.

Each function judges one statement by a `RodeoRun`; `calipers.studies.rodeo.study` joins the claims
with those of `claims`, in the order of the paper.
"""

from __future__ import annotations

import numpy as np

from calipers.show.words import percent_text
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict
from calipers.studies.rodeo.claims import (
    INVARIANT,
    RULES,
    RodeoRun,
    both_invariant,
    falls,
    half_lost,
    spread,
    steepest,
    value_text,
    values_text,
)
from calipers.studies.rodeo.data import EXACT, ap_at, iou_at, loc_at, map_at
from calipers.studies.rodeo.experiments import ACCURACIES, MEAN_AP, PRECISIONS

OPENING, NOISE, APPENDIX = (
    Claims[RodeoRun](rules=RULES),
    Claims[RodeoRun](rules=RULES),
    Claims[RodeoRun](rules=RULES),
)
CIRCLE = 0.5  # sides: where directions are compared
LENGTH = 0.4  # sides: where bias and noise are compared
CLEAR = 0.05  # a difference that counts


@OPENING.judge("wrong-class-is-worthless")
def _(run: RodeoRun) -> ClaimJudgement:
    values = run.examples[EXACT].values
    parts = values["RoDeO/loc"] > 0.99 and values["RoDeO/shape"] > 0.99
    has_credit = values["RoDeO"] > 0
    names = ("AP@0.1", "RoDeO", "RoDeO/loc")
    permuted_ap, total, loc = (run.curve("figure-11", name)[1][-1] for name in names)
    return ClaimJudgement(
        joint_verdict([values["AP@0.5"] == 0 and parts, has_credit]),
        f"On one such box: AP@0.5 {value_text(values['AP@0.5'])}, RoDeO/loc "
        f"{value_text(values['RoDeO/loc'])}, RoDeO/shape {value_text(values['RoDeO/shape'])}, but "
        f"RoDeO/cls {value_text(values['RoDeO/cls'])} and RoDeO {value_text(values['RoDeO'])}. On "
        f"all boxes with all classes permuted: AP@0.1 {value_text(permuted_ap)}, RoDeO/loc "
        f"{value_text(loc)}, RoDeO {value_text(total)}.",
        "The sub-scores do, the total does not: a harmonic mean with a zero in it is zero. Read "
        "the sub-scores.",
    )


@OPENING.judge("overlap-ends-quickly")
def _(run: RodeoRun) -> ClaimJudgement:
    # Offsets along one axis, in sides of the box.
    at, zero = np.linspace(0.0, 2.0, 2001), np.zeros(2001)
    curves = {"AP@0.5": ap_at(at, zero, 0.5), "mAP": map_at(at, zero), "IoU": iou_at(at, zero)}
    last = {name: float(at[np.flatnonzero(values > 0)[-1]]) for name, values in curves.items()}
    loc = loc_at(np.array([1.0, 2.0]), np.zeros(2))
    return ClaimJudgement(
        bool(max(last.values()) <= 1.0 and loc[0] == 0.5),
        f"Along an axis nothing remains beyond {last['AP@0.5']:.2f} sides for AP@0.5, "
        f"{last['mAP']:.2f} for mAP and {last['IoU']:.2f} for IoU; RoDeO/loc is "
        f"{value_text(loc[0])} at 1 side and {value_text(loc[1])} at 2.",
        "Exact, for boxes of equal size.",
    )


@OPENING.judge("overlap-prefers-axes")
def _(run: RodeoRun) -> ClaimJudgement:
    # By symmetry an eighth of the circle suffices.
    angle = np.linspace(0.0, np.pi / 4, 91)
    dx, dy = CIRCLE * np.cos(angle), CIRCLE * np.sin(angle)
    iou, loc = iou_at(dx, dy), loc_at(dx, dy)
    return ClaimJudgement(
        bool(iou[0] > iou[-1] and np.ptp(loc) < 1e-12),
        f"At a distance of {CIRCLE:g} sides, IoU is {value_text(iou[0])} along an axis and "
        f"{value_text(iou[-1])} on the diagonal; RoDeO/loc is {value_text(loc[0])} everywhere.",
        "The same in units of the reference's own width and height: for a long box, not in pixels.",
    )


@OPENING.judge("loc-slow-fast-slow")
def _(run: RodeoRun) -> ClaimJudgement:
    at = np.linspace(0.0, 3.0, 3001)
    slope = -np.gradient(loc_at(at, np.zeros_like(at)), at)
    peak = float(at[slope.argmax()])
    return ClaimJudgement(
        bool(0.2 < peak < 2.0 and slope[0] < 0.01 and slope[-1] < 0.1 * slope.max()),
        f"The slope is 0 at the centre, greatest ({value_text(float(slope.max()))} per side) at "
        f"{peak:.2f} sides, and {value_text(float(slope[-1]))} at 3 sides.",
    )


@NOISE.judge("ap-falls-with-position")
def _(run: RodeoRun) -> ClaimJudgement:
    lost = [half_lost(*run.curve("figure-3", metric)) for metric in (*PRECISIONS, "RoDeO")]
    return ClaimJudgement(
        joint_verdict([value < 1.0 for value in lost[:3]]),
        "Half of the score is lost at a position noise of (sides): "
        f"{values_text(PRECISIONS, lost)}; RoDeO {value_text(lost[3])}.",
    )


@NOISE.judge("ap-survives-size-errors")
def _(run: RodeoRun) -> ClaimJudgement:
    values = [float(run.curve("figure-3", metric, along=1)[1][-1]) for metric in PRECISIONS]
    return ClaimJudgement(
        joint_verdict([value >= 0.5 for value in values]),
        "At the strongest shape noise (log sides, σ = 1) and no position noise: "
        f"{values_text(PRECISIONS, values)}.",
        "True at low thresholds only. At IoU 0.5 a shape noise of 1 destroys AP as position noise "
        "does.",
    )


@NOISE.judge("accuracy-has-a-high-base")
def _(run: RodeoRun) -> ClaimJudgement:
    least = [float(run.grid("figure-3", metric).min()) for metric in ACCURACIES]
    return ClaimJudgement(
        bool(min(least) >= 0.7),
        f"The lowest values on the whole grid: {values_text(ACCURACIES, least)}.",
        "True negatives keep it high: most images lack most classes, and the oracle never "
        "predicts an absent one.",
    )


@NOISE.judge("rodeo-declines-gracefully")
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*PRECISIONS, "RoDeO")
    steps = []
    for along in (0, 1):
        steps.append([steepest(run.curve("figure-3", name, along)[1]) for name in names])
    smooth = [row[3] < min(row[:3]) for row in steps]
    return ClaimJudgement(
        joint_verdict(smooth),
        "The largest fall from one grid point to the next: along position "
        f"{values_text(names, steps[0])}; along shape {values_text(names, steps[1])}.",
    )


@NOISE.judge("rodeo-separates-place-and-shape")
def _(run: RodeoRun) -> ClaimJudgement:
    loc = spread(run.grid("figure-3", "RoDeO/loc"), axis=1)
    shape = spread(run.grid("figure-3", "RoDeO/shape"), axis=0)
    cls = spread(run.grid("figure-3", "RoDeO/cls"))
    return ClaimJudgement(
        joint_verdict([loc < INVARIANT, shape < INVARIANT, cls < INVARIANT]),
        f"RoDeO/loc moves by at most {value_text(loc)} with shape noise, RoDeO/shape by at most "
        f"{value_text(shape)} with position noise, RoDeO/cls by {value_text(cls)} in all.",
        "In images with several boxes a corruption could change which boxes are paired, and with "
        "that the other part.",
    )


@APPENDIX.judge("sharp-under-bias")
def _(run: RodeoRun) -> ClaimJudgement:
    lost = []
    for along in (0, 1):
        curves = [run.curve("figure-8", name, along) for name in PRECISIONS]
        lost.append([half_lost(*curve) for curve in curves])
    bias = run.near("figure-8", LENGTH)[1]
    # Noise acts on two axes: with sigma = bias / sqrt 2 on each, its root mean square length is the
    # length of the bias.
    under_bias = float(np.interp(bias, *run.curve("figure-8", MEAN_AP, 0)))
    under_noise = float(np.interp(bias / 2**0.5, *run.curve("figure-8", MEAN_AP, 1)))
    cliffs = [steepest(run.curve("figure-8", name, 0)[1]) for name in PRECISIONS]
    return ClaimJudgement(
        joint_verdict([max(*lost[0], *lost[1]) < 1.0, under_bias < under_noise - CLEAR]),
        f"Half of AP is lost at a bias of (sides) {values_text(PRECISIONS, lost[0])} and at a "
        f"noise of {values_text(PRECISIONS, lost[1])}. Offsets of {bias:g} sides on average (root "
        f"mean square) leave a mAP of {value_text(under_bias)} as bias and of "
        f"{value_text(under_noise)} as noise.",
        "A bias is not worse than noise of the same length, but all boxes fail at once: up to the "
        "offset at which the threshold is missed it costs nothing, beyond it everything (largest "
        f"fall between grid points: {values_text(PRECISIONS, cliffs)}). Accuracy does the same on "
        "its shorter scale.",
    )


@APPENDIX.judge("rodeo-smooth-under-bias-and-noise")
def _(run: RodeoRun) -> ClaimJudgement:
    grid = run.grid("figure-8", "RoDeO")
    single = [falls(run.curve("figure-8", "RoDeO", along)[1]) for along in (0, 1)]
    everywhere = all(falls(row) for row in grid) and all(falls(column) for column in grid.T)
    lowest, best = float(grid[-1, 0]), float(grid[-1].max())
    noise = float(run.sweeps["figure-8"].axes[1].values[int(grid[-1].argmax())])
    last = float(run.sweeps["figure-8"].axes[0].values[-1])
    return ClaimJudgement(
        joint_verdict([*single, everywhere]),
        f"Alone, both take it down in steps of at most {value_text(steepest(grid[:, 0]))} and "
        f"{value_text(steepest(grid[0]))}. Together they do not: at a bias of {last:g} sides "
        f"RoDeO is {value_text(lowest)} without noise and {value_text(best)} with noise of "
        f"{noise:g} sides.",
        "Noise on top of a large bias brings some boxes back. The metric behaves correctly; the "
        "claim is too general.",
    )


@APPENDIX.judge("shape-and-cls-ignore-position")
def _(run: RodeoRun) -> ClaimJudgement:
    return both_invariant(
        run, "figure-8", ("RoDeO/shape", "RoDeO/cls"), where="Over the whole grid "
    )


@APPENDIX.judge("accuracy-ignores-shape")
def _(run: RodeoRun) -> ClaimJudgement:
    # True negatives keep accuracy above 0. Its floor is the minimum under position errors.
    floors, lowest, shares, flags = [], [], [], []
    for name in ACCURACIES:
        floor = float(run.grid("figure-8", name).min())
        low = float(run.grid("figure-9", name).min())
        loss = (1.0 - low) / (1.0 - floor)
        floors.append(floor)
        lowest.append(low)
        shares.append(percent_text(loss))
        flags.append(loss < 0.33)
    return ClaimJudgement(
        joint_verdict(flags),
        f"The lowest values on the grid: {values_text(ACCURACIES, lowest)}. As shares of the "
        f"largest possible loss (down to {value_text(min(floors))}, every box wrong) these are "
        f"{', '.join(shares)}.",
        "It looks invariant because its range is small; at IoU 0.5 most of that range is used.",
    )


@APPENDIX.judge("ap10-ignores-aspect")
def _(run: RodeoRun) -> ClaimJudgement:
    ranges = [spread(run.grid("figure-9", name), axis=1) for name in PRECISIONS]
    return ClaimJudgement(
        bool(ranges[0] < 0.1),
        "At any size noise, aspect noise of up to 1 moves AP by at most "
        f"{values_text(PRECISIONS, ranges)}.",
    )


@APPENDIX.judge("rodeo-declines-with-size-and-aspect")
def _(run: RodeoRun) -> ClaimJudgement:
    curves = [run.curve("figure-9", "RoDeO", along)[1] for along in (0, 1)]
    return ClaimJudgement(
        joint_verdict([falls(values) for values in curves]),
        f"From 1 to {value_text(float(curves[0][-1]))} with size noise and to "
        f"{value_text(float(curves[1][-1]))} with aspect noise, in steps of at most "
        f"{value_text(steepest(curves[0]))} and {value_text(steepest(curves[1]))}.",
    )


@APPENDIX.judge("loc-and-cls-ignore-shape")
def _(run: RodeoRun) -> ClaimJudgement:
    return both_invariant(run, "figure-9", ("RoDeO/loc", "RoDeO/cls"), where="Over the whole grid ")
