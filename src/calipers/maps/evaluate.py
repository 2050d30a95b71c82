# SPDX-License-Identifier: Apache-2.0
"""Evaluate maps against labels: samples are read one at a time, measured, and dropped.

`evaluate_maps` is the entry, from Python and for ``calipers maps``:

- `given_samples` (`maps.entries`) turns what the user gives (pairs, mappings, samples in memory, or
  files that are read on demand) into something that loads one checked `Sample` at a time.
- If the threshold is a rule on the maps, the best Dice or a rate of false voxels, they are read
  once more for it (`_chosen_thresholds`): from which score on a voxel belongs to an object.
- Every sample is examined (`maps.examine`) and dropped; `cohort_of` makes a cohort of the results.
- `evaluate` does the rest: values, intervals, groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import F64
from calipers.data.cohort import Cohort, Images
from calipers.data.look_alikes import note_on_split
from calipers.data.maps import Histograms, Sample
from calipers.engine.leniency import ALLOWED_LOSS, Leniency, SetAside
from calipers.errors import InputError, UsageError
from calipers.evaluation.collect import Progress
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.groups import check_columns
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.io.volumes.values import (
    PERCENT,
    normalisations,
)
from calipers.maps.entries import GivenSamples, Loader, ScoreTables, given_samples
from calipers.maps.examine import (
    AlikeCheck,
    ExactScores,
    Examined,
    GatheredHistograms,
    MapPlan,
    ModelEvidence,
    SampleHistogram,
    cohort_of,
    count_voxels,
    examine,
    group_columns,
)
from calipers.metrics.maps import MapMetric, MapSettings, Measure, PooledVoxels, Tables
from calipers.show.words import digits

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store


@names_arguments
def evaluate_maps(
    samples: Iterable[Any],
    protocol: str | Path | Protocol = "anomaly",
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    label: str = "lesion",
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
    """Evaluate maps of scores against label arrays, in 2D or 3D.

    Parameters
    ----------
    samples
        One entry per sample: a pair ``(map, labels)``; a mapping with ``map`` (or ``maps``, a
        mapping from model to map), ``labels``, and optionally ``name``, ``spacing``, ``image``,
        ``patient``, ``centre`` or any other column; a `calipers.data.maps.Sample`; or what
        `calipers.read_maps` returns. Arrays are ``[z, ]y, x``. An iterator is read once and never
        held as a whole.
    protocol
        A preset name such as ``anomaly`` or ``mood``, the path of a TOML file, or a `Protocol`.
    labels
        What the values of the label arrays mean: ``binary`` (0 and one other value; objects are
        connected components), ``nonzero`` (all but 0), ``instances`` (every value is an object), or
        the values that count, such as ``(1, 3)``.
    normalise
        How maps are normalised to [0, 1]: ``none`` (others are an error), ``minmax``, ``sigmoid``,
        ``odds``, ``clip``, ``uint8``, ``uint16``, ``percent`` or ``rank``. A mapping such as
        ``{"echo": "uint8"}`` names the models that need one.
    predictions
        ``maps`` of scores; ``labels``: predictions are label arrays whose values mean what
        ``labels`` says; or ``instances``: every value of a prediction is an object.
    scores
        Of predicted labels: a table with the columns ``image``, ``label`` (the value) and
        ``score``, or a mapping from model to table. Without a table every score is 1.
    label
        What the objects are called.
    seed, ci, by, jobs
        As in `calipers.evaluation.evaluate`. With more jobs more samples are in memory.
    executor
        Where samples are read and examined: `calipers.engine.processes.Processes`, the executor of
        a Dask client, or any other `concurrent.futures.Executor`. ``jobs`` is its number of
        workers then. The result does not depend on it.
    store
        Where examined samples are kept, so that a run that is stopped can continue: see
        `calipers.engine.store.opened` and
        `calipers.maps.plan.map_plan`.
    lenient
        Set aside samples that cannot be read, or that crash the worker that examines them (in
        threads, such a sample crashes the program): the account of the cohort counts them by rule,
        its quarantine names them. Otherwise the first one is an error.
    allow_loss
        Share of the samples that may be set aside.
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
    source = source.with_predictions(predictions, scores, settings)
    workers = SampleWorkers(jobs, executor, store, Leniency(lenient, allow_loss))
    # The samples that chose the threshold are not judged with it.
    tuning, source = source.split(settings.tuning) if settings.tuning else (source, source)
    # A misspelt column fails now, not after hours of reading.
    _check_columns(source, protocol, by)
    thresholds, lost = _chosen_thresholds(tuning, settings, workers, progress)
    plan = _SamplesPlan(
        settings, _named_measures(protocol), thresholds, label, source.predicted_instances
    )
    # Those of a group of their own are not met again.
    gathering = _Gathering(plan, source, lost if settings.tuning else [])
    if settings.tuning:
        gathering.split_notes = _split_notes(tuning, source)
    cohort, aside = _examined_cohort(gathering, workers, progress)
    # From here on maps are a cohort like any other.
    evaluation = evaluate(cohort, protocol, seed=seed, ci=ci, by=by, jobs=jobs, progress=progress)
    return replace(evaluation, load_sample=source.again_one(aside))


