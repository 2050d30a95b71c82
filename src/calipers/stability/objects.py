# SPDX-License-Identifier: Apache-2.0
"""`object_stability`: which objects all, some or none of several detectors find.

In comes a cohort with the predictions of at least two models that were trained alike; out goes an
`ObjectStability`. Called by the ``stability`` command and the report. All numbers are ratios of
sums over images (`ObjectSums`), so that replicates are products of matrices (`ObjectMetric`).

``agreement``
    positive agreement of two models, ``2 n11 / (2 n11 + n10 + n01)`` with n11 couples and n10, n01
    predictions without a partner; per image the mean over the pairs of models, then the mean over
    images. Undefined for a pair of models that both predict nothing on an image, and for an image
    on which no pair has a value; both are skipped and counted.
``agreement-with-silence``
    the same with 1 where both predict nothing: all images and pairs have a value. Only for all
    objects together.
``mean-iou``
    mean intersection over union of the couples of a pair of models; then as above. Undefined
    without couples.
``found-by-k``, ``found-by-all``, ``found-by-some``, ``found-by-none``
    share of the counted references that exactly k, all, some but not all, none of the models find.
``false-alarms-by-k``, ``false-alarms-shared``
    share of the places with a false alarm where exactly k, at least two of the models raise one.

By class, couples are within a class. By size a couple has the mean area of its two predictions, a
place that of its false alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any

import numpy as np

from calipers import registry
from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError, finite, flag, several, shown
from calipers.kernels.resampling import check_seed
from calipers.matching.criteria import Criterion
from calipers.matching.matches import View
from calipers.metrics.base import Facts
from calipers.results.estimate import Row
from calipers.stability.evidence import check_jobs
from calipers.stability.objects_evidence import (
    ObjectPairs,
    PairCells,
    Strata,
    Things,
    blocks,
    collect,
    mean_of_defined,
    pair_cells,
)
from calipers.stability.objects_result import ALL, SIZES, ObjectStability, select_models
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import BLOCK, units_of

ID = "object-stability@1"
# Sums per image and stratum: these, then references found by 0..K models, then places of 1..K
# models.
AGREED, DEFINED, QUIET, IMAGES, OVERLAP, COUPLED, TALLIES = range(7)
ROUNDING = 1e-12

Entry = tuple[I64, I64, I64, F64]  # image, row, column, value

Progress = Callable[[int, int], None]

PER_STRATUM = (
    "agreement",
    "mean-iou",
    "found-by-all",
    "found-by-some",
    "found-by-none",
    "false-alarms-shared",
)
NO_LIMIT = 2**31 - 1  # predictions per image: none is cut away


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
    jobs: int = 1,
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
    jobs
        Number of threads; the numbers do not depend on it.
    progress
        Called with (steps done, steps in all).

    Notes
    -----
    Two predictions mean the same object if they have the same class and the criterion holds in both
    directions. `calipers.stability.objects` defines all numbers. Ignored references and
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
    if cohort.n_images == 0:
        raise InputError("at least one image", rule="no-images")
    check_level(level)
    check_seed(seed)
    check_jobs(jobs)
    if flag("ci", ci):
        check_replicates(replicates)
    units = units_of(cohort.images.groups, cohort.n_images, cluster)
    certain, below = _above_cut(cohort, names, score_cut)
    # Blocks of matching and blocks of resampling both count as steps.
    n_steps = len(blocks(certain, names))
    if ci:
        n_steps += -(-replicates // BLOCK)  # rounded up
    step = _step_counter(progress, n_steps)
    evidence = collect(certain, names, view, step, jobs)
    cuts = _cuts(sizes, evidence)
    certainty = Certainty(float(level), replicates=int(replicates) if ci else 0, seed=int(seed))
    metric = ObjectMetric(len(names))
    strata = [Strata.classes(evidence), Strata.sizes(evidence, cuts)]
    cases: list[tuple[Any, Any]] = [(metric, ObjectSums.of(evidence, each)) for each in strata]
    by_class, by_size = estimates(cases, units, certainty, lambda *_: step(), jobs)
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


def _above_cut(
    cohort: Cohort, models: tuple[str, ...], score_cut: float
) -> tuple[Cohort, dict[str, int]]:
    """Return the cohort without predictions below the score cut, and their number per model."""
    tables, below = {}, {}
    for name in models:
        table = cohort.models[name]
        below[name] = int((table.score < score_cut).sum())
        # Removed before matching: a low prediction must not take the partner of a higher one.
        tables[name] = table.keep(table.score >= score_cut) if below[name] else table
    return replace(cohort, models=tables, maps={}), below


def _step_counter(progress: Progress | None, total: int) -> Callable[[], None]:
    if progress is not None and not callable(progress):
        raise UsageError(
            f"progress must be a function of (steps done, steps in total), got {shown(progress)}"
        )
    number = count(1)

    def report_step() -> None:
        if progress is not None:
            progress(next(number), total)

    return report_step


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
            for s, size in enumerate(SIZES.get(len(cuts) + 1) or _size_ranges(cuts)):
                rows.append(Row(ALL, name, ID, None, {"size": size}, by_size[1 + s][k]))
    return rows


def _metric_and_group(name: str, n_models: int) -> tuple[str, dict[str, str] | None]:
    """Return metric and group of a row: numbers of models are groups."""
    start, _, k = name.rpartition("-")
    if not k.isdigit():
        return name, None
    return start, {"models": f"{k} of {n_models}"}


def _size_ranges(cuts: F64) -> tuple[str, ...]:
    """Return words for many sizes."""
    middle = [f"{low:g} to {high:g}" for low, high in pairwise(cuts.tolist())]
    return (f"below {cuts[0]:g}", *middle, f"from {cuts[-1]:g} on")


@dataclass(frozen=True)
class ObjectSums:
    """Per image the sums that all numbers are ratios of; row 0 is everything, then one row per
    stratum.
    """

    n_models: int
    n_rows: int
    table: Any  # sparse (n_images, n_rows * width)
    behind: I64  # (n_rows, 2) counted references, predictions of all models

    @property
    def n_images(self) -> int:
        """Number of images."""
        return int(self.table.shape[0])

    @property
    def width(self) -> int:
        """Number of sums per row."""
        return TALLIES + 2 * self.n_models + 1

    @classmethod
    def of(cls, evidence: ObjectPairs, strata: Strata) -> ObjectSums:
        """Return the sums of all objects, then of those of every stratum."""
        from scipy.sparse import csr_array

        whole, cells = Strata.whole(evidence), pair_cells(evidence, strata)
        parts = [
            *_entries(evidence, whole, evidence.whole_cells, 0),
            *_entries(evidence, strata, cells, 1),
            *_silence(evidence),
        ]
        image, row, column, value = map(np.concatenate, zip(*parts))
        n_rows, width = 1 + strata.number, TALLIES + 2 * evidence.n_models + 1
        shape = evidence.n_images, n_rows * width
        table = csr_array((value, (image, row * width + column)), shape=shape)
        # Entries of one cell add up: that is how counts come about.
        table.sum_duplicates()
        behind = np.zeros((n_rows, 2), np.int64)
        behind[0] = len(evidence.references), len(evidence.predictions)
        behind[1:, 0] = np.bincount(strata.references, minlength=strata.number)
        behind[1:, 1] = np.bincount(strata.predictions, minlength=strata.number)
        return cls(evidence.n_models, n_rows, table, behind)


def _entries(evidence: ObjectPairs, strata: Strata, cells: PairCells, begin: int) -> list[Entry]:
    """Return the terms of the sums in the rows from ``begin`` on."""
    entries = []
    for values, total, number in (
        (cells.agreement, AGREED, DEFINED),
        (cells.iou, OVERLAP, COUPLED),
    ):
        mean = mean_of_defined(values)
        defined = np.flatnonzero(~np.isnan(mean))
        n = len(defined)
        image, row = cells.image[defined], begin + cells.stratum[defined]
        entries.append((image, row, np.full(n, total), mean[defined]))
        entries.append((image, row, np.full(n, number), np.ones(n)))
    # References count from 0 models on; a place has at least one model, so its first column is
    # that of one model.
    things: list[tuple[Things, I64, int]] = [
        (evidence.references, strata.references, TALLIES),
        (evidence.places, strata.places, TALLIES + evidence.n_models),
    ]
    for table, stratum, first_column in things:
        column = first_column + table.by_model.sum(axis=1)
        entries.append((table.image, begin + stratum, column, np.ones(len(table))))
    return entries


def _silence(evidence: ObjectPairs) -> list[Entry]:
    """Return the agreement of every image with 1 for pairs that both predict nothing."""
    cells = evidence.whole_cells
    value = np.ones(evidence.n_images)
    value[cells.image] = np.where(np.isnan(cells.agreement), 1.0, cells.agreement).mean(axis=1)
    image = np.arange(evidence.n_images)
    here = np.zeros_like(image)
    return [(image, here, here + QUIET, value), (image, here, here + IMAGES, np.ones(len(image)))]


class ObjectMetric:
    """All numbers of object stability under weights of the images."""

    def __init__(self, n_models: int) -> None:
        finders = tuple(f"found-by-{k}" for k in range(n_models + 1))
        alarms = tuple(f"false-alarms-by-{k}" for k in range(1, n_models + 1))
        shares = (
            "found-by-all",
            "found-by-some",
            "found-by-none",
            *finders,
            "false-alarms-shared",
            *alarms,
        )
        of_images = ("agreement", "agreement-with-silence", "mean-iou")
        self.facts = Facts(ID, (*of_images, *shares), swap=False, trials="own")
        self.top, self.bottom = _ratios(n_models, self.facts.names)

    def value(self, evidence: ObjectSums, weights: Any) -> F64:
        """Return (R, 1 + n_strata, n_names) for weights (R, n_images)."""
        w = np.asarray(weights, np.float64)
        # The sparse table stands first, so that the product runs over its entries only.
        sums = np.asarray(evidence.table.T @ w.T).T
        sums = sums.reshape(len(w), evidence.n_rows, evidence.width)
        top, bottom = sums @ self.top, sums @ self.bottom
        return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))

    def reasons(self, evidence: ObjectSums) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined."""
        why = {}
        for k, name in enumerate(self.facts.names):
            for row in range(evidence.n_rows):
                if name.startswith("found-by"):
                    why[row, k] = "no_references"
                else:
                    why[row, k] = "no_objects" if evidence.behind[row, 1] else "no_predictions"
        return why

    def counts(self, evidence: ObjectSums, weights: I64) -> I64:
        """Return (1 + n_strata, n_names, 3): images with a value, counted references, predictions
        of all models.
        """
        table = np.zeros((evidence.n_rows, len(self.facts.names), 3), np.int64)
        _, bottom = self._of_units(evidence, np.arange(evidence.n_images), evidence.n_images)
        table[:, :, 0] = ((bottom > 0).T @ weights).reshape(evidence.n_rows, -1)
        table[:, :, 1:] = evidence.behind[:, None]
        return table

    def trials(self, evidence: ObjectSums) -> I64:
        """Return (1 + n_strata, n_names): references or places that a share is of, else images."""
        _, bottom = self._of_units(evidence, np.arange(evidence.n_images), evidence.n_images)
        objects = np.asarray(bottom.sum(axis=0)).reshape(evidence.n_rows, -1)
        images = np.asarray((bottom > 0).sum(axis=0)).reshape(evidence.n_rows, -1)
        is_share = [name.startswith(("found-by", "false-alarms")) for name in self.facts.names]
        return np.where(is_share, objects, images).astype(np.int64)

    def support(self, evidence: ObjectSums, unit: I64, n_units: int) -> I64:
        """Return (1 + n_strata, n_names, 3): units with a value, twice, and those in which it is
        not 1.
        """
        top, bottom = self._of_units(evidence, unit, n_units)
        there = np.asarray((bottom > 0).sum(axis=0)).reshape(evidence.n_rows, -1)
        # A ratio is 1 where numerator and denominator are equal, up to rounding of means.
        short = np.asarray((bottom - top > ROUNDING).sum(axis=0)).reshape(evidence.n_rows, -1)
        return np.stack([there, there, short], axis=2).astype(np.int64)

    def _of_units(self, evidence: ObjectSums, unit: I64, n_units: int) -> tuple[Any, Any]:
        """Return sparse (n_units, n_rows * n_names) numerators and denominators."""
        from scipy.sparse import csr_array, eye_array, kron

        image = np.arange(evidence.n_images)
        members = csr_array((np.ones(len(unit)), (unit, image)), shape=(n_units, len(unit)))
        sums = members @ evidence.table
        # the same sums are added in every row: one block of the matrix per row
        rows = eye_array(evidence.n_rows)
        top = csr_array(sums @ kron(rows, self.top, format="csr"))
        bottom = csr_array(sums @ kron(rows, self.bottom, format="csr"))
        return top, bottom


def _ratios(n_models: int, names: tuple[str, ...]) -> tuple[F64, F64]:
    """Return (width, n_names) which sums are added for the numerators and for the denominators."""
    width = TALLIES + 2 * n_models + 1
    references = np.arange(TALLIES, TALLIES + n_models + 1)
    places = np.arange(TALLIES + n_models + 1, width)
    sums: dict[str, tuple[Any, Any]] = {
        "agreement": (AGREED, DEFINED),
        "agreement-with-silence": (QUIET, IMAGES),
        "mean-iou": (OVERLAP, COUPLED),
        "found-by-all": (references[-1:], references),
        "found-by-some": (references[1:-1], references),
        "found-by-none": (references[:1], references),
        "false-alarms-shared": (places[1:], places),
    }
    sums |= {f"found-by-{k}": (references[k], references) for k in range(n_models + 1)}
    sums |= {f"false-alarms-by-{k}": (places[k - 1], places) for k in range(1, n_models + 1)}
    top, bottom = np.zeros((width, len(names))), np.zeros((width, len(names)))
    for column, name in enumerate(names):
        over, under = sums[name]
        top[over, column] = bottom[under, column] = 1.0
    return top, bottom
