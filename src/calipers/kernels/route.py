# SPDX-License-Identifier: Apache-2.0
"""The route of the kernels: compiled twins if they were built, else NumPy, with the same bits.

First the choice (`native`, `threads`, `forced`, `describe`), then one function per twin with the
signature of its NumPy kernel. Those functions make arrays contiguous and of the right type, allot
the results and call; nothing here computes. Each docstring names the NumPy kernel, its only caller.

``CALIPERS_NATIVE=0`` turns the twins off, ``CALIPERS_THREADS=n`` sets their threads (default: the
cores at hand).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I8, I32, I64, Array, Flags

if TYPE_CHECKING:
    from calipers.kernels.assignment import FateCells, FateTable
    from calipers.kernels.boxes import BoxPool

MOST_THREADS = 1024  # a mistyped setting must not bring the machine down

# What the twins must offer. A module that was built before one of them existed is stale: NumPy is
# used instead.
TWINS = (
    "average_precision",
    "cell_totals",
    "coco_records",
    "common_voxels",
    "count_draws",
    "decayed_scores",
    "decide",
    "decode_text",
    "distinct_rows",
    "error_types",
    "fused_boxes",
    "group_runs",
    "intersections",
    "joint_counts",
    "kendall_pairs",
    "lane_tally",
    "overlapping",
    "random_words",
    "ranking",
    "ranks",
    "replicate_curve",
    "replicate_hits",
    "replicate_precision",
    "rodeo_paths",
    "rodeo_tally",
    "row_kinds",
    "row_places",
    "run_borders",
    "run_boxes",
    "run_centroids",
    "run_components",
    "runs_between",
    "totals",
    "transpose",
    "turned_counts",
    "turned_runs",
    "voxel_bins",
    "voxel_histogram",
    "voxel_pooled",
    "voxel_split",
    "voxel_walk",
)

# A stack, because `forced` may be nested.
_forced: list[str] = []

_cache: list[ModuleType | None] = []  # what was built, if anything
_whole: list[ModuleType | None] = []  # the same if it can be used

# The compiled kernels know these words by their places.
FUSION_METHODS = ("suppress", "merge-about-best", "fuse")  # both in native/fusion.h
CONFIDENCES = ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")
ASSIGNMENTS = (  # in the order of `Assignment` in native/fates.h
    "by-score",
    "by-overlap",
    "many-to-one",
    "many-to-one-counted-first",
    "per-reference-argmax",
    "optimal",
)
RECALLS, ENVELOPE, STEPS = range(3)
LANES = 64  # see native/replicates.h
MOST_WEIGHT = 255  # what a byte holds
# Sums of so many largest weights still fit into the 32 bits of a lane.
MOST_ROWS = 2**31 // MOST_WEIGHT
# Bits of native/coco_records.h.
RECORD_KEYS = {
    "image_id": 1,
    "category_id": 2,
    "bbox": 4,
    "score": 8,
    "id": 16,
    "area": 32,
    "iscrowd": 64,
    "ignore": 128,
}
SHORTEST_RECORD = 46  # bytes of a record that has an image, a category and a box

RunTable = tuple[I64, I64, I64]  # offsets, start, length

WHOLE = "biu"  # kinds of arrays whose equal values have equal bytes
REAL = (np.dtype(np.float32), np.dtype(np.float64))

Scores = NDArray[np.floating[Any]]


def native() -> ModuleType | None:
    """Return the compiled twins, or None if the NumPy route is in use."""
    if _forced:
        return _built() if _forced[-1] == "native" else None
    return None if os.environ.get("CALIPERS_NATIVE") == "0" else _built()


def threads() -> int:
    """Return how many threads the twins may use."""
    setting = os.environ.get("CALIPERS_THREADS", "")
    return min(max(1, int(setting)), MOST_THREADS) if setting.isdecimal() else _cores()


def describe() -> str:
    """Return the route in words, for ``calipers --version``."""
    if native() is not None:
        return "kernels: native"
    if os.environ.get("CALIPERS_NATIVE") == "0":
        return "kernels: NumPy, the native ones are turned off by CALIPERS_NATIVE=0"
    if missing():
        names = ", ".join(missing()[:3])
        if len(missing()) > 3:
            names += ", ..."
        return (
            "kernels: NumPy, the native ones are of an older version "
            f"(without {names}): install or build again"
        )
    return "kernels: NumPy, the native ones were not built (no C++ compiler at installation)"


def missing() -> tuple[str, ...]:
    """Return the twins that a built module lacks, because it is older than this code; nothing if
    none was built.
    """
    module = _imported()
    if module is None:
        return ()
    return tuple(name for name in TWINS if not hasattr(module, name))


@contextmanager
def forced(route: str) -> Iterator[None]:
    """Force one route, "numpy" or "native", for tests and benchmarks."""
    _forced.append(route)
    try:
        yield
    finally:
        _forced.pop()


def _built() -> ModuleType | None:
    """Return the compiled twins if there are all of them."""
    if not _whole:
        # Part of the twins would be worse than none: routes would mix in one run.
        _whole.append(None if missing() else _imported())
    return _whole[0]


def _imported() -> ModuleType | None:
    if not _cache:
        try:
            _cache.append(import_module("calipers.kernels._native"))
        except ImportError:
            _cache.append(None)
    return _cache[0]


def _cores() -> int:
    """Return the cores that this process may use; on a shared machine that may not be all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def overlapping(
    native: ModuleType,
    reference: tuple[Any, ...],
    prediction: tuple[Any, ...],
    crowd: Flags,
    n_classes: int,
) -> tuple[I32, I32, F64]:
    """Twin of `boxes.overlapping`."""
    dimensions = reference[2].shape[1] // 2
    buffers = native.overlapping(
        *_side(reference), *_side(prediction), _u8(crowd), n_classes, dimensions, threads()
    )
    return _from(buffers[0], np.int32), _from(buffers[1], np.int32), _from(buffers[2], np.float64)


