// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

enum class Assignment : int { by_score, by_overlap, many_to_one, per_reference_argmax };

// Everything that decides the fates; see the NumPy twin for the meaning of each.
struct FateProblem {
    Span<const int32_t> pair_reference, pair_prediction;  // sorted by prediction
    Span<const double> pair_similarity;
    Span<const int64_t> reference_offsets, prediction_offsets;
    Span<const int32_t> rank;
    Span<const double> score;
    Span<const uint8_t> absent;
    Assignment assignment;
    Span<const double> cutoffs;   // (V,)
    Span<const int64_t> size;     // (V,) size range of each view
    Span<const uint8_t> ignored;  // (A, n_references)
    Span<const uint8_t> outside;  // (A, n_predictions)
    Span<const uint8_t> crowd;
    bool forgiven;
};

struct FateTables {
    Span<int8_t> reference;   // (V, n_references)
    Span<int8_t> prediction;  // (V, n_predictions)
    Span<int32_t> partner;
    Span<double> similarity;
};

void decide(const FateProblem& problem, const FateTables& tables, int threads);

// (R, V, N_FATES, K) weights of the objects of every fate and class.
void totals(Span<const int8_t> fates, Span<const int32_t> label, Span<const int64_t> image, Span<const int64_t> weights,
            int64_t n_replicates, int64_t n_views, int64_t n_classes, bool plain, Span<int64_t> result, int threads);

}  // namespace calipers
