"""The table of the property suite: one row for every metric,
in as many configurations as matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calipers.metrics.base import Metric
from cases import metric_of


@dataclass(frozen=True)
class Case:
    """A metric, how it is configured, and what a perfect model gets."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    matching: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)
    perfect: float = 1.0  # the best value; NaN if it depends on the cohort
    scale_free: bool = True  # the unit of length does not matter
    # an image without objects counts: there is a value even if nobody has any
    of_images: bool = False

    def __str__(self) -> str:
        said = {**self.matching, **self.options}
        return " ".join([self.kind, *(f"{key}={value}" for key, value in said.items())])

    def metric(self) -> Metric[Any]:
        return metric_of(self.kind, self.matching, self.sizes, **self.options)


SMALL = {"small": [0, 4000], "large": [4000, float("inf")]}
NAN = float("nan")

CASES = [
    Case("average-precision", matching={"ties": "coco", "thresholds": [0.3, 0.5, 0.8]}),
    Case("average-precision", {"interpolation": "voc11"}, {"ties": "block"}),
    Case("average-precision", {"interpolation": "every-point"}, {"assignment": "many-to-one"}),
    Case(
        "average-precision",
        {"interpolation": "tie-aware", "max_dets": 2},
        {"assignment": "by-overlap"},
        perfect=NAN,
    ),
    Case("average-precision", {"size": "small"}, sizes=SMALL, scale_free=False),
    Case("average-precision", {"criterion": "point-in-box"}),
    Case(
        "average-precision", {"criterion": "centre-distance", "thresholds": 15.0}, scale_free=False
    ),
    Case("average-recall", {"max_dets": 3}, {"thresholds": [0.3, 0.6]}, perfect=NAN),
    Case("average-recall", {"size": "large"}, sizes=SMALL, scale_free=False),
    Case("froc"),
    Case("froc", {"rates": [0.5]}, {"thresholds": [0.2, 0.4]}),
    Case("froc", {"interpolation": "linear", "rates": [0.3, 2]}, {"thresholds": [0.2, 0.4]}),
    Case("sensitivity"),
    Case("sensitivity", {"average": "classes"}, {"assignment": "optimal", "thresholds": 0.3}),
    Case("ppv"),
    Case("ppv", {"average": "classes"}, {"assignment": "per-reference-argmax"}),
    Case("f-beta", {"beta": 2}),
    Case("f-beta", {"average": "classes"}, {"score_cut": 0.3}, perfect=NAN),
    Case("accuracy", matching={"assignment": "by-overlap", "thresholds": 0.3}, of_images=True),
    # A box inside another one has an iop of 1 with both: by-score may give it the wrong one, so
    # nobody is perfect.
    Case("accuracy", {"average": "pooled", "criterion": "iop"}, perfect=NAN, of_images=True),
    Case("false-alarms", perfect=0.0, of_images=True),
    Case("count", {"of": "TP"}, perfect=NAN, of_images=True),
    Case("count", {"of": "FP"}, perfect=0.0, of_images=True),
    Case("count", {"of": "FN"}, perfect=0.0, of_images=True),
    Case("count", {"of": "TN"}, perfect=NAN, of_images=True),
    Case("rodeo"),
    Case("rodeo", {"part": "localization", "scale": 0.5}),
    Case("rodeo", {"part": "shape", "class_weight": "image"}),
    Case("rodeo", {"part": "classification", "multiclass": True}),
    Case("rodeo", {"part": "classification", "class_weight": 0.3}),
    Case("rodeo", {"summary": "minimum", "weight_missed": 2.0}),
    Case("panoptic-quality"),
    Case("panoptic-quality", {"part": "SQ"}, {"assignment": "by-overlap", "thresholds": 0.2}),
    Case("panoptic-quality", {"part": "SQ", "average": "classes", "criterion": "ior"}, perfect=NAN),
    Case("panoptic-quality", {"part": "RQ", "average": "classes"}, {"assignment": "optimal"}),
    Case(
        "panoptic-quality",
        {"size": "small", "max_dets": 2},
        sizes=SMALL,
        scale_free=False,
        perfect=NAN,
    ),
    Case("instance-f1", matching={"assignment": "by-overlap"}, of_images=True),
    Case("instance-f1", {"thresholds": [0.01, 0.5], "max_dets": 2}, perfect=NAN, of_images=True),
    Case("instance-f1", {"average": "pooled", "criterion": "point-in-box"}),
    Case("instance-iou", matching={"assignment": "by-overlap", "thresholds": 0.0}),
    Case("instance-iou", {"summary": "median"}, {"assignment": "by-overlap", "thresholds": 0.0}),
    Case("instance-iou", {"over": "hits", "summary": "median", "max_dets": 3}, perfect=NAN),
    Case("instance-iou", {"over": "hits"}, {"assignment": "many-to-one", "duplicates": "forgiven"}),
    Case(
        "centre-distance",
        {"criterion": "centre-distance", "thresholds": 15.0},
        perfect=0.0,
        scale_free=False,
    ),
    Case(
        "centre-distance",
        {"criterion": "centre-distance-relative", "summary": "median"},
        perfect=0.0,
    ),
    Case("case-auroc"),
    Case(
        "case-auroc", {"silent": "zero", "thresholds": [0.1, 0.5]}, {"score_cut": 0.3}, perfect=NAN
    ),
    Case("image-threat-score", matching={"thresholds": [0.4, 0.55, 0.75], "strict": True}),
    Case("image-threat-score", {"max_dets": 2}, {"score_cut": 0.3}, perfect=NAN),
    Case("weighted-sum", {"formula": "0.75*AUROC/case + 0.25*FROC@0.25"}),
    Case("weighted-sum", {"formula": "0.5*AP + 0.25*AP@0.3 + -0.1*FP/image"}, perfect=0.75),
    *(
        Case("error-types", {"gain": of}, {"ties": "coco"}, perfect=0.0)
        for of in ("cls", "loc", "fp", "fn", "empty")
    ),
    Case("tide-average-precision", {}, {"ties": "coco"}),
    Case("tide-average-precision", {"max_dets": 2}, {"ties": "block"}, perfect=NAN),
    Case("error-types", {"gain": "bkg", "max_dets": 2}, {"ties": "block"}, perfect=NAN),
    Case(
        "error-types",
        {"gain": "dup", "background": 0.05},
        {"ties": "block", "thresholds": 0.3},
        perfect=0.0,
    ),
    Case("error-types", {"gain": "both"}, {"ties": "block", "score_cut": 0.3}, perfect=NAN),
    Case(
        "error-types",
        {"gain": "miss", "criterion": "iop", "foreground": 0.75},
        {"ties": "block"},
        perfect=NAN,
    ),
    *(
        Case("error-types", {"count": of}, perfect=0.0, of_images=True)
        for of in ("cls", "miss", "empty")
    ),
    Case(
        "picai-score",
        matching={"assignment": "optimal", "thresholds": 0.1, "duplicates": "forgiven"},
    ),
]

# Metrics on the voxels of maps: their evidence is made when samples are read, see
# `test_map_metrics`.
MAP_CASES = [
    Case("voxel-average-precision"),
    Case("voxel-average-precision", {"level": "sample"}),
    Case("voxel-average-precision", {"level": "batch"}),
    Case("voxel-auroc"),
    Case("voxel-auroc", {"level": "slice"}),
    Case("aupro"),
    Case("aupro", {"level": "sample", "limit": 1.0}),
    Case("voxel-dice"),
    Case("voxel-dice", {"at": 0.5}),
    Case("voxel-dice", {"at": "fpr:0.05"}),
    Case("voxel-dice", {"level": "batch", "at": 0.5}),
    Case("voxel-iou"),
    Case("voxel-iou", {"level": "sample", "at": "fpr:0.05"}),
    Case("soft-instance-iou", of_images=True),
    Case("soft-instance-iou", {"variant": "jaccard", "alpha": 0.2}, of_images=True),
    Case("soft-instance-iou", {"variant": "printed"}, perfect=0.5, of_images=True),
]
