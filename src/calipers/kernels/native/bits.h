// SPDX-License-Identifier: Apache-2.0
// Words of 64 bits as sets.
#pragma once

#include <bitset>
#include <cstdint>
#include <cstring>

#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace calipers {

inline int lowest_bit(uint64_t word) {
#ifdef _MSC_VER
    unsigned long bit;
    _BitScanForward64(&bit, word);
    return static_cast<int>(bit);
#else
    return __builtin_ctzll(word);
#endif
}

inline int64_t count_bits(uint64_t word) { return static_cast<int64_t>(std::bitset<64>(word).count()); }

// 64 bytes that are 0 or 1 as one word: byte k becomes bit k.
inline uint64_t packed(const uint8_t* flags) {
    uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int k = 0; k < 64; ++k) word |= static_cast<uint64_t>(flags[k]) << k;
#else
    for (int k = 0; k < 64; k += 8) {  // the product brings byte j of eight to bit 56 + j; no two terms meet
        uint64_t eight;
        std::memcpy(&eight, flags + k, sizeof eight);
        word |= (eight * 0x0102040810204080u >> 56) << k;
    }
#endif
    return word;
}

}  // namespace calipers
