// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/boxes.py (clusters).
#include "fusion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bits.h"

namespace calipers {

namespace {

// Images differ in work by the square of their boxes, so tasks are smaller than elsewhere.
constexpr int64_t IMAGES_AT_ONCE = 32;

// Which clusters of a cell can overlap a box, as bits. Every axis is cut into buckets; a bit in `begins` says that a cluster
// begins in a bucket or before it, one in `ends` that it ends there or behind. Places go to buckets by a function that never
// falls, so a cluster that overlaps a box has its bits where the box looks for them: the index forgets no pair.
template <int D>
class NearbyClusters {
public:
    static constexpr int BUCKETS = 16;

    void set_range(int axis, double low, double high) {
        low_[axis] = low;
        scale_[axis] = high > low ? BUCKETS / (high - low) : 0.0;
    }

    // Forgets all clusters; there will be at most n.
    void clear(int64_t n) {
        const int64_t words = (n + 63) / 64;
        for (int k = 0; k < D; ++k) {
            begins_[k].assign(BUCKETS * words, 0);
            ends_[k].assign(BUCKETS * words, 0);
        }
        if (static_cast<int64_t>(first_.size()) < n * D) {
            first_.resize(n * D);
            last_.resize(n * D);
        }
    }

    void add(int64_t c, const double* box) {
        for (int k = 0; k < D; ++k) {
            const int first = first_[c * D + k] = bucket(k, box[k]), last = last_[c * D + k] = bucket(k, box[D + k]);
            flip(begins_[k], c, first, BUCKETS);
            flip(ends_[k], c, 0, last + 1);
        }
    }

    void move(int64_t c, const double* box) {
        for (int k = 0; k < D; ++k) {
            int8_t &first = first_[c * D + k], &last = last_[c * D + k];
            const int8_t new_first = bucket(k, box[k]), new_last = bucket(k, box[D + k]);
            flip(begins_[k], c, std::min(first, new_first), std::max(first, new_first));
            flip(ends_[k], c, std::min(last, new_last) + 1, std::max(last, new_last) + 1);
            first = new_first;
            last = new_last;
        }
    }

    // Calls visit(c) for clusters among the first n, in order, unless they begin behind `latest_begin` or end before
    // `earliest_end` on some axis.
    template <class Visit>
    void visit(int64_t n, const double* latest_begin, const double* earliest_end, Visit visit) const {
        const uint64_t *begins[D], *ends[D];
        for (int k = 0; k < D; ++k) {
            begins[k] = begins_[k].data() + bucket(k, latest_begin[k]);
            ends[k] = ends_[k].data() + bucket(k, earliest_end[k]);
        }
        for (int64_t w = 0; w * 64 < n; ++w) {
            uint64_t bits = ~uint64_t{0};
            for (int k = 0; k < D; ++k) bits &= begins[k][w * BUCKETS] & ends[k][w * BUCKETS];
            for (; bits; bits &= bits - 1) visit(w * 64 + lowest_bit(bits));
        }
    }

private:
    int8_t bucket(int axis, double place) const {
        const double position = (place - low_[axis]) * scale_[axis];
        if (!(position > 0)) return 0;  // also where there is no position: 0 times infinity
        return position < BUCKETS - 1 ? static_cast<int8_t>(position) : BUCKETS - 1;
    }

    // The buckets of 64 clusters are side by side, so that a range of them is one short walk through memory.
    static void flip(std::vector<uint64_t>& bits, int64_t c, int from, int to) {
        const uint64_t bit = uint64_t{1} << (c % 64);
        uint64_t* word = bits.data() + c / 64 * BUCKETS;
        for (int b = from; b < to; ++b) word[b] ^= bit;
    }

    double low_[D], scale_[D];
    std::vector<uint64_t> begins_[D], ends_[D];
    std::vector<int8_t> first_, last_;
};

// The clusters of one image after the other; buffers are reused.
template <int D>
class Clusters {
public:
    Clusters(const ClusterProblem& p, Span<int64_t> leader, Span<double> merged) : p_(p), leader_(leader), merged_(merged) {}

