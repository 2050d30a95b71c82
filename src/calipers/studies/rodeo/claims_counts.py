# SPDX-License-Identifier: Apache-2.0
"""Claims about too few and too many boxes and about classes: figures 4, 5, 7, 10 and 11."""

from __future__ import annotations

import numpy as np

from calipers.oracles import corrupt
from calipers.studies.judging import Claims, Judgement, share
from calipers.studies.rodeo.judging import (
    INVARIANT,
    TURN,
    Found,
    best_rate,
    exponential,
    falls,
    hyperbolic,
    listed,
    misfit,
    said,
    spread,
)
from calipers.studies.rodeo.sweeps import ACCURACIES, FALSE_ALARMS, IN_ORDER, PRECISIONS, RODEO

MAIN, RANDOM, APPENDIX = Claims[Found](), Claims[Found](), Claims[Found]()
SMALL = 0.1  # an increase below this is called small
SIGNIFICANT = 2.0  # standard errors
TINY = 1e-6  # stands for a first value of 0


@MAIN.says(
    "accuracy-rises-with-underprediction",
    "Accuracy at IoU 0.5 rises as more boxes are missed.",
    "section 5, figure 4",
)
def _(found: Found) -> Judgement:
    _, values = found.curve("figure-4", "accuracy@0.5")
    rises = bool(values[-1] > values[0] + INVARIANT and np.diff(values).min() > -TURN)
    return Judgement(
        rises, f"From {said(values[0])} with all boxes to {said(values[-1])} with none."
    )


@MAIN.says(
    "predicting-nothing-wins",
    "A model that predicts nothing gets the higher accuracy, above all at higher IoU thresholds.",
    "section 5, figure 4",
)
def _(found: Found) -> Judgement:
    gains = []
    for name in ACCURACIES:
        values = found.curve("figure-4", name)[1]
        gains.append(float(values[-1] - values[0]))
    growing = gains[0] < gains[1] < gains[2]
    return Judgement(
        bool(gains[2] > 0 and growing),
        "Accuracy without any prediction minus accuracy of the oracle with position noise 0.5: "
        f"{listed(ACCURACIES, gains)}.",
    )


@MAIN.says(
    "false-alarms-become-true-negatives",
    "The reason is that false positives are exchanged for true negatives.",
    "section 5, figure 4",
)
def _(found: Found) -> Judgement:
    before, after = (_true_negatives(found, p) for p in (0.0, 1.0))
    alarms = found.curve("figure-4", FALSE_ALARMS)[1]
    return Judgement(
        after > before,
        f"False alarms per image at IoU 0.5 fall from {said(alarms[0])} to {said(alarms[-1])}, but the true negatives "
        f"(image and class with neither reference nor prediction) are {before} with all boxes and {after} with none.",
        "A dropped box belongs to a class that the image has, so its cell is a miss and never a true negative. "
        "Accuracy rises because a box in the wrong place is two errors, a false alarm and a miss, and no box is one.",
    )


def _true_negatives(found: Found, p: float) -> int:
    """Return the (image, class) cells that have neither a reference nor a prediction."""
    cohort = corrupt(
        found.cohort, "class-underprediction", p=p, seed=found.seed, name="dropped for a claim"
    )
    taken = np.zeros((cohort.n_images, len(cohort.classes)), np.bool_)
    for table in (cohort.references, cohort.predictions("dropped for a claim")):
        taken[table.image, table.label] = True
    return int((~taken).sum())


