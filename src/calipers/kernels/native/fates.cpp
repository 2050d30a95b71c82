// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/fates.py: fates of objects that no pair touches, of those that a pair touches, and sums over them.
#include "fates.h"

#include <algorithm>
#include <cstring>

#include "referee.h"

namespace calipers {

namespace {

// Copies a short row, word by word: cheaper than a call.
inline void copy_row(int8_t* to, const int8_t* from, int64_t n) {
    int64_t v = 0;
    for (; v + 8 <= n; v += 8) std::memcpy(to + v, from + v, 8);
    for (; v < n; ++v) to[v] = from[v];
}

// One side of the comparison: what becomes of objects that no pair touches. The sets of size ranges that leave an object out
// are few, so they are numbered, and each makes one row, which is copied.
class Untouched {
public:
    // Objects that are `out` are left out by all ranges. More than eight ranges are not numbered.
    Untouched(const FateProblem& p, Span<const double> area, Span<const uint8_t> out, Fate otherwise, uint8_t* number)
        : p_(p), area_(area), out_(out), otherwise_(otherwise), number_(number) {
        if (p.ranges.number() > 8)
            std::fill(number, number + area.size, FULL_ROW);
        else
            number_sets();
        for (uint64_t set : sets_)
            for (int64_t v = 0; v < p.size.size; ++v)
                rows_.push_back((set >> (p.size[v] & 63)) & 1 ? IGNORED : otherwise);
    }

    void fill(int64_t begin, int64_t end, Span<int8_t> table) const {
        const int64_t n_views = p_.size.size;
        for (int64_t k = begin; k < end; ++k) {
            if (number_[k] != FULL_ROW) {
                copy_row(&table[k * n_views], &rows_[number_[k] * n_views], n_views);
                continue;
            }
            for (int64_t v = 0; v < n_views; ++v) {
                const bool out = out_[k] || p_.ranges.leave_out(p_.size[v], area_[k]);
                table[k * n_views + v] = out ? IGNORED : otherwise_;
            }
        }
    }

    const std::vector<uint64_t>& sets() const { return sets_; }

private:
    void number_sets() {
        const int64_t n = area_.size, n_ranges = p_.ranges.number();
        const uint8_t every = static_cast<uint8_t>((1 << n_ranges) - 1);
        for (int64_t k = 0; k < n; ++k) number_[k] = out_[k] ? every : 0;
        for (int64_t a = 0; a < n_ranges; ++a)
            for (int64_t k = 0; k < n; ++k)
                number_[k] = static_cast<uint8_t>(number_[k] | (p_.ranges.leave_out(a, area_[k]) << a));
        uint8_t number_of[256];
        std::memset(number_of, FULL_ROW, sizeof number_of);
        for (int64_t k = 0; k < n; ++k) {
            uint8_t& known = number_of[number_[k]];
            if (known == FULL_ROW && sets_.size() < FULL_ROW) {
                known = static_cast<uint8_t>(sets_.size());
                sets_.push_back(number_[k]);
            }
            number_[k] = known;
        }
    }

