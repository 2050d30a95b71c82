// SPDX-License-Identifier: Apache-2.0
// Twins of kernels/pairs.py (overlapping) and kernels/fates.py (ranks).
#include "pairs.h"

#include <algorithm>
#include <numeric>

namespace calipers {

namespace {

template <int D>
double intersection(const double* a, const double* b) {
    double common = std::max(std::min(a[D], b[D]) - std::max(a[0], b[0]), 0.0);
    for (int k = 1; k < D; ++k) common *= std::max(std::min(a[D + k], b[D + k]) - std::max(a[k], b[k]), 0.0);
    return common;
}

constexpr int64_t MANY = 4096;  // pairs of an image from which on looking classes up beats comparing them all

template <int D>
class Finder {
public:
    Finder(const Side& reference, const Side& prediction, Span<const uint8_t> crowd, bool within_class)
        : reference_(reference), prediction_(prediction), crowd_(crowd), within_class_(within_class) {}

    void image(int64_t i, FoundPairs& found) {
        const int64_t first = reference_.offsets[i], last = reference_.offsets[i + 1];
        const int64_t begin = prediction_.offsets[i], end = prediction_.offsets[i + 1];
        if (first == last || begin == end) return;
        if (within_class_ && (last - first) * (end - begin) > MANY) {
            by_class(first, last, begin, end, found);
            return;
        }
        for (int64_t p = begin; p < end; ++p)
            for (int64_t r = first; r < last; ++r)
                if (!within_class_ || reference_.label[r] == prediction_.label[p]) pair(r, p, found);
    }

private:
    void by_class(int64_t first, int64_t last, int64_t begin, int64_t end, FoundPairs& found) {
        const auto label = [&](int64_t r) { return reference_.label[r]; };
        order_.resize(last - first);
        std::iota(order_.begin(), order_.end(), first);
        std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return label(a) < label(b); });
        for (int64_t p = begin; p < end; ++p) {
            const int32_t wanted = prediction_.label[p];
            auto at = std::lower_bound(order_.begin(), order_.end(), wanted,
                                       [&](int64_t r, int32_t value) { return label(r) < value; });
            for (; at != order_.end() && label(*at) == wanted; ++at) pair(*at, p, found);
        }
    }

    void pair(int64_t r, int64_t p, FoundPairs& found) {
        const double common = intersection<D>(&reference_.boxes[r * 2 * D], &prediction_.boxes[p * 2 * D]);
        if (!(common > 0)) return;
        const double own = prediction_.extent[p];
        const double whole = crowd_[r] ? own : reference_.extent[r] + own - common;
        found.reference.push_back(static_cast<int32_t>(r));
        found.prediction.push_back(static_cast<int32_t>(p));
        found.similarity.push_back(common / whole);
    }

    const Side &reference_, &prediction_;
    Span<const uint8_t> crowd_;
    bool within_class_;
    std::vector<int64_t> order_;
};

template <int D>
std::vector<FoundPairs> find(const Side& reference, const Side& prediction, Span<const uint8_t> crowd,
                             bool within_class, int threads) {
    const int64_t n = reference.offsets.size - 1;
    std::vector<FoundPairs> found(tasks_of(n));
    parallel(found.size(), threads, [&](int64_t task) {
        Finder<D> finder(reference, prediction, crowd, within_class);
        const int64_t stop = std::min(n, (task + 1) * IMAGES_PER_TASK);
        for (int64_t i = task * IMAGES_PER_TASK; i < stop; ++i) finder.image(i, found[task]);
    });
    return found;
}

}  // namespace

std::vector<FoundPairs> overlapping(const Side& reference, const Side& prediction, Span<const uint8_t> crowd,
                                    bool within_class, int dimensions, int threads) {
    if (dimensions == 3) return find<3>(reference, prediction, crowd, within_class, threads);
    return find<2>(reference, prediction, crowd, within_class, threads);
}

void ranks(Span<const int64_t> offsets, Span<const int32_t> label, Span<const double> score, bool within_class,
           Span<int32_t> rank, int threads) {
    const int64_t n = offsets.size - 1;
    int32_t n_classes = 1;
    if (within_class)
        for (int64_t k = 0; k < label.size; ++k) n_classes = std::max(n_classes, label[k] + 1);
    parallel(tasks_of(n), threads, [&](int64_t task) {
        std::vector<int64_t> row, start(n_classes + 1, 0), place(n_classes, 0);
        const int64_t stop = std::min(n, (task + 1) * IMAGES_PER_TASK);
        const auto klass = [&](int64_t k) { return within_class ? label[k] : 0; };
        for (int64_t i = task * IMAGES_PER_TASK; i < stop; ++i) {
            const int64_t begin = offsets[i], end = offsets[i + 1];
            // Share the rows out to their classes, one after the other, then sort the few of each class.
            row.resize(end - begin);
            for (int64_t k = begin; k < end; ++k) ++place[klass(k)];
            int64_t next = 0;
            for (int64_t k = begin; k < end; ++k)
                if (place[klass(k)] > 0) {
                    start[klass(k)] = next;
                    next += place[klass(k)];
                    place[klass(k)] = 0;
                }
            for (int64_t k = begin; k < end; ++k) row[start[klass(k)] + place[klass(k)]++] = k;
            for (int64_t k = begin; k < end; ++k) {
                const int32_t c = klass(k);
                if (place[c] == 0) continue;
                const auto first = row.begin() + start[c], last = first + place[c];
                std::sort(first, last, [&](int64_t a, int64_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
                for (auto at = first; at != last; ++at) rank[*at] = static_cast<int32_t>(at - first);
                place[c] = 0;
            }
        }
    });
}

}  // namespace calipers
