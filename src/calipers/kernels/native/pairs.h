// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// One side of a comparison: objects of images, their boxes as rows of 2 d corners.
struct Side {
    Span<const int64_t> offsets;
    Span<const int32_t> label;
    Span<const double> boxes;
    Span<const double> extent;
};

struct FoundPairs {
    std::vector<int32_t> reference, prediction;
    std::vector<double> similarity;
};

// Overlapping pairs of every image, sorted by prediction, then reference; one entry per task of images. Pairs are of one class
// unless there are 0 classes.
std::vector<FoundPairs> overlapping(const Side& reference, const Side& prediction, Span<const uint8_t> crowd,
                                    int64_t n_classes, int dimensions, int threads);

// Place of every prediction in its image (and class, unless there are 0), best score first, equal scores in input order.
void ranks(Span<const int64_t> offsets, Span<const int32_t> label, Span<const double> score, int64_t n_classes,
           Span<int32_t> rank, int threads);

}  // namespace calipers
