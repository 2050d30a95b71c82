# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with the predictions of a model beside references: one function per mistake.

A check of `MODEL_CHECKS` yields `Symptom`s. One that knows a fix has tried it (`doctor.trial`) and
hands the fixed predictions to the checks after it, so that two mistakes in one file are both found.
A new check is one function and one entry in these lists. `calipers.doctor.checkup` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.data.objects import from_corners, to_corners
from calipers.data.rules import PERCENT, are_percentages, are_ranks
from calipers.doctor.box_trials import LAYOUTS, MOVED, best_trial
from calipers.doctor.class_agreement import targets
from calipers.doctor.findings import MOST_EXAMPLES, Level, Symptom, few, gain_text
from calipers.doctor.map_scores import agreement_with_error
from calipers.doctor.name_symptoms import (
    IMAGE_NAMES,
    class_meanings,
    class_names,
    class_numbers,
    image_names,
    image_numbers,
)
from calipers.doctor.reference_checks import SPLIT_COLUMNS, reference_file
from calipers.doctor.trial import (
    HIT,
    LEAST_SHARE,
    NEAR_ZERO,
    Case,
    convincing,
    overlaps,
    share_met,
)
from calipers.io.assemble import FOLDER
from calipers.show.words import digits, percent_text

SPLIT_NAMES = ("train", "trainval", "val", "valid", "validation", "test", "testing", "training")
OTHER_SPLITS, REPEATED, UNMET = "other-splits", "repeated", "unmet"
CLEARLY, CERTAINLY = 3.0, 5.0  # standard errors below chance
MOST_INVERTED = 0.25  # share of pairs in which the prediction on a reference has the higher score
MOST_CONFUSED = 0.2  # of the references that are met at all, those met by their own class
MOST_BEYOND = 0.1  # share of scores outside of 0..1 from which none is a probability
MANY_REFERENCES = 10  # of a class, from which its absence among predictions is told
BY_CHANCE = 0.01  # probability that a model is silent on a whole split although it was run there
# Share of references met that may be chance, and images further on by which that is tried.
MOST_BY_CHANCE, OTHER_IMAGES = 0.15, 5
FEWEST_REPEATED, LEAST_REPEATED = 10, 0.2  # predictions, and share of copies among them


# Predictions of a model


def repeated(case: Case) -> Iterator[Symptom]:
    """The same predictions several times: a file was written twice, or runs were joined."""
    sample = case.sample
    if len(sample) < FEWEST_REPEATED or sample.score is None:
        return
    columns = [sample.image, sample.label, sample.score, *sample.boxes.T]
    first = np.unique(np.column_stack(columns), axis=0, return_index=True)[1]
    n_copies = len(sample) - len(first)
    if n_copies < LEAST_REPEATED * len(sample):
        return
    image = np.full(len(sample), -1, np.int64)
    image[first] = sample.image[first]
    yield Symptom(
        REPEATED,
        "warning",
        case.file,
        "predictions that repeat another one, with the same image, class, box and score: each "
        "counts as a false alarm",
        n_copies,
        len(sample),
        "write every prediction once: was the file written twice?",
        few([np.round(box, 3).tolist() for box in np.delete(sample.boxes, first, axis=0)[:3]]),
        {},
        replace(sample, image=image),
    )


def ranks(case: Case) -> Iterator[Symptom]:
    """Scores are places in a list, in which 1 is the best."""
    score = case.sample.score
    if score is None or not are_ranks(score):
        return
    agreement, error = _agreement(case)
    # Else the highest place is the best one, or nothing tells: as they are, they rank.
    if agreement > 0.5 - CLEARLY * error:
        return
    n = len(score)
    yield Symptom(
        "score-ranks",
        "error",
        case.file,
        f"scores are whole numbers from 1 to {score.max():g}, and low ones lie on references: they "
        "look like ranks",
        n,
        n,
        "write scores that are high for likely findings, such as 1 - rank / number",
        few([f"{value:g}" for value in np.sort(score)[:MOST_EXAMPLES].tolist()]),
        {},
        replace(case.sample, score=1.0 - (score - 1.0) / n),
    )


def inverted_scores(case: Case) -> Iterator[Symptom]:
    """Low scores lie on references, and high ones beside them."""
    score = case.sample.score
    if score is None or not len(score) or not np.isfinite(score).all():
        return
    agreement, error = _agreement(case)
    # Probabilities are high for likely findings by their meaning, and only much evidence speaks
    # against that. Other numbers have no such meaning, and the references decide.
    is_unit = score.min() >= 0 and score.max() <= 1
    level: Level = "error"
    below, other = CLEARLY, -score
    hint = "if the score is a distance, a loss or an uncertainty, reverse its sign"
    if is_unit:
        level, below, other = "warning", CERTAINLY, 1.0 - score
        hint += ": 1 - score"
    if agreement > min(MOST_INVERTED, 0.5 - below * error):
        return
    yield Symptom(
        "score-inverted",
        level,
        case.file,
        "predictions on references have lower scores than all others: "
        f"in {percent_text(1 - agreement)} of the pairs of one of each",
        len(score),
        len(score),
        hint,
        few([f"{value:g}" for value in np.sort(score)[:MOST_EXAMPLES].tolist()]),
        {},
        replace(case.sample, score=other),
    )


