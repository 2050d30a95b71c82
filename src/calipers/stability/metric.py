# SPDX-License-Identifier: Apache-2.0
"""Means over bags under weights: the metric of stability, as `calipers.statistics.estimates` takes
it.
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
    """Evidence: M numbers of every bag, NaN where a bag has none, and what stands behind each."""

    values: F64  # (B, M)
    references: I64  # (B, M)
    predictions: I64  # (B, M)

    @classmethod
    def of(cls, values: F64, references: I64, predictions: I64) -> BagValues:
        """Return the evidence; what stands behind is (B,) for all M numbers alike, or (B, M)."""
        behind = [
            column[:, None] if column.ndim == 1 else column for column in (references, predictions)
        ]
        return cls(values, *(np.broadcast_to(column, values.shape) for column in behind))

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
        columns = zip(*((part.values, part.references, part.predictions) for part in parts))
        return cls(*(np.concatenate(column) for column in columns))


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
        filled, holes = evidence.tables
        total, number = w @ filled, np.tile(w.sum(axis=1)[:, None], filled.shape[1])
        if holes.any():
            missing = np.isnan(evidence.values[:, holes]).astype(np.float64)
            number[:, holes] -= w @ missing  # whole numbers: exact
        mean = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
        return np.asarray(mean[:, None, :])

    def reasons(self, evidence: BagValues) -> Mapping[tuple[int, int], str]:
        """Return why numbers are undefined on every bag."""
        return {
            (0, k): "no_objects" if not evidence.n_images else why for k, why in enumerate(self.why)
        }

    def counts(self, evidence: BagValues, weights: I64) -> I64:
        """Return (1, M, 3): bags, and the references and predictions of those that have a value."""
        w, defined = np.asarray(weights, np.int64), ~np.isnan(evidence.values)
        images = np.full(evidence.values.shape[1], w.sum())
        behind = [
            w @ np.where(defined, column, 0)
            for column in (evidence.references, evidence.predictions)
        ]
        return np.stack([images, *behind], axis=1)[None].astype(np.int64)

    def support(self, evidence: BagValues, unit: I64, n_units: int) -> I64:
        """Return (1, M, 3): units with a value, twice, and those with a bag that is not at its
        best.
        """
        defined = ~np.isnan(evidence.values)
        away = np.abs(evidence.values - (np.nan if self.best is None else self.best))
        short = defined & ~(away <= ROUNDING)  # all of them where nothing is best
        held, wrong = units_with(defined, unit, n_units), units_with(short, unit, n_units)
        return np.stack([held, held, wrong], axis=1)[None]


def units_with(marked: NDArray[np.bool_], unit: I64, n_units: int) -> I64:
    """Return (M,): units with a marked bag, for (B, M) marks."""
    found = np.zeros((n_units, marked.shape[1]), np.bool_)
    bag, column = np.nonzero(marked)
    found[unit[bag], column] = True
    return np.asarray(found.sum(axis=0), np.int64)
