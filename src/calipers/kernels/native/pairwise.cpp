// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/rank_rows.py and of the counts of kernels/pairwise.py.
#include "pairwise.h"

#include <algorithm>
#include <cstring>

#include "bits.h"

namespace calipers {

namespace {

constexpr int64_t ENTRIES_FOR_THREADS = int64_t{1} << 16;  // below, a thread costs more than it saves
constexpr int64_t LARGE_ROW = int64_t{1} << 12;             // from here on wider digits pay

struct Item {
    uint32_t lead;  // the leading bits of a key
    uint32_t index;
};

// Numbers as whole numbers in the same order; both zeros are one.
inline uint64_t key_of(double value) {
    constexpr uint64_t sign = uint64_t{1} << 63;
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (bits == sign) bits = 0;
    return bits & sign ? ~bits : bits | sign;
}

// Sorts by digits of BITS bits, the last one first; digits that all items share are passed over. Returns where the result is.
template <int BITS>
Item* sort_items(Item* items, Item* spare, int64_t n) {
    constexpr int DIGITS = (32 + BITS - 1) / BITS, SIZE = 1 << BITS;
    constexpr uint32_t MASK = SIZE - 1;
    uint32_t counts[DIGITS][SIZE] = {};
    for (int64_t k = 0; k < n; ++k)
        for (int d = 0; d < DIGITS; ++d) ++counts[d][items[k].lead >> (d * BITS) & MASK];
    for (int d = 0; d < DIGITS; ++d) {
        uint32_t* count = counts[d];
        if (count[items[0].lead >> (d * BITS) & MASK] == n) continue;
        uint32_t start = 0;
        for (int b = 0; b < SIZE; ++b) {
            const uint32_t here = count[b];
            count[b] = start;
            start += here;
        }
        for (int64_t k = 0; k < n; ++k) spare[count[items[k].lead >> (d * BITS) & MASK]++] = items[k];
        std::swap(items, spare);
    }
    return items;
}

struct Sorting {
    std::vector<uint64_t> keys;
    std::vector<Item> items, spare;
    explicit Sorting(int64_t n) : keys(n), items(n), spare(n) {}
};

// Items in the order of their keys: by 32 bits from the first in which keys differ, then the few that share these.
Item* sorted_items(const double* values, int64_t n, Sorting& memory) {
    uint64_t *keys = memory.keys.data(), lowest = ~uint64_t{0}, highest = 0;
    for (int64_t k = 0; k < n; ++k) {
        keys[k] = key_of(values[k]);
        lowest = std::min(lowest, keys[k]);
        highest = std::max(highest, keys[k]);
    }
    int shift = 0;
    while ((highest - lowest) >> shift > 0xffffffffu) ++shift;
    Item *items = memory.items.data(), *spare = memory.spare.data();
    for (int64_t k = 0; k < n; ++k)
        items[k] = {static_cast<uint32_t>((keys[k] - lowest) >> shift), static_cast<uint32_t>(k)};
    items = n < LARGE_ROW ? sort_items<8>(items, spare, n) : sort_items<11>(items, spare, n);
    for (int64_t start = 0, stop; shift && start < n; start = stop) {
        bool differ = false;
        for (stop = start + 1; stop < n && items[stop].lead == items[start].lead; ++stop)
            differ |= keys[items[stop].index] != keys[items[start].index];
        if (differ)
            std::sort(items + start, items + stop, [&](const Item& a, const Item& b) { return keys[a.index] < keys[b.index]; });
    }
    return items;
}

void row_places(const double* values, int64_t n, Sorting& memory, int32_t* order, int32_t* below, int32_t* doubled) {
    const Item* items = sorted_items(values, n, memory);
    const uint64_t* keys = memory.keys.data();
    for (int64_t start = 0, stop; start < n; start = stop) {
        const uint64_t key = keys[items[start].index];
        for (stop = start + 1; stop < n && keys[items[stop].index] == key;) ++stop;
        for (int64_t k = start; k < stop; ++k) {
            order[k] = static_cast<int32_t>(items[k].index);
            below[items[k].index] = static_cast<int32_t>(start);
            doubled[items[k].index] = static_cast<int32_t>(start + stop - n);
        }
    }
}

constexpr int64_t WORDS = 16;  // of a tile; bytes of sums of bits hold 31
constexpr int64_t TILE = 64 * WORDS;

// The bits that two sets of one tile share, counted in the eight bytes of a word side by side.
inline int64_t common_bits(const uint64_t* a, const uint64_t* b) {
    uint64_t sum = 0;
    for (int64_t w = 0; w < WORDS; ++w) {
        uint64_t x = a[w] & b[w];
        x -= (x >> 1) & 0x5555555555555555u;
        x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
        sum += (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    }
    sum = (sum & 0x00ff00ff00ff00ffu) + ((sum >> 8) & 0x00ff00ff00ff00ffu);
    return static_cast<int64_t>((sum * 0x0001000100010001u) >> 48);
}

// Tables of one stripe of instances.
class Stripe {
public:
    Stripe(Span<const double> values, int64_t n_rows, Span<const double> thresholds)
        : values_(values), n_(n_rows ? values.size / n_rows : 0), n_rows_(n_rows), thresholds_(thresholds),
          n_pairs_(n_rows * (n_rows - 1) / 2), words_(n_rows * WORDS),
          ones(thresholds.size * n_rows, 0), both(thresholds.size * n_pairs_, 0), called(thresholds.size * (n_rows + 1), 0) {}

    void add(int64_t start, int64_t stop) {
        for (int64_t t = 0; t < thresholds_.size; ++t) {
            std::memset(said_, 0, sizeof said_);
            for (int64_t k = 0; k < n_rows_; ++k) pack(k, start, stop - start, thresholds_[t]);
            int64_t* at = both.data() + t * n_pairs_;
            for (int64_t i = 0; i < n_rows_; ++i) {
                const uint64_t* a = words_.data() + i * WORDS;
                ones[t * n_rows_ + i] += common_bits(a, a);
                for (int64_t j = i + 1; j < n_rows_; ++j) *at++ += common_bits(a, words_.data() + j * WORDS);
            }
            int64_t* count = called.data() + t * (n_rows_ + 1);
            for (int64_t m = 0; m < stop - start; ++m) ++count[said_[m]];
        }
    }

private:
    void pack(int64_t row, int64_t start, int64_t n, double threshold) {
        const double* value = values_.data + row * n_ + start;
        for (int64_t m = 0; m < n; ++m) flags_[m] = value[m] >= threshold;
        std::memset(flags_ + n, 0, static_cast<size_t>(TILE - n));
        for (int64_t m = 0; m < n; ++m) said_[m] += flags_[m];
        for (int64_t w = 0; w < WORDS; ++w) words_[row * WORDS + w] = packed(flags_ + 64 * w);
    }

    Span<const double> values_;
    int64_t n_, n_rows_;
    Span<const double> thresholds_;
    int64_t n_pairs_;
    std::vector<uint64_t> words_;
    uint8_t flags_[TILE] = {};
    int32_t said_[TILE] = {};  // models that call an instance positive

public:
    std::vector<int64_t> ones, both, called;
};

void add_to(Span<int64_t> total, const std::vector<int64_t>& part) {
    for (int64_t k = 0; k < total.size; ++k) total[k] += part[static_cast<size_t>(k)];
}

}  // namespace

void row_places(Span<const double> values, int64_t n_rows, const RowPlaces& found, int threads) {
    const int64_t n = n_rows ? values.size / n_rows : 0;
    if (n == 0) return;
    const auto make = [n] { return Sorting(n); };
    parallel_with(n_rows, values.size < ENTRIES_FOR_THREADS ? 1 : threads, make, [&](Sorting& memory, int64_t k) {
        row_places(values.data + k * n, n, memory, found.order.data + k * n, found.below.data + k * n,
                   found.doubled.data + k * n);
    });
}

void joint_counts(Span<const double> values, int64_t n_rows, Span<const double> thresholds, const JointTable& table, int threads) {
    const int64_t n = n_rows ? values.size / n_rows : 0, tiles = tasks_of(n, TILE);
    const int64_t most = values.size * thresholds.size < ENTRIES_FOR_THREADS ? 1 : threads;
    const int64_t stripes = std::max<int64_t>(1, std::min<int64_t>(most, tiles));
    std::vector<Stripe> parts(static_cast<size_t>(stripes), Stripe(values, n_rows, thresholds));
    parallel(stripes, threads, [&](int64_t s) {
        for (int64_t tile = s; tile < tiles; tile += stripes)
            parts[static_cast<size_t>(s)].add(tile * TILE, std::min(n, (tile + 1) * TILE));
    });
    for (const Stripe& part : parts) {
        add_to(table.ones, part.ones);
        add_to(table.both, part.both);
        add_to(table.called, part.called);
    }
}

}  // namespace calipers
