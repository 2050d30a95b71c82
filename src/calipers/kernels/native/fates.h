// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rows.h"

namespace calipers {

// In the order of ASSIGNMENTS in route.py.
enum class Assignment : int {
    by_score,
    by_overlap,
    many_to_one,
    many_to_one_counted_first,
    per_reference_argmax,
    optimal,
};

// Ranges of areas, closed at both ends.
struct SizeRanges {
    Span<const double> bounds;  // (A, 2)

    int64_t number() const { return bounds.size / 2; }
    bool leave_out(int64_t range, double area) const {
        return (area < bounds[2 * range]) | (area > bounds[2 * range + 1]);
    }
};

// Everything that decides the fates; see the NumPy twin for the meaning of each.
struct FateProblem {
    Span<const int32_t> pair_reference, pair_prediction;  // sorted by prediction
    Span<const double> pair_similarity;
    Span<const int64_t> reference_offsets, prediction_offsets;
    Span<const int32_t> rank;
    Span<const double> score;
    Span<const int32_t> cell;  // of each prediction in its image: its class, or 0 where classes do not matter
    Span<const uint8_t> absent;
    Assignment assignment;
    Span<const double> cutoffs;   // (V,)
    Span<const int64_t> size;     // (V,) size range of each view
    SizeRanges ranges;
    Span<const double> reference_area, prediction_area;
    Span<const uint8_t> ignore, crowd;  // references
};

// Fates are laid out object by object, all views of one side by side: they are decided together and read together.
struct FateTables {
    Span<int8_t> reference;   // (n_references, V)
    Span<int8_t> prediction;  // (n_predictions, V)
    Span<int32_t> partner;
    Span<double> similarity;
    Span<uint8_t> kind;  // (n_predictions,) see kinds.h; comes with the work
};

// Returns the views that each kind of prediction row counts.
std::vector<uint64_t> decide(const FateProblem& problem, const FateTables& tables, int threads);

// (V, 2, K): how many hits and how many counted objects every class has, among those with rank < limit.
struct TotalsProblem {
    FateRows fates;            // of V columns
    Span<const uint8_t> kind;  // (n,) and what the kinds count, see kinds.h
    Span<const uint64_t> kinds;
    Span<const int32_t> label, rank;
    int64_t n_views, n_classes, limit;
};

void totals(const TotalsProblem& problem, Span<int64_t> result);

}  // namespace calipers
