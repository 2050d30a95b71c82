// SPDX-License-Identifier: Apache-2.0
// Whether the buffers of a call fit each other, and whether what they hold (labels, rows, images, ranks) stays within the
// tables that it leads into: then no twin reads or writes beyond a buffer, whoever calls it. Cohorts are checked when they are
// built; these checks are for tables that were made by other ways. One pass over a column costs next to nothing.
#pragma once

#include <limits>

#include "coco_records.h"
#include "coco_rle.h"
#include "components.h"
#include "curves.h"
#include "error_types.h"
#include "fates.h"
#include "fusion.h"
#include "kinds.h"
#include "pairs.h"
#include "pairwise.h"
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

// Places in a table of n. No branch in the loop, so that it is vectorised.
template <class T>
inline bool within(Span<const T> places, int64_t n) {
    bool outside = false;
    for (int64_t k = 0; k < places.size; ++k) outside |= (places[k] < 0) | (static_cast<int64_t>(places[k]) >= n);
    return !outside;
}

// A number of views, classes or the like that is given beside the buffers: products of two of them stay whole numbers.
inline bool is_count(int64_t n) { return n >= 0 && n <= int64_t{1} << 30; }

// Numbers that can be sorted.
inline bool has_order(Span<const double> values) {
    bool nan = false;
    for (int64_t k = 0; k < values.size; ++k) nan |= values[k] != values[k];
    return !nan;
}

// Labels of objects that are compared within classes; without classes nobody looks at them.
inline bool are_labels(Span<const int32_t> label, int64_t n_classes) {
    return is_count(n_classes) && (n_classes == 0 || within(label, n_classes));
}

inline bool fit(const Side& side, int64_t dimensions, int64_t n_classes) {
    const int64_t n = side.label.size;
    return cover(side.offsets, n) && side.extent.size == n && side.boxes.size == n * 2 * dimensions &&
           are_labels(side.label, n_classes);
}

inline bool fit(const Side& reference, const Side& prediction, int64_t dimensions, int64_t n_classes) {
    return (dimensions == 2 || dimensions == 3) && fit(reference, dimensions, n_classes) &&
           fit(prediction, dimensions, n_classes) && reference.offsets.size == prediction.offsets.size;
}

// Boxes that are fused, with scores that can be sorted, also when they are multiplied. Labels are compared and lead into no
// table: any will do, so there are "0 classes".
inline bool fit(const Side& boxes, Span<const double> score, int64_t dimensions, double factor) {
    bool nan = false;
    for (int64_t k = 0; k < score.size; ++k) nan |= score[k] * factor != score[k] * factor;
    return (dimensions == 2 || dimensions == 3) && fit(boxes, dimensions, 0) && score.size == boxes.label.size && !nan;
}

inline bool fit(const FusionProblem& p, const FusedColumns& c, int64_t dimensions) {
    int64_t n = 0;
    for (size_t m = 0; m < p.members.size(); ++m) {
        const Member& member = p.members[m];
        if (!fit(member.boxes, member.score, dimensions, p.factors[m]) ||
            member.boxes.offsets.size != p.members[0].boxes.offsets.size)
            return false;
        n += member.score.size;
    }
    return n <= std::numeric_limits<int32_t>::max() && p.method >= 0 && p.method < N_FUSION_METHODS && p.confidence >= 0 &&
           p.confidence < N_CONFIDENCES && c.count.size == p.members[0].boxes.offsets.size - 1 && c.label.size == n &&
           c.corners.size == n * 2 * dimensions && c.extent.size == n && c.score.size == n && c.row.size == n;
}

