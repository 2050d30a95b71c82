"""Samples of maps that many tests use, and protocols for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import calipers as cal
from calipers.metrics.maps import MapSettings
from calipers.results.toml import toml_value
from calipers.synthetic.volumes import Disc, labelled

Sample = dict[str, Any]
KINDS = {
    "AP": "voxel-average-precision",
    "AUROC": "voxel-auroc",
    "Dice": "voxel-dice",
    "IoU": "voxel-iou",
}
LEVELS = ("dataset", "sample", "slice", "batch")


def map_protocol(metrics: Mapping[str, Mapping[str, Any]], **settings: Any) -> cal.Protocol:
    """Return a protocol on maps: name -> kind and options; settings are those of ``[maps]``."""
    lines = ['schema = "calipers.protocol/1"', 'name = "test"', 'source = "test"']
    lines += ["[matching]", 'criterion = "mask-iou"', 'assignment = "by-overlap"', "max_dets = inf"]
    lines += ["[maps]", *(f"{key} = {toml_value(value)}" for key, value in settings.items())]
    for name, options in metrics.items():
        lines += [
            "[[metric]]",
            f"name = {toml_value(name)}",
            *(f"{key} = {toml_value(value)}" for key, value in options.items()),
        ]
    return cal.Protocol.from_toml("\n".join(lines))


def every_level() -> dict[str, dict[str, Any]]:
    """Every measure on voxels at every level."""
    found: dict[str, dict[str, Any]] = {}
    for quantity, kind in KINDS.items():
        for level in LEVELS:
            found[f"{quantity}/{level}"] = {"kind": kind, "level": level}
            if quantity in ("Dice", "IoU"):
                found[f"{quantity}/{level}@0.5"] = {"kind": kind, "level": level, "at": 0.5}
                found[f"{quantity}/{level}@fpr:0.2"] = {
                    "kind": kind,
                    "level": level,
                    "at": "fpr:0.2",
                }
    for level in ("dataset", "sample"):
        found[f"AUPRO/{level}"] = {"kind": "aupro", "level": level}
        found[f"AUPRO-all/{level}"] = {"kind": "aupro", "level": level, "limit": 1.0}
    for variant in ("tversky", "jaccard", "printed"):
        found[f"softIoU/{variant}"] = {
            "kind": "soft-instance-iou",
            "variant": variant,
            "alpha": 0.3,
        }
    found["softIoU"] = {"kind": "soft-instance-iou"}
    found["F1@0.5"] = {"kind": "instance-f1", "thresholds": 0.5}
    found["F1@0.01"] = {"kind": "instance-f1", "thresholds": 0.01}
    return found


def with_maps(protocol: cal.Protocol | str = "anomaly", **settings: Any) -> cal.Protocol:
    """Return a protocol with other settings of maps."""
    protocol = cal.Protocol.load(protocol)
    return replace(protocol, maps=replace(protocol.maps or MapSettings(), **settings))


def random_samples(
    seed: int,
    n: int = 5,
    *,
    dimensions: int | None = None,
    steps: int = 16,
    models: Sequence[str] = ("model",),
    side: int = 9,
    constant: bool = True,
) -> list[Sample]:
    """Return samples with objects of all sizes, some without any, and maps of ``steps`` scores (0:
    any score).

    Some maps are ``constant``. The centre of such an object may lie between two voxels, where it
    belongs to the right one: mirrored, that is another voxel.
    """
    random = np.random.default_rng([61, seed])
    d = dimensions or 2 + seed % 2
    found = []
    for k in range(n):
        shape = tuple(random.integers(3, side if d == 2 else 2 + side // 2, d).tolist())
        share = random.choice([0.0, 0.05, 0.2, 0.5])
        labels = np.asarray(random.random(shape) < share, np.uint8)
        maps = {}
        for model in models:
            scores = np.clip(
                random.normal(0.3, 0.2, shape) + 0.4 * labels * (random.random() < 0.8), 0, 1
            )
            if steps:
                scores = np.round(scores * steps) / steps
            if random.random() < 0.1 and constant:
                scores = np.full(shape, random.choice([0.0, 0.25, 1.0]))
            maps[model] = scores.astype(random.choice([np.float32, np.float64]))
        groups = {"patient": f"p{k // 2}", "centre": "north" if k % 2 else "south"}
        found.append({"name": f"s{k}", "labels": labels, "maps": maps, **groups})
    if not any(sample["labels"].any() for sample in found):
        found[0]["labels"].reshape(-1)[0] = 1
    return found


def disc_sample(
    discs: Sequence[Disc],
    said: Sequence[Disc],
    shape: tuple[int, ...] = (64, 64),
    *,
    name: str = "s",
    score: float = 1.0,
) -> Sample:
    """Return a sample with discs as references, and a map that is ``score`` on other discs and 0
    elsewhere.
    """
    return {
        "name": name,
        "labels": (labelled(discs, shape) > 0).astype(np.uint8),
        "map": np.float64(score) * (labelled(said, shape) > 0),
    }


def values_of(evaluation: cal.Evaluation, model: str | None = None) -> dict[str, float]:
    """Return metric -> pooled value of a model."""
    chosen = model or evaluation.models[0]
    return {
        row.metric: row.estimate.value
        for row in evaluation.rows
        if row.model == chosen and row.label is None
    }