    const FateProblem& p_;
    Span<const double> area_;
    Span<const uint8_t> out_;
    Fate otherwise_;
    uint8_t* number_;  // of the set of every object; FULL_ROW: none
    std::vector<uint64_t> sets_;
    std::vector<int8_t> rows_;  // the fates that each set makes
};

// The views that each set counts; sets beyond the numbers that sums can take have rows of their own.
std::vector<uint64_t> kinds_of(const FateProblem& p, const std::vector<uint64_t>& sets, Span<uint8_t> kind) {
    const int64_t n_views = p.cutoffs.size, n_kinds = n_views > 64 ? 0 : std::min<int64_t>(sets.size(), MOST_KINDS);
    std::vector<uint64_t> kinds(n_kinds, 0);
    for (int64_t m = 0; m < n_kinds; ++m)
        for (int64_t v = 0; v < n_views; ++v) kinds[m] |= static_cast<uint64_t>(!((sets[m] >> (p.size[v] & 63)) & 1)) << v;
    if (n_kinds < static_cast<int64_t>(sets.size()))
        for (int64_t k = 0; k < kind.size; ++k)
            if (kind[k] >= n_kinds) kind[k] = FULL_ROW;
    return kinds;
}

}  // namespace

std::vector<uint64_t> decide(const FateProblem& p, const FateTables& t, int threads) {
    std::vector<uint8_t> number(p.crowd.size);
    const Untouched references(p, p.reference_area, p.ignore, MISSED, number.data());
    const Untouched predictions(p, p.prediction_area, p.absent, FALSE_ALARM, t.kind.data);
    const int64_t n_images = p.reference_offsets.size - 1, n_views = p.cutoffs.size;
    const int32_t* first_pair = p.pair_prediction.data;
    const int32_t* last_pair = first_pair + p.pair_prediction.size;
    parallel(tasks_of(n_images), threads, [&](int64_t task) {
        const int64_t start = task * IMAGES_PER_TASK, stop = std::min(n_images, start + IMAGES_PER_TASK);
        // Right before pairs are looked at, so that the rows are still in the cache.
        references.fill(p.reference_offsets[start], p.reference_offsets[stop], t.reference);
        predictions.fill(p.prediction_offsets[start], p.prediction_offsets[stop], t.prediction);
        for (int64_t v = 0; v < n_views; v += VIEWS_AT_ONCE) {
            Referee referee(p, t, v, static_cast<int>(std::min<int64_t>(VIEWS_AT_ONCE, n_views - v)));
            const int32_t* at = std::lower_bound(first_pair, last_pair, p.prediction_offsets[start]);
            for (int64_t i = start; i < stop; ++i) {
                const int32_t* begin = at;
                while (at != last_pair && *at < p.prediction_offsets[i + 1]) ++at;
                if (begin == at) continue;
                const int64_t base = p.reference_offsets[i];
                referee.image(begin - first_pair, at - first_pair, base, p.reference_offsets[i + 1] - base);
            }
        }
    });
    return kinds_of(p, predictions.sets(), t.kind);
}

void totals(const TotalsProblem& p, Span<int64_t> result) {
    const int64_t n_kinds = p.kinds.size, width = n_kinds + 1;  // the last kind: rows of their own
    std::vector<int64_t> of_kind(p.n_classes * width, 0);
    std::vector<CountedSums> counted(p.n_classes, CountedSums(p.n_views));
    std::vector<HitSums> hits(p.n_classes, HitSums(p.n_views));
    constexpr int64_t ROWS = 512;
    int64_t own[ROWS];
    // No branch on the kind or the rank, which nobody could predict; a block of rows at a time, so that they are few.
    for (int64_t start = 0; start < p.label.size; start += ROWS) {
        int64_t n_own = 0;
        for (int64_t k = start; k < std::min(p.label.size, start + ROWS); ++k) {
            const bool present = p.rank.size == 0 || p.rank[k] < p.limit;
            of_kind[p.label[k] * width + std::min<int64_t>(p.kind[k], n_kinds)] += present;
            own[n_own] = k;
            n_own += present & (p.kind[k] == FULL_ROW);
        }
        for (int64_t j = 0; j < n_own; ++j) {
            const int8_t* row = p.fates.of(own[j], p.n_views);
            counted[p.label[own[j]]].add(row);
            hits[p.label[own[j]]].add(row);
        }
    }
    KindSums numbered(p.kinds, p.n_views);
    for (int64_t klass = 0; klass < p.n_classes; ++klass) {
        numbered.clear();
        for (int64_t m = 0; m < n_kinds; ++m) numbered.add(static_cast<uint8_t>(m), of_kind[klass * width + m]);
        numbered.add_up();
        for (int64_t v = 0; v < p.n_views; ++v) {
            result[(2 * v) * p.n_classes + klass] = hits[klass].of(v);
            result[(2 * v + 1) * p.n_classes + klass] = counted[klass].of(v) + numbered.counted(v);
        }
    }
}

}  // namespace calipers
