# SPDX-License-Identifier: Apache-2.0
"""Claims about place and shape: figures 1, 2, 3, 8 and 9."""

from __future__ import annotations

import numpy as np

from calipers.studies.judging import Claims, Judgement, share
from calipers.studies.rodeo.geometry import ap_at, iou_at, loc_at, map_at
from calipers.studies.rodeo.judging import (
    INVARIANT,
    Found,
    falls,
    half_lost,
    listed,
    said,
    spread,
    steepest,
)
from calipers.studies.rodeo.sweeps import ACCURACIES, MEAN_AP, PRECISIONS

OPENING, NOISE, APPENDIX = Claims[Found](), Claims[Found](), Claims[Found]()
CIRCLE = 0.5  # sides: where directions are compared
LENGTH = 0.4  # sides: where bias and noise are compared
CLEAR = 0.05  # a difference that counts


@OPENING.says(
    "wrong-class-is-worthless",
    "AP gives nothing for a right box with a wrong class; RoDeO values the detection all the same.",
    "section 1, figure 1; section 6",
)
def _(found: Found) -> Judgement:
    values = found.examples["Right box, wrong class"].values
    parts = values["RoDeO/loc"] > 0.99 and values["RoDeO/shape"] > 0.99
    credited = values["RoDeO"] > 0
    swapped, total, loc = (
        found.curve("figure-11", name)[1][-1] for name in ("AP@0.1", "RoDeO", "RoDeO/loc")
    )
    return Judgement(
        share([values["AP@0.5"] == 0 and parts, credited]),
        f"On one such box: AP@0.5 {said(values['AP@0.5'])}, RoDeO/loc {said(values['RoDeO/loc'])}, RoDeO/shape "
        f"{said(values['RoDeO/shape'])}, but RoDeO/cls {said(values['RoDeO/cls'])} and RoDeO {said(values['RoDeO'])}. "
        f"On all boxes with all classes permuted: AP@0.1 {said(swapped)}, RoDeO/loc {said(loc)}, RoDeO {said(total)}.",
        "The sub-scores do, the total does not: a harmonic mean with a zero in it is zero. Read the sub-scores.",
    )


@OPENING.says(
    "overlap-ends-quickly",
    "IoU, AP@50 and mAP fall to zero at small offsets; RoDeO/loc degrades more smoothly.",
    "section 3, figure 2",
)
def _(found: Found) -> Judgement:
    at, zero = np.linspace(0.0, 2.0, 2001), np.zeros(2001)
    curves = {"AP@0.5": ap_at(at, zero, 0.5), "mAP": map_at(at, zero), "IoU": iou_at(at, zero)}
    last = {name: float(at[np.flatnonzero(values > 0)[-1]]) for name, values in curves.items()}
    loc = loc_at(np.array([1.0, 2.0]), np.zeros(2))
    return Judgement(
        bool(max(last.values()) <= 1.0 and loc[0] == 0.5),
        f"Along an axis nothing is left beyond {last['AP@0.5']:.2f} sides for AP@0.5, {last['mAP']:.2f} for mAP and "
        f"{last['IoU']:.2f} for IoU; RoDeO/loc is {said(loc[0])} at 1 side and {said(loc[1])} at 2.",
        "Exact, for boxes of equal size.",
    )


@OPENING.says(
    "overlap-prefers-axes",
    "IoU prefers offsets along an axis; RoDeO/loc is the same in all directions.",
    "section 3, figure 2",
)
def _(found: Found) -> Judgement:
    angle = np.linspace(0.0, np.pi / 4, 91)
    dx, dy = CIRCLE * np.cos(angle), CIRCLE * np.sin(angle)
    iou, loc = iou_at(dx, dy), loc_at(dx, dy)
    return Judgement(
        bool(iou[0] > iou[-1] and np.ptp(loc) < 1e-12),
        f"At a distance of {CIRCLE:g} sides, IoU is {said(iou[0])} along an axis and {said(iou[-1])} on the diagonal; "
        f"RoDeO/loc is {said(loc[0])} everywhere.",
        "The same in units of the reference's own width and height: for a long box, not in pixels.",
    )


@OPENING.says(
    "loc-slow-fast-slow",
    "RoDeO/loc degrades slowly at small distances, then fast, and slowly again at large ones.",
    "section 3",
)
def _(found: Found) -> Judgement:
    at = np.linspace(0.0, 3.0, 3001)
    slope = -np.gradient(loc_at(at, np.zeros_like(at)), at)
    peak = float(at[slope.argmax()])
    return Judgement(
        bool(0.2 < peak < 2.0 and slope[0] < 0.01 and slope[-1] < 0.1 * slope.max()),
        f"The slope is 0 at the centre, greatest ({said(float(slope.max()))} per side) at {peak:.2f} sides, and "
        f"{said(float(slope[-1]))} at 3 sides.",
    )