// Pairs in the order of their predictions, each with a reference of the same image; the offsets are known to cover.
inline bool are_pairs(Span<const int32_t> reference, Span<const int32_t> prediction, Span<const double> similarity,
                      Span<const int64_t> reference_offsets, Span<const int64_t> prediction_offsets) {
    const int64_t n = prediction_offsets[prediction_offsets.size - 1];
    if (reference.size != prediction.size || similarity.size != prediction.size || !within(prediction, n)) return false;
    for (int64_t k = 0, image = 0; k < prediction.size; ++k) {
        if (k && prediction[k] < prediction[k - 1]) return false;
        while (prediction_offsets[image + 1] <= prediction[k]) ++image;
        if (reference[k] < reference_offsets[image] || reference[k] >= reference_offsets[image + 1]) return false;
    }
    return has_order(similarity);
}

// Ranks that number the predictions of every image, each once.
inline bool are_ranks(Span<const int32_t> rank, Span<const int64_t> offsets) {
    std::vector<uint8_t> used(static_cast<size_t>(rank.size), 0);
    for (int64_t i = 0; i + 1 < offsets.size; ++i)
        for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
            if (rank[k] < 0 || rank[k] >= offsets[i + 1] - offsets[i]) return false;
            uint8_t& mark = used[static_cast<size_t>(offsets[i] + rank[k])];
            if (mark) return false;
            mark = 1;
        }
    return true;
}

// Numbers of kinds of rows, or a row of its own.
inline bool are_kinds(Span<const uint8_t> kind, int64_t n_kinds) {
    bool outside = n_kinds > MOST_KINDS;
    for (int64_t k = 0; k < kind.size; ++k) outside |= (kind[k] >= n_kinds) & (kind[k] != FULL_ROW);
    return !outside;
}

inline bool fit(const FateProblem& p, const FateTables& t) {
    const int64_t n_views = p.cutoffs.size, n_references = p.crowd.size, n_predictions = p.score.size;
    return p.size.size == n_views && p.ranges.bounds.size % 2 == 0 && within(p.size, p.ranges.number()) &&
           cover(p.reference_offsets, n_references) && cover(p.prediction_offsets, n_predictions) &&
           p.reference_offsets.size == p.prediction_offsets.size &&
           are_pairs(p.pair_reference, p.pair_prediction, p.pair_similarity, p.reference_offsets, p.prediction_offsets) &&
           has_order(p.score) && has_order(p.cutoffs) && p.rank.size == n_predictions &&
           p.cell.size == n_predictions && p.absent.size == n_predictions &&
           p.reference_area.size == n_references && p.ignore.size == n_references &&
           p.prediction_area.size == n_predictions &&
           t.reference.size == n_references * n_views && t.prediction.size == n_predictions * n_views &&
           t.partner.size == n_predictions && t.similarity.size == n_predictions && t.kind.size == n_predictions;
}

inline bool fit(const ErrorProblem& p, const ErrorTables& t) {
    const int64_t n_references = p.ignored.size, n = p.absent.size;
    return p.limits.size == 2 && cover(p.reference_offsets, n_references) && cover(p.prediction_offsets, n) &&
           p.reference_offsets.size == p.prediction_offsets.size &&
           are_pairs(p.pair_reference, p.pair_prediction, p.pair_similarity, p.reference_offsets, p.prediction_offsets) &&
           p.reference_label.size == n_references && p.prediction_label.size == n && p.rank.size == n &&
           are_ranks(p.rank, p.prediction_offsets) && t.reference.size == n_references &&
           t.prediction.size == n && t.covered.size == n && t.mended.size == n && t.partner.size == n &&
           t.similarity.size == n;
}

// Whether there is a row of fates for each of n objects.
inline bool has_rows(const FateRows& fates, int64_t n, int64_t n_views) {
    if (fates.place.size == 0) return fates.rows.size == n * n_views;
    const int64_t n_rows = n_views ? fates.rows.size / n_views : 0;
    return fates.place.size == n && fates.rows.size == n_rows * n_views && within(fates.place, n_rows);
}

inline bool fit(const TotalsProblem& p, Span<int64_t> result) {
    const int64_t n = p.label.size;
    return is_count(p.n_views) && is_count(p.n_classes) && has_rows(p.fates, n, p.n_views) && p.kind.size == n &&
           are_kinds(p.kind, p.kinds.size) && within(p.label, p.n_classes) && (p.rank.size == 0 || p.rank.size == n) &&
           result.size == p.n_views * 2 * p.n_classes;
}