    void image(int64_t i) {
        const int64_t begin = p_.boxes.offsets[i], end = p_.boxes.offsets[i + 1];
        if (begin == end) return;
        const auto label = p_.boxes.label;
        const auto score = p_.score;
        order_.resize(end - begin);
        for (int64_t k = begin; k < end; ++k) order_[k - begin] = {score[k], k, label[k]};
        sort();
        survey(begin, end);
        for (size_t first = 0, last; first < order_.size(); first = last) {
            for (last = first + 1; last < order_.size() && order_[last].label == order_[first].label; ++last) {
            }
            cell(order_.data() + first, order_.data() + last);
        }
    }

private:
    struct Place {
        double score;
        int64_t row;
        int32_t label;
    };
    struct Cluster {
        double box[2 * D], weighted[2 * D], extent, total;
        int64_t head;
    };

    static bool before(const Place& a, const Place& b) {
        if (a.label != b.label) return a.label < b.label;
        return a.score != b.score ? a.score > b.score : a.row < b.row;
    }

    // Sorts by class, then from the best score on. Scores go to twice as many buckets as there are boxes, by a function that
    // never falls; what shares a bucket is sorted by comparing. That is three times faster than comparing all.
    void sort() {
        const size_t n = order_.size(), n_buckets = 2 * n;
        double low = order_[0].score, high = low;
        bool one_class = true;
        for (const Place& place : order_) {
            low = std::min(low, place.score);
            high = std::max(high, place.score);
            one_class &= place.label == order_[0].label;
        }
        const double scale = (n_buckets - 1) / (high - low);
        if (n < 32 || !one_class || !std::isfinite(high - low) || !std::isfinite(scale)) {
            std::sort(order_.begin(), order_.end(), before);
            return;
        }
        bucket_.resize(n);
        ends_.assign(n_buckets + 1, 0);
        for (size_t k = 0; k < n; ++k) {
            const double position = (high - order_[k].score) * scale;
            bucket_[k] = static_cast<uint32_t>(std::min(position, static_cast<double>(n_buckets - 1)));
            ++ends_[bucket_[k] + 1];
        }
        uint32_t most = 0;
        for (size_t b = 0; b < n_buckets; ++b) {
            most = std::max(most, ends_[b + 1]);
            ends_[b + 1] += ends_[b];
        }
        sorted_.resize(n);
        for (size_t k = 0; k < n; ++k) sorted_[ends_[bucket_[k]]++] = order_[k];
        if (most > 16)
            std::sort(sorted_.begin(), sorted_.end(), before);
        else
            insert(sorted_);
        order_.swap(sorted_);
    }

    // Sorts what is nearly sorted.
    static void insert(std::vector<Place>& places) {
        for (size_t k = 1; k < places.size(); ++k) {
            if (!before(places[k], places[k - 1])) continue;
            const Place place = places[k];
            size_t at = k;
            for (; at > 0 && before(place, places[at - 1]); --at) places[at] = places[at - 1];
            places[at] = place;
        }
    }

    // Sets the range of the index, and by how much of its own side a box has to overlap another. An IoU above t means an
    // overlap above t sides on every axis, but for rounding: not where sides are as small as the rounding of coordinates.
    void survey(int64_t begin, int64_t end) {
        double least = std::numeric_limits<double>::infinity(), most = 0;
        bool sound = true;
        double low[D], high[D];
        for (int k = 0; k < D; ++k) low[k] = high[k] = p_.boxes.boxes[begin * 2 * D + k];
        for (int64_t row = begin; row < end; ++row) {
            const double* box = &p_.boxes.boxes[row * 2 * D];
            double extent = 1;
            for (int k = 0; k < D; ++k) {
                low[k] = std::min(low[k], box[k]);
                high[k] = std::max(high[k], box[D + k]);
                most = std::max(most, std::max(std::abs(box[k]), std::abs(box[D + k])));
                least = std::min(least, box[D + k] - box[k]);
                extent *= box[D + k] - box[k];
            }
            sound &= std::abs(extent - p_.boxes.extent[row]) <= SLACK * extent;
        }
        for (int k = 0; k < D; ++k) nearby_.set_range(k, low[k], high[k]);
        share_ = sound && least > SLACK * most ? p_.threshold * (1 - 100 * SLACK) : 0.0;
    }

