// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tally.h"

namespace calipers {

// Replicates are walked side by side, one byte of weight each.
constexpr int LANES = 64;

// See kernels/replicates.py for the meaning of each.
struct ReplicatePlan {
    Span<const int64_t> group_of;  // (V,)
    Span<const int32_t> row_image;
    Span<const int64_t> row_offsets, mark_at, mark_offsets;  // by group and class
    Span<const int32_t> hit_image;
    Span<const int64_t> hit_offsets, point_hits, point_mark, point_offsets;  // by view and class
    Span<const uint8_t> weights;                                             // (n_images, LANES)
    int64_t n_classes, n_images;
};

struct PrecisionProblem {
    ReplicatePlan plan;
    Span<const int64_t> positives;   // (V, K, R)
    Span<const uint8_t> rounded_up;  // (n_recalls,) which recalls are larger than the quotient; empty for the area
    int64_t n_replicates, enveloped;
};

// (V, K, R)
void replicate_precision(const PrecisionProblem& problem, Span<double> result, int threads);

// (V, K, n_recalls, LANES): the interpolated precision at every recall
void replicate_curve(const PrecisionProblem& problem, Span<double> result, int threads);

// (V, K, n, LANES) hits at no more than `allowed` (n, LANES) false alarms
void replicate_hits(const ReplicatePlan& plan, Span<const double> allowed, int64_t n, Span<int32_t> result, int threads);

// (6, n_owners, LANES) for weights (n_pieces, LANES)
void lane_tally(Span<const uint8_t> weights, const TallyTable& table, Span<double> result);

// See kernels/cells.py for the meaning of each.
struct CellProblem {
    Span<const int32_t> cell, image;  // (n,) of every object
    Span<const int64_t> label;        // (n_cells,)
    Span<const uint8_t> flags;        // (n_cells, n_flags)
    Span<const uint8_t> weights;      // (n_images, LANES)
    int64_t n_flags, n_classes;
};

// (K, n_flags, LANES): the weight of the objects of a class whose cell has the flag.
void cell_totals(const CellProblem& problem, Span<int32_t> result);

// The random bits of NumPy's Philox with the key (key, stream).
void random_words(uint64_t key, uint64_t stream, Span<uint64_t> words);

// Draws as many units as there are, with replacement, and counts how often each was; returns whether the random bits and
// a byte were enough.
bool count_draws(Span<const uint64_t> raw, Span<uint8_t> counts);

// (rows, columns) -> (columns, rows)
void transpose(Span<const uint8_t> from, int64_t rows, int64_t columns, Span<uint8_t> to);

}  // namespace calipers
