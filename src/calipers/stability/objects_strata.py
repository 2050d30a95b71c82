# SPDX-License-Identifier: Apache-2.0
"""Strata of objects (everything, classes, sizes), and what pairs of models say in every image and
stratum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.pairwise import pair_index
from calipers.stability.objects_evidence import ObjectPairs

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class Strata(NamedTuple):
    """The stratum of every object; all are of one if they are not told apart."""

    number: int
    references: I64
    places: I64
    said: I64
    couples: I64

    @classmethod
    def whole(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum for everything."""
        tables = (evidence.references, evidence.places, evidence.said, evidence.couples)
        return cls(1, *(np.zeros(len(table), np.int64) for table in tables))

    @classmethod
    def classes(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum per class."""
        first, _ = evidence.couple_rows()
        references, places, said = (
            table.label for table in (evidence.references, evidence.places, evidence.said)
        )
        return cls(evidence.n_classes, references, places, said, said[first])

    @classmethod
    def sizes(cls, evidence: ObjectPairs, cuts: F64) -> Strata:
        """Return one stratum per range of areas: below the first cut, from it to the second, ..."""
        first, second = evidence.couple_rows()
        areas = [table.area for table in (evidence.references, evidence.places, evidence.said)]
        areas.append(0.5 * (evidence.said.area[first] + evidence.said.area[second]))
        return cls(len(cuts) + 1, *(np.searchsorted(cuts, area, side="right") for area in areas))


class PairCells(NamedTuple):
    """What every pair of models says in the cells (image and stratum) where any model says
    something.
    """

    image: I64  # (n,)
    stratum: I64
    agreement: F64  # (n, P) NaN where both say nothing
    iou: F64  # (n, P) NaN without couples


def pair_cells(evidence: ObjectPairs, strata: Strata) -> PairCells:
    """Return agreement and mean IoU per cell and pair of models."""
    n, said, couples = strata.number, evidence.said, evidence.couples
    one, other = pair_index(evidence.n_models)
    first, second = evidence.couple_rows()
    own = said.image * n + strata.said
    theirs = couples.image * n + strata.couples
    keys = np.unique(np.concatenate([own, theirs]))
    cell, at = np.searchsorted(keys, own), np.searchsorted(keys, theirs)

    def table(rows: I64, columns: I64, width: int, weights: F64 | None = None) -> F64:
        sums = np.bincount(rows * width + columns, weights, minlength=len(keys) * width)
        return np.asarray(sums.reshape(len(keys), width), np.float64)

    spoken = table(cell, said.model, evidence.n_models)
    matched = table(at, couples.pair, len(one))
    partnered = table(cell[first], couples.pair, len(one)) + table(
        cell[second], couples.pair, len(one)
    )
    alone = (
        spoken[:, one] + spoken[:, other] - partnered
    )  # a couple may lie in another stratum than its members
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = 2 * matched / (2 * matched + alone)
        iou = table(at, couples.pair, len(one), couples.iou) / matched
    return PairCells(keys // n, keys % n, agreement, iou)


def mean_of_defined(values: F64) -> F64:
    """Return the mean of every row over what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    number = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, number, out=np.full(len(values), np.nan), where=number > 0))
