# SPDX-License-Identifier: Apache-2.0
"""Read the pictures that are shown, each once, and fit them into a budget of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from calipers.pictures.encoding import SIDE, Encoded, encode, shrink
from calipers.pictures.finding import PictureFiles
from calipers.pictures.overlays import short
from calipers.pictures.pixels import PictureError, Pixels
from calipers.pictures.reading import read_pixels
from calipers.tables import Cohort

SIDES = (SIDE, 384, 256, 192)  # pixels; smaller ones show nothing


@dataclass(frozen=True, slots=True)
class ImageSlice:
    """A picture to show: an image, or one slice of a volume."""

    image: int
    slice_at: float | None = None

    @property
    def key(self) -> str:
        """Its id on the page: letters, digits and hyphens only."""
        return f"picture-{self._place}"

    def map_key(self, model: int) -> str:
        """Return the id on the page of the map of the model of that number."""
        return f"map-{model}-{self._place}"

    @property
    def _place(self) -> str:
        if self.slice_at is None:
            return str(self.image)
        return f"{self.image}-z{math.floor(self.slice_at)}"


@dataclass(frozen=True, slots=True)
class PictureSet:
    """The encoded pictures by their id on the page, and notes about them."""

    pictures: Mapping[str, Encoded]
    sizes: Mapping[str, tuple[float, float]]  # width and height of the files
    details: Mapping[str, str]  # notes on single pictures
    notes: tuple[str, ...]


@dataclass
class _Reading:
    """The pictures read so far, and those that cannot be shown."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    failed: list[tuple[str, PictureError]] = field(default_factory=list)  # id of the image, why
    misfits: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return what went wrong, with the first case of each kind."""
        notes = []
        if self.failed:
            image, error = self.failed[0]
            hint = f" ({error.hint})" if error.hint else ""
            value = f", got {error.value}" if error.value else ""
            what = f"expected {error.expected}{value} [{error.rule}]{hint}"
            notes.append(
                f"{_pictures(len(self.failed))} could not be read; the first, of {image}: {what}"
            )
        if self.misfits:
            n = _pictures(len(self.misfits))
            notes.append(
                f"{n} not shown because boxes would be misplaced; the first: {self.misfits[0]}"
            )
        return notes


def gather(
    cohort: Cohort,
    files: PictureFiles | None,
    places: Sequence[ImageSlice],
    budget_bytes: int,
    progress: Callable[[int, int], None] | None = None,
    further: Mapping[str, Pixels] = {},
) -> PictureSet:
    """Read, check, shrink and encode pictures.

    ``further`` pictures come from elsewhere, such as samples; without files there are no others.
    """
    state = _Reading(dict(further))
    if files is not None:
        for k, place in enumerate(places):
            path = files.path_of(place.image)
            if path is not None:
                _read_picture(state, cohort, place, path)
            if progress is not None:
                progress(k + 1, len(places))
    pictures, notes = _within(state.pixels, budget_bytes)
    sizes: dict[str, tuple[float, float]] = {}
    details: dict[str, str] = {}
    for key, pixels in state.pixels.items():
        sizes[key] = (float(pixels.width), float(pixels.height))
        if pixels.note:
            details[key] = pixels.note
    return PictureSet(pictures, sizes, details, (*state.notes(), *notes))


def _read_picture(state: _Reading, cohort: Cohort, place: ImageSlice, path: Path) -> None:
    """Read one picture and shrink it.

    A picture of another size than the cohort states is refused: its boxes would be misplaced.
    """
    name = short(cohort.images.ids[place.image])
    try:
        pixels = read_pixels(path, slice_at=place.slice_at)
    except PictureError as error:
        state.failed.append((name, error))
        return
    stated_size = cohort.images.size[place.image].tolist()
    file_size = [pixels.width, pixels.height]
    if pixels.depth is not None:
        file_size.append(pixels.depth)
    if any(math.isfinite(a) and a != b for a, b in zip(stated_size, file_size)):
        sizes = f"{_size_text(stated_size)} in the data and {_size_text(file_size)} in its file"
        note = f" ({pixels.note})" if pixels.note else ""
        state.misfits.append(f"{name} is {sizes}{note}")
        return
    state.pixels[place.key] = replace(pixels, array=shrink(pixels.array, SIDE))


def _size_text(size: Sequence[float]) -> str:
    sides = []
    for side in size:
        sides.append("?" if math.isnan(side) else f"{side:g}")
    return " x ".join(sides)


def _within(pixels: Mapping[str, Pixels], budget: int) -> tuple[dict[str, Encoded], list[str]]:
    """Return the pictures, as large as the budget allows, and a note if they were shrunk.

    If they do not fit even at the smallest size, those that exceed the budget are left out.
    """
    encoded: dict[str, Encoded] = {}
    for side in SIDES:
        encoded = {key: encode(one, side=side) for key, one in pixels.items()}
        if sum(picture.bytes for picture in encoded.values()) <= budget:
            if side == SIDE:
                return encoded, []
            return encoded, [f"pictures shrunk to {side} pixels to keep the page small"]
    pictures: dict[str, Encoded] = {}
    remaining = budget
    for key, picture in encoded.items():
        if picture.bytes <= remaining:
            pictures[key] = picture
            remaining -= picture.bytes
    return pictures, [f"{_pictures(len(encoded) - len(pictures))} left out to keep the page small"]


def _pictures(n: int) -> str:
    return "1 picture" if n == 1 else f"{n} pictures"
