# SPDX-License-Identifier: Apache-2.0
"""Scores against two kinds of cases, under many weightings at once: ROC, precision and risk.

A case is *positive* if a high score on it is right: a useful detection, a sick patient, an image on
which an alarm is wanted. Calling all cases from a score on finds TP positive and FP other cases;
equal scores are one operating point, only thresholds between different scores are attainable, and
nothing is interpolated. A case of weight w is w cases with the same score.

`Cuts` sorts scores once and `Operating` counts at every threshold: areas under the ROC and the
precision-recall curve, the best F1, the best Youden index. Agreement, monitors and figures call
them. Two shortcuts give the same area where `Operating` would be slow, and `share_of_pairs` is the
one division of all three, of whole numbers, so their bits are equal: `CaseRanks` for many cases
without a score, `Standing` for many labellings of the same scores. Voxels are too many to be sorted
for every weighting: `kernels.voxels` and `kernels.voxel_ranking` sum over counted scores instead,
where products leave the whole numbers that are exact, so they keep their own order of operations.

Risk against coverage (`aurc`, `augrc`) is what is lost on the images that a monitor lets through.
Images are accepted by rising alarm score. With the first k of N accepted, the selective risk is
their mean loss and the generalised risk their summed loss over N; AURC and AUGRC are the means of
these over k = 1 .. N. Images with equal scores come in any order: the expected value over all
orders is taken, in which the j-th of a group of m adds the mean loss of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags

Weights = NDArray[Any]  # (R, n) whole numbers

# See `product`.
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
        """Order cases (n,) by a score without NaN."""
        # Highest first; the order inside a tie does not matter, a whole group is rejected together.
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
class Operating:
    """What every attainable threshold does, (g, R) each, and the numbers of images, (R,) each."""

    tp: NDArray[Any]  # whole numbers
    fp: NDArray[Any]

    @classmethod
    def of(cls, cuts: Cuts, gathered: I64, everyone: I64, positive: Flags) -> Operating:
        """Return the counts of one labelling; ``everyone`` is ``cuts.rejected(gathered)``."""
        tp = cuts.rejected(gathered, positive)
        return cls(tp, everyone - tp)

    @classmethod
    def under(cls, cuts: Cuts, positive: Flags, weights: Weights) -> Operating:
        """Return the counts of one labelling under weights (R, n)."""
        gathered = cuts.gathered(weights)
        return cls.of(cuts, gathered, cuts.rejected(gathered), positive)

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
        """Return (R,): the area under the ROC curve."""
        before = _counts_before(self.tp)
        twice = np.sum(_steps(self.fp) * (self.tp + before), axis=0)
        return share_of_pairs(twice, self.positives, self.others)

    def aupr(self) -> F64:
        """Return the average precision: the sum over thresholds of precision x step of recall."""
        return self._average_precision(self.tp, self.fp)

    def aupr_in(self) -> F64:
        """Return the same for the other images, the lowest score first."""
        return self._average_precision(*(_accepted_weight(side) for side in (self.fp, self.tp)))

    def _average_precision(self, tp: NDArray[Any], fp: NDArray[Any]) -> F64:
        n = tp + fp
        precision = np.divide(tp, n, out=np.zeros(tp.shape), where=n > 0)
        # cumsum adds term by term from the top, so an added replicate changes no bits; sum may
        # add in pairs.
        total = np.cumsum(_steps(tp) * precision, axis=0)[-1:].sum(axis=0)
        return ratio(total, tp[-1:].sum(axis=0), self.both)

    def at_tpr(self, least: float) -> I64:
        """Return (R,): the first threshold that rejects at least this share of the positives."""
        # TP rises along the thresholds, so the first that suffices has the fewest false alarms.
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

    def youden(self) -> F64:
        """Return (g, R): sensitivity + specificity - 1 at every threshold; NaN without either
        kind.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            specificity = (self.others - self.fp) / self.others
            missed = (self.positives - self.tp) / self.positives
        return np.asarray(specificity - missed)

    def best_youden(self) -> I64:
        """Return (R,): the threshold of the largest Youden index; of equal ones the lowest, which
        calls most.
        """
        # Cross-multiplied, whole numbers tie exactly.
        right = (self.others - self.fp) * self.positives
        scaled = right - (self.positives - self.tp) * self.others
        return np.asarray(len(scaled) - 1 - np.argmax(scaled[::-1], axis=0))


