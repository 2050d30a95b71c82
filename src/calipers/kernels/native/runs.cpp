// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/runs.py.
#include "runs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "bits.h"

namespace calipers {

namespace {

constexpr int64_t BLOCK = 64;  // voxels whose borders fit into one word
constexpr int64_t VOXELS_PER_TASK = int64_t{1} << 20;  // in whole rows
constexpr int64_t OBJECTS_PER_TASK = 16;
constexpr int64_t RUNS_PER_TASK = 4096;

// Where runs begin and where they have ended, of 64 voxels; one bit each.
struct Borders {
    uint64_t begins, ends;
};

template <class T>
bool any(const T* voxels) {
    T found = 0;
    for (int64_t k = 0; k < BLOCK; ++k) found |= voxels[k];
    return found != 0;
}

// `before` is the voxel before these. Neither loop has a branch, both are vectorised.
template <class T, bool ALIKE>
Borders borders(const T* voxels, T before) {
    uint8_t flags[BLOCK];
    for (int64_t k = 0; k < BLOCK; ++k) flags[k] = voxels[k] != 0;
    const uint64_t filled = packed(flags), shifted = filled << 1 | static_cast<uint64_t>(before != 0);
    if constexpr (ALIKE) return {filled & ~shifted, shifted & ~filled};
    flags[0] = voxels[0] != before;
    for (int64_t k = 1; k < BLOCK; ++k) flags[k] = voxels[k] != voxels[k - 1];
    const uint64_t changed = packed(flags);
    return {filled & changed, shifted & changed};
}

// Calls work(borders, place of their first voxel in the row) wherever there are some. A run that reaches the end of the row
// has ended there: a voxel of zero follows.
template <class T, bool ALIKE, class Work>
void walk_row(const T* row, int64_t width, Work work) {
    T before = 0;
    for (int64_t low = 0; low < width; low += BLOCK) {
        if (width - low >= BLOCK) {
            if (before != 0 || any(row + low)) work(borders<T, ALIKE>(row + low, before), low);
            before = row[low + BLOCK - 1];
            continue;
        }
        T rest[BLOCK] = {};
        std::copy(row + low, row + width, rest);
        work(borders<T, ALIKE>(rest, before), low);
        before = 0;
    }
    if (before != 0) work(Borders{0, 1}, width);
}

// Runs of some rows, one after the other: the k-th begin and the k-th end make a run.
template <class T, bool ALIKE>
class Writer {
public:
    void operator()(const T* row, int64_t place, Borders borders, int64_t low) {
        if (begun_ + BLOCK > room_) grow();
        for (uint64_t left = borders.begins; left; left &= left - 1) {
            const int64_t at = low + lowest_bit(left);
            found_.start[begun_] = place + at;
            if constexpr (!ALIKE) std::memcpy(found_.value.data() + begun_ * sizeof(T), row + at, sizeof(T));
            ++begun_;
        }
        for (uint64_t left = borders.ends; left; left &= left - 1, ++ended_)
            found_.length[ended_] = place + low + lowest_bit(left) - found_.start[ended_];
    }
    FoundRuns taken() {
        resize(begun_);
        return std::move(found_);
    }

private:
    void grow() { resize(2 * room_ + 16 * BLOCK); }
    void resize(int64_t room) {
        room_ = room;
        found_.start.resize(room);
        found_.length.resize(room);
        if constexpr (!ALIKE) found_.value.resize(room * sizeof(T));
    }

