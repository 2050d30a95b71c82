// SPDX-License-Identifier: Apache-2.0
// Twin of kernels/error_types.py.
#include "error_types.h"

#include <algorithm>
#include <limits>

namespace calipers {

namespace {

// The most similar reference of some kind; of equal ones the first that is offered.
struct Best {
    int32_t reference = -1;
    double similarity = 0.0;
    void offer(int32_t r, double s) {
        if (s > similarity) reference = r, similarity = s;
    }
};

class Typist {
public:
    Typist(const ErrorProblem& problem, const ErrorTables& tables)
        : p_(problem), t_(tables), background_(problem.limits[0]), foreground_(problem.limits[1]) {}

    // `at` is the first pair of the image; returns the first of the next one.
    int64_t image(int64_t i, int64_t at) {
        const int64_t first = p_.reference_offsets[i], last = p_.reference_offsets[i + 1];
        const int64_t begin = p_.prediction_offsets[i], end = p_.prediction_offsets[i + 1];
        anybody_ = false;
        for (int64_t r = first; r < last; ++r) {
            t_.reference[r] = p_.ignored[r] ? ABSENT : MISS;
            anybody_ = anybody_ || !p_.ignored[r];
        }
        queue_.resize(end - begin);
        pairs_.resize(end - begin + 1);
        for (int64_t k = begin; k < end; ++k) {
            queue_[p_.rank[k]] = k;
            pairs_[k - begin] = at;
            while (at < p_.pair_prediction.size && p_.pair_prediction[at] == k) ++at;
        }
        pairs_[end - begin] = at;
        for (int64_t k : queue_) match(k, pairs_[k - begin], pairs_[k - begin + 1]);
        for (int64_t k : queue_)
            if (t_.prediction[k] == BOTH) judge(k, pairs_[k - begin], pairs_[k - begin + 1]);
        return at;
    }

private:
    bool same(int64_t k, int32_t r) const { return p_.reference_label[r] == p_.prediction_label[k]; }

    void say(int64_t k, ErrorKind kind, const Best& with) {
        t_.prediction[k] = kind;
        t_.partner[k] = with.reference;
        t_.similarity[k] = with.reference < 0 ? std::numeric_limits<double>::quiet_NaN() : with.similarity;
    }

    // Gives a prediction its reference; BOTH stands for everyone who got none until it is judged.
    void match(int64_t k, int64_t begin, int64_t end) {
        t_.covered[k] = t_.mended[k] = 0;
        if (p_.absent[k]) return say(k, ABSENT, {});
        Best best;
        for (int64_t at = begin; at < end; ++at) {
            const int32_t r = p_.pair_reference[at];
            if (!p_.ignored[r] && t_.reference[r] != RIGHT && same(k, r)) best.offer(r, p_.pair_similarity[at]);
        }
        if (best.reference < 0 || best.similarity < foreground_) return say(k, BOTH, {});
        t_.reference[best.reference] = RIGHT;
        say(k, RIGHT, best);
    }

    void judge(int64_t k, int64_t begin, int64_t end) {
        Best alike, other, twice, any;
        for (int64_t at = begin; at < end; ++at) {
            const int32_t r = p_.pair_reference[at];
            const double s = p_.pair_similarity[at];
            if (p_.ignored[r]) {
                if (s > foreground_ && same(k, r)) t_.covered[k] = 1;
                continue;
            }
            if (s < background_) continue;
            any.offer(r, s);
            (same(k, r) ? alike : other).offer(r, s);
            if (same(k, r) && t_.reference[r] == RIGHT) twice.offer(r, s);
        }
        if (!anybody_) return say(k, BKG, {});
        if (alike.similarity >= background_ && alike.similarity <= foreground_) return mend(k, LOC, alike);
        if (other.similarity >= foreground_) return mend(k, CLS, other);
        if (twice.similarity >= foreground_) return say(k, DUP, twice);
        if (any.similarity <= background_) return say(k, BKG, {});
        say(k, BOTH, any);
    }

    // The first that comes to a reference that nobody took is the one that mending makes a hit.
    void mend(int64_t k, ErrorKind kind, const Best& with) {
        say(k, kind, with);
        int8_t& reference = t_.reference[with.reference];
        t_.mended[k] = reference == MISS;
        if (reference == MISS) reference = MENDABLE;
    }

    const ErrorProblem& p_;
    const ErrorTables& t_;
    double background_, foreground_;
    bool anybody_ = false;  // whether the image has a reference that counts
    std::vector<int64_t> queue_, pairs_;
};

}  // namespace

void error_types(const ErrorProblem& p, const ErrorTables& t, int threads) {
    const int64_t n = p.reference_offsets.size - 1;
    parallel(tasks_of(n), threads, [&](int64_t task) {
        Typist typist(p, t);
        const int64_t start = task * IMAGES_PER_TASK, stop = std::min(n, start + IMAGES_PER_TASK);
        const int32_t *pairs = p.pair_prediction.data, *none = pairs + p.pair_prediction.size;
        int64_t at = std::lower_bound(pairs, none, p.prediction_offsets[start]) - pairs;
        for (int64_t i = start; i < stop; ++i) at = typist.image(i, at);
    });
}

}  // namespace calipers
