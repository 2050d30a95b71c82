// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runs.h"

namespace calipers {

// Runs in any order, each with the object that it belongs to; those of one object do not overlap.
struct OwnedRuns {
    Span<const int64_t> start, length, owner;
};

struct SharedVoxels {
    std::vector<int64_t> one, other, voxels;
};

// How many voxels object rows[k] of a and object columns[k] of b share.
struct PairProblem {
    RunTable a, b;
    Span<const int64_t> rows, columns;
};
void common_voxels(const PairProblem& problem, Span<int64_t> result, int threads);

// All owners that share a voxel, sorted.
SharedVoxels intersections(const OwnedRuns& a, const OwnedRuns& b);

}  // namespace calipers
