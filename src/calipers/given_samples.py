# SPDX-License-Identifier: Apache-2.0
"""Samples as users give them: pairs, mappings, samples in memory, or files that are read on demand.

`evaluate_maps` calls `given_samples` and reads from the result one checked `Sample` at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.volumes.values import NORMALISATIONS, as_labels, as_map
from calipers.tables import FileIntake, Intake
from calipers.tables.samples import Sample

OWN = ("map", "maps", "labels", "name", "spacing", "image")
MODEL = "model"
MEANINGS = ("binary", "nonzero", "instances")


def _everything(groups: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class GivenSamples:
    """Something that loads samples one at a time; more than once, unless it is an iterator."""

    entries: Iterable[Any]
    labels: str | Sequence[int]  # meaning of the label values, or the values that count
    normalise: str
    selects: Callable[[Mapping[str, Any]], bool] = _everything
    left_out: list[int] = field(
        default_factory=list
    )  # entries that `loaders` came by and that are not kept

    @property
    def instances(self) -> bool:
        """Whether every label value is an object."""
        return self.labels == "instances"

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
                yield partial(self._load, entry, k)
            else:
                self.left_out.append(k)
            del entry

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

        return lambda number: self._load(entries[selected_rows()[number]], selected_rows()[number])

    def _load(self, entry: Any, k: int) -> Sample:
        if hasattr(entry, "load"):  # files: see `calipers.readers.volumes`
            sample: Sample = entry.load(label_values=self.labels, normalise=self.normalise)
            return sample
        sample, where = _sample(entry, k)
        labels = as_labels(sample.labels, self.labels, file=f"{where} labels")
        maps = {}
        for model, scores in sample.maps.items():
            if scores.shape != labels.shape:
                raise InputError(
                    f"a map of the shape of its labels, {labels.shape}",
                    rule="shape-mismatch",
                    location=f"{where} map of {model}",
                    value=scores.shape,
                    hint="nothing is resized or transposed; arrays are [z, ]y, x",
                )
            maps[model] = as_map(scores, self.normalise, file=f"{where} map of {model}")
        return replace(sample, labels=labels, maps=maps)

    def intake(self, number: int, notes: Mapping[str, tuple[str, ...]]) -> Intake:
        """Return the account of what was read; ``notes`` are those of every model."""
        if hasattr(self.entries, "intake"):
            account: Intake = self.entries.intake(number, notes)
            return account
        aside = {"tuning": len(self.left_out)} if self.left_out else {}
        counts = (number + len(self.left_out), number, aside)
        files = [FileIntake("<arrays>", "references", "arrays", *counts, notes=())]
        for model, notes_of_model in notes.items():
            role = f"predictions of {model}"
            files.append(FileIntake("<arrays>", role, "arrays", *counts, notes=notes_of_model))
        return Intake(tuple(files))


def given_samples(
    samples: Iterable[Any], *, labels: str | Sequence[int], normalise: str
) -> GivenSamples:
    """Check the choices and wrap what was given; no sample is looked at yet."""
    valid = labels in MEANINGS if isinstance(labels, str) else _whole_numbers(labels)
    if not valid:
        raise UsageError(
            f"labels is one of {', '.join(MEANINGS)}, or the values that count; not {labels!r}"
        )
    if normalise not in NORMALISATIONS:
        raise UsageError(
            f"no normalisation {normalise!r}; {did_you_mean(normalise, NORMALISATIONS)}"
        )
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
        array = np.asarray(values)
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
