# SPDX-License-Identifier: Apache-2.0
"""Claims about maps, bag by bag: interchangeable scores, thresholds, stability and localization.

They are judged on the maps of trained networks, or on those that the user brings. Only the claim
that stable models may be wrong is also shown on a simulated pair, which was made for it. Each
function judges one statement by a `StabilityRun`, by the rule of ``claims.toml``; `study` joins
them in the order of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calipers.arrays import F64, Flags
from calipers.show.words import interval_in_words, percent_text
from calipers.stability.evidence import bag_means, pair_scores
from calipers.stability.result import StabilityResult
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict, number_text
from calipers.studies.open_choices import ScanShare
from calipers.studies.stability.data import (
    DESCRIBED_BAGS,
    INTERCHANGEABLE,
    PASCAL,
    RULES,
    TABLE_VI,
    XRAY,
)
from calipers.studies.stability.experiments import (
    PAIR,
    StabilityRun,
    column_correlation,
    mean_and_sd,
    values_text,
)
from calipers.studies.stability.networks import CHESTS

CHOICE = Claims[StabilityRun](rules=RULES)
BAGS = Claims[StabilityRun](rules=RULES)
DISCUSSION = Claims[StabilityRun](rules=RULES)
SAME, LINEAR = RULES.limit("same"), RULES.limit("linear")
JUMP, MOVES = RULES.limit("jump"), RULES.limit("moves")
GOOD_DICE, LOW_STABILITY = RULES.limit("good_dice"), RULES.limit("low_stability")
STABLE, WRONG = RULES.limit("stable"), RULES.limit("wrong")
ANNOTATED = int(RULES.limit("annotated"))


@CHOICE.judge("apj-and-aj-interchangeable")
def _(run: StabilityRun) -> ClaimJudgement:
    values, n, words = _between(run, "APJ", "AJ")
    if np.isnan(values).any():
        return _no_scores(run)
    return ClaimJudgement(
        bool(min(values) >= SAME),
        f"Over {n} bags of {run.cells_text}: {words}.",
        "An identity, not a finding: APJ = AJ / (2 - AJ), so over single pairs their rank "
        "correlation is exactly 1, for any models. Over bags it is less than 1 only because bags "
        "are means of pairs.",
    )


@CHOICE.judge("kendall-and-spearman-interchangeable")
def _(run: StabilityRun) -> ClaimJudgement:
    values, n, words = _between(run, "Kendall-b", "Spearman")
    if np.isnan(values).any():
        return _no_scores(run)
    one = run.ties
    return ClaimJudgement(
        bool(min(values) >= SAME),
        f"Over {n} bags of {run.cells_text}, tau-b: {words}.",
        "In order, not in size: tau-b is lower. The paper does not name the variant; on the "
        f"simulated map with many zeros tau-a is {one.tau_a['with ties']:.2f} where tau-b is "
        f"{one.tau_b['with ties']:.2f}.",
    )


def _no_scores(run: StabilityRun) -> ClaimJudgement:
    return ClaimJudgement(
        None, f"Not tested: too few bags of {run.cells_text} have a score.", is_tested=False
    )


def _between(run: StabilityRun, one: str, other: str) -> tuple[list[float], int, str]:
    """Return Pearson's and Spearman's correlation of two scores over all bags of all cells, n, and
    words.
    """
    first = np.concatenate([cell.per_bag(one) for cell in run.cells.values()])
    second = np.concatenate([cell.per_bag(other) for cell in run.cells.values()])
    n = int((~np.isnan(first) & ~np.isnan(second)).sum())
    values = [column_correlation(first, second, method) for method in ("pearson", "spearman")]
    in_paper = next(value for pair, value in INTERCHANGEABLE.items() if set(pair) == {one, other})
    words = f"Pearson {values[0]:.3f}, Spearman {values[1]:.3f} (printed {in_paper:.2f})"
    return values, n, words


@CHOICE.judge("stability-falls-with-threshold")
def _(run: StabilityRun) -> ClaimJudgement:
    lower, steady, falls = [], [], []
    for result in run.cells.values():
        values = np.array([estimate.value for estimate in result.sweep("APJ")[1]])
        # At some thresholds all maps call everything alike, and the score is undefined.
        values = values[~np.isnan(values)]
        if len(values) < 2:
            continue
        lower.append(bool(values[-1] < values[0] - MOVES))
        falls.append(bool(np.diff(values).max() <= MOVES))
        steady.append(bool(np.abs(np.diff(values)).max() <= JUMP))
    if not lower:
        return _no_scores(run)
    flags = [all(parts) for parts in zip(lower, falls, steady)]
    return ClaimJudgement(
        joint_verdict(flags),
        f"Of {len(lower)} pairs of setting and operator, APJ at 0.9 is lower than at 0.1 in "
        f"{sum(lower)}; it never rises on the way in {sum(falls)}, and never jumps (by more than "
        f"{JUMP:g} from one threshold to the next) in {sum(steady)}.",
        "The marked area shrinks as the threshold rises, and small areas agree less. Where the "
        "background is not dark, low thresholds pick up its noise. Scores without a threshold "
        "avoid the choice. The paper prints no numbers here.",
        share=ScanShare.of(flags, "pairs of setting and operator"),
    )


@BAGS.judge("stable-means-none-or-all")
def _(run: StabilityRun) -> ClaimJudgement:
    from calipers.data.bags import ArrayBags
    from calipers.stability.analyse import stability

    disputed, alike = [], []
    for key, cell in run.cells.items():
        disputed.append(cell.called().some)
        bags = run.bags[key]
        repeated = ArrayBags.of(
            [np.repeat(bags[i].values[:1], 5, axis=0) for i in range(len(bags))]
        )
        same = stability(repeated, ci=False)
        value = same["APJ"].value
        # No value: the first model calls nothing, or everything, on all bags.
        alike.append(same.called().some == 0 and (np.isnan(value) or abs(value - 1) < 1e-12))
    n = sum(value > 0 for value in disputed)
    return ClaimJudgement(
        joint_verdict([all(alike), n == len(disputed)]),
        f"The first model of {len(alike)} cells repeated five times: no instance is called by some "
        f"but not all in {sum(alike)}. The trainings themselves: {percent_text(min(disputed))} to "
        f"{percent_text(max(disputed))} of the instances are.",
    )


@BAGS.judge("good-localization-without-stability")
def _(run: StabilityRun) -> ClaimJudgement:
    good, low = 0, 0
    for cell in run.cells.values():
        stable, dice = _stable_and_dice(cell)
        localized = dice >= GOOD_DICE
        good += int(localized.sum())
        low += int((localized & (stable < LOW_STABILITY)).sum())
    if not _annotated_cells(run):
        return _no_annotations(run)
    apj, _, bag_dice = DESCRIBED_BAGS["figure 5b (X-Ray)"]
    jaccard = bag_dice / (2 - bag_dice)
    return ClaimJudgement(
        low > 0,
        f"{good} bags of {run.cells_text} have a mean DICE of {GOOD_DICE:g} or more; APJ is below "
        f"{LOW_STABILITY:g} in {low} of them (printed for one bag: {bag_dice:.2f} and {apj:.2f}).",
        "Only a weak bound links the two: the mean PJ of pairs is at least 2 J - 1 with J the "
        f"mean Jaccard index against the reference. DICE {bag_dice:.2f} is J = {jaccard:.2f}, so "
        f"PJ may be as low as {2 * jaccard - 1:.2f}.",
    )


def _stable_and_dice(cell: StabilityResult, name: str = "APJ") -> tuple[F64, F64]:
    """Return a score and the mean DICE over models of the annotated positive bags."""
    places = cell.localized.places
    if not len(places):
        return np.empty(0), np.empty(0)
    return cell.per_bag(name)[places], cell.localized.per_bag("DICE")[0]


def _annotated_cells(run: StabilityRun) -> dict[str, StabilityResult]:
    """Return NOR, or the first operator, of every setting that has annotated bags."""
    cells: dict[str, StabilityResult] = {}
    for setting in run.settings:
        cell = run.cells[run.first_key(setting)]
        if len(cell.localized.places) >= ANNOTATED:
            cells[setting] = cell
    return cells


def _no_annotations(run: StabilityRun) -> ClaimJudgement:
    return ClaimJudgement(
        None, f"Not tested: {run.cells_text} have too few annotated bags.", is_tested=False
    )


@BAGS.judge("stability-linear-in-dice")
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for setting, cell in _annotated_cells(run).items():
        for score in ("APJ", "Spearman"):
            value = column_correlation(*_stable_and_dice(cell, score))
            if not np.isnan(value):
                values[f"{setting} {score}"] = value
    if not values:
        return _no_annotations(run)
    flags = [value >= LINEAR for value in values.values()]
    return ClaimJudgement(
        joint_verdict(flags),
        f"Pearson's correlation with DICE over bags of {run.cells_text}: {values_text(values)}.",
        "The paper prints no numbers of figures 6 and 7.",
        share=ScanShare.of(flags, "correlations"),
    )


@BAGS.judge("low-stability-goes-with-varying-dice")
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for setting, cell in _annotated_cells(run).items():
        value = column_correlation(_stable_and_dice(cell)[0], cell.localized.per_bag("DICE")[1])
        if not np.isnan(value):
            values[setting] = value
    if not values:
        return _no_annotations(run)
    flags = [value <= -LINEAR for value in values.values()]
    return ClaimJudgement(
        joint_verdict(flags),
        "Pearson's correlation of APJ with the standard deviation of DICE over bags of "
        f"{run.cells_text}: {values_text(values)}.",
        "Where all models miss the object, DICE is 0 with a standard deviation of 0, however much "
        "they disagree.",
        share=ScanShare.of(flags, "settings"),
    )


@BAGS.judge("consistent-but-wrong")
def _(run: StabilityRun) -> ClaimJudgement:
    if not _annotated_cells(run):
        return _no_annotations(run)
    counts = {}
    total = 0
    for key, cell in run.cells.items():
        stable, dice = _stable_and_dice(cell)
        total += len(dice)
        n = int(((stable >= STABLE) & (dice <= WRONG)).sum())
        if n:
            counts[", ".join(key)] = n
    places = ", ".join(f"{name} {n}" for name, n in counts.items())
    return ClaimJudgement(
        bool(counts),
        f"Of {total} annotated bags of {run.cells_text}, {sum(counts.values())} have APJ of "
        f"{STABLE:g} or more and DICE of {WRONG:g} or less{f' ({places})' if places else ''}.",
    )


@BAGS.judge("low-quality-stable-and-wrong")
def _(run: StabilityRun) -> ClaimJudgement:
    flags, words = [], []
    for setting, poor in _poor_bags(run).items():
        cell = run.cells[run.first_key(setting)]
        stable, dice = _stable_and_dice(cell)
        gaps = [_gap(dice, poor), _gap(stable, poor)]
        flags += [gaps[0][0] < -2 * gaps[0][1], gaps[1][0] >= -JUMP]
        words.append(
            f"{setting}: DICE {mean_and_sd(dice[poor])[0]:.2f} against "
            f"{mean_and_sd(dice[~poor])[0]:.2f} ({gaps[0][0]:+.2f}, standard error "
            f"{gaps[0][1]:.2f}), APJ {mean_and_sd(stable[poor])[0]:.2f} against "
            f"{mean_and_sd(stable[~poor])[0]:.2f}"
        )
    if not flags:
        return _no_poor(run)
    return ClaimJudgement(
        joint_verdict(flags), f"Low quality against the others: {'; '.join(words)}."
    )


@BAGS.judge("low-quality-covers-picture")
def _(run: StabilityRun) -> ClaimJudgement:
    flags, words = [], []
    for setting, poor in _poor_bags(run).items():
        key = run.first_key(setting)
        bag_set = run.bag_set(setting)
        if bag_set is None:
            continue
        shares, touches = [], []
        for place in np.flatnonzero(poor).tolist():
            bag = run.bags[key][place]
            calls = (bag.values >= run.cells[key].threshold).reshape(-1, *bag.shape)
            inside = bag_set.inside[place]
            shares.append(calls[:, inside].mean())
            touches.append(calls[:, ~inside].any(axis=1).mean())
        flags += [float(np.mean(shares)) >= 0.5, float(np.mean(touches)) >= 0.5]
        words.append(
            f"{setting}: {percent_text(np.mean(shares))} of the picture is called, and some of the "
            f"padding in {percent_text(np.mean(touches))} of the maps"
        )
    if not flags:
        return _no_poor(run)
    return ClaimJudgement(joint_verdict(flags), f"Pictures of low quality, {'; '.join(words)}.")


def _poor_bags(run: StabilityRun) -> dict[str, Flags]:
    """Return, for every setting of the chests, which positive bags are of low quality."""
    result = {}
    for setting in run.settings:
        bag_set = run.bag_set(setting)
        if bag_set is not None and setting.startswith(CHESTS):
            result[setting] = bag_set.poor
    return result


def _no_poor(run: StabilityRun) -> ClaimJudgement:
    return ClaimJudgement(
        None,
        f"Not tested: {run.cells_text} have no pictures that are marked as of low quality.",
        is_tested=False,
    )


def _gap(values: F64, selection: Flags) -> tuple[float, float]:
    """Return the difference of two means and its standard error."""
    parts = [values[selection & ~np.isnan(values)], values[~selection & ~np.isnan(values)]]
    if min(map(len, parts)) < 2:
        return float("nan"), float("nan")
    errors = [part.std(ddof=1) / np.sqrt(len(part)) for part in parts]
    return float(parts[0].mean() - parts[1].mean()), float(np.hypot(*errors))


@BAGS.judge("x-ray-good-pascal-stable")
def _(run: StabilityRun) -> ClaimJudgement:
    x, y = TABLE_VI[XRAY], TABLE_VI[PASCAL]
    flags, words = [], []
    for k, name in enumerate(("APJ", "Spearman", "DICE")):
        (x_mean, x_sd), (y_mean, y_sd) = x.scores[k], y.scores[k]
        error = float(np.hypot(x_sd / np.sqrt(x.bags), y_sd / np.sqrt(y.bags)))
        gap = y_mean - x_mean
        words.append(f"{name} {x_mean:.2f} and {y_mean:.2f} ({gap / error:+.1f} standard errors)")
        # Pascal VOC is claimed to be the more stable, X-Ray the better localized.
        flags.append((gap if name != "DICE" else -gap) > 2 * error)
    return ClaimJudgement(
        joint_verdict(flags),
        f"As printed, for {x.bags} and {y.bags} bags: {', '.join(words)}.",
        "By Spearman far more, by APJ a little. Tables V and VII state different AUC and DICE "
        "for what seem the same X-Ray models (0.90 and 0.72, 0.88 and 0.75).",
        basis="printed",
    )


@DISCUSSION.judge("stable-is-not-good")
def _(run: StabilityRun) -> ClaimJudgement:
    good, wrong = (run.families[name] for name in PAIR)
    gap = abs(good["APJ"].value - wrong["APJ"].value)
    dice = [one.localized.mean("DICE") for one in (good, wrong)]
    return ClaimJudgement(
        bool(gap < 0.05 and dice[0] - dice[1] > 0.5),
        f"Two families, {good['APJ'].n_images} bags each: APJ {good['APJ'].value:.2f} and "
        f"{wrong['APJ'].value:.2f} ({interval_in_words(wrong['APJ'])}), DICE {dice[0]:.2f} "
        f"and {dice[1]:.3f}. Bag AUC is {good.localized.mean('AUC'):.2f} for both.",
        basis="made",
    )


@dataclass(frozen=True, slots=True)
class LocatedBags:
    """Annotated bags of one setting: how stable, how well localized, and what arithmetic allows."""

    apj: F64  # of the bag, the mean over pairs of models
    worst: F64  # the lowest DICE of any model
    spare: F64  # mean PJ of pairs less 2 J - 1, which is never negative


def located_bags(run: StabilityRun) -> dict[str, LocatedBags]:
    """Return the annotated bags of all operators with an APJ, by setting."""
    parts: dict[str, list[F64]] = {}
    for (setting, _), cell in run.cells.items():
        places = cell.localized.places
        if not len(places):
            continue
        here = cell.evidence.at(cell.threshold)
        pairs = bag_means(pair_scores(cell.evidence, "PJ", here))[places]
        least = 2 * cell.localized.values["Jaccard"].mean(axis=1) - 1
        worst = cell.localized.values["DICE"].min(axis=1)
        columns = np.column_stack([cell.per_bag("APJ")[places], worst, pairs - least])
        # Without an APJ, a bag is neither stable nor unstable.
        parts.setdefault(setting, []).append(columns[~np.isnan(columns[:, 0])])
    bags = {setting: np.concatenate(columns) for setting, columns in parts.items()}
    return {setting: LocatedBags(*columns.T) for setting, columns in bags.items() if len(columns)}


@DISCUSSION.judge("stability-is-a-prerequisite")
def _(run: StabilityRun) -> ClaimJudgement:
    settings = located_bags(run)
    if not settings:
        return _no_annotations(run)
    good, low = RULES.limit("good_dice"), RULES.limit("low_stability")
    flags, words = [], []
    n_good = n_exceptions = 0
    for setting, bags in settings.items():
        is_good, is_low = bags.worst >= good, bags.apj < low
        n_good += int(is_good.sum())
        n_exceptions += int((is_good & is_low).sum())
        if is_good.all() or not is_good.any() or is_low.all() or not is_low.any():
            continue
        shares = [float((~is_good[rows]).mean()) for rows in (is_low, ~is_low)]
        flags.append(shares[0] > shares[1])
        words.append(f"{setting} {percent_text(shares[0])} and {percent_text(shares[1])}")
    parts = [] if not flags else [all(flags)]
    if n_good:
        parts.insert(0, n_exceptions <= RULES.limit("exceptions") * n_good)
    if not parts:
        return ClaimJudgement(
            None,
            "Not tested: all annotated bags are alike in stability or in localization.",
            is_tested=False,
        )
    n = sum(len(bags.apj) for bags in settings.values())
    # Rounding may leave a tiny negative number, which would be printed as -0.00.
    spare = max(0.0, min(float(np.nanmin(bags.spare)) for bags in settings.values()))
    below = f"; localized worse by some model, below that APJ and above: {', '.join(words)}"
    return ClaimJudgement(
        joint_verdict(parts),
        f"Every model has a DICE of {good:g} or more on {n_good} of {n} annotated bags, of which "
        f"{n_exceptions} have an APJ below {low:g}{below if words else ''}.",
        "A bound by arithmetic stands behind it: 1 - Jaccard is a distance, so the mean PJ of "
        "pairs is at least 2 J - 1, with J the mean Jaccard index against the reference (here it "
        f"exceeds that by {spare:.2f} or more). It restricts PJ only where J is above one half "
        "(DICE above 2/3), and says nothing about the converse.",
    )


@DISCUSSION.judge("scores-are-complementary")
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for key, cell in run.cells.items():
        value = column_correlation(cell.per_bag("APJ"), cell.per_bag("Spearman"))
        if not np.isnan(value):
            values[", ".join(key)] = value
    if len(values) < 2:
        return ClaimJudgement(
            None,
            f"Not tested: {run.cells_text} have fewer than two cells with both scores.",
            is_tested=False,
        )
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return ClaimJudgement(
        bool(values[high] - values[low] > 0.2),
        f"Pearson's correlation over bags, {run.cells_text}: from {number_text(values[low])} "
        f"({low}) to {number_text(values[high])} ({high}).",
        "The paper prints no number of its own.",
    )


@DISCUSSION.judge("negative-bags-undefined")
def _(run: StabilityRun) -> ClaimJudgement:
    from calipers.data.bags import ArrayBags
    from calipers.stability.analyse import stability

    # All values are below the threshold of 0.5.
    empty = stability(ArrayBags.of(np.full((5, 4, 16, 16), 0.1)), ci=False)
    missing = empty.undefined("AJ")
    return ClaimJudgement(
        missing.pairs == missing.of_pairs,
        f"Five models that call nothing on 4 bags: {missing}. TAR and AC1 are "
        f"{empty['TAR'].value:.0f} and {empty['AC1'].value:.0f} there.",
        "Undefined pairs are skipped and counted; a second summary counts identical calls as 1.",
    )
