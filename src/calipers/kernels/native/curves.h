// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rows.h"

namespace calipers {

// Predictions in the order of a curve: by class, then descending score, equal scores in input order. `ends` is the
// position at which the operating point of each prediction is read off, the end of its block of ties; without `blocks`
// it is its own, and `ends` stays empty.
void ranking(Span<const double> score, Span<const int32_t> label, int64_t n_classes, bool blocks, Span<int32_t> order,
             Span<int64_t> offsets, Span<int32_t> ends, int threads);

struct CurveProblem {
    FateRows fates;            // of V columns, in input order
    Span<const uint8_t> kind;   // (N,) and what the kinds count, see kinds.h
    Span<const uint64_t> kinds;
    Span<const int64_t> views;  // (V,) which columns of the fates
    Span<const int32_t> order, ends;  // no ends: every prediction is an operating point
    Span<const int64_t> offsets;
    Span<const int64_t> positives;  // (V, K)
    int64_t n_views, n_columns, n_classes;
};

enum class Interpolation : int { recalls, envelope, steps };

// (V, K), every image counted once; see replicates.h for weights
void average_precision(const CurveProblem& problem, Interpolation kind, Span<const double> recalls,
                       Span<double> result, int threads);

}  // namespace calipers
