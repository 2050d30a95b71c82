# SPDX-License-Identifier: Apache-2.0
"""Risk against coverage: what is lost on the images that a monitor lets through, under many weightings at once.

Images are accepted by rising alarm score. With the first k of N accepted, the selective risk is their mean loss and
the generalised risk their summed loss over N; AURC and AUGRC are the means of these over k = 1 .. N. Images with equal
scores come in any order: the expected value over all orders is taken, in which the j-th of a group of m adds the mean
loss of the group. An image of weight w is w images with the same score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, ratio

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Weights = NDArray[Any]  # (R, n) whole numbers


def coverage_sums(cuts: Cuts, loss: F64, weights: Weights) -> tuple[F64, I64]:
    """Return (g, R): summed loss and number of the images that are accepted after every group, lowest score first.

    ``cuts`` are of the negative alarm score: its highest are the images that are accepted first.
    """
    gathered = cuts.gathered(weights)
    number = np.cumsum(gathered, axis=0)[cuts.last]
    return np.cumsum(gathered * loss[cuts.order, None], axis=0)[cuts.last], np.asarray(number)


def aurc(lost: F64, number: I64) -> F64:
    """Return (R,): the area under the risk-coverage curve; NaN without an image.

    In a group of m images with mean loss g, after c images with loss L, the expected risks add up to
    ``sum_j (L + j g) / (c + j) = m g + (L - c g) (H(c + m) - H(c))`` with the harmonic numbers H.
    """
    before, of_group = _before(lost), lost - _before(lost)
    c = _before(number)
    m = number - c
    mean = np.divide(of_group, m, out=np.zeros(lost.shape), where=m > 0)
    h = harmonic(int(number[-1:].max(initial=0)))
    terms = of_group + (before - c * mean) * (h[number] - h[c])
    n = number[-1:].sum(axis=0)
    return ratio(np.cumsum(terms, axis=0)[-1:].sum(axis=0), n, n > 0)


def augrc(lost: F64, number: I64) -> F64:
    """Return (R,): the area under the generalised risk-coverage curve, the mean over k of summed loss / N."""
    before = _before(lost)
    m = number - _before(number)
    terms = m * before + (lost - before) * (m + 1) / 2.0
    n = number[-1:].sum(axis=0).astype(np.float64)
    return ratio(np.cumsum(terms, axis=0)[-1:].sum(axis=0), n * n, n > 0)


def harmonic(n: int) -> F64:
    """Return H(0) .. H(n), H(k) = 1 + 1/2 + ... + 1/k."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


def _before(table: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros_like(table[:1]), table[:-1]])