@MAIN.says(
    "ap-and-rodeo-fall-with-underprediction",
    "AP and RoDeO decline when boxes are missed.",
    "section 5, figure 4",
)
def _(found: Found) -> Judgement:
    names = (*PRECISIONS, "RoDeO")
    curves = [found.curve("figure-4", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return Judgement(
        share(down),
        f"From {listed(names, [values[0] for values in curves])} to 0 with no box left, without a rise.",
    )


@MAIN.says(
    "rodeo-falls-with-overprediction",
    "Every sub-score of RoDeO declines when boxes are predicted several times.",
    "section 5, figure 5",
)
def _(found: Found) -> Judgement:
    curves = [found.curve("figure-5", name)[1] for name in RODEO]
    x = found.curve("figure-5", "RoDeO")[0][-1]
    return Judgement(
        share([falls(values) for values in curves]),
        f"Without copies {listed(RODEO, [v[0] for v in curves])}; with {x:g} copies per box on average "
        f"{listed(RODEO, [v[-1] for v in curves])}.",
    )


@MAIN.says(
    "rodeo-decays-exponentially",
    "That decay is exponential.",
    "section 5, figure 5",
)
def _(found: Found) -> Judgement:
    x, shape = found.curve("figure-5", "RoDeO/shape")
    rate, off = best_rate(x, shape, exponential)
    exact = misfit(shape, hyperbolic(x, 1.0))
    return Judgement(
        bool(falls(shape) and off < min(exact, INVARIANT)),
        f"RoDeO/shape follows 1 / (1 + mean copies) within {said(exact)} (root mean square), with nothing to fit; the "
        f"best exponential, exp(-{rate:.2f} x), is off by {said(off)}.",
        "The decay is hyperbolic. One of 1 + D boxes is paired, so shape and cls are 1 / (1 + E[D]) whatever the "
        "distribution of D is; RoDeO/loc falls more slowly, because the best placed copy is paired.",
    )


@MAIN.says(
    "ap-ignores-overprediction",
    "AP does not decline with overprediction at IoU thresholds above 0.1.",
    "section 5, figure 5",
)
def _(found: Found) -> Judgement:
    names = (*PRECISIONS[1:], *IN_ORDER[1:])
    flags, words = [], []
    for name in (*PRECISIONS, *IN_ORDER[1:]):
        values = found.curve("figure-5", name)[1]
        words.append(
            f"{name} {said(values[0])} to {said(values[-1])} (highest {said(values.max())})"
        )
        if name in names:
            error = found.error("figure-5", name)
            flags.append(
                bool(values[-1] >= values[0] - SIGNIFICANT * np.hypot(error[0], error[-1]))
            )
    return Judgement(
        share(flags),
        "; ".join(words) + ".",
        "Above 0.1 it rises first, because a copy is another chance to pass the threshold; with many copies the lost "
        "precision wins at middle thresholds. In order: equal scores taken in input order, as COCO's code does, not as "
        "one operating point.",
    )


@MAIN.says(
    "ap50-rises-with-overprediction",
    "AP@50 shows a small but significant increase as more boxes are predicted.",
    "section 5, figure 5",
)
def _(found: Found) -> Judgement:
    values, error = found.curve("figure-5", "AP@0.5")[1], found.error("figure-5", "AP@0.5")
    gain, noise = float(values[-1] - values[0]), float(np.hypot(error[0], error[-1]))
    times = f" ({gain / noise:.1f} standard errors of the runs)" if noise > 0 else ""
    ratio = values[-1] / max(float(values[0]), TINY)
    return Judgement(
        share([gain > SIGNIFICANT * noise, 0 < gain < SMALL]),
        f"From {said(values[0])} to {said(values[-1])}: {said(gain)} more{times}, {ratio:.1f} times as much.",
        "Small in points, large in proportion.",
    )


@MAIN.says(
    "accuracy-falls-with-overprediction",
    "Accuracy declines when boxes are predicted several times.",
    "figure 5",
)
def _(found: Found) -> Judgement:
    curves = [found.curve("figure-5", name)[1] for name in ACCURACIES]
    return Judgement(
        share([falls(values) for values in curves]),
        f"From {listed(ACCURACIES, [v[0] for v in curves])} to {listed(ACCURACIES, [v[-1] for v in curves])}.",
    )


@MAIN.says(
    "rodeo-cannot-be-tricked",
    "RoDeO cannot be raised by predicting more or fewer boxes.",
    "section 6",
)
def _(found: Found) -> Judgement:
    best = []
    for figure in ("figure-4", "figure-5", "figure-10"):
        values = found.curve(figure, "RoDeO")[1]
        best.append(float(values[1:].max() - values[0]))
    return Judgement(
        bool(max(best) <= 0),
        "The highest RoDeO with a corruption minus that without: missed classes "
        f"{said(best[0])}, copies {said(best[1])}, added classes {said(best[2])}.",
        "For these oracles, which drop and add boxes at random.",
    )


@RANDOM.says(
    "random-boxes-score-low",
    "Boxes at random places score low in RoDeO and in AP.",
    "appendix D, figure 7",
)
def _(found: Found) -> Judgement:
    names = ("RoDeO", *PRECISIONS)
    top = [float(found.grid("figure-7", name).max()) for name in names]
    return Judgement(
        share([value < 0.5 for value in top]),
        f"The highest values on the grid: {listed(names, top)}.",
        "RoDeO is not that low: here the classes are perfect, and RoDeO/loc of a random place in the image is far from "
        "zero.",
    )


@RANDOM.says(
    "accuracy-high-for-random-boxes",
    "Accuracy reports high values for boxes at random places.",
    "appendix D, figure 7",
)
def _(found: Found) -> Judgement:
    grid = found.grid("figure-7", "accuracy@0.1")
    none, every = grid[:, 0], grid[:, -1]
    return Judgement(
        share([float(none.min()) > 0.6, float(every.max()) > 0.6]),
        f"Accuracy@0.1 lies between {said(none.min())} and {said(none.max())} if no class is added, and between "
        f"{said(every.min())} and {said(every.max())} if every absent class is.",
        "High as long as the classes are right. With added classes the true negatives go, and accuracy goes with them.",
    )


@RANDOM.says(
    "shape-peaks-at-the-usual-size",
    "RoDeO/shape is highest at the usual size of a box in the data (about 0.2 of the image).",
    "appendix D, figure 7",
)
def _(found: Found) -> Judgement:
    sides, values = found.curve("figure-7", "RoDeO/shape")
    best, usual = float(sides[values.argmax()]), usual_side(found)
    return Judgement(
        bool(abs(best - usual) <= 0.1),
        f"Highest ({said(values.max())}) at a side of {best:g}; the mean side of the boxes (root of the area) is "
        f"{usual:.2f} of the image.",
    )


def usual_side(found: Found) -> float:
    """Return the mean root of the area of the boxes, in fractions of the image."""
    references = found.cohort.references
    image = np.prod(found.cohort.images.size[references.image], axis=1)
    return float(np.sqrt(references.extent / image).mean())


@RANDOM.says(
    "overlap-prefers-large-random-boxes",
    "AP and accuracy do better with random boxes that are larger than usual.",
    "appendix D, figure 7",
)
def _(found: Found) -> Judgement:
    names, usual = (*PRECISIONS, *ACCURACIES), usual_side(found)
    best = []
    for name in names:
        sides, values = found.curve("figure-7", name)
        best.append(float(sides[values.argmax()]))
    return Judgement(
        share([side > usual for side in best]),
        "Best side: "
        + ", ".join(f"{name} {side:g}" for name, side in zip(names, best))
        + f"; usual {usual:.2f}.",
    )


@APPENDIX.says(
    "all-decline-with-added-classes",
    "Accuracy, AP and RoDeO decline smoothly as absent classes are predicted.",
    "appendix D, figure 10",
)
def _(found: Found) -> Judgement:
    names = (*ACCURACIES, *PRECISIONS, "RoDeO")
    curves = [found.curve("figure-10", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return Judgement(
        share(down),
        f"From {listed(names, [v[0] for v in curves])} to {listed(names, [v[-1] for v in curves])}, without a rise.",
    )


@APPENDIX.says(
    "added-classes-decay-exponentially",
    "AP and RoDeO decay exponentially there, as is to be expected of overprediction from a geometric distribution.",
    "appendix D, figure 10",
)
def _(found: Found) -> Judgement:
    flags, words = [], []
    for name in ("AP@0.1", "RoDeO/shape"):
        x, values = found.curve("figure-10", name)
        scaled = values / max(float(values[0]), TINY)
        off, better = best_rate(x, scaled, exponential)[1], best_rate(x, scaled, hyperbolic)[1]
        flags.append(falls(values) and off < min(better, INVARIANT))
        words.append(
            f"{name} is off by {said(off)} from the best exponential and by {said(better)} from 1 / (1 + k p)"
        )
    return Judgement(
        share(flags),
        "; ".join(words) + " (root mean square, first value 1).",
        "Here nothing is geometric: every absent class is added by a coin toss, so the number of extra boxes grows "
        "linearly in p, and scores fall like one over the number of boxes.",
    )


@APPENDIX.says(
    "accuracy-falls-linearly",
    "Accuracy declines linearly there.",
    "appendix D, figure 10",
)
def _(found: Found) -> Judgement:
    flags, off = [], []
    for name in ACCURACIES:
        x, values = found.curve("figure-10", name)
        line = np.polyval(np.polyfit(x, values, 1), x)
        off.append(float(np.abs(values - line).max()))
        flags.append(falls(values) and off[-1] < INVARIANT)
    return Judgement(
        share(flags), f"Largest distance from a straight line: {listed(ACCURACIES, off)}."
    )


@APPENDIX.says(
    "all-decline-with-confused-classes",
    "Accuracy, AP and RoDeO decline smoothly as classes are confused.",
    "appendix D, figure 11",
)
def _(found: Found) -> Judgement:
    names = (*ACCURACIES, *PRECISIONS, "RoDeO")
    curves = [found.curve("figure-11", name)[1] for name in names]
    down = [bool(values[-1] < values[0] and np.diff(values).max() < TURN) for values in curves]
    return Judgement(
        share(down),
        f"From {listed(names, [v[0] for v in curves])} to {listed(names, [v[-1] for v in curves])}, without a rise.",
    )


@APPENDIX.says(
    "accuracy-never-zero",
    "Accuracy never reaches zero, even when all classes are mispredicted.",
    "appendix D, figure 11",
)
def _(found: Found) -> Judgement:
    last = [float(found.curve("figure-11", name)[1][-1]) for name in ACCURACIES]
    cls = float(found.curve("figure-11", "RoDeO/cls")[1][-1])
    return Judgement(
        bool(min(last) > 0.5),
        f"With all classes permuted: {listed(ACCURACIES, last)}; RoDeO/cls {said(cls)}.",
        f"A random permutation leaves one class in {len(found.cohort.classes)} right, so this is chance, not complete "
        "misprediction; the true negatives would stay in either case.",
    )


@APPENDIX.says(
    "loc-and-shape-ignore-classes",
    "RoDeO/loc and RoDeO/shape do not depend on confused classes.",
    "appendix D, figure 11",
)
def _(found: Found) -> Judgement:
    ranges = [spread(found.grid("figure-11", name)) for name in ("RoDeO/loc", "RoDeO/shape")]
    return Judgement(
        share([value < INVARIANT for value in ranges]),
        f"RoDeO/loc moves by {said(ranges[0])}, RoDeO/shape by {said(ranges[1])}.",
        "Nearly: the class has a say in who is paired with whom, in images with several boxes.",
    )
