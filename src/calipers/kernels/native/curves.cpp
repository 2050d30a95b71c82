// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/curves.py.
#include "curves.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bits.h"
#include "kinds.h"

namespace calipers {

namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();

// A key whose ascending order is the descending order of the score. Adding 0.0 makes -0.0 and 0.0 one key.
uint64_t descending(double score) {
    score += 0.0;
    uint64_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    const uint64_t ascending = bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
    return ~ascending;
}

struct Entry {
    uint64_t key;
    int64_t row;
};

// Stable radix sort, 11 bits at a time; digits that are the same everywhere cost one pass of counting only.
void radix_sort(Entry* entries, int64_t n, std::vector<Entry>& spare) {
    constexpr int BITS = 11, DIGITS = 1 << BITS, PASSES = 6;
    if (n < 256) {
        std::stable_sort(entries, entries + n, [](const Entry& a, const Entry& b) { return a.key < b.key; });
        return;
    }
    std::vector<int64_t> counts(PASSES * DIGITS, 0);
    for (int64_t k = 0; k < n; ++k)
        for (int pass = 0; pass < PASSES; ++pass)
            ++counts[pass * DIGITS + ((entries[k].key >> (pass * BITS)) & (DIGITS - 1))];
    spare.resize(n);
    Entry *from = entries, *to = spare.data();
    for (int pass = 0; pass < PASSES; ++pass) {
        int64_t* count = &counts[pass * DIGITS];
        const int shift = pass * BITS;
        if (count[(from[0].key >> shift) & (DIGITS - 1)] == n) continue;
        int64_t place = 0;
        for (int digit = 0; digit < DIGITS; ++digit) {
            const int64_t c = count[digit];
            count[digit] = place;
            place += c;
        }
        for (int64_t k = 0; k < n; ++k) to[count[(from[k].key >> shift) & (DIGITS - 1)]++] = from[k];
        std::swap(from, to);
    }
    if (from != entries) std::copy(from, from + n, entries);
}

// Sorts the rows of one class by descending score; rows of equal scores keep their order. A row takes 32 bytes while it is
// sorted with its key, so that many rows are first parted by the beginnings of their keys, and few of them sorted at a time.
class RowSorter {
public:
    explicit RowSorter(Span<const double> score) : score_(score) {}

    void sort(int32_t* rows, int64_t n) {
        if (n <= AT_ONCE) return sort_few(rows, n);
        const std::vector<int64_t> bounds = part(rows, n);
        int64_t first = 0;
        for (size_t k = 1; k < bounds.size(); ++k) {
            const bool is_full = k + 1 == bounds.size() || bounds[k + 1] - first > AT_ONCE;
            if (!is_full || bounds[k] == first) continue;
            sort_few(rows + first, bounds[k] - first);
            first = bounds[k];
        }
    }

private:
    static constexpr int64_t AT_ONCE = 1 << 18;  // rows
    static constexpr int BITS = 16;              // of a key that decide its part

    // Puts rows of one part behind each other, the parts in the order of their keys; returns where each begins.
    std::vector<int64_t> part(int32_t* rows, int64_t n) const {
        std::vector<int64_t> bounds((1 << BITS) + 1, 0);
        for (int64_t k = 0; k < n; ++k) ++bounds[part_of(rows[k]) + 1];
        for (size_t k = 1; k < bounds.size(); ++k) bounds[k] += bounds[k - 1];
        const std::vector<int32_t> before(rows, rows + n);
        std::vector<int64_t> place(bounds.begin(), bounds.end() - 1);
        for (const int32_t row : before) rows[place[part_of(row)]++] = row;
        return bounds;
    }

    uint64_t part_of(int32_t row) const { return descending(score_[row]) >> (64 - BITS); }

    void sort_few(int32_t* rows, int64_t n) {
        entries_.resize(n);
        for (int64_t k = 0; k < n; ++k) entries_[k] = {descending(score_[rows[k]]), rows[k]};
        radix_sort(entries_.data(), n, spare_);
        for (int64_t k = 0; k < n; ++k) rows[k] = static_cast<int32_t>(entries_[k].row);
    }

