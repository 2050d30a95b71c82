# SPDX-License-Identifier: Apache-2.0
"""The whole flow on one page: a cohort and a protocol in, an evaluation out.

- The protocol names the metrics (`Protocol.compile`).
- Metrics that share an evidence share its collection (`_jobs`), which runs over blocks of images (`engine.collect`).
- Every metric is a function of its evidence and of one weight per image: weights 1 give the point estimate (`_rows`).
- What a reader of the numbers must know is said in words (`findings.warnings_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calipers.engine import collect
from calipers.engine.blocks import Job, Progress
from calipers.errors import InputError, UsageError
from calipers.evaluation import Evaluation
from calipers.metrics.contract import Evidence, Metric
from calipers.protocol import Protocol
from calipers.results import Estimate, Row
from calipers.tables import Cohort, Predictions, References

Key = tuple[str, tuple[Any, ...]]  # model, key of the recipe
NAN = float("nan")


def evaluate(
    cohort: Cohort,
    protocol: str | Path | Protocol = "coco",
    *,
    seed: int | None = None,
    ci: bool = True,
    jobs: int = 1,
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
        Intervals are not computed by this version: estimates say ``not_requested``, and with ``ci`` a warning says so
        too.
    jobs
        Threads for the per-image work; the result does not depend on it.
    progress
        Called with (blocks done, blocks in all).

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort(), "rodeo")
    >>> print(ev["mislabels", "RoDeO/loc"])
    0.958, n = 120 images, 189 references
    """
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"evaluate takes a cohort, not {type(cohort).__name__}: make one with read or Cohort.from_arrays"
        )
    protocol = Protocol.load(protocol)
    if seed is not None and seed < 0:
        raise UsageError(f"a seed is not negative, got {seed}")
    if seed is not None:
        protocol = replace(protocol, seed=seed)
    _check(cohort)
    sized = with_areas(cohort, protocol)
    metrics = protocol.compile()
    evidence = collect(sized, _jobs(sized, metrics), workers=jobs, progress=progress)
    found = [row for model in sized.models for row in _rows(sized, protocol, metrics, model, evidence)]
    order = {plan.name: k for k, plan in enumerate(protocol.metrics)}
    models = {model: k for k, model in enumerate(sized.models)}
    rows = sorted(found, key=lambda row: (models[row.model], order[row.metric]))
    return Evaluation(
        protocol=protocol,
        cohort=cohort,
        rows=tuple(rows),
        evidence=evidence,
        ci=ci,
    )


def with_areas(cohort: Cohort, protocol: Protocol) -> Cohort:
    """Return the cohort with the areas that size cuts shall see: declared or of the box, rescaled or not."""
    if protocol.size_from == "mask":
        raise UsageError("sizes from masks need masks; this cohort has boxes: use from = 'declared' or 'box'")
    if protocol.size_from == "declared" and protocol.rescale_to is None:
        return cohort
    scale = np.ones(cohort.n_images)
    if protocol.rescale_to is not None:
        unknown = np.flatnonzero(np.isnan(cohort.images.size).any(axis=1))
        if len(unknown):
            name = cohort.images.ids[unknown[0]]
            raise UsageError(f"rescale_to needs the size of every image; image {name!r} has none")
        scale = np.prod(protocol.rescale_to) / np.prod(cohort.images.size[:, :2], axis=1)

    def resized(table: References | Predictions) -> Any:
        area = table.area if protocol.size_from == "declared" else table.extent
        return replace(table, area=area * scale[table.image])

    models = {name: resized(predictions) for name, predictions in cohort.models.items()}
    return replace(cohort, references=resized(cohort.references), models=models)


def _check(cohort: Cohort) -> None:
    if not cohort.models:
        raise InputError("at least one model", rule="no-predictions", hint="give predictions to read or from_arrays")
    if cohort.n_images == 0:
        raise InputError("at least one image", rule="no-images")


def _jobs(cohort: Cohort, metrics: list[Metric[Any]]) -> dict[Key, Job]:
    """Merge the recipes of all metrics, so that each kind of evidence is collected once per model."""
    recipes: dict[tuple[Any, ...], Any] = {}
    for metric in metrics:
        recipe = metric.recipe
        recipes[recipe.key] = recipes[recipe.key].merge(recipe) if recipe.key in recipes else recipe
    return {(model, key): (model, recipe) for model in cohort.models for key, recipe in recipes.items()}


def _rows(
    cohort: Cohort,
    protocol: Protocol,
    metrics: list[Metric[Any]],
    model: str,
    evidence: Mapping[Key, Evidence],
) -> Iterator[Row]:
    """Yield the rows of one model: for every metric the pooled estimate, then the classes."""
    unit, n_units = _unit(cohort, protocol)
    labels = [None, *cohort.classes]
    for metric in metrics:
        of_model = evidence[model, metric.recipe.key]
        weights = np.ones((1, of_model.n_images), np.int64)
        values = metric.value(of_model, weights)[0]
        reasons = metric.reasons(of_model) if np.isnan(values).any() else {}
        numbers, counts = values.tolist(), metric.counts(of_model, weights[0]).tolist()
        for k, name in enumerate(metric.facts.names):
            for row, label in enumerate(labels if metric.facts.per_class else labels[:1]):
                value, (n_images, n_references, n_predictions) = numbers[row][k], counts[row][k]
                reason = reasons.get((row, k), "no_objects") if value != value else "not_requested"
                estimate = Estimate(
                    value=value,
                    low=NAN,
                    high=NAN,
                    level=protocol.level,
                    method="none",
                    unit=unit,
                    n_units=n_units,
                    n_images=n_images,
                    n_references=n_references,
                    n_predictions=n_predictions,
                    bias=NAN,
                    undefined=0,
                    reason=reason,
                )
                yield Row(model, name, metric.facts.id_of(k), label, None, estimate)


def _unit(cohort: Cohort, protocol: Protocol) -> tuple[str, int]:
    """Return what the claim generalises to: the protocol's cluster; ``auto`` is patients if known, else images."""
    cluster = protocol.cluster if isinstance(protocol.cluster, str) else protocol.cluster[0]
    if cluster == "auto":
        cluster = "patient" if "patient" in cohort.images.groups else "image"
    return cluster, cohort.n_images if cluster == "image" else len(np.unique(cohort.group(cluster)))
