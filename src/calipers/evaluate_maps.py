# SPDX-License-Identifier: Apache-2.0
"""Evaluate maps against labels: samples are read one at a time, measured, and dropped.

- `given_samples` turns what the user gives into something that loads one sample at a time.
- If the threshold is to be found on the maps, they are read once more for it (`chosen_thresholds`).
- Every sample is examined (`engine.samples`) and dropped; `engine.sample_cohort` builds a cohort
  from the measurements.
- `evaluate` does the rest: values, intervals, groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from calipers.engine.blocks import Progress
from calipers.engine.exact_scores import ExactScores
from calipers.engine.sample_cohort import ModelMaps, cohort_of
from calipers.engine.samples import Examined, MapPlan, examine, in_order
from calipers.errors import InputError
from calipers.evaluate import evaluate
from calipers.evaluation import Evaluation
from calipers.given_samples import GivenSamples, given_samples
from calipers.grouping import Grouping
from calipers.map_thresholds import chosen_thresholds
from calipers.metrics.map_settings import MapSettings
from calipers.metrics.measures import Measure
from calipers.metrics.voxels import MapMetric
from calipers.protocol import Protocol
from calipers.tables import Cohort
from calipers.tables.samples import Sample


def evaluate_maps(
    samples: Iterable[Any],
    protocol: str | Path | Protocol = "anomaly",
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str = "none",
    label: str = "lesion",
    seed: int | None = None,
    ci: bool = True,
    by: str | Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate maps of scores against label arrays, in 2D or 3D.

    Parameters
    ----------
    samples
        One entry per sample: a pair ``(map, labels)``; a mapping with ``map`` (or ``maps``, a
        mapping from model to map), ``labels``, and as one likes ``name``, ``spacing``, ``image``,
        ``patient``, ``centre`` or any other column; a `calipers.tables.samples.Sample`; or what
        `calipers.read_maps` returns. Arrays are ``[z, ]y, x``. An iterator is read once and never
        held as a whole.
    protocol
        A preset name such as ``anomaly`` or ``mood``, the path of a TOML file, or a `Protocol`.
    labels
        What the values of the label arrays mean: ``binary`` (0 and one other value; objects are
        connected components), ``nonzero`` (all but 0), ``instances`` (every value is an object), or
        the values that count, such as ``(1, 3)``.
    normalise
        How maps come to scores in [0, 1]: ``none`` (others are an error), ``minmax``, ``sigmoid``,
        ``clip``, ``uint8``, ``uint16`` or ``rank``.
    label
        What the objects are called.
    seed, ci, by, jobs
        As in `calipers.evaluate`. With more jobs more samples are in memory.
    progress
        Called with (samples done, samples in all), where their number is known.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> labels = np.zeros((32, 32), int)
    >>> labels[8:16, 8:16] = 1
    >>> ev = cal.evaluate_maps([(0.9 * labels, labels)], ci=False)
    >>> print(round(float(ev["AP/dataset"]), 3), round(float(ev["softIoU"]), 3))
    1.0 0.947
    """
    protocol = Protocol.load(protocol)
    settings = protocol.maps or MapSettings()
    source = given_samples(samples, labels=labels, normalise=normalise)
    if (
        columns := source.columns
    ) is not None:  # before the first sample is read; `evaluate` looks closer
        for text in [by] if isinstance(by, str) else by:
            Grouping.parse(text, columns, "samples")
    tuning, source = source.split(settings.tuning) if settings.tuning else (source, source)
    thresholds = chosen_thresholds(tuning, settings, jobs=jobs, progress=progress)
    plan = _SamplesPlan(settings, _named_measures(protocol), thresholds, label)
    cohort = _gathered(source, plan, jobs, progress)
    evaluation = evaluate(cohort, protocol, seed=seed, ci=ci, by=by, jobs=jobs, progress=progress)
    return replace(evaluation, load_sample=source.again_one())


def _named_measures(protocol: Protocol) -> dict[str, Measure]:
    """Return what has to be measured on every map, by the name of the metric."""
    measures: dict[str, Measure] = {}
    for metric in protocol.compile():
        if isinstance(metric, MapMetric):
            measures.update(zip(metric.facts.names, metric.measures))
    return measures


