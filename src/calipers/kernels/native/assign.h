// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Smallest total cost of a one-to-one assignment, by shortest augmenting paths (Crouse 2016). Equal costs are resolved
// as scipy.optimize.linear_sum_assignment resolves them, because RoDeO's published values depend on it.
class Hungarian {
public:
    // `cost` is row-major; afterwards column_of[row] is the partner of each row, or -1.
    void solve(const double* cost, int64_t rows, int64_t columns, std::vector<int64_t>& column_of);

private:
    int64_t augment(const double* cost, int64_t from, int64_t columns, double& reached);
    std::vector<double> transposed_, row_price_, column_price_, distance_;
    std::vector<int64_t> via_, column_of_row_, row_of_column_, left_;
    std::vector<uint8_t> row_seen_, column_seen_;
};

struct FoundPieces {
    std::vector<int64_t> image, size, pair;
    std::vector<double> start;
};

// The best assignment of every image as a function of the class weight; see kernels/parametric.py. Without `weight` for
// all of [0, 1], else at one weight per image. One entry per task of images.
std::vector<FoundPieces> best_assignments(Span<const double> gain, Span<const uint8_t> same,
                                          Span<const int64_t> offsets, Span<const int64_t> shape,
                                          Span<const double> weight, int threads);

}  // namespace calipers