inline bool fit(const CurveProblem& p) {
    const int64_t n = p.kind.size;
    return is_count(p.n_columns) && is_count(p.n_views) && is_count(p.n_classes) && within(p.views, p.n_columns) &&
           has_rows(p.fates, n, p.n_columns) && are_kinds(p.kind, p.kinds.size) && p.views.size == p.n_views &&
           p.order.size == n && within(p.order, n) && (p.ends.size == n || p.ends.size == 0) &&
           p.offsets.size == p.n_classes + 1 && cover(p.offsets, n) &&
           p.positives.size == p.n_views * p.n_classes;
}

inline bool fit(const CellProblem& p, Span<int32_t> result) {
    return is_count(p.n_flags) && is_count(p.n_classes) && p.cell.size == p.image.size && p.weights.size % LANES == 0 &&
           within(p.cell, p.label.size) && within(p.image, p.weights.size / LANES) &&
           p.flags.size == p.label.size * p.n_flags && within(p.label, p.n_classes) && result.size % LANES == 0 &&
           result.size / LANES == p.n_classes * p.n_flags;
}

// Whether the points of every cell lie on marks of its group and class.
inline bool marked(const ReplicatePlan& p) {
    for (int64_t v = 0; v < p.group_of.size; ++v)
        for (int64_t c = 0; c < p.n_classes; ++c) {
            const int64_t cell = v * p.n_classes + c, place = p.group_of[v] * p.n_classes + c;
            for (int64_t k = p.point_offsets[cell]; k < p.point_offsets[cell + 1]; ++k)
                if (p.point_mark[k] < p.mark_offsets[place] || p.point_mark[k] >= p.mark_offsets[place + 1]) return false;
        }
    return true;
}

inline bool fit(const ReplicatePlan& p) {
    if (!is_count(p.n_classes) || !is_count(p.n_images)) return false;
    const int64_t n_views = p.group_of.size, n_cells = n_views * p.n_classes, n_places = p.row_offsets.size - 1;
    const int64_t n_groups = p.n_classes ? n_places / p.n_classes : 0;
    return p.n_classes > 0 && n_places >= 0 && n_places % p.n_classes == 0 && p.weights.size == p.n_images * LANES &&
           p.mark_offsets.size == n_places + 1 && cover(p.row_offsets, p.row_image.size) &&
           cover(p.mark_offsets, p.mark_at.size) && p.hit_offsets.size == n_cells + 1 &&
           p.point_offsets.size == n_cells + 1 && cover(p.hit_offsets, p.hit_image.size) &&
           cover(p.point_offsets, p.point_hits.size) && p.point_mark.size == p.point_hits.size &&
           within(p.group_of, n_groups) && within(p.mark_at, p.row_image.size) && marked(p) &&
           within(p.point_hits, p.hit_image.size + 1) && within(p.row_image, p.n_images) && within(p.hit_image, p.n_images);
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
    return is_count(p.n_owners) && p.pair_offsets.size == bounds && p.missed_offsets.size == bounds && p.extra_offsets.size == bounds &&
           cover(p.pair_offsets, n) && cover(p.missed_offsets, p.missed_owner.size) &&
           cover(p.extra_offsets, p.extra_owner.size) && p.right.size == n && p.near.size == n && p.shape.size == n &&
           within(p.owner, p.n_owners) && within(p.missed_owner, p.n_owners) && within(p.extra_owner, p.n_owners);
}

inline bool fit(Span<const uint8_t> weights, const TallyTable& p, Span<double> result) {
    return weights.size == (p.pair_offsets.size - 1) * LANES && fit(p, p.pair_offsets.size - 1) &&
           result.size == 6 * p.n_owners * LANES;
}

