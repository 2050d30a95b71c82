# SPDX-License-Identifier: Apache-2.0
"""Score maps in memory: samples, the objects of a map, and the evidence of metrics on maps.

`Sample` is an image or volume with its reference labels and the maps of the models, one shape;
readers deliver it and `calipers.maps` evaluates it. `instances_of` returns the objects of a score
map: connected components, each with its mask, box, place and scores.

`Maps` is the evidence for one model: per-image sums and score histograms (`Histograms`).
`calipers.maps` computes it, the metrics on maps need nothing else, and a saved evaluation stores
it. It is small: a hundred volumes of 256^3 voxels give less than 100 MB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Array, joined, joined_columns
from calipers.data.masks import Masks
from calipers.kernels import ragged, runs

# As in `kernels.voxels`.
BINS = 1 << 16
COUNTED = ("positives", "negatives", "overlap")


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample in memory. Readers deliver arrays as ``[z, ]y, x`` in C order."""

    name: str
    labels: Array  # 0 = background; what other values mean is for the evaluation to say
    maps: Mapping[str, Array]  # model -> scores, of the shape of the labels
    spacing: tuple[float, ...] | None = None  # mm per voxel along x, y[, z]
    groups: Mapping[str, Any] = field(default_factory=dict)  # patient, centre, any column
    image: Array | None = None  # what the pictures of the report show below the maps
    # model -> labels of its objects, where these were predicted and not cut out of its map
    objects: Mapping[str, Array] = field(default_factory=dict)

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return self.labels.ndim

    @property
    def size(self) -> NDArray[np.int64]:
        """Width, height[, depth]."""
        return np.array(self.labels.shape[::-1], np.int64)


@dataclass(frozen=True, eq=False)
class Maps:
    """The evidence of all metrics on maps of one model."""

    sums: Mapping[str, F64]  # key of a metric -> (n_images, 2): sum of its values, how many of them
    references: I64  # (n_images,) objects
    predictions: I64  # (n_images,) objects
    histograms: Histograms
    # values from all voxels of all images, where they could be kept
    exact: Mapping[str, float] | None = None
    # of those images: number of the first one here, and how many there are in all
    part: tuple[int, int] | None = None

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.references)

    @property
    def exact_values(self) -> Mapping[str, float]:
        """The exact values, if these are all the images that they were computed from."""
        if self.exact and self._place == (0, self.n_images):
            return self.exact
        return {}

    @property
    def _place(self) -> tuple[int, int]:
        return self.part or (0, self.n_images)

    def take(self, images: I64) -> Maps:
        """Return the evidence of some images.

        The exact values are those of all images together, so a selection of images loses them.
        """
        subset = Maps(
            sums={key: sums[images] for key, sums in self.sums.items()},
            references=self.references[images],
            predictions=self.predictions[images],
            histograms=self.histograms.take(images),
        )
        if len(images) == self.n_images and bool((images == np.arange(self.n_images)).all()):
            return replace(subset, exact=self.exact, part=self.part)
        return subset

    def span(self, start: int, stop: int) -> Maps:
        """Return the evidence of the images ``start:stop``.

        It remembers its place among all images, so that `concat` of neighbours restores the exact
        values.
        """
        first, number = self._place
        return replace(
            self.take(np.arange(start, stop)), exact=self.exact, part=(first + start, number)
        )

    @classmethod
    def concat(cls, parts: Sequence[Maps]) -> Maps:
        """Return the evidence of all images of several parts."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        sums = {}
        for key in first.sums:
            sums[key] = np.concatenate([part.sums[key] for part in parts])
        joint = cls(
            sums=sums,
            references=joined(parts, "references"),
            predictions=joined(parts, "predictions"),
            histograms=Histograms.concat([part.histograms for part in parts]),
        )
        if _are_neighbours(parts):
            return replace(joint, exact=first.exact, part=first.part)
        return joint


def _are_neighbours(parts: Sequence[Maps]) -> bool:
    """Tell whether parts follow each other in one list of images with one set of exact values."""
    first = parts[0]
    _, number = first._place
    following = first._place[0]
    for part in parts:
        start, total = part._place
        if start != following or total != number or part.exact is not first.exact:
            return False
        following = start + part.n_images
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Sparse histograms of the scores of every image, inside and outside its references.

    Bins are those of `calipers.kernels.voxels.bins_of`, shifted right by ``shift``. Where
    ``lowest`` equals ``highest``, all voxels of a bin have the same score and nothing is lost.
    Elsewhere the order of the scores inside a bin is unknown, and every value that depends on it
    comes with a bound.
    """

    offsets: I64  # (n_images + 1,) entries of each image
    bin: I32  # (m,) ascending inside of an image
    positives: I64  # (m,) voxels of references
    negatives: I64  # (m,)
    # (m,) summed over the references of the image, the share of a reference that lies in this bin
    overlap: F64
    lowest: F64  # (BINS >> shift,) smallest score in a bin over all images; inf if there is none
    highest: F64  # (BINS >> shift,)
    shift: int = 0

    def take(self, images: I64) -> Histograms:
        """Return the histograms of some images; the extremes stay those of all."""
        rows, offsets = ragged.take_rows(self.offsets, images)
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("bin", *COUNTED)}
        return replace(self, offsets=offsets, **columns)

    @classmethod
    def concat(cls, parts: Sequence[Histograms]) -> Histograms:
        """Return the histograms of all images, as fine as the coarsest part."""
        shift = max(part.shift for part in parts)
        parts = [part.coarsened(shift) for part in parts]
        return cls(
            offsets=ragged.concat_offsets([part.offsets for part in parts]),
            lowest=np.minimum.reduce([part.lowest for part in parts]),
            highest=np.maximum.reduce([part.highest for part in parts]),
            shift=shift,
            **joined_columns(parts, ("bin", *COUNTED)),
        )

    def coarsened(self, shift: int) -> Histograms:
        """Return the histograms with ``BINS >> shift`` bins."""
        if shift <= self.shift:
            return self
        step = shift - self.shift
        image, coarse = ragged.owners(self.offsets), self.bin >> step
        first = np.ones(len(coarse), np.bool_)
        first[1:] = (coarse[1:] != coarse[:-1]) | (image[1:] != image[:-1])
        starts = np.flatnonzero(first)
        counts = np.bincount(image[starts], minlength=len(self.offsets) - 1)
        columns: dict[str, Any] = {
            name: _group_sums(getattr(self, name), starts) for name in COUNTED
        }
        return Histograms(
            offsets=ragged.from_counts(counts),
            bin=coarse[starts],
            # Neighbouring bins are joined, so their extremes are those of a row.
            lowest=self.lowest.reshape(-1, 1 << step).min(axis=1),
            highest=self.highest.reshape(-1, 1 << step).max(axis=1),
            shift=shift,
            **columns,
        )


