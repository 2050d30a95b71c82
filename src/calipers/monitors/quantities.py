# SPDX-License-Identifier: Apache-2.0
"""Metrics of a monitor without a threshold, under weights of the images.

A *labelling* marks the positive images, on which an alarm is wanted: those out of scope at some tau
(OMS), or those out of distribution (OOD). One metric serves many labellings of the same images, so
that a sweep over tau sorts once.

``AUROC``
    share of pairs of a positive and another image that the alarm score puts in the right order,
    ties counting half.
``AUPR``, ``AUPR-in``
    average precision (steps, equal scores are one point) of the positive images, and of the others
    by falling score.
``TNR95``
    the largest share of other images that is accepted at an attainable threshold that rejects at
    least 95 % of the positive ones; ``FPR95`` is 1 - TNR95.
``best-F1``
    the largest F1 over all thresholds. Optimistic: chosen on the images on which it is stated.
``AURC``, ``E-AURC``, ``AUGRC``
    mean risk over all coverages, its excess over the best possible order, mean generalised risk;
    the loss is 1 on a positive image. ``AURC/graded`` and ``E-AURC/graded``: the loss is 1 - s.

All are undefined where the images are all of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, Operating, Standing
from calipers.kernels.monitoring_coverage import augrc, aurc, best_aurc
from calipers.metrics.contract import Facts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Weights = NDArray[Any]

TPR = 0.95
AT_CUTS: Mapping[str, Callable[[Operating], F64]] = {
    "AUPR": Operating.aupr,
    "AUPR-in": Operating.aupr_in,
    "TNR95": lambda points: points.tnr_at_tpr(TPR),
    "best-F1": Operating.best_f1,
}
RANKINGS = ("AUROC", *AT_CUTS)
SWEPT = ("AUPR", "TNR95")  # beside AUROC, without intervals
RISKS = ("AURC", "AUGRC")
EXCESS = ("E-AURC",)


@dataclass(frozen=True)
class Board:
    """The alarm scores of one monitor, sorted once, with a cache of what all labellings share under
    one block of weights.
    """

    alarm: F64  # (n,) high = alarm
    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def cuts(self) -> Cuts:
        """The images by falling alarm score."""
        return Cuts.of(self.alarm)

    def standing(self, weights: Weights) -> Standing:
        """Return the weighted ranks of the images; only the last block of weights is cached, since
        blocks are processed one after the other.
        """
        if self._last.get("weights") is not weights:
            self._last.update(weights=weights, standing=Standing.of(self.cuts, weights))
        standing: Standing = self._last["standing"]
        return standing


@dataclass(frozen=True)
class LabelledAlarms:
    """The evidence of one monitor: alarm scores, and on which images alarms are wanted under every
    labelling.
    """

    board: Board
    positive: Flags  # (L, n)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.board.alarm)

    def take(self, images: I64) -> LabelledAlarms:
        """Return the evidence of some images."""
        return LabelledAlarms(Board(self.board.alarm[images]), self.positive[:, images])

    def only(self, k: int) -> LabelledAlarms:
        """Return the evidence of one labelling."""
        return LabelledAlarms(self.board, self.positive[k : k + 1])

    @classmethod
    def concat(cls, parts: Sequence[LabelledAlarms]) -> LabelledAlarms:
        """Return the evidence of all images of several parts."""
        alarm = np.concatenate([part.board.alarm for part in parts])
        return cls(Board(alarm), np.concatenate([part.positive for part in parts], axis=1))


class OfLabellings:
    """Base of the metrics on labellings: columns are labellings by names, the names of a labelling
    side by side.
    """

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

    def narrowed(
        self, evidence: LabelledAlarms, column: int
    ) -> tuple[OfLabellings, LabelledAlarms]:
        """Return the metric and evidence of one column alone."""
        k, name = divmod(column, len(self.names))
        return type(self)((self.names[name],), 1), evidence.only(k)

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        raise AssertionError("every family has its formulas")

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, L x names)."""
        standing = evidence.board.standing(weights)
        p = standing.positives(evidence.positive)
        mixed = (p > 0) & (p < standing.total)
        values = self.each(evidence, standing)
        columns = [np.where(mixed, values[name], np.nan) for name in self.names]
        table = np.stack(columns, axis=1)  # (L, names, R)
        return table.reshape(-1, len(weights)).T[:, None]

    def reasons(self, evidence: LabelledAlarms) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no alarm is wanted, or alarms are wanted everywhere."""
        why = {}
        for k, positive in enumerate(evidence.positive):
            reason = "single_category" if positive.any() else "no_positives"
            for j in range(len(self.names)):
                why[0, k * len(self.names) + j] = reason
        return why

    def counts(self, evidence: LabelledAlarms, weights: I64) -> I64:
        """Return (1, L x names, 3): images, images on which an alarm is wanted, 0."""
        positive = evidence.positive.astype(np.int64) @ weights
        table = np.zeros((1, self.n_labellings, len(self.names), 3), np.int64)
        table[..., 0] = weights.sum()
        table[..., 1] = positive[None, :, None]
        return table.reshape(1, -1, 3)

    def support(self, evidence: LabelledAlarms, unit: I64, n_units: int) -> I64:
        """Return (1, L x names, 3): units of the rarer kind, units tried, units in error."""
        parts = []
        for positive in evidence.positive:
            rarer = min(n_marked(positive, unit, n_units), n_marked(~positive, unit, n_units))
            for name in self.names:
                parts.append((rarer, *self.errors(name, evidence, positive, unit, n_units)))
        return np.array(parts, np.int64).reshape(1, -1, 3)

    def errors(
        self, name: str, evidence: LabelledAlarms, positive: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried and in error; all in error: the metric is no share of units."""
        return n_units, n_units


