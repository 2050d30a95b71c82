# SPDX-License-Identifier: Apache-2.0
"""Metrics of sequences of frames: videos, endoscopies, sweeps of an ultrasound probe.

The column ``sequence`` of the images says to which sequence a frame belongs, ``frame`` its number
in it (without it, frames are in the order of the input), and ``fps`` how many there are in a
second.

``sequence-f-beta``
    mean over sequences of F-beta of each; option ``beta`` (1). A sequence without any object has no
    value and is left out.
``detection-latency``
    time from the first frame with a reference to the first hit, mean over the sequences with a
    reference; option ``unit``: ``frames`` (default) or ``seconds``. An object that is never found
    counts as found after the last frame: leaving it out would reward missing it.
``detected-sequences``
    share of the sequences with a reference in which there is a hit at all.
``alarms-per-minute``
    false alarms over the length of the sequences. An alarm is a run of frames that follow each
    other with at least one false alarm in each, so that an alarm that lasts counts once.

With ``min_duration`` (1) an alarm counts only if it lasts for so many frames in a row; a hit is
then found in the frame in which it has lasted as long. The option ``fps`` replaces the column.

What is drawn in a replicate is a sequence. A sequence counts as often as its most frequent frame,
and frames of weight 0 do not exist; rows of one image are copies of one frame. So resampling by
sequence or by patient, groups of frames and duplications all mean what they should. Without the
column there is no value (``no_sequences``), without a frame rate none per minute or second
(``no_frame_rate``).

References
----------
Bernal et al., Comparative validation of polyp detection methods in video colonoscopy: results from
the MICCAI 2015 Endoscopic Vision Challenge, IEEE Trans Med Imaging 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Column, Flags
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.kernels.assignment import IGNORED
from calipers.matching.assign import MatchRecipe, match
from calipers.matching.matches import Matches, View
from calipers.metrics.base import Facts, MatchMetric, MetricPlan, Output, check_choice, check_number
from calipers.metrics.counts import FN, FP, TP, ratio, unit_counts

SEQUENCE, FRAME, RATE = "sequence", "frame", "fps"  # columns of the images
UNITS = ("frames", "seconds")
AT_ONCE = 1_000_000  # frames times classes that are looked at together
CITATIONS = (
    "Bernal J, et al. Comparative validation of polyp detection methods in video colonoscopy: "
    "results from the MICCAI 2015 Endoscopic Vision Challenge. IEEE Trans Med Imaging "
    "2017;36:1231-1249.",
)
PAGE = "explanation/sequences.md"


@dataclass(frozen=True)
class SequenceMatches:
    """Matches of frames, and which frame of which sequence each image is."""

    matches: Matches
    image: Column  # (n,) ids: rows of one id are copies of one frame
    sequence: Column | None  # (n,) names; None if the images have no such column
    frame: F64  # (n,) numbers in the sequence, NaN if unknown
    rate: F64  # (n,) frames per second, NaN if unknown

    @property
    def n_images(self) -> int:
        """Number of images."""
        return self.matches.n_images

    @property
    def views(self) -> tuple[View, ...]:
        """The views of the matches."""
        return self.matches.views

    @cached_property
    def clips(self) -> Clips | None:
        """The frames in order, sequence by sequence."""
        return None if self.sequence is None else Clips.of(self)

    def take(self, images: I64) -> SequenceMatches:
        """Return the evidence of some images."""
        return SequenceMatches(
            self.matches.take(images),
            self.image[images],
            None if self.sequence is None else self.sequence[images],
            self.frame[images],
            self.rate[images],
        )

    @classmethod
    def concat(cls, parts: Sequence[SequenceMatches]) -> SequenceMatches:
        """Return the evidence of all images of several parts."""
        names = [part.sequence for part in parts if part.sequence is not None]
        return cls(
            Matches.concat([part.matches for part in parts]),
            np.concatenate([part.image for part in parts]),
            np.concatenate(names) if len(names) == len(parts) else None,
            np.concatenate([part.frame for part in parts]),
            np.concatenate([part.rate for part in parts]),
        )


@dataclass(frozen=True)
class Clips:
    """Frames sorted by sequence, then by time; rows are those of the evidence."""

    row: I64  # (n_frames,) the first row of every frame
    frame_of_row: I64  # (n_rows,) in the sorted order
    offsets: I64  # (n_sequences + 1,) into the frames
    time: F64  # (n_frames,) frame number, NaN if unknown
    rate: F64  # (n_frames,)

    @classmethod
    def of(cls, evidence: SequenceMatches) -> Clips:
        """Return the frames of all sequences."""
        assert evidence.sequence is not None
        code = np.unique(evidence.sequence, return_inverse=True)[1]
        copies = np.unique(evidence.image, return_inverse=True)[1]
        # Copies of a frame are one frame: the first row speaks for all of them.
        pairs = np.stack([code, copies])
        first, of_row = np.unique(pairs, axis=1, return_index=True, return_inverse=True)[1:]
        order = np.lexsort((first, evidence.frame[first], code[first]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        row = first[order]
        counts = np.bincount(code[row]) if len(row) else np.zeros(0, np.int64)
        return cls(
            row=row,
            frame_of_row=place[of_row.reshape(-1)],
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            time=evidence.frame[row],
            rate=evidence.rate[row],
        )

    def multiplicity(self, weights: I64) -> I64:
        """Return (R, n_frames): how often every frame is there."""
        table = np.zeros((len(self.row), len(weights)), np.int64)
        np.add.at(table, self.frame_of_row, np.asarray(weights, np.int64).T)
        return table.T


@dataclass(frozen=True)
class SequenceRecipe(MatchRecipe):
    """A matching, with the columns that say which image is which frame."""

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What two recipes must share to be served by one matching."""
        return ("sequences", super().key)

    def merge(self, other: MatchRecipe) -> SequenceRecipe:
        """Return the recipe that serves both."""
        return SequenceRecipe(tuple(dict.fromkeys((*self.views, *other.views))))

    def collect(self, cohort: Cohort, model: str) -> SequenceMatches:  # type: ignore[override]
        """Match the images of a cohort."""
        groups = cohort.images.groups
        sequence = groups[SEQUENCE].astype(str) if SEQUENCE in groups else None
        return SequenceMatches(
            match(cohort, model, self.views),
            np.asarray(cohort.images.ids).astype(str),
            sequence,
            _numbers(cohort, FRAME),
            _numbers(cohort, RATE),
        )


