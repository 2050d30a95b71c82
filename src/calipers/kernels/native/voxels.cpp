// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/voxels.py, kernels/voxel_ranking.py and kernels/voxel_histograms.py.
#include "voxels.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace calipers {

namespace {

constexpr int32_t LAST = VOXEL_BINS - 1, HALF = VOXEL_BINS / 2;
constexpr int64_t VOXELS_PER_TASK = int64_t{1} << 20;
constexpr int BLOCK_BITS = 12;  // positives per partial sum, see kernels/voxel_ranking.py

// Leading bits of a positive number: exponent and ten bits of the fraction, counted from 2^-33.
inline int32_t leading(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits >> 13) - ((127 - 33) << 10);
}

inline int32_t leading(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<int32_t>(bits >> 42) - ((1023 - 33) << 10);
}

template <class T>
inline int32_t bin_of(T value) {
    const bool upper = value >= T(0.5);
    const int32_t raw = std::min(std::max(leading(upper ? T(1) - value : value), 1), HALF - 1);
    const int32_t inside = upper ? LAST - raw : raw;
    return value >= T(1) ? LAST : value > T(0) ? inside : 0;
}

template <class T>
struct Cell {
    int64_t counts[2] = {0, 0};  // negatives, positives
    T lowest = std::numeric_limits<T>::infinity(), highest = -std::numeric_limits<T>::infinity();
};

// Bins first, a piece at a time: that loop has no branch and is vectorised, and the next one has nothing left to wait for.
template <class T>
void count(const T* values, const uint8_t* positive, int64_t n, Cell<T>* cells) {
    constexpr int64_t PIECE = 2048;
    int32_t bins[PIECE];
    for (int64_t start = 0; start < n; start += PIECE) {
        const int64_t stop = std::min(n, start + PIECE);
        for (int64_t k = start; k < stop; ++k) bins[k - start] = bin_of(values[k]);
        for (int64_t k = start; k < stop; ++k) {
            const T value = values[k] + T(0);  // -0.0 becomes 0.0
            Cell<T>& cell = cells[bins[k - start]];
            ++cell.counts[positive[k] != 0];
            if (value < cell.lowest) cell.lowest = value;
            if (value > cell.highest) cell.highest = value;
        }
    }
}

}  // namespace

template <class T>
void voxel_bins(Span<const T> values, Span<int32_t> bin, int threads) {
    parallel(tasks_of(values.size, VOXELS_PER_TASK), threads, [&](int64_t task) {
        const int64_t stop = std::min(values.size, (task + 1) * VOXELS_PER_TASK);
        for (int64_t k = task * VOXELS_PER_TASK; k < stop; ++k) bin[k] = bin_of(values[k]);
    });
}

// One table per thread: counts and extremes do not depend on who counted what.
template <class T>
void voxel_histogram(Span<const T> values, Span<const uint8_t> positive, const BinTable& table, int threads) {
    const int64_t n = values.size;
    const int64_t stripes = std::max<int64_t>(1, std::min<int64_t>(threads, tasks_of(n, VOXELS_PER_TASK)));
    std::vector<std::vector<Cell<T>>> cells(stripes);
    parallel(stripes, threads, [&](int64_t s) {
        cells[s].resize(VOXEL_BINS);
        const int64_t start = n / stripes * s, stop = s + 1 == stripes ? n : n / stripes * (s + 1);
        count(values.data + start, positive.data + start, stop - start, cells[s].data());
    });
    for (int32_t b = 0; b < VOXEL_BINS; ++b) {
        Cell<T> all;
        for (const std::vector<Cell<T>>& part : cells) {
            all.counts[0] += part[b].counts[0];
            all.counts[1] += part[b].counts[1];
            all.lowest = std::min(all.lowest, part[b].lowest);
            all.highest = std::max(all.highest, part[b].highest);
        }
        table.negatives[b] = all.counts[0];
        table.positives[b] = all.counts[1];
        table.lowest[b] = static_cast<double>(all.lowest);
        table.highest[b] = static_cast<double>(all.highest);
    }
}

template <class T>
void voxel_split(Span<const T> values, Span<const uint8_t> positive, Span<T> positives, Span<T> negatives) {
    int64_t p = 0, n = 0;  // no branch: masks are often noise to the predictor
    for (int64_t k = 0; k < values.size; ++k) {
        const int64_t taken = positive[k] != 0;
        positives[p] = values[k];
        negatives[n] = values[k];
        p += taken;
        n += 1 - taken;
    }
}

