// SPDX-License-Identifier: Apache-2.0
// Who gets whom, image by image. All views of a pair are worked on at once, as bits of one word: which views it is near
// enough for, which ignore its reference, in which the reference is already taken.
#pragma once

#include <algorithm>
#include <numeric>

#include "assign.h"
#include "bits.h"
#include "fates.h"
#include "kinds.h"

namespace calipers {

// Which views admit a similarity: those whose cut-off it reaches.
class Admission {
public:
    Admission(Span<const double> cutoffs, int64_t first, int n) {
        std::vector<std::pair<double, Views>> sorted;
        for (int v = 0; v < n; ++v) sorted.push_back({cutoffs[first + v], Views{1} << v});
        std::sort(sorted.begin(), sorted.end());
        Views views = 0;
        for (const auto& [cutoff, view] : sorted) {
            views |= view;
            if (steps_.empty() || steps_.back().first != cutoff) steps_.push_back({cutoff, views});
            steps_.back().second = views;
        }
    }
    Views of(double similarity) const {
        Views views = 0;
        for (const auto& step : steps_) {
            if (similarity < step.first) break;
            views = step.second;
        }
        return views;
    }

private:
    std::vector<std::pair<double, Views>> steps_;  // distinct cut-offs, and the views at or below each
};

struct Pair {
    int64_t reference, prediction;
    double similarity;
    Views near;
};

// The views that ignore a reference, in which it is taken, in which it is hit.
struct ReferenceViews {
    Views ignored, taken, hit;
};

// One group of at most 64 views on the images of one task.
class Referee {
public:
    Referee(const FateProblem& problem, const FateTables& tables, int64_t first_view, int n_views)
        : p_(problem), t_(tables), first_(first_view),
          all_(n_views == VIEWS_AT_ONCE ? ~Views{0} : (Views{1} << n_views) - 1),
          admission_(problem.cutoffs, first_view, n_views) {
        for (int v = 0; v < n_views; ++v) {
            const size_t range = problem.size[first_view + v];
            if (of_range_.size() <= range) of_range_.resize(range + 1, 0);
            of_range_[range] |= Views{1} << v;
        }
    }

    // Pairs [begin, end) belong to the image, whose references start at `base`.
    void image(int64_t begin, int64_t end, int64_t base, int64_t n_references) {
        gather(begin, end);
        if (pairs_.empty()) return;
        base_ = base;
        references_.clear();
        for (int64_t r = base; r < base + n_references; ++r)
            references_.push_back({p_.ignore[r] ? all_ : left_out(p_.reference_area[r]), 0, 0});
        busy_.assign(who_.size(), 0);
        wanted_.assign(who_.size(), 0);
        for (const Pair& pair : pairs_) wanted_[pair.prediction] |= pair.near & ~ignored(pair);
        switch (p_.assignment) {
            case Assignment::by_score: by_score(); break;
            case Assignment::by_overlap: by_overlap(); break;
            case Assignment::many_to_one: many_to_one(false); break;
            case Assignment::many_to_one_counted_first: many_to_one(true); break;
            case Assignment::per_reference_argmax: per_reference_argmax(); break;
            case Assignment::optimal: optimal(); break;
        }
        for (size_t k = 0; k < who_.size(); ++k) {
            const Views uncounted = left_out(p_.prediction_area[who_[k]]);
            write(t_.prediction, who_[k], wanted_[k] & ~busy_[k] & ~uncounted, DUPLICATE);
            if (busy_[k]) t_.kind[who_[k]] = FULL_ROW;  // a duplicate counts like a false alarm, a match does not
        }
        for (int64_t r = 0; r < n_references; ++r) write(t_.reference, base + r, references_[r].hit, HIT);
    }

private:
    // Keeps the pairs that some view admits; predictions are renumbered 0, 1, ... in input order.
    void gather(int64_t begin, int64_t end) {
        pairs_.clear();
        who_.clear();
        begin_.clear();
        for (int64_t k = begin; k < end; ++k) {
            const int64_t prediction = p_.pair_prediction[k];
            const Views near = p_.absent[prediction] ? 0 : admission_.of(p_.pair_similarity[k]);
            if (!near) continue;
            if (who_.empty() || who_.back() != prediction) {
                who_.push_back(prediction);
                begin_.push_back(static_cast<int64_t>(pairs_.size()));
            }
            pairs_.push_back({p_.pair_reference[k], static_cast<int64_t>(who_.size()) - 1, p_.pair_similarity[k], near});
        }
        begin_.push_back(static_cast<int64_t>(pairs_.size()));
    }

