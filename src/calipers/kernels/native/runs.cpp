// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/runs.py.
#include "runs.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "bits.h"

namespace calipers {

namespace {

constexpr int64_t BLOCK = 64;             // voxels whose borders fit into one word
constexpr int64_t BLOCKS_PER_TASK = 1 << 14;  // a million voxels
constexpr int64_t OBJECTS_PER_TASK = 16;

template <class T>
bool any(const T* voxels) {
    T found = 0;
    for (int64_t k = 0; k < BLOCK; ++k) found |= voxels[k];
    return found != 0;
}

struct Borders {
    uint64_t begins, ends;
};

// `before` is the voxel before these, and `rows` has a bit where one begins a row. No loop has a branch, all are vectorised.
template <class T, bool ALIKE>
Borders borders_of(const T* voxels, T before, uint64_t rows) {
    uint8_t flags[BLOCK];
    for (int64_t k = 0; k < BLOCK; ++k) flags[k] = voxels[k] != 0;
    const uint64_t filled = packed(flags), shifted = filled << 1 | static_cast<uint64_t>(before != 0);
    if constexpr (ALIKE) return {filled & (~shifted | rows), shifted & (~filled | rows)};
    flags[0] = voxels[0] != before;
    for (int64_t k = 1; k < BLOCK; ++k) flags[k] = voxels[k] != voxels[k - 1];
    const uint64_t changed = packed(flags) | rows;
    return {filled & changed, shifted & changed};
}

// Bits of the voxels of a block that begin a row; blocks are asked for one after the other.
class RowStarts {
public:
    RowStarts(int64_t first_voxel, int64_t width) : next_((first_voxel + width - 1) / width * width), width_(width) {}
    uint64_t within(int64_t low) {
        uint64_t rows = 0;
        for (; next_ < low + BLOCK; next_ += width_) rows |= uint64_t{1} << (next_ - low);
        return rows;
    }

private:
    int64_t next_, width_;
};

template <class T, bool ALIKE>
int64_t borders_between(const VoxelRows& rows, int64_t first, int64_t last, const RunBorders& found) {
    const T* voxels = reinterpret_cast<const T*>(rows.bytes.data);
    const int64_t full = rows.size() / BLOCK;
    RowStarts starts(first * BLOCK, rows.width);
    T before = first ? voxels[first * BLOCK - 1] : T{0};
    int64_t total = 0;
    auto look = [&](int64_t block, const T* here) {
        const uint64_t begun = starts.within(block * BLOCK);
        const bool some = before != 0 || any(here);
        const Borders borders = some ? borders_of<T, ALIKE>(here, before, begun) : Borders{0, 0};
        found.begins[block] = borders.begins;
        found.ends[block] = borders.ends;
        total += some ? count_bits(borders.begins) : 0;
        before = here[BLOCK - 1];
    };
    for (int64_t block = first; block < std::min(last, full); ++block) look(block, voxels + block * BLOCK);
    if (last > full) {  // the last block: zeros follow the last voxel
        T rest[BLOCK] = {};
        std::copy(voxels + full * BLOCK, voxels + rows.size(), rest);
        look(full, rest);
    }
    return total;
}

template <class T>
int64_t borders_between(const VoxelRows& rows, int64_t first, int64_t last, const RunBorders& found) {
    return rows.alike ? borders_between<T, true>(rows, first, last, found) : borders_between<T, false>(rows, first, last, found);
}

int64_t borders_between(const VoxelRows& rows, int64_t first, int64_t last, const RunBorders& found) {
    switch (rows.item) {
        case 1: return borders_between<uint8_t>(rows, first, last, found);
        case 2: return borders_between<uint16_t>(rows, first, last, found);
        case 4: return borders_between<uint32_t>(rows, first, last, found);
        default: return borders_between<uint64_t>(rows, first, last, found);
    }
}

// Where the bits of every task go: (tasks + 1,).
std::vector<int64_t> places_of(Span<uint64_t> words, int64_t tasks, int threads) {
    std::vector<int64_t> offsets(tasks + 1, 0);
    parallel(tasks, threads, [&](int64_t task) {
        const int64_t stop = std::min(words.size, (task + 1) * BLOCKS_PER_TASK);
        for (int64_t k = task * BLOCKS_PER_TASK; k < stop; ++k) offsets[task + 1] += words[k] ? count_bits(words[k]) : 0;
    });
    for (int64_t task = 0; task < tasks; ++task) offsets[task + 1] += offsets[task];
    return offsets;
}

void write_places(Span<uint64_t> words, int64_t task, int64_t at, Span<int64_t> to) {
    const int64_t stop = std::min(words.size, (task + 1) * BLOCKS_PER_TASK);
    for (int64_t k = task * BLOCKS_PER_TASK; k < stop; ++k)
        for (uint64_t left = words[k]; left; left &= left - 1) to[at++] = k * BLOCK + lowest_bit(left);
}

// Runs ascend: a division tells the row only where a new one begins.
void write_box(const RunTable& runs, int64_t object, const int64_t* size, int64_t d, double* box) {
    const int64_t first = runs.offsets[object], last = runs.offsets[object + 1];
    if (first == last) return std::fill(box, box + 2 * d, std::numeric_limits<double>::quiet_NaN());
    int64_t low[3], high[3] = {0, 0, 0}, row = runs.start[first] / size[0];
    std::fill(low, low + 3, std::numeric_limits<int64_t>::max());
    for (int64_t k = first; k < last; ++k) {
        int64_t x = runs.start[k] - row * size[0];
        if (x >= size[0]) {  // another row
            row = runs.start[k] / size[0];
            x = runs.start[k] - row * size[0];
        }
        const int64_t z = d == 3 ? row / size[1] : 0, place[3] = {x, row - z * size[1] * (d == 3), z};
        for (int64_t axis = 0; axis < d; ++axis) {
            low[axis] = std::min(low[axis], place[axis]);
            high[axis] = std::max(high[axis], place[axis] + (axis ? 1 : runs.length[k]));
        }
    }
    std::copy(low, low + d, box);
    std::copy(high, high + d, box + d);
}

}  // namespace

int64_t run_borders(const VoxelRows& voxels, const RunBorders& found, int threads) {
    const int64_t n = found.begins.size, tasks = tasks_of(n, BLOCKS_PER_TASK);
    std::vector<int64_t> totals(tasks);
    parallel(tasks, threads, [&](int64_t task) {
        totals[task] = borders_between(voxels, task * BLOCKS_PER_TASK, std::min(n, (task + 1) * BLOCKS_PER_TASK), found);
    });
    return std::accumulate(totals.begin(), totals.end(), int64_t{0});
}

// The k-th begin and the k-th end make a run.
bool runs_between(const RunBorders& borders, Span<int64_t> start, Span<int64_t> length, int threads) {
    const int64_t tasks = tasks_of(borders.begins.size, BLOCKS_PER_TASK);
    const std::vector<int64_t> begins = places_of(borders.begins, tasks, threads), ends = places_of(borders.ends, tasks, threads);
    if (begins.back() != start.size || ends.back() != length.size) return false;
    parallel(tasks, threads, [&](int64_t task) {
        write_places(borders.begins, task, begins[task], start);
        write_places(borders.ends, task, ends[task], length);
    });
    for (int64_t k = 0; k < start.size; ++k) length[k] -= start[k];
    return true;
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

void run_boxes(const RunTable& runs, Span<const int64_t> size, int64_t d, Span<double> result, int threads) {
    const int64_t n = runs.offsets.size - 1;
    parallel(tasks_of(n, OBJECTS_PER_TASK), threads, [&](int64_t task) {
        for (int64_t k = task * OBJECTS_PER_TASK; k < std::min(n, (task + 1) * OBJECTS_PER_TASK); ++k)
            write_box(runs, k, size.data + k * d, d, result.data + 2 * d * k);
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

template void run_centroids(const MapOfRuns<float>&, Span<double>, Span<double>, int);
template void run_centroids(const MapOfRuns<double>&, Span<double>, Span<double>, int);

}  // namespace calipers
