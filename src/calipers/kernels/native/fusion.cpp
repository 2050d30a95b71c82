// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/boxes.py (suppressed, merged_about_best, fused, decayed_scores).
#include "fusion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "nearby.h"

namespace calipers {

namespace {

// Images differ in work by the square of their boxes, so tasks are smaller than elsewhere.
constexpr int64_t IMAGES_AT_ONCE = 8;

// A box of an image, where it is sorted.
struct Place {
    double score;
    int32_t box, label;
};

// Sorts the boxes of an image; buffers are reused.
class ScoreOrder {
public:
    // By class, then from the best score on. Classes are sorted last, without changing what is equal.
    void by_class(std::vector<Place>& places) {
        by_score(places);
        if (places.empty()) return;
        int32_t first = places[0].label, last = first;
        for (const Place& place : places) {
            first = std::min(first, place.label);
            last = std::max(last, place.label);
        }
        const int64_t n_labels = int64_t{last} - first + 1;
        if (n_labels == 1) return;
        if (n_labels <= static_cast<int64_t>(2 * places.size()))
            distribute(places, n_labels, [&](const Place& place) { return static_cast<uint32_t>(place.label - first); });
        else
            std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.label < b.label; });
    }

    // From the best score on, of equal ones the earlier. Scores go to twice as many buckets as there are boxes, by a function
    // that never falls; what shares a bucket is sorted by comparing. That is three times faster than comparing all.
    void by_score(std::vector<Place>& places) {
        const size_t n = places.size(), n_buckets = 2 * n;
        double low = INFINITE, high = -INFINITE;
        for (const Place& place : places) {
            low = smaller(place.score, low);
            high = larger(place.score, high);
        }
        const double scale = (n_buckets - 1) / (high - low);
        if (n < 32 || !std::isfinite(high - low) || !std::isfinite(scale)) {
            std::sort(places.begin(), places.end(), better);
            return;
        }
        distribute(places, n_buckets, [&](const Place& place) {
            return static_cast<uint32_t>(smaller((high - place.score) * scale, static_cast<double>(n_buckets - 1)));
        });
        if (!insert(places)) std::sort(places.begin(), places.end(), better);
    }

private:
    static constexpr double INFINITE = std::numeric_limits<double>::infinity();

    static bool better(const Place& a, const Place& b) {
        return a.score > b.score || (a.score == b.score && a.box < b.box);
    }

    // Sorts by bucket, and keeps the order within buckets.
    template <class Bucket>
    void distribute(std::vector<Place>& places, size_t n_buckets, Bucket bucket_of) {
        const size_t n = places.size();
        bucket_.resize(n);
        sorted_.resize(n);
        starts_.assign(n_buckets + 1, 0);
        uint32_t *bucket = bucket_.data(), *starts = starts_.data();
        for (size_t k = 0; k < n; ++k) {
            bucket[k] = bucket_of(places[k]);
            ++starts[bucket[k] + 1];
        }
        for (size_t b = 0; b < n_buckets; ++b) starts[b + 1] += starts[b];
        Place* sorted = sorted_.data();
        for (size_t k = 0; k < n; ++k) sorted[starts[bucket[k]]++] = places[k];
        places.swap(sorted_);
    }

    // Sorts what is nearly sorted; returns false, before it is done, if it is not.
    static bool insert(std::vector<Place>& places) {
        Place* all = places.data();
        const size_t n = places.size();
        size_t n_moves = 0;
        for (size_t k = 1; k < n; ++k) {
            if (!better(all[k], all[k - 1])) continue;
            const Place place = all[k];
            size_t at = k;
            for (; at > 0 && better(place, all[at - 1]); --at) all[at] = all[at - 1];
            all[at] = place;
            n_moves += k - at;
            if (n_moves > 8 * n) return false;
        }
        return true;
    }

    std::vector<Place> sorted_;
    std::vector<uint32_t> starts_, bucket_;
};

size_t end_of_cell(const std::vector<Place>& places, size_t first) {
    if (places.back().label == places[first].label) return places.size();
    size_t last = first + 1;
    while (last < places.size() && places[last].label == places[first].label) ++last;
    return last;
}

// What is left on the images of a task.
template <int D>
struct FusedImages {
    struct Entry {
        SizedBox<D> box;
        double score;
        int64_t row;
        int32_t label;
    };
    std::vector<int64_t> count;  // per image
    std::vector<Entry> entries;

    void clear() {
        count.clear();
        entries.clear();
    }
};

// Brings what tasks leave into the columns, in the order of the tasks. One that is early waits; with one thread none is.
template <int D>
class InOrder {
public:
    explicit InOrder(FusedColumns& columns) : columns_(columns) {}

