"""The evaluation of the LUNA16 challenge as its description tells it, scan by scan.

A candidate that lies inside the radius of a nodule finds it; of several candidates in one nodule
the highest score stands for it. A candidate inside an excluded finding, or a further one in a
nodule, is no false positive; every other candidate is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Place = tuple[float, float, float]


@dataclass
class Scan:
    nodules: list[tuple[Place, float]] = field(default_factory=list)  # place, diameter
    excluded: list[tuple[Place, float]] = field(default_factory=list)
    candidates: list[tuple[Place, float]] = field(default_factory=list)  # place, score


def inside(candidate: Place, finding: tuple[Place, float]) -> bool:
    place, diameter = finding
    return math.dist(candidate, place) < diameter / 2


def sensitivity_at(scans: list[Scan], rate: float) -> float:
    """Return the highest sensitivity at no more than ``rate`` false positives per scan."""
    best_scores, false_positives, n_nodules = [], [], 0
    for scan in scans:
        n_nodules += len(scan.nodules)
        relevant = set(range(len(scan.candidates)))
        for finding in scan.nodules:
            hits = [k for k, (place, _) in enumerate(scan.candidates) if inside(place, finding)]
            if hits:
                best_scores.append(max(scan.candidates[k][1] for k in hits))
            relevant -= set(hits)
        for finding in scan.excluded:
            relevant -= {k for k in relevant if inside(scan.candidates[k][0], finding)}
        false_positives += [scan.candidates[k][1] for k in relevant]
    best = 0
    for cut in {*best_scores, *false_positives}:
        if sum(score >= cut for score in false_positives) <= rate * len(scans):
            best = max(best, sum(score >= cut for score in best_scores))
    return best / n_nodules
