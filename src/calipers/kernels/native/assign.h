// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.h"

namespace calipers {

// Smallest total cost of a one-to-one assignment, by shortest augmenting paths (Crouse 2016). Equal costs are resolved
// as scipy.optimize.linear_sum_assignment resolves them, because RoDeO's published values depend on it.
class Hungarian {
public:
    // `cost` is row-major; afterwards column_of[row] is the partner of each row, or -1.
    void solve(const double* cost, int64_t rows, int64_t columns, std::vector<int64_t>& column_of);

private:
    int64_t augment(const double* cost, int64_t from, int64_t columns, double& reached);
    std::vector<double> transposed_, row_price_, column_price_, distance_;
    std::vector<int64_t> via_, column_of_row_, row_of_column_, left_;
    std::vector<uint8_t> row_seen_, column_seen_;
};

// One assignment: its total gain, and the number of its pairs with equal class, as a line over the class weight.
struct Line {
    std::vector<int64_t> column_of;  // of each row, or -1
    double height = 0.0;
    int64_t slope = 0;
};

// The best assignment of one image after the other as a function of the class weight w in [0, 1], or at one weight; see
// kernels/parametric.py. Gains and flags are matrices with one row per reference.
class Envelope {
public:
    struct Piece {
        double start;  // valid from this weight on
        Line line;
    };

    // Finds the pieces of one image; they stay until the next call.
    void find(const double* gain, const uint8_t* same, int64_t rows, int64_t columns, const double* weight);
    const Piece* begin() const { return pieces_.data(); }
    const Piece* end() const { return pieces_.data() + n_pieces_; }

private:
    void best_at(double w, Line& line);
    void between(const Line& left, const Line& right);
    void add(double start, const Line& line);
    void follow(const Line& line);

    const double* gain_ = nullptr;
    const uint8_t* same_ = nullptr;
    int64_t rows_ = 0, columns_ = 0;
    Hungarian solver_;
    std::vector<double> cost_;
    std::vector<Piece> pieces_;  // the first n_pieces_ are in use; the others keep their memory for later images
    size_t n_pieces_ = 0;
    Line left_, right_;
    double last_height_ = 0.0;
    int64_t last_slope_ = 0;
};

}  // namespace calipers
