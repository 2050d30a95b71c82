# SPDX-License-Identifier: Apache-2.0
"""Options of `boxes_from_heatmaps`, and checks of heat maps, sizes and names.

`Settings.of` checks the options, `as_map`, `check_stack`, `as_size` and `check_names` the input,
before anything is computed from it. `heatmaps.boxes` and `heatmaps.files` call them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import I64, host_array
from calipers.errors import InputError, UsageError, did_you_mean

Connectivity = Literal["full", "edges", "faces"]
CONNECTIVITIES: tuple[Connectivity, ...] = get_args(Connectivity)
Scale = Literal["image", "image-class", "none"]
Score = Literal["mean", "max"]
SCALES: tuple[Scale, ...] = get_args(Scale)
SCORES: tuple[Score, ...] = get_args(Score)
TOP = 255.0  # what the largest value of a map becomes when it is scaled
THRESHOLDS = (60.0, 180.0)  # Wang et al., CVPR 2017

# NumPy kinds of real numbers: no text, no objects, no complex numbers.
KINDS = "buif"
LARGEST = 1e300  # beyond it the range of a map, times 255, would overflow
MOST_PIXELS = 250_000_000
MOST_VOXELS = 1 << 31
ORDER = "in the order width, height[, depth]"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `boxes_from_heatmaps`."""

    thresholds: tuple[float, ...] = THRESHOLDS  # in the order of the caller
    scale: Scale = "image"
    connectivity: Connectivity = "full"
    keep_best: bool = False
    score: Score = "mean"

    @classmethod
    def of(
        cls, thresholds: Any, scale: str, connectivity: str, keep_best: bool, score: str
    ) -> Settings:
        """Check options and return them as settings; an invalid one is a `UsageError`."""
        for name, value, choices in (
            ("scale", scale, SCALES),
            ("connectivity", connectivity, CONNECTIVITIES),
            ("score", score, SCORES),
        ):
            if value not in choices:
                raise UsageError(f"no {name} {value!r}; {did_you_mean(str(value), choices)}")
        # Numbers last: their limits depend on the scale.
        levels = _levels(thresholds, on_scale=scale != "none")
        return cls(levels, scale, connectivity, bool(keep_best), score)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            "thresholds": list(self.thresholds),
            "scale": self.scale,
            "connectivity": self.connectivity,
            "keep_best": self.keep_best,
            "score": self.score,
        }


def _levels(thresholds: Any, *, on_scale: bool) -> tuple[float, ...]:
    """Return thresholds as numbers; on the scale of 0 to 255, others are errors."""
    entries = thresholds if isinstance(thresholds, Iterable) else (thresholds,)
    try:
        levels = tuple(float(level) for level in entries)
    except (TypeError, ValueError):
        raise UsageError(f"thresholds are numbers, not {thresholds!r}") from None
    if not levels:
        raise UsageError("at least one threshold is needed")
    if len(set(levels)) < len(levels):
        raise UsageError(f"every threshold once, not {list(levels)}")
    for level in levels:
        if not math.isfinite(level):
            raise UsageError(f"a threshold must be finite, got {level:g}")
        if on_scale and not 0 <= level <= TOP:
            hint = "scale='none' (--scale none) compares maps unscaled"
            raise UsageError(
                f"maps are scaled to 0..255, so a threshold of {level:g} is out of range; {hint}"
            )
    return levels


def as_map(array: Any, file: str, where: str = "") -> NDArray[Any]:
    """Return an array of finite real numbers, of any shape; anything else is an `InputError`."""
    try:
        values = host_array(array)
    except ValueError as error:
        expected = "an array of numbers"
        raise InputError(
            expected, rule="type", file=file, location=where, value=str(error)
        ) from None
    if values.dtype.kind not in KINDS:
        hint = "maps are arrays of real numbers"
        raise InputError(
            "numbers", rule="type", file=file, location=where, value=str(values.dtype), hint=hint
        )
    if not values.size:
        raise InputError(
            "at least one pixel", rule="map-shape", file=file, location=where, value=values.shape
        )
    # Only float64 can hold numbers beyond the limit.
    if values.dtype.kind == "f" and values.itemsize > 4:
        bad = ~(np.abs(values) <= LARGEST)  # true for NaN, too
    else:
        bad = ~np.isfinite(values)
    n = int(bad.sum())
    if n:
        first = tuple(int(k) for k in np.unravel_index(int(bad.argmax()), bad.shape))
        place = f"{where}[{', '.join(map(str, first))}]"
        hint = f"{n} of {values.size} values are not finite, or beyond {LARGEST:g}"
        value = float(values[first])
        raise InputError(
            "a finite number", rule="non-finite", file=file, location=place, value=value, hint=hint
        )
    return values


def check_stack(maps: NDArray[Any], n_classes: int, where: str, file: str = "<arrays>") -> None:
    """Raise unless an array has one map of two or three axes per class."""
    if maps.ndim not in (3, 4):
        hint = (
            "the maps of an image are (classes, height, width), or (classes, depth, height, width)"
        )
        raise InputError(
            "3 or 4 axes", rule="map-shape", file=file, location=where, value=maps.shape, hint=hint
        )
    if len(maps) != n_classes:
        hint = "the first axis counts the classes"
        expected = f"{n_classes} maps, one per class"
        raise InputError(
            expected, rule="map-shape", file=file, location=where, value=maps.shape, hint=hint
        )


def as_size(value: Any, dimensions: int, where: str) -> I64:
    """Return the (2|3,) size of an image; limits are checked before anything is allocated."""
    try:
        size = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        size = np.zeros(0)
    is_whole = np.isfinite(size) & (size >= 1) & (size == np.floor(size))
    if size.shape != (dimensions,) or not is_whole.all():
        expected = f"{dimensions} whole numbers above zero, {ORDER}"
        raise InputError(expected, rule="image-size", location=where, field="size", value=value)
    most = MOST_PIXELS if dimensions == 2 else MOST_VOXELS
    if math.prod(size.tolist()) > most:
        raise InputError(
            f"at most {most:,} pixels", rule="too-large", location=where, field="size", value=value
        )
    return size.astype(np.int64)


def check_names(classes: Sequence[str], image_ids: Sequence[str] | None) -> None:
    """Raise unless classes and images have names that differ."""
    if (
        isinstance(classes, str)
        or not classes
        or any(not isinstance(name, str) for name in classes)
    ):
        raise InputError(
            "at least one class name, all text", rule="classes", field="classes", value=classes
        )
    if len(set(classes)) < len(classes):
        raise InputError("unique class names", rule="dup-category", field="classes", value=classes)
    if image_ids is not None and len(set(image_ids)) < len(image_ids):
        twice = next(name for name in image_ids if list(image_ids).count(name) > 1)
        raise InputError("unique image ids", rule="dup-image", field="image_ids", value=twice)
