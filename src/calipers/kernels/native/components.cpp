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

// Finds the runs of two rows that touch, if runs of a row have gaps: of two runs that touch, the one that ends first touches
// nothing further on. No step depends on a guess, which on noise would be wrong half of the time.
struct Merge {
    const int64_t *start, *length;
    int64_t i, i_end, j, j_end;
    int64_t move, reach;  // from the voxels of one row to those of the other, and how far touching reaches along x
    Touch* met;

    bool live() const { return i < i_end && j < j_end; }
    void step() {
        const int64_t i_low = start[i] + move, i_high = i_low + length[i], j_high = start[j] + length[j];
        *met = {i, j};
        met += (start[j] < i_high + reach) & (i_low < j_high + reach);
        i += i_high <= j_high;
        j += j_high <= i_high;
    }
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
    Scan(const ComponentProblem& problem, Span<int64_t> parent) : p_(problem), forest_(parent), gaps_(!problem.value.size) {
        const int64_t width = p_.size[0];
        for (int64_t k = 0, end = 0; k < p_.start.size; ++k) {
            if (k && p_.start[k] < end) {
                gaps_ &= p_.start[k] > p_.start[k - 1] + p_.length[k - 1];
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
        const int64_t height = p_.size[1], depth = p_.size.size == 3 ? p_.size[2] : 1, n = p_.steps.size / 3;
        std::vector<Touch> met;
        int64_t at[MOST_STEPS];
        Merge merges[MOST_STEPS];
        std::fill(at, at + MOST_STEPS, std::max(first, low));
        for (int64_t row = first; row < last; ++row) {
            const int64_t y = rows_[row].place % height, z = rows_[row].place / height;
            int64_t found = 0;
            for (int64_t s = 0; s < n; ++s) {
                const int64_t down = p_.steps[3 * s], deep = p_.steps[3 * s + 1];
                if (y + down < 0 || y + down >= height || z + deep >= depth) continue;
                const int64_t wanted = rows_[row].place + down + deep * height;
                while (at[s] < high && rows_[at[s]].place < wanted) ++at[s];
                if (at[s] < high && rows_[at[s]].place == wanted) merges[found++] = merge(row, at[s], p_.steps[3 * s + 2]);
            }
            touch(merges, found, met);
        }
    }

private:
    Merge merge(int64_t row, int64_t other, int64_t reach) const {
        const int64_t move = (rows_[other].place - rows_[row].place) * p_.size[0];
        return {p_.start.data, p_.length.data, rows_[row].first,      rows_[row + 1].first, rows_[other].first,
                rows_[other + 1].first, move,  reach, nullptr};
    }

    void touch(Merge* merges, int64_t n, std::vector<Touch>& met) const {
        if (gaps_) {
            for (int64_t k = 0; k < n; k += 2) touch_two(merges + k, std::min<int64_t>(n - k, 2), met);
        } else {
            for (int64_t k = 0; k < n; ++k) touch_all(merges[k]);
        }
    }

    // Two at once: the processor works on one while the other waits for memory.
    void touch_two(Merge* merges, int64_t n, std::vector<Touch>& met) const {
        Merge a = merges[0], b = n == 2 ? merges[1] : Merge{};
        const size_t of_a = a.i_end - a.i + a.j_end - a.j + 1, of_b = b.i_end - b.i + b.j_end - b.j + 1;
        if (met.size() < of_a + of_b) met.resize(of_a + of_b);
        a.met = met.data();
        b.met = met.data() + of_a;
        while (a.live() && b.live()) {
            a.step();
            b.step();
        }
        while (a.live()) a.step();
        while (b.live()) b.step();
        for (const Touch* k = met.data(); k < a.met; ++k) forest_.join(k->one, k->other);
        for (const Touch* k = met.data() + of_a; k < b.met; ++k) forest_.join(k->one, k->other);
    }

    // Runs of a row may follow each other without a gap, as those of a label map do.
    void touch_all(const Merge& m) const {
        int64_t from = m.j;
        for (int64_t k = m.i; k < m.i_end; ++k) {
            const int64_t low = m.start[k] + m.move - m.reach, high = m.start[k] + m.move + m.length[k] + m.reach;
            while (from < m.j_end && m.start[from] + m.length[from] <= low) ++from;
            for (int64_t j = from; j < m.j_end && m.start[j] < high; ++j)
                if (!p_.value.size || p_.value[k] == p_.value[j]) forest_.join(k, j);
        }
    }

    const ComponentProblem& p_;
    Forest forest_;
    std::vector<Row> rows_;
    bool gaps_;  // between all runs of a row, and no values to look at
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
