# SPDX-License-Identifier: Apache-2.0
"""Claims of the study of anomaly maps: metrics, controlled experiments (a) to (e), benchmark.

Statements, rules and limits stand in ``claims.toml``. Each function here judges one statement by an
`AnomalyRun`; `study.run` judges them in the order of the rules, which is that of the paper: its
metrics and controlled experiments first, then its benchmark and its discussion.
"""

from __future__ import annotations

import numpy as np

from calipers.show.words import percent_text
from calipers.studies.anomaly.archive import SEEN, SLICES, VOLUMES, Benchmark
from calipers.studies.anomaly.controlled import (
    AS_MANY,
    CALLED,
    EXACT,
    FAINT,
    MOVES,
    RULES,
    STEADY,
    STRONG,
    TOUCHING,
    Response,
)
from calipers.studies.anomaly.experiments import (
    DESIRED_CHANGES,
    HALF,
    AnomalyRun,
    agreement,
    count_desired_changes,
    tau_between,
)
from calipers.studies.anomaly.measures import (
    AREAS,
    F1S,
    GRADED,
    INSTANCE,
    LENIENT,
    METRICS,
    PRINTED,
    RANKING,
    SOFT,
)
from calipers.studies.framework import ClaimJudgement, Claims, joint_verdict, number_text

CLAIMS: Claims[AnomalyRun] = Claims(rules=RULES)
BOTH = ("2D", "3D")

CLOSE = RULES.limit("close")  # two orders with a tau-b of at least this count as close
HIDDEN = RULES.limit("hidden")  # from here on the share of unseen false voxels is large
FREQUENT = RULES.limit("frequent")
DIFFERENT = RULES.limit("changed-order")
MOST = RULES.limit("most")


@CLAIMS.judge("undefined-without-objects")
def _(run: AnomalyRun) -> ClaimJudgement:
    empty = run.controlled.probes["2D"]["empty"]
    undefined_names = [name for name in (*RANKING, *AREAS) if np.isnan(empty[name])]
    others = ", ".join(f"{name} {number_text(empty[name])}" for name in ("softIoU", "F1@0.5"))
    return ClaimJudgement(
        len(undefined_names) == len(RANKING) + len(AREAS),
        f"On samples without objects and without positive voxels {', '.join(undefined_names)} are "
        f"undefined; {others}.",
        "Metrics by sample or by slice skip and count such samples; metrics of the data set count "
        "their voxels as negatives.",
    )


@CLAIMS.judge("pooling-favours-large-objects")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for name in BOTH:
        probes = run.controlled.probes[name]
        large, small = probes["large"]["AP/dataset"], probes["small"]["AP/dataset"]
        flags.append(large > small)
        parts.append(f"{name}: AP {number_text(large)} against {number_text(small)}")
    probes = run.controlled.probes["2D"]
    soft = [number_text(probes[part]["softIoU"]) for part in ("large", "small")]
    return ClaimJudgement(
        joint_verdict(flags),
        f"Two large objects of six are found, against four small ones. {'; '.join(parts)}; "
        f"softIoU {' against '.join(soft)}.",
        "AP per sample does so too if large and small objects lie in one sample: what matters is "
        "that voxels are counted, not where they are pooled.",
    )


@CLAIMS.judge("printed-formula")
def _(run: AnomalyRun) -> ClaimJudgement:
    perfect = run.controlled.probes["2D"]["all"]
    return ClaimJudgement(
        abs(perfect[PRINTED] - 1.0) < EXACT,
        f"A perfect map gets {number_text(perfect[PRINTED])} by the printed formula at a = 0.5, "
        f"and {number_text(perfect['softIoU'])} by the soft Tversky index that is used here.",
        "As printed a perfect map gets a / (1.5 - a), so it cannot be the formula that was used. "
        "At a = 0.5 the Tversky index is a soft Dice; softIoU/jaccard is the soft IoU, and both "
        "are always shown.",
    )


