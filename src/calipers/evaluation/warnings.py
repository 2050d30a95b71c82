# SPDX-License-Identifier: Apache-2.0
"""Warnings of an evaluation: what a reader must know before trusting its numbers.

A cohort, a protocol, evidence and rows come in, sentences go out: records that were set aside,
classes without references, cut predictions, tied scores, missing intervals, and what the marks
behind intervals mean. `Evaluation.warnings` joins `warnings_of`, `name_warnings`,
`interval_warnings`, `unit_warnings`, `cluster_warnings` and `group_warnings`; the terminal and
pages show them.

`map_warnings` adds those about maps: samples without a value, values that were counted in bins,
constant and faint maps. The page also calls `bounds_of`, for the bounds of what was counted in
bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers import registry
from calipers.arrays import n_distinct
from calipers.data.cohort import UNIT, Cohort
from calipers.data.look_alikes import NARROWER, note_on_names
from calipers.data.objects import Predictions
from calipers.data.rules import outside_image
from calipers.doctor.box_trials import suspicion
from calipers.doctor.trial import HIT, NEAR_ZERO
from calipers.evaluation.protocol import Protocol
from calipers.io.source import Progress
from calipers.kernels.assignment import IGNORED
from calipers.matching.matches import Matches
from calipers.metrics.base import Evidence, Metric
from calipers.metrics.sequences import SEQUENCE, SequenceMetric
from calipers.results.estimate import FLAGS, Row
from calipers.show.words import (
    MARKS,
    NO_INTERVAL,
    count_text,
    digits,
    flag_text,
    interval_text,
    number_text,
    percent_text,
    plural,
    with_units,
)
from calipers.statistics.clusters import group_columns, note_on_groups, spread_of
from calipers.statistics.weights import Units, units_of

if TYPE_CHECKING:
    # What is about maps is loaded with the first maps: most evaluations have boxes.
    from calipers.data.maps import Histograms, Maps
    from calipers.metrics.maps import MapMetric, Measure

AT_ONCE = 1 << 14  # images whose boxes are looked at
EXACT = 1e-6  # a bound of this width changes no digit that is shown
COUNTED_FIRST = "many-to-one-counted-first"
FAINT = 0.1  # a score below which a voxel is hardly called
# of the reference voxels: faint scores that sum up to more than this lower the soft IoU visibly
HEAVY = 0.25
SHARE = 0.5  # of images without predictions, and of distinct scores: worth a warning
ARRAYS = "<arrays>"  # in place of a file
NEAR = 0.1  # an IoU that any prediction of the right place and format reaches
MOST_COMPARED = 500_000  # predictions; sorting more would cost seconds for a hint
SAID_OF_MODELS = (
    "scores are equal",
    "scores are tied",
    "reach outside",
    "images without prediction",
)


def warnings_of(
    cohort: Cohort,
    protocol: Protocol,
    evidence: Mapping[tuple[str, tuple[Any, ...]], Evidence],
    progress: Progress | None = None,
) -> tuple[str, ...]:
    """Return the warnings of an evaluation, without repetition; ``progress`` is called while
    misread boxes are looked for, which takes seconds.
    """
    metrics = protocol.compile()
    warnings = [
        *reading_notes(cohort),
        *_quarantine(cohort),
        *_spacing(cohort),
        *_classes(cohort, metrics),
        *_models(cohort, protocol, metrics),
        *map_warnings(cohort, protocol, metrics),
        *_split_sequences(cohort, protocol, metrics),
    ]
    for (model, _), table in evidence.items():
        if isinstance(table, Matches):
            warnings += [*_cut(model, table), *_shared(model, table)]
            warnings += _far(cohort, model, table)
            warnings += _suspected(cohort, model, table, progress)
    # Several metrics can share an evidence and its warnings; each is said once.
    return tuple(dict.fromkeys(warnings))


def interval_warnings(rows: Sequence[Row], *, ci: bool) -> tuple[str, ...]:
    """Return what must be known of the intervals, each with the number of rows it concerns."""
    estimates = [row.estimate for row in rows if row.estimate.value == row.estimate.value]
    if not ci or not estimates:
        return ()

    def among(number: int) -> str:
        if number == len(estimates) > 1:
            return f"all {number} rows"
        return f"{number} of {len(estimates)} rows"

    def among_none(number: int) -> str:
        return f"any of the {number} rows" if number == len(estimates) > 1 else among(number)

    warnings, one = [], estimates[0]
    for flag in FLAGS:
        number = sum(flag in estimate.flags for estimate in estimates)
        if number:
            text = flag_text(flag, one.unit)
            warnings.append(f"Rows marked {MARKS[flag]} ({among(number)}): {text}.")
    for reason, (_, words) in NO_INTERVAL.items():
        # Where the value itself is undefined, the table says why.
        number = sum(e.reason == reason and e.value == e.value for e in estimates)
        if number:
            warnings.append(f"No interval for {among_none(number)}: {with_units(words, one.unit)}.")
    undefined = [e.undefined for e in estimates if e.undefined > 0 and e.method != "none"]
    if undefined:
        warnings.append(
            f"In {among(len(undefined))} the interval leaves out bootstrap samples in which the "
            f"value is undefined (at most {count_text('sample', max(undefined))})."
        )
    return (*warnings, *_rare_classes(rows))


def _rare_classes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the means over the well-populated classes, once per metric, for all models."""
    of_metric: dict[str, list[Row]] = {}
    for row in rows:
        if row.group is None and row.label is None and row.estimate.populated is not None:
            of_metric.setdefault(row.metric, []).append(row)
    for metric, members in of_metric.items():
        means = []
        for row in members:
            mean = row.estimate.populated
            assert mean is not None
            text = f"{number_text(mean.value)} {interval_text(mean.low, mean.high)}".rstrip()
            means.append(f"{row.model} {text}")
        first = members[0].estimate
        assert first.populated is not None
        n_common, n_rare = len(first.populated.classes), first.populated.n_left_out
        yield (
            f"{metric}: {n_rare} of {n_common + n_rare} classes have references in fewer than 5 "
            f"{plural(first.unit)}; the mean over the other {n_common} is {'; '.join(means)}."
        )


