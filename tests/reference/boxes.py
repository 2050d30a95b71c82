"""Similarities of two boxes, one pair at a time, from SPEC section 1. A box is its low corners,
then its high ones.
"""

from __future__ import annotations

import math

Box = tuple[float, ...]


def sides(box: Box) -> list[float]:
    half = len(box) // 2
    return [box[half + k] - box[k] for k in range(half)]


def centre(box: Box) -> list[float]:
    half = len(box) // 2
    return [(box[k] + box[half + k]) / 2 for k in range(half)]


def volume(box: Box) -> float:
    return math.prod(sides(box))


def common(a: Box, b: Box) -> float:
    half = len(a) // 2
    overlaps = [min(a[half + k], b[half + k]) - max(a[k], b[k]) for k in range(half)]
    return math.prod(max(0.0, overlap) for overlap in overlaps)


def iou(t: Box, p: Box) -> float:
    return common(t, p) / (volume(t) + volume(p) - common(t, p))


def enclosing(a: Box, b: Box) -> Box:
    half = len(a) // 2
    low = [min(a[k], b[k]) for k in range(half)]
    return (*low, *(max(a[half + k], b[half + k]) for k in range(half)))


def giou(t: Box, p: Box) -> float:
    around = volume(enclosing(t, p))
    union = volume(t) + volume(p) - common(t, p)
    return iou(t, p) - (around - union) / around


def centred_iou(t: Box, p: Box) -> float:
    m = math.prod(min(a, b) for a, b in zip(sides(t), sides(p)))
    return m / (volume(t) + volume(p) - m)


def complete_iou(t: Box, p: Box) -> float:
    diagonal = sum(side**2 for side in sides(enclosing(t, p)))
    distance_iou = iou(t, p) - math.dist(centre(t), centre(p)) ** 2 / diagonal
    if len(t) == 6:
        return distance_iou
    (wt, ht), (wp, hp) = sides(t), sides(p)
    v = 4 / math.pi**2 * (math.atan(wt / ht) - math.atan(wp / hp)) ** 2
    return distance_iou - (v * v / (1 - iou(t, p) + v) if v > 0 else 0.0)


def iop(t: Box, p: Box) -> float:
    return common(t, p) / volume(p)


def ior(t: Box, p: Box) -> float:
    return common(t, p) / volume(t)


def centre_distance(t: Box, p: Box, unit: list[float] | None = None) -> float:
    unit = unit or [1.0] * (len(t) // 2)
    return math.sqrt(sum(((a - b) * u) ** 2 for a, b, u in zip(centre(t), centre(p), unit)))


def relative_distance(t: Box, p: Box) -> float:
    return centre_distance(t, p, [1 / side for side in sides(t)])


def contains_centre(t: Box, p: Box) -> bool:
    half = len(t) // 2
    return all(t[k] <= middle <= t[half + k] for k, middle in enumerate(centre(p)))


def hausdorff(t: Box, p: Box, size: list[float]) -> float:
    """Return 1 - the larger directed distance of the boxes on one centre, in fractions of the
    image.
    """

    def directed(a: Box, b: Box) -> float:
        return math.hypot(*(max(0.0, (u - v) / s / 2) for u, v, s in zip(sides(a), sides(b), size)))

    return 1 - max(directed(t, p), directed(p, t))
