// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/components.py. A forest over the runs: the root of a tree is its first run, so that a second pass numbers
// the trees in the order of their first voxels, whatever the order in which they were joined.
#include "components.h"

#include <algorithm>

namespace calipers {

namespace {

constexpr int64_t RUNS_PER_SLAB = int64_t{1} << 16;

// A row with runs; they end where those of the next row begin.
struct Row {
    int64_t place, first;
};

struct Touch {
    int64_t one, other;  // runs
};

// How far the voxels of one row lie from those of the other, and how far touching reaches along x.
struct Move {
    int64_t move, reach;
};

class Forest {
public:
    explicit Forest(Span<int64_t> parent) : parent_(parent) {}
    int64_t root(int64_t k) const {
        while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
        return k;
    }
    void join(int64_t one, int64_t other) const {
        one = root(one);
        other = root(other);
        parent_[std::max(one, other)] = std::min(one, other);
    }

private:
    Span<int64_t> parent_;
};

class Scan {
public:
    Scan(const ComponentProblem& problem, Span<int64_t> parent) : p_(problem), forest_(parent) {
        const int64_t width = p_.size[0];
        for (int64_t k = 0, end = 0; k < p_.start.size; ++k) {
            if (k && p_.start[k] < end) {
                dense_ |= p_.start[k] == p_.start[k - 1] + p_.length[k - 1];
                continue;
            }
            const int64_t place = p_.start[k] / width;
            rows_.push_back({place, k});
            end = (place + 1) * width;
        }
        rows_.push_back({-1, p_.start.size});
    }

    // Rows of slabs, about equal in runs: (slabs + 1,).
    std::vector<int64_t> slabs() const {
        std::vector<int64_t> cuts{0};
        const int64_t n = static_cast<int64_t>(rows_.size()) - 1;
        for (int64_t row = 1; row < n; ++row)
            if (rows_[row].first - rows_[cuts.back()].first >= RUNS_PER_SLAB) cuts.push_back(row);
        cuts.push_back(n);
        return cuts;
    }

    // Joins the runs of the rows first : last with those that they touch further on, in rows from `low` to before `high`.
    void join(int64_t first, int64_t last, int64_t low, int64_t high) const {
        const int64_t height = p_.size[1], depth = p_.size.size == 3 ? p_.size[2] : 1;
        std::vector<Touch> met;
        int64_t at[MOST_STEPS];
        std::fill(at, at + MOST_STEPS, std::max(first, low));
        for (int64_t row = first; row < last; ++row) {
            const int64_t y = rows_[row].place % height, z = rows_[row].place / height;
            for (int64_t s = 0; s < p_.steps.size / 3; ++s) {
                const int64_t down = p_.steps[3 * s], deep = p_.steps[3 * s + 1];
                if (y + down < 0 || y + down >= height || z + deep >= depth) continue;
                const int64_t wanted = rows_[row].place + down + deep * height;
                while (at[s] < high && rows_[at[s]].place < wanted) ++at[s];
                if (at[s] < high && rows_[at[s]].place == wanted) touch(row, at[s], p_.steps[3 * s + 2], met);
            }
        }
    }

private:
    // Joins the runs of two rows that lie above each other or are apart by no more than `reach` voxels along x.
    void touch(int64_t row, int64_t other, int64_t reach, std::vector<Touch>& met) const {
        const int64_t move = (rows_[other].place - rows_[row].place) * p_.size[0];
        const int64_t n = dense_ || p_.value.size ? all_touches(row, other, {move, reach}, met) : touches(row, other, {move, reach}, met);
        for (int64_t k = 0; k < n; ++k) forest_.join(met[k].one, met[k].other);
    }

    // Runs of a row have gaps: of two that touch, the one that ends first touches nothing further on. No step depends on a
    // guess, which on noise would be wrong half of the time.
    int64_t touches(int64_t row, int64_t other, Move m, std::vector<Touch>& met) const {
        const int64_t *start = p_.start.data, *length = p_.length.data;
        const int64_t i_end = rows_[row + 1].first, j_end = rows_[other + 1].first;
        int64_t i = rows_[row].first, j = rows_[other].first, n = 0;
        met.resize(std::max<size_t>(met.size(), i_end - i + j_end - j));
        while (i < i_end && j < j_end) {
            const int64_t i_low = start[i] + m.move, i_high = i_low + length[i], j_high = start[j] + length[j];
            met[n] = {i, j};
            n += (start[j] < i_high + m.reach) & (i_low < j_high + m.reach);
            i += i_high <= j_high;
            j += j_high <= i_high;
        }
        return n;
    }

    // Runs of a row may follow each other without a gap, as those of a label map do.
    int64_t all_touches(int64_t row, int64_t other, Move m, std::vector<Touch>& met) const {
        const int64_t end = rows_[other + 1].first;
        int64_t from = rows_[other].first;
        met.clear();
        for (int64_t k = rows_[row].first; k < rows_[row + 1].first; ++k) {
            const int64_t low = p_.start[k] + m.move - m.reach, high = p_.start[k] + m.move + p_.length[k] + m.reach;
            while (from < end && p_.start[from] + p_.length[from] <= low) ++from;
            for (int64_t j = from; j < end && p_.start[j] < high; ++j)
                if (!p_.value.size || p_.value[k] == p_.value[j]) met.push_back({k, j});
        }
        return static_cast<int64_t>(met.size());
    }

    const ComponentProblem& p_;
    Forest forest_;
    std::vector<Row> rows_;
    bool dense_ = false;  // some runs of a row have no gap between them
};

}  // namespace

int64_t components(const ComponentProblem& problem, Span<int64_t> number, int threads) {
    for (int64_t k = 0; k < number.size; ++k) number[k] = k;
    const Scan scan(problem, number);
    const std::vector<int64_t> cuts = scan.slabs();
    const int64_t n = static_cast<int64_t>(cuts.size()) - 1, end = cuts.back();
    parallel(n, threads, [&](int64_t s) { scan.join(cuts[s], cuts[s + 1], cuts[s], cuts[s + 1]); });
    for (int64_t s = 0; s + 1 < n; ++s) scan.join(cuts[s], cuts[s + 1], cuts[s + 1], end);
    int64_t found = 0;
    for (int64_t k = 0; k < number.size; ++k) number[k] = number[k] == k ? found++ : number[number[k]];
    return found;
}

}  // namespace calipers
