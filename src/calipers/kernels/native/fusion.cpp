// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/boxes.py (suppressed, merged_about_best, fused, decayed_scores).
#include "fusion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bits.h"

namespace calipers {

namespace {

// Images differ in work by the square of their boxes, so tasks are smaller than elsewhere.
constexpr int64_t IMAGES_AT_ONCE = 8;

// Which boxes of a cell can overlap another, as bits. Every axis is cut into buckets; a bit in `begins` says that a box begins in
// a bucket or before it, one in `ends` that it ends there or behind. Places go to buckets by a function that never falls, so a
// box that overlaps another has its bits where that looks for them: the index forgets no pair.
template <int D>
class NearbyBoxes {
public:
    static constexpr int BUCKETS = 32;

    void set_range(int axis, double low, double high) {
        low_[axis] = low;
        scale_[axis] = high > low ? (BUCKETS - 1) / (high - low) : 0.0;
    }

    // Makes room for n boxes.
    void reserve(int64_t n) {
        const size_t words = (n + 63) / 64;
        if (begins_[0].size() >= BUCKETS * words) return;
        for (int k = 0; k < D; ++k) {
            begins_[k].resize(BUCKETS * words);
            ends_[k].resize(BUCKETS * words);
        }
        first_.resize(words * 64 * D);
        last_.resize(words * 64 * D);
    }

    // Holds n boxes, of which corners(c) is the c-th.
    template <class Corners>
    void fill(int64_t n, Corners corners) {
        reserve(n);
        const int64_t words = (n + 63) / 64;
        for (int k = 0; k < D; ++k) {
            std::fill_n(begins_[k].begin(), BUCKETS * words, 0);
            std::fill_n(ends_[k].begin(), BUCKETS * words, 0);
        }
        for (int64_t c = 0; c < n; ++c) {
            const double* box = corners(c);
            const uint64_t bit = uint64_t{1} << (c % 64);
            for (int k = 0; k < D; ++k) {
                begins_[k][c / 64 * BUCKETS + bucket(k, box[k])] |= bit;
                ends_[k][c / 64 * BUCKETS + bucket(k, box[D + k])] |= bit;
            }
        }
        // What begins in a bucket has begun in those behind it too.
        for (int64_t w = 0; w < words; ++w)
            for (int k = 0; k < D; ++k) {
                uint64_t *begins = &begins_[k][w * BUCKETS], *ends = &ends_[k][w * BUCKETS];
                for (int b = 1; b < BUCKETS; ++b) begins[b] |= begins[b - 1];
                for (int b = BUCKETS - 1; b > 0; --b) ends[b - 1] |= ends[b];
            }
    }

