# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression of the predictions of a model, as a table in and a table out."""

from __future__ import annotations

import numpy as np

from calipers.data.objects import Predictions
from calipers.errors import UsageError
from calipers.kernels import boxes as kernels
from calipers.kernels.boxes import BoxPool


def suppressed(
    predictions: Predictions, threshold: float = 0.5, *, n_classes: int = 0
) -> Predictions:
    """Return the predictions that non-maximum suppression leaves.

    Parameters
    ----------
    threshold
        A box is removed if its IoU with a better one that stays is above it.
    n_classes
        Boxes of different classes do not suppress each other; 0: classes do not matter.

    Notes
    -----
    Better is the higher score; of equal ones the earlier in the input.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.matching.suppress import suppressed
    >>> cohort = cal.demo_cohort()
    >>> predictions = cohort.models["overpredicts"]
    >>> len(suppressed(predictions, 0.5, n_classes=len(cohort.classes))) < len(predictions)
    True
    """
    if not 0 <= threshold <= 1:
        raise UsageError(
            f"the threshold of non-maximum suppression lies in [0, 1], got {threshold!r}"
        )
    label = predictions.label if n_classes else np.zeros_like(predictions.label)
    pool = BoxPool(
        offsets=predictions.offsets,
        label=label,
        boxes=predictions.boxes,
        extent=predictions.extent,
        score=predictions.score,
    )
    survivors = kernels.suppressed([pool], np.ones(1), threshold)
    # Rows of an image stay in their order.
    is_left = np.zeros(len(predictions), np.bool_)
    is_left[survivors.rows] = True
    return predictions.keep(is_left)
