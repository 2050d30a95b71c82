// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/kendall.py: discordant instances of pairs of maps, counted as the inversions of a permutation; numbers are
// sorted by their leading digits first, and inversions counted where digits differ. Every group of numbers is complete, so its
// place is known.
#include <algorithm>

#include "pairwise.h"

namespace calipers {

namespace {

constexpr int64_t ENTRIES_FOR_THREADS = int64_t{1} << 16;  // below, a thread costs more than it saves
constexpr int BASE_BITS = 6;  // numbers of a word
constexpr int64_t BASE = 1 << BASE_BITS;
constexpr int DIGIT_BITS = 4;  // of a level, at most: each wants more counters, fewer want more levels
constexpr int64_t PIECE = 1 << 15;  // numbers whose counts fit into 16 bits

// The bits of words, added up.
int64_t sum_bits(const uint64_t* words, int64_t n) {
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += 16) {  // bytes of sums hold 31 words
        const int64_t stop = std::min(n, start + 16);
        uint64_t sum = 0;
        for (int64_t k = start; k < stop; ++k) {
            uint64_t x = words[k];
            x -= (x >> 1) & 0x5555555555555555u;
            x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
            sum += (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
        }
        sum = (sum & 0x00ff00ff00ff00ffu) + ((sum >> 8) & 0x00ff00ff00ff00ffu);
        found += static_cast<int64_t>((sum * 0x0001000100010001u) >> 48);
    }
    return found;
}

// Inversions inside of blocks of BASE places that hold BASE neighbouring numbers each: higher numbers that were seen before.
template <class T>
int64_t inversions_of_blocks(const T* from, int64_t n) {
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += BASE) {
        const int64_t stop = std::min(n, start + BASE);
        uint64_t seen = 0, higher[BASE];
        for (int64_t k = start; k < stop; ++k) {
            const int number = static_cast<int>(from[k] & (BASE - 1));
            higher[k - start] = seen >> number;
            seen |= uint64_t{1} << number;
        }
        found += sum_bits(higher, stop - start);
    }
    return found;
}

// STEP[d][e]: whether a number with digit d stands above one with digit e.
template <int SIZE>
struct Steps {
    uint16_t above[SIZE][SIZE];
    constexpr Steps() : above() {
        for (int d = 0; d < SIZE; ++d)
            for (int e = 0; e < SIZE; ++e) above[d][e] = e < d;
    }
};

// Sorts every group of 2^(shift + BITS) neighbouring numbers by their digit of BITS bits at shift, equal ones in order, and
// counts the inversions between different digits: at each number those with a higher digit before it.
template <int BITS, class T>
int64_t sort_groups(const T* from, T* to, int64_t n, int shift) {
    constexpr int SIZE = 1 << BITS;
    static constexpr Steps<SIZE> STEP{};
    const int64_t width = int64_t{1} << (shift + BITS);
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += width) {
        const int64_t stop = std::min(n, start + width);
        int64_t place[SIZE], higher[SIZE] = {};
        for (int d = 0; d < SIZE; ++d) place[d] = start + (int64_t{d} << shift);
        for (int64_t begin = start; begin < stop; begin += PIECE) {
            const int64_t end = std::min(stop, begin + PIECE);
            uint16_t count[SIZE] = {};
            for (int64_t k = begin; k < end; ++k) {
                const T number = from[k];
                const int digit = static_cast<int>((number >> shift) & (SIZE - 1));
                found += count[digit] + higher[digit];
                for (int e = 0; e < SIZE; ++e) count[e] = static_cast<uint16_t>(count[e] + STEP.above[digit][e]);
                to[place[digit]++] = number;
            }
            for (int e = 0; e < SIZE; ++e) higher[e] += count[e];
        }
    }
    return found;
}

template <class T>
int64_t sort_groups(const T* from, T* to, int64_t n, int shift, int bits) {
    switch (bits) {
        case 1: return sort_groups<1>(from, to, n, shift);
        case 2: return sort_groups<2>(from, to, n, shift);
        case 3: return sort_groups<3>(from, to, n, shift);
        default: return sort_groups<DIGIT_BITS>(from, to, n, shift);
    }
}

// Inversions of an arrangement of 0 ... n - 1, which is spoilt.
template <class T>
int64_t inversions(T* from, T* spare, int64_t n) {
    int top = BASE_BITS;
    while ((int64_t{1} << top) < n) ++top;
    int64_t found = 0;
    for (int levels = (top - BASE_BITS + DIGIT_BITS - 1) / DIGIT_BITS; levels > 0; --levels) {
        const int bits = (top - BASE_BITS + levels - 1) / levels;
        top -= bits;
        found += sort_groups(from, spare, n, top, bits);
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
