# SPDX-License-Identifier: Apache-2.0
"""The average precision gained by mending each kind of mistake, and the number of mistakes of each.

Average precision is the mean interpolated precision at the recalls 0/100 to 100/100. Mending
changes one list of predictions into another:

``cls``, ``loc``
    the first mistake on a reference that nobody took becomes a hit (of the reference's class); the
    others go;
``both``, ``dup``, ``bkg``
    go;
``miss``
    the references go that are neither found nor mendable otherwise;
``fp``
    all false alarms go, of whatever kind; nothing becomes a hit;
``fn``
    all references go that are not found;
``empty``
    the false alarms on images without references go.

The pooled AP is the mean over the classes that have references or predictions left; a class without
references has AP 0 as long as it has predictions. Mending may leave a class without anything, which
then leaves the mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import curves, fates
from calipers.kernels.compiled import FateTable
from calipers.kernels.error_types import BKG, BOTH, CLS, DUP, LOC, MISS, RIGHT
from calipers.kernels.matching import FALSE_ALARM, HIT, IGNORED
from calipers.matches import COUNTED, HITS
from calipers.metrics.errors_evidence import Mistakes

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Flags = NDArray[np.bool_]

KINDS = {"cls": CLS, "loc": LOC, "both": BOTH, "dup": DUP, "bkg": BKG, "miss": MISS}
GAINS = (*KINDS, "fp", "fn", "empty")
COUNTS = (*KINDS, "empty")
OF_PREDICTIONS = ("cls", "loc", "both", "dup", "bkg")
# As the authors' code divides; the recalls of COCO differ in the last bits, which matters where a
# recall is reached exactly.
RECALLS = np.arange(101) / 100
NOBODY = np.zeros(0, np.int32)  # no limit by rank


class MistakeRanking(NamedTuple):
    """Predictions as they are (view 0), with the mistakes of each kind mended (1 to 5), and with
    fewer of them.

    That is without false alarms (6), and without those on empty images (7).

    A prediction that mending gives to another class has a second row there.
    """

    table: FateTable
    label: I32
    image: I64
    mended: curves.Ranking
    plain: curves.Ranking  # of the predictions as they are; it may order equal scores differently


VIEWS = [*range(8), 0, 0]  # as it is, then what the slots say
SLOTS = {"cls": 1, "loc": 2, "both": 3, "dup": 4, "bkg": 5, "fp": 6, "empty": 7, "miss": 8, "fn": 9}


def gains(evidence: Mistakes, weights: I64, *, blocks: bool) -> F64:
    """Return (R, 1 + n_classes, 9): the AP gained by mending each of `GAINS`, at least 0.

    NaN without references: in the class, or at all. With ``blocks`` equal scores are one operating
    point; else they are walked through in input order, after mending those that were mistakes
    first, as the authors' code does.
    """
    precisions, exists, positives = _precisions(evidence, weights, blocks=blocks)
    per_class = np.where(np.isnan(precisions), 0.0, precisions)
    number = exists.sum(axis=2)
    mean = np.divide(
        (per_class * exists).sum(axis=2), number, out=np.zeros(number.shape), where=number > 0
    )
    every = np.concatenate([mean[:, :, None], per_class], axis=2)  # (R, views, 1 + K)
    references = positives[:, 0]
    references = np.concatenate([references.sum(axis=1, keepdims=True), references], axis=1)
    gain = np.maximum(every[:, [SLOTS[name] for name in GAINS]] - every[:, :1], 0.0)
    return np.asarray(np.where(references[:, :, None] > 0, np.moveaxis(gain, 1, 2), np.nan))


def counts(evidence: Mistakes, weights: I64) -> F64:
    """Return (R, 1 + n_classes, 7): how many mistakes there are of each of `COUNTS`."""
    of_predictions = _totals(evidence, "mistakes", weights)[:, :, HITS]
    missed = _totals(evidence, "references", weights)[:, 1:2, HITS]
    per_class = np.concatenate([of_predictions[:, :5], missed, of_predictions[:, 5:6]], axis=1)
    return (
        np.concatenate([per_class.sum(axis=2, keepdims=True), per_class], axis=2)
        .swapaxes(1, 2)
        .astype(np.float64)
    )


def object_weights(evidence: Mistakes, weights: I64) -> tuple[I64, I64]:
    """Return (R, n_classes) weights of the counted references and of the counted predictions."""
    references = _totals(evidence, "references", weights)[:, 0, HITS]
    return references, _totals(evidence, "mistakes", weights)[:, 6, HITS]


def _precisions(evidence: Mistakes, weights: I64, *, blocks: bool) -> tuple[F64, Flags, I64]:
    """Return (R, 10, K) each: average precisions, whether anything is left of a class, weights of
    its references.
    """
    ranking = _ranked(evidence, blocks=blocks)
    sides = (ranking.table, ranking.label, NOBODY, 0, ranking.image)
    predictions = fates.totals(*sides, weights, evidence.n_classes)[:, :, COUNTED]
    of_references = _totals(evidence, "references", weights)[:, :, HITS]
    references, misses, hits = np.moveaxis(of_references, 1, 0)
    positives = np.stack([references] * 8 + [references - misses, hits], axis=1)
    plans = evidence.cache.setdefault(("plans", blocks), ({}, {}))
    problem = curves.CurveProblem(
        ranking.table, VIEWS, ranking.mended, ranking.image, weights, plans[0]
    )
    values = curves.average_precision(problem, positives, RECALLS)
    if ranking.plain is not ranking.mended:
        problem = curves.CurveProblem(
            ranking.table, VIEWS[:1], ranking.plain, ranking.image, weights, plans[1]
        )
        values[:, :1] = curves.average_precision(problem, positives[:, :1], RECALLS)
    # Without false alarms (view 6) a class still counts as having its predictions, at the end of
    # the list, so that it stays in the mean over classes.
    predictions = predictions[:, [0, 1, 2, 3, 4, 5, 0, 7, 0, 0]]
    return values, np.asarray((predictions > 0) | (positives > 0)), positives


def _ranked(evidence: Mistakes, *, blocks: bool) -> MistakeRanking:
    key = ("ranked", blocks)
    if key not in evidence.cache:
        evidence.cache[key] = _rank(evidence, blocks=blocks)
    ranking: MistakeRanking = evidence.cache[key]
    return ranking


def _rank(evidence: Mistakes, *, blocks: bool) -> MistakeRanking:
    kind, n = evidence.prediction_kind, evidence.n_classes
    present = np.flatnonzero(kind != 0)
    reclassified = np.flatnonzero((kind == CLS) & evidence.mended)
    row = np.concatenate([present, reclassified])
    label = np.concatenate(
        [
            evidence.prediction_label[present],
            evidence.reference_label[evidence.partner[reclassified]],
        ]
    )
    table = np.empty((8, len(row)), np.int8)
    table[0, : len(present)] = _as_they_are(kind[present], evidence.covered[present])
    table[0, len(present) :] = IGNORED
    table[1:] = table[0]
    for view, name in enumerate(OF_PREDICTIONS, start=1):
        table[view, : len(present)][kind[present] == KINDS[name]] = IGNORED
    table[1, len(present) :] = HIT
    table[2, : len(present)][(kind[present] == LOC) & evidence.mended[present]] = HIT
    table[6][table[6] == FALSE_ALARM] = IGNORED
    table[7, : len(present)][evidence.false_on_empty[present]] = IGNORED
    right = np.concatenate([kind[present] == RIGHT, np.zeros(len(reclassified), np.bool_)])
    score, image = evidence.score[row], evidence.prediction_image[row]
    ranking = plain = curves.ranking(score, label, n, blocks=blocks)
    if not blocks and _mixed(score, right, ranking):
        first = np.lexsort((row, right))  # mistakes first, each part in input order
        mended = curves.ranking(score[first], label[first], n, blocks=False)
        ranking = mended._replace(order=first[mended.order])
    return MistakeRanking(FateTable(table), label.astype(np.int32), image, ranking, plain)


def _as_they_are(kind: I8, in_ignored_region: Flags) -> I8:
    fate = np.where(kind == RIGHT, np.int8(HIT), np.int8(FALSE_ALARM))
    fate[in_ignored_region] = IGNORED
    return fate


def _mixed(score: F64, right: Flags, ranking: curves.Ranking) -> bool:
    """Return whether a hit and a mistake have equal scores: then it matters which of them comes
    first.
    """
    score, right = score[ranking.order], right[ranking.order]
    return bool(((score[1:] == score[:-1]) & (right[1:] != right[:-1])).any())


def _totals(evidence: Mistakes, side: str, weights: I64) -> I64:
    """Return (R, views, 2, K): references that are counted, missed, found; or predictions of each
    kind.

    The kinds are those of `OF_PREDICTIONS`, then false alarms on empty images, then all that are
    counted.
    """
    if side not in evidence.cache:
        evidence.cache[side] = FateTable(_flags(evidence, side))
    if side == "references":
        label, image = evidence.reference_label, evidence.reference_image
    else:
        label, image = evidence.prediction_label, evidence.prediction_image
    return fates.totals(evidence.cache[side], label, NOBODY, 0, image, weights, evidence.n_classes)


def _flags(evidence: Mistakes, side: str) -> I8:
    """Return fates that are hits where an object is of a kind, else ignored: sums of hits are then
    counts.
    """
    if side == "references":
        kind = evidence.reference_kind
        rows = [evidence.counted_references, kind == MISS, kind == RIGHT]
    else:
        rows = [evidence.prediction_kind == KINDS[name] for name in OF_PREDICTIONS]
        rows += [evidence.false_on_empty, evidence.counted_predictions]
    return np.where(np.stack(rows), np.int8(HIT), np.int8(IGNORED))
