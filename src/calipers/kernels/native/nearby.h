// SPDX-License-Identifier: Apache-2.0
// Which boxes of an image can have an IoU above a threshold: two indexes that leave few pairs to be compared, and forget none.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "bits.h"
#include "types.h"

namespace calipers {

// Compilers make one instruction of each, where they often make a branch of std::min and std::max.
inline double smaller(double a, double b) { return a < b ? a : b; }
inline double larger(double a, double b) { return a > b ? a : b; }

// Corners and extent as tables have them; the extent of a box that moved is that of its corners.
template <int D>
struct SizedBox {
    double corners[2 * D], extent;

    double side(int axis) const { return corners[D + axis] - corners[axis]; }
    double twice_centre(int axis) const { return corners[D + axis] + corners[axis]; }
};

template <int D>
inline double extent_of(const double* corners) {
    double extent = corners[D] - corners[0];
    for (int k = 1; k < D; ++k) extent *= corners[D + k] - corners[k];
    return extent;
}

// The common part of two boxes; 0 unless they overlap.
template <int D>
inline double common_extent(const double* a, const double* b) {
    double common = larger(smaller(a[D], b[D]) - larger(a[0], b[0]), 0.0);
    for (int k = 1; k < D; ++k) common *= larger(smaller(a[D + k], b[D + k]) - larger(a[k], b[k]), 0.0);
    return common;
}

// Where the boxes of an image are, and what follows from it about two of them whose IoU is above the threshold t. On every axis
// their sides a and b then overlap by more than q (a + b), where q = t / (1 + t). So
// - their cores have a place in common, which are the boxes without a share of q of each side at both ends, and
// - as neither side is longer than the other over t, their centres are nearer than (1/2 - q) a / q.
// Below some threshold the cores say more, above it the distance of centres does, and that takes less time. Boxes whose extents
// are not those of their corners, or so small that products lose digits, are only sure to overlap: then q is 0.
//
// Every axis is cut into buckets, by a function that never falls: what lies between two places lies between their buckets.
template <int D>
class Surroundings {
public:
    static constexpr int BUCKETS = 64;

    explicit Surroundings(double threshold) : threshold_(threshold) {}

    void look(const SizedBox<D>* boxes, size_t n) {
        double low[D], high[D], longest[D], smallest = INFINITE, deficit = 0;
        for (int k = 0; k < D; ++k) {
            low[k] = INFINITE;
            high[k] = -INFINITE;
            longest[k] = 0;
        }
        for (size_t b = 0; b < n; ++b) {
            const SizedBox<D>& box = boxes[b];
            for (int k = 0; k < D; ++k) {
                low[k] = smaller(box.corners[k], low[k]);
                high[k] = larger(box.corners[D + k], high[k]);
                longest[k] = larger(box.side(k), longest[k]);
            }
            const double extent = extent_of<D>(box.corners);
            smallest = smaller(extent, smallest);
            deficit = larger(extent * (1 - ROUNDING) - box.extent, deficit);
        }
        if (smallest < LEAST_EXTENT) smallest = smallest_but_0(boxes, n);
        is_sound_ = smallest >= LEAST_EXTENT && deficit <= 0 && threshold_ > LEAST_THRESHOLD;
        const double q = is_sound_ ? threshold_ / (1 + threshold_) * (1 - 10 * ROUNDING) : 0.0;
        double most = 0;
        for (int k = 0; k < D; ++k) most = larger(most, larger(std::abs(low[k]), std::abs(high[k])));
        for (int k = 0; k < D; ++k) {
            const double scale = high[k] > low[k] ? (BUCKETS - 1) / (high[k] - low[k]) : 0.0;
            Axis& axis = axes_[k];
            axis.half_scale = 0.5 * scale;
            axis.origin = low[k] * scale;
            axis.slack = ROUNDING * ROUNDING * most * scale;
            axis.core = (0.5 - q) * scale;
            axis.longest_core = axis.core * longest[k] + axis.slack;
            axis.nearness = q > 0 ? axis.core / q : INFINITE;
        }
        by_cores_ = q < 0.25;  // an IoU of 1/3
    }

