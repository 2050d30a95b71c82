// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/kendall.py: discordant instances of pairs of maps, counted as the inversions of a permutation.
#include <algorithm>
#include <cstring>

#include "pairwise.h"

namespace calipers {

namespace {

constexpr int64_t ENTRIES_FOR_THREADS = int64_t{1} << 16;  // below, a thread costs more than it saves
constexpr int BASE_BITS = 4;
constexpr int64_t BASE = 1 << BASE_BITS;
constexpr int64_t BLOCKS = 16;  // whose counts fit into a byte: each adds at most 15 to a place

// LATER[i][j]: whether j stands behind i.
struct Later {
    uint8_t behind[BASE][BASE];
    constexpr Later() : behind() {
        for (int i = 0; i < BASE; ++i)
            for (int j = 0; j < BASE; ++j) behind[i][j] = j > i;
    }
};
constexpr Later LATER{};

// Inversions inside of blocks of BASE places that hold BASE neighbouring numbers each: all against all.
template <class T>
int64_t inversions_of_blocks(const T* from, int64_t n) {
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += BASE * BLOCKS) {
        uint8_t sum[BASE] = {};
        const int64_t stop = std::min(n, start + BASE * BLOCKS);
        for (int64_t block = start; block < stop; block += BASE) {
            int8_t value[BASE];
            for (int64_t k = 0; k < BASE; ++k)  // a block that is not full ends in order
                value[k] = static_cast<int8_t>((block + k < n ? static_cast<int64_t>(from[block + k]) : k) & (BASE - 1));
            for (int64_t i = 0; i < BASE; ++i)
                for (int64_t j = 0; j < BASE; ++j)
                    sum[j] = static_cast<uint8_t>(sum[j] + ((value[j] < value[i]) & LATER.behind[i][j]));
        }
        for (uint8_t s : sum) found += s;
    }
    return found;
}

// Parts every group of 2^(bit + 1) neighbouring numbers, in order, by a bit: zeros to the front, ones behind them. An inversion
// between the halves is a one before a zero, and counted at the zero.
template <class T>
int64_t split_groups(const T* from, T* to, int64_t n, int bit) {
    const int64_t half = int64_t{1} << bit;
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += 2 * half) {
        const int64_t stop = std::min(n, start + 2 * half);
        int64_t zero = start, ones = 0;
        for (int64_t k = start; k < stop; ++k) {
            const T value = from[k];
            const int64_t one = (value >> bit) & 1;
            to[one ? start + half + ones : zero] = value;
            found += ones & (one - 1);
            ones += one;
            zero += 1 - one;
        }
    }
    return found;
}

// Inversions of an arrangement of 0 ... n - 1, which is spoilt.
template <class T>
int64_t inversions(T* from, T* spare, int64_t n) {
    int bits = BASE_BITS;
    while ((int64_t{1} << bits) < n) ++bits;
    int64_t found = 0;
    for (int bit = bits - 1; bit >= BASE_BITS; --bit) {
        found += split_groups(from, spare, n, bit);
        std::swap(from, spare);
    }
    return found + inversions_of_blocks(from, n);
}

template <class T>
struct Memory {
    std::vector<T> list, spare, next, run;
    explicit Memory(int64_t n) : list(n), spare(n), next(n), run(n) {}

    void begin() {
        for (size_t k = 0; k < next.size(); ++k) next[k] = static_cast<T>(k);
    }
};

// One map as the problem has it.
struct Row {
    const int32_t *order, *below;
    bool tied;
};

// Place by (a, b) of every instance, along the order of b, which has no ties.
template <class T>
void list_untied(const Row& a, const Row& b, int64_t n, Memory<T>& m) {
    if (!a.tied) {
        for (int64_t k = 0; k < n; ++k) m.list[k] = static_cast<T>(a.below[b.order[k]]);
        return;
    }
    m.begin();
    for (int64_t k = 0; k < n; ++k) m.list[k] = m.next[a.below[b.order[k]]]++;
}

// Place by (b, a) of every instance, along the order by (a, b); returns the pairs that are tied in both.
template <class T>
int64_t list_tied(const Row& a, const Row& b, int64_t n, Memory<T>& m) {
    int64_t joint = 0;
    m.begin();
    for (int64_t k = 0; k < n; ++k) {
        const int32_t i = b.order[k], group = a.below[i];
        const int64_t place = m.next[group]++;
        const T value = static_cast<T>(b.below[i]);
        const bool again = place > group && m.spare[place - 1] == value;
        m.spare[place] = value;
        m.run[place] = again ? static_cast<T>(m.run[place - 1] + 1) : T(0);
        joint += m.run[place];
    }
    m.begin();
    for (int64_t k = 0; k < n; ++k) m.list[k] = m.next[m.spare[k]]++;
    return joint;
}

template <class T>
void kendall_pairs_of(const KendallProblem& p, Span<int64_t> discordant, Span<int64_t> joint, int threads) {
    const auto row = [&](int64_t k) { return Row{p.order.data + k * p.n, p.below.data + k * p.n, p.tied[k] != 0}; };
    const auto make = [&] { return Memory<T>(p.n); };
    const int most = p.first.size * p.n < ENTRIES_FOR_THREADS ? 1 : threads;
    parallel_with(p.first.size, most, make, [&](Memory<T>& m, int64_t k) {
        Row a = row(p.first[k]), b = row(p.second[k]);
        if (b.tied && !a.tied) std::swap(a, b);
        joint[k] = 0;
        if (b.tied)
            joint[k] = list_tied(a, b, p.n, m);
        else
            list_untied(a, b, p.n, m);
        discordant[k] = inversions(m.list.data(), m.spare.data(), p.n);
    });
}

}  // namespace

void kendall_pairs(const KendallProblem& problem, Span<int64_t> discordant, Span<int64_t> joint, int threads) {
    if (problem.n <= int64_t{1} << 16) return kendall_pairs_of<uint16_t>(problem, discordant, joint, threads);
    kendall_pairs_of<uint32_t>(problem, discordant, joint, threads);
}

}  // namespace calipers
