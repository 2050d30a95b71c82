# SPDX-License-Identifier: Apache-2.0
"""Risk against coverage: what is lost on the images that a monitor lets through, under many
weightings at once.

Images are accepted by rising alarm score. With the first k of N accepted, the selective risk is
their mean loss and the generalised risk their summed loss over N; AURC and AUGRC are the means of
these over k = 1 .. N. Images with equal scores come in any order: the expected value over all
orders is taken, in which the j-th of a group of m adds the mean loss of the group. An image of
weight w is w images with the same score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Standing, harmonic, ratio

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def aurc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the risk-coverage curve for losses (L, n); NaN without an image.

    The image accepted as number p counts in every mean from k = p on, with 1/k: see
    `Standing.lasting`.
    """
    n = standing.total
    return ratio(
        standing.sums(loss, standing.lasting), np.broadcast_to(n, (len(loss), len(n))), n > 0
    )


def best_aurc(positives: F64, total: I64) -> F64:
    """Return the area of the best order under the loss 1 on positives: all others are accepted
    first.

    With n0 others, ``sum_j j / (n0 + j) = P - n0 (H(N) - H(n0))`` over j = 1 .. P.
    """
    h = harmonic(int(total.max(initial=0)))
    others = total - positives
    area = positives - others * (h[total] - h[others.astype(np.int64)])
    return ratio(area, np.broadcast_to(total, area.shape), total > 0)


def augrc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the generalised risk-coverage curve, the mean over k of summed
    loss / N.

    The image accepted as number p counts N - p + 1 times.
    """
    n = standing.total
    times = n - standing.below - (standing.level - 1) / 2.0
    squared = np.broadcast_to(n.astype(np.float64) ** 2, (len(loss), len(n)))
    return ratio(standing.sums(loss, times), squared, n > 0)
