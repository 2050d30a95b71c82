# SPDX-License-Identifier: Apache-2.0
"""Boxes and objects from heat maps, as Wang et al. (CVPR 2017) make them from activation maps.

`boxes_from_heatmaps` takes maps and returns `HeatmapBoxes`: predictions with scores, which
`calipers boxes` writes and a cohort takes as a model. Image by image (`find`): maps are resampled
to the size of their image by linear interpolation (`resample`), scaled, compared with thresholds,
and split into connected components, whose boxes are the predictions. Only the smallest box around
what lies above a threshold (`window`) is looked at.

`instances_from_map` splits one score map into objects with masks, boxes, scores and centroids.

Wang et al., ChestX-ray8: Hospital-scale Chest X-ray Database and Benchmarks, CVPR 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_arguments, names_methods
from calipers.arrays import F64, I64, Flags, joined
from calipers.data.cohort import Cohort, Images, Intake
from calipers.data.maps import Instances, instances_of
from calipers.data.objects import Predictions
from calipers.data.rules import Delivery, as_predictions, as_references
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.settings import (
    CONNECTIVITIES,
    THRESHOLDS,
    TOP,
    Settings,
    as_map,
    as_size,
    check_names,
    check_stack,
)

Range = tuple[float, float]  # lowest and highest value
AT_ONCE = 1 << 24  # values of all maps of an image that are kept at a time: 128 MB

# The name of the only model in the cohort that is written.
MODEL = "heatmaps"


@names_arguments
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
    # One image at a time: an iterator never has two images in memory.
    for k, image_maps in enumerate(maps):
        # An iterator may be without end.
        if ids is not None and k >= len(ids) and isinstance(maps, Iterator):
            value = f"{len(ids)} for {k + 1} maps or more"
            raise InputError("one per image", rule="image-count", field="image_ids", value=value)
        collector.add(*_image_boxes(image_maps, k, collector, settings))
    return collector.result(tuple(classes), settings)


def _image_boxes(
    image_maps: Any, k: int, so_far: _Collector, settings: Settings
) -> tuple[ImageBoxes, I64, bool]:
    """Return the boxes of an image, its size, and whether a map has more pixels than the image."""
    where = f"maps[{k}]"
    layers = _class_maps(image_maps, so_far.n_classes, where)
    shapes = sorted({layer.shape for layer in layers if layer is not None})
    if not shapes:
        raise InputError("a map of at least one class", rule="map-missing", location=where)
    # Without a size nobody knows which of the maps has the grid of the image.
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


def _class_maps(image_maps: Any, n_classes: int, where: str) -> list[NDArray[Any] | None]:
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
            label=joined(self.boxes, "label"),
            boxes=joined(self.boxes, "boxes"),
            box_format="xyxy",
            place=np.arange(sum(counts)),
            score=joined(self.boxes, "score"),
            facts={"threshold": joined(self.boxes, "threshold")},
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


@names_methods
@dataclass(frozen=True)
class HeatmapBoxes:
    """Boxes of heat maps, with the images, classes and settings that they were made from."""

    predictions: Predictions  # rows by image, class, threshold, first pixel; fact ``threshold``
    classes: tuple[str, ...]
    images: Images  # ids and sizes
    settings: Settings
    constant: Flags  # (n_images, n_classes) maps of one value, which give no box
    shrunk: int = 0  # images with fewer pixels than their maps along some axis

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for users of the boxes."""
        n, notes = len(self.predictions), []
        if constant := int(self.constant.sum()):
            notes.append(f"{constant} maps of one value give no box")
        score = self.predictions.score
        if outside := int(((score < 0) | (score > 1)).sum()):
            notes.append(
                f"{outside} of {n} scores lie outside [0, 1]: read them with --score-scale raw"
            )
        if self.shrunk:
            notes.append(
                f"{self.shrunk} images are smaller than their maps, "
                "which were resampled without smoothing"
            )
        return tuple(notes)

    def by_threshold(self) -> dict[float, int]:
        """Return the number of boxes found at each threshold."""
        thresholds = self.predictions.facts["threshold"]
        return {level: int((thresholds == level).sum()) for level in self.settings.thresholds}

    def predictions_for(self, cohort: Cohort) -> Predictions:
        """Return the boxes in the order of images and classes of a cohort, for
        `Cohort.with_predictions`.

        Images are paired by id and classes by name. Every image of the cohort needs a map; an image
        or a class that the cohort lacks is an error, too: nothing is dropped.
        """
        image = _indices(
            self.images.ids, cohort.images.ids, "unknown-image", "an image of the cohort"
        )
        label = _indices(self.classes, cohort.classes, "unknown-category", "a class of the cohort")
        # An image without a map is not one without a finding.
        silent = sorted(set(range(cohort.n_images)) - set(image.tolist()))
        if silent:
            name = cohort.images.ids[silent[0]]
            hint = (
                f"{len(silent)} of {cohort.n_images} images have no map: "
                "select the others with Cohort.take"
            )
            raise InputError(
                "a map for every image", rule="subset", field="image", value=name, hint=hint
            )
        rows = self.predictions
        delivery = Delivery(
            image[rows.image],
            label[rows.label],
            rows.boxes,
            "xyxy",
            rows.place,
            score=rows.score,
            facts=rows.facts,
        )
        return as_predictions(delivery, cohort.images.size)

    def write(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the boxes to a file that `calipers.read` understands, whole or not at all.

        Parameters
        ----------
        format
            ``"coco"`` (a document with the names of the categories), ``"csv"``, ``"tsv"`` or
            ``"parquet"``; None: by the suffix. Tables include the threshold of every box; COCO has
            no field for it.
        """
        from calipers.io.write import write

        write(self.cohort(), path, what=MODEL, format=format)

    def cohort(self) -> Cohort:
        """Return the boxes as the only model of a cohort without references."""
        dimensions = self.predictions.dimensions
        nothing = np.zeros(0, np.int64)
        none = Delivery(nothing, nothing, np.zeros((0, 2 * dimensions)), "xyxy", nothing)
        references = as_references(none, self.images.size)
        return Cohort(self.images, self.classes, references, {MODEL: self.predictions}, Intake())

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON: settings, counts, notes."""
        levels = [{"threshold": level, "boxes": n} for level, n in self.by_threshold().items()]
        silent = int((np.diff(self.predictions.offsets) == 0).sum())
        return {
            "settings": self.settings.as_dict(),
            "images": len(self.images),
            "classes": list(self.classes),
            "maps": int(self.constant.size),
            "constant": int(self.constant.sum()),
            "boxes": len(self),
            "by_threshold": levels,
            "images_without_boxes": silent,
        }


def _indices(
    names: tuple[str, ...], choices: tuple[str, ...], rule: str, expected: str
) -> NDArray[np.int64]:
    """Return the index of every name among the choices."""
    index = {name: k for k, name in enumerate(choices)}
    for name in names:
        if name not in index:
            hint = did_you_mean(name, choices[:1000])
            raise InputError(expected, rule=rule, value=name, hint=hint)
    return np.array([index[name] for name in names], np.int64)


@names_methods
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
    layers = _ResampledMaps(maps, shape)
    each: list[Range | None] = [None] * len(maps)
    constant = np.zeros(len(maps), np.bool_)
    for k, own_map in enumerate(maps):
        if own_map is not None:
            # Extremes first, for all classes: a scale of the image needs them before any threshold.
            low, high = _extremes(layers(k))
            each[k] = (low, high)
            # A map of one value says nothing about a place, however high it is.
            constant[k] = low == high
    ranges = _ranges(each, settings)
    # The empty arrays give the result its dimensions if there is no box.
    labels, levels, scores = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    boxes = [np.zeros((0, 2 * len(shape)))]
    for k, own_map in enumerate(maps):
        if own_map is None or constant[k]:
            continue
        for level, corners, score in _class_boxes(layers(k), ranges[k], settings):
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
    return _best_of_class(result) if settings.keep_best else result


class _ResampledMaps:
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


def _class_boxes(
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
        # From y, x of the array to x, y of boxes.
        corner = np.array([side.start for side in reversed(part)], np.float64)
        score = instances.highest if settings.score == "max" else instances.mean
        yield level, instances.boxes + np.tile(corner, 2), score


def _best_of_class(boxes: ImageBoxes) -> ImageBoxes:
    """Return the box with the highest score of each class; the first of equal ones."""
    # lexsort is stable: of equal scores the first stays first.
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


def resample(values: F64, shape: Sequence[int]) -> F64:
    """Return a map on a grid of another shape: bilinear in 2D, trilinear in 3D.

    Parameters
    ----------
    values
        ``[z, ]y, x``.
    shape
        Of the result, axis by axis.

    Notes
    -----
    Both grids cover the same extent and their *outer edges* coincide, not the centres of their
    corner pixels: pixel i of n new ones lies at ``(i + 0.5) * m / n - 0.5`` on the old grid of m
    pixels. Elsewhere this is called ``align_corners=False``. Places before the first or after the
    last old centre take the value of that pixel.

    A shorter axis is read at the same places, without smoothing. An axis of equal length stays as
    it is, to the last bit, and so does a constant map.
    """
    for axis, length in enumerate(shape):
        if values.shape[axis] != length:
            values = _resample_axis(values, axis, length)
    return values


def _resample_axis(values: F64, axis: int, length: int) -> F64:
    old = values.shape[axis]
    # Beyond the outermost centres there is nothing to interpolate with.
    place = np.clip((np.arange(length) + 0.5) * old / length - 0.5, 0.0, old - 1.0)
    before = place.astype(np.int64)
    after = np.minimum(before + 1, old - 1)
    shape = [1] * values.ndim
    shape[axis] = -1
    share = (place - before).reshape(shape)
    start = np.take(values, before, axis)
    # In place: start + share * (end - start), which leaves a constant map as it is to the last bit.
    result: F64 = np.take(values, after, axis)
    result -= start
    result *= share
    result += start
    return result


def window(mask: Flags) -> tuple[slice, ...] | None:
    """Return the smallest box that holds the mask, axis by axis; None if the mask is empty."""
    sides = []
    for axis in range(mask.ndim):
        others = tuple(k for k in range(mask.ndim) if k != axis)
        places = np.flatnonzero(mask.any(axis=others))
        if not len(places):
            return None
        sides.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(sides)


def instances_from_map(
    values: Any, threshold: float = 0.5, connectivity: str = "full"
) -> Instances:
    """Split what lies at or above a threshold into connected objects.

    Parameters
    ----------
    values
        A map ``[z, ]y, x``; it is neither resampled nor scaled.
    threshold
        Voxels at or above it belong to an object; for 0, above it.
    connectivity
        ``"full"``, ``"edges"`` or ``"faces"``, as in `boxes_from_heatmaps`.

    Notes
    -----
    The centre of voxel x is ``x + 0.5``. The centroid is ``sum(s c) / sum(s)`` over the voxels of
    the object, with scores s and centres c; if a score is negative or their sum is 0, it is the
    mean of the centres. A map without a voxel at the threshold gives no object: all columns are
    empty.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.heatmaps.boxes import instances_from_map
    >>> scores = np.array([[0.0, 0.6, 0.9], [0.7, 0.0, 0.0]])
    >>> instances = instances_from_map(scores, connectivity="faces")
    >>> instances.boxes.tolist(), instances.highest.tolist()
    ([[1.0, 0.0, 3.0, 1.0], [0.0, 1.0, 1.0, 2.0]], [0.9, 0.7])
    >>> instances.centroids.round(3).tolist()
    [[2.1, 0.5], [0.5, 1.5]]
    """
    if connectivity not in CONNECTIVITIES:
        raise UsageError(
            f"no connectivity {connectivity!r}; {did_you_mean(connectivity, CONNECTIVITIES)}"
        )
    if not math.isfinite(threshold):
        raise UsageError(f"a threshold must be finite, got {threshold!r}")
    scores = as_map(values, "<arrays>").astype(np.float64)
    if scores.ndim not in (2, 3):
        hint = "one map at a time, without an axis for classes"
        raise InputError("a map of 2 or 3 axes", rule="map-shape", value=scores.shape, hint=hint)
    mask = scores > 0 if threshold == 0 else scores >= threshold
    return instances_of(scores, mask, connectivity)
