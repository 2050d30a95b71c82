// SPDX-License-Identifier: Apache-2.0
// Types that all twins share. Every function here has a NumPy twin with the same name; both give the same bits,
// so the order of floating-point operations is part of the contract.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace calipers {

enum Fate : int8_t { IGNORED, HIT, DUPLICATE, FALSE_ALARM, MISSED, N_FATES };

using Views = uint64_t;  // one bit per view; more than 64 views are worked off in groups
constexpr int VIEWS_AT_ONCE = 64;

// A typed look at memory that Python owns.
template <class T>
struct Span {
    T* data = nullptr;
    int64_t size = 0;
    T& operator[](int64_t i) const { return data[i]; }
};

// Runs work(state, 0) ... work(state, n - 1), with one state per thread for memory that is worth keeping. Tasks are fixed
// by the data and write to places of their own, so the result does not depend on the number of threads; the first
// exception is thrown on in the calling thread.
template <class Make, class Work>
void parallel_with(int64_t n, int threads, Make make, Work work) {
    if (threads <= 1 || n <= 1) {
        auto state = make();
        for (int64_t i = 0; i < n; ++i) work(state, i);
        return;
    }
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex guard;
    auto loop = [&] {
        try {
            auto state = make();
            for (int64_t i; (i = next++) < n;) work(state, i);
        } catch (...) {
            std::lock_guard<std::mutex> lock(guard);
            if (!failure) failure = std::current_exception();
        }
    };
    std::vector<std::thread> pool;
    try {
        for (int t = 1; t < threads && t < n; ++t) pool.emplace_back(loop);
    } catch (const std::exception&) {  // no more threads to be had: those that run share the work
    }
    loop();
    for (auto& thread : pool) thread.join();
    if (failure) std::rethrow_exception(failure);
}

template <class Work>
void parallel(int64_t n, int threads, Work work) {
    parallel_with(n, threads, [] { return 0; }, [&](int, int64_t i) { work(i); });
}

// Images per task: small enough to share out, large enough that a task is worth its start.
constexpr int64_t IMAGES_PER_TASK = 512;
inline int64_t tasks_of(int64_t n, int64_t per_task = IMAGES_PER_TASK) { return (n + per_task - 1) / per_task; }

}  // namespace calipers
