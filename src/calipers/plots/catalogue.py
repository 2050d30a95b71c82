# SPDX-License-Identifier: Apache-2.0
"""The figures of an evaluation by name: what `Evaluation.plot` draws and what the page shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calipers.errors import UsageError, did_you_mean
from calipers.evaluation import Evaluation
from calipers.plots import curves, error_types, errors, forests, voxels
from calipers.plots.figures import Figure


def differences(evaluation: Evaluation, **choices: Any) -> Figure:
    """Return the differences of models; choices as in `Evaluation.compare`."""
    return forests.differences(evaluation.compare(**choices))


def ranking(evaluation: Evaluation, **choices: Any) -> Figure:
    """Return how stable the order of the models is; choices as in `Evaluation.rank`."""
    return forests.blob(evaluation.rank(**choices), evaluation.models)


FIGURES: Mapping[str, Callable[..., Figure]] = {
    "headline": forests.headline,
    "froc": curves.froc,
    "pr": curves.precision_recall,
    "rodeo": forests.rodeo,
    "classes": forests.classes,
    "groups": forests.groups,
    "error-gains": error_types.error_gains,
    "error-counts": error_types.error_counts,
    "fates": errors.fates,
    "scores": errors.scores,
    "overlaps": errors.overlaps,
    "thresholds": errors.thresholds,
    "voxel-roc": voxels.voxel_roc,
    "voxel-pr": voxels.voxel_precision,
    "soft-sizes": voxels.soft_sizes,
    "levels": voxels.levels,
    "differences": differences,
    "ranking": ranking,
}


def figure(evaluation: Evaluation, name: str, **choices: Any) -> Figure:
    """Return a figure of an evaluation as data.

    Parameters
    ----------
    name
        One of `FIGURES`.
    choices
        Options of the figure, such as ``metric="AP@0.5"`` for ``classes`` or ``model="ours"`` for
        ``scores``.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.plots.catalogue import figure
    >>> ev = cal.evaluate(cal.demo_cohort(), "overview")
    >>> figure(ev, "classes", metric="AP@0.5").table().columns
    ('row', 'series', 'AP@0.5', 'low', 'high', 'references', 'undefined because')
    """
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r}; {did_you_mean(name, FIGURES)}")
    return FIGURES[name](evaluation, **choices)
