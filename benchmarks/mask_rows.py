# SPDX-License-Identifier: Apache-2.0
"""Rows of the benchmark for run-length masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.contest import Result, peer_name, take_turns
from benchmarks.rows import row

SIDE = 512
ROUNDS = 7


def discs(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Return n masks of 512 x 512: discs of 5 to 60 pixels radius with frayed borders, anywhere."""
    random = np.random.default_rng(seed)
    y, x = np.ogrid[:SIDE, :SIDE]
    found = np.zeros((n, SIDE, SIDE), np.bool_)
    for mask in found:
        (cy, cx), radius = random.uniform(0, SIDE, 2), random.uniform(5, 60)
        mask[:] = np.hypot(y - cy, x - cx) + random.uniform(0, 3, (SIDE, SIDE)) <= radius
        mask[int(cy), int(cx)] = True
    return found


def balls(n: int, seed: int, side: int = 256) -> np.ndarray[Any, Any]:
    """Return a label volume of n balls with a radius of 3 to 12 voxels."""
    random = np.random.default_rng(seed)
    volume = np.zeros((side,) * 3, np.uint16)
    for k in range(n):
        centre, radius = random.integers(12, side - 12, 3), int(random.integers(3, 12))
        grid = np.indices((2 * radius + 1,) * 3) - radius
        inside = (grid**2).sum(axis=0) <= radius**2
        volume[tuple(slice(c - radius, c + radius + 1) for c in centre)][inside] = k + 1
    return volume


@row("rle-iou")
def rle_iou() -> Iterator[Result]:
    """IoU of 1,000 predicted with 100 reference masks of one image, from run lengths that are there."""
    from pycocotools import mask as peer

    import calipers
    from calipers.criteria import masks as criteria

    arrays = discs(1000, 1), discs(100, 2)
    theirs = [peer.encode(np.asfortranarray(array.transpose(1, 2, 0).astype(np.uint8))) for array in arrays]
    predictions, references = (
        {"masks": array, "labels": [0] * len(array), "scores": [1.0] * len(array)} for array in arrays
    )
    cohort = calipers.Cohort.from_arrays([references], [predictions], classes=("a",))

    def ours() -> Any:
        return criteria.MASK_IOU.fused(cohort, cohort.predictions("model"), 1)  # type: ignore[misc]

    _, _, found = ours()
    expected = peer.iou(*theirs, [0] * 100)
    if not np.array_equal(np.sort(found), np.sort(expected[expected > 0])):
        raise AssertionError("the two IoU differ")
    times = take_turns({"ours": ours, "peer": lambda: peer.iou(*theirs, [0] * 100)}, ROUNDS)
    what = "IoU of 1,000 x 100 masks, 512^2"
    yield Result("rle-iou", what, "NumPy", peer_name("pycocotools"), times["peer"], times["ours"], "s", 0.5, ROUNDS)


@row("rle-components")
def rle_components() -> Iterator[Result]:
    """Connected components of a volume of 256^3 voxels, from the array to run-length masks."""
    from scipy import ndimage

    from calipers.tables.masks import Masks

    volume = balls(200, 1) > 0
    structure = np.ones((3, 3, 3))
    if len(Masks.from_components(volume)) != ndimage.label(volume, structure)[1]:
        raise AssertionError("the numbers of components differ")
    times = take_turns(
        {"ours": lambda: Masks.from_components(volume), "scipy": lambda: ndimage.label(volume, structure)}, ROUNDS
    )
    what, name = "components of 256^3 voxels, 26 neighbours", peer_name("scipy")
    yield Result("rle-components", what, "NumPy", name, times["scipy"], times["ours"], "s", 3.0, ROUNDS)
