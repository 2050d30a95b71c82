// SPDX-License-Identifier: Apache-2.0
// The Python face of the twins for runs; kernels/compiled_runs.py is the only caller.
#include "module_runs.h"

#include "coco_rle.h"
#include "components.h"
#include "lengths.h"
#include "run_algebra.h"
#include "runs.h"

namespace calipers {

namespace {

PyObject* py_run_borders(PyObject*, PyObject* args) {
    Arguments arguments(args);
    VoxelRows voxels;
    RunBorders found;
    int64_t threads, n = 0;
    if (!arguments.all(voxels.bytes, voxels.item, voxels.width, voxels.alike, found.begins, found.ends, threads)) return nullptr;
    require(fit(voxels) && found.begins.size == border_words(voxels.size()) && found.ends.size == found.begins.size);
    unlocked([&] { n = run_borders(voxels, found, static_cast<int>(threads)); });
    return PyLong_FromLongLong(n);
}

PyObject* py_runs_between(PyObject*, PyObject* args) {
    Arguments arguments(args);
    RunBorders borders;
    Span<int64_t> start, length;
    int64_t threads;
    if (!arguments.all(borders.begins, borders.ends, start, length, threads)) return nullptr;
    require(borders.begins.size == borders.ends.size && start.size == length.size);
    bool enough = false;
    unlocked([&] { enough = runs_between(borders, start, length, static_cast<int>(threads)); });
    require(enough);
    Py_RETURN_NONE;
}

PyObject* py_group_runs(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const int64_t> start, length, owner;
    GroupedRuns found;
    if (!arguments.all(start, length, owner, found.offsets, found.start, found.length)) return nullptr;
    const int64_t n = start.size;
    require(length.size == n && owner.size == n && found.start.size == n && found.length.size == n &&
            found.offsets.size >= 1 && within(owner, found.offsets.size - 1));
    unlocked([&] { group_runs(start, length, owner, found); });
    Py_RETURN_NONE;
}

PyObject* py_run_components(PyObject*, PyObject* args) {
    Arguments arguments(args);
    ComponentProblem p;
    Span<int64_t> number;
    int64_t threads, found = 0;
    if (!arguments.all(p.start, p.length, p.value, p.size, p.steps, number, threads)) return nullptr;
    require(fit(p, number));
    unlocked([&] { found = components(p, number, static_cast<int>(threads)); });
    return PyLong_FromLongLong(found);
}

PyObject* py_common_voxels(PyObject*, PyObject* args) {
    Arguments arguments(args);
    PairProblem p;
    Span<int64_t> result;
    int64_t threads;
    if (!arguments.all(p.a.offsets, p.a.start, p.a.length, p.b.offsets, p.b.start, p.b.length, p.rows, p.columns, result,
                       threads))
        return nullptr;
    require(fit(p, result));
    unlocked([&] { common_voxels(p, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_intersections(PyObject*, PyObject* args) {
    Arguments arguments(args);
    OwnedRuns a, b;
    if (!arguments.all(a.start, a.length, a.owner, b.start, b.length, b.owner)) return nullptr;
    require(fit(a) && fit(b));
    std::vector<SharedVoxels> found(1);
    unlocked([&] { found[0] = intersections(a, b); });
    using S = const SharedVoxels&;
    return Py_BuildValue("(NNN)", joined<int64_t>(found, [](S s) -> auto& { return s.one; }),
                         joined<int64_t>(found, [](S s) -> auto& { return s.other; }),
                         joined<int64_t>(found, [](S s) -> auto& { return s.voxels; }));
}

PyObject* py_run_boxes(PyObject*, PyObject* args) {
    Arguments arguments(args);
    RunTable runs;
    Span<const int64_t> size;
    Span<double> result;
    int64_t d, threads;
    if (!arguments.all(runs.offsets, runs.start, runs.length, size, d, result, threads)) return nullptr;
    require(fit(runs) && (d == 2 || d == 3) && size.size == d * (runs.offsets.size - 1) && result.size == 2 * size.size);
    for (int64_t k = 0; k < size.size; ++k) require(size[k] > 0);
    unlocked([&] { run_boxes(runs, size, d, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_run_centroids(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> values;
    RunTable runs;
    Span<const int64_t> size;
    Span<double> total, centroid;
    int64_t wide, threads;
    if (!arguments.all(values, wide, runs.offsets, runs.start, runs.length, size, total, centroid, threads)) return nullptr;
    const int64_t bytes = wide ? 8 : 4;
    require(values.size % bytes == 0 && fit(runs) && inside(runs.start, runs.length, values.size / bytes) && is_size(size) &&
            total.size == runs.offsets.size - 1 && centroid.size == total.size * size.size);
    unlocked([&] {
        if (wide) return run_centroids<double>({typed<double>(values), runs, size}, total, centroid, static_cast<int>(threads));
        run_centroids<float>({typed<float>(values), runs, size}, total, centroid, static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

PyObject* py_decode_text(PyObject*, PyObject* args) {
    Arguments arguments(args);
    RunTexts t;
    int64_t n = 0;
    if (!arguments.all(t.offsets, t.text, t.count_offsets, t.counts, t.faults)) return nullptr;
    require(cover(t.offsets, t.text.size) && t.counts.size == t.text.size && t.count_offsets.size == t.offsets.size &&
            t.faults.size == t.offsets.size - 1);
    unlocked([&] { n = decode_text(t); });
    return PyLong_FromLongLong(n);
}

PyObject* py_turned_counts(PyObject*, PyObject* args) {
    Arguments arguments(args);
    TurnProblem p;
    Span<int64_t> counts;
    int64_t threads;
    if (!arguments.all(p.runs.offsets, p.runs.start, p.runs.length, p.size, counts, threads)) return nullptr;
    require(fit(p) && counts.size == p.runs.offsets.size - 1);
    unlocked([&] { turned_counts(p, counts, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_turned_runs(PyObject*, PyObject* args) {
    Arguments arguments(args);
    TurnProblem p;
    Span<const int64_t> offsets;
    Span<int64_t> start, length;
    int64_t threads;
    if (!arguments.all(p.runs.offsets, p.runs.start, p.runs.length, p.size, offsets, start, length, threads)) return nullptr;
    require(fit(p) && cover(offsets, start.size) && offsets.size == p.runs.offsets.size && length.size == start.size);
    unlocked([&] { turned_runs(p, offsets, start, length, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

}  // namespace

PyMethodDef run_methods[] = {
    {"decode_text", guarded<py_decode_text>, METH_VARARGS, "Counts of compressed run lengths."},
    {"turned_counts", guarded<py_turned_counts>, METH_VARARGS, "Number of runs along the other axis."},
    {"turned_runs", guarded<py_turned_runs>, METH_VARARGS, "Runs along the other axis."},
    {"run_borders", guarded<py_run_borders>, METH_VARARGS, "Bits where runs of equal voxels begin and have ended."},
    {"runs_between", guarded<py_runs_between>, METH_VARARGS, "Runs between such bits."},
    {"group_runs", guarded<py_group_runs>, METH_VARARGS, "Runs sorted by owner."},
    {"run_components", guarded<py_run_components>, METH_VARARGS, "Component of every run."},
    {"common_voxels", guarded<py_common_voxels>, METH_VARARGS, "Voxels that pairs of objects share."},
    {"intersections", guarded<py_intersections>, METH_VARARGS, "All owners of runs that share voxels."},
    {"run_boxes", guarded<py_run_boxes>, METH_VARARGS, "Boxes around objects."},
    {"run_centroids", guarded<py_run_centroids>, METH_VARARGS, "Sums and centroids of objects, weighted by a map."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace calipers
