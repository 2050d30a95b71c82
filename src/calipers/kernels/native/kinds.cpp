// SPDX-License-Identifier: Apache-2.0
#include "kinds.h"

#include <algorithm>

namespace calipers {

std::vector<uint64_t> row_kinds(Span<const int8_t> fates, int64_t n_views, Span<uint8_t> kind, int threads) {
    std::vector<uint64_t> kinds;
    if (n_views > 64 || n_views == 0) {
        std::fill(kind.data, kind.data + kind.size, FULL_ROW);
        return kinds;
    }
    // The kinds are fixed first, from the rows in input order, so that they do not depend on the threads.
    const int64_t n = kind.size;
    for (int64_t k = 0; k < n && kinds.size() < MOST_KINDS; ++k) {
        const Masks row(&fates[k * n_views], n_views);
        if (row.hit == 0 && std::find(kinds.begin(), kinds.end(), row.counted) == kinds.end()) kinds.push_back(row.counted);
        if (k >= 4096) break;  // rarer kinds are not worth a number
    }
    constexpr int64_t ROWS = 16384;
    parallel(tasks_of(n, ROWS), threads, [&](int64_t task) {
        for (int64_t k = task * ROWS; k < std::min(n, (task + 1) * ROWS); ++k) {
            const Masks row(&fates[k * n_views], n_views);
            kind[k] = FULL_ROW;
            if (row.hit) continue;
            for (size_t m = 0; m < kinds.size(); ++m)
                if (kinds[m] == row.counted) {
                    kind[k] = static_cast<uint8_t>(m);
                    break;
                }
        }
    });
    return kinds;
}

}  // namespace calipers
