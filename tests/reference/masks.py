"""Shapes of voxels, one array at a time and as the words say it. Arrays are [z, ]y, x; coordinates
x, y[, z].
"""

from __future__ import annotations

import itertools
import math

import numpy as np

Mask = np.ndarray


def voxels(mask: Mask) -> list[tuple[int, ...]]:
    """The coordinates x, y[, z] of all voxels of a mask."""
    return [tuple(place[::-1]) for place in np.argwhere(mask).tolist()]


def box(mask: Mask) -> list[float]:
    axes = list(zip(*voxels(mask)))
    return [float(min(axis)) for axis in axes] + [max(axis) + 1.0 for axis in axes]


def centroid(mask: Mask, weights: Mask | None = None) -> list[float]:
    where = voxels(mask)
    weight = [1.0 if weights is None else float(weights[place[::-1]]) for place in where]
    total = math.fsum(weight)
    return [
        math.fsum(w * (place[axis] + 0.5) for w, place in zip(weight, where)) / total
        for axis in range(mask.ndim)
    ]


def in_box(mask: Mask, corners: list[float]) -> float:
    """The area that the unit squares of a mask share with a box."""
    half = mask.ndim
    shared = []
    for place in voxels(mask):
        sides = [
            min(place[k] + 1, corners[half + k]) - max(place[k], corners[k]) for k in range(half)
        ]
        shared.append(math.prod(max(0.0, side) for side in sides))
    return math.fsum(shared)


def contains(mask: Mask, point: list[float]) -> bool:
    return tuple(math.floor(at) for at in point) in set(voxels(mask))


def iou(t: Mask, p: Mask) -> float:
    return (t & p).sum() / (t | p).sum()


def dice(t: Mask, p: Mask) -> float:
    return 2 * (t & p).sum() / (t.sum() + p.sum())


def components(mask: Mask, connectivity: str) -> Mask:
    """Flood from every voxel that is not yet in a component."""
    most = {"faces": 1, "edges": 2, "full": 3}[connectivity]
    steps = [
        step
        for step in itertools.product((-1, 0, 1), repeat=mask.ndim)
        if 0 < sum(map(abs, step)) <= most
    ]
    found = np.zeros(mask.shape, int)
    for seed in map(tuple, np.argwhere(mask)):
        if found[seed]:
            continue
        found[seed] = number = found.max() + 1
        open_ = [seed]
        while open_:
            place = open_.pop()
            for step in steps:
                other = tuple(a + b for a, b in zip(place, step))
                inside = all(0 <= a < n for a, n in zip(other, mask.shape))
                if inside and mask[other] and not found[other]:
                    found[other] = number
                    open_.append(other)
    return found


def hull(mask: Mask) -> Mask:
    """All voxels that no half-space with the object on its border leaves out; its own hull if it is
    flat.
    """
    points = np.argwhere(mask)
    if np.linalg.matrix_rank(points - points[0]) < mask.ndim:
        return mask
    if mask.ndim == 2:
        arms = (points[:, None] - points[None]).reshape(-1, 2)
        normals = np.stack([-arms[:, 1], arms[:, 0]], axis=1)
    else:
        a, b, c = points[np.array(list(itertools.combinations(range(len(points)), 3)))].transpose(
            1, 0, 2
        )
        normals = np.cross(b - a, c - a)
    normals = np.unique(np.concatenate([normals, -normals]), axis=0)
    everywhere = np.argwhere(np.ones_like(mask))
    inside = (everywhere @ normals.T <= (points @ normals.T).max(axis=0)).all(axis=1)
    return inside.reshape(mask.shape)


def boundary(mask: Mask, depth: int) -> Mask:
    """The voxels with something outside at most ``depth`` steps away, diagonal steps allowed."""
    padded = np.pad(mask, depth)
    found = np.zeros_like(mask)
    for place in map(tuple, np.argwhere(mask)):
        found[place] = not padded[tuple(slice(at, at + 2 * depth + 1) for at in place)].all()
    return found


def boundary_iou(t: Mask, p: Mask) -> float:
    depth = max(1, round(0.02 * math.sqrt(sum(side**2 for side in t.shape))))
    return iou(boundary(t, depth), boundary(p, depth))
