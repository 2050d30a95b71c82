# SPDX-License-Identifier: Apache-2.0
"""Scores of single images, averaged over the images that have something to find or a prediction.

``image-threat-score``
    of every image ``TP / (TP + FP + FN)``, mean over the thresholds, then mean over images. Images
    with neither references nor predictions are left out; an image without references that has a
    prediction scores 0. This is the metric of the RSNA Pneumonia Detection Challenge of 2018, with
    thresholds of the IoU from 0.4 to 0.75 in steps of 0.05, where it was called mean average
    precision. It has no ranking: the score decides who is matched first, and nothing else, so a
    model has to cut its predictions itself (``score_cut``). Undefined without any object.

Pooled values count the objects of all classes of an image together, values of a class only its own
objects. Ignored references, and predictions on them, do not count. The evidence is `Matches`.

References
----------
Shih et al., Augmenting the National Institutes of Health chest radiograph dataset with expert
annotations of possible pneumonia, Radiology: Artificial Intelligence 1, 2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.kernels.resampling import SumTable
from calipers.matching.matches import Matches
from calipers.metrics.base import Facts, MatchMetric, Output, Sides
from calipers.metrics.counts import FN, FP, TP, ratio, unit_counts

OBJECTS: Sides = ("references", "predictions")


class ImageThreatScore(MatchMetric):
    """TP / (TP + FP + FN) of every image, mean over thresholds and images with objects."""

    needed = tried = judged = OBJECTS
    facts = Facts(
        id="image-threat-score@1",
        short={"threat/image": {}},
        over_thresholds=True,
        trials="images",
        word="threat score per image",
        meaning=(
            "Hits divided by hits, false alarms and misses of each image, averaged over thresholds "
            "and over the images that have references or predictions. The metric of the RSNA "
            "pneumonia challenge."
        ),
        citations=(
            "Shih G, et al. Augmenting the National Institutes of Health chest radiograph dataset "
            "with expert annotations of possible pneumonia. Radiol Artif Intell 2019;1:e180041.",
        ),
        page="explanation/instances.md#images-with-objects",
    )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            scores, number = self._tables(evidence, output)
            columns.append(ratio(scores.sums(weights), number.sums(weights)))
        return np.stack(columns, axis=2)

    def _tables(self, evidence: Matches, output: Output) -> tuple[SumTable, SumTable]:
        """Return the scores of the images with objects, and their number; entry 0 is pooled."""
        key = ("threat scores of images", output.views, output.max_dets)
        if key not in evidence.kept:
            values = image_scores(evidence, output)
            image, column = np.nonzero(~np.isnan(values))
            n_columns = 1 + evidence.n_classes
            evidence.kept[key] = (
                SumTable.of(values[image, column], image, column, n_columns),
                SumTable.of(np.ones(len(image)), image, column, n_columns),
            )
        tables: tuple[SumTable, SumTable] = evidence.kept[key]
        return tables

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return where there is neither a reference nor a prediction."""
        return np.asarray((table[:, :, 1] == 0) & (table[:, :, 2] == 0))

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_objects"


def image_scores(evidence: Matches, output: Output) -> F64:
    """Return (n_images, 1 + n_classes): the mean over thresholds; NaN without objects.

    A threshold at which all objects of an image are ignored is left out of its mean.
    """
    n = evidence.n_images
    of_views = []
    for view in output.views:
        counts = unit_counts(evidence, view, output.max_dets, np.arange(n), n)
        counts = np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1)
        hits = counts[..., TP]
        of_views.append(ratio(hits, hits + counts[..., FP] + counts[..., FN]))
    scores = np.stack(of_views)
    is_defined = ~np.isnan(scores)
    total = np.where(is_defined, scores, 0.0).sum(axis=0)
    return ratio(total, is_defined.sum(axis=0).astype(np.float64))