    void accept(int64_t task, const FusedImages<D>& images) {
        std::lock_guard<std::mutex> lock(guard_);
        if (task != next_) {
            waiting_.emplace(task, images);
            return;
        }
        append(images);
        while (!waiting_.empty() && waiting_.begin()->first == next_) {
            append(waiting_.begin()->second);
            waiting_.erase(waiting_.begin());
        }
    }

private:
    void append(const FusedImages<D>& images) {
        ++next_;
        for (const int64_t n : images.count) columns_.count[n_images_++] = n;
        int64_t k = columns_.n;
        for (const auto& entry : images.entries) {
            columns_.label[k] = entry.label;
            std::memcpy(&columns_.corners[k * 2 * D], entry.box.corners, sizeof entry.box.corners);
            columns_.extent[k] = entry.box.extent;
            columns_.score[k] = entry.score;
            columns_.row[k] = entry.row;
            ++k;
        }
        columns_.n = k;
    }

    FusedColumns& columns_;
    std::mutex guard_;
    int64_t next_ = 0, n_images_ = 0;
    std::map<int64_t, FusedImages<D>> waiting_;
};

// Fuses one image after the other; buffers are reused. The boxes of an image are brought together here, where they stay in the
// cache, and only what is left of them is written out.
template <int D>
class ImageFusion {
public:
    explicit ImageFusion(const FusionProblem& p) : p_(p), around_(p.iou_threshold) {
        int64_t n_rows = 0;
        for (int64_t m = 0; m < p.factors.size; ++m) {
            first_row_.push_back(n_rows);
            n_rows += p.members[m].score.size;
            whole_weight_ += p.factors[m];
            largest_weight_ = std::max(largest_weight_, p.factors[m]);
        }
    }

    void image(int64_t i, FusedImages<D>& out) {
        collect(i);
        score_order_.by_class(places_);
        const Place* end = around_.by_cores() ? survivors<true>() : survivors<false>();
        places_.resize(end - places_.data());
        write(i, out);
    }

private:
    using Box = SizedBox<D>;
    struct Cluster {
        Box box;
        double weighted[2 * D], total;
        int32_t head;
    };

    // Brings the boxes of an image together.
    void collect(int64_t i) {
        size_t n = 0;
        for (const Member& member : p_.members) n += member.boxes.offsets[i + 1] - member.boxes.offsets[i];
        if (boxes_.size() < n) boxes_.resize(n);
        n_boxes_ = n;
        places_.resize(n);
        first_of_member_.clear();
        Box* boxes = boxes_.data();
        Place* places = places_.data();
        int32_t b = 0;
        n = 0;
        for (size_t m = 0; m < p_.members.size(); ++m) {
            const Member member = p_.members[m];
            const double factor = p_.factors[m], skip_threshold = p_.skip_threshold;
            const int64_t end = member.boxes.offsets[i + 1];
            first_of_member_.push_back(b);
            for (int64_t row = member.boxes.offsets[i]; row < end; ++row, ++b) {
                std::memcpy(boxes[b].corners, &member.boxes.boxes[row * 2 * D], sizeof boxes[b].corners);
                boxes[b].extent = member.boxes.extent[row];
                places[n] = {member.score[row] * factor, b, member.boxes.label[row]};
                n += member.score[row] >= skip_threshold;
            }
        }
        places_.resize(n);
        around_.look(boxes_.data(), n_boxes_);
    }

    // Moves the places of what is left to the front, and returns their end.
    template <bool BY_CORES>
    Place* survivors() {
        Place* end = places_.data();
        leader_.resize(n_boxes_);
        for (size_t first = 0, last; first < places_.size(); first = last) {
            last = end_of_cell(places_, first);
            if (p_.method == SUPPRESS)
                end = suppress<BY_CORES>(places_.data() + first, last - first, end);
            else
                gather<BY_CORES>(places_.data() + first, last - first);
        }
        if (p_.method == SUPPRESS) return end;
        p_.method == FUSE ? score_clusters() : merge();
        for (const Place place : places_) {  // without a branch, which the processor would often guess wrong
            *end = place;
            end += is_leader(place.box);
        }
        return end;
    }

    // Which member a box is from.
    size_t member_of(int32_t b) const {
        size_t m = first_of_member_.size() - 1;
        while (first_of_member_[m] > b) --m;
        return m;
    }

    // Its row in the tables of all members, one below the other.
    int64_t row_of(int32_t b, int64_t i) const {
        const size_t m = member_of(b);
        return first_row_[m] + p_.members[m].boxes.offsets[i] + b - first_of_member_[m];
    }

