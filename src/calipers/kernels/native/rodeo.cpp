// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/rodeo.py: everything that RoDeO needs of an image, in one go.
#include "rodeo.h"

#include <algorithm>

#include "assign.h"

namespace calipers {

namespace {

// Geometry of a pair, in the order of operations of kernels/overlap.py.
template <int D>
struct Geometry {
    const double *a, *b;

    double giou(double extent_a, double extent_b) const {
        double common = std::max(std::min(a[D], b[D]) - std::max(a[0], b[0]), 0.0);
        double enclosing = std::max(a[D], b[D]) - std::min(a[0], b[0]);
        for (int k = 1; k < D; ++k) {
            common *= std::max(std::min(a[D + k], b[D + k]) - std::max(a[k], b[k]), 0.0);
            enclosing *= std::max(a[D + k], b[D + k]) - std::min(a[k], b[k]);
        }
        const double whole = extent_a + extent_b - common;
        return common / whole - (enclosing - whole) / enclosing;
    }

    double distance() const {  // squared, in sizes of a
        double sum = 0.0;
        for (int k = 0; k < D; ++k) {
            const double shift = ((a[k] + a[D + k]) / 2.0 - (b[k] + b[D + k]) / 2.0) / (a[D + k] - a[k]);
            sum = k ? sum + shift * shift : shift * shift;
        }
        return sum;
    }

    double shape() const {
        double common = 0.0, own = 0.0, other = 0.0;
        for (int k = 0; k < D; ++k) {
            const double side_a = a[D + k] - a[k], side_b = b[D + k] - b[k], less = std::min(side_a, side_b);
            common = k ? common * less : less;
            own = k ? own * side_a : side_a;
            other = k ? other * side_b : side_b;
        }
        return common / (own + other - common);
    }
};

template <int D>
class Pathfinder {
public:
    Pathfinder(const Side& reference, const Side& prediction, int64_t n_classes)
        : reference_(reference), prediction_(prediction), real_(n_classes, -1), said_(n_classes, -1) {}

    void image(int64_t i, const double* weight, int64_t* presence, FoundPaths& out) {
        const int64_t first = reference_.offsets[i], rows = reference_.offsets[i + 1] - first;
        const int64_t begin = prediction_.offsets[i], columns = prediction_.offsets[i + 1] - begin;
        count_classes(i, first, rows, begin, columns, presence);
        if (!rows || !columns) {
            nobody_.column_of.assign(rows, -1);
            piece(i, 0.0, nobody_, first, begin, columns, out);
            return;
        }
        gain_.resize(rows * columns);
        same_.resize(rows * columns);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
                const double own = reference_.extent[first + r], other = prediction_.extent[begin + c];
                gain_[r * columns + c] = pair(first + r, begin + c).giou(own, other);
                same_[r * columns + c] = reference_.label[first + r] == prediction_.label[begin + c];
            }
        envelope_.find(gain_.data(), same_.data(), rows, columns, weight);
        for (const Envelope::Piece& found : envelope_) piece(i, found.start, found.line, first, begin, columns, out);
    }

private:
    Geometry<D> pair(int64_t r, int64_t p) const { return {&reference_.boxes[r * 2 * D], &prediction_.boxes[p * 2 * D]}; }

    // Classes in both, only predicted, only referenced. Marks carry the image number, so they need no wiping.
    void count_classes(int64_t i, int64_t first, int64_t rows, int64_t begin, int64_t columns, int64_t* presence) {
        int64_t both = 0, n_real = 0, n_said = 0;
        for (int64_t r = first; r < first + rows; ++r) {
            int64_t& mark = real_[reference_.label[r]];
            n_real += mark != i;
            mark = i;
        }
        for (int64_t p = begin; p < begin + columns; ++p) {
            int64_t& mark = said_[prediction_.label[p]];
            if (mark == i) continue;
            mark = i;
            ++n_said;
            both += real_[prediction_.label[p]] == i;
        }
        presence[0] = both;
        presence[1] = n_said - both;
        presence[2] = n_real - both;
    }

