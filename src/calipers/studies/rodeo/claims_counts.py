# SPDX-License-Identifier: Apache-2.0
"""Claims about missing boxes, extra boxes and wrong classes: figures 4, 5, 7, 10 and 11.

`calipers.studies.rodeo.study` joins them with the other claims, in the order of the paper.
"""

from __future__ import annotations

import numpy as np

from calipers.oracles import corrupt
from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict
from calipers.studies.rodeo.judging import (
    INVARIANT,
    TURN,
    RodeoRun,
    best_rate,
    exponential,
    falls,
    hyperbolic,
    misfit,
    spread,
    value_text,
    values_text,
)
from calipers.studies.rodeo.sweeps import ACCURACIES, FALSE_ALARMS, IN_ORDER, PRECISIONS, RODEO

MAIN, RANDOM, APPENDIX = Claims[RodeoRun](), Claims[RodeoRun](), Claims[RodeoRun]()
SMALL = 0.1  # an increase below this counts as small
SIGNIFICANT = 2.0  # standard errors; about 95 % confidence
TINY = 1e-6  # replaces a first value of 0 in a division


@MAIN.statement(
    "accuracy-rises-with-underprediction",
    "Accuracy at IoU 0.5 rises as more boxes are missed.",
    "section 5, figure 4",
)
def _(run: RodeoRun) -> ClaimJudgement:
    _, values = run.curve("figure-4", "accuracy@0.5")
    rises = bool(values[-1] > values[0] + INVARIANT and np.diff(values).min() > -TURN)
    return ClaimJudgement(
        rises, f"From {value_text(values[0])} with all boxes to {value_text(values[-1])} with none."
    )


@MAIN.statement(
    "predicting-nothing-wins",
    "A model that predicts nothing gets the higher accuracy, above all at higher IoU thresholds.",
    "section 5, figure 4",
)
def _(run: RodeoRun) -> ClaimJudgement:
    gains = []
    for name in ACCURACIES:
        values = run.curve("figure-4", name)[1]
        gains.append(float(values[-1] - values[0]))
    # "Above all at higher thresholds" is read as: the gain grows with the threshold.
    growing = gains[0] < gains[1] < gains[2]
    return ClaimJudgement(
        bool(gains[2] > 0 and growing),
        "Accuracy without any prediction minus accuracy of the oracle with position noise 0.5: "
        f"{values_text(ACCURACIES, gains)}.",
    )


@MAIN.statement(
    "false-alarms-become-true-negatives",
    "The reason is that false positives are exchanged for true negatives.",
    "section 5, figure 4",
)
def _(run: RodeoRun) -> ClaimJudgement:
    before, after = _true_negatives(run, 0.0), _true_negatives(run, 1.0)
    alarms = run.curve("figure-4", FALSE_ALARMS)[1]
    return ClaimJudgement(
        after > before,
        f"False alarms per image at IoU 0.5 fall from {value_text(alarms[0])} to "
        f"{value_text(alarms[-1])}, but the true negatives (image and class with neither "
        f"reference nor prediction) are {before} with all boxes and {after} with none.",
        "A dropped box belongs to a class that the image has, so its cell is a miss and never a "
        "true negative. Accuracy rises because a box in the wrong place is two errors (a false "
        "alarm and a miss), whereas no box is one error.",
    )


def _true_negatives(run: RodeoRun, p: float) -> int:
    """Return the number of (image, class) cells without a reference and without a prediction."""
    cohort = corrupt(
        run.cohort, "class-underprediction", p=p, seed=run.seed, name="dropped for a claim"
    )
    occupied = np.zeros((cohort.n_images, len(cohort.classes)), np.bool_)
    for table in (cohort.references, cohort.predictions("dropped for a claim")):
        occupied[table.image, table.label] = True
    return int((~occupied).sum())


