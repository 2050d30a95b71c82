// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Voxels of whole numbers with 1, 2, 4 or 8 bytes, row by row.
struct VoxelRows {
    Span<const uint8_t> bytes;
    int64_t item;   // bytes of a voxel
    int64_t width;  // voxels of a row
    int64_t alike;  // 1: all values but zero are one

    int64_t size() const { return bytes.size / item; }
};

// One bit for every voxel and one for what follows the last: where runs begin, and where they have ended.
struct RunBorders {
    Span<uint64_t> begins, ends;
};
inline int64_t border_words(int64_t voxels) { return voxels / 64 + 1; }

// Runs of objects; those of object k are offsets[k] : offsets[k + 1], in ascending order.
struct RunTable {
    Span<const int64_t> offsets, start, length;
};

// A map over the voxels of one image of width, height[, depth], and objects in it; T is float or double.
template <class T>
struct MapOfRuns {
    Span<const T> values;
    RunTable runs;
    Span<const int64_t> size;
};

// Returns how many runs there are.
int64_t run_borders(const VoxelRows& voxels, const RunBorders& found, int threads);

// False if there are not as many begins and ends as places for them; nothing is written then.
bool runs_between(const RunBorders& borders, Span<int64_t> start, Span<int64_t> length, int threads);

// Runs sorted by owner; those of an owner keep their order.
struct GroupedRuns {
    Span<int64_t> offsets, start, length;
};
void group_runs(Span<const int64_t> start, Span<const int64_t> length, Span<const int64_t> owner, const GroupedRuns& found);

// The smallest boxes around objects, (n, 2 d) low corners and high ones; NaN without runs. Sizes of images are (n, d).
void run_boxes(const RunTable& runs, Span<const int64_t> size, int64_t dimensions, Span<double> result, int threads);

// Sums (n,) and centroids (n, d).
template <class T>
void run_centroids(const MapOfRuns<T>& map, Span<double> total, Span<double> centroid, int threads);

}  // namespace calipers