    // Whether boxes are compared by their cores, on all axes, or by their centres.
    bool by_cores() const { return by_cores_; }

    // The bucket of the centre of a box.
    int bucket(int k, const SizedBox<D>& box) const { return floor_of(position(k, box)); }

    // The first and the last bucket of the centres of the boxes that can have an IoU with this one above the threshold.
    std::pair<int, int> near(int k, const SizedBox<D>& box) const {
        const Axis& axis = axes_[k];
        const double side = box.side(k);
        return around(k, box, smaller(axis.nearness * side + axis.slack, axis.core * side + axis.longest_core));
    }

    // Such boxes have one of the buckets in common that `target` says of the one and `mark` of the other.
    template <bool BY_CORES>
    std::pair<int, int> target(int k, const SizedBox<D>& box) const {
        return BY_CORES ? core(k, box) : near(k, box);
    }
    template <bool BY_CORES>
    std::pair<int, int> mark(int k, const SizedBox<D>& box) const {
        if (BY_CORES) return core(k, box);
        const int centre = bucket(k, box);
        return {centre, centre};
    }

    // Whether the IoU of two boxes is above the threshold, as the quotient says. It is only formed where a product is close.
    bool meet(const SizedBox<D>& a, const SizedBox<D>& b) const {
        const double common = common_extent<D>(a.corners, b.corners), whole = a.extent + b.extent - common;
        const double limit = threshold_ * whole;
        if (std::abs(common - limit) > MARGIN * limit && is_sound_) return common > limit;
        return common / whole > threshold_;
    }

private:
    static constexpr double INFINITE = std::numeric_limits<double>::infinity(), MARGIN = 1e-12, ROUNDING = 1e-7;
    static constexpr double LEAST_EXTENT = 1e-170, LEAST_THRESHOLD = 1e-6;

    struct Axis {
        double half_scale, origin;                   // of places, in buckets
        double core, longest_core, nearness, slack;  // by side, of the longest side, by side; in buckets
    };

    std::pair<int, int> around(int k, const SizedBox<D>& box, double distance) const {
        const double centre = position(k, box);
        return {floor_of(centre - distance), floor_of(centre + distance)};
    }

    std::pair<int, int> core(int k, const SizedBox<D>& box) const {
        return around(k, box, axes_[k].core * box.side(k) + axes_[k].slack);
    }

    double position(int k, const SizedBox<D>& box) const { return box.twice_centre(k) * axes_[k].half_scale - axes_[k].origin; }

    // What is no number (0 times infinity) has a bucket too.
    static int floor_of(double position) { return static_cast<int>(larger(smaller(position, BUCKETS - 1.0), 0.0)); }

    // A box without extent meets no other, so it does not matter.
    static double smallest_but_0(const SizedBox<D>* boxes, size_t n) {
        double smallest = INFINITE;
        for (size_t b = 0; b < n; ++b) {
            const double extent = extent_of<D>(boxes[b].corners);
            if (extent != 0) smallest = smaller(extent, smallest);
        }
        return smallest;
    }

    double threshold_;
    bool is_sound_ = false, by_cores_ = false;
    Axis axes_[D];
};

// The boxes of a cell that wait for their turn in a suppression, numbered from the best score on. They stand in a row, in the
// order of the buckets of their centres along the first axis, so that those near a box are a part of the row. A bit says whether
// a box of the row is there still; the bits of a bucket say which boxes begin in it or before it, and which end there.
template <int D, bool BY_CORES>
class WaitingBoxes {
public:
    using Box = SizedBox<D>;

    // box(k) is the one of number k.
    template <class BoxOf>
    void fill(uint32_t n, const Surroundings<D>& around, BoxOf box) {
        n_ = n;
        n_words_ = (n + 63) / 64;
        width_ = n_words_ + 1;  // because a window may begin in the last word
        if (row_.size() < n) {
            row_.resize(n);
            standing_.resize(n);
        }
        for (uint32_t k = 0; k < n; ++k) standing_[k] = {box(k), row_[k] = k};
        if (n > FEW) arrange(around);  // comparing all of fewer takes less time
        is_there_.assign(width_, ~uint64_t{0});
        if (n <= FEW) is_there_[0] = first_bits(n);
        is_open_.assign(n_words_, ~uint64_t{0});
        if (n % 64) is_open_.back() = first_bits(n % 64);
        word_ = 0;
    }

