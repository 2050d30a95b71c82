# SPDX-License-Identifier: Apache-2.0
"""What is measured of a monitor without a threshold, as metrics under weights.

A *labelling* says on which images an alarm is wanted: those out of scope at some tau (OMS), or those out of
distribution (OOD). One metric serves many labellings of the same images, so that a sweep over tau sorts once.

``AUROC``
    share of pairs of a wanted and another image that the alarm score puts in the right order, ties counting half.
``AUPR``, ``AUPR-in``
    average precision (steps, equal scores are one point) of the wanted images, and of the others by falling score.
``TNR95``
    the largest share of other images that is accepted at an attainable threshold that rejects at least 95 % of the
    wanted ones; ``FPR95`` is 1 - TNR95.
``best-F1``
    the largest F1 over all thresholds. Optimistic: chosen on the images on which it is stated.
``AURC``, ``E-AURC``, ``AUGRC``
    mean risk over all coverages, its excess over the best possible order, mean generalised risk; the loss is 1 on a
    wanted image. ``AURC/graded`` and ``E-AURC/graded``: the loss is 1 - s.

All are undefined where the images are all of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, Operating
from calipers.kernels.monitoring_coverage import augrc, aurc, coverage_sums
from calipers.metrics.contract import Facts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

TPR = 0.95
RANKINGS: Mapping[str, Callable[[Operating], F64]] = {
    "AUROC": Operating.auroc,
    "AUPR": Operating.aupr,
    "AUPR-in": Operating.aupr_in,
    "TNR95": lambda found: found.tnr_at_tpr(TPR),
    "best-F1": Operating.best_f1,
}
SWEPT = ("AUROC", "AUPR", "TNR95")
RISKS = ("AURC", "AUGRC")
EXCESS = ("E-AURC",)


@dataclass(frozen=True)
class Judged:
    """The evidence of one monitor: alarm scores, and on which images alarms are wanted under every labelling."""

    alarm: F64  # (n,) high = alarm
    wanted: Flags  # (L, n)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.alarm)

    @cached_property
    def cuts(self) -> Cuts:
        """The images by falling alarm score."""
        return Cuts.of(self.alarm)

    @cached_property
    def rising(self) -> Cuts:
        """The images by rising alarm score: the order in which they are accepted."""
        return Cuts.of(-self.alarm)

    def take(self, images: I64) -> Judged:
        """Return the evidence of some images."""
        return Judged(self.alarm[images], self.wanted[:, images])

    @classmethod
    def concat(cls, parts: Sequence[Judged]) -> Judged:
        """Return the evidence of all images of several parts."""
        return cls(
            np.concatenate([part.alarm for part in parts]), np.concatenate([part.wanted for part in parts], axis=1)
        )


class OfLabellings:
    """Base of the metrics on labellings: columns are labellings by names, the names of a labelling side by side."""

    id = "monitor@1"
    bounds = (0.0, 1.0)

    def __init__(self, names: Sequence[str], n_labellings: int) -> None:
        self.names, self.n_labellings = tuple(names), n_labellings
        every = tuple(f"{name}#{k}" for k in range(n_labellings) for name in names)
        self.facts = Facts(id=self.id, names=every, bounds=self.bounds, per_class=False, swap=False)

    @property
    def recipe(self) -> Any:
        """Monitors come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a monitor is given")

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, L, names)."""
        raise AssertionError("every family has its formulas")

    def value(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, 1, L x names)."""
        return self.each(evidence, weights).reshape(len(weights), 1, -1)

    def reasons(self, evidence: Judged) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no alarm is wanted, or alarms are wanted everywhere."""
        found = {}
        for k, wanted in enumerate(evidence.wanted):
            reason = "single_category" if wanted.any() else "no_positives"
            for j in range(len(self.names)):
                found[0, k * len(self.names) + j] = reason
        return found

    def counts(self, evidence: Judged, weights: I64) -> I64:
        """Return (1, L x names, 3): images, images on which an alarm is wanted, 0."""
        wanted = evidence.wanted.astype(np.int64) @ weights
        table = np.zeros((1, self.n_labellings, len(self.names), 3), np.int64)
        table[..., 0] = weights.sum()
        table[..., 1] = wanted[None, :, None]
        return table.reshape(1, -1, 3)

    def support(self, evidence: Judged, unit: I64, n_units: int) -> I64:
        """Return (1, L x names, 3): units of the rarer kind, units tried, units in error."""
        parts = []
        for wanted in evidence.wanted:
            rarer = min(n_marked(wanted, unit, n_units), n_marked(~wanted, unit, n_units))
            parts += [(rarer, *self.errors(name, evidence, wanted, unit, n_units)) for name in self.names]
        return np.array(parts, np.int64).reshape(1, -1, 3)

    def errors(self, name: str, evidence: Judged, wanted: Flags, unit: I64, n_units: int) -> tuple[int, int]:
        """Return units tried and in error; all in error means that no share of units speaks for the metric."""
        return n_units, n_units


class Ranking(OfLabellings):
    """The quantities of the order of images by alarm score."""

    id = "monitor-ranking@1"

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, L, names)."""
        cuts = evidence.cuts
        gathered = cuts.gathered(weights)
        everyone = cuts.rejected(gathered)
        columns = []
        for wanted in evidence.wanted:
            found = Operating.of(cuts, gathered, everyone, wanted)
            columns.append(np.stack([RANKINGS[name](found) for name in self.names], axis=1))
        return np.stack(columns, axis=1)

    def errors(self, name: str, evidence: Judged, wanted: Flags, unit: I64, n_units: int) -> tuple[int, int]:
        """Return units tried, and units with an image in a wrong order, or accepted wrongly for TNR95.

        An image is in a wrong order if one of the other kind is level with it or on the wrong side of it.
        """
        score = evidence.alarm
        if name == "TNR95":
            bar = np.sort(score[wanted])[::-1][max(int(np.ceil(TPR * wanted.sum() - 1e-9)) - 1, 0) :][:1]
            wrong = ~wanted & (score >= bar[0]) if len(bar) else ~wanted
            return n_marked(~wanted, unit, n_units), n_marked(wrong, unit, n_units)
        highest = score[~wanted].max(initial=-np.inf)
        lowest = score[wanted].min(initial=np.inf)
        wrong = np.where(wanted, score <= highest, score >= lowest)
        return n_units, n_marked(wrong, unit, n_units)


