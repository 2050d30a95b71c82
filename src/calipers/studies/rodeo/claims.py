# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of RoDeO about errors other than place, and what all claims share.

`study.run` creates a `RodeoRun`, the numbers of a run; the functions after it are the rules that
turn curves into verdicts, for this file and for `claims_place`. Then come the claims about missing
boxes, extra boxes and wrong classes (figures 4, 5, 7, 10 and 11), those about the design of RoDeO,
and those that the printed table 1 decides (appendix C and section 5.1).
`calipers.studies.rodeo.study` joins them with the others, in the order of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.oracles.corrupt import corrupt
from calipers.sensitivity.sweep import Sweep
from calipers.studies.claim_rules import ClaimRules
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict
from calipers.studies.rodeo.data import (
    PRINTED,
    USUAL,
    Example,
    harmonic,
    off_by_rounding,
    shape_similarities,
)
from calipers.studies.rodeo.data import SMALL as SMALL_
from calipers.studies.rodeo.experiments import (
    ACCURACIES,
    FALSE_ALARMS,
    IN_ORDER,
    MEAN_AP,
    PRECISIONS,
    RODEO,
)

RULES = ClaimRules.load("rodeo/claims.toml")
INVARIANT = RULES.limit("invariant")  # a score whose range is below this counts as invariant
EXACT = RULES.limit("exact")  # differences below this are rounding errors
TURN = RULES.limit("turn")  # a rise of the mean over runs below this counts as noise
SMALL = RULES.limit("small")  # an increase below this counts as small
SIGNIFICANT = RULES.limit("significant")  # standard errors; about 95 % confidence
ALIKE, HIGHER = RULES.limit("alike"), RULES.limit("higher")  # of values of table 1
TINY = 1e-6  # replaces a first value of 0 in a division

PARTS = RODEO[1:]
FROM_PRINT = "Judged by the numbers printed in the paper alone; its trained model is not public."


ONE_TRAINING = (
    "Small networks, trained once, on canvases of digits and on drawn chests: the sentence is "
    "tested where it could have come out otherwise, not on the data of the paper."
)


@dataclass(frozen=True)
class RodeoRun:
    """The numbers of a run: sweeps, examples, and the cohort that was corrupted."""

    sweeps: Mapping[str, Sweep]
    examples: Mapping[str, Example]  # of figure 1
    cohort: Cohort
    seed: int
    # network -> class -> metric -> value; the networks were trained, see `chexnets`
    trained: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def curve(self, figure: str, metric: str, along: int = 0) -> tuple[F64, F64]:
        """Return the strengths of one corruption and the values of a metric.

        In a sweep of two corruptions, the other one is absent (strength 0).
        """
        sweep = self.sweeps[figure]
        values = sweep.line(metric)[0]
        if values.ndim == 2:
            values = values[:, 0] if along == 0 else values[0]
        return np.array(sweep.axes[along].values, np.float64), values

    def grid(self, figure: str, metric: str) -> F64:
        """Return the values of a metric at all points of the grid."""
        return self.sweeps[figure].line(metric)[0]

    def near(self, figure: str, at: float, along: int = 0) -> tuple[int, float]:
        """Return the index of the strength nearest to ``at``, and that strength."""
        values = np.array(self.sweeps[figure].axes[along].values, np.float64)
        k = int(np.abs(values - at).argmin())
        return k, float(values[k])

    def error(self, figure: str, metric: str) -> F64:
        """Return the standard error of the mean over runs."""
        sweep = self.sweeps[figure]
        value, _, high = sweep.line(metric)
        # The band of a sweep is the mean plus and minus one standard deviation.
        return np.asarray((high - value) / np.sqrt(sweep.runs))


def steepest(values: F64) -> float:
    """Return the largest fall between neighbouring grid points."""
    return float(np.max(-np.diff(values), initial=0.0))


def falls(values: F64) -> bool:
    """Return whether a curve ends clearly lower and never rises by more than noise."""
    return bool(values[-1] < values[0] - INVARIANT and np.diff(values).max() < TURN)