    Views ignored(const Pair& pair) const { return references_[pair.reference - base_].ignored; }
    Views& taken(const Pair& pair) { return references_[pair.reference - base_].taken; }
    Views& hit(const Pair& pair) { return references_[pair.reference - base_].hit; }

    // The pair is the prediction's in `views`; counted references make a hit.
    void grant(const Pair& pair, Views views) {
        if (!views) return;
        busy_[pair.prediction] |= views;
        const Views hits = views & ~ignored(pair);
        hit(pair) |= hits;
        if (!p_.crowd[pair.reference]) taken(pair) |= views;
        settle(pair, hits, HIT, views & ~hits, IGNORED);
    }

    void settle(const Pair& pair, Views a, Fate fate_a, Views b, Fate fate_b) {
        const int64_t row = who_[pair.prediction];
        write(t_.prediction, row, a, fate_a);
        write(t_.prediction, row, b, fate_b);
        if (first_ == 0 && ((a | b) & 1)) {
            t_.partner[row] = static_cast<int32_t>(pair.reference);
            t_.similarity[row] = pair.similarity;
        }
    }

    // Predictions in descending score; each takes its best free reference, of equal ones the later, as pycocotools.
    void by_score() {
        sort_choices([](const Pair& a, const Pair& b) {
            return a.similarity != b.similarity ? a.similarity > b.similarity : a.reference > b.reference;
        });
        for (int64_t one : queue()) {
            for (int64_t k = begin_[one]; k < begin_[one + 1]; ++k)
                grant(pairs_[k], pairs_[k].near & ~ignored(pairs_[k]) & ~taken(pairs_[k]) & ~busy_[one]);
            for (int64_t k = begin_[one]; k < begin_[one + 1]; ++k)
                grant(pairs_[k], pairs_[k].near & ignored(pairs_[k]) & ~taken(pairs_[k]) & ~busy_[one]);
        }
    }

    void by_overlap() {
        sort_pairs();
        for (const Pair& pair : pairs_) grant(pair, pair.near & ~ignored(pair) & ~taken(pair) & ~busy_[pair.prediction]);
        for (const Pair& pair : pairs_) grant(pair, pair.near & ignored(pair) & ~taken(pair) & ~busy_[pair.prediction]);
    }

    // A reference chooses once; whom it does not get, it does not replace.
    void per_reference_argmax() {
        sort_pairs();
        for (const bool wanted : {false, true}) {
            const std::vector<Views> before = busy_;
            std::vector<Views> chosen(references_.size(), 0);
            for (const Pair& pair : pairs_) {
                const Views kind = wanted ? ignored(pair) : ~ignored(pair);
                Views& done = chosen[pair.reference - base_];
                const Views want = pair.near & kind & ~before[pair.prediction] & ~done;
                done |= want;
                grant(pair, want & ~busy_[pair.prediction]);
            }
        }
    }

