# SPDX-License-Identifier: Apache-2.0
"""The figures of evaluations, comparisons and rankings by name.

`Evaluation.figure` looks a name up here, and the page shows these figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calipers.evaluation import figures, figures_errors, figures_maps
from calipers.evaluation.result import Evaluation
from calipers.show.figures import Figure


def differences(evaluation: Evaluation, **choices: Any) -> Figure:
    """Return the differences of models; choices as in `Evaluation.compare`."""
    return figures.differences(evaluation.compare(**choices))


def ranking(evaluation: Evaluation, **choices: Any) -> Figure:
    """Return how stable the order of the models is; choices as in `Evaluation.rank`."""
    return figures.blob(evaluation.rank(**choices), evaluation.models)


FIGURES: Mapping[str, Callable[..., Figure]] = {
    "headline": figures.headline,
    "froc": figures.froc,
    "pr": figures.precision_recall,
    "rodeo": figures.rodeo,
    "classes": figures.classes,
    "groups": figures.groups,
    "groups-box": figures.groups_box,
    "error-gains": figures_errors.error_gains,
    "error-counts": figures_errors.error_counts,
    "fates": figures_errors.fates,
    "scores": figures_errors.scores,
    "overlaps": figures_errors.overlaps,
    "thresholds": figures_errors.thresholds,
    "voxel-roc": figures_maps.voxel_roc,
    "voxel-pr": figures_maps.voxel_precision,
    "soft-sizes": figures_maps.soft_sizes,
    "levels": figures_maps.levels,
    "differences": differences,
    "ranking": ranking,
}
COMPARISON_FIGURES: Mapping[str, Callable[..., Figure]] = {"differences": figures.differences}
RANKING_FIGURES: Mapping[str, Callable[..., Figure]] = {"ranking": figures.blob}
