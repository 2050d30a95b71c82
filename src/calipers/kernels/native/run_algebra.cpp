// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/run_algebra.py. Voxels are counted in whole numbers, so that no order matters.
#include "run_algebra.h"

#include <algorithm>
#include <numeric>

namespace calipers {

namespace {

constexpr int64_t PAIRS_PER_TASK = 64;
constexpr int64_t MUCH_LONGER = 8;  // a search in the longer list then needs fewer steps than a walk along it

// Sorted, disjoint runs.
struct RunList {
    const int64_t *start, *length;
    int64_t n;

    int64_t begin() const { return start[0]; }
    int64_t end() const { return start[n - 1] + length[n - 1]; }
    // The runs of which something may lie in low : high.
    RunList within(int64_t low, int64_t high) const {
        int64_t first = std::upper_bound(start, start + n, low) - start;
        first -= first > 0;
        const int64_t last = std::lower_bound(start + first, start + n, high) - start;
        return {start + first, length + first, last - first};
    }
};

RunList list_of(const RunTable& table, int64_t object) {
    const int64_t first = table.offsets[object];
    return {table.start.data + first, table.length.data + first, table.offsets[object + 1] - first};
}

// Goes along two lists; no step depends on a guess.
struct Walk {
    RunList a, b;
    int64_t total = 0;

    bool live() const { return a.n > 0 && b.n > 0; }
    void step() {
        const int64_t a_end = *a.start + *a.length, b_end = *b.start + *b.length;
        const int64_t common = std::min(a_end, b_end) - std::max(*a.start, *b.start);
        total += common > 0 ? common : 0;
        const int64_t of_a = a_end <= b_end, of_b = b_end <= a_end;
        a = {a.start + of_a, a.length + of_a, a.n - of_a};
        b = {b.start + of_b, b.length + of_b, b.n - of_b};
    }
};

// Looks up the place of every run of the short list in the long one.
Walk searched(const RunList& few, const RunList& many) {
    Walk found{};
    for (int64_t k = 0; k < few.n; ++k) {
        const RunList run{few.start + k, few.length + k, 1};
        Walk walk{run, many.within(run.begin(), run.end())};
        while (walk.live()) walk.step();
        found.total += walk.total;
    }
    return found;
}

// The walk that counts what two objects share; done already if there is nothing to walk along.
Walk walk_of(RunList a, RunList b) {
    if (!a.n || !b.n) return {};
    const int64_t low = std::max(a.begin(), b.begin()), high = std::min(a.end(), b.end());
    if (low >= high) return {};
    a = a.within(low, high);
    b = b.within(low, high);
    if (a.n > b.n * MUCH_LONGER) return searched(b, a);
    return b.n > a.n * MUCH_LONGER ? searched(a, b) : Walk{a, b};
}

// Sums by two owners: open addressing, at most half full.
class Tally {
public:
    Tally() : cells_(1 << 10) {}
    void add(int64_t one, int64_t other, int64_t voxels) {
        Cell& cell = place(one, other);
        if (!cell.voxels && 2 * ++used_ > cells_.size()) {
            grow();
            place(one, other) = {one, other, voxels};
            return;
        }
        cell = {one, other, cell.voxels + voxels};
    }
    SharedVoxels sorted() {
        cells_.erase(std::remove_if(cells_.begin(), cells_.end(), [](const Cell& c) { return !c.voxels; }), cells_.end());
        std::sort(cells_.begin(), cells_.end(),
                  [](const Cell& a, const Cell& b) { return a.one != b.one ? a.one < b.one : a.other < b.other; });
        SharedVoxels found;
        for (const Cell& cell : cells_) {
            found.one.push_back(cell.one);
            found.other.push_back(cell.other);
            found.voxels.push_back(cell.voxels);
        }
        return found;
    }

private:
    struct Cell {
        int64_t one, other, voxels;  // no voxels: free
    };
    Cell& place(int64_t one, int64_t other) {
        const uint64_t mixed =
            (static_cast<uint64_t>(one) * 0x9E3779B97F4A7C15u ^ static_cast<uint64_t>(other)) * 0xD6E8FEB86659FD93u;
        size_t at = (mixed >> 32) & (cells_.size() - 1);
        while (cells_[at].voxels && (cells_[at].one != one || cells_[at].other != other)) at = (at + 1) & (cells_.size() - 1);
        return cells_[at];
    }
    void grow() {
        std::vector<Cell> old(2 * cells_.size());
        old.swap(cells_);
        for (const Cell& cell : old)
            if (cell.voxels) place(cell.one, cell.other) = cell;
    }