    // Most pairs, then the largest total similarity, cell by cell: counted references first, ignored ones with what is
    // left. Views are worked off one by one, because each has pairs of its own.
    void optimal() {
        for (const bool wanted : {false, true})
            for (Views views = all_; views; views &= views - 1) {
                const Views view = views & (~views + 1);
                open_.clear();
                shared_.clear();
                for (const Pair& pair : pairs_) {
                    const bool fits = pair.near & view && ((ignored(pair) & view) != 0) == wanted;
                    if (!fits || (busy_[pair.prediction] & view)) continue;
                    (p_.crowd[pair.reference] ? shared_ : open_).push_back(pair);
                }
                solve_cells(view);
                // Crowds last: each prediction that is still free takes the most similar one.
                std::stable_sort(shared_.begin(), shared_.end(),
                                 [](const Pair& a, const Pair& b) { return a.similarity > b.similarity; });
                for (const Pair& pair : shared_) grant(pair, view & ~busy_[pair.prediction]);
            }
    }

    void solve_cells(Views view) {
        std::vector<Pair> contested;
        std::vector<int32_t> of_reference(references_.size(), 0), of_prediction(who_.size(), 0);
        for (const Pair& pair : open_) {
            ++of_reference[pair.reference - base_];
            ++of_prediction[pair.prediction];
        }
        for (const Pair& pair : open_) {
            if (of_reference[pair.reference - base_] == 1 && of_prediction[pair.prediction] == 1)
                grant(pair, view);
            else
                contested.push_back(pair);
        }
        const auto cell = [&](const Pair& pair) { return p_.cell[who_[pair.prediction]]; };
        std::stable_sort(contested.begin(), contested.end(), [&](const Pair& a, const Pair& b) { return cell(a) < cell(b); });
        for (size_t begin = 0, end; begin < contested.size(); begin = end) {
            for (end = begin; end < contested.size() && cell(contested[end]) == cell(contested[begin]); ++end) {}
            solve(contested.data() + begin, contested.data() + end, view);
        }
    }

    void solve(const Pair* begin, const Pair* end, Views view) {
        std::vector<int64_t> rows, columns;
        double least = begin->similarity, most = begin->similarity;
        for (const Pair* pair = begin; pair != end; ++pair) {
            rows.push_back(pair->reference);
            columns.push_back(pair->prediction);
            least = std::min(least, pair->similarity);
            most = std::max(most, pair->similarity);
        }
        for (auto* list : {&rows, &columns}) {
            std::sort(list->begin(), list->end());
            list->erase(std::unique(list->begin(), list->end()), list->end());
        }
        // One more pair must always outweigh any gain in similarity.
        const double each = (most - least + 1.0) * static_cast<double>(std::min(rows.size(), columns.size()) + 1);
        std::vector<double> cost(rows.size() * columns.size(), -0.0);
        std::vector<const Pair*> pair_at(cost.size(), nullptr);
        for (const Pair* pair = begin; pair != end; ++pair) {
            const size_t row = std::lower_bound(rows.begin(), rows.end(), pair->reference) - rows.begin();
            const size_t column = std::lower_bound(columns.begin(), columns.end(), pair->prediction) - columns.begin();
            cost[row * columns.size() + column] = -(each + (pair->similarity - least));
            pair_at[row * columns.size() + column] = pair;
        }
        std::vector<int64_t> column_of;
        solver_.solve(cost.data(), rows.size(), columns.size(), column_of);
        for (size_t row = 0; row < rows.size(); ++row) {
            if (column_of[row] < 0) continue;
            const Pair* pair = pair_at[row * columns.size() + column_of[row]];
            if (pair) grant(*pair, view);
        }
    }

    // Every prediction takes its best reference, of equal ones the first, crowds last; the first in the queue is the hit, the others
    // are duplicates. Ignored references compete with counted ones, or are for predictions that are near none of those.
    void many_to_one(bool counted_first) {
        sort_choices([&](const Pair& a, const Pair& b) {
            if (a.similarity != b.similarity) return a.similarity > b.similarity;
            const bool crowd_a = p_.crowd[a.reference], crowd_b = p_.crowd[b.reference];
            return crowd_a != crowd_b ? crowd_b : a.reference < b.reference;
        });
        for (int64_t one : queue()) {
            const int64_t begin = begin_[one], end = begin_[one + 1];
            if (counted_first)
                for (int64_t k = begin; k < end; ++k) join(pairs_[k], pairs_[k].near & ~ignored(pairs_[k]) & ~busy_[one]);
            for (int64_t k = begin; k < end; ++k) join(pairs_[k], pairs_[k].near & ~busy_[one]);
        }
    }