def _agreement(case: Case) -> tuple[float, float]:
    """Return how often, of a prediction on a reference and one beside all, the first has the higher
    score, and the standard error of that where scores mean nothing.
    """
    score = case.sample.score
    rows, target = targets(case.cohort, case.sample)
    if score is None or not len(rows):
        return 0.5, 1.0
    return agreement_with_error(score[rows[target >= 0]], score[rows[target < 0]])


def silent_classes(case: Case) -> Iterator[Symptom]:
    """Classes with many references of which a model has no prediction at all."""
    label = case.cohort.references.label[~case.cohort.references.ignore]
    n_references = np.bincount(label, minlength=len(case.cohort.classes))
    own = case.sample.label[case.sample.label >= 0]
    n_own = np.bincount(own, minlength=len(case.cohort.classes))
    silent = np.flatnonzero((n_own == 0) & (n_references >= MANY_REFERENCES))
    if not len(silent) or len(own) < MANY_REFERENCES:
        return
    names = [f"{case.cohort.classes[k]}: {n_references[k]} references" for k in silent.tolist()]
    yield Symptom(
        "silent-classes",
        "note",
        case.file,
        "classes without a prediction: all their references count as missed",
        len(silent),
        len(case.cohort.classes),
        "check that the model knows these classes, or leave them out of the references",
        few(names),
    )


def score_range(case: Case) -> Iterator[Symptom]:
    """Scores are percentages, or no probabilities at all."""
    score = case.sample.score
    if score is None or not len(score) or not np.isfinite(score).all():
        return
    beyond = (score < 0) | (score > 1)
    if not beyond.any():
        return
    examples = few([f"{value:g}" for value in np.unique(score[beyond])[:MOST_EXAMPLES].tolist()])
    if are_percentages(score):
        yield Symptom(
            "score-percent",
            "error",
            case.file,
            f"scores run from {score.min():g} to {score.max():g}: percentages",
            int(beyond.sum()),
            len(score),
            "divide the scores by 100",
            examples,
            {},
            replace(case.sample, score=score / PERCENT),
        )
    # Some scores beyond 1 among probabilities are errors of their records, and stay so.
    elif beyond.mean() > MOST_BEYOND:
        yield Symptom(
            "score-raw",
            "error",
            case.file,
            f"scores run from {score.min():g} to {score.max():g}: not probabilities",
            int(beyond.sum()),
            len(score),
            "rank by them as they are",
            examples,
            {"score_scale": "raw"},
            case.sample,
        )


def boxes(case: Case) -> Iterator[Symptom]:
    """Boxes are in another format, at another resolution, swapped or mirrored."""
    verdict = best_trial(case.cohort, case.sample, progress=case.progress)
    if verdict is None:
        return
    trial = verdict.trial
    reading = {}
    if trial.box_format is not None:
        reading = {"box_format": (case.reference_format, trial.box_format)}
    first_boxes = [np.round(box, 3).tolist() for box in case.sample.boxes[:MOST_EXAMPLES]]
    read_as = f", read as {case.sample.box_format}" if trial.box_format else ""
    yield Symptom(
        trial.code,
        "error",
        case.file,
        f"boxes {trial.words}{read_as}: {percent_text(verdict.share_after)} of the references are "
        f"matched with the fix, {percent_text(verdict.share_before)} without",
        len(case.sample),
        len(case.sample),
        trial.hint,
        few(first_boxes),
        reading,
        None if trial.code == MOVED else trial.sample,
    )


def reference_boxes(case: Case) -> Iterator[Symptom]:
    """The boxes of the references are in another format, those of the predictions are right."""
    cohort, sample = case.cohort, case.sample
    before = overlaps(cohort, sample, by_class=False)
    own_layout, _, ending = case.reference_format.partition("-")
    # Masks and inclusive corners leave no doubt.
    is_open = own_layout in LAYOUTS and ending in ("", "normalised")
    if not is_open or cohort.references.masks is not None or not len(before):
        return
    if share_met(before, len(sample)) >= NEAR_ZERO:
        return
    references = cohort.references
    boxes = from_corners(references.boxes, own_layout)
    for layout in LAYOUTS:
        if layout == own_layout:
            continue
        corners, extent = to_corners(boxes, layout)
        other = replace(references, boxes=corners, extent=np.abs(extent), area=np.abs(extent))
        mended = replace(cohort, references=other)
        after = overlaps(mended, sample, by_class=False)
        if not convincing(before, after, len(sample), fitted=True):
            continue
        name = f"{layout}-{ending}" if ending else layout
        yield Symptom(
            "box-format",
            "error",
            reference_file(cohort),
            f"boxes of the references are {name}, read as {case.reference_format}"
            + gain_text(before, after, sample),
            len(references),
            len(references),
            f"read the references as {name}",
            few([np.round(box, 3).tolist() for box in boxes[:MOST_EXAMPLES]]),
            {"box_format": (name, sample.box_format)},
            sample,
            mended,
        )
        return


