// SPDX-License-Identifier: Apache-2.0
// Words of 64 bits as sets, and memory that is announced.
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

// Says that memory will be read soon, so that it is on its way when it is.
inline void prefetch(const void* from) {
#ifdef _MSC_VER
    (void)from;
#else
    __builtin_prefetch(from);
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

// Eight bits as eight bytes that are 0 or 255: bit k becomes byte k in memory.
inline uint64_t spread(uint8_t bits) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    constexpr uint64_t of_byte = 0x0102040810204080u;
#else
    constexpr uint64_t of_byte = 0x8040201008040201u;
#endif
    constexpr uint64_t each = 0x0101010101010101u;
    const uint64_t chosen = (bits * each) & of_byte;
    // adding 127 carries every byte that is not zero into its highest bit; 128 itself has it already
    return ((((chosen & (0x7f * each)) + 0x7f * each) | chosen) >> 7 & each) * 0xff;
}

}  // namespace calipers
