# SPDX-License-Identifier: Apache-2.0
"""What the user gives as samples: pairs, mappings, samples in memory, or files.

`given_samples` wraps them, and `GivenSamples` loads one checked `Sample` at a time; each loader may
go to another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import Array, host_array
from calipers.data.cohort import TUNING, FileIntake, Intake, Quarantined
from calipers.data.maps import Sample
from calipers.engine.leniency import SetAside, counts_of
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.values import (
    MEANINGS,
    as_labels,
    as_map,
    check_normalisation,
    is_meaning,
    normalisations,
)
from calipers.metrics.maps import MapSettings

# Keys of a mapping that are not groups; the model without a name; meanings of label values.
OWN = ("map", "maps", "labels", "name", "spacing", "image")
MODEL = "model"
PREDICTIONS = ("maps", "labels", "instances")
ScoreTables = str | PathLike[str] | Mapping[str, str | PathLike[str]] | None


def _everything(groups: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class OfGroup:
    """Whether a sample is of a group, or outside of it."""

    column: str
    value: str
    inside: bool = True

    def __call__(self, groups: Mapping[str, Any]) -> bool:
        """Return whether the sample with these groups is kept."""
        return (str(groups.get(self.column, "")) == self.value) == self.inside


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
    def groups(self) -> list[Mapping[str, Any]] | None:
        """The groups of every selected sample, None where entries have to be made to know them."""
        # Looking at other sequences may make every sample only for its groups.
        if not isinstance(self.entries, list | tuple) and not hasattr(self.entries, "intake"):
            return None
        every = (_groups(entry) for entry in self.entries)
        return [groups for groups in every if self.selects(groups)]

    @property
    def again(self) -> bool:
        """Whether the samples can be read more than once."""
        return not isinstance(self.entries, Iterator)

    def split(self, group: str) -> tuple[GivenSamples, GivenSamples]:
        """Return the samples of a group such as ``split=tune``, and all others."""
        name, _, value = group.partition("=")

        inside = OfGroup(name, value)
        outside = replace(self, selects=replace(inside, inside=False), left_out=[])
        return replace(self, selects=inside, left_out=[]), outside

    def loaders(self) -> Iterator[Loader]:
        """Yield functions that load one sample each, checked."""
        self.left_out.clear()
        # enumerate would hold on to an entry while an iterator makes the next one, and so would we
        numbers = count()
        for entry in self.entries:
            k = next(numbers)
            if self.selects(_groups(entry)):
                # Without `self`: it holds all samples, and each may go to another process.
                yield Loader(entry, k, self.meaning)
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
        return Loader(self.selected()[k], k, self.meaning).name

    def again_one(self, aside: Collection[int] = ()) -> Callable[[int], Sample] | None:
        """Return a function that loads the k-th sample again, for pictures, of those that are
        selected and were not set ``aside``.

        None for an iterator, which can be read only once.
        """
        return AgainOne(self, frozenset(aside)) if isinstance(self.entries, Sequence) else None

    def intake(
        self,
        names: Sequence[str],
        notes: Mapping[str, tuple[str, ...]],
        aside: Sequence[SetAside] = (),
    ) -> Intake:
        """Return the account of what was read.

        ``names`` are the samples that were used, ``notes`` those of every model.
        """
        return self._with_choices(self._account(names, notes, aside))

    def _account(
        self,
        names: Sequence[str],
        notes: Mapping[str, tuple[str, ...]],
        aside: Sequence[SetAside],
    ) -> Intake:
        if hasattr(self.entries, "intake"):
            account: Intake = self.entries.intake(names, notes, aside)
            return account
        quarantined = counts_of(aside)
        if self.left_out:
            quarantined[TUNING] = len(self.left_out)
        counts = (len(names) + sum(quarantined.values()), len(names), quarantined)
        files = [FileIntake("<arrays>", "references", "arrays", *counts, notes=())]
        for model, notes_of_model in notes.items():
            role = f"predictions of {model}"
            files.append(FileIntake("<arrays>", role, "arrays", *counts, notes=notes_of_model))
        # Every file of a sample is a record, as where there are files.
        records = [Quarantined(*item.record(file.file)) for item in aside for file in files]
        return Intake(tuple(files), tuple(records))

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


@dataclass(frozen=True, eq=False)
class AgainOne:
    """A function that loads the k-th sample again; it is stored with the result that holds it."""

    source: GivenSamples
    aside: Collection[int]

    @cached_property
    def _rows(self) -> list[int]:  # only when it is needed: entries may be made on the spot
        entries = enumerate(self.source.entries)
        rows = [k for k, entry in entries if self.source.selects(_groups(entry))]
        return [row for number, row in enumerate(rows) if number not in self.aside]

    def __call__(self, number: int) -> Sample:
        """Return the sample, checked."""
        assert isinstance(self.source.entries, Sequence), "what is read once is not kept"
        row = self._rows[number]
        return Loader(self.source.entries[row], row, self.source.meaning)()


class Loader(NamedTuple):
    """A function that loads an entry, the k-th of all; it may go to another process."""

    entry: Any
    k: int
    meaning: _Meaning

    def __call__(self) -> Sample:
        """Return the entry as a sample in memory, checked."""
        return _loaded(self.entry, self.k, self.meaning)

    @property
    def name(self) -> str:
        """The name of the sample, where it has one."""
        entry = self.entry
        name = entry.get("name") if isinstance(entry, Mapping) else getattr(entry, "name", None)
        return f"samples[{self.k}]" if name is None else str(name)


def _loaded(entry: Any, k: int, meaning: _Meaning) -> Sample:
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
    if not is_meaning(labels):
        raise UsageError(
            f"labels is one of {', '.join(MEANINGS)}, or the values that count; not {labels!r}"
        )
    check_normalisation(normalise)
    if isinstance(samples, Mapping | np.ndarray | str) or not isinstance(samples, Iterable):
        raise UsageError(
            f"samples is a list of (map, labels) pairs or mappings, not {type(samples).__name__}"
        )
    return GivenSamples(samples, labels, normalise)


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
    except ValueError as error:
        value = f"{type(values).__name__}: {error}"
        raise InputError(
            "an array with 2 or 3 axes", rule="type", location=where, value=value
        ) from None
    if array.ndim not in (2, 3) or not array.size:
        raise InputError(
            "an array with 2 or 3 axes, [z, ]y, x",
            rule="volume-shape",
            location=where,
            value=array.shape,
        )
    return array
