// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/fates.py: fates of objects that no pair touches, of those that a pair touches, and sums over them.
#include "fates.h"

#include <algorithm>
#include <cstring>

#include "referee.h"

namespace calipers {

namespace {

// Numbers the sets of size ranges that flag an object: there are only a few. Absent objects count as flagged by all.
// More than eight ranges are not numbered: then every object makes a row of its own.
std::vector<uint64_t> number_sets(Span<const uint8_t> flags, Span<const uint8_t> absent, int64_t n, uint8_t* number) {
    std::vector<uint64_t> sets;
    const int64_t n_ranges = n ? flags.size / n : 0;
    if (n_ranges > 8) {
        std::fill(number, number + n, FULL_ROW);
        return sets;
    }
    std::fill(number, number + n, 0);
    for (int64_t a = 0; a < n_ranges; ++a)
        for (int64_t k = 0; k < n; ++k) number[k] = static_cast<uint8_t>(number[k] | (flags[a * n + k] << a));
    const uint8_t every = static_cast<uint8_t>((1 << n_ranges) - 1);
    if (absent.size)
        for (int64_t k = 0; k < n; ++k) number[k] = absent[k] ? every : number[k];
    uint8_t number_of[256];
    std::memset(number_of, FULL_ROW, sizeof number_of);
    for (int64_t k = 0; k < n; ++k) {
        uint8_t& known = number_of[number[k]];
        if (known == FULL_ROW && sets.size() < FULL_ROW) {
            known = static_cast<uint8_t>(sets.size());
            sets.push_back(number[k]);
        }
        number[k] = known;
    }
    return sets;
}

// Copies a short row, word by word: cheaper than a call.
inline void copy_row(int8_t* to, const int8_t* from, int64_t n) {
    int64_t v = 0;
    for (; v + 8 <= n; v += 8) std::memcpy(to + v, from + v, 8);
    for (; v < n; ++v) to[v] = from[v];
}

// Fates of objects that no pair touches: each set makes one row, which is copied.
void fill(const FateProblem& p, Span<const uint8_t> flags, Span<const uint8_t> absent, const std::vector<uint64_t>& sets,
          const uint8_t* number, int64_t n, Fate otherwise, Span<int8_t> table, int threads) {
    const int64_t n_views = p.cutoffs.size;
    std::vector<int8_t> rows;
    for (uint64_t set : sets)
        for (int64_t v = 0; v < n_views; ++v) rows.push_back((set >> (p.size[v] & 63)) & 1 ? IGNORED : otherwise);
    constexpr int64_t ROWS = 16384;
    parallel(tasks_of(n, ROWS), threads, [&](int64_t task) {
        for (int64_t k = task * ROWS; k < std::min(n, (task + 1) * ROWS); ++k) {
            if (number[k] != FULL_ROW) {
                copy_row(&table[k * n_views], &rows[number[k] * n_views], n_views);
                continue;
            }
            const bool gone = absent.size && absent[k];
            for (int64_t v = 0; v < n_views; ++v)
                table[k * n_views + v] = gone || flags[p.size[v] * n + k] ? IGNORED : otherwise;
        }
    });
}

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
    std::vector<uint64_t> sets = number_sets(p.ignored, {}, p.crowd.size, number.data());
    fill(p, p.ignored, {}, sets, number.data(), p.crowd.size, MISSED, t.reference, threads);
    sets = number_sets(p.outside, p.absent, p.score.size, t.kind.data);
    fill(p, p.outside, p.absent, sets, t.kind.data, p.score.size, FALSE_ALARM, t.prediction, threads);
    std::vector<uint64_t> kinds = kinds_of(p, sets, t.kind);
    const int64_t n_images = p.reference_offsets.size - 1, n_views = p.cutoffs.size;
    const int32_t* first_pair = p.pair_prediction.data;
    const int32_t* last_pair = first_pair + p.pair_prediction.size;
    parallel(tasks_of(n_images), threads, [&](int64_t task) {
        const int64_t start = task * IMAGES_PER_TASK, stop = std::min(n_images, start + IMAGES_PER_TASK);
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
    return kinds;
}

void totals(const TotalsProblem& p, Span<int64_t> result) {
    std::vector<Sums> full(p.n_classes, Sums(p.n_views));
    std::vector<KindSums> numbered(p.n_classes, KindSums(p.kinds, p.n_views));
    for (int64_t k = 0; k < p.label.size; ++k) {
        if (p.rank.size && p.rank[k] >= p.limit) continue;
        if (p.kind[k] != FULL_ROW)
            numbered[p.label[k]].add(p.kind[k], 1);
        else
            full[p.label[k]].add(&p.fates[k * p.n_views], 1);
    }
    for (int64_t klass = 0; klass < p.n_classes; ++klass) {
        numbered[klass].add_up();
        for (int64_t v = 0; v < p.n_views; ++v) {
            result[(2 * v) * p.n_classes + klass] = full[klass].hits(v);
            result[(2 * v + 1) * p.n_classes + klass] = full[klass].counted(v) + numbered[klass].counted(v);
        }
    }
}

}  // namespace calipers
