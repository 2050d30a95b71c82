# SPDX-License-Identifier: Apache-2.0
"""What the paper says of its benchmark and in its discussion, judged."""

from __future__ import annotations

import numpy as np

from calipers.studies.anomaly.benchmark import SEEN, SLICES, VOLUMES
from calipers.studies.anomaly.found import MOVES, WANTED, Found, rewarded
from calipers.studies.anomaly.measures import F1S, METRICS, SOFT
from calipers.studies.anomaly.ranking import agreement, between
from calipers.studies.judging import Claims, Judgement, share, told

CLAIMS: Claims[Found] = Claims()
CLOSE = 0.6  # tau-b from which on two orders are called close
HIDDEN = 0.2  # share of false voxels that raters did not see, from which on it is called much


@CLAIMS.says(
    "soft-iou-and-f1-mirror-people",
    "The soft IoU and F1 order algorithms much as people do.",
    "section 3, figure 1 (bottom)",
)
def _(found: Found) -> Judgement:
    if found.ranking is None:
        return Judgement(
            None,
            "No ranking by people was given, and the paper prints none: give one with --ranking FILE (columns "
            "algorithm and rank).",
            "Rank the maps of the algorithms of this benchmark, by slices with an object or by whole volumes, then "
            "run it again: tau-b and rho of every metric with that ranking are shown then.",
            tested=False,
        )
    tau = {name: one.tau for name, one in found.agreements(SEEN).items()}
    ours = (*SOFT, *F1S)
    families = [tau[_best(tau, names)] for names in (SOFT, F1S)]
    other = _best(tau, tuple(name for name in METRICS if name not in ours))
    return Judgement(
        share([best >= CLOSE for best in families]),
        f"Tau-b with {found.ranking.file} over {len(found.ranking.ranks)} algorithms, on slices with an object: "
        f"{', '.join(f'{name} {told(tau[name])}' for name in ours)}; the best of the others is {other}, "
        f"{told(tau[other])}. Close is called what has {CLOSE:g} or more.",
        "With so few algorithms one exchanged pair changes tau much.",
    )


def _best(tau: dict[str, float], names: tuple[str, ...]) -> str:
    return max(names, key=lambda name: -2.0 if np.isnan(tau[name]) else tau[name])


@CLAIMS.says(
    "people-saw-only-slices-with-objects",
    "People who see slices with an object only see less of the false alarms.",
    "section 3, last sentence",
)
def _(found: Found) -> Judgement:
    bench = found.benchmark
    shares = {name: value for name, value in bench.unseen.items() if not np.isnan(value)}
    middle = float(np.median(list(shares.values())))
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    taus = {name: _same_order(found, name) for name in ("softIoU", "F1@0.5", "AP/dataset")}
    return Judgement(
        middle >= HIDDEN,
        f"{bench.slices - bench.slices_seen} of {bench.slices} slices hold no object. Of the voxels that are called "
        f"falsely, {middle:.0%} lie there in the median of the algorithms ({least} {shares[least]:.0%}, {most} "
        f"{shares[most]:.0%}). Tau-b of the orders on all slices and on slices with an object: "
        f"{', '.join(f'{name} {told(tau)}' for name, tau in taus.items())}.",
        "AP and AUROC by slices do not change at all: slices without an object have no value there.",
    )


def _same_order(found: Found, metric: str) -> float:
    """Return tau-b of the orders of the algorithms on all slices and on those with an object."""
    one, other = (found.benchmark.column(view, metric) for view in (SLICES, SEEN))
    return agreement([-value for value in one], other).tau


@CLAIMS.says(
    "metrics-see-different-things",
    "Metrics capture different aspects of performance: which one to choose depends on the use.",
    "section 4 and abstract",
)
def _(found: Found) -> Judgement:
    columns = {name: found.benchmark.column(VOLUMES, name) for name in METRICS}
    tau = between(columns)
    r, c = np.unravel_index(int(np.nanargmin(tau)), tau.shape)
    winners = {
        name: found.benchmark.algorithms[int(np.argmax(values))] for name, values in columns.items()
    }
    by_winner = {
        w: [name for name in METRICS if winners[name] == w] for w in dict.fromkeys(winners.values())
    }
    said = "; ".join(f"{winner} wins by {', '.join(names)}" for winner, names in by_winner.items())
    return Judgement(
        len(by_winner) > 1,
        f"Whole volumes: {said}. The orders differ most between {METRICS[r]} and {METRICS[c]}, tau-b "
        f"{told(tau[r, c])}.",
        "The controlled experiments say why: figure 2 shows which errors a metric is blind to.",
    )


@CLAIMS.says(
    "soft-iou-and-f1-favourable",
    "The soft IoU and metrics based on F1 have favourable properties; the soft IoU shows promise.",
    "section 4 and abstract",
)
def _(found: Found) -> Judgement:
    score = {name: rewarded(found, name) for name in METRICS}
    others = {name: score[name] for name in METRICS if name not in (*SOFT, *F1S)}
    best = max(others.values())
    soft, f1 = min(score[name] for name in SOFT), min(score[name] for name in F1S)
    matched = [name for name, value in others.items() if value >= f1]
    held = (True if f1 > best else None) if soft > best else (None if f1 > best else False)
    return Judgement(
        held,
        f"Of the {len(WANTED)} controlled errors, those which a metric answers as one wants, by more than {MOVES:g} "
        f"in 2D and in 3D: {', '.join(f'{name} {score[name]}' for name in (*SOFT, *F1S))}; others at most {best}; no "
        f"less than the weakest F1 have {', '.join(matched) or 'none'}.",
        "F1 by centre and at IoU 0.01 do not see the size at all. AUPRO, which the paper does not name, answers all "
        "but empty samples. The soft IoU has a price: one faint voxel in every normal sample takes all that such "
        "samples could give, because a sample without objects scores 0.00001 / (a sum p + 0.00001).",
    )
