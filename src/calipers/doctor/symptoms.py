# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with references and predictions: one function per mistake.

`COHORT_CHECKS` look at the references with their images, `MODEL_CHECKS` at the predictions of one
model beside them. A check yields `Symptom`s. One that knows a fix has tried it (`doctor.trial`) and
hands the fixed predictions to the checks after it, so that two mistakes in one file are both found.
A new check is one function and one entry in these lists. `calipers.doctor.checkup` runs them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.data.cohort import ORIGINAL, Cohort
from calipers.data.rules import PERCENT, are_percentages
from calipers.doctor.spelling import class_index, image_index
from calipers.doctor.trial import RawPredictions, best_trial, convincing, overlaps, share_met
from calipers.io.reader import Key

Level = Literal["error", "warning", "note"]
MOST_EXAMPLES = 5
LONGEST = 100  # characters of an example
SPLIT_COLUMNS = ("split", "subset", "fold", "partition", "set", "train_val_test")
CENTRE_COLUMNS = ("centre", "center", "site", "hospital", "institution", "clinic", "scanner")
SPLIT_NAMES = ("train", "trainval", "val", "valid", "validation", "test", "testing", "training")
OTHER_SPLITS = "other-splits"
BY_CHANCE = 0.01  # probability that a model is silent on a whole split although it was run there
FEWEST_UNITS = 5  # with references of a class: fewer give no interval that can be trusted
# A patient's part of a name: everything before the last separated number or letter code.
PARTS = re.compile(r"^(?P<patient>.+?)[_\-. ](?P<rest>[^_\-. ]+)$")
NUMBER = re.compile(r"\d")


@dataclass(frozen=True)
class Symptom:
    """One finding: what it is, how many, examples, and what to do about it."""

    code: str
    level: Level
    about: str  # a file
    message: str
    count: int
    total: int
    hint: str = ""
    examples: tuple[str, ...] = ()
    # The fix: keywords of `calipers.read` that do it, and the predictions as they should be.
    reading: Mapping[str, Any] = field(default_factory=dict)
    remedy: RawPredictions | None = field(default=None, repr=False)

    @property
    def is_rewritten(self) -> bool:
        """Whether no option reads the file rightly, so that the predictions must be rewritten."""
        return self.remedy is not None and not self.reading

    def lines(self) -> Iterator[str]:
        """Yield the finding for a terminal: the hint first, then what was seen, then examples."""
        yield f"  {self.code} ({self.level}) in {self.about}"
        if self.hint:
            yield f"    fix        {self.hint}"
        yield f"    seen       {self.message}; {self.count} of {self.total}"
        for k, example in enumerate(self.examples):
            label = "" if k else "examples"
            yield f"    {label:<10} {example}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON output."""
        return {
            "code": self.code,
            "level": self.level,
            "file": self.about,
            "message": self.message,
            "count": self.count,
            "total": self.total,
            "hint": self.hint,
            "examples": list(self.examples),
        }


def conclusion(findings: Sequence[Symptom], commands: Sequence[str]) -> list[str]:
    """Return the lines that end every checkup: the findings, and the command that works."""
    lines: list[str] = []
    if findings:
        lines += ["", f"Findings       {len(findings)}"]
        for symptom in findings:
            lines += symptom.lines()
    if commands:
        lines += ["", "The command that works"]
        lines += [f"  {command}" for command in commands]
    elif any(symptom.level == "error" for symptom in findings):
        lines += ["", "No command evaluates these files as they are: see the findings."]
    return lines


@dataclass(frozen=True)
class Case:
    """The predictions of a model beside the references."""

    cohort: Cohort
    file: str
    sample: RawPredictions
    image_keys: Sequence[Key]  # ids as the references type them
    class_keys: Mapping[Key, int] | None
    reference_format: str = "xyxy"


def few(values: Sequence[object] | set[Any]) -> tuple[str, ...]:
    """Return the first examples as text, each once."""
    texts = dict.fromkeys(str(value) for value in values)
    return tuple(text[:LONGEST] for text in list(texts)[:MOST_EXAMPLES])


