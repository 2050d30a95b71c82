// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lanes.h"

namespace calipers {

// Most objects hit nothing, and their fates make only a few different rows: counted under these views, not under those.
// Such rows are numbered once; after that an object is one byte, and a sum over rows a sum over numbers.
constexpr int MOST_KINDS = 30;
constexpr uint8_t FULL_ROW = 255;  // a row of its own: it has a hit, or there were too many kinds

// Numbers the rows of fates (n, V) and returns the views that each kind counts. More than 64 views: all rows are full.
std::vector<uint64_t> row_kinds(Span<const int8_t> fates, int64_t n_views, Span<uint8_t> kind, int threads);

// Sums over numbered rows, for groups of views that no kind tells apart.
class KindSums {
public:
    KindSums(Span<const uint64_t> kinds, int64_t n_views) : n_kinds_(kinds.size) {
        for (int64_t v = 0; v < n_views; ++v) {
            uint32_t signature = 0;
            for (int64_t m = 0; m < kinds.size; ++m) signature |= static_cast<uint32_t>((kinds[m] >> (v & 63)) & 1) << m;
            size_t group = 0;
            while (group < groups_.size() && groups_[group] != signature) ++group;
            if (group == groups_.size()) groups_.push_back(signature);
            group_of_.push_back(static_cast<int32_t>(group));
        }
        of_group_.assign(groups_.size(), 0);
    }

    void clear() { std::memset(of_kind_, 0, sizeof of_kind_); }
    void add(uint8_t kind, int64_t n = 1) { of_kind_[kind] += n; }

    // Brings the sums of the groups up to date.
    void add_up() {
        for (size_t g = 0; g < groups_.size(); ++g) {
            int64_t sum = 0;
            for (int64_t m = 0; m < n_kinds_; ++m) sum += (groups_[g] >> m) & 1 ? of_kind_[m] : 0;
            of_group_[g] = sum;
        }
    }
    int64_t counted(int64_t view) const { return of_group_[group_of_[view]]; }

private:
    int64_t n_kinds_;
    int64_t of_kind_[MOST_KINDS] = {0};
    std::vector<uint32_t> groups_;
    std::vector<int32_t> group_of_;
    std::vector<int64_t> of_group_;
};

}  // namespace calipers