def examine_part(
    samples: Iterable[Any],
    protocol: str | Path | Protocol = "anomaly",
    *,
    store: Store,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    jobs: int = 1,
    executor: Executor | None = None,
    lenient: bool = False,
    progress: Progress | None = None,
) -> int:
    """Examine the samples of one part, and leave them in its store; return how many they are.

    Those that are set aside are left there too, for the run that merges all parts to judge.

    `calipers.engine.store.merged` opens the stores of all parts, and `evaluate_maps` with that
    store gives the same bits as a single run.
    """
    protocol = Protocol.load(protocol)
    settings = protocol.maps or MapSettings()
    if settings.is_rule:
        raise UsageError(
            f"a threshold of {settings.threshold!r} needs the maps of all parts: choose it once, "
            "and give the parts its number"
        )
    source = given_samples(samples, labels=labels, normalise=normalise)
    source = source.with_predictions(predictions, scores, settings)
    if settings.tuning:
        _, source = source.split(settings.tuning)
    plan = _SamplesPlan(settings, _named_measures(protocol), None, "", source.predicted_instances)
    gathering = _Gathering(plan, source)
    workers = SampleWorkers(jobs, executor, store, Leniency(lenient, 1.0))
    number = 0
    for number, examined in enumerate(_examined(source, plan, gathering, workers), start=1):
        if not isinstance(examined, SetAside):
            gathering.check_scores(examined)
        if progress is not None and source.number:
            progress(number, len(range(*store.span)))
    return number


def check_sample_columns(
    samples: Iterable[Any], protocol: Protocol, by: str | Sequence[str] = ()
) -> None:
    """Raise for groupings and units that samples cannot have: the parts of a run do not group and
    resample, but what the merge will refuse must not be worked on for hours.
    """
    source = given_samples(samples, labels="binary", normalise="none")
    if protocol.maps is not None and protocol.maps.tuning:
        _, source = source.split(protocol.maps.tuning)
    _check_columns(source, protocol, by)


def _check_columns(source: GivenSamples, protocol: Protocol, by: str | Sequence[str]) -> None:
    """Raise for groupings and units that the samples cannot have, where that is known by now."""
    groups = source.groups
    if groups:
        nowhere = np.full((len(groups), 2), np.nan)
        ids = tuple(map(str, range(len(groups))))
        images = Images(ids, nowhere, nowhere, group_columns(groups))
        check_columns(images, protocol, [by] if isinstance(by, str) else by, "samples")


@dataclass(frozen=True)
class SampleWorkers:
    """Where samples are examined, and where finished ones are kept."""

    jobs: int
    executor: Executor | None
    store: Store | None
    leniency: Leniency

    def in_order(
        self, tasks: Iterable[SampleTask], source: GivenSamples, store: Store | None = None
    ) -> Iterator[Any]:
        """Yield what comes of every sample; at most ``jobs`` of them are in memory at once.

        An executor gets twice as many, so that no worker waits for the next sample.
        """
        return self.leniency.in_order(
            _done,
            tasks,
            source.name_of,
            what="a sample that can be read",
            workers=self.jobs,
            executor=self.executor,
            ahead=self.jobs if self.executor is None else 2 * self.jobs,
            store=store,
        )


class SampleTask(NamedTuple):
    """A sample that is loaded where it is examined; it can be sent to other processes."""

    load: Loader
    work: Callable[[Sample], Any]
    leniency: Leniency


def _done(task: SampleTask) -> Any:
    """Return what comes of the work on a sample, or why it cannot be read."""
    return task.leniency.attempt(lambda: task.work(task.load()), lambda: task.load.name)


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
    predicted_instances: bool = False  # whether every value of predicted labels is an object

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
        return MapPlan(
            self.settings, self.measures, thresholds, instances, self.predicted_instances, keep
        )


