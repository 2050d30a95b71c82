# SPDX-License-Identifier: Apache-2.0
"""`FileBags`: bags on disk whose headers were checked; values are read one bag at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from calipers.errors import InputError
from calipers.readers.bags.labels import Labels
from calipers.readers.bags.model_maps import ModelMaps, located
from calipers.readers.volumes.values import as_map
from calipers.readers.volumes.volume import Volume
from calipers.tables.bags import F64, Bag, Column, Flags

# From boxes (n, 4), (width, height) of the image and (rows, columns) of the map to flags.
Rule = Callable[[F64, tuple[float, float], tuple[int, int]], Flags]
GRID = 2  # axes of a map that boxes can be laid on


@dataclass(frozen=True)
class FileBags:
    """The maps of several models of the same bags, in files; `read_bags` makes it.

    It is a source of bags (`calipers.tables.bags.Bags`): the maps of one bag, of all models, are in
    memory at a time.
    """

    sources: tuple[ModelMaps, ...]
    ids: tuple[str, ...]
    labels: Labels = field(default_factory=Labels)
    bag_scores: F64 | None = None  # (n_models, n_bags)
    groups: Mapping[str, Column] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    normalise: str = "none"
    rule: Rule | None = None  # from boxes to instances

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(source.model for source in self.sources)

    @property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags are positive; None without labels."""
        return self.labels.positive

    @property
    def boxes(self) -> Mapping[str, F64]:
        """Bag -> (n, 4) corners of its findings in pixels of its image; (0, 4) for negative bags.

        Positive bags without boxes are left out.
        """
        return {} if self.labels.boxes is None else self.labels.boxes.of

    @property
    def sizes(self) -> Mapping[str, tuple[float, float]]:
        """Bag -> width and height of the image that `boxes` lie on."""
        return {} if self.labels.boxes is None else self.labels.boxes.sizes

    def with_instances(self, rule: Rule) -> FileBags:
        """Return the bags with positive instances from their boxes.

        Parameters
        ----------
        rule
            Called with the (n, 4) boxes, (width, height) of the image and (rows, columns) of the
            map; returns (rows, columns) flags: `calipers.stability.instances.instance_labels` with
            one of its rules.
        """
        for bag in self.boxes:
            volume = self.sources[0].maps[bag]
            if len(_flat(volume.shape)) != GRID:
                value = f"{len(volume.shape)} axes"
                place = f"model {self.models[0]!r}, bag {bag!r}"
                hint = "boxes need maps of rows and columns; for others, give a folder of masks"
                raise InputError(
                    "maps of two axes",
                    rule="volume-shape",
                    file=volume.file,
                    location=place,
                    value=value,
                    hint=hint,
                )
        return replace(self, rule=rule)

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.ids)

    def __getitem__(self, i: int) -> Bag:
        """Read one bag of all models."""
        bag = self.ids[i]
        shape = self.sources[0].maps[bag].shape
        values = np.empty((len(self.sources), math.prod(shape)), np.float64)
        for k, source in enumerate(self.sources):
            values[k] = self._read(source.model, bag, source.maps[bag])
        return Bag(bag, values, shape, self._instances(i, shape))

    def _read(self, model: str, bag: str, volume: Volume) -> F64:
        try:
            return as_map(volume.read(), self.normalise, file=volume.file).ravel()
        except InputError as error:
            raise located(error, model, bag) from None

    def _instances(self, i: int, shape: tuple[int, ...]) -> Flags | None:
        bag = self.ids[i % len(self.ids)]
        if self.labels.masks is not None:
            return self.labels.mask(i)
        if self.rule is None or bag not in self.boxes:
            return None
        if not len(self.boxes[bag]):
            return np.zeros(math.prod(shape), np.bool_)
        grid = (shape[-2], shape[-1])
        return np.asarray(self.rule(self.boxes[bag], self.sizes[bag], grid), np.bool_).ravel()


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without an axis of one slice: a picture that was saved as a volume."""
    return shape[1:] if len(shape) == GRID + 1 and shape[0] == 1 else shape