class AlarmRanking(OfLabellings):
    """The quantities of the order of images by alarm score."""

    id = "monitor-ranking@1"

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        values = {}
        if "AUROC" in self.names:
            values["AUROC"] = standing.auroc(evidence.positive)
        others = [name for name in self.names if name in AT_CUTS]
        if not others:
            return values
        tables: list[list[F64]] = [[] for _ in others]
        cuts = evidence.board.cuts
        everyone = standing.total - standing.below
        for positive in evidence.positive:
            tp = np.cumsum(standing.weight * positive[cuts.order, None], axis=0)[cuts.last]
            operating = Operating(tp, everyone - tp)
            for table, name in zip(tables, others):
                table.append(AT_CUTS[name](operating))
        return values | dict(zip(others, map(np.stack, tables)))

    def errors(
        self, name: str, evidence: LabelledAlarms, positive: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried, and units with an image in a wrong order, or rejected wrongly for
        TNR95.

        An image is in a wrong order if one of the other kind is level with it or on the wrong side
        of it.
        """
        score = evidence.board.alarm
        if name == "TNR95":
            # 1e-9: 0.95 n must not round up to one image more
            needed = max(int(np.ceil(TPR * positive.sum() - 1e-9)) - 1, 0)
            threshold = np.sort(score[positive])[::-1][needed:][:1]
            wrong = ~positive & (score >= threshold[0]) if len(threshold) else ~positive
            return n_marked(~positive, unit, n_units), n_marked(wrong, unit, n_units)
        highest = score[~positive].max(initial=-np.inf)
        lowest = score[positive].min(initial=np.inf)
        wrong = np.where(positive, score <= highest, score >= lowest)
        return n_units, n_marked(wrong, unit, n_units)


class Risk(OfLabellings):
    """AURC and AUGRC under the loss 1 on positive images."""

    id = "monitor-risk@1"

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        of, loss = {"AURC": aurc, "AUGRC": augrc}, evidence.positive.astype(np.float64)
        return {name: of[name](standing, loss) for name in self.names}


class ExcessRisk(OfLabellings):
    """E-AURC: AURC less that of the best order, in which all other images come before the positive
    ones. Exact.
    """

    id = "monitor-excess-risk@1"
    bounds = (0.0, np.inf)

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R); never below 0, which rounding could be."""
        best = best_aurc(standing.positives(evidence.positive), standing.total)
        area = aurc(standing, evidence.positive.astype(np.float64))
        return {"E-AURC": np.maximum(area - best, 0.0)}


@dataclass(frozen=True)
class GradedAlarms(LabelledAlarms):
    """The evidence with a graded loss, 1 - s, and the order of the images by it, which is the best
    there is.
    """

    best: Board  # of the loss

    def take(self, images: I64) -> GradedAlarms:
        """Return the evidence of some images."""
        return GradedAlarms(
            Board(self.board.alarm[images]),
            self.positive[:, images],
            Board(self.best.alarm[images]),
        )

    def only(self, k: int) -> GradedAlarms:
        """Return the evidence itself: a graded loss is one labelling."""
        return self


class GradedRisk(OfLabellings):
    """AURC of a graded loss."""

    id = "monitor-graded-risk@1"

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, GradedAlarms)
        return np.asarray(
            aurc(evidence.board.standing(weights), evidence.best.alarm[None])[0][:, None, None]
        )

    def support(self, evidence: LabelledAlarms, unit: I64, n_units: int) -> I64:
        """Return that all units are needed, tried, and may be in error."""
        return np.full((1, 1, 3), n_units, np.int64)


class GradedExcess(GradedRisk):
    """E-AURC of a graded loss."""

    id = "monitor-graded-excess-risk@1"
    bounds = (0.0, np.inf)

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, GradedAlarms)
        loss = evidence.best.alarm[None]
        area = aurc(evidence.board.standing(weights), loss)
        best = aurc(evidence.best.standing(weights), loss)
        return np.asarray(np.maximum(area - best, 0.0)[0][:, None, None])


def n_marked(marked: Flags, unit: I64, n_units: int) -> int:
    """Return the number of units with a marked image."""
    return int((np.bincount(unit[marked], minlength=n_units) > 0).sum())
