# SPDX-License-Identifier: Apache-2.0
"""Claims about maps, bag by bag: interchangeable scores, thresholds, stability and localization.

They are judged on simulated families, or on maps of networks if the user passes a folder. A family
that was designed to show something is no evidence for it: such a claim is not tested without maps.
Each function judges one statement by a `StabilityRun`; `study` joins them in the order of the
paper.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calipers.arrays import F64
from calipers.stability.evidence import bag_means, pair_scores
from calipers.stability.result import StabilityResult
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict, number_text
from calipers.studies.stability.data import (
    DESCRIBED_BAGS,
    INTERCHANGEABLE,
    PASCAL,
    TABLE_VI,
    XRAY,
    Summary,
)
from calipers.studies.stability.experiments import (
    IDENTICAL,
    SCATTERED,
    StabilityRun,
    column_correlation,
    values_text,
)
from calipers.synthetic.bags import FAMILIES

CHOICE, BAGS, DISCUSSION = Claims[StabilityRun](), Claims[StabilityRun](), Claims[StabilityRun]()
SAME = 0.95  # a correlation from here on counts as interchangeable
JUMP = 0.1  # a change of a score from one threshold to the next above this counts as a jump
MOVES = 0.02  # a change below this counts as none
LINEAR = 0.5  # a correlation from here on counts as linear
GOOD_DICE, LOW_STABILITY = 0.7, 0.4  # as the bag of figure 5b
STABLE, WRONG = 0.6, 0.2  # APJ from here on is stable, DICE up to here is wrong
ANNOTATED = 5  # bags, to say something about them


@CHOICE.statement(
    "apj-and-aj-interchangeable",
    "APJ and AJ are interchangeable: their correlation over bags is 0.98.",
    "section IV-F",
)
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


@CHOICE.statement(
    "kendall-and-spearman-interchangeable",
    "Kendall's tau and Spearman's correlation are interchangeable: their correlation over bags is "
    "0.99.",
    "section IV-F",
)
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


@CHOICE.statement(
    "stability-falls-with-threshold",
    "Stability tends to decrease, steadily and without jumps, as the threshold goes from 0.1 to "
    "0.9.",
    "section IV-G",
)
def _(run: StabilityRun) -> ClaimJudgement:
    lower, steady, falls = [], [], []
    results, words = list(run.cells.values()), "pairs of data set and operator"
    if not run.has_maps:
        results += [run.families[name] for name in FAMILIES]
        words = "simulated families"
    for result in results:
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
    return ClaimJudgement(
        joint_verdict([all(flags) for flags in zip(lower, falls, steady)]),
        f"Of {len(lower)} {words}, APJ at 0.9 is lower than at 0.1 in {sum(lower)}; it never "
        f"rises on the way in {sum(falls)}, and never jumps (by more than {JUMP:g} from one "
        f"threshold to the next) in {sum(steady)}.",
        "The marked area shrinks as the threshold rises, and small areas agree less. But where "
        "the background is not dark, low thresholds pick up its noise, and stability is highest "
        "in between. Scores without a threshold avoid the choice. The paper prints no numbers "
        "here.",
    )


@BAGS.statement(
    "stable-means-none-or-all",
    "Perfectly stable classifiers call every instance 0 or 5 times; anything between shows "
    "instability.",
    "section V-B, figure 5",
)
def _(run: StabilityRun) -> ClaimJudgement:
    identical, unstable = run.families[IDENTICAL], run.families["unstable"]
    some_shares = [result.called().some for result in (identical, unstable)]
    return ClaimJudgement(
        joint_verdict(
            [some_shares[0] == 0, some_shares[1] > 0, abs(identical["APJ"].value - 1) < 1e-12]
        ),
        f"Five times the same model: {some_shares[0]:.1%} of the instances are called by some but "
        f"not all, APJ {identical['APJ'].value:.2f} (n = {identical['APJ'].n_images} bags). The "
        f"unstable family: {some_shares[1]:.1%}, APJ {unstable['APJ'].value:.2f}.",
    )


@BAGS.statement(
    "good-localization-without-stability",
    "Good localization does not lead to stable predictions: a bag has DICE 0.70 and APJ 0.34.",
    "section V-B, figure 5b",
)
def _(run: StabilityRun) -> ClaimJudgement:
    good, low = 0, 0
    for cell in run.cells.values():
        stable, dice = _stable_and_dice(cell)
        localized = dice >= GOOD_DICE
        good += int(localized.sum())
        low += int((localized & (stable < LOW_STABILITY)).sum())
    scattered_bags = run.families[SCATTERED]
    apj, _, bag_dice = DESCRIBED_BAGS["figure 5b (X-Ray)"]
    jaccard = bag_dice / (2 - bag_dice)
    own = scattered_bags.localized.mean("DICE"), scattered_bags["APJ"].value
    outcome = bool(own[0] >= GOOD_DICE - MOVES and own[1] < LOW_STABILITY)
    if run.has_maps and good:
        outcome = low > 0
    return ClaimJudgement(
        outcome,
        "A family whose models mark the right place, each with errors of its own: DICE "
        f"{own[0]:.2f}, APJ {own[1]:.2f} (n = {scattered_bags.n_used} bags; printed for one bag: "
        f"{bag_dice:.2f} and {apj:.2f}). Bags of {run.cells_text} with a mean DICE of "
        f"{GOOD_DICE:g} or more: {good}, of which APJ is below {LOW_STABILITY:g} in {low}.",
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


def annotated_cells(run: StabilityRun) -> dict[str, StabilityResult]:
    """Return the first cell of every data set that has annotated bags (simulated: NOR)."""
    cells: dict[str, StabilityResult] = {}
    for (data, _), cell in run.cells.items():
        if len(cell.localized.places) >= ANNOTATED and (run.has_maps or data in (XRAY, PASCAL)):
            cells.setdefault(data, cell)
    return cells


@BAGS.statement(
    "stability-linear-in-dice",
    "Over bags, both stability scores grow linearly with DICE (X-Ray; Pascal VOC: APJ only).",
    "section V-C, figures 6 and 7",
)
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for data, cell in annotated_cells(run).items():
        for score in ("APJ", "Spearman"):
            values[f"{data} {score}"] = column_correlation(*_stable_and_dice(cell, score))
    sentence = (
        f"Pearson's correlation with DICE over bags of {run.cells_text}: {values_text(values)}."
    )
    if not run.has_maps:
        return _needs_maps(sentence, "figures 6 and 7 print no numbers")
    if not values:
        return _needs_maps("", "no data set has enough annotated bags")
    return ClaimJudgement(joint_verdict([value >= LINEAR for value in values.values()]), sentence)


@BAGS.statement(
    "low-stability-goes-with-varying-dice",
    "Bags of low stability have a large standard deviation of DICE over classifiers, those of "
    "high stability a small one.",
    "section V-C, figure 6",
)
def _(run: StabilityRun) -> ClaimJudgement:
    values = {}
    for data, cell in annotated_cells(run).items():
        values[data] = column_correlation(
            _stable_and_dice(cell)[0], cell.localized.per_bag("DICE")[1]
        )
    sentence = (
        "Pearson's correlation of APJ with the standard deviation of DICE over bags of "
        f"{run.cells_text}: {values_text(values)}."
    )
    if not run.has_maps:
        return _needs_maps(sentence, "figure 6 prints no numbers")
    if not values:
        return _needs_maps("", "no data set has enough annotated bags")
    return ClaimJudgement(joint_verdict([value <= -LINEAR for value in values.values()]), sentence)


def _needs_maps(sentence: str, why: str) -> ClaimJudgement:
    """Return the judgement of a claim that needs maps of networks."""
    note = (
        "The families were designed to have such clusters, so they are no evidence; pass maps of "
        "networks with --data FOLDER."
    )
    return ClaimJudgement(None, f"Not tested: {why}. {sentence}".strip(), note, is_tested=False)


@BAGS.statement(
    "consistent-but-wrong",
    "There are bags with high stability and low DICE: the localization is consistent, and "
    "incorrect.",
    "sections V-C and VI-A, figure 7",
)
def _(run: StabilityRun) -> ClaimJudgement:
    wrong = run.families["stable-wrong"]
    pairs = [_stable_and_dice(cell) for cell in run.cells.values()]
    stable = np.concatenate([pair[0] for pair in pairs])
    dice = np.concatenate([pair[1] for pair in pairs])
    n = int(((stable >= STABLE) & (dice <= WRONG)).sum())
    family = f"APJ {wrong['APJ'].value:.2f} and DICE {wrong.localized.mean('DICE'):.3f}"
    if run.has_maps and not len(dice):
        return ClaimJudgement(
            True, f"The family stable-wrong has {family}; the given maps have no annotated bags."
        )
    outcome = bool(wrong["APJ"].value >= STABLE and wrong.localized.mean("DICE") <= WRONG)
    note = "This shows that it is possible; only networks can show how often it happens."
    if run.has_maps:
        outcome, note = n > 0, ""
    return ClaimJudgement(
        outcome,
        f"The family stable-wrong has {family}. Of {len(dice)} annotated bags of "
        f"{run.cells_text}, {n} have APJ of {STABLE:g} or more and DICE of {WRONG:g} or less.",
        note,
    )


@BAGS.statement(
    "x-ray-good-pascal-stable",
    "X-Ray has the better localization but is not very stable; Pascal VOC localizes worse but is "
    "far more stable.",
    "section V-C, table VI",
)
def _(run: StabilityRun) -> ClaimJudgement:
    summaries: Mapping[str, Summary] = TABLE_VI
    if run.has_maps:
        summaries = {data: _summary(cell) for data, cell in annotated_cells(run).items()}
    if XRAY not in summaries or PASCAL not in summaries:
        return ClaimJudgement(
            None,
            f"Not tested: the given maps have no annotated {XRAY} and {PASCAL}.",
            is_tested=False,
        )
    x, y = summaries[XRAY], summaries[PASCAL]
    flags, words = [], []
    for k, name in enumerate(("APJ", "Spearman", "DICE")):
        (x_mean, x_sd), (y_mean, y_sd) = x.scores[k], y.scores[k]
        error = float(np.hypot(x_sd / np.sqrt(x.bags), y_sd / np.sqrt(y.bags)))
        gap = y_mean - x_mean
        words.append(f"{name} {x_mean:.2f} and {y_mean:.2f} ({gap / error:+.1f} standard errors)")
        # Pascal VOC is claimed to be the more stable, X-Ray the better localized.
        flags.append((gap if name != "DICE" else -gap) > 2 * error)
    source, note = "In the given maps", ""
    if not run.has_maps:
        source = "As printed"
        note = (
            "By Spearman far more, by APJ a little. Tables V and VII state different AUC and DICE "
            "for what seem the same X-Ray models (0.90 and 0.72, 0.88 and 0.75)."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{source}, for {x.bags} and {y.bags} bags: {', '.join(words)}.",
        note,
    )


def _summary(cell: StabilityResult) -> Summary:
    """Return mean and standard deviation of APJ, Spearman and DICE over annotated bags, and n."""
    apj, dice = _stable_and_dice(cell)
    rank, _ = _stable_and_dice(cell, "Spearman")
    means = []
    for column in (apj, rank, dice):
        means.append((float(np.nanmean(column)), float(np.nanstd(column))))
    return Summary(tuple(means), len(dice))


@DISCUSSION.statement(
    "stable-is-not-good",
    "Stable models are not necessarily good at localization.",
    "section VI-A",
)
def _(run: StabilityRun) -> ClaimJudgement:
    good, wrong = run.families["stable-good"], run.families["stable-wrong"]
    gap = abs(good["APJ"].value - wrong["APJ"].value)
    dice = [one.localized.mean("DICE") for one in (good, wrong)]
    low, high = wrong["APJ"].low, wrong["APJ"].high
    return ClaimJudgement(
        bool(gap < 0.05 and dice[0] - dice[1] > 0.5),
        f"Two families, {good['APJ'].n_images} bags each: APJ {good['APJ'].value:.2f} and "
        f"{wrong['APJ'].value:.2f} (95 % interval {low:.2f} to {high:.2f}), DICE {dice[0]:.2f} "
        f"and {dice[1]:.3f}. Bag AUC is {good.localized.mean('AUC'):.2f} for both.",
    )


@DISCUSSION.statement(
    "stability-is-a-prerequisite",
    "Stability is a prerequisite for good localization: low stability means that not all models "
    "localize well.",
    "sections I and VI-A",
)
def _(run: StabilityRun) -> ClaimJudgement:
    short, n = 0, 0
    for cell in (*run.cells.values(), *run.families.values()):
        places = cell.localized.places
        if len(places):
            # 1 - Jaccard is a metric, so PJ of two models is at least J1 + J2 - 1.
            here = cell.evidence.at(cell.threshold)
            pairs = bag_means(pair_scores(cell.evidence, "PJ", here))[places]
            least = 2 * cell.localized.values["Jaccard"].mean(axis=1) - 1
            defined = ~np.isnan(pairs)
            # The tolerance covers rounding only.
            short += int((pairs[defined] < least[defined] - 1e-12).sum())
            n += int(defined.sum())
    unstable = run.families["unstable"]
    return ClaimJudgement(
        short == 0,
        f"On {n - short} of {n} annotated bags the mean PJ of pairs is at least 2 J - 1, with J "
        "the mean Jaccard index against the reference. The unstable family: APJ "
        f"{unstable['APJ'].value:.2f}, mean DICE {unstable.localized.mean('DICE'):.2f}.",
        "A theorem: 1 - Jaccard is a distance, so two models near the reference are near each "
        "other. It only restricts PJ if J is above one half (DICE above 2/3), and it says nothing "
        "about the converse.",
    )


@DISCUSSION.statement(
    "scores-are-complementary",
    "APJ and Spearman correlate to a varying degree: they are complementary.",
    "section VI-A",
)
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
        "" if run.has_maps else "The paper prints none of its own.",
    )


@DISCUSSION.statement(
    "negative-bags-undefined",
    "On bags in which nothing is called, AJ is undefined and gives no insight.",
    "section VI-C1",
)
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