@NOISE.says(
    "ap-falls-with-position",
    "AP declines rapidly with position errors.",
    "section 5, figure 3",
)
def _(found: Found) -> Judgement:
    lost = [half_lost(*found.curve("figure-3", metric)) for metric in (*PRECISIONS, "RoDeO")]
    return Judgement(
        share([value < 1.0 for value in lost[:3]]),
        f"Half of the score is lost at a position noise of (sides): {listed(PRECISIONS, lost)}; RoDeO {said(lost[3])}.",
    )


@NOISE.says(
    "ap-survives-size-errors",
    "AP stays high under severe size corruption.",
    "section 5, figure 3",
)
def _(found: Found) -> Judgement:
    values = [float(found.curve("figure-3", metric, along=1)[1][-1]) for metric in PRECISIONS]
    return Judgement(
        share([value >= 0.5 for value in values]),
        f"At the strongest shape noise (log sides, σ = 1) and no position noise: {listed(PRECISIONS, values)}.",
        "True of low thresholds only. At IoU 0.5 a shape noise of 1 destroys AP as position noise does.",
    )


@NOISE.says(
    "accuracy-has-a-high-base",
    "Accuracy behaves like AP, but keeps a high base value under all corruptions of place and shape.",
    "section 5, figure 3",
)
def _(found: Found) -> Judgement:
    least = [float(found.grid("figure-3", metric).min()) for metric in ACCURACIES]
    return Judgement(
        bool(min(least) >= 0.7),
        f"The lowest values on the whole grid: {listed(ACCURACIES, least)}.",
        "True negatives hold it up: most images lack most classes, and the oracle never predicts an absent one.",
    )


@NOISE.says(
    "rodeo-declines-gracefully",
    "RoDeO declines more gracefully than AP, along both axes.",
    "section 5, figure 3",
)
def _(found: Found) -> Judgement:
    names = (*PRECISIONS, "RoDeO")
    falls_of = [
        [steepest(found.curve("figure-3", name, along)[1]) for name in names] for along in (0, 1)
    ]
    smooth = [row[3] < min(row[:3]) for row in falls_of]
    return Judgement(
        share(smooth),
        f"The largest fall from one grid point to the next: along position {listed(names, falls_of[0])}; along shape "
        f"{listed(names, falls_of[1])}.",
    )


@NOISE.says(
    "rodeo-separates-place-and-shape",
    "The sub-scores of RoDeO tell position and shape errors apart.",
    "section 5, figure 3",
)
def _(found: Found) -> Judgement:
    loc = spread(found.grid("figure-3", "RoDeO/loc"), axis=1)
    shape = spread(found.grid("figure-3", "RoDeO/shape"), axis=0)
    cls = spread(found.grid("figure-3", "RoDeO/cls"))
    return Judgement(
        share([loc < INVARIANT, shape < INVARIANT, cls < INVARIANT]),
        f"RoDeO/loc moves by at most {said(loc)} with shape noise, RoDeO/shape by at most {said(shape)} with position "
        f"noise, RoDeO/cls by {said(cls)} in all.",
        "Not exactly zero in images with several boxes: there a corruption can change which boxes are paired.",
    )


@APPENDIX.says(
    "sharp-under-bias",
    "AP and accuracy decline sharply with small localization errors, most of all under a constant offset (bias).",
    "appendix D, figure 8",
)
def _(found: Found) -> Judgement:
    lost = [
        [half_lost(*found.curve("figure-8", name, along)) for name in PRECISIONS]
        for along in (0, 1)
    ]
    bias = found.near("figure-8", LENGTH)[1]
    under_bias, under_noise = (
        float(np.interp(at, *found.curve("figure-8", MEAN_AP, along)))
        for along, at in ((0, bias), (1, bias / 2**0.5))
    )
    cliffs = [steepest(found.curve("figure-8", name, 0)[1]) for name in PRECISIONS]
    return Judgement(
        share([max(*lost[0], *lost[1]) < 1.0, under_bias < under_noise - CLEAR]),
        f"Half of AP is lost at a bias of (sides) {listed(PRECISIONS, lost[0])} and at a noise of "
        f"{listed(PRECISIONS, lost[1])}. Offsets of {bias:g} sides on average (root mean square) leave a mAP of "
        f"{said(under_bias)} as bias and of {said(under_noise)} as noise.",
        "A bias is not worse than noise of the same length, but all boxes fail at once: up to the offset at which the "
        f"threshold is missed it costs nothing, beyond it everything (largest fall between grid points: "
        f"{listed(PRECISIONS, cliffs)}). Accuracy does the same on its shorter scale.",
    )