def unmet(case: Case) -> Iterator[Symptom]:
    """Hardly a prediction lies on a reference, and nothing explains it."""
    best = overlaps(case.cohort, case.sample)
    n = len(case.sample)
    placed = share_met(overlaps(case.cohort, case.sample, by_class=False), n)
    # A guess among three classes is right more often than that.
    least = max(NEAR_ZERO, MOST_CONFUSED * placed)
    if min(len(best), n) < MANY_REFERENCES:
        return
    if share_met(best, n) >= least and not _is_met_by_chance(case, best):
        return
    reason = (
        "the model finds nothing, or its boxes belong to other images or places; no common mistake "
        "explains it"
    )
    hint = "compare some predictions with their images"
    if placed >= LEAST_SHARE:
        reason = f"boxes of other classes overlap {percent_text(placed)} of them"
        hint = "check the classes"
    yield Symptom(
        UNMET,
        "note",
        case.file,
        f"hardly any box matches a reference of its class (IoU 0.5): {reason}",
        int((best >= HIT).sum()),
        len(best),
        hint,
        few([np.round(box, 3).tolist() for box in case.sample.boxes[:MOST_EXAMPLES]]),
    )


def _is_met_by_chance(case: Case, best: F64) -> bool:
    """Return whether predictions meet few references, and no more than on other images: large boxes
    without any skill meet some.
    """
    sample, n_images = case.sample, case.cohort.n_images
    if share_met(best, len(sample)) >= MOST_BY_CHANCE or n_images <= OTHER_IMAGES:
        return False
    counts = []
    for further in range(1, OTHER_IMAGES + 1):
        image = np.where(sample.image < 0, -1, (sample.image + further) % n_images)
        elsewhere = overlaps(case.cohort, replace(sample, image=image))
        counts.append(int((elsewhere >= HIT).sum()))
    expected = float(np.mean(counts))
    n_met = int((best >= HIT).sum())
    return n_met <= expected + CLEARLY * math.sqrt(expected)


def image_order(case: Case) -> Iterator[Symptom]:
    """Only their order says on which images predictions are, and on the next image each they meet
    as many references.
    """
    if not case.in_order:
        return
    sample, n_images = case.sample, case.cohort.n_images
    beside = replace(sample, image=np.where(sample.image < 0, -1, (sample.image + 1) % n_images))
    here, there = overlaps(case.cohort, sample), overlaps(case.cohort, beside)
    if min(len(here), len(sample)) < MANY_REFERENCES:
        return
    if share_met(here, len(sample)) > 2 * share_met(there, len(sample)):
        return
    yield Symptom(
        "image-order",
        "error",
        case.file,
        "predictions name no images, and in the order of the references they match no more of them "
        "than on the next image each",
        int((here >= HIT).sum()),
        len(here),
        "write image_id in every entry",
    )


def constant_scores(case: Case) -> Iterator[Symptom]:
    """All scores are equal: nothing is ranked."""
    score = case.sample.score
    if score is None or len(score) < 2 or score.min() < score.max():
        return
    yield Symptom(
        "score-constant",
        "warning",
        case.file,
        "all scores are equal: average precision depends on the order of the records",
        len(score),
        len(score),
        "export the confidence of the model with every box",
        few([f"{score[0]:g}"]),
    )


def missing_cases(case: Case) -> Iterator[Symptom]:
    """Images without any prediction, although the model says much on all others.

    Counts of detections fall off smoothly towards 0. Many silent images beside hardly any with a
    single box are not the end of that slope: their cases were never run.
    """
    references = np.diff(case.cohort.references.offsets)
    image = case.sample.image[case.sample.image >= 0]
    counts = np.bincount(image, minlength=case.cohort.n_images)[references > 0]
    silent = np.flatnonzero(references > 0)[counts == 0]
    positive = counts[counts > 0]
    if len(silent) < 2 or len(positive) < 5 or positive.mean() < 3:
        return
    if len(silent) <= 3 * (int((counts == 1).sum()) + 1):
        return
    yield Symptom(
        "missing-cases",
        "warning",
        case.file,
        "images with references and no prediction; the others have "
        f"{digits(positive.mean(), 2)} each",
        len(silent),
        len(counts),
        "run the model on these images too, or leave them out of the references",
        few([case.cohort.images.ids[k] for k in silent[:MOST_EXAMPLES].tolist()]),
    )


