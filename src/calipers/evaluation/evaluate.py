# SPDX-License-Identifier: Apache-2.0
"""The whole flow on one page: a cohort and a protocol in, an evaluation out.

- The protocol names the metrics (`Protocol.compile`).
- Metrics that share an evidence share its collection (`jobs_of`), which runs over blocks of images
  (`collect`).
- Every metric is a function of its evidence and of one weight per image: weights 1 give the point
  estimate, random weights of the units its interval, weights 0 and 1 a group of images
  (`estimated_rows`, `grouped`).
- Warnings tell a reader what limits the numbers (`warnings.warnings_of`).

One number in one call, without a protocol: `rodeo` and `average_precision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_arguments, names_fields
from calipers.data.cohort import Cohort
from calipers.engine.leniency import ALLOWED_LOSS, Leniency
from calipers.engine.ordered_map import threads_here
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.evaluation.collect import (
    Progress,
    collect,
    collect_leniently,
    estimated_rows,
    jobs_of,
    with_areas,
)
from calipers.evaluation.groups import check_columns, grouped
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.matching.deadly_images import without_images
from calipers.matching.matches import View
from calipers.metrics.base import MetricPlan
from calipers.metrics.ranking import AveragePrecision
from calipers.metrics.rodeo import PARTS, Rodeo

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store


@names_arguments
def evaluate(
    cohort: Cohort,
    protocol: str | Path | Protocol = "coco",
    *,
    seed: int | None = None,
    ci: bool = True,
    by: str | Sequence[str] = (),
    jobs: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    lenient: bool = False,
    allow_loss: float = ALLOWED_LOSS,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate all models of a cohort under a protocol.

    Parameters
    ----------
    cohort
        From `calipers.read` or `Cohort.from_arrays`, with at least one model.
    protocol
        A preset name, the path of a TOML file, or a `Protocol`.
    seed
        Replaces the seed of the protocol.
    ci
        State intervals: by default bootstrap t intervals over patients if the cohort knows them,
        else over sequences of frames, else over images; see ``[statistics]`` of the protocol.
        Without it estimates say ``not_requested``.
    by
        Further rows per group: ``"centre"``, ``"centre,size"``, ``"age=40:60"``; several groupings
        as a list.
    jobs
        Threads for the per-image work; the result does not depend on it.
    executor
        Any `concurrent.futures.Executor` for that work instead, such as that of a Dask client.
    store
        Where finished blocks of images are kept: see `calipers.engine.store` and
        `calipers.evaluation.collect.collection_plan`.
    lenient
        Set aside images that crash the worker that matches them (in threads, such an image
        crashes the program): the account of the cohort counts and names them. Otherwise the first
        one is an error.
    allow_loss
        Share of the images that may be set aside.
    progress
        Called with (blocks done, blocks in all).

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort(), "rodeo")
    >>> print(ev["mislabels", "RoDeO/loc"])
    0.958 [0.919, 0.978], n = 120 images, 189 references
    """
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"evaluate takes a cohort, not {type(cohort).__name__}: "
            "make one with read or Cohort.from_arrays"
        )
    protocol = Protocol.load(protocol)
    if seed is not None:
        protocol = replace(protocol, seed=seed)
    by = [by] if isinstance(by, str) else by
    # Everything that can be refused is refused before the long work begins.
    _check(cohort)
    check_columns(cohort.images, protocol, by)
    sized = with_areas(cohort, protocol)
    evidence, aside = collect_leniently(
        sized,
        jobs_of(sized, protocol.compile()),
        Leniency(lenient, allow_loss),
        workers=jobs,
        executor=executor,
        store=store,
        progress=progress,
    )
    cohort, sized = without_images(cohort, aside), without_images(sized, aside)
    # What is left is small, and resampled on this machine whatever the executor is.
    workers = threads_here(jobs, executor)
    rows = estimated_rows(sized, protocol, evidence, ci=ci, workers=workers, progress=progress)
    evaluation = Evaluation(protocol, cohort, tuple(rows), evidence, ci)
    return grouped(evaluation, by, progress, workers)


def _check(cohort: Cohort) -> None:
    if not cohort.models:
        raise InputError(
            "at least one model",
            rule="no-predictions",
            hint="give predictions to read or from_arrays",
        )
    if cohort.n_images == 0:
        raise InputError("at least one image", rule="no-images")


@names_fields
@dataclass(frozen=True, slots=True)
class RodeoResult:
    """The four scores of RoDeO as floats; NaN where undefined. Estimates with n come from
    `calipers.evaluation.evaluate`.
    """

    total: float
    localization: float
    shape: float
    classification: float
    per_class: Mapping[str, RodeoResult] = field(default_factory=dict)