    // Non-maximum suppression of a cell: each box that is left, from the best on, takes those that overlap it too much. Going
    // from the few that stay to the many that go, the processor seldom guesses wrong what comes next.
    template <bool BY_CORES>
    Place* suppress(const Place* places, int64_t n, Place* survivors) {
        auto& waiting = std::get<WaitingBoxes<D, BY_CORES>>(waiting_boxes_);
        waiting.fill(static_cast<uint32_t>(n), around_, [&](uint32_t k) { return &boxes_[places[k].box]; });
        for (int64_t k; (k = waiting.take()) >= 0;) {
            *survivors++ = places[k];
            waiting.remove_rivals(k, around_);
        }
        return survivors;
    }

    // The clusters of a cell.
    template <bool BY_CORES>
    void gather(const Place* places, int64_t n) {
        const bool moving = p_.method == FUSE;
        clusters_nearby_.reserve(n);
        if (static_cast<int64_t>(clusters_.size()) < n) clusters_.resize(n);
        int64_t n_clusters = 0;
        for (int64_t k = 0; k < n; ++k) {
            const int32_t b = places[k].box;
            const int64_t best = nearest<BY_CORES>(boxes_[b], n_clusters);
            leader_[b] = best < 0 ? b : clusters_[best].head;
            if (best < 0)
                lead<BY_CORES>(n_clusters++, places[k]);
            else if (moving)
                join<BY_CORES>(best, places[k]);
        }
        for (int64_t c = 0; moving && c < n_clusters; ++c) move(boxes_[clusters_[c].head], clusters_[c].box.corners);
    }

    // The cluster with the largest IoU above the threshold, the first of equal ones, or -1.
    template <bool BY_CORES>
    int64_t nearest(const Box& box, int64_t n_clusters) const {
        double largest = p_.iou_threshold;
        int64_t best = -1;
        clusters_nearby_.template visit<BY_CORES>(n_clusters, box, around_, [&](int64_t c) {
            const Box& other = clusters_[c].box;
            const double common = common_extent<D>(other.corners, box.corners);
            const double iou = common / (other.extent + box.extent - common);
            if (common > 0 && iou > largest) {
                largest = iou;
                best = c;
            }
        });
        return best;
    }

    template <bool BY_CORES>
    void lead(int64_t c, const Place& place) {
        Cluster& own = clusters_[c];
        own.head = place.box;
        own.box = boxes_[place.box];
        own.total = place.score;
        for (int k = 0; k < 2 * D; ++k) own.weighted[k] = own.box.corners[k] * place.score;
        clusters_nearby_.template add<BY_CORES>(c, own.box, around_);
    }

    template <bool BY_CORES>
    void join(int64_t c, const Place& place) {
        Cluster& own = clusters_[c];
        const Box& box = boxes_[place.box];
        for (int k = 0; k < 2 * D; ++k) own.weighted[k] += box.corners[k] * place.score;
        own.total += place.score;
        if (!(own.total > 0)) return;
        for (int k = 0; k < 2 * D; ++k) own.box.corners[k] = own.weighted[k] / own.total;
        own.box.extent = extent_of<D>(own.box.corners);
        clusters_nearby_.template widen<BY_CORES>(c, own.box, around_);
    }

    // Puts a box elsewhere; one that did not move keeps its extent.
    static void move(Box& box, const double* corners) {
        if (std::equal(corners, corners + 2 * D, box.corners)) return;
        std::copy_n(corners, 2 * D, box.corners);
        box.extent = extent_of<D>(corners);
    }

    // Gives the leaders the confidences of weighted boxes fusion. Sums go from the best box on, as NumPy's do.
    void score_clusters() {
        const size_t n_members = p_.members.size();
        const bool needs_presence = p_.confidence == BOX_AND_MODEL || p_.confidence == ABSENT_MODEL_AWARE;
        if (sums_.size() < n_boxes_) sums_.resize(n_boxes_);
        if (needs_presence) is_present_.assign(n_boxes_ * n_members, 0);
        for (const Place& place : places_) {
            const int32_t b = place.box;
            Sums& own = sums_[leader_[b]];
            if (is_leader(b)) own = {};  // it comes before its followers
            own.total += place.score;
            own.best = std::max(own.best, place.score);
            ++own.count;
            if (!needs_presence) continue;
            const size_t member = member_of(b);
            own.weight += p_.factors[member];
            is_present_[leader_[b] * n_members + member] = 1;
        }
        for (Place& place : places_)
            if (is_leader(place.box))
                place.score = confidence(sums_[place.box], is_present_.data() + (needs_presence ? place.box * n_members : 0));
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
        if (sums_.size() < n_boxes_) sums_.resize(n_boxes_);
        for (const Place& place : places_) {
            const int32_t b = place.box;
            const Box &box = boxes_[b], &head = boxes_[leader_[b]];
            const double common = common_extent<D>(head.corners, box.corners);
            const double weight = place.score * (common > 0 ? common / (head.extent + box.extent - common) : 0.0);
            Sums& own = sums_[leader_[b]];
            if (is_leader(b)) own = {};  // it comes before its followers
            own.total += weight;
            ++own.count;
            for (int k = 0; k < 2 * D; ++k) own.columns[k] += weight * box.corners[k];
        }
        for (const Place& place : places_) {
            if (!is_leader(place.box)) continue;
            const Sums& own = sums_[place.box];
            if (!(own.total > 0) || own.count < 2) continue;  // a box alone stays as it is, to the last bit
            double mean[2 * D];
            for (int k = 0; k < 2 * D; ++k) mean[k] = own.columns[k] / own.total;
            move(boxes_[place.box], mean);
        }
    }

