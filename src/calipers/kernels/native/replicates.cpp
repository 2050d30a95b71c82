// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/curves.py for replicates, and of kernels/resampling.py: 64 replicates side by side. The loops over lanes are plain C++ that compilers turn into
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
    const auto at = [&](int64_t r) { return weights + static_cast<int64_t>(image[r]) * LANES; };
    for (int64_t m = 0; m < n_marks; ++m) {
        while (row <= marks[m]) {  // narrow sums are quicker, for as many rows as they hold
            const int64_t stop = std::min(marks[m] + 1, row + 256);
            uint16_t narrow[LANES] = {0};
            // Four rows at a time: the sums go through memory, which takes longer than adding.
            for (; row + 4 <= stop; row += 4) {
                const uint8_t *a = at(row), *b = at(row + 1), *c = at(row + 2), *d = at(row + 3);
                for (int l = 0; l < LANES; ++l) narrow[l] = static_cast<uint16_t>(narrow[l] + a[l] + b[l] + c[l] + d[l]);
                CALIPERS_ROW_DONE;
            }
            for (; row < stop; ++row) {
                const uint8_t* w = at(row);
                for (int l = 0; l < LANES; ++l) narrow[l] = static_cast<uint16_t>(narrow[l] + w[l]);
                CALIPERS_ROW_DONE;
            }
            for (int l = 0; l < LANES; ++l) sum[l] += narrow[l];
        }
        std::memcpy(noted + m * LANES, sum, sizeof sum);
    }
}

// Hits at every operating point of a cell.
CALIPERS_WIDE
void running_hits(const uint8_t* __restrict weights, const int32_t* __restrict image, int64_t hit,
                  const int64_t* __restrict upto, int64_t n, int32_t* __restrict hits) {
    int32_t sum[LANES] = {0};
    for (int64_t p = 0; p < n; ++p) {
        for (; hit < upto[p]; ++hit) {
            const uint8_t* w = weights + static_cast<int64_t>(image[hit]) * LANES;
            for (int l = 0; l < LANES; ++l) sum[l] += w[l];
            CALIPERS_ROW_DONE;
        }
        std::memcpy(hits + p * LANES, sum, sizeof sum);
    }
}

inline double precision(int32_t hits, int32_t every) {
    return static_cast<double>(hits) / (static_cast<double>(every) + EPS);
}

// How many evenly spaced recalls a number of hits reaches.
struct Recalls {
    uint64_t rounded_up, rounded_up_above;  // a bit for each of at most 128 recalls
    int64_t most;

    explicit Recalls(Span<const uint8_t> flags) : rounded_up(0), rounded_up_above(0), most(flags.size - 1) {
        for (int64_t k = 0; k < flags.size; ++k)
            (k < 64 ? rounded_up : rounded_up_above) |= static_cast<uint64_t>(flags[k] != 0) << (k % 64);
    }

    double per_hit(int64_t positives) const {
        return static_cast<double>(most) / std::max(static_cast<double>(positives), 1.0);
    }

    // How many recalls are at most hits / positives, lane by lane. Where the quotient is a recall, rounding decides; that
    // is rare, and looked at only then.
    void reached(const int32_t* __restrict hits, const double* __restrict per_hit, double* __restrict result) const {
        const int32_t last = static_cast<int32_t>(most);
        int32_t exact = 0;
        for (int l = 0; l < LANES; ++l) {
            const double x = static_cast<double>(hits[l]) * per_hit[l] + NUDGE;
            const int32_t floor = static_cast<int32_t>(x), whole = floor < last ? floor : last;
            exact |= x - static_cast<double>(whole) < 2 * NUDGE ? 1 : 0;
            result[l] = static_cast<double>(whole + 1);
        }
        if (exact) settle(hits, per_hit, result);
    }

private:
    void settle(const int32_t* __restrict hits, const double* __restrict per_hit, double* __restrict result) const {
        for (int l = 0; l < LANES; ++l) {
            const double x = static_cast<double>(hits[l]) * per_hit[l] + NUDGE;
            const int64_t whole = static_cast<int32_t>(result[l]) - 1;
            const uint64_t exact = x - static_cast<double>(static_cast<int32_t>(whole)) < 2 * NUDGE ? 1 : 0;
            const uint64_t bits = whole < 64 ? rounded_up : rounded_up_above;
            result[l] -= static_cast<double>(static_cast<int32_t>(exact & (bits >> (whole & 63))));
        }
    }
};

// Operating points of a cell: their hits, and where the sums over all predictions were noted.
struct Points {
    int64_t n;
    const int32_t* hits;
    const int32_t* noted;
    const int64_t* mark;
    int64_t first_mark;

    const int32_t* every(int64_t point) const { return noted + (mark[point] - first_mark) * LANES; }
};