template <class T>
void voxel_walk(const VoxelSides<T>& sides, const VoxelWalk& found, int threads) {
    parallel(sides.positive_offsets.size - 1, threads, [&](int64_t g) {
        const T* positive = sides.positives.data + sides.positive_offsets[g];
        const T* negative = sides.negatives.data + sides.negative_offsets[g];
        const int64_t n_positives = sides.positive_offsets[g + 1] - sides.positive_offsets[g];
        const int64_t n_negatives = sides.negative_offsets[g + 1] - sides.negative_offsets[g];
        int64_t doubled = 0, hits = 0, alarms = 0, block = 0, below = 0;
        double total = 0.0, partial = 0.0, best = -1.0, threshold = std::numeric_limits<double>::quiet_NaN();
        for (int64_t start = 0, stop; start < n_positives; start = stop) {
            const T value = positive[start];
            for (stop = start + 1; stop < n_positives && positive[stop] == value;) ++stop;
            while (below < n_negatives && negative[below] < value) ++below;
            int64_t upto = below;
            while (upto < n_negatives && negative[upto] == value) ++upto;
            const int64_t gained = stop - start, tp = n_positives - start, fp = n_negatives - below;
            doubled += gained * (below + upto);
            if (start >> BLOCK_BITS != block) {
                total += partial;
                partial = 0.0;
                block = start >> BLOCK_BITS;
            }
            partial += static_cast<double>(gained) * (static_cast<double>(tp) / static_cast<double>(tp + fp));
            const double iou = static_cast<double>(tp) / static_cast<double>(n_positives + fp);
            if (iou >= best) {
                best = iou;
                hits = tp;
                alarms = fp;
                threshold = static_cast<double>(value);
            }
            below = upto;
        }
        found.doubled[g] = doubled;
        found.hits[g] = hits;
        found.alarms[g] = alarms;
        found.precision[g] = total + partial;
        found.threshold[g] = threshold;
    });
}

void voxel_pooled(const PooledProblem& p, Span<double> result, int threads) {
    const int64_t n_bins = p.inexact.size;
    parallel(p.n_replicates, threads, [&](int64_t r) {
        const double *positives = p.positives.data + r * n_bins, *negatives = p.negatives.data + r * n_bins;
        double n_positives = 0.0, n_negatives = 0.0;
        for (int64_t b = 0; b < n_bins; ++b) {
            n_positives += positives[b];
            n_negatives += negatives[b];
        }
        double hits = 0.0, alarms = 0.0, right = 0.0, precision = 0.0, best = 0.0, where = -1.0;
        double best_hits = 0.0, best_alarms = 0.0, rate_hits = 0.0, rate_alarms = 0.0;
        for (int64_t b = n_bins - 1; b >= 0; --b) {
            hits += positives[b];
            alarms += negatives[b];
            right += negatives[b] * (hits - 0.5 * positives[b]);
            if (alarms / n_negatives <= p.rate) {
                rate_hits = hits;
                rate_alarms = alarms;
            }
            if (!(positives[b] > 0.0)) continue;  // adds zeros, and no overlap gets better
            const double middle = hits - (p.inexact[b] ? 0.5 * (positives[b] - 1.0) : 0.0);
            const double beside = alarms - (p.inexact[b] ? 0.5 * negatives[b] : 0.0);
            precision += positives[b] * (middle / (middle + beside));
            const double overlap = hits / (n_positives + alarms);
            if (overlap > best) {
                best = overlap;
                where = static_cast<double>(b);
                best_hits = hits;
                best_alarms = alarms;
            }
        }
        const double sums[POOLED_SUMS] = {n_positives, n_negatives, right,     precision,  where,
                                          best_hits,   best_alarms, rate_hits, rate_alarms};
        for (int64_t k = 0; k < POOLED_SUMS; ++k) result[k * p.n_replicates + r] = sums[k];
    });
}

template void voxel_bins(Span<const float>, Span<int32_t>, int);
template void voxel_bins(Span<const double>, Span<int32_t>, int);
template void voxel_histogram(Span<const float>, Span<const uint8_t>, const BinTable&, int);
template void voxel_histogram(Span<const double>, Span<const uint8_t>, const BinTable&, int);
template void voxel_split(Span<const float>, Span<const uint8_t>, Span<float>, Span<float>);
template void voxel_split(Span<const double>, Span<const uint8_t>, Span<double>, Span<double>);
template void voxel_walk(const VoxelSides<float>&, const VoxelWalk&, int);
template void voxel_walk(const VoxelSides<double>&, const VoxelWalk&, int);

}  // namespace calipers
