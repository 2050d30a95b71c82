// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/replicates.py: 64 replicates side by side. The loops over lanes are plain C++ that compilers turn into
// vector instructions; where the processor has wider ones than the build may assume, a second copy of them is used. Every
// copy gives the same bits: whole numbers are exact, and no multiplication is fused with an addition.
#include "replicates.h"

#include <algorithm>
#include <cstring>
#include <limits>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && \
    !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CALIPERS_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CALIPERS_WIDE
#endif

// Keeps compilers from working off two rows at a time, which looks clever to them and undoes the vector instructions.
#if defined(__GNUC__)
#define CALIPERS_ROW_DONE asm volatile("" ::: "memory")
#else
#define CALIPERS_ROW_DONE
#endif

namespace calipers {

namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double NUDGE = 1e-9;

// Adds the weights of some rows, and notes the sums after those that are marked.
CALIPERS_WIDE
void running_sums(const uint8_t* __restrict weights, const int32_t* __restrict image, int64_t row,
                  const int64_t* __restrict marks, int64_t n_marks, int32_t* __restrict noted) {
    int32_t sum[LANES] = {0};
    for (int64_t m = 0; m < n_marks; ++m) {
        while (row <= marks[m]) {  // narrow sums are quicker, for as many rows as they hold
            const int64_t stop = std::min(marks[m] + 1, row + 256);
            uint16_t narrow[LANES] = {0};
            for (; row < stop; ++row) {
                const uint8_t* w = weights + static_cast<int64_t>(image[row]) * LANES;
                for (int l = 0; l < LANES; ++l) narrow[l] = static_cast<uint16_t>(narrow[l] + w[l]);
                CALIPERS_ROW_DONE;
            }
            for (int l = 0; l < LANES; ++l) sum[l] += narrow[l];
        }
        std::memcpy(noted + m * LANES, sum, sizeof sum);
    }
}

// Hits and precision at every operating point of a cell.
CALIPERS_WIDE
void operating_points(const uint8_t* __restrict weights, const int32_t* __restrict image, int64_t hit,
                      const int64_t* __restrict upto, const int64_t* __restrict mark, int64_t first_mark, int64_t n,
                      const int32_t* __restrict noted, int32_t* __restrict found, double* __restrict value) {
    int32_t sum[LANES] = {0};
    for (int64_t p = 0; p < n; ++p) {
        for (; hit < upto[p]; ++hit) {
            const uint8_t* w = weights + static_cast<int64_t>(image[hit]) * LANES;
            for (int l = 0; l < LANES; ++l) sum[l] += w[l];
            CALIPERS_ROW_DONE;
        }
        const int32_t* every = noted + (mark[p] - first_mark) * LANES;
        for (int l = 0; l < LANES; ++l) {
            found[p * LANES + l] = sum[l];
            value[p * LANES + l] = static_cast<double>(sum[l]) / (static_cast<double>(every[l]) + EPS);
        }
    }
}

// How many recalls each number of hits reaches. `rounded_up` has a bit for each of at most 128 recalls.
CALIPERS_WIDE
void recalls_reached(int32_t* __restrict found, int64_t n, const double* __restrict per_hit, uint64_t rounded_up,
                     uint64_t rounded_up_above, int64_t most) {
    for (int64_t p = 0; p < n; ++p, found += LANES) {
        for (int l = 0; l < LANES; ++l) {
            const double x = static_cast<double>(found[l]) * per_hit[l] + NUDGE;
            const int64_t floor = static_cast<int32_t>(x), whole = floor < most ? floor : most;
            const uint64_t exact = x - static_cast<double>(static_cast<int32_t>(whole)) < 2 * NUDGE ? 1 : 0;
            const uint64_t bits = whole < 64 ? rounded_up : rounded_up_above;
            found[l] = static_cast<int32_t>(whole + 1 - static_cast<int64_t>(exact & (bits >> (whole & 63))));
        }
        CALIPERS_ROW_DONE;
    }
}

// Sum over the levels of the envelope, from the last point on.
CALIPERS_WIDE
void level_sums(const int32_t* __restrict reached, const double* __restrict value, int64_t n, double* __restrict total) {
    double best[LANES] = {0}, count[LANES] = {0}, sum[LANES] = {0};
    static const int32_t none[LANES] = {0};
    for (int64_t p = n - 1; p >= 0; --p) {
        const int32_t* before = p ? reached + (p - 1) * LANES : none;
        for (int l = 0; l < LANES; ++l) {
            // Everything is computed and then chosen from: without branches the lanes can go together.
            const double v = value[p * LANES + l], gained = static_cast<double>(reached[p * LANES + l] - before[l]);
            const double level = best[l], so_far = count[l], product = level * so_far;
            sum[l] += v > level ? product : 0.0;
            count[l] = (v > level ? 0.0 : so_far) + gained;
            best[l] = v > level ? v : level;
        }
        CALIPERS_ROW_DONE;
    }
    for (int l = 0; l < LANES; ++l) total[l] = sum[l] + best[l] * count[l];
}

// Sum over all points, from the first on.
CALIPERS_WIDE
void step_sums(const int32_t* __restrict reached, const double* __restrict value, int64_t n, double* __restrict total) {
    double sum[LANES] = {0};
    static const int32_t none[LANES] = {0};
    for (int64_t p = 0; p < n; ++p) {
        const int32_t* before = p ? reached + (p - 1) * LANES : none;
        for (int l = 0; l < LANES; ++l)
            sum[l] += value[p * LANES + l] * static_cast<double>(reached[p * LANES + l] - before[l]);
        CALIPERS_ROW_DONE;
    }
    std::memcpy(total, sum, sizeof sum);
}

CALIPERS_WIDE
void add_cells(const int32_t* __restrict cell, const int32_t* __restrict image, int64_t n,
               const uint8_t* __restrict weights, int32_t* __restrict result) {
    for (int64_t k = 0; k < n; ++k) {
        const uint8_t* w = weights + static_cast<int64_t>(image[k]) * LANES;
        int32_t* to = result + static_cast<int64_t>(cell[k]) * LANES;
        for (int l = 0; l < LANES; ++l) to[l] += w[l];
        CALIPERS_ROW_DONE;
    }
}

inline void add_lanes(int32_t* __restrict to, const int32_t* __restrict from) {
    for (int l = 0; l < LANES; ++l) to[l] += from[l];
}

// Memory that is worth keeping from one task to the next; it only ever grows, and nobody needs zeros in it.
template <class T>
class Buffer {
public:
    T* of(int64_t n) {
        if (n > static_cast<int64_t>(memory_.size())) memory_.resize(n);
        return memory_.data();
    }

private:
    std::vector<T> memory_;
};

struct Desk {
    Buffer<int32_t> noted, found;
    Buffer<double> value;
};

// Walks through the cells of a plan: all views of a group share the running sums of its predictions.
template <class Use>
void every_cell(const ReplicatePlan& p, int threads, Use use) {
    const int64_t n_groups = (p.row_offsets.size - 1) / p.n_classes;
    parallel_with(n_groups * p.n_classes, threads, [] { return Desk(); }, [&](Desk& desk, int64_t place) {
        const int64_t first = p.mark_offsets[place], n_marks = p.mark_offsets[place + 1] - first;
        int32_t* noted = desk.noted.of(n_marks * LANES);
        running_sums(p.weights.data, p.row_image.data, p.row_offsets[place], p.mark_at.data + first, n_marks, noted);
        for (int64_t v = 0; v < p.group_of.size; ++v) {
            if (p.group_of[v] != place / p.n_classes) continue;
            const int64_t cell = v * p.n_classes + place % p.n_classes, start = p.point_offsets[cell];
            const int64_t n = p.point_offsets[cell + 1] - start;
            int32_t* found = desk.found.of(n * LANES);
            double* value = desk.value.of(n * LANES);
            operating_points(p.weights.data, p.hit_image.data, p.hit_offsets[cell], p.point_hits.data + start,
                             p.point_mark.data + start, first, n, noted, found, value);
            use(cell, n, found, value, [&](int64_t point) { return noted + (p.point_mark[start + point] - first) * LANES; });
        }
    });
}

// The hits of the last point that has no more than the allowed false alarms.
CALIPERS_WIDE
void within_limit(const int32_t* __restrict hits, const int32_t* __restrict every, const double* __restrict allowed,
                  int32_t* __restrict most) {
    for (int l = 0; l < LANES; ++l) {
        const bool enough = static_cast<double>(every[l] - hits[l]) <= allowed[l];
        most[l] = enough ? hits[l] : most[l];
    }
}

CALIPERS_WIDE
void add_pair(const uint8_t* __restrict weights, double right, double near, double shape, double* __restrict matched,
              double* __restrict correct, double* __restrict nearness, double* __restrict shapes) {
    for (int l = 0; l < LANES; ++l) {
        const double w = static_cast<double>(weights[l]);
        matched[l] += w;
        correct[l] += w * right;
        nearness[l] += w * near;
        shapes[l] += w * shape;
    }
}

CALIPERS_WIDE
void add_one(const uint8_t* __restrict weights, double* __restrict sum) {
    for (int l = 0; l < LANES; ++l) sum[l] += static_cast<double>(weights[l]);
}

}  // namespace