// Sums over the levels of the envelope, from the last point on. Everything is computed and then chosen from: without
// branches the lanes can go together.
class Levels {
public:
    // A point with its hits, and how much more it reaches than the point before it.
    void add(const int32_t* __restrict hits, const int32_t* __restrict every, const double* __restrict reached,
             const double* __restrict before) {
        for (int l = 0; l < LANES; ++l) {
            const double value = precision(hits[l], every[l]), gained = reached[l] - before[l];
            const double level = best_[l], so_far = count_[l], product = level * so_far;
            sum_[l] += value > level ? product : 0.0;
            count_[l] = (value > level ? 0.0 : so_far) + gained;
            best_[l] = value > level ? value : level;
        }
        CALIPERS_ROW_DONE;
    }
    void total(double* __restrict result) const {
        for (int l = 0; l < LANES; ++l) result[l] = sum_[l] + best_[l] * count_[l];
    }

private:
    double best_[LANES] = {0}, count_[LANES] = {0}, sum_[LANES] = {0};
};

// Walks from the last point to the first with what each of them and the one before it reach.
template <class Reach, class Use>
inline void backwards(const Points& p, Reach reach, Use use) {
    double one[LANES], two[LANES], *here = one, *before = two;
    if (p.n) reach(p.hits + (p.n - 1) * LANES, here);
    for (int64_t point = p.n - 1; point >= 0; --point) {
        const int32_t* hits = p.hits + point * LANES;
        if (point)
            reach(hits - LANES, before);
        else
            std::memset(before, 0, sizeof one);
        use(hits, p.every(point), here, before);
        std::swap(here, before);
    }
}

// Every level counts as many recalls as it reaches.
CALIPERS_WIDE
void level_sums(Points p, Recalls recalls, const double* __restrict per_hit, double* __restrict total) {
    Levels levels;
    backwards(p, [&](const int32_t* hits, double* reached) { recalls.reached(hits, per_hit, reached); },
              [&](auto... point) { levels.add(point...); });
    levels.total(total);
}

// The area: every level counts as many hits as it has.
CALIPERS_WIDE
void area_sums(Points p, double* __restrict total) {
    Levels levels;
    backwards(p, [](const int32_t* hits, double* reached) { std::copy(hits, hits + LANES, reached); },
              [&](auto... point) { levels.add(point...); });
    levels.total(total);
}

// Sum over all points, from the first on.
CALIPERS_WIDE
void step_sums(Points p, double* __restrict total) {
    double sum[LANES] = {0};
    static const int32_t none[LANES] = {0};
    for (int64_t point = 0; point < p.n; ++point) {
        const int32_t *hits = p.hits + point * LANES, *every = p.every(point), *before = point ? hits - LANES : none;
        for (int l = 0; l < LANES; ++l) sum[l] += precision(hits[l], every[l]) * static_cast<double>(hits[l] - before[l]);
        CALIPERS_ROW_DONE;
    }
    std::memcpy(total, sum, sizeof sum);
}

// The envelope at every recall, (n_recalls, LANES); 0 at recalls that are never reached.
CALIPERS_WIDE
void envelope_at(Points p, Recalls recalls, const double* __restrict per_hit, double* __restrict result) {
    double best[LANES] = {0};
    std::memset(result, 0, (recalls.most + 1) * LANES * sizeof(double));
    const auto reach = [&](const int32_t* hits, double* reached) { recalls.reached(hits, per_hit, reached); };
    backwards(p, reach, [&](const int32_t* hits, const int32_t* every, const double* reached, const double* before) {
        for (int l = 0; l < LANES; ++l) {
            const double value = precision(hits[l], every[l]);
            best[l] = value > best[l] ? value : best[l];
        }
        for (int l = 0; l < LANES; ++l)
            // From 0 on: with far fewer positives than hits the quotient would leave the whole numbers.
            for (int64_t k = std::max<int64_t>(0, static_cast<int64_t>(before[l])); k < static_cast<int64_t>(reached[l]); ++k)
                result[k * LANES + l] = best[l];
    });
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
    Buffer<int32_t> noted, hits;
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
            int32_t* hits = desk.hits.of(n * LANES);
            running_hits(p.weights.data, p.hit_image.data, p.hit_offsets[cell], p.point_hits.data + start, n, hits);
            use(cell, Points{n, hits, noted, p.point_mark.data + start, first});
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
    const Recalls recalls(p.rounded_up);
    const int64_t n_recalls = p.rounded_up.size;
    every_cell(p.plan, threads, [&](int64_t cell, const Points& points) {
        double total[LANES], per_hit[LANES] = {0};
        const int64_t first = cell * p.n_replicates;
        for (int64_t r = 0; r < p.n_replicates; ++r) per_hit[r] = recalls.per_hit(p.positives[first + r]);
        if (!p.enveloped)
            step_sums(points, total);
        else if (n_recalls)
            level_sums(points, recalls, per_hit, total);
        else
            area_sums(points, total);
        for (int64_t r = 0; r < p.n_replicates; ++r) {
            const double positives = static_cast<double>(p.positives[first + r]);
            const double mean = total[r] / (n_recalls ? static_cast<double>(n_recalls) : positives);
            result[first + r] = positives > 0 ? mean : std::numeric_limits<double>::quiet_NaN();
        }
    });
}

