# SPDX-License-Identifier: Apache-2.0
"""The cohort of the study: boxes from the list of ChestX-ray8, or simulated boxes like them.

Options come in; `study_data` returns the test half of the images, which the oracles corrupt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError
from calipers.readers import read
from calipers.studies.framework import StudyOptions
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SIDE = 1024.0  # pixels
IMAGES, QUICK_IMAGES = 880, 400
# Keys of the random streams; they keep the draws independent of each other and of the oracles.
SPLIT, SIMULATION = 0x73706C, 0x6D6164
SEVERAL = (0.894, 0.094, 0.012)  # shares of images with 1, 2, 3 classes
REPEATED = 0.175  # probability that an image belongs to the same patient as the one before


@dataclass(frozen=True, slots=True)
class BoxStatistics:
    """Statistics of the boxes of a class in ChestX-ray8, rounded, in fractions of the image."""

    name: str
    share: float  # of the boxes
    # horizontal distance of the centre from the middle, to either side: mean and SD
    aside: tuple[float, float]
    height: tuple[float, float]  # of the centre: mean and SD
    log_width: tuple[float, float]
    log_height: tuple[float, float]
    correlation: float  # of the logarithms of the sides


FINDINGS = (
    BoxStatistics(
        "Atelectasis", 0.183, (0.20, 0.08), (0.57, 0.12), (-1.71, 0.55), (-2.12, 0.51), 0.33
    ),
    BoxStatistics(
        "Cardiomegaly", 0.148, (0.08, 0.04), (0.57, 0.06), (-0.76, 0.11), (-1.00, 0.15), 0.48
    ),
    BoxStatistics(
        "Effusion", 0.155, (0.27, 0.08), (0.56, 0.12), (-1.66, 0.54), (-1.40, 0.72), 0.24
    ),
    BoxStatistics(
        "Infiltration", 0.125, (0.16, 0.08), (0.53, 0.12), (-1.39, 0.49), (-1.34, 0.47), 0.55
    ),
    BoxStatistics("Mass", 0.086, (0.19, 0.08), (0.45, 0.12), (-2.00, 0.58), (-1.88, 0.60), 0.84),
    BoxStatistics("Nodule", 0.080, (0.24, 0.08), (0.48, 0.15), (-2.70, 0.31), (-2.73, 0.33), 0.86),
    BoxStatistics(
        "Pneumonia", 0.122, (0.17, 0.07), (0.56, 0.10), (-1.42, 0.44), (-1.32, 0.46), 0.63
    ),
    BoxStatistics(
        "Pneumothorax", 0.101, (0.21, 0.07), (0.32, 0.19), (-1.76, 0.52), (-1.67, 0.74), 0.46
    ),
)


@dataclass(frozen=True)
class StudyData:
    """The references that the oracles corrupt, and their source."""

    cohort: Cohort  # the test half
    source: str
    all_images: int
    inputs: tuple[Mapping[str, Any], ...] = ()


def study_data(options: StudyOptions) -> StudyData:
    """Return the test half of the user's data, or of a simulated cohort."""
    if options.data is None:
        if options.predictions:
            raise UsageError(
                "--predictions need the data set they belong to: pass its boxes with --data"
            )
        cohort = simulate_cohort(QUICK_IMAGES if options.quick else IMAGES, options.seed)
        words = "Boxes simulated by Calipers with the statistics of ChestX-ray8"
        return _take_test_half(cohort, words, options.seed)
    cohort = read(options.data, dict(options.predictions) or None)
    _check(cohort, str(options.data))
    half = _take_test_half(cohort, f"Boxes of {Path(options.data).name}", options.seed)
    inputs = []
    for file in cohort.intake.files:
        inputs.append({"file": file.file, "bytes": file.bytes, "sha256": file.sha256})
    return replace(half, inputs=tuple(inputs))