    FoundRuns found_;
    int64_t begun_ = 0, ended_ = 0, room_ = 0;
};

template <class T, bool ALIKE>
FoundRuns runs_of(const VoxelRows& voxels, int64_t first, int64_t last) {
    Writer<T, ALIKE> writer;
    for (int64_t k = first; k < last; ++k) {
        const int64_t place = k * voxels.width;
        const T* row = reinterpret_cast<const T*>(voxels.bytes.data) + place;
        walk_row<T, ALIKE>(row, voxels.width, [&](Borders b, int64_t low) { writer(row, place, b, low); });
    }
    return writer.taken();
}

template <class T>
FoundRuns runs_of(const VoxelRows& voxels, int64_t first, int64_t last) {
    return voxels.alike ? runs_of<T, true>(voxels, first, last) : runs_of<T, false>(voxels, first, last);
}

FoundRuns runs_of(const VoxelRows& voxels, int64_t first, int64_t last) {
    switch (voxels.item) {
        case 1: return runs_of<uint8_t>(voxels, first, last);
        case 2: return runs_of<uint16_t>(voxels, first, last);
        case 4: return runs_of<uint32_t>(voxels, first, last);
        default: return runs_of<uint64_t>(voxels, first, last);
    }
}

}  // namespace

std::vector<FoundRuns> find_runs(const VoxelRows& voxels, int threads) {
    const int64_t row = voxels.item * voxels.width, n = row ? voxels.bytes.size / row : 0;
    const int64_t per_task = voxels.width < VOXELS_PER_TASK ? VOXELS_PER_TASK / std::max<int64_t>(voxels.width, 1) : 1;
    std::vector<FoundRuns> found(tasks_of(n, per_task));
    parallel(static_cast<int64_t>(found.size()), threads, [&](int64_t task) {
        found[task] = runs_of(voxels, task * per_task, std::min(n, (task + 1) * per_task));
    });
    return found;
}

void group_runs(Span<const int64_t> start, Span<const int64_t> length, Span<const int64_t> owner, const GroupedRuns& found) {
    const int64_t n = found.offsets.size - 1;
    std::fill(found.offsets.data, found.offsets.data + n + 1, 0);
    for (int64_t k = 0; k < owner.size; ++k) ++found.offsets[owner[k] + 1];
    for (int64_t k = 0; k < n; ++k) found.offsets[k + 1] += found.offsets[k];
    std::vector<int64_t> next(found.offsets.data, found.offsets.data + n);
    for (int64_t k = 0; k < owner.size; ++k) {
        const int64_t at = next[owner[k]]++;
        found.start[at] = start[k];
        found.length[at] = length[k];
    }
}

template <class T>
void run_sums(Span<const T> values, Span<const int64_t> start, Span<const int64_t> length, Span<double> result, int threads) {
    parallel(tasks_of(start.size, RUNS_PER_TASK), threads, [&](int64_t task) {
        const int64_t stop = std::min(start.size, (task + 1) * RUNS_PER_TASK);
        for (int64_t k = task * RUNS_PER_TASK; k < stop; ++k) {
            double total = 0.0;
            for (int64_t at = start[k]; at < start[k] + length[k]; ++at) total += static_cast<double>(values[at]);
            result[k] = total;
        }
    });
}

// Voxel by voxel and not run by run: every product is rounded as NumPy rounds it. Products that do not wait for each other
// come first; only the sums have an order.
template <class T>
void run_centroids(const MapOfRuns<T>& map, Span<double> total, Span<double> centroid, int threads) {
    const int64_t d = map.size.size, width = map.size[0], height = map.size[1];
    parallel(tasks_of(total.size, OBJECTS_PER_TASK), threads, [&](int64_t task) {
        const int64_t stop = std::min(total.size, (task + 1) * OBJECTS_PER_TASK);
        for (int64_t object = task * OBJECTS_PER_TASK; object < stop; ++object) {
            double sum = 0.0, moment[3] = {0.0, 0.0, 0.0};
            for (int64_t k = map.runs.offsets[object]; k < map.runs.offsets[object + 1]; ++k) {
                const int64_t row = map.runs.start[k] / width, x = map.runs.start[k] - row * width;
                const double y = static_cast<double>(d == 2 ? row : row % height) + 0.5;
                const double z = static_cast<double>(d == 2 ? 0 : row / height) + 0.5;
                const T* values = map.values.data + map.runs.start[k];
                for (int64_t at = 0; at < map.runs.length[k]; ++at) {
                    const double value = static_cast<double>(values[at]);
                    sum += value;
                    moment[0] += value * (static_cast<double>(x + at) + 0.5);
                    moment[1] += value * y;
                    moment[2] += value * z;
                }
            }
            total[object] = sum;
            for (int64_t axis = 0; axis < d; ++axis)
                centroid[object * d + axis] = sum != 0.0 ? moment[axis] / sum : std::numeric_limits<double>::quiet_NaN();
        }
    });
}

template void run_sums(Span<const float>, Span<const int64_t>, Span<const int64_t>, Span<double>, int);
template void run_sums(Span<const double>, Span<const int64_t>, Span<const int64_t>, Span<double>, int);
template void run_centroids(const MapOfRuns<float>&, Span<double>, Span<double>, int);
template void run_centroids(const MapOfRuns<double>&, Span<double>, Span<double>, int);

}  // namespace calipers
