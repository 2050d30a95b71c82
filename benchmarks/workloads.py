# SPDX-License-Identifier: Apache-2.0
"""The synthetic workloads of the benchmark, the same numbers on every machine.

- ``a``: 5,000 images, 80 classes, about 36 k references, 100 predictions on half of the images;
- ``b``: 10,000 medical-like images, 8 classes, 0 to 3 references and 0 to 6 predictions each;
- ``b882``, ``b100k``, ``c`` (200 k), ``b1M``: the same kind at another number of images.

Coordinates are multiples of 1/64 pixel and scores are float32 numbers, so that tools that work in
single precision read the same values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
IMAGES = {"b882": 882, "b": 10_000, "b100k": 100_000, "c": 200_000, "b1M": 1_000_000}
Workload = dict[str, Any]


def make(kind: str, seed: int = 20260101) -> Workload:
    """Return flat arrays: ``gt_img gt_cls gt_box gt_area dt_img dt_cls dt_box dt_score`` (boxes x y
    w h) and sizes.
    """
    rng = np.random.default_rng(seed)
    return _natural(rng) if kind == "a" else _medical(rng, IMAGES[kind])


def _natural(rng: np.random.Generator) -> Workload:
    n_images, n_classes, size = 5000, 80, (640, 480)
    share = 1.0 / np.arange(1, n_classes + 1) ** 0.9
    share /= share.sum()
    counts = rng.poisson(7.3, n_images)
    image = np.repeat(np.arange(n_images), counts)
    label = rng.choice(n_classes, len(image), p=share)
    boxes = _boxes(rng, len(image), size, 8, 300)
    chosen = np.zeros(n_images, np.bool_)
    chosen[rng.permutation(n_images)[: n_images // 2]] = True
    where = np.repeat(np.flatnonzero(chosen), 100)
    found = _predictions(
        rng, where, counts, label, boxes, size, (0.25, 0.12, 0.85), (8, 300), share, (4,)
    )
    return _workload(n_images, n_classes, size, (image, label, boxes), (where, *found))


def _medical(rng: np.random.Generator, n_images: int) -> Workload:
    n_classes, size = 8, (1024, 1024)
    share = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03])
    counts = rng.choice(4, n_images, p=[0.45, 0.35, 0.15, 0.05])
    image = np.repeat(np.arange(n_images), counts)
    label = rng.choice(n_classes, len(image), p=share)
    boxes = _boxes(rng, len(image), size, 24, 500)
    where = np.repeat(np.arange(n_images), rng.integers(0, 7, n_images))
    found = _predictions(
        rng, where, counts, label, boxes, size, (0.5, 0.15, 0.8), (24, 500), share, (3,)
    )
    return _workload(n_images, n_classes, size, (image, label, boxes), (where, *found))


def _predictions(
    rng: np.random.Generator,
    image: NDArray[np.int64],
    counts: NDArray[np.int64],
    label: NDArray[np.int64],
    boxes: F64,
    size: tuple[int, int],
    habits: tuple[float, float, float],
    sides: tuple[int, int],
    share: F64,
    noise: tuple[int],
) -> tuple[NDArray[np.int64], F64, F64]:
    """Return class, box and score: some jitter a reference of their image, the others are noise."""
    n, (near, spread, right) = len(image), habits
    start = np.concatenate([[0], np.cumsum(counts)])
    here = counts[image]
    source = start[image] + (rng.random(n) * np.maximum(here, 1)).astype(int)
    used = (rng.random(n) < near) & (here > 0)
    source = np.minimum(source, len(label) - 1)
    box = np.where(
        used[:, None], _jitter(rng, boxes[source], spread, size), _boxes(rng, n, size, *sides)
    )
    kept = used & (rng.random(n) < right)
    klass = np.where(kept, label[source], rng.choice(len(share), n, p=share))
    score = np.where(used, rng.beta(3, 2, n), rng.beta(1, noise[0], n))
    return klass, box, score.astype(np.float32).astype(np.float64)


def _boxes(rng: np.random.Generator, n: int, size: tuple[int, int], low: int, high: int) -> F64:
    side = np.exp(rng.uniform(np.log(low), np.log(high), n))
    aspect = np.exp(rng.normal(0, 0.4, n))
    w, h = side * np.sqrt(aspect), side / np.sqrt(aspect)
    return _inside(
        rng.uniform(0, 1, n) * (size[0] - w), rng.uniform(0, 1, n) * (size[1] - h), w, h, size
    )


def _jitter(rng: np.random.Generator, box: F64, spread: float, size: tuple[int, int]) -> F64:
    strength = np.abs(rng.normal(0, spread, len(box)))[:, None]
    d = rng.normal(0, 1, (len(box), 4)) * strength
    x, y = box[:, 0] + d[:, 0] * box[:, 2], box[:, 1] + d[:, 1] * box[:, 3]
    return _inside(x, y, box[:, 2] * np.exp(d[:, 2]), box[:, 3] * np.exp(d[:, 3]), size)


def _inside(x: F64, y: F64, w: F64, h: F64, size: tuple[int, int]) -> F64:
    w, h = np.clip(w, 2, size[0]), np.clip(h, 2, size[1])
    x, y = np.clip(x, 0, size[0] - w), np.clip(y, 0, size[1] - h)
    return np.asarray(np.round(np.stack([x, y, w, h], 1) * 64.0) / 64.0)


def _workload(
    n_images: int,
    n_classes: int,
    size: tuple[int, int],
    references: tuple[Any, ...],
    predictions: tuple[Any, ...],
) -> Workload:
    image, label, boxes = references
    return {
        "n_img": n_images,
        "n_cls": n_classes,
        "gt_img": image.astype(np.int64),
        "gt_cls": label.astype(np.int64),
        "gt_box": boxes,
        "gt_area": boxes[:, 2] * boxes[:, 3],
        "dt_img": predictions[0].astype(np.int64),
        "dt_cls": predictions[1].astype(np.int64),
        "dt_box": predictions[2],
        "dt_score": predictions[3],
        "W": size[0],
        "H": size[1],
    }


def to_coco(d: Workload) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return COCO annotations and results; ids are index + 1."""
    images = [
        {"id": i + 1, "width": d["W"], "height": d["H"], "file_name": f"{i}.png"}
        for i in range(d["n_img"])
    ]
    categories = [{"id": c + 1, "name": f"c{c}"} for c in range(d["n_cls"])]
    columns = zip(
        d["gt_img"].tolist(), d["gt_cls"].tolist(), d["gt_box"].tolist(), d["gt_area"].tolist()
    )
    annotations = [
        {"id": k + 1, "image_id": i + 1, "category_id": c + 1, "bbox": b, "area": a, "iscrowd": 0}
        for k, (i, c, b, a) in enumerate(columns)
    ]
    found = zip(
        d["dt_img"].tolist(), d["dt_cls"].tolist(), d["dt_box"].tolist(), d["dt_score"].tolist()
    )
    results = [
        {"image_id": i + 1, "category_id": c + 1, "bbox": b, "score": s} for i, c, b, s in found
    ]
    document = {
        "info": {},
        "licenses": [],
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }
    return document, results