    bool is_leader(size_t b) const { return leader_[b] == static_cast<int32_t>(b); }

    // Writes what is left, from the best score on.
    void write(int64_t i, FusedImages<D>& out) {
        const size_t n = places_.size();
        bool is_sorted = true;  // as a suppression of one class leaves them
        for (size_t k = 1; k < n; ++k) is_sorted &= places_[k - 1].score > places_[k].score;
        if (!is_sorted) score_order_.by_score(places_);
        for (const Place& place : places_)
            out.entries.push_back({boxes_[place.box], place.score, row_of(place.box, i), place.label});
        out.count.push_back(static_cast<int64_t>(n));
    }

    const FusionProblem& p_;
    double whole_weight_ = 0, largest_weight_ = 0;
    std::vector<int64_t> first_row_;  // of every member, in the tables of all
    std::vector<int32_t> first_of_member_;  // among the boxes of the image
    size_t n_boxes_ = 0;
    std::vector<Box> boxes_;     // of the image, and room for more
    std::vector<Place> places_;  // of every box that takes part, sorted
    std::vector<int32_t> leader_;
    std::vector<Cluster> clusters_;
    std::vector<Sums> sums_;
    std::vector<uint8_t> is_present_;
    ScoreOrder score_order_;
    Surroundings<D> around_;
    std::tuple<WaitingBoxes<D, false>, WaitingBoxes<D, true>> waiting_boxes_;
    NearbyClusters<D> clusters_nearby_;
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
        score_order_.by_class(places_);
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
        const double *first = &p_.boxes.boxes[a * 2 * D], *second = &p_.boxes.boxes[b * 2 * D];
        if (!(first[0] < second[D] && second[0] < first[D])) return 0.0;  // most boxes are not even near
        const double common = common_extent<D>(first, second);
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

template <int D>
void fused_images(const FusionProblem& p, FusedColumns& columns, int threads) {
    const int64_t n = p.members[0].boxes.offsets.size - 1;
    InOrder<D> in_order(columns);
    parallel_with(
        tasks_of(n, IMAGES_AT_ONCE), threads, [&] { return std::make_pair(ImageFusion<D>(p), FusedImages<D>()); },
        [&](auto& state, int64_t task) {
            auto& [fusion, images] = state;
            images.clear();
            const int64_t stop = std::min(n, (task + 1) * IMAGES_AT_ONCE);
            for (int64_t i = task * IMAGES_AT_ONCE; i < stop; ++i) fusion.image(i, images);
            in_order.accept(task, images);
        });
}

template <int D>
void decayed_images(const DecayProblem& p, Span<double> lowered, int threads) {
    const int64_t n = p.boxes.offsets.size - 1;
    parallel_with(
        tasks_of(n, IMAGES_AT_ONCE), threads, [&] { return ImageDecay<D>(p, lowered); },
        [&](ImageDecay<D>& decay, int64_t task) {
            const int64_t stop = std::min(n, (task + 1) * IMAGES_AT_ONCE);
            for (int64_t i = task * IMAGES_AT_ONCE; i < stop; ++i) decay.image(i);
        });
}

}  // namespace

void fused_boxes(const FusionProblem& p, int dimensions, FusedColumns& columns, int threads) {
    if (dimensions == 3) return fused_images<3>(p, columns, threads);
    fused_images<2>(p, columns, threads);
}

void decayed_scores(const DecayProblem& p, int dimensions, Span<double> lowered, int threads) {
    if (dimensions == 3) return decayed_images<3>(p, lowered, threads);
    decayed_images<2>(p, lowered, threads);
}

}  // namespace calipers
