// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// What is summed over the pieces of images, owner by owner (class or image): pairs, pairs of equal class, nearness, shape,
// missed references, extra predictions. See kernels/rodeo.py.
struct TallyTable {
    Span<const int64_t> pair_offsets, missed_offsets, extra_offsets;  // per piece
    Span<const int64_t> owner, missed_owner, extra_owner;
    Span<const uint8_t> right;
    Span<const double> near, shape;
    int64_t n_owners;
};

}  // namespace calipers