def spread(values: F64, axis: int | None = None) -> float:
    """Return the range of the values; with an axis, the largest range along it."""
    return float(np.max(np.ptp(values, axis=axis)))


def half_lost(x: F64, values: F64) -> float:
    """Return the strength at which half of the first value is lost, interpolated linearly.

    NaN if half is never lost, or if the first value is 0.
    """
    below = np.flatnonzero(values <= 0.5 * values[0])
    if not len(below) or values[0] <= 0:
        return float("nan")
    k = int(below[0])
    fraction = (values[k - 1] - 0.5 * values[0]) / (values[k - 1] - values[k])
    return float(x[k - 1] + fraction * (x[k] - x[k - 1]))


def misfit(values: F64, model: F64) -> float:
    """Return the root mean square difference."""
    return float(np.sqrt(np.mean((values - model) ** 2)))


def best_rate(x: F64, values: F64, law: Callable[[F64, float], F64]) -> tuple[float, float]:
    """Return the best rate of a law with one parameter, and its root mean square error."""
    # A grid search is enough: the verdict needs the misfit to about two digits.
    rates = np.geomspace(0.02, 50.0, 4000)
    off = [misfit(values, law(x, float(rate))) for rate in rates]
    k = int(np.argmin(off))
    return float(rates[k]), float(off[k])


def exponential(x: F64, rate: float) -> F64:
    """Return exp(-rate x)."""
    return np.asarray(np.exp(-rate * x))


def hyperbolic(x: F64, rate: float) -> F64:
    """Return 1 / (1 + rate x)."""
    return np.asarray(1.0 / (1.0 + rate * x))


def value_text(value: float) -> str:
    """Return a number with three decimals, small numbers in scientific form, "never" for NaN."""
    if np.isnan(value):
        return "never"
    if abs(value) < EXACT:
        return "0"
    return f"{value:.3f}" if abs(value) >= 0.0005 else f"{value:.1e}"


def values_text(names: Sequence[str], values: Sequence[float]) -> str:
    """Return "AP@0.1 = 0.522, AP@0.3 = 0.151"."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in zip(names, values))


def smooth(values: F64) -> bool:
    """Return whether a curve ends lower, by however little, and never rises by more than noise."""
    return bool(values[-1] < values[0] and np.diff(values).max() < TURN)


def ends_text(run: RodeoRun, figure: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the first and the last values of several metrics in words."""
    first, last = [], []
    for name in names:
        values = run.curve(figure, name)[1]
        first.append(float(values[0]))
        last.append(float(values[-1]))
    return values_text(names, first), values_text(names, last)


def rise_text(run: RodeoRun, figure: str, names: Sequence[str]) -> str:
    """Return the largest rise of any of the metrics from one grid point to the next, in words."""
    rises = [float(np.diff(run.curve(figure, name)[1]).max()) for name in names]
    if max(rises) <= EXACT:
        return "without a rise"
    return f"with no rise above {value_text(max(rises))}"


def which(
    run: RodeoRun, figure: str, names: Sequence[str], rule: Callable[[F64], bool]
) -> list[bool]:
    """Return for every metric whether its curve obeys a rule such as `falls`."""
    return [rule(run.curve(figure, name)[1]) for name in names]


def all_decline(run: RodeoRun, figure: str) -> ClaimJudgement:
    """Judge whether accuracy, AP and RoDeO end lower than they start and never turn upwards."""
    names = (*ACCURACIES, *PRECISIONS, "RoDeO")
    first, last = ends_text(run, figure, names)
    return ClaimJudgement(
        joint_verdict(which(run, figure, names, smooth)),
        f"From {first} to {last}, {rise_text(run, figure, names)}.",
    )


def both_invariant(
    run: RodeoRun, figure: str, names: tuple[str, str], *, where: str = "", note: str = ""
) -> ClaimJudgement:
    """Judge whether two sub-scores stay the same over the whole grid of a figure."""
    first, second = (spread(run.grid(figure, name)) for name in names)
    return ClaimJudgement(
        joint_verdict([first < INVARIANT, second < INVARIANT]),
        f"{where}{names[0]} moves by {value_text(first)}, {names[1]} by {value_text(second)}.",
        note,
    )


