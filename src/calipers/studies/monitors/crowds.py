# SPDX-License-Identifier: Apache-2.0
"""The matching rule of the paper taken literally, on images with references close to each other.

Literally, a prediction is matched with a reference if their IoU is at least 0.5 and no other
prediction of the class has a larger IoU with that reference. Nothing prevents a prediction from
being the best for two references.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import overlap
from calipers.monitors.scope import scope_scores
from calipers.synthetic.anatomy import stream
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

FOREGROUND = 0.5
SIDE = 100.0
CLOSE = (0.0, 0.45)  # how far the second reference lies from the first, in sides
ONE_FOR_BOTH = 0.4  # share of images on which the detector sees a pair as one


@dataclass(frozen=True)
class Crowds:
    """Counts by the literal rule and by one-to-one matching."""

    images: int
    references: int
    twice: int  # images on which a prediction is matched with two references
    hits_by_reference: int
    hits_by_prediction: int  # predictions that are matched with any reference
    hits_one_to_one: int
    recall_without_cost: int  # images with literal recall 1 and fewer predictions than references
    ties: int  # references for which two predictions have the same largest IoU: both match


def crowds(n: int, seed: int) -> Crowds:
    """Return the counts on ``n`` images with two close references, such as parallel runways."""
    random = stream(seed, "close references")
    records, predictions, hits = [], [], []
    for k in range(n):
        reference_boxes, boxes = _pair(random)
        image = {"image_id": str(k), "width": 200, "height": 200}
        records.append({**image, "boxes": reference_boxes, "labels": [0, 0]})
        labels, scores = np.zeros(len(boxes), np.int64), np.linspace(0.9, 0.5, len(boxes))
        predictions.append({"image_id": str(k), "boxes": boxes, "labels": labels, "scores": scores})
        hits.append(literal_hits(reference_boxes, boxes))
    cohort = Cohort.from_arrays(records, {"made": predictions}, classes=("runway",))
    scope = scope_scores(cohort, FOREGROUND)
    # The score is F1 = 2 TP / (references + predictions); solved for TP.
    one_to_one = np.rint(scope.score * (scope.n_references + scope.n_predictions) / 2.0)
    literal = np.array(hits, np.int64).reshape(-1, 3)
    full = (literal[:, 0] == scope.n_references) & (scope.n_predictions < scope.n_references)
    return Crowds(
        images=n,
        references=int(scope.n_references.sum()),
        twice=int((literal[:, 0] > literal[:, 1]).sum()),
        hits_by_reference=int(literal[:, 0].sum()),
        hits_by_prediction=int(literal[:, 1].sum()),
        hits_one_to_one=int(one_to_one.sum()),
        recall_without_cost=int(full.sum()),
        ties=int(literal[:, 2].sum()),
    )


def literal_hits(references: F64, predictions: F64) -> tuple[int, int, int]:
    """Return the counts by the literal rule: references with a match, predictions with a match,
    and references with two equally good matches.
    """
    if not len(references) or not len(predictions):
        return 0, 0, 0
    a = np.repeat(references, len(predictions), axis=0).T
    b = np.tile(predictions, (len(references), 1)).T
    areas = (np.prod(overlap.sides(boxes), axis=0) for boxes in (a, b))
    iou = overlap.iou(a, b, *areas).reshape(len(references), len(predictions))
    best = (iou == iou.max(axis=1, keepdims=True)) & (iou >= FOREGROUND)
    return (
        int(best.any(axis=1).sum()),
        int(best.any(axis=0).sum()),
        int((best.sum(axis=1) > 1).sum()),
    )


def _pair(random: np.random.Generator) -> tuple[F64, F64]:
    """Return two close references and the predictions for them: one for each, or one for both."""
    corner = random.uniform(0.0, 50.0, 2)
    aside = random.uniform(*CLOSE) * SIDE
    first = np.array([*corner, *(corner + SIDE)])
    references = np.stack([first, first + np.array([aside, 0.0, aside, 0.0])])
    predictions = references.copy()
    if random.random() < ONE_FOR_BOTH:
        predictions = references.mean(axis=0, keepdims=True)
    return references, predictions + random.normal(0.0, 3.0, predictions.shape)
