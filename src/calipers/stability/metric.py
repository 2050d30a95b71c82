# SPDX-License-Identifier: Apache-2.0
"""The weighted mean over bags, as a metric for `calipers.statistics.estimates`.

In come M numbers per bag (`BagValues`) and weights of the bags; out go weighted means. Used for
the stability scores and for DICE, Jaccard and accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.metrics.contract import Facts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ROUNDING = 1e-12


@dataclass(frozen=True)
class BagValues:
    """Evidence: M numbers of every bag (NaN where undefined) with their numbers of references and
    predictions.
    """

    values: F64  # (B, M)
    references: I64  # (B, M)
    predictions: I64  # (B, M)

    @classmethod
    def of(cls, values: F64, references: I64, predictions: I64) -> BagValues:
        """Return the evidence; ``references`` and ``predictions`` are (B,), the same for all M
        numbers, or (B, M).
        """
        tables = []
        for counts in (references, predictions):
            column = counts[:, None] if counts.ndim == 1 else counts
            tables.append(np.broadcast_to(column, values.shape))
        return cls(values, *tables)

    @property
    def n_images(self) -> int:
        """Number of bags."""
        return len(self.values)

    @cached_property
    def tables(self) -> tuple[F64, NDArray[np.bool_]]:
        """(B, M) values with 0 for NaN, and (M,) which numbers are undefined on some bag: the same
        for all weights.
        """
        missing = np.isnan(self.values)
        return np.where(missing, 0.0, self.values), np.asarray(missing.any(axis=0))

    def take(self, images: I64) -> BagValues:
        """Return the evidence of some bags."""
        return BagValues(self.values[images], self.references[images], self.predictions[images])

    @classmethod
    def concat(cls, parts: Sequence[BagValues]) -> BagValues:
        """Return the evidence of all bags of several parts."""
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.references for part in parts]),
            np.concatenate([part.predictions for part in parts]),
        )


class BagMean:
    """The weighted mean over bags of every number; bags without a value are skipped.

    Parameters
    ----------
    names, ids
        Of the M numbers.
    bounds
        Of all of them.
    best
        The value of a bag on which nothing is wrong; None where more is not better.
    reasons
        Why a number is undefined on every bag, one of `results.REASONS` each.
    """

    def __init__(
        self,
        names: Sequence[str],
        ids: Sequence[str],
        bounds: tuple[float, float],
        best: float | None,
        reasons: Sequence[str],
    ) -> None:
        self.best, self.why = best, tuple(reasons)
        self.facts = Facts(
            id="stability@1",
            names=tuple(names),
            ids=tuple(ids),
            bounds=bounds,
            higher_is_better=best is not None,
            per_class=False,
        )

    def value(self, evidence: BagValues, weights: NDArray[Any]) -> F64:
        """Return (R, 1, M) for weights (R, B)."""
        w = weights.astype(np.float64)
        table, holes = evidence.tables
        total, number = w @ table, np.tile(w.sum(axis=1)[:, None], table.shape[1])
        if holes.any():
            missing = np.isnan(evidence.values[:, holes]).astype(np.float64)
            number[:, holes] -= w @ missing  # whole numbers: exact
        mean = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
        return np.asarray(mean[:, None, :])

    def reasons(self, evidence: BagValues) -> Mapping[tuple[int, int], str]:
        """Return why numbers are undefined on every bag."""
        if not evidence.n_images:
            return {(0, k): "no_objects" for k in range(len(self.why))}
        return {(0, k): why for k, why in enumerate(self.why)}

    def counts(self, evidence: BagValues, weights: I64) -> I64:
        """Return (1, M, 3): bags, and the references and predictions of those that have a value."""
        w, is_defined = np.asarray(weights, np.int64), ~np.isnan(evidence.values)
        images = np.full(evidence.values.shape[1], w.sum())
        references = w @ np.where(is_defined, evidence.references, 0)
        predictions = w @ np.where(is_defined, evidence.predictions, 0)
        return np.stack([images, references, predictions], axis=1)[None].astype(np.int64)

    def support(self, evidence: BagValues, unit: I64, n_units: int) -> I64:
        """Return (1, M, 3): units with a value, twice, and those with a bag that is not at its
        best.
        """
        is_defined = ~np.isnan(evidence.values)
        best = np.nan if self.best is None else self.best
        # Without a best value the distance is NaN, so that every bag counts as short of it.
        short = is_defined & ~(np.abs(evidence.values - best) <= ROUNDING)
        n_defined = units_with(is_defined, unit, n_units)
        n_short = units_with(short, unit, n_units)
        return np.stack([n_defined, n_defined, n_short], axis=1)[None]


def units_with(marked: NDArray[np.bool_], unit: I64, n_units: int) -> I64:
    """Return (M,): units with a marked bag, for (B, M) marks."""
    has_mark = np.zeros((n_units, marked.shape[1]), np.bool_)
    bag, column = np.nonzero(marked)
    has_mark[unit[bag], column] = True
    return np.asarray(has_mark.sum(axis=0), np.int64)
