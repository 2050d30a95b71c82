# SPDX-License-Identifier: Apache-2.0
"""Fusion against ensemble-boxes, which takes one image per call: the whole cohort in one call of
ours, and image by image with our functions that take the same lists.

Six models mark the same 50 objects of every image, of one class. The peers are
``ensemble_boxes.nms`` and ``ensemble_boxes.weighted_boxes_fusion`` with the boxes of all models of
an image, the same threshold and no weights; ours are recipes with that one step. The peer is
compiled with numba if that is installed; the row says so. The bars are for the peer as the tests
install it, without: numba makes its suppression about three times faster, its weighted boxes fusion
no faster. Both have their boxes in memory, in the form that they like best, and both give the same
boxes before anything is measured. The clock is that of the processor, so that threads gain nothing.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.contest import Result, peer_name, take_turns
from benchmarks.rows import row
from benchmarks.voxel_rows import same
from calipers.kernels import route

IMAGES, MODELS, BOXES, ROUNDS = 1000, 6, 50, 5
PEER_IMAGES = 100  # of which the peer's time is scaled to all
IOU = 0.5
NUMPY_BAR = 0.1  # rounds over all images at once; the peer's suppression is compiled
Member = tuple[np.ndarray, np.ndarray, np.ndarray]


@row("wbf")
def weighted_boxes_fusion() -> Iterator[Result]:
    """Weighted boxes fusion of all models."""
    import calipers as cal

    peer, what = ensemble_boxes().weighted_boxes_fusion, "weighted boxes fusion"
    yield from cohort_rows("wbf", what, "weighted-boxes-fusion", peer, 150.0)
    yield image_row("wbf", what, cal.weighted_boxes_fusion, peer)


@row("nms")
def suppression() -> Iterator[Result]:
    """Non-maximum suppression of all models together."""
    import calipers as cal

    peer, what = ensemble_boxes().nms, "NMS of all models together"
    yield from cohort_rows("nms", what, "nms", peer, 50.0)
    yield image_row("nms", what, cal.nms, peer)


def image_row(
    name: str, what: str, function: Callable[..., Any], peer: Callable[..., Any]
) -> Result:
    """Return the result of our function on the lists of one image after the other."""
    images = ensemble()[0][:PEER_IMAGES]

    def ours() -> None:
        for members in images:
            function(*map(list, zip(*members)), iou_threshold=IOU)

    def theirs() -> None:
        for members in images:
            peer(*map(list, zip(*members)), iou_thr=IOU)

    times = take_turns({"ours": ours, "peer": theirs}, ROUNDS, time.process_time)
    return Result(
        name,
        f"{what}, one image per call, {PEER_IMAGES} images",
        "native" if route.native() is not None else "NumPy",
        peer_name("ensemble-boxes") + compiled(),
        times["peer"],
        times["ours"],
        "s",
        1.0,
        ROUNDS,
    )


def cohort_rows(
    name: str, what: str, kind: str, function: Callable[..., Any], bar: float
) -> Iterator[Result]:
    """Yield the results of a recipe with one step, on all images in one call."""
    from calipers.fusion.fuse import carry_out
    from calipers.fusion.recipe import FusionRecipe

    def of_peer(members: list[Member]) -> Any:
        boxes, scores, labels = map(list, zip(*members))
        return function(boxes, scores, labels, iou_thr=IOU)

    pool = "pool = true\n" if kind == "nms" else ""
    recipe = FusionRecipe.from_toml(
        f'schema = "calipers.recipe/1"\nname = "bench"\n[[step]]\nkind = "{kind}"\n'
        f"iou_threshold = {IOU}\n{pool}"
    )
    images, cohort = ensemble()
    first = carry_out(cohort, recipe).predictions.span(0, 1)
    boxes, scores, _ = of_peer(images[0])
    order = np.argsort(-scores, kind="stable")
    same(first.score, scores[order], 1e-6)
    same(first.boxes, boxes[order], 1e-6)
    routes = ["native", "numpy"] if route.native() is not None else ["numpy"]
    for one in routes:

        def ours(one: str = one) -> None:
            with route.forced(one):
                carry_out(cohort, recipe)

        def theirs() -> None:
            for members in images[:PEER_IMAGES]:
                of_peer(members)

        times = take_turns({"ours": ours, "peer": theirs}, ROUNDS, time.process_time)
        yield Result(
            name,
            f"{what}, {IMAGES:,} images x {MODELS} models x {BOXES} boxes",
            "native" if one == "native" else "NumPy",
            peer_name("ensemble-boxes") + compiled(),
            times["peer"] * IMAGES / PEER_IMAGES,
            times["ours"],
            "s",
            bar if one == "native" else NUMPY_BAR,
            ROUNDS,
        )


@cache
def ensemble() -> tuple[list[list[Member]], Any]:
    """Return the boxes of every image and model, and the cohort of them."""
    import calipers as cal

    rng = np.random.default_rng(0)
    images: list[list[Member]] = []
    for _ in range(IMAGES):
        low = rng.random((BOXES, 2)) * 0.8
        objects = np.concatenate([low, low + 0.03 + rng.random((BOXES, 2)) * 0.15], axis=1)
        members = []
        for _ in range(MODELS):
            boxes = np.clip(objects + rng.normal(0, 0.005, (BOXES, 4)), 0, 1)
            members.append((boxes, rng.random(BOXES), np.zeros(BOXES, int)))
        images.append(members)
    models = {}
    for k in range(MODELS):
        own = [members[k] for members in images]
        models[f"m{k}"] = [{"boxes": b, "scores": s, "labels": c} for b, s, c in own]
    nothing = [{"boxes": np.zeros((0, 4)), "labels": []}] * IMAGES
    return images, cal.Cohort.from_arrays(nothing, models, classes=("object",))


@cache
def ensemble_boxes() -> Any:
    """Return the peer; without numba its functions run as they are written."""
    if importlib.util.find_spec("numba") is None:
        stand_in = ModuleType("numba")
        stand_in.jit = lambda **options: lambda function: function  # type: ignore[attr-defined]
        sys.modules["numba"] = stand_in
    return importlib.import_module("ensemble_boxes")


def compiled() -> str:
    """Say whether the peer is compiled."""
    is_compiled = hasattr(sys.modules["numba"], "__file__")
    return " with numba" if is_compiled else " without numba"