    // Boxes are added one after the other, from 0 on; the first of 64 forgets those of the cell before.
    void add(int64_t c, const double* box) {
        for (int k = 0; k < D; ++k) {
            if (c % 64 == 0) {
                std::fill_n(begins_[k].begin() + c / 64 * BUCKETS, BUCKETS, 0);
                std::fill_n(ends_[k].begin() + c / 64 * BUCKETS, BUCKETS, 0);
            }
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

    // Calls visit(c) for boxes of [from, to), in order, unless they begin behind `latest_begin` or end before `earliest_end` on
    // some axis, or are not among the `chosen` (one bit each).
    template <class Chosen, class Visit>
    void visit(int64_t from, int64_t to, const double* latest_begin, const double* earliest_end, Chosen chosen, Visit visit) const {
        const uint64_t *begins[D], *ends[D];
        for (int k = 0; k < D; ++k) {
            begins[k] = begins_[k].data() + bucket(k, latest_begin[k]);
            ends[k] = ends_[k].data() + bucket(k, earliest_end[k]);
        }
        uint64_t mask = ~uint64_t{0} << (from % 64);
        for (int64_t w = from / 64; w * 64 < to; ++w, mask = ~uint64_t{0}) {
            uint64_t bits = mask & chosen(w);
            for (int k = 0; k < D; ++k) bits &= begins[k][w * BUCKETS] & ends[k][w * BUCKETS];
            for (; bits; bits &= bits - 1) visit(w * 64 + lowest_bit(bits));
        }
    }

private:
    int8_t bucket(int axis, double place) const {
        double position = (place - low_[axis]) * scale_[axis];
        position = std::min(position, BUCKETS - 1.0);
        position = std::max(0.0, position);  // in this order, no position (0 times infinity) is 0
        return static_cast<int8_t>(position);
    }

    // The buckets of 64 boxes are side by side, so that a range of them is one short walk through memory.
    static void flip(std::vector<uint64_t>& bits, int64_t c, int from, int to) {
        const uint64_t bit = uint64_t{1} << (c % 64);
        uint64_t* word = bits.data() + c / 64 * BUCKETS;
        for (int b = from; b < to; ++b) word[b] ^= bit;
    }

    double low_[D], scale_[D];
    std::vector<uint64_t> begins_[D], ends_[D];
    std::vector<int8_t> first_, last_;
};

// The common part of two boxes; 0 unless they overlap.
template <int D>
inline double common_extent(const double* a, const double* b) {
    double common = std::max(std::min(a[D], b[D]) - std::max(a[0], b[0]), 0.0);
    for (int k = 1; k < D; ++k) common *= std::max(std::min(a[D + k], b[D + k]) - std::max(a[k], b[k]), 0.0);
    return common;
}

template <int D>
inline double extent_of(const double* box) {
    double extent = box[D] - box[0];
    for (int k = 1; k < D; ++k) extent *= box[D + k] - box[k];
    return extent;
}

// A box of an image, where it is sorted.
struct Place {
    double score;
    int32_t box, label;
};

// Sorts the boxes of an image by class, then from the best score on, of equal ones the earlier; buffers are reused.
class ScoreOrder {
public:
    // Scores go to twice as many buckets as there are boxes, by a function that never falls; what shares a bucket is sorted by
    // comparing. That is three times faster than comparing all. Classes are sorted afterwards, without changing what is equal.
    void sort(std::vector<Place>& places) {
        const size_t n = places.size(), n_buckets = 2 * n;
        if (n < 2) return;
        double low = places[0].score, high = low;
        int32_t first_label = places[0].label, last_label = first_label;
        for (const Place& place : places) {
            low = std::min(low, place.score);
            high = std::max(high, place.score);
            first_label = std::min(first_label, place.label);
            last_label = std::max(last_label, place.label);
        }
        const double scale = (n_buckets - 1) / (high - low);
        const int64_t n_labels = int64_t{last_label} - first_label + 1;
        const bool few_labels = n_labels <= static_cast<int64_t>(n_buckets);
        if (n < 32 || !few_labels || !std::isfinite(high - low) || !std::isfinite(scale)) {
            std::sort(places.begin(), places.end(), before);
            return;
        }
        const size_t most = distribute(places, n_buckets, [&](const Place& place) {
            return static_cast<uint32_t>(std::min((high - place.score) * scale, static_cast<double>(n_buckets - 1)));
        });
        if (most > 16)
            std::sort(places.begin(), places.end(), better);
        else
            insert(places);
        if (n_labels > 1)
            distribute(places, n_labels, [&](const Place& place) { return static_cast<uint32_t>(place.label - first_label); });
    }

private:
    static bool better(const Place& a, const Place& b) { return a.score != b.score ? a.score > b.score : a.box < b.box; }
    static bool before(const Place& a, const Place& b) { return a.label != b.label ? a.label < b.label : better(a, b); }

    // Sorts by bucket, keeps the order within buckets, and returns how many the fullest has.
    template <class Bucket>
    size_t distribute(std::vector<Place>& places, size_t n_buckets, Bucket bucket_of) {
        const size_t n = places.size();
        bucket_.resize(n);
        sorted_.resize(n);
        ends_.assign(n_buckets + 1, 0);
        for (size_t k = 0; k < n; ++k) {
            bucket_[k] = bucket_of(places[k]);
            ++ends_[bucket_[k] + 1];
        }
        uint32_t most = 0;
        for (size_t b = 0; b < n_buckets; ++b) {
            most = std::max(most, ends_[b + 1]);
            ends_[b + 1] += ends_[b];
        }
        for (size_t k = 0; k < n; ++k) sorted_[ends_[bucket_[k]]++] = places[k];
        places.swap(sorted_);
        return most;
    }

    // Sorts what is nearly sorted.
    static void insert(std::vector<Place>& places) {
        for (size_t k = 1; k < places.size(); ++k) {
            if (!better(places[k], places[k - 1])) continue;
            const Place place = places[k];
            size_t at = k;
            for (; at > 0 && better(place, places[at - 1]); --at) places[at] = places[at - 1];
            places[at] = place;
        }
    }

    std::vector<Place> sorted_;
    std::vector<uint32_t> ends_, bucket_;
};

size_t end_of_cell(const std::vector<Place>& places, size_t first) {
    size_t last = first + 1;
    while (last < places.size() && places[last].label == places[first].label) ++last;
    return last;
}

// Fuses one image after the other; buffers are reused. The boxes of an image are brought together here, where they stay in the
// cache, and only what is left of them is written out.
template <int D>
class ImageFusion {
public:
    explicit ImageFusion(const FusionProblem& p) : p_(p) {
        for (int64_t m = 0; m < p.factors.size; ++m) {
            whole_weight_ += p.factors[m];
            largest_weight_ = std::max(largest_weight_, p.factors[m]);
        }
    }

    void image(int64_t i, FusedImages<D>& out) {
        collect(i);
        score_order_.sort(places_);
        survey();
        for (size_t first = 0, last; first < places_.size(); first = last) {
            last = end_of_cell(places_, first);
            if (p_.method == SUPPRESS)
                suppress(places_.data() + first, last - first);
            else
                gather(places_.data() + first, last - first);
        }
        if (p_.method == FUSE) score_clusters();
        if (p_.method == MERGE_ABOUT_BEST) merge();
        write(out);
    }

private:
    using Box = FusedBox<D>;
    struct Cluster {
        double box[2 * D], weighted[2 * D], extent, total;
        int32_t head;
    };

    // Brings the boxes of an image together.
    void collect(int64_t i) {
        size_t n = 0;
        for (const Member& member : p_.members) n += member.boxes.offsets[i + 1] - member.boxes.offsets[i];
        if (boxes_.size() < n) boxes_.resize(n);
        places_.resize(n);
        leader_.resize(n);
        n = 0;
        Box* boxes = boxes_.data();
        Place* places = places_.data();
        int64_t first_row = 0;
        for (size_t m = 0; m < p_.members.size(); ++m) {
            const Member member = p_.members[m];
            const double factor = p_.factors[m], skip_threshold = p_.skip_threshold;
            const int64_t end = member.boxes.offsets[i + 1];
            for (int64_t row = member.boxes.offsets[i]; row < end; ++row) {
                if (!(member.score[row] >= skip_threshold)) continue;
                Box& box = boxes[n];
                std::memcpy(box.corners, &member.boxes.boxes[row * 2 * D], sizeof box.corners);
                box.extent = member.boxes.extent[row];
                box.score = member.score[row] * factor;
                box.label = member.boxes.label[row];
                box.member = static_cast<int32_t>(m);
                box.row = first_row + row;
                places[n] = {box.score, static_cast<int32_t>(n), box.label};
                ++n;
            }
            first_row += member.score.size;
        }
        places_.resize(n);
    }

    size_t n_boxes() const { return places_.size(); }

    // Sets the range of the index, and by how much of its own side a box has to overlap another. An IoU above t means an
    // overlap above t sides on every axis, but for rounding: not where sides are as small as the rounding of coordinates.
    void survey() {
        double least = std::numeric_limits<double>::infinity(), most = 0, unsound = 0;
        double low[D], high[D];
        for (int k = 0; k < D; ++k) {
            low[k] = least;
            high[k] = -least;
        }
        for (size_t b = 0; b < n_boxes(); ++b) {
            const Box& box = boxes_[b];
            for (int k = 0; k < D; ++k) {
                low[k] = std::min(low[k], box.corners[k]);
                high[k] = std::max(high[k], box.corners[D + k]);
                least = std::min(least, box.corners[D + k] - box.corners[k]);
            }
            const double extent = extent_of<D>(box.corners);
            unsound = std::max(unsound, std::abs(extent - box.extent) - SLACK * extent);
        }
        for (int k = 0; k < D; ++k) {
            nearby_.set_range(k, low[k], high[k]);
            most = std::max(most, std::max(std::abs(low[k]), std::abs(high[k])));
        }
        share_ = unsound <= 0 && least > SLACK * most ? p_.iou_threshold * (1 - 100 * SLACK) : 0.0;
    }

    // Calls visit(c) for the boxes of the index in [from, to) that may have an IoU with a box above the threshold.
    template <class Chosen, class Visit>
    void visit_rivals(int64_t from, int64_t to, const Box& box, Chosen chosen, Visit visit) const {
        double latest_begin[D], earliest_end[D];
        for (int k = 0; k < D; ++k) {
            const double overlap = share_ * (box.corners[D + k] - box.corners[k]);
            latest_begin[k] = box.corners[D + k] - overlap;
            earliest_end[k] = box.corners[k] + overlap;
        }
        nearby_.visit(from, to, latest_begin, earliest_end, chosen, visit);
    }

    // Non-maximum suppression of a cell: each box that is left, from the best on, takes those behind it that overlap it too much.
    // Going from the few that stay to the many that go, the processor seldom guesses wrong what comes next.
    void suppress(const Place* places, int64_t n) {
        nearby_.fill(n, [&](int64_t k) { return boxes_[places[k].box].corners; });
        is_left_.assign((n + 63) / 64, ~uint64_t{0});
        const auto left = [&](int64_t word) { return is_left_[word]; };
        for (int64_t w = 0; w * 64 < n; ++w) {
            // Those that are left of 64, without the ones that had their turn.
            for (uint64_t open = is_left_[w] & first_bits(n - w * 64); open;) {
                const int bit = lowest_bit(open);
                const int64_t k = w * 64 + bit;
                const Box& box = boxes_[places[k].box];
                visit_rivals(k + 1, n, box, left, [&](int64_t c) {
                    const Box& other = boxes_[places[c].box];
                    const double common = common_extent<D>(box.corners, other.corners);
                    const double iou = common / (box.extent + other.extent - common);
                    const uint64_t goes = (common > 0) & (iou > p_.iou_threshold);
                    is_left_[c / 64] ^= goes << (c % 64);
                });
                open &= is_left_[w] & ~first_bits(bit + 1);
            }
        }
        for (int64_t k = 0; k < n; ++k) {
            const bool is_left = is_left_[k / 64] >> (k % 64) & 1;
            leader_[places[k].box] = is_left ? places[k].box : -1;
        }
    }

    // A word with the first n bits set.
    static uint64_t first_bits(int64_t n) { return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0}; }

    // The clusters of a cell.
    void gather(const Place* places, int64_t n) {
        const bool moving = p_.method == FUSE;
        nearby_.reserve(n);
        if (static_cast<int64_t>(clusters_.size()) < n) clusters_.resize(n);
        int64_t n_clusters = 0;
        for (int64_t k = 0; k < n; ++k) {
            const int32_t b = places[k].box;
            const int64_t best = nearest(boxes_[b], n_clusters);
            leader_[b] = best < 0 ? b : clusters_[best].head;
            if (best < 0)
                lead(n_clusters++, b);
            else if (moving)
                join(best, boxes_[b]);
        }
        for (int64_t c = 0; moving && c < n_clusters; ++c) move(boxes_[clusters_[c].head], clusters_[c].box);
    }

    // The cluster with the largest IoU above the threshold, the first of equal ones, or -1.
    int64_t nearest(const Box& box, int64_t n_clusters) const {
        double largest = p_.iou_threshold;
        int64_t best = -1;
        const auto all = [](int64_t) { return ~uint64_t{0}; };
        visit_rivals(0, n_clusters, box, all, [&](int64_t c) {
            const Cluster& other = clusters_[c];
            const double common = common_extent<D>(other.box, box.corners);
            if (!(common > 0)) return;
            const double iou = common / (other.extent + box.extent - common);
            if (iou > largest) {
                largest = iou;
                best = c;
            }
        });
        return best;
    }

    void lead(int64_t c, int32_t b) {
        Cluster& own = clusters_[c];
        const Box& box = boxes_[b];
        own.head = b;
        own.extent = box.extent;
        own.total = box.score;
        for (int k = 0; k < 2 * D; ++k) {
            own.box[k] = box.corners[k];
            own.weighted[k] = box.corners[k] * box.score;
        }
        nearby_.add(c, box.corners);
    }

    void join(int64_t c, const Box& box) {
        Cluster& own = clusters_[c];
        for (int k = 0; k < 2 * D; ++k) own.weighted[k] += box.corners[k] * box.score;
        own.total += box.score;
        if (!(own.total > 0)) return;
        for (int k = 0; k < 2 * D; ++k) own.box[k] = own.weighted[k] / own.total;
        own.extent = extent_of<D>(own.box);
        nearby_.move(c, own.box);
    }

    // Puts a box elsewhere; one that did not move keeps its extent.
    static void move(Box& box, const double* corners) {
        if (std::equal(corners, corners + 2 * D, box.corners)) return;
        std::copy_n(corners, 2 * D, box.corners);
        box.extent = extent_of<D>(corners);
    }

    // Gives the leaders the confidences of weighted boxes fusion. Sums go from the best box on, as NumPy's do.
    void score_clusters() {
        const size_t n = n_boxes(), n_members = p_.members.size();
        const bool needs_presence = p_.confidence == BOX_AND_MODEL || p_.confidence == ABSENT_MODEL_AWARE;
        sums_.assign(n, {});
        if (needs_presence) is_present_.assign(n * n_members, 0);
        for (const Place& place : places_) {
            const int32_t b = place.box;
            Sums& own = sums_[leader_[b]];
            own.total += boxes_[b].score;
            own.best = std::max(own.best, boxes_[b].score);
            own.weight += p_.factors[boxes_[b].member];
            ++own.count;
            if (needs_presence) is_present_[leader_[b] * n_members + boxes_[b].member] = 1;
        }
        for (size_t b = 0; b < n; ++b)
            if (is_leader(b)) boxes_[b].score = confidence(sums_[b], is_present_.data() + (needs_presence ? b * n_members : 0));
    }

    struct Sums {
        double total = 0, best = 0, weight = 0, columns[2 * D] = {};
        int64_t count = 0;
    };

    double confidence(const Sums& own, const uint8_t* is_present) const {
        if (p_.confidence == BEST) return own.best / largest_weight_;
        const int64_t n_members = static_cast<int64_t>(p_.members.size());
        if (p_.confidence == AVERAGE) {
            if (p_.overflow) return own.total / whole_weight_;
            const double mean = own.total / static_cast<double>(own.count);
            // Several boxes of a heavy model in one cluster would lift the mean above 1.
            return std::min(mean * static_cast<double>(std::min(own.count, n_members)) / whole_weight_, 1.0);
        }
        double present = 0, absent = 0;
        for (int64_t m = 0; m < n_members; ++m) (is_present[m] ? present : absent) += p_.factors[m];
        if (p_.confidence == BOX_AND_MODEL) return ratio_or_0(own.total, own.weight) * present / whole_weight_;
        return ratio_or_0(own.total, own.weight + absent);
    }

    static double ratio_or_0(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0.0; }

    // Moves the leaders to the mean of their clusters, weighted by score times IoU with the leader.
    void merge() {
        const size_t n = n_boxes();
        sums_.assign(n, {});
        for (const Place& place : places_) {
            const int32_t b = place.box;
            const Box &box = boxes_[b], &head = boxes_[leader_[b]];
            const double common = common_extent<D>(head.corners, box.corners);
            const double weight = box.score * (common > 0 ? common / (head.extent + box.extent - common) : 0.0);
            Sums& own = sums_[leader_[b]];
            own.total += weight;
            ++own.count;
            for (int k = 0; k < 2 * D; ++k) own.columns[k] += weight * box.corners[k];
        }
        for (size_t b = 0; b < n; ++b) {
            const Sums& own = sums_[b];
            if (!(own.total > 0) || own.count < 2) continue;  // a box alone stays as it is, to the last bit
            double mean[2 * D];
            for (int k = 0; k < 2 * D; ++k) mean[k] = own.columns[k] / own.total;
            move(boxes_[b], mean);
        }
    }

    bool is_leader(size_t b) const { return leader_[b] == static_cast<int32_t>(b); }

    // Writes what is left, from the best score on.
    void write(FusedImages<D>& out) {
        size_t n = 0;
        for (const Place place : places_) {  // without a branch, which the processor would often guess wrong
            places_[n] = place;
            n += is_leader(place.box);
        }
        places_.resize(n);
        bool is_sorted = true;  // as a suppression of one class leaves them
        for (size_t k = 0; k < n; ++k) {
            places_[k] = {boxes_[places_[k].box].score, places_[k].box, 0};
            is_sorted &= k == 0 || places_[k - 1].score > places_[k].score;
        }
        if (!is_sorted) score_order_.sort(places_);
        const size_t n_before = out.boxes.size();
        out.boxes.resize(n_before + n);
        for (size_t k = 0; k < n; ++k) {
            Box& box = out.boxes[n_before + k];
            box = boxes_[places_[k].box];
        }
        out.count.push_back(static_cast<int64_t>(n));
    }

    static constexpr double SLACK = 1e-8;

    const FusionProblem& p_;
    double whole_weight_ = 0, largest_weight_ = 0, share_ = 0;
    std::vector<Box> boxes_;     // of the image, and room for more
    std::vector<Place> places_;  // of every box, sorted
    std::vector<int32_t> leader_;
    std::vector<uint64_t> is_left_;
    std::vector<Cluster> clusters_;
    std::vector<Sums> sums_;
    std::vector<uint8_t> is_present_;
    ScoreOrder score_order_;
    NearbyBoxes<D> nearby_;
};

// One over the factorial of k, for the series of e to the power of x.
constexpr double TERMS[] = {1.0,        1.0,         1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,        1.0 / 720,
                            1.0 / 5040, 1.0 / 40320, 1.0 / 362880,  1.0 / 3628800,  1.0 / 39916800,  1.0 / 479001600,  1.0 / 6227020800.0};

// e to the power of x, which is at most 0, by the steps of its twin: libraries differ in the last bit.
double falling_exp(double x) {
    x = std::max(x, -750.0);  // where it is 0 already
    const double power = std::nearbyint(x * 1.4426950408889634);
    const double rest = (x - power * 0.693147180369123816490) - power * 1.90821492927058770002e-10;
    double sum = TERMS[13];
    for (int k = 12; k >= 0; --k) sum = sum * rest + TERMS[k];
    return std::ldexp(sum, static_cast<int>(power));
}

// Lowers the scores of one image after the other; buffers are reused.
template <int D>
class ImageDecay {
public:
    ImageDecay(const DecayProblem& p, Span<double> lowered) : p_(p), lowered_(lowered) {}

