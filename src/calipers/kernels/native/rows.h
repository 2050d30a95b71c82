// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Fates of objects, row by row: each object has a row of its own, or the number of one of a few distinct rows.
struct FateRows {
    Span<const int8_t> rows;    // (n, V), or (D, V)
    Span<const int32_t> place;  // (n,) which row; empty: each its own

    const int8_t* of(int64_t object, int64_t n_views) const {
        return &rows[(place.size ? place[object] : object) * n_views];
    }
};

// Writes for every row of fates (n, V) which of the distinct rows it is, and returns where each of those is first.
std::vector<int64_t> distinct_rows(Span<const int8_t> fates, int64_t n_views, Span<int32_t> place);

}  // namespace calipers