@APPENDIX.says(
    "rodeo-smooth-under-bias-and-noise",
    "RoDeO declines smoothly with increasing bias and with increasing noise of the position.",
    "appendix D, figure 8",
)
def _(found: Found) -> Judgement:
    grid = found.grid("figure-8", "RoDeO")
    single = [falls(found.curve("figure-8", "RoDeO", along)[1]) for along in (0, 1)]
    everywhere = all(falls(row) for row in grid) and all(falls(column) for column in grid.T)
    lowest, best = float(grid[-1, 0]), float(grid[-1].max())
    noise = float(found.sweeps["figure-8"].axes[1].values[int(grid[-1].argmax())])
    last = float(found.sweeps["figure-8"].axes[0].values[-1])
    return Judgement(
        share([*single, everywhere]),
        f"Alone, both take it down in steps of at most {said(steepest(grid[:, 0]))} and {said(steepest(grid[0]))}. "
        f"Together they do not: at a bias of {last:g} sides RoDeO is {said(lowest)} without noise and {said(best)} "
        f"with noise of {noise:g} sides.",
        "Noise on top of a large bias brings some boxes back. That is right of the metric; the claim is too general.",
    )


@APPENDIX.says(
    "shape-and-cls-ignore-position",
    "RoDeO/shape and RoDeO/cls do not depend on position offsets.",
    "appendix D, figure 8",
)
def _(found: Found) -> Judgement:
    ranges = [spread(found.grid("figure-8", name)) for name in ("RoDeO/shape", "RoDeO/cls")]
    return Judgement(
        share([value < INVARIANT for value in ranges]),
        f"Over the whole grid RoDeO/shape moves by {said(ranges[0])}, RoDeO/cls by {said(ranges[1])}.",
    )


@APPENDIX.says(
    "accuracy-ignores-shape",
    "Accuracy is mostly invariant to all shape corruptions.",
    "appendix D, figure 9",
)
def _(found: Found) -> Judgement:
    floor = [float(found.grid("figure-8", name).min()) for name in ACCURACIES]
    least = [float(found.grid("figure-9", name).min()) for name in ACCURACIES]
    used = [(1.0 - low) / (1.0 - base) for low, base in zip(least, floor)]
    return Judgement(
        share([part < 0.33 for part in used]),
        f"The lowest values on the grid: {listed(ACCURACIES, least)}. Of what accuracy could lose at all (down to "
        f"{said(min(floor))}, every box wrong) that is "
        + ", ".join(f"{part:.0%}" for part in used)
        + ".",
        "It looks invariant because its scale is short. At IoU 0.5 most of that scale is used.",
    )


@APPENDIX.says(
    "ap10-ignores-aspect",
    "AP@10 is mostly invariant to aspect corruptions.",
    "appendix D, figure 9",
)
def _(found: Found) -> Judgement:
    moved = [spread(found.grid("figure-9", name), axis=1) for name in PRECISIONS]
    return Judgement(
        bool(moved[0] < 0.1),
        f"At any size noise, aspect noise of up to 1 moves AP by at most {listed(PRECISIONS, moved)}.",
    )


@APPENDIX.says(
    "rodeo-declines-with-size-and-aspect",
    "RoDeO declines smoothly with size and with aspect corruptions.",
    "appendix D, figure 9",
)
def _(found: Found) -> Judgement:
    curves = [found.curve("figure-9", "RoDeO", along)[1] for along in (0, 1)]
    return Judgement(
        share([falls(values) for values in curves]),
        f"From 1 to {said(float(curves[0][-1]))} with size noise and to {said(float(curves[1][-1]))} with aspect "
        f"noise, in steps of at most {said(steepest(curves[0]))} and {said(steepest(curves[1]))}.",
    )


@APPENDIX.says(
    "loc-and-cls-ignore-shape",
    "RoDeO/loc and RoDeO/cls do not depend on size and aspect.",
    "appendix D, figure 9",
)
def _(found: Found) -> Judgement:
    ranges = [spread(found.grid("figure-9", name)) for name in ("RoDeO/loc", "RoDeO/cls")]
    return Judgement(
        share([value < INVARIANT for value in ranges]),
        f"Over the whole grid RoDeO/loc moves by {said(ranges[0])}, RoDeO/cls by {said(ranges[1])}.",
    )