    void image(int64_t i) {
        const int64_t begin = p_.boxes.offsets[i], end = p_.boxes.offsets[i + 1];
        places_.clear();
        for (int64_t row = begin; row < end; ++row) {
            places_.push_back({p_.score[row], static_cast<int32_t>(row - begin), p_.boxes.label[row]});
            lowered_[row] = p_.score[row];
        }
        score_order_.sort(places_);
        for (size_t first = 0, last; first < places_.size(); first = last) {
            last = end_of_cell(places_, first);
            open_.clear();
            for (size_t k = first; k < last; ++k) open_.push_back(begin + places_[k].box);
            cell();
        }
    }

private:
    // The best box of those that had no turn lowers the others, until none is left; of equal ones the earlier is better.
    void cell() {
        for (size_t best = 0, next; !open_.empty(); best = next) {
            const int64_t head = open_[best];
            open_.erase(open_.begin() + best);
            next = 0;
            for (size_t k = 0; k < open_.size(); ++k) {
                const int64_t row = open_[k];
                const double iou = iou_of(head, row);
                if (iou != 0) lowered_[row] *= factor(iou);
                if (lowered_[row] > lowered_[open_[next]]) next = k;
            }
        }
    }

    double iou_of(int64_t a, int64_t b) const {
        const double common = common_extent<D>(&p_.boxes.boxes[a * 2 * D], &p_.boxes.boxes[b * 2 * D]);
        return common > 0 ? common / (p_.boxes.extent[a] + p_.boxes.extent[b] - common) : 0.0;
    }