@names_arguments
def rodeo(cohort: Cohort, model: str | None = None, **options: Any) -> RodeoResult:
    """Return RoDeO of one model.

    Parameters
    ----------
    model
        May be left out when the cohort has one.
    options
        ``class_weight`` ("data-set", "image" or a number), ``scale``, ``summary`` ("harmonic",
        "arithmetic", "minimum"), ``multiclass``, ``weight_matched``, ``weight_missed``,
        ``weight_extra``, ``epsilon``, ``score_cut``; see `calipers.metrics.rodeo`.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.Cohort.from_arrays(
    ...     [{"boxes": [[0, 0, 0.1, 0.1], [0, 0.2, 0.1, 0.1]], "labels": [0, 1]}],
    ...     [{"boxes": [[0.1, 0.1, 0.2, 0.1], [0, 0.3, 0.1, 0.1], [0.2, 0.2, 0.1, 0.1]],
    ...       "labels": [0, 1, 0], "scores": [1, 1, 1]}],
    ...     classes=("a", "b"), box_format="xywh",
    ... )
    >>> result = cal.rodeo(cohort)
    >>> round(result.total, 4), round(result.localization, 4)
    (0.3547, 0.2017)
    >>> round(result.shape, 4), round(result.classification, 4)
    (0.5, 0.6667)
    """
    model = cohort.model_named(model)
    if "part" in options:
        raise UsageError("rodeo returns all parts; there is no option 'part'")
    metric = Rodeo([MetricPlan(part, "rodeo", {**options, "part": part}) for part in PARTS])
    evidence = collect(cohort, {"rodeo": (model, metric.recipe)})["rodeo"]
    ones = np.ones((1, cohort.n_images), np.int64)
    values = metric.value(evidence, ones)[0]  # type: ignore[arg-type]
    classes = {name: _result(row) for name, row in zip(cohort.classes, values[1:])}
    return _result(values[0], classes)


@names_arguments
def average_precision(
    cohort: Cohort,
    iou: float | Sequence[float] = (0.5,),
    *,
    model: str | None = None,
    interpolation: str = "coco101",
    area: tuple[float, float] | None = None,
    max_dets: int = 100,
    ties: str | None = None,
) -> float:
    """Return the average precision of one model: mean over thresholds and classes with references.

    Parameters
    ----------
    iou
        One or more thresholds of the box IoU.
    interpolation
        ``coco101``, ``voc11``, ``every-point`` or ``tie-aware``; see `calipers.metrics.ranking`.
    area
        (smallest, largest) area that counts, closed at both ends, with COCO's ignore rule; None
        counts all.
    max_dets
        Predictions per image and class, best scores first.
    ties
        ``coco`` (input order) or ``block`` (one operating point); by default coco for coco101,
        block otherwise.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.demo_cohort()
    >>> strict = cal.average_precision(cohort, model="misses-small")
    >>> strict < cal.average_precision(cohort, 0.1, model="misses-small")
    True
    """
    if np.ma.is_masked(iou):
        raise UsageError("iou has masked entries, which are not numbers")
    thresholds = tuple(np.atleast_1d(np.asarray(iou, np.float64)).tolist())
    if not thresholds:
        raise UsageError("at least one IoU threshold is needed")
    if ties not in (None, "coco", "block"):
        raise UsageError(f"no tie rule {ties!r}; {did_you_mean(ties, ('coco', 'block'))}")
    for value in thresholds:
        if not 0 <= value <= 1:
            raise UsageError(f"overlaps lie in [0, 1]: {value:g} is not an IoU threshold")
    if max_dets < 1:
        raise UsageError(f"max_dets is at least 1, not {max_dets}")
    view = View()
    limits: Sequence[float] = view.size if area is None else area
    if len(limits) != 2 or not 0 <= limits[0] < limits[1]:
        raise UsageError(f"area is (smallest, largest), ascending and not negative: {area}")
    options = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "thresholds": thresholds,
        "classes": "within",
        "max_dets": max_dets,
        "match_dets": max_dets,
        "score_cut": view.score_cut,
        "ties": ties or ("coco" if interpolation == "coco101" else "block"),
        "strict": False,
        "duplicates": view.duplicates,
        "size": tuple(limits),
        "interpolation": interpolation,
    }
    metric = AveragePrecision([MetricPlan("AP", "average-precision", options)])
    evidence = collect(cohort, {"AP": (cohort.model_named(model), metric.recipe)})["AP"]
    ones = np.ones((1, cohort.n_images), np.int64)
    return float(metric.value(evidence, ones)[0, 0, 0])  # type: ignore[arg-type]


def _result(
    row: NDArray[np.float64], per_class: Mapping[str, RodeoResult] | None = None
) -> RodeoResult:
    total, localization, shape, classification = row.tolist()
    return RodeoResult(total, localization, shape, classification, per_class or {})
