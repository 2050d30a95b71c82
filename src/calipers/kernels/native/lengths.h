// SPDX-License-Identifier: Apache-2.0
// Whether the buffers of a call fit each other, so that no twin reads or writes beyond one. What the buffers hold (labels,
// rows, images) is trusted: it was checked when the cohort was built.
#pragma once

#include "coco_records.h"
#include "components.h"
#include "curves.h"
#include "error_types.h"
#include "fates.h"
#include "kinds.h"
#include "pairs.h"
#include "replicates.h"
#include "rodeo.h"
#include "run_algebra.h"
#include "runs.h"
#include "voxels.h"

namespace calipers {

// Offsets that share out all of n rows.
inline bool cover(Span<const int64_t> offsets, int64_t n) {
    if (offsets.size < 1 || offsets[0] != 0 || offsets[offsets.size - 1] != n) return false;
    for (int64_t k = 1; k < offsets.size; ++k)
        if (offsets[k] < offsets[k - 1]) return false;
    return true;
}

inline bool fit(const Side& side, int64_t dimensions) {
    const int64_t n = side.label.size;
    return cover(side.offsets, n) && side.extent.size == n && side.boxes.size == n * 2 * dimensions;
}

inline bool fit(const Side& reference, const Side& prediction, int64_t dimensions) {
    return (dimensions == 2 || dimensions == 3) && fit(reference, dimensions) && fit(prediction, dimensions) &&
           reference.offsets.size == prediction.offsets.size;
}

inline bool fit(const FateProblem& p, const FateTables& t) {
    const int64_t n_pairs = p.pair_reference.size, n_views = p.cutoffs.size;
    const int64_t n_references = p.crowd.size, n_predictions = p.score.size;
    int64_t n_ranges = 0;
    for (int64_t v = 0; v < p.size.size; ++v) {
        if (p.size[v] < 0) return false;
        n_ranges = p.size[v] >= n_ranges ? p.size[v] + 1 : n_ranges;
    }
    return p.pair_prediction.size == n_pairs && p.pair_similarity.size == n_pairs && p.size.size == n_views &&
           cover(p.reference_offsets, n_references) && cover(p.prediction_offsets, n_predictions) &&
           p.reference_offsets.size == p.prediction_offsets.size && p.rank.size == n_predictions &&
           p.cell.size == n_predictions && p.absent.size == n_predictions &&
           p.ignored.size >= n_ranges * n_references && p.outside.size >= n_ranges * n_predictions &&
           t.reference.size == n_references * n_views && t.prediction.size == n_predictions * n_views &&
           t.partner.size == n_predictions && t.similarity.size == n_predictions && t.kind.size == n_predictions;
}

inline bool fit(const ErrorProblem& p, const ErrorTables& t) {
    const int64_t n_pairs = p.pair_reference.size, n_references = p.ignored.size, n = p.absent.size;
    return p.pair_prediction.size == n_pairs && p.pair_similarity.size == n_pairs && p.limits.size == 2 &&
           cover(p.reference_offsets, n_references) && cover(p.prediction_offsets, n) &&
           p.reference_offsets.size == p.prediction_offsets.size && p.reference_label.size == n_references &&
           p.prediction_label.size == n && p.rank.size == n && t.reference.size == n_references &&
           t.prediction.size == n && t.covered.size == n && t.mended.size == n && t.partner.size == n &&
           t.similarity.size == n;
}

inline bool fit(const TotalsProblem& p, Span<int64_t> result) {
    const int64_t n = p.label.size;
    return p.fates.size == n * p.n_views && p.kind.size == n && p.kinds.size <= MOST_KINDS &&
           (p.rank.size == 0 || p.rank.size == n) && result.size == p.n_views * 2 * p.n_classes;
}

inline bool fit(const CurveProblem& p) {
    const int64_t n = p.kind.size;
    for (int64_t v = 0; v < p.views.size; ++v)
        if (p.views[v] < 0 || p.views[v] >= p.n_columns) return false;
    return p.fates.size == n * p.n_columns && p.kinds.size <= MOST_KINDS && p.views.size == p.n_views &&
           p.order.size == n && p.ends.size == n && p.offsets.size == p.n_classes + 1 && cover(p.offsets, n) &&
           p.positives.size == p.n_views * p.n_classes;
}

// Places in a table of n; worth a look where they are few.
template <class T>
inline bool within(Span<const T> places, int64_t n) {
    for (int64_t k = 0; k < places.size; ++k)
        if (places[k] < 0 || places[k] >= n) return false;
    return true;
}

inline bool fit(const CellProblem& p, Span<int32_t> result) {
    return p.cell.size == p.image.size && p.weights.size % LANES == 0 && p.flags.size == p.label.size * p.n_flags &&
           within(p.label, p.n_classes) && result.size == p.n_classes * p.n_flags * LANES;
}

inline bool fit(const ReplicatePlan& p) {
    const int64_t n_views = p.group_of.size, n_cells = n_views * p.n_classes, n_places = p.row_offsets.size - 1;
    const int64_t n_groups = p.n_classes ? n_places / p.n_classes : 0;
    return p.n_classes > 0 && n_places >= 0 && n_places % p.n_classes == 0 && p.weights.size == p.n_images * LANES &&
           p.mark_offsets.size == n_places + 1 && cover(p.row_offsets, p.row_image.size) &&
           cover(p.mark_offsets, p.mark_at.size) && p.hit_offsets.size == n_cells + 1 &&
           p.point_offsets.size == n_cells + 1 && cover(p.hit_offsets, p.hit_image.size) &&
           cover(p.point_offsets, p.point_hits.size) && p.point_mark.size == p.point_hits.size &&
           within(p.group_of, n_groups) && within(p.mark_at, p.row_image.size) && within(p.point_mark, p.mark_at.size) &&
           within(p.point_hits, p.hit_image.size + 1);
}

inline bool fit(const PrecisionProblem& p) {
    return p.n_replicates >= 0 && p.n_replicates <= LANES && p.rounded_up.size <= 2 * 64 &&
           p.positives.size == p.n_replicates * (p.plan.point_offsets.size - 1) && fit(p.plan);
}

inline bool fit(const PrecisionProblem& p, Span<double> result) {
    return result.size == p.positives.size && fit(p);
}

inline bool fit_curve(const PrecisionProblem& p, Span<double> result) {
    return p.rounded_up.size > 0 && p.enveloped && fit(p) &&
           result.size == (p.plan.point_offsets.size - 1) * p.rounded_up.size * LANES;
}

inline bool fit(const TallyTable& p, int64_t n_pieces) {
    const int64_t n = p.owner.size, bounds = n_pieces + 1;
    return p.pair_offsets.size == bounds && p.missed_offsets.size == bounds && p.extra_offsets.size == bounds &&
           cover(p.pair_offsets, n) && cover(p.missed_offsets, p.missed_owner.size) &&
           cover(p.extra_offsets, p.extra_owner.size) && p.right.size == n && p.near.size == n && p.shape.size == n &&
           within(p.owner, p.n_owners) && within(p.missed_owner, p.n_owners) && within(p.extra_owner, p.n_owners);
}

inline bool fit(Span<const uint8_t> weights, const TallyTable& p, Span<double> result) {
    return weights.size == (p.pair_offsets.size - 1) * LANES && fit(p, p.pair_offsets.size - 1) &&
           result.size == 6 * p.n_owners * LANES;
}

inline bool fit(const TallyProblem& p, Span<double> result) {
    return p.weights.size == p.n_replicates * p.n_pieces && fit(p.table, p.n_pieces) &&
           result.size == p.n_replicates * 6 * p.table.n_owners;
}

inline bool fit(const BinTable& t) {
    return t.positives.size == VOXEL_BINS && t.negatives.size == VOXEL_BINS && t.lowest.size == VOXEL_BINS &&
           t.highest.size == VOXEL_BINS;
}

inline bool fit(const PooledProblem& p, Span<double> result) {
    return p.n_replicates >= 0 && p.positives.size == p.n_replicates * p.inexact.size &&
           p.negatives.size == p.positives.size && result.size == POOLED_SUMS * p.n_replicates;
}

inline bool fit(const VoxelWalk& w, int64_t n_groups) {
    return w.doubled.size == n_groups && w.hits.size == n_groups && w.alarms.size == n_groups &&
           w.precision.size == n_groups && w.threshold.size == n_groups;
}

inline bool fit(const VoxelRows& v) {
    if (v.item != 1 && v.item != 2 && v.item != 4 && v.item != 8) return false;
    return v.bytes.size % v.item == 0 && v.width >= 1 && v.size() % v.width == 0;
}

// Width, height[, depth].
inline bool is_size(Span<const int64_t> size) {
    for (int64_t k = 0; k < size.size; ++k)
        if (size[k] < 1) return false;
    return size.size == 2 || size.size == 3;
}

// Runs that end within n voxels.
inline bool inside(Span<const int64_t> start, Span<const int64_t> length, int64_t n) {
    if (start.size != length.size) return false;
    for (int64_t k = 0; k < start.size; ++k)
        if (start[k] < 0 || length[k] < 0 || length[k] > n - start[k]) return false;
    return true;
}

inline bool fit(const ComponentProblem& p, Span<int64_t> number) {
    const int64_t n = p.start.size;
    return p.length.size == n && (p.value.size == 0 || p.value.size == n) && is_size(p.size) && p.steps.size % 3 == 0 &&
           p.steps.size <= 3 * MOST_STEPS && number.size == n;
}

inline bool fit(const RunTable& t) { return t.start.size == t.length.size && cover(t.offsets, t.start.size); }

inline bool fit(const PairProblem& p, Span<int64_t> result) {
    return fit(p.a) && fit(p.b) && p.columns.size == p.rows.size && result.size == p.rows.size &&
           within(p.rows, p.a.offsets.size - 1) && within(p.columns, p.b.offsets.size - 1);
}

inline bool fit(const RecordColumns& c) {
    const int64_t n = c.keys.size;
    return c.image.size == n && c.category.size == n && c.id.size == n && c.box.size == 4 * n && c.score.size == n &&
           c.area.size == n && c.crowd.size == n && c.ignore.size == n;
}

inline bool fit(const OwnedRuns& r) { return r.length.size == r.start.size && r.owner.size == r.start.size; }

}  // namespace calipers
