// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pairs.h"

namespace calipers {

// The boxes of one model with their scores.
struct Member {
    Side boxes;
    Span<const double> score;
};

// The places of these names in kernels/route.py are the same.
enum FusionMethod : int64_t { SUPPRESS, MERGE_ABOUT_BEST, FUSE, N_FUSION_METHODS };
enum Confidence : int64_t { AVERAGE, BEST, BOX_AND_MODEL, ABSENT_MODEL_AWARE, N_CONFIDENCES };

struct FusionProblem {
    std::vector<Member> members;
    Span<const double> factors;  // by which the scores of each member are multiplied
    int64_t method, confidence, overflow;
    double iou_threshold;   // a box joins a cluster if their IoU is above it
    double skip_threshold;  // boxes with a score below it are left out, before scores are multiplied
};

// Room for what fusion leaves, as columns, best boxes of an image first. There may be as many boxes as all members have.
struct FusedColumns {
    Span<int64_t> count;  // per image
    Span<int32_t> label;
    Span<double> corners, extent, score;
    Span<int64_t> row;  // in the tables of all members, one below the other
    int64_t n = 0;      // boxes that were written
};

void fused_boxes(const FusionProblem& p, int dimensions, FusedColumns& columns, int threads);

// The scores that soft-NMS gives; with a sigma above 0 they fall by a gaussian, else linearly above the threshold.
struct DecayProblem {
    Side boxes;
    Span<const double> score;
    double threshold, sigma;
};
void decayed_scores(const DecayProblem& p, int dimensions, Span<double> lowered, int threads);

}  // namespace calipers