def other_splits(case: Case) -> Iterator[Symptom]:
    """The references hold several splits, and the model was run on one of them only."""
    column, split = _splits(case.cohort)
    if split is None:
        return
    has_references = np.diff(case.cohort.references.offsets) > 0
    image = case.sample.image[case.sample.image >= 0]
    has_predictions = np.bincount(image, minlength=case.cohort.n_images) > 0
    predicted = np.unique(split[has_predictions]).tolist()
    if len(predicted) != 1:
        return
    own_split = str(predicted[0])
    is_own = split == own_split
    n_own = int((is_own & has_references).sum())
    n_spoken = int((is_own & has_references & has_predictions).sum())
    n_others = int((~is_own & has_references).sum())
    # Were it run on the others, it would speak on them as often as on its own.
    if (1.0 - (n_spoken + 0.5) / (n_own + 1.0)) ** n_others >= BY_CHANCE:
        return
    yield Symptom(
        OTHER_SPLITS,
        "warning",
        case.file,
        f"all predictions are for the split {own_split!r}: references in other splits count as "
        "missed",
        n_others,
        n_own + n_others,
        "evaluate the images of this split",
        few(predicted),
        {"where": f"{column}={own_split}"},
        case.sample,
    )


def _splits(cohort: Cohort) -> tuple[str, NDArray[Any] | None]:
    """Return the split of every image and the column that has it: ``folder`` for the first folder
    of the name of an image.
    """
    groups = {name.lower(): name for name in cohort.images.groups}
    for name in SPLIT_COLUMNS:
        if name in groups:
            column = groups[name]
            texts = map(str, cohort.images.groups[column].tolist())
            return column, np.array(list(texts))
    folders = [name.partition("/")[0] for name in cohort.images.ids]
    is_split = all(folder.lower() in SPLIT_NAMES for folder in folders)
    return FOLDER, np.array(folders) if is_split and len(set(folders)) > 1 else None


def fractions(case: Case) -> Iterator[Symptom]:
    """Boxes lie within 0..1, and nothing could be tried: sizes of images are unknown."""
    sample, references = case.sample, case.cohort.references
    if len(sample) < 3 or sample.box_format.endswith("-normalised"):
        return
    if not ((sample.boxes >= 0) & (sample.boxes <= 1)).all():
        return
    if len(references) and references.boxes.max() <= 2:
        return
    yield Symptom(
        "boxes-normalised",
        "warning",
        case.file,
        "all boxes lie within 0..1: fractions of the image?",
        len(sample),
        len(sample),
        "fractions need the sizes of the images: columns width and height of the references, or of "
        f"--groups TABLE, and --box-format ,{sample.box_format}-normalised",
        few([np.round(box, 3).tolist() for box in sample.boxes[:MOST_EXAMPLES]]),
    )


ModelCheck = Callable[[Case], Iterator[Symptom]]
# Names before places: boxes can be compared only where images and classes are known.
MODEL_CHECKS: tuple[ModelCheck, ...] = (
    image_names,
    class_names,
    boxes,
    reference_boxes,
    image_numbers,
    class_numbers,
    class_meanings,
    image_order,
    unmet,
    repeated,
    ranks,
    inverted_scores,
    score_range,
    constant_scores,
    silent_classes,
    missing_cases,
    other_splits,
    fractions,
)
# Without references.
SUBMISSION_CHECKS: tuple[ModelCheck, ...] = (score_range, constant_scores, fractions)

# Rules of reading that are broken because of a finding, and need no line of their own.
_NAMES = ("unknown-image", "id-type")
_SHAPES = ("neg-size", "zero-area", "box-format-suspect", "outside", UNMET)
EXPLAINS: Mapping[str, tuple[str, ...]] = {
    IMAGE_NAMES: _NAMES,
    "image-numbers": _NAMES,
    "class-names": ("unknown-category",),
    "class-numbers": ("unknown-category", "id-type"),
    "classes-exchanged": ("unknown-category",),
    "score-percent": ("score-range",),
    "score-raw": ("score-range",),
    "score-ranks": ("score-range",),
    "box-format": _SHAPES,
    "boxes-normalised": _SHAPES,
    "axes-swapped": _SHAPES,
    "resolution": _SHAPES,
    "mirrored": _SHAPES,
    "turned": _SHAPES,
    "moved": _SHAPES,
    "sides-swapped": _SHAPES,
    "corners-swapped": _SHAPES,
    "score-first": (*_SHAPES, "score-range"),
    OTHER_SPLITS: ("missing-cases",),
}
