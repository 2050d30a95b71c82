# SPDX-License-Identifier: Apache-2.0
"""Names that users write in protocols and on the command line, and the objects behind them.

Values are ``"module:object"``, so that looking a name up imports only what is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from calipers.errors import UsageError, did_you_mean, word

CRITERIA: Mapping[str, str] = {
    "box-iou": "calipers.matching.criteria:BOX_IOU",
    "giou": "calipers.matching.criteria:GIOU",
    "ciou": "calipers.matching.criteria:CENTRED_IOU",
    "complete-iou": "calipers.matching.criteria:COMPLETE_IOU",
    "iop": "calipers.matching.criteria:IOP",
    "ior": "calipers.matching.criteria:IOR",
    "hausdorff": "calipers.matching.criteria:HAUSDORFF",
    "mask-iou": "calipers.matching.criteria:MASK_IOU",
    "dice": "calipers.matching.criteria:DICE",
    "hull-iou": "calipers.matching.criteria:HULL_IOU",
    "boundary-iou": "calipers.matching.criteria:BOUNDARY_IOU",
    "any-overlap": "calipers.matching.criteria:ANY_OVERLAP",
    "centre-distance": "calipers.matching.criteria:CENTRE_DISTANCE",
    "centre-distance-mm": "calipers.matching.criteria:CENTRE_DISTANCE_MM",
    "centre-distance-relative": "calipers.matching.criteria:CENTRE_DISTANCE_RELATIVE",
    "point-in-box": "calipers.matching.criteria:POINT_IN_BOX",
    "point-in-mask": "calipers.matching.criteria:POINT_IN_MASK",
    "point-in-hull": "calipers.matching.criteria:POINT_IN_HULL",
}

ASSIGNMENTS: Mapping[str, str] = {
    "by-score": "calipers.kernels.assignment:by_score",
    "by-overlap": "calipers.kernels.assignment:by_overlap",
    "optimal": "calipers.kernels.assignment:optimal",
    "many-to-one": "calipers.kernels.assignment:many_to_one",
    "per-reference-argmax": "calipers.kernels.assignment:per_reference_argmax",
}

METRICS: Mapping[str, str] = {
    "average-precision": "calipers.metrics.ranking:AveragePrecision",
    "average-recall": "calipers.metrics.ranking:AverageRecall",
    "froc": "calipers.metrics.ranking:Froc",
    "sensitivity": "calipers.metrics.counts:Sensitivity",
    "ppv": "calipers.metrics.counts:PositivePredictiveValue",
    "f-beta": "calipers.metrics.counts:FBeta",
    "accuracy": "calipers.metrics.counts:Accuracy",
    "false-alarms": "calipers.metrics.counts:FalseAlarmsPerImage",
    "count": "calipers.metrics.counts:Count",
    "rodeo": "calipers.metrics.rodeo:Rodeo",
    "voxel-average-precision": "calipers.metrics.maps:VoxelAveragePrecision",
    "voxel-auroc": "calipers.metrics.maps:VoxelAuroc",
    "aupro": "calipers.metrics.maps:Aupro",
    "voxel-dice": "calipers.metrics.maps:VoxelDice",
    "voxel-iou": "calipers.metrics.maps:VoxelIou",
    "soft-instance-iou": "calipers.metrics.maps:SoftInstanceIou",
    "panoptic-quality": "calipers.metrics.instances:PanopticQuality",
    "instance-f1": "calipers.metrics.instances:InstanceF1",
    "instance-iou": "calipers.metrics.instances:InstanceIou",
    "centre-distance": "calipers.metrics.instances:CentreDistance",
    "case-auroc": "calipers.metrics.case_level:CaseAuroc",
    "picai-score": "calipers.metrics.case_level:PicaiScore",
    "error-types": "calipers.metrics.error_types:ErrorTypes",
}

# Kinds of intervals; `calipers.statistics.intervals` makes them.
INTERVALS = (
    "bootse-t-logit",
    "percentile",
    "basic",
    "bca",
    "studentized",
    "jackknife-t",
    "wilson",
    "clopper-pearson",
)

TABLES: Mapping[str, Mapping[str, str]] = {
    "criterion": CRITERIA,
    "assignment": ASSIGNMENTS,
    "metric": METRICS,
}


def known(kind: str) -> list[str]:
    """Return the registered names of a kind: criterion, assignment or metric."""
    return list(TABLES[kind])


def check(kind: str, name: str) -> str:
    """Return the name if it is registered, else raise an error that names the nearest one."""
    if word(f"the {kind}", name) not in TABLES[kind]:
        raise UsageError(f"no {kind} {name!r}; {did_you_mean(name, TABLES[kind])}")
    return name


def own_matching(metric: str) -> bool:
    """Return whether a kind of metric compares places in a way of its own, so that the protocol's
    does not apply.
    """
    return bool(getattr(resolve("metric", metric), "own_matching", False))


def resolve(kind: str, name: str) -> Any:
    """Return the object behind a name."""
    module, _, attribute = TABLES[kind][check(kind, name)].partition(":")
    return getattr(import_module(module), attribute)