@CLAIMS.judge("ap-auroc-fall-in-a")
def _(run: AnomalyRun) -> ClaimJudgement:
    names = [name for name in RANKING if not name.endswith("slice")]
    fixed = run.changes("a-fixed", names)
    return ClaimJudgement(
        joint_verdict(np.asarray((run.changes("a", names) < -MOVES).all(axis=0)).tolist()),
        f"Small objects are added to the references and found, while the large ones lose as many "
        f"voxels: {run.ends('a', names)}. With the same references throughout, of which more and "
        f"more small objects are found: largest change {number_text(float(np.abs(fixed).max()))}. "
        f"{_scan_text(run, 'a', ('AP falls', 'AUROC falls'))}",
        "The paper does not say whether the references change. If they do not, large objects lose "
        "exactly as many voxels as small ones gain, and on maps of 0 and 1 AP and AUROC depend on "
        "nothing but these numbers: they stay, which is as blind.",
        share=run.controlled.scans["a"].share("AP falls"),
    )


@CLAIMS.judge("soft-iou-rises-in-a")
def _(run: AnomalyRun) -> ClaimJudgement:
    sentence = "the soft IoU rises"
    return ClaimJudgement(
        joint_verdict(np.asarray((run.changes("a", SOFT) > MOVES).all(axis=1)).tolist()),
        f"{run.ends('a', SOFT)}; with the same references throughout {run.ends('a-fixed', SOFT)}. "
        f"{_scan_text(run, 'a', (sentence,))}",
        "It is a mean over objects: an added object of value 1 raises it, a shrinking large one "
        "lowers it, and which of the two is more depends on how many voxels are exchanged.",
        share=run.controlled.scans["a"].share(sentence),
    )


@CLAIMS.judge("object-metrics-steady-in-a")
def _(run: AnomalyRun) -> ClaimJudgement:
    names, sentence = (*F1S, INSTANCE), "metrics on objects stay"
    steady = np.abs(run.changes("a", names)) <= STEADY
    return ClaimJudgement(
        joint_verdict(np.asarray(steady.all(axis=0)).tolist()),
        f"{run.ends('a', names)}. {_scan_text(run, 'a', (sentence,))}",
        "With the same references throughout they count one more object after the other and must "
        f"rise ({run.ends('a-fixed', ['F1@0.5'])}). F1 at IoU 0.5 falls as soon as the large "
        "objects have lost half of their voxels.",
        share=run.controlled.scans["a"].share(sentence),
    )


def _scan_text(run: AnomalyRun, experiment: str, names: tuple[str, ...]) -> str:
    """Return in how many designs sentences hold, as text."""
    scan = run.controlled.scans[experiment]
    shares = [f"{name} in {scan.share(name).text}" for name in names]
    return f"Over the choices that the paper leaves open: {'; '.join(shares)}."


@CLAIMS.judge("peak-at-true-size")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for response in run.controlled.of("b"):
        peak_metrics = [name for name in METRICS if _peaks(response, name)]
        flat = [name for name in METRICS if name not in peak_metrics]
        flags.append(2 * len(peak_metrics) > len(METRICS))
        parts.append(
            f"{response.setting.name}: {len(peak_metrics)} of {len(METRICS)}, all but "
            f"{', '.join(flat)}"
        )
    soft = run.controlled.soft["b"]
    low, high = float(soft.values["AP/dataset"].min()), float(soft.values["softIoU"].max())
    return ClaimJudgement(
        joint_verdict(flags),
        f"The only maximum is at the true radius. {'; '.join(parts)}. On soft maps AP of the data "
        f"set is at least {number_text(low)} at every radius, and softIoU has its maximum, "
        f"{number_text(high)}, at {soft.x[int(soft.values['softIoU'].argmax())]:g}.",
        "On soft maps the order of voxels is perfect whatever the radius: AP, AUROC, AUPRO and the "
        "best Dice cannot see a wrong size there, the soft IoU and F1 at IoU 0.5 can.",
        share=run.controlled.scans["b"].share("softIoU has its peak at the true size"),
    )


