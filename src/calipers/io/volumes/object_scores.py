# SPDX-License-Identifier: Apache-2.0
"""Scores of objects in label volumes: a table with a row per image and value.

A label volume says where objects are and not how certain a model is, so a table beside it may. Its
columns are ``image`` (the name of the sample), ``label`` (the value of the object in the volume)
and ``score``. Without a column ``label`` a score holds for everything in the image. The readers of
label volumes (`calipers.io.volumes.labels`) and of samples of maps (`calipers.io.volumes.samples`)
look scores up here. Without a table every score is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath

import numpy as np

from calipers.arrays import F64, I64, Array
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.tables.columns import ColumnSpec, declare, find_columns
from calipers.io.tables.table import FileTable, empty, open_table, strict_numbers, texts
from calipers.io.volumes.open import stem_of
from calipers.io.volumes.values import Meaning, as_labels

COLUMNS = declare(
    ColumnSpec(
        "image", ("image", "image_id", "case", "name", "id", "file_name", "filename"), required=True
    ),
    ColumnSpec("label", ("label", "value", "instance", "object", "object_id", "segment")),
    ColumnSpec("score", ("score", "confidence", "probability"), required=True, kind="number"),
)


@dataclass
class ScoreTable:
    """Scores by image and value; None as value stands for all values of an image."""

    file: str
    sha256: str
    scores: Mapping[tuple[str, int | None], float]
    used: set[tuple[str, int | None]] = field(default_factory=set)

    def of(self, image: str, values: I64) -> F64:
        """Return the (n,) scores of the objects of an image with these values.

        Raises
        ------
        InputError
            An object has no score.
        """
        scores = np.ones(len(values))
        for k, value in enumerate(values.tolist()):
            key = (image, value) if (image, value) in self.scores else (image, None)
            if key not in self.scores:
                raise InputError(
                    "a score of every object",
                    rule="score-missing",
                    file=self.file,
                    value=f"none of the value {value} in {image}",
                    hint="add a row with image, label and score",
                )
            self.used.add(key)
            scores[k] = self.scores[key]
        return scores

    def notes(self) -> list[str]:
        """Say where scores come from, and how many were not used."""
        notes = [f"scores come from {self.file}, sha256 {self.sha256}"]
        n_unused = len(self.scores) - len(self.used)
        if n_unused:
            notes.append(f"{n_unused} rows of {self.file} are about objects that no volume has")
        return notes


def read_scores(path: str | PathLike[str]) -> ScoreTable:
    """Read a table of scores."""
    table = open_table(fspath(path))
    columns = find_columns(table, COLUMNS)
    numbers = strict_numbers(table, columns["score"])
    missing = np.flatnonzero(empty(table.columns[columns["score"]]))
    if len(missing):
        raise table.error(int(missing[0]), columns["score"], "score-missing", "a score")
    names = [_name(cell) for cell in texts(table, columns["image"])]
    values: Sequence[int | None] = [None] * len(table)
    if "label" in columns:
        values = _values(table, columns["label"])
    scores: dict[tuple[str, int | None], float] = {}
    for row, (name, value) in enumerate(zip(names, values)):
        if (name, value) in scores:
            expected = "one row per image and value"
            raise table.error(row, columns["image"], "dup-name", expected, f"{name} {value}")
        scores[name, value] = float(numbers[row])
    return ScoreTable(table.file, table.sha256, scores)


def _name(cell: str) -> str:
    name = cell.strip()
    return stem_of(name) or name


def _values(table: FileTable, column: str) -> list[int | None]:
    numbers = strict_numbers(table, column)
    broken = np.flatnonzero(~np.isfinite(numbers) | (numbers != np.floor(numbers)))
    if len(broken):
        row = int(broken[0])
        cell = texts(table, column)[row]
        expected = "the value of an object in its volume, a whole number"
        raise table.error(row, column, "type", expected, cell)
    return [int(number) for number in numbers.tolist()]


@dataclass(frozen=True)
class PredictedLabels:
    """How predicted label volumes become objects and maps, for samples of maps."""

    meaning: Meaning  # of their values
    scores: Mapping[str, ScoreTable] = field(default_factory=dict)  # by model

    @property
    def instances(self) -> bool:
        """Whether every value is an object; else objects are connected components."""
        return self.meaning == "instances"

    def of(self, voxels: Array, model: str, name: str, file: str) -> tuple[Array, Array]:
        """Return the map and the labels of the objects of a predicted volume."""
        labels = as_labels(voxels, self.meaning, file=file)
        scores = self.scores.get(model)
        if scores is None:
            return painted(labels, name, None), labels
        # Values name objects in the table; what the meaning leaves out is background.
        values = as_labels(voxels, "instances", file=file)
        return painted(np.where(labels != 0, values, 0), name, scores), labels

    def notes(self, model: str) -> list[str]:
        """Say where the scores of a model come from."""
        if model not in self.scores:
            return [f"label volumes of {model} have no scores: every object has the score 1"]
        # Not the rows that were used: samples may have been examined in other processes.
        return self.scores[model].notes()[:1]

    @classmethod
    def read(
        cls,
        meaning: Meaning,
        scores: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None,
        models: Sequence[str],
    ) -> PredictedLabels:
        """Read the tables of scores: one for the only model, or one per model."""
        if scores is None:
            return cls(meaning)
        if not isinstance(scores, Mapping):
            if len(models) > 1:
                raise UsageError(
                    f"scores is one table for {len(models)} models: "
                    "name the model of each, {'model': table} (--scores MODEL=TABLE)"
                )
            scores = {models[0]: scores}
        for model in scores:
            if model not in models:
                raise UsageError(f"scores: no model {model!r}; {did_you_mean(model, models)}")
        return cls(meaning, {model: read_scores(path) for model, path in scores.items()})


def painted(labels: Array, image: str, scores: ScoreTable | None) -> Array:
    """Return a map: every voxel has the score of its object, the background has 0."""
    if scores is None:
        return np.asarray(labels != 0, np.float32)
    values, place = np.unique(labels, return_inverse=True)
    of_values = np.zeros(len(values))
    objects = values != 0
    of_values[objects] = scores.of(image, values[objects].astype(np.int64))
    outside = of_values[(of_values < 0) | (of_values > 1)]
    if len(outside):
        raise InputError(
            "scores in [0, 1]", rule="score-range", file=scores.file, value=float(outside[0])
        )
    return of_values[place].reshape(labels.shape)
