# SPDX-License-Identifier: Apache-2.0
"""Object stability as ratios of sums over images, so that replicates are products of matrices.

``agreement``
    positive agreement of two models, ``2 n11 / (2 n11 + n10 + n01)`` with n11 couples and n10, n01
    predictions without a partner; per image the mean over the pairs of models, then the mean over
    images. Undefined for a pair of models that both predict nothing on an image, and for an image
    on which no pair has a value; both are skipped and counted.
``agreement-with-silence``
    the same with 1 where both predict nothing: all images and pairs have a value. Only for all
    objects together.
``mean-iou``
    mean intersection over union of the couples of a pair of models; then as above. Undefined
    without couples.
``found-by-k``, ``found-by-all``, ``found-by-some``, ``found-by-none``
    share of the counted references that exactly k, all, some but not all, none of the models find.
``false-alarms-by-k``, ``false-alarms-shared``
    share of the places with a false alarm where exactly k, at least two of the models raise one.

By class, couples are within a class. By size a couple has the mean area of its two predictions, a
place that of its false alarms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.metrics.contract import Facts
from calipers.stability.objects_evidence import ObjectPairs, Things
from calipers.stability.objects_strata import Strata, mean_of_defined, pair_cells

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ID = "object-stability@1"
# Sums per image and stratum: these, then references found by 0..K models, then places of 1..K
# models.
AGREED, DEFINED, QUIET, IMAGES, OVERLAP, COUPLED, TALLIES = range(7)
ROUNDING = 1e-12


@dataclass(frozen=True)
class ObjectSums:
    """Per image the sums that all numbers are ratios of; row 0 is everything, then one row per
    stratum.
    """

    n_models: int
    n_rows: int
    table: Any  # sparse (n_images, n_rows * width)
    behind: I64  # (n_rows, 2) counted references, predictions of all models

    @property
    def n_images(self) -> int:
        """Number of images."""
        return int(self.table.shape[0])

    @property
    def width(self) -> int:
        """Number of sums per row."""
        return TALLIES + 2 * self.n_models + 1

    @classmethod
    def of(cls, evidence: ObjectPairs, strata: Strata) -> ObjectSums:
        """Return the sums of all objects, then of those of every stratum."""
        from scipy.sparse import csr_array

        whole = Strata.whole(evidence)
        parts = [*_entries(evidence, whole, 0), *_entries(evidence, strata, 1), *_silence(evidence)]
        image, row, column, value = map(np.concatenate, zip(*parts))
        n_rows, width = 1 + strata.number, TALLIES + 2 * evidence.n_models + 1
        shape = evidence.n_images, n_rows * width
        table = csr_array((value, (image, row * width + column)), shape=shape)
        table.sum_duplicates()
        behind = np.zeros((n_rows, 2), np.int64)
        behind[0] = len(evidence.references), len(evidence.predictions)
        behind[1:, 0] = np.bincount(strata.references, minlength=strata.number)
        behind[1:, 1] = np.bincount(strata.predictions, minlength=strata.number)
        return cls(evidence.n_models, n_rows, table, behind)


Entry = tuple[I64, I64, I64, F64]  # image, row, column, value


def _entries(evidence: ObjectPairs, strata: Strata, begin: int) -> list[Entry]:
    """Return the terms of the sums in the rows from ``begin`` on."""
    cells = pair_cells(evidence, strata)
    entries = []
    for values, total, number in (
        (cells.agreement, AGREED, DEFINED),
        (cells.iou, OVERLAP, COUPLED),
    ):
        mean = mean_of_defined(values)
        defined = np.flatnonzero(~np.isnan(mean))
        n = len(defined)
        image, row = cells.image[defined], begin + cells.stratum[defined]
        entries.append((image, row, np.full(n, total), mean[defined]))
        entries.append((image, row, np.full(n, number), np.ones(n)))
    # References count from 0 models on; a place has at least one model, so its first column is
    # that of one model.
    things: list[tuple[Things, I64, int]] = [
        (evidence.references, strata.references, TALLIES),
        (evidence.places, strata.places, TALLIES + evidence.n_models),
    ]
    for table, stratum, first_column in things:
        column = first_column + table.by_model.sum(axis=1)
        entries.append((table.image, begin + stratum, column, np.ones(len(table))))
    return entries


def _silence(evidence: ObjectPairs) -> list[Entry]:
    """Return the agreement of every image with 1 for pairs that both predict nothing."""
    cells = pair_cells(evidence, Strata.whole(evidence))
    value = np.ones(evidence.n_images)
    value[cells.image] = np.where(np.isnan(cells.agreement), 1.0, cells.agreement).mean(axis=1)
    image = np.arange(evidence.n_images)
    here = np.zeros_like(image)
    return [(image, here, here + QUIET, value), (image, here, here + IMAGES, np.ones(len(image)))]


class ObjectMetric:
    """All numbers of object stability under weights of the images."""

    def __init__(self, n_models: int) -> None:
        finders = tuple(f"found-by-{k}" for k in range(n_models + 1))
        alarms = tuple(f"false-alarms-by-{k}" for k in range(1, n_models + 1))
        shares = (
            "found-by-all",
            "found-by-some",
            "found-by-none",
            *finders,
            "false-alarms-shared",
            *alarms,
        )
        self.facts = Facts(
            ID, ("agreement", "agreement-with-silence", "mean-iou", *shares), swap=False
        )
        self.top, self.bottom = _ratios(n_models, self.facts.names)

    def value(self, evidence: ObjectSums, weights: Any) -> F64:
        """Return (R, 1 + n_strata, n_names) for weights (R, n_images)."""
        w = np.asarray(weights, np.float64)
        sums = np.asarray(evidence.table.T @ w.T).T
        sums = sums.reshape(len(w), evidence.n_rows, evidence.width)
        top, bottom = sums @ self.top, sums @ self.bottom
        return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))

    def reasons(self, evidence: ObjectSums) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined."""
        why = {}
        for k, name in enumerate(self.facts.names):
            for row in range(evidence.n_rows):
                if name.startswith("found-by"):
                    why[row, k] = "no_references"
                else:
                    why[row, k] = "no_objects" if evidence.behind[row, 1] else "no_predictions"
        return why

    def counts(self, evidence: ObjectSums, weights: I64) -> I64:
        """Return (1 + n_strata, n_names, 3): images with a value, counted references, predictions
        of all models.
        """
        table = np.zeros((evidence.n_rows, len(self.facts.names), 3), np.int64)
        _, bottom = self._of_units(evidence, np.arange(evidence.n_images), evidence.n_images)
        table[:, :, 0] = ((bottom > 0).T @ weights).reshape(evidence.n_rows, -1)
        table[:, :, 1:] = evidence.behind[:, None]
        return table

    def support(self, evidence: ObjectSums, unit: I64, n_units: int) -> I64:
        """Return (1 + n_strata, n_names, 3): units with a value, twice, and those in which it is
        not 1.
        """
        top, bottom = self._of_units(evidence, unit, n_units)
        there = np.asarray((bottom > 0).sum(axis=0)).reshape(evidence.n_rows, -1)
        short = np.asarray((bottom - top > ROUNDING).sum(axis=0)).reshape(evidence.n_rows, -1)
        return np.stack([there, there, short], axis=2).astype(np.int64)

    def _of_units(self, evidence: ObjectSums, unit: I64, n_units: int) -> tuple[Any, Any]:
        """Return sparse (n_units, n_rows * n_names) numerators and denominators."""
        from scipy.sparse import csr_array, eye_array, kron

        image = np.arange(evidence.n_images)
        members = csr_array((np.ones(len(unit)), (unit, image)), shape=(n_units, len(unit)))
        sums = members @ evidence.table
        # the same sums are added in every row: one block of the matrix per row
        rows = eye_array(evidence.n_rows)
        top = csr_array(sums @ kron(rows, self.top, format="csr"))
        bottom = csr_array(sums @ kron(rows, self.bottom, format="csr"))
        return top, bottom


def _ratios(n_models: int, names: tuple[str, ...]) -> tuple[F64, F64]:
    """Return (width, n_names) which sums are added for the numerators and for the denominators."""
    width = TALLIES + 2 * n_models + 1
    references = np.arange(TALLIES, TALLIES + n_models + 1)
    places = np.arange(TALLIES + n_models + 1, width)
    sums: dict[str, tuple[Any, Any]] = {
        "agreement": (AGREED, DEFINED),
        "agreement-with-silence": (QUIET, IMAGES),
        "mean-iou": (OVERLAP, COUPLED),
        "found-by-all": (references[-1:], references),
        "found-by-some": (references[1:-1], references),
        "found-by-none": (references[:1], references),
        "false-alarms-shared": (places[1:], places),
    }
    sums |= {f"found-by-{k}": (references[k], references) for k in range(n_models + 1)}
    sums |= {f"false-alarms-by-{k}": (places[k - 1], places) for k in range(1, n_models + 1)}
    top, bottom = np.zeros((width, len(names))), np.zeros((width, len(names)))
    for column, name in enumerate(names):
        over, under = sums[name]
        top[over, column] = bottom[under, column] = 1.0
    return top, bottom
