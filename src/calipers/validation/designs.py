# SPDX-License-Identifier: Apache-2.0
"""Simulated cohorts with a known truth: detectors, patients and centres of many kinds.

A `CohortDesign` says what is simulated, `cohort_of` makes many data sets of it as one large cohort,
and `calipers.validation.objects` cuts that into data sets again. Nothing here knows an interval.

Two generators, of different kinds, so that no rule is judged by the one it was chosen with:

``counts``
    every unit has a chance of its own to find a reference (Beta), a rate of false alarms of its
    own (Gamma) and, per class, a number of objects of its own (Gamma); objects and false alarms
    are Poisson, scores are Beta;
``latent``
    every image is easier or harder by a normal number that images of a unit share in part; it
    moves hits, false alarms and scores together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort, Images, Intake
from calipers.data.rules import Delivery, as_predictions, as_references

SIDE = 20.0  # of a box, in pixels
PITCH = 40.0  # from box to box: neighbours do not touch
COLUMNS = 24  # boxes in a row of an image
SIZE = COLUMNS * PITCH
# How far the box of a mistake in place is moved: an IoU of 0.33 with its reference.
SHIFT = SIDE / 2
MODELS = ("a", "b")
MODEL_LETTERS = "abcdefghijkl"


@dataclass(frozen=True)
class CohortDesign:
    """Data sets of one kind: how many units of what kind, and how good the detector is."""

    name: str
    units: int
    images: int  # of a unit
    prevalence: tuple[float, ...] = (1.0,)  # objects per image, of every class
    always: bool = False  # every image has exactly one object; prevalence tells of which class
    sensitivity: float = 0.8
    likeness: float = 0.2  # of images of a unit: 0 none, towards 1 all alike
    alarms: float = 0.3  # false alarms per image
    separation: float = 2.0  # of the scores of hits and false alarms; 0 none
    loose: float = 0.0  # share of hits that are too far off
    mislabelled: float = 0.0  # share of hits with the wrong class
    doubled: float = 0.0  # share of hits with a second prediction
    gain: float = 0.0  # how much more the second model finds, as a share of what the first misses
    models: int = 2  # those from the third on are as good as the first
    generator: Literal["counts", "latent"] = "counts"
    unit: str = "patient"
    # chance of an image to have one error more, of this kind, above all others in the ranking
    planted: float = 0.0
    plant: Literal["alarm", "duplicate", "place", "class"] = "alarm"

    @property
    def n_images(self) -> int:
        """Images of a data set."""
        return self.units * self.images

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names of the models: a, b, ..."""
        return tuple(MODEL_LETTERS[: self.models])


@dataclass(frozen=True)
class Detections:
    """Predictions of a simulated model: where each lies, and how sure it is."""

    image: I64
    label: I64
    slot: I64  # place of the box in the image
    shift: F64  # in pixels
    score: F64


def cohort_of(design: CohortDesign, number: int, seed: int) -> Cohort:
    """Return ``number`` data sets of a design, one after the other, with all its models."""
    rng = np.random.Generator(np.random.Philox(key=[seed, design.units]))
    n_units = number * design.units
    n_images = n_units * design.images
    unit = np.repeat(np.arange(n_units), design.images)
    image, label = _objects(design, unit, rng)
    # Objects of an image lie side by side, false alarms below them.
    slot = _places(image, n_images)
    ease = _ease(design, unit, rng)
    gains = [0.0, design.gain, *[0.0] * (design.models - 2)]
    hits = [_hits(design, unit, image, ease, rng, gain) for gain in gains]
    models = {}
    for name, hit in zip(design.model_names, _coupled(hits)):
        parts = [
            _found(design, (image, label, slot), np.flatnonzero(hit), ease, rng),
            _alarms(design, unit, ease, rng),
        ]
        models[name] = _planted(design, _joined(parts), n_images, seed)
    sizes = np.full((n_images, 2), SIZE)
    images = Images(tuple(map(str, range(n_images))), sizes, np.full((n_images, 2), np.nan), {})
    references = as_references(_delivery(image, label, slot, np.zeros(len(image))), sizes)
    predictions = {}
    for name, model in models.items():
        table = _delivery(model.image, model.label, model.slot, model.shift, model.score)
        predictions[name] = as_predictions(table, sizes)
    classes = tuple(f"class {c}" for c in range(len(design.prevalence)))
    return Cohort(images, classes, references, predictions, Intake(()))