class Risk(OfLabellings):
    """AURC and AUGRC under the loss 1 on wanted images."""

    id = "monitor-risk@1"

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, L, names)."""
        of = {"AURC": aurc, "AUGRC": augrc}
        columns = []
        for wanted in evidence.wanted:
            sums = coverage_sums(evidence.rising, wanted.astype(np.float64), weights)
            mixed = both_kinds(wanted, weights)
            columns.append(np.stack([np.where(mixed, of[name](*sums), np.nan) for name in self.names], axis=1))
        return np.stack(columns, axis=1)


class ExcessRisk(OfLabellings):
    """E-AURC: AURC less that of the best order, in which all other images come before the wanted ones. Exact."""

    id = "monitor-excess-risk@1"
    bounds = (0.0, np.inf)

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, L, names)."""
        columns = []
        for wanted in evidence.wanted:
            loss = wanted.astype(np.float64)
            excess = excess_aurc(evidence.rising, Cuts.of(-loss), loss, weights)
            columns.append(np.where(both_kinds(wanted, weights), excess, np.nan)[:, None])
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Graded(Judged):
    """The evidence with a graded loss, 1 - s."""

    loss: F64

    def take(self, images: I64) -> Graded:
        """Return the evidence of some images."""
        return Graded(self.alarm[images], self.wanted[:, images], self.loss[images])

    @cached_property
    def best(self) -> Cuts:
        """The images by rising loss: the best order."""
        return Cuts.of(-self.loss)


class GradedRisk(OfLabellings):
    """AURC of a graded loss."""

    id = "monitor-graded-risk@1"

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, Graded)
        return aurc(*coverage_sums(evidence.rising, evidence.loss, weights))[:, None, None]

    def support(self, evidence: Judged, unit: I64, n_units: int) -> I64:
        """Return that all units are needed, tried, and may be in error."""
        return np.full((1, 1, 3), n_units, np.int64)


class GradedExcess(GradedRisk):
    """E-AURC of a graded loss."""

    id = "monitor-graded-excess-risk@1"
    bounds = (0.0, np.inf)

    def each(self, evidence: Judged, weights: NDArray[Any]) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, Graded)
        return excess_aurc(evidence.rising, evidence.best, evidence.loss, weights)[:, None, None]


def excess_aurc(rising: Cuts, best: Cuts, loss: F64, weights: NDArray[Any]) -> F64:
    """Return (R,): AURC less AURC of the images by rising loss, never below 0."""
    found = aurc(*coverage_sums(rising, loss, weights))
    return np.maximum(found - aurc(*coverage_sums(best, loss, weights)), 0.0)


def both_kinds(wanted: Flags, weights: NDArray[Any]) -> Flags:
    """Return (R,): where some weight lies on wanted images and some on others."""
    total = weights.sum(axis=1, dtype=np.int64)
    here = weights.astype(np.float64) @ wanted.astype(np.float64)
    return np.asarray((here > 0) & (here < total))


def n_marked(marked: Flags, unit: I64, n_units: int) -> int:
    """Return the number of units with a marked image."""
    return int((np.bincount(unit[marked], minlength=n_units) > 0).sum())
