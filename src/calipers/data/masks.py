# SPDX-License-Identifier: Apache-2.0
"""Run-length masks: which pixels or voxels belong to an object.

A run is a piece of one row: voxels that follow each other along x. Runs lie in the order of the
voxels, never touch in a row and never cross its end, so equal masks have equal runs. The voxel at
x, y[, z] of an image of size width, height[, depth] has the index ``(z * height + y) * width + x``,
that of an array ``[z, ]y, x`` in C order. It covers ``[x, x + 1)`` by ``[y, y + 1)`` and so on:
masks and boxes share one system of coordinates.

Tables of objects hold `Masks` (`data.objects`), readers make them from arrays, labels or COCO, and
the criteria for masks compare them. `kernels.runs` and `kernels.shapes` do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from calipers.arguments import names_methods
from calipers.arrays import F64, I64, Array, Flags, joined
from calipers.errors import InputError
from calipers.kernels import ragged, runs, shapes

Result = TypeVar("Result")
AT_ONCE = 1 << 18  # runs


@names_methods
@dataclass(frozen=True, eq=False)
class Masks:
    """The masks of n objects; the runs ``offsets[k]:offsets[k+1]`` belong to object k.

    Every mask has at least one voxel.

    Examples
    --------
    >>> import numpy as np
    >>> masks = Masks.from_dense(np.array([[[0, 1, 1, 0], [0, 1, 0, 0]]]))
    >>> masks.voxels.tolist(), masks.boxes().tolist(), masks.centroids().round(2).tolist()
    ([3], [[1.0, 0.0, 3.0, 2.0]], [[1.83, 0.83]])
    """

    offsets: I64  # (n + 1,)
    start: I64  # (m,) index of the first voxel of a run in its image
    length: I64  # (m,) voxels, at least 1
    size: I64  # (n, 2|3) width, height[, depth] of the image of an object

    def __post_init__(self) -> None:
        # What single runs hold is checked where they come in (`sound_runs`): tables are cut often.
        check_array("masks", "start", self.start, np.int64, (None,))
        check_array("masks", "length", self.length, np.int64, (len(self.start),))
        check_offsets("masks", self.offsets, len(self.start))
        check_array("masks", "size", self.size, np.int64, (len(self), None))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: I64 | Flags | slice) -> Masks:
        """Return the masks of some objects, in that order; a slice with step 1 copies nothing."""
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            if step == 1:
                last = max(first, last)
                begin, end = int(self.offsets[first]), int(self.offsets[last])
                offsets = self.offsets[first : last + 1] - begin
                return Masks(
                    offsets, self.start[begin:end], self.length[begin:end], self.size[first:last]
                )
        objects = np.arange(len(self))[rows]
        # Flags, indices and slices with a step all become indices first.
        runs_of_objects, offsets = ragged.take_rows(self.offsets, objects)
        return Masks(
            offsets, self.start[runs_of_objects], self.length[runs_of_objects], self.size[objects]
        )

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return int(self.size.shape[1])

    @property
    def owner(self) -> I64:
        """(m,) object of every run."""
        return ragged.owners(self.offsets)

    @property
    def voxels(self) -> I64:
        """(n,) number of pixels or voxels."""
        return runs.voxels(self.length, self.offsets)

    def boxes(self) -> F64:
        """Return the (n, 2 d) smallest boxes around the voxels: low corners, then high ones."""
        return self._once(
            ("boxes",), lambda: runs.boxes(self.start, self.length, self.offsets, self.size)
        )

    def centroids(self) -> F64:
        """Return the (n, d) means of the voxel centres, x, y[, z]."""
        return runs.centroids(self.start, self.length, self.offsets, self.size)

    def hulls(self) -> Masks:
        """Return the convex hull of every object.

        These are the voxels whose centres lie in the closed hull of the voxel centres.

        An object whose centres lie on one line (in 3D: in one plane) is its own hull.
        """
        return self._once(
            ("hulls",), lambda: Masks.concat([part._hulls() for _, part in self._parts()])
        )

    def _hulls(self) -> Masks:
        return self._of(shapes.hulls(self.start, self.length, self.offsets, self.size))

    def boundaries(self, depth: int | I64) -> Masks:
        """Return the voxels of every object that are at most ``depth`` steps from its outside.

        That is the mask without its erosion, repeated ``depth`` times with full connectivity;
        everything beyond the image is outside. ``depth`` is one number, or one per object.
        """
        depths = np.broadcast_to(np.asarray(depth, np.int64), len(self))
        return self._once(
            ("boundaries", depths.tobytes()),
            lambda: Masks.concat([part._boundaries(depths[rows]) for rows, part in self._parts()]),
        )

    def _boundaries(self, depths: I64) -> Masks:
        boundaries: list[tuple[I64, I64, I64]] = [(np.zeros(0, np.int64),) * 3]
        # Images come in few sizes, so there are few depths.
        for depth in np.unique(depths).tolist():
            rows = np.flatnonzero(depths == depth)
            part = self[rows]
            start, length, owner = runs.boundaries(
                part.start, part.length, part.owner, part.size[part.owner], depth
            )
            boundaries.append((start, length, rows[owner]))
        start, length, owner = (np.concatenate(parts) for parts in zip(*boundaries))
        order = np.argsort(owner, kind="stable")
        return self._of((start[order], length[order], owner[order]))

    def contains(self, rows: I64, points: F64) -> Flags:
        """Return whether the voxel that holds ``points[k]`` (x, y[, z]) belongs to the object
        ``rows[k]``.
        """
        return runs.contains(self.start, self.length, self.offsets, self.size, (rows, points))

    def in_boxes(self, rows: I64, boxes: F64) -> F64:
        """Return the exact area (volume) that object ``rows[k]`` shares with box ``boxes[:, k]``.

        ``boxes`` has the shape (2 d, k).
        """
        common = np.zeros(len(rows))
        # Some runs at a time, so that the copies of runs and boxes stay small.
        total = np.cumsum(np.diff(self.offsets)[rows])
        n_runs = total[-1] if len(total) else 0
        cuts = np.searchsorted(total, np.arange(AT_ONCE, n_runs, AT_ONCE)).tolist()
        for low, high in zip([0, *cuts], [*cuts, len(rows)]):
            these = rows[low:high]
            runs_of_objects, offsets = ragged.take_rows(self.offsets, these)
            pair = ragged.owners(offsets)
            shared = runs.in_box(
                self.start[runs_of_objects],
                self.length[runs_of_objects],
                self.size[these][pair],
                boxes[:, low:high][:, pair],
            )
            common[low:high] = np.bincount(pair, weights=shared, minlength=len(these))
        return common

    def dense(self, k: int) -> Flags:
        """Return the mask of object k as an array ``[z, ]y, x``."""
        mine = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        return runs.fill(
            self.start[mine], self.length[mine], True, tuple(self.size[k, ::-1].tolist())
        )

    @classmethod
    def from_dense(cls, arrays: Array | Sequence[Array]) -> Masks:
        """Return the masks of arrays ``[z, ]y, x``, one per object; non-zero voxels belong to it.

        One array ``(n, [d, ]h, w)`` is converted in one pass.
        """
        if not isinstance(arrays, np.ndarray):
            return cls.concat([cls.from_dense(np.asarray(array)[None]) for array in arrays])
        frame = arrays.shape[1:]
        start, length = runs.find(arrays)
        # The arrays are one flat line: the place on it tells the object and the voxel.
        unit = int(np.prod(frame))
        owner = start // max(unit, 1)
        size = np.tile(np.array(frame[::-1], np.int64), (len(arrays), 1))
        return cls(ragged.from_owner(owner, len(arrays)), start - owner * unit, length, size)

    @classmethod
    def from_labels(cls, labels: Array) -> Masks:
        """Return one mask for every value of a label map but 0, in ascending order."""
        start, length, value = runs.of_labels(labels)
        owner, n = runs.numbered(value)
        return cls._from_owner(start, length, owner, (labels.shape, n))

    @classmethod
    def from_components(cls, array: Array, connectivity: str = "full") -> Masks:
        """Return one mask per connected component of the non-zero voxels, by first voxel.

        Connectivity is "full" (8 neighbours in 2D, 26 in 3D), "edges" (8, 18) or "faces" (4, 6).
        """
        start, length = runs.find(array)
        owner = shapes.components(start, length, np.array(array.shape[::-1]), connectivity)
        return cls._from_owner(start, length, owner, (array.shape, int(owner.max(initial=-1)) + 1))

    @classmethod
    def from_classes(cls, labels: Array, connectivity: str = "full") -> tuple[Masks, I64]:
        """Return one mask per connected component of every value but 0, and their (n,) values.

        Values come in ascending order, the components of a value by first voxel.
        """
        start, length, value = runs.of_labels(labels)
        size = np.array(labels.shape[::-1])
        owner = np.zeros(len(start), np.int64)
        values: list[int] = []
        for number in np.unique(value).tolist():
            same = value == number
            parts = shapes.components(start[same], length[same], size, connectivity)
            owner[same] = parts + len(values)
            values += [int(number)] * (int(parts.max()) + 1)
        masks = cls._from_owner(start, length, owner, (labels.shape, len(values)))
        return masks, np.array(values, np.int64)

    @classmethod
    def concat(cls, parts: Sequence[Masks]) -> Masks:
        """Return the masks of several tables, one below the other; no table gives `no_masks`."""
        if not parts:
            return no_masks()
        return cls(
            ragged.concat_offsets([part.offsets for part in parts]),
            joined(parts, "start"),
            joined(parts, "length"),
            joined(parts, "size"),
        )

    @classmethod
    def _from_owner(
        cls, start: I64, length: I64, owner: I64, frame: tuple[tuple[int, ...], int]
    ) -> Masks:
        """Return the masks of runs of one image, in any order; frame is (shape, objects)."""
        shape, n = frame
        size = np.tile(np.array(shape[::-1], np.int64), (n, 1))
        return cls(*runs.grouped(start, length, owner, n), size)

    def _of(self, runs_and_owner: tuple[I64, I64, I64]) -> Masks:
        """Return other masks of the same objects: (start, length, owner), sorted by owner."""
        start, length, owner = runs_and_owner
        return Masks(ragged.from_owner(owner, len(self)), start, length, self.size)

    def _parts(self) -> Iterator[tuple[slice, Masks]]:
        """Yield the objects in blocks, at least one, so that intermediate arrays stay small."""
        cuts = np.searchsorted(self.offsets, np.arange(AT_ONCE, len(self.start), AT_ONCE)).tolist()
        for first, last in zip([0, *cuts], [*cuts, len(self)]):
            yield slice(first, last), self[first:last]

    @cached_property
    def _cache(self) -> dict[tuple[str | bytes, ...], Any]:
        return {}

    def _once(self, key: tuple[str | bytes, ...], make: Callable[[], Result]) -> Result:
        """Return a cached result, or compute it: all models and metrics share the references."""
        if key not in self._cache:
            self._cache[key] = make()
        result: Result = self._cache[key]
        return result


def check_offsets(table: str, offsets: Any, n_rows: int) -> None:
    """Raise unless offsets share out all rows of a table."""
    check_array(table, "offsets", offsets, np.int64, (None,))
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != n_rows or (np.diff(offsets) < 0).any():
        raise InputError(
            f"offsets that begin at 0, never descend and end at the {n_rows} rows",
            rule="offsets",
            location=table,
            field="offsets",
            value=offsets,
        )


def check_array(
    table: str, name: str, array: Any, kind: type[np.generic], shape: tuple[int | None, ...]
) -> None:
    """Raise unless a column has its type and shape; None stands for any length."""
    # What lies below a mask is no data.
    is_masked = isinstance(array, np.ma.MaskedArray)
    if not isinstance(array, np.ndarray) or is_masked or array.dtype != kind:
        raise InputError(
            f"an array of {kind.__name__}",
            rule="type",
            location=table,
            field=name,
            value="a masked array" if is_masked else getattr(array, "dtype", array),
        )
    fits = array.ndim == len(shape)
    for side, expected in zip(array.shape, shape):
        fits = fits and expected in (None, side)
    if not fits:
        sides = ", ".join("any" if side is None else str(side) for side in shape)
        raise InputError(
            f"the shape ({sides})", rule="length", location=table, field=name, value=array.shape
        )


def no_masks(dimensions: int = 2) -> Masks:
    """Return the masks of no object."""
    nothing = np.zeros(0, np.int64)
    return Masks(np.zeros(1, np.int64), nothing, nothing, np.zeros((0, dimensions), np.int64))
