// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Predictions in the order of a curve: by class, then descending score, equal scores in input order. `ends` is the
// position at which the operating point of each prediction is read off: its own, or the end of its block of ties.
void ranking(Span<const double> score, Span<const int32_t> label, int64_t n_classes, bool blocks, Span<int64_t> order,
             Span<int64_t> offsets, Span<int64_t> ends, int threads);

struct CurveProblem {
    Span<const int8_t> fates;  // (N, V of the evidence) in input order
    Span<const uint8_t> kind;   // (N,) and what the kinds count, see kinds.h
    Span<const uint64_t> kinds;
    Span<const int64_t> views;  // (V,) which columns of the fates
    Span<const int64_t> order, offsets, ends;
    Span<const int64_t> image;      // (N,)
    Span<const int64_t> weights;    // (R, n_images)
    Span<const int64_t> positives;  // (R, V, K)
    int64_t n_replicates, n_views, n_columns, n_classes, n_images;
    bool plain;  // all weights are 1
};

enum class Interpolation : int { recalls, envelope, steps };

// (R, V, K)
void average_precision(const CurveProblem& problem, Interpolation kind, Span<const double> recalls,
                       Span<double> result, int threads);

// (R, V, K, n) hits at no more than `allowed` (R, n) false alarms
void hits_at(const CurveProblem& problem, Span<const double> allowed, int64_t n, Span<int64_t> result, int threads);

}  // namespace calipers
