# SPDX-License-Identifier: Apache-2.0
"""Calipers tells whether a model finds the right thing in the right place, and how sure that answer
is.

>>> import calipers as cal
>>> ev = cal.evaluate(cal.demo_cohort(), "coco")
>>> print(ev["misses-small", "AP50"].n_images)
120
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from calipers.agreement.agreement import agreement
    from calipers.agreement.raters import agreement_scores
    from calipers.data.cohort import Cohort
    from calipers.errors import CalipersError, InputError, InputProblems, UsageError
    from calipers.evaluation.evaluate import RodeoResult, average_precision, evaluate, rodeo
    from calipers.evaluation.protocol import Protocol, presets
    from calipers.evaluation.result import Evaluation
    from calipers.evaluation.saved import open_evaluation
    from calipers.heatmaps.boxes import boxes_from_heatmaps
    from calipers.io.read import explain, read, sniff
    from calipers.io.volumes.pairing import read_maps
    from calipers.io.write import write
    from calipers.maps.evaluate import evaluate_maps
    from calipers.metrics.maps import soft_instance_iou
    from calipers.monitors.evaluate import evaluate_monitor
    from calipers.monitors.scope import scope_scores
    from calipers.oracles.corrupt import corrupt
    from calipers.oracles.maps import corrupt_maps
    from calipers.regression.mixed import mixed_model
    from calipers.results.estimate import Estimate, Row
    from calipers.results.requirements import Requirements
    from calipers.sensitivity.multiverse import multiverse
    from calipers.sensitivity.sweep import sweep
    from calipers.stability.analyse import stability
    from calipers.synthetic.demo import demo_cohort

_SURFACE = {
    "CalipersError": "calipers.errors",
    "Cohort": "calipers.data.cohort",
    "Estimate": "calipers.results.estimate",
    "Evaluation": "calipers.evaluation.result",
    "InputError": "calipers.errors",
    "InputProblems": "calipers.errors",
    "Protocol": "calipers.evaluation.protocol",
    "Requirements": "calipers.results.requirements",
    "RodeoResult": "calipers.evaluation.evaluate",
    "Row": "calipers.results.estimate",
    "UsageError": "calipers.errors",
    "agreement": "calipers.agreement.agreement",
    "agreement_scores": "calipers.agreement.raters",
    "average_precision": "calipers.evaluation.evaluate",
    "boxes_from_heatmaps": "calipers.heatmaps.boxes",
    "corrupt": "calipers.oracles.corrupt",
    "corrupt_maps": "calipers.oracles.maps",
    "demo_cohort": "calipers.synthetic.demo",
    "evaluate": "calipers.evaluation.evaluate",
    "evaluate_maps": "calipers.maps.evaluate",
    "evaluate_monitor": "calipers.monitors.evaluate",
    "explain": "calipers.io.read",
    "mixed_model": "calipers.regression.mixed",
    "multiverse": "calipers.sensitivity.multiverse",
    "open_evaluation": "calipers.evaluation.saved",
    "presets": "calipers.evaluation.protocol",
    "read": "calipers.io.read",
    "read_maps": "calipers.io.volumes.pairing",
    "rodeo": "calipers.evaluation.evaluate",
    "scope_scores": "calipers.monitors.scope",
    "sniff": "calipers.io.read",
    "soft_instance_iou": "calipers.metrics.maps",
    "stability": "calipers.stability.analyse",
    "sweep": "calipers.sensitivity.sweep",
    "write": "calipers.io.write",
}

__all__ = [  # noqa: RUF022
    "__version__",
    "CalipersError",
    "Cohort",
    "Estimate",
    "Evaluation",
    "InputError",
    "InputProblems",
    "Protocol",
    "Requirements",
    "RodeoResult",
    "Row",
    "UsageError",
    "agreement",
    "agreement_scores",
    "average_precision",
    "boxes_from_heatmaps",
    "corrupt",
    "corrupt_maps",
    "demo_cohort",
    "evaluate",
    "evaluate_maps",
    "evaluate_monitor",
    "explain",
    "mixed_model",
    "multiverse",
    "open_evaluation",
    "presets",
    "read",
    "read_maps",
    "rodeo",
    "scope_scores",
    "sniff",
    "soft_instance_iou",
    "stability",
    "sweep",
    "write",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import calipers` itself loads nothing."""
    if name not in _SURFACE:
        from calipers.errors import did_you_mean

        raise AttributeError(
            f"module 'calipers' has no attribute {name!r}; {did_you_mean(name, _SURFACE)}"
        )
    value = getattr(import_module(_SURFACE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Surface(ModuleType):
    """The package as a module on which importing a submodule never hides a function of the same
    name.

    `calipers.evaluate` is the function, whoever imported the module ``calipers.evaluate`` and when.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SURFACE and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Surface