def _check(cohort: Cohort, file: str) -> None:
    """Raise an error for data that the experiments cannot use."""
    if len(cohort.classes) < 2:
        raise InputError(
            "boxes of two classes or more", rule="one-class", file=file, value=cohort.classes[0]
        )
    if cohort.references.dimensions != 2 or not np.isfinite(cohort.images.size).all():
        hint = "random boxes are placed in the image, so sizes are needed; COCO files have them"
        raise InputError("images in 2D with known sizes", rule="size-unknown", file=file, hint=hint)
    if len(cohort.references) < 20:
        raise InputError(
            "20 boxes or more", rule="too-few-boxes", file=file, value=len(cohort.references)
        )


def _take_test_half(cohort: Cohort, words: str, seed: int) -> StudyData:
    half = cohort.take(test_half(cohort, seed))
    unit = "patient" if "patient" in cohort.images.groups else "image"
    source = (
        f"{words}: {cohort.n_images} images, {len(cohort.references)} boxes, "
        f"{len(cohort.classes)} classes; the oracles ran on the test half, {half.n_images} images "
        f"with {len(half.references)} boxes, drawn by {unit}."
    )
    return StudyData(half, source, cohort.n_images)


def test_half(cohort: Cohort, seed: int) -> I64:
    """Return the images of the test half; no patient is in both halves.

    Patients come in random order, and each goes to the test half while that is no larger than half
    of the images.
    """
    groups = cohort.images.groups
    # Without patients every image is a unit of its own.
    names = groups["patient"] if "patient" in groups else np.arange(cohort.n_images)
    _, owner, sizes = np.unique(names, return_inverse=True, return_counts=True)
    random = Generator(Philox(key=np.array([seed, SPLIT], np.uint64)))
    selection, total = np.zeros(len(sizes), np.bool_), 0
    for patient in random.permutation(len(sizes)).tolist():
        if total + int(sizes[patient]) <= cohort.n_images // 2:
            selection[patient] = True
            total += int(sizes[patient])
    return np.flatnonzero(selection[owner])


test_half.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def simulate_cohort(n_images: int, seed: int) -> Cohort:
    """Simulate images with one box per finding; places, sides, classes and patients are
    distributed as in ChestX-ray8.

    Examples
    --------
    >>> from calipers.studies.rodeo.data import simulate_cohort
    >>> cohort = simulate_cohort(100, seed=0)
    >>> cohort.n_images, len(cohort.classes)
    (100, 8)
    """
    random = Generator(Philox(key=np.array([seed, SIMULATION], np.uint64)))
    shares = np.array([finding.share for finding in FINDINGS])
    patient = np.cumsum(random.random(n_images) >= REPEATED)
    records = []
    for k in range(n_images):
        several = 1 + int(random.choice(len(SEVERAL), p=SEVERAL))
        labels = random.choice(len(FINDINGS), several, replace=False, p=shares / shares.sum())
        boxes = [_box(FINDINGS[label], random) for label in labels.tolist()]
        facts = {
            "image_id": f"made-{k:04d}",
            "width": SIDE,
            "height": SIDE,
            "patient": f"P{int(patient[k]):04d}",
        }
        records.append({"boxes": np.array(boxes), "labels": labels, **facts})
    return Cohort.from_arrays(records, classes=[finding.name for finding in FINDINGS])


def _box(finding: BoxStatistics, random: Generator) -> F64:
    """Return a box inside the image, x0 y0 x1 y1 in pixels."""
    first, other = random.standard_normal(2)
    r = finding.correlation
    # A normal pair with correlation r (Cholesky factor of a 2 x 2 correlation matrix).
    second = r * first + np.sqrt(1.0 - r * r) * other
    sides = np.exp(
        [
            finding.log_width[0] + finding.log_width[1] * first,
            finding.log_height[0] + finding.log_height[1] * second,
        ]
    )
    sides = np.clip(sides, 0.02, 0.9)
    aside = random.normal(*finding.aside) * (1.0 if random.random() < 0.5 else -1.0)
    centre = np.array([0.5 + aside, random.normal(*finding.height)])
    centre = np.clip(centre, sides / 2.0, 1.0 - sides / 2.0)
    return np.concatenate([centre - sides / 2.0, centre + sides / 2.0]) * SIDE
