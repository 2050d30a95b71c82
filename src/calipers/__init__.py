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
    from calipers.errors import CalipersError, InputError, InputProblems, UsageError
    from calipers.evaluate import evaluate
    from calipers.evaluate_maps import evaluate_maps
    from calipers.evaluation import Evaluation
    from calipers.heatmaps import boxes_from_heatmaps
    from calipers.metrics.soft_iou import soft_instance_iou
    from calipers.monitors import evaluate_monitor, scope_scores
    from calipers.opening import open_evaluation
    from calipers.oracles import corrupt, corrupt_maps
    from calipers.protocol import Protocol, presets
    from calipers.readers import explain, read, sniff, write
    from calipers.readers.volumes import read_maps
    from calipers.results import Estimate, Row
    from calipers.results.requirements import Requirements
    from calipers.sensitivity.multiverse import multiverse
    from calipers.sensitivity.sweeps import sweep
    from calipers.shortcuts import RodeoResult, average_precision, rodeo
    from calipers.stability import stability
    from calipers.statistics.agreement import agreement
    from calipers.statistics.contingency import agreement_scores
    from calipers.statistics.mixed import mixed_model
    from calipers.synthetic import demo_cohort
    from calipers.tables import Cohort

_SURFACE = {
    "CalipersError": "calipers.errors",
    "Cohort": "calipers.tables",
    "Estimate": "calipers.results",
    "Evaluation": "calipers.evaluation",
    "InputError": "calipers.errors",
    "InputProblems": "calipers.errors",
    "Protocol": "calipers.protocol",
    "Requirements": "calipers.results.requirements",
    "RodeoResult": "calipers.shortcuts",
    "Row": "calipers.results",
    "UsageError": "calipers.errors",
    "agreement": "calipers.statistics.agreement",
    "agreement_scores": "calipers.statistics.contingency",
    "average_precision": "calipers.shortcuts",
    "boxes_from_heatmaps": "calipers.heatmaps",
    "corrupt": "calipers.oracles",
    "corrupt_maps": "calipers.oracles",
    "demo_cohort": "calipers.synthetic",
    "evaluate": "calipers.evaluate",
    "evaluate_maps": "calipers.evaluate_maps",
    "evaluate_monitor": "calipers.monitors",
    "explain": "calipers.readers",
    "mixed_model": "calipers.statistics.mixed",
    "multiverse": "calipers.sensitivity",
    "open_evaluation": "calipers.opening",
    "presets": "calipers.protocol",
    "read": "calipers.readers",
    "read_maps": "calipers.readers.volumes",
    "rodeo": "calipers.shortcuts",
    "scope_scores": "calipers.monitors",
    "sniff": "calipers.readers",
    "soft_instance_iou": "calipers.metrics.soft_iou",
    "stability": "calipers.stability",
    "sweep": "calipers.sensitivity",
    "write": "calipers.readers",
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