@MAIN.statement(
    "ap-and-rodeo-fall-with-underprediction",
    "AP and RoDeO decline when boxes are missed.",
    "section 5, figure 4",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*PRECISIONS, "RoDeO")
    curves = [run.curve("figure-4", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return ClaimJudgement(
        joint_verdict(down),
        f"From {values_text(names, [values[0] for values in curves])} to 0 with no box left, "
        "without a rise.",
    )


@MAIN.statement(
    "rodeo-falls-with-overprediction",
    "Every sub-score of RoDeO declines when boxes are predicted several times.",
    "section 5, figure 5",
)
def _(run: RodeoRun) -> ClaimJudgement:
    curves = [run.curve("figure-5", name)[1] for name in RODEO]
    x = run.curve("figure-5", "RoDeO")[0][-1]
    return ClaimJudgement(
        joint_verdict([falls(values) for values in curves]),
        f"Without copies {values_text(RODEO, [v[0] for v in curves])}; with {x:g} copies per box "
        f"on average {values_text(RODEO, [v[-1] for v in curves])}.",
    )


@MAIN.statement(
    "rodeo-decays-exponentially",
    "That decay is exponential.",
    "section 5, figure 5",
)
def _(run: RodeoRun) -> ClaimJudgement:
    x, shape = run.curve("figure-5", "RoDeO/shape")
    # RoDeO/shape does not depend on which copy is paired, so its law is exact.
    rate, off = best_rate(x, shape, exponential)
    exact = misfit(shape, hyperbolic(x, 1.0))
    return ClaimJudgement(
        bool(falls(shape) and off < min(exact, INVARIANT)),
        f"RoDeO/shape follows 1 / (1 + mean copies) within {value_text(exact)} (root mean "
        f"square), without a fitted parameter; the best exponential, exp(-{rate:.2f} x), is off "
        f"by {value_text(off)}.",
        "The decay is hyperbolic. One of 1 + D boxes is paired, so shape and cls are 1 / (1 + "
        "E[D]) whatever the distribution of D is; RoDeO/loc falls more slowly, because the best "
        "placed copy is paired.",
    )


@MAIN.statement(
    "ap-ignores-overprediction",
    "AP does not decline with overprediction at IoU thresholds above 0.1.",
    "section 5, figure 5",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*PRECISIONS[1:], *IN_ORDER[1:])
    flags, words = [], []
    for name in (*PRECISIONS, *IN_ORDER[1:]):
        values = run.curve("figure-5", name)[1]
        words.append(
            f"{name} {value_text(values[0])} to {value_text(values[-1])} (highest "
            f"{value_text(values.max())})"
        )
        if name in names:
            error = run.error("figure-5", name)
            flags.append(
                bool(values[-1] >= values[0] - SIGNIFICANT * np.hypot(error[0], error[-1]))
            )
    return ClaimJudgement(
        joint_verdict(flags),
        "; ".join(words) + ".",
        "Above 0.1 it rises first, because a copy is another chance to pass the threshold; with "
        "many copies the loss of precision dominates at middle thresholds. AP in order breaks "
        "ties by input order, as pycocotools does, instead of treating them as one operating "
        "point.",
    )


@MAIN.statement(
    "ap50-rises-with-overprediction",
    "AP@50 shows a small but significant increase as more boxes are predicted.",
    "section 5, figure 5",
)
def _(run: RodeoRun) -> ClaimJudgement:
    values, error = run.curve("figure-5", "AP@0.5")[1], run.error("figure-5", "AP@0.5")
    gain, noise = float(values[-1] - values[0]), float(np.hypot(error[0], error[-1]))
    times = f" ({gain / noise:.1f} standard errors of the runs)" if noise > 0 else ""
    # A first value of 0 would make the ratio infinite.
    ratio = values[-1] / max(float(values[0]), TINY)
    return ClaimJudgement(
        joint_verdict([gain > SIGNIFICANT * noise, 0 < gain < SMALL]),
        f"From {value_text(values[0])} to {value_text(values[-1])}: {value_text(gain)} "
        f"more{times}, {ratio:.1f} times as much.",
        "Small in points, large in proportion.",
    )


@MAIN.statement(
    "accuracy-falls-with-overprediction",
    "Accuracy declines when boxes are predicted several times.",
    "figure 5",
)
def _(run: RodeoRun) -> ClaimJudgement:
    curves = [run.curve("figure-5", name)[1] for name in ACCURACIES]
    return ClaimJudgement(
        joint_verdict([falls(values) for values in curves]),
        f"From {values_text(ACCURACIES, [v[0] for v in curves])} to "
        f"{values_text(ACCURACIES, [v[-1] for v in curves])}.",
    )


@MAIN.statement(
    "rodeo-cannot-be-tricked",
    "RoDeO cannot be raised by predicting more or fewer boxes.",
    "section 6",
)
def _(run: RodeoRun) -> ClaimJudgement:
    best = []
    for figure in ("figure-4", "figure-5", "figure-10"):
        values = run.curve(figure, "RoDeO")[1]
        best.append(float(values[1:].max() - values[0]))
    return ClaimJudgement(
        bool(max(best) <= 0),
        "The highest RoDeO with a corruption minus that without: missed classes "
        f"{value_text(best[0])}, copies {value_text(best[1])}, added classes "
        f"{value_text(best[2])}.",
        "This holds for these oracles, which drop and add boxes at random.",
    )


@RANDOM.statement(
    "random-boxes-score-low",
    "Boxes at random places score low in RoDeO and in AP.",
    "appendix D, figure 7",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = ("RoDeO", *PRECISIONS)
    top = [float(run.grid("figure-7", name).max()) for name in names]
    return ClaimJudgement(
        joint_verdict([value < 0.5 for value in top]),
        f"The highest values on the grid: {values_text(names, top)}.",
        "RoDeO is not very low: the classes are perfect here, and RoDeO/loc of a random place in "
        "the image is far from zero.",
    )


@RANDOM.statement(
    "accuracy-high-for-random-boxes",
    "Accuracy reports high values for boxes at random places.",
    "appendix D, figure 7",
)
def _(run: RodeoRun) -> ClaimJudgement:
    grid = run.grid("figure-7", "accuracy@0.1")
    # The second axis of figure 7 is the probability to add a class.
    none, every = grid[:, 0], grid[:, -1]
    return ClaimJudgement(
        joint_verdict([float(none.min()) > 0.6, float(every.max()) > 0.6]),
        f"Accuracy@0.1 lies between {value_text(none.min())} and {value_text(none.max())} if no "
        f"class is added, and between {value_text(every.min())} and {value_text(every.max())} if "
        "every absent class is.",
        "Accuracy is high as long as the classes are right. Added classes remove the true "
        "negatives, and accuracy falls with them.",
    )


@RANDOM.statement(
    "shape-peaks-at-the-usual-size",
    "RoDeO/shape is highest at the usual size of a box in the data (about 0.2 of the image).",
    "appendix D, figure 7",
)
def _(run: RodeoRun) -> ClaimJudgement:
    sides, values = run.curve("figure-7", "RoDeO/shape")
    best, usual = float(sides[values.argmax()]), usual_side(run)
    return ClaimJudgement(
        bool(abs(best - usual) <= 0.1),
        f"Highest ({value_text(values.max())}) at a side of {best:g}; the mean side of the boxes "
        f"(root of the area) is {usual:.2f} of the image.",
    )


def usual_side(run: RodeoRun) -> float:
    """Return the mean square root of the box areas, in fractions of the image."""
    references = run.cohort.references
    image = np.prod(run.cohort.images.size[references.image], axis=1)
    return float(np.sqrt(references.extent / image).mean())


@RANDOM.statement(
    "overlap-prefers-large-random-boxes",
    "AP and accuracy do better with random boxes that are larger than usual.",
    "appendix D, figure 7",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names, usual = (*PRECISIONS, *ACCURACIES), usual_side(run)
    best = []
    for name in names:
        sides, values = run.curve("figure-7", name)
        best.append(float(sides[values.argmax()]))
    return ClaimJudgement(
        joint_verdict([side > usual for side in best]),
        "Best side: "
        + ", ".join(f"{name} {side:g}" for name, side in zip(names, best))
        + f"; usual {usual:.2f}.",
    )


@APPENDIX.statement(
    "all-decline-with-added-classes",
    "Accuracy, AP and RoDeO decline smoothly as absent classes are predicted.",
    "appendix D, figure 10",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*ACCURACIES, *PRECISIONS, "RoDeO")
    curves = [run.curve("figure-10", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return ClaimJudgement(
        joint_verdict(down),
        f"From {values_text(names, [v[0] for v in curves])} to "
        f"{values_text(names, [v[-1] for v in curves])}, without a rise.",
    )


@APPENDIX.statement(
    "added-classes-decay-exponentially",
    "AP and RoDeO decay exponentially there, as is to be expected of overprediction from a "
    "geometric distribution.",
    "appendix D, figure 10",
)
def _(run: RodeoRun) -> ClaimJudgement:
    flags, words = [], []
    for name in ("AP@0.1", "RoDeO/shape"):
        x, values = run.curve("figure-10", name)
        # The laws start at 1, the curves do not.
        relative = values / max(float(values[0]), TINY)
        off, better = best_rate(x, relative, exponential)[1], best_rate(x, relative, hyperbolic)[1]
        flags.append(falls(values) and off < min(better, INVARIANT))
        words.append(
            f"{name} is off by {value_text(off)} from the best exponential and by "
            f"{value_text(better)} from 1 / (1 + k p)"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        "; ".join(words) + " (root mean square, first value 1).",
        "Nothing is geometric here: every absent class is added with probability p, so the number "
        "of extra boxes grows linearly in p, and scores fall like one over the number of boxes.",
    )


@APPENDIX.statement(
    "accuracy-falls-linearly",
    "Accuracy declines linearly there.",
    "appendix D, figure 10",
)
def _(run: RodeoRun) -> ClaimJudgement:
    flags, off = [], []
    for name in ACCURACIES:
        x, values = run.curve("figure-10", name)
        line = np.polyval(np.polyfit(x, values, 1), x)
        off.append(float(np.abs(values - line).max()))
        flags.append(falls(values) and off[-1] < INVARIANT)
    return ClaimJudgement(
        joint_verdict(flags),
        f"Largest distance from a straight line: {values_text(ACCURACIES, off)}.",
    )


@APPENDIX.statement(
    "all-decline-with-confused-classes",
    "Accuracy, AP and RoDeO decline smoothly as classes are confused.",
    "appendix D, figure 11",
)
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*ACCURACIES, *PRECISIONS, "RoDeO")
    curves = [run.curve("figure-11", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return ClaimJudgement(
        joint_verdict(down),
        f"From {values_text(names, [v[0] for v in curves])} to "
        f"{values_text(names, [v[-1] for v in curves])}, without a rise.",
    )


@APPENDIX.statement(
    "accuracy-never-zero",
    "Accuracy never reaches zero, even when all classes are mispredicted.",
    "appendix D, figure 11",
)
def _(run: RodeoRun) -> ClaimJudgement:
    last = [float(run.curve("figure-11", name)[1][-1]) for name in ACCURACIES]
    cls = float(run.curve("figure-11", "RoDeO/cls")[1][-1])
    return ClaimJudgement(
        bool(min(last) > 0.5),
        f"With all classes permuted: {values_text(ACCURACIES, last)}; RoDeO/cls {value_text(cls)}.",
        f"A random permutation leaves one class in {len(run.cohort.classes)} right, so this is "
        "chance, not complete misprediction; the true negatives would stay in either case.",
    )


@APPENDIX.statement(
    "loc-and-shape-ignore-classes",
    "RoDeO/loc and RoDeO/shape do not depend on confused classes.",
    "appendix D, figure 11",
)
def _(run: RodeoRun) -> ClaimJudgement:
    ranges = [spread(run.grid("figure-11", name)) for name in ("RoDeO/loc", "RoDeO/shape")]
    return ClaimJudgement(
        joint_verdict([value < INVARIANT for value in ranges]),
        f"RoDeO/loc moves by {value_text(ranges[0])}, RoDeO/shape by {value_text(ranges[1])}.",
        "Nearly: in images with several boxes, the class influences which boxes are paired.",
    )