def _group_sums(column: NDArray[Any], starts: I64) -> NDArray[Any]:
    # reduceat has no result for an empty list of groups.
    if not len(starts):
        return column[:0]
    return np.add.reduceat(column, starts)


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The objects of one map, in the order of their first voxels."""

    masks: Masks
    boxes: F64  # (n, 4|6) half-open
    highest: F64  # (n,) largest value of the map on the object
    mean: F64  # (n,) its mean there
    centroids: F64  # (n, 2|3) mean of voxel centres x, y[, z], weighted by the map

    def __len__(self) -> int:
        return len(self.masks)


def instances_of(values: NDArray[Any], positive: NDArray[np.bool_], connectivity: str) -> Instances:
    """Return the connected components of the positive voxels, measured on the map."""
    return measured(values, Masks.from_components(positive, connectivity))


def measured(values: NDArray[Any], masks: Masks) -> Instances:
    """Return the objects of one map whose masks are known; no mask gives empty columns.

    The centroid is ``sum(v c) / sum(v)`` over the values v and centres c of the voxels of an
    object; where a value is negative or their sum is 0, it is the mean of the centres.
    """
    flat = values.reshape(-1)
    size = np.array(values.shape[::-1], np.int64)
    total, centroids = runs.weighted_centroids(flat, masks.start, masks.length, masks.offsets, size)
    highest, negative = _extremes(flat, masks)
    plain = (total <= 0) | negative
    if plain.any():
        centroids[plain] = masks.centroids()[plain]
    return Instances(masks, masks.boxes(), highest, total / masks.voxels, centroids)


def _extremes(flat: NDArray[Any], masks: Masks) -> tuple[F64, NDArray[np.bool_]]:
    """Return (n,) the largest value of every object, and whether one of its values is negative."""
    negative = np.zeros(len(masks), np.bool_)
    if not len(masks):
        return np.zeros(0), negative
    scores = flat[ragged.spans(masks.start, masks.length)]
    starts = ragged.from_counts(masks.length)[masks.offsets[:-1]]
    if scores.min() < 0:
        negative = np.minimum.reduceat(scores, starts) < 0
    return np.maximum.reduceat(scores, starts).astype(np.float64), negative
