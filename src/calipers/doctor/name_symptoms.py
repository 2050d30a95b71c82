# SPDX-License-Identifier: Apache-2.0
"""Images and classes are called otherwise than in the references: the first checks of a model.

Names differ by folder, suffix, case or spelling, numbers start elsewhere or count what the
references name, and classes are in another order. Names of images are compared by the rules of
`calipers.doctor.spelling`; what numbers and classes mean is tried on the boxes, and where these
vote clearly (`calipers.doctor.class_agreement`) nothing else is proposed.
`calipers.doctor.symptoms` lists the checks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calipers.arrays import I64
from calipers.doctor.class_agreement import (
    agrees_with_votes,
    class_votes,
    exchanged_classes,
    rearranged_classes,
    renamed_classes,
)
from calipers.doctor.findings import MOST_EXAMPLES, Symptom, few, gain_text
from calipers.doctor.spelling import class_index, image_index, in_other_folders, most_images
from calipers.doctor.trial import CERTAIN_NAMED, Case, convincing, overlaps, share_met

IMAGE_NAMES = "image-names"
MOSTLY_MET = 0.7  # share of references met from which numbers mean what they seem to


def image_names(case: Case) -> Iterator[Symptom]:
    """Images are called otherwise than in the references: folder, extension, case, type."""
    unknown = case.sample.image_names
    if not unknown:
        return
    names = [str(name) for name in unknown.values()]
    match = image_index(names, case.cohort) or most_images(names, case.cohort)
    if match is None:
        return
    n_names = len(set(names))
    n_others = n_names - len(match.images)
    image, others = case.sample.image.copy(), {}
    for row, name in unknown.items():
        if str(name) in match.images:
            image[row] = match.images[str(name)]
        else:
            others[row] = name
    remedy = replace(case.sample, image=image, image_names=others)
    words = f"names of images differ from those of the references by {match.words}"
    if others or in_other_folders(match, case.cohort):
        # Images such as 1 and 2 are in every folder, and most of them in every data set. Boxes tell
        # whether they are the same: on the next image each, they meet fewer references.
        places = sorted(match.images.values())
        following = dict(zip(places, [*places[1:], places[0]]))
        moved = [following.get(place, place) for place in image.tolist()]
        beside = replace(remedy, image=np.array(moved, np.int64))
        before, after = overlaps(case.cohort, beside), overlaps(case.cohort, remedy)
        if not convincing(before, after, len(case.sample), certain=CERTAIN_NAMED):
            return
    if others:
        words += f"; the references do not list {n_others} others"
        words += "" if case.all_images else ", whose predictions are left out"
    reading = {}
    hint = "write the names of the images as in the references"
    if match.how == "type" and not others:
        reading = {"ids_as_strings": True}
        hint = "compare ids as text"
    pairs = [f"{name} is {case.cohort.images.ids[k]}" for name, k in match.images.items()]
    yield Symptom(
        IMAGE_NAMES,
        "error",
        case.file,
        words,
        len(match.images),
        n_names,
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
        yield from _counted_images(case)
        return
    yield from _renumbered(case, "image", places, case.sample.image, case.sample.image_names)


def _counted_images(case: Case) -> Iterator[Symptom]:
    """Images are numbers that count them, as slices of a stack do, and have names in the
    references.
    """
    sample, ids = case.sample, case.cohort.images.ids
    numbers = [_number(name) for name in sample.image_names.values()]
    if not numbers or len(numbers) < len(sample) or None in numbers:
        return
    before = overlaps(case.cohort, sample, by_class=False)
    for start in (0, 1):
        image = np.full(len(sample), -1, np.int64)
        image[list(sample.image_names)] = np.array(numbers) - start
        remedy = replace(sample, image=image, image_names={})
        if not ((image >= 0) & (image < len(ids))).all():
            continue
        after = overlaps(case.cohort, remedy, by_class=False)
        if convincing(before, after, len(sample)):
            yield Symptom(
                "image-numbers",
                "error",
                case.file,
                f"images are numbers from {start}, in the order of the references"
                + gain_text(before, after, sample),
                len(sample),
                len(sample),
                "write the names of the images instead of their numbers",
                few([f"{k + start} is {name}" for k, name in enumerate(ids[:MOST_EXAMPLES])]),
                {},
                remedy,
            )
            return


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
        symptoms = list(_renumbered(case, "class", places, sample.label, sample.label_names))
        yield from symptoms or _counted_classes(case, places)
        return
    numbers = {row: _number(name) for row, name in sample.label_names.items()}
    if not numbers or None in numbers.values():
        return
    trials = []
    for start in (0, 1):
        label = sample.label.copy()
        for row, number in numbers.items():
            label[row] = (number or 0) - start
        trials.append((start, label))
    # Readers take a number as a place from 0 where the references have no numbers. Only the highest
    # is unknown then, and all others are one place too high.
    if min(number or 0 for number in numbers.values()) >= len(classes):
        trials.append((1, np.where(sample.label >= 0, sample.label - 1, trials[1][1])))
    yield from _in_order(case, trials, range(len(classes)))


def _counted_classes(case: Case, places: Mapping[int | None, int]) -> Iterator[Symptom]:
    """Class numbers count the classes, while the numbers of the references have gaps."""
    sample = case.sample
    number_of = {place: number or 0 for number, place in places.items()}
    numbers = np.array([number_of.get(label, -1) for label in sample.label.tolist()], np.int64)
    for row, name in sample.label_names.items():
        own_number = _number(name)
        numbers[row] = -1 if own_number is None else own_number
    ordered = sorted(number_of, key=number_of.__getitem__)
    yield from _in_order(case, [(start, numbers - start) for start in (0, 1)], ordered)


def _in_order(
    case: Case, trials: Sequence[tuple[int, I64]], ordered: Sequence[int]
) -> Iterator[Symptom]:
    """Yield the best of several ways to count the classes, which are ``ordered``, from a start."""
    sample, classes = case.sample, case.cohort.classes
    before = overlaps(case.cohort, sample)
    if share_met(before, len(sample)) >= MOSTLY_MET:
        return
    votes = class_votes(case.cohort, sample)
    fits = []
    for start, numbers in trials:
        if not len(numbers) or not ((numbers >= 0) & (numbers < len(ordered))).all():
            continue
        label = np.array(ordered)[numbers]
        remedy = replace(sample, label=label, label_names={})
        after = overlaps(case.cohort, remedy)
        is_sound = agrees_with_votes(votes, sample, label)
        if is_sound and convincing(before, after, len(sample)):
            fits.append((share_met(after, len(sample)), -start, after, remedy))
    if not fits:
        return
    _, start, after, remedy = max(fits, key=lambda fit: fit[:2])
    n_changed = int((remedy.label != sample.label).sum())
    yield Symptom(
        "class-numbers",
        "error",
        case.file,
        f"classes are numbers from {-start}, in the order of the references"
        + gain_text(before, after, sample),
        n_changed,
        len(sample),
        "write the names of the classes instead of their numbers",
        few([f"{k - start} is {classes[label]!r}" for k, label in enumerate(ordered)]),
        {},
        remedy,
    )


def class_meanings(case: Case) -> Iterator[Symptom]:
    """Predicted classes have names of other lists, languages or classes; their boxes tell them."""
    sample, classes = case.sample, case.cohort.classes
    votes = class_votes(case.cohort, sample)
    rearranged = rearranged_classes(votes)
    if rearranged is not None:
        yield from _exchanged(case, *rearranged)
        return
    renamed = renamed_classes(votes, len(classes))
    if renamed:
        label, names = sample.label.copy(), dict(sample.label_names)
        for row, key in sample.label_names.items():
            if key in renamed:
                label[row] = renamed[key]
                del names[row]
        remedy = replace(sample, label=label, label_names=names)
        yield Symptom(
            "class-names",
            "error",
            case.file,
            "boxes of classes that the references lack lie on references of one other class each"
            + gain_text(overlaps(case.cohort, sample), overlaps(case.cohort, remedy), sample),
            len(sample.label_names) - len(names),
            len(sample),
            "write the class names as in the references",
            few([f"{name!r} is {classes[k]!r}" for name, k in renamed.items()]),
            {},
            remedy,
        )
        return
    meanings = exchanged_classes(votes, len(classes))
    if meanings is not None:
        yield from _exchanged(case, meanings, {})


def _exchanged(
    case: Case, moved: Mapping[int, int], named: Mapping[object, int]
) -> Iterator[Symptom]:
    """Yield the finding that classes have the names of others, with their right classes."""
    sample, classes = case.sample, case.cohort.classes
    right = np.arange(len(classes))
    right[list(moved)] = list(moved.values())
    label = np.where(sample.label >= 0, right[np.maximum(sample.label, 0)], -1)
    names = dict(sample.label_names)
    for row, name in sample.label_names.items():
        if name in named:
            label[row] = named[name]
            del names[row]
    remedy = replace(sample, label=label, label_names=names)
    before, after = overlaps(case.cohort, sample), overlaps(case.cohort, remedy)
    # Every class has a clear vote of its own, so that chance finds no order that fits.
    if not convincing(before, after, len(sample)):
        return
    wrong = [k for k, place in moved.items() if k != place]
    pairs = [f"{classes[k]!r} is {classes[moved[k]]!r}" for k in sorted(wrong)]
    pairs += [f"{name!r} is {classes[k]!r}" for name, k in named.items()]
    yield Symptom(
        "classes-exchanged",
        "error",
        case.file,
        "boxes of each class lie on references of another class" + gain_text(before, after, sample),
        int((label != sample.label).sum()),
        len(sample),
        "check the order of the classes",
        few(pairs),
        {},
        remedy,
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
    # A number that the references have and nobody knows counts places, as dumps of detectron2 do.
    if any(_number(name) in places for name in unknown.values()):
        places = {place: place for place in places.values()}
    numbers_of = {place: number or 0 for number, place in places.items()}
    numbers = np.full(len(sample), np.iinfo(np.int64).min)
    # A table by code, since there may be as many codes as images and millions of predictions.
    table = np.full(max(numbers_of, default=-1) + 1, np.iinfo(np.int64).min)
    table[list(numbers_of)] = list(numbers_of.values())
    is_known = (codes >= 0) & (codes < len(table))
    numbers[is_known] = table[codes[is_known]]
    for row, name in unknown.items():
        own_number = _number(name)
        if own_number is None:
            return
        numbers[row] = own_number
    # Classes may be numbered in another way, too.
    by_class = what == "class"
    before = overlaps(case.cohort, sample, by_class=by_class)
    if share_met(before, len(sample)) >= MOSTLY_MET:
        return
    for step in (1, -1):
        places_of_rows = [places.get(number + step, -1) for number in numbers.tolist()]
        moved = np.array(places_of_rows, np.int64)
        changes: dict[str, Any] = {"image": moved, "image_names": {}}
        if what == "class":
            changes = {"label": moved, "label_names": {}}
        remedy = replace(sample, **changes)
        after = overlaps(case.cohort, remedy, by_class=by_class)
        if len(moved) and (moved >= 0).all() and convincing(before, after, len(sample)):
            starts = ("0", "1") if step == 1 else ("1", "0")
            yield Symptom(
                f"{what}-numbers",
                "error",
                case.file,
                f"{what} numbers start at {starts[0]}, those of the references at {starts[1]}"
                + gain_text(before, after, sample),
                len(sample),
                len(sample),
                f"{'add 1 to' if step == 1 else 'subtract 1 from'} every {what} number",
                few(sorted(set(numbers.tolist()))),
                {},
                remedy,
            )
            return


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
