"""Assignment strategies of SPEC section 2 as one would explain them on a blackboard: one image and
class at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from reference.plain import Thing

Similarity = Callable[[Thing, Thing], float]
EVERY_SIZE = (0.0, math.inf)


@dataclass
class Rule:
    """How fates are decided."""

    similarity: Similarity
    admissible: Callable[[float], bool]
    size: tuple[float, float] = EVERY_SIZE
    max_dets: float = math.inf
    within_class: bool = True
    score_cut: float = -math.inf
    duplicates: str = "penalised"

    def fits(self, reference: Thing, prediction: Thing) -> bool:
        return self.admissible(self.similarity(reference, prediction))

    def counted(self, thing: Thing) -> bool:
        return self.size[0] <= thing.area <= self.size[1] and not thing.ignore


@dataclass
class Fates:
    """What became of everybody: row -> word; and who got whom: prediction row -> reference row."""

    reference: dict[int, str] = field(default_factory=dict)
    prediction: dict[int, str] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict)
    suspicious: set[int] = field(default_factory=set)  # counted, or a duplicate that is forgiven


def fates(references: list[Thing], predictions: list[Thing], strategy: str, rule: Rule) -> Fates:
    """Return the fates of all objects of all images."""
    found = Fates()

    def cell(thing: Thing) -> tuple[int, int]:
        return (thing.image, thing.label if rule.within_class else 0)

    for key in sorted({cell(thing) for thing in [*references, *predictions]}):
        refs = [thing for thing in references if cell(thing) == key]
        preds = [thing for thing in predictions if cell(thing) == key]
        preds.sort(key=lambda thing: -thing.score)  # stable: equal scores stay in input order
        seen = [
            p for p in preds[: int(min(rule.max_dets, len(preds)))] if p.score >= rule.score_cut
        ]
        for p in preds:
            found.prediction[p.row] = "ignored"
        _tell(found, refs, seen, STRATEGIES[strategy](refs, seen, rule), rule, strategy)
    return found


def _tell(
    found: Fates,
    refs: list[Thing],
    seen: list[Thing],
    pairs: list[tuple[Thing, Thing]],
    rule: Rule,
    strategy: str,
) -> None:
    for r in refs:
        found.reference[r.row] = "missed" if rule.counted(r) else "ignored"
    partner = {p.row: r for r, p in pairs}
    hit: set[int] = set()
    for p in seen:
        r = partner.get(p.row)
        if r is not None:
            found.partner[p.row] = r.row
        if r is not None and not rule.counted(r):
            fate = "ignored"
        elif r is not None and r.row in hit and strategy.startswith("many-to-one"):
            fate = "forgiven" if rule.duplicates == "forgiven" else "duplicate"
        elif r is not None:
            fate = found.reference[r.row] = "hit"
            hit.add(r.row)
        elif not rule.size[0] <= p.area <= rule.size[1]:
            fate = "ignored"
        else:
            near = any(rule.counted(other) and rule.fits(other, p) for other in refs)
            fate = (
                ("forgiven" if rule.duplicates == "forgiven" else "duplicate")
                if near
                else "false alarm"
            )
        found.prediction[p.row] = "ignored" if fate == "forgiven" else fate
        if fate != "ignored":
            found.suspicious.add(p.row)


def by_score(refs: list[Thing], preds: list[Thing], rule: Rule) -> list[tuple[Thing, Thing]]:
    """Predictions choose in turn, as in pycocotools: counted references first, of equal ones the
    later.
    """
    queue = [r for r in refs if rule.counted(r)] + [r for r in refs if not rule.counted(r)]
    taken: set[int] = set()
    pairs = []
    for p in preds:
        best = None
        for r in queue:
            if r.row in taken and not r.crowd:
                continue
            if best is not None and rule.counted(best) and not rule.counted(r):
                break
            if not rule.fits(r, p) or (
                best is not None and rule.similarity(r, p) < rule.similarity(best, p)
            ):
                continue
            best = r
        if best is not None:
            taken.add(best.row)
            pairs.append((best, p))
    return pairs


def by_overlap(refs: list[Thing], preds: list[Thing], rule: Rule) -> list[tuple[Thing, Thing]]:
    """The most similar pair first; ties by score, then by row. Ignored references are offered
    afterwards.
    """
    accepted: list[tuple[Thing, Thing]] = []
    for counted in (True, False):
        pairs = [
            (r, p) for r in refs for p in preds if rule.counted(r) == counted and rule.fits(r, p)
        ]
        pairs.sort(
            key=lambda pair: (-rule.similarity(*pair), -pair[1].score, pair[1].row, pair[0].row)
        )
        for r, p in pairs:
            busy = any(p is other for _, other in accepted) or any(
                r is other for other, _ in accepted if not r.crowd
            )
            if not busy:
                accepted.append((r, p))
    return accepted


def per_reference_argmax(
    refs: list[Thing], preds: list[Thing], rule: Rule
) -> list[tuple[Thing, Thing]]:
    """Every reference wants its most similar prediction; one that is wanted twice goes to the
    higher similarity.
    """
    accepted: list[tuple[Thing, Thing]] = []
    for counted in (True, False):
        free = [p for p in preds if not any(p is other for _, other in accepted)]
        wishes = []
        for r in refs:
            near = [p for p in free if rule.fits(r, p)]
            if rule.counted(r) == counted and near:
                wishes.append(
                    (r, min(near, key=lambda p, r=r: (-rule.similarity(r, p), -p.score, p.row)))
                )
        wishes.sort(
            key=lambda pair: (-rule.similarity(*pair), -pair[1].score, pair[1].row, pair[0].row)
        )
        for r, p in wishes:
            if not any(p is other for _, other in accepted):
                accepted.append((r, p))
    return accepted


def many_to_one(refs: list[Thing], preds: list[Thing], rule: Rule) -> list[tuple[Thing, Thing]]:
    """Every prediction takes its most similar reference, whoever else has it; of equal ones the
    first.
    """
    return [(r, p) for p in preds if (r := _nearest(refs, p, rule)) is not None]


def many_to_one_counted_first(
    refs: list[Thing], preds: list[Thing], rule: Rule
) -> list[tuple[Thing, Thing]]:
    """The same among the counted references; an ignored one is for those who are near none."""
    counted = [r for r in refs if rule.counted(r)]
    others = [r for r in refs if not rule.counted(r)]
    pairs = []
    for p in preds:
        nearest = _nearest(counted, p, rule) or _nearest(others, p, rule)
        if nearest is not None:
            pairs.append((nearest, p))
    return pairs


def _nearest(refs: list[Thing], p: Thing, rule: Rule) -> Thing | None:
    best = None
    for r in sorted(refs, key=lambda thing: thing.crowd):  # stable: of equal ones the first
        if rule.fits(r, p) and (best is None or rule.similarity(r, p) > rule.similarity(best, p)):
            best = r
    return best


def best_total(refs: list[Thing], preds: list[Thing], rule: Rule) -> tuple[int, float]:
    """Return the largest number of admissible pairs, then the largest total similarity, by trying
    everything.
    """
    few, many = (refs, preds) if len(refs) <= len(preds) else (preds, refs)
    best = (0, 0.0)
    for chosen in itertools.permutations([*many, *[None] * len(few)], len(few)):
        pairs = [(a, b) if few is refs else (b, a) for a, b in zip(few, chosen) if b is not None]
        if all(rule.fits(r, p) for r, p in pairs):
            best = max(best, (len(pairs), sum(rule.similarity(r, p) for r, p in pairs)))
    return best


STRATEGIES = {
    "by-score": by_score,
    "by-overlap": by_overlap,
    "per-reference-argmax": per_reference_argmax,
    "many-to-one": many_to_one,
    "many-to-one-counted-first": many_to_one_counted_first,
}
