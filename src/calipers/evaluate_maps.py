# SPDX-License-Identifier: Apache-2.0
"""Maps against labels: samples are read one after the other, and what is left of them is evaluated
like any cohort.

- `given_samples` makes of what the user gives something that loads one sample at a time.
- If the threshold is to be found on the maps, they are read once more for it (`chosen_thresholds`).
- Every sample is examined (`engine.samples`) and forgotten; `engine.sample_cohort` puts together
  what is left.
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
    given = given_samples(samples, labels=labels, normalise=normalise)
    if (
        columns := given.columns
    ) is not None:  # before the first sample is read; `evaluate` looks closer
        for text in [by] if isinstance(by, str) else by:
            Grouping.parse(text, columns, "samples")
    tuning, given = given.split(settings.tuning) if settings.tuning else (given, given)
    chosen = chosen_thresholds(tuning, settings, jobs=jobs, progress=progress)
    plan = _Plan(settings, _named_measures(protocol), chosen, label)
    cohort = _gathered(given, plan, jobs, progress)
    evaluation = evaluate(cohort, protocol, seed=seed, ci=ci, by=by, jobs=jobs, progress=progress)
    return replace(evaluation, load_sample=given.again_one())


def _named_measures(protocol: Protocol) -> dict[str, Measure]:
    """Return what has to be measured on every map, by the name of the metric."""
    found = [metric for metric in protocol.compile() if isinstance(metric, MapMetric)]
    return {
        name: measure
        for metric in found
        for name, measure in zip(metric.facts.names, metric.measures)
    }


@dataclass(frozen=True)
class _Plan:
    """What is wanted of all samples."""

    settings: MapSettings
    names: Mapping[str, Measure]
    chosen: Mapping[str, float] | None  # model -> threshold, where it was found on the maps
    label: str

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Every measure once."""
        return tuple(dict.fromkeys(self.names.values()))

    def of(self, sample: Sample, *, instances: bool, keep: bool) -> MapPlan:
        """Return what is wanted of one sample."""
        chosen = self.chosen or {model: float(self.settings.threshold) for model in sample.maps}
        missing = [model for model in sample.maps if model not in chosen]
        if missing:
            raise InputError(
                f"the models {', '.join(chosen)}",
                rule="models",
                location=sample.name,
                value=list(sample.maps),
            )
        return MapPlan(self.settings, self.measures, chosen, instances, keep=keep)


def _gathered(given: GivenSamples, plan: _Plan, jobs: int, progress: Progress | None) -> Cohort:
    """Examine all samples and put together what is left of them."""
    seen: list[Examined] = []
    maps: dict[str, ModelMaps] = {}
    exact = ExactScores(needed=any(measure.pooled for measure in plan.measures))
    check, number = _Alike(), given.number

    def work(sample: Sample) -> Examined:
        return examine(sample, plan.of(sample, instances=given.instances, keep=not exact.given_up))

    for done, examined in enumerate(in_order(given.loaders(), work, jobs), start=1):
        check(examined)
        for model, found in examined.models.items():
            maps.setdefault(model, ModelMaps()).add(found)
            if found.scores is not None:
                exact.add(model, found.scores)
        seen.append(replace(examined, models={}))
        if progress is not None and number:
            progress(done, number)
    _check_number(seen, given, plan.settings)
    values = {model: exact.values(model, plan.measures) for model in maps}
    notes = {model: _notes(model, found, plan) for model, found in maps.items()}
    intake = given.intake(len(seen), notes)
    return cohort_of(
        seen,
        maps,
        values,
        plan.measures,
        label=plan.label,
        batch=plan.settings.batch,
        intake=intake,
    )


def _check_number(seen: Sequence[Examined], given: GivenSamples, settings: MapSettings) -> None:
    """Samples are needed, and a group that is to be left out exists."""
    if not seen:
        value = (
            f"all are of {settings.tuning}, to choose a threshold on" if given.left_out else "none"
        )
        raise InputError("at least one sample to evaluate", rule="no-images", value=value)
    if settings.tuning and not given.left_out:
        raise InputError(f"samples of the group {settings.tuning}", rule="no-images", value="none")


def _notes(model: str, gathered: ModelMaps, plan: _Plan) -> tuple[str, ...]:
    """Say what was decided on the maps of a model."""
    found, settings = [], plan.settings
    if plan.chosen is not None:
        where = f" on {settings.tuning}" if settings.tuning else ""
        told = f"objects of {model} are voxels with a score of at least {plan.chosen[model]:.6g}"
        if not math.isfinite(plan.chosen[model]):
            told = f"{model} has no objects: no score above 0 can be its threshold"
        found.append(f"{told} ({settings.threshold}{where})")
    small = sum(objects.small for objects in gathered.objects)
    if small:
        found.append(
            f"{small} predicted objects of {model} of fewer than {settings.least} voxels were left out"
        )
    return tuple(found)


class _Alike:
    """Samples of one evaluation have the same models and the same number of axes, and names that
    differ.
    """

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
