# SPDX-License-Identifier: Apache-2.0
"""Evaluate maps against labels: samples are read one at a time, measured, and dropped.

`evaluate_maps` is the entry, from Python and for ``calipers maps``:

- `given_samples` turns what the user gives (pairs, mappings, samples in memory, or files that are
  read on demand) into something that loads one checked `Sample` at a time.
- If the threshold is a rule on the maps, the best Dice or a rate of false voxels, they are read
  once more for it (`chosen_thresholds`): from which score on a voxel belongs to an object.
- Every sample is examined (`maps.examine`) and dropped; `cohort_of` makes a cohort of the results.
- `evaluate` does the rest: values, intervals, groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_arguments
from calipers.arrays import F64, Array, host_array
from calipers.data.cohort import Cohort, FileIntake, Intake
from calipers.data.maps import Histograms, Sample
from calipers.engine.work import WorkerDied, in_order
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.evaluation.collect import Progress
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.groups import Grouping
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.values import (
    PERCENT,
    as_labels,
    as_map,
    check_normalisation,
    normalisations,
)
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
    work_on_samples,
)
from calipers.metrics.maps import MapMetric, MapSettings, Measure, PooledVoxels, Tables

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store

# Keys of a mapping that are not groups; the model without a name; meanings of label values.
OWN = ("map", "maps", "labels", "name", "spacing", "image")
MODEL = "model"
MEANINGS = ("binary", "nonzero", "instances")
PREDICTIONS = ("maps", "labels", "instances")
ScoreTables = str | PathLike[str] | Mapping[str, str | PathLike[str]] | None


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
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate maps of scores against label arrays, in 2D or 3D.

    Parameters
    ----------
    samples
        One entry per sample: a pair ``(map, labels)``; a mapping with ``map`` (or ``maps``, a
        mapping from model to map), ``labels``, and as one likes ``name``, ``spacing``, ``image``,
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
        How maps come to scores in [0, 1]: ``none`` (others are an error), ``minmax``, ``sigmoid``,
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
        Where examined samples are kept, so that a run that is stopped can go on: see
        `calipers.engine.store.opened` and
        `calipers.maps.plan.map_plan`.
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
    workers = _Workers(jobs, executor, store)
    if (
        columns := source.columns
    ) is not None:  # before the first sample is read; `evaluate` looks closer
        # A misspelt column fails now, not after hours of reading.
        for text in [by] if isinstance(by, str) else by:
            Grouping.parse(text, columns, "samples")
    # The samples that chose the threshold are not judged with it.
    tuning, source = source.split(settings.tuning) if settings.tuning else (source, source)
    thresholds = chosen_thresholds(
        tuning, settings, jobs=jobs, executor=executor, progress=progress
    )
    plan = _SamplesPlan(
        settings, _named_measures(protocol), thresholds, label, source.predicted_instances
    )
    cohort = _examined_cohort(source, plan, workers, progress)
    # From here on maps are a cohort like any other.
    evaluation = evaluate(cohort, protocol, seed=seed, ci=ci, by=by, jobs=jobs, progress=progress)
    return replace(evaluation, load_sample=source.again_one())


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
    progress: Progress | None = None,
) -> int:
    """Examine the samples of one part, and leave them in its store; return how many they are.

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
    number = 0
    for number, examined in enumerate(
        _examined(source, plan, gathering, _Workers(jobs, executor, store)), start=1
    ):
        gathering.check_scores(examined)
        if progress is not None and source.number:
            progress(number, len(range(*store.span)))
    return number


@dataclass(frozen=True)
class _Workers:
    """Where samples are examined, and where finished ones are kept."""

    jobs: int
    executor: Executor | None
    store: Store | None


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
    source: GivenSamples, plan: _SamplesPlan, workers: _Workers, progress: Progress | None
) -> Cohort:
    """Examine all samples one after the other, and return the cohort of what was measured."""
    gathering, number = _Gathering(plan, source), source.number
    for n_done, examined in enumerate(_examined(source, plan, gathering, workers), start=1):
        gathering.add(examined)
        if progress is not None and number:
            progress(n_done, number)
    _check_number(gathering.samples, source, plan.settings)
    return gathering.cohort()


def _examined(
    source: GivenSamples, plan: _SamplesPlan, gathering: _Gathering, workers: _Workers
) -> Iterator[Examined]:
    """Yield every sample, examined; a worker that dies names the sample."""

    def tasks() -> Iterator[tuple[Callable[[], Sample], _Examination]]:
        for load in source.loaders():
            # Scores are handed over only as long as all of them fit into memory.
            keep = not gathering.exact.given_up
            yield load, _Examination(plan, source.instances, keep)
            del load  # and with it the sample, before the next one is made

    jobs, executor = workers.jobs, workers.executor
    ahead = jobs if executor is None else 2 * jobs
    try:
        yield from in_order(
            _load_and_examine,
            tasks(),
            workers=jobs,
            executor=executor,
            ahead=ahead,
            store=workers.store,
        )
    except WorkerDied as error:
        raise InputError(
            "a sample that can be read",
            rule="worker-died",
            location=source.name_of(error.item),
            value=error.how,
            hint="its file may be damaged, or the memory too small: try fewer --jobs",
        ) from None