inline bool fit(const TallyProblem& p, Span<double> result) {
    return is_count(p.n_replicates) && is_count(p.n_pieces) && p.weights.size == p.n_replicates * p.n_pieces &&
           fit(p.table, p.n_pieces) && result.size == p.n_replicates * 6 * p.table.n_owners;
}

inline bool fit(const BinTable& t) {
    return t.positives.size == VOXEL_BINS && t.negatives.size == VOXEL_BINS && t.lowest.size == VOXEL_BINS &&
           t.highest.size == VOXEL_BINS;
}

inline bool fit(const PooledProblem& p, Span<double> result) {
    return is_count(p.n_replicates) && p.positives.size == p.n_replicates * p.inexact.size &&
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

// Voxels of an image of that size; -1 if there is no such number.
inline int64_t voxels_of(Span<const int64_t> size) {
    int64_t n = 1;
    for (int64_t k = 0; k < size.size; ++k) {
        if (size[k] < 1 || n > std::numeric_limits<int64_t>::max() / size[k]) return -1;
        n *= size[k];
    }
    return n;
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
    return inside(p.start, p.length, voxels_of(p.size)) && (p.value.size == 0 || p.value.size == n) && is_size(p.size) &&
           p.steps.size % 3 == 0 && p.steps.size <= 3 * MOST_STEPS && number.size == n;
}

// Far below the largest number, so that the end of a run is one too.
constexpr int64_t MOST_VOXELS = int64_t{1} << 62;

inline bool fit(const RunTable& t) { return inside(t.start, t.length, MOST_VOXELS) && cover(t.offsets, t.start.size); }

// Runs of every object in ascending order, none over another, inside a picture whose pixels can be counted.
inline bool fit(const TurnProblem& p) {
    constexpr int64_t MOST_SIDE = int64_t{1} << 31;
    const int64_t n = p.runs.offsets.size - 1;
    if (!fit(p.runs) || p.size.size != 2 * n) return false;
    for (int64_t k = 0; k < n; ++k) {
        if (p.fast(k) < 0 || p.slow(k) < 0 || p.fast(k) >= MOST_SIDE || p.slow(k) >= MOST_SIDE) return false;
        int64_t free = 0;
        for (int64_t j = p.runs.offsets[k]; j < p.runs.offsets[k + 1]; ++j) {
            if (p.runs.start[j] < free) return false;
            free = p.runs.start[j] + p.runs.length[j];
        }
        if (free > p.fast(k) * p.slow(k)) return false;
    }
    return true;
}

inline bool fit(const PairProblem& p, Span<int64_t> result) {
    return fit(p.a) && fit(p.b) && p.columns.size == p.rows.size && result.size == p.rows.size &&
           within(p.rows, p.a.offsets.size - 1) && within(p.columns, p.b.offsets.size - 1);
}

inline bool fit(const RecordColumns& c) {
    const int64_t n = c.keys.size;
    return c.image.size == n && c.category.size == n && c.id.size == n && c.box.size == 4 * n && c.score.size == n &&
           c.area.size == n && c.crowd.size == n && c.ignore.size == n;
}

inline bool fit(const OwnedRuns& r) { return inside(r.start, r.length, MOST_VOXELS) && r.owner.size == r.start.size; }

// Orders that hold every instance once, and for each the number of instances below it; equal ones only where that is said.
inline bool are_places(const KendallProblem& p) {
    std::vector<int64_t> row_of(static_cast<size_t>(p.n), -1);
    for (int64_t row = 0; row < p.tied.size; ++row) {
        const int32_t *order = p.order.data + row * p.n, *below = p.below.data + row * p.n;
        int64_t group = 0;
        for (int64_t k = 0; k < p.n; ++k) {
            if (order[k] < 0 || order[k] >= p.n || row_of[static_cast<size_t>(order[k])] == row) return false;
            row_of[static_cast<size_t>(order[k])] = row;
            const int64_t place = below[order[k]];
            if (place != k && (place != group || !p.tied[row])) return false;
            group = place;
        }
    }
    return true;
}

}  // namespace calipers
