// SPDX-License-Identifier: Apache-2.0
// Twin of distinct_rows in kernels/ragged.py.
#include "rows.h"

#include <cstring>

namespace calipers {

namespace {

// Any number that differs for most rows that differ.
uint64_t hash_of(const int8_t* row, int64_t n_views) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int64_t v = 0; v < n_views; v += 8) {
        uint64_t word = 0;
        std::memcpy(&word, row + v, static_cast<size_t>(n_views - v < 8 ? n_views - v : 8));
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

std::vector<int64_t> distinct_rows(Span<const int8_t> fates, int64_t n_views, Span<int32_t> place) {
    std::vector<int64_t> first;
    std::vector<int32_t> table(1024, -1);  // number of a row at its hash, or the next free entry behind it
    const auto row_of = [&](int64_t k) { return &fates[k * n_views]; };
    const auto entry_of = [&](const int8_t* row) -> int32_t& {
        const size_t mask = table.size() - 1;
        size_t at = hash_of(row, n_views) & mask;
        while (table[at] >= 0 && std::memcmp(row_of(first[table[at]]), row, static_cast<size_t>(n_views))) at = (at + 1) & mask;
        return table[at];
    };
    for (int64_t k = 0; k < place.size; ++k) {
        int32_t* entry = &entry_of(row_of(k));
        if (*entry < 0) {
            *entry = static_cast<int32_t>(first.size());
            first.push_back(k);
            place[k] = *entry;
            if (2 * first.size() > table.size()) {
                table.assign(2 * table.size(), -1);
                for (size_t m = 0; m < first.size(); ++m) entry_of(row_of(first[m])) = static_cast<int32_t>(m);
            }
            continue;
        }
        place[k] = *entry;
    }
    return first;
}

}  // namespace calipers