@dataclass(frozen=True)
class _Examination:
    """What is done with a sample; it can be sent to other processes."""

    plan: _SamplesPlan
    instances: bool
    keep: bool

    def __call__(self, sample: Sample) -> Examined:
        return examine(sample, self.plan.of(sample, instances=self.instances, keep=self.keep))


def _load_and_examine(task: tuple[Callable[[], Sample], _Examination]) -> Examined:
    load, examination = task
    return examination(load())


class _Gathering:
    """The evidence of all samples, added one after the other."""

    def __init__(self, plan: _SamplesPlan, source: GivenSamples) -> None:
        self.plan, self.source = plan, source
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
            notes[model] = _notes(model, gathered, plan)
            if self.source.predicted is not None:
                notes[model] += tuple(self.source.predicted.notes(model))
        return cohort_of(
            self.samples,
            self.maps,
            values,
            plan.measures,
            label=plan.label,
            batch=batch,
            intake=self.source.intake([sample.name for sample in self.samples], notes),
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
                    value=f"no score above {gathered.highest * PERCENT:.6g} in any sample",
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


def _notes(model: str, gathered: ModelEvidence, plan: _SamplesPlan) -> tuple[str, ...]:
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


def _everything(groups: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class GivenSamples:
    """Something that loads samples one at a time; more than once, unless it is an iterator."""

    entries: Iterable[Any]
    labels: str | Sequence[int]  # meaning of the label values, or the values that count
    normalise: str | Mapping[str, str]  # for all models, or by model
    selects: Callable[[Mapping[str, Any]], bool] = _everything
    left_out: list[int] = field(
        default_factory=list
    )  # entries that `loaders` came by and that are not kept
    predicted: PredictedLabels | None = None  # what predictions mean if they are labels

    def with_predictions(
        self,
        kind: str,
        scores: ScoreTables,
        settings: MapSettings,
    ) -> GivenSamples:
        """Return the samples with the meaning of their predictions, checked."""
        if kind not in PREDICTIONS:
            raise UsageError(f"predictions cannot be {kind!r}; {did_you_mean(kind, PREDICTIONS)}")
        if kind == "maps":
            if scores is not None:
                raise UsageError("scores is a table for predicted labels: maps hold their scores")
            return self
        if self.normalise != "none":
            raise UsageError("normalise is for maps of scores, and predictions are labels")
        if settings.is_rule:
            raise UsageError(
                f"a threshold of {settings.threshold!r} is for maps of scores, "
                "and predictions are labels: nothing is cut out"
            )
        meaning = self.labels if kind == "labels" else "instances"
        # Samples in memory name their models only when they are read.
        models = tuple(scores) if isinstance(scores, Mapping) else (MODEL,)
        models = getattr(self.entries, "models", models)
        return replace(self, predicted=PredictedLabels.read(meaning, scores, models))

    @property
    def instances(self) -> bool:
        """Whether every label value is an object."""
        return self.labels == "instances"

    @property
    def predicted_instances(self) -> bool:
        """Whether every value of predicted labels is an object."""
        return self.predicted is not None and self.predicted.instances

    @property
    def meaning(self) -> _Meaning:
        """What values mean, without the samples: it may go to another process."""
        return _Meaning(self.labels, self.normalise, self.predicted)

    @property
    def number(self) -> int:
        """How many samples are kept, 0 if only reading them tells."""
        if not isinstance(self.entries, Sequence):
            return 0
        # An entry may be made on the spot: none is looked at only for the number.
        if self.selects is _everything:
            return len(self.entries)
        return sum(self.selects(_groups(entry)) for entry in self.entries)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the groups, None where entries have to be made to know them."""
        # Looking at other sequences may make every sample only for its groups.
        if not isinstance(self.entries, list | tuple) and not hasattr(self.entries, "intake"):
            return None
        names: dict[str, None] = {}
        for entry in self.entries:
            names.update(dict.fromkeys(_groups(entry)))
        return tuple(names)

    @property
    def again(self) -> bool:
        """Whether the samples can be read more than once."""
        return not isinstance(self.entries, Iterator)

    def split(self, group: str) -> tuple[GivenSamples, GivenSamples]:
        """Return the samples of a group such as ``split=tune``, and all others."""
        name, _, value = group.partition("=")

        def inside(groups: Mapping[str, Any]) -> bool:
            return str(groups.get(name, "")) == value

        outside = replace(self, selects=lambda groups: not inside(groups), left_out=[])
        return replace(self, selects=inside, left_out=[]), outside

    def loaders(self) -> Iterator[Callable[[], Sample]]:
        """Yield functions that load one sample each, checked."""
        self.left_out.clear()
        # enumerate would hold on to an entry while an iterator makes the next one, and so would we
        numbers = count()
        for entry in self.entries:
            k = next(numbers)
            if self.selects(_groups(entry)):
                # Without `self`: it holds all samples, and each may go to another process.
                yield partial(load_entry, entry, k, self.meaning)
            else:
                self.left_out.append(k)
            del entry

    def selected(self) -> list[Any]:
        """Return the entries that are kept, of a list that can be read more than once."""
        return [entry for entry in self.entries if self.selects(_groups(entry))]

    def name_of(self, k: int) -> str:
        """Return the name of the k-th selected sample, where there is one."""
        if not self.again:
            return f"samples[{k}]"
        return str(getattr(self.selected()[k], "name", f"samples[{k}]"))

    def again_one(self) -> Callable[[int], Sample] | None:
        """Return a function that loads the k-th selected sample again, for pictures.

        None for an iterator, which can be read only once.
        """
        if not isinstance(self.entries, Sequence):
            return None
        entries = self.entries

        @cache
        def selected_rows() -> list[int]:  # only when it is needed: entries may be made on the spot
            return [k for k, entry in enumerate(entries) if self.selects(_groups(entry))]

        def load(number: int) -> Sample:
            row = selected_rows()[number]
            return load_entry(entries[row], row, self.meaning)

        return load

    def intake(self, names: Sequence[str], notes: Mapping[str, tuple[str, ...]]) -> Intake:
        """Return the account of what was read.

        ``names`` are the samples that were used, ``notes`` those of every model.
        """
        if hasattr(self.entries, "intake"):
            return self._with_choices(self.entries.intake(names, notes))
        number = len(names)
        aside = {"tuning": len(self.left_out)} if self.left_out else {}
        counts = (number + len(self.left_out), number, aside)
        files = [FileIntake("<arrays>", "references", "arrays", *counts, notes=())]
        for model, notes_of_model in notes.items():
            role = f"predictions of {model}"
            files.append(FileIntake("<arrays>", role, "arrays", *counts, notes=notes_of_model))
        return self._with_choices(Intake(tuple(files)))

    def _with_choices(self, account: Intake) -> Intake:
        """Return the account with what values mean, in references and for every model."""
        of_files = dict(getattr(self.entries, "reading", {}))
        labels = self.labels if isinstance(self.labels, str) else list(map(int, self.labels))
        kind = "maps" if self.predicted is None else "labels"
        of_files["predictions"] = "instances" if self.predicted_instances else kind
        return account.with_reading({**of_files, "labels": labels, "normalise": self.normalise})


class _Meaning(NamedTuple):
    """What the values of labels and predictions mean."""

    labels: str | Sequence[int]
    normalise: str | Mapping[str, str]
    predicted: PredictedLabels | None


def load_entry(entry: Any, k: int, meaning: _Meaning) -> Sample:
    """Return an entry as a sample in memory, checked."""
    if hasattr(entry, "load"):  # files: see `calipers.io.volumes`
        read_sample: Sample = entry.load(
            label_values=meaning.labels, normalise=meaning.normalise, predicted=meaning.predicted
        )
        return read_sample
    sample, where = _sample(entry, k)
    labels = as_labels(sample.labels, meaning.labels, file=f"{where} labels")
    normalise_of, maps = normalisations(meaning.normalise, sample.maps), {}
    objects: dict[str, Array] = {}
    for model, scores in sample.maps.items():
        if scores.shape != labels.shape:
            raise InputError(
                f"a map of the shape of its labels, {labels.shape}",
                rule="shape-mismatch",
                location=f"{where} map of {model}",
                value=scores.shape,
                hint="nothing is resized or transposed; arrays are [z, ]y, x",
            )
        file = f"{where} map of {model}"
        if meaning.predicted is None:
            maps[model] = as_map(scores, normalise_of[model], file=file)
        else:
            maps[model], objects[model] = meaning.predicted.of(scores, model, sample.name, file)
    return replace(sample, labels=labels, maps=maps, objects=objects)


def given_samples(
    samples: Iterable[Any], *, labels: str | Sequence[int], normalise: str | Mapping[str, str]
) -> GivenSamples:
    """Check the choices and wrap what was given; no sample is looked at yet."""
    valid = labels in MEANINGS if isinstance(labels, str) else _whole_numbers(labels)
    if not valid:
        raise UsageError(
            f"labels is one of {', '.join(MEANINGS)}, or the values that count; not {labels!r}"
        )
    check_normalisation(normalise)
    if isinstance(samples, Mapping | np.ndarray | str) or not isinstance(samples, Iterable):
        raise UsageError(
            f"samples is a list of (map, labels) pairs or mappings, not {type(samples).__name__}"
        )
    return GivenSamples(samples, labels, normalise)


def _whole_numbers(labels: Any) -> bool:
    """Return whether these are one or more whole numbers."""
    values = list(labels) if isinstance(labels, Iterable) else []
    for value in values:
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            return False
    return bool(values)


def _groups(entry: Any) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return {key: value for key, value in entry.items() if key not in OWN}
    groups: Mapping[str, Any] = getattr(entry, "groups", {})
    return groups


def _sample(entry: Any, k: int) -> tuple[Sample, str]:
    """Return an entry as a sample, with its place for messages."""
    where = f"samples[{k}]"
    if isinstance(entry, Sample):
        where = f"{where} ({entry.name})"
        maps = {model: _array(scores, where) for model, scores in entry.maps.items()}
        labels = _array(entry.labels, where)
        return replace(
            entry, labels=labels, maps=maps, spacing=_spacing(entry.spacing, labels.ndim, where)
        ), where
    if isinstance(entry, Mapping):
        return _from_mapping(entry, k, where), where
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return Sample(str(k), _array(entry[1], where), {MODEL: _array(entry[0], where)}), where
    expected = "a pair (map, labels), a mapping with 'map' and 'labels', or a Sample"
    raise InputError(expected, rule="type", location=where, value=type(entry).__name__)


def _from_mapping(entry: Mapping[str, Any], k: int, where: str) -> Sample:
    """Return the sample of a mapping with ``labels`` and ``map`` or ``maps``."""
    maps = entry.get("maps", {MODEL: entry["map"]} if "map" in entry else None)
    if (
        "labels" not in entry
        or ("map" in entry) == ("maps" in entry)
        or not isinstance(maps, Mapping)
        or not maps
    ):
        expected = "the keys 'labels' and 'map' (or 'maps', a mapping from model to map)"
        raise InputError(expected, rule="missing-key", location=where, value=list(entry))
    labels = _array(entry["labels"], where)
    scores = {str(model): _array(values, where) for model, values in maps.items()}
    image = entry.get("image")
    return Sample(
        name=str(entry.get("name", k)),
        labels=labels,
        maps=scores,
        spacing=_spacing(entry.get("spacing"), labels.ndim, where),
        groups=_groups(entry),
        image=None if image is None else _array(image, where),
    )


def _spacing(spacing: Any, dimensions: int, where: str) -> tuple[float, ...] | None:
    if spacing is None:
        return None
    try:
        sides = tuple(float(side) for side in spacing)
    except (TypeError, ValueError):
        sides = ()
    if len(sides) != dimensions or not all(side > 0 and math.isfinite(side) for side in sides):
        expected = f"{dimensions} positive numbers, mm along x, y[, z]"
        raise InputError(expected, rule="spacing", location=where, value=spacing)
    return sides


def _array(values: Any, where: str) -> NDArray[Any]:
    try:
        array = host_array(values)
    except ValueError:  # rows of different lengths
        raise InputError(
            "an array with 2 or 3 axes", rule="type", location=where, value=type(values).__name__
        ) from None
    if array.ndim not in (2, 3) or not array.size:
        raise InputError(
            "an array with 2 or 3 axes, [z, ]y, x",
            rule="volume-shape",
            location=where,
            value=array.shape,
        )
    return array


def chosen_thresholds(
    source: GivenSamples,
    settings: MapSettings,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[str, float] | None:
    """Return model -> threshold, None if the settings name a number.

    Scores are counted in bins: the threshold is the lowest score of its bin that occurs, so that
    the rate of false voxels stays within what was asked for. It is above 0. A model that has no
    such score, as its maps are empty or constant, has the threshold inf: it calls nothing.
    """
    if not settings.is_rule:
        return None
    if not source.again:
        raise UsageError(
            f"a threshold of {settings.threshold!r} reads the maps twice: "
            "give a list, not an iterator"
        )
    maps: dict[str, GatheredHistograms] = {}
    for n_done, histograms in enumerate(
        work_on_samples(source.loaders(), _histograms, jobs, executor=executor), start=1
    ):
        for model, part in histograms.items():
            maps.setdefault(model, GatheredHistograms()).add(part)
        if progress is not None and source.number:
            progress(n_done, source.number)
    if not maps:
        raise InputError(f"samples to choose a threshold on ({settings.tuning})", rule="no-images")
    thresholds = {}
    for model, gathered in maps.items():
        thresholds[model] = _threshold(model, gathered.settled(), settings)
    return thresholds


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
