# SPDX-License-Identifier: Apache-2.0
"""Rows for the stability of repeated trainings: scores of all pairs of K models, bag by bag.

The bars are set for 10 models: 20x, for tau-b at 256 instances. Rows beside these have lower ones:
5x for tau-b of larger maps, and half of the bar with 5 models, where fewer pairs share the work on
a map. `object-stability` has the boxes of ten detectors instead, against the loop that one would
write. Ratios do not depend on the number of bags, so each size has as many as keep the row short,
and the peer scores some pairs of one bag, scaled to all pairs of 1,000 bags; the row says both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import Result, peak_memory, peer_name, take_turns
from benchmarks.rows import ONE_THREAD, row
from benchmarks.voxel_rows import on, same

F64 = NDArray[np.float64]
Score = Callable[[F64], F64]

MODELS = (5, 10, 20)
BAGS = {256: 100, 4096: 10, 65_536: 1}  # instances, and bags of Calipers
PEER_PAIRS = {256: 45, 4096: 20, 65_536: 5}  # pairs that the peer scores, at most
ROUNDS = 5
MEMORY = 400.0  # MB with ten maps of 2^20 instances, which are 80 MB


def bags(n_bags: int, n_models: int, n: int, seed: int = 0) -> F64:
    """Return (bags, models, instances) maps in [0, 1] that have something in common."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_bags, 1, n))
    return np.asarray(1 / (1 + np.exp(-common - rng.normal(size=(n_bags, n_models, n)))))


@row("stability-spearman")
def spearman() -> Iterator[Result]:
    """Spearman's correlation of all pairs, from the maps, against SciPy."""
    from scipy.stats import spearmanr

    from calipers.kernels import ranks

    yield from contest(
        "stability-spearman",
        "Spearman",
        ranks.spearman,
        lambda x, y: spearmanr(x, y)[0],
        "scipy",
        20.0,
    )


@row("stability-kappa")
def kappa() -> Iterator[Result]:
    """Cohen's kappa of all pairs at the threshold .5, from the maps, against scikit-learn."""
    from sklearn.metrics import cohen_kappa_score

    from calipers.kernels import agreement, ranks

    def ours(values: F64) -> F64:
        ones, both, _ = ranks.joint_counts(values, np.array([0.5]))
        first, second = ranks.pair_index(len(values))
        n11 = both[0].astype(np.float64)
        n10, n01 = ones[0, first] - n11, ones[0, second] - n11
        return agreement.cohen_kappa(n11, n10, n01, values.shape[1] - n11 - n10 - n01)

    def peer(x: F64, y: F64) -> float:
        return float(cohen_kappa_score(x >= 0.5, y >= 0.5))

    yield from contest("stability-kappa", "kappa", ours, peer, "scikit-learn", 20.0)


@row("stability-kendall")
def kendall() -> Iterator[Result]:
    """Kendall's tau-b of all pairs, from the maps, against SciPy; the bar is for 256 instances."""
    from scipy.stats import kendalltau

    from calipers.kernels import ranks

    def ours(values: F64) -> F64:
        return ranks.kendall(values)[0]

    yield from contest(
        "stability-kendall",
        "tau-b",
        ours,
        lambda x, y: kendalltau(x, y)[0],
        "scipy",
        20.0,
        large=5.0,
    )


def contest(
    name: str,
    score: str,
    ours: Score,
    peer: Callable[[F64, F64], float],
    package: str,
    bar: float,
    large: float = 20.0,
) -> Iterator[Result]:
    """Compare the native route with pairwise calls of a peer: time per 1,000 bags,
    for all numbers of models.
    """
    for n, n_bags in BAGS.items():
        for n_models in MODELS:
            values = bags(n_bags, n_models, n)
            first, second = np.triu_indices(n_models, 1)
            some = np.arange(len(first))[: PEER_PAIRS[n]]

            def scored(values: F64 = values) -> list[F64]:
                return [ours(bag) for bag in values]

            def paired(
                values: F64 = values, some: Any = some, first: Any = first, second: Any = second
            ) -> list[float]:
                return [peer(values[0, first[p]], values[0, second[p]]) for p in some]

            same(scored()[0][some], paired(), 1e-12)
            times = take_turns({"ours": on("native", scored), "peer": paired}, ROUNDS)
            what = (
                f"{score}, K={n_models}, N={n:,}; per 1,000 bags, of {n_bags} and peer's "
                f"{len(some)} pairs"
            )
            needs = times["peer"] / len(some) * len(first) * 1000
            least = bar if n == min(BAGS) else large
            if n_models < 10:
                least /= 2  # fewer pairs share the work on one map
            used = times["ours"] / n_bags * 1000
            yield Result(name, what, "native", peer_name(package), needs, used, "s", least, ROUNDS)
    yield memory(name, score)