void replicate_curve(const PrecisionProblem& p, Span<double> result, int threads) {
    const Recalls recalls(p.rounded_up);
    every_cell(p.plan, threads, [&](int64_t cell, const Points& points) {
        double per_hit[LANES] = {0};
        for (int64_t r = 0; r < p.n_replicates; ++r) per_hit[r] = recalls.per_hit(p.positives[cell * p.n_replicates + r]);
        envelope_at(points, recalls, per_hit, result.data + cell * p.rounded_up.size * LANES);
    });
}

void replicate_hits(const ReplicatePlan& p, Span<const double> allowed, int64_t n, Span<int32_t> result, int threads) {
    every_cell(p, threads, [&](int64_t cell, const Points& points) {
        int32_t* most = result.data + cell * n * LANES;
        std::memset(most, 0, n * LANES * sizeof(int32_t));
        for (int64_t point = 0; point < points.n; ++point)
            for (int64_t k = 0; k < n; ++k)
                within_limit(points.hits + point * LANES, points.every(point), &allowed[k * LANES], most + k * LANES);
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

namespace {

struct Product {
    uint64_t high, low;
};

inline Product multiplied(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(a) * b;
    return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
#else
    const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const uint64_t low = a0 * b0, cross = a1 * b0 + (low >> 32), other = a0 * b1 + (cross & 0xffffffffu);
    return {a1 * b1 + (cross >> 32) + (other >> 32), a * b};
#endif
}

}  // namespace

// Philox4x64-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011), counting from 1 as NumPy does.
void random_words(uint64_t key, uint64_t stream, Span<uint64_t> words) {
    for (int64_t at = 0; at < words.size; at += 4) {
        uint64_t c[4] = {static_cast<uint64_t>(at / 4 + 1), 0, 0, 0}, k0 = key, k1 = stream;
        for (int round = 0; round < 10; ++round) {
            const Product a = multiplied(0xD2E7470EE14C6C93u, c[0]), b = multiplied(0xCA5A826395121157u, c[2]);
            const uint64_t next[4] = {b.high ^ c[1] ^ k0, b.low, a.high ^ c[3] ^ k1, a.low};
            std::memcpy(c, next, sizeof c);
            k0 += 0x9E3779B97F4A7C15u;
            k1 += 0xBB67AE8584CAA73Bu;
        }
        std::memcpy(&words[at], c, std::min<int64_t>(4, words.size - at) * sizeof(uint64_t));
    }
}

// Whole numbers below n from 32 random bits each, by multiplication; the few that would be too frequent are drawn again
// (Lemire, Fast random integer generation in an interval, 2019). NumPy draws in this way too: the numbers are the same.
bool count_draws(Span<const uint64_t> raw, Span<uint8_t> counts) {
    const uint64_t n = static_cast<uint64_t>(counts.size), rejected = (uint64_t{1} << 32) % n;
    bool enough = true;
    uint64_t drawn = 0;
    const auto draw = [&](uint64_t bits) {
        const uint64_t product = bits * n;
        if ((product & 0xffffffffu) < rejected) return;
        enough &= ++counts[product >> 32] != 0;
        ++drawn;
    };
    for (int64_t at = 0; at < raw.size; ++at) {  // the lower half of a word first
        if (drawn < n) draw(raw[at] & 0xffffffffu);
        if (drawn < n) draw(raw[at] >> 32);
    }
    return enough && drawn == n;
}

namespace {

// Bytes of eight rows as columns, by exchanging halves, quarters and single bytes. The order of bytes in a word matters,
// so this is for processors that keep the lowest byte first.
inline void transpose_eight(const uint8_t* from, int64_t row, uint8_t* to, int64_t column) {
    uint64_t x[8];
    for (int k = 0; k < 8; ++k) std::memcpy(&x[k], from + k * row, 8);
    const auto exchange = [&](int distance, uint64_t mask) {
        for (int k = 0; k < 8; ++k) {
            if (k & distance) continue;
            uint64_t &a = x[k], &b = x[k + distance];
            const uint64_t both = ((a >> (8 * distance)) ^ b) & mask;
            b ^= both;
            a ^= both << (8 * distance);
        }
    };
    exchange(1, 0x00ff00ff00ff00ffu);
    exchange(2, 0x0000ffff0000ffffu);
    exchange(4, 0x00000000ffffffffu);
    for (int k = 0; k < 8; ++k) std::memcpy(to + k * column, &x[k], 8);
}

bool lowest_byte_first() {
    const uint16_t one = 1;
    uint8_t first;
    std::memcpy(&first, &one, 1);
    return first == 1;
}

}  // namespace

void transpose(Span<const uint8_t> from, int64_t rows, int64_t columns, Span<uint8_t> to) {
    const int64_t whole_rows = lowest_byte_first() ? rows / 8 * 8 : 0, whole_columns = columns / 8 * 8;
    for (int64_t c = 0; c < whole_columns; c += 8)
        for (int64_t r = 0; r < whole_rows; r += 8)
            transpose_eight(from.data + r * columns + c, columns, to.data + c * rows + r, rows);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

}  // namespace calipers