# Predictions of a model


def image_names(case: Case) -> Iterator[Symptom]:
    """Images are called otherwise than in the references: folder, extension, case, type."""
    unknown = case.sample.image_names
    if not unknown:
        return
    names = [str(name) for name in unknown.values()]
    match = image_index(names, case.cohort)
    if match is None:
        return
    image = case.sample.image.copy()
    for row, name in unknown.items():
        image[row] = match.images[str(name)]
    remedy = replace(case.sample, image=image, image_names={})
    reading = {}
    hint = "write the names of the images as in the references"
    if match.how == "type":
        reading = {"ids_as_strings": True}
        hint = "compare ids as text"
    pairs = [f"{name} is {case.cohort.images.ids[k]}" for name, k in match.images.items()]
    yield Symptom(
        "image-names",
        "error",
        case.file,
        f"names of images differ from those of the references by {match.words}",
        len(match.images),
        len(match.images),
        hint,
        few(pairs),
        reading,
        remedy,
    )


def image_numbers(case: Case) -> Iterator[Symptom]:
    """Image numbers start at 0 in one file and at 1 in the other."""
    keys = case.image_keys
    places = {_number(key): k for k, key in enumerate(keys)}
    if None in places:
        return
    yield from _renumbered(case, "image", places, case.sample.image, case.sample.image_names)


def class_names(case: Case) -> Iterator[Symptom]:
    """Class names differ by case, signs or spelling."""
    unknown = case.sample.label_names
    if not unknown:
        return
    counts = Counter(map(str, unknown.values()))
    renamed = class_index(list(counts), case.cohort.classes)
    for name in list(renamed):
        if not renamed[name].is_certain and not _agrees(case, name, renamed[name].label):
            del renamed[name]
    if renamed:
        label = case.sample.label.copy()
        names = dict(unknown)
        for row, key in unknown.items():
            if str(key) in renamed:
                label[row] = renamed[str(key)].label
                del names[row]
        pairs = [
            f"{name!r} is {case.cohort.classes[target.label]!r}" for name, target in renamed.items()
        ]
        yield Symptom(
            "class-names",
            "error",
            case.file,
            "class names differ from those of the references by case or spelling",
            sum(counts[name] for name in renamed),
            len(case.sample),
            "write the class names as in the references",
            few(pairs),
            {},
            replace(case.sample, label=label, label_names=names),
        )


def class_numbers(case: Case) -> Iterator[Symptom]:
    """Class numbers start at 0 in one file and at 1 in the other, or stand for names."""
    sample, classes = case.sample, case.cohort.classes
    keys = case.class_keys
    places: dict[int | None, int] = {}
    if keys is not None:
        places = {_number(key): label for key, label in keys.items()}
    else:
        places = {_number(name): label for label, name in enumerate(classes)}
    if None not in places:
        yield from _renumbered(case, "class", places, sample.label, sample.label_names)
        return
    numbers = {row: _number(name) for row, name in sample.label_names.items()}
    if not numbers or None in numbers.values():
        return
    before = overlaps(case.cohort, sample)
    for start in (0, 1):
        label = sample.label.copy()
        for row, number in numbers.items():
            place = (number or 0) - start
            label[row] = place if 0 <= place < len(classes) else -1
        remedy = replace(sample, label=label, label_names={})
        after = overlaps(case.cohort, remedy)
        if (label >= 0).all() and convincing(before, after, len(sample)):
            pairs = [f"{k + start} is {name!r}" for k, name in enumerate(classes)]
            yield Symptom(
                "class-numbers",
                "error",
                case.file,
                f"classes are numbers from {start}, in the order of the references"
                + _gain(before, after, sample),
                len(numbers),
                len(sample),
                "write the names of the classes instead of their numbers",
                few(pairs),
                {},
                remedy,
            )
            return


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
    elif beyond.mean() > 0.5:
        yield Symptom(
            "score-raw",
            "error",
            case.file,
            f"scores run from {score.min():g} to {score.max():g}: no probabilities",
            int(beyond.sum()),
            len(score),
            "rank by them as they are",
            examples,
            {"score_scale": "raw"},
            case.sample,
        )