void replicate_precision(const PrecisionProblem& p, Span<double> result, int threads) {
    uint64_t rounded_up[2] = {0, 0};
    const int64_t n_recalls = p.rounded_up.size;
    for (int64_t k = 0; k < n_recalls; ++k) rounded_up[k / 64] |= static_cast<uint64_t>(p.rounded_up[k] != 0) << (k % 64);
    every_cell(p.plan, threads, [&](int64_t cell, int64_t n, int32_t* found, double* value, auto) {
        double total[LANES], divisor[LANES], per_hit[LANES] = {0};
        const int64_t first = cell * p.n_replicates;
        for (int64_t r = 0; r < p.n_replicates; ++r) {
            const double positives = static_cast<double>(p.positives[first + r]);
            divisor[r] = n_recalls ? static_cast<double>(n_recalls) : positives;
            per_hit[r] = n_recalls ? static_cast<double>(n_recalls - 1) / std::max(positives, 1.0) : 0.0;
        }
        if (n_recalls) recalls_reached(found, n, per_hit, rounded_up[0], rounded_up[1], n_recalls - 1);
        (p.enveloped ? level_sums : step_sums)(found, value, n, total);
        constexpr double undefined = std::numeric_limits<double>::quiet_NaN();
        for (int64_t r = 0; r < p.n_replicates; ++r)
            result[first + r] = p.positives[first + r] > 0 ? total[r] / divisor[r] : undefined;
    });
}

