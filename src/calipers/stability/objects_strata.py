# SPDX-License-Identifier: Apache-2.0
"""Strata of objects (everything, classes, sizes), and the agreement of pairs of models in every
image and stratum. Called by `objects_metric` and `objects_models`.
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
    """The number of strata, and the stratum of every object of the four tables of `ObjectPairs`."""

    number: int
    references: I64
    places: I64
    predictions: I64
    couples: I64

    @classmethod
    def whole(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum for everything."""
        tables = (evidence.references, evidence.places, evidence.predictions, evidence.couples)
        return cls(1, *(np.zeros(len(table), np.int64) for table in tables))

    @classmethod
    def classes(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum per class."""
        first, _ = evidence.couple_rows()
        label = evidence.predictions.label
        return cls(
            evidence.n_classes,
            evidence.references.label,
            evidence.places.label,
            label,
            label[first],
        )

    @classmethod
    def sizes(cls, evidence: ObjectPairs, cuts: F64) -> Strata:
        """Return one stratum per range of areas: below the first cut, from it to the second, ..."""
        first, second = evidence.couple_rows()
        area = evidence.predictions.area
        of_couples = 0.5 * (area[first] + area[second])
        areas = (evidence.references.area, evidence.places.area, area, of_couples)
        return cls(len(cuts) + 1, *(np.searchsorted(cuts, area, side="right") for area in areas))


class PairCells(NamedTuple):
    """Agreement and mean IoU of every pair of models in the cells (image and stratum) in which any
    model predicts something.
    """

    image: I64  # (n,)
    stratum: I64
    agreement: F64  # (n, P) NaN where both predict nothing
    iou: F64  # (n, P) NaN without couples


def pair_cells(evidence: ObjectPairs, strata: Strata) -> PairCells:
    """Return agreement and mean IoU per cell and pair of models."""
    n, predictions, couples = strata.number, evidence.predictions, evidence.couples
    one, other = pair_index(evidence.n_models)
    first, second = evidence.couple_rows()
    prediction_key = predictions.image * n + strata.predictions
    couple_key = couples.image * n + strata.couples
    keys = np.unique(np.concatenate([prediction_key, couple_key]))
    cell = np.searchsorted(keys, prediction_key)
    couple_cell = np.searchsorted(keys, couple_key)

    def table(rows: I64, columns: I64, width: int, weights: F64 | None = None) -> F64:
        sums = np.bincount(rows * width + columns, weights, minlength=len(keys) * width)
        return np.asarray(sums.reshape(len(keys), width), np.float64)

    n_pairs = len(one)
    counts = table(cell, predictions.model, evidence.n_models)
    n_couples = table(couple_cell, couples.pair, n_pairs)
    # Partners are counted in the cell of each prediction: a couple may lie in another stratum than
    # its members.
    n_partners = table(cell[first], couples.pair, n_pairs) + table(
        cell[second], couples.pair, n_pairs
    )
    n_single = counts[:, one] + counts[:, other] - n_partners
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = 2 * n_couples / (2 * n_couples + n_single)
        iou = table(couple_cell, couples.pair, n_pairs, couples.iou) / n_couples
    return PairCells(keys // n, keys % n, agreement, iou)


def mean_of_defined(values: F64) -> F64:
    """Return the mean of every row over what is not NaN; NaN where nothing is."""
    defined = ~np.isnan(values)
    number = defined.sum(axis=1)
    total = np.where(defined, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, number, out=np.full(len(values), np.nan), where=number > 0))
