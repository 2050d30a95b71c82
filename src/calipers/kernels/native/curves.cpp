// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/curves.py.
#include "curves.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

// One class of one view, for all replicates: the counted predictions in order.
class ClassCurve {
public:
    ClassCurve(const CurveProblem& problem, int64_t view, int64_t klass) : p_(problem) {
        const int8_t* fates = &p_.fates[view * p_.order.size];
        for (int64_t k = p_.offsets[klass]; k < p_.offsets[klass + 1]; ++k) {
            const int64_t row = p_.order[k];
            if (fates[row] == IGNORED) continue;
            items_.push_back({p_.image[row], p_.ends[k], fates[row] == HIT});
        }
    }

    // Hands every operating point of a replicate to `point(hits so far, all so far, first hit, number of hits)`;
    // the hits of one point are those of its block.
    template <class Point>
    void walk(int64_t replicate, std::vector<int64_t>& weight_of_hit, Point point) const {
        const int64_t* weight = &p_.weights[replicate * p_.n_images];
        int64_t hits = 0, every = 0;
        weight_of_hit.clear();
        size_t reported = 0;
        for (size_t k = 0; k < items_.size(); ++k) {
            const int64_t w = p_.plain ? 1 : weight[items_[k].image];
            every += w;
            if (items_[k].hit) {
                hits += w;
                weight_of_hit.push_back(w);
            }
            if (k + 1 == items_.size() || items_[k + 1].end != items_[k].end) {
                point(hits, every, reported, weight_of_hit.size() - reported);
                reported = weight_of_hit.size();
            }
        }
    }

private:
    struct Item {
        int64_t image, end;
        bool hit;
    };
    const CurveProblem& p_;
    std::vector<Item> items_;
};

// Mean of the interpolated precision at the recalls, which ascend.
double at_recalls(const std::vector<int64_t>& hits, const std::vector<double>& best, int64_t positives,
                  Span<const double> recalls) {
    const double count = static_cast<double>(std::max<int64_t>(positives, 1));
    double sum = 0.0;
    size_t at = 0;
    for (int64_t k = 0; k < recalls.size; ++k) {
        int64_t needed = static_cast<int64_t>(std::ceil(recalls[k] * count));
        if (static_cast<double>(needed - 1) / count >= recalls[k]) --needed;
        if (static_cast<double>(needed) / count < recalls[k]) ++needed;
        needed = std::max<int64_t>(needed, 1);
        while (at < hits.size() && hits[at] < needed) ++at;
        sum += at < hits.size() ? best[at] : 0.0;
    }
    return sum / static_cast<double>(recalls.size);
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
    parallel(p.n_views * p.n_classes, threads, [&](int64_t task) {
        const int64_t view = task / p.n_classes, klass = task % p.n_classes;
        const ClassCurve curve(p, view, klass);
        std::vector<int64_t> hits, weight;
        std::vector<double> value;
        for (int64_t r = 0; r < p.n_replicates; ++r) {
            const int64_t cell = (r * p.n_views + view) * p.n_classes + klass, positives = p.positives[cell];
            if (positives <= 0) {
                result[cell] = std::numeric_limits<double>::quiet_NaN();
                continue;
            }
            hits.clear();
            value.clear();
            curve.walk(r, weight, [&](int64_t found, int64_t every, size_t, size_t n) {
                if (!n) return;
                hits.insert(hits.end(), n, found);
                value.insert(value.end(), n, static_cast<double>(found) / (static_cast<double>(every) + EPS));
            });
            if (kind != Interpolation::steps)
                for (size_t k = value.size(); k-- > 1;) value[k - 1] = std::max(value[k - 1], value[k]);
            if (kind == Interpolation::recalls) {
                result[cell] = at_recalls(hits, value, positives, recalls);
                continue;
            }
            double total = 0.0;
            for (size_t k = 0; k < value.size(); ++k) total += static_cast<double>(weight[k]) * value[k];
            result[cell] = total / static_cast<double>(positives);
        }
    });
}

void hits_at(const CurveProblem& p, Span<const double> allowed, int64_t n, Span<int64_t> result, int threads) {
    parallel(p.n_views * p.n_classes, threads, [&](int64_t task) {
        const int64_t view = task / p.n_classes, klass = task % p.n_classes;
        const ClassCurve curve(p, view, klass);
        std::vector<int64_t> weight, hits, alarms;
        for (int64_t r = 0; r < p.n_replicates; ++r) {
            hits.assign(1, 0);
            alarms.clear();
            curve.walk(r, weight, [&](int64_t found, int64_t every, size_t, size_t) {
                hits.push_back(found);
                alarms.push_back(every - found);
            });
            for (int64_t k = 0; k < n; ++k) {
                const double limit = allowed[r * n + k];
                const auto at = std::upper_bound(alarms.begin(), alarms.end(), limit,
                                                 [](double value, int64_t alarm) { return value < static_cast<double>(alarm); });
                result[(((r * p.n_views) + view) * p.n_classes + klass) * n + k] = hits[at - alarms.begin()];
            }
        }
    });
}

}  // namespace calipers
