# SPDX-License-Identifier: Apache-2.0
"""Slices of samples that are loaded once more: of their images, and of the maps of the models that
are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.evaluation import Evaluation
from calipers.pictures.encoding import SIDE, shrunk
from calipers.pictures.gathering import Wanted
from calipers.pictures.overlays import short
from calipers.pictures.pixels import Pixels, scaled, windowed
from calipers.tables.samples import Sample

Shown = Mapping[Wanted, Sequence[str]]  # the models whose maps are shown


@dataclass
class SampleSlices:
    """The pixels of the slices, and what is to be said about them."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    without: int = 0  # samples that have no image
    lost: list[str] = field(default_factory=list)  # why samples could not be loaded
    seen: int = 0

    def notes(self) -> tuple[str, ...]:
        """Return what is missing, in words."""
        said = []
        if self.lost:
            said.append(
                f"{len(self.lost)} of {self.seen} samples could not be read again; the first: {self.lost[0]}"
            )
        there = self.seen - len(self.lost)
        if self.without and there:
            which = (
                f"{self.without} of {there} samples have"
                if self.without < there
                else "The samples have"
            )
            said.append(f"{which} no image: the maps stand on a dark ground.")
        return tuple(said)


def read_samples(
    evaluation: Evaluation,
    shown: Shown,
    *,
    images: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> SampleSlices:
    """Load every sample once and keep the slices that are shown, shrunk; nothing if samples cannot
    be loaded again.

    Parameters
    ----------
    images
        Whether the images of the samples are shown, or only the maps.
    """
    found, load = SampleSlices(), evaluation.load_sample
    if load is None:
        return found
    by_image: dict[int, list[Wanted]] = {}
    for one in shown:
        by_image.setdefault(one.image, []).append(one)
    for k, (image, wanted) in enumerate(by_image.items()):
        found.seen += 1
        try:
            sample = load(image)
        except (InputError, OSError) as error:
            found.lost.append(
                f"{short(evaluation.cohort.images.ids[image])}: {str(error).splitlines()[0]}"
            )
        else:
            found.without += images and sample.image is None
            for one in wanted:
                _keep(found, evaluation, sample, one, shown[one], images)
        if progress is not None:
            progress(k + 1, len(by_image))
    return found


def _keep(
    found: SampleSlices,
    evaluation: Evaluation,
    sample: Sample,
    one: Wanted,
    models: Sequence[str],
    images: bool,
) -> None:
    """Keep one slice of a sample."""
    place = ... if one.slice_at is None else math.floor(one.slice_at)
    if images and sample.image is not None and sample.image.shape == sample.labels.shape:
        plane = np.asarray(sample.image[place])
        grey = plane if plane.dtype == np.uint8 else windowed(plane, sample.name)
        found.pixels[one.key] = _pixels(grey)
    maps = list(sample.maps.values())
    for model in models:
        number = evaluation.models.index(model)  # names may have been replaced, their order stays
        levels = scaled(np.asarray(maps[number][place]), 0.0, 1.0)
        found.pixels[one.map_key(number)] = _pixels(levels, scores=True)


def _pixels(array: NDArray[np.uint8], *, scores: bool = False) -> Pixels:
    height, width = array.shape
    return Pixels(shrunk(np.ascontiguousarray(array), SIDE), width, height, scores=scores)
