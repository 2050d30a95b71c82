# SPDX-License-Identifier: Apache-2.0
"""Names that users write in protocols and on the command line, and the objects behind them.

Values are ``"module:object"``, so that looking a name up imports only what is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from calipers.errors import UsageError, did_you_mean

CRITERIA: Mapping[str, str] = {
    "box-iou": "calipers.criteria.boxes:BOX_IOU",
    "giou": "calipers.criteria.boxes:GIOU",
    "ciou": "calipers.criteria.boxes:CENTRED_IOU",
    "complete-iou": "calipers.criteria.boxes:COMPLETE_IOU",
    "iop": "calipers.criteria.boxes:IOP",
    "ior": "calipers.criteria.boxes:IOR",
    "hausdorff": "calipers.criteria.boxes:HAUSDORFF",
    "centre-distance": "calipers.criteria.boxes:CENTRE_DISTANCE",
    "centre-distance-mm": "calipers.criteria.boxes:CENTRE_DISTANCE_MM",
    "centre-distance-relative": "calipers.criteria.boxes:CENTRE_DISTANCE_RELATIVE",
    "any-overlap": "calipers.criteria.boxes:ANY_OVERLAP",
    "point-in-box": "calipers.criteria.boxes:POINT_IN_BOX",
}

ASSIGNMENTS: Mapping[str, str] = {
    "by-score": "calipers.kernels.matching:by_score",
    "by-overlap": "calipers.kernels.matching:by_overlap",
    "optimal": "calipers.kernels.matching:optimal",
    "many-to-one": "calipers.kernels.matching:many_to_one",
    "per-reference-argmax": "calipers.kernels.matching:per_reference_argmax",
}

METRICS: Mapping[str, str] = {
    "average-precision": "calipers.metrics.ranking:AveragePrecision",
    "average-recall": "calipers.metrics.ranking:AverageRecall",
    "froc": "calipers.metrics.froc:Froc",
    "sensitivity": "calipers.metrics.counts:Sensitivity",
    "ppv": "calipers.metrics.counts:PositivePredictiveValue",
    "f-beta": "calipers.metrics.counts:FBeta",
    "accuracy": "calipers.metrics.counts:Accuracy",
    "false-alarms": "calipers.metrics.counts:FalseAlarmsPerImage",
    "count": "calipers.metrics.counts:Count",
    "rodeo": "calipers.metrics.rodeo:Rodeo",
    "panoptic-quality": "calipers.metrics.extent:PanopticQuality",
    "instance-f1": "calipers.metrics.instances:InstanceF1",
    "instance-iou": "calipers.metrics.instances:InstanceIou",
    "centre-distance": "calipers.metrics.instances:CentreDistance",
    "case-auroc": "calipers.metrics.case_level:CaseAuroc",
    "picai-score": "calipers.metrics.case_level:PicaiScore",
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
    if name not in TABLES[kind]:
        raise UsageError(f"no {kind} {name!r}; {did_you_mean(name, TABLES[kind])}")
    return name


def resolve(kind: str, name: str) -> Any:
    """Return the object behind a name."""
    module, _, attribute = TABLES[kind][check(kind, name)].partition(":")
    return getattr(import_module(module), attribute)