def memory(name: str, score: str) -> Result:
    """Return the peak memory with ten maps of 2^20 instances, the maps and Python included."""
    calls = {
        "Spearman": "ranks.spearman(values)",
        "kappa": "ranks.joint_counts(values, np.array([0.5]))",
        "tau-b": "ranks.kendall(values)",
    }
    code = (
        "import numpy as np\nfrom calipers.kernels import ranks\n"
        f"values = np.random.default_rng(0).random((10, 1 << 20))\n{calls[score]}\n"
    )
    used = peak_memory(code, **ONE_THREAD)
    limit = f"limit of {MEMORY:.0f} MB"
    return Result(
        name, f"peak, {score}, K=10, N=1,048,576", "native", limit, MEMORY, used, "MB", 1.0, 1
    )


DETECTORS, IMAGES, BOXES = 10, 1000, 60
PEER_IMAGES = 5  # of which the peer's time is scaled to all


@row("object-stability")
def object_stability() -> Iterator[Result]:
    """Which boxes of ten detectors mean the same object, against a loop over images and pairs of
    models with matrices of IoU; ours also computes all numbers and their intervals.
    """
    from calipers.stability.objects import object_stability as stability

    cohort = detectors(IMAGES)
    few = stability(detectors(PEER_IMAGES), replicates=200)
    if len(few.evidence.couples) != paired_boxes(detectors(PEER_IMAGES)):
        raise AssertionError("the two numbers of couples differ")
    some = detectors(PEER_IMAGES)
    times = take_turns(
        {
            "native": on("native", lambda: stability(cohort)),
            "peer": lambda: paired_boxes(some),
        },
        3,
        time.process_time,
    )
    what = f"{DETECTORS} detectors x {IMAGES:,} images x {BOXES} boxes; peer's {PEER_IMAGES} images"
    needs = times["peer"] / PEER_IMAGES * IMAGES
    yield Result(
        "object-stability", what, "native", "a loop in NumPy", needs, times["native"], "s", 8.0, 3
    )


def detectors(n_images: int, seed: int = 0) -> Any:
    """Return a cohort in which all models find nearly the same objects of three classes, half of
    which are references.
    """
    import calipers as cal

    rng = np.random.default_rng(seed)
    references: list[dict[str, Any]] = []
    models: dict[str, list[dict[str, Any]]] = {f"m{k}": [] for k in range(DETECTORS)}
    for _ in range(n_images):
        low = rng.random((BOXES, 2)) * 800
        objects = np.concatenate([low, low + 20 + rng.random((BOXES, 2)) * 100], axis=1)
        labels = rng.integers(0, 3, BOXES)
        half = slice(0, BOXES // 2)
        references.append({"boxes": objects[half], "labels": labels[half]})
        for images in models.values():
            boxes = objects + rng.normal(0, 4, (BOXES, 4))
            boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 5)
            images.append({"boxes": boxes, "labels": labels, "scores": rng.random(BOXES)})
    return cal.Cohort.from_arrays(references, models, classes=("a", "b", "c"))


def paired_boxes(cohort: Any, threshold: float = 0.5) -> int:
    """Return how many pairs of boxes of two models are taken, the most similar ones first."""
    tables = list(cohort.models.values())
    total = 0
    for image in range(cohort.n_images):
        spans = [slice(*table.offsets[image : image + 2]) for table in tables]
        for first in range(len(tables)):
            for second in range(first + 1, len(tables)):
                one, other = tables[first], tables[second]
                a, b = one.boxes[spans[first]], other.boxes[spans[second]]
                low = np.maximum(a[:, None, :2], b[None, :, :2])
                high = np.minimum(a[:, None, 2:], b[None, :, 2:])
                common = np.maximum(high - low, 0).prod(axis=2)
                whole = one.extent[spans[first]][:, None] + other.extent[spans[second]] - common
                iou = common / whole
                same_class = one.label[spans[first]][:, None] == other.label[spans[second]]
                iou = np.where(same_class, iou, 0.0)
                while iou.size and iou.max() >= threshold:
                    row_at, column = np.unravel_index(iou.argmax(), iou.shape)
                    iou[row_at], iou[:, column] = 0.0, 0.0
                    total += 1
    return total