    // Takes the best box that is left, and returns its number; -1 if there is none.
    int64_t take() {
        for (; word_ < n_words_; ++word_)
            if (const uint64_t open = is_open_[word_]) {
                const uint32_t k = word_ * 64 + lowest_bit(open), at = standing_[k].place;
                is_open_[word_] = open & (open - 1);
                is_there_[at / 64] &= ~bit(at);
                return k;
            }
        return -1;
    }

    // Removes the boxes whose IoU with that of number k is above the threshold.
    void remove_rivals(int64_t k, const Surroundings<D>& around) {
        const Box box = *standing_[k].box;
        if (n_ <= FEW) return remove_rivals(box, is_there_[0], 0, around);
        const uint64_t *begun[D], *ended[D];  // at the end of the target, and before it
        for (int d = FIRST_AXIS; d < D; ++d) {
            const auto [first, last] = around.template target<BY_CORES>(d, box);
            begun[d] = begun_[d].data() + (last + 1) * width_;
            ended[d] = (BY_CORES ? ended_[d] : begun_[d]).data() + first * width_;
        }
        const auto [first, last] = around.near(0, box);
        const uint32_t stop = starts_[last + 1];
        for (uint32_t at = starts_[first]; at < stop; at += 64) {
            uint64_t bits = window(is_there_.data(), at) & first_bits(stop - at);
            for (int d = FIRST_AXIS; d < D; ++d) bits &= window(begun[d], at) & ~window(ended[d], at);
            remove_rivals(box, bits, at, around);
        }
    }

private:
    static constexpr int BUCKETS = Surroundings<D>::BUCKETS;
    static constexpr int FIRST_AXIS = BY_CORES ? 0 : 1;  // by centres, the order of the row is all there is to say about its axis
    static constexpr uint32_t FEW = 24;

    struct Standing {
        const Box* box;
        uint32_t place;  // in the row
    };

    // Does so with those of 64 places of the row that have a bit.
    void remove_rivals(const Box& box, uint64_t bits, uint32_t at, const Surroundings<D>& around) {
        for (; bits; bits &= bits - 1) {
            const uint32_t other = at + lowest_bit(bits), number = row_[other];
            const uint64_t goes = around.meet(box, *standing_[number].box);
            is_there_[other / 64] &= ~(goes << (other % 64));
            is_open_[number / 64] &= ~(goes << (number % 64));
        }
    }

    // Puts the boxes in their places in the row, and notes their buckets.
    void arrange(const Surroundings<D>& around) {
        uint32_t starts[BUCKETS + 1] = {};
        Standing* standing = standing_.data();
        for (uint32_t k = 0; k < n_; ++k) {
            standing[k].place = around.bucket(0, *standing[k].box);
            ++starts[standing[k].place + 1];
        }
        for (int b = 0; b < BUCKETS; ++b) starts[b + 1] += starts[b];
        std::copy_n(starts, BUCKETS + 1, starts_);
        uint64_t *begun[D], *ended[D];
        for (int d = FIRST_AXIS; d < D; ++d) {
            begun_[d].assign((BUCKETS + 1) * width_, 0);
            begun[d] = begun_[d].data();
            if (BY_CORES) ended_[d].assign((BUCKETS + 1) * width_, 0);
            if (BY_CORES) ended[d] = ended_[d].data();
        }
        const size_t width = width_;
        uint32_t* row = row_.data();
        for (uint32_t k = 0; k < n_; ++k) {
            const uint32_t at = standing[k].place = starts[standing[k].place]++;
            row[at] = k;
            for (int d = FIRST_AXIS; d < D; ++d) {
                const auto [first, last] = around.template mark<BY_CORES>(d, *standing[k].box);
                begun[d][(first + 1) * width + at / 64] |= bit(at);
                if (BY_CORES) ended[d][(last + 1) * width + at / 64] |= bit(at);
            }
        }
        for (int d = FIRST_AXIS; d < D; ++d) {
            add_up(begun_[d]);
            if (BY_CORES) add_up(ended_[d]);
        }
    }