def fused_boxes(
    native: ModuleType,
    pools: Sequence[BoxPool],
    factors: F64,
    method: str,
    threshold: float,
    skip_threshold: float = -np.inf,
    confidence: str = "avg",
    overflow: bool = False,
) -> tuple[I64, I32, F64, F64, F64, I64]:
    """Twin of `boxes.suppressed`, `boxes.merged_about_best` and `boxes.fused`: the columns of what
    they leave, the last of them the place of a box in the pools one below the other.
    """
    n_images, width = len(pools[0].offsets) - 1, pools[0].boxes.shape[1]
    columns: list[Array] = []
    for pool in pools:
        columns += (*_side((pool.offsets, pool.label, pool.boxes, pool.extent)), _f64(pool.score))
    # There is room for all boxes: memory that nothing is written to costs nothing.
    n = sum(map(len, pools))
    count, label, row = np.empty(n_images, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
    boxes, extent, score = np.empty((n, width)), np.empty(n), np.empty(n)
    n_left = native.fused_boxes(
        _f64(factors),
        np.array([threshold, skip_threshold]),
        *(FUSION_METHODS.index(method), CONFIDENCES.index(confidence), int(overflow)),
        *(width // 2, threads()),
        *(count, label, boxes, extent, score, row),
        *columns,
    )
    offsets = np.zeros(n_images + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    left = slice(0, n_left)
    return offsets, label[left], boxes[left], extent[left], score[left], row[left]


def decayed_scores(native: ModuleType, pool: BoxPool, threshold: float, sigma: float | None) -> F64:
    """Twin of `boxes.decayed_scores`."""
    lowered = np.empty(len(pool))
    native.decayed_scores(
        *_side((pool.offsets, pool.label, pool.boxes, pool.extent)),
        _f64(pool.score),
        np.array([threshold, sigma or 0.0]),
        pool.boxes.shape[1] // 2,
        lowered,
        threads(),
    )
    return lowered


def ranks(native: ModuleType, offsets: I64, label: I32, score: F64, n_classes: int) -> I32:
    """Twin of `assignment.ranks`."""
    rank = np.empty(len(score), np.int32)
    native.ranks(_i64(offsets), _i32(label), _f64(score), n_classes, rank, threads())
    return rank


def decide(
    native: ModuleType,
    pairs: Any,
    offsets: tuple[I64, I64],
    predictions: Any,
    absent: Flags,
    rules: Any,
) -> tuple[I8, tuple[I8, NDArray[np.uint8], NDArray[np.uint64]], I32, F64]:
    """Twin of `assignment.decide`."""
    n_views, n = len(rules.cutoffs), len(absent)
    # The twins hold fates object by object; callers want view by view, so results are transposed
    # views.
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
        # Without classes all predictions of an image are rivals: one label for all.
        _i32(predictions.label) if predictions.n_classes else np.zeros(n, np.int32),
        _u8(absent),
        ASSIGNMENTS.index(rules.assignment),
        _f64(rules.cutoffs),
        _i64(rules.size),
        _f64(rules.ranges),
        _f64(rules.reference_area),
        _f64(rules.prediction_area),
        _u8(rules.ignore),
        _u8(rules.crowd),
        reference,
        prediction,
        partner,
        similarity,
        kind,
        threads(),
    )
    return (
        reference.T,
        (prediction.T, kind, np.frombuffer(kinds, np.uint64)),
        partner,
        similarity,
    )


def counts(
    native: ModuleType, table: FateTable, label: I32, rank: I32, limit: int, n_classes: int
) -> I64:
    """Twin of `assignment.counts`."""
    result = np.empty((1, len(table.fates), 2, n_classes), np.int64)
    native.totals(
        *table.arrays, _i32(label), _i32(rank), len(table.fates), n_classes, limit, result
    )
    return result


def error_types(
    native: ModuleType, pairs: Any, objects: Any, background: float, foreground: float
) -> tuple[Array, ...]:
    """Twin of `error_types.error_types`."""
    n_references, n = len(objects.ignored), len(objects.absent)
    reference, prediction = np.empty(n_references, np.int8), np.empty(n, np.int8)
    covered, mended = np.empty(n, np.bool_), np.empty(n, np.bool_)
    partner, similarity = np.empty(n, np.int32), np.empty(n)
    native.error_types(
        _of(pairs.reference, np.int32),
        _of(pairs.prediction, np.int32),
        _of(pairs.similarity, np.float64),
        _of(objects.reference_offsets, np.int64),
        _of(objects.prediction_offsets, np.int64),
        _of(objects.reference_label, np.int32),
        _of(objects.prediction_label, np.int32),
        _of(objects.rank, np.int32),
        _of(objects.absent, np.bool_),
        _of(objects.ignored, np.bool_),
        np.array([background, foreground]),
        reference,
        prediction,
        covered,
        mended,
        partner,
        similarity,
        threads(),
    )
    return reference, prediction, covered, mended, partner, similarity


def ranking(
    native: ModuleType, score: F64, label: I32, n_classes: int, blocks: bool
) -> tuple[I32, I64, I32]:
    """Twin of `curves.ranking`."""
    order = np.empty(len(score), np.int32)
    ends = np.empty(len(score) if blocks else 0, np.int32)
    offsets = np.empty(n_classes + 1, np.int64)
    native.ranking(_f64(score), _i32(label), n_classes, blocks, order, offsets, ends, threads())
    return order, offsets, ends


def average_precision(
    native: ModuleType, problem: Any, positives: I64, recalls: F64 | None, kind: int
) -> F64:
    """Twin of `curves.average_precision` where every image counts once."""
    result = np.empty(positives.shape)
    points = np.zeros(0) if recalls is None else _f64(recalls)
    views, (order, offsets, ends) = _i64(np.asarray(problem.views)), problem.ranked
    native.average_precision(
        *problem.table.arrays,
        views,
        *(_i32(order), _i64(offsets), _i32(ends)),
        _i64(positives),
        *(len(problem.views), len(problem.table.fates), positives.shape[2]),
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
    """Twin of `curves.replicate_precision`; ``recalls`` says of each recall whether it was
    rounded up.
    """
    parts = []
    for _, arguments, by_cell in _precision_blocks(plan, weights, positives, recalls):
        result = np.empty(by_cell.shape)
        native.replicate_precision(*arguments, result, threads())
        parts.append(np.moveaxis(result, 2, 0))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def replicate_curve(
    native: ModuleType, plan: Any, weights: NDArray[Any], positives: I64, recalls: Flags
) -> F64:
    """Twin of `curves.precisions`; ``recalls`` says of each recall whether it was rounded up."""
    parts = []
    for rows, arguments, by_cell in _precision_blocks(plan, weights, positives, recalls):
        result = np.empty((*by_cell.shape[:2], len(recalls), LANES))
        native.replicate_curve(*arguments, result, threads())
        parts.append(np.moveaxis(result[..., : rows.stop - rows.start], 3, 0))
    return np.concatenate(parts)


def _precision_blocks(
    plan: Any, weights: NDArray[Any], positives: I64, recalls: Flags | None
) -> Iterator[tuple[slice, tuple[Any, ...], I64]]:
    """Yield 64 replicates at a time: their rows, what both twins on precision take, and the
    positives by cell.
    """
    flags = np.zeros(0, np.uint8) if recalls is None else _u8(recalls)
    for rows, lanes in _lanes(weights):
        by_cell = _i64(np.moveaxis(positives[rows], 0, 2))
        shared = (*plan.arrays, lanes, positives.shape[2], weights.shape[1])
        yield rows, (*shared, by_cell, flags, by_cell.shape[2], plan.enveloped), by_cell


def replicate_hits(native: ModuleType, plan: Any, weights: NDArray[Any], allowed: F64) -> I64:
    """Twin of `curves.replicate_hits`."""
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
    """Twin of `FateCells.totals`."""
    n_flags = cells.flags.shape[1]
    # Of thousands of classes this is the largest table of all: it is in memory once.
    table = np.empty((cells.n_classes, n_flags, len(weights)), np.int64)
    result = np.empty((cells.n_classes, n_flags, LANES), np.int32)
    arrays = (_i32(cells.cell), _i32(cells.image), _i64(cells.label), _u8(cells.flags))
    for rows, lanes in _lanes(weights):
        native.cell_totals(*arrays, lanes, n_flags, cells.n_classes, result)
        table[:, :, rows] = result[:, :, : rows.stop - rows.start]
    return table.reshape(cells.n_classes, n_flags // 2, 2, -1).transpose(3, 1, 2, 0)


def random_words(native: ModuleType, key: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Twin of ``Philox(key=key).random_raw(n)`` of NumPy."""
    words = np.empty(n, np.uint64)
    native.random_words(key, words)
    return words


def uniform_counts(
    native: ModuleType, raw: Iterable[NDArray[np.uint64]], n_replicates: int, n_units: int
) -> NDArray[np.uint8] | None:
    """Twin of `resampling.uniform_counts`, from raw random bits; None if bytes or bits were not
    enough.
    """
    counts = np.zeros((n_replicates, n_units), np.uint8)
    # The twin gives up when a count passes 255 or the random bits run out; NumPy then draws anew.
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


class RecordColumns(NamedTuple):
    """Plain COCO records, as columns; ``keys`` says which of `RECORD_KEYS` a record has, as
    bits.
    """

    image: I64
    category: I64
    id: I64
    box: F64  # (n, 4)
    score: F64
    area: F64
    crowd: NDArray[np.uint8]
    ignore: NDArray[np.uint8]
    keys: NDArray[np.uint8]


def coco_records(
    native: ModuleType, text: Any, at: int, stop: int, end: int, required: int
) -> tuple[RecordColumns, int]:
    """Read plain records of a COCO list from ``at`` until one begins behind ``stop``.

    Returns their columns, and where the next record begins: ``end`` if there is none. Reading ends
    early before a record that is not plain: other keys, ids of text, numbers that are no finite
    double, a key twice. Its twins are the decoders of `calipers.io.coco.records`.
    """
    # The number of records is not known before; no record is shorter than this.
    room = (min(stop, end) - at) // SHORTEST_RECORD + 1
    whole = [np.empty(room, np.int64) for _ in range(3)]
    numbers = [np.empty((room, 4)), np.empty(room), np.empty(room)]
    flags = [np.zeros(room, np.uint8), np.zeros(room, np.uint8), np.empty(room, np.uint8)]
    columns: list[NDArray[Any]] = [*whole, *numbers, *flags]
    n, following = native.coco_records(text, at, stop, end, required, *columns)
    return RecordColumns(*(column[:n] for column in columns)), following


def pieces(native: ModuleType, array: Array, alike: bool) -> tuple[I64, I64, Array]:
    """Twin of `runs._pieces` for arrays of whole numbers or flags."""
    flat = np.require(array, requirements=["C", "A"]).reshape(-1)
    # Borders as bits, 64 voxels to a word: counted first, so that results get their exact size.
    begins, ends = np.empty((2, len(flat) // 64 + 1), np.uint64)
    shape = (flat.itemsize, max(1, array.shape[-1]), alike)
    n = native.run_borders(flat.view(np.uint8), *shape, begins, ends, threads())
    start, length = np.empty(n, np.int64), np.empty(n, np.int64)
    native.runs_between(begins, ends, start, length, threads())
    return start, length, flat[:0] if alike else flat[start]


def grouped(native: ModuleType, start: I64, length: I64, owner: I64, n: int) -> RunTable:
    """Twin of `runs.grouped`."""
    table = (
        np.empty(n + 1, np.int64),
        np.empty(len(start), np.int64),
        np.empty(len(start), np.int64),
    )
    native.group_runs(_i64(start), _i64(length), _i64(owner), *table)
    return table


def decode_text(native: ModuleType, offsets: I64, text: NDArray[np.uint8]) -> tuple[I64, I64, I8]:
    """Twin of `coco_rle.decode_text`."""
    ends, faults = np.empty(len(offsets), np.int64), np.empty(len(offsets) - 1, np.int8)
    counts = np.empty(len(text), np.int64)
    n = native.decode_text(_i64(offsets), _of(text, np.uint8), ends, counts, faults)
    return ends, counts[:n].copy(), faults


def turned_counts(native: ModuleType, runs: RunTable, size: I64) -> I64:
    """Twin of `runs.Turn.of`."""
    counts = np.empty(len(size), np.int64)
    native.turned_counts(*map(_i64, runs), _i64(size), counts, threads())
    return counts


def turned_runs(native: ModuleType, runs: RunTable, size: I64, offsets: I64) -> RunTable:
    """Twin of `runs.Turn.runs`."""
    start, length = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    native.turned_runs(*map(_i64, runs), _i64(size), offsets, start, length, threads())
    return offsets, start, length


def boxes(native: ModuleType, runs: RunTable, size: I64) -> F64:
    """Twin of `runs.boxes`; sizes are (n, d)."""
    corners = np.empty((len(size), 2 * size.shape[1]))
    native.run_boxes(*map(_i64, runs), _i64(size), size.shape[1], corners, threads())
    return corners


def weighted_centroids(
    native: ModuleType, values: Array, runs: RunTable, size: I64
) -> tuple[F64, F64]:
    """Twin of `runs.weighted_centroids` for maps of float32 or float64 over one image."""
    n = len(runs[0]) - 1
    total, centroids = np.empty(n), np.empty((n, len(size)))
    native.run_centroids(*_map(values), *map(_i64, runs), _i64(size), total, centroids, threads())
    return total, centroids


def components(
    native: ModuleType, start: I64, length: I64, size: I64, steps: Any, value: Array | None
) -> I64:
    """Twin of `shapes.components`; values are whole numbers."""
    numbers = np.empty(len(start), np.int64)
    values = np.zeros(0, np.int64) if value is None else _i64(value)
    native.run_components(
        _i64(start), _i64(length), values, _i64(size), np.array(steps, np.int64), numbers, threads()
    )
    return numbers


def common(native: ModuleType, a: RunTable, b: RunTable, rows: I64, columns: I64) -> I64:
    """Twin of `runs.common`."""
    voxels = np.empty(len(rows), np.int64)
    native.common_voxels(*map(_i64, a), *map(_i64, b), _i64(rows), _i64(columns), voxels, threads())
    return voxels


def intersections(
    native: ModuleType, a: tuple[I64, I64, I64], b: tuple[I64, I64, I64]
) -> tuple[I64, I64, I64]:
    """Twin of `runs.intersections`."""
    one, other, voxels = native.intersections(*map(_i64, a), *map(_i64, b))
    return (
        np.frombuffer(one, np.int64),
        np.frombuffer(other, np.int64),
        np.frombuffer(voxels, np.int64),
    )


def _map(values: Array) -> tuple[Array, bool]:
    return np.require(values, requirements=["C", "A"]), values.dtype == np.float64


def places(native: ModuleType, values: F64) -> tuple[I32, I32, I32]:
    """Twin of `ranks.places`."""
    order, below, doubled = (np.empty(values.shape, np.int32) for _ in range(3))
    native.row_places(values, len(values), order, below, doubled, threads())
    return order, below, doubled


def discordant(
    native: ModuleType, order: I32, below: I32, tied: Flags, first: I64, second: I64
) -> tuple[I64, I64]:
    """Twin of `ranks.discordant`."""
    inversions, joint = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    native.kendall_pairs(
        order, below, tied.view(np.uint8), first, second, inversions, joint, threads()
    )
    return inversions, joint


def joint_counts(native: ModuleType, values: F64, thresholds: F64) -> tuple[I64, I64, I64]:
    """Twin of `ranks.joint_counts`."""
    n, n_thresholds = len(values), len(thresholds)
    shapes = (n, n * (n - 1) // 2, n + 1)
    ones, both, votes = (np.zeros((n_thresholds, width), np.int64) for width in shapes)
    native.joint_counts(values, n, thresholds, ones, both, votes, threads())
    return ones, both, votes


def bins_of(native: ModuleType, values: Scores) -> I32:
    """Twin of `voxels.bins_of`."""
    bins = np.empty(values.size, np.int32)
    native.voxel_bins(values, _wide(values), bins, threads())
    return bins


def table(
    native: ModuleType, values: Scores, positive: Flags, n_bins: int
) -> tuple[I64, I64, F64, F64]:
    """Twin of `voxels._table`."""
    positives, negatives = np.empty(n_bins, np.int64), np.empty(n_bins, np.int64)
    lowest, highest = np.empty(n_bins), np.empty(n_bins)
    columns = (positives, negatives, lowest, highest)
    native.voxel_histogram(values, _wide(values), positive.view(np.uint8), *columns, threads())
    return columns


def split(
    native: ModuleType, values: Scores, positive: Flags, n_positives: int
) -> tuple[Scores, Scores]:
    """Twin of the first step of `voxel_ranking.sides`."""
    # One place more than needed: the twin writes before it knows the side, without a branch.
    positives = np.empty(n_positives + 1, values.dtype)
    negatives = np.empty(values.size - n_positives + 1, values.dtype)
    native.voxel_split(values, _wide(values), positive.view(np.uint8), positives, negatives)
    return positives[:-1], negatives[:-1]


def walk(
    native: ModuleType,
    positives: Scores,
    negatives: Scores,
    positive_offsets: I64,
    negative_offsets: I64,
) -> tuple[I64, I64, I64, F64, F64]:
    """Twin of `voxel_ranking.walk`."""
    n = len(positive_offsets) - 1
    counts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    columns = (*counts, np.empty(n), np.empty(n))
    offsets = (_i64(positive_offsets), _i64(negative_offsets))
    sides = (np.ascontiguousarray(positives), np.ascontiguousarray(negatives))
    native.voxel_walk(*sides, _wide(positives), *offsets, *columns, threads())
    return columns


def pooled(native: ModuleType, positives: F64, negatives: F64, inexact: Flags, rate: float) -> F64:
    """Twin of `voxels.sums`."""
    n = len(positives)
    sums = np.empty((9, n))
    flags = np.ascontiguousarray(inexact, np.bool_).view(np.uint8)
    native.voxel_pooled(positives, negatives, flags, n, np.array([rate]), sums, threads())
    return sums


def _wide(values: Scores) -> bool:
    return bool(values.dtype == np.float64)


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


def _of(array: Array, kind: Any) -> Array:
    return np.ascontiguousarray(array, kind)
