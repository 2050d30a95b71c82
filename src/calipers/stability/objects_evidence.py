# SPDX-License-Identifier: Apache-2.0
"""The evidence of object stability: matched predictions of K detectors on the same images.

`objects_matching.collect` makes it; `objects_metric` and `ObjectStability` compute from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """A flat table; rows ``offsets[i]:offsets[i+1]`` belong to image i."""

    offsets: I64  # (n_images + 1,)

    @property
    def image(self) -> I64:
        """(n,) the image of every row."""
        return ragged.owners(self.offsets)

    def take(self, images: I64) -> Self:
        """Return the rows of some images, in that order; images may be repeated."""
        rows, offsets = ragged.take_rows(self.offsets, images)
        return type(self)(offsets, *(getattr(self, name)[rows] for name in self._columns()))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the tables of several sets of images, one below the other."""
        columns = []
        for name in cls._columns():
            columns.append(np.concatenate([getattr(part, name) for part in parts]))
        return cls(ragged.concat_offsets([part.offsets for part in parts]), *columns)

    @classmethod
    def _columns(cls) -> list[str]:
        return [one.name for one in fields(cls) if one.name != "offsets"]


@dataclass(frozen=True, slots=True)
class Things(Rows):
    """Objects on images with the models that find them: counted references, or places of false
    alarms.
    """

    label: I64  # (n,)
    area: F64  # (n,) of a place: the mean of its false alarms
    by_model: Flags  # (n, K) which models find the reference, or raise a false alarm in the place

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True)
class Targets(Things):
    """Counted references."""

    row: I64  # (n,) in the cohort


@dataclass(frozen=True, slots=True)
class AlarmPlaces(Things):
    """Places with a false alarm of one model or of several."""

    members: I64  # (n,) number of false alarms


@dataclass(frozen=True, slots=True)
class PooledPredictions(Rows):
    """The predictions of all models at or above the score cut, one model after the other in every
    image.
    """

    model: I64  # (n,)
    label: I64  # (n,)
    area: F64  # (n,)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True)
class Couples(Rows):
    """Predictions of two models that mean the same thing; a prediction has at most one partner per
    other model.
    """

    pair: I64  # (n,) of models, as `kernels.pairwise.pair_index` lists them
    first: I64  # (n,) place of the prediction of the first model among all predictions of its image
    second: I64
    iou: F64  # (n,)

    def __len__(self) -> int:
        return len(self.pair)


@dataclass(frozen=True)
class ObjectPairs:
    """The evidence of object stability: flat tables with offsets per image."""

    n_models: int
    n_classes: int
    references: Targets
    places: AlarmPlaces
    predictions: PooledPredictions
    couples: Couples
    ignored: I64  # (n_images,) references that are ignored or crowds
    # (n_images, K) predictions of a reference that another prediction of the model has found
    duplicates: I64

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.ignored)

    def take(self, images: I64) -> ObjectPairs:
        """Return the evidence of some images; images may be repeated."""
        tables: dict[str, Any] = {name: getattr(self, name).take(images) for name in TABLES}
        tables |= {"ignored": self.ignored[images], "duplicates": self.duplicates[images]}
        return ObjectPairs(self.n_models, self.n_classes, **tables)

    @classmethod
    def concat(cls, parts: Sequence[ObjectPairs]) -> ObjectPairs:
        """Return the evidence of all images of several parts; rows of references stay what they
        are.
        """
        first = parts[0]
        tables: dict[str, Any] = {}
        for name in TABLES:
            kind = type(getattr(first, name))
            tables[name] = kind.concat([getattr(part, name) for part in parts])
        return cls(
            first.n_models,
            first.n_classes,
            **tables,
            ignored=np.concatenate([part.ignored for part in parts]),
            duplicates=np.concatenate([part.duplicates for part in parts]),
        )

    def couple_rows(self) -> tuple[I64, I64]:
        """Return the rows in ``predictions`` of both predictions of every couple."""
        begin = self.predictions.offsets[:-1][self.couples.image]
        return begin + self.couples.first, begin + self.couples.second


TABLES = ("references", "places", "predictions", "couples")