MAIN, RANDOM, APPENDIX = (
    Claims[RodeoRun](rules=RULES),
    Claims[RodeoRun](rules=RULES),
    Claims[RodeoRun](rules=RULES),
)


@MAIN.judge("accuracy-rises-with-underprediction")
def _(run: RodeoRun) -> ClaimJudgement:
    _, values = run.curve("figure-4", "accuracy@0.5")
    rises = bool(values[-1] > values[0] + INVARIANT and np.diff(values).min() > -TURN)
    return ClaimJudgement(
        rises, f"From {value_text(values[0])} with all boxes to {value_text(values[-1])} with none."
    )


@MAIN.judge("predicting-nothing-wins")
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


@MAIN.judge("false-alarms-become-true-negatives")
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


@MAIN.judge("ap-and-rodeo-fall-with-underprediction")
def _(run: RodeoRun) -> ClaimJudgement:
    names = (*PRECISIONS, "RoDeO")
    first, last = ends_text(run, "figure-4", names)
    return ClaimJudgement(
        joint_verdict(which(run, "figure-4", names, smooth)),
        f"From {first} to {last} with no box left, {rise_text(run, 'figure-4', names)}.",
    )


@MAIN.judge("rodeo-falls-with-overprediction")
def _(run: RodeoRun) -> ClaimJudgement:
    first, last = ends_text(run, "figure-5", RODEO)
    x = run.curve("figure-5", "RoDeO")[0][-1]
    return ClaimJudgement(
        joint_verdict(which(run, "figure-5", RODEO, falls)),
        f"Without copies {first}; with {x:g} copies per box on average {last}.",
    )


@MAIN.judge("rodeo-decays-exponentially")
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


@MAIN.judge("ap-ignores-overprediction")
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


@MAIN.judge("ap50-rises-with-overprediction")
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


@MAIN.judge("accuracy-falls-with-overprediction")
def _(run: RodeoRun) -> ClaimJudgement:
    first, last = ends_text(run, "figure-5", ACCURACIES)
    return ClaimJudgement(
        joint_verdict(which(run, "figure-5", ACCURACIES, falls)), f"From {first} to {last}."
    )


@MAIN.judge("rodeo-cannot-be-tricked")
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


@RANDOM.judge("random-boxes-score-low")
def _(run: RodeoRun) -> ClaimJudgement:
    names = ("RoDeO", *PRECISIONS)
    top = [float(run.grid("figure-7", name).max()) for name in names]
    return ClaimJudgement(
        joint_verdict([value < 0.5 for value in top]),
        f"The highest values on the grid: {values_text(names, top)}.",
        "RoDeO is not very low: the classes are perfect here, and RoDeO/loc of a random place in "
        "the image is far from zero.",
    )


@RANDOM.judge("accuracy-high-for-random-boxes")
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


@RANDOM.judge("shape-peaks-at-the-usual-size")
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


@RANDOM.judge("overlap-prefers-large-random-boxes")
def _(run: RodeoRun) -> ClaimJudgement:
    names, usual = (*PRECISIONS, *ACCURACIES), usual_side(run)
    best = []
    for name in names:
        sides, values = run.curve("figure-7", name)
        best.append(float(sides[values.argmax()]))
    sides_in_words = ", ".join(f"{name} {side:g}" for name, side in zip(names, best))
    return ClaimJudgement(
        joint_verdict([side > usual for side in best]),
        f"Best side: {sides_in_words}; usual {usual:.2f}.",
    )


@APPENDIX.judge("all-decline-with-added-classes")
def _(run: RodeoRun) -> ClaimJudgement:
    return all_decline(run, "figure-10")


@APPENDIX.judge("added-classes-decay-exponentially")
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


@APPENDIX.judge("accuracy-falls-linearly")
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


@APPENDIX.judge("all-decline-with-confused-classes")
def _(run: RodeoRun) -> ClaimJudgement:
    return all_decline(run, "figure-11")


