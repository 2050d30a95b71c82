# SPDX-License-Identifier: Apache-2.0
"""Images in the order of their alarm scores, under many weightings at once: equal scores are one
operating point.

An image is *positive* if an alarm on it would be right. Rejecting all images from a score on gives
TP positive and FP other images; only thresholds between different scores are attainable, and
nothing is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Weights = NDArray[Any]  # (R, n) whole numbers

ROWS_AT_ONCE = 2


@dataclass(frozen=True)
class Cuts:
    """The attainable thresholds of a score, highest first: after each of them a whole group of ties
    is rejected.
    """

    order: I64  # (n,) images by falling score
    last: I64  # (g,) place of the last image of every group of equal scores
    threshold: F64  # (g,) the score of every group

    @classmethod
    def of(cls, score: F64) -> Cuts:
        """Order images (n,) by a score without NaN."""
        order = np.argsort(-score, kind="stable")
        falling = score[order]
        last = np.flatnonzero(
            np.append(falling[1:] != falling[:-1], np.ones(min(len(score), 1), np.bool_))
        )
        return cls(order, last.astype(np.int64), falling[last])

    def gathered(self, weights: Weights) -> I64:
        """Return (n, R): the weights in the order of the images, replicates of an image side by
        side.
        """
        return np.asarray(weights.T[self.order], np.int64)

    def rejected(self, gathered: I64, flags: Flags | None = None) -> I64:
        """Return (g, R): the weight of the images, or of those with a flag, that every threshold
        rejects.
        """
        if flags is not None:
            gathered = gathered * flags[self.order, None]
        return np.asarray(np.cumsum(gathered, axis=0)[self.last])


@dataclass(frozen=True)
class Standing:
    """How much weight lies around every image, whichever the labels: (n, R) each, in the order of
    the cuts.

    With ``U`` the weight below an image and half of that level with it, itself included, positive
    images of weight P in all have ``sum w U = right pairs + P^2 / 2``: among themselves they win
    half of all pairs. So one product serves many labellings.
    """

    order: I64  # (n,)
    weight: F64
    below: I64  # (g, R) weight of the images with a lower score
    level: I64  # (g, R) weight of the images with the same score
    group: I64  # (n,)

    @classmethod
    def of(cls, cuts: Cuts, weights: Weights) -> Standing:
        """Place images (n,) among each other under weights (R, n)."""
        gathered = cuts.gathered(weights)
        upto = cuts.rejected(gathered)
        level = _steps(upto)
        total = upto[-1:]
        group = np.repeat(np.arange(len(cuts.last)), np.diff(cuts.last, prepend=-1))
        return cls(cuts.order, gathered.astype(np.float64), total - upto, level, group)

    @property
    def total(self) -> I64:
        """(R,) the weight of all images."""
        return np.asarray(self.below[:1].sum(axis=0) + self.level[:1].sum(axis=0))

    @cached_property
    def lasting(self) -> F64:
        """(g, R): how long an image counts if images are accepted by rising score, ``E[1/p + ... +
        1/N]`` at place p.

        That is ``H(N) - H(p - 1)`` with the harmonic numbers H. In a group of m after c images p is
        any of c + 1 .. c + m, and ``H(0) + ... + H(K - 1) = K H(K) - K``.
        """
        n, c, m = self.total, self.below, self.level
        h = harmonic(int(n.max(initial=0)))
        k = np.arange(len(h))
        sums = k * h - k
        mean = np.divide(sums[c + m] - sums[c], m, out=np.zeros(m.shape), where=m > 0)
        # For a single image, avoid the difference of large sums.
        return np.asarray(h[n] - np.where(m == 1, h[c], mean))

    def sums(self, of_image: F64, of_group: NDArray[Any]) -> F64:
        """Return (L, R): sums over images of weight x number of the image (L, n) x number of its
        group (g, R).
        """
        return product(of_image[:, self.order], self.weight * of_group[self.group])

    def positives(self, labels: Flags) -> F64:
        """Return (L, R): the weight of the positive images of every labelling."""
        return product(labels[:, self.order].astype(np.float64), self.weight)

    def auroc(self, labels: Flags) -> F64:
        """Return (L, R) areas under the ROC curve; whole numbers up to the one division, so exact
        in any order.
        """
        p = self.positives(labels)
        n = self.total - p
        twice = self.sums(labels.astype(np.float64), 2 * self.below + self.level)
        return ratio(0.5 * (twice - p * p), p * n, (p > 0) & (n > 0))


@dataclass(frozen=True)
class Operating:
    """What every attainable threshold does, (g, R) each, and the numbers of images, (R,) each."""

    tp: NDArray[Any]  # whole numbers
    fp: NDArray[Any]

    @classmethod
    def of(cls, cuts: Cuts, gathered: I64, everyone: I64, positive: Flags) -> Operating:
        """Return the counts of one labelling; ``everyone`` is ``cuts.rejected(gathered)``."""
        tp = cuts.rejected(gathered, positive)
        return cls(tp, everyone - tp)

    @property
    def positives(self) -> NDArray[Any]:
        """The weight of the images on which an alarm is right."""
        return np.asarray(self.tp[-1:].sum(axis=0))

    @property
    def others(self) -> NDArray[Any]:
        """The weight of all other images."""
        return np.asarray(self.fp[-1:].sum(axis=0))

    @property
    def both(self) -> Flags:
        """Where there are images of both kinds; every quantity here is NaN elsewhere."""
        return (self.positives > 0) & (self.others > 0)

    def auroc(self) -> F64:
        """Return the share of pairs of a positive and another image in the right order; ties count
        half.

        Whole numbers up to the one division, so it is exact in any order.
        """
        before = _counts_before(self.tp)
        twice = np.sum(_steps(self.fp) * (self.tp + before), axis=0)
        return ratio(0.5 * twice, self.positives * self.others, self.both)

    def aupr(self) -> F64:
        """Return the average precision: the sum over thresholds of precision x step of recall."""
        return self._average_precision(self.tp, self.fp)

    def aupr_in(self) -> F64:
        """Return the same for the other images, the lowest score first."""
        return self._average_precision(*(_accepted_weight(side) for side in (self.fp, self.tp)))

    def _average_precision(self, tp: NDArray[Any], fp: NDArray[Any]) -> F64:
        n = tp + fp
        precision = np.divide(tp, n, out=np.zeros(tp.shape), where=n > 0)
        total = np.cumsum(_steps(tp) * precision, axis=0)[-1:].sum(axis=0)
        return ratio(total, tp[-1:].sum(axis=0), self.both)

    def at_tpr(self, least: float) -> I64:
        """Return (R,): the first threshold that rejects at least this share of the positives."""
        share = self.tp / np.maximum(self.positives, 1)
        return np.asarray(np.argmax(share >= least, axis=0))

    def tnr_at_tpr(self, least: float) -> F64:
        """Return the share of other images accepted there: the largest attainable 1 - FPR."""
        if not len(self.fp):
            return np.full(self.fp.shape[1], np.nan)
        here = np.take_along_axis(self.fp, self.at_tpr(least)[None], axis=0)[0]
        return ratio(self.others - here, self.others, self.both)

    def best_f1(self) -> F64:
        """Return the largest 2 TP / (TP + FP + P) over the thresholds."""
        f1 = 2.0 * self.tp / np.maximum(self.tp + self.fp + self.positives, 1)
        return np.where(self.both, f1.max(axis=0, initial=0.0), np.nan)


def operating(score: F64, positive: Flags, weights: Weights) -> Operating:
    """Return the counts at every attainable threshold of one score and one labelling."""
    cuts = Cuts.of(score)
    gathered = cuts.gathered(weights)
    return Operating.of(cuts, gathered, cuts.rejected(gathered), positive)


def product(rows: F64, columns: F64) -> F64:
    """Return (L, R): rows (L, n) times columns (n, R), a few rows at a time.

    Small products stay on one thread; large ones wake threads that wait for each other on a busy
    machine.
    """
    parts = [rows[k : k + ROWS_AT_ONCE] @ columns for k in range(0, len(rows), ROWS_AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, columns.shape[1]))


def harmonic(n: int) -> F64:
    """Return H(0) .. H(n), H(k) = 1 + 1/2 + ... + 1/k."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


def ratio(top: NDArray[Any], bottom: NDArray[Any], where: Flags) -> F64:
    """Return top / bottom, NaN elsewhere."""
    return np.asarray(np.divide(top, bottom, out=np.full(np.shape(bottom), np.nan), where=where))


def _counts_before(counts: NDArray[Any]) -> NDArray[Any]:
    """Return the counts before every threshold."""
    return np.concatenate([np.zeros_like(counts[:1]), counts[:-1]])


def _steps(counts: NDArray[Any]) -> NDArray[Any]:
    """Return what every threshold adds."""
    steps = counts.copy()
    steps[1:] -= counts[:-1]
    return steps


def _accepted_weight(rejected: NDArray[Any]) -> NDArray[Any]:
    """Return (g, R): the weight of images with at most each score, lowest first."""
    return np.asarray((rejected[-1:] - _counts_before(rejected))[::-1])