    // As `grant`, for references that can be given many times: only the first prediction is a hit.
    void join(const Pair& pair, Views views) {
        if (!views) return;
        const Views counted = views & ~ignored(pair), first = counted & ~hit(pair);
        busy_[pair.prediction] |= views;
        hit(pair) |= first;
        settle(pair, first, HIT, views & ignored(pair), IGNORED);
        settle(pair, counted & ~first, DUPLICATE, 0, IGNORED);
    }

    // Sorts the pairs of each prediction, which are side by side.
    template <class Before>
    void sort_choices(Before before) {
        for (size_t one = 0; one < who_.size(); ++one)
            if (begin_[one + 1] - begin_[one] > 1)
                std::sort(pairs_.begin() + begin_[one], pairs_.begin() + begin_[one + 1], before);
    }

    // All pairs, most similar first; ties by score, then rows.
    void sort_pairs() {
        std::sort(pairs_.begin(), pairs_.end(), [&](const Pair& a, const Pair& b) {
            if (a.similarity != b.similarity) return a.similarity > b.similarity;
            const double score_a = p_.score[who_[a.prediction]], score_b = p_.score[who_[b.prediction]];
            if (score_a != score_b) return score_a > score_b;
            return a.prediction != b.prediction ? a.prediction < b.prediction : a.reference < b.reference;
        });
    }

    // Predictions by rank: cells do not touch each other, so any order between them will do.
    const std::vector<int64_t>& queue() {
        queue_.resize(who_.size());
        std::iota(queue_.begin(), queue_.end(), 0);
        std::sort(queue_.begin(), queue_.end(), [&](int64_t a, int64_t b) {
            const int32_t rank_a = p_.rank[who_[a]], rank_b = p_.rank[who_[b]];
            return rank_a != rank_b ? rank_a < rank_b : a < b;
        });
        return queue_;
    }

    // Views whose size range leaves out an area.
    Views left_out(double area) const {
        Views views = 0;
        // No branch, which nobody could predict: the mask is all ones or zero.
        for (size_t a = 0; a < of_range_.size(); ++a) views |= of_range_[a] & -static_cast<Views>(p_.ranges.leave_out(a, area));
        return views;
    }

    // Sets the fate of a row under some views, eight at a time.
    void write(Span<int8_t> table, int64_t row, Views views, Fate fate) const {
        int8_t* fates = &table[row * p_.cutoffs.size + first_];
        const int64_t n = p_.cutoffs.size - first_;
        for (int64_t v = 0; views; v += 8, views >>= 8) {
            const uint64_t chosen = spread(static_cast<uint8_t>(views));
            if (v + 8 <= n) {
                const uint64_t word = (load(fates + v) & ~chosen) | (chosen & (static_cast<uint64_t>(fate) * EACH));
                std::memcpy(fates + v, &word, 8);
            } else {
                for (; views; views &= views - 1) fates[v + lowest_bit(views)] = fate;
                return;
            }
        }
    }

    const FateProblem& p_;
    const FateTables& t_;
    int64_t first_, base_ = 0;
    Views all_;
    Admission admission_;
    Hungarian solver_;
    std::vector<Pair> open_, shared_;
    std::vector<Pair> pairs_;
    std::vector<int64_t> who_, begin_, queue_;  // rows of the predictions, where the pairs of each begin
    std::vector<ReferenceViews> references_;  // of the image
    std::vector<Views> of_range_, busy_, wanted_;
};

}  // namespace calipers
