# SPDX-License-Identifier: Apache-2.0
"""The ways in which boxes are misread, each as a sample of predictions that is read rightly.

Formats, fractions, axes and sides in another order, boxes at another resolution, mirrored, turned
or moved (`box_trials`). `best_trial` returns the one with which most references are met, if it
convinces; `suspicion` says the same about a model that was read already. Numbers such as a scale
come from the boxes themselves (`calipers.doctor.size_votes`), and a fix with such a number has to
convince more.

The checks of `calipers.doctor.symptoms` and the warnings of an evaluation whose AP is near 0 call
this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.doctor.size_votes import plain_scalings, scalings, shifts
from calipers.doctor.trial import (
    NEAR_ZERO,
    RawPredictions,
    convincing,
    keeps_the_scale,
    overlaps,
    share_met,
    works_for_all_sizes,
)
from calipers.io.source import Progress
from calipers.show.words import percent_text

SOUND = 0.7  # share of references met from which only other orders of numbers are tried
BETTER = 1.1  # times the share that a later trial must meet: plain explanations come first
TRIALS = 400  # of boxes in images of known size that nothing explains
LAYOUTS = ("xyxy", "xywh", "cxcywh")
# What a shift may really be, if all findings lie on one side.
AMBIGUOUS = 0.8
LEAST_MOVED = 0.6  # share of references that a shift must let predictions meet
# Its distance is an estimate, by which nothing is repaired.
MOVED, SCALED = "moved", "resolution"
TURN = "turn the images as the references have them"
X_THEN_Y, Y_THEN_X = [0, 2, 1, 3], [2, 0, 3, 1]  # where x0, y0, x1, y1 stand in other orders


class BoxTrial(NamedTuple):
    """One way in which boxes may have been misread, with the sample that is read rightly."""

    code: str
    words: str  # what the boxes are, after "boxes"
    hint: str
    sample: RawPredictions
    box_format: str | None = None  # that reads them rightly, if a format is all
    fitted: bool = False  # whether its numbers come from the data


def box_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """Yield the ways in which boxes may have been misread, the plainest first."""
    has_sizes = _has_sizes(cohort)
    yield from _format_trials(sample, has_sizes)
    yield from _order_trials(cohort, sample)
    plain = sample.corners(cohort.images.size)
    if has_sizes:
        yield from _turned_trials(cohort, sample)
    elif (plain < 0).any():
        yield from _negated_trials(cohort, sample)
    for scaling in plain_scalings(cohort):
        scaled = _moved(cohort, sample, scaling.undone)
        yield BoxTrial(SCALED, scaling.words, scaling.hint, scaled)
    for scaling in scalings(cohort, sample):
        scaled = _moved(cohort, sample, scaling.undone)
        words, hint = scaling.words, scaling.hint
        yield BoxTrial(SCALED, words, hint, scaled, fitted=True)
        if has_sizes:
            for trial in _turned_trials(cohort, scaled):
                words_of_both = f"{words}, and {trial.words}"
                yield trial._replace(words=words_of_both, hint=f"{hint}; {trial.hint}", fitted=True)
    for shift in shifts(cohort, sample):
        steps = ", ".join(f"{round(-step):+d}" for step in shift)
        moved = _moved(cohort, sample, _shift(shift))
        words = f"are moved by about {steps} pixels along {', '.join('xyz'[: len(shift)])}"
        hint = "if the images were cropped, add the position of the crop to all coordinates"
        yield BoxTrial(MOVED, words, hint, moved, fitted=True)


def combined_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """Yield boxes with two mistakes: another order of the numbers, and another resolution or turn.

    They are tried where no single mistake explains anything.
    """
    readings = [*_format_trials(sample, False), *_order_trials(cohort, sample)]
    for reading in readings:
        for scaling in scalings(cohort, reading.sample):
            words, hint = f"{reading.words}, and {scaling.words}", f"{reading.hint}; {scaling.hint}"
            scaled = _moved(cohort, reading.sample, scaling.undone)
            yield BoxTrial(SCALED, words, hint, scaled, fitted=True)
        if _has_sizes(cohort):
            for trial in _turned_trials(cohort, reading.sample):
                words = f"{reading.words}, and {trial.words}"
                yield trial._replace(words=words, hint=f"{reading.hint}; {trial.hint}", fitted=True)


def _has_sizes(cohort: Cohort) -> bool:
    return bool(np.isfinite(cohort.images.size).all())


def _format_trials(sample: RawPredictions, has_sizes: bool) -> Iterator[BoxTrial]:
    names = [*LAYOUTS]
    if has_sizes:
        names += [f"{layout}-normalised" for layout in LAYOUTS]
    for name in names:
        if name != sample.box_format:
            code = "boxes-normalised" if name.endswith("-normalised") else "box-format"
            hint = f"read the boxes as {name}"
            yield BoxTrial(code, f"are {name}", hint, replace(sample, box_format=name), name)


def _order_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """Axes, sides, corners and columns in another order."""
    layouts = [sample.box_format, *LAYOUTS]
    if _has_sizes(cohort):
        layouts += [f"{layout}-normalised" for layout in LAYOUTS]
    for layout in dict.fromkeys(layouts):
        words = "have x and y swapped"
        if layout != sample.box_format:
            words += f", and are {layout}"
        turned = replace(sample, boxes=_swap(sample.boxes, sample.boxes), box_format=layout)
        yield BoxTrial("axes-swapped", words, "write x before y", _moved(cohort, turned, _same))
    if sample.boxes.shape[1] == 6:
        reverse = _moved(cohort, sample, _reverse)
        yield BoxTrial("axes-swapped", "have z before y and x", "write x, y, z", reverse)
        return
    sides = _moved(cohort, sample, _swap_sides)
    hint = "write the width before the height"
    yield BoxTrial("sides-swapped", "have width and height swapped", hint, sides)
    corners = sample.corners(cohort.images.size)
    if (corners[:, 2:] < corners[:, :2]).any():
        ordered = _moved(cohort, sample, _ordered)
        hint = "write the lower coordinate of every axis first"
        yield BoxTrial("corners-swapped", "have corners in another order", hint, ordered)
    hint = "write the first corner before the second one: x0, y0, x1, y1"
    ends = "-normalised" if sample.box_format.endswith("-normalised") else ""
    for order, words in ((X_THEN_Y, "are x0, x1, y0, y1"), (Y_THEN_X, "are y0, y1, x0, x1")):
        pairs = replace(sample, boxes=sample.boxes[:, order], box_format=f"xyxy{ends}")
        yield BoxTrial("corners-swapped", words, hint, _moved(cohort, pairs, _same))
    if sample.score is not None and ends:
        numbers = np.column_stack([sample.boxes, sample.score])
        behind = replace(sample, boxes=numbers[:, 1:], score=numbers[:, 0].copy())
        words, hint = "have the score before them", "write the score after the box"
        yield BoxTrial("score-first", words, hint, _moved(cohort, behind, _same))


def _turned_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """Boxes of images that were mirrored or turned; without those that a shift explains too."""
    turns: tuple[tuple[str, str, str, Move], ...] = (
        ("mirrored", "are upside down", "measure y from the upper border of the image", _flip_y),
        (
            "mirrored",
            "are mirrored left to right",
            "measure x from the left border of the image",
            _flip_x,
        ),
        (
            "mirrored",
            "have the upper border measured from below",
            "measure y from the upper border of the image",
            _flip_top,
        ),
        (
            "turned",
            "are turned by 180 degrees",
            TURN,
            _half,
        ),
        (
            "turned",
            "are turned by 90 degrees clockwise",
            f"{TURN}: was a rotation by EXIF applied?",
            _quarter_left,
        ),
        (
            "turned",
            "are turned by 90 degrees counterclockwise",
            f"{TURN}: was a rotation by EXIF applied?",
            _quarter_right,
        ),
    )
    for code, words, hint, move in turns:
        if not _like_a_shift(cohort, sample, move):
            yield BoxTrial(code, words, hint, _moved(cohort, sample, move))


def _negated_trials(cohort: Cohort, sample: RawPredictions) -> Iterator[BoxTrial]:
    """World coordinates with other directions of their axes, such as LPS and RAS."""
    for axes in ((0, 1), (0,), (1,), (2,)):
        if max(axes) >= sample.boxes.shape[1] // 2:
            continue
        names = " and ".join("xyz"[axis] for axis in axes)
        words = f"have {names} with the sign reversed"
        if axes == (0, 1):
            words += " (LPS in place of RAS, or the other way round)"
        negated = _moved(cohort, sample, _negate(axes))
        yield BoxTrial("mirrored", words, f"change the sign of {names}", negated)


Move = Callable[[F64, F64], F64]  # corners and image sizes of boxes -> corners


def _moved(cohort: Cohort, sample: RawPredictions, move: Move) -> RawPredictions:
    sizes = cohort.images.size[sample.image]
    corners = move(sample.corners(cohort.images.size), sizes)
    return replace(sample, boxes=corners, box_format="xyxy")


def _like_a_shift(cohort: Cohort, sample: RawPredictions, move: Move) -> bool:
    """Return whether a turn moves nearly all boxes by the same distance, as where all findings lie
    on one side: boxes that are shifted would look the same.
    """
    if not len(sample):
        return True
    corners, sizes = sample.corners(cohort.images.size), cohort.images.size[sample.image]
    half = corners.shape[1] // 2
    distance = move(corners, sizes)[:, :half] - corners[:, :half]
    spread = np.ptp(np.quantile(distance, (0.1, 0.9), axis=0), axis=0)
    typical = np.median(corners[:, half:] - corners[:, :half], axis=0)
    return bool((spread < typical)[:2].all())


def _same(corners: F64, sizes: F64) -> F64:
    return corners


def _swap(corners: F64, sizes: F64) -> F64:
    half = corners.shape[1] // 2
    order = np.arange(2 * half)
    order[[0, 1, half, half + 1]] = [1, 0, half + 1, half]
    return np.ascontiguousarray(corners[:, order])


def _reverse(corners: F64, sizes: F64) -> F64:
    low, high = np.split(corners, 2, axis=1)
    return np.concatenate([low[:, ::-1], high[:, ::-1]], axis=1)


def _swap_sides(corners: F64, sizes: F64) -> F64:
    low, high = np.split(corners, 2, axis=1)
    return np.concatenate([low, low + (high - low)[:, ::-1]], axis=1)


def _ordered(corners: F64, sizes: F64) -> F64:
    low, high = np.split(corners, 2, axis=1)
    return np.concatenate([np.minimum(low, high), np.maximum(low, high)], axis=1)


def _shift(steps: F64) -> Move:
    return lambda corners, sizes: corners + np.concatenate([steps, steps])


def _negate(axes: tuple[int, ...]) -> Move:
    def move(corners: F64, sizes: F64) -> F64:
        moved = corners
        for axis in axes:
            moved = _flipped(moved, np.zeros(len(corners)), axis)
        return moved

    return move


def _flipped(corners: F64, end: F64, axis: int) -> F64:
    """Return corners with an axis that is counted from its other end."""
    half = corners.shape[1] // 2
    moved = corners.copy()
    moved[:, axis] = end - corners[:, half + axis]
    moved[:, half + axis] = end - corners[:, axis]
    return moved


def _flip_x(corners: F64, sizes: F64) -> F64:
    return _flipped(corners, sizes[:, 0], 0)


def _flip_y(corners: F64, sizes: F64) -> F64:
    return _flipped(corners, sizes[:, 1], 1)


def _flip_top(corners: F64, sizes: F64) -> F64:
    # The side that lies above is counted from below, and the height is added to it.
    lower, upper = 1, corners.shape[1] // 2 + 1
    height = corners[:, upper] - corners[:, lower]
    moved = _flip_y(corners, sizes)
    moved[:, [lower, upper]] += height[:, None]
    return moved


def _half(corners: F64, sizes: F64) -> F64:
    return _flip_y(_flip_x(corners, sizes), sizes)


def _quarter_left(corners: F64, sizes: F64) -> F64:
    # Clockwise, (x, y) became (height - y, x): the first axis is height - y now.
    return _flip_y(_swap(corners, sizes), sizes)


def _quarter_right(corners: F64, sizes: F64) -> F64:
    return _flip_x(_swap(corners, sizes), sizes)


class BoxVerdict(NamedTuple):
    """A trial that convinced, and the shares of references met without and with it."""

    trial: BoxTrial
    share_before: float
    share_after: float


def best_trial(
    cohort: Cohort,
    sample: RawPredictions,
    *,
    is_single: bool = False,
    progress: Progress | None = None,
) -> BoxVerdict | None:
    """Return the fix of the boxes with which most references are met, if one convinces; of two
    mistakes at once only if not ``is_single``. ``progress`` is called with every trial.
    """
    # Places only: classes may be numbered wrongly at the same time.
    before = overlaps(cohort, sample, by_class=False)
    n = sample.n
    if not len(before):
        return None
    if share_met(before, n) >= SOUND:
        # Boxes with width for height lie on their references all the same, but worse.
        orders = [trial._replace(fitted=True) for trial in _order_trials(cohort, sample)]
        return _best_of(cohort, before, n, orders)
    numbers = count(1)
    best = _best_of(cohort, before, n, _told(box_trials(cohort, sample), numbers, progress))
    if best is None and not is_single:
        trials = _told(combined_trials(cohort, sample), numbers, progress)
        best = _best_of(cohort, before, n, trials)
    if best is not None and best.trial.code == MOVED and _may_be_turned(cohort, sample, best):
        return None
    return best


def _told(
    trials: Iterable[BoxTrial], numbers: Iterator[int], progress: Progress | None
) -> Iterator[BoxTrial]:
    """Yield trials, and say which one comes next; how many there are is not known before."""
    for trial in trials:
        number = next(numbers)
        if progress is not None:
            progress(f"trial {number}, boxes {trial.words}", min(number, TRIALS), TRIALS)
        yield trial


def _best_of(cohort: Cohort, before: F64, n: int, trials: Iterable[BoxTrial]) -> BoxVerdict | None:
    best: BoxVerdict | None = None
    overlap = 0.0
    for trial in trials:
        after = overlaps(cohort, trial.sample, by_class=False)
        share = share_met(after, n)
        if not convincing(before, after, n, fitted=trial.fitted):
            continue
        if not works_for_all_sizes(cohort, trial.sample, after):
            continue
        if trial.code == MOVED and share < LEAST_MOVED:
            continue
        if trial.code == SCALED and not keeps_the_scale(cohort, trial.sample):
            continue
        # A later trial must be clearly better: formats come before stranger explanations. Numbers
        # that are near each other, such as 1000 and 1024, meet about the same references, one more
        # or less by chance; the right one meets them best.
        is_better = best is None or share > BETTER * best.share_after
        is_closer = False
        if best is not None and trial.code == best.trial.code:
            is_closer = after.sum() > overlap and BETTER * share >= best.share_after
        if is_better or is_closer:
            best = BoxVerdict(trial, share_met(before, n), share)
            overlap = float(after.sum())
    return best


def _may_be_turned(cohort: Cohort, sample: RawPredictions, best: BoxVerdict) -> bool:
    """Return whether a turn explains what a shift does: where all findings lie on one side."""
    if not np.isfinite(cohort.images.size).all():
        return False
    for move in (_flip_x, _flip_y, _half):
        after = overlaps(cohort, _moved(cohort, sample, move), by_class=False)
        if share_met(after, sample.n) >= AMBIGUOUS * best.share_after:
            return True
    return False


def _part_of(progress: Progress | None, k: int, n: int) -> Progress | None:
    """Return the progress of the k-th of n searches, which counts to the end of all of them."""
    if progress is None:
        return None
    return lambda name, n_done, total: progress(name, k * total + n_done, n * total)


def suspicion(cohort: Cohort, model: str, progress: Progress | None = None) -> str | None:
    """Return in words why a checked model meets hardly a reference, if its classes or the way in
    which its boxes were read explain that.
    """
    sample = RawPredictions.compared(cohort.predictions(model))
    n = sample.n
    placed, right = overlaps(cohort, sample, by_class=False), overlaps(cohort, sample)
    if share_met(right, n) < NEAR_ZERO and convincing(right, placed, n):
        share = share_met(placed, n)
        return (
            f"{percent_text(share)} of the references are overlapped by a box of another class: "
            "check the classes"
        )
    # The format in which the file was read is not known here: the one that explains most counts.
    verdicts: dict[str, BoxVerdict] = {}
    for k, layout in enumerate(LAYOUTS):
        # Two mistakes are tried once: that tries all layouts.
        is_single = layout != LAYOUTS[-1] or bool(verdicts)
        part = _part_of(progress, k, len(LAYOUTS))
        own_sample = sample.written_as(layout)
        verdict = best_trial(cohort, own_sample, is_single=is_single, progress=part)
        if verdict is not None:
            verdicts[layout] = verdict
    if not verdicts:
        return None
    layout = max(verdicts, key=lambda name: verdicts[name].share_after)
    trial, _, share = verdicts[layout]
    words = trial.words
    if trial.box_format is not None:
        words += f", but were read as {layout}"
    return f"it seems that boxes {words} ({percent_text(share)} of the references would be matched)"