    // What is in a bucket is in all behind it, too.
    void add_up(std::vector<uint64_t>& buckets) const {
        uint64_t* words = buckets.data();
        for (size_t j = 0; j < size_t{BUCKETS} * width_; ++j) words[width_ + j] |= words[j];
    }

    static uint64_t bit(uint32_t at) { return uint64_t{1} << (at % 64); }
    static uint64_t first_bits(uint32_t n) { return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0}; }

    // 64 bits from one on.
    static uint64_t window(const uint64_t* words, uint32_t at) {
        return words[at / 64] >> (at % 64) | words[at / 64 + 1] << 1 << (63 - at % 64);
    }

    uint32_t n_ = 0, n_words_ = 0, width_ = 0, word_ = 0;
    uint32_t starts_[BUCKETS + 1];               // in the row, of every bucket of the first axis
    std::vector<uint32_t> row_;                  // numbers
    std::vector<Standing> standing_;             // by number
    std::vector<uint64_t> is_there_, is_open_;   // bits by place in the row, and by number
    std::vector<uint64_t> begun_[D], ended_[D];  // up to every bucket, after those of none
};

// Clusters that move while boxes join them. A word of a bucket says of 64 clusters which have it in their target.
template <int D>
class NearbyClusters {
public:
    // Makes room for n clusters.
    void reserve(int64_t n) {
        const size_t n_words = (n + 63) / 64;
        if (buckets_.size() >= n_words * 64 * D) return;
        for (int d = 0; d < D; ++d) reaches_[d].resize(n_words * BUCKETS);
        buckets_.resize(n_words * 64 * D);
    }

    // Clusters are added one after the other, from 0 on; the first of 64 forgets those of the cell before.
    template <bool BY_CORES>
    void add(int64_t c, const SizedBox<D>& box, const Surroundings<D>& around) {
        for (int d = 0; d < D; ++d) {
            uint64_t* words = reaches_[d].data() + c / 64 * BUCKETS;
            if (c % 64 == 0) std::fill_n(words, BUCKETS, 0);
            const auto [first, last] = buckets_[c * D + d] = around.template target<BY_CORES>(d, box);
            for (int b = first; b <= last; ++b) words[b] |= uint64_t{1} << (c % 64);
        }
    }

    // Notes what a cluster that moved reaches now. What it reached before stays: that costs time only.
    template <bool BY_CORES>
    void widen(int64_t c, const SizedBox<D>& box, const Surroundings<D>& around) {
        for (int d = 0; d < D; ++d) {
            uint64_t* words = reaches_[d].data() + c / 64 * BUCKETS;
            auto& [first, last] = buckets_[c * D + d];
            const auto [new_first, new_last] = around.template target<BY_CORES>(d, box);
            while (first > new_first) words[--first] |= uint64_t{1} << (c % 64);
            while (last < new_last) words[++last] |= uint64_t{1} << (c % 64);
        }
    }

    // Calls visit(c) for those of the first n clusters that a box may join, in order.
    template <bool BY_CORES, class Visit>
    void visit(int64_t n, const SizedBox<D>& box, const Surroundings<D>& around, Visit visit) const {
        std::pair<int, int> buckets[D];
        for (int d = 0; d < D; ++d) buckets[d] = around.template mark<BY_CORES>(d, box);
        for (int64_t w = 0; w * 64 < n; ++w) {
            uint64_t bits = ~uint64_t{0};
            for (int d = 0; d < D; ++d) {
                const uint64_t* words = reaches_[d].data() + w * BUCKETS;
                uint64_t any = words[buckets[d].first];
                for (int b = buckets[d].first + 1; BY_CORES && b <= buckets[d].second; ++b) any |= words[b];
                bits &= any;
            }
            for (; bits; bits &= bits - 1) visit(w * 64 + lowest_bit(bits));
        }
    }

private:
    static constexpr int BUCKETS = Surroundings<D>::BUCKETS;

    std::vector<uint64_t> reaches_[D];
    std::vector<std::pair<int, int>> buckets_;  // that every cluster reaches
};

}  // namespace calipers
