# SPDX-License-Identifier: Apache-2.0
"""Claims about the design of RoDeO, and those that the printed table 1 decides: appendix C and
section 5.1.
"""

from __future__ import annotations

import numpy as np

from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.rodeo.geometry import SMALL, USUAL, shape_similarities
from calipers.studies.rodeo.judging import RodeoRun, value_text, values_text
from calipers.studies.rodeo.printed import PRINTED, harmonic, off_by_rounding
from calipers.studies.rodeo.sweeps import RODEO

TABLE, DESIGN = Claims[RodeoRun](), Claims[RodeoRun]()
PARTS = RODEO[1:]
FROM_PRINT = (
    "Judged by the numbers printed in the paper; this run does not include its trained model."
)


@TABLE.statement(
    "table-1-totals",
    "RoDeO is the harmonic mean of its three sub-scores, in every row of table 1.",
    "section 3, table 1",
)
def _(run: RodeoRun) -> ClaimJudgement:
    wrong, words = 0, []
    for name, row in PRINTED.items():
        if not off_by_rounding(row):
            wrong += 1
            words.append(f"{name} is printed as {row[3]:g} and comes to {harmonic(*row[:3]):.1f}")
    flags = [True] * (len(PRINTED) - wrong) + [False] * wrong
    return ClaimJudgement(
        joint_verdict(flags),
        f"{len(PRINTED) - wrong} of {len(PRINTED)} rows agree within rounding; {'; '.join(words)}.",
        "A misprint. " + FROM_PRINT,
    )


@TABLE.statement(
    "map-hides-what-rodeo-shows",
    "mAP scores atelectasis and pneumonia alike; RoDeO shows one to be better classified, the "
    "other better placed.",
    "section 5.1, table 1",
)
def _(run: RodeoRun) -> ClaimJudgement:
    one, other = PRINTED["Atelectasis"], PRINTED["Pneumonia"]
    return ClaimJudgement(
        joint_verdict(
            [
                abs(one[5] - other[5]) < 0.5,
                one[0] > other[0] and one[1] < other[1] and one[2] < other[2],
            ]
        ),
        f"mAP {one[5]:g} and {other[5]:g}; RoDeO/cls {one[0]:g} and {other[0]:g}, RoDeO/loc "
        f"{one[1]:g} and {other[1]:g}, RoDeO/shape {one[2]:g} and {other[2]:g} (%).",
        FROM_PRINT,
    )


@TABLE.statement(
    "accuracy-praises-pneumonia",
    "Accuracy gives pneumonia one of its highest values, although it is rarely classified "
    "correctly.",
    "section 5.1, table 1",
)
def _(run: RodeoRun) -> ClaimJudgement:
    rows = {name: row for name, row in PRINTED.items() if name != "Total"}
    by_accuracy = sorted(rows, key=lambda name: -rows[name][4])
    by_class = sorted(rows, key=lambda name: -rows[name][0])
    place, low = by_accuracy.index("Pneumonia") + 1, by_class.index("Pneumonia") + 1
    return ClaimJudgement(
        bool(place <= 3 and low == len(rows)),
        f"Pneumonia is number {place} of {len(rows)} in accuracy@0.3 ({rows['Pneumonia'][4]:g} "
        f"%), and number {low} in RoDeO/cls ({rows['Pneumonia'][0]:g} %).",
        FROM_PRINT,
    )


@TABLE.statement(
    "nodules-fail-in-shape",
    "The worst problem of nodule detection is shape, then place; classes are comparably good.",
    "section 5.1, table 1",
)
def _(run: RodeoRun) -> ClaimJudgement:
    cls, loc, shape = PRINTED["Nodule"][:3]
    return ClaimJudgement(
        bool(shape < loc < cls),
        f"RoDeO/shape {shape:g}, RoDeO/loc {loc:g}, RoDeO/cls {cls:g} (%).",
        FROM_PRINT,
    )


@DESIGN.statement(
    "hausdorff-is-linear",
    "The Hausdorff similarity of shapes decreases linearly and has no lower bound.",
    "appendix C, figure 6",
)
def _(run: RodeoRun) -> ClaimJudgement:
    # Deviation from a straight line between the ends, over size and over aspect at equal area.
    larger = np.linspace(USUAL, 1.0, 76)
    size = shape_similarities(USUAL, larger, larger)[1]
    ratio = np.linspace(1.0, 8.0, 71)
    aspect = shape_similarities(USUAL, USUAL * np.sqrt(ratio), USUAL / np.sqrt(ratio))[1]
    deviations = []
    for values in (size, aspect):
        line = np.linspace(values[0], values[-1], len(values))
        deviations.append(float(np.abs(values - line).max()))
    least = float(shape_similarities(1e-9, np.ones(1), np.ones(1))[1][0])
    return ClaimJudgement(
        joint_verdict([deviations[0] < 1e-9, deviations[1] < 1e-9]),
        f"Over the side it is a straight line (off by {value_text(deviations[0])}); over the "
        f"aspect at equal area it is not (off by {value_text(deviations[1])}). Of boxes within an "
        f"image it is at least {value_text(least)}; beyond, there is no bound.",
    )


