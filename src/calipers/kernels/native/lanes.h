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

// Sums of one weight per object, view by view, in bytes that are carried over to large numbers before they can overflow:
// of all counted objects, and of the hits among them.
class Sums {
public:
    explicit Sums(int64_t n) : n_(n), small_(2 * n, 0), large_(2 * n, 0) {}

    int64_t counted(int64_t view) const { return large_[view] + small_[view]; }
    int64_t hits(int64_t view) const { return large_[n_ + view] + small_[n_ + view]; }

    // Adds an object; returns whether it is a hit in some view.
    bool add(const int8_t* fates, int64_t weight) {
        if (weight > 255) return add_large(fates, weight);
        if (since_ + weight > 255) carry();
        since_ += weight;
        const uint64_t one = static_cast<uint64_t>(weight);
        uint8_t *counted = small_.data(), *hits = counted + n_;
        uint64_t any = 0;
        int64_t v = 0;
        for (; v + 8 <= n_; v += 8) {
            const uint64_t word = load(fates + v), hit = hits_of(word);
            put(counted + v, load(counted + v) + (nonzero(word) >> 7) * one);
            any |= hit;
            if (hit) put(hits + v, load(hits + v) + (hit >> 7) * one);
        }
        for (; v < n_; ++v) {
            counted[v] = static_cast<uint8_t>(counted[v] + (fates[v] != IGNORED) * one);
            hits[v] = static_cast<uint8_t>(hits[v] + (fates[v] == HIT) * one);
            any |= fates[v] == HIT;
        }
        return any != 0;
    }

    void clear() {
        std::memset(small_.data(), 0, small_.size());
        std::memset(large_.data(), 0, large_.size() * sizeof(int64_t));
        since_ = 0;
    }

private:
    static_assert(IGNORED == 0, "counted fates are those that are not zero");

    static void put(uint8_t* to, uint64_t word) { std::memcpy(to, &word, 8); }

    bool add_large(const int8_t* fates, int64_t weight) {
        for (int64_t v = 0; v < n_; ++v) {
            large_[v] += (fates[v] != IGNORED) * weight;
            large_[n_ + v] += (fates[v] == HIT) * weight;
        }
        return std::memchr(fates, HIT, static_cast<size_t>(n_)) != nullptr;
    }

    void carry() {
        for (size_t k = 0; k < small_.size(); ++k) {
            large_[k] += small_[k];
            small_[k] = 0;
        }
        since_ = 0;
    }

    int64_t n_, since_ = 0;
    std::vector<uint8_t> small_;
    std::vector<int64_t> large_;
};

}  // namespace calipers