void replicate_hits(const ReplicatePlan& p, Span<const double> allowed, int64_t n, Span<int32_t> result, int threads) {
    every_cell(p, threads, [&](int64_t cell, int64_t n_points, const int32_t* found, const double*, auto every) {
        int32_t* most = result.data + cell * n * LANES;
        std::memset(most, 0, n * LANES * sizeof(int32_t));
        for (int64_t point = 0; point < n_points; ++point)
            for (int64_t k = 0; k < n; ++k)
                within_limit(found + point * LANES, every(point), &allowed[k * LANES], most + k * LANES);
    });
}

void lane_tally(Span<const uint8_t> weights, const TallyTable& p, Span<double> result) {
    std::memset(result.data, 0, result.size * sizeof(double));
    const auto sum = [&](int64_t which, int64_t owner) { return &result[(which * p.n_owners + owner) * LANES]; };
    for (int64_t piece = 0; piece + 1 < p.pair_offsets.size; ++piece) {
        const uint8_t* w = &weights[piece * LANES];
        for (int64_t k = p.pair_offsets[piece]; k < p.pair_offsets[piece + 1]; ++k) {
            const int64_t owner = p.owner[k];
            add_pair(w, p.right[k] ? 1.0 : 0.0, p.near[k], p.shape[k], sum(0, owner), sum(1, owner), sum(2, owner),
                     sum(3, owner));
        }
        for (int64_t k = p.missed_offsets[piece]; k < p.missed_offsets[piece + 1]; ++k) add_one(w, sum(4, p.missed_owner[k]));
        for (int64_t k = p.extra_offsets[piece]; k < p.extra_offsets[piece + 1]; ++k) add_one(w, sum(5, p.extra_owner[k]));
    }
}

void cell_totals(const CellProblem& p, Span<int32_t> result) {
    std::vector<int32_t> sums(p.label.size * LANES, 0);
    add_cells(p.cell.data, p.image.data, p.cell.size, p.weights.data, sums.data());
    std::memset(result.data, 0, result.size * sizeof(int32_t));
    for (int64_t c = 0; c < p.label.size; ++c) {
        const uint8_t* flags = p.flags.data + c * p.n_flags;
        int32_t* to = result.data + p.label[c] * p.n_flags * LANES;
        for (int64_t f = 0; f < p.n_flags; ++f)
            if (flags[f]) add_lanes(to + f * LANES, &sums[c * LANES]);
    }
}

// Whole numbers below n from 32 random bits each, by multiplication; the few that would be too frequent are drawn again
// (Lemire, Fast random integer generation in an interval, 2019). NumPy draws in this way too: the numbers are the same.
bool count_draws(Span<const uint64_t> raw, Span<uint8_t> counts) {
    const uint64_t n = static_cast<uint64_t>(counts.size), rejected = (uint64_t{1} << 32) % n;
    bool enough = true;
    int64_t at = 0;
    for (uint64_t drawn = 0; drawn < n; ++at) {
        if (at == 2 * raw.size) return false;
        const uint64_t bits = at % 2 ? raw[at / 2] >> 32 : raw[at / 2] & 0xffffffffu;
        const uint64_t product = bits * n;
        if ((product & 0xffffffffu) < rejected) continue;
        enough &= ++counts[product >> 32] != 0;
        ++drawn;
    }
    return enough;
}

void transpose(Span<const uint8_t> from, int64_t rows, int64_t columns, Span<uint8_t> to) {
    constexpr int64_t TILE = 64;
    for (int64_t first = 0; first < columns; first += TILE) {
        const int64_t last = std::min(columns, first + TILE);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = first; c < last; ++c) to[c * rows + r] = from[r * columns + c];
    }
}

}  // namespace calipers