def _objects(design: CohortDesign, unit: I64, rng: np.random.Generator) -> tuple[I64, I64]:
    """Return image and class of every object."""
    prevalence = np.array(design.prevalence)
    if design.always:
        label = rng.choice(len(prevalence), len(unit), p=prevalence / prevalence.sum())
        return np.arange(len(unit)), label
    n_units = int(unit[-1]) + 1
    # A gamma factor per unit and class: objects of a class gather in some units.
    shape = _concentration(design.likeness)
    factor = rng.gamma(shape, 1.0 / shape, (n_units, len(prevalence)))
    number = rng.poisson(prevalence * factor[unit])
    image, label = np.nonzero(number)
    times = number[image, label]
    return np.repeat(image, times), np.repeat(label, times)


def _ease(design: CohortDesign, unit: I64, rng: np.random.Generator) -> F64:
    """Return (n_images,) how easy every image is, with a standard deviation of 1."""
    shared = rng.standard_normal(int(unit[-1]) + 1)[unit]
    own = rng.standard_normal(len(unit))
    return np.asarray(np.sqrt(design.likeness) * shared + np.sqrt(1 - design.likeness) * own)


def _hits(
    design: CohortDesign, unit: I64, image: I64, ease: F64, rng: np.random.Generator, gain: float
) -> tuple[F64, F64]:
    """Return (n_objects,) the chance to be found, and the draw that decides it."""
    sensitivity = design.sensitivity + gain * (1 - design.sensitivity)
    draw = rng.random(len(image))
    if design.generator == "latent":
        from scipy.special import ndtr, ndtri

        # So that the mean over images is the sensitivity.
        return ndtr(np.sqrt(2.0) * ndtri(sensitivity) + ease[image]), draw
    if design.likeness == 0 or sensitivity in (0.0, 1.0):
        return np.full(len(image), sensitivity), draw
    strength = 1.0 / design.likeness - 1.0
    chance = rng.beta(sensitivity * strength, (1 - sensitivity) * strength, int(unit[-1]) + 1)
    return chance[unit[image]], draw


def _coupled(hits: list[tuple[F64, F64]]) -> list[Flags]:
    """Return what each model finds; they share half of their luck, as models of one kind do."""
    first, draw = hits[0]
    same = np.arange(len(draw)) % 2 == 0
    flags = [draw < first]
    for chance, other in hits[1:]:
        flags.append(np.where(same, draw, other) < chance)
    return flags


def _found(
    design: CohortDesign,
    objects: tuple[I64, I64, I64],
    hit: I64,
    ease: F64,
    rng: np.random.Generator,
) -> Detections:
    """Return the predictions on objects: hits, and mistakes in place, in class and by doubling."""
    image, label, slot = (column[hit] for column in objects)
    score = _scores(design, len(hit), ease[image], rng, of_hits=True)
    shift = np.where(rng.random(len(hit)) < design.loose, SHIFT, rng.exponential(1.5, len(hit)))
    shift = np.where(shift == SHIFT, shift, np.minimum(shift, 0.3 * SIDE))
    n_classes = len(design.prevalence)
    wrong = rng.random(len(hit)) < design.mislabelled
    label = np.where(wrong, (label + 1) % n_classes, label)
    again = np.flatnonzero(rng.random(len(hit)) < design.doubled)
    return _joined(
        [
            Detections(image, label, slot, shift, score),
            Detections(image[again], label[again], slot[again], shift[again] + 1, score[again] / 2),
        ]
    )


