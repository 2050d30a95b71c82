"""COCO's run lengths and polygons, slow and obvious: one character, one pixel, one fifth of a pixel
at a time.
"""

from __future__ import annotations

import itertools

import numpy as np


def counts_of(mask: np.ndarray) -> list[int]:
    """Count down the columns: outside, inside, outside, ..."""
    counts, inside = [0], False
    for pixel in mask.T.reshape(-1).tolist():
        if bool(pixel) != inside:
            inside = not inside
            counts.append(0)
        counts[-1] += 1
    return counts


def mask_of(counts: list[int], height: int, width: int) -> np.ndarray:
    pixels = [k % 2 == 1 for k, count in enumerate(counts) for _ in range(count)]
    return np.array(pixels, np.bool_).reshape(width, height).T


def text_of(counts: list[int]) -> str:
    text = ""
    for k, count in enumerate(counts):
        left = count - counts[k - 2] if k > 2 else count
        while True:
            bits, left = left & 31, left >> 5
            done = left == (-1 if bits & 16 else 0)
            text += chr(48 + bits + (0 if done else 32))
            if done:
                break
    return text


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, length) of the runs along rows."""
    found = []
    for y, row in enumerate(mask.tolist()):
        x = 0
        while x < len(row):
            begin = x
            while x < len(row) and row[x]:
                x += 1
            if x > begin:
                found.append((y * len(row) + begin, x - begin))
            x += 1
    return found


def drawn(ring: list[tuple[float, float]], height: int, width: int) -> np.ndarray:
    """Walk along the outline in steps of a fifth of a pixel; each crossing of a column turns the
    pixels below it.
    """
    corners = [(int(5 * x + 0.5), int(5 * y + 0.5)) for x, y in ring]
    points = []
    for (xs, ys), (xe, ye) in zip(corners, [*corners[1:], corners[0]]):
        flat = abs(xe - xs) >= abs(ye - ys)
        steps = max(abs(xe - xs), abs(ye - ys))
        turned = xs > xe if flat else ys > ye
        (xa, ya), (xb, yb) = ((xe, ye), (xs, ys)) if turned else ((xs, ys), (xe, ye))
        edge = []
        for t in range(steps + 1):
            if flat:
                edge.append((xa + t, int(ya + (yb - ya) / steps * t + 0.5) if steps else ya))
            else:
                edge.append((int(xa + (xb - xa) / steps * t + 0.5), ya + t))
        points += edge[::-1] if turned else edge
    mask = np.zeros((height, width), np.bool_)
    for (u, v), (next_u, next_v) in itertools.pairwise(points):
        at = min(u, next_u)
        if next_u != u and at >= 0 and at % 5 == 2 and at // 5 < width:
            below = max(0, int(np.ceil((min(v, next_v) + 0.5) / 5 - 0.5)))
            mask[below:, at // 5] ^= True
    return mask


def crosses_itself(ring: list[tuple[float, float]]) -> bool:
    def side(a, b, c):
        return np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    edges = list(zip(ring, [*ring[1:], ring[0]]))
    return any(
        side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
        for k, (a, b) in enumerate(edges)
        for c, d in edges[k + 1 :]
    )