@APPENDIX.judge("accuracy-never-zero")
def _(run: RodeoRun) -> ClaimJudgement:
    last = [float(run.curve("figure-11", name)[1][-1]) for name in ACCURACIES]
    cls = float(run.curve("figure-11", "RoDeO/cls")[1][-1])
    return ClaimJudgement(
        bool(min(last) > 0.5),
        f"With all classes permuted: {values_text(ACCURACIES, last)}; RoDeO/cls {value_text(cls)}.",
        f"A random permutation leaves one class in {len(run.cohort.classes)} right, so this is "
        "chance, not complete misprediction; the true negatives would stay in either case.",
    )


@APPENDIX.judge("loc-and-shape-ignore-classes")
def _(run: RodeoRun) -> ClaimJudgement:
    note = "Nearly: in images with several boxes, the class influences which boxes are paired."
    return both_invariant(run, "figure-11", ("RoDeO/loc", "RoDeO/shape"), note=note)


TABLE, DESIGN = Claims[RodeoRun](rules=RULES), Claims[RodeoRun](rules=RULES)


@TABLE.judge("table-1-totals")
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
        basis="printed",
    )


@TABLE.judge("map-hides-what-rodeo-shows")
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
        basis="printed",
    )


@TABLE.judge("accuracy-praises-pneumonia")
def _(run: RodeoRun) -> ClaimJudgement:
    rows = {name: row for name, row in PRINTED.items() if name != "Total"}
    pneumonia = rows["Pneumonia"]
    # The rank is one more than the number of classes with a higher value; no two are equal.
    by_accuracy = by_class = 1
    for row in rows.values():
        by_accuracy += row[4] > pneumonia[4]
        by_class += row[0] > pneumonia[0]
    return ClaimJudgement(
        bool(by_accuracy <= 3 and by_class == len(rows)),
        f"Pneumonia is number {by_accuracy} of {len(rows)} in accuracy@0.3 ({pneumonia[4]:g} %), "
        f"and number {by_class} in RoDeO/cls ({pneumonia[0]:g} %).",
        FROM_PRINT,
        basis="printed",
    )


@TABLE.judge("nodules-fail-in-shape")
def _(run: RodeoRun) -> ClaimJudgement:
    cls, loc, shape = PRINTED["Nodule"][:3]
    return ClaimJudgement(
        bool(shape < loc < cls),
        f"RoDeO/shape {shape:g}, RoDeO/loc {loc:g}, RoDeO/cls {cls:g} (%).",
        FROM_PRINT,
        basis="printed",
    )


NO_NETWORK = ClaimJudgement(None, "No network was trained for this run.", is_tested=False)


@TABLE.judge("map-hides-what-rodeo-shows-trained")
def _(run: RodeoRun) -> ClaimJudgement:
    if not run.trained:
        return NO_NETWORK
    flags, words = [], []
    for network, table in run.trained.items():
        pairs = [pair for pair in permutations(table, 2) if _hidden_by_map(table, *pair)]
        flags.append(bool(pairs))
        if not pairs:
            words.append(f"{network}: no such pair among {len(table)} classes{_alike(table)}")
            continue
        one, other = pairs[0]
        names = (MEAN_AP, *PARTS)
        first = [table[one][name] for name in names]
        second = [table[other][name] for name in names]
        words.append(
            f"{network}: {len(pairs)} pairs, such as {one} ({values_text(names, first)}) and "
            f"{other} ({values_text(names, second)})"
        )
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".", ONE_TRAINING)


def _alike(table: Mapping[str, Mapping[str, float]]) -> str:
    """Return, of the pairs of classes with alike mAP, the one that differs most in RoDeO."""
    pairs = []
    for one, other in combinations(table, 2):
        if abs(table[one][MEAN_AP] - table[other][MEAN_AP]) < ALIKE:
            pairs.append((abs(table[one]["RoDeO"] - table[other]["RoDeO"]), one, other))
    if not pairs:
        return ", and no two have alike mAP"
    _, one, other = max(pairs)
    first, second = table[one], table[other]
    return (
        f"; of those with alike mAP {one} and {other} differ most in RoDeO: mAP "
        f"{value_text(first[MEAN_AP])} and {value_text(second[MEAN_AP])}, RoDeO "
        f"{value_text(first['RoDeO'])} and {value_text(second['RoDeO'])}"
    )


