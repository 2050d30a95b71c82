# SPDX-License-Identifier: Apache-2.0
"""The demo cohort: synthetic chest images from four centres, and three models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.synthetic.anatomy import (
    CARDIOMEGALY,
    CLASSES,
    EFFUSION,
    MASS,
    NODULE,
    Anatomy,
    patient_anatomy,
    place,
    stream,
)
from calipers.synthetic.characters import CHARACTERS, Scene, predict
from calipers.synthetic.phantoms import CentreLook, draw_phantom
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Centre:
    """A hospital: how many patients, what its images are like, how hard they are."""

    name: str
    patients: int
    size: tuple[int, int]
    difficulty: float
    look: CentreLook


@dataclass(frozen=True, slots=True)
class Patient:
    """Who was imaged where and how often."""

    name: str
    centre: Centre
    visits: int
    healthy: bool


CENTRES = (
    Centre("North", 32, (256, 256), 0.85, CentreLook(0.0, 1.05, 0.018, 0.12)),
    Centre("Harbour", 22, (320, 256), 1.0, CentreLook(0.04, 0.92, 0.03, 0.25)),
    Centre("Valley", 16, (256, 288), 1.15, CentreLook(-0.03, 1.10, 0.024, 0.15)),
    Centre("Summit", 10, (288, 288), 1.6, CentreLook(0.03, 0.82, 0.05, 0.4)),
)
VISITS = np.repeat([1, 2, 3], [48, 24, 8])  # images per patient: 120 images of 80 patients
ATTEMPTS = 30
STAYS = 0.88  # probability that a finding is still there on a later image
HEALTHY = 19  # patients without findings


def demo_cohort(seed: int = 0) -> Cohort:
    """Return 120 images of 80 patients with references and the predictions of three models.

    ``mislabels`` finds nearly everything and often names it wrongly; ``overpredicts`` finds and
    names nearly everything and adds duplicates and false alarms with lower scores; ``misses-small``
    is excellent on large findings and hardly sees nodules. Average precision and RoDeO rank the
    three differently.

    Examples
    --------
    >>> from calipers.synthetic import demo_cohort
    >>> cohort = demo_cohort()
    >>> cohort.classes
    ('nodule', 'mass', 'effusion', 'cardiomegaly')
    >>> list(cohort.models)
    ['mislabels', 'overpredicts', 'misses-small']
    """
    references: list[dict[str, Any]] = []
    predictions: dict[str, list[dict[str, Any]]] = {name: [] for name in CHARACTERS}
    for patient in _patients(seed):
        for record, scene in _images(seed, patient):
            references.append(record)
            for name, character in CHARACTERS.items():
                random = stream(seed, name, record["image_id"])
                predictions[name].append(
                    {"image_id": record["image_id"], **predict(character, scene, random)}
                )
    return Cohort.from_arrays(references, predictions, classes=CLASSES)


def draw_images(cohort: Cohort, folder: Path | str, seed: int = 0) -> list[Path]:
    """Draw the images of a demo cohort as PNG files, named after its group ``file_name``.

    Parameters
    ----------
    cohort
        `demo_cohort(seed)` or a part of it.
    folder
        Where the files go; it must exist.
    seed
        The seed of the cohort: it also determines the anatomy.
    """
    from PIL import Image

    looks = {centre.name: centre.look for centre in CENTRES}
    references, paths = cohort.references, []
    names, patients = cohort.group("file_name"), cohort.group("patient")
    centres = cohort.group("centre")
    for k, image_id in enumerate(cohort.images.ids):
        if str(centres[k]) not in looks:
            raise UsageError(
                "draw_images draws demo cohorts only, "
                f"and {str(centres[k])!r} is not a centre of one"
            )
        rows = slice(int(references.offsets[k]), int(references.offsets[k + 1]))
        width, height = cohort.images.size[k].astype(int).tolist()
        pixels = draw_phantom(
            (width, height),
            patient_anatomy(seed, str(patients[k])),
            references.boxes[rows],
            references.label[rows],
            look=looks[str(centres[k])],
            random=stream(seed, "texture", image_id),
        )
        paths.append(Path(folder) / str(names[k]))
        Image.fromarray(pixels).save(paths[-1])
    return paths


def _patients(seed: int) -> list[Patient]:
    """Return the patients, centre by centre; visits and health are dealt in fixed numbers."""
    random = stream(seed, "patients")
    centres: list[Centre] = []
    for centre in CENTRES:
        centres += [centre] * centre.patients
    visits = random.permutation(VISITS).tolist()
    healthy = (random.permutation(len(centres)) < HEALTHY).tolist()
    patients: list[Patient] = []
    for facts in zip(centres, visits, healthy):
        patients.append(Patient(f"P{len(patients) + 1:03d}", *facts))
    return patients


def _images(seed: int, patient: Patient) -> list[tuple[dict[str, Any], Scene]]:
    """Return the images of a patient: the same chest, much the same findings."""
    random, centre = stream(seed, "findings", patient.name), patient.centre
    anatomy, size = patient_anatomy(seed, patient.name), np.array(centre.size, np.float64)
    labels = np.zeros(0, np.int64) if patient.healthy else _findings(random)
    boxes = _place_findings(labels, anatomy, size, random)
    images = []
    for visit in range(1, patient.visits + 1):
        is_present = random.random(len(labels)) < (1.0 if visit == 1 else STAYS)
        moved = _moved(boxes[is_present], size, random)
        name = f"{patient.name}_{visit}"
        record = {
            "image_id": name,
            "boxes": moved,
            "labels": labels[is_present],
            "width": centre.size[0],
            "height": centre.size[1],
            "patient": patient.name,
            "centre": centre.name,
            "file_name": f"{name}.png",
        }
        images.append((record, Scene(size, anatomy, moved, labels[is_present], centre.difficulty)))
    return images


def _findings(random: Generator) -> I64:
    """Return the classes of a patient's findings: at most one large heart, often nodules."""
    # The order of the draws belongs to the seed: it must not change.
    nodules = masses = 0
    if random.random() < 0.46:
        nodules = int(random.integers(1, 4))
    if random.random() < 0.36:
        masses = int(random.integers(1, 3))
    effusions = int(random.random() < 0.42)
    hearts = int(random.random() < 0.36)
    counts = {NODULE: nodules, MASS: masses, EFFUSION: effusions, CARDIOMEGALY: hearts}
    if not any(counts.values()):
        counts[NODULE] = 1
    return np.repeat(np.array(list(counts), np.int64), list(counts.values()))


def _place_findings(labels: I64, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """Return (n, 4) boxes; a finding that would lie on an earlier one is placed again."""
    boxes: list[F64] = []
    for label in labels.tolist():
        for _ in range(ATTEMPTS):
            box = place(label, anatomy, size, random)
            if label == CARDIOMEGALY or not any(_touch(box, other) for other in boxes):
                break
        boxes.append(box)
    return np.array(boxes, np.float64).reshape(-1, 4)


def _touch(a: F64, b: F64) -> bool:
    return bool((np.minimum(a[2:], b[2:]) > np.maximum(a[:2], b[:2])).all())


def _moved(boxes: F64, size: F64, random: Generator) -> F64:
    """Return the boxes as an annotator drew them on one image: shifted with the patient, whole
    pixels.
    """
    shift = np.tile(random.normal(0.0, 1.5, 2), 2)
    annotated = boxes + shift + random.normal(0.0, 0.6, boxes.shape)
    return np.asarray(np.round(np.clip(annotated, 0.0, np.tile(size, 2))), np.float64)
