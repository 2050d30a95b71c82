# SPDX-License-Identifier: Apache-2.0
"""Find the boxes of one image: resample, scale, threshold, connected components."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.heatmaps.resampling import resample
from calipers.heatmaps.settings import TOP, Settings
from calipers.heatmaps.window import window
from calipers.tables.instances import instances_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Range = tuple[float, float]  # lowest and highest value
AT_ONCE = 1 << 24  # values of all maps of an image that are kept at a time: 128 MB


@dataclass(frozen=True, slots=True)
class ImageBoxes:
    """The boxes of one image, in the order of classes, thresholds and first pixels."""

    label: I64  # (n,) class
    threshold: F64  # (n,)
    boxes: F64  # (n, 4|6)
    score: F64  # (n,)
    constant: Flags  # (n_classes,) maps of one value: they mark no place

    def __len__(self) -> int:
        return len(self.label)


def find(
    maps: Sequence[NDArray[Any] | None], shape: Sequence[int], settings: Settings
) -> ImageBoxes:
    """Return the boxes of an image; see `calipers.boxes_from_heatmaps` for the definition.

    Parameters
    ----------
    maps
        One per class, ``[z, ]y, x``; None where a class has no map.
    shape
        Of the image, ``[z, ]y, x``.
    """
    layers = _Layers(maps, shape)
    each: list[Range | None] = [None] * len(maps)
    constant = np.zeros(len(maps), np.bool_)
    for k, own_map in enumerate(maps):
        if own_map is not None:
            low, high = _extremes(layers(k))
            each[k] = (low, high)
            constant[k] = low == high
    ranges = _ranges(each, settings)
    # The empty arrays give the result its dimensions if there is no box.
    labels, levels, scores = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    boxes = [np.zeros((0, 2 * len(shape)))]
    for k, own_map in enumerate(maps):
        if own_map is None or constant[k]:
            continue
        for level, corners, score in _of_class(layers(k), ranges[k], settings):
            labels.append(np.full(len(score), k))
            levels.append(np.full(len(score), level))
            boxes.append(corners)
            scores.append(score)
    result = ImageBoxes(
        np.concatenate(labels).astype(np.int64),
        np.concatenate(levels),
        np.concatenate(boxes),
        np.concatenate(scores),
        constant,
    )
    return _best(result) if settings.keep_best else result


class _Layers:
    """Maps on the grid of their image: kept if they are small, else resampled on every call."""

    def __init__(self, maps: Sequence[NDArray[Any] | None], shape: Sequence[int]) -> None:
        self.maps, self.shape = maps, shape
        self.cache: dict[int, F64] | None = None
        if len(maps) * math.prod(shape) <= AT_ONCE:
            self.cache = {}

    def __call__(self, k: int) -> F64:
        if self.cache is not None and k in self.cache:
            return self.cache[k]
        values = resample(np.asarray(self.maps[k], np.float64), self.shape)
        if self.cache is not None:
            self.cache[k] = values
        return values


def _extremes(values: F64) -> Range:
    return float(values.min()), float(values.max())


def _ranges(each: Sequence[Range | None], settings: Settings) -> Sequence[Range | None]:
    """Return the values that become 0 and 255 in every map; None if it is not scaled."""
    if settings.scale == "none":
        return [None] * len(each)
    ranges = [extremes for extremes in each if extremes is not None]
    if settings.scale == "image-class" or not ranges:
        return each
    lowest = min(low for low, _ in ranges)
    highest = max(high for _, high in ranges)
    return [(lowest, highest)] * len(each)


def _of_class(
    values: F64, extremes: Range | None, settings: Settings
) -> Iterator[tuple[float, F64, F64]]:
    """Yield threshold, boxes and scores of one map."""
    low, high = extremes or (0.0, TOP)
    # Both sides are multiplied instead of one divided, so that the largest value is 255 exactly.
    scaled = values if extremes is None else (values - low) * TOP
    for level in settings.thresholds:
        cut = level if extremes is None else level * (high - low)
        mask = scaled > cut if level == 0 else scaled >= cut
        part = window(mask)
        if part is None:
            continue
        instances = instances_of(values[part], mask[part], settings.connectivity)
        corner = np.array([side.start for side in reversed(part)], np.float64)
        score = instances.highest if settings.score == "max" else instances.mean
        yield level, instances.boxes + np.tile(corner, 2), score


def _best(boxes: ImageBoxes) -> ImageBoxes:
    """Return the box with the highest score of each class; the first of equal ones."""
    order = np.lexsort([-boxes.score, boxes.label])
    first = np.ones(len(order), np.bool_)
    first[1:] = np.diff(boxes.label[order]) > 0
    rows = order[first]
    return ImageBoxes(
        boxes.label[rows],
        boxes.threshold[rows],
        boxes.boxes[rows],
        boxes.score[rows],
        boxes.constant,
    )
