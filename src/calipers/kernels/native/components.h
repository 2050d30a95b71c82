// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Sorted, disjoint runs of one image. Steps are rows of down, deep, reach, see kernels/components.py: NEIGHBOURS.
struct ComponentProblem {
    Span<const int64_t> start, length;
    Span<const int64_t> value;  // (m,), or (0,) if all are alike
    Span<const int64_t> size;   // (2|3,) width, height[, depth]
    Span<const int64_t> steps;  // (k, 3)
};

constexpr int64_t MOST_STEPS = 4;

// Numbers the components of the runs in the order of their first voxels; returns how many there are.
int64_t components(const ComponentProblem& problem, Span<int64_t> number, int threads);

}  // namespace calipers