@CLAIMS.judge("f1-less-pronounced")
def _(run: AnomalyRun) -> ClaimJudgement:
    names, flags, parts = ("F1@0.5", "F1@centre"), [], []
    for response in run.controlled.of("b"):
        usual = float(np.median([_plateau(response, name) for name in METRICS if name not in F1S]))
        words = []
        for name in names:
            width = _plateau(response, name)
            flags.append(width > usual)
            words.append(f"{name} at {width}")
        parts.append(
            f"{response.setting.name}: {', '.join(words)}, median of the metrics other than F1 "
            f"{usual:g}"
        )
    n = len(run.controlled.of("b")[0].x)
    return ClaimJudgement(
        joint_verdict(flags),
        f"Of {n} radii, those within {MOVES:g} of the maximum. {'; '.join(parts)}.",
        "F1 at IoU 0.5 is a plateau with steep walls: no loss until the IoU of every object is "
        "below 0.5, then all is lost.",
    )


@CLAIMS.judge("dataset-ap-one-sided")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for response in run.controlled.of("b"):
        sides = _sides(response, "AP/dataset")
        other = _sides(response, "AUROC/dataset")
        flags.append(min(sides) <= STEADY)
        parts.append(
            f"{response.setting.name}: range {number_text(sides[0])} below and "
            f"{number_text(sides[1])} above the true radius (AUROC/dataset "
            f"{number_text(other[0])} and {number_text(other[1])})"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{'; '.join(parts)}, up to {TOUCHING:g} radii.",
        "With f the ratio of the radii and d = 2 or 3 dimensions, AP is about f^d below and 1 / "
        "f^d above the true radius, so it falls on both sides. AUROC is nearly constant on one "
        "side, for objects that are too large: it loses half of the false positive share of the "
        "background.",
    )


@CLAIMS.judge("f1-001-one-sided")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, words, last = [], [], []
    for name, response in zip(BOTH, run.controlled.of("b")):
        below, above = _sides(response, "F1@0.01")
        flags.append(min(below, above) <= STEADY)
        words.append(f"{name}: range {number_text(below)} below, {number_text(above)} above")
        last.append(number_text(float(response.values["F1@0.01"][-1])))
    return ClaimJudgement(
        joint_verdict(flags),
        f"{'; '.join(words)}, up to {TOUCHING:g} radii, beyond which objects may touch; "
        f"{' and '.join(last)} at the last.",
        "It is constant on both sides until objects grow together. Then one predicted object "
        "stands for several, and what falls is the number of objects, not their fit. The same "
        "holds for F1 by centre.",
    )


@CLAIMS.judge("false-alarms-strong")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, words = [], []
    for name in ("AP/dataset", "AUROC/dataset", "F1@centre"):
        two, three = (_loss(response, name, AS_MANY) for response in run.controlled.of("c"))
        flags.append(min(two, three) >= STRONG)
        words.append(f"{name} {number_text(two)} (2D), {number_text(three)} (3D)")
    return ClaimJudgement(
        joint_verdict(flags),
        f"Lost with as many false objects as true ones: {'; '.join(words)}. If the false ones are "
        f"less confident (score {FAINT:g}): {run.ends('c-faint', ['AP/dataset', 'F1@centre'])}.",
        "AUROC loses half of the false positive share of the background, which is little if "
        "objects are small. False objects below all true ones cost AP nothing, but cost F1 as much "
        "as confident ones.",
        share=run.controlled.scans["c"].share("AP, AUROC and F1 by centre lose much"),
    )


