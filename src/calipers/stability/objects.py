# SPDX-License-Identifier: Apache-2.0
"""Measure which objects all, some or none of several detectors find: `object_stability`.

In comes a cohort with the predictions of at least two models that were trained alike; out goes an
`ObjectStability`. Called by `calipers.object_stability` and the ``stability`` command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arguments import finite, flag, several, shown
from calipers.criteria import Criterion
from calipers.errors import UsageError
from calipers.kernels.resampling import check_seed
from calipers.matches import View
from calipers.results import Row
from calipers.stability.objects_evidence import ObjectPairs
from calipers.stability.objects_matching import blocks, collect
from calipers.stability.objects_metric import ID, ObjectMetric, ObjectSums
from calipers.stability.objects_models import select_models
from calipers.stability.objects_result import ALL, SIZES, ObjectStability
from calipers.stability.objects_strata import Strata
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import BLOCK, units_of
from calipers.tables import Cohort

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]
NO_LIMIT = 2**31 - 1  # predictions per image: none is cut away
PER_STRATUM = (
    "agreement",
    "mean-iou",
    "found-by-all",
    "found-by-some",
    "found-by-none",
    "false-alarms-shared",
)


def object_stability(
    cohort: Cohort,
    criterion: str = "box-iou",
    threshold: float = 0.5,
    *,
    assignment: str = "by-overlap",
    score_cut: float = 0.0,
    models: Sequence[str] | None = None,
    sizes: Sequence[float] | None = None,
    cluster: str | Sequence[str] = "auto",
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    ci: bool = True,
    progress: Progress | None = None,
) -> ObjectStability:
    """Compare what several detectors that were trained alike find on the same images.

    Parameters
    ----------
    cohort
        Images with the predictions of at least two models.
    criterion, threshold
        Decide when a prediction finds a reference, and when two predictions mean the same object.
    assignment
        Rule that assigns predictions to references. Predictions of two models are paired one to
        one, ``by-overlap`` or, if that is the assignment, ``optimal``, because neither of them is
        the reference.
    score_cut
        Predictions with lower scores are left out and counted.
    models
        Names of at least two models; all models by default.
    sizes
        Areas (volumes) in ascending order that separate the size classes; by default the two that
        split the counted references into thirds, none with ``()``.
    cluster
        Unit of resampling: ``auto`` (patient if known, else image), ``image`` or a column.
    level, replicates, seed, ci
        Settings of the bootstrap intervals; ``ci=False`` computes none.
    progress
        Called with (steps done, steps in all).

    Notes
    -----
    Two predictions mean the same object if they have the same class and the criterion holds in both
    directions. `calipers.stability.objects_metric` defines all numbers. Ignored references and
    crowds are left out and counted; predictions on them are not false alarms. A false alarm is a
    prediction with the fate ``false alarm``; duplicates are counted separately. Intervals resample
    images or patients and keep the models fixed; `ObjectStability.leave_one_out` estimates what
    other trainings would give.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.stability.objects import object_stability
    >>> result = object_stability(cal.demo_cohort(), replicates=200)
    >>> [(row.k, row.references) for row in result.found_by()]
    [(0, 4), (1, 45), (2, 85), (3, 55)]
    >>> print(result["found-by-some"])
    0.688 [..., ...], n = 91 images, 189 references
    """
    view = _view(criterion, threshold, assignment, score_cut)
    names = select_models(cohort, models)
    check_level(level)
    check_seed(seed)
    if flag("ci", ci):
        check_replicates(replicates)
    units = units_of(cohort.images.groups, cohort.n_images, cluster)
    certain, below = _above(cohort, names, score_cut)
    n_steps = len(blocks(certain, names))
    if ci:
        n_steps += -(-replicates // BLOCK)  # rounded up
    step = _steps(progress, n_steps)
    evidence = collect(certain, names, view, step)
    cuts = _cuts(sizes, evidence)
    certainty = Certainty(float(level), replicates=int(replicates) if ci else 0, seed=int(seed))
    metric = ObjectMetric(len(names))
    strata = [Strata.classes(evidence), Strata.sizes(evidence, cuts)]
    cases: list[tuple[Any, Any]] = [(metric, ObjectSums.of(evidence, each)) for each in strata]
    by_class, by_size = estimates(cases, units, certainty, lambda *_: step())
    rows = _rows(metric, by_class, by_size, (cohort.classes, cuts, len(names)))
    settings: dict[str, Any] = {
        "criterion": criterion,
        "threshold": view.threshold,
        "assignment": assignment,
        "score_cut": view.score_cut,
        "sizes": cuts.tolist(),
        "level": certainty.level,
        "replicates": certainty.replicates,
        "seed": certainty.seed,
        "unit": units.name,
        "n_units": units.number,
    }
    return ObjectStability(cohort, names, evidence, tuple(rows), settings, below)


def _view(criterion: str, threshold: float, assignment: str, score_cut: float) -> View:
    """Return how objects are matched; raise for unknown names and for thresholds out of range."""
    rule: Criterion = registry.resolve("criterion", criterion)
    registry.check("assignment", assignment)
    threshold, score_cut = finite("threshold", threshold), finite("score_cut", score_cut)
    share = not (rule.distance or rule.yes_no or np.isinf(rule.none))
    if (share and not 0 <= threshold <= 1) or (rule.distance and threshold < 0):
        limits = "lie between 0 and 1" if share else "are at least 0"
        raise UsageError(f"thresholds of {criterion!r} {limits}, got {threshold:g}")
    return View(
        criterion, assignment, float(threshold), max_dets=NO_LIMIT, score_cut=float(score_cut)
    )


def _above(
    cohort: Cohort, models: tuple[str, ...], score_cut: float
) -> tuple[Cohort, dict[str, int]]:
    """Return the cohort without predictions below the score cut, and their number per model."""
    tables, below = {}, {}
    for name in models:
        table = cohort.models[name]
        below[name] = int((table.score < score_cut).sum())
        tables[name] = table.keep(table.score >= score_cut) if below[name] else table
    return replace(cohort, models=tables, maps={}), below


def _steps(progress: Progress | None, total: int) -> Callable[[], None]:
    if progress is not None and not callable(progress):
        raise UsageError(
            f"progress must be a function of (steps done, steps in all), got {shown(progress)}"
        )
    number = count(1)
    return lambda: progress(next(number), total) if progress is not None else None


def _cuts(sizes: Sequence[float] | None, evidence: ObjectPairs) -> F64:
    """Return the areas that separate size classes: those of the caller, or the thirds of the
    references.
    """
    if sizes is None:
        area = evidence.references.area
        cuts = np.unique(np.quantile(area, [1 / 3, 2 / 3])) if len(area) else np.zeros(0)
        return np.asarray(cuts[cuts > area.min(initial=np.inf)])  # no size class without objects
    cuts = np.array([finite("a size", size) for size in several("sizes", sizes)])
    if cuts.ndim != 1 or not (
        np.isfinite(cuts).all() and (cuts > 0).all() and (np.diff(cuts) > 0).all()
    ):
        raise UsageError(f"sizes must be positive areas in ascending order, got {sizes!r}")
    return cuts


def _rows(
    metric: ObjectMetric,
    by_class: list[list[Any]],
    by_size: list[list[Any]],
    of: tuple[tuple[str, ...], F64, int],
) -> list[Row]:
    """Return the rows: everything, then by class and by size where there is more than one."""
    classes, cuts, n_models = of
    rows = []
    for k, name in enumerate(metric.facts.names):
        metric_name, group = _metric_and_group(name, n_models)
        rows.append(Row(ALL, metric_name, ID, None, group, by_class[0][k]))
    for name in PER_STRATUM:
        k = metric.facts.names.index(name)
        if len(classes) > 1:
            for c, label in enumerate(classes):
                rows.append(Row(ALL, name, ID, label, None, by_class[1 + c][k]))
        if len(cuts):
            for s, size in enumerate(SIZES.get(len(cuts) + 1) or _ranges(cuts)):
                rows.append(Row(ALL, name, ID, None, {"size": size}, by_size[1 + s][k]))
    return rows


def _metric_and_group(name: str, n_models: int) -> tuple[str, dict[str, str] | None]:
    """Return metric and group of a row: numbers of models are groups."""
    start, _, k = name.rpartition("-")
    if not k.isdigit():
        return name, None
    return start, {"models": f"{k} of {n_models}"}


def _ranges(cuts: F64) -> tuple[str, ...]:
    """Return words for many sizes."""
    middle = [f"{low:g} to {high:g}" for low, high in pairwise(cuts.tolist())]
    return (f"below {cuts[0]:g}", *middle, f"from {cuts[-1]:g} on")
