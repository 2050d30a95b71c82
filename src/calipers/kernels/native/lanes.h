// SPDX-License-Identifier: Apache-2.0
// Work on the fates of one object under all views, side by side in memory: eight bytes of a machine word at a time. Plain
// integer arithmetic, the same on every processor, and as quick as vector instructions here.
#pragma once

#include <cstring>

#include "types.h"

namespace calipers {

constexpr uint64_t EACH = 0x0101010101010101u;  // a one in every byte
constexpr uint64_t HIGH = 0x80 * EACH;

// 0x80 in every byte that is not zero; bytes must be below 0x80, as fates are.
inline uint64_t nonzero(uint64_t bytes) { return (bytes + 0x7f * EACH) & HIGH; }

// 0x80 in every byte that is a hit.
inline uint64_t hits_of(uint64_t fates) { return ~nonzero(fates ^ (HIT * EACH)) & HIGH; }

inline uint64_t load(const void* from) {
    uint64_t word;
    std::memcpy(&word, from, 8);
    return word;
}

// Which views count an object, and under which it is a hit: one bit per view, for at most 64 views.
struct Masks {
    uint64_t counted = 0, hit = 0;

    Masks(const int8_t* fates, int64_t n) {
        int64_t v = 0;
        for (; v + 8 <= n; v += 8) {
            const uint64_t word = load(fates + v);
            counted |= squeeze(nonzero(word)) << v;
            hit |= squeeze(hits_of(word)) << v;
        }
        for (; v < n; ++v) {
            counted |= static_cast<uint64_t>(fates[v] != IGNORED) << v;
            hit |= static_cast<uint64_t>(fates[v] == HIT) << v;
        }
    }

private:
    // The high bits of eight bytes as the eight bits of one.
    static uint64_t squeeze(uint64_t high) { return ((high >> 7) * 0x0102040810204080u) >> 56; }
};

// How many objects have a flag, view by view: in bytes, eight at a time, that are carried over to large numbers before they
// can overflow. `flag` gives 0x80 for each of eight fates that has it.
template <uint64_t (*flag)(uint64_t)>
class FlagSums {
public:
    explicit FlagSums(int64_t n) : n_(n), small_((n + 7) / 8 * 8, 0), large_(n, 0) {}

    int64_t of(int64_t view) const { return large_[view] + small_[view]; }

    void add(const int8_t* fates) {
        if (since_ == 255) carry();
        ++since_;
        int64_t v = 0;
        for (; v + 8 <= n_; v += 8) add(v, load(fates + v));
        if (v == n_) return;
        uint64_t rest = 0;  // ignored fates, which have no flag
        std::memcpy(&rest, fates + v, static_cast<size_t>(n_ - v));
        add(v, rest);
    }

    void clear() {
        std::memset(small_.data(), 0, small_.size());
        std::memset(large_.data(), 0, large_.size() * sizeof(int64_t));
        since_ = 0;
    }

private:
    static_assert(IGNORED == 0, "counted fates are those that are not zero");

    void add(int64_t view, uint64_t fates) {
        const uint64_t sums = load(&small_[view]) + (flag(fates) >> 7);
        std::memcpy(&small_[view], &sums, 8);
    }

    void carry() {
        for (int64_t v = 0; v < n_; ++v) large_[v] += small_[v];
        std::memset(small_.data(), 0, small_.size());
        since_ = 0;
    }

    int64_t n_;
    int since_ = 0;  // objects since the last carry
    std::vector<uint8_t> small_;
    std::vector<int64_t> large_;
};

using CountedSums = FlagSums<nonzero>;
using HitSums = FlagSums<hits_of>;

}  // namespace calipers
