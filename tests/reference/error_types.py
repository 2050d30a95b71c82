"""Error types as one would explain them on a blackboard: one image at a time, one prediction at a
time, lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reference.plain import Thing

Similarity = Callable[[Thing, Thing], float]


@dataclass
class Told:
    """What became of everybody: row -> word; which reference made it so; who would be a hit if it
    were mended.
    """

    reference: dict[int, str] = field(default_factory=dict)
    prediction: dict[int, str] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict)
    mended: set[int] = field(default_factory=set)
    covered: set[int] = field(default_factory=set)


def told(
    references: list[Thing],
    predictions: list[Thing],
    similarity: Similarity,
    background: float = 0.1,
    foreground: float = 0.5,
    max_dets: int = 100,
) -> Told:
    """Return the kinds of all objects of all images; the similarity to an ignored region is its
    own.
    """
    found = Told()
    for image in sorted({thing.image for thing in [*references, *predictions]}):
        real = [r for r in references if r.image == image and not r.ignore]
        regions = [r for r in references if r.image == image and r.ignore]
        said = sorted((p for p in predictions if p.image == image), key=lambda p: -p.score)
        for p in said[max_dets:]:
            found.prediction[p.row] = "absent"
        _image(found, real, regions, said[:max_dets], similarity, (background, foreground))
    return found


def _image(
    found: Told,
    real: list[Thing],
    regions: list[Thing],
    said: list[Thing],
    similarity: Similarity,
    limits: tuple[float, float],
) -> None:
    low, high = limits
    taken: set[int] = set()
    for p in said:
        free = [r for r in real if r.label == p.label and r.row not in taken]
        best = max(free, key=lambda r: similarity(r, p), default=None)  # the first of equal ones
        if best is not None and similarity(best, p) >= high:
            taken.add(best.row)
            found.prediction[p.row], found.partner[p.row] = "right", best.row
    mendable: set[int] = set()
    for p in said:
        if p.row in found.partner:
            continue
        if any(r.label == p.label and similarity(r, p) > high for r in regions):
            found.covered.add(p.row)
        kind, partner = _kind(p, real, taken, similarity, low, high)
        found.prediction[p.row] = kind
        if partner is not None:
            found.partner[p.row] = partner.row
        if kind in ("loc", "cls") and partner is not None and partner.row not in taken:
            if partner.row not in mendable:
                found.mended.add(p.row)
            mendable.add(partner.row)
    for r in real:
        found.reference[r.row] = (
            "right" if r.row in taken else "mendable" if r.row in mendable else "miss"
        )
    for r in regions:
        found.reference[r.row] = "absent"


def _kind(
    p: Thing, real: list[Thing], taken: set[int], similarity: Similarity, low: float, high: float
) -> tuple[str, Thing | None]:
    def best(chosen: list[Thing]) -> tuple[float, Thing | None]:
        one = max(chosen, key=lambda r: similarity(r, p), default=None)
        return (0.0, None) if one is None else (similarity(one, p), one)

    alike, other = [r for r in real if r.label == p.label], [r for r in real if r.label != p.label]
    value, one = best(alike)
    if real and low <= value <= high:
        return "loc", one
    value, one = best(other)
    if value >= high:
        return "cls", one
    value, one = best([r for r in alike if r.row in taken])
    if value >= high:
        return "dup", one
    value, one = best(real)
    return ("bkg", None) if value <= low else ("both", one)
