# SPDX-License-Identifier: Apache-2.0
"""Reading the pictures that are shown, each once, and fitting them into a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from calipers.pictures.encoding import SIDE, Encoded, encode, shrunk
from calipers.pictures.finding import PictureFiles
from calipers.pictures.overlays import short
from calipers.pictures.pixels import PictureError, Pixels
from calipers.pictures.reading import read_pixels
from calipers.tables import Cohort

SIDES = (SIDE, 384, 256, 192)  # pixels; smaller ones show nothing


@dataclass(frozen=True, slots=True)
class Wanted:
    """A picture that is to be shown: an image, or one slice of a volume."""

    image: int
    slice_at: float | None = None

    @property
    def key(self) -> str:
        """What it is called on the page; letters, digits and hyphens only."""
        return f"picture-{self._place}"

    def map_key(self, model: int) -> str:
        """Return what the map of the model of that number is called on the page."""
        return f"map-{model}-{self._place}"

    @property
    def _place(self) -> str:
        return (
            str(self.image)
            if self.slice_at is None
            else f"{self.image}-z{math.floor(self.slice_at)}"
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """The pictures, and what is to be said about them."""

    pictures: Mapping[str, Encoded]
    sizes: Mapping[str, tuple[float, float]]  # width and height of the files
    details: Mapping[str, str]  # notes on single pictures
    notes: tuple[str, ...]


@dataclass
class _Reading:
    """What is known while pictures are read."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    failed: list[tuple[str, PictureError]] = field(default_factory=list)  # id of the image, why
    misfits: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return what went wrong, with the first case of each kind."""
        said = []
        if self.failed:
            image, error = self.failed[0]
            hint = f" ({error.hint})" if error.hint else ""
            got = f", got {error.value}" if error.value else ""
            what = f"expected {error.expected}{got} [{error.rule}]{hint}"
            said.append(
                f"{_pictures(len(self.failed))} could not be read; the first, of {image}: {what}"
            )
        if self.misfits:
            n = _pictures(len(self.misfits))
            said.append(
                f"{n} not shown because boxes would lie wrong; the first: {self.misfits[0]}"
            )
        return said


def gather(
    cohort: Cohort,
    files: PictureFiles | None,
    wanted: Sequence[Wanted],
    budget_bytes: int,
    progress: Callable[[int, int], None] | None = None,
    further: Mapping[str, Pixels] = {},
) -> Gathered:
    """Read, check, shrink and encode pictures; without files there are ``further`` ones only, read
    by others.
    """
    reading = _Reading(dict(further))
    for k, one in enumerate(wanted if files is not None else ()):
        path = files.path_of(one.image) if files is not None else None
        if path is not None:
            try:
                pixels = read_pixels(path, slice_at=one.slice_at)
            except PictureError as error:
                reading.failed.append((short(cohort.images.ids[one.image]), error))
            else:
                _keep(reading, cohort, one, pixels)
        if progress is not None:
            progress(k + 1, len(wanted))
    pictures, notes = _within(reading.pixels, budget_bytes)
    sizes = {
        key: (float(pixels.width), float(pixels.height)) for key, pixels in reading.pixels.items()
    }
    details = {key: pixels.note for key, pixels in reading.pixels.items() if pixels.note}
    return Gathered(pictures, sizes, details, (*reading.notes(), *notes))


def _keep(reading: _Reading, cohort: Cohort, one: Wanted, pixels: Pixels) -> None:
    """Keep the pixels, shrunk, unless the cohort says another size: then its boxes would lie wrong."""
    said = cohort.images.size[one.image].tolist()
    real = [pixels.width, pixels.height] + ([] if pixels.depth is None else [pixels.depth])
    if any(math.isfinite(a) and a != b for a, b in zip(said, real)):
        expected, got = (
            " x ".join("?" if math.isnan(v) else f"{v:g}" for v in size) for size in (said, real)
        )
        also = f" ({pixels.note})" if pixels.note else ""
        name = short(cohort.images.ids[one.image])
        reading.misfits.append(f"{name} is {expected} in the data and {got} in its file{also}")
        return
    reading.pixels[one.key] = replace(pixels, array=shrunk(pixels.array, SIDE))


def _within(pixels: Mapping[str, Pixels], budget: int) -> tuple[dict[str, Encoded], list[str]]:
    """Return the pictures, as large as the budget allows; if even the smallest are too many, the
    last are left out.
    """
    encoded: dict[str, Encoded] = {}
    for side in SIDES:
        encoded = {key: encode(one, side=side) for key, one in pixels.items()}
        if sum(one.bytes for one in encoded.values()) <= budget:
            return encoded, [
                f"pictures shrunk to {side} pixels to keep the page small"
            ] if side < SIDE else []
    kept: dict[str, Encoded] = {}
    left = budget
    for key, one in encoded.items():
        if one.bytes <= left:
            kept[key] = one
            left -= one.bytes
    return kept, [f"{_pictures(len(encoded) - len(kept))} left out to keep the page small"]


def _pictures(n: int) -> str:
    return "1 picture" if n == 1 else f"{n} pictures"
