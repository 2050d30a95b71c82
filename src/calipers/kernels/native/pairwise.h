// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Where the instances of every map stand in its order; (K, N) each, see kernels/rank_rows.py.
struct RowPlaces {
    Span<int32_t> order, below, doubled;
};

// Pairs of maps whose discordant instances are counted.
struct KendallProblem {
    Span<const int32_t> order, below;       // (K, N)
    Span<const uint8_t> tied;               // (K,)
    Span<const int64_t> first, second;      // (P,)
    int64_t n;
};

// Positives of every model, of every pair, and of how many models; (T, K), (T, P), (T, K + 1).
struct JointTable {
    Span<int64_t> ones, both, called;
};

void row_places(Span<const double> values, int64_t n_rows, const RowPlaces& found, int threads);

// (P,) pairs of instances that two maps put in opposite orders, and pairs that are tied in both.
void kendall_pairs(const KendallProblem& problem, Span<int64_t> discordant, Span<int64_t> joint, int threads);

void joint_counts(Span<const double> values, int64_t n_rows, Span<const double> thresholds, const JointTable& table, int threads);

}  // namespace calipers
