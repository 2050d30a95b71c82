# SPDX-License-Identifier: Apache-2.0
"""Load samples again for the slices that are shown: of their images, and of the maps of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.evaluation import Evaluation
from calipers.pictures.encoding import SIDE, shrink
from calipers.pictures.gathering import ImageSlice
from calipers.pictures.overlays import short
from calipers.pictures.pixels import Pixels, scale_to_bytes, window_to_bytes
from calipers.tables.samples import Sample

ModelsBySlice = Mapping[ImageSlice, Sequence[str]]  # the models whose maps are shown


@dataclass
class SampleSlices:
    """The pixels of the slices, and counts of samples without."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    without: int = 0  # samples that have no image
    failures: list[str] = field(default_factory=list)  # why samples could not be loaded
    n_samples: int = 0

    def notes(self) -> tuple[str, ...]:
        """Return what is missing, in words."""
        notes = []
        if self.failures:
            notes.append(
                f"{len(self.failures)} of {self.n_samples} samples could not be read again; "
                f"the first: {self.failures[0]}"
            )
        n_loaded = self.n_samples - len(self.failures)
        if self.without and n_loaded:
            which = "The samples have"
            if self.without < n_loaded:
                which = f"{self.without} of {n_loaded} samples have"
            notes.append(f"{which} no image: the maps are shown on a dark background.")
        return tuple(notes)


def read_samples(
    evaluation: Evaluation,
    models: ModelsBySlice,
    *,
    images: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> SampleSlices:
    """Load every sample once and keep the slices that are shown, shrunk; keep nothing if samples
    cannot be loaded again.

    Parameters
    ----------
    images
        Whether the images of the samples are shown, or only the maps.
    """
    slices, load = SampleSlices(), evaluation.load_sample
    if load is None:
        return slices
    by_image: dict[int, list[ImageSlice]] = {}
    for place in models:
        by_image.setdefault(place.image, []).append(place)
    for k, (image, places) in enumerate(by_image.items()):
        slices.n_samples += 1
        try:
            sample = load(image)
        except (InputError, OSError) as error:
            name = short(evaluation.cohort.images.ids[image])
            slices.failures.append(f"{name}: {str(error).splitlines()[0]}")
        else:
            slices.without += images and sample.image is None
            for place in places:
                _add_slice(slices, evaluation, sample, place, models[place], images)
        if progress is not None:
            progress(k + 1, len(by_image))
    return slices


def _add_slice(
    slices: SampleSlices,
    evaluation: Evaluation,
    sample: Sample,
    place: ImageSlice,
    models: Sequence[str],
    images: bool,
) -> None:
    """Keep one slice of a sample: of its image and of the maps of the models."""
    index = ... if place.slice_at is None else math.floor(place.slice_at)
    if images and sample.image is not None and sample.image.shape == sample.labels.shape:
        plane = np.asarray(sample.image[index])
        grey = plane if plane.dtype == np.uint8 else window_to_bytes(plane, sample.name)
        slices.pixels[place.key] = _pixels(grey)
    maps = list(sample.maps.values())
    for model in models:
        number = evaluation.models.index(model)  # names may have been replaced, their order stays
        levels = scale_to_bytes(np.asarray(maps[number][index]), 0.0, 1.0)
        slices.pixels[place.map_key(number)] = _pixels(levels, scores=True)


def _pixels(array: NDArray[np.uint8], *, scores: bool = False) -> Pixels:
    height, width = array.shape
    return Pixels(shrink(np.ascontiguousarray(array), SIDE), width, height, scores=scores)
