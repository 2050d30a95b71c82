# SPDX-License-Identifier: Apache-2.0
"""The compiled twins with the signatures of their NumPy kernels: contiguous arrays of the right
type go in.

Nothing here computes. Every function names its twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import route
from calipers.kernels.cells import FateCells, cells_of
from calipers.kernels.route import threads

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Flags = NDArray[np.bool_]

ASSIGNMENTS = ("by-score", "by-overlap", "many-to-one", "per-reference-argmax", "optimal")
RECALLS, ENVELOPE, STEPS = range(3)
FULL_ROW = 255  # see native/kinds.h
LANES = 64  # see native/replicates.h
MOST_WEIGHT = 255
NO_LIMIT = -1
MOST_ROWS = 2**31 // MOST_WEIGHT


def overlapping(
    native: ModuleType,
    reference: tuple[Any, ...],
    prediction: tuple[Any, ...],
    crowd: Flags,
    n_classes: int,
) -> tuple[I32, I32, F64]:
    """Twin of `pairs.overlapping`."""
    dimensions = reference[2].shape[1] // 2
    buffers = native.overlapping(
        *_side(reference), *_side(prediction), _u8(crowd), n_classes > 0, dimensions, threads()
    )
    return _from(buffers[0], np.int32), _from(buffers[1], np.int32), _from(buffers[2], np.float64)


def ranks(native: ModuleType, offsets: I64, label: I32, score: F64, n_classes: int) -> I32:
    """Twin of `fates.ranks`."""
    rank = np.empty(len(score), np.int32)
    native.ranks(_i64(offsets), _i32(label), _f64(score), n_classes > 0, rank, threads())
    return rank


class FateTable:
    """Fates (V, n) with the numbering of their rows, which is made once and used by every sum over
    them.
    """

    def __init__(
        self,
        fates: I8,
        kind: NDArray[np.uint8] | None = None,
        kinds: NDArray[np.uint64] | None = None,
    ) -> None:
        self.fates = fates
        self._cells: dict[tuple[int, bool], FateCells] = {}
        self.numbering = None if kind is None or kinds is None else (kind, kinds)

    @classmethod
    def unnumbered(cls, fates: I8) -> FateTable:
        """Return a table in which every row stands for itself."""
        return cls(fates, np.full(fates.shape[1], FULL_ROW, np.uint8), np.zeros(0, np.uint64))

    def cells(
        self,
        label: I32,
        rank: I32,
        limit: int,
        image: I64,
        n_classes: int,
        *,
        only_hits: bool = False,
    ) -> FateCells:
        """Return the cells of the objects, or of those that are a hit somewhere; made once for
        every limit.
        """
        everyone, key = (NO_LIMIT, False), (limit, only_hits)
        if everyone not in self._cells:
            self._cells[everyone] = cells_of(self.fates, label, image, n_classes)
        if key not in self._cells:
            below = self._cells[everyone].below(rank, limit)
            self._cells[key] = below.hitting() if only_hits else below
        return self._cells[key]

    @cached_property
    def arrays(self) -> tuple[I8, NDArray[np.uint8], NDArray[np.uint64]]:
        """The fates by object, the kind of every row, and the views that each kind counts."""
        by_object = _i8(self.fates.T)
        if self.numbering is None:
            native = route.native()
            assert native is not None
            kind = np.empty(len(by_object), np.uint8)
            kinds = native.row_kinds(by_object, len(self.fates), kind, route.threads())
            self.numbering = kind, np.frombuffer(kinds, np.uint64)
        return by_object, *self.numbering


def decide(
    native: ModuleType,
    pairs: Any,
    offsets: tuple[I64, I64],
    predictions: Any,
    absent: Flags,
    rules: Any,
) -> tuple[I8, FateTable, I32, F64]:
    """Twin of `fates.decide`."""
    n_views, n = len(rules.cutoffs), len(absent)
    reference, prediction = (
        np.empty((len(rules.crowd), n_views), np.int8),
        np.empty((n, n_views), np.int8),
    )
    partner, similarity, kind = np.full(n, -1, np.int32), np.full(n, np.nan), np.empty(n, np.uint8)
    kinds = native.decide(
        _i32(pairs.reference),
        _i32(pairs.prediction),
        _f64(pairs.similarity),
        _i64(offsets[0]),
        _i64(offsets[1]),
        _i32(predictions.rank),
        _f64(predictions.score),
        _i32(predictions.label) if predictions.n_classes else np.zeros(n, np.int32),
        _u8(absent),
        ASSIGNMENTS.index(rules.assignment),
        _f64(rules.cutoffs),
        _i64(rules.size),
        _u8(rules.ignored),
        _u8(rules.outside),
        _u8(rules.crowd),
        rules.forgiven,
        reference,
        prediction,
        partner,
        similarity,
        kind,
        threads(),
    )
    return (
        reference.T,
        FateTable(prediction.T, kind, np.frombuffer(kinds, np.uint64)),
        partner,
        similarity,
    )


def totals(
    native: ModuleType, table: FateTable, label: I32, rank: I32, limit: int, n_classes: int
) -> I64:
    """Twin of `fates.totals` where every image counts once."""
    result = np.empty((1, len(table.fates), 2, n_classes), np.int64)
    native.totals(
        *table.arrays, _i32(label), _i32(rank), len(table.fates), n_classes, limit, result
    )
    return result


def ranking(
    native: ModuleType, score: F64, label: I32, n_classes: int, blocks: bool
) -> tuple[I64, I64, I64]:
    """Twin of `curves.ranking`."""
    order, ends = np.empty(len(score), np.int64), np.empty(len(score), np.int64)
    offsets = np.empty(n_classes + 1, np.int64)
    native.ranking(_f64(score), _i32(label), n_classes, blocks, order, offsets, ends, threads())
    return order, offsets, ends


def average_precision(
    native: ModuleType, problem: Any, positives: I64, recalls: F64 | None, kind: int
) -> F64:
    """Twin of `curves.average_precision` where every image counts once."""
    result = np.empty(positives.shape)
    points = np.zeros(0) if recalls is None else _f64(recalls)
    views, ranked = _i64(np.asarray(problem.views)), map(_i64, problem.ranked)
    sizes = (len(problem.views), len(problem.table.fates), positives.shape[2])
    native.average_precision(
        *problem.table.arrays,
        views,
        *ranked,
        _i64(positives),
        *sizes,
        kind,
        points,
        result,
        threads(),
    )
    return result


def fit_lanes(weights: NDArray[Any], n_rows: int) -> bool:
    """Return whether weights fit into bytes, and sums of that many of them into 32 bits."""
    if n_rows >= MOST_ROWS:
        return False
    return weights.dtype == np.uint8 or bool(
        weights.max(initial=0) <= MOST_WEIGHT and weights.min(initial=0) >= 0
    )


def replicates(
    native: ModuleType, plan: Any, weights: NDArray[Any], positives: I64, recalls: Flags | None
) -> F64:
    """Twin of `replicates.average_precision`; ``recalls`` says of each recall whether it was
    rounded up.
    """
    n_classes, enveloped = positives.shape[2], plan.enveloped
    parts = []
    for rows, lanes in _lanes(weights):
        by_cell = _i64(np.moveaxis(positives[rows], 0, 2))
        result = np.empty(by_cell.shape)
        plan_here = (*plan.arrays, lanes, n_classes, weights.shape[1])
        flags = np.zeros(0, np.uint8) if recalls is None else _u8(recalls)
        native.replicate_precision(
            *plan_here, by_cell, flags, by_cell.shape[2], enveloped, result, threads()
        )
        parts.append(np.moveaxis(result, 2, 0))
    return np.concatenate(parts)


def replicate_hits(native: ModuleType, plan: Any, weights: NDArray[Any], allowed: F64) -> I64:
    """Twin of `replicates.hits_at`."""
    n_views, n = len(plan.group_of), allowed.shape[1]
    n_classes = (len(plan.hit_offsets) - 1) // max(1, n_views)
    parts = []
    for rows, lanes in _lanes(weights):
        limits = np.zeros((n, LANES))
        limits[:, : rows.stop - rows.start] = allowed[rows].T
        result = np.empty((n_views, n_classes, n, LANES), np.int32)
        native.replicate_hits(
            *plan.arrays, lanes, n_classes, weights.shape[1], limits, n, result, threads()
        )
        parts.append(np.moveaxis(result[..., : rows.stop - rows.start], 3, 0).astype(np.int64))
    return np.concatenate(parts)


def cell_totals(native: ModuleType, cells: FateCells, weights: NDArray[Any]) -> I64:
    """Twin of `Cells.totals`."""
    parts, n_flags = [], cells.flags.shape[1]
    for rows, lanes in _lanes(weights):
        result = np.empty((cells.n_classes, n_flags, LANES), np.int32)
        arrays = (_i32(cells.cell), _i32(cells.image), _i64(cells.label), _u8(cells.flags))
        native.cell_totals(*arrays, lanes, n_flags, cells.n_classes, result)
        parts.append(result[:, :, : rows.stop - rows.start].astype(np.int64))
    return (
        np.concatenate(parts, axis=2)
        .reshape(cells.n_classes, n_flags // 2, 2, -1)
        .transpose(3, 1, 2, 0)
    )


def uniform_counts(
    native: ModuleType, raw: Iterable[NDArray[np.uint64]], n_replicates: int, n_units: int
) -> NDArray[np.uint8] | None:
    """Twin of `resampling.uniform_counts`, from raw random bits; None if bytes or bits were not
    enough.
    """
    counts = np.zeros((n_replicates, n_units), np.uint8)
    enough = [native.count_draws(words, row) for words, row in zip(raw, counts)]
    turned = np.empty((n_units, n_replicates), np.uint8)
    native.transpose(counts, *counts.shape, turned)
    return turned if all(enough) else None


def _lanes(weights: NDArray[Any]) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """Yield 64 replicates at a time with the weights of an image side by side, filled up with
    zeros.
    """
    for start in range(0, len(weights), LANES):
        rows = slice(start, min(start + LANES, len(weights)))
        block = weights[rows].T
        if block.dtype != np.uint8 or block.shape[1] < LANES or not block.flags.c_contiguous:
            full = np.zeros((weights.shape[1], LANES), np.uint8)
            full[:, : block.shape[1]] = block
            block = full
        yield rows, block


def rodeo_paths(
    native: ModuleType,
    reference: tuple[Any, ...],
    prediction: tuple[Any, ...],
    n_classes: int,
    w: F64 | None,
) -> tuple[NDArray[Any], ...]:
    """Twin of `rodeo.paths`."""
    presence = np.empty((len(reference[0]) - 1, 3), np.int64)
    weight, dimensions = np.zeros(0) if w is None else _f64(w), reference[2].shape[1] // 2
    sides = (*_side(reference), *_side(prediction))
    buffers = native.rodeo_paths(*sides, n_classes, dimensions, weight, presence, threads())
    per_piece, per_pair = (
        [np.int64, np.float64, np.int64],
        [np.int32, np.int32, np.float64, np.float64],
    )
    kinds: list[Any] = [*per_piece, *per_pair, np.int64, np.int32, np.int64, np.int32]
    return presence, *(_from(buffer, kind) for buffer, kind in zip(buffers, kinds))


def lane_tally(native: ModuleType, piece_weights: NDArray[Any], table: Any, n_owners: int) -> F64:
    """Twin of `rodeo.tally` for weights that fit into bytes."""
    columns, parts = _tally_columns(table), []
    for rows, lanes in _lanes(piece_weights):
        result = np.empty((6, n_owners, LANES))
        native.lane_tally(lanes, *columns, n_owners, result)
        parts.append(result[:, :, : rows.stop - rows.start])
    # Contiguous, because the order of NumPy's sums depends on the layout.
    return np.ascontiguousarray(np.moveaxis(np.concatenate(parts, axis=2), 2, 0))


def tally(native: ModuleType, piece_weights: I64, table: Any, n_owners: int) -> F64:
    """Twin of `rodeo.tally`."""
    n_replicates, n_pieces = piece_weights.shape
    result = np.empty((n_replicates, 6, n_owners))
    columns = _tally_columns(table)
    native.rodeo_tally(
        _i64(piece_weights), *columns, n_owners, n_replicates, n_pieces, result, threads()
    )
    return result


def _tally_columns(table: Any) -> tuple[NDArray[Any], ...]:
    """Return the columns of a `rodeo.TallyTable`, in its order."""
    offsets = (_i64(table.pair_offsets), _i64(table.missed_offsets), _i64(table.extra_offsets))
    owners = (_i64(table.owner), _i64(table.missed_owner), _i64(table.extra_owner))
    return *offsets, *owners, _u8(table.right), _f64(table.near), _f64(table.shape)


def _side(side: tuple[Any, ...]) -> tuple[I64, I32, F64, F64]:
    offsets, label, boxes, extent = side
    return _i64(offsets), _i32(label), _f64(boxes), _f64(extent)


def _from(buffer: bytearray, kind: Any) -> NDArray[Any]:
    return np.frombuffer(buffer, kind)


def _f64(array: NDArray[Any]) -> F64:
    return np.ascontiguousarray(array, np.float64)


def _i64(array: NDArray[Any]) -> I64:
    return np.ascontiguousarray(array, np.int64)


def _i32(array: NDArray[Any]) -> I32:
    return np.ascontiguousarray(array, np.int32)


def _i8(array: NDArray[Any]) -> I8:
    return np.ascontiguousarray(array, np.int8)


def _u8(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array, np.bool_).view(np.uint8)
