# SPDX-License-Identifier: Apache-2.0
"""`boxes_from_heatmaps`: turn class activation maps into boxes as Wang et al. (CVPR 2017) do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError
from calipers.heatmaps.checks import as_map, as_size, check_names, check_stack
from calipers.heatmaps.finding import ImageBoxes, find
from calipers.heatmaps.result import HeatmapBoxes
from calipers.heatmaps.settings import THRESHOLDS, Settings
from calipers.tables.cohort import Images
from calipers.tables.delivery import Delivery, as_predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
__all__ = ["HeatmapBoxes", "boxes_from_heatmaps"]


def boxes_from_heatmaps(
    maps: Iterable[Any],
    *,
    classes: Sequence[str],
    size: Any = None,
    thresholds: float | Sequence[float] = THRESHOLDS,
    scale: str = "image",
    connectivity: str = "full",
    keep_best: bool = False,
    score: str = "mean",
    image_ids: Sequence[str] | None = None,
) -> HeatmapBoxes:
    """Turn heat maps into boxes with scores.

    Parameters
    ----------
    maps
        (n_images, n_classes, height, width), or one (n_classes, height, width) array per image, in
        a list or any other iterable; an iterator keeps only one image in memory. Volumes have a
        depth before the height. Instead of an array, an image may have a list with one array per
        class, None where a class has no map.
    classes
        Their names, in the order of the maps.
    size
        Width, height[, depth] of the images, to which maps are resampled: one size for all, or one
        per image. None: maps have the size of their image.
    thresholds
        On the scaled map, 0 to 255. A pixel belongs to a box if it is at or above the threshold;
        for a threshold of 0, above it.
    scale
        ``"image"``: the lowest value in all maps of an image becomes 0, the highest 255.
        ``"image-class"``: the same for each map by itself. ``"none"``: thresholds apply to the maps
        unscaled.
    connectivity
        Which pixels are neighbours: ``"full"`` also over corners (8 in 2D, 26 in 3D), ``"edges"``
        (18 in 3D) or ``"faces"`` (4 and 6).
    keep_best
        Keep only the box with the highest score of each class and image, the first of equal ones.
    score
        ``"mean"`` or ``"max"`` of the resampled, *unscaled* map over the component.
    image_ids
        Default ``"0"``, ``"1"``, ...

    Returns
    -------
    boxes
        `HeatmapBoxes`: predictions with the fact ``threshold``, the sizes of the images, and
        counts.

    Notes
    -----
    Maps are resampled linearly with outer edges aligned (pixel i of n new ones lies at ``(i + 0.5)
    m / n - 0.5`` of m old ones), then scaled to 0..255, compared with each threshold, and split
    into connected components. The box of a component is half-open: from its first pixel to one
    after its last. An object at two thresholds gives two boxes, each with its own threshold. A
    constant map marks no place: it gives no box, whatever its value, and is counted. Scores are on
    the scale of the maps, not of the thresholds.

    References
    ----------
    Wang et al., ChestX-ray8: Hospital-scale Chest X-ray Database and Benchmarks, CVPR 2017.

    Examples
    --------
    >>> import calipers as cal
    >>> import numpy as np
    >>> heat = np.zeros((1, 1, 4, 4))
    >>> heat[0, 0, 1, 1:3] = 0.5, 1.0
    >>> result = cal.boxes_from_heatmaps(heat, classes=["nodule"])
    >>> result.predictions.boxes.tolist(), result.predictions.score.tolist()
    ([[1.0, 1.0, 3.0, 2.0], [2.0, 1.0, 3.0, 2.0]], [0.75, 1.0])
    >>> result.predictions.facts["threshold"].tolist()
    [60.0, 180.0]
    """
    settings = Settings.of(thresholds, scale, connectivity, keep_best, score)
    ids: list[str] | None = None
    if image_ids is not None:
        ids = [str(name) for name in image_ids]
    check_names(classes, ids)
    if isinstance(maps, np.ndarray) and maps.ndim not in (4, 5):
        hint = "for one image, write maps[None]"
        expected = "(images, classes, height, width), or with a depth before the height"
        raise InputError(expected, rule="map-shape", location="maps", value=maps.shape, hint=hint)
    collector = _Collector(len(classes), ids, size)
    for k, image_maps in enumerate(maps):
        collector.add(*_of_image(image_maps, k, collector, settings))
    return collector.result(tuple(classes), settings)


def _of_image(
    image_maps: Any, k: int, so_far: _Collector, settings: Settings
) -> tuple[ImageBoxes, I64, bool]:
    """Return the boxes of an image, its size, and whether a map has more pixels than the image."""
    where = f"maps[{k}]"
    layers = _layers(image_maps, so_far.n_classes, where)
    shapes = sorted({layer.shape for layer in layers if layer is not None})
    if not shapes:
        raise InputError("a map of at least one class", rule="map-missing", location=where)
    if so_far.size is None and len(shapes) > 1:
        hint = "pass the size of the image, to which maps are resampled"
        raise InputError(
            "maps of one shape", rule="map-shape", location=where, value=shapes, hint=hint
        )
    so_far.require_dimensions(len(shapes[0]), where)
    size = so_far.size_of(k, shapes[0], where)
    target = [int(side) for side in size[::-1]]
    shrunk = any(old > new for shape in shapes for old, new in zip(shape, target))
    return find(layers, target, settings), size, shrunk


def _layers(image_maps: Any, n_classes: int, where: str) -> list[NDArray[Any] | None]:
    """Return one map per class, None where a class has no map."""
    if not isinstance(image_maps, list | tuple):
        stack = as_map(image_maps, "<arrays>", where)
        check_stack(stack, n_classes, where)
        return list(stack)
    if len(image_maps) != n_classes:
        expected = f"{n_classes} maps, one per class"
        value = f"{len(image_maps)} maps"
        raise InputError(expected, rule="map-shape", location=where, value=value)
    layers: list[NDArray[Any] | None] = []
    shapes: list[tuple[int, ...] | None] = []
    for c, part in enumerate(image_maps):
        layer = None if part is None else as_map(part, "<arrays>", f"{where}[{c}]")
        layers.append(layer)
        shapes.append(None if layer is None else layer.shape)
    axes = {len(shape) for shape in shapes if shape is not None}
    if len(axes) > 1 or not axes <= {2, 3}:
        raise InputError("maps of 2 or of 3 axes", rule="map-shape", location=where, value=shapes)
    return layers


class _Collector:
    """The boxes of all images so far; checks that images agree where they must."""

    def __init__(self, n_classes: int, ids: list[str] | None, size: Any) -> None:
        self.n_classes, self.ids, self.size = n_classes, ids, size
        self.each = list(size) if _one_per_image(size) else None
        self.dimensions = 0
        self.boxes: list[ImageBoxes] = []
        self.sizes: list[I64] = []
        self.shrunk = 0

    def require_dimensions(self, dimensions: int, where: str) -> None:
        """Raise unless an image has as many axes as those before it."""
        self.dimensions = self.dimensions or dimensions
        if dimensions != self.dimensions:
            expected = f"maps in {self.dimensions}D, like those before"
            raise InputError(expected, rule="map-shape", location=where, value=f"{dimensions}D")

    def size_of(self, k: int, shape: Sequence[int], where: str) -> I64:
        """Return the size of an image: declared for all, for this one, or that of its map."""
        if self.size is None:
            return as_size(shape[::-1], len(shape), where)
        if self.each is None:
            return as_size(self.size, len(shape), "size")
        if k >= len(self.each):
            raise InputError(
                "one size per image",
                rule="image-count",
                location=where,
                value=f"{len(self.each)} sizes",
            )
        return as_size(self.each[k], len(shape), f"size[{k}]")

    def add(self, boxes: ImageBoxes, size: I64, shrunk: bool) -> None:
        """Add the boxes of one more image."""
        self.boxes.append(boxes)
        self.sizes.append(size)
        self.shrunk += shrunk

    def result(self, classes: tuple[str, ...], settings: Settings) -> HeatmapBoxes:
        """Return the boxes of all images as one table."""
        n, dimensions = len(self.boxes), self.dimensions or 2
        for name, entries in (("image_ids", self.ids), ("size", self.each)):
            if entries is not None and len(entries) != n:
                raise InputError(
                    f"{n}, one per image", rule="image-count", field=name, value=len(entries)
                )
        ids = self.ids
        if ids is None:
            ids = [str(k) for k in range(n)]
        if not n:
            raise UsageError("no maps: at least one image is needed")
        counts = [len(boxes) for boxes in self.boxes]
        delivery = Delivery(
            image=np.repeat(np.arange(n), counts),
            label=np.concatenate([boxes.label for boxes in self.boxes]),
            boxes=np.concatenate([boxes.boxes for boxes in self.boxes]),
            box_format="xyxy",
            place=np.arange(sum(counts)),
            score=np.concatenate([boxes.score for boxes in self.boxes]),
            facts={"threshold": np.concatenate([boxes.threshold for boxes in self.boxes])},
        )
        sizes = np.array(self.sizes, np.float64).reshape(n, dimensions)
        return HeatmapBoxes(
            predictions=as_predictions(delivery, sizes),
            classes=classes,
            images=Images(tuple(ids), sizes, np.full((n, dimensions), np.nan), {}),
            settings=settings,
            constant=np.array([boxes.constant for boxes in self.boxes], np.bool_),
            shrunk=self.shrunk,
        )


def _one_per_image(size: Any) -> bool:
    nested = (
        isinstance(size, Sequence) and len(size) > 0 and isinstance(size[0], Sequence | np.ndarray)
    )
    return nested or (isinstance(size, np.ndarray) and size.ndim == 2)