def _numbers(cohort: Cohort, name: str) -> F64:
    """Return a column of numbers, NaN where there is none."""
    column = cohort.images.groups.get(name)
    if column is None:
        return np.full(cohort.n_images, np.nan)
    try:
        numbers = np.where(column == "", "nan", column) if column.dtype.kind == "U" else column
        return numbers.astype(np.float64)
    except ValueError:
        raise UsageError(
            f"the column {name!r} of the images has words; sequences need numbers"
        ) from None


@dataclass(frozen=True)
class ClipFrames:
    """The frames that are there, of all sequences of some replicates in turn, and what happened in
    each, per class: any class first.
    """

    offsets: I64  # (n_sequences + 1,) into the frames; a sequence may have none
    time: F64  # (n,) in frames
    rate: F64  # (n,) frames per second
    counts: F64  # (n, 1 + n_classes, 3) TP, FP, FN
    referenced: Flags  # (n, 1 + n_classes)

    @property
    def first(self) -> I64:
        """(n_sequences,) the first frame of every sequence."""
        return self.offsets[:-1]

    @cached_property
    def has_reference(self) -> Flags:
        """(n_sequences, 1 + n_classes) whether a frame has a reference."""
        return self.sums(self.referenced) > 0

    @property
    def length(self) -> F64:
        """(n_sequences,) how many frames each lasts, also those that were not read."""
        length = np.zeros(len(self.first))
        filled = np.flatnonzero(np.diff(self.offsets))
        start, stop = self.offsets[filled], self.offsets[filled + 1]
        length[filled] = self.time[stop - 1] - self.time[start] + 1
        return length

    @property
    def mean_rate(self) -> F64:
        """(n_sequences,) frames per second; 1 without any frame."""
        n_frames = np.diff(self.offsets)
        rate = np.ones(len(self.first))
        if len(self.rate) and (self.rate == self.rate[0]).all():
            # The mean of equal numbers may be off by a rounding, which depends on how many.
            for n in np.unique(n_frames[n_frames > 0]).tolist():
                rate[n_frames == n] = self.rate[:n].mean()
            return rate
        for k in np.flatnonzero(n_frames).tolist():
            rate[k] = self.rate[self.offsets[k] : self.offsets[k + 1]].mean()
        return rate

    def sums(self, numbers: F64 | Flags) -> F64:
        """Return (n_sequences, ...) sums of whole numbers (n, ...) over the frames of each."""
        running = np.zeros((len(numbers) + 1, *numbers.shape[1:]))
        np.cumsum(numbers, axis=0, out=running[1:])
        return np.asarray(running[self.offsets[1:]] - running[self.offsets[:-1]])

    def alarms(self, flags: Flags, duration: int) -> Flags:
        """Return (n, ...) where an alarm, a run of flags in a sequence, has lasted long enough:
        once in every run that does.
        """
        frame = np.arange(len(flags)).reshape(-1, *[1] * (flags.ndim - 1))
        # The last frame before, of the same sequence, in which there was no alarm.
        before = np.repeat(self.first - 1, np.diff(self.offsets)).reshape(frame.shape)
        quiet = np.maximum.accumulate(np.where(flags, before, frame), axis=0)
        return np.asarray(frame - quiet == duration)

    def first_of(self, flags: Flags) -> I64:
        """Return (n_sequences, ...) the first frame with a flag; the number of frames if none has
        one.
        """
        n = len(flags)
        first = np.full((len(self.first), *flags.shape[1:]), n)
        filled = np.flatnonzero(np.diff(self.offsets))
        if len(filled):
            frame = np.arange(n).reshape(-1, *[1] * (flags.ndim - 1))
            first[filled] = np.minimum.reduceat(
                np.where(flags, frame, n), self.first[filled], axis=0
            )
        return first


