# SPDX-License-Identifier: Apache-2.0
"""The metrics that the study of anomaly maps compares, by family, and their values on samples.

`metric_values` evaluates samples under the protocol of the study; the controlled experiments, the
scan over open choices and the benchmark all call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from calipers.arrays import F64
from calipers.data.maps import Sample
from calipers.evaluation.collect import Progress as CountProgress
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.maps.evaluate import evaluate_maps
from calipers.results.estimate import Estimate

# The graded form scores samples without objects against the mean object of the data set.
GRADED = "softIoU/graded"
SOFT = ("softIoU", "softIoU/jaccard", GRADED)
F1S = ("F1@0.5", "F1@0.01", "F1@centre")
RANKING = ("AP/dataset", "AP/sample", "AP/slice", "AUROC/dataset", "AUROC/sample", "AUROC/slice")
AREAS = ("AUPRO", "Dice", "Dice@fpr:0.05")
INSTANCE = "IoU/instance"
METRICS = (*SOFT, *F1S, INSTANCE, *RANKING, *AREAS)
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "objects": (*SOFT, *F1S, INSTANCE),
    "voxels, ranked": RANKING,
    "regions and Dice": AREAS,
}
# Beside the metrics of the paper: the soft IoU with less weight on false voxels, and the formula as
# it is printed.
ALPHA = 0.1
LENIENT, PRINTED = "softIoU/lenient", "softIoU/printed"

_KINDS: Mapping[str, str] = {
    "softIoU": 'kind = "soft-instance-iou"',
    "softIoU/jaccard": 'kind = "soft-instance-iou"\nvariant = "jaccard"',
    GRADED: 'kind = "soft-instance-iou"\nempty = "graded"',
    LENIENT: f'kind = "soft-instance-iou"\nalpha = {ALPHA}',
    PRINTED: 'kind = "soft-instance-iou"\nvariant = "printed"',
    "F1@0.5": 'kind = "instance-f1"',
    "F1@0.01": 'kind = "instance-f1"\nthresholds = 0.01',
    "F1@centre": 'kind = "instance-f1"\ncriterion = "point-in-hull"',
    INSTANCE: 'kind = "instance-iou"\nthresholds = 0.0',
    "AUPRO": 'kind = "aupro"',
    "Dice": 'kind = "voxel-dice"',
    "Dice@fpr:0.05": 'kind = "voxel-dice"\nat = "fpr:0.05"',
}
_RANKED = {"AP": "voxel-average-precision", "AUROC": "voxel-auroc"}
_HEAD = """schema = "calipers.protocol/1"
name = "anomaly-study"
source = "Zimmerer and Maier-Hein, Revisiting anomaly localization metrics (2024)"
[matching]
criterion = "mask-iou"
assignment = "by-overlap"
thresholds = 0.5
max_dets = inf
[maps]
threshold = 0.5
connectivity = "full"
slices = "z"
"""


def protocol(names: Iterable[str] = METRICS) -> Protocol:
    """Return the protocol with these metrics."""
    blocks = [f'[[metric]]\nname = "{name}"\n{_kind(name)}' for name in names]
    return Protocol.from_toml(_HEAD + "\n".join(blocks))


def _kind(name: str) -> str:
    quantity, _, level = name.partition("/")
    if quantity in _RANKED:
        return f'kind = "{_RANKED[quantity]}"\nlevel = "{level}"'
    return _KINDS[name]


def metric_values(
    samples: Iterable[Sample],
    names: Iterable[str] = METRICS,
    *,
    jobs: int = 1,
    progress: CountProgress | None = None,
) -> dict[str, dict[str, float]]:
    """Evaluate samples; return model -> metric -> value, NaN where a metric is undefined."""
    evaluation = evaluate_maps(samples, protocol(names), ci=False, jobs=jobs, progress=progress)
    values: dict[str, dict[str, float]] = {}
    for model, row in _by_model(evaluation).items():
        values[model] = {metric: float(one.value) for metric, one in row.items()}
    return values


def metric_estimates(
    samples: Iterable[Sample], names: Iterable[str] = METRICS
) -> dict[str, dict[str, Estimate]]:
    """Evaluate samples; return model -> metric -> value with its 95 % interval over samples."""
    return _by_model(evaluate_maps(samples, protocol(names)))


def _by_model(evaluation: Evaluation) -> dict[str, dict[str, Estimate]]:
    table: dict[str, dict[str, Estimate]] = {}
    for row in evaluation.rows:
        if row.label is None:
            table.setdefault(row.model, {})[row.metric] = row.estimate
    return table


def lines(
    table: Mapping[str, Mapping[str, float]], models: Sequence[str], names: Iterable[str]
) -> dict[str, F64]:
    """Return the values of every metric over models, in the order of ``models``."""
    curves = {}
    for name in names:
        curves[name] = np.array([table[model][name] for model in models])
    return curves