    void piece(int64_t i, double start, const Line& line, int64_t first, int64_t begin, int64_t columns, FoundPaths& out) {
        taken_.assign(columns, 0);
        int64_t n_pairs = 0, n_missed = 0, n_extra = 0;
        for (size_t r = 0; r < line.column_of.size(); ++r) {
            const int64_t row = first + static_cast<int64_t>(r), column = line.column_of[r];
            if (column < 0) {
                out.missed.push_back(reference_.label[row]);
                ++n_missed;
                continue;
            }
            taken_[column] = 1;
            const Geometry<D> boxes = pair(row, begin + column);
            out.reference_label.push_back(reference_.label[row]);
            out.prediction_label.push_back(prediction_.label[begin + column]);
            out.distance.push_back(boxes.distance());
            out.shape.push_back(boxes.shape());
            ++n_pairs;
        }
        for (int64_t c = 0; c < columns; ++c) {
            if (taken_[c]) continue;
            out.extra.push_back(prediction_.label[begin + c]);
            ++n_extra;
        }
        out.image.push_back(i);
        out.start.push_back(start);
        out.n_pairs.push_back(n_pairs);
        out.n_missed.push_back(n_missed);
        out.n_extra.push_back(n_extra);
    }

    const Side &reference_, &prediction_;
    std::vector<int64_t> real_, said_;
    std::vector<double> gain_;
    std::vector<uint8_t> same_, taken_;
    Envelope envelope_;
    Line nobody_;
};

template <int D>
std::vector<FoundPaths> find(const Side& reference, const Side& prediction, int64_t n_classes, Span<const double> weight,
                             Span<int64_t> presence, int threads) {
    const int64_t n = reference.offsets.size - 1;
    std::vector<FoundPaths> found(tasks_of(n));
    parallel(found.size(), threads, [&](int64_t task) {
        Pathfinder<D> finder(reference, prediction, n_classes);
        const int64_t stop = std::min(n, (task + 1) * IMAGES_PER_TASK);
        for (int64_t i = task * IMAGES_PER_TASK; i < stop; ++i)
            finder.image(i, weight.size ? &weight[i] : nullptr, &presence[3 * i], found[task]);
    });
    return found;
}

}  // namespace

std::vector<FoundPaths> rodeo_paths(const Side& reference, const Side& prediction, int64_t n_classes, int dimensions,
                                    Span<const double> weight, Span<int64_t> presence, int threads) {
    if (dimensions == 3) return find<3>(reference, prediction, n_classes, weight, presence, threads);
    return find<2>(reference, prediction, n_classes, weight, presence, threads);
}

void rodeo_tally(const TallyProblem& problem, Span<double> result, int threads) {
    const TallyTable& p = problem.table;
    parallel(problem.n_replicates, threads, [&](int64_t r) {
        const int64_t* weights = &problem.weights[r * problem.n_pieces];
        double* sums = &result[r * 6 * p.n_owners];
        std::fill(sums, sums + 6 * p.n_owners, 0.0);
        const auto sum = [&](int64_t which, int64_t owner) -> double& { return sums[which * p.n_owners + owner]; };
        for (int64_t piece = 0; piece < problem.n_pieces; ++piece) {
            if (!weights[piece]) continue;  // adds zeros, which change no bit
            const double w = static_cast<double>(weights[piece]);
            for (int64_t k = p.pair_offsets[piece]; k < p.pair_offsets[piece + 1]; ++k) {
                sum(0, p.owner[k]) += w;
                if (p.right[k]) sum(1, p.owner[k]) += w;
                sum(2, p.owner[k]) += w * p.near[k];
                sum(3, p.owner[k]) += w * p.shape[k];
            }
            for (int64_t k = p.missed_offsets[piece]; k < p.missed_offsets[piece + 1]; ++k) sum(4, p.missed_owner[k]) += w;
            for (int64_t k = p.extra_offsets[piece]; k < p.extra_offsets[piece + 1]; ++k) sum(5, p.extra_owner[k]) += w;
        }
    });
}

}  // namespace calipers
