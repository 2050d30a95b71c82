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

// Adds `one` to the sum of every view that counts the object; returns whether it is a hit in any of them.
inline bool add_counted(const int8_t* fates, int64_t n, uint8_t one, uint8_t* sums) {
    static_assert(IGNORED == 0, "counted fates are those that are not zero");
    uint64_t hit = 0, word, sum;
    int64_t v = 0;
    for (; v + 8 <= n; v += 8) {
        std::memcpy(&word, fates + v, 8);
        std::memcpy(&sum, sums + v, 8);
        sum += (nonzero(word) >> 7) * one;
        std::memcpy(sums + v, &sum, 8);
        hit |= ~nonzero(word ^ (HIT * EACH)) & HIGH;
    }
    for (; v < n; ++v) {
        sums[v] = static_cast<uint8_t>(sums[v] + (fates[v] != IGNORED ? one : 0));
        hit |= fates[v] == HIT;
    }
    return hit != 0;
}

// Byte sums that are carried over to large ones before they can overflow.
class Sums {
public:
    explicit Sums(int64_t n) : small_(n, 0), large_(n, 0) {}

    // Adds the weight to the views that count an object; returns whether it is a hit in any of them.
    bool add(const int8_t* fates, int64_t weight) {
        const int64_t n = static_cast<int64_t>(small_.size());
        if (weight > 255) {
            for (int64_t v = 0; v < n; ++v) large_[v] += fates[v] != IGNORED ? weight : 0;
            return std::memchr(fates, HIT, n) != nullptr;
        }
        if (since_ + weight > 255) carry();
        since_ += weight;
        return add_counted(fates, n, static_cast<uint8_t>(weight), small_.data());
    }

    int64_t operator[](int64_t view) const { return large_[view] + small_[view]; }

    void clear() {
        std::memset(small_.data(), 0, small_.size());
        std::memset(large_.data(), 0, large_.size() * sizeof(int64_t));
        since_ = 0;
    }

private:
    void carry() {
        for (size_t v = 0; v < small_.size(); ++v) {
            large_[v] += small_[v];
            small_[v] = 0;
        }
        since_ = 0;
    }

    std::vector<uint8_t> small_;
    std::vector<int64_t> large_;
    int64_t since_ = 0;
};

}  // namespace calipers