def boxes(case: Case) -> Iterator[Symptom]:
    """Boxes are in another format, at another resolution, swapped or mirrored."""
    verdict = best_trial(case.cohort, case.sample)
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
        f"boxes {trial.words}{read_as}: {verdict.share_after:.0%} of the references are met "
        f"with the fix, {verdict.share_before:.0%} without",
        len(case.sample),
        len(case.sample),
        trial.hint,
        few(first_boxes),
        reading,
        trial.sample,
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
        f"images with references and no prediction; the others have {positive.mean():.1f} each",
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
    hint = "give the references of this split only"
    reading: dict[str, Any] = {}
    if column:
        hint, reading = "evaluate the images of this split", {"where": f"{column}={own_split}"}
    yield Symptom(
        OTHER_SPLITS,
        "warning",
        case.file,
        f"all predictions are for the split {own_split!r}: images with references in other splits "
        "count as missed",
        n_others,
        n_own + n_others,
        hint,
        few(predicted),
        reading,
        case.sample if column else None,
    )


def _splits(cohort: Cohort) -> tuple[str, NDArray[Any] | None]:
    """Return the split of every image and the column that has it: "" for the first folder of the
    name of an image.
    """
    groups = {name.lower(): name for name in cohort.images.groups}
    for name in SPLIT_COLUMNS:
        if name in groups:
            column = groups[name]
            texts = map(str, cohort.images.groups[column].tolist())
            return column, np.array(list(texts))
    folders = [name.partition("/")[0] for name in cohort.images.ids]
    is_split = all(folder.lower() in SPLIT_NAMES for folder in folders)
    return "", np.array(folders) if is_split and len(set(folders)) > 1 else None


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


def _renumbered(
    case: Case,
    what: str,
    places: Mapping[int | None, int],
    codes: I64,
    unknown: Mapping[int, object],
) -> Iterator[Symptom]:
    """Yield the step by which the numbers of two files differ, if one lets predictions hit."""
    sample = case.sample
    numbers_of = {place: number or 0 for number, place in places.items()}
    numbers = np.full(len(sample), np.iinfo(np.int64).min)
    for code, number in numbers_of.items():
        numbers[codes == code] = number
    for row, name in unknown.items():
        own_number = _number(name)
        if own_number is None:
            return
        numbers[row] = own_number
    before = overlaps(case.cohort, sample)
    if share_met(before, len(sample)) >= 0.7:
        return
    for step in (1, -1):
        moved = np.array([places.get(int(number) + step, -1) for number in numbers.tolist()])
        changes: dict[str, Any] = {"image": moved, "image_names": {}}
        if what == "class":
            changes = {"label": moved, "label_names": {}}
        remedy = replace(sample, **changes)
        after = overlaps(case.cohort, remedy)
        if len(moved) and (moved >= 0).all() and convincing(before, after, len(sample)):
            starts = ("0", "1") if step == 1 else ("1", "0")
            yield Symptom(
                f"{what}-numbers",
                "error",
                case.file,
                f"{what} numbers start at {starts[0]}, those of the references at {starts[1]}"
                + _gain(before, after, sample),
                len(sample),
                len(sample),
                f"{'add 1 to' if step == 1 else 'subtract 1 from'} every {what} number",
                few(sorted(set(numbers.tolist()))),
                {},
                remedy,
            )
            return


def _gain(before: F64, after: F64, sample: RawPredictions) -> str:
    n = len(sample)
    return (
        f": {share_met(after, n):.0%} of the references are met with the fix, "
        f"{share_met(before, n):.0%} without"
    )


