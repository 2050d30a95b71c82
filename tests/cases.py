"""Cohorts and metrics that many tests use: random sets of every awkward kind, and one metric built
from its options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.cohort import Cohort
from calipers.data.masks import Masks, no_masks
from calipers.data.objects import box_extent
from calipers.evaluation.protocol import Protocol
from calipers.metrics.base import Evidence, Metric
from calipers.results.toml import toml_value
from random_cohorts import random_cohort

MODEL = "model-1"
NEED_MASKS = (
    "mask-iou",
    "dice",
    "hull-iou",
    "boundary-iou",
    "point-in-mask",
    "point-in-hull",
)  # criteria


def public_data() -> Path:
    """Return the folder of public data that some tests read: the one that CALIPERS_DATA names, else
    the nearest ``shared/data`` beside this checkout or above it.
    """
    named = os.environ.get("CALIPERS_DATA")
    if named:
        return Path(named)
    places = [folder / "shared" / "data" for folder in Path(__file__).resolve().parents]
    return next((place for place in places if place.is_dir()), places[2])


DATA = public_data()

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied scores": {"tie_levels": 3},
    "constant score": {"tie_levels": 1},
    "integer grid": {"grid": 16.0},
    "grid and ties": {"grid": 40.0, "tie_levels": 4},
    "crowds": {"crowd_share": 0.3},
    "ignored": {"ignore_share": 0.3, "grid": 8.0},
    "declared areas": {"declared_areas": True, "crowd_share": 0.1},
    "mostly empty": {"empty_share": 0.8},
    "one class": {"n_classes": 1},
    "many classes": {"n_classes": 9, "objects": 2.0},
    "crowded images": {"objects": 9.0, "n_classes": 2, "grid": 32.0},
    "volumes": {"dimensions": 3},
    "volumes on a grid": {"dimensions": 3, "grid": 40.0, "tie_levels": 3, "ignore_share": 0.2},
}


@cache
def cohort_of(kind: str, seed: int, n_images: int = 12, models: int = 1) -> Cohort:
    """Return a random cohort of one of the `KINDS`; the same one to every test that asks for it."""
    options = {"n_classes": 3, **KINDS[kind]}
    cohort = random_cohort(n_images, options.pop("n_classes"), seed=seed, models=models, **options)
    # Sequences of three frames in the wrong order, for the metrics of sequences.
    number = np.arange(n_images)
    return cohort.with_groups(
        {
            "sequence": np.array([f"s{k // 3}" for k in number.tolist()], dtype=str),
            "frame": 2.0 - number % 3,
            "fps": np.full(n_images, 25.0),
        }
    )


def metric_of(
    kind: str,
    matching: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    **options: Any,
) -> Metric[Any]:
    """Return one metric, compiled through a protocol as users do."""
    lines = ['schema = "calipers.protocol/1"', 'name = "test"', 'source = "test"', "[matching]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in (matching or {}).items()]
    lines += ["[sizes]", *(f"{key} = {toml_value(value)}" for key, value in (sizes or {}).items())]
    lines += ["[[metric]]", 'name = "m"', f'kind = "{kind}"']
    lines += [f"{key} = {toml_value(value)}" for key, value in options.items()]
    (metric,) = Protocol.from_toml("\n".join(lines)).compile()
    return metric


def evidence_of(metric: Metric[Any], cohort: Cohort, model: str = MODEL) -> Evidence:
    """Return the evidence of one metric."""
    return metric.recipe.collect(cohort, model)


def values_of(
    metric: Metric[Any], cohort: Cohort, weights: Any = None, model: str = MODEL
) -> np.ndarray:
    """Return (1 + n_classes, n_names) with weight 1 for every image, or with the given weights."""
    weights = (
        np.ones(cohort.n_images, np.int64) if weights is None else np.asarray(weights, np.int64)
    )
    return metric.value(evidence_of(metric, cohort, model), weights[None, :])[0]


def references_as_predictions(cohort: Cohort, model: str = MODEL) -> Cohort:
    """Return the cohort with a model that says exactly what is there."""
    from calipers.data.objects import Predictions

    counted = cohort.references.keep(~cohort.references.ignore)
    score = np.linspace(0.9, 0.1, len(counted)) if len(counted) else np.zeros(0)
    perfect = Predictions(
        offsets=counted.offsets,
        boxes=counted.boxes,
        extent=counted.extent,
        label=counted.label,
        place=counted.place,
        facts={},
        area=counted.area,
        score=score,
        scored=True,
        masks=counted.masks,
        points=counted.points,
    )
    return cohort.with_predictions(model, perfect)


def masked(cohort: Cohort, cell: float = 8.0) -> Cohort:
    """Return the cohort with discs (balls) for boxes, on a grid with cells of so many pixels; boxes
    are around them.
    """
    size = np.ceil(cohort.images.size / cell).astype(np.int64)
    tables = {
        name: _discs(table, size, cell)
        for name, table in [("", cohort.references), *cohort.models.items()]
    }
    images = replace(cohort.images, size=size.astype(np.float64))
    return replace(cohort, images=images, references=tables.pop(""), models=tables)


def _discs(table: Any, size: np.ndarray, cell: float) -> Any:
    arrays = []
    for box, image in zip(table.boxes / cell, table.image):
        low, high = np.split(box, 2)
        frame, middle = size[image], (low + high) / 2
        axes = np.ogrid[tuple(slice(n) for n in frame[::-1])][::-1]
        radius = (high - low) / 2
        inside = sum(((axes[k] + 0.5 - middle[k]) / radius[k]) ** 2 for k in range(len(frame))) <= 1
        inside[tuple(np.clip(np.floor(middle), 0, frame - 1).astype(int)[::-1])] = True
        arrays.append(inside)
    masks = Masks.from_dense(arrays) if arrays else no_masks(table.dimensions)
    boxes = masks.boxes()
    return replace(
        table, masks=masks, boxes=boxes, extent=box_extent(boxes), area=masks.voxels.astype(float)
    )