def _examined_cohort(
    gathering: _Gathering, workers: SampleWorkers, progress: Progress | None
) -> tuple[Cohort, frozenset[int]]:
    """Examine all samples one after the other; return the cohort of what was measured, and the
    numbers of the samples that were set aside.
    """
    source, plan = gathering.source, gathering.plan
    number = source.number
    for n_done, examined in enumerate(_examined(source, plan, gathering, workers), start=1):
        if isinstance(examined, SetAside):
            gathering.aside[n_done - 1] = examined
        else:
            gathering.add(examined)
        if progress is not None and number:
            progress(n_done, number)
    n_all = len(gathering.aside) + len(gathering.samples)
    workers.leniency.check(list(gathering.aside.values()), n_all, "samples")
    _check_number(gathering.samples, source, plan.settings)
    return gathering.cohort(), frozenset(gathering.aside)


def _examined(
    source: GivenSamples, plan: _SamplesPlan, gathering: _Gathering, workers: SampleWorkers
) -> Iterator[Examined | SetAside]:
    """Yield every sample, examined or set aside."""

    def tasks() -> Iterator[SampleTask]:
        for load in source.loaders():
            # Scores are handed over only as long as all of them fit into memory.
            keep = not gathering.exact.given_up
            yield SampleTask(load, _Examination(plan, source.instances, keep), workers.leniency)
            del load  # and with it the sample, before the next one is made

    return workers.in_order(tasks(), source, store=workers.store)


@dataclass(frozen=True)
class _Examination:
    """What is done with a sample; it can be sent to other processes."""

    plan: _SamplesPlan
    instances: bool
    keep: bool

    def __call__(self, sample: Sample) -> Examined:
        return examine(sample, self.plan.of(sample, instances=self.instances, keep=self.keep))