def _agrees(case: Case, name: str, label: int) -> bool:
    """Return whether most predictions of an unknown class lie on references of a known one."""
    rows = [row for row, other in case.sample.label_names.items() if str(other) == name]
    index = np.array(rows, np.int64)
    part = replace(
        case.sample,
        image=case.sample.image[index],
        label=np.full(len(index), label),
        boxes=case.sample.boxes[index],
        score=None if case.sample.score is None else case.sample.score[index],
        label_names={},
        image_names={},
    )
    anyhow = overlaps(case.cohort, part, by_class=False) >= 0.5
    rightly = overlaps(case.cohort, part) >= 0.5
    return bool(rightly.sum() > 0.5 * anyhow.sum())


def _number(key: object) -> int | None:
    text = str(key).strip()
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


# References and their images


def patients_in_names(cohort: Cohort) -> Iterator[Symptom]:
    """Names of images show which belong to one patient, and nothing else does."""
    # With one of these columns images are not resampled as independent ones.
    if any(name in cohort.images.groups for name in ("patient", "sequence", ORIGINAL)):
        return
    names = cohort.images.ids
    if "file_name" in cohort.images.groups:
        names = tuple(map(str, cohort.images.groups["file_name"].tolist()))
    stems = [re.sub(r"\.[A-Za-z]{2,5}$", "", name.split("/")[-1]) for name in names]
    matches = [PARTS.match(stem) for stem in stems]
    patients = [match["patient"] for match in matches if match]
    counts = Counter(patients)
    shared = [name for name, number in counts.items() if number > 1]
    # Every name has such a part, the part has a number, and neither all nor none share one.
    if len(patients) < len(names) or not all(NUMBER.search(name) for name in counts):
        return
    if len(counts) < 3 or len(shared) < 0.1 * len(counts) or len(shared) < 2:
        return
    hint = "pass a table with the columns image and patient: --groups TABLE"
    for name, column in cohort.images.groups.items():
        texts = list(map(str, column.tolist()))
        if len(set(texts)) != len(counts) or len(set(zip(texts, patients))) != len(counts):
            continue
        # A centre is no patient, although its images are called after it.
        if name.lower() in CENTRE_COLUMNS:
            return
        hint = f"the column {name!r} says the same: if these are patients, pass --cluster {name}"
    yield Symptom(
        "patients-in-names",
        "note",
        _reference_file(cohort),
        f"image names look like those of {len(counts)} patients; without a column 'patient' "
        "intervals treat their images as independent",
        len(names),
        len(names),
        hint,
        few(shared),
    )


def patient_in_two_splits(cohort: Cohort) -> Iterator[Symptom]:
    """A patient lies in several splits."""
    groups = {name.lower(): column for name, column in cohort.images.groups.items()}
    if "patient" not in groups:
        return
    for name in SPLIT_COLUMNS:
        if name not in groups:
            continue
        pairs = set(zip(map(str, groups["patient"].tolist()), map(str, groups[name].tolist())))
        counts = Counter(patient for patient, _ in pairs)
        torn = [patient for patient, number in counts.items() if number > 1 and patient]
        if torn:
            yield Symptom(
                "patient-in-two-splits",
                "warning",
                _reference_file(cohort),
                f"patients whose images lie in several values of {name!r}: a model may have been "
                "trained on them",
                len(torn),
                len(counts),
                "move all images of a patient into one split",
                few(sorted(torn)),
            )