    double factor(double iou) const {
        if (p_.sigma > 0) return falling_exp(-(iou * iou) / p_.sigma);
        return iou > p_.threshold ? 1.0 - iou : 1.0;
    }

    const DecayProblem& p_;
    Span<double> lowered_;
    std::vector<Place> places_;
    std::vector<int64_t> open_;
    ScoreOrder score_order_;
};

// Calls work(state, image, task) for all images, in tasks that the data fix.
template <class Make, class Work>
void for_images(int64_t n, int threads, Make make, Work work) {
    parallel_with(tasks_of(n, IMAGES_AT_ONCE), threads, make, [&](auto& state, int64_t task) {
        const int64_t stop = std::min(n, (task + 1) * IMAGES_AT_ONCE);
        for (int64_t i = task * IMAGES_AT_ONCE; i < stop; ++i) work(state, i, task);
    });
}

template <int D>
void decayed_images(const DecayProblem& p, Span<double> lowered, int threads) {
    for_images(
        p.boxes.offsets.size - 1, threads, [&] { return ImageDecay<D>(p, lowered); },
        [](ImageDecay<D>& work, int64_t i, int64_t) { work.image(i); });
}

}  // namespace

template <int D>
std::vector<FusedImages<D>> fused_boxes(const FusionProblem& p, int threads) {
    const int64_t n = p.members[0].boxes.offsets.size - 1;
    std::vector<FusedImages<D>> parts(tasks_of(n, IMAGES_AT_ONCE));
    for_images(
        n, threads, [&] { return ImageFusion<D>(p); },
        [&](ImageFusion<D>& work, int64_t i, int64_t task) { work.image(i, parts[task]); });
    return parts;
}
template std::vector<FusedImages<2>> fused_boxes<2>(const FusionProblem& p, int threads);
template std::vector<FusedImages<3>> fused_boxes<3>(const FusionProblem& p, int threads);

void decayed_scores(const DecayProblem& p, int dimensions, Span<double> lowered, int threads) {
    if (dimensions == 3) return decayed_images<3>(p, lowered, threads);
    decayed_images<2>(p, lowered, threads);
}

}  // namespace calipers
