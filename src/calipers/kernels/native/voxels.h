// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

constexpr int32_t VOXEL_BINS = 1 << 16;

// How many voxels of either kind fall into each bin, and its extremes; all (VOXEL_BINS,).
struct BinTable {
    Span<int64_t> positives, negatives;
    Span<double> lowest, highest;  // inf and -inf where a bin is empty
};

// Scores of positive and of negative voxels, ascending inside of every group; T is float or double.
template <class T>
struct VoxelSides {
    Span<const T> positives, negatives;
    Span<const int64_t> positive_offsets, negative_offsets;  // (G + 1,)
};

// What a walk over the operating points of a group leaves, see kernels/voxel_ranking.py; all (G,).
struct VoxelWalk {
    Span<int64_t> doubled, hits, alarms;
    Span<double> precision, threshold;
};

// Histograms of R weightings, bins ascending in score; (R, B) each.
struct PooledProblem {
    Span<const double> positives, negatives;
    Span<const uint8_t> inexact;  // (B,)
    int64_t n_replicates;
    double rate;
};

constexpr int64_t POOLED_SUMS = 9;  // in the order of kernels/voxel_histograms.py: Sums

template <class T>
void voxel_bins(Span<const T> values, Span<int32_t> bin, int threads);

template <class T>
void voxel_histogram(Span<const T> values, Span<const uint8_t> positive, const BinTable& table, int threads);

// Both sides have one place more than voxels: what is not taken is written and overwritten.
template <class T>
void voxel_split(Span<const T> values, Span<const uint8_t> positive, Span<T> positives, Span<T> negatives);

template <class T>
void voxel_walk(const VoxelSides<T>& sides, const VoxelWalk& found, int threads);

// (POOLED_SUMS, R)
void voxel_pooled(const PooledProblem& problem, Span<double> result, int threads);

}  // namespace calipers
