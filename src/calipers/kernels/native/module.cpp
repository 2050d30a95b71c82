// SPDX-License-Identifier: Apache-2.0
// The Python face of the twins: takes contiguous buffers, checks that their lengths fit, releases the GIL, works. Shapes and
// types are the business of kernels/compiled.py, the only caller. Written against the stable ABI, so one build serves every
// Python from 3.11 on.
#include "binding.h"
#include "coco_records.h"
#include "curves.h"
#include "error_types.h"
#include "fates.h"
#include "kinds.h"
#include "lengths.h"
#include "module_pairwise.h"
#include "module_runs.h"
#include "pairs.h"
#include "replicates.h"
#include "rodeo.h"
#include "voxels.h"

namespace {

using namespace calipers;

PyObject* py_overlapping(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Side reference, prediction;
    Span<const uint8_t> crowd;
    int64_t n_classes, dimensions, threads;
    if (!arguments.all(reference.offsets, reference.label, reference.boxes, reference.extent, prediction.offsets,
                       prediction.label, prediction.boxes, prediction.extent, crowd, n_classes, dimensions, threads))
        return nullptr;
    require(fit(reference, prediction, dimensions, n_classes) && crowd.size == reference.label.size);
    std::vector<FoundPairs> found;
    unlocked([&] {
        found = overlapping(reference, prediction, crowd, n_classes, static_cast<int>(dimensions),
                            static_cast<int>(threads));
    });
    return Py_BuildValue("(NNN)", joined<int32_t>(found, [](const FoundPairs& f) -> auto& { return f.reference; }),
                         joined<int32_t>(found, [](const FoundPairs& f) -> auto& { return f.prediction; }),
                         joined<double>(found, [](const FoundPairs& f) -> auto& { return f.similarity; }));
}

PyObject* py_ranks(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const int64_t> offsets;
    Span<const int32_t> label;
    Span<const double> score;
    Span<int32_t> rank;
    int64_t n_classes, threads;
    if (!arguments.all(offsets, label, score, n_classes, rank, threads)) return nullptr;
    require(cover(offsets, score.size) && label.size == score.size && rank.size == score.size && has_order(score) &&
            are_labels(label, n_classes));
    unlocked([&] { ranks(offsets, label, score, n_classes, rank, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_decide(PyObject*, PyObject* args) {
    Arguments arguments(args);
    FateProblem p;
    FateTables t;
    int64_t assignment, threads;
    if (!arguments.all(p.pair_reference, p.pair_prediction, p.pair_similarity, p.reference_offsets, p.prediction_offsets,
                       p.rank, p.score, p.cell, p.absent, assignment, p.cutoffs, p.size, p.ranges.bounds,
                       p.reference_area, p.prediction_area, p.ignore, p.crowd, t.reference, t.prediction, t.partner, t.similarity, t.kind, threads))
        return nullptr;
    require(fit(p, t) && assignment >= 0 && assignment <= static_cast<int64_t>(Assignment::optimal));
    p.assignment = static_cast<Assignment>(assignment);
    std::vector<std::vector<uint64_t>> kinds(1);
    unlocked([&] { kinds[0] = decide(p, t, static_cast<int>(threads)); });
    return joined<uint64_t>(kinds, [](const std::vector<uint64_t>& k) -> auto& { return k; });
}

PyObject* py_error_types(PyObject*, PyObject* args) {
    Arguments arguments(args);
    ErrorProblem p;
    ErrorTables t;
    int64_t threads;
    if (!arguments.all(p.pair_reference, p.pair_prediction, p.pair_similarity, p.reference_offsets, p.prediction_offsets,
                       p.reference_label, p.prediction_label, p.rank, p.absent, p.ignored, p.limits, t.reference,
                       t.prediction, t.covered, t.mended, t.partner, t.similarity, threads))
        return nullptr;
    require(fit(p, t));
    unlocked([&] { error_types(p, t, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_row_kinds(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const int8_t> fates;
    Span<uint8_t> kind;
    int64_t n_views, threads;
    if (!arguments.all(fates, n_views, kind, threads)) return nullptr;
    require(is_count(n_views) && fates.size == kind.size * n_views);
    std::vector<std::vector<uint64_t>> kinds(1);
    unlocked([&] { kinds[0] = row_kinds(fates, n_views, kind, static_cast<int>(threads)); });
    return joined<uint64_t>(kinds, [](const std::vector<uint64_t>& k) -> auto& { return k; });
}

PyObject* py_distinct_rows(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const int8_t> fates;
    Span<int32_t> place;
    int64_t n_views;
    if (!arguments.all(fates, n_views, place)) return nullptr;
    require(is_count(n_views) && fates.size == place.size * n_views);
    std::vector<std::vector<int64_t>> first(1);
    unlocked([&] { first[0] = distinct_rows(fates, n_views, place); });
    return joined<int64_t>(first, [](const std::vector<int64_t>& k) -> auto& { return k; });
}

PyObject* py_totals(PyObject*, PyObject* args) {
    Arguments arguments(args);
    TotalsProblem p;
    Span<int64_t> result;
    if (!arguments.all(p.fates.rows, p.fates.place, p.kind, p.kinds, p.label, p.rank, p.n_views, p.n_classes, p.limit, result)) return nullptr;
    require(fit(p, result));
    unlocked([&] { totals(p, result); });
    Py_RETURN_NONE;
}

PyObject* py_ranking(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const double> score;
    Span<const int32_t> label;
    Span<int32_t> order, ends;
    Span<int64_t> offsets;
    int64_t n_classes, blocks, threads;
    if (!arguments.all(score, label, n_classes, blocks, order, offsets, ends, threads)) return nullptr;
    const int64_t n = score.size;
    require(n <= INT32_MAX && label.size == n && order.size == n && ends.size == (blocks ? n : 0) && is_count(n_classes) &&
            offsets.size == n_classes + 1 &&
            within(label, n_classes));
    unlocked([&] {
        ranking(score, label, n_classes, blocks != 0, order, offsets, ends, static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

PyObject* py_average_precision(PyObject*, PyObject* args) {
    Arguments arguments(args);
    CurveProblem p;
    Span<const double> recalls;
    Span<double> result;
    int64_t kind, threads;
    if (!arguments.all(p.fates.rows, p.fates.place, p.kind, p.kinds, p.views, p.order, p.offsets, p.ends, p.positives, p.n_views, p.n_columns,
                       p.n_classes, kind, recalls, result, threads))
        return nullptr;
    require(fit(p) && result.size == p.positives.size && has_order(recalls));
    unlocked([&] {
        average_precision(p, static_cast<Interpolation>(kind), recalls, result, static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

bool take_plan(Arguments& arguments, ReplicatePlan& p) {
    return arguments.all(p.group_of, p.row_image, p.row_offsets, p.mark_at, p.mark_offsets, p.hit_image, p.hit_offsets,
                         p.point_hits, p.point_mark, p.point_offsets, p.weights, p.n_classes, p.n_images);
}

bool take_precision(Arguments& arguments, PrecisionProblem& p) {
    return take_plan(arguments, p.plan) && arguments.all(p.positives, p.rounded_up, p.n_replicates, p.enveloped);
}

PyObject* py_replicate_precision(PyObject*, PyObject* args) {
    Arguments arguments(args);
    PrecisionProblem p;
    Span<double> result;
    int64_t threads;
    if (!take_precision(arguments, p) || !arguments.all(result, threads)) return nullptr;
    require(fit(p, result));
    unlocked([&] { replicate_precision(p, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_replicate_curve(PyObject*, PyObject* args) {
    Arguments arguments(args);
    PrecisionProblem p;
    Span<double> result;
    int64_t threads;
    if (!take_precision(arguments, p) || !arguments.all(result, threads)) return nullptr;
    require(fit_curve(p, result));
    unlocked([&] { replicate_curve(p, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_replicate_hits(PyObject*, PyObject* args) {
    Arguments arguments(args);
    ReplicatePlan p;
    Span<const double> allowed;
    Span<int32_t> result;
    int64_t n, threads;
    if (!take_plan(arguments, p) || !arguments.all(allowed, n, result, threads)) return nullptr;
    require(fit(p) && is_count(n) && allowed.size == n * LANES && result.size == (p.point_offsets.size - 1) * n * LANES);
    unlocked([&] { replicate_hits(p, allowed, n, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

bool take_table(Arguments& arguments, TallyTable& p) {
    return arguments.all(p.pair_offsets, p.missed_offsets, p.extra_offsets, p.owner, p.missed_owner, p.extra_owner, p.right,
                         p.near, p.shape, p.n_owners);
}

PyObject* py_lane_tally(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> weights;
    TallyTable table;
    Span<double> result;
    if (!arguments.all(weights) || !take_table(arguments, table) || !arguments.all(result)) return nullptr;
    require(fit(weights, table, result));
    unlocked([&] { lane_tally(weights, table, result); });
    Py_RETURN_NONE;
}

PyObject* py_cell_totals(PyObject*, PyObject* args) {
    Arguments arguments(args);
    CellProblem p;
    Span<int32_t> result;
    if (!arguments.all(p.cell, p.image, p.label, p.flags, p.weights, p.n_flags, p.n_classes, result)) return nullptr;
    require(fit(p, result));
    unlocked([&] { cell_totals(p, result); });
    Py_RETURN_NONE;
}

PyObject* py_random_words(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint64_t> key;
    Span<uint64_t> words;
    if (!arguments.all(key, words)) return nullptr;
    require(key.size == 2);
    random_words(key[0], key[1], words);
    Py_RETURN_NONE;
}

PyObject* py_count_draws(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint64_t> raw;
    Span<uint8_t> counts;
    if (!arguments.all(raw, counts)) return nullptr;
    require(counts.size > 0 && counts.size <= 0x7fffffff);
    return PyBool_FromLong(count_draws(raw, counts));
}

PyObject* py_transpose(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> from;
    Span<uint8_t> to;
    int64_t rows, columns;
    if (!arguments.all(from, rows, columns, to)) return nullptr;
    require(is_count(rows) && is_count(columns) && from.size == rows * columns && to.size == from.size);
    unlocked([&] { transpose(from, rows, columns, to); });
    Py_RETURN_NONE;
}

PyObject* py_rodeo_paths(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Side reference, prediction;
    Span<const double> weight;
    Span<int64_t> presence;
    int64_t n_classes, dimensions, threads;
    if (!arguments.all(reference.offsets, reference.label, reference.boxes, reference.extent, prediction.offsets,
                       prediction.label, prediction.boxes, prediction.extent, n_classes, dimensions, weight, presence,
                       threads))
        return nullptr;
    const int64_t n_images = reference.offsets.size - 1;
    require(fit(reference, prediction, dimensions, n_classes) && within(reference.label, n_classes) &&
            within(prediction.label, n_classes) && presence.size == 3 * n_images &&
            (weight.size == 0 || weight.size == n_images));
    std::vector<FoundPaths> found;
    unlocked([&] {
        found = rodeo_paths(reference, prediction, n_classes, static_cast<int>(dimensions), weight, presence,
                            static_cast<int>(threads));
    });
    using P = const FoundPaths&;
    return Py_BuildValue(
        "(NNNNNNNNNNN)", joined<int64_t>(found, [](P f) -> auto& { return f.image; }),
        joined<double>(found, [](P f) -> auto& { return f.start; }),
        joined<int64_t>(found, [](P f) -> auto& { return f.n_pairs; }),
        joined<int32_t>(found, [](P f) -> auto& { return f.reference_label; }),
        joined<int32_t>(found, [](P f) -> auto& { return f.prediction_label; }),
        joined<double>(found, [](P f) -> auto& { return f.distance; }),
        joined<double>(found, [](P f) -> auto& { return f.shape; }),
        joined<int64_t>(found, [](P f) -> auto& { return f.n_missed; }),
        joined<int32_t>(found, [](P f) -> auto& { return f.missed; }),
        joined<int64_t>(found, [](P f) -> auto& { return f.n_extra; }),
        joined<int32_t>(found, [](P f) -> auto& { return f.extra; }));
}

PyObject* py_rodeo_tally(PyObject*, PyObject* args) {
    Arguments arguments(args);
    TallyProblem p;
    Span<double> result;
    int64_t threads;
    if (!arguments.all(p.weights) || !take_table(arguments, p.table) ||
        !arguments.all(p.n_replicates, p.n_pieces, result, threads))
        return nullptr;
    require(fit(p, result));
    unlocked([&] { rodeo_tally(p, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_voxel_bins(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> values;
    Span<int32_t> bin;
    int64_t wide, threads;
    if (!arguments.all(values, wide, bin, threads)) return nullptr;
    require(values.size == bin.size * (wide ? 8 : 4));
    unlocked([&] {
        if (wide) return voxel_bins(typed<double>(values), bin, static_cast<int>(threads));
        voxel_bins(typed<float>(values), bin, static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

PyObject* py_voxel_histogram(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> values, positive;
    BinTable table;
    int64_t wide, threads;
    if (!arguments.all(values, wide, positive, table.positives, table.negatives, table.lowest, table.highest, threads))
        return nullptr;
    require(values.size == positive.size * (wide ? 8 : 4) && fit(table));
    unlocked([&] {
        if (wide) return voxel_histogram(typed<double>(values), positive, table, static_cast<int>(threads));
        voxel_histogram(typed<float>(values), positive, table, static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

PyObject* py_voxel_split(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> values, positive;
    Span<uint8_t> positives, negatives;
    int64_t wide;
    if (!arguments.all(values, wide, positive, positives, negatives)) return nullptr;
    const int64_t bytes = wide ? 8 : 4;
    int64_t n = 0;
    for (int64_t k = 0; k < positive.size; ++k) n += positive[k] != 0;
    require(values.size == positive.size * bytes && positives.size == (n + 1) * bytes &&
            negatives.size == (positive.size - n + 1) * bytes);
    unlocked([&] {
        if (wide) return voxel_split(typed<double>(values), positive, typed<double>(positives), typed<double>(negatives));
        voxel_split(typed<float>(values), positive, typed<float>(positives), typed<float>(negatives));
    });
    Py_RETURN_NONE;
}

PyObject* py_voxel_walk(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> positives, negatives;
    Span<const int64_t> positive_offsets, negative_offsets;
    VoxelWalk found;
    int64_t wide, threads;
    if (!arguments.all(positives, negatives, wide, positive_offsets, negative_offsets, found.doubled, found.hits,
                       found.alarms, found.precision, found.threshold, threads))
        return nullptr;
    const int64_t bytes = wide ? 8 : 4;
    require(cover(positive_offsets, positives.size / bytes) && cover(negative_offsets, negatives.size / bytes) &&
            positives.size % bytes == 0 && negatives.size % bytes == 0 && fit(found, positive_offsets.size - 1) &&
            negative_offsets.size == positive_offsets.size);
    unlocked([&] {
        if (wide)
            return voxel_walk<double>({typed<double>(positives), typed<double>(negatives), positive_offsets, negative_offsets},
                                      found, static_cast<int>(threads));
        voxel_walk<float>({typed<float>(positives), typed<float>(negatives), positive_offsets, negative_offsets}, found,
                          static_cast<int>(threads));
    });
    Py_RETURN_NONE;
}

PyObject* py_voxel_pooled(PyObject*, PyObject* args) {
    Arguments arguments(args);
    PooledProblem p;
    Span<const double> rate;
    Span<double> result;
    int64_t threads;
    if (!arguments.all(p.positives, p.negatives, p.inexact, p.n_replicates, rate, result, threads)) return nullptr;
    require(fit(p, result) && rate.size == 1);
    p.rate = rate[0];
    unlocked([&] { voxel_pooled(p, result, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyObject* py_coco_records(PyObject*, PyObject* args) {
    Arguments arguments(args);
    Span<const uint8_t> text;
    int64_t at, stop, end, required;
    RecordColumns c;
    if (!arguments.all(text, at, stop, end, required, c.image, c.category, c.id, c.box, c.score, c.area, c.crowd, c.ignore,
                       c.keys))
        return nullptr;
    require(fit(c) && at >= 0 && at <= end && end <= text.size);
    RecordScan scan;
    unlocked([&] { scan = coco_records(text, at, stop, end, static_cast<uint8_t>(required), c); });
    return Py_BuildValue("(LL)", static_cast<long long>(scan.n), static_cast<long long>(scan.at));
}

PyObject* py_fused_boxes(PyObject*, PyObject* args) {
    Arguments arguments(args);
    FusionProblem p;
    FusedColumns c;
    Span<const double> thresholds;
    int64_t dimensions, threads;
    if (!arguments.all(p.factors, thresholds, p.method, p.confidence, p.overflow, dimensions, threads, c.count, c.label,
                       c.corners, c.extent, c.score, c.row))
        return nullptr;
    require(thresholds.size == 2 && p.factors.size > 0);
    p.iou_threshold = thresholds[0];
    p.skip_threshold = thresholds[1];
    // The columns of all members follow, one member after the other.
    p.members.resize(p.factors.size);
    for (Member& m : p.members)
        if (!arguments.all(m.boxes.offsets, m.boxes.label, m.boxes.boxes, m.boxes.extent, m.score)) return nullptr;
    require(fit(p, c, dimensions));
    unlocked([&] { fused_boxes(p, static_cast<int>(dimensions), c, static_cast<int>(threads)); });
    return PyLong_FromLongLong(c.n);
}

PyObject* py_decayed_scores(PyObject*, PyObject* args) {
    Arguments arguments(args);
    DecayProblem p;
    Side& boxes = p.boxes;
    Span<const double> decay;
    Span<double> lowered;
    int64_t dimensions, threads;
    if (!arguments.all(boxes.offsets, boxes.label, boxes.boxes, boxes.extent, p.score, decay, dimensions, lowered, threads))
        return nullptr;
    require(decay.size == 2 && fit(boxes, p.score, dimensions, 1.0) && lowered.size == p.score.size &&
            lowered.size <= std::numeric_limits<int32_t>::max());
    p.threshold = decay[0];
    p.sigma = decay[1];
    unlocked([&] { decayed_scores(p, static_cast<int>(dimensions), lowered, static_cast<int>(threads)); });
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"decayed_scores", guarded<py_decayed_scores>, METH_VARARGS, "Scores of soft-NMS."},
    {"fused_boxes", guarded<py_fused_boxes>, METH_VARARGS, "What fusion leaves of the boxes of several models."},
    {"overlapping", guarded<py_overlapping>, METH_VARARGS, "Overlapping pairs of every image."},
    {"ranks", guarded<py_ranks>, METH_VARARGS, "Place of every prediction in its cell."},
    {"decide", guarded<py_decide>, METH_VARARGS, "Fates of all objects under all views."},
    {"error_types", guarded<py_error_types>, METH_VARARGS, "What kind of mistake every prediction is."},
    {"distinct_rows", guarded<py_distinct_rows>, METH_VARARGS, "Numbers the distinct rows of fates."},
    {"row_kinds", guarded<py_row_kinds>, METH_VARARGS, "Numbers the rows of fates that have no hit."},
    {"totals", guarded<py_totals>, METH_VARARGS, "Numbers of hits and of counted objects."},
    {"ranking", guarded<py_ranking>, METH_VARARGS, "Predictions in the order of a curve."},
    {"average_precision", guarded<py_average_precision>, METH_VARARGS, "Average precision of every view and class."},
    {"replicate_precision", guarded<py_replicate_precision>, METH_VARARGS, "Average precision of 64 replicates."},
    {"replicate_curve", guarded<py_replicate_curve>, METH_VARARGS, "Interpolated precision of 64 replicates at recalls."},
    {"replicate_hits", guarded<py_replicate_hits>, METH_VARARGS, "Hits at a number of false alarms in 64 replicates."},
    {"lane_tally", guarded<py_lane_tally>, METH_VARARGS, "RoDeO's sums over pieces in 64 replicates."},
    {"cell_totals", guarded<py_cell_totals>, METH_VARARGS, "Weights of hits and of counted objects in 64 replicates."},
    {"random_words", guarded<py_random_words>, METH_VARARGS, "Random bits of a key."},
    {"count_draws", guarded<py_count_draws>, METH_VARARGS, "How often each unit was drawn."},
    {"transpose", guarded<py_transpose>, METH_VARARGS, "Rows as columns."},
    {"rodeo_paths", guarded<py_rodeo_paths>, METH_VARARGS, "Everything that RoDeO needs of every image."},
    {"rodeo_tally", guarded<py_rodeo_tally>, METH_VARARGS, "Sums over the pieces of every replicate."},
    {"voxel_bins", guarded<py_voxel_bins>, METH_VARARGS, "Bins of scores."},
    {"voxel_histogram", guarded<py_voxel_histogram>, METH_VARARGS, "Voxels of either kind in every bin."},
    {"voxel_split", guarded<py_voxel_split>, METH_VARARGS, "Scores of positive and of negative voxels."},
    {"voxel_walk", guarded<py_voxel_walk>, METH_VARARGS, "Sums over the operating points of every group."},
    {"voxel_pooled", guarded<py_voxel_pooled>, METH_VARARGS, "Sums over the bins of every replicate."},
    {"coco_records", guarded<py_coco_records>, METH_VARARGS, "Plain records of a COCO list."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Compiled twins of the NumPy kernels.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    PyObject* module = PyModule_Create(&definition);
    if (module && PyModule_AddFunctions(module, calipers::run_methods) == 0 &&
        PyModule_AddFunctions(module, calipers::pairwise_methods) == 0)
        return module;
    Py_XDECREF(module);
    return nullptr;
}