    Span<const double> score_;
    std::vector<Entry> entries_, spare_;
};

// An operating point: the hits and all counted predictions down to it.
struct Point {
    int32_t hits, every;
};
using Points = std::vector<Point>;

// All views of one class: walks down the ranking and notes every operating point that has new hits.
class Walk {
public:
    explicit Walk(const CurveProblem& problem)
        : p_(problem), points_(problem.n_columns), hits_(problem.n_columns), wanted_(tasks_of(problem.n_columns, 64), 0),
          touched_(wanted_), full_(problem.n_columns), numbered_(problem.kinds, problem.n_columns) {
        for (int64_t v = 0; v < p_.n_views; ++v) wanted_[p_.views[v] / 64] |= uint64_t{1} << (p_.views[v] % 64);
    }

    void down(int64_t klass) {
        full_.clear();
        numbered_.clear();
        for (Points& points : points_) points.clear();
        std::fill(hits_.begin(), hits_.end(), 0);
        bool is_open = false;  // there are hits whose operating point is not reached yet
        const int64_t stop = p_.offsets[klass + 1];
        for (int64_t k = p_.offsets[klass]; k < stop; ++k) {
            const int64_t row = p_.order[k];
            if (k + AHEAD < stop) announce(p_.order[k + AHEAD]);
            if (p_.kind[row] != FULL_ROW)
                numbered_.add(p_.kind[row]);
            else
                is_open |= add(p_.fates.of(row, p_.n_columns));
            if (is_open && (p_.ends.size == 0 || p_.ends[k] == k)) {
                settle();
                is_open = false;
            }
        }
    }

    const Points& points(int64_t view) const { return points_[p_.views[view]]; }

private:
    static constexpr int64_t AHEAD = 24;  // rows; further than memory takes, nearer than a cache forgets

    // The order by score jumps about in the table of fates: without this, half of the walk is waiting for memory.
    void announce(int64_t row) const {
        if (p_.kind[row] != FULL_ROW) return;
        const int8_t* fates = p_.fates.of(row, p_.n_columns);
        prefetch(fates);
        prefetch(fates + p_.n_columns - 1);
    }

    // Adds a prediction; returns whether it is a hit in some view that is asked for.
    bool add(const int8_t* fates) {
        full_.add(fates);
        bool any = false;
        for (size_t w = 0; w < wanted_.size(); ++w) {
            const int64_t first = 64 * static_cast<int64_t>(w);
            const uint64_t hit = Masks(fates + first, std::min<int64_t>(64, p_.n_columns - first)).hit & wanted_[w];
            for (uint64_t left = hit; left; left &= left - 1) ++hits_[first + lowest_bit(left)];
            touched_[w] |= hit;
            any |= hit != 0;
        }
        return any;
    }

    // The hits since the last operating point share the one reached now.
    void settle() {
        numbered_.add_up();
        for (size_t w = 0; w < touched_.size(); ++w) {
            for (uint64_t left = touched_[w]; left; left &= left - 1) {
                const int64_t column = 64 * static_cast<int64_t>(w) + lowest_bit(left);
                const int64_t every = full_.of(column) + numbered_.counted(column);
                points_[column].push_back({hits_[column], static_cast<int32_t>(every)});
            }
            touched_[w] = 0;
        }
    }

    const CurveProblem& p_;
    std::vector<Points> points_;  // of every column
    std::vector<int32_t> hits_;
    std::vector<uint64_t> wanted_, touched_;  // columns, 64 to a word: those of views, those with hits since the last point
    CountedSums full_;
    KindSums numbered_;
};

// How many hits each recall takes; views of one size range share the references, so the last answer often serves again.
class Needed {
public:
    explicit Needed(Span<const double> recalls) : recalls_(recalls), needed_(recalls.size) {}