class SequenceMetric(MatchMetric):
    """Base of the metrics that are a ratio of sums over sequences."""

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.recipe = SequenceRecipe(self.recipe.views)
        for plan in plans:
            check_number(plan, "fps", above=0.0)
            check_number(plan, "min_duration", least=1.0)

    def parts(self, frames: ClipFrames, output: Output) -> tuple[F64, F64]:
        """Return what sequences add to numerator and denominator, (n_sequences, 1 + n_classes)
        each.
        """
        raise AssertionError("every metric of sequences has parts")

    def needs_rate(self, output: Output) -> bool:
        """Return whether it is about seconds."""
        return False

    def value(self, evidence: SequenceMatches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names); several thresholds are averaged."""
        columns = []
        for output in self.outputs:
            of_views = [self._values(evidence, weights, output, view) for view in output.views]
            columns.append(np.mean(of_views, axis=0))
        return np.stack(columns, axis=2)

    def _values(self, evidence: SequenceMatches, weights: I64, output: Output, view: View) -> F64:
        """Return (R, 1 + n_classes) under one view."""
        clips, shape = evidence.clips, (len(weights), 1 + evidence.matches.n_classes)
        if self._reason(evidence, output) or clips is None or not len(clips.row):
            return np.full(shape, np.nan)
        present = clips.multiplicity(weights)
        often = np.maximum.reduceat(present, clips.offsets[:-1], axis=1)
        least = np.minimum.reduceat(present, clips.offsets[:-1], axis=1)
        # Whole sequences have the same parts in every replicate.
        is_whole = ((least > 0) | (often == 0)).all(axis=1)
        values = np.full(shape, np.nan)
        if is_whole.any():
            memory = evidence.matches.kept
            key = ("parts of sequences", type(self), repr(output), view)
            if key not in memory:
                every = np.ones((1, len(clips.row)), np.bool_)
                memory[key] = self._all_parts(evidence, output, view, every)
            values[is_whole] = _ratio_of_sums(often[is_whole], memory[key])
        at_once = max(1, AT_ONCE // (len(clips.row) * shape[1]))
        partial = np.flatnonzero(~is_whole)
        for start in range(0, len(partial), at_once):
            rows = partial[start : start + at_once]
            parts = self._all_parts(evidence, output, view, present[rows] > 0)
            values[rows] = _ratio_of_sums(often[rows], parts)
        return values

    def _all_parts(
        self, evidence: SequenceMatches, output: Output, view: View, present: Flags
    ) -> tuple[F64, F64]:
        """Return (R, n_sequences, 1 + n_classes) numerators and denominators, if of R replicates
        (R, n_frames) are present.
        """
        clips = evidence.clips
        assert clips is not None
        counts, referenced = _frame_counts(evidence, view, output.max_dets)
        places = np.flatnonzero(present)
        starts = np.arange(len(present))[:, None] * present.shape[1] + clips.offsets[:-1]
        offsets = np.append(np.searchsorted(places, starts.reshape(-1)), len(places))
        inside = places % present.shape[1]
        time, rate = clips.time[inside], clips.rate[inside]
        is_unknown = np.isnan(time)
        if is_unknown.any():
            # Where a number is missing, the frames of the sequence are in the order of the input.
            first = offsets[:-1]
            sequence = np.repeat(np.arange(len(first)), np.diff(offsets))
            is_unknown = np.bincount(sequence, is_unknown, len(first))[sequence] > 0
            time = np.where(is_unknown, np.arange(len(inside)) - first[sequence], time)
        if output.options.get("fps") is not None:
            rate = np.full(len(inside), float(output.options["fps"]))
        frames = ClipFrames(offsets, time, rate, counts[inside], referenced[inside])
        numerator, denominator = self.parts(frames, output)
        shape = len(present), len(clips.offsets) - 1, counts.shape[1]
        return numerator.reshape(shape), denominator.reshape(shape)

    def counts(self, evidence: SequenceMatches, weights: I64) -> I64:  # type: ignore[override]
        """Return (1 + n_classes, n_names, 3): images, counted references, counted predictions."""
        return super().counts(evidence.matches, weights)

    def support(  # type: ignore[override]
        self, evidence: SequenceMatches, unit: I64, n_units: int
    ) -> I64:
        """Return (1 + n_classes, n_names, 3) numbers of units, as for any metric on matches."""
        return super().support(evidence.matches, unit, n_units)

    def reasons(  # type: ignore[override]
        self, evidence: SequenceMatches
    ) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no sequences, no frame rate, or nothing in them."""
        ones = np.ones(evidence.n_images, np.int64)
        values, table = self.value(evidence, ones[None])[0], self.counts(evidence, ones)
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            objects = self.reason(int(table[row, k, 1]), int(table[row, k, 2]))
            why[row, k] = self._reason(evidence, self.outputs[k]) or objects
        return why

    def _reason(self, evidence: SequenceMatches, output: Output) -> str:
        """Return what the images lack for this metric."""
        if evidence.sequence is None:
            return "no_sequences"
        is_known = output.options.get("fps") is not None or not np.isnan(evidence.rate).any()
        return "no_frame_rate" if self.needs_rate(output) and not is_known else ""