    std::vector<Cell> cells_;
    size_t used_ = 0;
};

// The same runs by ascending start; copied only if they are not in that order.
class Ascending {
public:
    explicit Ascending(const OwnedRuns& runs) : runs_(runs) {
        const int64_t* start = runs.start.data;
        if (std::is_sorted(start, start + runs.start.size)) return;
        std::vector<int64_t> order(runs.start.size);
        std::iota(order.begin(), order.end(), int64_t{0});
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return start[a] < start[b]; });
        runs_ = {taken(runs.start, order, start_), taken(runs.length, order, length_), taken(runs.owner, order, owner_)};
    }
    const OwnedRuns& runs() const { return runs_; }

private:
    static Span<const int64_t> taken(Span<const int64_t> column, const std::vector<int64_t>& order, std::vector<int64_t>& to) {
        to.reserve(order.size());
        for (int64_t k : order) to.push_back(column[k]);
        return {to.data(), static_cast<int64_t>(to.size())};
    }

    OwnedRuns runs_;
    std::vector<int64_t> start_, length_, owner_;
};

// Calls found(k, j, voxels) where run j of `inner` begins inside of run k of `outer`; both ascend.
template <bool TOGETHER, class Found>
void begun_inside(const OwnedRuns& outer, const OwnedRuns& inner, Found found) {
    const int64_t n = inner.start.size;
    for (int64_t k = 0, first = 0; k < outer.start.size; ++k) {
        const int64_t start = outer.start[k], end = start + outer.length[k];
        while (first < n && (TOGETHER ? inner.start[first] < start : inner.start[first] <= start)) ++first;
        for (int64_t j = first; j < n && inner.start[j] < end; ++j)
            found(k, j, std::min(end, inner.start[j] + inner.length[j]) - inner.start[j]);
    }
}

}  // namespace

// Two pairs at once: the processor works on one while the other waits for memory.
void common_voxels(const PairProblem& p, Span<int64_t> result, int threads) {
    auto walk = [&](int64_t k) { return walk_of(list_of(p.a, p.rows[k]), list_of(p.b, p.columns[k])); };
    parallel(tasks_of(p.rows.size, PAIRS_PER_TASK), threads, [&](int64_t task) {
        const int64_t stop = std::min(p.rows.size, (task + 1) * PAIRS_PER_TASK);
        for (int64_t k = task * PAIRS_PER_TASK; k < stop; k += 2) {
            Walk one = walk(k), other = k + 1 < stop ? walk(k + 1) : Walk{};
            while (one.live() && other.live()) {
                one.step();
                other.step();
            }
            while (one.live()) one.step();
            while (other.live()) other.step();
            result[k] = one.total;
            if (k + 1 < stop) result[k + 1] = other.total;
        }
    });
}

SharedVoxels intersections(const OwnedRuns& a, const OwnedRuns& b) {
    const Ascending one(a), other(b);
    const OwnedRuns &x = one.runs(), &y = other.runs();
    Tally tally;
    begun_inside<true>(x, y, [&](int64_t k, int64_t j, int64_t n) { tally.add(x.owner[k], y.owner[j], n); });
    begun_inside<false>(y, x, [&](int64_t k, int64_t j, int64_t n) { tally.add(x.owner[j], y.owner[k], n); });
    return tally.sorted();
}

}  // namespace calipers
