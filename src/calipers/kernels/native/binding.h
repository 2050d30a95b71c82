// SPDX-License-Identifier: Apache-2.0
// What the Python faces of the twins share: arguments, the GIL, exceptions, columns that go back.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "types.h"

namespace calipers {

// Buffers of one call, released together.
class Buffers {
public:
    ~Buffers() {
        for (auto& view : views_) PyBuffer_Release(&view);
    }
    template <class T>
    bool get(PyObject* object, Span<T>& span) {
        constexpr int flags = std::is_const<T>::value ? PyBUF_SIMPLE : PyBUF_WRITABLE;
        views_.reserve(views_.size() + 1);  // nothing may be thrown while a buffer is held and not yet noted
        Py_buffer view;
        if (PyObject_GetBuffer(object, &view, flags) != 0) return false;
        views_.push_back(view);
        span = {static_cast<T*>(view.buf), static_cast<int64_t>(view.len / sizeof(T))};
        return true;
    }

private:
    std::vector<Py_buffer> views_;
};

// The arguments of a call, taken one after the other; the first failure stays.
class Arguments {
public:
    explicit Arguments(PyObject* tuple) : tuple_(tuple) {}
    template <class T>
    void take(Span<T>& span) {
        PyObject* object = next();
        ok_ = object && buffers_.get(object, span);
    }
    void take(int64_t& value) {
        PyObject* object = next();
        value = object ? PyLong_AsLongLong(object) : 0;
        ok_ = object && !PyErr_Occurred();
    }
    template <class First, class... Rest>
    bool all(First& first, Rest&... rest) {
        take(first);
        if constexpr (sizeof...(rest) > 0) all(rest...);
        return ok_;
    }

private:
    PyObject* next() { return ok_ ? PyTuple_GetItem(tuple_, at_++) : nullptr; }  // beyond the last: IndexError

    PyObject* tuple_;
    Buffers buffers_;
    Py_ssize_t at_ = 0;
    bool ok_ = true;
};

// Runs work without the GIL, which is back when an exception leaves.
template <class Work>
inline void unlocked(Work work) {
    struct Released {
        PyThreadState* state = PyEval_SaveThread();
        ~Released() { PyEval_RestoreThread(state); }
    } released;
    work();
}

inline void require(bool fits) {
    if (!fits) throw std::invalid_argument("buffers whose lengths do not fit each other, or entries beyond them");
}

// No C++ exception reaches Python's C code: each becomes one of Python's.
template <PyObject* (*function)(PyObject*, PyObject*)>
PyObject* guarded(PyObject* self, PyObject* args) noexcept {
    try {
        return function(self, args);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

// A column of n entries that goes back; write(to) fills it.
template <class T, class Write>
PyObject* filled(size_t n, Write write) {
    PyObject* bytes = PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(n * sizeof(T)));
    if (bytes) write(reinterpret_cast<T*>(PyByteArray_AsString(bytes)));
    return bytes;
}

template <class T, class Part, class Column>
PyObject* joined(const std::vector<Part>& parts, Column column) {
    size_t n = 0;
    for (const Part& part : parts) n += column(part).size();
    return filled<T>(n, [&](T* to) {
        for (const Part& part : parts) to = std::copy(column(part).begin(), column(part).end(), to);
    });
}

// Values of voxels come in several types: bytes, and an argument that says which.
template <class T>
Span<T> typed(Span<uint8_t> bytes) {
    return {reinterpret_cast<T*>(bytes.data), bytes.size / static_cast<int64_t>(sizeof(T))};
}

template <class T>
Span<const T> typed(Span<const uint8_t> bytes) {
    return {reinterpret_cast<const T*>(bytes.data), bytes.size / static_cast<int64_t>(sizeof(T))};
}

}  // namespace calipers
