# SPDX-License-Identifier: Apache-2.0
"""Synthetic models with planted weaknesses: what they find, mislabel, add, and how they score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.synthetic.anatomy import CLASSES, Anatomy, clip, place

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# What a class is taken for when it is taken for another one: row = true class, in the order of
# CLASSES.
CONFUSED_WITH = np.array(
    [
        [0.00, 0.80, 0.12, 0.08],
        [0.62, 0.00, 0.26, 0.12],
        [0.12, 0.48, 0.00, 0.40],
        [0.05, 0.30, 0.65, 0.00],
    ]
)
FALSE_ALARM_CLASSES = np.array([0.50, 0.20, 0.22, 0.08])


@dataclass(frozen=True, slots=True)
class Character:
    """How a synthetic model behaves.

    It finds a finding of area A with probability ``hit_rate / (1 + (half_seen / A) **
    steepness)``; the box is moved by ``position`` (deviation relative to its sides) and scaled by
    ``scale`` (deviation of the log).
    """

    hit_rate: float = 0.97
    half_seen: float = 0.0  # px² at 256 x 256: the area of which half the findings are seen
    steepness: float = 3.0
    position: float = 0.03
    scale: float = 0.04
    confusion: float = 0.0  # share of findings that get another class
    duplicates: float = 0.0  # mean per finding that was found
    false_alarms: float = 0.0  # mean per image
    score: tuple[float, float] = (8.0, 2.0)  # Beta distribution of the score of a finding
    false_score: tuple[float, float] = (2.0, 5.0)  # ... and of a false alarm
    calibrated: bool = False  # false alarms exactly as frequent as the scores admit


CHARACTERS = {
    "mislabels": Character(
        position=0.025,
        scale=0.035,
        confusion=0.38,
        false_alarms=0.06,
        score=(7.0, 2.2),
        false_score=(3.0, 4.0),
    ),
    "overpredicts": Character(
        position=0.035,
        scale=0.045,
        confusion=0.02,
        duplicates=1.3,
        false_alarms=2.6,
        score=(11.0, 2.5),
    ),
    "misses-small": Character(
        hit_rate=0.98,
        half_seen=1150.0,
        position=0.014,
        scale=0.02,
        confusion=0.01,
        score=(9.0, 1.4),
        calibrated=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One image as a model meets it."""

    size: F64  # (2,) pixels
    anatomy: Anatomy
    boxes: F64  # (n, 4) references
    labels: I64  # (n,)
    difficulty: float  # 1 = ordinary; scales every weakness


PredictionList = list[tuple[F64, int, float]]  # box, label, score


def predict(
    character: Character, scene: Scene, random: Generator
) -> dict[str, NDArray[np.generic]]:
    """Return the predictions of a model of that character on an image: boxes, labels, scores."""
    predictions: PredictionList = []
    for box, label in zip(scene.boxes, scene.labels.tolist()):
        if random.random() < _hit_probability(character, box, scene):
            predictions += _finding(character, box, label, scene, random)
    for _ in range(random.poisson(character.false_alarms * scene.difficulty)):
        predictions.append(_false_alarm(scene, float(random.beta(*character.false_score)), random))
    order = random.permutation(len(predictions))
    boxes = [predictions[k][0] for k in order]
    return {
        "boxes": np.round(np.array(boxes, np.float64).reshape(-1, 4), 2),
        "labels": np.array([predictions[k][1] for k in order], np.int64),
        "scores": np.round(np.clip([predictions[k][2] for k in order], 0.001, 0.999), 4),
    }


def _hit_probability(character: Character, box: F64, scene: Scene) -> float:
    area = float(np.prod(box[2:] - box[:2]) / scene.size.min() ** 2 * 256.0**2)
    probability: float = character.hit_rate / (
        1.0 + (character.half_seen / area) ** character.steepness
    )
    return 1.0 - min(1.0, (1.0 - probability) * scene.difficulty)


def _finding(
    character: Character, box: F64, label: int, scene: Scene, random: Generator
) -> PredictionList:
    """The prediction for one finding, its duplicates, and the false alarms that keep the score
    calibrated.
    """
    score = float(random.beta(*character.score))
    confused = random.random() < character.confusion * min(scene.difficulty, 1.2)
    label_of_model = int(random.choice(len(CLASSES), p=CONFUSED_WITH[label])) if confused else label
    noise = (character.position * scene.difficulty, character.scale * scene.difficulty)
    predictions = [(_jitter(box, *noise, scene.size, random), label_of_model, score)]
    for _ in range(random.poisson(character.duplicates)):
        copy = _jitter(box, 0.13, 0.16, scene.size, random)
        predictions.append((copy, label_of_model, score * float(random.uniform(0.25, 0.7))))
    # One false alarm in (1 - s) / s hits of score s: then a share s of that score is right.
    if character.calibrated and random.random() < (1.0 - score) / score:
        predictions.append(_false_alarm(scene, score, random))
    return predictions


def _false_alarm(scene: Scene, score: float, random: Generator) -> tuple[F64, int, float]:
    label = int(random.choice(len(CLASSES), p=FALSE_ALARM_CLASSES))
    return place(label, scene.anatomy, scene.size, random), label, score


def _jitter(box: F64, position: float, scale: float, size: F64, random: Generator) -> F64:
    sides = box[2:] - box[:2]
    middle = (box[:2] + box[2:]) / 2.0 + random.normal(0.0, position, 2) * sides
    sides = sides * np.exp(random.normal(0.0, scale, 2))
    return clip(np.concatenate([middle - sides / 2.0, middle + sides / 2.0]), size)
