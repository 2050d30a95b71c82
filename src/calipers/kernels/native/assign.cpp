// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/parametric.py: the Hungarian method, and the upper envelope of assignments over the class weight.
#include "assign.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace calipers {

namespace {

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double TIE = 1e-11;  // as in the NumPy twin

}  // namespace

// Grows a tree of cheapest paths from one row until it reaches a free column, which is returned. Candidates are kept in
// the order, and among equal distances a free column is preferred, that SciPy has: the identity for a constant matrix.
int64_t Hungarian::augment(const double* cost, int64_t from, int64_t columns, double& reached) {
    left_.resize(columns);
    for (int64_t k = 0; k < columns; ++k) left_[k] = columns - 1 - k;
    std::fill(row_seen_.begin(), row_seen_.end(), 0);
    std::fill(column_seen_.begin(), column_seen_.end(), 0);
    std::fill(distance_.begin(), distance_.end(), INF);
    reached = 0.0;
    int64_t n_left = columns, row = from;
    for (;;) {
        row_seen_[row] = 1;
        int64_t best = -1;
        double lowest = INF;
        for (int64_t k = 0; k < n_left; ++k) {
            const int64_t column = left_[k];
            const double path = reached + cost[row * columns + column] - row_price_[row] - column_price_[column];
            if (path < distance_[column]) {
                distance_[column] = path;
                via_[column] = row;
            }
            const double d = distance_[column];
            if (d < lowest || (d == lowest && row_of_column_[column] < 0)) {
                lowest = d;
                best = k;
            }
        }
        if (lowest == INF) return -1;  // costs that are not finite lead nowhere; there is no way back to follow
        reached = lowest;
        const int64_t column = left_[best];
        column_seen_[column] = 1;
        left_[best] = left_[--n_left];
        if (row_of_column_[column] < 0) return column;
        row = row_of_column_[column];
    }
}

void Hungarian::solve(const double* cost, int64_t rows, int64_t columns, std::vector<int64_t>& column_of) {
    const bool turned = columns < rows;
    if (turned) {
        transposed_.resize(rows * columns);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) transposed_[c * rows + r] = cost[r * columns + c];
        cost = transposed_.data();
        std::swap(rows, columns);
    }
    row_price_.assign(rows, 0.0);
    column_price_.assign(columns, 0.0);
    distance_.resize(columns);
    via_.assign(columns, -1);
    column_of_row_.assign(rows, -1);
    row_of_column_.assign(columns, -1);
    row_seen_.resize(rows);
    column_seen_.resize(columns);
    for (int64_t start = 0; start < rows; ++start) {
        double reached;
        int64_t column = augment(cost, start, columns, reached);
        if (column < 0) break;
        row_price_[start] += reached;
        for (int64_t r = 0; r < rows; ++r)
            if (row_seen_[r] && r != start) row_price_[r] += reached - distance_[column_of_row_[r]];
        for (int64_t c = 0; c < columns; ++c)
            if (column_seen_[c]) column_price_[c] -= reached - distance_[c];
        for (int64_t row = -1; row != start;) {  // turn the pairs along the path round
            row = via_[column];
            row_of_column_[column] = row;
            std::swap(column_of_row_[row], column);
        }
    }
    column_of = turned ? row_of_column_ : column_of_row_;
}

void Envelope::find(const double* gain, const uint8_t* same, int64_t rows, int64_t columns, const double* weight) {
    gain_ = gain;
    same_ = same;
    rows_ = rows;
    columns_ = columns;
    n_pieces_ = 0;
    best_at(weight ? *weight : 0.0, left_);
    add(0.0, left_);
    if (weight) return;
    last_height_ = left_.height;
    last_slope_ = left_.slope;
    best_at(1.0, right_);
    between(left_, right_);
    follow(right_);
    std::stable_sort(pieces_.begin(), pieces_.begin() + n_pieces_,
                     [](const Piece& a, const Piece& b) { return a.start < b.start; });
}

void Envelope::best_at(double w, Line& line) {
    const int64_t n = rows_ * columns_;
    cost_.resize(n);
    for (int64_t k = 0; k < n; ++k) cost_[k] = -((same_[k] ? 1.0 : 0.0) * w) - gain_[k];
    line.slope = 0;
    line.height = 0.0;
    if (rows_ == 1 || columns_ == 1) {  // the cheapest of a list, the first of equal ones: as the general method has it
        const int64_t best = std::min_element(cost_.begin(), cost_.end()) - cost_.begin();
        line.column_of.assign(rows_, -1);
        line.column_of[best / columns_] = best % columns_;
    } else {
        solver_.solve(cost_.data(), rows_, columns_, line.column_of);
    }
    bool first = true;
    for (int64_t r = 0; r < rows_; ++r) {
        const int64_t c = line.column_of[r];
        if (c < 0) continue;
        line.height = first ? gain_[r * columns_ + c] : line.height + gain_[r * columns_ + c];
        line.slope += same_[r * columns_ + c] != 0;
        first = false;
    }
}

// Adds the lines that rise above both ends between the places where they are best, left to right.
void Envelope::between(const Line& left, const Line& right) {
    if (right.slope <= left.slope + 1) return;
    const double meet = (left.height - right.height) / static_cast<double>(right.slope - left.slope);
    if (!(0.0 < meet && meet < 1.0)) return;
    Line middle;
    best_at(meet, middle);
    const double level = left.height + meet * static_cast<double>(left.slope);
    if (middle.height + meet * static_cast<double>(middle.slope) <= level + TIE) return;
    between(left, middle);
    follow(middle);
    between(middle, right);
}

void Envelope::add(double start, const Line& line) {
    if (pieces_.size() == n_pieces_) pieces_.emplace_back();
    pieces_[n_pieces_].start = start;
    pieces_[n_pieces_].line = line;
    ++n_pieces_;
}

// The next line begins where it meets the last one.
void Envelope::follow(const Line& line) {
    if (line.slope > last_slope_) {
        const double meet = (last_height_ - line.height) / static_cast<double>(line.slope - last_slope_);
        add(std::max(meet, std::nextafter(0.0, 1.0)), line);
    }
    last_height_ = line.height;
    last_slope_ = line.slope;
}

}  // namespace calipers