@CLAIMS.judge("soft-iou-less-affected")
def _(run: AnomalyRun) -> ClaimJudgement:
    names = ("softIoU", "AP/dataset", "F1@centre")
    at_four = {name: run.controlled.responses["c", "2D"].at(name, AS_MANY) for name in names}
    single = {name: run.controlled.crowds[1].at(name, AS_MANY) for name in names}
    lenient = run.controlled.crowds[4].at(LENIENT, AS_MANY)
    outcome: bool | None = False
    if at_four["softIoU"] > max(at_four["AP/dataset"], at_four["F1@centre"]):
        outcome = True
    elif single["softIoU"] > single["AP/dataset"] or lenient > at_four["AP/dataset"]:
        outcome = None
    return ClaimJudgement(
        outcome,
        f"Four false objects beside four true ones: {_values_text(at_four)}; beside a single true "
        f"one: {_values_text(single)}. With a = 0.1 instead of 0.5, softIoU {number_text(lenient)} "
        "whatever the number of true ones.",
        "With k false objects of the size of n true ones softIoU = 1 / (1 + a k), which is 1 / (1 "
        "+ k / 2) at a = 0.5, and AP = n / (n + k): every object pays for all false ones. So the "
        "soft IoU is the less affected one only with few objects per sample (fewer than 1 / a, "
        "here two), or with a smaller a.",
        share=run.controlled.scans["c"].share("the soft IoU loses less than AP and F1 by centre"),
    )


@CLAIMS.judge("missed-most-sensitive")
def _(run: AnomalyRun) -> ClaimJudgement:
    family = (*F1S, "softIoU", "AP/dataset", "Dice")
    others = [name for name in (*RANKING, *AREAS) if name not in family]
    losses = {}
    for name in (*family, *others):
        losses[name] = min(_loss(response, name, HALF) for response in run.controlled.of("d"))
    least, most = min(losses[name] for name in family), max(others, key=losses.__getitem__)
    outcome: bool | None = False
    if least >= STRONG:
        outcome = True if losses[most] < least else None
    return ClaimJudgement(
        outcome,
        "Lost with half of the objects missed, the less of 2D and 3D: "
        f"{', '.join(f'{n} {number_text(losses[n])}' for n in family)}; of the others most by "
        f"{most}, {number_text(losses[most])}, least by {_least(losses, others)}.",
        "All of them do lose much, but AP by samples and by slices loses no less than AP of the "
        "data set.",
    )


