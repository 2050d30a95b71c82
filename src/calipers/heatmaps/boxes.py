# SPDX-License-Identifier: Apache-2.0
"""`boxes_from_heatmaps`: predictions out of class activation maps, as Wang et al. (CVPR 2017) make
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError
from calipers.heatmaps.checks import as_map, as_size, check_names, check_stack
from calipers.heatmaps.finding import Found, find
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
        a list or any other iterable: then one image at a time is in memory. Volumes have a depth
        before the height. Instead of an array, an image may have a list with one array per class,
        None where a class has no map.
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
        as they are.
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
    after its last. What is found at two thresholds is kept twice, each box with its own threshold.
    A constant map marks no place: it gives no box, whatever its value, and is counted. Scores are
    on the scale of the maps, not of the thresholds.

    References
    ----------
    Wang et al., ChestX-ray8: Hospital-scale Chest X-ray Database and Benchmarks, CVPR 2017.

    Examples
    --------
    >>> import calipers as cal
    >>> import numpy as np
    >>> heat = np.zeros((1, 1, 4, 4))
    >>> heat[0, 0, 1, 1:3] = 0.5, 1.0
    >>> found = cal.boxes_from_heatmaps(heat, classes=["nodule"])
    >>> found.predictions.boxes.tolist(), found.predictions.score.tolist()
    ([[1.0, 1.0, 3.0, 2.0], [2.0, 1.0, 3.0, 2.0]], [0.75, 1.0])
    >>> found.predictions.facts["threshold"].tolist()
    [60.0, 180.0]
    """
    settings = Settings.chosen(thresholds, scale, connectivity, keep_best, score)
    ids = None if image_ids is None else [str(name) for name in image_ids]
    check_names(classes, ids)
    if isinstance(maps, np.ndarray) and maps.ndim not in (4, 5):
        hint = "for one image, write maps[None]"
        wanted = "(images, classes, height, width), or with a depth before the height"
        raise InputError(wanted, rule="map-shape", location="maps", value=maps.shape, hint=hint)
    gathered = _Gathered(len(classes), ids, size)
    for k, given in enumerate(maps):
        gathered.add(*_of_image(given, k, gathered, settings))
    return gathered.result(tuple(classes), settings)


def _of_image(given: Any, k: int, so_far: _Gathered, settings: Settings) -> tuple[Found, I64, bool]:
    """Return the boxes of an image, its size, and whether a map has more pixels than the image."""
    where = f"maps[{k}]"
    layers = _layers(given, so_far.n_classes, where)
    shapes = sorted({layer.shape for layer in layers if layer is not None})
    if not shapes:
        raise InputError("a map of at least one class", rule="map-missing", location=where)
    if so_far.size is None and len(shapes) > 1:
        hint = "say the size of the image, to which maps are resampled"
        raise InputError(
            "maps of one shape", rule="map-shape", location=where, value=shapes, hint=hint
        )
    so_far.require_dimensions(len(shapes[0]), where)
    size = so_far.size_of(k, shapes[0], where)
    target = [int(side) for side in size[::-1]]
    shrunk = any(old > new for shape in shapes for old, new in zip(shape, target))
    return find(layers, target, settings), size, shrunk


def _layers(given: Any, n_classes: int, where: str) -> list[NDArray[Any] | None]:
    if isinstance(given, list | tuple):
        if len(given) != n_classes:
            wanted = f"{n_classes} maps, one per class"
            raise InputError(wanted, rule="map-shape", location=where, value=f"{len(given)} maps")
        found = [
            None if part is None else as_map(part, "<arrays>", f"{where}[{c}]")
            for c, part in enumerate(given)
        ]
        axes = {part.ndim for part in found if part is not None}
        if len(axes) > 1 or not axes <= {2, 3}:
            shapes = [None if part is None else part.shape for part in found]
            raise InputError(
                "maps of 2 or of 3 axes", rule="map-shape", location=where, value=shapes
            )
        return found
    stack = as_map(given, "<arrays>", where)
    check_stack(stack, n_classes, where)
    return list(stack)


class _Gathered:
    """The boxes of all images so far; what has to agree among images is checked on the way."""

    def __init__(self, n_classes: int, ids: list[str] | None, size: Any) -> None:
        self.n_classes, self.ids, self.size = n_classes, ids, size
        self.each = list(size) if _one_per_image(size) else None
        self.dimensions = 0
        self.found: list[Found] = []
        self.sizes: list[I64] = []
        self.shrunk = 0

    def require_dimensions(self, dimensions: int, where: str) -> None:
        """Raise unless an image has as many axes as those before it."""
        self.dimensions = self.dimensions or dimensions
        if dimensions != self.dimensions:
            wanted = f"maps in {self.dimensions}D, as those before"
            raise InputError(wanted, rule="map-shape", location=where, value=f"{dimensions}D")

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

    def add(self, found: Found, size: I64, shrunk: bool) -> None:
        """Take the boxes of one more image."""
        self.found.append(found)
        self.sizes.append(size)
        self.shrunk += shrunk

    def result(self, classes: tuple[str, ...], settings: Settings) -> HeatmapBoxes:
        """Return the boxes of all images as one table."""
        n, dimensions = len(self.found), self.dimensions or 2
        ids = self.ids if self.ids is not None else [str(k) for k in range(n)]
        for name, given in (("image_ids", self.ids), ("size", self.each)):
            if given is not None and len(given) != n:
                raise InputError(
                    f"{n}, one per image", rule="image-count", field=name, value=len(given)
                )
        if not n:
            raise UsageError("no maps: at least one image is needed")
        counts = [len(found) for found in self.found]
        delivery = Delivery(
            image=np.repeat(np.arange(n), counts),
            label=np.concatenate([found.label for found in self.found]),
            boxes=np.concatenate([found.boxes for found in self.found]),
            box_format="xyxy",
            place=np.arange(sum(counts)),
            score=np.concatenate([found.score for found in self.found]),
            facts={"threshold": np.concatenate([found.threshold for found in self.found])},
        )
        sizes = np.array(self.sizes, np.float64).reshape(n, dimensions)
        return HeatmapBoxes(
            predictions=as_predictions(delivery, sizes),
            classes=classes,
            images=Images(tuple(ids), sizes, np.full((n, dimensions), np.nan), {}),
            settings=settings,
            constant=np.array([found.constant for found in self.found], np.bool_),
            shrunk=self.shrunk,
        )


def _one_per_image(size: Any) -> bool:
    nested = (
        isinstance(size, Sequence) and len(size) > 0 and isinstance(size[0], Sequence | np.ndarray)
    )
    return nested or (isinstance(size, np.ndarray) and size.ndim == 2)
