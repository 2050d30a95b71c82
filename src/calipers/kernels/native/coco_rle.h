// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runs.h"

namespace calipers {

// Compressed run lengths of objects, and what becomes of them; see the NumPy twin for the faults.
struct RunTexts {
    Span<const int64_t> offsets;  // (n + 1,) of the characters
    Span<const uint8_t> text;
    Span<int64_t> count_offsets;  // (n + 1,)
    Span<int64_t> counts;         // as many places as characters
    Span<int8_t> faults;          // (n,)
};

// Returns how many counts there are.
int64_t decode_text(const RunTexts& texts);

// Runs along the fast axis of pictures, (n, 2) pixels along the fast and the slow axis.
struct TurnProblem {
    RunTable runs;
    Span<const int64_t> size;

    int64_t fast(int64_t object) const { return size[2 * object]; }
    int64_t slow(int64_t object) const { return size[2 * object + 1]; }
};

// How many runs along the slow axis every object has.
void turned_counts(const TurnProblem& problem, Span<int64_t> counts, int threads);

// Those runs; throws if an object has others than its place in the offsets says.
void turned_runs(const TurnProblem& problem, Span<const int64_t> offsets, Span<int64_t> start, Span<int64_t> length,
                 int threads);

}  // namespace calipers
