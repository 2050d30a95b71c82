# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with references and their images: one function per mistake.

`COHORT_CHECKS` look at a cohort, whatever its predictions are; each yields `Symptom`s. A new check
is one function and one entry in this list. `calipers.doctor.checkup` runs them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from calipers.arrays import Array
from calipers.data.cohort import ORIGINAL, UNIT, Cohort
from calipers.data.look_alikes import look_alikes
from calipers.doctor.findings import MOST_EXAMPLES, Symptom, few
from calipers.errors import told_apart
from calipers.metrics.sequences import SEQUENCE
from calipers.show.words import plural

SPLIT_COLUMNS = ("split", "subset", "fold", "partition", "set", "train_val_test")
CENTRE_COLUMNS = ("centre", "center", "site", "hospital", "institution", "clinic", "scanner")
FEWEST_UNITS = 5  # with references of a class: fewer give no interval that can be trusted
# A patient's part of a name: everything before the last separated number or letter code.
PARTS = re.compile(r"^(?P<patient>.+?)[_\-. ](?P<rest>[^_\-. ]+)$")
NUMBER = re.compile(r"\d")


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
        reference_file(cohort),
        f"image names look like those of {len(counts)} patients; without a column 'patient' "
        "intervals treat their images as independent",
        len(names),
        len(names),
        hint,
        few(shared),
    )


def patient_in_two_splits(cohort: Cohort) -> Iterator[Symptom]:
    """A patient lies in several splits."""
    yield from torn_patients(cohort.images.groups, reference_file(cohort))


def torn_patients(columns: Mapping[str, Array], file: str) -> Iterator[Symptom]:
    """Patients in several splits, by the columns of a table of images."""
    groups = {name.lower(): column for name, column in columns.items()}
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
                file,
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
            reference_file(cohort),
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
            reference_file(cohort),
            "classes of the references differ by case or signs only",
            sum(map(len, twins)),
            len(cohort.classes),
            "give each class one spelling",
            few([" and ".join(map(repr, names)) for names in twins]),
        )


def names_alike(cohort: Cohort) -> Iterator[Symptom]:
    """Images, patients or centres have names that look alike, and count as different ones."""
    columns = {UNIT: list(cohort.images.ids)}
    for name in ("patient", "centre", SEQUENCE):
        if name in cohort.images.groups:
            columns[name] = cohort.images.groups[name].tolist()
    for name, names in columns.items():
        pairs = look_alikes(names)
        if pairs:
            yield Symptom(
                "names-alike",
                "warning",
                reference_file(cohort),
                f"names of {plural(name)} look alike and count as different ones",
                len(pairs),
                len(set(names)),
                "if they are the same, write them in one way in the files; "
                "more units make intervals narrower",
                few([" and ".join(told_apart(*pair)) for pair in pairs]),
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
            reference_file(cohort),
            f"classes with references in fewer than {FEWEST_UNITS} {unit}: too few for an interval",
            len(rare),
            len(cohort.classes),
            f"report these classes without intervals, or add {unit}",
            few(rare),
        )


def reference_file(cohort: Cohort) -> str:
    """Return the name of the file of the references."""
    return cohort.intake.files[0].file if cohort.intake.files else ""


CohortCheck = Callable[[Cohort], Iterator[Symptom]]
COHORT_CHECKS: tuple[CohortCheck, ...] = (
    classes_alike,
    names_alike,
    patients_in_names,
    patient_in_two_splits,
    duplicate_images,
    few_positives,
)