    const std::vector<int64_t>& of(int64_t positives) {
        if (positives == positives_) return needed_;
        positives_ = positives;
        const double count = static_cast<double>(std::max<int64_t>(positives, 1));
        for (int64_t k = 0; k < recalls_.size; ++k) {
            int64_t hits = static_cast<int64_t>(std::ceil(recalls_[k] * count));
            if (static_cast<double>(hits - 1) / count >= recalls_[k]) --hits;
            if (static_cast<double>(hits) / count < recalls_[k]) ++hits;
            needed_[k] = std::max<int64_t>(hits, 1);
        }
        return needed_;
    }

private:
    Span<const double> recalls_;
    std::vector<int64_t> needed_;
    int64_t positives_ = -1;
};

// Sums up level x count from the last level on, as `level_sums` of kernels/replicates.py does.
class Levels {
public:
    void add(double value, double count) {
        if (value != level_) {
            sum_ += level_ * count_;
            count_ = 0.0;
            level_ = value;
        }
        count_ += count;
    }
    double sum() const { return sum_ + level_ * count_; }

private:
    double sum_ = 0.0, level_ = 0.0, count_ = 0.0;
};

// Sum of the interpolated precision at the recalls, which ascend: the highest at or after the point that reaches a recall.
double at_recalls(const Points& points, const std::vector<double>& value, const std::vector<int64_t>& needed) {
    Levels levels;
    double best = 0.0;
    size_t at = points.size();
    for (size_t k = needed.size(); k-- > 0;) {
        for (; at > 0 && points[at - 1].hits >= needed[k]; --at) best = std::max(best, value[at - 1]);
        levels.add(best, 1.0);
    }
    return levels.sum();
}

int32_t gained(const Points& points, size_t k) { return points[k].hits - (k ? points[k - 1].hits : 0); }

// Sum of the levels of all hits under an envelope.
double under_envelope(const Points& points, const std::vector<double>& value) {
    Levels levels;
    double best = 0.0;
    for (size_t k = points.size(); k-- > 0;) {
        best = std::max(best, value[k]);
        levels.add(best, gained(points, k));
    }
    return levels.sum();
}

// Sum over operating points of precision x hits gained.
double in_steps(const Points& points, const std::vector<double>& value) {
    double sum = 0.0;
    for (size_t k = 0; k < points.size(); ++k) sum += value[k] * gained(points, k);
    return sum;
}

// Average precision of one class after the other; memory is kept for the next.
class Averager {
public:
    Averager(const CurveProblem& problem, Interpolation kind, Span<const double> recalls)
        : p_(problem), kind_(kind), walk_(problem), needed_(recalls) {}

    void average(int64_t klass, Span<double> result) {
        walk_.down(klass);
        for (int64_t v = 0; v < p_.n_views; ++v) {
            const int64_t cell = v * p_.n_classes + klass, positives = p_.positives[cell];
            result[cell] = positives > 0 ? mean(walk_.points(v), positives) : std::numeric_limits<double>::quiet_NaN();
        }
    }

private:
    double mean(const Points& points, int64_t positives) {
        value_.resize(points.size());
        for (size_t k = 0; k < points.size(); ++k) value_[k] = points[k].hits / (points[k].every + EPS);
        if (kind_ == Interpolation::recalls) {
            const std::vector<int64_t>& needed = needed_.of(positives);
            return at_recalls(points, value_, needed) / static_cast<double>(needed.size());
        }
        const bool enveloped = kind_ == Interpolation::envelope;
        const double sum = enveloped ? under_envelope(points, value_) : in_steps(points, value_);
        return sum / static_cast<double>(positives);
    }

    const CurveProblem& p_;
    Interpolation kind_;
    Walk walk_;
    Needed needed_;
    std::vector<double> value_;  // precision at every point
};

}  // namespace

void ranking(Span<const double> score, Span<const int32_t> label, int64_t n_classes, bool blocks, Span<int32_t> order,
             Span<int64_t> offsets, Span<int32_t> ends, int threads) {
    const int64_t n = score.size;
    std::fill(offsets.data, offsets.data + n_classes + 1, 0);
    for (int64_t k = 0; k < n; ++k) ++offsets[label[k] + 1];
    for (int64_t c = 0; c < n_classes; ++c) offsets[c + 1] += offsets[c];
    // The rows of every class first: keys are then needed for one class at a time, not for all.
    std::vector<int64_t> place(offsets.data, offsets.data + n_classes);
    for (int64_t k = 0; k < n; ++k) order[place[label[k]]++] = static_cast<int32_t>(k);
    parallel_with(n_classes, threads, [&] { return RowSorter(score); }, [&](RowSorter& sorter, int64_t c) {
        const int64_t start = offsets[c], stop = offsets[c + 1];
        sorter.sort(order.data + start, stop - start);
        if (!blocks) return;
        for (int64_t k = stop - 1; k >= start; --k) {
            const bool tied = k + 1 < stop && descending(score[order[k]]) == descending(score[order[k + 1]]);
            ends[k] = tied ? ends[k + 1] : static_cast<int32_t>(k);
        }
    });
}

void average_precision(const CurveProblem& p, Interpolation kind, Span<const double> recalls, Span<double> result,
                       int threads) {
    parallel_with(p.n_classes, threads, [&] { return Averager(p, kind, recalls); },
                  [&](Averager& averager, int64_t klass) { averager.average(klass, result); });
}

}  // namespace calipers
