// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pairs.h"
#include "tally.h"

namespace calipers {

// What RoDeO keeps of some images; see metrics/rodeo_paths.py for the meaning of the columns.
struct FoundPaths {
    std::vector<int64_t> image, n_pairs, n_missed, n_extra;  // per piece
    std::vector<double> start;
    std::vector<int32_t> reference_label, prediction_label;  // per pair
    std::vector<double> distance, shape;
    std::vector<int32_t> missed, extra;  // labels
};

// One entry per task of images; `presence` is (n_images, 3). Without `weight` for all class weights in [0, 1], else for one
// per image.
std::vector<FoundPaths> rodeo_paths(const Side& reference, const Side& prediction, int64_t n_classes, int dimensions,
                                    Span<const double> weight, Span<int64_t> presence, int threads);

// The sums of every replicate.
struct TallyProblem {
    Span<const int64_t> weights;  // (R, n_pieces)
    TallyTable table;
    int64_t n_replicates, n_pieces;
};

// (R, 6, n_owners)
void rodeo_tally(const TallyProblem& problem, Span<double> result, int threads);

}  // namespace calipers