@dataclass(frozen=True)
class _SamplesPlan:
    """What is measured on every sample, and at which thresholds objects are cut out."""

    settings: MapSettings
    names: Mapping[str, Measure]
    thresholds: Mapping[str, float] | None  # model -> threshold, where it was found on the maps
    label: str

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Every measure once."""
        return tuple(dict.fromkeys(self.names.values()))

    def of(self, sample: Sample, *, instances: bool, keep: bool) -> MapPlan:
        """Return the plan of one sample."""
        thresholds = self.thresholds
        if not thresholds:
            thresholds = {model: float(self.settings.threshold) for model in sample.maps}
        missing = [model for model in sample.maps if model not in thresholds]
        if missing:
            raise InputError(
                f"the models {', '.join(thresholds)}",
                rule="models",
                location=sample.name,
                value=list(sample.maps),
            )
        return MapPlan(self.settings, self.measures, thresholds, instances, keep=keep)


def _gathered(
    source: GivenSamples, plan: _SamplesPlan, jobs: int, progress: Progress | None
) -> Cohort:
    """Examine all samples one after the other, and return the cohort of what was measured."""
    examined_samples: list[Examined] = []
    maps: dict[str, ModelMaps] = {}
    exact = ExactScores(needed=any(measure.pooled for measure in plan.measures))
    check, number = _Alike(), source.number

    def work(sample: Sample) -> Examined:
        return examine(sample, plan.of(sample, instances=source.instances, keep=not exact.given_up))

    for n_done, examined in enumerate(in_order(source.loaders(), work, jobs), start=1):
        check(examined)
        for model, measured_map in examined.models.items():
            maps.setdefault(model, ModelMaps()).add(measured_map)
            if measured_map.scores is not None:
                exact.add(model, measured_map.scores)
        # Without its maps a sample is small: only this much stays in memory.
        examined_samples.append(replace(examined, models={}))
        if progress is not None and number:
            progress(n_done, number)
    _check_number(examined_samples, source, plan.settings)
    values = {model: exact.values(model, plan.measures) for model in maps}
    notes = {model: _notes(model, gathered, plan) for model, gathered in maps.items()}
    return cohort_of(
        examined_samples,
        maps,
        values,
        plan.measures,
        label=plan.label,
        batch=plan.settings.batch,
        intake=source.intake(len(examined_samples), notes),
    )


def _check_number(samples: Sequence[Examined], source: GivenSamples, settings: MapSettings) -> None:
    """Raise if there is no sample to evaluate, or none of the group to tune on."""
    if not samples:
        value = "none"
        if source.left_out:
            value = f"all are of {settings.tuning}, to choose a threshold on"
        raise InputError("at least one sample to evaluate", rule="no-images", value=value)
    if settings.tuning and not source.left_out:
        raise InputError(f"samples of the group {settings.tuning}", rule="no-images", value="none")


def _notes(model: str, gathered: ModelMaps, plan: _SamplesPlan) -> tuple[str, ...]:
    """Return notes on the threshold of a model and on small objects that were left out."""
    notes, settings = [], plan.settings
    if plan.thresholds is not None:
        where = f" on {settings.tuning}" if settings.tuning else ""
        threshold = plan.thresholds[model]
        text = f"objects of {model} are voxels with a score of at least {threshold:.6g}"
        if not math.isfinite(threshold):
            text = f"{model} has no objects: no score above 0 can be its threshold"
        notes.append(f"{text} ({settings.threshold}{where})")
    small = sum(objects.small for objects in gathered.objects)
    if small:
        notes.append(
            f"{small} predicted objects of {model} of fewer than {settings.least} voxels "
            "were left out"
        )
    return tuple(notes)


class _Alike:
    """Raise unless samples share models and number of axes, and have names that differ."""

    def __init__(self) -> None:
        self.first: Examined | None = None
        self.names: set[str] = set()

    def __call__(self, sample: Examined) -> None:
        first = self.first = self.first or sample
        if len(sample.size) != len(first.size):
            raise InputError(
                f"{len(first.size)} axes, as {first.name!r} has",
                rule="volume-shape",
                location=sample.name,
                value=len(sample.size),
            )
        if list(sample.models) != list(first.models):
            raise InputError(
                f"the models {', '.join(first.models)}, as {first.name!r} has",
                rule="models",
                location=sample.name,
                value=list(sample.models),
            )
        if sample.name in self.names:
            raise InputError(
                "names of samples that differ",
                rule="dup-image",
                location=sample.name,
                value=sample.name,
            )
        self.names.add(sample.name)
