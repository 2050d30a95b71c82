# SPDX-License-Identifier: Apache-2.0
"""The boxes of one image: resample, scale, threshold, components."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.heatmaps.resampling import resampled
from calipers.heatmaps.settings import TOP, Settings
from calipers.heatmaps.window import window
from calipers.tables.instances import instances_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Range = tuple[float, float]  # lowest and highest value
AT_ONCE = 1 << 24  # values of all maps of an image that are kept at a time: 128 MB


@dataclass(frozen=True, slots=True)
class Found:
    """The boxes of one image, in the order of classes, thresholds and first pixels."""

    label: I64  # (n,) class
    threshold: F64  # (n,)
    boxes: F64  # (n, 4|6)
    score: F64  # (n,)
    constant: Flags  # (n_classes,) maps of one value: they mark no place

    def __len__(self) -> int:
        return len(self.label)


def find(maps: Sequence[NDArray[Any] | None], shape: Sequence[int], settings: Settings) -> Found:
    """Return the boxes of an image; see `calipers.boxes_from_heatmaps` for the definition.

    Parameters
    ----------
    maps
        One per class, ``[z, ]y, x``; None where a class has no map.
    shape
        Of the image, ``[z, ]y, x``.
    """
    layers = _Layers(maps, shape)
    each = [None if given is None else _extremes(layers(k)) for k, given in enumerate(maps)]
    constant = np.array(
        [extremes is not None and extremes[0] == extremes[1] for extremes in each], np.bool_
    )
    ranges = _ranges(each, settings)
    labels, levels, boxes, scores = (
        [np.zeros(0)],
        [np.zeros(0)],
        [np.zeros((0, 2 * len(shape)))],
        [np.zeros(0)],
    )
    for k in [k for k, given in enumerate(maps) if given is not None and not constant[k]]:
        for level, corners, score in _of_class(layers(k), ranges[k], settings):
            labels.append(np.full(len(score), k))
            levels.append(np.full(len(score), level))
            boxes.append(corners)
            scores.append(score)
    found = Found(
        np.concatenate(labels).astype(np.int64),
        np.concatenate(levels),
        np.concatenate(boxes),
        np.concatenate(scores),
        constant,
    )
    return _best(found) if settings.keep_best else found


class _Layers:
    """Maps on the grid of their image: made once if all fit into memory with ease, else whenever
    they are needed.
    """

    def __init__(self, maps: Sequence[NDArray[Any] | None], shape: Sequence[int]) -> None:
        self.maps, self.shape = maps, shape
        self.kept: dict[int, F64] | None = {} if len(maps) * math.prod(shape) <= AT_ONCE else None

    def __call__(self, k: int) -> F64:
        if self.kept is not None and k in self.kept:
            return self.kept[k]
        values = resampled(np.asarray(self.maps[k], np.float64), self.shape)
        if self.kept is not None:
            self.kept[k] = values
        return values


def _extremes(values: F64) -> Range:
    return float(values.min()), float(values.max())


def _ranges(each: Sequence[Range | None], settings: Settings) -> Sequence[Range | None]:
    """Return what 0 and 255 stand for in every map; None if it is taken as it is."""
    if settings.scale == "none":
        return [None] * len(each)
    known = [extremes for extremes in each if extremes is not None]
    if settings.scale == "image-class" or not known:
        return each
    return [(min(low for low, _ in known), max(high for _, high in known))] * len(each)


def _of_class(
    values: F64, extremes: Range | None, settings: Settings
) -> Iterator[tuple[float, F64, F64]]:
    """Yield threshold, boxes and scores of one map."""
    low, high = extremes or (0.0, TOP)
    # Multiplied on both sides instead of divided on one: the largest value is 255 exactly.
    scaled = values if extremes is None else (values - low) * TOP
    for level in settings.thresholds:
        cut = level if extremes is None else level * (high - low)
        mask = scaled > cut if level == 0 else scaled >= cut
        part = window(mask)
        if part is None:
            continue
        found = instances_of(values[part], mask[part], settings.connectivity)
        corner = np.array([side.start for side in reversed(part)], np.float64)
        yield (
            level,
            found.boxes + np.tile(corner, 2),
            found.highest if settings.score == "max" else found.mean,
        )


def _best(found: Found) -> Found:
    """Keep the box of the highest score of each class; the first of equal ones."""
    order = np.lexsort([-found.score, found.label])
    first = np.ones(len(order), np.bool_)
    first[1:] = np.diff(found.label[order]) > 0
    kept = order[first]
    return Found(
        found.label[kept],
        found.threshold[kept],
        found.boxes[kept],
        found.score[kept],
        found.constant,
    )