class SequenceFBeta(SequenceMetric):
    """The mean over sequences of F-beta."""

    own_options = ("beta",)
    needed = ("references", "predictions")
    facts = Facts(
        id="sequence-f-beta@1",
        word="F scores of sequences",
        meaning=(
            "F-beta of every sequence, averaged over the sequences: a short one counts as much as "
            "a long one."
        ),
        citations=CITATIONS,
        page=PAGE,
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for plan in plans:
            check_number(plan, "beta", above=0.0)
        self.facts = replace(self.facts, graded=frozenset(self.names))

    def parts(self, frames: ClipFrames, output: Output) -> tuple[F64, F64]:
        """Return F-beta and 1; nothing without any object."""
        square = float(output.options.get("beta", 1.0)) ** 2
        counts = frames.sums(frames.counts)
        hits = (1.0 + square) * counts[..., TP]
        value = ratio(hits, hits + square * counts[..., FN] + counts[..., FP])
        is_defined = ~np.isnan(value)
        return np.where(is_defined, value, 0.0), is_defined.astype(np.float64)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_objects"


class DetectionLatency(SequenceMetric):
    """The mean time from the first frame with a reference to the first hit."""

    own_options = ("unit", "fps", "min_duration")
    facts = Facts(
        id="detection-latency@1",
        bounds=(0.0, float("inf")),
        higher_is_better=False,
        word="detection latency",
        meaning=(
            "Time from the first frame with a reference to the first hit, mean over sequences; "
            "what is never found counts as found after the last frame."
        ),
        citations=CITATIONS,
        page=PAGE,
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        units = {}
        for output in self.outputs:
            check_choice(output, "unit", UNITS)
            units[output.name] = str(output.options.get("unit", UNITS[0]))
        self.facts = replace(self.facts, units=units)

    def needs_rate(self, output: Output) -> bool:
        """Return whether it is about seconds."""
        return bool(output.options.get("unit", UNITS[0]) == "seconds")

    def parts(self, frames: ClipFrames, output: Output) -> tuple[F64, F64]:
        """Return latency and 1; nothing without a reference."""
        has_reference = frames.has_reference
        start = frames.first_of(frames.referenced)
        hit = frames.first_of(frames.alarms(frames.counts[..., TP] > 0, _duration(output)))
        # What is never found counts as found after the last frame.
        last = frames.offsets[1:, None] - 1
        time = np.append(frames.time, np.nan)
        end = np.where(hit < len(frames.time), time[hit], time[last] + 1)
        latency = np.where(has_reference, end - time[start], 0.0)
        if self.needs_rate(output):
            latency = latency / frames.mean_rate[:, None]
        return latency, has_reference.astype(np.float64)


class DetectedSequences(SequenceMetric):
    """The share of sequences with a reference in which there is a hit."""

    own_options = ("min_duration",)
    facts = Facts(
        id="detected-sequences@1",
        trials="images",
        word="detected sequences",
        meaning="The share of sequences with a reference in which it is found at all.",
        citations=CITATIONS,
        page=PAGE,
    )

    def parts(self, frames: ClipFrames, output: Output) -> tuple[F64, F64]:
        """Return whether there is a hit, and 1; nothing without a reference."""
        has_reference = frames.has_reference
        alarms = frames.sums(frames.alarms(frames.counts[..., TP] > 0, _duration(output)))
        is_detected = has_reference & (alarms > 0)
        return is_detected.astype(np.float64), has_reference.astype(np.float64)


class AlarmsPerMinute(SequenceMetric):
    """False alarms per minute of the sequences."""

    own_options = ("fps", "min_duration")
    needed = ()
    tried = ()
    judged = ("predictions",)
    facts = Facts(
        id="alarms-per-minute@1",
        bounds=(0.0, float("inf")),
        higher_is_better=False,
        word="false alarms per minute",
        meaning="Runs of frames with a false alarm, per minute; an alarm that lasts counts once.",
        citations=CITATIONS,
        page=PAGE,
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.facts = replace(self.facts, units=dict.fromkeys(self.names, "alarms per minute"))

    def needs_rate(self, output: Output) -> bool:
        """Return that it is about minutes."""
        return True

    def parts(self, frames: ClipFrames, output: Output) -> tuple[F64, F64]:
        """Return the number of alarms, and the minutes."""
        alarms = frames.sums(frames.alarms(frames.counts[..., FP] > 0, _duration(output)))
        minutes = frames.length / frames.mean_rate / 60.0
        return alarms, np.broadcast_to(minutes[:, None], alarms.shape)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry: there is no image."""
        return "no_objects"


def _frame_counts(evidence: SequenceMatches, view: View, max_dets: int) -> tuple[F64, Flags]:
    """Return (n_frames, 1 + n_classes, 3) hits, false alarms and misses, and where references are;
    computed once for all replicates.
    """
    matches, clips = evidence.matches, evidence.clips
    assert clips is not None
    key = ("frames of sequences", view, max_dets)
    if key not in matches.kept:
        n = matches.n_images
        per_class = unit_counts(matches, view, max_dets, np.arange(n), n)[:, :, : FN + 1]
        pooled = per_class.sum(axis=1, keepdims=True)
        counts = np.concatenate([pooled, per_class], axis=1)[clips.row]
        referenced = np.zeros((n, 1 + matches.n_classes), np.bool_)
        rows = np.flatnonzero(matches.reference_fate[matches.index(view)] != IGNORED)
        referenced[matches.reference_image[rows], 0] = True
        referenced[matches.reference_image[rows], 1 + matches.reference_label[rows]] = True
        matches.kept[key] = counts, referenced[clips.row]
    table: tuple[F64, Flags] = matches.kept[key]
    return table


def _ratio_of_sums(often: I64, parts: tuple[F64, F64]) -> F64:
    """Return (R, 1 + n_classes) for the weights of sequences."""
    numerator, denominator = (_weighted_sum(often, part) for part in parts)
    return ratio(numerator, denominator)


def _weighted_sum(often: I64, part: F64) -> F64:
    """Return sums over sequences. A running sum has the same bits for any number of replicates."""
    return np.asarray(np.cumsum(often[:, :, None] * part, axis=1)[:, -1])


def _duration(output: Output) -> int:
    return int(output.options.get("min_duration", 1))
