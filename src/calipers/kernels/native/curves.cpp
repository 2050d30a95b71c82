// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/curves.py.
#include "curves.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

// All views of one class: walks down the ranking and notes the operating point of every hit.
class Walk {
public:
    struct View {
        std::vector<int64_t> found;  // hits at the operating point of each hit
        std::vector<double> value;   // precision at the operating point
        size_t n_hits = 0;
    };

    explicit Walk(const CurveProblem& problem)
        : p_(problem), views_(problem.n_views), full_(problem.n_columns), numbered_(problem.kinds, problem.n_columns) {}

    const std::vector<View>& down(int64_t klass) {
        full_.clear();
        numbered_.clear();
        for (View& view : views_) {
            view.found.clear();
            view.n_hits = 0;
            view.value.clear();
        }
        touched_.clear();
        for (int64_t k = p_.offsets[klass]; k < p_.offsets[klass + 1]; ++k) {
            const int64_t row = p_.order[k];
            if (p_.kind[row] != FULL_ROW)
                numbered_.add(p_.kind[row], 1);
            else
                hit(&p_.fates[row * p_.n_columns]);
            if (!touched_.empty() && p_.ends[k] == k) settle();
        }
        return views_;
    }

private:
    void hit(const int8_t* fates) {
        if (!full_.add(fates, 1)) return;
        for (int64_t v = 0; v < p_.n_views; ++v) {
            if (fates[p_.views[v]] != HIT) continue;
            if (views_[v].n_hits == views_[v].found.size()) touched_.push_back(static_cast<int32_t>(v));
            ++views_[v].n_hits;
        }
    }

    // The hits since the last operating point share the one reached now.
    void settle() {
        numbered_.add_up();
        for (const int32_t v : touched_) {
            View& view = views_[v];
            const int64_t column = p_.views[v], hits = full_.hits(column);
            const int64_t every = full_.counted(column) + numbered_.counted(column);
            const double value = static_cast<double>(hits) / (static_cast<double>(every) + EPS);
            while (view.found.size() < view.n_hits) {
                view.found.push_back(hits);
                view.value.push_back(value);
            }
        }
        touched_.clear();
    }

    const CurveProblem& p_;
    std::vector<View> views_;
    std::vector<int32_t> touched_;  // views with hits whose operating point is not reached yet
    Sums full_;
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

// Sum of the interpolated precision at the recalls, which ascend.
double at_recalls(const std::vector<int64_t>& hits, const std::vector<double>& best, const std::vector<int64_t>& needed) {
    Levels levels;
    size_t at = hits.size();
    for (size_t k = needed.size(); k-- > 0;) {
        while (at > 0 && hits[at - 1] >= needed[k]) --at;
        levels.add(at < hits.size() ? best[at] : 0.0, 1.0);
    }
    return levels.sum();
}

// Sum of the levels of all hits under an envelope.
double under_envelope(const std::vector<double>& best) {
    Levels levels;
    for (size_t k = best.size(); k-- > 0;) levels.add(best[k], 1.0);
    return levels.sum();
}

// Sum over operating points of precision x hits gained; the hits of a point share how many were found by then.
double in_steps(const std::vector<int64_t>& found, const std::vector<double>& value) {
    double sum = 0.0;
    int64_t before = 0;
    for (size_t k = 0; k < found.size(); ++k) {
        if (k + 1 < found.size() && found[k + 1] == found[k]) continue;
        sum += value[k] * static_cast<double>(found[k] - before);
        before = found[k];
    }
    return sum;
}

}  // namespace

void ranking(Span<const double> score, Span<const int32_t> label, int64_t n_classes, bool blocks, Span<int64_t> order,
             Span<int64_t> offsets, Span<int64_t> ends, int threads) {
    const int64_t n = score.size;
    std::fill(offsets.data, offsets.data + n_classes + 1, 0);
    for (int64_t k = 0; k < n; ++k) ++offsets[label[k] + 1];
    for (int64_t c = 0; c < n_classes; ++c) offsets[c + 1] += offsets[c];
    std::vector<Entry> entries(n);
    std::vector<int64_t> place(offsets.data, offsets.data + n_classes);
    for (int64_t k = 0; k < n; ++k) entries[place[label[k]]++] = {descending(score[k]), k};
    parallel(n_classes, threads, [&](int64_t c) {
        std::vector<Entry> spare;
        const int64_t start = offsets[c], stop = offsets[c + 1];
        radix_sort(entries.data() + start, stop - start, spare);
        for (int64_t k = stop - 1; k >= start; --k) {
            order[k] = entries[k].row;
            const bool tied = blocks && k + 1 < stop && entries[k].key == entries[k + 1].key;
            ends[k] = tied ? ends[k + 1] : k;
        }
    });
}

void average_precision(const CurveProblem& p, Interpolation kind, Span<const double> recalls, Span<double> result,
                       int threads) {
    parallel_with(p.n_classes, threads, [&] { return Walk(p); }, [&](Walk& walk, int64_t klass) {
        const auto& views = walk.down(klass);
        std::vector<double> value;
        Needed needed(recalls);
        for (int64_t v = 0; v < p.n_views; ++v) {
            const int64_t cell = v * p.n_classes + klass, positives = p.positives[cell];
            if (positives <= 0) {
                result[cell] = std::numeric_limits<double>::quiet_NaN();
                continue;
            }
            value = views[v].value;
            if (kind != Interpolation::steps)
                for (size_t k = value.size(); k-- > 1;) value[k - 1] = std::max(value[k - 1], value[k]);
            if (kind == Interpolation::recalls) {
                const double sum = at_recalls(views[v].found, value, needed.of(positives));
                result[cell] = sum / static_cast<double>(recalls.size);
                continue;
            }
            const bool enveloped = kind == Interpolation::envelope;
            const double sum = enveloped ? under_envelope(value) : in_steps(views[v].found, value);
            result[cell] = sum / static_cast<double>(positives);
        }
    });
}

}  // namespace calipers