def name_warnings(cohort: Cohort, units: Units, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return which names look alike: of images, classes, models, and of the columns in use."""
    columns = {
        UNIT: cohort.images.ids,
        "class": cohort.classes,
        "model": (*cohort.models, *cohort.maps),
    }
    notes = []
    for kind, names in columns.items():
        notes += note_on_names(kind, names)
    groups, in_use = cohort.images.groups, {"patient", "centre", SEQUENCE}
    for row in rows:
        in_use.update(row.group or ())
    for name in groups:
        if name in (units.name, units.parent_name):
            notes += note_on_names(name, groups[name].tolist(), NARROWER)
        elif name in in_use:
            notes += note_on_names(name, groups[name].tolist())
    return tuple(notes)


def unit_warnings(units: Units, *, ci: bool) -> tuple[str, ...]:
    """Return a warning if units of one name lie in several parents."""
    if not ci or not units.n_split:
        return ()
    inner, outer = units.name, units.parent_name
    if units.nested:
        inner, outer = outer, inner
    return (
        f"{units.n_split} {plural(inner)} occur in more than one {outer}; they count as different "
        "ones in each, which is wrong if they are the same.",
    )


def cluster_warnings(
    cohort: Cohort,
    metric: Metric[Any],
    name: str,
    evidence: Mapping[tuple[str, tuple[Any, ...]], Evidence],
    rows: Sequence[Row],
    units: Units,
) -> tuple[str, ...]:
    """Return a warning if a metric varies more over centres than over the units that were drawn."""
    groups, spreads = cohort.images.groups, []
    k = metric.facts.names.index(name)
    for column in group_columns(groups, units):
        for row in rows:
            table = evidence.get((row.model, metric.recipe.key))
            is_pooled = row.metric == name and row.label is None and row.group is None
            if is_pooled and table is not None:
                case = (metric, table)
                spreads.append(spread_of(case, k, row.estimate, column, groups[column]))
    note = note_on_groups(spreads, units)
    return () if note is None else (note,)


def group_warnings(rows: Sequence[Row], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return which metrics have no values by size."""
    with_sizes = {row.metric for row in rows if row.group is not None and "size" in row.group}
    without = [metric for metric in metrics if with_sizes and metric not in with_sizes]
    if not without:
        return ()
    return (
        f"By size there is no {', '.join(without)}: their matching ignores sizes, or has a rule of "
        "its own for them.",
    )


def reading_notes(cohort: Cohort, said_of_models: Sequence[str] = SAID_OF_MODELS) -> Iterator[str]:
    """Yield the notes of the readers, each with its file.

    Notes on predictions with ``said_of_models`` in them are left out: an evaluation says those
    under the name of the model.
    """
    for file in cohort.intake.files:
        repeated = said_of_models if file.role.startswith("predictions") else ()
        source = file.role if file.file == ARRAYS else Path(file.file).name
        for note in file.notes:
            if not any(words in note for words in repeated):
                yield f"{source}: {note}"


def _quarantine(cohort: Cohort) -> Iterator[str]:
    """Yield how many records of every file were set aside, by rule."""
    for file in cohort.intake.files:
        if file.quarantined:
            rules = ", ".join(f"{rule} {n}" for rule, n in file.quarantined.items())
            aside = sum(file.quarantined.values())
            name = Path(file.file).name
            yield f"{name}: {aside} of {file.read} records were set aside ({rules})."


def _spacing(cohort: Cohort) -> Iterator[str]:
    """Yield on how many images the spacing is known along some axes only."""
    is_known = np.isfinite(cohort.images.spacing[:, : cohort.dimensions])
    n_partial = int((is_known.any(axis=1) & ~is_known.all(axis=1)).sum())
    if n_partial:
        yield (
            f"{n_partial} of {cohort.n_images} images state their spacing along some axes only; "
            "distances in mm count it as unknown there."
        )


def _classes(cohort: Cohort, metrics: list[Metric[Any]]) -> Iterator[str]:
    """Yield which classes class means leave out, and who leaves out ignored references."""
    labels = cohort.references.label[~cohort.references.ignore]
    absent = np.flatnonzero(np.bincount(labels, minlength=len(cohort.classes)) == 0)
    if len(absent) and any(metric.facts.skips_classes for metric in metrics):
        names = ", ".join(cohort.classes[c] for c in absent[:5])
        if len(absent) > 5:
            names += ", ..."
        yield f"Classes without references are left out of class means ({len(absent)}): {names}."
    ignored = int(cohort.references.ignore.sum())
    blind = dict.fromkeys(m.facts.word for m in metrics if not m.facts.knows_ignored)
    if ignored:
        for word in blind:
            yield f"{word} does not support ignored references: {ignored} were left out."


def _split_sequences(
    cohort: Cohort, protocol: Protocol, metrics: list[Metric[Any]]
) -> Iterator[str]:
    """Yield whether frames of one sequence are resampled apart: no interval of a sequence is then
    that of whole sequences.
    """
    groups = cohort.images.groups
    names = [metric.facts.names for metric in metrics if isinstance(metric, SequenceMetric)]
    if not names or SEQUENCE not in groups:
        return
    units = units_of(groups, cohort.n_images, protocol.cluster, protocol.strata)
    sequence = np.unique(groups[SEQUENCE].astype(str), return_inverse=True)[1]
    pairs = np.unique(np.stack([sequence, units.outer_code]), axis=1)
    number = int((np.bincount(pairs[0]) > 1).sum())
    if number:
        yield (
            f"{', '.join(chain(*names))}: {number} of {int(sequence.max()) + 1} sequences lie in "
            f"several {plural(units.name)}, which are resampled separately; use --cluster "
            f"{SEQUENCE}."
        )


def _count_outside(cohort: Cohort, predictions: Predictions) -> int:
    """Return how many boxes reach outside their image; those of some images at a time, for
    memory.
    """
    number, offsets = 0, predictions.offsets
    for first in range(0, cohort.n_images, AT_ONCE):
        end = min(first + AT_ONCE, cohort.n_images)
        sizes = np.repeat(cohort.images.size[first:end], np.diff(offsets[first : end + 1]), axis=0)
        boxes = predictions.boxes[offsets[first] : offsets[end]]
        number += int(outside_image(boxes, sizes).sum())
    return number


def _models(cohort: Cohort, protocol: Protocol, metrics: list[Metric[Any]]) -> Iterator[str]:
    """Yield warnings on the predictions of every model: empty images, repeats, ties."""
    ranks = any(metric.facts.ranks for metric in metrics)
    for model, predictions in cohort.models.items():
        silent = int((np.diff(predictions.offsets) == 0).sum())
        if silent > SHARE * cohort.n_images:
            yield f"{model}: {silent} of {cohort.n_images} images have no prediction."
        outside = _count_outside(cohort, predictions)
        if outside:
            yield (
                f"{model}: {outside} of {len(predictions)} predictions reach outside their image; "
                "kept as they are."
            )
        yield from _repeated(model, predictions)
        if not ranks or not len(predictions):
            continue
        distinct = n_distinct(predictions.score)
        if not predictions.scored:
            yield f"{model}: no scores; all count as 1, so rankings depend only on the tie rule."
        elif distinct == 1 and len(predictions) > 1:
            yield (
                f"{model}: all scores are equal, so average precision depends on the tie rule "
                f"({protocol.ties})."
            )
        elif distinct < SHARE * len(predictions):
            tied = 1 - distinct / len(predictions)
            yield (
                f"{model}: {percent_text(tied)} of the scores repeat another one; "
                f"ties are handled as '{protocol.ties}'."
            )


def _far(cohort: Cohort, model: str, matches: Matches) -> Iterator[str]:
    """Shapes that never meet a reference of their class point to a wrong box format, axis order or
    class numbering; points meet none.
    """
    if (
        matches.views[0].criterion not in ("box-iou", "mask-iou")
        or not len(matches.score)
        or not len(matches.reference_label)
    ):
        return
    if matches.pairs.similarity.max(initial=0.0) >= NEAR:
        return
    if not cohort.predictions(model).extent.any():
        yield (
            f"{model}: all predictions are points, which overlap nothing: choose a preset with a "
            "criterion of distance, such as --preset luna16."
        )
    else:
        yield (
            f"{model}: no prediction overlaps a reference of its class by an IoU of {NEAR:g}; "
            "are box format, axis order and classes right?"
        )


def _suspected(
    cohort: Cohort, model: str, matches: Matches, progress: Progress | None
) -> Iterator[str]:
    """Yield why hardly a reference is met, if misread boxes or classes explain it."""
    # The boxes of a cohort of maps are our own, so nobody misread them.
    if matches.views[0].criterion != "box-iou" or cohort.maps:
        return
    possible = min(len(matches.score), len(matches.reference_label))
    is_near = matches.pairs.similarity >= HIT
    # Marked, not sorted: NumPy's way to distinct values also loads its masked arrays.
    is_met = np.zeros(len(matches.reference_label), np.bool_)
    is_met[matches.pairs.reference[is_near]] = True
    n_met = int(np.count_nonzero(is_met))
    if n_met < NEAR_ZERO * possible:
        words = suspicion(cohort, model, progress)
        if words is not None:
            yield f"{model}: {words}; calipers doctor REFS PREDS prints the command that works."


def _repeated(model: str, predictions: Predictions) -> Iterator[str]:
    """Yield how many predictions repeat another one exactly."""
    if not 1 < len(predictions) <= MOST_COMPARED:
        return
    # Equal predictions have equal scores, which few have: only those are compared in full.
    by_score = np.argsort(predictions.score)
    is_tie = np.diff(predictions.score[by_score]) == 0
    rows = by_score[np.append(is_tie, False) | np.append(False, is_tie)]
    if not len(rows):
        return
    columns = [predictions.image, predictions.label, predictions.score, *predictions.boxes.T]
    if predictions.masks is not None:  # different masks may have one box
        columns += [predictions.masks.voxels, *predictions.masks.centroids().T]
    columns = [column[rows] for column in columns]
    # Equal predictions are neighbours after sorting, so neighbours are all that is compared.
    order = np.lexsort(columns)
    is_repeat = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        is_repeat &= column[order][1:] == column[order][:-1]
    if is_repeat.any():
        number = int(is_repeat.sum())
        yield f"{model}: {number} of {len(predictions)} predictions repeat another one exactly."


def _cut(model: str, matches: Matches) -> Iterator[str]:
    """Yield how many predictions the limit per image and class left out."""
    limit = matches.views[0].max_dets
    cut = int((matches.rank >= limit).sum())
    if cut:
        yield (
            f"{model}: {cut} predictions beyond the best {limit} of their image and class "
            "were left out."
        )


def _shared(model: str, matches: Matches) -> Iterator[str]:
    """Yield how many candidates lie in several references at once, where each finds only one.

    The script of LUNA16, where nodules overlap in a few scans, counts such a candidate for all of
    them: the two differ where this warning stands.
    """
    view = matches.views[0]
    if view.assignment != COUNTED_FIRST:
        return
    criterion = registry.resolve("criterion", view.criterion)
    cutoff = criterion.cutoff(view.threshold, strict=view.strict)
    pairs = matches.pairs
    is_counted = matches.reference_fate[0][pairs.reference] != IGNORED
    near = pairs.prediction[is_counted & (pairs.similarity >= cutoff)]
    number = int((np.bincount(near, minlength=1) > 1).sum())
    if number:
        yield (
            f"{model}: {count_text('prediction', number)} in several references at once: the "
            "nearest one is found, the others are not."
        )


def map_warnings(
    cohort: Cohort, protocol: Protocol, metrics: Sequence[Metric[Any]]
) -> Iterator[str]:
    """Yield the warnings of an evaluation of maps; none without maps."""
    if not cohort.maps:
        return
    from calipers.metrics.maps import MapMetric

    measures: dict[str, Measure] = {}
    for metric in metrics:
        if isinstance(metric, MapMetric):
            measures.update(measures_of(metric))
    yield from _undefined(cohort, protocol, measures)
    for model, maps in cohort.maps.items():
        yield from _binned(model, maps, measures)
        yield from _constant(model, maps.histograms)
        yield from _faint(model, maps.histograms, measures)


def measures_of(metric: MapMetric) -> dict[str, Measure]:
    """Return name -> measure."""
    return dict(zip(metric.facts.names, metric.measures))


def _undefined(
    cohort: Cohort, protocol: Protocol, measures: Mapping[str, Measure]
) -> Iterator[str]:
    """Yield how many samples or slices have no value, once for all metrics with that number."""
    maps = next(iter(cohort.maps.values()))  # the references are the same for all models
    missing: dict[tuple[str, int, int], list[str]] = {}
    for name, measure in measures.items():
        if measure.level in ("sample", "slice"):
            total = cohort.n_images
            if measure.level == "slice":
                total = number_of_slices(cohort, protocol)
            defined = int(maps.sums[measure.key][:, 1].sum())
            if defined < total:
                missing.setdefault((measure.level, defined, total), []).append(name)
    for (level, defined, total), names in missing.items():
        n_missing = total - defined
        rest = f"the mean is over the other {defined}" if defined else "there is no mean"
        have = f"{level}s have" if total != 1 else f"{level} has"
        healthy = level == "slice" or n_missing == int((maps.references == 0).sum())
        lack = "no references and no value" if healthy else "no value"
        yield f"{', '.join(names)}: {n_missing} of {total} {have} {lack}; {rest}."


def number_of_slices(cohort: Cohort, protocol: Protocol) -> int:
    """Return the slices of all samples; a picture is one slice."""
    from calipers.metrics.maps import AXES, MapSettings

    if cohort.dimensions == 2:
        return cohort.n_images
    axis = AXES.index((protocol.maps or MapSettings()).slices)
    return int(cohort.images.size[:, axis].sum())


def bounds_of(maps: Maps) -> dict[str, tuple[float, float]]:
    """Return between which values AP and AUROC of all voxels lie; nothing where they are exact."""
    from calipers.kernels import voxels
    from calipers.metrics.maps import Tables

    if maps.exact_values or not len(maps.histograms.bin):
        return {}
    pooled = Tables(maps.histograms).pooled(np.ones((1, maps.n_images), np.int64), maps.references)
    bounds = voxels.bounds(pooled.positives[0], pooled.negatives[0], pooled.inexact)
    return {"AP": bounds.ap, "AUROC": bounds.auroc}


def _binned(model: str, maps: Maps, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yield the metrics that are counted in bins, with bounds of the exact value."""
    bounds = bounds_of(maps)
    for name, measure in measures.items():
        low, high = bounds.get(measure.quantity, (0.0, 0.0)) if measure.pooled else (0.0, 0.0)
        if high - low > EXACT:
            yield (
                f"{name} of {model} is counted in bins: "
                f"the exact value lies in [{digits(low)}, {digits(high)}]."
            )


def _constant(model: str, histograms: Histograms) -> Iterator[str]:
    """Yield how many maps have one value: such maps rank nothing."""
    single = np.flatnonzero(np.diff(histograms.offsets) == 1)
    # A single bin can still hold several scores, unless its two ends are equal.
    bins = histograms.bin[histograms.offsets[single]]
    n = int((histograms.lowest[bins] == histograms.highest[bins]).sum())
    if n:
        n_maps = len(histograms.offsets) - 1
        have = "has" if n == 1 else "have"
        yield (
            f"{model}: {n} of {n_maps} maps {have} one score everywhere; "
            "their AUROC is 0.5 and their AP the share of reference voxels."
        )


def _faint(model: str, histograms: Histograms, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yield a warning if faint scores over the background lower the soft IoU.

    They lower it more than false objects do, and nobody sees them.
    """
    soft = [name for name, measure in measures.items() if measure.quantity == "softIoU"]
    if not soft:
        return
    faint, total = faint_scores(histograms)
    inside = float(histograms.positives.sum())
    if faint > 0.5 * total and faint > HEAVY * inside > 0:
        yield (
            f"{soft[0]} of {model}: {percent_text(faint / total)} of the score outside of "
            f"references lies in voxels scored below {FAINT:g}, and sums to "
            f"{digits(faint / inside, 2)} times the number of reference voxels; such faint scores "
            "lower the soft IoU, while AP and objects ignore them."
        )


def faint_scores(histograms: Histograms) -> tuple[float, float]:
    """Return the sum of the scores of voxels outside of references: of those with faint scores, and
    of all.
    """
    # The middle of a bin stands for the scores in it.
    score = 0.5 * (histograms.lowest[histograms.bin] + histograms.highest[histograms.bin])
    sums = histograms.negatives * score
    return float(sums[score < FAINT].sum()), float(sums.sum())
