// SPDX-License-Identifier: Apache-2.0
// The Python face of the twins for pairs of maps; kernels/compiled_pairwise.py is the only caller.
#include "module_pairwise.h"

#include <limits>

#include "lengths.h"
#include "pairwise.h"

namespace calipers {

namespace {

// Whether rows of one length fill a buffer; places in a row are held in 32 bits.
template <class T>
bool fill(Span<T> buffer, int64_t n_rows, int64_t n) {
    return is_count(n_rows) && n >= 0 && n <= std::numeric_limits<int32_t>::max() && buffer.size == n_rows * n;
}

PyObject* py_row_places(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const double> values;
    RowPlaces found;
    int64_t n_rows, threads;
    if (!arguments.all(values, n_rows, found.order, found.below, found.doubled, threads)) return nullptr;
    require(is_count(n_rows) && fill(values, n_rows, n_rows ? values.size / n_rows : 0) && found.order.size == values.size &&
            found.below.size == values.size && found.doubled.size == values.size);
    unlocked([&] { row_places(values, n_rows, found, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_kendall_pairs(PyObject*, PyObject* args) {
    Arguments arguments(args);
    KendallProblem p;
    Span<int64_t> discordant, joint;
    int64_t threads;
    if (!arguments.all(p.order, p.below, p.tied, p.first, p.second, discordant, joint, threads)) return nullptr;
    const int64_t n_rows = p.tied.size;
    p.n = n_rows ? p.order.size / n_rows : 0;
    require(fill(p.order, n_rows, p.n) && p.below.size == p.order.size && p.second.size == p.first.size &&
            discordant.size == p.first.size && joint.size == p.first.size && within(p.first, n_rows) &&
            within(p.second, n_rows) && are_places(p));
    unlocked([&] { kendall_pairs(p, discordant, joint, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_joint_counts(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const double> values, thresholds;
    JointTable table;
    int64_t n_rows, threads;
    if (!arguments.all(values, n_rows, thresholds, table.ones, table.both, table.called, threads)) return nullptr;
    require(is_count(n_rows) && fill(values, n_rows, n_rows ? values.size / n_rows : 0) &&
            table.ones.size == thresholds.size * n_rows && table.called.size == thresholds.size * (n_rows + 1) &&
            table.both.size == thresholds.size * (n_rows * (n_rows - 1) / 2));
    unlocked([&] { joint_counts(values, n_rows, thresholds, table, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

}  // namespace

PyMethodDef pairwise_methods[] = {
    {"row_places", guarded<py_row_places>, METH_VARARGS, "Orders and ranks of every map."},
    {"kendall_pairs", guarded<py_kendall_pairs>, METH_VARARGS, "Discordant and doubly tied instances of pairs of maps."},
    {"joint_counts", guarded<py_joint_counts>, METH_VARARGS, "Positives of every map and of every pair."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace calipers
