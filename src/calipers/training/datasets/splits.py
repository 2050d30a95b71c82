# SPDX-License-Identifier: Apache-2.0
"""Splits: which images train, which choose the best epoch, which test; and subsets of training.

All images of a patient are on one side of every split. Patients are divided by strata, with a box,
positive, or neither, so that the few boxed images are divided as well as the others. A split is a
function of the seed and of the names of patients and images, never of the order of files: `holdout`
and `folds` sort the names before they shuffle them.

`subsets` draws the training images of repeated trainings: each leaves out a share of the images
without boxes, and keeps all boxed ones, as in the stability paper (95 %).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from calipers.arrays import I64, Flags
from calipers.errors import InputError
from calipers.training.datasets.training_images import TrainingImages

FEWEST_PATIENTS = 2  # one for each side


@dataclass(frozen=True)
class ImageSplit:
    """Indices of the images of each part, in ascending order; the parts share no patient."""

    train: I64
    validation: I64
    test: I64

    def as_dict(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the ids of every part, for JSON."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        names = np.array(ids, dtype=object)
        return {name: names[rows].tolist() for name, rows in parts.items()}


def random_of(seed: int, name: str) -> Generator:
    """Return the random numbers of one purpose, independent of those of the others."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def split_images(
    images: TrainingImages,
    seed: int,
    *,
    test_share: float = 0.2,
    validation_share: float = 0.1,
    fold: int | None = None,
    n_folds: int = 5,
) -> ImageSplit:
    """Return the split of a data set: 80/20, or one of several folds as the test set.

    The official test set of a data set is always its test set. Validation images are taken from
    what is left for training.
    """
    every = np.arange(len(images))
    if images.test is not None and fold is None:
        test = np.flatnonzero(images.test)
    elif fold is not None:
        test = folds(images, n_folds, seed)[fold - 1]
    else:
        test = holdout(images, every, test_share, seed, "test")
    rest = np.setdiff1d(every, test)
    validation = np.zeros(0, np.int64)
    if validation_share:
        validation = holdout(images, rest, validation_share, seed, "validation")
    return ImageSplit(np.setdiff1d(rest, validation), validation, test)


def holdout(images: TrainingImages, rows: I64, share: float, seed: int, name: str) -> I64:
    """Return about a share of the images, of whole patients, from every stratum."""
    strata = _patients_by_stratum(images, rows)
    if sum(map(len, strata)) < FEWEST_PATIENTS:
        raise InputError(
            "images of two patients or more",
            rule="single-patient",
            file=images.name,
            value=f"{len(rows)} images of {sum(map(len, strata))} patients",
        )
    result: list[int] = []
    for k, patients in enumerate(strata):
        names = sorted(patients)
        random_of(seed, f"{name}-{k}").shuffle(names)
        wanted_number = share * sum(len(own) for own in patients.values())
        n = 0
        for patient in names:
            # The patient goes where the share is met more closely.
            if n + len(patients[patient]) / 2 > wanted_number:
                break
            result += patients[patient]
            n += len(patients[patient])
    return np.array(sorted(result), np.int64)


def folds(images: TrainingImages, n_folds: int, seed: int) -> list[I64]:
    """Return the images of every fold; each image is in one of them."""
    result: list[list[int]] = [[] for _ in range(n_folds)]
    for k, patients in enumerate(_patients_by_stratum(images, np.arange(len(images)))):
        names = sorted(patients)
        random_of(seed, f"folds-{k}").shuffle(names)
        # Large patients first, each to the fold that is the smallest so far in this stratum.
        sizes = [0] * n_folds
        for patient in sorted(names, key=lambda name: -len(patients[name])):
            fold = sizes.index(min(sizes))
            sizes[fold] += len(patients[patient])
            result[fold] += patients[patient]
    return [np.array(sorted(own), np.int64) for own in result]


def _patients_by_stratum(images: TrainingImages, rows: I64) -> tuple[Mapping[str, list[int]], ...]:
    """Return patient -> images, of patients with a box, with a finding, and of the others."""
    patients: dict[str, list[int]] = {}
    for i in rows.tolist():
        patients.setdefault(images.patients[i], []).append(i)
    boxed, positive = images.boxed, images.positive
    strata: tuple[dict[str, list[int]], ...] = ({}, {}, {})
    for patient, own in patients.items():
        if boxed[own].any():
            strata[0][patient] = own
        elif positive[own].any():
            strata[1][patient] = own
        else:
            strata[2][patient] = own
    return strata


def subset(images: TrainingImages, rows: I64, share: float, seed: int, number: int) -> I64:
    """Return the training images of one of several trainings, in ascending order."""
    boxed = images.boxed[rows]
    loose = sorted(rows[~boxed].tolist(), key=lambda i: images.ids[i])
    random_of(seed, f"subset-{number}").shuffle(loose)
    # All images count in the share, and those without boxes pay for it.
    n_out = min(round((1 - share) * len(rows)), len(loose))
    return np.array(sorted([*loose[n_out:], *rows[boxed].tolist()]), np.int64)


def check_two_kinds(positive: Flags, rows: I64, part: str, name: str, target: str) -> None:
    """Raise unless a part has positive and negative images."""
    n = int(positive[rows].sum())
    if 0 < n < len(rows):
        return
    raise InputError(
        f"positive and negative images for {part}",
        rule="single-class",
        file=name,
        value=f"{n} of {len(rows)} show {target!r}",
        hint="add images of the other kind, or choose another --target",
    )