def duplicate_images(cohort: Cohort) -> Iterator[Symptom]:
    """Images with the same two or more references, to the last digit."""
    if ORIGINAL in cohort.images.groups:  # copies on purpose, one for every pair of readers
        return
    references = cohort.references
    by_content: dict[bytes, list[int]] = {}
    for k in range(cohort.n_images):
        start, stop = int(references.offsets[k]), int(references.offsets[k + 1])
        if stop - start >= 2:
            rows = np.column_stack([references.boxes[start:stop], references.label[start:stop]])
            rows = rows[np.lexsort(rows.T)]
            # Two different objects at two equal places are no chance; one repeated box may be.
            if len(np.unique(rows, axis=0)) >= 2:
                by_content.setdefault(rows.tobytes(), []).append(k)
    twins = [images for images in by_content.values() if len(images) > 1]
    if twins:
        pairs = []
        for images in twins[:MOST_EXAMPLES]:
            pairs.append(" and ".join(cohort.images.ids[k] for k in images[:3]))
        yield Symptom(
            "duplicate-images",
            "warning",
            _reference_file(cohort),
            "images have exactly the references of another image",
            sum(len(images) - 1 for images in twins),
            cohort.n_images,
            "keep one image of each pair: copies make intervals too narrow",
            few(pairs),
        )


def classes_alike(cohort: Cohort) -> Iterator[Symptom]:
    """Two classes of the references differ by case or signs only."""
    spellings: dict[str, list[str]] = {}
    for name in cohort.classes:
        plain = re.sub(r"[\W_]+", "", name).casefold()
        if plain:
            spellings.setdefault(plain, []).append(name)
    twins = [names for names in spellings.values() if len(names) > 1]
    if twins:
        yield Symptom(
            "classes-alike",
            "warning",
            _reference_file(cohort),
            "classes of the references differ by case or signs only",
            sum(map(len, twins)),
            len(cohort.classes),
            "give each class one spelling",
            few([" and ".join(map(repr, names)) for names in twins]),
        )


def few_positives(cohort: Cohort) -> Iterator[Symptom]:
    """Classes with references in too few patients or images for an interval."""
    unit, owner = "images", np.arange(cohort.n_images)
    if "patient" in cohort.images.groups:
        unit = "patients"
        owner = np.unique(cohort.images.groups["patient"], return_inverse=True)[1]
    counts = ~cohort.references.ignore
    label, units = cohort.references.label[counts], owner[cohort.references.image[counts]]
    rare = []
    for k, name in enumerate(cohort.classes):
        number = len(np.unique(units[label == k]))
        if 0 < number < FEWEST_UNITS:
            rare.append(f"{name}: {number}")
    if rare:
        yield Symptom(
            "few-positives",
            "note",
            _reference_file(cohort),
            f"classes with references in fewer than {FEWEST_UNITS} {unit}: too few for an interval",
            len(rare),
            len(cohort.classes),
            f"report these classes without intervals, or add {unit}",
            few(rare),
        )


def _reference_file(cohort: Cohort) -> str:
    return cohort.intake.files[0].file if cohort.intake.files else ""


CohortCheck = Callable[[Cohort], Iterator[Symptom]]
ModelCheck = Callable[[Case], Iterator[Symptom]]
COHORT_CHECKS: tuple[CohortCheck, ...] = (
    classes_alike,
    patients_in_names,
    patient_in_two_splits,
    duplicate_images,
    few_positives,
)
# Names before places: boxes can be compared only where images and classes are known.
MODEL_CHECKS: tuple[ModelCheck, ...] = (
    image_names,
    class_names,
    boxes,
    image_numbers,
    class_numbers,
    score_range,
    constant_scores,
    missing_cases,
    other_splits,
    fractions,
)
# Without references.
SUBMISSION_CHECKS: tuple[ModelCheck, ...] = (score_range, constant_scores, fractions)

# Rules of reading that are broken because of a finding, and need no line of their own.
_NAMES = ("unknown-image", "id-type")
_SHAPES = ("neg-size", "zero-area", "box-format-suspect", "outside")
EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "image-names": _NAMES,
    "image-numbers": _NAMES,
    "class-names": ("unknown-category",),
    "class-numbers": ("unknown-category", "id-type"),
    "score-percent": ("score-range",),
    "score-raw": ("score-range",),
    "box-format": _SHAPES,
    "boxes-normalised": _SHAPES,
    "axes-swapped": _SHAPES,
    "resolution": _SHAPES,
    "mirrored": _SHAPES,
    OTHER_SPLITS: ("missing-cases",),
}
