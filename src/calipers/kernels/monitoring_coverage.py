# SPDX-License-Identifier: Apache-2.0
"""Risk against coverage: what is lost on the images that a monitor lets through, under many weightings at once.

Images are accepted by rising alarm score. With the first k of N accepted, the selective risk is their mean loss and
the generalised risk their summed loss over N; AURC and AUGRC are the means of these over k = 1 .. N. Images with equal
scores come in any order: the expected value over all orders is taken, in which the j-th of a group of m adds the mean
loss of the group. An image of weight w is w images with the same score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Standing, ratio

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def aurc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the risk-coverage curve for losses (L, n); NaN without an image.

    The image accepted as number p counts in every mean from k = p on, with 1/k: ``H(N) - H(p - 1)`` in all, with the
    harmonic numbers H. In a group of m after c images p is any of c + 1 .. c + m, and
    ``H(0) + ... + H(K - 1) = K H(K) - K``.
    """
    n = standing.total
    h = harmonic(int(n.max(initial=0)))
    c, m = standing.below, standing.level
    k = np.arange(len(h))
    total = k * h - k
    mean = np.divide(total[c + m] - total[c], m, out=np.zeros(m.shape), where=m > 0)
    share = h[n] - np.where(m == 1, h[c], mean)
    return ratio(standing.sums(loss, share), np.broadcast_to(n, (len(loss), len(n))), n > 0)


def best_aurc(wanted: F64, total: I64) -> F64:
    """Return the area of the best order under the loss 1 on wanted images: all others are accepted first.

    With n0 others, ``sum_j j / (n0 + j) = P - n0 (H(N) - H(n0))`` over j = 1 .. P.
    """
    h = harmonic(int(total.max(initial=0)))
    others = total - wanted
    area = wanted - others * (h[total] - h[others.astype(np.int64)])
    return ratio(area, np.broadcast_to(total, area.shape), total > 0)


def augrc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the generalised risk-coverage curve, the mean over k of summed loss / N.

    The image accepted as number p counts N - p + 1 times.
    """
    n = standing.total
    times = n - standing.below - (standing.level - 1) / 2.0
    squared = np.broadcast_to(n.astype(np.float64) ** 2, (len(loss), len(n)))
    return ratio(standing.sums(loss, times), squared, n > 0)


def harmonic(n: int) -> F64:
    """Return H(0) .. H(n), H(k) = 1 + 1/2 + ... + 1/k."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])