    void cell(const Place* first, const Place* last) {
        n_ = 0;
        nearby_.clear(last - first);
        if (static_cast<int64_t>(clusters_.size()) < last - first) clusters_.resize(last - first);
        for (const Place* place = first; place != last; ++place) take(place->row);
    }

    void take(int64_t row) {
        const double* box = &p_.boxes.boxes[row * 2 * D];
        if (p_.moving) std::memcpy(&merged_[row * 2 * D], box, 2 * D * sizeof(double));
        const int64_t best = nearest(box, p_.boxes.extent[row]);
        if (best < 0) return lead(row, box);
        leader_[row] = clusters_[best].head;
        if (p_.moving) join(best, row, box);
    }

    // The cluster with the largest IoU above the threshold, the first of equal ones, or -1.
    int64_t nearest(const double* box, double extent) const {
        double latest_begin[D], earliest_end[D];
        for (int k = 0; k < D; ++k) {
            const double overlap = share_ * (box[D + k] - box[k]);
            latest_begin[k] = box[D + k] - overlap;
            earliest_end[k] = box[k] + overlap;
        }
        double largest = p_.threshold;
        int64_t best = -1;
        nearby_.visit(n_, latest_begin, earliest_end, [&](int64_t c) {
            const Cluster& other = clusters_[c];
            double common = std::max(std::min(other.box[D], box[D]) - std::max(other.box[0], box[0]), 0.0);
            for (int k = 1; k < D; ++k)
                common *= std::max(std::min(other.box[D + k], box[D + k]) - std::max(other.box[k], box[k]), 0.0);
            if (!(common > 0)) return;
            const double iou = common / (other.extent + extent - common);
            if (iou > largest) {
                largest = iou;
                best = c;
            }
        });
        return best;
    }

    void lead(int64_t row, const double* box) {
        Cluster& own = clusters_[n_];
        leader_[row] = own.head = row;
        own.total = p_.score[row];
        own.extent = p_.boxes.extent[row];
        for (int k = 0; k < 2 * D; ++k) {
            own.box[k] = box[k];
            own.weighted[k] = box[k] * p_.score[row];
        }
        nearby_.add(n_++, box);
    }

    void join(int64_t c, int64_t row, const double* box) {
        Cluster& own = clusters_[c];
        for (int k = 0; k < 2 * D; ++k) own.weighted[k] += box[k] * p_.score[row];
        own.total += p_.score[row];
        if (!(own.total > 0)) return;
        for (int k = 0; k < 2 * D; ++k) own.box[k] = own.weighted[k] / own.total;
        own.extent = own.box[D] - own.box[0];
        for (int k = 1; k < D; ++k) own.extent *= own.box[D + k] - own.box[k];
        std::memcpy(&merged_[own.head * 2 * D], own.box, sizeof own.box);
        nearby_.move(c, own.box);
    }

    static constexpr double SLACK = 1e-8;

    const ClusterProblem& p_;
    Span<int64_t> leader_;
    Span<double> merged_;
    std::vector<Place> order_, sorted_;
    std::vector<uint32_t> ends_, bucket_;
    std::vector<Cluster> clusters_;
    NearbyClusters<D> nearby_;
    int64_t n_ = 0;
    double share_ = 0;
};

template <int D>
void all_images(const ClusterProblem& p, Span<int64_t> leader, Span<double> merged, int threads) {
    const int64_t n = p.boxes.offsets.size - 1;
    parallel_with(
        tasks_of(n, IMAGES_AT_ONCE), threads, [&] { return Clusters<D>(p, leader, merged); },
        [&](Clusters<D>& work, int64_t task) {
            const int64_t stop = std::min(n, (task + 1) * IMAGES_AT_ONCE);
            for (int64_t i = task * IMAGES_AT_ONCE; i < stop; ++i) work.image(i);
        });
}

}  // namespace

void clusters(const ClusterProblem& p, int dimensions, Span<int64_t> leader, Span<double> merged, int threads) {
    if (dimensions == 3) return all_images<3>(p, leader, merged, threads);
    all_images<2>(p, leader, merged, threads);
}

}  // namespace calipers
