// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pairs.h"

namespace calipers {

// Boxes of images with scores, the IoU above which a box joins a cluster, and whether the box of a cluster is the average of
// its members or their leader.
struct ClusterProblem {
    Side boxes;
    Span<const double> score;
    double threshold;
    bool moving;
};

// The leader of every box and, where clusters move, the box of each in the row of its leader; other rows hold the boxes
// themselves. Where they do not move, nothing is merged.
void clusters(const ClusterProblem& p, int dimensions, Span<int64_t> leader, Span<double> merged, int threads);

}  // namespace calipers