def operating(score: F64, positive: Flags, weights: Weights) -> Operating:
    """Return the counts at every attainable threshold of one score and one labelling."""
    return Operating.under(Cuts.of(score), positive, weights)


@dataclass(frozen=True)
class CaseRanks:
    """Positive cases, and negative ones in ascending order; silent negative cases, mostly many, are
    one entry.

    Most images of a screening have neither findings nor predictions. `Operating` would gather the
    weights of all of them in every replicate; here they are what is left of the total.
    """

    positive: I64  # (p,) cases
    negative: I64  # (q,) cases that are not silent, in ascending order
    silent: int  # place of the silent ones among the negative ones
    below: I64  # (p,) how many of the q + 1 negative entries lie below each positive case
    upto: I64  # (p,) how many lie below or level with it

    @classmethod
    def of(cls, score: F64, positive: Flags, silent: float) -> CaseRanks:
        """Rank cases (n,) by their scores; cases without one are at -inf and are ``silent``."""
        mute = np.isneginf(score)
        score = np.where(mute, silent, score)
        sick, well = np.flatnonzero(positive), np.flatnonzero(~positive & ~mute)
        well = well[np.argsort(score[well], kind="stable")]
        place = int(np.searchsorted(score[well], silent))
        entries = np.insert(score[well], place, silent)
        below, upto = (
            np.searchsorted(entries, score[sick], side=side) for side in ("left", "right")
        )
        return cls(sick, well, place, below.astype(np.int64), upto.astype(np.int64))

    def area(self, weights: NDArray[Any]) -> F64:
        """Return (R,): the area under the ROC curve; NaN without a pair."""
        by_case = weights.T
        sick = by_case[self.positive].astype(np.int64)  # (p, R)
        n_sick, n_all = sick.sum(axis=0), weights.sum(axis=1, dtype=np.int64)
        entries = np.zeros((len(self.negative) + 2, len(weights)), np.int64)
        here = np.arange(1, len(self.negative) + 1)
        # Entry 0 stays 0 for the running sum; the place of the silent cases is left out, then
        # filled.
        entries[here + (here > self.silent)] = by_case[self.negative]
        n_well = n_all - n_sick
        entries[self.silent + 1] = n_well - entries.sum(axis=0)
        np.cumsum(entries, axis=0, out=entries)
        twice = np.einsum("ij,ij->j", sick, entries[self.below] + entries[self.upto])
        return share_of_pairs(twice, n_sick, n_well)


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
        """Return (L, R) areas under the ROC curve."""
        p = self.positives(labels)
        # Twice, so that halves of ties stay whole numbers and sums are exact.
        twice = self.sums(labels.astype(np.float64), 2 * self.below + self.level)
        return share_of_pairs(twice - p * p, p, self.total - p)


def aurc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the risk-coverage curve for losses (L, n); NaN without an image.

    The image accepted as number p counts in every mean from k = p on, with 1/k: see
    `Standing.lasting`.
    """
    n = standing.total
    return ratio(
        standing.sums(loss, standing.lasting), np.broadcast_to(n, (len(loss), len(n))), n > 0
    )


def augrc(standing: Standing, loss: F64) -> F64:
    """Return (L, R): areas under the generalised risk-coverage curve, the mean over k of summed
    loss / N.

    The image accepted as number p counts N - p + 1 times.
    """
    n = standing.total
    times = n - standing.below - (standing.level - 1) / 2.0
    squared = np.broadcast_to(n.astype(np.float64) ** 2, (len(loss), len(n)))
    return ratio(standing.sums(loss, times), squared, n > 0)


def best_aurc(positives: F64, total: I64) -> F64:
    """Return the area of the best order under the loss 1 on positives: all others are accepted
    first.

    With n0 others, ``sum_j j / (n0 + j) = P - n0 (H(N) - H(n0))`` over j = 1 .. P.
    """
    h = harmonic(int(total.max(initial=0)))
    others = total - positives
    area = positives - others * (h[total] - h[others.astype(np.int64)])
    return ratio(area, np.broadcast_to(total, area.shape), total > 0)


def share_of_pairs(twice: NDArray[Any], positives: NDArray[Any], others: NDArray[Any]) -> F64:
    """Return the area under the ROC curve: the share of pairs of a positive and another case in the
    right order, ties counting half; NaN without a pair.

    ``twice`` the number of such pairs is whole, so whichever way it was summed up, the one division
    gives the same bits.
    """
    return ratio(0.5 * twice, positives * others, (positives > 0) & (others > 0))


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
