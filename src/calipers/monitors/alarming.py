# SPDX-License-Identifier: Apache-2.0
"""Metrics of a monitor at a threshold: an image is rejected if its alarm score is at least the
threshold.

An image is *positive* if an alarm is wanted on it. With TP positive images rejected, FN positive
images accepted, FP others rejected, TN others accepted, of N images:

``sensitivity`` TP/(TP+FN), ``specificity`` TN/(TN+FP), ``FPR`` 1 - specificity, ``precision``
TP/(TP+FP) (undefined if nothing is rejected), ``F1`` 2TP/(2TP+FP+FN), ``g-mean`` root of
sensitivity times specificity, ``coverage`` (TN+FN)/N, ``rejected`` 1 - coverage, ``MCC`` (undefined
if nothing or everything is rejected), ``Youden`` sensitivity + specificity - 1.

``SG``, ``RH``, ``AC``
    safety gain, residual hazard, availability cost: the mean hazard h without the monitor less that
    with it; the mean hazard with it; the mean reward g without it less that with it. On a rejected
    image hazard and reward are those of the fall-back. By default h = 1 on positive images, g = 1
    on others and the fall-back has neither: SG = TP/N, RH = FN/N, AC = FP/N. Always SG + RH =
    mean h.

All but coverage are undefined where the images are all of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.contingency import matthews
from calipers.kernels.monitoring import ratio
from calipers.metrics.contract import Facts
from calipers.monitors.quantities import n_marked

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SHARES = ("sensitivity", "specificity", "precision", "F1", "g-mean", "coverage")
SIGNED = ("MCC", "Youden")
HAZARDS = ("SG", "RH", "AC")
COLUMNS = ("rejected", "positive", "hazard", "reward", "hazard_left", "reward_left")
PLAIN, LOSSES, ANYTHING = (0.0, 1.0), (0.0, np.inf), (-np.inf, np.inf)


@dataclass(frozen=True)
class Decisions:
    """The evidence at a threshold: which images are rejected, which should be, and the costs."""

    rejected: Flags  # (n,)
    positive: Flags  # (n,)
    hazard: F64  # (n,) without the monitor
    reward: F64
    hazard_left: F64  # with it
    reward_left: F64
    fixed: bool = True  # False: there is no threshold, and every value is undefined

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.rejected)

    def take(self, images: I64) -> Decisions:
        """Return the evidence of some images."""
        return replace(self, **{name: getattr(self, name)[images] for name in COLUMNS})

    @classmethod
    def concat(cls, parts: Sequence[Decisions]) -> Decisions:
        """Return the evidence of all images of several parts."""
        columns = {}
        for name in COLUMNS:
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        return cls(**columns, fixed=all(part.fixed for part in parts))

    @property
    def cells(self) -> F64:
        """(n, 4): 1 where an image is TP, FP, FN, TN."""
        r, w = self.rejected, self.positive
        return np.stack([r & w, r & ~w, ~r & w, ~r & ~w], axis=1).astype(np.float64)


class AtThreshold:
    """Base: formulas on decided images."""

    id = "monitor-threshold@1"
    names: tuple[str, ...] = SHARES
    bounds = PLAIN

    def __init__(
        self, names: Sequence[str] | None = None, bounds: tuple[float, float] | None = None
    ) -> None:
        self.names = tuple(names or self.names)
        self.facts = Facts(
            id=self.id, names=self.names, bounds=bounds or self.bounds, per_class=False
        )

    @property
    def recipe(self) -> Any:
        """Monitors come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a monitor is given")

    def narrowed(self, evidence: Decisions, column: int) -> tuple[AtThreshold, Decisions]:
        """Return the metric and evidence of one column alone."""
        return type(self)((self.names[column],), self.facts.bounds), evidence

    def columns(self, evidence: Decisions, weights: F64) -> Mapping[str, F64]:
        """Return name -> (R,)."""
        tp, fp, fn, tn = (weights @ evidence.cells).T
        sensitivity, specificity = ratio(tp, tp + fn, tp + fn > 0), ratio(tn, tn + fp, tn + fp > 0)
        n = tp + fp + fn + tn
        return {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "precision": ratio(tp, tp + fp, tp + fp > 0),
            "F1": ratio(2 * tp, 2 * tp + fp + fn, tp + fn > 0),
            "g-mean": np.sqrt(sensitivity * specificity),
            "coverage": ratio(tn + fn, n, n > 0),
            "MCC": matthews(tp, fp, fn, tn),
            "Youden": sensitivity + specificity - 1.0,
        }

    def value(self, evidence: Decisions, weights: NDArray[Any]) -> F64:
        """Return (R, 1, names)."""
        w = weights.astype(np.float64)
        if not evidence.fixed:
            return np.full((len(weights), 1, len(self.names)), np.nan)
        columns, p = self.columns(evidence, w), w @ evidence.positive.astype(np.float64)
        mixed = (p > 0) & (p < w.sum(axis=1))
        values = []
        for name in self.names:
            # coverage does not look at the labels, so that it is defined for one kind of images too
            values.append(np.where(mixed | (name == "coverage"), columns[name], np.nan))
        return np.stack(values, axis=1)[:, None]

    def reasons(self, evidence: Decisions) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined."""
        if not evidence.positive.any():
            reason = "no_positives"
        elif evidence.positive.all() or not evidence.fixed:
            reason = "single_category"
        else:
            reason = "constant_input"  # all rejected, or none
        why = {(0, k): reason for k in range(len(self.names))}
        if reason == "constant_input" and "precision" in self.names:
            why[0, self.names.index("precision")] = "no_predictions"
        return why

    def counts(self, evidence: Decisions, weights: I64) -> I64:
        """Return (1, names, 3): images, images on which an alarm is wanted, rejected images."""
        numbers = [
            weights.sum(),
            weights[evidence.positive].sum(),
            weights[evidence.rejected].sum(),
        ]
        return np.tile(np.array(numbers, np.int64), (1, len(self.names), 1))

    def support(self, evidence: Decisions, unit: I64, n_units: int) -> I64:
        """Return (1, names, 3): units needed, tried, in error."""
        return np.array(
            [[self._units(name, evidence, unit, n_units) for name in self.names]], np.int64
        )

    def _units(
        self, name: str, evidence: Decisions, unit: I64, n_units: int
    ) -> tuple[int, int, int]:
        r, w = evidence.rejected, evidence.positive

        def units(marked: Flags) -> int:
            return n_marked(marked, unit, n_units)

        if name == "sensitivity":
            return units(w), units(w), units(w & ~r)
        if name == "specificity":
            return units(~w), units(~w), units(r & ~w)
        if name == "precision":
            return units(r), units(r), units(r & ~w)
        if name in ("F1", "g-mean", *SIGNED):
            return min(units(w), units(~w)), n_units, units(r != w)
        return n_units, n_units, n_units  # a share that may be anything: no unit is right or wrong


class Signed(AtThreshold):
    """MCC and Youden's index, from -1 to 1."""

    id = "monitor-signed@1"
    names = SIGNED
    bounds = (-1.0, 1.0)


class Hazards(AtThreshold):
    """Safety gain, residual hazard and availability cost."""

    id = "monitor-hazards@1"
    names = HAZARDS

    def columns(self, evidence: Decisions, weights: F64) -> Mapping[str, F64]:
        """Return name -> (R,)."""
        n = weights.sum(axis=1)
        residual = weights @ evidence.hazard_left
        gain = weights @ evidence.hazard - residual
        cost = weights @ (evidence.reward - evidence.reward_left)
        totals = zip(HAZARDS, (gain, residual, cost))
        return {name: ratio(total, n, n > 0) for name, total in totals}
