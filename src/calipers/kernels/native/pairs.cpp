// SPDX-License-Identifier: Apache-2.0
// Twins of kernels/pairs.py (overlapping) and kernels/fates.py (ranks).
#include "pairs.h"

#include <algorithm>

namespace calipers {

namespace {

template <int D>
double intersection(const double* a, const double* b) {
    double common = std::max(std::min(a[D], b[D]) - std::max(a[0], b[0]), 0.0);
    for (int k = 1; k < D; ++k) common *= std::max(std::min(a[D + k], b[D + k]) - std::max(a[k], b[k]), 0.0);
    return common;
}

constexpr int64_t FEW = 64;  // pairs of an image up to which comparing all beats looking classes up

// Shares the objects of an image out to their classes, so that each class can be looked up; buffers are reused.
class ClassIndex {
public:
    // Without classes all objects share one.
    explicit ClassIndex(int64_t n_classes) : start_(std::max<int64_t>(n_classes, 1), 0), count_(start_.size(), 0) {}

    // Objects begin ... end - 1; within a class they stay in input order.
    template <class Label>
    void build(int64_t begin, int64_t end, Label label) {
        for (int32_t c : seen_) count_[c] = 0;
        seen_.clear();
        for (int64_t k = begin; k < end; ++k)
            if (count_[label(k)]++ == 0) seen_.push_back(label(k));
        int64_t next = 0;
        for (int32_t c : seen_) {
            start_[c] = next;
            next += count_[c];
            count_[c] = 0;
        }
        rows_.resize(end - begin);
        for (int64_t k = begin; k < end; ++k) rows_[start_[label(k)] + count_[label(k)]++] = k;
    }

    const std::vector<int32_t>& classes() const { return seen_; }
    int64_t* first(int32_t c) { return rows_.data() + start_[c]; }
    int64_t* last(int32_t c) { return first(c) + count_[c]; }

private:
    std::vector<int32_t> seen_;
    std::vector<int64_t> start_, count_, rows_;
};

template <int D>
class Finder {
public:
    Finder(const Side& reference, const Side& prediction, Span<const uint8_t> crowd, int64_t n_classes)
        : reference_(reference), prediction_(prediction), crowd_(crowd), within_class_(n_classes > 0), index_(n_classes) {}

    void image(int64_t i, FoundPairs& found) {
        const int64_t first = reference_.offsets[i], last = reference_.offsets[i + 1];
        const int64_t begin = prediction_.offsets[i], end = prediction_.offsets[i + 1];
        if (first == last || begin == end) return;
        if ((last - first) * (end - begin) <= FEW) {
            for (int64_t p = begin; p < end; ++p)
                for (int64_t r = first; r < last; ++r)
                    if (!within_class_ || reference_.label[r] == prediction_.label[p]) pair(r, p, found);
            return;
        }
        index_.build(first, last, [&](int64_t r) { return within_class_ ? reference_.label[r] : 0; });
        for (int64_t p = begin; p < end; ++p) {
            const int32_t c = within_class_ ? prediction_.label[p] : 0;
            for (const int64_t* r = index_.first(c); r != index_.last(c); ++r) pair(*r, p, found);
        }
    }

private:
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
    ClassIndex index_;
};

template <int D>
std::vector<FoundPairs> find(const Side& reference, const Side& prediction, Span<const uint8_t> crowd,
                             int64_t n_classes, int threads) {
    const int64_t n = reference.offsets.size - 1;
    std::vector<FoundPairs> found(tasks_of(n));
    parallel(found.size(), threads, [&](int64_t task) {
        Finder<D> finder(reference, prediction, crowd, n_classes);
        const int64_t stop = std::min(n, (task + 1) * IMAGES_PER_TASK);
        for (int64_t i = task * IMAGES_PER_TASK; i < stop; ++i) finder.image(i, found[task]);
    });
    return found;
}

}  // namespace

std::vector<FoundPairs> overlapping(const Side& reference, const Side& prediction, Span<const uint8_t> crowd,
                                    int64_t n_classes, int dimensions, int threads) {
    if (dimensions == 3) return find<3>(reference, prediction, crowd, n_classes, threads);
    return find<2>(reference, prediction, crowd, n_classes, threads);
}

void ranks(Span<const int64_t> offsets, Span<const int32_t> label, Span<const double> score, int64_t n_classes,
           Span<int32_t> rank, int threads) {
    const int64_t n = offsets.size - 1;
    const bool within_class = n_classes > 0;
    const auto before = [&](int64_t a, int64_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; };
    parallel(tasks_of(n), threads, [&](int64_t task) {
        ClassIndex index(n_classes);
        const int64_t stop = std::min(n, (task + 1) * IMAGES_PER_TASK);
        for (int64_t i = task * IMAGES_PER_TASK; i < stop; ++i) {
            const int64_t begin = offsets[i], end = offsets[i + 1];
            if ((end - begin) * (end - begin) <= FEW) {  // of every two, one comes before; nobody could predict which
                for (int64_t k = begin; k < end; ++k) {
                    int32_t place = 0;
                    for (int64_t other = begin; other < k; ++other) {
                        const int32_t rivals = !within_class | (label[other] == label[k]);
                        const int32_t first = score[other] >= score[k];
                        place += rivals & first;
                        rank[other] += rivals & ~first;
                    }
                    rank[k] = place;
                }
                continue;
            }
            index.build(begin, end, [&](int64_t k) { return within_class ? label[k] : 0; });
            for (int32_t c : index.classes()) {
                int64_t *first = index.first(c), *last = index.last(c);
                if (last - first > 1) std::sort(first, last, before);
                for (int64_t* at = first; at != last; ++at) rank[*at] = static_cast<int32_t>(at - first);
            }
        }
    });
}

}  // namespace calipers
