# SPDX-License-Identifier: Apache-2.0
"""Claims of the paper about its benchmark, and of its discussion."""

from __future__ import annotations

import numpy as np

from calipers.studies.anomaly.benchmark import SEEN, SLICES, VOLUMES
from calipers.studies.anomaly.found import DESIRED_CHANGES, MOVES, AnomalyRun, count_desired_changes
from calipers.studies.anomaly.measures import F1S, METRICS, SOFT
from calipers.studies.anomaly.ranking import agreement, tau_between
from calipers.studies.judging import ClaimJudgement, Claims, joint_verdict, number_text

CLAIMS: Claims[AnomalyRun] = Claims()
CLOSE = 0.6  # two orders with a tau-b of at least this count as close
HIDDEN = 0.2  # share of false positive voxels that raters did not see; from here on it is large


@CLAIMS.statement(
    "soft-iou-and-f1-mirror-people",
    "The soft IoU and F1 order algorithms much as people do.",
    "section 3, figure 1 (bottom)",
)
def _(run: AnomalyRun) -> ClaimJudgement:
    if run.ranking is None:
        return ClaimJudgement(
            None,
            "No ranking by people was provided, and the paper prints none: pass one with "
            "--ranking FILE (columns algorithm and rank).",
            "Rank the maps of the algorithms of this benchmark, by slices with an object or by "
            "whole volumes, and run the study again. It then shows tau-b and rho of every metric "
            "with that ranking.",
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


@CLAIMS.statement(
    "people-saw-only-slices-with-objects",
    "People who see slices with an object only see less of the false alarms.",
    "section 3, last sentence",
)
def _(run: AnomalyRun) -> ClaimJudgement:
    bench = run.benchmark
    # An algorithm without false positive voxels has no share.
    shares = {name: value for name, value in bench.unseen_share.items() if not np.isnan(value)}
    middle = float(np.median(list(shares.values())))
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    taus = {name: _same_order(run, name) for name in ("softIoU", "F1@0.5", "AP/dataset")}
    return ClaimJudgement(
        middle >= HIDDEN,
        f"{bench.slices - bench.slices_seen} of {bench.slices} slices contain no object. Of the "
        f"false positive voxels, {middle:.0%} lie there (median over the algorithms; {least} "
        f"{shares[least]:.0%}, {most} {shares[most]:.0%}). Tau-b of the orders on all slices and "
        "on slices with an object: "
        f"{', '.join(f'{name} {number_text(tau)}' for name, tau in taus.items())}.",
        "AP and AUROC by slices do not change at all: slices without an object have no value "
        "there.",
    )


def _same_order(run: AnomalyRun, metric: str) -> float:
    """Return tau-b of the orders of the algorithms on all slices and on those with an object."""
    ranks = [-value for value in run.benchmark.column(SLICES, metric)]
    return agreement(ranks, run.benchmark.column(SEEN, metric)).tau


@CLAIMS.statement(
    "metrics-see-different-things",
    "Metrics capture different aspects of performance: which one to choose depends on the use.",
    "section 4 and abstract",
)
def _(run: AnomalyRun) -> ClaimJudgement:
    columns = {name: run.benchmark.column(VOLUMES, name) for name in METRICS}
    tau = tau_between(columns)
    r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
    by_winner: dict[str, list[str]] = {}
    for name, values in columns.items():
        winner = run.benchmark.algorithms[int(np.argmax(values))]
        by_winner.setdefault(winner, []).append(name)
    winners = "; ".join(
        f"{winner} wins by {', '.join(names)}" for winner, names in by_winner.items()
    )
    return ClaimJudgement(
        len(by_winner) > 1,
        f"Whole volumes: {winners}. The orders differ most between {METRICS[r]} and {METRICS[c]}, "
        f"tau-b {number_text(tau[r, c])}.",
        "The controlled experiments say why: figure 2 shows which errors a metric is blind to.",
    )


@CLAIMS.statement(
    "soft-iou-and-f1-favourable",
    "The soft IoU and metrics based on F1 have favourable properties; the soft IoU shows promise.",
    "section 4 and abstract",
)
def _(run: AnomalyRun) -> ClaimJudgement:
    score = {name: count_desired_changes(run, name) for name in METRICS}
    others = {name: score[name] for name in METRICS if name not in (*SOFT, *F1S)}
    best = max(others.values())
    soft, f1 = min(score[name] for name in SOFT), min(score[name] for name in F1S)
    equal_metrics = [name for name, value in others.items() if value >= f1]
    outcome = joint_verdict([soft > best, f1 > best])
    return ClaimJudgement(
        outcome,
        f"Of the {len(DESIRED_CHANGES)} controlled errors, those to which a metric reacts as "
        f"desired, by more than {MOVES:g} in 2D and in 3D: "
        f"{', '.join(f'{name} {score[name]}' for name in (*SOFT, *F1S))}; others at most {best}; "
        f"at least as many as the weakest F1: {', '.join(equal_metrics) or 'none'}.",
        "F1 by centre and F1 at IoU 0.01 are blind to size. AUPRO, which the paper does not "
        "mention, reacts to all errors but empty samples. The soft IoU has a drawback: one faint "
        "voxel in every normal sample removes everything that such samples could contribute, "
        "because a sample without objects scores 0.00001 / (a sum p + 0.00001).",
    )