def _values_text(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {number_text(value)}" for name, value in values.items())


def _least(losses: dict[str, float], names: list[str]) -> str:
    name = min(names, key=losses.__getitem__)
    return f"{name}, {number_text(losses[name])}"


@CLAIMS.judge("sample-level-blind-to-missed")
def _(run: AnomalyRun) -> ClaimJudgement:
    names = ("AP/sample", "AP/slice", "AUROC/sample", "AUROC/slice")
    # Both readings of the experiment: missed in every sample, and in new samples.
    changes = np.concatenate([run.changes(name, names) for name in ("d", "d-new")])
    return ClaimJudgement(
        joint_verdict((np.abs(changes) < MOVES).all(axis=0).tolist()),
        f"Objects missed in every sample: {run.ends('d', names)}. Samples added in which all "
        f"are missed: {run.ends('d-new', names)}.",
        "With m of n objects missed AP of a sample is (n - m) / n plus a small rest, and a sample "
        "in which nothing is found has its share of positive voxels as AP, not no value. In new "
        "samples the claim holds only if those without any call are left out of the mean: the "
        "others still have 1.",
        share=run.controlled.scans["d"].share("AP and AUROC by samples do not fall"),
    )


@CLAIMS.judge("empty-only-f1-and-soft")
def _(run: AnomalyRun) -> ClaimJudgement:
    rising, others = (*SOFT, *F1S), [name for name in METRICS if name not in (*SOFT, *F1S)]
    rise, rest = run.changes("e", rising), run.changes("e", others)
    return ClaimJudgement(
        bool((rise > MOVES).all() and (rest < EXACT).all()),
        f"{run.ends('e', ('softIoU', 'F1@0.5'))}; largest rise of any other metric "
        f"{number_text(max(float(rest.max()), 0.0))}.",
        "F1 rises because it is averaged over samples, and a sample without objects and calls "
        "counts 1; F1 of all objects pooled would not move. A baseline without misses could not "
        "improve; here one object of four is missed.",
        share=run.controlled.scans["e"].share("F1 and the soft IoU rise, and nothing else"),
    )


@CLAIMS.judge("empty-improves-with-faint-scores")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts, reaches = [], [], []
    for name, response in zip(BOTH, run.controlled.of("e-faint")):
        # Without normal samples: one of four objects is missed in every sample.
        alone = float(run.controlled.responses["e", name].values["softIoU"][0])
        below = response.x < CALLED
        better = (response.values["softIoU"] > alone + EXACT)[below]
        flags.append(bool(better.all()))
        reaches.append(bool(better[1:].any()))
        lowest = response.x[below][1]
        parts.append(
            f"{name}: {number_text(alone)} without normal samples, "
            f"{number_text(response.at('softIoU', 0.0))} with empty ones, "
            f"{number_text(response.at('softIoU', lowest))} at a score of {lowest:g} (graded "
            f"{number_text(response.at(GRADED, lowest))}, and "
            f"{number_text(response.at(GRADED, 0.4))} at 0.4)"
        )
    outcome: bool | None = all(flags)
    if not outcome and any(reaches):
        outcome = None
    return ClaimJudgement(
        outcome,
        f"softIoU. {'; '.join(parts)}.",
        "A sample without objects scores 0.00001 / (a sum p + 0.00001): on maps of networks, which "
        "are never exactly 0, normal samples count as failures. The graded form takes the mean "
        "volume of an object instead of 0.00001 there.",
    )


@CLAIMS.judge("dataset-ap-falls-with-empty")
def _(run: AnomalyRun) -> ClaimJudgement:
    return ClaimJudgement(
        bool((run.changes("e", ["AP/dataset"]) < -EXACT).all()),
        f"{run.ends('e', ['AP/dataset'])}. {_scan_text(run, 'e', ('AP of the data set falls',))}",
        "Only slightly: the missed voxels are found only when all voxels are positive, at a "
        "precision that is the share of positive voxels, and that share falls. A map with false "
        "voxels of low scores would fall by other amounts.",
    )


@CLAIMS.judge("others-insensitive-to-empty")
def _(run: AnomalyRun) -> ClaimJudgement:
    others = [name for name in METRICS if name not in (*SOFT, *F1S, "AP/dataset")]
    most = np.abs(run.changes("e", others)).max()
    change = "0" if most == 0 else f"{most:.1e}"
    return ClaimJudgement(bool(most < EXACT), f"Largest change of {', '.join(others)}: {change}.")


def _peaks(response: Response, metric: str) -> bool:
    """Return whether the only maximum is at the true size."""
    values = response.values[metric]
    # A plateau is not a peak: no other strength may be as good.
    best = int(values.argmax())
    return bool(response.x[best] == 1.0 and (values >= values[best] - EXACT).sum() == 1)


def _plateau(response: Response, metric: str) -> int:
    """Return the number of strengths whose value is within `MOVES` of the best."""
    values = response.values[metric]
    return int((values >= values.max() - MOVES).sum())


def _sides(response: Response, metric: str) -> tuple[float, float]:
    """Return the range of a metric below and above the true size, while no objects touch."""
    x, values = response.x, response.values[metric]
    below, above = values[x <= 1.0], values[(x >= 1.0) & (x <= TOUCHING)]
    return float(np.ptp(below)), float(np.ptp(above))


def _loss(response: Response, metric: str, x: float) -> float:
    return float(response.values[metric][0]) - response.at(metric, x)


@CLAIMS.judge("soft-iou-and-f1-mirror-people")
def _(run: AnomalyRun) -> ClaimJudgement:
    if run.ranking is None:
        return ClaimJudgement(
            None,
            "No ranking by people was provided, and the paper prints none: make one with "
            "--rank-maps PAGE, and pass it with --ranking FILE (columns algorithm and rank).",
            "The page shows slices with an object and the maps of all algorithms without their "
            "names. With a ranking the study shows tau-b and rho of every metric with it.",
            is_tested=False,
        )
    tau = {name: one.tau for name, one in run.agreements(SEEN).items()}
    ours = (*SOFT, *F1S)
    families = [tau[_best(tau, SOFT)], tau[_best(tau, F1S)]]
    other = _best(tau, tuple(name for name in METRICS if name not in ours))
    return ClaimJudgement(
        joint_verdict([best >= CLOSE for best in families]),
        f"Tau-b with {run.ranking.file} over {len(run.ranking.ranks)} algorithms, on slices with "
        f"an object: {', '.join(f'{name} {number_text(tau[name])}' for name in ours)}; the best "
        f"of the others is {other}, {number_text(tau[other])}. Orders count as close with a tau-b "
        f"of {CLOSE:g} or more.",
        "With so few algorithms, exchanging one pair changes tau considerably.",
    )


def _best(tau: dict[str, float], names: tuple[str, ...]) -> str:
    """Return the name with the largest tau-b; NaN counts as less than the lowest possible, -1."""
    values = np.array([tau[name] for name in names])
    return names[int(np.where(np.isnan(values), -2.0, values).argmax())]


@CLAIMS.judge("people-saw-only-slices-with-objects")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        # An algorithm without false positive voxels has no share.
        shares = {one.name: one.unseen_share for one in bench.records}
        shares = {name: value for name, value in shares.items() if not np.isnan(value)}
        middle = float(np.median(list(shares.values())))
        least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        taus = {name: _same_order(bench, name) for name in ("softIoU", "F1@0.5", "AP/dataset")}
        flags.append(middle >= HIDDEN)
        tau_words = ", ".join(f"{name} {number_text(tau)}" for name, tau in taus.items())
        parts.append(
            f"{bench.name}: {bench.slices - bench.slices_seen} of {bench.slices} slices contain no "
            f"object. Of the false positive voxels, {percent_text(middle)} lie there (median over "
            f"the algorithms; {least} {percent_text(shares[least])}, {most} "
            f"{percent_text(shares[most])}). Tau-b of the orders on all slices and "
            f"on slices with an object: {tau_words}."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        " ".join(parts),
        "AP and AUROC by slices do not change at all: slices without an object have no value "
        "there.",
    )


def _same_order(bench: Benchmark, metric: str) -> float:
    """Return tau-b of the orders of the algorithms on all slices and on those with an object."""
    ranks = [-value for value in bench.column(SLICES, metric)]
    return agreement(ranks, bench.column(SEEN, metric)).tau


@CLAIMS.judge("undefined-is-frequent")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        share = 1 - bench.slices_seen / bench.slices
        flags.append(share >= FREQUENT)
        parts.append(
            f"{bench.name}: {bench.slices - bench.slices_seen} of {bench.slices} slices "
            f"({percent_text(share)}) and half of the {bench.counts.test} volumes"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"Without a value of AP, AUROC or Dice: {'; '.join(parts)}.",
        "Half of the volumes are normal by design, as in the paper; the slices follow from the "
        "size of the spheres.",
    )


@CLAIMS.judge("large-are-easier")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        easier = [one.name for one in bench.records if one.large > one.small]
        flags.append(len(easier) / len(bench.records) > MOST)
        large, small = float(np.median(bench.large)), float(np.median(bench.small))
        parts.append(
            f"{bench.name}: {len(easier)} of {len(bench.records)} algorithms "
            f"({', '.join(easier) or 'none'}); median share {number_text(large)} of large and "
            f"{number_text(small)} of small ones"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        "Algorithms in whose maps a larger share of the voxels of large spheres than of small ones "
        f"reaches 0.5. {'; '.join(parts)}.",
        "Voxels are counted. A large sphere of one grey value has an inside that looks normal to "
        "algorithms that compare a voxel with its surroundings.",
    )


@CLAIMS.judge("pooled-order-follows-large")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        ranks = [-value for value in bench.column(VOLUMES, "AP/dataset")]
        soft_ranks = [-value for value in bench.column(VOLUMES, "softIoU")]
        large, small = agreement(ranks, bench.large).tau, agreement(ranks, bench.small).tau
        soft = agreement(soft_ranks, bench.small).tau
        flags.append(large > small)
        parts.append(
            f"{bench.name}: tau-b of AP/dataset with the share of large spheres "
            f"{number_text(large)}, of small ones {number_text(small)} (softIoU with small ones "
            f"{number_text(soft)})"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"{'; '.join(parts)}.",
        "A large sphere has as many voxels as twelve small ones. With so few algorithms, "
        "exchanging one pair changes tau-b considerably.",
    )


@CLAIMS.judge("threshold-decides")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        columns = {}
        for k, threshold in enumerate(bench.thresholds):
            columns[f"{threshold:g}"] = [one.dice[k] for one in bench.records]
        tau = tau_between(columns)
        names = list(columns)
        r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
        best = [bench.algorithms[int(np.argmax(values))] for values in columns.values()]
        flags.append(bool(tau[r, c] <= DIFFERENT))
        parts.append(
            f"{bench.name}: lowest tau-b {number_text(tau[r, c])}, between {names[r]} and "
            f"{names[c]}; the best at {', '.join(names)} is {', '.join(best)}"
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"Orders by pooled Dice. {'; '.join(parts)}.",
        "All maps are calibrated by one rule on normal brains, so a threshold means the same for "
        "all: without that, orders would differ more.",
    )


@CLAIMS.judge("metrics-see-different-things")
def _(run: AnomalyRun) -> ClaimJudgement:
    flags, parts = [], []
    for bench in run.benchmarks:
        columns = {name: bench.column(VOLUMES, name) for name in METRICS}
        tau = tau_between(columns)
        r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
        by_winner: dict[str, list[str]] = {}
        for name, values in columns.items():
            winner = bench.algorithms[int(np.nanargmax(values))]
            by_winner.setdefault(winner, []).append(name)
        winners = "; ".join(
            f"{winner} is best by {', '.join(names)}" for winner, names in by_winner.items()
        )
        flags.append(len(by_winner) > 1)
        parts.append(
            f"{bench.name}: {winners}. The orders differ most between {METRICS[r]} and "
            f"{METRICS[c]}, tau-b {number_text(tau[r, c])}."
        )
    return ClaimJudgement(
        joint_verdict(flags),
        f"Whole volumes. {' '.join(parts)}",
        "The controlled experiments say why: figure 2 shows which errors a metric is blind to. "
        "Intervals of the values are in table 1.",
    )


@CLAIMS.judge("soft-iou-and-f1-favourable")
def _(run: AnomalyRun) -> ClaimJudgement:
    praised: dict[str, int] = {}
    others: dict[str, int] = {}
    for name in METRICS:
        family = praised if name in (*SOFT, *F1S) else others
        family[name] = count_desired_changes(run, name)
    best = max(others.values())
    # The claim is about all members of a family, so the weakest one counts.
    soft, f1 = min(map(praised.__getitem__, SOFT)), min(map(praised.__getitem__, F1S))
    equal_metrics = [name for name, value in others.items() if value >= f1]
    outcome = joint_verdict([soft > best, f1 > best])
    counts = ", ".join(f"{name} {praised[name]}" for name in (*SOFT, *F1S))
    return ClaimJudgement(
        outcome,
        f"Of the {len(DESIRED_CHANGES)} controlled errors, those to which a metric reacts as "
        f"desired, by more than {MOVES:g} in 2D and in 3D: {counts}; others at most {best}; "
        f"at least as many as the weakest F1: {', '.join(equal_metrics) or 'none'}.",
        "F1 by centre and F1 at IoU 0.01 are blind to size. AUPRO, which the paper does not "
        "mention, reacts to all errors but empty samples. The soft IoU has a drawback: one faint "
        "voxel in every normal sample removes everything that such samples could contribute, "
        "because a sample without objects scores 0.00001 / (a sum p + 0.00001).",
    )
