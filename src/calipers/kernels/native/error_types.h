// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Kinds of objects, as in kernels/error_types.py.
enum ErrorKind : int8_t { ABSENT, RIGHT, CLS, LOC, BOTH, DUP, BKG, MISS, MENDABLE };

// What decides the kinds; see the NumPy twin for the meaning of each.
struct ErrorProblem {
    Span<const int32_t> pair_reference, pair_prediction;  // sorted by prediction, then reference
    Span<const double> pair_similarity;
    Span<const int64_t> reference_offsets, prediction_offsets;
    Span<const int32_t> reference_label, prediction_label, rank;
    Span<const uint8_t> absent, ignored;
    Span<const double> limits;  // background, foreground
};

struct ErrorTables {
    Span<int8_t> reference, prediction;
    Span<uint8_t> covered, mended;
    Span<int32_t> partner;
    Span<double> similarity;
};

void error_types(const ErrorProblem& problem, const ErrorTables& tables, int threads);

}  // namespace calipers
