// SPDX-License-Identifier: Apache-2.0
// Twin of decode_text in kernels/coco_rle.py and of Turn in kernels/runs.py.
#include "coco_rle.h"

#include <algorithm>
#include <stdexcept>

namespace calipers {

namespace {

// As in kernels/coco_rle.py.
enum RunFault : int8_t { SOUND, BAD_SIGN, UNFINISHED, TOO_LONG };
constexpr int ZERO = 48, MORE = 32, SIGN = 16, BITS = 5, MOST_GROUPS = 8;

constexpr int64_t OBJECTS_AT_ONCE = 64;

// The fault of one object; `streak` counts the characters since the last one that ended a number, also across objects, as
// in the NumPy twin.
int8_t fault_of(const uint8_t* begin, const uint8_t* end, int& streak) {
    bool bad = false, is_long = false, more = false;
    for (const uint8_t* at = begin; at != end; ++at) {
        const int code = *at - ZERO;
        more = code >= MORE;
        streak = more ? std::min(streak + 1, MOST_GROUPS) : 0;
        bad |= code < 0 || code >= 2 * MORE;
        is_long |= streak >= MOST_GROUPS;
    }
    if (bad) return BAD_SIGN;
    if (more) return UNFINISHED;
    return is_long ? TOO_LONG : SOUND;
}

// Writes the counts of a sound object, and returns where they end. Sums are of unsigned numbers, which may overflow.
int64_t* decode(const uint8_t* at, const uint8_t* end, int64_t* counts) {
    uint64_t last[2] = {0, 0};  // sums of the counts at odd and at even places; the first is in neither
    for (int64_t place = 0; at != end; ++place) {
        uint64_t value = 0;
        int shift = 0;
        for (bool more = true; more; shift += BITS, ++at) {
            const int code = *at - ZERO;
            value |= static_cast<uint64_t>(code & (MORE - 1)) << shift;
            more = code >= MORE;
            if (!more && (code & SIGN)) value -= uint64_t{1} << (shift + BITS);
        }
        if (place) value = last[place % 2] += value;
        *counts++ = static_cast<int64_t>(value);
    }
    return counts;
}

// Calls take(start, stop) for the pieces of an object that are not covered by the object moved by `shift`, in order.
template <class Take>
void uncovered(const TurnProblem& p, int64_t object, int64_t shift, Take take) {
    const int64_t begin = p.runs.offsets[object], end = p.runs.offsets[object + 1];
    int64_t other = begin;
    for (int64_t k = begin; k < end; ++k) {
        int64_t at = p.runs.start[k];
        const int64_t stop = at + p.runs.length[k];
        while (other < end && p.runs.start[other] + p.runs.length[other] + shift <= at) ++other;
        for (int64_t cover = other; cover < end && p.runs.start[cover] + shift < stop; ++cover) {
            const int64_t from = p.runs.start[cover] + shift;
            if (from > at) take(at, from);
            at = std::max(at, from + p.runs.length[cover]);
        }
        if (at < stop) take(at, stop);
    }
}

// Pixels in the order of the slow axis: counted by their place on the fast axis, then written. Memory is kept.
class Turner {
public:
    explicit Turner(const TurnProblem& problem) : p_(problem) {}

    // The pixels of an object that begin (shift > 0) or end its runs on the slow axis.
    void write(int64_t object, int64_t shift, int64_t* begin, int64_t* end) {
        const int64_t fast = p_.fast(object), slow = p_.slow(object);
        if (gather(object, shift, fast) != end - begin)
            throw std::invalid_argument("offsets whose lengths do not fit the runs");
        if (pieces_.empty()) return;
        int64_t low = fast, high = 0;
        for (const Piece& piece : pieces_) {
            low = std::min(low, piece.begin);
            high = std::max(high, piece.end);
        }
        place_.assign(high - low + 1, 0);
        for (const Piece& piece : pieces_)
            for (int64_t k = piece.begin; k < piece.end; ++k) ++place_[k - low + 1];
        for (size_t k = 1; k < place_.size(); ++k) place_[k] += place_[k - 1];
        for (const Piece& piece : pieces_)
            for (int64_t k = piece.begin; k < piece.end; ++k) begin[place_[k - low]++] = k * slow + piece.line;
    }

private:
    // Neighbours on one line.
    struct Piece {
        int64_t line, begin, end;
    };

    // Cuts what is uncovered at the ends of lines; returns its number of pixels.
    int64_t gather(int64_t object, int64_t shift, int64_t fast) {
        pieces_.clear();
        int64_t n = 0, line = 0, first = 0;  // the line at hand, and its first pixel
        uncovered(p_, object, shift, [&](int64_t start, int64_t stop) {
            n += stop - start;
            while (start < stop) {
                if (start >= first + fast) {  // most pieces lie on the next line: no division
                    const bool is_next = start < first + 2 * fast;
                    line = is_next ? line + 1 : start / fast;
                    first = line * fast;
                }
                const int64_t until = std::min(stop, first + fast);
                pieces_.push_back({line, start - first, until - first});
                start = until;
            }
        });
        return n;
    }

    const TurnProblem& p_;
    std::vector<Piece> pieces_;
    std::vector<int64_t> place_;
};

}  // namespace

int64_t decode_text(const RunTexts& t) {
    int64_t* at = t.counts.data;
    int streak = 0;
    t.count_offsets[0] = 0;
    for (int64_t k = 0; k < t.faults.size; ++k) {
        const uint8_t *begin = t.text.data + t.offsets[k], *end = t.text.data + t.offsets[k + 1];
        // An object without characters has no last one that could be unfinished.
        t.faults[k] = fault_of(begin, end, streak);
        if (t.faults[k] == SOUND) at = decode(begin, end, at);
        t.count_offsets[k + 1] = at - t.counts.data;
    }
    return at - t.counts.data;
}

void turned_counts(const TurnProblem& p, Span<int64_t> counts, int threads) {
    parallel(tasks_of(counts.size, OBJECTS_AT_ONCE), threads, [&](int64_t task) {
        const int64_t stop = std::min(counts.size, (task + 1) * OBJECTS_AT_ONCE);
        for (int64_t k = task * OBJECTS_AT_ONCE; k < stop; ++k) {
            counts[k] = 0;
            uncovered(p, k, p.fast(k), [&](int64_t start, int64_t end) { counts[k] += end - start; });
        }
    });
}

void turned_runs(const TurnProblem& p, Span<const int64_t> offsets, Span<int64_t> start, Span<int64_t> length, int threads) {
    const int64_t n = offsets.size - 1;
    parallel_with(
        tasks_of(n, OBJECTS_AT_ONCE), threads, [&] { return Turner(p); },
        [&](Turner& turner, int64_t task) {
            const int64_t stop = std::min(n, (task + 1) * OBJECTS_AT_ONCE);
            for (int64_t k = task * OBJECTS_AT_ONCE; k < stop; ++k) {
                turner.write(k, p.fast(k), start.data + offsets[k], start.data + offsets[k + 1]);
                turner.write(k, -p.fast(k), length.data + offsets[k], length.data + offsets[k + 1]);
                // The k-th beginning and the k-th end in order make a run.
                for (int64_t j = offsets[k]; j < offsets[k + 1]; ++j) length[j] -= start[j] - 1;
            }
        });
}

}  // namespace calipers