def _hidden_by_map(table: Mapping[str, Mapping[str, float]], one: str, other: str) -> bool:
    """Return whether mAP is alike, ``one`` better classified and ``other`` better placed."""
    first, second = table[one], table[other]
    if not abs(first[MEAN_AP] - second[MEAN_AP]) < ALIKE:
        return False
    places = [second[name] - first[name] >= HIGHER for name in ("RoDeO/loc", "RoDeO/shape")]
    return first["RoDeO/cls"] - second["RoDeO/cls"] >= HIGHER and any(places)


@TABLE.judge("accuracy-praises-what-is-misclassified-trained")
def _(run: RodeoRun) -> ClaimJudgement:
    if not run.trained:
        return NO_NETWORK
    flags, words = [], []
    for network, table in run.trained.items():
        worst = min(table, key=lambda label: table[label]["RoDeO/cls"])
        accuracy = table[worst]["accuracy@0.3"]
        rank = 1 + sum(values["accuracy@0.3"] > accuracy for values in table.values())
        flags.append(rank <= len(table) / 2)
        words.append(
            f"{network}: {worst}, RoDeO/cls {value_text(table[worst]['RoDeO/cls'])}, is number "
            f"{rank} of {len(table)} in accuracy@0.3 ({value_text(accuracy)})"
        )
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".", ONE_TRAINING)


@TABLE.judge("nodules-fail-in-shape-trained")
def _(run: RodeoRun) -> ClaimJudgement:
    tables = [table for table in run.trained.values() if "nodule" in table]
    if not tables:
        return NO_NETWORK
    nodule = tables[0]["nodule"]
    shape, loc, cls = (nodule[f"RoDeO/{part}"] for part in ("shape", "loc", "cls"))
    outcome: bool | None = bool(shape < loc < cls)
    if not outcome and shape < min(loc, cls):
        outcome = None
    return ClaimJudgement(
        outcome,
        f"RoDeO/shape {value_text(shape)}, RoDeO/loc {value_text(loc)}, RoDeO/cls "
        f"{value_text(cls)}.",
        ONE_TRAINING,
    )


@DESIGN.judge("hausdorff-is-linear")
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


@DESIGN.judge("ciou-fast-then-slow")
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


@DESIGN.judge("ciou-is-relative")
def _(run: RodeoRun) -> ClaimJudgement:
    centred, hausdorff = [], []
    for side in (SMALL_, USUAL):
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
        f"A box twice as wide and high as a reference of {SMALL_:g} and of {USUAL:g} of the image: "
        f"centred IoU {value_text(centred[0])} and {value_text(centred[1])}, Hausdorff similarity "
        f"{value_text(hausdorff[0])} and {value_text(hausdorff[1])}. Over 200 000 random pairs "
        f"centred IoU lies between {value_text(values.min())} and {value_text(values.max())}.",
    )


@DESIGN.judge("harmonic-is-capped")
def _(run: RodeoRun) -> ClaimJudgement:
    parts = np.random.default_rng(0).uniform(1e-6, 1.0, (100_000, 3))
    mean = 3.0 / (1.0 / parts).sum(axis=1)
    cap = float((mean / parts.min(axis=1)).max())
    better = np.minimum(parts + np.array([0.0, 0.01, 0.0]), 1.0)
    n_falls = int((3.0 / (1.0 / better).sum(axis=1) < mean).sum())
    return ClaimJudgement(
        joint_verdict([cap <= 3.0, n_falls == 0]),
        f"Over 100 000 random sub-scores it is at most {cap:.3f} times the worst (the bound is "
        f"3), and fell {n_falls} times when one of them grew.",
    )


@DESIGN.judge("other-summaries-fail")
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


@DESIGN.judge("only-cls-can-be-zero")
def _(run: RodeoRun) -> ClaimJudgement:
    last = [float(run.curve("figure-4", name)[1][-1]) for name in PARTS]
    return ClaimJudgement(
        bool(last[0] > 0 and last[1] > 0),
        f"With no prediction at all: {values_text(PARTS, last)}.",
        "True for matched pairs. Without any pair, all three parts and the total are zero.",
    )
