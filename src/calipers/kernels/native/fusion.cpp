// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/fusion.py (clusters).
#include "fusion.h"

#include <algorithm>
#include <cstring>

namespace calipers {

namespace {

// Images differ in work by the square of their boxes, so tasks are smaller than elsewhere.
constexpr int64_t IMAGES_AT_ONCE = 32;

// The clusters of one cell at a time: their boxes as columns, so that a box is compared with all of them in one loop that the
// compiler vectorises. Buffers are reused.
template <int D>
class Clusters {
public:
    Clusters(const ClusterProblem& p, Span<int64_t> leader, Span<double> merged) : p_(p), leader_(leader), merged_(merged) {}

    void image(int64_t i) {
        const int64_t begin = p_.boxes.offsets[i], end = p_.boxes.offsets[i + 1];
        const auto label = p_.boxes.label;
        const auto score = p_.score;
        order_.resize(end - begin);
        for (int64_t k = begin; k < end; ++k) order_[k - begin] = {label[k], score[k], k};
        std::sort(order_.begin(), order_.end(), [](const Place& a, const Place& b) {
            if (a.label != b.label) return a.label < b.label;
            return a.score != b.score ? a.score > b.score : a.row < b.row;
        });
        reserve(end - begin);
        n_ = 0;
        for (size_t k = 0; k < order_.size(); ++k) {
            if (k > 0 && order_[k].label != order_[k - 1].label) n_ = 0;  // the next cell begins
            take(order_[k].row);
        }
    }

private:
    struct Place {
        int32_t label;
        double score;
        int64_t row;
    };

    void reserve(int64_t n) {
        if (static_cast<int64_t>(head_.size()) >= n) return;
        head_.resize(n);
        total_.resize(n);
        extent_.resize(n);
        iou_.resize(n);
        for (int k = 0; k < 2 * D; ++k) {
            box_[k].resize(n);
            weighted_[k].resize(n);
        }
    }

    void take(int64_t row) {
        const double* box = &p_.boxes.boxes[row * 2 * D];
        std::memcpy(&merged_[row * 2 * D], box, 2 * D * sizeof(double));
        const int64_t best = nearest(box, p_.boxes.extent[row]);
        if (best < 0) {
            lead(row, box);
            return;
        }
        leader_[row] = head_[best];
        if (p_.moving) join(best, row, box);
    }

    // The cluster with the largest IoU above the threshold, the first of equal ones, or -1.
    int64_t nearest(const double* box, double extent) {
        const int64_t n = n_;
        double* iou = iou_.data();
        const double* own = extent_.data();
        // Locals, because the compiler cannot know that writing IoUs leaves the columns alone.
        const double *low[D], *high[D];
        for (int k = 0; k < D; ++k) {
            low[k] = box_[k].data();
            high[k] = box_[D + k].data();
        }
        double largest = 0;
        for (int64_t c = 0; c < n; ++c) {
            double common = std::max(std::min(high[0][c], box[D]) - std::max(low[0][c], box[0]), 0.0);
            for (int k = 1; k < D; ++k)
                common *= std::max(std::min(high[k][c], box[D + k]) - std::max(low[k][c], box[k]), 0.0);
            const double ratio = common / (own[c] + extent - common);
            iou[c] = common > 0 ? ratio : 0.0;
        }
        int64_t best = -1;
        for (int64_t c = 0; c < n; ++c) {
            if (iou[c] > largest) {
                largest = iou[c];
                best = c;
            }
        }
        return largest > p_.threshold ? best : -1;
    }

    void lead(int64_t row, const double* box) {
        const int64_t c = n_++;
        leader_[row] = head_[c] = row;
        total_[c] = p_.score[row];
        extent_[c] = p_.boxes.extent[row];
        for (int k = 0; k < 2 * D; ++k) {
            box_[k][c] = box[k];
            weighted_[k][c] = box[k] * p_.score[row];
        }
    }

    void join(int64_t c, int64_t row, const double* box) {
        for (int k = 0; k < 2 * D; ++k) weighted_[k][c] += box[k] * p_.score[row];
        total_[c] += p_.score[row];
        if (!(total_[c] > 0)) return;
        double* merged = &merged_[head_[c] * 2 * D];
        for (int k = 0; k < 2 * D; ++k) merged[k] = box_[k][c] = weighted_[k][c] / total_[c];
        double extent = merged[D] - merged[0];
        for (int k = 1; k < D; ++k) extent *= merged[D + k] - merged[k];
        extent_[c] = extent;
    }

    const ClusterProblem& p_;
    Span<int64_t> leader_;
    Span<double> merged_;
    std::vector<Place> order_;
    int64_t n_ = 0;
    std::vector<int64_t> head_;
    std::vector<double> total_, extent_, iou_, box_[2 * D], weighted_[2 * D];
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
