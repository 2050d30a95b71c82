# SPDX-License-Identifier: Apache-2.0
"""Maps against labels: samples are read one after the other, and what is left of them is evaluated like any cohort.

- `given_samples` makes of what the user gives something that loads one sample at a time.
- If the threshold is to be found on the maps, they are read once more for it (`chosen_thresholds`).
- Every sample is examined (`engine.samples`) and forgotten; `engine.sample_cohort` puts together what is left.
- `evaluate` does the rest: values, intervals, groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.engine.blocks import Progress
from calipers.engine.exact_scores import ExactScores
from calipers.engine.sample_cohort import Gathered, cohort_of
from calipers.engine.samples import Examined, MapPlan, examine, in_order
from calipers.errors import InputError
from calipers.evaluate import evaluate
from calipers.evaluation import Evaluation
from calipers.given_samples import GivenSamples, given_samples
from calipers.map_thresholds import chosen_thresholds
from calipers.metrics.map_settings import MapSettings
from calipers.metrics.measures import Measure
from calipers.metrics.voxels import MapMetric
from calipers.protocol import Protocol
from calipers.tables import Cohort


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
        One entry per sample: a pair ``(map, labels)``; a mapping with ``map`` (or ``maps``, a mapping from model to
        map), ``labels``, and as one likes ``name``, ``spacing``, ``image``, ``patient``, ``centre`` or any other
        column; a `calipers.tables.samples.Sample`; or what `calipers.read_maps` returns. Arrays are ``[z, ]y, x``.
        An iterator is read once and never held as a whole.
    protocol
        A preset name such as ``anomaly`` or ``mood``, the path of a TOML file, or a `Protocol`.
    labels
        What the values of the label arrays mean: ``binary`` (0 and one other value; objects are connected components),
        ``nonzero`` (all but 0), ``instances`` (every value is an object), or the values that count, such as ``(1, 3)``.
    normalise
        How maps come to scores in [0, 1]: ``none`` (others are an error), ``minmax``, ``sigmoid``, ``clip``,
        ``uint8``, ``uint16`` or ``rank``.
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
    measures = _measures(protocol)
    tuning, given = given.split(settings.tuning) if settings.tuning else (given, given)
    chosen = chosen_thresholds(tuning, settings, jobs=jobs, progress=progress)
    cohort = _gathered(given, settings, measures, chosen, label=label, jobs=jobs, progress=progress)
    evaluation = evaluate(cohort, protocol, seed=seed, ci=ci, by=by)
    return replace(evaluation, load_sample=given.again_one())


def _measures(protocol: Protocol) -> tuple[Measure, ...]:
    """Return what has to be measured on every map, each once."""
    found = [measure for metric in protocol.compile() if isinstance(metric, MapMetric) for measure in metric.measures]
    return tuple(dict.fromkeys(found))


def _gathered(
    given: GivenSamples,
    settings: MapSettings,
    measures: tuple[Measure, ...],
    chosen: dict[str, float] | None,
    *,
    label: str,
    jobs: int,
    progress: Progress | None,
) -> Cohort:
    """Examine all samples and put together what is left of them."""
    seen: list[Examined] = []
    maps: dict[str, Gathered] = {}
    exact = ExactScores()
    check = _Alike()

    def work(sample: Any) -> Examined:
        thresholds = chosen or dict.fromkeys(sample.maps, float(settings.threshold))
        return examine(sample, MapPlan(settings, measures, thresholds, given.instances, keep=not exact.given_up))

    for done, examined in enumerate(in_order(given.loaders(), work, jobs), start=1):
        check(examined)
        for model, found in examined.models.items():
            maps.setdefault(model, Gathered()).add(found)
            if found.scores is not None:
                exact.add(model, found.scores)
        seen.append(replace(examined, models={}))
        if progress is not None and given.number:
            progress(done, given.number)
    if not seen:
        raise InputError("at least one sample", rule="no-images")
    values = {model: exact.values(model, measures) for model in maps}
    notes = {model: _notes(found, settings, (chosen or {}).get(model)) for model, found in maps.items()}
    intake = given.intake(list(maps), len(seen), notes)
    return cohort_of(seen, maps, values, measures, label=label, batch=settings.batch, intake=intake)


def _notes(gathered: Gathered, settings: MapSettings, threshold: float | None) -> tuple[str, ...]:
    """Say what was decided on the way."""
    found = []
    if threshold is not None:
        where = f" on {settings.tuning}" if settings.tuning else ""
        found.append(f"objects are voxels with a score of at least {threshold:.6g} ({settings.threshold}{where})")
    small = sum(objects.small for objects in gathered.objects)
    if small:
        found.append(f"{small} predicted objects of fewer than {settings.least} voxels were left out")
    return tuple(found)


class _Alike:
    """Samples of one evaluation have the same models and the same number of axes, and names that differ."""

    def __init__(self) -> None:
        self.first: Examined | None = None
        self.names: set[str] = set()

    def __call__(self, sample: Examined) -> None:
        first = self.first = self.first or sample
        if len(sample.size) != len(first.size):
            raise InputError(
                f"{len(first.size)} axes, as {first.name!r} has",
                rule="dimensions",
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
            raise InputError("names of samples that differ", rule="dup-image", location=sample.name, value=sample.name)
        self.names.add(sample.name)
