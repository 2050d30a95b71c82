# The public names, declared once: type checkers read this file, and `calipers` loads each name from
# the module it comes from when the name is first used.

from .agreement.agreement import agreement
from .agreement.raters import agreement_scores
from .data.cohort import Cohort
from .errors import CalipersError, InputError, InputProblems, UsageError
from .evaluation.evaluate import RodeoResult, average_precision, evaluate, rodeo
from .evaluation.protocol import Protocol, presets
from .evaluation.result import Evaluation
from .evaluation.saved import open_evaluation
from .fusion.fuse import fuse
from .fusion.fusion_methods import nms, non_maximum_weighted, soft_nms, weighted_boxes_fusion
from .fusion.tune import tune_fusion
from .heatmaps.boxes import boxes_from_heatmaps
from .io.read import explain, read, sniff
from .io.volumes.pairing import read_maps
from .io.write import write
from .maps.evaluate import evaluate_maps
from .metrics.soft_iou import soft_instance_iou
from .monitors.evaluate import evaluate_monitor
from .monitors.scope import scope_scores
from .oracles.corrupt import corrupt
from .oracles.maps import corrupt_maps
from .regression.mixed import mixed_model
from .results.estimate import Estimate, Row
from .results.requirements import Requirements
from .sensitivity.multiverse import multiverse
from .sensitivity.sweep import sweep
from .stability.analyse import stability
from .synthetic.demo import demo_cohort

__version__: str

__all__ = [
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
    "__version__",
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
    "fuse",
    "mixed_model",
    "multiverse",
    "nms",
    "non_maximum_weighted",
    "open_evaluation",
    "presets",
    "read",
    "read_maps",
    "rodeo",
    "scope_scores",
    "sniff",
    "soft_instance_iou",
    "soft_nms",
    "stability",
    "sweep",
    "tune_fusion",
    "weighted_boxes_fusion",
    "write",
]