def to_cohort(d: Workload) -> Any:
    """Return the workload as a cohort in memory, with one model."""
    from calipers.data.cohort import Cohort, Images, Intake
    from calipers.data.rules import Delivery, as_predictions, as_references

    n, size = d["n_img"], np.tile([[float(d["W"]), float(d["H"])]], (d["n_img"], 1))

    def delivery(side: str, score: F64 | None = None) -> Delivery:
        image, place = d[f"{side}_img"], np.arange(len(d[f"{side}_img"]))
        return Delivery(image, d[f"{side}_cls"], d[f"{side}_box"], "xywh", place, score=score)

    images = Images(tuple(map(str, range(n))), size, np.full((n, 2), np.nan), {})
    predictions = as_predictions(delivery("dt", d["dt_score"]), size)
    classes = tuple(f"c{c}" for c in range(d["n_cls"]))
    return Cohort(
        images, classes, as_references(delivery("gt"), size), {"model": predictions}, Intake()
    )


def polyps(seed: int = 2) -> dict[str, NDArray[Any]]:
    """Return a table of 1,400 polyps on 1,315 images of 274 patients in 6 centres, with effects of
    size and type.

    The seed is one on which statsmodels finds the optimum; on others it may stop at a deviance that
    is higher by 2.
    """
    rng = np.random.default_rng(seed)
    n_centres, n_patients, n_images, n = 6, 274, 1315, 1400
    centre_of = rng.integers(0, n_centres, n_patients)
    patient_of = np.concatenate(
        [np.arange(n_patients), rng.integers(0, n_patients, n_images - n_patients)]
    )
    image = np.concatenate([np.arange(n_images), rng.integers(0, n_images, n - n_images)])
    patient = patient_of[image]
    centre = centre_of[patient]
    size, kind = rng.choice(["large", "medium", "small"], n), rng.choice(["flat", "protruded"], n)
    iou = 0.75 - 0.05 * (size == "medium") - 0.28 * (size == "small") + 0.08 * (kind == "protruded")
    for code, sd in ((centre, 0.04), (patient, 0.08), (image, 0.06), (np.arange(n), 0.12)):
        iou = iou + sd * rng.standard_normal(int(code.max()) + 1)[code]
    return {
        "iou": iou,
        "size": size,
        "type": kind,
        "centre": centre,
        "patient": patient,
        "image": image,
    }


def voxels(n: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return scores in [0, 1] and the flags of positive voxels, 3 % of them, made piece by piece to
    save memory.
    """
    rng = np.random.default_rng(seed)
    scores, positive = np.empty(n, np.float32), np.empty(n, np.bool_)
    for start in range(0, n, 1_000_000):
        flags = rng.random(min(1_000_000, n - start)) < 0.03
        values = rng.normal(np.where(flags, 0.5, -1.5), 1.5)
        scores[start : start + len(flags)] = 1 / (1 + np.exp(-values))
        positive[start : start + len(flags)] = flags
    return scores, positive


def regions(
    n: int, side: int = 256, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return (n, side, side) scores and components: up to three discs a map, numbered inside of
    their map.
    """
    rng = np.random.default_rng(seed)
    scores, components = (
        rng.random((n, side, side), np.float32),
        np.zeros((n, side, side), np.int32),
    )
    y, x = np.mgrid[:side, :side]
    for k in range(n):
        for number in range(1, 1 + int(rng.integers(0, 4))):
            centre, radius = rng.integers(20, side - 20, 2), int(rng.integers(4, 20))
            disc = (y - centre[0]) ** 2 + (x - centre[1]) ** 2 < radius**2
            components[k][disc] = number
            scores[k][disc] **= 0.5
    return scores, components


def unique_regions(components: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return components whose numbers are unique over all maps, without gaps."""
    found = np.where(components > 0, components + 4 * np.arange(len(components))[:, None, None], 0)
    return np.unique(found, return_inverse=True)[1].reshape(components.shape)