class _Gathering:
    """The evidence of all samples, added one after the other."""

    def __init__(
        self, plan: _SamplesPlan, source: GivenSamples, lost: Sequence[SetAside] = ()
    ) -> None:
        self.plan, self.source = plan, source
        self.lost = lost  # before, when a threshold was chosen
        self.split_notes: tuple[str, ...] = ()  # on those it was chosen on
        self.aside: dict[int, SetAside] = {}  # number of a sample -> why it has no evidence
        self.samples: list[Examined] = []
        self.maps: dict[str, ModelEvidence] = {}
        needs_scores = [measure.pooled or measure.ranked_in_batches for measure in plan.measures]
        self.exact = ExactScores(needed=any(needs_scores))
        self._check = AlikeCheck()

    def add(self, examined: Examined) -> None:
        """Take one more sample."""
        self._check(examined)
        for model, measured_map in examined.models.items():
            self.maps.setdefault(model, ModelEvidence()).add(measured_map)
            self.exact.add(model, measured_map.scores)
        # Without its maps a sample is small: only this much stays in memory.
        self.samples.append(replace(examined, models={}))

    def check_scores(self, examined: Examined) -> None:
        """Count the scores of a sample that stays in a store, to know when they are too many."""
        for model, measured_map in examined.models.items():
            self.exact.add(model, measured_map.scores)

    def cohort(self) -> Cohort:
        """Return the cohort of all samples."""
        plan, batch = self.plan, self.plan.settings.batch
        self._check_percentages()
        values = {model: self.exact.values(model, plan.measures, batch) for model in self.maps}
        notes = {}
        for model, gathered in self.maps.items():
            notes[model] = (*_notes(model, gathered, plan), *self.split_notes)
            if self.source.predicted is not None:
                notes[model] += tuple(self.source.predicted.notes(model))
        return cohort_of(
            self.samples,
            self.maps,
            values,
            plan.measures,
            label=plan.label,
            batch=batch,
            intake=self.source.intake(
                [sample.name for sample in self.samples],
                notes,
                [*self.lost, *self.aside.values()],
            ),
        )

    def _check_percentages(self) -> None:
        """Raise for a model whose scores were in [0, 1] before they were divided by 100."""
        normalise_of = normalisations(self.source.normalise, self.maps)
        for model, gathered in self.maps.items():
            if normalise_of[model] == "percent" and 0.0 < gathered.highest <= 1.0 / PERCENT:
                raise InputError(
                    f"percentages from 0 to {PERCENT}",
                    rule="score-range",
                    location=f"maps of {model}",
                    value=f"no score above {digits(gathered.highest * PERCENT, 6)} in any sample",
                    hint="these are scores in [0, 1] already: leave out the normalisation",
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


def _split_notes(tuning: GivenSamples, source: GivenSamples) -> tuple[str, ...]:
    """Return a note on patients that are on both sides of a split."""
    return tuple(note_on_split(_patients(tuning), _patients(source), "tuning"))


def _patients(source: GivenSamples) -> list[str]:
    return [str(groups["patient"]) for groups in source.groups or () if "patient" in groups]


def _notes(model: str, gathered: ModelEvidence, plan: _SamplesPlan) -> tuple[str, ...]:
    """Return notes on the threshold of a model and on small objects that were left out."""
    notes, settings = [], plan.settings
    if plan.thresholds is not None:
        where = f" on {settings.tuning}" if settings.tuning else ""
        threshold = plan.thresholds[model]
        text = f"objects of {model} are voxels with a score of at least {digits(threshold, 6)}"
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


def _chosen_thresholds(
    source: GivenSamples, settings: MapSettings, workers: SampleWorkers, progress: Progress | None
) -> tuple[dict[str, float] | None, list[SetAside]]:
    """Return model -> threshold, None if the settings name a number, and the samples that were set
    aside.

    Scores are counted in bins: the threshold is the lowest score of its bin that occurs, so that
    the rate of false voxels stays within what was asked for. It is above 0. A model that has no
    such score, as its maps are empty or constant, has the threshold inf: it calls nothing.
    """
    if not settings.is_rule:
        return None, []
    if not source.again:
        raise UsageError(
            f"a threshold of {settings.threshold!r} reads the maps twice: "
            "give a list, not an iterator"
        )
    maps: dict[str, GatheredHistograms] = {}
    aside = []
    tasks = (SampleTask(load, _histograms, workers.leniency) for load in source.loaders())
    for n_done, histograms in enumerate(workers.in_order(tasks, source), start=1):
        if isinstance(histograms, SetAside):
            aside.append(histograms)
            continue
        for model, part in histograms.items():
            maps.setdefault(model, GatheredHistograms()).add(part)
        if progress is not None and source.number:
            progress(n_done, source.number)
    if not maps:
        raise InputError(f"samples to choose a threshold on ({settings.tuning})", rule="no-images")
    thresholds = {}
    for model, gathered in maps.items():
        thresholds[model] = _threshold(model, gathered.settled(), settings)
    return thresholds, aside


def _histograms(sample: Sample) -> dict[str, SampleHistogram]:
    """Return the voxels of every map counted by score."""
    positive = sample.labels != 0
    return {model: count_voxels(scores, positive) for model, scores in sample.maps.items()}


def _threshold(model: str, histograms: Histograms, settings: MapSettings) -> float:
    tables = Tables(histograms)
    n = len(histograms.offsets) - 1
    pooled = tables.pooled(np.ones((1, n), np.int64), np.zeros(n, np.int64))
    # Dice needs voxels of references, a rate voxels outside of them.
    voxels = pooled.positives if settings.rate is None else pooled.negatives
    if not voxels.sum():
        raise InputError(
            f"maps of {model} with a threshold for {settings.threshold}",
            rule="threshold",
            value=f"no voxel {'in' if settings.rate is None else 'outside of'} a reference",
            hint="give a number as threshold, or other samples to choose it on",
        )
    return _score(histograms.lowest[tables.used], pooled, settings.rate)


def _score(values: F64, pooled: PooledVoxels, rate: float | None) -> float:
    """Return the lowest score of the bin of the best Dice, or of the lowest one within a rate of
    false voxels.

    Of equally good ones for Dice the highest; inf if no score above 0 will do.
    """
    hits, alarms = (np.cumsum(side[0][::-1])[::-1] for side in (pooled.positives, pooled.negatives))
    if rate is None:
        overlap = np.where(values > 0, hits / (hits[0] + alarms), 0.0)
        # argmax finds the first of equals, which in reverse order is the highest score.
        best = len(overlap) - 1 - int(np.argmax(overlap[::-1]))
        return float(values[best]) if overlap[best] > 0 else float("inf")
    candidates = np.flatnonzero((values > 0) & (alarms / alarms[0] <= rate))
    return float(values[candidates[0]]) if len(candidates) else float("inf")
