# SPDX-License-Identifier: Apache-2.0
"""The definitions of the paper on counts and on images made by hand: where they have no value, and
what they hide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.scope import mean_f1, scope_scores
from calipers.tables import Cohort

F64 = NDArray[np.float64]

MOST = 6  # predictions, references: all counts up to here are tried
NUMBERS_OF_CLASSES = (1, 2, 3, 4, 8, 14, 20, 80)
MOST_PREDICTIONS = 8  # on an image with one runway
MEANS = ("declared", "present", "micro")
BOX = (10.0, 10.0, 50.0, 40.0)


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """One class on one image, and what the formulas make of it; NaN where a formula divides by 0."""

    predictions: int
    references: int
    hits: int
    precision: float
    recall: float
    printed_score: float  # the score by the four printed cases
    defined_score: float  # 2 TP / (Nd + Nx), 1 if both are 0


@dataclass(frozen=True)
class Definitions:
    """What follows from the definitions alone."""

    counts: tuple[ClassCounts, ...]  # all that can be, up to MOST of each
    one_runway: tuple[tuple[int, bool, float], ...]  # predictions, hit, measured s
    missed: dict[
        str, F64
    ]  # mean over classes -> s of an image whose only object is missed, by number of classes
    confused: dict[str, F64]  # the same if it gets a wrong class, from two classes on; NaN for one


def definitions() -> Definitions:
    """Return all of them."""
    missed = {mean: np.array([_missed(c, mean) for c in NUMBERS_OF_CLASSES]) for mean in MEANS}
    confused = {mean: np.array([_confused(c, mean) for c in NUMBERS_OF_CLASSES]) for mean in MEANS}
    return Definitions(all_counts(), one_runway(), missed, confused)


def all_counts(most: int = MOST) -> tuple[ClassCounts, ...]:
    """Return every number of predictions, references and hits up to ``most``, with all scores."""
    counts = []
    for n_predictions, n_references in product(range(most + 1), repeat=2):
        for hits in range(min(n_predictions, n_references) + 1):
            p, r = (hits / n if n else math.nan for n in (n_predictions, n_references))
            one = np.array([[[hits]], [[n_predictions]], [[n_references]]], np.float64)
            defined_score = float(mean_f1(one[0], one[1], one[2], "declared")[0])
            counts.append(
                ClassCounts(
                    n_predictions,
                    n_references,
                    hits,
                    p,
                    r,
                    _printed_score(n_predictions, n_references, p, r),
                    defined_score,
                )
            )
    return tuple(counts)


def _printed_score(n_predictions: int, n_references: int, p: float, r: float) -> float:
    """Return the score by the cases of the paper, taken literally: 2 P R / (P + R) is 0 / 0 if
    nothing is hit.
    """
    if n_predictions == 0 and n_references == 0:
        return 1.0
    if n_predictions == 0 or n_references == 0:
        return 0.0
    return 2.0 * p * r / (p + r) if p + r > 0 else math.nan


def one_runway() -> tuple[tuple[int, bool, float], ...]:
    """Return s of images with one runway and up to eight predictions, of which one hits it or none."""
    cases = [(n, hit) for n in range(MOST_PREDICTIONS + 1) for hit in (False, True) if n or not hit]
    records, counts = [], []
    for k, (n, hit) in enumerate(cases):
        aside = [[60.0 + 12.0 * j, 60.0, 70.0 + 12.0 * j, 70.0] for j in range(n - hit)]
        boxes = np.array([*([list(BOX)] if hit else []), *aside]).reshape(-1, 4)
        records.append(
            {"image_id": str(k), "boxes": [list(BOX)], "labels": [0], "width": 200, "height": 100}
        )
        counts.append(
            {
                "image_id": str(k),
                "boxes": boxes,
                "labels": np.zeros(n, np.int64),
                "scores": np.linspace(0.9, 0.5, n),
            }
        )
    scope = scope_scores(Cohort.from_arrays(records, {"made": counts}, classes=("runway",)))
    return tuple((n, hit, float(s)) for (n, hit), s in zip(cases, scope.score))


def _missed(n_classes: int, mean: str) -> float:
    hits = n_predictions = np.zeros((1, n_classes))
    n_references = np.zeros((1, n_classes))
    n_references[0, 0] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])


def _confused(n_classes: int, mean: str) -> float:
    if n_classes == 1:
        return math.nan
    hits, n_predictions, n_references = np.zeros((3, 1, n_classes))
    n_references[0, 0] = n_predictions[0, 1] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])