def _alarms(design: CohortDesign, unit: I64, ease: F64, rng: np.random.Generator) -> Detections:
    """Return predictions on nothing."""
    rate = np.full(len(unit), design.alarms)
    if design.generator == "latent":
        rate = design.alarms * np.exp(-0.3 * ease)
    elif design.likeness > 0:
        shape = _concentration(design.likeness)
        rate = design.alarms * rng.gamma(shape, 1.0 / shape, int(unit[-1]) + 1)[unit]
    image = np.repeat(np.arange(len(unit)), rng.poisson(rate))
    prevalence = np.array(design.prevalence)
    label = rng.choice(len(prevalence), len(image), p=prevalence / prevalence.sum())
    score = _scores(design, len(image), ease[image], rng, of_hits=False)
    slot = _places(image, len(unit)) + COLUMNS * (COLUMNS // 2)
    return Detections(image, label, slot, np.zeros(len(image)), score)


def _scores(
    design: CohortDesign, n: int, ease: F64, rng: np.random.Generator, *, of_hits: bool
) -> F64:
    """Return scores; ties have the chance 0."""
    if design.generator == "latent":
        raised = design.separation + 0.5 * ease if of_hits else 0.0
        return 1.0 / (1.0 + np.exp(-(raised + rng.standard_normal(n))))
    return rng.beta(1.0 + design.separation, 1.5, n) if of_hits else rng.beta(1.0, 2.0, n)


def _planted(design: CohortDesign, model: Detections, n_images: int, seed: int) -> Detections:
    """Return the predictions with errors that are as costly as they can be.

    A false alarm is added; or the first prediction on an object is doubled, moved, or renamed.
    """
    if not design.planted:
        return model
    rng = np.random.Generator(np.random.Philox(key=[seed, 2**32 + design.units]))
    images = np.flatnonzero(rng.random(n_images) < design.planted)
    # Above all other scores, and no two alike.
    score = 2.0 + rng.random(n_images)
    if design.plant == "alarm":
        prevalence = np.array(design.prevalence)
        label = rng.choice(len(prevalence), len(images), p=prevalence / prevalence.sum())
        slot = np.full(len(images), COLUMNS * COLUMNS - 1)
        nowhere = np.zeros(len(images))
        return _joined([model, Detections(images, label, slot, nowhere, score[images])])
    on_objects = np.flatnonzero(model.slot < COLUMNS * (COLUMNS // 2))
    first = np.unique(model.image[on_objects], return_index=True)
    rows = on_objects[first[1][np.isin(first[0], images)]]
    shift, label, scores = model.shift.copy(), model.label.copy(), model.score.copy()
    scores[rows] = score[model.image[rows]]
    if design.plant == "place":
        shift[rows] = SHIFT
    if design.plant == "class":
        label[rows] = (label[rows] + 1) % len(design.prevalence)
    moved = Detections(model.image, label, model.slot, shift, scores)
    if design.plant != "duplicate":
        return moved
    # The second prediction on an object comes right after the first.
    again = model.image[rows], label[rows], model.slot[rows], shift[rows] + 1, scores[rows] - 1e-9
    return _joined([moved, Detections(*again)])


def _concentration(likeness: float) -> float:
    return 1.0 / max(likeness, 0.01) - 0.5


def _places(image: I64, n_images: int) -> I64:
    """Return a number for every row of sorted images, from 0 on in each."""
    start = np.searchsorted(image, np.arange(n_images))
    return np.arange(len(image)) - start[image]


def _joined(parts: list[Detections]) -> Detections:
    columns = []
    for name in FIELDS:
        columns.append(np.concatenate([getattr(part, name) for part in parts]))
    return Detections(*columns)


FIELDS = ("image", "label", "slot", "shift", "score")


def _delivery(image: I64, label: I64, slot: I64, shift: F64, score: F64 | None = None) -> Delivery:
    left, top = PITCH * (slot % COLUMNS) + shift, PITCH * (slot // COLUMNS)
    boxes = np.stack([left, top, left + SIDE, top + SIDE], axis=1).astype(np.float64)
    return Delivery(image, label, boxes, "xyxy", np.arange(len(image)), score)