@DESIGN.statement(
    "ciou-fast-then-slow",
    "Centred IoU decreases fast for small differences in shape, slowly for large ones, towards "
    "zero.",
    "appendix C, figure 6",
)
def _(run: RodeoRun) -> ClaimJudgement:
    flags, words = [], []
    for name, sides in (
        ("larger", np.linspace(USUAL, 1.0, 151)),
        ("smaller", np.linspace(USUAL, 0.002, 125)),
    ):
        values = shape_similarities(USUAL, sides, sides)[0]
        slope = np.abs(np.diff(values) / np.diff(sides)) * USUAL
        flags.append(bool((np.diff(slope) < 1e-9).all() and values[-1] < 0.1))
        words.append(
            f"{name} boxes: slope {slope[0]:.2f} per side at first, {slope[-1]:.2f} at the end, "
            f"down to {value_text(values[-1])}"
        )
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".")


@DESIGN.statement(
    "ciou-is-relative",
    "Centred IoU is relative to the size of the reference, and lies between 0 and 1.",
    "appendix C, figure 6",
)
def _(run: RodeoRun) -> ClaimJudgement:
    centred, hausdorff = [], []
    for side in (SMALL, USUAL):
        double = np.array([2 * side])
        pair = shape_similarities(side, double, double)
        centred.append(float(pair[0][0]))
        hausdorff.append(float(pair[1][0]))
    random = np.random.default_rng(0).uniform(1e-3, 1.0, (3, 10_000))
    blocks = []
    for side in random[0, :20]:
        blocks.append(shape_similarities(float(side), random[1], random[2])[0])
    values = np.concatenate(blocks)
    return ClaimJudgement(
        bool(abs(centred[0] - centred[1]) < 1e-12 and values.min() >= 0 and values.max() <= 1),
        f"A box twice as wide and high as a reference of {SMALL:g} and of {USUAL:g} of the image: "
        f"centred IoU {value_text(centred[0])} and {value_text(centred[1])}, Hausdorff similarity "
        f"{value_text(hausdorff[0])} and {value_text(hausdorff[1])}. Over 200 000 random pairs "
        f"centred IoU lies between {value_text(values.min())} and {value_text(values.max())}.",
    )


@DESIGN.statement(
    "harmonic-is-capped",
    "The harmonic mean is capped by the worst sub-score, and rises with any of them.",
    "appendix C",
)
def _(run: RodeoRun) -> ClaimJudgement:
    parts = np.random.default_rng(0).uniform(1e-6, 1.0, (100_000, 3))
    mean = 3.0 / (1.0 / parts).sum(axis=1)
    cap = float((mean / parts.min(axis=1)).max())
    better = np.minimum(parts + np.array([0.0, 0.01, 0.0]), 1.0)
    rises = bool((3.0 / (1.0 / better).sum(axis=1) >= mean).all())
    return ClaimJudgement(
        joint_verdict([cap <= 3.0, rises]),
        f"Over 100 000 random sub-scores it is at most {cap:.3f} times the worst (the bound is "
        "3), and never fell when one of them grew.",
    )


@DESIGN.statement(
    "other-summaries-fail",
    "The arithmetic mean is not capped by the worst sub-score; the minimum ignores improvements "
    "of the others.",
    "appendix C",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = ("RoDeO/harmonic", "RoDeO/arithmetic", "RoDeO/minimum")
    ends = [float(run.curve("figure-11", name)[1][-1]) for name in names]
    sigma = run.curve("figure-3", "RoDeO/minimum", along=1)[0]
    # The weakest shape noise: RoDeO/shape is then still above RoDeO/loc, which is the minimum.
    k = int(np.flatnonzero(sigma > 0)[0])
    grid = run.grid("figure-3", "RoDeO/minimum")
    still = float(np.abs(grid[-1, k] - grid[-1, 0]))
    return ClaimJudgement(
        joint_verdict([ends[1] > 0.5 > ends[0], still < 0.001]),
        f"With random classes: {values_text(names, ends)}. At the strongest position noise, shape "
        f"noise of {sigma[k]:g} moves the minimum by {value_text(still)}.",
    )


@DESIGN.statement(
    "only-cls-can-be-zero",
    "A sub-score can be exactly zero only in classification.",
    "appendix C",
)
def _(run: RodeoRun) -> ClaimJudgement:
    last = [float(run.curve("figure-4", name)[1][-1]) for name in PARTS]
    return ClaimJudgement(
        bool(last[0] > 0 and last[1] > 0),
        f"With no prediction at all: {values_text(PARTS, last)}.",
        "True for matched pairs. Without any pair, all three parts and the total are zero.",
    )
